r"""The canonical order of the entries of a tensor, in which entries on one node set stand together.

Operations that match all nodes connect just these entries. The *mask* of a node set says which
entries lie on it: their words, read along the nodes of its first entry. Words along ascending nodes
would tell (4, 7) from (7, 4), and give two masks for single directed edges where one will do. Sets
with the same mask stand together, by ascending nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.algebra.words import Word
from incidence.errors import IncidenceError
from incidence.structure.data import StructureData, cache_of
from incidence.structure.entries import Bucket, buckets
from incidence.structure.ragged import (
    LIMIT,
    ascend,
    code,
    expand,
    no_entries,
    ranges,
    rank,
    rank_rows,
    sort_few,
)

__all__ = [
    "Arranged",
    "DuplicateError",
    "Mask",
    "arrange",
    "arranged",
    "orbit_rows",
    "orientations",
    "share_arranged",
]

Mask = tuple[Word, ...]

_BITS = 60  # of the 63 that an integer has


class DuplicateError(Exception):
    """Two rows of a bucket denote one entry."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(one, other)
        self.rows = sorted((one, other))


@dataclass(frozen=True)
class Arranged:
    """A bucket, and the canonical order of its entries.

    Attributes:
        bucket: The entries in the order of the caller.
        order: Their places in the bucket in canonical order, shape (entries,).
        masks: The different masks, each the words of the entries of a set in their order.
        num_sets: The number of node sets with each mask.
    """

    bucket: Bucket
    order: Tensor
    masks: tuple[Mask, ...]
    num_sets: tuple[int, ...]

    @property
    def rows(self) -> Tensor:
        """The rows of the entries in canonical order, shape (entries,)."""
        return self.bucket.rows[self.order]

    @property
    def nodes(self) -> Tensor:
        """The nodes of the entries in canonical order, shape (entries, nodes)."""
        return self.bucket.nodes[self.order]

    @property
    def is_single(self) -> bool:
        """Whether every entry is alone on its node set, so that no order is better than another."""
        return len(self.masks) == 1 and len(self.masks[0]) == 1


# Training uses cached data later, so it must never consist of inference tensors.
@torch.inference_mode(False)
def arranged(structure: StructureData, text: str | Pattern) -> tuple[Arranged, ...]:
    """Return the entries of a tensor by orbit and class sizes, in canonical order; cached."""
    pattern = structure.resolve(text)
    cache: dict[Pattern, tuple[Arranged, ...]] = cache_of(structure, "arranged")
    if pattern not in cache:
        spelt = structure._as_spelt(pattern)
        num_nodes = max(structure.total_nodes, 1)
        parts = buckets(spelt, structure._stored(spelt), structure._node_offsets, num_nodes)
        try:
            cache[pattern] = tuple(arrange(bucket, num_nodes) for bucket in parts)
        except DuplicateError as error:
            one, other = error.rows
            whatever = ", whatever its orientation" if spelt.is_oriented else ""
            raise IncidenceError(
                f"index['{spelt}']: columns {one} and {other} denote one entry{whatever}. Keep one"
                f" of them (add up their features first); {_kept_apart(spelt)}"
            ) from None
    return cache[pattern]


def _kept_apart(pattern: Pattern) -> str:
    """Return how entries that would be one are written instead."""
    if pattern.is_open:
        return "equal hyperedges are nodes of a sort of their own, as in pattern='i e:edge'."
    advice = "parallel edges are nodes of a sort of their own, as in `(i j) e:edge`."
    if str(pattern) == "{i j}":
        advice += " For edges in both directions use inc.geometry.graph, or the pattern `(i j)`."
    return advice


def share_arranged(
    structure: StructureData, other: StructureData, patterns: Sequence[Pattern]
) -> None:
    """Copy cached arrangements from a structure that has the same entries of some patterns."""
    known = cache_of(other, "arranged")
    cache_of(structure, "arranged").update({p: known[p] for p in patterns if p in known})


