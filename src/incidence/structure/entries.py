r"""The entries of a pattern in canonical form: as class sets.

The caller gives an entry as an assignment of nodes to letters. Two assignments may denote one
entry, so entries are never compared as columns of an index. Every entry becomes the list of its
class sets. Entries with the same orbit and class sizes form a *bucket*: a matrix of nodes with
classes side by side and nodes ascending within each class. After that, open faces are just several
buckets of one family, and no other case is special.

With oriented faces, an assignment also denotes a reference orientation. The bucket stores one sign
for each entry: that of this orientation relative to the class sets as they stand in the bucket
(docs/math.md section 16).
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

__all__ = ["Bucket", "buckets", "count_entries"]


@dataclass(frozen=True)
class Bucket:
    """The entries of one orbit with given class sizes.

    Attributes:
        orbit: The number of the orbit (or family) in its pattern.
        sizes: The number of nodes in each class.
        rows: The rows of these entries in the tensor, ascending, shape (entries,).
        nodes: Their nodes by class, ascending within each class, shape (entries, nodes). The nodes
            of all sorts are numbered through.
        signs: With oriented faces, 1 or -1 for the reference orientation of each entry, shape
            (entries,); else None.
    """

    orbit: int
    sizes: tuple[int, ...]
    rows: Tensor
    nodes: Tensor
    signs: Tensor | None = None

    @property
    def kind(self) -> tuple[int, tuple[int, ...]]:
        """The orbit and the sizes."""
        return self.orbit, self.sizes

    @property
    def labels(self) -> tuple[int, ...]:
        """The class of every column of `nodes`."""
        return tuple(label for label, size in enumerate(self.sizes) for _ in range(size))


def buckets(
    pattern: Pattern, index: Sequence[Tensor], offsets: Mapping[str, int], num_nodes: int
) -> list[Bucket]:
    """Sort the entries of a pattern into buckets, by orbit and class sizes.

    Args:
        pattern: The pattern.
        index: The nodes of the letters, shape (letters, entries); then, for every open face, the
            pairs (node, entry), shape (2, incidences).
        offsets: For every sort, the number of its node 0 among the nodes of all sorts.
        num_nodes: The number of nodes of all sorts.
    """
    if pattern.is_open:
        listed = _open(pattern, index, offsets, num_nodes)
    else:
        listed = _fixed(pattern, index[0], offsets)
    return sorted(listed, key=lambda bucket: bucket.kind)


def _fixed(pattern: Pattern, index: Tensor, offsets: Mapping[str, int]) -> Iterator[Bucket]:
    """Yield the buckets of a pattern without open faces.

    Entries in which the same letters coincide lie in one orbit.
    """
    text = str(pattern)
    num_entries = index.shape[1]
    pairs = _may_coincide(text)
    if pairs:
        same = [(index[p] == index[q]).long() for p, q in pairs]  # (entries,) for every pair
        partitions = group(code(same, [2] * len(same))[0])
    else:
        partitions = [(0, torch.arange(num_entries, device=index.device))]
    by_kind: dict[object, list[Bucket]] = {}
    for _, rows in partitions:
        if not len(rows):
            continue
        first = index[:, rows[0]].tolist()
        equal = tuple((p, q) for p, q in pairs if first[p] == first[q])
        orbit, sizes, letters, sign = _class_order(text, equal)
        part = index if len(rows) == num_entries else index[:, rows]  # (letters, entries)
        columns = []
        for p in letters:
            shift = offsets[pattern.sorts[pattern.letters[p]]]
            columns.append(part[p] + shift if shift else part[p])
        nodes = _by_class(columns, sizes) if columns else index.new_zeros(len(rows), 0)
        signs = _signs(pattern, orbit, columns, sizes, sign) if pattern.is_oriented else None
        bucket = Bucket(orbit, sizes, rows, nodes, signs)
        by_kind.setdefault(bucket.kind, []).append(bucket)
    for parts in by_kind.values():
        yield parts[0] if len(parts) == 1 else _joined(parts)


def _joined(parts: Sequence[Bucket]) -> Bucket:
    """Join buckets of one orbit and equal sizes in which different letters coincide."""
    rows, order = torch.cat([part.rows for part in parts]).sort()
    nodes = torch.cat([part.nodes for part in parts])[order]  # (entries, nodes)
    signs = [part.signs for part in parts if part.signs is not None]
    joined_signs = torch.cat(signs)[order] if signs else None
    return Bucket(parts[0].orbit, parts[0].sizes, rows, nodes, joined_signs)


Node = tuple[Signature, str]
"""The faces and the sort of a node, which say in which class it lies."""
Sizes = frozenset[tuple[Node, int]]
"""The sizes of the classes of an orbit."""


# These functions speak of positions of letters, so their caches use the text of a pattern as key,
# and not its meaning.
@lru_cache(maxsize=1024)
def _may_coincide(text: str) -> tuple[tuple[int, int], ...]:
    """Return the pairs of letters that may be one node.

    They have one sort, and share no face of distinct nodes.
    """
    pattern = Pattern(text)
    sorts = list(pattern.sorts.values())
    faces = [
        {d for d, _ in pattern.signatures[name] if pattern.faces[d].kind.is_distinct}
        for name in pattern.letters
    ]
    pairs = []
    for p, q in combinations(range(len(sorts)), 2):
        if sorts[p] == sorts[q] and not faces[p] & faces[q]:
            pairs.append((p, q))
    return tuple(pairs)


@lru_cache(maxsize=4096)
def _class_order(
    text: str, equal: tuple[tuple[int, int], ...]
) -> tuple[int, tuple[int, ...], tuple[int, ...], int]:
    """Describe the entries in which exactly these pairs of letters coincide.

    Returns:
        The number of their orbit, its class sizes, a letter for each node, by class, and the sign
        of bringing the letters of oriented faces into this order.
    """
    pattern = Pattern(text)
    block = list(range(len(pattern.letters)))  # for every letter, the first one that is equal
    for p, q in equal:
        block[q] = min(block[q], block[p])
    places: dict[int, list[tuple[int, int]]] = {}
    for p, name in enumerate(pattern.letters):
        places.setdefault(block[p], []).extend(pattern.signatures[name])
    sorts = list(pattern.sorts.values())
    nodes = {p: (tuple(sorted(place)), sorts[p]) for p, place in places.items()}
    counts = Counter(nodes.values())
    number, classes = _orbit_numbers(text)[frozenset(counts.items())]
    letters = tuple(p for wanted in classes for p, node in nodes.items() if node == wanted)
    sign = placement_sign(pattern, [letters.index(p) for p in block])
    return number, tuple(counts[wanted] for wanted in classes), letters, sign


@lru_cache(maxsize=64)
def _orbit_numbers(text: str) -> dict[Sizes, tuple[int, tuple[Node, ...]]]:
    """Return the number and the ordered classes of every orbit, by the sizes of its classes.

    A dict is needed, because a long pattern has many orbits.
    """
    numbers = {}
    for number, orbit in enumerate(Pattern(text).orbits):
        sizes = {(c.faces, c.sort): c.size or 0 for c in orbit.classes}
        numbers[frozenset(sizes.items())] = number, tuple(sizes)
    return numbers


def _by_class(columns: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
    """Return columns of nodes as a matrix, ascending within each class.

    Every column lies in one piece of memory, as whole columns are compared later.
    """
    ascending: list[Tensor] = []
    for stop, size in zip(accumulate(sizes), sizes, strict=True):
        ascending += ascend(columns[stop - size : stop])
    return torch.stack(ascending).T  # (entries, nodes)


def _signs(
    pattern: Pattern, orbit: int, columns: Sequence[Tensor], sizes: Sequence[int], sign: int
) -> Tensor:
    """Return the signs of entries from their nodes by class, before these are sorted.

    The nodes of an odd class count with the sign of their order.
    """
    is_reversed = torch.full_like(columns[0], sign < 0, dtype=torch.bool)
    classes = pattern.orbits[orbit].classes
    for c, stop, size in zip(classes, accumulate(sizes), sizes, strict=True):
        if not c.is_odd:
            continue
        for one, other in combinations(columns[stop - size : stop], 2):
            is_reversed ^= one > other
    return _as_signs(is_reversed)


def _as_signs(is_reversed: Tensor) -> Tensor:
    return 1 - 2 * is_reversed.to(torch.int8)


def _open_signs(
    pattern: Pattern, letters: Tensor, nodes: Tensor, offsets: Mapping[str, int]
) -> Tensor:
    """Return the signs of entries from their letters, shape (letters, entries), and their nodes by
    class, shape (entries, nodes).
    """
    is_reversed = torch.zeros(len(nodes), dtype=torch.bool, device=nodes.device)
    for face in (face for face in pattern.faces if face.kind.is_oriented):
        places = []
        for x in face.letters:
            node = letters[pattern.fixed_letters.index(x.name)] + offsets[x.sort]
            # The place of the node of every letter, shape (entries,).
            places.append((nodes == node[:, None]).byte().argmax(1))
        for one, other in combinations(places, 2):
            is_reversed ^= one > other
    return _as_signs(is_reversed)


def _open(
    pattern: Pattern, index: Sequence[Tensor], offsets: Mapping[str, int], num_nodes: int
) -> Iterator[Bucket]:
    """Yield the buckets of a pattern with open faces.

    The places of every node of every entry give its signature; from these follow the classes and
    their sizes.
    """
    letters, members = index[0], index[1:]
    num_entries = count_entries(pattern, index)
    if not num_entries:
        return
    places = _places(pattern)
    entry, node, place = _incidences(pattern, letters, members, offsets, places)
    member, which = torch.unique(entry * num_nodes + node, return_inverse=True)
    signature = torch.zeros_like(member).index_add_(0, which, place)  # (members,)
    entry, node = member // num_nodes, member % num_nodes  # sorted by entry, then by node
    # A sort without nodes gives way to the next one.
    sort_at = {offset: sort for sort, offset in offsets.items()}
    starts = torch.tensor(sorted(sort_at), device=node.device)
    sort = torch.bucketize(node, starts, right=True) - 1  # the number of the sort, shape (members,)
    # A class is a signature with a sort.
    kinds, kind = torch.unique(signature * len(starts) + sort, return_inverse=True)
    counts = torch.zeros(num_entries, len(kinds), dtype=torch.long, device=letters.device)
    counts.index_put_((entry, kind), torch.ones_like(kind), accumulate=True)  # (entries, kinds)
    classes = []
    for k in kinds.tolist():
        value, number = divmod(k, len(starts))
        classes.append((_signature(value, places), sort_at[int(starts[number])]))
    sizes_of = counts.sum(1)
    first = sizes_of.cumsum(0) - sizes_of  # where the members of each entry start
    codes, _ = code(counts.unbind(1), (counts.amax(0) + 1).tolist())
    for _, rows in group(codes):
        numbers = zip(classes, counts[rows[0]].tolist(), strict=True)
        present = {c: n for c, n in numbers if n}
        orbit = _family(pattern, present)
        wanted = [(c.faces, c.sort) for c in pattern.orbits[orbit].classes]
        sizes = tuple(present.get(c, 0) for c in wanted)
        spots = first[rows, None] + torch.arange(sum(sizes), device=rows.device)  # (entries, nodes)
        positions = [wanted.index(c) if c in present else 0 for c in classes]
        position = torch.tensor(positions, device=rows.device)[kind[spots]]  # (entries, nodes)
        # Nodes already ascend within an entry, so a stable sort by class keeps them ascending.
        nodes = node[spots].gather(1, position.sort(dim=1, stable=True)[1])
        signs = None
        if pattern.is_oriented:
            signs = _open_signs(pattern, letters[:, rows], nodes, offsets)
        yield Bucket(orbit, sizes, rows, nodes, signs)


def count_entries(pattern: Pattern, index: Sequence[Tensor]) -> int:
    """Return the number of entries in an index."""
    if not pattern.is_open or pattern.fixed_letters:
        return int(index[0].shape[1])
    return int(index[1][1].max()) + 1 if index[1].numel() else 0


def _places(pattern: Pattern) -> dict[tuple[int, int], int]:
    """Return a place value for every place (face, position), so that signatures are sums."""
    values, value = {}, 1
    every = {place for signature in pattern.signatures.values() for place in signature}
    for place in sorted(every):
        values[place] = value
        # A symmetric face may hold a node several times.
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
    """Return the entry, the node and the place value of every incidence, shape (incidences,)."""
    entries, nodes, values = [], [], []
    for row, name in enumerate(pattern.fixed_letters):
        signature = pattern.signatures[name]
        fixed = sum(places[d, p] for d, p in signature if not pattern.faces[d].is_open)
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
    """Return the signature with a given sum of place values."""
    signature: list[tuple[int, int]] = []
    for place, unit in sorted(places.items(), key=lambda item: -item[1]):
        times, value = divmod(value, unit)
        signature += [place] * times
    return tuple(sorted(signature))


def _family(pattern: Pattern, present: Mapping[tuple[Signature, str], int]) -> int:
    """Return the number of the family whose fixed classes are present.

    Its open classes may be empty.
    """
    for number, orbit in enumerate(pattern.orbits):
        fixed = {(c.faces, c.sort): c.size for c in orbit.classes if not c.is_open}
        opened = {(c.faces, c.sort) for c in orbit.classes if c.is_open}
        if fixed == {c: n for c, n in present.items() if c not in opened}:
            return number
    raise AssertionError(f"classes {dict(present)} of {pattern} are in no family")
