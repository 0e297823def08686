"""`Part`: what one process holds of a structure; layers take it as a structure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.engine.diffusion import Neighbourhoods
from incidence.engine.plan import Plan
from incidence.engine.products.plan import JoinPlan
from incidence.errors import IncidenceError
from incidence.structure import Structure
from incidence.structure.data import IndexData
from incidence.structure.world import World

__all__ = ["Part", "as_part", "gather", "make_part", "rows"]


class Part(Structure):
    """The entries of a structure that one process holds, and the nodes of these entries.

    Make it with `split` or `assemble`. Layers, norms, readouts and networks take it as they take a
    structure. All processes call them together, in the same order.

    Its nodes are renumbered: `nodes[sort]` has their numbers in the whole structure, ascending. A
    node may be on several processes, as end of their entries. Its features are on one of them:
    `rows(part, "i")` lists the nodes whose features are here.

    Attributes:
        world: The processes.
        nodes: For every sort the nodes here, by their numbers in the whole structure.
    """

    nodes: dict[str, Tensor]
    _held: dict[str, Tensor]
    _whole_rows: dict[Pattern, Tensor]
    _whole_counts: dict[str | Pattern, int]
    _routes: dict[Pattern, list[Tensor]] | None = None  # of what `assemble` was given

    @classmethod
    def _of(cls, *parts: Any) -> NoReturn:
        raise IncidenceError(
            "a part of a structure is not changed, moved or taken apart: change the structure"
            " first, and split it then."
        )

    def __reduce__(self) -> NoReturn:
        raise IncidenceError(
            "a part of a structure belongs to its process and is not pickled: split the structure"
            " there."
        )

    def _with(self, index: IndexData, entry_ptr: dict[Pattern, Tensor]) -> NoReturn:
        self._of()

    def with_same_entries(self, index: IndexData, entry_ptr: dict[Pattern, Tensor]) -> Part:
        """Return a part with more names for the same entries."""
        made = _blank(self._node_ptr, index, entry_ptr)
        made.world, made.nodes, made._held = self.world, self.nodes, self._held
        made._whole_rows, made._whole_counts = self._whole_rows, self._whole_counts
        return made

    @classmethod
    def _of_checked(
        cls,
        local: Structure,
        world: World,
        nodes: dict[str, Tensor],
        held: dict[str, Tensor],
        whole_rows: dict[Pattern, Tensor],
        whole_counts: dict[str | Pattern, int],
    ) -> Part:
        """Return the part whose entries are those of a structure with the nodes of the part."""
        made = _blank(local._node_ptr, local._index, local._entry_ptr)
        made.world, made.nodes, made._held = world, nodes, held
        made._whole_rows, made._whole_counts = whole_rows, whole_counts
        return made

    def bring(self, x: Tensor, text: str | Pattern) -> Tensor:
        """Return the features of the entries here, which other processes may have read.

        Args:
            x: The features of the entries that this process gave to `assemble`, in that order.
            text: The tensor. All processes bring the features of the same tensor.
        """
        pattern = self.resolve(text)
        routes = (self._routes or {}).get(pattern)
        if routes is None:
            raise IncidenceError(
                f"only features of entries that were given to inc.distributed.assemble are brought"
                f" along, and `{pattern}` was not: take them by inc.distributed.rows(part, text)."
            )
        count = sum(map(len, routes))
        if len(x) != count:
            raise IncidenceError(
                f"this process gave {count} entries of `{pattern}` to assemble, and x must have a"
                f" row for each of them; got {len(x)}."
            )
        world = self.world
        assert world is not None
        came = world.swap_any([x[own].flatten() for own in routes])
        return torch.cat(came).view(-1, *x.shape[1:])

    def whole_nodes(self, nodes: Tensor) -> Tensor:
        """Return nodes, numbered through all sorts, as they are numbered in the whole structure."""
        first, shifted = 0, []
        for sort in sorted(self.nodes):
            shifted.append(self.nodes[sort] + first)
            first += self._whole_counts[sort]
        return torch.cat(shifted)[nodes]

    def whole_rows(self, pattern: Pattern) -> Tensor:
        """Return the rows of a tensor as they are numbered in the whole structure."""
        return rows(self, pattern)

    def whole(self, patterns: Sequence[Pattern]) -> Structure:
        """Return the whole structure with some tensors without open faces, on every process."""
        index = {}
        for pattern in patterns:
            if pattern in self._index:
                spelt = self._as_spelt(pattern)
                index[str(spelt)] = self._whole_letters(spelt)
        counts = {sort: int(self._whole_counts[sort]) for sort in self.nodes}
        return Structure(counts, index)

    def _whole_letters(self, pattern: Pattern) -> Tensor:
        """Return the nodes of the letters of all entries, in the whole structure."""
        letters = self._index[pattern][0]
        own = [
            self.nodes[pattern.sorts[name]][row]
            for name, row in zip(pattern.fixed_letters, letters, strict=True)
        ]
        every = gather(torch.stack(own, dim=1), self, pattern)
        return every.T.contiguous()

    def _held_sort(self, pattern: Pattern) -> str | None:
        """Return the sort of a lone node that needs no index; None for other patterns."""
        if pattern in self._index or not pattern.faces or not self._is_implicit(pattern):
            return None
        [sort] = pattern.sorts.values()
        return sort

    def _stored(self, pattern: Pattern) -> tuple[Tensor, ...]:
        sort = self._held_sort(pattern)
        return super()._stored(pattern) if sort is None else (self._held[sort][None],)

    def num_entries(self, text: str | Pattern) -> int:
        """Return the number of entries of a tensor that this process holds."""
        sort = self._held_sort(self.resolve(text))
        return super().num_entries(text) if sort is None else len(self._held[sort])

    def entry_ptr(self, text: str | Pattern) -> Tensor:
        """Return where the entries of each structure start here, and the end."""
        sort = self._held_sort(self.resolve(text))
        if sort is None:
            return super().entry_ptr(text)
        return torch.searchsorted(self._held[sort], self._node_ptr[sort])

    def __repr__(self) -> str:
        world = self.world
        assert world is not None
        return f"Part({world.rank} of {world.size}: {super().__repr__()})"


class _CacheOfPart(dict[Any, Any]):
    """What is derived from a part. Everything else needs the whole structure, and is refused."""

    def setdefault(self, kind: Any, default: Any = None) -> Any:
        if kind not in _WORKS_ON_PARTS:
            what = kind if isinstance(kind, str) else kind.__name__
            raise IncidenceError(
                f"this needs the whole structure (for its {what}), and a part has some of its"
                " entries. Layers, norms, readouts, attention, softmax, and products that pool to"
                " keys work on a part; compute this before you split the structure."
            )
        return super().setdefault(kind, default)


_WORKS_ON_PARTS: set[object] = {Plan, JoinPlan, Neighbourhoods, Structure}
_WORKS_ON_PARTS |= {"arranged", "row counts", "incidences", "shared nodes"}


def _blank(node_ptr: dict[str, Tensor], index: IndexData, entry_ptr: dict[Pattern, Tensor]) -> Part:
    made = Part.__new__(Part)
    super(Structure, made).__init__(node_ptr, index, entry_ptr)
    made._cache = _CacheOfPart()
    return made


def make_part(
    world: World,
    nodes: dict[str, Tensor],
    held: dict[str, Tensor],
    node_ptr: dict[str, Tensor],
    index: dict[Pattern, tuple[Tensor, ...]],
    whole_rows: dict[Pattern, Tensor],
    entry_ptr: dict[Pattern, Tensor],
    whole_counts: dict[str | Pattern, int],
) -> Part:
    """Return a part of entries that are in order by their rows in the whole structure.

    Args:
        world: The processes.
        nodes: The nodes of the entries and those whose features are here, ascending.
        held: The nodes whose features are here, ascending.
        node_ptr: Where the nodes of each structure of the whole start, and the end.
        index: The index of every pattern, with the nodes of the whole structure, and entries
            numbered from 0.
        whole_rows: The rows of the entries in the whole structure.
        entry_ptr: For every pattern where the entries of each structure start here, and the end.
        whole_counts: How many nodes of every sort, and entries, the whole structure has.
    """
    local = {p: _renumbered(p, parts, nodes) for p, parts in index.items()}
    ptr = {sort: torch.searchsorted(nodes[sort], node_ptr[sort]) for sort in nodes}
    made = _blank(ptr, local, entry_ptr)
    places = {sort: torch.searchsorted(nodes[sort], held[sort]) for sort in nodes}
    return Part._of_checked(made, world, nodes, places, whole_rows, whole_counts)


def _renumbered(
    pattern: Pattern, parts: tuple[Tensor, ...], nodes: dict[str, Tensor]
) -> tuple[Tensor, ...]:
    """Return the index of a pattern with the nodes of a part."""
    letters, *members = parts
    own = [
        torch.searchsorted(nodes[pattern.sorts[name]], row.contiguous())
        for name, row in zip(pattern.fixed_letters, letters, strict=True)
    ]
    moved = [torch.stack(own) if own else letters[:0]]
    open_faces = [face for face in pattern.faces if face.is_open]
    for face, pairs in zip(open_faces, members, strict=True):
        known = nodes[face.letters[0].sort]
        moved.append(torch.stack([torch.searchsorted(known, pairs[0].contiguous()), pairs[1]]))
    return tuple(moved)


def as_part(part: Any) -> Part:
    """Return a part, checked."""
    if not isinstance(part, Part):
        raise IncidenceError(
            "this takes a part, which inc.distributed.split(structure) makes; got"
            f" {type(part).__name__}."
        )
    return part


def rows(part: Part, text: str | Pattern) -> Tensor:
    """Return which rows of a tensor of the whole structure this process holds, ascending.

    Args:
        part: The part.
        text: The tensor. Values of whole structures are on all processes.
    """
    part = as_part(part)
    pattern = part.resolve(text)
    if not pattern.faces:
        return torch.arange(part.num_structures)
    sort = part._held_sort(pattern)
    if sort is not None:
        return part.nodes[sort][part._held[sort]]
    return part._whole_rows[pattern]


def gather(y: Tensor, part: Part, text: str | Pattern) -> Tensor:
    """Return all rows of a tensor on every process, for tests and small outputs.

    Args:
        y: The rows of this process, shape (entries, channels).
        part: The part.
        text: The tensor.
    """
    own, world = rows(part, text), part.world
    assert world is not None
    pattern = part.resolve(text)
    if not isinstance(y, Tensor) or len(y) != len(own):
        came = f"{len(y)} rows" if isinstance(y, Tensor) else type(y).__name__
        raise IncidenceError(
            f"gather takes the {len(own)} rows of `{pattern}` that this process holds; got {came}."
        )
    if not pattern.faces:
        return y
    sort = part._held_sort(pattern)
    total = part._whole_counts[sort if sort is not None else pattern]
    whole = y.detach().new_zeros(total, *y.shape[1:])
    every_row, values = world.gather(own), world.gather(y.detach().flatten())
    for at, value in zip(every_row, values, strict=True):
        whole[at] = value.view(len(at), *y.shape[1:])
    return whole
