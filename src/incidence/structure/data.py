r"""What a structure holds: pointers to its nodes, the index of its tensors, and a cache.

`StructureData` is the base of `Structure`: it stores index data and looks up tensors by text or
name. The methods that make structures from structures are in classes on top of it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.algebra.products import fits
from incidence.errors import IncidenceError
from incidence.structure.entries import count_entries
from incidence.structure.ragged import ranges
from incidence.structure.world import World

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "Array",
    "IndexData",
    "Origin",
    "StructureData",
    "cache_of",
    "entry_ptr_of",
    "parsed",
    "row_counts",
    "support_of",
]

Array = NDArray[np.int64]
IndexData = Mapping[Pattern, tuple[Tensor, ...]]
"""The index of every pattern: the letters, shape (letters, entries), then for every open face the
pairs (node, entry), shape (2, incidences).
"""

T = TypeVar("T")

# A data set of thousands of structures repeats the same few texts: parsing them again would take
# half of the time of making the structures.
parsed = lru_cache(maxsize=4096)(Pattern)


@dataclass(frozen=True)
class Origin:
    """The structures that a batch was made of. Their plans can be joined into plans of the batch.

    Attributes:
        sources: The structures or batches that were put side by side; or a store, which is one
            batch of all structures of a data set.
        numbers: The numbers of the structures in the store; None if all of the sources were taken.
        stored: What has the plans in files, if they were stored there; there are no sources then.
    """

    sources: Sequence[StructureData]
    numbers: range | Array | None = None
    stored: Any = None


class StructureData:
    """The index data of a structure, or of a batch of structures.

    Args:
        node_ptr: For every sort, where the nodes of each structure start, and the end.
        index: The index of every pattern.
        entry_ptr: For every pattern, where the entries of each structure start, and the end.
        origin: The structures this one was made of, if they may have plans already.
    """

    world: World | None = None
    """The processes that hold the other parts, where this is a part of a structure."""

    def __init__(
        self,
        node_ptr: dict[str, Tensor],
        index: IndexData,
        entry_ptr: dict[Pattern, Tensor],
        origin: Origin | None = None,
    ) -> None:
        self._node_ptr = node_ptr
        self._index = index
        self._entry_ptr = entry_ptr
        self._origin = origin
        self._counts: dict[str, int] | None = None
        self._lengths: dict[str | Pattern, Array] = {}
        self._cache: dict[Hashable, dict[Any, Any]] = {}
        # What tracing reads is in dicts of its own, by texts: `torch.compile` then compares single
        # keys, and not all that some other module has cached.
        self._recorded: dict[str, Any] = {}
        self._planned: dict[str, bool] = {}

    @classmethod
    def _of(
        cls,
        node_ptr: dict[str, Tensor],
        index: IndexData,
        entry_ptr: dict[Pattern, Tensor],
        origin: Origin | None = None,
    ) -> Self:
        """Return a structure of valid parts, without checks."""
        self = cls.__new__(cls)
        StructureData.__init__(self, node_ptr, index, entry_ptr, origin)
        return self

    def _with(self, index: IndexData, entry_ptr: dict[Pattern, Tensor]) -> Self:
        """Return a structure with the same nodes and other tensors."""
        return self._of(self._node_ptr, index, entry_ptr)

    def with_same_entries(self, index: IndexData, entry_ptr: dict[Pattern, Tensor]) -> Self:
        """Return the structure with more names for the same entries, without checks."""
        return self._with(index, entry_ptr)

    def _map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return the structure with a function applied to every tensor."""
        moved = self._of(
            {sort: change(ptr) for sort, ptr in self._node_ptr.items()},
            {p: tuple(map(change, parts)) for p, parts in self._index.items()},
            {p: change(ptr) for p, ptr in self._entry_ptr.items()},
        )
        # Counting again would wait for the other device.
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
        """The number of node 0 of each sort when the nodes of all sorts are numbered through."""
        offsets, total = {}, 0
        for sort in sorted(self.counts):
            offsets[sort] = total
            total += self.counts[sort]
        return offsets

    def whole_nodes(self, nodes: Tensor) -> Tensor:
        """Return nodes, numbered through all sorts, as they are numbered in the whole structure."""
        return nodes

    def whole_rows(self, pattern: Pattern) -> Tensor:
        """Return the rows of a tensor as they are numbered in the whole structure."""
        return torch.arange(self.num_entries(pattern), device=self.device)

    def whole(self, patterns: Sequence[Pattern]) -> StructureData:
        """Return the whole structure with some tensors. All processes call this together."""
        return self

    @property
    def num_structures(self) -> int:
        """The number of structures: 1, or the size of a batch."""
        return len(next(iter(self._node_ptr.values()))) - 1

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """The patterns that have an index."""
        return tuple(self._index)

    @property
    def device(self) -> torch.device:
        """The device of the index."""
        return next(iter(self._node_ptr.values())).device

    def _lengths_of(self, what: str | Pattern) -> Array:
        """Return how many nodes of a sort, or entries of a pattern, each structure has."""
        if what in self._lengths:
            return self._lengths[what]
        if self.num_structures == 1:  # known without a copy from the device
            length = self.counts[what] if isinstance(what, str) else self.num_entries(what)
            lengths = np.array([length])
        else:
            ptr = self._node_ptr[what] if isinstance(what, str) else self.entry_ptr(what)
            lengths = ptr.diff().cpu().numpy()
        self._lengths[what] = lengths
        return lengths

    @cached_property
    def _spelling(self) -> dict[Pattern, str]:
        return {pattern: str(pattern) for pattern in self._index}

    def resolve(self, text: str | Pattern) -> Pattern:
        """Return the pattern of this structure that a text or a name means.

        Raises:
            IncidenceError: The structure has no such tensor.
        """
        if isinstance(text, str):
            name = text.strip()
            for pattern in self._index:
                if pattern.name == name:
                    return pattern
            # Names differ from letters, so a text that is no name here must be a pattern.
            text = self._parse(name)
        elif not isinstance(text, Pattern):
            raise IncidenceError(
                f"a tensor is named by the text of its pattern, or its name; got {text!r}."
            )
        if text not in self._index and not self._is_implicit(text):
            raise IncidenceError(self._missing(text))
        self._assert_sorts(text)
        return text

    def _parse(self, text: str) -> Pattern:
        """Return the pattern of a text that is not the name of a tensor here."""
        if text.isidentifier() and len(text) > 1 and not text[1:].isdigit():
            raise IncidenceError(self._unknown_name(text))
        return parsed(text)

    def _unknown_name(self, name: str) -> str:
        return (
            f"no tensor is called `{name}` here; there are: {self._known_tensors()}. Check the"
            " spelling, or add it with `with_index`."
        )

    @staticmethod
    def _is_implicit(pattern: Pattern) -> bool:
        """Return whether a pattern needs no index: a lone node, or no face at all."""
        if not pattern.faces:
            return True
        return len(pattern.faces) == len(pattern.letters) == 1 and not pattern.is_open

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
        problem = f"no index for `{pattern}` here"
        for other in self._index:
            if other.unnamed() == pattern.unnamed():
                how = f"write `{other}`" if other.name else f"write `{other}` without the name"
                return (
                    f"{problem}. There is `{other}`, but a name means one tensor: {how}, or give"
                    " both an index."
                )
            if other.is_opposite(pattern):
                return (
                    f"{problem}. There is `{other}`, which has the same entries and values of the"
                    " opposite sign: write it like that, and change the sign of the values."
                )
        return f"{problem}; there are: {self._known_tensors()}. Add it with `with_index`."

    def _as_spelt(self, pattern: Pattern) -> Pattern:
        """Return a pattern in the letters of this structure."""
        return next((p for p in self._index if p == pattern), pattern)

    def index(self, text: str | Pattern) -> tuple[Tensor, ...]:
        """Return the index of a tensor.

        Returns:
            The nodes of the letters, with rows in the letter order of the text; then, for every
            open face, its members.
        """
        pattern = self.resolve(text)
        letters, *members = self._stored(pattern)
        if isinstance(text, str) and pattern.name == text.strip():
            return letters, *members
        asked = parsed(text) if isinstance(text, str) else text
        stored = self._as_spelt(pattern)
        match = dict(zip(asked.canonical_letters, stored.canonical_letters, strict=True))
        rows = [stored.fixed_letters.index(match[name]) for name in asked.fixed_letters]
        # Most texts have the letters in the stored order, and need no copy.
        is_same = rows == list(range(len(rows)))
        return letters if is_same else letters[rows], *members

    def _stored(self, pattern: Pattern) -> tuple[Tensor, ...]:
        if pattern in self._index:
            return self._index[pattern]
        if not pattern.faces:
            return (torch.zeros(0, self.num_structures, dtype=torch.long, device=self.device),)
        [sort] = pattern.sorts.values()
        return (torch.arange(self.counts[sort], device=self.device)[None],)

    def num_entries(self, text: str | Pattern) -> int:
        """Return the number of entries of a tensor."""
        pattern = self.resolve(text)
        # Lengths of a packed batch are known before its index is computed.
        if pattern in self._lengths:
            return int(self._lengths[pattern].sum())
        if pattern in self._index:
            return count_entries(self._as_spelt(pattern), self._index[pattern])
        return int(self._stored(pattern)[0].shape[1])

    def entry_ptr(self, text: str | Pattern) -> Tensor:
        """Return where the entries of each structure start, and the end.

        The result has the shape [structures + 1].
        """
        pattern = self.resolve(text)
        if pattern in self._entry_ptr:
            return self._entry_ptr[pattern]
        if not pattern.faces:
            return torch.arange(self.num_structures + 1, device=self.device)
        [sort] = pattern.sorts.values()
        return self._node_ptr[sort]

    def node_ptr(self, sort: str = "node") -> Tensor:
        """Return where the nodes of each structure start, and the end.

        The result has the shape [structures + 1].
        """
        if sort not in self._node_ptr:
            known = ", ".join(self._node_ptr)
            raise IncidenceError(f"no nodes of sort `{sort}`; there are: {known}.")
        return self._node_ptr[sort]

    def batch(self, text: str | Pattern) -> Tensor:
        """Return the number of the structure of every entry of a tensor; shape [entries]."""
        ptr = self.entry_ptr(text)
        numbers = torch.arange(self.num_structures, device=self.device)
        return torch.repeat_interleave(numbers, ptr.diff(), output_size=self.num_entries(text))


