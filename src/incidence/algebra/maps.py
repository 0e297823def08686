r"""`EquivariantMap`: the linear maps between two collections of patterns that commute with every
relabelling of the nodes.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, overload

from incidence.algebra.describe import read
from incidence.algebra.grammar import parse
from incidence.algebra.orbit import Orbit, profiles
from incidence.algebra.overlap import (
    MAX_LISTED,
    Matrix,
    bounded,
    count_by_sort,
    num_at,
    num_overlaps,
    num_within,
    overlap_at,
    overlaps,
)
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, PatternError, TooLargeError
from incidence.notebook import html_of

if TYPE_CHECKING:
    from incidence.algebra.composition import Composition

__all__ = [
    "MAX_PAIRS",
    "EquivariantMap",
    "Operation",
    "Operations",
    "OrbitPair",
    "TensorOrbit",
    "as_map",
]

_STRIDE = 10_000  # up to so many matrices are skipped one by one, which is faster than counting
MAX_PAIRS = 100_000
"""Maps with more pairs of orbits than this are counted, but their operations are not listed."""


class TensorOrbit(NamedTuple):
    """Where an operation reads or writes.

    Attributes:
        tensor: The position of the tensor on its side of the map.
        number: The number of the orbit in its pattern.
        orbit: The orbit itself.
    """

    tensor: int
    number: int
    orbit: Orbit


@dataclass(frozen=True, repr=False)
class Operation:
    """One pool-and-broadcast operation. It prints as a formula and in words.

    Attributes:
        source, target: The orbits that it reads and writes.
        overlap: The overlap matrix as a tuple of rows, shape (source classes, target classes).

    Example:
        >>> EquivariantMap("i j -> i j").operations[12]
        <Operation y[j i] = x[i j]: match i, j>
    """

    source: TensorOrbit
    target: TensorOrbit
    overlap: Matrix

    def __str__(self) -> str:
        return str(read(self))

    def __repr__(self) -> str:
        return f"<Operation {self}>"

    _repr_html_ = html_of


@dataclass(frozen=True)
class OrbitPair:
    """All operations between two orbits: `count` operations, numbered from `start`."""

    source: TensorOrbit
    target: TensorOrbit
    start: int
    count: int


class EquivariantMap:
    r"""The linear maps between two collections of patterns that commute with every relabelling of
    the nodes.

    Args:
        text: The map as text, for example `i, {i j} -> i j`.
        max_overlap: How many matched nodes may lie in an open class (`...`). It does not affect
            operations without open classes.

    Raises:
        PatternError: The text is outside the grammar; the message points at the place.

    Example:
        >>> m = EquivariantMap("i j -> i j k")
        >>> m.dimension, m.num_biases, m.dimension_at(4)
        (52, 5, 51)
        >>> m.operations[1].overlap
        ((1,),)
    """

    def __init__(self, text: str, max_overlap: int = 1) -> None:
        is_number = isinstance(max_overlap, int) and not isinstance(max_overlap, bool)
        if not is_number or not 0 <= max_overlap <= 64:
            raise IncidenceError(
                f"max_overlap is a number of matched nodes, 0 to 64; got {max_overlap!r}."
            )
        inputs, outputs = (tuple(map(Pattern, side)) for side in parse(text, is_map=True))
        self.__dict__.update(text=text, inputs=inputs, outputs=outputs, max_overlap=max_overlap)
        named = {pattern.name: pattern for pattern in inputs if pattern.name}
        for pattern in outputs:
            other = named.get(pattern.name or "", pattern)
            if other != pattern:
                arrow = text.index("->")
                # Syntax has no places, so the name is searched for.
                place = re.search(rf"\b{pattern.name}\s*=", text[arrow:])
                position = arrow + (place.start() if place else 0)
                problem = f"the name `{pattern.name}` means `{other.unnamed()}` left of the arrow"
                raise PatternError(
                    text, position, problem, "a name means one support throughout a map"
                )

    @classmethod
    def between(
        cls, inputs: Iterable[Pattern], outputs: Iterable[Pattern], max_overlap: int = 1
    ) -> EquivariantMap:
        """Return the map between given patterns.

        A letter that has different sorts in two patterns is renamed; names of tensors stay.
        """
        # The sort of every letter so far: one letter has one sort in a map.
        sorts: dict[str, str] = {}

        def renamed(pattern: Pattern) -> Pattern:
            letters = (f"{c}{n}" for n in range(1, 1000) for c in "ijklmn")
            fresh = (x for x in letters if x not in sorts and x not in pattern.sorts)
            clashes = [x for x, sort in pattern.sorts.items() if sorts.get(x, sort) != sort]
            renamed = pattern.rename({x: next(fresh) for x in clashes})
            sorts.update(renamed.sorts)
            return renamed

        sides = {"inputs": tuple(map(renamed, inputs)), "outputs": tuple(map(renamed, outputs))}
        self = cls.__new__(cls)
        self.__dict__.update(sides, max_overlap=max_overlap)
        self.__dict__["text"] = str(self)
        return self

    text: str
    """The text as the caller wrote it."""
    inputs: tuple[Pattern, ...]
    """The patterns left of the arrow."""
    outputs: tuple[Pattern, ...]
    """The patterns right of the arrow."""
    max_overlap: int
    """The greatest number of matched nodes in open classes."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"an EquivariantMap cannot be changed; make a new one instead of setting `{name}`"
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"an EquivariantMap cannot be changed; `{name}` stays")

    @cached_property
    def sorts(self) -> tuple[str, ...]:
        """The sorts of the nodes, in order of appearance."""
        patterns = self.inputs + self.outputs
        return tuple(dict.fromkeys(sort for p in patterns for sort in p.sorts.values()))

    @property
    def is_open(self) -> bool:
        """Whether some face has a mixed size (`...`)."""
        return any(pattern.is_open for pattern in self.inputs + self.outputs)

    @property
    def is_oriented(self) -> bool:
        """Whether some face is oriented."""
        return any(pattern.is_oriented for pattern in self.inputs + self.outputs)

    @cached_property
    def dimension(self) -> int:
        """The number of independent operations for many nodes; operations are not listed for it."""
        total, k = 0, self.max_overlap
        with bounded():
            for (p, q), n in self._pattern_pairs():
                total += n * num_within(count_by_sort(p, q, k).values(), k)
        return total

    def dimension_at(self, num_nodes: int | Mapping[str, int]) -> int:
        """Return the exact dimension of the space of equivariant maps at given numbers of nodes.

        Args:
            num_nodes: The number of nodes, for every sort at once or for each sort.

        Raises:
            IncidenceError: The map has open faces, or a number is missing or negative.
        """
        if self.is_open:
            raise IncidenceError(
                f"`{self}` has open faces: their sizes are not bounded, so there is no dimension at"
                " N nodes."
            )
        total, counts = 0, self._counts(num_nodes)
        with bounded():
            for (p, q), n in self._pattern_pairs():
                total += n * num_at(count_by_sort(p, q, self.max_overlap), counts)
        return total

    def _pattern_pairs(self) -> Iterable[tuple[tuple[Pattern, Pattern], int]]:
        """Return the pairs of an input and an output without names, and how often each occurs."""
        pairs = ((p.unnamed(), q.unnamed()) for p in self.inputs for q in self.outputs)
        return Counter(pairs).items()

    def _counts(self, num_nodes: int | Mapping[str, int]) -> dict[str, int]:
        if isinstance(num_nodes, int):
            num_nodes = dict.fromkeys(self.sorts, num_nodes)
        if not isinstance(num_nodes, Mapping):
            raise IncidenceError(
                f"num_nodes is an integer, or a mapping from sort to integer; got {num_nodes!r}."
            )
        missing = [sort for sort in self.sorts if sort not in num_nodes]
        if missing:
            raise IncidenceError(
                f"`{self}` needs a number of nodes for the sort `{missing[0]}`: give one for each"
                " sort."
            )
        unknown = [sort for sort in num_nodes if sort not in self.sorts]
        if unknown:
            raise IncidenceError(
                f"`{self}` has no sort {unknown[0]!r}; its sorts are:"
                f" {', '.join(self.sorts) or 'none'}."
            )
        for sort, n in num_nodes.items():
            if isinstance(n, bool) or not isinstance(n, int) or n < 0:
                raise IncidenceError(
                    f"the number of nodes of sort `{sort}` must be an integer of at least 0; got"
                    f" {n!r}."
                )
        return {sort: num_nodes[sort] for sort in self.sorts}

    @cached_property
    def enough_nodes(self) -> Mapping[str, int]:
        """For each sort, the least number of nodes from which on `dimension` is exact.

        It is 0 if there are no operations.
        """
        enough = dict.fromkeys(self.sorts, 0)
        with bounded():
            for (p, q), _ in self._pattern_pairs():
                needs = count_by_sort(p, q, self.max_overlap)
                # A pair without operations needs no nodes.
                for sort, counts in needs.items() if all(needs.values()) else ():
                    enough[sort] = max(enough[sort], *(n for n, _ in counts))
        return MappingProxyType(enough)

    @cached_property
    def num_biases(self) -> int:
        """The number of independent biases, at most one for each output orbit.

        With open faces it is one for each family of orbits.
        """
        return sum(num_orbits(pattern, with_bias=True) for pattern in self.outputs)

    @cached_property
    def pairs(self) -> tuple[OrbitPair, ...]:
        """The pairs of an input and an output orbit, in the order of their operations.

        Raises:
            TooLargeError: There are too many pairs to list.
        """
        if self.num_pairs > MAX_PAIRS:
            raise TooLargeError(
                f"`{self}` has {self.num_pairs:,} pairs of orbits, more than the {MAX_PAIRS:,} that"
                " are listed."
            )
        return tuple(self.iter_pairs())

    @cached_property
    def num_pairs(self) -> int:
        """The number of pairs of an input and an output orbit."""
        return sum(map(num_orbits, self.inputs)) * sum(map(num_orbits, self.outputs))

    def iter_pairs(self) -> Iterator[OrbitPair]:
        """Yield the pairs one after the other, however many there are."""
        start = 0
        for s, p in enumerate(self.inputs):
            for t, q in enumerate(self.outputs):
                for a, source in enumerate(p.orbits):
                    for b, target in enumerate(q.orbits):
                        count = num_overlaps(source.classes, target.classes, self.max_overlap)
                        yield OrbitPair(
                            TensorOrbit(s, a, source), TensorOrbit(t, b, target), start, count
                        )
                        start += count

    @property
    def operations(self) -> Operations:
        """All operations, as a lazy sequence.

        They are sorted by source tensor, target tensor, source orbit, target orbit (by size, then
        classes), and overlap matrix in row-major lexicographic order. The order depends on the
        meaning of the map only, not on its spelling.
        """
        return Operations(self)

    def compose(self, then: EquivariantMap | str) -> Composition:
        """Return the product with a map that is applied after this one, on the complete structure.

        See `Composition`.
        """
        from incidence.algebra.composition import Composition  # which imports this module

        return Composition(self, as_map(then))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EquivariantMap):
            return NotImplemented
        return self is other or self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Maps are keys of many caches: hashing their parts each time would slow down small layers.
        return hash(self._key)

    @cached_property
    def _key(self) -> tuple[object, ...]:
        # The bound makes no difference without open faces.
        return self.inputs, self.outputs, self.max_overlap if self.is_open else None

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.inputs))} -> {', '.join(map(str, self.outputs))}"

    def __repr__(self) -> str:
        bound = f", max_overlap={self.max_overlap}" if self.is_open else ""
        return f"EquivariantMap({str(self)!r}{bound})"

    _repr_html_ = html_of

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return EquivariantMap.between, (self.inputs, self.outputs, self.max_overlap)


