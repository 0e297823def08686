r"""Pattern to orbits: signatures, classes, and how many there are (docs/math.md section 3).

An entry of a pattern gives every node in it a *signature* (in which faces it stands, and where). Nodes of one sort with equal
signatures form a *class*; two entries lie in one orbit of the relabellings iff their classes have the same signatures, sorts
and sizes. So an orbit is a multiset of (signature, sort), and this module enumerates such multisets by placing the letters one
at a time: a letter either opens a node of its own or joins a node with which it shares no face of distinct nodes. Multisets
that agree are merged at every step, which keeps `{a b c d e f} {g h i j k l}` at seven states where it has 13,327 partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import groupby, product
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
    """The nodes of an entry that play the same part.

    Attributes:
        faces: The signature: pairs (face, position), position -1 in an unordered face.
        sort: The sort of the nodes.
        size: How many nodes; None for an *open* class, whose faces are all open and which has any number.
        is_odd: Whether it lies in an odd number of oriented faces, so that values change sign when two of its nodes are exchanged.
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
    r"""An orbit of the entries of a pattern: a list of classes, that is, $\mathrm{Inj}([m],[N])/H$ with $H = \prod_i S_{h_i}$.

    Written as a pattern in which different letters are different nodes: `i j` has the orbits `i i` and `i j`.

    Attributes:
        kinds: The kinds of the faces of the pattern, and whether each is open.
        classes: The classes, ordered by signature, then sort.
        letters: The letters of the pattern with their signatures and sorts; they only serve to name nodes.

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
        """Whether a constant on the orbit commutes with relabelling: no two nodes of it can be exchanged against the sign."""
        return all(c.size == 1 for c in self.classes if c.is_odd)

    @cached_property
    def order_key(self) -> tuple[int, tuple[tuple[Signature, str, int], ...]]:
        """Orbits are ordered by size, then classes."""
        return self.size, tuple((c.faces, c.sort, c.size or 0) for c in self.classes)

    @cached_property
    def node_names(self) -> tuple[tuple[str, ...], ...]:
        """A name for every node of every class of fixed size: a letter that stands in those faces, or a fresh one."""
        free = list(self.letters)
        fresh = (f"{c}{n or ''}" for n in range(100) for c in "ijklmnopqrstuvwxyzabcdefgh")
        named: dict[int, tuple[str, ...]] = {}
        for i in self._reading_order():
            c = self.classes[i]
            fits = [x for x in free if x[2] == c.sort and not Counter(x[1]) - Counter(c.faces)]
            fits = sorted(fits, key=lambda x: -len(x[1]))[: c.size or 0]
            free = [x for x in free if x not in fits]
            taken = {x[0] for x in self.letters}.union(*named.values())
            names = [x[0] for x in fits]
            while len(names) < (c.size or 0):
                names.append(next(x for x in fresh if x not in taken))
            named[i] = tuple(names)
        return tuple(named[i] for i in range(len(self.classes)))

    def write(self, node_names: Sequence[Sequence[str]]) -> str:
        """The faces in the given names of nodes, which stand class by class; oriented faces in the orientation of these lists."""
        inside = self.names_by_face(node_names)
        return write_faces(
            (kind, names, is_open)
            for (kind, is_open), names in zip(self.kinds, inside, strict=True)
        )

    def names_by_face(self, node_names: Sequence[Sequence[str]]) -> list[list[str]]:
        """The names of the nodes of every face, in the order in which they are written."""
        words: list[list[tuple[int, int, str]]] = [[] for _ in self.kinds]
        # In an unordered face, where all positions are -1, the letters of the pattern come in their order; in an oriented one, the
        # classes in theirs.
        rank = {letter[0]: number for number, letter in enumerate(self.letters)}
        for i in self._reading_order():
            for (face, position), name in product(self.classes[i].faces, node_names[i]):
                words[face].append(
                    (
                        position,
                        i if self.kinds[face][0].is_oriented else rank.get(name, len(rank)),
                        name,
                    )
                )
        return [[name for *_, name in sorted(w, key=lambda x: x[:2])] for w in words]

    def _reading_order(self) -> list[int]:
        """The classes in the order in which a reader of the faces meets them."""
        return sorted(
            range(len(self.classes)),
            key=lambda i: (*self.classes[i].faces[:1], -len(self.classes[i].faces), i),
        )

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        return self.write(self.node_names)


State = tuple[tuple[Signature, str], ...]  # a sorted multiset of nodes, each a signature and a sort


class Extent(NamedTuple):
    """What counting needs of a class: its size (None if open), and whether it is odd with two nodes or more.

    With one node, where nothing can be exchanged, being odd makes no difference.
    """

    size: int | None
    is_odd: bool = False

    def without(self, nodes: int) -> Extent:
        """The class with some nodes less."""
        return (
            self
            if self.size is None
            else Extent(self.size - nodes, self.is_odd and self.size - nodes > 1)
        )


Profile = tuple[Extent, ...]  # of the classes of one sort, sorted, open ones last


def orbits(pattern: Pattern) -> tuple[Orbit, ...]:
    """The orbits of a pattern by size, then classes; with open faces the families of orbits.

    Raises:
        TooLargeError: There are more than `MAX_ORBITS`.
    """
    states = _states(pattern, pattern.fixed_letters)
    opened = _open_signatures(pattern)
    letters = tuple(
        (name, pattern.signatures[name], pattern.sorts[name]) for name in pattern.letters
    )
    found = (Orbit(pattern.kinds, _classes(pattern, state, opened), letters) for state in states)
    return tuple(sorted(found, key=lambda orbit: orbit.order_key))


def num_partitions(pattern: Pattern) -> dict[int, int]:
    r"""How many partitions of the letters have m blocks, before reordering identifies some: the paper's $\kappa_m$."""
    counts: Counter[int] = Counter()
    for state, ways in _states(pattern, pattern.fixed_letters).items():
        counts[len(state)] += ways
    return dict(sorted(counts.items()))


