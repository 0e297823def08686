"""The layer by its definition, entry by entry in plain Python: pooling over the present entries that contain the matched nodes, and
the sum over all ways to find those in an output entry. One structure at a time; no plan, no keys, no words.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations

import torch
from torch import Tensor

from incidence.algebra import Operation, Pattern
from incidence.algebra.maps import TensorOrbit
from incidence.nn import Linear
from incidence.structure import Structure
from tests.structure.listing import Node, class_sets, entries_of

Sets = tuple[frozenset[Node], ...]


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


def in_orbit(structure: Structure, pattern: Pattern, place: TensorOrbit) -> list[tuple[int, Sets]]:
    """The entries of an orbit or family: rows and class sets."""
    classes = place.orbit.classes
    keys = [(c.sort, c.faces) for c in classes]
    found = []
    for row, entry in enumerate(entries_of(structure, str(pattern))):
        sets = class_sets(entry, pattern)
        own = tuple(sets.get(key, frozenset()) for key in keys)
        if set(sets) <= set(keys) and all(c.is_open or len(x) == c.size for c, x in zip(classes, own, strict=True)):
            found.append((row, own))
    return found


def choices(classes: Sets, overlap: tuple[tuple[int, ...], ...]) -> Iterator[Sets]:
    """All ways to choose disjoint sets V_ij of a_ij nodes in the output classes Y_j, as the sets U_i = V_i1 + V_i2 + ..."""
    cells = [(i, j, n) for i, row in enumerate(overlap) for j, n in enumerate(row) if n]

    def extend(k: int, chosen: Sets, left: Sets) -> Iterator[Sets]:
        if k == len(cells):
            yield chosen
            return
        i, j, n = cells[k]
        for nodes in combinations(sorted(left[j]), n):
            more = (*chosen[:i], chosen[i] | set(nodes), *chosen[i + 1 :])
            yield from extend(k + 1, more, (*left[:j], left[j] - set(nodes), *left[j + 1 :]))

    return extend(0, (frozenset(),) * len(overlap), classes)


def term(layer: Linear, operation: Operation, x: Tensor, structure: Structure, weight: Tensor, num_rows: int) -> Tensor:
    """What one operation adds; weight: (aggregations, in, out)."""
    sources = in_orbit(structure, layer.map.inputs[operation.source.tensor], operation.source)
    pooled: dict[Sets, Tensor | None] = {}

    def pool(key: Sets) -> Tensor | None:
        if key not in pooled:
            rows = [row for row, sets in sources if all(u <= own for u, own in zip(key, sets, strict=True))]
            mixed = [STATISTICS[name](x[rows]) @ weight[a] for a, name in enumerate(layer.aggr)] if rows else None
            pooled[key] = None if mixed is None else torch.stack(mixed).sum(0)
        return pooled[key]

    rows = [torch.zeros(weight.shape[-1], dtype=x.dtype) for _ in range(num_rows)]
    for row, sets in in_orbit(structure, layer.map.outputs[operation.target.tensor], operation.target):
        for key in choices(sets, operation.overlap):
            value = pool(key)
            if value is not None:
                rows[row] = rows[row] + value
    return torch.stack(rows) if rows else x.new_zeros(0, weight.shape[-1])


def by_definition(layer: Linear, x: Tensor | Mapping[str, Tensor], structure: Structure) -> list[Tensor]:
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
            for place in places:
                rows = [row for row, _ in in_orbit(structure, pattern, place)]
                y = y.index_add(0, torch.tensor(rows, dtype=torch.long), bias[place.number].expand(len(rows), -1))
        ys.append(y)
    return ys
