r"""Pattern to orbits: signatures, classes, and how many there are (docs/math.md section 3).

An entry of a pattern gives every node in it a *signature* (in which faces it stands, and where).
Nodes of one sort with equal signatures form a *class*; two entries lie in one orbit of the
relabellings iff their classes have the same signatures, sorts and sizes. So an orbit is a multiset
of (signature, sort), and this module enumerates such multisets by placing the letters one at a
time: a letter either opens a node of its own or joins a node with which it shares no face of
distinct nodes. Multisets that agree are merged at every step, which keeps `{a b c d e f} {g h i j k
l}` at seven states where it has 13,327 partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import groupby, islice, product
from math import factorial, prod
from typing import TYPE_CHECKING, NamedTuple

from incidence.algebra.grammar import Kind, Signature, write_faces
from incidence.algebra.signs import is_odd, orientation_sign
from incidence.errors import IncidenceError, TooLargeError

if TYPE_CHECKING:
    from incidence.algebra.pattern import Pattern

__all__ = [
    "MAX_ORBITS",
    "Class",
    "Extent",
    "Orbit",
    "Profile",
    "num_partitions",
    "orbits",
    "placement_sign",
    "placements",
    "profile_of",
    "profiles",
    "sorted_profile",
]

MAX_ORBITS = 50_000
"""Patterns with more orbits than this are refused: 9 plain nodes have 21,147."""
_MAX_WORK = 1_000_000  # nodes of the multisets met at one step: a second or two


@dataclass(frozen=True)
class Class:
    """The nodes of an entry that have the same role.

    Attributes:
        faces: The signature: pairs (face, position), with position -1 in an unordered face.
        sort: The sort of the nodes.
        size: The number of nodes; None for an *open* class, which lies in open faces only and may
            have any number.
        is_odd: Whether the class lies in an odd number of oriented faces, so that values change
            sign when two of its nodes are exchanged.
    """

    faces: Signature
    sort: str
    size: int | None
    is_odd: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the class has no fixed size."""
        return self.size is None


