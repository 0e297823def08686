r"""Pairs of orbits to operations: overlap matrices, listed and counted.

The pairs (input entry, output entry) of two orbits fall into one orbit of the relabellings for each *overlap matrix*
$a_{ij} = |X_i \cap Y_j|$: row sums at most the sizes of the input classes, column sums at most those of the output classes,
zero where the sorts differ. Open classes have no bound of their own; instead at most `max_overlap` matched nodes may lie in an
open class of either side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from math import comb, prod

from incidence.algebra.orbit import Class, Profile, profiles
from incidence.algebra.pattern import Pattern
from incidence.errors import TooLargeError

__all__ = ["MAX_LISTED", "Matrix", "count_by_sort", "num_overlaps", "overlap_at", "overlaps", "total"]

MAX_LISTED = 1_000_000
"""Lists of operations longer than this are refused; counts have no such limit."""
_MAX_STEPS = 3_000_000  # of the count of one pair of orbits: a few seconds

Matrix = tuple[tuple[int, ...], ...]
"""An overlap matrix as a tuple of rows."""


def total(overlap: Matrix) -> int:
    """The number |A| of matched nodes."""
    return sum(map(sum, overlap))


def overlaps(source: Sequence[Class], target: Sequence[Class], max_overlap: int = 1) -> Iterator[Matrix]:
    """All overlap matrices of two orbits in row-major lexicographic order.

    Example:
        >>> [edge] = Pattern("{i j}").orbits
        >>> list(overlaps(edge.classes, edge.classes))
        [((0,),), ((1,),), ((2,),)]
    """
    rows = [max_overlap if c.size is None else c.size for c in source]
    cols = [max_overlap if c.size is None else c.size for c in target]
    allowed = [[x.sort == y.sort for y in target] for x in source]
    costs = [[x.is_open or y.is_open for y in target] for x in source]

    def row(i: int, j: int, left: int, cols: list[int], budget: int) -> Iterator[tuple[tuple[int, ...], int]]:
        if j == len(cols):
            yield (), budget
            return
        most = min(left, cols[j], budget if costs[i][j] else left) if allowed[i][j] else 0
        for a in range(most + 1):
            for rest, remaining in row(i, j + 1, left - a, cols, budget - a * costs[i][j]):
                yield (a, *rest), remaining

    def matrix(i: int, cols: list[int], budget: int) -> Iterator[Matrix]:
        if i == len(rows):
            yield ()
            return
        for first, remaining in row(i, 0, rows[i], cols, budget):
            for rest in matrix(i + 1, [c - a for c, a in zip(cols, first, strict=True)], remaining):
                yield (first, *rest)

    return matrix(0, cols, max_overlap)


@lru_cache(maxsize=256)
def _listed(source: tuple[Class, ...], target: tuple[Class, ...], max_overlap: int) -> tuple[Matrix, ...]:
    return tuple(overlaps(source, target, max_overlap))


def overlap_at(source: tuple[Class, ...], target: tuple[Class, ...], max_overlap: int, position: int) -> Matrix:
    """The overlap matrix at a position of the list.

    Raises:
        TooLargeError: The position lies beyond what is listed.
    """
    if position < 1000:
        return next(islice(overlaps(source, target, max_overlap), position, None))
    if position >= MAX_LISTED:
        raise TooLargeError(f"operation {position:,} of one pair of orbits: only the first {MAX_LISTED:,} are listed.")
    return _listed(source, target, max_overlap)[position]


Counts = Counter[tuple[int, int]]
"""Numbers of overlap matrices by (number |A| of matched nodes, how many of those lie in an open class)."""


@lru_cache(maxsize=65536)
def _count(rows: Profile, cols: Profile, max_overlap: int) -> Counts:
    """Counts the overlap matrices of two lists of class sizes of one sort."""
    return sum(_states(rows, cols, max_overlap).values(), Counter())


@lru_cache(maxsize=65536)
def _states(rows: Profile, cols: Profile, max_overlap: int) -> dict[Profile, Counts]:
    """The counts row by row, by what is left in the columns; lists of sizes share the work for their common beginning."""
    if not rows:
        return {cols: Counter({(0, 0): 1})}
    steps = 0
    states: dict[Profile, Counts] = {}
    for left, counts in _states(rows[:-1], cols, max_overlap).items():
        for after, matched, opened in _row_choices(rows[-1], left, max_overlap):
            into = states.setdefault(after, Counter())
            for (a, t), ways in counts.items():
                if t + opened <= max_overlap:
                    into[a + matched, t + opened] += ways
            steps += len(counts) + len(left)
            if steps > _MAX_STEPS:
                raise TooLargeError(f"two orbits with class sizes {rows} and {cols} have too many operations to count.")
    return states


def _row_choices(row: int | None, cols: Profile, max_overlap: int) -> Iterator[tuple[Profile, int, int]]:
    """All rows of an overlap matrix: the sorted sizes left in the columns, the nodes matched, how many of them in open classes."""

    def choose(j: int, left: int, budget: int, after: tuple[int | None, ...]) -> Iterator[tuple[Profile, int, int]]:
        if j == len(cols):
            fixed = sorted(size for size in after if size is not None)
            yield (*fixed, *(None,) * (len(after) - len(fixed))), limit - left, max_overlap - budget
            return
        size = cols[j]
        is_open = size is None or row is None
        for a in range(min(left, budget if is_open else left, left if size is None else size) + 1):
            yield from choose(j + 1, left - a, budget - a * is_open, (*after, None if size is None else size - a))

    limit = max_overlap if row is None else row
    return choose(0, limit, max_overlap, ())


def num_overlaps(source: Sequence[Class], target: Sequence[Class], max_overlap: int = 1) -> int:
    """The number of overlap matrices of two orbits, counted without listing them."""
    by_sort = [_count(_sizes(source, s), _sizes(target, s), max_overlap) for s in sorted({c.sort for c in source})]
    return _within(by_sort, max_overlap)


def _sizes(classes: Sequence[Class], sort: str) -> Profile:
    fixed = sorted(c.size for c in classes if c.sort == sort and c.size is not None)
    return (*fixed, *(None for c in classes if c.sort == sort and c.size is None))


def _within(by_sort: Sequence[Counts], max_overlap: int) -> int:
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


def count_by_sort(source: Pattern, target: Pattern, max_overlap: int) -> dict[str, Counter[tuple[int, int]]]:
    """For each sort, the number of operations by (number of nodes they need, matched nodes in open classes).

    The letters of different sorts do not meet, so the numbers of a map are products over the sorts of these.
    """
    sorts = dict.fromkeys([*source.sorts.values(), *target.sorts.values()])
    found = {}
    for sort in sorts:
        needs: Counter[tuple[int, int]] = Counter()
        for rows, ways in profiles(source.restrict(sort)).items():
            for cols, ways_too in profiles(target.restrict(sort)).items():
                nodes = sum(size or 0 for size in rows + cols)
                for (matched, opened), n in _count(*_fewer_first(rows, cols), max_overlap).items():
                    needs[nodes - matched, opened] += ways * ways_too * n
        found[sort] = needs
    return found


def _fewer_first(rows: Profile, cols: Profile) -> tuple[Profile, Profile]:
    # The count is symmetric; rows are stepped through and columns are the state, so the shorter list is the state.
    return (rows, cols) if len(cols) <= len(rows) else (cols, rows)


def num_within(needs: dict[str, Counts], max_overlap: int) -> int:
    """The number of operations for many nodes, from `count_by_sort`."""
    return _within(list(needs.values()), max_overlap)


def num_at(needs: dict[str, Counts], num_nodes: dict[str, int]) -> int:
    """The number of independent operations at given numbers of nodes, from `count_by_sort`."""
    return prod(sum(n for (nodes, _), n in counts.items() if nodes <= num_nodes[s]) for s, counts in needs.items())


def binomial_product(upper: Matrix, lower: Matrix) -> int:
    r"""$\prod_{ij} \binom{c_{ij}}{a_{ij}}$ for overlap matrices C = `upper` and A = `lower`."""
    return prod(comb(c, a) for cs, as_ in zip(upper, lower, strict=True) for c, a in zip(cs, as_, strict=True))
