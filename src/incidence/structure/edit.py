"""Structures from structures: other labels, fewer nodes, fewer entries, more tensors."""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import repr as shortened
from typing import Any, TypeVar

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.data import (
    IndexData,
    StructureData,
    arranged,
    entry_ptr_of,
    keep_arranged,
    orientations,
)
from incidence.structure.entries import Bucket, buckets, count_entries
from incidence.structure.ragged import code, no_entries, rank
from incidence.structure.validate import as_index, as_rows, as_tensors, assert_entries, assert_names

__all__ = [
    "Rows",
    "add_tensors",
    "as_labels",
    "as_mask",
    "as_nodes",
    "canonical",
    "induced",
    "is_equal",
    "locate",
    "masked",
    "relabel",
    "rename",
    "reverse",
    "select",
    "with_index",
]

S = TypeVar("S", bound=StructureData)

Rows = dict[Pattern | str, Tensor]
"""For tensors that lost entries, and for sorts that lost nodes, the rows that are left, in order."""


def canonical(structure: S) -> tuple[S, dict[str, Tensor]]:
    """The same structure in the preferred order of entries, and for each tensor the rows to permute features with."""
    orders = {}
    for p in structure.patterns:
        rows = torch.cat(
            [found.rows for found in arranged(structure, p)] or [no_entries(1, structure.device)[0]]
        )
        orders[p] = (
            rows
            if structure.num_structures == 1
            else rows[structure.batch(p)[rows].sort(stable=True)[1]]
        )
    moved = {p: _permute_entries(p, parts, orders[p]) for p, parts in structure._index.items()}
    return structure._with(moved, structure._entry_ptr), {
        p.name or str(p): rows for p, rows in orders.items()
    }


def _permute_entries(
    pattern: Pattern, parts: tuple[Tensor, ...], order: Tensor
) -> tuple[Tensor, ...]:
    """Takes entries in another order, or some of them."""
    new = torch.full((count_entries(pattern, parts),), -1, dtype=torch.long, device=order.device)
    new[order] = torch.arange(len(order), device=order.device)
    letters = parts[0][:, order] if pattern.fixed_letters or not pattern.is_open else parts[0]
    moved = [
        torch.stack([members[0], new[members[1]]])[:, new[members[1]] >= 0] for members in parts[1:]
    ]
    return letters, *(members[:, members[1].sort(stable=True)[1]] for members in moved)


def locate(structure: StructureData, text: str | Pattern, query: object) -> tuple[Tensor, Tensor]:
    """The rows of given entries, -1 where an entry is absent; and whether they have the orientation asked for: 1, -1, or 0 for none."""
    found = structure.resolve(text)
    pattern = found if isinstance(text, str) and found.name == text.strip() else Pattern(text)
    asked = as_index(pattern, query, structure.device)
    assert_entries(pattern, asked, structure.counts)
    offsets, total = structure._node_offsets, max(structure.total_nodes, 1)
    rows = torch.full(
        (count_entries(pattern, asked),), -1, dtype=torch.long, device=structure.device
    )
    signs = torch.ones_like(rows)
    known = {(a.bucket.orbit, a.bucket.sizes): a.bucket for a in arranged(structure, found)}
    for bucket in buckets(pattern, asked, offsets, total):
        own = known.get((bucket.orbit, bucket.sizes))
        if own is not None:
            rows[bucket.rows] = _match(bucket, own, total)
        if bucket.signs is not None:
            signs[bucket.rows] = bucket.signs.long()
    is_there = rows >= 0
    signs[is_there] *= orientations(structure, found)[rows[is_there]]
    return rows, signs * is_there


def _match(asked: Bucket, known: Bucket, num_nodes: int) -> Tensor:
    columns = torch.cat([known.nodes, asked.nodes]).unbind(1)
    if not columns:
        return known.rows[:1].expand(len(asked.rows))
    ranks, count = rank(code(columns, [num_nodes] * len(columns))[0])
    row_at = torch.full((count,), -1, dtype=torch.long, device=known.rows.device)
    row_at[ranks[: len(known.rows)]] = known.rows
    return row_at[ranks[len(known.rows) :]]


