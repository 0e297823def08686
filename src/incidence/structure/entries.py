r"""Entries of a pattern, told by assignments of nodes to letters, in the canonical form of the mathematics: class sets.

Two assignments may denote one entry, so entries are never compared as columns of an index. Every entry is turned into the list
of its class sets; entries with the same orbit and class sizes form a *bucket*, a matrix of nodes with classes side by side and
nodes ascending within each class. After that, open faces are just several buckets of one family, and nothing else is special.
With oriented faces, an assignment also denotes a reference orientation; what is kept of it is one sign for each entry, by which it differs
from the orientation of the class sets as they stand in the bucket (docs/math.md section 16).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, combinations

import torch
from torch import Tensor

from incidence.algebra.grammar import Signature
from incidence.algebra.orbit import placement_sign
from incidence.algebra.pattern import Pattern
from incidence.structure.ragged import ascend, code, group

__all__ = ["Bucket", "buckets"]


@dataclass(frozen=True)
class Bucket:
    """The entries of one orbit with given class sizes.

    Attributes:
        orbit: The number of the orbit (or family) in its pattern.
        sizes: The number of nodes in each class.
        rows: Which entries these are, ascending, shape (entries,).
        nodes: Their nodes by class, ascending within each class, shape (entries, nodes); numbered through all sorts.
        signs: With oriented faces, 1 or -1 for the reference orientation of each entry, shape (entries,); else None.
    """

    orbit: int
    sizes: tuple[int, ...]
    rows: Tensor
    nodes: Tensor
    signs: Tensor | None = None

    @property
    def labels(self) -> tuple[int, ...]:
        """The class of every column of `nodes`."""
        return tuple(label for label, size in enumerate(self.sizes) for _ in range(size))


def buckets(
    pattern: Pattern, index: Sequence[Tensor], offsets: Mapping[str, int], num_nodes: int
) -> list[Bucket]:
    """Sorts the entries of a pattern into buckets, by orbit and class sizes.

    Args:
        pattern: The pattern.
        index: Nodes of the letters, shape (letters, entries); with open faces followed by (node, entry) pairs for each.
        offsets: For every sort, the number of its node 0 among the nodes of all sorts.
        num_nodes: The number of nodes of all sorts.
    """
    found = (
        _open(pattern, index, offsets, num_nodes)
        if pattern.is_open
        else _fixed(pattern, index[0], offsets)
    )
    return sorted(found, key=lambda bucket: (bucket.orbit, bucket.sizes))


def _fixed(pattern: Pattern, index: Tensor, offsets: Mapping[str, int]) -> Iterator[Bucket]:
    """Entries are told apart by which letters coincide; each such partition of the letters lies in one orbit."""
    pairs = _may_coincide(str(pattern))
    if pairs:
        same = [(index[p] == index[q]).long() for p, q in pairs]
        partitions = group(code(same, [2] * len(same))[0])
    else:
        partitions = [(0, torch.arange(index.shape[1], device=index.device))]
    by_orbit: dict[tuple[int, tuple[int, ...]], list[Bucket]] = {}
    for _, rows in partitions:
        if not len(rows):
            continue
        first = index[:, rows[0]].tolist()
        equal = tuple((p, q) for p, q in pairs if first[p] == first[q])
        orbit, sizes, letters, sign = _arrangement(str(pattern), equal)
        own = index if len(rows) == index.shape[1] else index[:, rows]
        shifts = [offsets[pattern.sorts[pattern.letters[p]]] for p in letters]
        columns = [
            own[p] + shift if shift else own[p] for p, shift in zip(letters, shifts, strict=True)
        ]
        nodes = _by_class(columns, sizes) if columns else index.new_zeros(len(rows), 0)
        signs = _signs(pattern, orbit, columns, sizes, sign) if pattern.is_oriented else None
        by_orbit.setdefault((orbit, sizes), []).append(Bucket(orbit, sizes, rows, nodes, signs))
    for parts in by_orbit.values():
        yield parts[0] if len(parts) == 1 else _joined(parts)


def _joined(parts: Sequence[Bucket]) -> Bucket:
    """Entries of one orbit and class sizes that were told by letters that coincide in different ways."""
    rows, order = torch.cat([part.rows for part in parts]).sort()
    nodes = torch.cat([part.nodes for part in parts])[order]
    signs = [part.signs for part in parts if part.signs is not None]
    return Bucket(
        parts[0].orbit, parts[0].sizes, rows, nodes, torch.cat(signs)[order] if signs else None
    )


Node = tuple[Signature, str]  # what tells the class of a node: its faces, and its sort


# These speak of positions of letters, so they are remembered by the text of a pattern and not by its meaning.
@lru_cache(maxsize=1024)
def _may_coincide(text: str) -> tuple[tuple[int, int], ...]:
    """Pairs of letters that may stand for one node: of one sort, and in no face of distinct nodes together."""
    pattern = Pattern(text)
    letters, distinct = pattern.letters, [face.kind.is_distinct for face in pattern.faces]
    faces = [{d for d, _ in pattern.signatures[name] if distinct[d]} for name in letters]
    pairs = combinations(range(len(letters)), 2)
    return tuple(
        (p, q)
        for p, q in pairs
        if pattern.sorts[letters[p]] == pattern.sorts[letters[q]] and not faces[p] & faces[q]
    )


@lru_cache(maxsize=4096)
def _arrangement(
    text: str, equal: tuple[tuple[int, int], ...]
) -> tuple[int, tuple[int, ...], tuple[int, ...], int]:
    """The orbit of the entries in which exactly these pairs of letters coincide, its class sizes, and a letter for each node, by class.

    With oriented faces also the sign that brings their letters into this order; without, 1.
    """
    pattern = Pattern(text)
    block = list(range(len(pattern.letters)))
    for p, q in equal:
        block[q] = min(block[q], block[p])
    places: dict[int, list[tuple[int, int]]] = {}
    for p, name in enumerate(pattern.letters):
        places.setdefault(block[p], []).extend(pattern.signatures[name])
    nodes = {
        p: (tuple(sorted(place)), pattern.sorts[pattern.letters[p]]) for p, place in places.items()
    }
    counts = Counter(nodes.values())
    number, classes = _numbered(text)[frozenset(counts.items())]
    letters = tuple(p for wanted in classes for p, node in nodes.items() if node == wanted)
    sign = placement_sign(pattern, [letters.index(p) for p in block])
    return number, tuple(counts[wanted] for wanted in classes), letters, sign


@lru_cache(maxsize=64)
def _numbered(text: str) -> dict[frozenset[tuple[Node, int]], tuple[int, tuple[Node, ...]]]:
    """From the classes of an orbit with their sizes to its number and its classes in order; a long pattern has many orbits."""
    listed = [
        [((c.faces, c.sort), c.size or 0) for c in orbit.classes] for orbit in Pattern(text).orbits
    ]
    return {
        frozenset(classes): (number, tuple(node for node, _ in classes))
        for number, classes in enumerate(listed)
    }


def _by_class(columns: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
    """Columns of nodes as a matrix, ascending within each class. A column lies in one piece, as whole columns are compared later."""
    parts = [
        ascend(columns[stop - size : stop])
        for stop, size in zip(accumulate(sizes), sizes, strict=True)
    ]
    return torch.stack([column for part in parts for column in part]).T


def _signs(
    pattern: Pattern, orbit: int, columns: Sequence[Tensor], sizes: Sequence[int], sign: int
) -> Tensor:
    """The signs of entries from their nodes by class, before these ascend: those of an odd class count with the sign of their order."""
    is_reversed = torch.full((len(columns[0]),), sign < 0, device=columns[0].device)
    for c, stop, size in zip(pattern.orbits[orbit].classes, accumulate(sizes), sizes, strict=True):
        for one, other in combinations(columns[stop - size : stop] if c.is_odd else (), 2):
            is_reversed ^= one > other
    return _as_signs(is_reversed)


def _as_signs(is_reversed: Tensor) -> Tensor:
    return 1 - 2 * is_reversed.to(torch.int8)


def _open_signs(
    pattern: Pattern, letters: Tensor, nodes: Tensor, offsets: Mapping[str, int]
) -> Tensor:
    """The signs of entries from their letters, shape (letters, entries), and their nodes by class, shape (entries, nodes)."""
    is_reversed = torch.zeros(len(nodes), dtype=torch.bool, device=nodes.device)
    for face in (face for face in pattern.faces if face.kind.is_oriented):
        own = [letters[pattern.fixed_letters.index(x.name)] + offsets[x.sort] for x in face.letters]
        places = [(nodes == node[:, None]).byte().argmax(1) for node in own]
        for one, other in combinations(places, 2):
            is_reversed ^= one > other
    return _as_signs(is_reversed)


def _open(
    pattern: Pattern, index: Sequence[Tensor], offsets: Mapping[str, int], num_nodes: int
) -> Iterator[Bucket]:
    """The general way: collect the places of every node of every entry, then read off signatures, classes and sizes."""
    letters, members = index[0], index[1:]
    num_entries = count_entries(pattern, index)
    if not num_entries:
        return
    places = _places(pattern)
    entry, node, place = _incidences(pattern, letters, members, offsets, places)
    slot, which = torch.unique(entry * num_nodes + node, return_inverse=True)
    signature = torch.zeros_like(slot).index_add_(0, which, place)
    entry, node = slot // num_nodes, slot % num_nodes
    sort_at = {
        offset: sort for sort, offset in offsets.items()
    }  # a sort without nodes gives way to the next one
    starts = torch.tensor(sorted(sort_at), device=node.device)
    sort = torch.bucketize(node, starts, right=True) - 1
    kinds, kind = torch.unique(signature * len(starts) + sort, return_inverse=True)
    counts = torch.zeros(num_entries, len(kinds), dtype=torch.long, device=letters.device)
    counts.index_put_((entry, kind), torch.ones_like(kind), accumulate=True)
    classes = [
        (_signature(k // len(starts), places), sort_at[int(starts[k % len(starts)])])
        for k in kinds.tolist()
    ]
    first = counts.sum(1).cumsum(0) - counts.sum(1)
    for _, rows in group(code(counts.unbind(1), (counts.amax(0) + 1).tolist())[0]):
        present = {c: n for c, n in zip(classes, counts[rows[0]].tolist(), strict=True) if n}
        orbit = _family(pattern, present)
        wanted = [(c.faces, c.sort) for c in pattern.orbits[orbit].classes]
        total = sum(present.values())
        spots = first[rows, None] + torch.arange(total, device=rows.device)  # (entries, nodes)
        position = torch.tensor(
            [wanted.index(c) if c in present else 0 for c in classes], device=rows.device
        )
        order = position[kind[spots]].sort(dim=1, stable=True)[
            1
        ]  # nodes already ascend within an entry
        sizes = tuple(present.get(c, 0) for c in wanted)
        nodes = node[spots].gather(1, order)  # (entries, nodes), by class
        yield Bucket(
            orbit,
            sizes,
            rows,
            nodes,
            _open_signs(pattern, letters[:, rows], nodes, offsets) if pattern.is_oriented else None,
        )


def count_entries(pattern: Pattern, index: Sequence[Tensor]) -> int:
    """The number of entries that an index tells of."""
    if not pattern.is_open or pattern.fixed_letters:
        return int(index[0].shape[1])
    return int(index[1][1].max()) + 1 if index[1].numel() else 0


def _places(pattern: Pattern) -> dict[tuple[int, int], int]:
    """A place value for every place (face, position), so that signatures are sums; a symmetric face may hold a node often."""
    values, value = {}, 1
    for place in sorted(
        {place for signature in pattern.signatures.values() for place in signature}
    ):
        values[place] = value
        face = pattern.faces[place[0]]
        value *= 2 if face.kind.is_distinct else len(face.letters) + 1
    return values


def _incidences(
    pattern: Pattern,
    letters: Tensor,
    members: Sequence[Tensor],
    offsets: Mapping[str, int],
    places: dict[tuple[int, int], int],
) -> tuple[Tensor, Tensor, Tensor]:
    entries, nodes, values = [], [], []
    for row, name in enumerate(pattern.fixed_letters):
        fixed = sum(
            places[place]
            for place in pattern.signatures[name]
            if not pattern.faces[place[0]].is_open
        )
        entries.append(torch.arange(letters.shape[1], device=letters.device))
        nodes.append(letters[row] + offsets[pattern.sorts[name]])
        values.append(torch.full_like(nodes[-1], fixed))
    open_faces = [number for number, face in enumerate(pattern.faces) if face.is_open]
    for number, pairs in zip(open_faces, members, strict=True):
        entries.append(pairs[1])
        nodes.append(pairs[0] + offsets[pattern.faces[number].letters[0].sort])
        values.append(torch.full_like(nodes[-1], places[number, -1]))
    return torch.cat(entries), torch.cat(nodes), torch.cat(values)


def _signature(value: int, places: dict[tuple[int, int], int]) -> Signature:
    found: list[tuple[int, int]] = []
    for place, unit in sorted(places.items(), key=lambda item: -item[1]):
        times, value = divmod(value, unit)
        found += [place] * times
    return tuple(sorted(found))


def _family(pattern: Pattern, present: Mapping[tuple[Signature, str], int]) -> int:
    """The family whose fixed classes are those present; its open classes may be empty."""
    for number, orbit in enumerate(pattern.orbits):
        fixed = {(c.faces, c.sort): c.size for c in orbit.classes if not c.is_open}
        opened = {(c.faces, c.sort) for c in orbit.classes if c.is_open}
        if fixed == {c: n for c, n in present.items() if c not in opened}:
            return number
    raise AssertionError(f"classes {dict(present)} of {pattern} are in no family")
