"""The small path: below a few hundred rows the operators are dense matrices, and a layer is two products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from incidence.kernels.bags import bag_numbers
from incidence.kernels.engine import Program, Side
from incidence.plans.orbit_plan import OrbitPlan
from incidence.plans.terms import Term

__all__ = ["MAX_SIZE", "Small", "apply_small", "make_small"]

MAX_SIZE = 1 << 17
"""Structures are small when all operators together have at most this many numbers; 0 turns the small path off."""


@dataclass(frozen=True)
class Small:
    """A linear layer on a small structure.

    Attributes:
        operators: For every weight, its operators stacked row by row, (output entries x operations, input entries).
        pairs: For every weight, its input and its output.
        orbits: For every output, the orbit of each entry; None where there is one orbit.
    """

    operators: tuple[Tensor, ...]
    pairs: tuple[tuple[int, int], ...]
    orbits: tuple[Tensor | None, ...]


def make_small(program: Program, num_operations: Sequence[int], pairs: Sequence[tuple[int, int]], dtype: torch.dtype) -> Small | None:
    """The operators of a program as dense matrices; None unless the structure is small and the aggregation linear.

    The choice depends on sizes alone, so that the same input always goes the same way. Batches do not go this way: a dense operator
    would multiply the values of other structures by 0, and a NaN there would spread.
    """
    if any(lists.offsets[1] != 1 for side in (*program.inputs, *program.outputs) for lists in side.orbits):
        return None
    if dtype not in (torch.float32, torch.float64):
        return None
    sizes = [n * program.inputs[s].num_entries * program.outputs[t].num_entries for n, (s, t) in zip(num_operations, pairs, strict=True)]
    if program.aggr not in (("sum",), ("mean",)) or not all(sizes) or sum(sizes) > MAX_SIZE:
        return None
    shapes = [(n, program.outputs[t].num_entries, program.inputs[s].num_entries) for n, (s, t) in zip(num_operations, pairs, strict=True)]
    device = program.inputs[0].orbits[0].read.device
    operators = [torch.zeros(shape, dtype=torch.float64, device=device) for shape in shapes]
    for term in program.terms.all:
        _add_levels(program, term, operators[term.weight])
        _add_blocks(program, term, operators[term.weight])
    ordered = [_in_order(o, program.outputs[t], program.inputs[s]) for o, (s, t) in zip(operators, pairs, strict=True)]
    stacked = tuple(o.transpose(0, 1).flatten(0, 1).to(dtype).contiguous() for o in ordered)
    return Small(stacked, tuple(pairs), tuple(_orbit_of_entries(side) for side in program.outputs))


def _members(lists: OrbitPlan, at: int) -> Tensor:
    """Which entries each key of a level holds under each word: (keys, words, entries) of zeros and ones."""
    count = lists.stop - lists.start
    inside = (lists.read >= lists.offsets[at]) & (lists.read < lists.offsets[at + 1])
    entries = bag_numbers(lists.read_ptr, len(lists.read))[inside]
    num_bags, slots = lists.offsets[at + 1] - lists.offsets[at], lists.num_slots[at]
    held = torch.zeros(num_bags, count, dtype=torch.float64, device=lists.read.device)
    held[lists.read[inside].long() - lists.offsets[at], entries] = 1
    return held.view(num_bags // max(slots, 1), slots, count)


def _add_levels(program: Program, term: Term, operators: Tensor) -> None:
    (s, a), (t, b) = term.source, term.target
    source, target = program.inputs[s].orbits[a], program.outputs[t].orbits[b]
    for i, j, table in term.levels:
        ours, theirs = _members(source, i), _members(target, j)
        if program.aggr == ("mean",):
            ours = ours / ours.sum(2, keepdim=True).clamp(min=1)
        paths = torch.einsum("kux,kwy->uwyx", ours, theirs).flatten(0, 1)
        part = torch.zeros(len(operators), *paths.shape[1:], dtype=paths.dtype, device=paths.device)
        part.index_add_(0, table.flat[table.present], paths[table.present])
        operators[:, target.start : target.stop, source.start : source.stop] += part


def _add_blocks(program: Program, term: Term, operators: Tensor) -> None:
    lists = program.inputs[term.source[0]].orbits[term.source[1]]
    for (start, stop, words), table in zip(lists.slices, term.blocks or (), strict=term.blocks is not None):
        first = torch.arange(lists.start + start, lists.start + stop, words, device=lists.read.device)
        for u, w in product(range(words), repeat=2):
            if (row := int(table.operations[u, w])) >= 0:
                operators[row, first + w, first + u] += 1


def _in_order(operator: Tensor, output: Side, source: Side) -> Tensor:
    """From canonical rows and columns to those of the caller."""
    if output.order is not None:
        operator = torch.empty_like(operator).index_copy_(1, output.order, operator)
    return operator if source.order is None else torch.empty_like(operator).index_copy_(2, source.order, operator)


def _orbit_of_entries(side: Side) -> Tensor | None:
    if len(side.orbits) == 1:
        return None
    counts = torch.tensor([lists.stop - lists.start for lists in side.orbits], device=side.orbits[0].read.device)
    numbers = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
    return numbers if side.order is None else torch.empty_like(numbers).index_copy_(0, side.order, numbers)


def apply_small(small: Small, xs: Sequence[Tensor], weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> list[Tensor]:
    """The outputs of the layer; the same values as the engine, to rounding."""
    ys: list[Any] = [b if b is None or orbit is None else b.index_select(0, orbit) for b, orbit in zip(biases, small.orbits, strict=True)]
    for operator, (s, t), weight in zip(small.operators, small.pairs, weights):  # noqa: B905  every microsecond shows here
        matrix = weight.flatten(0, 1)
        terms = torch.mm(operator, xs[s]).view(-1, matrix.shape[0])
        ys[t] = torch.mm(terms, matrix) if ys[t] is None else torch.addmm(ys[t], terms, matrix)
    return ys