def with_index(structure: S, index: Mapping[str, object]) -> S:
    """The same nodes with further tensors, or other entries for those given; one structure only."""
    if structure.num_structures != 1:
        raise IncidenceError(
            "with_index is for one structure: change the structures first, then collate them."
        )
    new = as_tensors(index, structure.device)
    for pattern, parts in new.items():
        structure._assert_sorts(pattern)
        assert_entries(pattern, parts, structure.counts)
    assert_names(
        [*(p for p in structure.patterns if p not in new), *new], "is another pattern here already"
    )
    ptr = {
        p: torch.tensor([0, count_entries(p, parts)], device=structure.device)
        for p, parts in new.items()
    }
    joined = add_tensors(structure, new, ptr)
    for pattern in new:
        arranged(joined, pattern)  # finds duplicates
    return joined


def add_tensors(structure: S, index: IndexData, entry_ptr: Mapping[Pattern, Tensor]) -> S:
    """The same nodes with further tensors, or other entries for those given, which are known to be right."""
    kept = [p for p in structure.patterns if p not in index]
    joined = structure._with(
        {**{p: structure._index[p] for p in kept}, **index},
        {**{p: structure._entry_ptr[p] for p in kept}, **entry_ptr},
    )
    keep_arranged(joined, structure, kept)
    return joined


def _per_sort(structure: StructureData, value: Any, what: str) -> dict[str, Tensor]:
    given = value if isinstance(value, Mapping) else {"node": value}
    unknown = [sort for sort in given if sort not in structure.counts]
    if unknown:
        known = ", ".join(structure.counts)
        raise IncidenceError(
            f"{what}: no nodes of sort `{unknown[0]}` here; there are: {known}. Give a mapping from sort."
        )
    return {sort: as_rows(v, structure.device) for sort, v in given.items()}


def as_labels(structure: StructureData, permutation: Any, what: str) -> dict[str, Tensor]:
    """A permutation of the nodes of every sort; those of sorts that are left out stay as they are."""
    maps = {sort: torch.arange(n, device=structure.device) for sort, n in structure.counts.items()}
    for sort, new in _per_sort(structure, permutation, what).items():
        if (
            new.is_floating_point()
            or new.dtype == torch.bool
            or not torch.equal(new.long().sort()[0], maps[sort])
        ):
            count, came = len(maps[sort]), shortened(permutation)
            raise IncidenceError(
                f"{what}: give a permutation of the {count} nodes of sort `{sort}`, each of 0 to {count - 1} once; got {came}."
            )
        maps[sort] = new.long()
    return maps


def relabel(structure: S, permutation: Any) -> S:
    """The same structure with node v called permutation[v]."""
    maps = as_labels(structure, permutation, "relabel")
    for sort, new in maps.items() if structure.num_structures > 1 else ():
        home = torch.bucketize(new, structure._node_ptr[sort][1:], right=True)
        if bool((home.diff() < 0).any()):
            raise IncidenceError("relabel must keep every node of a batch in its structure.")
    return structure._with(
        {p: rename(p, parts, maps) for p, parts in structure._index.items()}, structure._entry_ptr
    )


def rename(
    pattern: Pattern, parts: tuple[Tensor, ...], maps: Mapping[str, Tensor]
) -> tuple[Tensor, ...]:
    """An index with node v of every sort called maps[sort][v]."""
    rows = [
        maps[pattern.sorts[name]][parts[0][row]] for row, name in enumerate(pattern.fixed_letters)
    ]
    letters = torch.stack(rows) if rows else parts[0]
    faces = [face for face in pattern.faces if face.is_open]
    members = [
        torch.stack([maps[f.letters[0].sort][m[0]], m[1]])
        for f, m in zip(faces, parts[1:], strict=True)
    ]
    return letters, *members