@overload
def cache_of(structure: StructureData, kind: type[T]) -> dict[Hashable, T]: ...
@overload
def cache_of(structure: StructureData, kind: str) -> dict[Any, Any]: ...
def cache_of(structure: StructureData, kind: Any) -> dict[Any, Any]:
    """Return the dict that caches one kind of derived data on a structure.

    A structure never changes, so what was computed from it stays valid: plans, arranged entries,
    row counts. The module that computes the data chooses the kind and the keys, for example
    `cache_of(structure, "arranged")[pattern]`.

    The cache lives as long as the structure. Files, copies and structures on other devices start
    with an empty cache. What is cached must not be an inference tensor, because training may use it
    later.

    Args:
        structure: The structure.
        kind: The name of the data, or the class of its values.
    """
    return structure._cache.setdefault(kind, {})


def row_counts(structure: StructureData, patterns: tuple[Pattern, ...]) -> tuple[int, ...]:
    """Return how many entries some tensors have; cached, as every module of a network needs it."""
    # every module does this in every call: no further call, and one look, as patterns are hashed
    cache: dict[tuple[Pattern, ...], tuple[int, ...]] = structure._cache.setdefault(
        "row counts", {}
    )
    counts = cache.get(patterns)
    if counts is None:
        counts = cache[patterns] = tuple(map(structure.num_entries, patterns))
    return counts


