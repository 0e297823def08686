r"""What a structure holds: pointers to its nodes, the index of its tensors, and how texts and names find them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.plans.orbit_plan import Array
from incidence.structure.entries import count_entries

__all__ = ["Tensors", "parsed"]

# A data set of thousands of structures says the same few texts again and again: half the time of making them.
parsed = lru_cache(maxsize=4096)(Pattern)


class Tensors:
    """The index data of a structure, or of a batch of structures.

    Args:
        node_ptr: For every sort, where the nodes of each structure start, and the end.
        index: For every pattern, its index: the letters, then the members of every open face.
        entry_ptr: For every pattern, where the entries of each structure start, and the end.
    """

    def __init__(self, node_ptr: dict[str, Tensor], index: Mapping[Pattern, tuple[Tensor, ...]], entry_ptr: dict[Pattern, Tensor]) -> None:
        self._node_ptr, self._index, self._entry_ptr = node_ptr, index, entry_ptr
        self._counts: dict[str, int] | None = None
        self._kind: tuple[object, ...] | None = None
        self._lengths: dict[object, Array] = {}
        self._pieces: dict[tuple[Pattern, int], tuple[Tensor, Array]] = {}

    @cached_property
    def _spelling(self) -> dict[Pattern, str]:
        return {pattern: str(pattern) for pattern in self._index}

    # ---- sizes

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
    def node_offsets(self) -> dict[str, int]:
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

    # ---- entries

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
            raise IncidenceError(f"a tensor is named by the text of its pattern, or its name; got {text!r}.")
        pattern = self._implicit_name(text) if isinstance(text, str) else text
        if pattern in self._index or self._is_implicit(pattern):
            self._assert_sorts(pattern)
            return pattern
        raise IncidenceError(self._missing(pattern))

    def _implicit_name(self, text: str) -> Pattern:
        if text.strip().isidentifier() and len(text.strip()) > 1 and not text.strip()[1:].isdigit():
            raise IncidenceError(self._missing_name(text.strip()))
        return parsed(text)

    @staticmethod
    def _is_implicit(pattern: Pattern) -> bool:
        return not pattern.faces or (len(pattern.faces) == 1 and len(pattern.letters) == 1 and not pattern.is_open)

    def _assert_sorts(self, pattern: Pattern) -> None:
        for sort in pattern.sorts.values():
            if sort not in self._node_ptr:
                known = ", ".join(f"`{s}`" for s in self._node_ptr)
                raise IncidenceError(f"`{pattern}` needs nodes of sort `{sort}`; this structure has {known}.")

    def _known(self) -> str:
        return ", ".join(f"`{pattern}`" for pattern in self._index) or "none"

    def _missing_name(self, name: str) -> str:
        return f"no tensor is called `{name}` here; there are: {self._known()}. Check the spelling, or add it with `with_index`."

    def _missing(self, pattern: Pattern) -> str:
        same = next((p for p in self._index if p.unnamed() == pattern.unnamed()), None)
        if same is not None:
            how = f"write `{same}`" if same.name else f"write `{same}` without the name"
            return f"no index for `{pattern}` here. There is `{same}`, but a name means one tensor: {how}, or give both an index."
        return f"no index for `{pattern}` here; there are: {self._known()}. Add it with `with_index`."

    def index(self, text: str | Pattern) -> tuple[Tensor, ...]:
        """The index of a tensor: the letters in the order of the text, then the members of every open face."""
        found = self.resolve(text)
        stored = self._stored(found)
        if isinstance(text, str) and found.name == text.strip():
            return stored
        wanted = Pattern(text)
        kept = next((p for p in self._index if p == found), found)
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
            return count_entries(next(p for p in self._index if p == pattern), self._index[pattern])
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
            raise IncidenceError(f"no nodes of sort `{sort}`; there are: {', '.join(self._node_ptr)}.")
        return self._node_ptr[sort]

    def batch(self, text: str | Pattern) -> Tensor:
        """The number of the structure of every entry of a tensor; shape [entries]."""
        ptr = self.entry_ptr(text)
        numbers = torch.arange(self.num_structures, device=self.device)
        return torch.repeat_interleave(numbers, ptr.diff(), output_size=self.num_entries(text))

    def empty_index(self, rows: int) -> Tensor:
        """An index without entries."""
        return torch.zeros(rows, 0, dtype=torch.long, device=self.device)

    # ---- what batches are made by

    @property
    def kind(self) -> tuple[object, ...]:
        """Structures of one kind make a batch: sorts, tensors as they are spelt, and the device."""
        if self._kind is None:
            self._kind = (*sorted(self._node_ptr), *sorted(self._spelling.values()), self.device)
        return self._kind

    def lengths(self, what: str | Pattern) -> Array:
        """How many nodes of a sort, or entries of a pattern, each structure has; on the host."""
        if what not in self._lengths:
            ptr = self._node_ptr[what] if isinstance(what, str) else self.entry_ptr(what)
            if len(ptr) == 2:
                self._lengths[what] = np.array([self.counts[what] if isinstance(what, str) else self.num_entries(what)])
            else:
                self._lengths[what] = ptr.diff().cpu().numpy()
        return self._lengths[what]

    @cached_property
    def length_table(self) -> Array:
        """The lengths of all sorts, then of all patterns; shape (sorts and patterns, structures)."""
        sorts, patterns = map(self.lengths, self._node_ptr), map(self.lengths, self._index)
        return np.stack([*sorts, *patterns])

    def pieces(self, pattern: Pattern, place: int) -> tuple[Tensor, Array]:
        """A part of an index by structure, and how many columns each has: entries for letters, incidences for an open face."""
        part = self._index[pattern][place]
        if place == 0:  # a lone open face has no letters
            return part, self.lengths(pattern) * (part.shape[0] > 0)
        if (pattern, place) not in self._pieces:
            number, order = self.batch(pattern)[part[1]].sort(stable=True)
            lengths = torch.bincount(number, minlength=self.num_structures).cpu().numpy()
            self._pieces[pattern, place] = part[:, order], lengths
        return self._pieces[pattern, place]

    def spelt(self, pattern: Pattern, spelling: str) -> tuple[Tensor, ...]:
        """The index of a tensor in the letters of a pattern, which may be spelt in other letters here."""
        return self._index[pattern] if self._spelling.get(pattern) == spelling else self.index(pattern)