@torch.inference_mode(False)
def orbit_rows(structure: StructureData, text: str | Pattern) -> list[Tensor]:
    """Return the rows of every orbit of a tensor, in the order of `Pattern.orbits`."""
    pattern = structure.resolve(text)
    none = no_entries(1, structure.device)[0]
    rows: list[list[Tensor]] = [[none] for _ in pattern.orbits]
    for part in arranged(structure, pattern):
        rows[part.bucket.orbit].append(part.bucket.rows)
    return list(map(torch.cat, rows))


@torch.inference_mode(False)
def orientations(structure: StructureData, text: str | Pattern) -> Tensor:
    """Return the sign of the reference orientation of every entry, relative to the standard one.

    The standard orientation goes class by class, with ascending nodes.
    """
    signs = torch.ones(structure.num_entries(text), dtype=torch.long, device=structure.device)
    for part in arranged(structure, text):
        if part.bucket.signs is not None:
            signs[part.bucket.rows] = part.bucket.signs.long()
    return signs


def arrange(bucket: Bucket, num_nodes: int) -> Arranged:
    """Return a bucket with the canonical order of its entries.

    Raises:
        DuplicateError: Two rows denote one entry.
    """
    count, size = bucket.nodes.shape
    if size == 0:
        return _alone(bucket, torch.arange(count, device=bucket.nodes.device))
    key, bits = _keys(bucket, num_nodes)  # the last bits of a key are its word
    key, order = _in_order(key)
    change = key[1:] ^ key[:-1]
    if not change.all():
        spot = int((change == 0).nonzero()[0])
        one, other = bucket.rows[order[spot : spot + 2]].tolist()
        raise DuplicateError(one, other)
    is_first = torch.ones_like(key, dtype=torch.bool)  # of its node set
    torch.ge(change, 1 << bits, out=is_first[1:])
    if bits == 0 or is_first.all():
        return _alone(bucket, order)
    which, num_words = key & ((1 << bits) - 1), 1 << bits
    if num_words > _BITS:
        which, num_words = rank(which)
    return _by_mask(bucket, order, *_kinds(which, num_words, is_first), is_first)


