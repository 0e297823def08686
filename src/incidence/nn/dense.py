"""A layer on dense tensors of complete structures, with the same weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from incidence.algebra.maps import Operation
from incidence.algebra.orbit import placements
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.kernels.dense import DenseOperation, DenseOrbit, broadcast, pool, read_orbit, write_orbit
from incidence.nn.tensors import Values, as_values, key_of, per_tensor

if TYPE_CHECKING:
    from incidence.nn.linear import Linear

__all__ = ["dense_layer"]


def dense_layer(layer: Linear, x: Values | Mapping[str, Tensor], num_nodes: int | Mapping[str, int] | None) -> Any:
    """Applies the layer operation by operation."""
    m = layer.map
    if m.is_open:
        raise IncidenceError(f"`{m}` has open faces: there is no dense layout for them. Use the layer on a structure.")
    if len(m.inputs) > 1 and not isinstance(x, Mapping):
        keys = ", ".join(repr(key_of(p)) for p in m.inputs)
        raise IncidenceError(f"the input has {len(m.inputs)} tensors: pass a dict with the keys {keys}; got {type(x).__name__}.")
    xs = per_tensor(m.inputs, x, "the input")
    counts = _num_nodes(layer, xs, num_nodes)
    layer._materialize([value.flatten(0, -2) for value in xs])
    orbits = {p: [_dense_orbit(p, number) for number in range(len(p.orbits))] for p in (*m.inputs, *m.outputs)}
    batch = xs[0].shape[0]
    ys = []
    for t, pattern in enumerate(m.outputs):
        shape = [batch, *(counts[sort] for sort in pattern.sorts.values()), layer.out_channels[t]]
        y = xs[0].new_zeros(shape)
        for b, orbit in enumerate(orbits[pattern]):
            parts = [_term(layer, orbits, xs, s, t, o, k, counts) for s, o, k in _into(layer, t, b)]
            bias = layer._biases()[t]
            if bias is not None:
                parts.append(bias[b].expand(batch, *(counts[sort] for sort in orbit.sorts), layer.out_channels[t]))
            if parts:
                y = write_orbit(y, torch.stack(parts).sum(0), orbit, counts)
        ys.append(y)
    return as_values(m.outputs, ys)


def _into(layer: Linear, t: int, b: int) -> list[tuple[int, Operation, int]]:
    """The operations into one output orbit: source tensor, operation, row of the weight."""
    return [
        (s, operation, row)
        for s in range(len(layer.map.inputs))
        for row, operation in enumerate(layer.operations_of(s, t))
        if operation.target.number == b
    ]


def _term(
    layer: Linear,
    orbits: dict[Pattern, list[DenseOrbit]],
    xs: list[Tensor],
    s: int,
    t: int,
    operation: Operation,
    row: int,
    counts: dict[str, int],
) -> Tensor:
    source = orbits[layer.map.inputs[s]][operation.source.number]
    dense = DenseOperation(source, orbits[layer.map.outputs[t]][operation.target.number], operation.overlap)
    weight = getattr(layer, layer._weight_name((s, t)))
    weight = weight if layer._is_list else weight[None]
    values = read_orbit(xs[s], source)
    mixed = [pool(values, dense, aggr, counts) @ weight[number, row] for number, aggr in enumerate(layer.aggr)]
    return broadcast(torch.stack(mixed).sum(0), dense, counts)


def _dense_orbit(pattern: Pattern, number: int) -> DenseOrbit:
    orbit = pattern.orbits[number]
    sorts = tuple(c.sort for c in orbit.classes for _ in range(c.size or 0))
    return DenseOrbit(tuple(c.size or 0 for c in orbit.classes), sorts, tuple(placements(pattern, orbit)))


def _num_nodes(layer: Linear, xs: list[Any], num_nodes: int | Mapping[str, int] | None) -> dict[str, int]:
    m = layer.map
    if not isinstance(num_nodes, (int, Mapping, type(None))) or (isinstance(num_nodes, int) and num_nodes < 0):
        raise IncidenceError(f"num_nodes is an integer of at least 0, or a mapping from sort to integer; got {num_nodes!r}.")
    counts = dict.fromkeys(m.sorts, num_nodes) if isinstance(num_nodes, int) else dict(num_nodes or {})
    for pattern, x, channels in zip(m.inputs, xs, layer.in_channels, strict=True):
        wanted = len(pattern.letters) + 2
        if not isinstance(x, Tensor) or x.ndim != wanted:
            axes = ", ".join(["batch", *pattern.letters, "channels"])
            came = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise IncidenceError(f"the dense tensor of `{pattern}` must have {wanted} axes, [{axes}]; got {came}.")
        dtype = layer._weights()[0].dtype
        if not x.is_floating_point():
            raise IncidenceError(f"the dense tensor of `{pattern}` must be of a floating type; got {x.dtype}. Convert it with `.float()`.")
        if x.shape[0] != xs[0].shape[0]:
            raise IncidenceError(f"dense tensors have one batch size; got {xs[0].shape[0]}, and {x.shape[0]} for `{pattern}`.")
        if x.dtype != dtype:
            raise IncidenceError(f"the dense tensor of `{pattern}` is {x.dtype} and the layer is {dtype}: convert one of them.")
        if channels >= 0 and x.shape[-1] != channels:
            raise IncidenceError(f"the dense tensor of `{pattern}` must have {channels} channels; got {x.shape[-1]}.")
        for (letter, sort), size in zip(pattern.sorts.items(), x.shape[1:-1], strict=True):
            if counts.setdefault(sort, size) != size:
                there = f"there are {counts[sort]} of sort `{sort}`"
                raise IncidenceError(f"the dense tensor of `{pattern}` has {size} nodes on the axis of `{letter}`, but {there}.")
    missing = [sort for sort in m.sorts if sort not in counts]
    if missing:
        raise IncidenceError(f"no input of `{m}` tells the number of nodes of sort `{missing[0]}`: give num_nodes.")
    return {sort: int(counts[sort] or 0) for sort in counts}
