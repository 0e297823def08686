r"""Pairs of orbits to operations: overlap matrices, listed and counted (docs/math.md section 4).

The pairs (input entry, output entry) of two orbits fall into one orbit of the relabellings for each *overlap matrix*
$a_{ij} = |X_i \cap Y_j|$: row sums at most the sizes of the input classes, column sums at most those of the output classes,
zero where the sorts differ. Open classes (docs/math.md section 11) have no bound of their own; instead at most `max_overlap` matched
nodes may lie in an open class of either side. With oriented faces (docs/math.md section 16) two nodes that can be exchanged must not
change the sign: at most one node matched between an odd and an even class, and at most one of an odd class unmatched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from math import comb, factorial, prod

from incidence.algebra.orbit import Class, Extent, Profile, profile_of, profiles, sorted_profile
from incidence.algebra.pattern import Pattern
from incidence.errors import TooLargeError

__all__ = [
    "MAX_LISTED",
    "Matrix",
    "bounded",
    "count_by_sort",
    "num_at",
    "num_overlaps",
    "num_within",
    "overlap_at",
    "overlap_matrices",
    "overlaps",
]

MAX_LISTED = 1_000_000
"""Lists of operations longer than this are refused; counts have no such limit."""
_MAX_STEPS = 2_000_000  # of one request: a few seconds

Matrix = tuple[tuple[int, ...], ...]
"""An overlap matrix as a tuple of rows."""


def overlaps(
    source: Sequence[Class], target: Sequence[Class], max_overlap: int = 1
) -> Iterator[Matrix]:
    """All overlap matrices of two orbits in row-major lexicographic order.

    Example:
        >>> [edge], [oriented] = Pattern("{i j}").orbits, Pattern("<i j>").orbits
        >>> list(overlaps(edge.classes, edge.classes)), list(overlaps(oriented.classes, oriented.classes))
        ([((0,),), ((1,),), ((2,),)], [((1,),), ((2,),)])
    """
    has_odd = any(c.is_odd for c in target)

    def matrix(i: int, left: tuple[Class, ...], budget: int) -> Iterator[Matrix]:
        if has_odd and not num_overlaps(source[i:], left, budget):
            return  # odd classes are to be matched but for one node, so most beginnings could lead nowhere
        if i == len(source):
            yield ()
            return
        for first, after, remaining in _rows(source[i], left, budget):
            for rest in matrix(i + 1, after, remaining):
                yield (first, *rest)

    return matrix(0, tuple(target), max_overlap)


def _choices(
    row: Extent, cols: Sequence[Extent], budget: int
) -> Iterator[tuple[tuple[int, ...], int]]:
    """All rows of an overlap matrix in lexicographic order, from the extents of classes; and what is left of the bound on open classes."""

    def choose(j: int, left: int, budget: int) -> Iterator[tuple[tuple[int, ...], int]]:
        if j == len(cols):
            if left <= 1 or not row.is_odd:
                yield (), budget
            return
        size, is_odd = cols[j]
        is_open = row.size is None or size is None
        most = min(
            left,
            left if size is None else size,
            budget if is_open else left,
            1 if is_odd != row.is_odd else left,
        )
        for a in range(most + 1):
            for rest, remaining in choose(j + 1, left - a, budget - a * is_open):
                yield (a, *rest), remaining

    return choose(0, budget if row.size is None else row.size, budget)


def _rows(
    source: Class, target: tuple[Class, ...], budget: int
) -> Iterator[tuple[tuple[int, ...], tuple[Class, ...], int]]:
    """All first rows in lexicographic order, each with what is left of the columns and of the bound on open classes."""
    cols = [Extent(c.size if c.sort == source.sort else 0, c.is_odd) for c in target]
    for row, remaining in _choices(Extent(source.size, source.is_odd), cols, budget):
        after = tuple(
            c if c.size is None or not a else replace(c, size=c.size - a)
            for c, a in zip(target, row, strict=True)
        )
        yield row, after, remaining


def overlap_at(
    source: Sequence[Class], target: Sequence[Class], max_overlap: int, position: int
) -> Matrix:
    """The overlap matrix at a position of the list, found row by row by counting what lies before it."""
    rows: list[tuple[int, ...]] = []
    left, budget = tuple(target), max_overlap
    for i, c in enumerate(source):
        for row, after, remaining in _rows(c, left, budget):
            count = num_overlaps(source[i + 1 :], after, remaining)
            if position < count:
                rows.append(row)
                left, budget = after, remaining
                break
            position -= count
    return tuple(rows)


@lru_cache(maxsize=1024)
def overlap_matrices(source: tuple[Class, ...], target: tuple[Class, ...]) -> tuple[Matrix, ...]:
    """The same as a list that is kept, of two orbits without open classes.

    Raises:
        TooLargeError: There are too many to list.
    """
    if num_overlaps(source, target) > MAX_LISTED:
        raise TooLargeError(
            f"two orbits with more than {MAX_LISTED:,} operations: too many to list."
        )
    return tuple(overlaps(source, target))


Counts = Counter[tuple[int, int]]
"""Numbers of overlap matrices by (number |A| of matched nodes, how many of those lie in an open class)."""


@lru_cache(maxsize=65536)
def _count(rows: Profile, cols: Profile, max_overlap: int) -> Counts:
    """Counts the overlap matrices of two profiles of one sort."""
    if set(rows) | set(cols) <= {Extent(1)}:  # partial matchings; the paper's tau, by size
        m, n = len(rows), len(cols)
        return Counter(
            {(k, 0): comb(m, k) * comb(n, k) * factorial(k) for k in range(min(m, n) + 1)}
        )
    finished = (
        counts
        for left, counts in _states(rows, cols, max_overlap).items()
        if not any(c.is_odd for c in left)
    )
    return sum(finished, Counter())


@lru_cache(maxsize=65536)
def _states(rows: Profile, cols: Profile, max_overlap: int) -> dict[Profile, Counts]:
    """The counts row by row, by what is left in the columns; profiles share the work for their common beginning."""
    if not rows:
        return {cols: Counter({(0, 0): 1})}
    states: dict[Profile, Counts] = {}
    for left, counts in _states(rows[:-1], cols, max_overlap).items():
        for row, remaining in _choices(rows[-1], left, max_overlap):
            after = sorted_profile(map(Extent.without, left, row))
            into, matched, opened = (
                states.setdefault(after, Counter()),
                sum(row),
                max_overlap - remaining,
            )
            for (a, t), ways in counts.items():
                if t + opened <= max_overlap:
                    into[a + matched, t + opened] += ways
            _spend(len(counts) + len(left))
    return states


_spent: ContextVar[list[int] | None] = ContextVar("steps spent on the count at hand", default=None)


def _spend(steps: int) -> None:
    spent = _spent.get()
    if spent is not None:
        spent[0] += steps
        if spent[0] > _MAX_STEPS:
            raise TooLargeError(
                "there are too many operations to count in a few seconds: use smaller or fewer faces."
            )


@contextmanager
def bounded() -> Iterator[None]:
    """All counting inside is one request, with one bound on its work."""
    if _spent.get() is not None:
        yield
        return
    token = _spent.set([0])
    try:
        yield
    finally:
        _spent.reset(token)


def num_overlaps(source: Sequence[Class], target: Sequence[Class], max_overlap: int = 1) -> int:
    """The number of overlap matrices of two orbits, counted without listing them."""
    with bounded():
        by_sort = [
            _count(
                *(profile_of(c for c in side if c.sort == sort) for side in (source, target)),
                max_overlap,
            )
            for sort in sorted({c.sort for c in (*source, *target)})
        ]
    return num_within(by_sort, max_overlap)


def num_within(by_sort: Iterable[Counts], max_overlap: int) -> int:
    """The number of choices of one matrix for each sort with at most `max_overlap` matched nodes in open classes altogether."""
    ways = {0: 1}
    for counts in by_sort:
        step: Counter[int] = Counter()
        for (_, opened), n in counts.items():
            for spent, before in ways.items():
                if spent + opened <= max_overlap:
                    step[spent + opened] += n * before
        ways = step
    return sum(ways.values())


def count_by_sort(
    source: Pattern, target: Pattern, max_overlap: int
) -> dict[str, Counter[tuple[int, int]]]:
    """For each sort, the number of operations by (number of nodes they need, matched nodes in open classes).

    The letters of different sorts do not meet, so the numbers of a map are products over the sorts of these.
    """
    sorts = dict.fromkeys([*source.sorts.values(), *target.sorts.values()])
    found = {}
    for sort in sorts:
        needs: Counter[tuple[int, int]] = Counter()
        for rows, ways in profiles(source.restrict(sort)).items():
            for cols, ways_too in profiles(target.restrict(sort)).items():
                nodes = sum(extent.size or 0 for extent in rows + cols)
                _spend(1)
                # The count is symmetric; rows are stepped through and columns are the state, so the shorter list is the state.
                longer, shorter = (rows, cols) if len(cols) <= len(rows) else (cols, rows)
                for (matched, opened), n in _count(longer, shorter, max_overlap).items():
                    needs[nodes - matched, opened] += ways * ways_too * n
        found[sort] = needs
    return found


def num_at(needs: dict[str, Counts], num_nodes: dict[str, int]) -> int:
    """The number of independent operations at given numbers of nodes, from `count_by_sort`."""
    return prod(
        sum(n for (nodes, _), n in counts.items() if nodes <= num_nodes[s])
        for s, counts in needs.items()
    )
