"""Structures from structures: other labels, fewer nodes, fewer entries, more tensors.

`Edits` has the methods of `Structure` that do this. Every one returns a new structure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.arguments import as_entry_mask, as_entry_rows, as_labels, as_nodes
from incidence.structure.arrange import arranged, orientations, share_arranged
from incidence.structure.data import IndexData, StructureData, entry_ptr_of
from incidence.structure.entries import Bucket, buckets, count_entries
from incidence.structure.ragged import no_entries, rank_rows
from incidence.structure.validate import as_index, as_tensors, assert_entries, assert_names

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Edits", "Rows", "add_tensors", "rename"]

S = TypeVar("S", bound=StructureData)

Rows = dict[Pattern | str, Tensor]
"""The rows that are left of tensors that lost entries, and of sorts that lost nodes."""


class Edits(StructureData):
    """The methods of a structure that return a changed structure, or compare two structures."""

    def canonical(self) -> tuple[Self, dict[str, Tensor]]:
        """Return the structure in the preferred order of entries, and the rows to permute by.

        Features follow by `x[rows]`; they come back by `y.new_empty(y.shape).index_copy(0, rows,
        y)`. In a batch the entries of every structure stay together.

        Returns:
            The structure, and for each tensor the rows of its entries in the new order.
        """
        orders = {pattern: self._canonical_order(pattern) for pattern in self.patterns}
        moved = {p: _take_entries(p, parts, orders[p]) for p, parts in self._index.items()}
        rows = {p.name or str(p): order for p, order in orders.items()}
        return self._with(moved, self._entry_ptr), rows

    def _canonical_order(self, pattern: Pattern) -> Tensor:
        parts = [part.rows for part in arranged(self, pattern)]
        rows = torch.cat(parts) if parts else no_entries(1, self.device)[0]
        if self.num_structures == 1:
            return rows
        return rows[self.batch(pattern)[rows].sort(stable=True)[1]]  # structure by structure

    @overload
    def locate(
        self, text: str | Pattern, query: object, *, with_sign: Literal[False] = ...
    ) -> Tensor: ...
    @overload
    def locate(
        self, text: str | Pattern, query: object, *, with_sign: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...
    def locate(
        self, text: str | Pattern, query: object, *, with_sign: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return the rows of given entries; -1 for an absent entry.

        Oriented faces are located whatever their orientation.

        Args:
            text: The tensor.
            query: The entries, as an index of the pattern.
            with_sign: Whether to return signs, too: 1 for an entry with the orientation of the
                query, -1 for the opposite one, 0 for an absent entry. The value for the query is
                the sign times the value at the row.

        Example:
            >>> from incidence import Structure
            >>> s = Structure(3, {"<i j>": [[0, 2], [1, 1]]})
            >>> s.locate("<i j>", [[0, 1, 0], [1, 2, 2]], with_sign=True)
            (tensor([ 0,  1, -1]), tensor([ 1, -1,  0]))
        """
        stored = self.resolve(text)
        is_name = isinstance(text, str) and stored.name == text.strip()
        pattern = stored if is_name else Pattern(text)
        index = as_index(pattern, query, self.device)
        assert_entries(pattern, index, self.counts)
        num_nodes = max(self.total_nodes, 1)
        rows = torch.full((count_entries(pattern, index),), -1, device=self.device)  # (queries,)
        signs = torch.ones_like(rows)
        known = {part.bucket.kind: part.bucket for part in arranged(self, stored)}
        for bucket in buckets(pattern, index, self._node_offsets, num_nodes):
            same_kind = known.get(bucket.kind)
            # Entries of other orbits or sizes cannot be equal.
            if same_kind is not None:
                rows[bucket.rows] = _match(bucket, same_kind, num_nodes)
            if bucket.signs is not None:
                signs[bucket.rows] = bucket.signs.long()
        if not with_sign:
            return rows
        is_present = rows >= 0
        # relative to the stored orientation
        signs[is_present] *= orientations(self, stored)[rows[is_present]]
        return rows, signs * is_present  # 0 for an absent entry

    def with_index(self, index: Mapping[str, object]) -> Self:
        """Return a structure with the same nodes and further tensors, or other entries of tensors.

        Raises:
            IncidenceError: The index does not fit, or this is a batch.
        """
        if self.num_structures != 1:
            raise IncidenceError(
                "with_index is for one structure: change the structures first, then collate them."
            )
        new = as_tensors(index, self.device)
        for pattern, parts in new.items():
            self._assert_sorts(pattern)
            assert_entries(pattern, parts, self.counts)
        # Names must differ from those of the tensors that stay.
        others = [pattern for pattern in self.patterns if pattern not in new]
        assert_names([*others, *new], "is another pattern here already")
        ptr = {p: self._single_ptr(count_entries(p, parts)) for p, parts in new.items()}
        joined = add_tensors(self, new, ptr)
        for pattern in new:
            arranged(joined, pattern)  # raises if an entry occurs twice
        return joined

    def _single_ptr(self, count: int) -> Tensor:
        """Return the pointers of a single structure with so many nodes or entries."""
        return torch.tensor([0, count], device=self.device)

    def only(self, tensors: Iterable[str | Pattern]) -> Self:
        """Return the structure with the nodes, and some of the tensors.

        Args:
            tensors: Their texts or names.

        Example:
            >>> from incidence.structure import Structure
            >>> s = Structure(3, {"{i j}": [[0, 1], [1, 2]], "{i j k}": [[0], [1], [2]]})
            >>> s.only(["{i j}"])
            Structure(num_nodes=3, '{i j}': 2 entries)
        """
        chosen = {self.resolve(text) for text in tensors}
        index = {p: parts for p, parts in self._index.items() if p in chosen}
        entry_ptr = {p: ptr for p, ptr in self._entry_ptr.items() if p in chosen}
        return self._of(self._node_ptr, index, entry_ptr)

    def relabel(self, permutation: object) -> Self:
        """Return the structure with node v called permutation[v].

        Args:
            permutation: The new number of every node; with sorts, a mapping from sort.
        """
        maps = as_labels(self, permutation, "relabel")
        for sort, new in maps.items() if self.num_structures > 1 else ():
            # The structure in which every node would be.
            home = torch.bucketize(new, self._node_ptr[sort][1:], right=True)
            if bool((home.diff() < 0).any()):
                raise IncidenceError("relabel must keep every node of a batch in its structure.")
        index = {p: rename(p, parts, maps) for p, parts in self._index.items()}
        return self._with(index, self._entry_ptr)

    def induced(self, nodes: object) -> Self:
        """Return the entries that have only some of the nodes, which get new numbers.

        Args:
            nodes: The nodes to keep, in their new order: numbers or a mask; with sorts, a mapping
                from sort. Sorts that are not given keep all nodes.
        """
        return self._induced_with_rows(nodes)[0]

    def _induced_with_rows(self, nodes: object) -> tuple[Self, Rows]:
        if self.num_structures != 1:
            raise IncidenceError(
                "induced is for one structure: index the batch first, as in"
                " batch[0].induced(nodes)."
            )
        device = self.device
        rows: Rows = {sort: torch.arange(n, device=device) for sort, n in self.counts.items()}
        maps = {sort: rows[sort] for sort in self.counts}  # from old numbers to new ones, or -1
        for sort, chosen in as_nodes(self, nodes, "induced").items():
            maps[sort] = torch.full_like(rows[sort], -1)
            maps[sort][chosen] = torch.arange(len(chosen), device=device)
            rows[sort] = chosen  # old numbers of the nodes that stay, in the order of the caller
        index, entry_ptr = {}, {}
        for pattern, parts in self._index.items():
            letters, *members = moved = rename(pattern, parts, maps)
            # An entry stays if none of its nodes is gone, in letters or in open faces.
            is_left = torch.ones(count_entries(pattern, parts), dtype=torch.bool, device=device)
            if pattern.fixed_letters:
                is_left &= (letters >= 0).all(0)
            for nodes_of_face, entries in members:
                is_left[entries[nodes_of_face < 0]] = False
            rows[pattern] = is_left.nonzero()[:, 0]
            index[pattern] = _take_entries(pattern, moved, rows[pattern])
            entry_ptr[pattern] = self._single_ptr(len(rows[pattern]))
        node_ptr = {sort: self._single_ptr(len(rows[sort])) for sort in self.counts}
        return self._of(node_ptr, index, entry_ptr), rows

    def select(self, text: str | Pattern, which: object) -> Self:
        """Return the structure with only some entries of one tensor.

        Args:
            text: The tensor.
            which: A mask of its entries, or row numbers in their new order.
        """
        return self._select_with_rows(text, which)[0]

    def _select_with_rows(self, text: str | Pattern, which: object) -> tuple[Self, Rows]:
        pattern = self.resolve(text)
        if pattern not in self._index:
            raise IncidenceError(
                f"`{pattern}` has no index here: all its entries are present. Use `induced` to drop"
                " nodes."
            )
        rows = as_entry_rows(self, pattern, which, "select")
        if bool((self.batch(pattern)[rows].diff() < 0).any()):
            raise IncidenceError(
                "select must keep the entries of a batch in the order of its structures."
            )
        return self._with_entries(pattern, rows), {pattern: rows}

    def masked(self, text: str | Pattern, keep: object, name: str | None = None) -> Self:
        """Return the structure with only the entries of one tensor that a mask keeps.

        Args:
            text: The tensor; a lone node pattern may be masked too.
            keep: True for every entry to keep, shape [entries]; for example from features.
            name: If given, the tensor stays as it is, and the entries to keep become a further
                tensor of that name.
        """
        pattern = self.resolve(text)
        mask = as_entry_mask(self, pattern, keep)  # (entries,)
        if not pattern.faces:
            raise IncidenceError(
                "the empty pattern has one entry for each structure, which cannot be masked."
            )
        if name is not None and any(p.name == name for p in self.patterns):
            raise IncidenceError(
                f"there is a tensor `{name}` already: give the masked one another name."
            )
        return self._with_entries(pattern, mask.nonzero()[:, 0], name)

    def _with_entries(self, pattern: Pattern, rows: Tensor, name: str | None = None) -> Self:
        """Put some entries of a tensor in its place, or add them as a tensor with a name."""
        spelt = self._as_spelt(pattern)
        new = spelt if name is None else Pattern(f"{name}={spelt.unnamed()}")
        ptr = entry_ptr_of(self.batch(pattern)[rows], self.num_structures)
        index = {**self._index, new: _take_entries(spelt, self._stored(spelt), rows)}
        return self._with(index, {**self._entry_ptr, new: ptr})

    def reverse(self, text: str | Pattern, which: object = None) -> tuple[Self, Tensor]:
        """Reverse the reference orientation of some entries.

        Features follow by `signs[:, None] * x`.

        Args:
            text: The tensor. The text must leave the orientation of its entries open, as `<i j>`
                does; in `i <i j>` the node settles it.
            which: A mask or row numbers; all entries, if not given.

        Returns:
            The new structure, and for each entry -1 if it was reversed and else 1.

        Example:
            >>> from incidence import Structure
            >>> s = Structure(3, {"<i j>": [[0, 2], [1, 1]]})
            >>> reversed_structure, signs = s.reverse("<i j>", [1])
            >>> reversed_structure["<i j>"].tolist(), signs.tolist()
            ([[0, 1], [1, 2]], [1, -1])
        """
        pattern = self._as_spelt(self.resolve(text))
        if pattern.odd_pair is None:
            reason = "it has no oriented face"
            if pattern.is_oriented:
                reason = "its text settles the orientation of every entry"
            raise IncidenceError(f"reverse: `{pattern}` has no orientation to choose, as {reason}.")
        rows = torch.arange(self.num_entries(pattern), device=self.device)
        signs = torch.ones_like(rows)
        if which is not None:
            rows = as_entry_rows(self, pattern, which, "reverse")
        signs[rows] = -1
        letters, *members = self._index[pattern]
        one, other = map(pattern.fixed_letters.index, pattern.odd_pair)
        # Exchanging two nodes of the oriented face reverses the entry and changes nothing else.
        swapped = letters.clone()
        swapped[one, rows], swapped[other, rows] = letters[other, rows], letters[one, rows]
        index = {**self._index, pattern: (swapped, *members)}
        return self._with(index, self._entry_ptr), signs

    def __eq__(self, other: object) -> bool:
        """Return whether sizes, tensors and entries agree, entries in order.

        Two assignments of one entry are equal.
        """
        if not isinstance(other, StructureData):
            return NotImplemented
        if self.device != other.device or set(self._index) != set(other._index):
            return False
        return (
            _same_tensors(self._node_ptr, other._node_ptr)
            and _same_tensors(self._entry_ptr, other._entry_ptr)
            and all(_same_entries(self, other, pattern) for pattern in self._index)
        )

    __hash__ = None  # type: ignore[assignment]