def as_map(value: EquivariantMap | str) -> EquivariantMap:
    """Return a map from a map or its text."""
    if isinstance(value, EquivariantMap):
        return value
    if isinstance(value, str):
        return EquivariantMap(value)
    raise IncidenceError(f"a map is an EquivariantMap or its text; got {type(value).__name__}.")


def num_orbits(pattern: Pattern, with_bias: bool = False) -> int:
    """Return the number of orbits of a pattern, or of those that have a bias, without listing them.

    It is a product over the sorts.
    """
    total = 1
    for sort in set(pattern.sorts.values()):
        counts = profiles(pattern.restrict(sort))
        if with_bias:
            counts = Counter({p: n for p, n in counts.items() if not any(x.is_odd for x in p)})
        total *= counts.total()
    return total


class Operations(Sequence[Operation]):
    """The operations of a map as a lazy sequence.

    Indexing skips the pairs of orbits before the operation without listing their operations.
    """

    def __init__(self, owner: EquivariantMap) -> None:
        self._map = owner

    def __len__(self) -> int:
        if self._map.dimension > sys.maxsize:
            raise TooLargeError(
                f"`{self._map}` has {self._map.dimension:,} operations, more than len() can say."
                " Use `.dimension`."
            )
        return self._map.dimension

    def __bool__(self) -> bool:
        return self._map.dimension > 0

    def __iter__(self) -> Iterator[Operation]:
        count = self._map.dimension
        if count > MAX_LISTED:
            raise TooLargeError(
                f"`{self._map}` has {count:,} operations, more than the {MAX_LISTED:,} that are"
                " listed. Take a slice, such as `.operations[:100]`, or count them with"
                " `.dimension`."
            )
        return self._between(0, count)

    def _between(self, start: int, stop: int) -> Iterator[Operation]:
        # Found by bisection: the pairs before hold up to billions of operations.
        pairs = self._map.pairs
        before = bisect_right(pairs, start, key=lambda pair: pair.start)
        for pair in pairs[max(before - 1, 0) :]:
            if pair.start >= stop:
                return
            # Positions within the pair.
            first = max(start - pair.start, 0)
            last = min(stop - pair.start, pair.count)
            for matrix in self._matrices(pair, first, last):
                yield Operation(pair.source, pair.target, matrix)

    def _matrices(self, pair: OrbitPair, first: int, last: int) -> Iterator[Matrix]:
        """Return the overlap matrices of some operations of a pair, by listing or by counting."""
        ends = pair.source.orbit.classes, pair.target.orbit.classes, self._map.max_overlap
        if last - first > 1 and first <= _STRIDE:
            return islice(overlaps(*ends), first, last)
        return (overlap_at(*ends, k) for k in range(first, last))

    @overload
    def __getitem__(self, item: int) -> Operation: ...
    @overload
    def __getitem__(self, item: slice) -> list[Operation]: ...
    def __getitem__(self, item: int | slice) -> Operation | list[Operation]:
        if isinstance(item, slice):
            start, stop, step = item.indices(self._map.dimension)
            count = max(0, -((start - stop) // step))
            if count > MAX_LISTED:
                raise TooLargeError(
                    f"a slice of {count:,} operations: at most {MAX_LISTED:,} are listed."
                )
            # Consecutive operations share the work for their pair.
            if step == 1:
                return list(self._between(start, stop))
            return [self[start + i * step] for i in range(count)]
        k = range(self._map.dimension)[item]
        return next(self._between(k, k + 1))

    def __repr__(self) -> str:
        return f"<{self._map.dimension:,} operations of {self._map}>"