@lru_cache(maxsize=1024)
def profiles(pattern: Pattern) -> Counter[Profile]:
    """How many orbits of a pattern with one sort have given class sizes, without listing the orbits.

    A letter that stands alone in all its faces is *free*: it may become a node of its own, or any node already there. The face
    it marks tells the results apart, so the orbits with one letter more are counted by the class the letter joins.
    """
    alone = [len(face.letters) == 1 and not face.is_open for face in pattern.faces]
    free = {name for name in pattern.letters if all(alone[d] for d, _ in pattern.signatures[name])}
    letters = tuple(name for name in pattern.fixed_letters if name not in free)
    opened = _open_signatures(pattern)
    counts = Counter(
        profile_of(_classes(pattern, state, opened)) for state in _states(pattern, letters)
    )
    for _ in free:
        step: Counter[Profile] = Counter()
        for profile, ways in counts.items():
            for joined in _with_free_letter(profile):
                step[joined] += ways
        counts = step
    return counts


def _with_free_letter(profile: Profile) -> Iterator[Profile]:
    yield sorted_profile((*profile, Extent(1)))
    for i, extent in enumerate(profile):
        rest = profile[:i] + profile[i + 1 :]
        left = () if extent.size == 1 else (extent.without(1),)
        yield sorted_profile((*rest, *left, Extent(1)))


def profile_of(classes: Iterable[Class]) -> Profile:
    """The profile of classes of one sort."""
    return sorted_profile(Extent(c.size, c.is_odd).without(0) for c in classes)


def sorted_profile(extents: Iterable[Extent]) -> Profile:
    """Extents as a profile."""
    return tuple(
        sorted(extents, key=lambda extent: (extent.size is None, extent.size or 0, extent.is_odd))
    )


def _states(pattern: Pattern, letters: tuple[str, ...]) -> dict[State, int]:
    """All multisets of nodes that the letters can form, each with the number of partitions of the letters that give it."""
    distinct = [kind.is_distinct for kind, _ in pattern.kinds]
    states: dict[State, int] = {(): 1}
    for name in letters:
        states = _merge(
            pattern,
            (
                (placed, ways * repeats)
                for state, ways in states.items()
                for placed, repeats in _place(
                    state, pattern.signatures[name], pattern.sorts[name], distinct
                )
            ),
        )
    for number, face in enumerate(pattern.faces):
        if face.is_open:
            joined = (
                (s, ways)
                for state, ways in states.items()
                for s in _join_open(state, number, face.letters[0].sort)
            )
            states = _merge(pattern, joined)
    return states


