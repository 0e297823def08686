r"""Plans of batches, put together from the plans of their structures without looking anything up.

A plan is a few lists of numbers. Every number of a list counts things of one *space*: the rows of a
tensor, the bags of a tensor, the reads of its rows. The things of a space come by kind (such as the
level of a bag), then by structure. So a batch of some structures has their pieces one after the
other, and a number moves as far as what it counts has moved: a batch is one gathering of ranges and
one sum for all lists. This happens on the host, where sizes are needed anyway. The result goes to
the device in one piece.

Every batch is closed by one more structure that has nothing but the ends of lists: whatever starts
there ends there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from copy import copy
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from incidence.errors import IncidenceError, TooLargeError
from incidence.structure.data import Array, StructureData, cache_of
from incidence.structure.ragged import are_short, spans, starts_of

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Batchable", "Listed", "PlanParts", "PlanStore", "cached_plan"]


class PlanParts(NamedTuple):
    """The numbers of a plan, one structure after the other, as files store them.

    Attributes:
        sizes: How many things of every kind each structure has, (structures, kinds).
        values: All numbers. A number counts from the first thing of its kind in its structure.
        kinds: The kind of what each number counts; the kind after all others if it stays.
    """

    sizes: Array
    values: Array
    kinds: Array


class Listed(NamedTuple):
    """A list of a plan: a number for every thing of one space.

    Attributes:
        values: The numbers, with the end if the list has one.
        space: The space that it has a number for each thing of.
        counts: The space of what its numbers count; None for values that stay, such as signs.
            Negative numbers stay, too.
        has_end: Whether it lists where things of the other space start, kind by kind, and is closed
            by where the last one ends.
    """

    values: Tensor
    space: int
    counts: int | None
    has_end: bool = False


class Batchable(ABC):
    """A plan that plans of batches are made of."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """The device of its lists."""

    @property
    def program(self) -> Hashable:
        """What must be the same in two plans that stand side by side in a batch."""
        return ()

    @property
    def is_batchable(self) -> bool:
        """Whether the lists of a batch are those of its structures, moved."""
        return True

    def fits(self, structure: StructureData) -> bool:
        """Return whether it is for as many entries as a structure has.

        Plans that cannot say so are not stored in files.
        """
        return False

    @abstractmethod
    def spaces(self) -> list[Array]:
        """Return how many things every structure has, by space: (kinds, structures) each."""

    @abstractmethod
    def lists(self) -> list[Listed]:
        """Return all lists."""

    @abstractmethod
    def remade(self, sizes: Sequence[Array], tensors: Iterator[Tensor]) -> Self:
        """Return the plan of other structures, from the sizes of its spaces and its lists."""

    @cached_property
    def numbers(self) -> tuple[Array, Array]:
        """The numbers of all lists without their ends, and the kind of what each counts.

        Kinds are numbered through all spaces. Numbers that count nothing have a kind of their own,
        after all others. Loose structures are collated again and again, so this is cached.
        """
        spaces = self.spaces()
        first_kinds = starts_of(np.array([len(space) for space in spaces]))
        stays = sum(map(len, spaces))  # the kind after all others
        values, counted = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for listed in self.lists():
            numbers = listed.values.cpu().numpy()
            own = numbers[: len(numbers) - listed.has_end].astype(np.int64)
            kinds = np.full(len(own), stays)
            if listed.has_end:
                # starts: the things of a kind, which may be none, start in the same kind
                totals = spaces[listed.space].sum(axis=1)
                kinds = (first_kinds[listed.counts] + np.arange(len(totals))).repeat(totals)
            elif listed.counts is not None:
                ends = spaces[listed.counts].sum(axis=1).cumsum()[:-1]
                kinds = first_kinds[listed.counts] + np.searchsorted(ends, own, side="right")
                kinds[own < 0] = stays
            values.append(own)
            counted.append(kinds)
        return np.concatenate(values), np.concatenate(counted)


P = TypeVar("P", bound=Batchable)


class PlanStore(Generic[P]):
    """The lists of several plans with the same program, ready to make plans of batches.

    Args:
        plans: The plans of structures or batches.
    """

    def __init__(self, plans: Sequence[P]) -> None:
        self._set_pieces(plans[0])
        values, counted = zip(*(plan.numbers for plan in plans), strict=True)
        self._set_numbers(values, counted)
        tables = []
        for plan, offset in zip(plans, starts_of(self._lengths).tolist(), strict=True):
            full = self._with_end(np.concatenate(plan.spaces()))  # (kinds, structures)
            lengths = full.take(self._pieces, axis=0)
            places = offset + starts_of(lengths.ravel()).reshape(lengths.shape)
            tables.append((full, self._starts(full), places))
        self._set_tables(*(np.concatenate(parts, axis=1) for parts in zip(*tables, strict=True)))

    def with_parts(self, parts: PlanParts) -> Self:
        """Return the store of other structures, whose numbers come one structure after the other.

        Their plans have the program of those of this store.
        """
        other = copy(self)
        other._set_numbers([parts.values], [parts.kinds])
        full = self._with_end(parts.sizes.T)
        lengths = full.take(self._pieces, axis=0).T  # (structures, pieces)
        places = starts_of(lengths.ravel()).reshape(lengths.shape).T
        other._set_tables(full, np.zeros_like(full), places)
        return other

    def parts(self) -> PlanParts:
        """Return the numbers of all structures, one structure after the other."""
        lengths = self._sizes[:, :-1].take(self._pieces, axis=0).T  # (structures, pieces)
        at = spans(self._places[:, :-1].T.ravel(), lengths.ravel())
        owner = np.arange(len(lengths)).repeat(lengths.sum(axis=1))
        kinds = self._counted[at]
        values = self._values[at] - self._origins[kinds, owner]
        return PlanParts(self._sizes[:-2, :-1].T, values, kinds)

    def lengths(self, sizes: Array) -> Array:
        """Return how many numbers every structure has, from the sizes that `parts` returns."""
        own = self._pieces[self._pieces != self._end]
        total: Array = sizes.take(own, axis=1).sum(axis=1)
        return total

    @cached_property
    def form(self) -> str:
        """What two stores have in common whose parts can be put together."""
        return f"{self._num_kinds} {self._list_pieces} {self._first.program}"

    def _set_pieces(self, first: P) -> None:
        """Note the kinds of things, and of which of them every list has numbers."""
        self._first = first
        self._num_kinds = [len(space) for space in first.spaces()]
        first_kinds = starts_of(np.array(self._num_kinds))
        # of every space, its kinds
        self._ranges = list(pairwise([0, *accumulate(self._num_kinds)]))
        # for every kind the first kind of its space
        self._space_of = np.repeat(first_kinds, self._num_kinds)
        # Two kinds more: what numbers that stay count, which no structure has, and ends, of which
        # the closing structure has one.
        self._end = len(self._space_of) + 1
        lists = first.lists()
        self._list_pieces = [self._kinds_of(listed, first_kinds) for listed in lists]
        self._pieces = np.array([kind for kinds in self._list_pieces for kind in kinds], dtype=int)
        # an end is the start of one structure more, of the last kind
        last_kinds = first_kinds + np.array(self._num_kinds) - 1
        ends = [last_kinds[listed.counts] for listed in lists if listed.has_end]
        self._ends = np.array(ends, dtype=np.int64)

    def _kinds_of(self, listed: Listed, first_kinds: Array) -> list[int]:
        """Return the kinds of which a list has a number for each, and the end."""
        first = int(first_kinds[listed.space])
        kinds = list(range(first, first + self._num_kinds[listed.space]))
        return [*kinds, self._end] if listed.has_end else kinds

    def _set_numbers(self, values: Sequence[Array], counted: Sequence[Array]) -> None:
        """Put the numbers of all plans one after the other, and the ends after them."""
        self._values = np.concatenate([*values, np.zeros_like(self._ends)])
        self._counted = np.concatenate([*counted, self._ends])
        self._lengths = np.array([len(own) for own in values])
        if are_short(int(self._values.max(initial=0)), len(self._values)):
            self._values = self._values.astype(np.int32)

    def _with_end(self, sizes: Array) -> Array:
        """Return how many things of every kind each structure has, with the two further kinds."""
        return np.concatenate([sizes, np.zeros((2, sizes.shape[1]), dtype=np.int64)])

    def _set_tables(self, sizes: Array, origins: Array, places: Array) -> None:
        """Note how many things every structure has, and where its pieces are.

        Each table has a column for every structure, and one for the closing structure.
        """
        closing = np.zeros(len(self._pieces), dtype=np.int64)
        closing[self._pieces == self._end] = self._lengths.sum() + np.arange(len(self._ends))
        self._sizes, self._origins = (np.pad(table, [(0, 0), (0, 1)]) for table in (sizes, origins))
        self._sizes[self._end, -1] = 1
        self._places = np.column_stack([places, closing])

    def _starts(self, sizes: Array) -> Array:
        """Return where the things of every kind and structure start in their space.

        Args:
            sizes: How many things of each kind every structure has, (kinds, structures).
        """
        starts: Array = sizes.cumsum(axis=1)
        above = starts_of(starts[:, -1].copy())
        starts -= sizes
        num_kinds = len(self._space_of)
        starts[:num_kinds] += (above[:num_kinds] - above.take(self._space_of))[:, None]
        return starts

    def take(self, numbers: Array | None = None) -> P:
        """Return the plan of some structures, counted through all plans; or of all of them."""
        last = self._sizes.shape[1] - 1
        numbers = np.arange(last) if numbers is None else numbers
        if not self._list_pieces:  # all bags are ranges of rows: sizes alone decide
            return self._first.remade(self._spaces(self._sizes.take(numbers, axis=1)), iter(()))
        closed = np.append(numbers, last)
        sizes, origins, places = (
            table.take(closed, axis=1) for table in (self._sizes, self._origins, self._places)
        )
        # (kinds, structures): how far the things of each have moved
        shifts = self._starts(sizes) - origins
        shifts[-2:] = 0  # numbers that stay
        lengths = sizes.take(self._pieces, axis=0).ravel()  # (pieces x structures,)
        # (numbers of the batch,): where each stands in the store
        at = spans(places.ravel(), lengths)
        values = self._values.take(at, mode="clip")  # twice as fast as with a check of bounds
        moved = self._counted.take(at, mode="clip") * len(closed)
        moved += np.tile(np.arange(len(closed)), len(places)).repeat(lengths)
        values += shifts.astype(values.dtype).ravel().take(moved, mode="clip")
        totals = sizes.sum(axis=1).tolist()
        # the length of every list
        parts = [sum(totals[kind] for kind in kinds) for kinds in self._list_pieces]
        tensors = torch.from_numpy(values).to(self._first.device).split_with_sizes(parts)
        # without the closing structure
        return self._first.remade(self._spaces(sizes[:, :-1]), iter(tensors))

    def _spaces(self, sizes: Array) -> list[Array]:
        """Return the spaces from the sizes of all kinds, without the two further ones."""
        return [sizes[first:stop] for first, stop in self._ranges]


def cached_plan(
    structure: StructureData, kind: type[P], key: Hashable, build: Callable[[StructureData], P]
) -> P:
    """Return a plan on a structure, which is built once and cached on the structure.

    The plan of a batch is put together from those of its structures, where these have one or were
    packed as a dataset.

    Args:
        structure: The structure.
        kind: The class of the plan.
        key: What it is a plan of, such as the layout of a map.
        build: Builds the plan of a structure. It raises `TooLargeError` where a plan would be too
            large to be stored for a whole dataset.
    """
    known = cache_of(structure, kind).get(key)
    return _new_plan(structure, kind, key, build) if known is None else known


# A plan is used in training later, so it is never made of inference tensors.
@torch.inference_mode(False)
def _new_plan(
    structure: StructureData, kind: type[P], key: Hashable, build: Callable[[StructureData], P]
) -> P:
    if structure.device.type == "meta":
        raise IncidenceError(
            "a structure on the meta device has no entries to plan with: move it to another device."
        )
    plan = _put_together(structure, kind, key, build)
    if plan is None:
        plan = build(structure)
    cache_of(structure, kind)[key] = plan
    return plan


def _put_together(
    structure: StructureData, kind: type[P], key: Hashable, build: Callable[[StructureData], P]
) -> P | None:
    """Return the plan from those of the structures of a batch; None if they do not determine it."""
    origin = structure._origin
    if origin is None or not _has_plan(structure, kind, key):
        return None
    if origin.stored is not None:
        stored: P | None = origin.stored.plan(structure, kind, key, build)
        return stored
    try:
        plans = [cached_plan(source, kind, key, build) for source in origin.sources]
    except TooLargeError:
        return None
    if len({plan.program for plan in plans}) > 1 or not all(plan.is_batchable for plan in plans):
        return None
    if len(plans) > 1:
        return PlanStore(plans).take()
    stores: dict[Hashable, PlanStore[P]] = cache_of(origin.sources[0], PlanStore)
    if (kind, key) not in stores:
        stores[kind, key] = PlanStore(plans)
    numbers = None if origin.numbers is None else np.asarray(origin.numbers)
    return stores[kind, key].take(numbers)


def _has_plan(structure: StructureData, kind: type[P], key: Hashable) -> bool:
    """Return whether a structure has a plan, or one can be put together.

    A store of packed structures makes one plan for all of them.
    """
    origin = structure._origin
    if key in cache_of(structure, kind):
        return True
    if origin is None:
        return False
    if origin.stored is not None:
        return bool(origin.stored.has(kind, key))
    is_packed = origin.numbers is not None
    return is_packed or all(_has_plan(source, kind, key) for source in origin.sources)