def _in_order(key: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys in ascending order, and their former places."""
    # Entries are often in order already, and one comparison is faster than a sort.
    if (key[1:] > key[:-1]).all():
        return key, torch.arange(len(key), device=key.device)
    return key.sort(stable=True)


def _alone(bucket: Bucket, order: Tensor) -> Arranged:
    """Return a bucket in which every entry is alone on its node set."""
    return Arranged(bucket, order, ((bucket.labels,),), (len(order),))


def _keys(bucket: Bucket, num_nodes: int) -> tuple[Tensor, int]:
    """Return a number for every entry that sorts by its nodes in ascending order, then by its word.

    Nodes are sorted with their classes as last bits. With one class an entry is its node set, and
    its nodes ascend already.

    Returns:
        The numbers, shape (entries,), and how many of their last bits are the word.
    """
    nodes, size = bucket.nodes, bucket.nodes.shape[1]  # (entries, nodes of each)
    # One class: the word says nothing.
    if sum(s > 0 for s in bucket.sizes) == 1:
        return code(nodes.unbind(1), [num_nodes] * size)[0], 0
    width = (len(bucket.sizes) - 1).bit_length()
    if num_nodes << width >= LIMIT:
        nodes, num_nodes = rank(nodes)
    labelled = zip(nodes.unbind(1), bucket.labels, strict=True)
    tagged = ascend([(column << width).bitwise_or_(label) for column, label in labelled])
    sets, num_sets = code([column >> width for column in tagged], [num_nodes] * size)
    # The last letter of a word follows from the others.
    letters = [column & ((1 << width) - 1) for column in tagged[:-1]]
    word, num_words = code(letters, [1 << width] * (size - 1))
    # Ranking both before they are put together keeps the word in the last bits.
    if num_sets << (num_words - 1).bit_length() >= LIMIT:
        (sets, _), (word, num_words) = rank(sets), rank(word)
    bits = (num_words - 1).bit_length()
    return (sets << bits) | word, bits


def _by_mask(
    bucket: Bucket, order: Tensor, kind: Tensor, num_kinds: int, is_first: Tensor
) -> Arranged:
    """Put sets with the same mask side by side.

    The mask of a set and the order of its entries depend on its kind only, so both are computed for
    one set of each kind.

    Args:
        bucket: The entries.
        order: Their places by ascending nodes, then by word, shape (entries,).
        kind: The kind of every set in this order, shape (sets,).
        num_kinds: The number of kinds.
        is_first: Whether each entry is the first of its set, in this order, shape (entries,).
    """
    starts = is_first.nonzero()[:, 0]  # (sets,)
    sizes = starts.diff(append=starts.new_full((1,), len(order)))
    # One set of each kind; which one does not matter.
    example = torch.empty(num_kinds, dtype=torch.long, device=kind.device)
    example[kind] = torch.arange(len(kind), device=kind.device)
    words = _words_by_set(bucket, order, starts[example], sizes[example])
    masks, orders_within = zip(*map(_mask, words), strict=True)
    num_sets = dict.fromkeys(sorted(masks), 0)
    for mask, count in zip(masks, torch.bincount(kind).tolist(), strict=True):
        num_sets[mask] += count
    # Else the entries are in canonical order already.
    if len(num_sets) > 1 or any(within != sorted(within) for within in orders_within):
        place = {mask: number for number, mask in enumerate(num_sets)}
        mask_of_kind = torch.tensor([place[mask] for mask in masks], device=kind.device)  # (kinds,)
        sets = sort_few(mask_of_kind[kind], len(place))[1]  # the sets by mask
        order = order[_spots(starts[sets], sizes[sets], kind[sets], orders_within)]
    return Arranged(bucket, order, tuple(num_sets), tuple(num_sets.values()))


def _kinds(which: Tensor, num_words: int, is_first: Tensor) -> tuple[Tensor, int]:
    """Return a number for the *kind* of every set, and the number of kinds.

    The kind is the set of its words along ascending nodes. They become bits of an integer, some
    words at a time.
    """
    number = is_first.cumsum(0).sub_(1)  # the set of every entry, shape (entries,)
    kind, num_kinds = torch.zeros_like(number[: int(number[-1]) + 1]), 1
    for start in range(0, num_words, _BITS):
        part = slice(None) if num_words <= _BITS else (which >= start) & (which < start + _BITS)
        bit = 1 << (which[part] - start)
        held = torch.zeros_like(kind).index_add_(0, number[part], bit)  # (sets,)
        kind, num_kinds = rank_rows([kind, held], [num_kinds, 1 << _BITS])
    return kind, num_kinds


def _words_by_set(
    bucket: Bucket, order: Tensor, starts: Tensor, sizes: Tensor
) -> Iterator[list[Word]]:
    """Yield the words along ascending nodes of the entries of some sets, set by set."""
    nodes = bucket.nodes[order[expand(starts, sizes)[1]]]
    labels = torch.tensor(bucket.labels, device=nodes.device)
    words = list(map(tuple, labels[nodes.argsort(dim=1)].tolist()))
    for stop, size in zip(accumulate(sizes.tolist()), sizes.tolist(), strict=True):
        yield words[stop - size : stop]


def _mask(words: Sequence[Word]) -> tuple[Mask, list[int]]:
    """Return the mask of a set and the order of its entries, from words along ascending nodes.

    Nodes ascend within each class, so those of the first entry are the nodes by class.
    """
    along = sorted(range(len(words[0])), key=words[0].__getitem__)
    relative = [tuple(word[place] for place in along) for word in words]
    order = sorted(range(len(words)), key=relative.__getitem__)
    return tuple(relative[k] for k in order), order


def _spots(
    starts: Tensor, sizes: Tensor, kind: Tensor, order_within: Sequence[Sequence[int]]
) -> Tensor:
    """Return the places of the entries of sets.

    Args:
        starts: Where each set starts, shape (sets,).
        sizes: The number of entries of each set, shape (sets,).
        kind: The kind of each set, shape (sets,).
        order_within: The order of the entries in a set of every kind.
    """
    listed = torch.tensor([k for order in order_within for k in order], device=starts.device)
    first = ranges(torch.tensor([len(order) for order in order_within], device=starts.device))
    which, at = expand(first[kind], sizes)
    return starts[which] + listed[at]