def _merge(pattern: Pattern, found: Iterable[tuple[State, int]]) -> dict[State, int]:
    merged: dict[State, int] = {}
    work = 0
    for state, ways in found:
        merged[state] = merged.get(state, 0) + ways
        work += len(state)
        if len(merged) > MAX_ORBITS or work > _MAX_WORK:
            text = f"`{pattern}` has too many orbits to list (more than {len(merged):,} at least)"
            raise TooLargeError(
                f"{text}. Use a collection of smaller patterns, or faces in brackets."
            )
    return merged


def _place(
    state: State, signature: Signature, sort: str, distinct: list[bool]
) -> Iterator[tuple[State, int]]:
    """Puts one more letter on a node of its own, or on each kind of node it may share; with the number of such nodes."""
    yield tuple(sorted((*state, (signature, sort)))), 1
    faces = {d for d, _ in signature if distinct[d]}
    for (taken, its_sort), group in groupby(state):
        if its_sort == sort and faces.isdisjoint(d for d, _ in taken):
            rest = list(state)
            rest.remove((taken, its_sort))
            rest.append((tuple(sorted(taken + signature)), sort))
            yield tuple(sorted(rest)), len(list(group))


def _join_open(state: State, face: int, sort: str) -> Iterator[State]:
    """Every way in which nodes of fixed faces also belong to an open face: any number of each kind may."""
    groups = [(node, len(list(group))) for node, group in groupby(state)]
    may = [its_sort == sort and all(d != face for d, _ in taken) for (taken, its_sort), _ in groups]
    for chosen in product(
        *(range(n + 1) if free else (0,) for (_, n), free in zip(groups, may, strict=True))
    ):
        nodes: list[tuple[Signature, str]] = []
        for ((taken, its_sort), n), c in zip(groups, chosen, strict=True):
            nodes += [(taken, its_sort)] * (n - c) + [
                (tuple(sorted((*taken, (face, -1)))), its_sort)
            ] * c
        yield tuple(sorted(nodes))


def _open_signatures(pattern: Pattern) -> tuple[tuple[Signature, str], ...]:
    """The open classes: every non-empty set of open faces of one sort."""
    by_sort: dict[str, list[int]] = {}
    for number, face in enumerate(pattern.faces):
        if face.is_open:
            by_sort.setdefault(face.letters[0].sort, []).append(number)
    if any(len(numbers) > 5 for numbers in by_sort.values()):
        raise TooLargeError(
            f"`{pattern}` has more than five open faces of one sort: there would be too many classes."
        )
    return tuple(
        (tuple((number, -1) for i, number in enumerate(numbers) if subset >> i & 1), sort)
        for sort, numbers in by_sort.items()
        for subset in range(1, 1 << len(numbers))
    )


def _classes(
    pattern: Pattern, state: State, opened: tuple[tuple[Signature, str], ...]
) -> tuple[Class, ...]:
    fixed = [
        Class(signature, sort, len(list(group)), is_odd(pattern.kinds, signature))
        for (signature, sort), group in groupby(state)
    ]
    return tuple(
        sorted(
            [*fixed, *(Class(s, sort, None) for s, sort in opened)], key=lambda c: (c.faces, c.sort)
        )
    )


def placement_sign(pattern: Pattern, placed: Sequence[int]) -> int:
    """The sign by which a placement of the letters differs from the standard orientation: nodes in their order, class by class."""
    return orientation_sign(pattern.faces, dict(zip(pattern.letters, placed, strict=True)))


def placements(pattern: Pattern, orbit: Orbit) -> Iterator[tuple[int, ...]]:
    """All ways to put the letters of a pattern on the nodes of an orbit: for every letter, the number of its node.

    Nodes are numbered class by class. Patterns with open faces have letters that need no node of their own; they are refused.

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
    stack: list[tuple[tuple[int, ...], tuple[Counter[tuple[int, int]], ...]]] = [
        ((), tuple(Counter(c.faces) for c in nodes))
    ]
    while stack:
        chosen, left = stack.pop()
        if len(chosen) == len(pattern.letters):
            yield chosen
            continue
        name = pattern.letters[len(chosen)]
        places = Counter(pattern.signatures[name])
        for node in reversed(range(len(nodes))):
            if nodes[node].sort == pattern.sorts[name] and places <= left[node]:
                stack.append(
                    ((*chosen, node), (*left[:node], left[node] - places, *left[node + 1 :]))
                )