def _take_entries(pattern: Pattern, parts: tuple[Tensor, ...], order: Tensor) -> tuple[Tensor, ...]:
    """Return the index of some entries, in a given order."""
    letters, *members = parts
    if pattern.fixed_letters or not pattern.is_open:
        letters = letters[:, order]
    taken = []
    if members:
        new = torch.full((count_entries(pattern, parts),), -1, device=order.device)
        new[order] = torch.arange(len(order), device=order.device)
    for nodes, entries in members:
        moved = torch.stack([nodes, new[entries]])[:, new[entries] >= 0]
        # Incidences stand by entry; the stable sort keeps the order of the nodes in each.
        taken.append(moved[:, moved[1].sort(stable=True)[1]])
    return letters, *taken


def rename(
    pattern: Pattern, parts: tuple[Tensor, ...], maps: Mapping[str, Tensor]
) -> tuple[Tensor, ...]:
    """Return an index with node v of every sort called maps[sort][v]."""
    letters, *members = parts
    rows = [
        maps[pattern.sorts[name]][letters[row]] for row, name in enumerate(pattern.fixed_letters)
    ]
    if rows:
        letters = torch.stack(rows)
    faces = (face for face in pattern.faces if face.is_open)
    renamed = [
        torch.stack([maps[face.letters[0].sort][nodes], entries])
        for face, (nodes, entries) in zip(faces, members, strict=True)
    ]
    return letters, *renamed