@dataclass(frozen=True)
class Orbit:
    r"""An orbit of the entries of a pattern: a list of classes, that is, $\mathrm{Inj}([m],[N])/H$
    with $H = \prod_i S_{h_i}$.

    Written as a pattern in which different letters are different nodes: `i j` has the orbits `i i`
    and `i j`.

    Attributes:
        kinds: The kinds of the faces of the pattern, and whether each is open.
        classes: The classes, ordered by signature, then sort.
        letters: The letters of the pattern with their signatures and sorts, to name nodes by.

    Example:
        >>> from incidence.algebra import Pattern
        >>> for orbit in Pattern("i {j k}").orbits:
        ...     print(orbit, orbit.size, orbit.symmetry)
        i {i j} 2 1
        i {j k} 3 2
    """

    kinds: tuple[tuple[Kind, bool], ...]
    classes: tuple[Class, ...]
    letters: tuple[tuple[str, Signature, str], ...] = field(default=(), compare=False, repr=False)

    @cached_property
    def size(self) -> int:
        """The number m of distinct nodes; open classes do not count."""
        return sum(c.size or 0 for c in self.classes)

    @cached_property
    def symmetry(self) -> int:
        """The order of H, the product of h! over the classes of fixed size."""
        return prod(factorial(c.size or 0) for c in self.classes)

    @property
    def is_open(self) -> bool:
        """Whether this is a family of orbits, one for each size of its open classes."""
        return any(c.is_open for c in self.classes)

    @property
    def has_bias(self) -> bool:
        """Whether a constant on the orbit commutes with relabelling.

        It does not if two nodes can be exchanged against the sign.
        """
        return all(c.size == 1 for c in self.classes if c.is_odd)

    @cached_property
    def order_key(self) -> tuple[int, tuple[tuple[Signature, str, int], ...]]:
        """The key that sorts orbits by size, then classes."""
        return self.size, tuple((c.faces, c.sort, c.size or 0) for c in self.classes)

    @cached_property
    def node_names(self) -> tuple[tuple[str, ...], ...]:
        """A name for every node of every class of fixed size.

        It is a letter that stands in the same faces, or a fresh one.
        """
        free = list(self.letters)
        known = {name for name, _, _ in free}
        letters = (f"{c}{n or ''}" for n in range(100) for c in "ijklmnopqrstuvwxyzabcdefgh")
        fresh = (name for name in letters if name not in known)
        named: dict[int, tuple[str, ...]] = {}
        for i in self._reading_order():
            c, size = self.classes[i], self.classes[i].size or 0
            # A letter fits if all its places are places of the class; it may have fewer.
            fits = [x for x in free if x[2] == c.sort and not Counter(x[1]) - Counter(c.faces)]
            # Letters with many places first: they describe the node best.
            fits = sorted(fits, key=lambda x: -len(x[1]))[:size]
            free = [x for x in free if x not in fits]
            named[i] = (*(x[0] for x in fits), *islice(fresh, size - len(fits)))
        return tuple(named[i] for i in range(len(self.classes)))

    def write(self, node_names: Sequence[Sequence[str]]) -> str:
        """Return the faces as text, with given names for the nodes of every class.

        Oriented faces have the orientation of these lists.
        """
        faces = zip(self.kinds, self.names_by_face(node_names), strict=True)
        return write_faces((kind, names, is_open) for (kind, is_open), names in faces)

    def names_by_face(self, node_names: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the names of the nodes of every face, in the order in which they are written."""
        words: list[list[tuple[int, int, str]]] = [[] for _ in self.kinds]
        # In an unordered face, where all positions are -1, the letters of the pattern come in their
        # order; in an oriented one, the classes in theirs.
        rank = {name: number for number, (name, _, _) in enumerate(self.letters)}
        for i in self._reading_order():
            for (face, position), name in product(self.classes[i].faces, node_names[i]):
                is_oriented = self.kinds[face][0].is_oriented
                second = i if is_oriented else rank.get(name, len(rank))
                words[face].append((position, second, name))
        return [[name for *_, name in sorted(w, key=lambda x: x[:2])] for w in words]

    def _reading_order(self) -> list[int]:
        """Return the numbers of the classes in the order in which a reader of the faces meets
        them.
        """

        def place(i: int) -> tuple[object, ...]:
            faces = self.classes[i].faces
            return *faces[:1], -len(faces), i

        return sorted(range(len(self.classes)), key=place)

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        return self.write(self.node_names)


State = tuple[tuple[Signature, str], ...]
"""A sorted multiset of nodes, each a signature and a sort."""


class Extent(NamedTuple):
    """The size of a class (None if open), and whether it is odd with two nodes or more.

    Counting needs no more. In a class with one node nothing can be exchanged, so it is never odd
    here.
    """

    size: int | None
    is_odd: bool = False

    def without(self, nodes: int) -> Extent:
        """Return the class with some nodes less."""
        if self.size is None:
            return self
        left = self.size - nodes
        return Extent(left, self.is_odd and left > 1)


Profile = tuple[Extent, ...]
"""The classes of one sort, sorted by size; open ones come last."""


def orbits(pattern: Pattern) -> tuple[Orbit, ...]:
    """Return the orbits of a pattern by size, then classes; with open faces, families of orbits.

    Raises:
        TooLargeError: There are more than `MAX_ORBITS`.
    """
    states = _states(pattern, pattern.fixed_letters)
    opened = _open_signatures(pattern)
    letters = tuple((name, *pattern.place(name)) for name in pattern.letters)
    listed = (Orbit(pattern.kinds, _classes(pattern, state, opened), letters) for state in states)
    return tuple(sorted(listed, key=lambda orbit: orbit.order_key))


def num_partitions(pattern: Pattern) -> dict[int, int]:
    r"""Return how many partitions of the letters have m blocks, by m: the paper's $\kappa_m$.

    Several of them may be one orbit.
    """
    counts: Counter[int] = Counter()
    for state, ways in _states(pattern, pattern.fixed_letters).items():
        counts[len(state)] += ways  # a state is a multiset of blocks
    return dict(sorted(counts.items()))


@lru_cache(maxsize=1024)
def profiles(pattern: Pattern) -> Counter[Profile]:
    """Count the orbits of a pattern with one sort by the sizes of their classes.

    The orbits are not listed. A letter that stands alone in all its faces is *free*: it may become
    a new node, or join any node. Its faces tell the results apart, so orbits with one more free
    letter are counted by the class that the letter joins.
    """
    shared = {
        letter.name
        for face in pattern.faces
        for letter in face.letters
        if len(face.letters) > 1 or face.is_open
    }
    letters = tuple(name for name in pattern.fixed_letters if name in shared)
    opened = _open_signatures(pattern)
    counts = Counter(
        profile_of(_classes(pattern, state, opened)) for state in _states(pattern, letters)
    )
    # One step for each free letter.
    for _ in range(len(pattern.letters) - len(shared)):
        step: Counter[Profile] = Counter()
        for profile, ways in counts.items():
            for joined in _with_free_letter(profile):
                step[joined] += ways
        counts = step
    return counts


def _with_free_letter(profile: Profile) -> Iterator[Profile]:
    # The letter becomes a new node.
    yield sorted_profile((*profile, Extent(1)))
    for i, extent in enumerate(profile):
        rest = profile[:i] + profile[i + 1 :]
        # Or it joins a node, which leaves its class: no other node has this letter.
        left = () if extent.size == 1 else (extent.without(1),)
        yield sorted_profile((*rest, *left, Extent(1)))


def profile_of(classes: Iterable[Class]) -> Profile:
    """Return the profile of classes of one sort."""
    return sorted_profile(Extent(c.size, c.is_odd).without(0) for c in classes)


def sorted_profile(extents: Iterable[Extent]) -> Profile:
    """Return extents as a profile."""

    def key(extent: Extent) -> tuple[bool, int, bool]:
        return extent.size is None, extent.size or 0, extent.is_odd

    return tuple(sorted(extents, key=key))


def _states(pattern: Pattern, letters: tuple[str, ...]) -> dict[State, int]:
    """Return all multisets of nodes that the letters can form.

    Each comes with the number of partitions of the letters that give it.
    """
    distinct = [kind.is_distinct for kind, _ in pattern.kinds]
    states: dict[State, int] = {(): 1}
    for name in letters:
        # letter by letter: every state with every place for the letter
        placed = (
            (larger, ways * repeats)
            for state, ways in states.items()
            for larger, repeats in _with_letter(state, *pattern.place(name), distinct)
        )
        states = _merge(pattern, placed)
    for number, face in enumerate(pattern.faces):
        if face.is_open:
            joined = (
                (larger, ways)
                for state, ways in states.items()
                for larger in _join_open(state, number, face.letters[0].sort)
            )
            states = _merge(pattern, joined)
    return states


def _merge(pattern: Pattern, states: Iterable[tuple[State, int]]) -> dict[State, int]:
    merged: dict[State, int] = {}
    work = 0
    for state, ways in states:
        merged[state] = merged.get(state, 0) + ways
        work += len(state)
        # Merging as we go bounds the memory before the list is complete.
        if len(merged) > MAX_ORBITS or work > _MAX_WORK:
            raise TooLargeError(
                f"`{pattern}` has too many orbits to list (more than {len(merged):,} at least). Use"
                " a collection of smaller patterns, or faces in brackets."
            )
    return merged


def _with_letter(
    state: State, signature: Signature, sort: str, distinct: list[bool]
) -> Iterator[tuple[State, int]]:
    """Yield the states with one more letter, on a new node or on each kind of node it may share.

    Each comes with the number of such nodes.
    """
    # On a new node.
    yield tuple(sorted((*state, (signature, sort)))), 1
    faces = {d for d, _ in signature if distinct[d]}
    for (taken, its_sort), group in groupby(state):
        # Or on one that shares no face of distinct nodes with the letter.
        if its_sort == sort and faces.isdisjoint(d for d, _ in taken):
            rest = list(state)
            rest.remove((taken, its_sort))
            rest.append((tuple(sorted(taken + signature)), sort))
            yield tuple(sorted(rest)), len(list(group))


def _join_open(state: State, face: int, sort: str) -> Iterator[State]:
    """Yield the states in which some nodes of fixed faces also lie in an open face."""
    groups = [(*node, len(list(group))) for node, group in groupby(state)]
    choices = [
        range(n + 1) if its_sort == sort and all(d != face for d, _ in taken) else range(1)
        for taken, its_sort, n in groups
    ]
    for chosen in product(*choices):
        nodes: list[tuple[Signature, str]] = []
        for (taken, its_sort, n), c in zip(groups, chosen, strict=True):
            joined = tuple(sorted((*taken, (face, -1))))  # -1: an open face has no positions
            nodes += [(taken, its_sort)] * (n - c) + [(joined, its_sort)] * c
        yield tuple(sorted(nodes))


def _open_signatures(pattern: Pattern) -> tuple[tuple[Signature, str], ...]:
    """Return the open classes: every non-empty set of open faces of one sort."""
    by_sort: dict[str, list[int]] = {}
    for number, face in enumerate(pattern.faces):
        if face.is_open:
            by_sort.setdefault(face.letters[0].sort, []).append(number)
    if any(len(numbers) > 5 for numbers in by_sort.values()):
        raise TooLargeError(
            f"`{pattern}` has more than five open faces of one sort: there would be too many"
            " classes."
        )
    return tuple(
        (tuple((number, -1) for i, number in enumerate(numbers) if subset >> i & 1), sort)
        for sort, numbers in by_sort.items()
        for subset in range(1, 1 << len(numbers))
    )


def _classes(
    pattern: Pattern, state: State, opened: tuple[tuple[Signature, str], ...]
) -> tuple[Class, ...]:
    classes = [
        Class(signature, sort, len(list(group)), is_odd(pattern.kinds, signature))
        for (signature, sort), group in groupby(state)
    ]
    classes += [Class(signature, sort, None) for signature, sort in opened]
    return tuple(sorted(classes, key=lambda c: (c.faces, c.sort)))


def placement_sign(pattern: Pattern, placed: Sequence[int]) -> int:
    """Return the sign of a placement of the letters relative to the standard orientation.

    In the standard orientation the nodes stand in their order, class by class.
    """
    return orientation_sign(pattern.faces, dict(zip(pattern.letters, placed, strict=True)))


def placements(pattern: Pattern, orbit: Orbit) -> Iterator[tuple[int, ...]]:
    """Yield all ways to put the letters of a pattern on the nodes of an orbit.

    Each is the number of the node of every letter; nodes are numbered class by class.

    Raises:
        IncidenceError: The pattern has open faces, whose letters need not have nodes of their own.

    Example:
        >>> from incidence.algebra import Pattern
        >>> pattern = Pattern("i {j k}")
        >>> [list(placements(pattern, orbit)) for orbit in pattern.orbits]
        [[(0, 0, 1), (0, 1, 0)], [(0, 1, 2), (0, 2, 1)]]
    """
    if orbit.is_open:
        raise IncidenceError(
            f"`{pattern}` has open faces: its letters do not make up the whole entry."
        )
    nodes = [c for c in orbit.classes for _ in range(c.size or 0)]
    # A stack instead of recursion: patterns have up to 64 letters.
    stack: list[tuple[tuple[int, ...], tuple[Counter[tuple[int, int]], ...]]] = [
        ((), tuple(Counter(c.faces) for c in nodes))
    ]
    while stack:
        chosen, left = stack.pop()
        if len(chosen) == len(pattern.letters):
            yield chosen
            continue
        signature, sort = pattern.place(pattern.letters[len(chosen)])
        places = Counter(signature)
        # Reversed, so that the stack yields placements in lexicographic order.
        for node in reversed(range(len(nodes))):
            if nodes[node].sort == sort and places <= left[node]:
                after = (*left[:node], left[node] - places, *left[node + 1 :])
                stack.append(((*chosen, node), after))
