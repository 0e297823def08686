r"""Odd classes as alternating ordered nodes: operations with signs are sums of operations without (docs/math.md section 16).

*Split* an odd class of h nodes into h classes of one node, its places. A tensor with signs is then a tensor without, which alternates
in these places, and $B_A$ is the sum over all ways to lay the cells of A on the places of the target, each with the sign of
"unmatched node first, then the cells in order". In the source the cells lie in this order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product, repeat
from math import prod

from incidence.algebra.orbit import Class
from incidence.algebra.overlap import Matrix
from incidence.algebra.signs import sorting_sign

__all__ = ["gather", "split", "spread"]


def split(classes: Sequence[Class]) -> tuple[Class, ...]:
    """The classes with every odd one as places of one node each.

    Example:
        >>> from incidence.algebra import Pattern
        >>> [[c.size for c in split(orbit.classes)] for orbit in Pattern("{i j} <k l m>").orbits]
        [[1, 1, 1], [1, 1, 1, 1], [2, 1, 1, 1]]
    """
    return tuple(
        part
        for c in classes
        for part in ([replace(c, size=1, is_odd=False)] * (c.size or 0) if c.is_odd else [c])
    )


def _places(classes: Sequence[Class]) -> list[range]:
    """For every class, the numbers of its places among the split classes."""
    widths = [c.size or 0 if c.is_odd else 1 for c in classes]
    return [range(sum(widths[:i]), sum(widths[: i + 1])) for i in range(len(classes))]


def spread(
    source: Sequence[Class], target: Sequence[Class], a: Matrix
) -> Iterator[tuple[Matrix, int]]:
    """The operations between the split orbits that add up to an operation, each with its sign.

    Example:
        >>> from incidence.algebra import Pattern
        >>> [edge] = Pattern("<i j>").orbits
        >>> list(spread(edge.classes, edge.classes, ((1,),)))
        [(((0, 0), (0, 1)), 1), (((0, 0), (1, 0)), -1)]
    """
    rows, cols = _places(source), _places(target)
    width, height = len(split(target)), len(split(source))
    for ways in product(*(_lay(c, cols[j], [row[j] for row in a]) for j, c in enumerate(target))):
        matrix = [[0] * width for _ in range(height)]
        # The nodes of an odd source class that are matched come last, in the order of the cells.
        matched = [
            rows[i][len(rows[i]) - sum(row) :] if source[i].is_odd else repeat(rows[i][0])
            for i, row in enumerate(a)
        ]
        left = list(map(iter, matched))
        for cells, _ in ways:
            for i, cell in enumerate(cells):
                for place, other in zip(cell, left[i], strict=False):
                    matrix[other][place] += 1
        yield tuple(map(tuple, matrix)), prod(sign for _, sign in ways)


def _lay(
    c: Class, places: range, sizes: Sequence[int]
) -> Iterator[tuple[list[tuple[int, ...]], int]]:
    """All ways to lay cells of given sizes on the places of a target class, and their signs."""
    if not c.is_odd:
        yield [(places[0],) * n for n in sizes], 1
        return
    for cells in _arrangements((len(places) - sum(sizes), *sizes)):
        yield (
            [
                tuple(p for p, cell in zip(places, cells, strict=True) if cell == n)
                for n in range(1, len(sizes) + 1)
            ],
            sorting_sign(cells),
        )


def _arrangements(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All lists in which every number occurs as often as its size says."""
    if not any(sizes):
        yield ()
    for number, size in enumerate(sizes):
        if size:
            for rest in _arrangements((*sizes[:number], size - 1, *sizes[number + 1 :])):
                yield (number, *rest)


def gather(source: Sequence[Class], target: Sequence[Class], matrix: Matrix) -> tuple[Matrix, int]:
    """The operation of which an operation between the split orbits is the first summand, and its sign; 0 where it is none.

    The places of odd source classes are brought into order, at the price of a sign. Of the places of odd target classes only those in
    order count, as the others follow from them.
    """
    rows, cols = _places(source), _places(target)
    sign = 1
    for c, places in zip(source, rows, strict=True):
        partners = [next((p for p, n in enumerate(matrix[r]) if n), -1) for r in places]
        if c.is_odd:
            sign *= 0 if len(set(partners)) < len(partners) else sorting_sign(partners)
    for c, places in zip(target, cols, strict=True):
        cells = [
            next((i for i, row in enumerate(rows) if any(matrix[r][p] for r in row)), -1)
            for p in places
        ]
        if c.is_odd and cells != sorted(cells):
            sign = 0
    return tuple(
        tuple(sum(matrix[r][p] for r in row for p in col) for col in cols) for row in rows
    ), sign
