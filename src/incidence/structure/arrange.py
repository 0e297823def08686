r"""The canonical order of the entries of a bucket, in which a layer needs no gathering for the nodes that match completely.

Entries on the same node set stand side by side, so that the operations that match all nodes are one product of a block of rows
with one matrix. Which entries a set has is its *mask*: their words, read along the nodes of its first entry (reading them along
ascending nodes instead would tell (4, 7) from (7, 4), and give two masks for single directed edges where one will do). Sets with
the same mask stand together, by ascending nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from incidence.algebra.words import Word
from incidence.structure.entries import Bucket
from incidence.structure.ragged import code, rank

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
    if count == 0 or size == 0 or sum(s > 0 for s in bucket.sizes) == 1:
        return _arrange_sets(bucket, num_nodes)
    labels = torch.tensor(bucket.labels, device=bucket.nodes.device)
    ascending, position = bucket.nodes.sort(dim=1)
    words = labels[position]  # (entries, nodes): the class of every node, in ascending order of nodes
    bases = [len(bucket.sizes)] * size
    sets, bound = code(ascending.unbind(1), [num_nodes] * size)
    word, num_words = code(words.unbind(1), bases)
    key, _ = code([sets, word], [bound, num_words])
    key, order = key.sort()
    _refuse_equal(key, order, bucket)
    sets, words, position = sets[order], words[order], position[order]
    is_first = torch.ones_like(sets, dtype=torch.bool)
    torch.ne(sets[1:], sets[:-1], out=is_first[1:])
    if is_first.all():
        return Arranged(bucket, order, ((bucket.labels,),), (count,))
    number = is_first.cumsum(0) - 1  # which set
    along = position[is_first].argsort(dim=1)[number]  # where each node of the first entry stands among the ascending ones
    relative = words.gather(1, along)
    which, _ = rank(code(relative.unbind(1), bases)[0])
    mask, masks = _read_masks(*_masks(which, number), is_first, relative)
    key, _ = code([mask[number], number, which], [len(masks), len(mask), int(which.max()) + 1])
    num_sets = torch.bincount(mask, minlength=len(masks))
    return Arranged(bucket, order[key.argsort()], masks, tuple(num_sets.tolist()))


def _arrange_sets(bucket: Bucket, num_nodes: int) -> Arranged:
    """One class, or none: an entry is its node set."""
    columns = bucket.nodes.unbind(1)
    key, order = (code(columns, [num_nodes] * len(columns))[0] if columns else torch.zeros_like(bucket.rows)).sort(stable=True)
    if columns:
        _refuse_equal(key, order, bucket)
    return Arranged(bucket, order, ((bucket.labels,),), (len(order),))


def _refuse_equal(key: Tensor, order: Tensor, bucket: Bucket) -> None:
    again = key[1:] == key[:-1]
    if again.any():
        spot = int(again.nonzero()[0])
        raise DuplicateError(int(bucket.rows[order[spot]]), int(bucket.rows[order[spot + 1]]))


def _masks(which: Tensor, number: Tensor) -> tuple[Tensor, int]:
    """A number for the mask of every set: the rank of its set of words, taken as bits of an integer, some at a time."""
    num_sets, num_words = int(number[-1]) + 1, int(which.max()) + 1
    mask, bound = torch.zeros(num_sets, dtype=torch.long, device=which.device), 1
    for start in range(0, num_words, _BITS):
        bits = torch.where((which >= start) & (which < start + _BITS), 1 << (which - start).clamp(0, _BITS), 0)
        part, parts = rank(torch.zeros_like(mask).index_add_(0, number, bits))
        mask, bound = rank(mask * parts + part)
    return mask, bound


def _read_masks(mask: Tensor, num_masks: int, is_first: Tensor, relative: Tensor) -> tuple[Tensor, tuple[Mask, ...]]:
    """The masks in ascending order, each read off one of its sets; and the number of the mask of every set."""
    example = torch.empty(num_masks, dtype=torch.long, device=mask.device)
    example[mask] = torch.arange(len(mask), device=mask.device)
    starts = torch.cat([is_first.nonzero()[:, 0], is_first.new_full((1,), len(is_first), dtype=torch.long)])
    read = [
        tuple(sorted(map(tuple, relative[start:stop].tolist())))
        for start, stop in zip(starts[example].tolist(), starts[example + 1].tolist(), strict=True)
    ]
    ascending = sorted(range(num_masks), key=read.__getitem__)
    place = torch.empty_like(example)
    place[torch.tensor(ascending, device=mask.device)] = torch.arange(num_masks, device=mask.device)
    return place[mask], tuple(read[m] for m in ascending)
