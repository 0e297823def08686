"""The keys of entries: the sets of their nodes at which they meet others.

A *bucket* has the entries of one orbit with as many nodes in each class. So all its entries have
their keys in the same columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, combinations

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.maps import TensorOrbit
from incidence.algebra.orbit import Class
from incidence.algebra.pattern import Pattern
from incidence.algebra.words import Level, words
from incidence.engine.layout import MapLayout, orbits_of
from incidence.engine.shared import SharedKeys, all_shared, shared_keys
from incidence.structure.arrange import Arranged, arranged
from incidence.structure.data import Array, StructureData
from incidence.structure.ragged import code, no_entries, rank

__all__ = ["BucketKeys", "count_by_structure", "keys_of", "number_keys", "shared_at"]

_SPARSE_NODES = 4  # nodes for each place in an entry from which on nodes are ranked


@dataclass(frozen=True)
class BucketKeys:
    """The keys of the entries of a bucket.

    Attributes:
        orbit: The orbit, by the number of the pattern.
        arranged: The entries, and which of them are on one node set.
        home: The structure of every entry, shape (entries,).
        nodes: For every level the nodes of the keys, ascending, shape (entries, keys each, nodes).
        words: The numbers of their words, shape (entries, keys each).
        signs: 1 or -1 for every key of an entry in standard orientation, shape (keys each,).
        numbers: The numbers of the keys, shape (entries, keys each); `number_keys` adds them.
    """

    orbit: TensorOrbit
    arranged: Arranged
    home: Tensor
    nodes: dict[Level, Tensor] = field(default_factory=dict)
    words: dict[Level, Tensor] = field(default_factory=dict)
    signs: dict[Level, Tensor] = field(default_factory=dict)
    numbers: dict[Level, Tensor] = field(default_factory=dict)

    @property
    def rows(self) -> Tensor:
        """The rows of the entries, ascending, shape (entries,)."""
        return self.arranged.bucket.rows

    def keys_each(self, level: Level) -> int:
        """Return how many keys of a level an entry has."""
        return self.words[level].shape[1] if level else 1

    def add_level(self, level: Level, max_overlap: int) -> None:
        """List the keys of a level in every entry."""
        nodes, labels = self.arranged.bucket.nodes, self.arranged.bucket.labels
        device, classes = nodes.device, self.orbit.orbit.classes
        known = words(classes, level, max_overlap)
        # how many nodes of each class a key may have
        kinds = {tuple(sorted(word)) for word in known}
        places = combinations(range(len(labels)), len(level))
        subsets = [s for s in places if tuple(labels[p] for p in s) in kinds]
        # (keys each, nodes of a key)
        chosen = torch.tensor(subsets, dtype=torch.long, device=device).view(-1, len(level))
        keys = nodes[:, chosen]  # (entries, keys each, nodes)
        label = torch.tensor(labels, dtype=torch.long, device=device)[chosen].expand_as(keys)
        # nodes ascend within a class, not across
        if any(len({labels[p] for p in s}) > 1 for s in subsets):
            keys, order = keys.sort(dim=2)
            label = label.gather(2, order)
        which = torch.zeros_like(keys[:, :, 0])
        if len(known) > 1:
            codes = torch.tensor([_number(word, len(classes)) for word in known], device=device)
            # (entries, keys each): the word as a number
            own = code(label.unbind(2), [len(classes)] * len(level))[0]
            # (entries, keys each): the number of the word
            which = torch.searchsorted(codes, own.contiguous())
        sizes = self.arranged.bucket.sizes
        signs = [_sign(sizes, classes, subset) for subset in subsets]
        self.nodes[level], self.words[level] = keys, which
        self.signs[level] = torch.tensor(signs, dtype=torch.int8, device=device)


def _sign(sizes: Sequence[int], classes: Sequence[Class], key: Sequence[int]) -> int:
    """Return the sign by which an entry in standard orientation counts in a key.

    The key is given by columns. The node of an odd class that is left out moves to the front of its
    class.
    """
    columns = zip(classes, accumulate(sizes, initial=0), sizes, strict=False)
    left_out = [
        p - start
        for c, start, size in columns
        if c.is_odd
        for p in range(start, start + size)
        if p not in key
    ]
    return -1 if sum(left_out) % 2 else 1


def _number(word: Sequence[int], base: int) -> int:
    value = 0
    for letter in word:
        value = value * base + letter
    return value


def keys_of(layout: MapLayout, structure: StructureData) -> list[BucketKeys]:
    """Return the keys of all entries that have some, without their numbers."""
    wanted = _wanted_levels(layout)
    buckets = []
    for number, pattern in enumerate(layout.patterns):
        if not _needs_keys(layout, pattern):
            continue
        home, orbits = structure.batch(pattern), orbits_of(pattern, number)
        for own in arranged(structure, pattern):
            orbit = orbits[own.bucket.orbit]
            bucket = BucketKeys(orbit, own, home[own.bucket.rows])
            for level in sorted(wanted[orbit]):
                bucket.add_level(level, layout.map.max_overlap)
            buckets.append(bucket)
    return buckets


def _needs_keys(layout: MapLayout, pattern: Pattern) -> bool:
    """Return whether the keys of the entries of a pattern, or their partners, are listed."""
    partners = layout.partner_orbits
    has_partners = any(layout.patterns[orbit.tensor] == pattern for orbit in partners)
    has_ranges = all(t.has_range_bags for t in layout.tensors if t.pattern == pattern)
    return has_partners or not has_ranges


def _wanted_levels(layout: MapLayout) -> dict[TensorOrbit, set[Level]]:
    """Return the levels of every orbit of every pattern, but for the empty level."""
    wanted: dict[TensorOrbit, set[Level]] = {}
    for tensor in layout.tensors:
        orbits = orbits_of(tensor.pattern, layout.patterns.index(tensor.pattern))
        for orbit, levels in zip(orbits, tensor.orbit_levels, strict=True):
            wanted.setdefault(orbit, set()).update(set(levels) - {()})
    return wanted


def number_keys(structure: StructureData, level: Level, buckets: Sequence[BucketKeys]) -> Array:
    """Number the keys of a level, and return how many each structure has.

    Nodes keep their own numbers; larger sets get their rank among all that occur. Where most nodes
    are in no entry, nodes are ranked too: a thousand edges among a billion nodes are a small
    structure. Either way the keys of a structure follow those of the structure before it.
    """
    if not level:
        return np.ones(structure.num_structures, dtype=np.int64)
    members = [bucket for bucket in buckets if level in bucket.nodes]
    keys = [bucket.nodes[level] for bucket in members]
    total = sum(own.numel() for own in keys)
    if len(level) == 1 and structure.counts[level[0]] <= _SPARSE_NODES * total + 1024:
        for bucket, own in zip(members, keys, strict=True):
            bucket.numbers[level] = own[:, :, 0] - structure._node_offsets[level[0]]
        return structure._lengths_of(level[0])
    none = no_entries(len(level), structure.device).T
    flat = torch.cat([none, *(own.reshape(-1, len(level)) for own in keys)])  # (keys, nodes)
    ranks, count = rank(code(flat.unbind(1), [structure.total_nodes] * len(level))[0])
    # (keys,): the structure of each
    owner = torch.empty(count, dtype=torch.long, device=structure.device)
    parts = ranks.split([k.shape[0] * k.shape[1] for k in keys])
    for bucket, numbers in zip(members, parts, strict=True):
        bucket.numbers[level] = numbers.view(bucket.words[level].shape)
        owner[bucket.numbers[level]] = bucket.home[:, None]
    return count_by_structure(owner, structure.num_structures)


def count_by_structure(home: Tensor, num_structures: int) -> Array:
    """Return how many things each structure has, from the structure of each."""
    counts: Array = torch.bincount(home, minlength=num_structures).cpu().numpy()
    return counts


def shared_at(
    level: Level, count: int, buckets: Sequence[BucketKeys], structure: StructureData
) -> SharedKeys:
    """Return which keys of a level other processes have, too.

    Args:
        level: The level.
        count: How many keys it has here.
        buckets: All keys, with their numbers.
        structure: A part of a structure.
    """
    world = structure.world
    assert world is not None
    if not level:
        return all_shared(count, world)
    nodes = torch.full((count, len(level)), -1, dtype=torch.long)
    for bucket in buckets:
        if level in bucket.nodes:
            numbers = bucket.numbers[level].flatten()
            nodes[numbers] = bucket.nodes[level].reshape(-1, len(level))
    keys = (nodes[:, 0] >= 0).nonzero()[:, 0]
    return shared_keys(structure.whole_nodes(nodes[keys]), world).numbered(keys)