def entry_ptr_of(home: Tensor, num_structures: int) -> Tensor:
    """Return where the entries of each structure start, and the end.

    Args:
        home: The structure of every entry, ascending, shape (entries,).
        num_structures: The number of structures.
    """
    return ranges(torch.bincount(home, minlength=num_structures))


def support_of(structure: StructureData, pattern: Pattern) -> Pattern:
    """Return the tensor that a pattern of a product reads (docs/math.md section 17).

    A name or an equal pattern decides. Otherwise it is the only tensor, of that name or without
    one, whose faces have the same kinds and sizes and whose equalities hold in the pattern: `i i`
    reads the diagonal of `i j`.

    Raises:
        IncidenceError: No tensor fits, or several fit.

    Example:
        >>> from incidence.structure import Structure
        >>> support_of(Structure(2, {"i j": [[0, 1], [1, 1]]}), Pattern("i i"))
        Pattern('i j')
    """
    name = pattern.name
    if name is None and (pattern in structure.patterns or structure._is_implicit(pattern)):
        return structure._as_spelt(structure.resolve(pattern))
    known = [stored for stored in structure.patterns if stored.name == name]
    # Only tensors of that name may fit, or without a name only those that have none.
    fitting = [stored for stored in known if fits(pattern, stored)]
    if name is not None and not known:
        raise IncidenceError(structure._unknown_name(name))
    if name is not None and not fitting:
        raise IncidenceError(
            f"`{name}` is `{known[0].unnamed()}` here, which `{pattern.unnamed()}` cannot read:"
            " write its faces."
        )
    if not fitting:
        raise IncidenceError(structure._missing(pattern))
    if len(fitting) > 1:
        these = " or ".join(f"`{stored}`" for stored in fitting)
        raise IncidenceError(
            f"`{pattern}` may read {these}: give one of them a name, as in `name={pattern}`, and"
            " write the name."
        )
    return fitting[0]
