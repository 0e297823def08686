r"""The engine as an operator that tracing treats as one step: `torch.compile` and `torch.export` see tensors and a text.

A program is flattened into a list of tensors, whose number and ranks depend on the layer alone, and a text with all that is static.
Whatever depends on the data, sizes and masks included, is in the tensors, so that one traced graph serves structures of any size.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.kernels.aggregate import known_aggregation
from incidence.kernels.engine import Program, run, run_backward
from incidence.plans.orbit_plan import NodeSlot, OrbitPlan
from incidence.plans.program import OrbitRef, OrbitTerm, Products, Side, TermLevel, WordTable
from incidence.structure.pytree import Flat

__all__ = ["flatten", "traced_apply"]


_PER_ORBIT = 6  # tensors


def flatten(program: Program) -> Flat:
    """Splits a program into tensors and what is static."""
    sizes: list[int] = []
    tensors: list[Tensor] = []
    sides = []
    for side in program.inputs + program.outputs:
        # Tracing takes sizes 0 and 1 for constants, so nothing is left empty that may be filled in another structure. A tensor of
        # shape (entries, 0) takes no memory and tells the size of the output while tracing.
        every = torch.arange(side.num_entries, device=program.device)
        tensors += [every.new_zeros(side.num_entries, 0), every if side.places is None else side.places]
        sizes.append(side.places is None)
        orbits = []
        for orbit in side.orbits:
            sizes += [orbit.num_entries, orbit.first_row, orbit.rows is None, *orbit.level_ptr]
            rows = torch.arange(orbit.num_entries, device=program.device) if orbit.rows is None else orbit.rows
            masks = [v for mask, n in zip(orbit.masks, orbit.num_sets, strict=True) for v in (n, len(mask))]
            tensors += [
                rows,
                orbit.bags_of_entries,
                orbit.bags_ptr,
                orbit.rows_of_bags,
                orbit.rows_ptr,
                torch.tensor(masks, dtype=torch.long),
            ]
            orbits.append({"levels": orbit.level_numbers, "num_slots": orbit.num_slots, "single_nodes": orbit.single_nodes})
        sides.append(orbits)
    terms = []
    for term in program.products.terms:
        blocks = [table.weight_rows.flatten().cpu() for table in term.blocks or ()]
        tensors.append(torch.cat([torch.zeros(2, dtype=torch.long), *blocks]))
        levels = [(level.source_level, level.target_level, level.table.weight_rows.tolist()) for level in term.levels]
        terms.append([term.source, term.target, term.weight, levels, term.blocks is not None])
    tensors.insert(0, torch.tensor(sizes, dtype=torch.long))
    aggr = [(aggregation.name, aggregation.version) for aggregation in program.aggregations]
    return Flat(tensors, json.dumps({"aggr": aggr, "num_inputs": len(program.inputs), "sides": sides, "terms": terms}))


def _restore(tensors: Sequence[Tensor], spec: str) -> Program:
    static = json.loads(spec)
    flat = iter(tensors)
    sizes = iter(next(flat).tolist())
    sides = [_restore_side(orbits, sizes, flat) for orbits in static["sides"]]
    inputs, outputs = tuple(sides[: static["num_inputs"]]), tuple(sides[static["num_inputs"] :])
    terms = [_restore_term(term, inputs, next(flat), tensors[1].device) for term in static["terms"]]
    aggregations = tuple(known_aggregation(name, version) for name, version in static["aggr"])
    return Program(inputs, outputs, Products(terms, [aggregation.keeps_entry for aggregation in aggregations]), aggregations)


def _restore_side(static: Sequence[dict[str, Any]], sizes: Iterator[int], flat: Iterator[Tensor]) -> Side:
    num_entries, places, is_in_order = next(flat).shape[0], next(flat), next(sizes)
    return Side(num_entries, tuple(_restore_orbit(orbit, sizes, flat) for orbit in static), None if is_in_order else places)


def _restore_orbit(static: dict[str, Any], sizes: Iterator[int], flat: Iterator[Tensor]) -> OrbitPlan:
    num_entries, first_row, is_range = next(sizes), next(sizes), next(sizes)
    level_ptr = tuple(next(sizes) for _ in range(len(static["levels"]) + 1))
    rows, bags_of_entries, bags_ptr, rows_of_bags, rows_ptr, masks = (next(flat) for _ in range(_PER_ORBIT))
    num_sets, lengths = masks.tolist()[::2], masks.tolist()[1::2]
    return OrbitPlan(
        num_entries=num_entries,
        first_row=first_row,
        rows=None if is_range else rows,
        level_numbers=tuple(static["levels"]),
        num_slots=tuple(static["num_slots"]),
        level_ptr=level_ptr,
        bags_of_entries=bags_of_entries,
        bags_ptr=bags_ptr,
        rows_of_bags=rows_of_bags,
        rows_ptr=rows_ptr,
        masks=tuple(((),) * length for length in lengths),  # the words are in the tables already
        num_sets=tuple(num_sets),
        single_nodes=NodeSlot(*static["single_nodes"]) if static["single_nodes"] else None,
    )


def _restore_term(static: Sequence[Any], inputs: Sequence[Side], tables: Tensor, device: torch.device) -> OrbitTerm:
    source, target, weight, levels, has_blocks = static
    found = tuple(TermLevel(i, j, WordTable(torch.tensor(table, device=device))) for i, j, table in levels)
    blocks = None
    if has_blocks:
        lengths = [len(mask) for mask in inputs[source[0]].orbits[source[1]].masks]
        parts = tables[2:].to(device).split([length**2 for length in lengths])
        blocks = tuple(WordTable(part.view(length, length)) for part, length in zip(parts, lengths, strict=True))
    return OrbitTerm(OrbitRef(*source), OrbitRef(*target), weight, found, blocks)


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
        places.append(at)
        at += 2 + _PER_ORBIT * len(orbits)
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
