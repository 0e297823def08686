r"""The engine as an operator that tracing treats as one step: `torch.compile` and `torch.export` see tensors and a text.

A program is flattened into a list of tensors, whose number and ranks depend on the layer alone, and a text with all that is static.
Whatever depends on the data, sizes and masks included, is in the tensors, so that one traced graph serves structures of any size.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.kernels.engine import Program, Side, run, run_backward
from incidence.plans.orbit_plan import OrbitPlan
from incidence.plans.tables import Table
from incidence.plans.terms import Term, Terms
from incidence.structure.pytree import Flat

__all__ = ["flatten", "traced_apply"]


def flatten(program: Program) -> Flat:
    """Splits a program into tensors and what is static."""
    sizes: list[int] = []
    tensors: list[Tensor] = []
    sides = []
    for side in program.inputs + program.outputs:
        # Tracing takes sizes 0 and 1 for constants, so nothing is left empty that may be filled in another structure. A tensor of
        # shape (entries, 0) takes no memory and tells the size of the output while tracing.
        every = torch.arange(side.num_entries, device=side.orbits[0].read.device)
        tensors += [every if side.order is None else side.order, every.new_zeros(side.num_entries, 0)]
        orbits = []
        for o in side.orbits:
            sizes += [o.start, o.stop, *o.offsets]
            masks = [v for mask, n in zip(o.masks, o.num_sets, strict=True) for v in (n, len(mask))]
            tensors += [o.read, o.read_ptr, o.pool, o.pool_ptr, torch.tensor(masks, dtype=torch.long)]
            orbits.append({"levels": o.levels, "num_slots": o.num_slots, "nodes_at": o.nodes_at})
        sides.append(orbits)
    terms = []
    for term in program.terms.all:
        blocks = [table.flat.cpu() for table in term.blocks or ()]
        tensors.append(torch.cat([torch.zeros(2, dtype=torch.long), *blocks]))
        levels = [(i, j, table.operations.tolist()) for i, j, table in term.levels]
        terms.append([term.source, term.target, term.weight, levels, term.blocks is not None])
    tensors.insert(0, torch.tensor(sizes, dtype=torch.long))
    spec = {"aggr": program.aggr, "num_inputs": len(program.inputs), "sides": sides, "terms": terms}
    return Flat(tensors, json.dumps(spec))


def _restore(tensors: Sequence[Tensor], spec: str) -> Program:
    static = json.loads(spec)
    flat = iter(tensors)
    sizes = iter(next(flat).tolist())
    sides = []
    for orbits in static["sides"]:
        order, entries = next(flat), next(flat)
        lists = []
        for orbit in orbits:
            start, stop = next(sizes), next(sizes)
            offsets = tuple(next(sizes) for _ in range(len(orbit["levels"]) + 1))
            read, read_ptr, pool, pool_ptr = (next(flat) for _ in range(4))
            masks = next(flat).tolist()
            nodes_at = tuple(orbit["nodes_at"]) if orbit["nodes_at"] else None
            shapes = tuple(orbit["levels"]), tuple(orbit["num_slots"]), offsets
            blank = tuple(((),) * length for length in masks[1::2])  # the words are in the tables already
            lists.append(OrbitPlan(start, stop, *shapes, read, read_ptr, pool, pool_ptr, blank, tuple(masks[::2]), nodes_at))
        sides.append(Side(order, entries.shape[0], tuple(lists)))
    inputs, outputs = sides[: static["num_inputs"]], sides[static["num_inputs"] :]
    device = tensors[1].device
    terms = []
    for source, target, weight, levels, has_blocks in static["terms"]:
        tables = next(flat)[2:]
        lengths = [len(mask) for mask in inputs[source[0]].orbits[source[1]].masks] if has_blocks else []
        pieces = tables.to(device).split([length**2 for length in lengths])
        blocks = tuple(Table(piece.view(length, length)) for piece, length in zip(pieces, lengths, strict=True))
        found = tuple((i, j, Table(torch.tensor(table, device=device))) for i, j, table in levels)
        terms.append(Term(tuple(source), tuple(target), weight, found, blocks if has_blocks else None))
    return Program(tuple(inputs), tuple(outputs), Terms(terms, static["aggr"]), tuple(static["aggr"]))


@torch.library.custom_op("incidence::layer", mutates_args=())
def _layer(xs: list[Tensor], weights: list[Tensor], biases: list[Tensor], tensors: list[Tensor], spec: str) -> list[Tensor]:
    program = _restore(tensors, spec)
    for x, side in zip(xs, program.inputs, strict=True):
        if x.ndim != 2 or x.shape[0] != side.num_entries:
            raise IncidenceError(f"features must have shape [{side.num_entries}, channels], a row for each entry; got {list(x.shape)}.")
    ys, _ = run(program, xs, weights, [b if b.numel() else None for b in biases])
    return [y.clone() if any(y is x for x in xs) else y for y in ys]


@_layer.register_fake
def _(xs: list[Tensor], weights: list[Tensor], biases: list[Tensor], tensors: list[Tensor], spec: str) -> list[Tensor]:
    return [xs[0].new_empty(entries.shape[0], weights[w].shape[-1]) for entries, w in _outputs(tensors, spec)]


def _outputs(tensors: Sequence[Tensor], spec: str) -> list[tuple[Tensor, int]]:
    """For every output, the tensor that tells its entries, and a weight that tells its channels."""
    static = json.loads(spec)
    at, places = 1, []
    for orbits in static["sides"]:
        places.append(at + 1)
        at += 2 + 5 * len(orbits)
    outputs = places[static["num_inputs"] :]
    return [
        (tensors[place], next(weight for _, target, weight, _, _ in static["terms"] if target[0] == t)) for t, place in enumerate(outputs)
    ]


@torch.library.custom_op("incidence::layer_backward", mutates_args=())
def _layer_backward(
    grads: list[Tensor], xs: list[Tensor], weights: list[Tensor], biases: list[Tensor], tensors: list[Tensor], spec: str
) -> list[Tensor]:
    program = _restore(tensors, spec)
    d_xs, d_weights, d_biases = run_backward(program, xs, weights, grads, [b.numel() > 0 for b in biases])
    return [
        *(d for d in d_xs if d is not None),
        *d_weights,
        *(torch.empty_like(b) if d is None else d for b, d in zip(biases, d_biases, strict=True)),
    ]


@_layer_backward.register_fake
def _(grads: list[Tensor], xs: list[Tensor], weights: list[Tensor], biases: list[Tensor], tensors: list[Tensor], spec: str) -> list[Tensor]:
    return [torch.empty_like(t, memory_format=torch.contiguous_format) for t in (*xs, *weights, *biases)]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    xs, weights, biases, tensors, spec = inputs
    ctx.sizes, ctx.spec = (len(xs), len(weights), len(biases)), spec
    ctx.save_for_backward(*xs, *weights, *biases, *tensors)


def _adjoint(ctx: Any, grads: list[Tensor]) -> tuple[Any, ...]:
    saved = list(ctx.saved_tensors)
    parts = []
    for size in ctx.sizes:
        parts.append(saved[:size])
        saved = saved[size:]
    xs, weights, biases = parts
    found = _layer_backward([g.contiguous() for g in grads], xs, weights, biases, saved, ctx.spec)
    split = len(xs), len(xs) + len(weights)
    return found[: split[0]], found[split[0] : split[1]], found[split[1] :], [None] * len(saved), None


_layer.register_autograd(_adjoint, setup_context=_setup)


def traced_apply(flat: Flat, xs: list[Tensor], weights: list[Tensor], biases: Sequence[Tensor | None]) -> list[Tensor]:
    """`engine.apply` as one operator; a missing bias is an empty tensor."""
    ys: list[Tensor] = _layer(xs, weights, [xs[0].new_zeros(0) if b is None else b for b in biases], flat.tensors, flat.spec)
    return ys