def as_nodes(structure: StructureData, nodes: Any, what: str) -> dict[str, Tensor]:
    """Different nodes of some sorts by their numbers, from numbers or masks."""
    found = {}
    for sort, which in _per_sort(structure, nodes, what).items():
        kept, count = (
            which.nonzero()[:, 0] if which.dtype == torch.bool else which,
            structure.counts[sort],
        )
        if which.is_floating_point() or (which.dtype == torch.bool and which.shape != (count,)):
            raise IncidenceError(
                f"{what} needs node numbers, or a mask of the {count} nodes of sort `{sort}`."
            )
        if kept.numel() and (
            int(kept.min()) < 0 or int(kept.max()) >= count or len(kept.unique()) < len(kept)
        ):
            raise IncidenceError(
                f"{what} needs different nodes of 0 to {count - 1} of sort `{sort}`."
            )
        found[sort] = kept.long()
    return found


def induced(structure: S, nodes: Any) -> tuple[S, Rows]:
    """The entries all of whose nodes are kept, over those nodes numbered anew, and which rows these were; one structure only."""
    if structure.num_structures != 1:
        raise IncidenceError(
            "induced is for one structure: index the batch first, as in batch[0].induced(nodes)."
        )
    rows: Rows = {
        sort: torch.arange(n, device=structure.device) for sort, n in structure.counts.items()
    }
    maps, counts = {sort: rows[sort] for sort in structure.counts}, dict(structure.counts)
    for sort, kept in as_nodes(structure, nodes, "induced").items():
        maps[sort] = torch.full((counts[sort],), -1, dtype=torch.long, device=structure.device)
        maps[sort][kept] = torch.arange(len(kept), device=structure.device)
        counts[sort], rows[sort] = len(kept), kept
    index, entry_ptr = {}, {}
    for pattern, parts in structure._index.items():
        moved = rename(pattern, parts, maps)
        is_kept = torch.ones(
            count_entries(pattern, parts), dtype=torch.bool, device=structure.device
        )
        if pattern.fixed_letters:
            is_kept &= (moved[0] >= 0).all(0)
        for members in moved[1:]:
            is_kept[members[1, members[0] < 0]] = False
        rows[pattern] = is_kept.nonzero()[:, 0]
        index[pattern] = _permute_entries(pattern, moved, rows[pattern])
        entry_ptr[pattern] = torch.tensor([0, len(rows[pattern])], device=structure.device)
    node_ptr = {sort: torch.tensor([0, n], device=structure.device) for sort, n in counts.items()}
    return structure._of(node_ptr, index, entry_ptr), rows


def select(structure: S, text: str | Pattern, which: Any) -> tuple[S, Rows]:
    """The same structure with only some entries of one tensor, in the given order, and which rows these were."""
    pattern = structure.resolve(text)
    if pattern not in structure._index:
        raise IncidenceError(
            f"`{pattern}` has no index here: all its entries are present. Use `induced` to drop nodes."
        )
    rows = _rows_of(structure, pattern, which, "select")
    home = structure.batch(pattern)[rows]
    if bool((home.diff() < 0).any()):
        raise IncidenceError(
            "select must keep the entries of a batch in the order of its structures."
        )
    return _with_rows(structure, pattern, rows), {pattern: rows.long()}


def _rows_of(structure: StructureData, pattern: Pattern, which: Any, what: str) -> Tensor:
    """Different rows of a tensor, from a mask or numbers."""
    count = structure.num_entries(pattern)
    rows = as_rows(which, structure.device)
    if rows.dtype == torch.bool:
        if rows.shape != (count,):
            raise IncidenceError(
                f"{what} needs a mask of the {count} entries of `{pattern}`; got shape {list(rows.shape)}."
            )
        rows = rows.nonzero()[:, 0]
    is_bad = rows.is_floating_point() or rows.ndim != 1
    if is_bad or (
        rows.numel()
        and (int(rows.min()) < 0 or int(rows.max()) >= count or len(rows.unique()) < len(rows))
    ):
        raise IncidenceError(
            f"{what} needs a mask, or different rows of 0 to {count - 1}, of `{pattern}`."
        )
    return rows


