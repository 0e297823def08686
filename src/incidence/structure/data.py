r"""What a structure holds: pointers to its nodes, the index of its tensors, and how texts and names find them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.arrange import Arranged, DuplicateError, arrange
from incidence.structure.entries import buckets, count_entries
from incidence.structure.ragged import no_entries, ranges

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "Arrangement",
    "Array",
    "IndexData",
    "Origin",
    "StructureData",
    "arranged",
    "cache_of",
    "entry_ptr_of",
    "keep_arranged",
    "orbit_rows",
    "orientations",
    "parsed",
    "row_counts",
]

Array = NDArray[np.int64]
IndexData = Mapping[Pattern, tuple[Tensor, ...]]
"""For every pattern its index: the letters (letters, entries), then the pairs (node, entry) of every open face (2, incidences)."""

T = TypeVar("T")

# A data set of thousands of structures says the same few texts again and again: half the time of making them.
parsed = lru_cache(maxsize=4096)(Pattern)


@dataclass(frozen=True)
class Origin:
    """Where the structures of a batch come from, whose plans it can be made of.

    Attributes:
        sources: The structures or batches that were put side by side; or a store, a batch of all structures of a data set.
        numbers: Which structures of the store these are; None for all of the sources.
    """

    sources: Sequence[StructureData]
    numbers: range | Array | None = None


class StructureData:
    """The index data of a structure, or of a batch of structures.

    Args:
        node_ptr: For every sort, where the nodes of each structure start, and the end.
        index: The index of every pattern.
        entry_ptr: For every pattern, where the entries of each structure start, and the end.
        origin: The structures this one is made of, which may have plans already.
    """

    def __init__(
        self,
        node_ptr: dict[str, Tensor],
        index: IndexData,
        entry_ptr: dict[Pattern, Tensor],
        origin: Origin | None = None,
    ) -> None:
        self._node_ptr, self._index, self._entry_ptr, self._origin = (
            node_ptr,
            index,
            entry_ptr,
            origin,
        )
        self._counts: dict[str, int] | None = None
        self._lengths: dict[str | Pattern, Array] = {}
        self._cache: dict[type, dict[Any, Any]] = {}

    @classmethod
    def _of(
        cls,
        node_ptr: dict[str, Tensor],
        index: IndexData,
        entry_ptr: dict[Pattern, Tensor],
        origin: Origin | None = None,
    ) -> Self:
        """A structure from parts that are known to be right."""
        self = cls.__new__(cls)
        StructureData.__init__(self, node_ptr, index, entry_ptr, origin)
        return self

    def _with(self, index: IndexData, entry_ptr: dict[Pattern, Tensor]) -> Self:
        """Other tensors over the same nodes."""
        return self._of(self._node_ptr, index, entry_ptr)

    def _map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same with every tensor moved elsewhere."""
        moved = self._of(
            {sort: change(ptr) for sort, ptr in self._node_ptr.items()},
            {p: tuple(change(t) for t in parts) for p, parts in self._index.items()},
            {p: change(ptr) for p, ptr in self._entry_ptr.items()},
        )
        moved._counts = self.counts
        return moved

    @property
    def counts(self) -> dict[str, int]:
        """The number of nodes of every sort."""
        if self._counts is None:
            self._counts = {sort: int(ptr[-1]) for sort, ptr in self._node_ptr.items()}
        return self._counts

    @property
    def num_nodes(self) -> int | dict[str, int]:
        """The number of nodes; with several sorts (or one that is not `node`), for each sort."""
        return self.counts["node"] if set(self.counts) == {"node"} else dict(self.counts)

    @property
    def total_nodes(self) -> int:
        """The number of nodes of all sorts."""
        return sum(self.counts.values())

    @property
    def _node_offsets(self) -> dict[str, int]:
        """Where the nodes of each sort start when all are numbered through."""
        offsets, total = {}, 0
        for sort in sorted(self.counts):
            offsets[sort] = total
            total += self.counts[sort]
        return offsets

    @property
    def num_structures(self) -> int:
        """How many structures this is: 1, or the size of a batch."""
        return len(next(iter(self._node_ptr.values()))) - 1

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """The patterns that have an index."""
        return tuple(self._index)

    @property
    def device(self) -> torch.device:
        """Where the index lives."""
        return next(iter(self._node_ptr.values())).device

    def _lengths_of(self, what: str | Pattern) -> Array:
        """How many nodes of a sort, or entries of a pattern, each structure has; on the host."""
        if what not in self._lengths:
            ptr = self._node_ptr[what] if isinstance(what, str) else self.entry_ptr(what)
            if len(ptr) == 2:
                self._lengths[what] = np.array(
                    [self.counts[what] if isinstance(what, str) else self.num_entries(what)]
                )
            else:
                self._lengths[what] = ptr.diff().cpu().numpy()
        return self._lengths[what]

    @cached_property
    def _spelling(self) -> dict[Pattern, str]:
        return {pattern: str(pattern) for pattern in self._index}

    def resolve(self, text: str | Pattern) -> Pattern:
        """The pattern that a text or a name means here.

        Raises:
            IncidenceError: Nothing here is meant by it.
        """
        if isinstance(text, str):
            named = next((p for p in self._index if p.name == text.strip()), None)
            if named is not None:
                return named
        if not isinstance(text, (str, Pattern)):
            raise IncidenceError(
                f"a tensor is named by the text of its pattern, or its name; got {text!r}."
            )
        pattern = self._unnamed(text.strip()) if isinstance(text, str) else text
        if pattern in self._index or self._is_implicit(pattern):
            self._assert_sorts(pattern)
            return pattern
        raise IncidenceError(self._missing(pattern))

    def _unnamed(self, text: str) -> Pattern:
        """The pattern of a text that is no name of a tensor here."""
        if text.isidentifier() and len(text) > 1 and not text[1:].isdigit():
            raise IncidenceError(self._unknown_name(text))
        return parsed(text)

    def _unknown_name(self, name: str) -> str:
        known = self._known_tensors()
        return f"no tensor is called `{name}` here; there are: {known}. Check the spelling, or add it with `with_index`."

    @staticmethod
    def _is_implicit(pattern: Pattern) -> bool:
        """Whether a pattern needs no index: a lone node, or nothing."""
        return not pattern.faces or (
            len(pattern.faces) == 1 and len(pattern.letters) == 1 and not pattern.is_open
        )

    def _assert_sorts(self, pattern: Pattern) -> None:
        for sort in pattern.sorts.values():
            if sort not in self._node_ptr:
                known = ", ".join(f"`{s}`" for s in self._node_ptr)
                raise IncidenceError(
                    f"`{pattern}` needs nodes of sort `{sort}`; this structure has {known}."
                )

    def _known_tensors(self) -> str:
        return ", ".join(f"`{pattern}`" for pattern in self._index) or "none"

    def _missing(self, pattern: Pattern) -> str:
        same = next((p for p in self._index if p.unnamed() == pattern.unnamed()), None)
        if same is not None:
            how = f"write `{same}`" if same.name else f"write `{same}` without the name"
            return f"no index for `{pattern}` here. There is `{same}`, but a name means one tensor: {how}, or give both an index."
        opposite = next((p for p in self._index if p.is_opposite(pattern)), None)
        if opposite is not None:
            what = f"no index for `{pattern}` here. There is `{opposite}`, which has the same entries and values of the opposite sign"
            return f"{what}: write it like that, and change the sign of the values."
        return f"no index for `{pattern}` here; there are: {self._known_tensors()}. Add it with `with_index`."

    def _as_spelt(self, pattern: Pattern) -> Pattern:
        """The same pattern in the letters of this structure."""
        return next((p for p in self._index if p == pattern), pattern)

    def index(self, text: str | Pattern) -> tuple[Tensor, ...]:
        """The index of a tensor: the letters in the order of the text, then the members of every open face."""
        found = self.resolve(text)
        stored = self._stored(found)
        if isinstance(text, str) and found.name == text.strip():
            return stored
        wanted = Pattern(text)
        kept = self._as_spelt(found)
        match = dict(zip(wanted.canonical_letters, kept.canonical_letters, strict=True))
        rows = [kept.fixed_letters.index(match[name]) for name in wanted.fixed_letters]
        return (stored[0] if rows == list(range(len(rows))) else stored[0][rows]), *stored[1:]

    def _stored(self, pattern: Pattern) -> tuple[Tensor, ...]:
        if pattern in self._index:
            return self._index[pattern]
        if not pattern.faces:
            return (torch.zeros(0, self.num_structures, dtype=torch.long, device=self.device),)
        [sort] = pattern.sorts.values()
        return (torch.arange(self.counts[sort], device=self.device)[None],)

    def num_entries(self, text: str | Pattern) -> int:
        """The number of entries of a tensor."""
        pattern = self.resolve(text)
        if pattern in self._lengths:
            return int(self._lengths[pattern].sum())
        if pattern in self._index:
            return count_entries(self._as_spelt(pattern), self._index[pattern])
        return int(self._stored(pattern)[0].shape[1])

    def entry_ptr(self, text: str | Pattern) -> Tensor:
        """Where the entries of each structure start, and the end; shape [structures + 1]."""
        pattern = self.resolve(text)
        if pattern in self._entry_ptr:
            return self._entry_ptr[pattern]
        if not pattern.faces:
            return torch.arange(self.num_structures + 1, device=self.device)
        [sort] = pattern.sorts.values()
        return self._node_ptr[sort]

    def node_ptr(self, sort: str = "node") -> Tensor:
        """Where the nodes of each structure start, and the end; shape [structures + 1]."""
        if sort not in self._node_ptr:
            raise IncidenceError(
                f"no nodes of sort `{sort}`; there are: {', '.join(self._node_ptr)}."
            )
        return self._node_ptr[sort]

    def batch(self, text: str | Pattern) -> Tensor:
        """The number of the structure of every entry of a tensor; shape [entries]."""
        ptr = self.entry_ptr(text)
        numbers = torch.arange(self.num_structures, device=self.device)
        return torch.repeat_interleave(numbers, ptr.diff(), output_size=self.num_entries(text))


