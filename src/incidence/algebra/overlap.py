r"""Pairs of orbits to operations: overlap matrices, listed and counted (docs/math.md section 4).

The pairs (input entry, output entry) of two orbits fall into one orbit of the relabellings for each
*overlap matrix* $a_{ij} = |X_i \cap Y_j|$: row sums at most the sizes of the input classes, column
sums at most those of the output classes, zero where the sorts differ. Open classes (docs/math.md
section 11) have no bound of their own; instead at most `max_overlap` matched nodes may lie in an
open class of either side. With oriented faces (docs/math.md section 16) two nodes that can be
exchanged must not change the sign: at most one node matched between an odd and an even class, and
at most one of an odd class unmatched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from math import comb, factorial

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
_MAX_STEPS = 2_000_000  # of one count: a few seconds

Matrix = tuple[tuple[int, ...], ...]
"""An overlap matrix as a tuple of rows."""


def overlaps(
    source: Sequence[Class], target: Sequence[Class], max_overlap: int = 1
) -> Iterator[Matrix]:
    """Yield all overlap matrices of two orbits in row-major lexicographic order.

    Example:
        >>> [edge], [oriented] = Pattern("{i j}").orbits, Pattern("<i j>").orbits
        >>> list(overlaps(edge.classes, edge.classes))
        [((0,),), ((1,),), ((2,),)]
        >>> list(overlaps(oriented.classes, oriented.classes))
        [((1,),), ((2,),)]
    """
    has_odd = any(c.is_odd for c in target)

    def matrix(i: int, left: tuple[Class, ...], budget: int) -> Iterator[Matrix]:
        # All nodes of an odd class but one must be matched, so most beginnings lead nowhere.
        if has_odd and not num_overlaps(source[i:], left, budget):
            return
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
    """Yield all rows of an overlap matrix in lexicographic order.

    Each comes with the number of nodes that may still be matched in open classes.
    """

    def choose(j: int, left: int, budget: int) -> Iterator[tuple[tuple[int, ...], int]]:
        if j == len(cols):
            # At most one node of an odd class stays unmatched.
            if left <= 1 or not row.is_odd:
                yield (), budget
            return
        size, is_odd = cols[j]
        is_open = row.size is None or size is None
        bounds = [left]
        if size is not None:
            bounds.append(size)  # no more nodes than the column class has
        if is_open:
            bounds.append(budget)  # no more than max_overlap in open classes
        if is_odd != row.is_odd:
            bounds.append(1)
        for a in range(min(bounds) + 1):
            for rest, remaining in choose(j + 1, left - a, budget - a * is_open):
                yield (a, *rest), remaining

    return choose(0, budget if row.size is None else row.size, budget)


def _rows(
    source: Class, target: tuple[Class, ...], budget: int
) -> Iterator[tuple[tuple[int, ...], tuple[Class, ...], int]]:
    """Yield all first rows in lexicographic order.

    Each comes with the unmatched part of the columns, and with the number of nodes that may still
    be matched in open classes.
    """
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
    """Return the overlap matrix at a position of the list, without listing those before it.

    Each row follows from counting the matrices that begin with a smaller row.
    """
    rows: list[tuple[int, ...]] = []
    left, budget = tuple(target), max_overlap
    for i, c in enumerate(source):
        for row, after, remaining in _rows(c, left, budget):
            count = num_overlaps(source[i + 1 :], after, remaining)
            # The matrix is among those that begin with the rows so far and this one.
            if position < count:
                rows.append(row)
                left, budget = after, remaining
                break
            position -= count  # all those matrices come before
    return tuple(rows)


@lru_cache(maxsize=1024)
def overlap_matrices(source: tuple[Class, ...], target: tuple[Class, ...]) -> tuple[Matrix, ...]:
    """Return the overlap matrices of two orbits without open classes, from a cache.

    Raises:
        TooLargeError: There are too many to list.
    """
    if num_overlaps(source, target) > MAX_LISTED:
        raise TooLargeError(
            f"two orbits with more than {MAX_LISTED:,} operations: too many to list."
        )
    return tuple(overlaps(source, target))


Counts = Counter[tuple[int, int]]
"""Numbers of overlap matrices, by (number of matched nodes, number of those in open classes)."""


@lru_cache(maxsize=65536)
def _count(rows: Profile, cols: Profile, max_overlap: int) -> Counts:
    """Count the overlap matrices of two profiles of one sort."""
    # All classes have one node: a closed formula.
    if set(rows) | set(cols) <= {Extent(1)}:  # partial matchings; the paper's tau, by size
        m, n = len(rows), len(cols)
        sizes = range(min(m, n) + 1)
        return Counter({(k, 0): comb(m, k) * comb(n, k) * factorial(k) for k in sizes})
    total: Counts = Counter()
    for left, counts in _states(rows, cols, max_overlap).items():
        if not any(c.is_odd for c in left):
            total += counts
    return total


@lru_cache(maxsize=65536)
def _states(rows: Profile, cols: Profile, max_overlap: int) -> dict[Profile, Counts]:
    """Count the matrices by the unmatched part of the columns, row by row.

    Profiles that begin alike share the work for their beginning.
    """
    if not rows:
        return {cols: Counter({(0, 0): 1})}
    states: dict[Profile, Counts] = {}
    for left, counts in _states(rows[:-1], cols, max_overlap).items():
        for row, remaining in _choices(rows[-1], left, max_overlap):
            after = sorted_profile(map(Extent.without, left, row))
            into = states.setdefault(after, Counter())
            matched, opened = sum(row), max_overlap - remaining
            for (a, t), ways in counts.items():
                if t + opened <= max_overlap:
                    # independent choices: numbers multiply along a path
                    into[a + matched, t + opened] += ways
            # The work grows with the states times what each holds.
            _spend(len(counts) + len(left))
    return states


_spent: ContextVar[list[int] | None] = ContextVar("steps spent on the count at hand", default=None)


def _spend(steps: int) -> None:
    spent = _spent.get()
    if spent is not None:
        spent[0] += steps
        if spent[0] > _MAX_STEPS:
            raise TooLargeError(
                "there are too many operations to count in a few seconds: use smaller or fewer"
                " faces."
            )


@contextmanager
def bounded() -> Iterator[None]:
    """Bound the work of all counting inside of the `with` block together."""
    if _spent.get() is not None:
        yield
        return
    token = _spent.set([0])
    try:
        yield
    finally:
        _spent.reset(token)


def num_overlaps(source: Sequence[Class], target: Sequence[Class], max_overlap: int = 1) -> int:
    """Return the number of overlap matrices of two orbits, without listing them."""
    by_sort = []
    with bounded():
        for sort in sorted({c.sort for c in (*source, *target)}):
            rows, cols = (
                profile_of(c for c in side if c.sort == sort) for side in (source, target)
            )
            by_sort.append(_count(rows, cols, max_overlap))
    return num_within(by_sort, max_overlap)


def num_within(by_sort: Iterable[Counts], max_overlap: int) -> int:
    """Return the number of choices of one matrix for each sort.

    At most `max_overlap` matched nodes may lie in open classes, all sorts together.
    """
    # From the number of matched nodes in open classes to the number of choices so far.
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
    """Count the operations of each sort, by (nodes they need, matched nodes in open classes).

    Letters of different sorts do not meet, so the numbers of a map are products over the sorts.
    """
    by_sort = {}
    for sort in dict.fromkeys([*source.sorts.values(), *target.sorts.values()]):
        needs: Counter[tuple[int, int]] = Counter()
        for rows, ways in profiles(source.restrict(sort)).items():
            for cols, ways_too in profiles(target.restrict(sort)).items():
                # An operation needs all nodes of both entries, the matched ones once.
                nodes = sum(extent.size or 0 for extent in rows + cols)
                _spend(1)
                # The count is symmetric; rows are stepped through and columns are the state, so the
                # shorter list is the state.
                longer, shorter = (rows, cols) if len(cols) <= len(rows) else (cols, rows)
                for (matched, opened), n in _count(longer, shorter, max_overlap).items():
                    needs[nodes - matched, opened] += ways * ways_too * n
        by_sort[sort] = needs
    return by_sort


def num_at(needs: dict[str, Counts], num_nodes: dict[str, int]) -> int:
    """Return the number of independent operations at given numbers of nodes.

    Args:
        needs: The result of `count_by_sort`.
        num_nodes: The number of nodes of every sort.
    """
    total = 1
    for sort, counts in needs.items():
        total *= sum(n for (nodes, _), n in counts.items() if nodes <= num_nodes[sort])
    return total
