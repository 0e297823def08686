r"""Plans of products for batches, with nothing looked up again.

The lists of a plan are numbers that count things of one kind: rows of an operand, results of a step, joined rows. They come by structure,
so a batch of some structures has their pieces one after the other, and every number moves as far as what it counts has moved: one
gathering of ranges and one sum for all lists. All this is on the host, where sizes are needed anyway, and goes to the device in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from incidence.plans.join_plan import JoinPlan, JoinStep, RoleOrder
from incidence.structure.data import Array
from incidence.structure.ragged import spans, starts_of

__all__ = ["JoinStore"]

_Kind = tuple[str, int]  # rows of a tensor of values, or joined rows of a step, by number


class _List(NamedTuple):
    """A list of a plan: it has a number for every thing of one kind, which counts things of another; None for signs, which stay."""

    numbers: NDArray[np.integer]
    length: _Kind
    counts: _Kind | None
    has_end: bool = False


class JoinStore:
    """The numbers of several plans with the same program, ready to make batches of."""

    def __init__(self, plans: Sequence[JoinPlan]) -> None:
        self._first = plans[0]
        num_structures = [plan.num_entries.shape[1] for plan in plans]
        starts = starts_of(np.array(num_structures))
        self._num_entries = np.concatenate([plan.num_entries for plan in plans], axis=1)
        self._sizes = {
            kind: np.concatenate([_sizes(plan)[kind] for plan in plans])
            for kind in _sizes(plans[0])
        }
        # Where the things of a structure start in its own plan.
        origins = {
            kind: starts_of(sizes) - np.repeat(starts_of(sizes)[starts], num_structures)
            for kind, sizes in self._sizes.items()
        }
        lists = [list(parts) for parts in zip(*(_lists(plan) for plan in plans), strict=True)]
        self._lists = [parts[0] for parts in lists]
        self._numbers = np.concatenate([part.numbers for parts in lists for part in parts])
        lengths = np.stack([self._sizes[one.length] for one in self._lists])  # (lists, structures)
        self._lengths, self._places = lengths, starts_of(lengths.ravel()).reshape(lengths.shape)
        nothing = np.zeros_like(lengths[0])
        self._origins = np.stack(
            [nothing if one.counts is None else origins[one.counts] for one in self._lists]
        )
        self._counted = np.stack(
            [nothing if one.counts is None else self._sizes[one.counts] for one in self._lists]
        )

    def take(self, numbers: Array | None = None) -> JoinPlan:
        """The plan of some structures, counted through all plans; or of all."""
        chosen = np.arange(self._lengths.shape[1]) if numbers is None else numbers
        lengths, places, origins, counted = (
            t.take(chosen, axis=1)
            for t in (self._lengths, self._places, self._origins, self._counted)
        )
        shifts = counted.cumsum(axis=1) - counted - origins
        values = self._numbers.take(spans(places.ravel(), lengths.ravel()), mode="clip")
        values += shifts.astype(values.dtype).ravel().repeat(lengths.ravel())
        return self._plan(chosen, np.split(values, lengths.sum(axis=1).cumsum()[:-1]))

    def _plan(self, chosen: Array, parts: Sequence[NDArray[np.integer]]) -> JoinPlan:
        sizes = {kind: sizes.take(chosen) for kind, sizes in self._sizes.items()}
        totals = {kind: int(own.sum()) for kind, own in sizes.items()}
        ends = [[totals[one.counts]] if one.has_end and one.counts else [] for one in self._lists]
        closed = [
            np.concatenate([part, end]).astype(part.dtype) if end else part
            for part, end in zip(parts, ends, strict=True)
        ]
        whole = torch.from_numpy(np.concatenate(closed)).to(self._first.device)
        tensors = iter(whole.split_with_sizes([len(part) for part in closed]))
        steps = tuple(
            self._step(number, tensors, sizes, totals) for number in range(len(self._first.steps))
        )
        return JoinPlan(self._first.text, steps, self._num_entries.take(chosen, axis=1))

    def _step(
        self,
        number: int,
        tensors: Iterator[Tensor],
        sizes: dict[_Kind, Array],
        totals: dict[_Kind, int],
    ) -> JoinStep:
        first = _sparse(self._first)[number]
        result = ("rows", len(self._first.num_rows) - 1 + number)
        num_rows = totals[result], *(totals["rows", source] for source in first.sources)
        ptr = next(tensors)
        rows = tuple(next(tensors) for _ in first.sources)
        sign = None if first.sign is None else next(tensors).to(torch.int8)
        orders = {role: RoleOrder(next(tensors), next(tensors)) for role in range(1, len(rows) + 1)}
        return JoinStep(
            first.sources, num_rows, ptr, rows, sign, sizes["joined", number], sizes[result], orders
        )


def _sparse(plan: JoinPlan) -> list[JoinStep]:
    """The steps of a plan, none of which is by arrays."""
    return [step for step in plan.steps if isinstance(step, JoinStep)]


def _sizes(plan: JoinPlan) -> dict[_Kind, Array]:
    """How many things of every kind each structure has."""
    sizes: dict[_Kind, Array] = {
        ("rows", k): plan.num_entries[k] for k in range(len(plan.num_rows) - 1)
    }
    for number, step in enumerate(_sparse(plan)):
        sizes["joined", number] = step.num_joined
        sizes["rows", len(plan.num_rows) - 1 + number] = step.num_targets
    return sizes


def _lists(plan: JoinPlan) -> Iterator[_List]:
    """All lists of a plan, those of all roles included."""
    for number, step in enumerate(_sparse(plan)):
        joined, result = ("joined", number), ("rows", len(plan.num_rows) - 1 + number)
        yield _List(_host(step.ptr[:-1]), result, joined, has_end=True)
        for source, rows in zip(step.sources, step.rows, strict=True):
            yield _List(_host(rows), joined, ("rows", source))
        if step.sign is not None:
            yield _List(_host(step.sign), joined, None)
        for role, source in enumerate(step.sources, 1):
            order, ptr = step.order(role)
            yield _List(_host(order), joined, joined)
            yield _List(_host(ptr[:-1]), ("rows", source), joined, has_end=True)


def _host(values: Tensor) -> NDArray[np.integer]:
    found: NDArray[np.integer] = values.cpu().numpy()
    return found
