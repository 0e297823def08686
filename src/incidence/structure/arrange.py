r"""The canonical order of the entries of a bucket, in which those on the same node set stand side by side.

The operations that match all nodes connect just these. Which entries a set has is its *mask*: their words, read along the nodes of its
first entry (reading them along ascending nodes instead would tell (4, 7) from (7, 4), and give two masks for single directed edges
where one will do). Sets with the same mask stand together, by ascending nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from incidence.algebra.words import Word
from incidence.structure.entries import Bucket
from incidence.structure.ragged import LIMIT, ascend, code, expand, ranges, rank, sort_few

__all__ = ["Arranged", "DuplicateError", "Mask", "arrange"]

Mask = tuple[Word, ...]

_BITS = 60  # of an integer, to spare


class DuplicateError(Exception):
    """Two rows of a bucket denote one entry."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(one, other)
        self.rows = sorted((one, other))


@dataclass(frozen=True)
class Arranged:
    """A bucket, and the canonical order of its entries.

    Attributes:
        bucket: The entries as they are given.
        order: Their places in the bucket in canonical order, shape (entries,).
        masks: The different masks, each the words of the entries of a set in their order.
        num_sets: How many node sets have each mask.
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
    def is_single(self) -> bool:
        """Whether every entry is alone on its node set, so that no order is better than another."""
        return len(self.masks) == 1 and len(self.masks[0]) == 1


def arrange(bucket: Bucket, num_nodes: int) -> Arranged:
    """Finds the canonical order of a bucket.

    Raises:
        DuplicateError: Two rows denote one entry.
    """
    count, size = bucket.nodes.shape
    if size == 0:
        return _alone(bucket, torch.arange(count, device=bucket.nodes.device))
    key, bits = _keys(bucket, num_nodes)
    key, order = _in_order(key)
    change = key[1:] ^ key[:-1]
    if not change.all():
        spot = int((change == 0).nonzero()[0])
        raise DuplicateError(int(bucket.rows[order[spot]]), int(bucket.rows[order[spot + 1]]))
    is_first = torch.ones_like(key, dtype=torch.bool)
    torch.ge(change, 1 << bits, out=is_first[1:])
    if bits == 0 or is_first.all():
        return _alone(bucket, order)
    which, num_words = key & ((1 << bits) - 1), 1 << bits
    if num_words > _BITS:
        which, num_words = rank(which)
    return _by_mask(bucket, order, *_kinds(which, num_words, is_first), is_first)


def _in_order(key: Tensor) -> tuple[Tensor, Tensor]:
    """Keys in ascending order, and where they stood. Entries are often in order already, which one comparison tells."""
    if (key[1:] > key[:-1]).all():
        return key, torch.arange(len(key), device=key.device)
    return key.sort(stable=True)


def _alone(bucket: Bucket, order: Tensor) -> Arranged:
    """Every entry is alone on its node set."""
    return Arranged(bucket, order, ((bucket.labels,),), (len(order),))


def _keys(bucket: Bucket, num_nodes: int) -> tuple[Tensor, int]:
    """A number for every entry, by its nodes in ascending order and then by its word; and how many of its last bits are the word.

    Nodes are put in order with their classes as last bits. With one class an entry is its node set, and its nodes ascend already.
    """
    nodes, size = bucket.nodes, bucket.nodes.shape[1]
    if sum(s > 0 for s in bucket.sizes) == 1:
        return code(nodes.unbind(1), [num_nodes] * size)[0], 0
    width = (len(bucket.sizes) - 1).bit_length()
    if num_nodes << width >= LIMIT:
        nodes, num_nodes = rank(nodes)
    tagged = ascend(
        [
            (column << width).bitwise_or_(label)
            for column, label in zip(nodes.unbind(1), bucket.labels, strict=True)
        ]
    )
    sets, num_sets = code([column >> width for column in tagged], [num_nodes] * size)
    letters = [
        column & ((1 << width) - 1) for column in tagged[:-1]
    ]  # the last one is known from the others
    word, num_words = code(letters, [1 << width] * (size - 1))
    if (
        num_sets << (num_words - 1).bit_length() >= LIMIT
    ):  # both are ranked before they are put together: the last bits stay the word
        (sets, _), (word, num_words) = rank(sets), rank(word)
    bits = (num_words - 1).bit_length()
    return (sets << bits) | word, bits


def _by_mask(
    bucket: Bucket, order: Tensor, kind: Tensor, num_kinds: int, is_first: Tensor
) -> Arranged:
    """Puts sets with the same mask side by side.

    The mask of a set and the order of its entries depend on nothing but its kind, so both are found for one set of each.

    Args:
        bucket: The entries.
        order: Their places by ascending nodes, then by word, shape (entries,).
        kind: The kind of every set in this order, shape (sets,).
        num_kinds: How many kinds there are.
        is_first: Whether each entry is the first of its set, in this order, shape (entries,).
    """
    starts = is_first.nonzero()[:, 0]
    sizes = starts.diff(append=starts.new_full((1,), len(order)))
    example = torch.empty(num_kinds, dtype=torch.long, device=kind.device)
    example[kind] = torch.arange(len(kind), device=kind.device)
    found = [_mask(words) for words in _read_words(bucket, order, starts[example], sizes[example])]
    num_sets = dict.fromkeys(sorted(mask for mask, _ in found), 0)
    for (mask, _), count in zip(found, torch.bincount(kind).tolist(), strict=True):
        num_sets[mask] += count
    if len(num_sets) > 1 or any(within != sorted(within) for _, within in found):
        place = {mask: number for number, mask in enumerate(num_sets)}
        sets = sort_few(
            torch.tensor([place[mask] for mask, _ in found], device=kind.device)[kind], len(place)
        )[1]
        order = order[
            _spots(starts[sets], sizes[sets], kind[sets], [within for _, within in found])
        ]
    return Arranged(bucket, order, tuple(num_sets), tuple(num_sets.values()))


def _kinds(which: Tensor, num_words: int, is_first: Tensor) -> tuple[Tensor, int]:
    """A number for the *kind* of every set, its words along ascending nodes: their bits in an integer, some words at a time."""
    number = is_first.cumsum(0).sub_(1)
    kind, num_kinds = torch.zeros_like(number[: int(number[-1]) + 1]), 1
    for start in range(0, num_words, _BITS):
        part = slice(None) if num_words <= _BITS else (which >= start) & (which < start + _BITS)
        held = torch.zeros_like(kind).index_add_(0, number[part], 1 << (which[part] - start))
        kind, num_kinds = rank(code([kind, held], [num_kinds, 1 << _BITS])[0])
    return kind, num_kinds


def _read_words(
    bucket: Bucket, order: Tensor, starts: Tensor, sizes: Tensor
) -> Iterator[list[Word]]:
    """The words along ascending nodes of the entries of some sets, set by set."""
    nodes = bucket.nodes[order[expand(starts, sizes)[1]]]
    words = [
        tuple(word)
        for word in torch.tensor(bucket.labels, device=nodes.device)[nodes.argsort(dim=1)].tolist()
    ]
    for stop, size in zip(accumulate(sizes.tolist()), sizes.tolist(), strict=True):
        yield words[stop - size : stop]


def _mask(words: Sequence[Word]) -> tuple[Mask, list[int]]:
    """The mask of a set with these words along ascending nodes, and the order of its entries.

    Nodes ascend within each class, so those of the first entry are the nodes by class.
    """
    along = sorted(range(len(words[0])), key=words[0].__getitem__)
    relative = [tuple(word[place] for place in along) for word in words]
    order = sorted(range(len(words)), key=relative.__getitem__)
    return tuple(relative[k] for k in order), order


def _spots(
    starts: Tensor, sizes: Tensor, kind: Tensor, order_within: Sequence[Sequence[int]]
) -> Tensor:
    """Where the entries of sets stand, from where each set starts, and for every kind of set the order within."""
    listed = torch.tensor([k for order in order_within for k in order], device=starts.device)
    first = ranges(torch.tensor([len(order) for order in order_within], device=starts.device))
    which, at = expand(first[kind], sizes)
    return starts[which] + listed[at]
