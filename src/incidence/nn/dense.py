"""A layer written out, to look at: on dense tensors, and one operation as a sparse matrix."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.orbit import placement_sign, placements
from incidence.algebra.pattern import Pattern
from incidence.algebra.words import Level, Word, overlap_of, sign_of
from incidence.engine.bags import Bags, bag_numbers
from incidence.engine.dense import Choices, DenseBags, DenseOrbit, choices, spread, write_orbits
from incidence.engine.layout import TensorLayout, layout_of
from incidence.engine.partners import PartnerKey
from incidence.engine.plan import Plan, plan_of
from incidence.errors import IncidenceError
from incidence.nn.tensors import Values, as_values, key_of, per_tensor
from incidence.structure import Structure
from incidence.structure.ragged import no_entries, pairs

if TYPE_CHECKING:
    from incidence.nn.linear import Linear

__all__ = ["dense_layer", "operator_matrix"]


def dense_layer(
    layer: Linear, x: Values | Mapping[str, Tensor], num_nodes: int | Mapping[str, int] | None
) -> Any:
    """Apply the layer to dense arrays."""
    m = layer.map
    if m.is_open:
        raise IncidenceError(
            f"`{m}` has open faces: there is no dense layout for them. Use the layer on a"
            " structure."
        )
    if len(m.inputs) > 1 and not isinstance(x, Mapping):
        keys = ", ".join(repr(key_of(p)) for p in m.inputs)
        raise IncidenceError(
            f"the input has {len(m.inputs)} tensors: pass a dict with the keys {keys}; got"
            f" {type(x).__name__}."
        )
    xs = per_tensor(m.inputs, x, "the input")
    counts = _num_nodes(layer, xs, num_nodes)
    layer._materialize([value.flatten(0, -2) for value in xs])  # (batch x nodes, channels) each
    orbits = {p: dense_orbits(p) for p in (*m.inputs, *m.outputs)}
    sources = [
        [DenseBags(value, orbit, counts) for orbit in orbits[p]]
        for p, value in zip(m.inputs, xs, strict=True)
    ]
    ys = []
    for t, pattern in enumerate(m.outputs):
        terms = _terms(layer, sources, t, len(orbits[pattern]))
        values = []
        for orbit, into in zip(orbits[pattern], terms, strict=True):
            shape = [xs[0].shape[0], *(counts[sort] for sort in orbit.sorts), layer.out_channels[t]]
            values.append((orbit, spread(into, orbit, shape, xs[0])))
        # Every place belongs to one orbit, so that all are written.
        like = xs[0].new_empty(
            xs[0].shape[0],
            *(counts[sort] for sort in pattern.sorts.values()),
            layer.out_channels[t],
        )
        ys.append(write_orbits(values, like, counts))
    return as_values(m.outputs, ys)


def _terms(
    layer: Linear, sources: list[list[DenseBags]], t: int, num_orbits: int
) -> list[list[tuple[Choices, Tensor]]]:
    """Return for every orbit of an output, the arrays that are spread and added up there."""
    bias = layer._biases()[t]
    terms: list[list[tuple[Choices, Tensor]]] = [[] for _ in range(num_orbits)]
    with_bias = [
        number for number, orbit in enumerate(layer.map.outputs[t].orbits) if orbit.has_bias
    ]
    for number, value in zip(
        with_bias, [] if bias is None else bias.unbind(), strict=bias is not None
    ):
        terms[number].append(((((), 1),), value[None]))  # (1, out): a bias matches no node
    for s, parts in enumerate(sources):
        weight: Tensor = layer._weights()[layer._weight_layout.pairs.index((s, t))]
        groups = _grouped(layer.map, s, t, tuple(layer._weight_layout.terms((s, t))))
        order = torch.tensor(
            [row for _, _, _, members in groups for row, _, _ in members], device=weight.device
        )
        width = weight.shape[-1]
        # (in, rows x out), group by group
        every = (
            weight.view(-1, *weight.shape[-2:]).transpose(0, 1).index_select(1, order).flatten(1)
        )
        matrices = every.split([len(members) * width for _, _, _, members in groups], dim=1)
        for (source, counts, aggr, members), matrix in zip(groups, matrices, strict=True):
            products = (parts[source].pool(counts, layer._aggregations[aggr].dense) @ matrix).split(
                width, dim=-1
            )
            for (_, target, chosen), product in zip(members, products, strict=True):
                terms[target].append((chosen, product))
    return terms


_Member = tuple[int, int, Choices]
_Group = tuple[int, tuple[int, ...], int, list[_Member]]


@lru_cache(maxsize=256)
def _grouped(m: EquivariantMap, s: int, t: int, terms: tuple[tuple[int, int], ...]) -> list[_Group]:
    """Return the operations from an input to an output by what they pool: source orbit, how many
    nodes of each class they match, and the aggregation; and for each operation its row in the
    weight, the target orbit, and the output nodes it may be read at.
    """
    grouped: dict[tuple[int, tuple[int, ...], int], list[_Member]] = {}
    targets = dense_orbits(m.outputs[t])
    for row, (number, aggr) in enumerate(terms):
        operation = m.operations[number]
        target = operation.target.number
        member = row, target, choices(operation.overlap, targets[target])
        grouped.setdefault(
            (operation.source.number, tuple(map(sum, operation.overlap)), aggr), []
        ).append(member)
    return [(*key, members) for key, members in grouped.items()]


@lru_cache(maxsize=256)
def dense_orbits(pattern: Pattern) -> tuple[DenseOrbit, ...]:
    """Return the orbits of a pattern, as the dense layout sees them."""
    return tuple(_dense_orbit(pattern, number) for number in range(len(pattern.orbits)))


def _dense_orbit(pattern: Pattern, number: int) -> DenseOrbit:
    orbit = pattern.orbits[number]
    sorts = tuple(c.sort for c in orbit.classes for _ in range(c.size or 0))
    placed = tuple(placements(pattern, orbit))
    signs = tuple(placement_sign(pattern, p) for p in placed)
    return DenseOrbit(
        tuple(c.size or 0 for c in orbit.classes),
        sorts,
        placed,
        signs,
        tuple(c.is_odd for c in orbit.classes),
    )


def _num_nodes(
    layer: Linear, xs: list[Any], num_nodes: int | Mapping[str, int] | None
) -> dict[str, int]:
    m = layer.map
    if not isinstance(num_nodes, (int, Mapping, type(None))) or (
        isinstance(num_nodes, int) and num_nodes < 0
    ):
        raise IncidenceError(
            "num_nodes is an integer of at least 0, or a mapping from sort to integer; got"
            f" {num_nodes!r}."
        )
    counts = (
        dict.fromkeys(m.sorts, num_nodes) if isinstance(num_nodes, int) else dict(num_nodes or {})
    )
    for pattern, x, channels in zip(m.inputs, xs, layer.in_channels, strict=True):
        wanted = len(pattern.letters) + 2
        if not isinstance(x, Tensor) or x.ndim != wanted:
            axes = ", ".join(["batch", *pattern.letters, "channels"])
            came = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise IncidenceError(
                f"the dense tensor of `{pattern}` must have {wanted} axes, [{axes}]; got {came}."
            )
        dtype = layer._weights()[0].dtype
        if not x.is_floating_point():
            raise IncidenceError(
                f"the dense tensor of `{pattern}` must be of a floating type; got {x.dtype}."
                " Convert it with `.float()`."
            )
        if x.shape[0] != xs[0].shape[0]:
            raise IncidenceError(
                f"dense tensors have one batch size; got {xs[0].shape[0]}, and {x.shape[0]} for"
                f" `{pattern}`."
            )
        if x.dtype != dtype:
            raise IncidenceError(
                f"the dense tensor of `{pattern}` is {x.dtype} and the layer is {dtype}: convert"
                " one of them."
            )
        if channels >= 0 and x.shape[-1] != channels:
            raise IncidenceError(
                f"the dense tensor of `{pattern}` must have {channels} channels; got {x.shape[-1]}."
            )
        for (letter, sort), size in zip(pattern.sorts.items(), x.shape[1:-1], strict=True):
            if counts.setdefault(sort, size) != size:
                there = f"there are {counts[sort]} of sort `{sort}`"
                raise IncidenceError(
                    f"the dense tensor of `{pattern}` has {size} nodes on the axis of `{letter}`,"
                    f" but {there}."
                )
    # A sort of the outputs alone: no axis of an input shows how many nodes it has.
    missing = [sort for sort in m.sorts if sort not in counts]
    if missing:
        raise IncidenceError(
            f"no input of `{m}` tells the number of nodes of sort `{missing[0]}`: give num_nodes."
        )
    return {sort: int(counts[sort] or 0) for sort in counts}


def operator_matrix(m: EquivariantMap, operation: Operation, structure: Structure) -> Tensor:
    """Return the matrix of one operation, (output entries, input entries): paths from entries over
    keys to entries, added up.
    """
    layout = layout_of(m)
    plan = plan_of(structure, layout)
    source, target = operation.source, operation.target
    # all nodes of the input are matched
    is_whole = sum(map(sum, operation.overlap)) == source.orbit.size
    if is_whole and (source, target) in layout.partners:
        ys, xs, signs = _of_partners(plan, (layout.by_pattern(source), operation.overlap))
    else:
        ys, xs, signs = _over_keys(plan, operation)
    shape = [plan.outputs[target.tensor].num_rows, plan.inputs[source.tensor].num_rows]
    return torch.sparse_coo_tensor(
        torch.stack([ys, xs]), signs.double(), shape, check_invariants=False
    ).coalesce()


Paths = tuple[Tensor, Tensor, Tensor]
"""Output rows, input rows, and the signs by which these connect: 1 without oriented faces."""


def _of_partners(plan: Plan, key: PartnerKey) -> Paths:
    """Return pairs of entries on one node set that the operation connects."""
    partners = plan.partners[key]
    targets, sources, signs = partners.targets, partners.sources, partners.signs
    ys = (
        torch.arange(int(partners.counts.sum()), device=plan.device)
        if targets is None
        else targets.long()
    )
    return (
        ys,
        ys if sources is None else sources.long(),
        torch.ones_like(ys) if signs is None else signs.long(),
    )


def _over_keys(plan: Plan, operation: Operation) -> Paths:
    """Return pairs of entries that meet in a key with the words that the operation connects."""
    level = tuple(
        sorted(
            c.sort
            for c, row in zip(operation.source.orbit.classes, operation.overlap, strict=True)
            for _ in range(sum(row))
        )
    )
    source, target = operation.source, operation.target
    inputs, outputs = plan.layout.inputs[source.tensor], plan.layout.outputs[target.tensor]
    classes = source.orbit.classes, target.orbit.classes
    sources, targets = (
        _reads(plan.inputs[source.tensor], inputs, source.number, level),
        _reads(plan.outputs[target.tensor], outputs, target.number, level),
    )
    found = [no_entries(3, plan.device)]
    for one, other in itertools.product(sources, targets):
        # Words say how many nodes of each class lie in the key, so that equal keys and words fix
        # the overlap.
        if overlap_of(one.word, other.word, *map(len, classes)) == operation.overlap:
            x, y = pairs(one.keys, other.keys)  # all pairs of an input and an output row on one key
            sign = sign_of(*classes, one.word, other.word)
            found.append(
                torch.stack([other.rows[y], one.rows[x], sign * one.signs[x] * other.signs[y]])
            )
    ys, xs, signs = torch.cat(found, dim=1)
    return ys, xs, signs


class _Reads(NamedTuple):
    """The rows of a tensor that write to keys with one word, the keys, and their signs."""

    word: Word
    rows: Tensor
    keys: Tensor
    signs: Tensor


def _reads(own: Bags, layout: TensorLayout, orbit: int, level: Level) -> list[_Reads]:
    """Return what the rows of an orbit write to at a level, word by word."""
    at = layout.levels.index(level)
    members, ptr, signs = own.of_rows
    bags = members.long()
    signs = torch.ones_like(bags) if signs is None else signs.long()
    rows = bag_numbers(ptr, len(bags))
    inside = (bags >= own.level_ptr[at]) & (bags < own.level_ptr[at + 1])
    # (reads,) each
    rows, signs, bags = rows[inside], signs[inside], bags[inside] - own.level_ptr[at]
    # slots of a key stand side by side
    keys, slots = bags // own.num_slots[at], bags % own.num_slots[at]
    words = zip(layout.slots[at][orbit], layout.words(orbit, level), strict=True)
    chosen = [(word, slots == slot) for slot, word in words]
    return [
        _Reads(word, rows[which], keys[which].contiguous(), signs[which]) for word, which in chosen
    ]