def add_tensors(structure: S, index: IndexData, entry_ptr: Mapping[Pattern, Tensor]) -> S:
    """Return a structure with the same nodes and further tensors, or other entries, unchecked."""
    others = [p for p in structure.patterns if p not in index]
    joined = structure._with(
        {**{p: structure._index[p] for p in others}, **index},
        {**{p: structure._entry_ptr[p] for p in others}, **entry_ptr},
    )
    # The other tensors need no second sort.
    share_arranged(joined, structure, others)
    return joined


def _match(queried: Bucket, known: Bucket, num_nodes: int) -> Tensor:
    """Return the rows of the entries of a bucket in another one, -1 for those it lacks."""
    columns = torch.cat([known.nodes, queried.nodes]).unbind(1)  # of all entries
    if not columns:
        return known.rows[:1].expand(len(queried.rows))
    # Equal entries get equal ranks, so a table of rows by rank answers all queries at once.
    ranks, count = rank_rows(columns, [num_nodes] * len(columns))
    row_at = torch.full((count,), -1, device=known.rows.device)  # from rank to row, shape (ranks,)
    row_at[ranks[: len(known.rows)]] = known.rows
    return row_at[ranks[len(known.rows) :]]


def _same_tensors(ours: Mapping[Any, Tensor], theirs: Mapping[Any, Tensor]) -> bool:
    if ours.keys() != theirs.keys():
        return False
    return all(torch.equal(tensor, theirs[key]) for key, tensor in ours.items())


def _same_entries(one: StructureData, other: StructureData, pattern: Pattern) -> bool:
    ours, theirs = arranged(one, pattern), arranged(other, pattern)
    if len(ours) != len(theirs):
        return False
    for a, b in zip(ours, theirs, strict=True):
        if a.bucket.kind != b.bucket.kind or not torch.equal(a.rows, b.rows):
            return False
        if not torch.equal(a.nodes, b.nodes):
            return False
    return torch.equal(orientations(one, pattern), orientations(other, pattern))