def cache_of(structure: StructureData, kind: type[T]) -> dict[Hashable, T]:
    """What is kept with a structure because it was found out once: a dict for every type of value, owned by who defines the type."""
    kept: dict[Hashable, T] = structure._cache.setdefault(kind, {})
    return kept


class Arrangement(tuple[Arranged, ...]):
    """The buckets of a tensor, each with its canonical order."""

    __slots__ = ()


# What is found out about a structure is kept and used in training later, so it is never made of inference tensors.
@torch.inference_mode(False)
def arranged(structure: StructureData, text: str | Pattern) -> Arrangement:
    """The entries of a tensor by orbit and class sizes, with their canonical order."""
    pattern, cache = structure.resolve(text), cache_of(structure, Arrangement)
    if pattern not in cache:
        kept = structure._as_spelt(pattern)
        num_nodes = max(structure.total_nodes, 1)
        found = buckets(kept, structure._stored(kept), structure._node_offsets, num_nodes)
        try:
            cache[pattern] = Arrangement(arrange(bucket, num_nodes) for bucket in found)
        except DuplicateError as error:
            one, other = error.rows
            whatever = ", whatever its orientation" * kept.is_oriented
            raise IncidenceError(
                f"index['{kept}']: columns {one} and {other} denote one entry{whatever}. Keep one of them (add up their features first); "
                f"parallel edges are nodes of a sort of their own, as in `(i j) e:edge`."
            ) from None
    return cache[pattern]