def reverse(structure: S, text: str | Pattern, which: Any = None) -> tuple[S, Tensor]:
    """The same structure with the reference orientation of some entries reversed, and the signs that features get by it."""
    pattern = structure._as_spelt(structure.resolve(text))
    if pattern.odd_pair is None:
        settled = (
            "its text settles the orientation of every entry"
            if pattern.is_oriented
            else "it has no oriented face"
        )
        raise IncidenceError(f"reverse: `{pattern}` has no orientation to choose, as {settled}.")
    signs = torch.ones(structure.num_entries(pattern), dtype=torch.long, device=structure.device)
    rows = (
        torch.arange(len(signs), device=structure.device)
        if which is None
        else _rows_of(structure, pattern, which, "reverse")
    )
    signs[rows] = -1
    letters, *members = structure._index[pattern]
    one, other = map(pattern.fixed_letters.index, pattern.odd_pair)
    swapped = letters.clone()
    swapped[one, rows], swapped[other, rows] = letters[other, rows], letters[one, rows]
    return structure._with(
        {**structure._index, pattern: (swapped, *members)}, structure._entry_ptr
    ), signs


def _with_rows(structure: S, pattern: Pattern, rows: Tensor, name: str | None = None) -> S:
    """Some entries of a tensor in its place, or as a further tensor with a name."""
    spelt = structure._as_spelt(pattern)
    new = spelt if name is None else Pattern(f"{name}={spelt.unnamed()}")
    ptr = entry_ptr_of(structure.batch(pattern)[rows], structure.num_structures)
    index = {**structure._index, new: _permute_entries(spelt, structure._stored(spelt), rows)}
    return structure._with(index, {**structure._entry_ptr, new: ptr})


def as_mask(structure: StructureData, pattern: Pattern, keep: Any) -> Tensor:
    """A mask of the entries of a tensor, from a boolean tensor or a list."""
    mask, count = as_rows(keep, structure.device), structure.num_entries(pattern)
    if mask.dtype != torch.bool or mask.shape != (count,):
        came = (
            f"{keep.dtype} of shape {list(keep.shape)}"
            if hasattr(keep, "dtype") and hasattr(keep, "shape")
            else shortened(keep)
        )
        raise IncidenceError(
            f"masked needs a mask of the {count} entries of `{pattern}`, True for those to keep; got {came}."
        )
    return mask


def masked(structure: S, text: str | Pattern, keep: Any, name: str | None = None) -> S:
    """The same structure with only the entries of one tensor that a mask keeps; or with these as a further tensor, if it gets a name."""
    pattern = structure.resolve(text)
    mask = as_mask(structure, pattern, keep)
    if not pattern.faces:
        raise IncidenceError(
            "the empty pattern has one entry for each structure, which cannot be masked."
        )
    if name is not None and any(p.name == name for p in structure.patterns):
        raise IncidenceError(
            f"there is a tensor `{name}` already: give the masked one another name."
        )
    return _with_rows(structure, pattern, mask.nonzero()[:, 0], name)


def is_equal(one: StructureData, other: StructureData) -> bool:
    """Whether sizes, tensors and entries agree; two assignments of one entry are equal."""
    if (
        set(one._node_ptr) != set(other._node_ptr)
        or set(one._index) != set(other._index)
        or one.device != other.device
    ):
        return False
    if not all(torch.equal(ptr, other._node_ptr[sort]) for sort, ptr in one._node_ptr.items()):
        return False
    return all(
        torch.equal(ptr, other._entry_ptr[p]) and _same_entries(one, other, p)
        for p, ptr in one._entry_ptr.items()
    )


def _same_entries(one: StructureData, other: StructureData, pattern: Pattern) -> bool:
    ours, theirs = arranged(one, pattern), arranged(other, pattern)
    return (
        len(ours) == len(theirs)
        and all(
            (a.bucket.orbit, a.bucket.sizes) == (b.bucket.orbit, b.bucket.sizes)
            and torch.equal(a.rows, b.rows)
            and torch.equal(a.bucket.nodes[a.order], b.bucket.nodes[b.order])
            for a, b in zip(ours, theirs, strict=True)
        )
        and (
            not pattern.is_oriented
            or torch.equal(orientations(one, pattern), orientations(other, pattern))
        )
    )
