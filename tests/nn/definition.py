"""The layer by its definition, entry by entry in plain Python: pooling over the present entries
that contain the matched nodes, and the sum over all ways to find those in an output entry. One
structure at a time; no plan, no keys, no words. With oriented faces, nodes of an odd class are
lists, and every list counts with the sign that brings it into ascending order.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.algebra import Operation, Pattern
from incidence.algebra.maps import TensorOrbit
from incidence.nn import Linear
from incidence.structure import Structure
from tests.algebra.definition import rest_first
from tests.structure.listing import Node, class_sets, entries_of, orientation_signs

Sets = tuple[frozenset[Node], ...]
Cells = tuple[tuple[tuple[Node, ...], ...], ...]  # the nodes V_ij, each cell in ascending order


class Found(NamedTuple):
    """An entry of an orbit: its row, its class sets, and the sign of its reference orientation."""

    row: int
    sets: Sets
    sign: int


def std(values: Tensor) -> Tensor:
    variance = (values - values.mean(0)).square().mean(0)
    is_flat = variance == 0
    return torch.where(is_flat, 0.0, variance.masked_fill(is_flat, 1.0).sqrt())


STATISTICS = {
    "sum": lambda values: values.sum(0),
    "mean": lambda values: values.mean(0),
    "max": lambda values: values.amax(0),  # ties share the gradient equally
    "min": lambda values: values.amin(0),
    "std": std,
    "range": lambda values: values.amax(0) - values.amin(0),
}


def in_orbit(structure: Structure, pattern: Pattern, place: TensorOrbit) -> list[Found]:
    """The entries of an orbit or family."""
    classes = place.orbit.classes
    keys = [(c.sort, c.faces) for c in classes]
    found = []
    signs = orientation_signs(structure, str(pattern))
    for row, entry in enumerate(entries_of(structure, str(pattern))):
        sets = class_sets(entry, pattern)
        own = tuple(sets.get(key, frozenset()) for key in keys)
        if set(sets) <= set(keys) and all(
            c.is_open or len(x) == c.size for c, x in zip(classes, own, strict=True)
        ):
            found.append(Found(row, own, signs[row]))
    return found


def choices(classes: Sets, overlap: tuple[tuple[int, ...], ...]) -> Iterator[Cells]:
    """All ways to choose disjoint sets V_ij of a_ij nodes in the output classes Y_j."""
    cells = [(i, j, n) for i, row in enumerate(overlap) for j, n in enumerate(row) if n]

    def extend(k: int, chosen: Cells, left: Sets) -> Iterator[Cells]:
        if k == len(cells):
            yield chosen
            return
        i, j, n = cells[k]
        for nodes in combinations(sorted(left[j]), n):
            row = (*chosen[i][:j], nodes, *chosen[i][j + 1 :])
            yield from extend(
                k + 1,
                (*chosen[:i], row, *chosen[i + 1 :]),
                (*left[:j], left[j] - set(nodes), *left[j + 1 :]),
            )

    return extend(0, tuple(((),) * len(row) for row in overlap), classes)


def term(
    layer: Linear,
    operation: Operation,
    x: Tensor,
    structure: Structure,
    weight: Tensor,
    num_rows: int,
) -> Tensor:
    """What one operation adds; weight: (aggregations, in, out)."""
    sources = in_orbit(structure, layer.map.inputs[operation.source.tensor], operation.source)
    odd, odd_too = (
        [c.is_odd for c in place.orbit.classes] for place in (operation.source, operation.target)
    )
    pooled: dict[tuple, Tensor | None] = {}

    def pool(cells: Cells) -> Tensor | None:
        lists = [[node for cell in row for node in cell] for row in cells]
        key = tuple(
            tuple(nodes) if is_odd else frozenset(nodes)
            for nodes, is_odd in zip(lists, odd, strict=True)
        )
        if key not in pooled:
            found = [
                f
                for f in sources
                if all(set(nodes) <= own for nodes, own in zip(lists, f.sets, strict=True))
            ]
            signs = [
                f.sign
                * prod(
                    rest_first(own, [u])
                    for own, u, is_odd in zip(f.sets, lists, odd, strict=True)
                    if is_odd
                )
                for f in found
            ]
            rows = x[[f.row for f in found]] * torch.tensor(signs, dtype=x.dtype)[:, None]
            mixed = (
                [STATISTICS[name](rows) @ weight[a] for a, name in enumerate(layer.aggr)]
                if found
                else None
            )
            pooled[key] = None if mixed is None else torch.stack(mixed).sum(0)
        return pooled[key]

    rows = [torch.zeros(weight.shape[-1], dtype=x.dtype) for _ in range(num_rows)]
    for row, sets, sign in in_orbit(
        structure, layer.map.outputs[operation.target.tensor], operation.target
    ):
        for cells in choices(sets, operation.overlap):
            value = pool(cells)
            if value is not None:
                back = prod(
                    rest_first(own, [row[j] for row in cells])
                    for j, own in enumerate(sets)
                    if odd_too[j]
                )
                rows[row] = rows[row] + sign * back * value
    return torch.stack(rows) if rows else weight[0, :0]


def by_definition(
    layer: Linear, x: Tensor | Mapping[str, Tensor], structure: Structure
) -> list[Tensor]:
    """The outputs of a layer on one structure, tensor by tensor."""
    m = layer.map
    xs = list(x.values()) if isinstance(x, Mapping) else [x]
    parameters = dict(layer.named_parameters())
    ys = []
    for t, pattern in enumerate(m.outputs):
        num_rows = len(entries_of(structure, str(pattern)))
        y = xs[0].new_zeros(num_rows, layer.out_channels[t])
        for s in range(len(m.inputs)):
            weight = parameters.get("weight", parameters.get(f"weight_{s}_{t}"))
            weight = weight if weight.ndim == 4 else weight[None]
            for k, operation in enumerate(layer.operations_of(s, t)):
                y = y + term(layer, operation, xs[s], structure, weight[:, k], num_rows)
        bias = parameters.get("bias", parameters.get(f"bias_{t}"))
        if bias is not None:
            places = [TensorOrbit(t, number, orbit) for number, orbit in enumerate(pattern.orbits)]
            with_bias = [p for p in places if all(c.size == 1 for c in p.orbit.classes if c.is_odd)]
            for place, value in zip(with_bias, bias, strict=True):
                found = in_orbit(structure, pattern, place)
                signs = torch.tensor([f.sign for f in found], dtype=y.dtype).view(-1, 1)
                y = y.index_add(
                    0, torch.tensor([f.row for f in found], dtype=torch.long), signs * value
                )
        ys.append(y)
    return ys