def keep_arranged(
    structure: StructureData, other: StructureData, patterns: Sequence[Pattern]
) -> None:
    """Takes over what another structure, with the same entries of some patterns over the same nodes, has arranged."""
    known = cache_of(other, Arrangement)
    cache_of(structure, Arrangement).update({p: known[p] for p in patterns if p in known})


class RowCounts(tuple[int, ...]):
    """How many entries some tensors have."""

    __slots__ = ()


def row_counts(structure: StructureData, patterns: tuple[Pattern, ...]) -> RowCounts:
    """How many entries some tensors have; kept, as every module of a network asks."""
    cache = cache_of(structure, RowCounts)
    if patterns not in cache:
        cache[patterns] = RowCounts(map(structure.num_entries, patterns))
    return cache[patterns]


@torch.inference_mode(False)
def orbit_rows(structure: StructureData, text: str | Pattern) -> list[Tensor]:
    """The rows of every orbit of a tensor, in the order of `Pattern.orbits`."""
    pattern = structure.resolve(text)
    rows: list[list[Tensor]] = [[no_entries(1, structure.device)[0]] for _ in pattern.orbits]
    for found in arranged(structure, pattern):
        rows[found.bucket.orbit].append(found.bucket.rows)
    return [torch.cat(parts) for parts in rows]


@torch.inference_mode(False)
def orientations(structure: StructureData, text: str | Pattern) -> Tensor:
    """By which sign the reference orientation of every entry differs from the standard one: class by class, nodes ascending; 1 or -1."""
    signs = torch.ones(structure.num_entries(text), dtype=torch.long, device=structure.device)
    for found in arranged(structure, text):
        if found.bucket.signs is not None:
            signs[found.bucket.rows] = found.bucket.signs.long()
    return signs


def entry_ptr_of(home: Tensor, num_structures: int) -> Tensor:
    """Where the entries of each structure start, and the end, from the structure of every entry."""
    return ranges(torch.bincount(home, minlength=num_structures))
