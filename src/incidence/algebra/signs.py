r"""Signs of oriented faces (docs/math.md section 16).

Exchanging two nodes of a class multiplies a value by -1 if the class lies in an odd number of
oriented faces, else by 1. All signs come from this rule: a value belongs to lists of nodes, one for
each class, and reordering the list of an odd class costs the sign of the permutation.

Operations with signs are sums of operations without. `split` turns an odd class of h nodes into h
classes of one node each, its *places*. A tensor with signs then becomes a tensor without signs that
alternates in these places. $B_A$ is the sum over all ways to lay the cells of A on the places of
the target, each with the sign of "unmatched node first, then the cells in order". In the source the
cells lie in this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product, repeat
from math import prod
from typing import TYPE_CHECKING, Any

from incidence.algebra.grammar import Face, Kind, Signature

if TYPE_CHECKING:
    from incidence.algebra.orbit import Class
    from incidence.algebra.overlap import Matrix

__all__ = ["gather", "is_odd", "orientation_sign", "sorting_sign", "split", "spread"]


def is_odd(kinds: Sequence[tuple[Kind, bool]], signature: Signature) -> bool:
    """Return whether nodes with this signature stand in an odd number of oriented faces."""
    return sum(kinds[face][0].is_oriented for face, _ in signature) % 2 == 1


def sorting_sign(items: Sequence[Any]) -> int:
    """Return the sign of the permutation that sorts a list and leaves equal items in their order.

    Example:
        >>> sorting_sign([0, 1, 2]), sorting_sign([0, 2, 1]), sorting_sign([2, 0, 1])
        (1, -1, 1)
    """
    swaps = sum(one > other for one, other in combinations(items, 2))
    return -1 if swaps % 2 else 1


def orientation_sign(faces: Iterable[Face], rank: Mapping[str, int]) -> int:
    """Return the sign of sorting the letters of every oriented face by their ranks."""
    return prod(
        sorting_sign([rank[letter.name] for letter in face.letters])
        for face in faces
        if face.kind.is_oriented
    )


def split(classes: Sequence[Class]) -> tuple[Class, ...]:
    """Return the classes with every odd one split into places of one node each.

    Example:
        >>> from incidence.algebra import Pattern
        >>> [[c.size for c in split(orbit.classes)] for orbit in Pattern("{i j} <k l m>").orbits]
        [[1, 1, 1], [1, 1, 1, 1], [2, 1, 1, 1]]
    """
    places: list[Class] = []
    for c in classes:
        if c.is_odd:
            places += [replace(c, size=1, is_odd=False)] * (c.size or 0)
        else:
            places.append(c)
    return tuple(places)


def _places(classes: Sequence[Class]) -> list[range]:
    """Return for every class the numbers of its places among the split classes."""
    ranges: list[range] = []
    start = 0
    for c in classes:
        width = len(split([c]))
        ranges.append(range(start, start + width))
        start += width
    return ranges


def spread(
    source: Sequence[Class], target: Sequence[Class], a: Matrix
) -> Iterator[tuple[Matrix, int]]:
    """Yield the operations between the split orbits that add up to an operation, with their signs.

    Example:
        >>> from incidence.algebra import Pattern
        >>> [edge] = Pattern("<i j>").orbits
        >>> list(spread(edge.classes, edge.classes, ((1,),)))
        [(((0, 0), (0, 1)), 1), (((0, 0), (1, 0)), -1)]
    """
    rows, cols = _places(source), _places(target)
    height, width = len(split(source)), len(split(target))
    for ways in product(*(_lay(c, cols[j], [row[j] for row in a]) for j, c in enumerate(target))):
        matrix = [[0] * width for _ in range(height)]
        # The matched nodes of an odd source class come last, in the order of the cells.
        matched = [
            rows[i][len(rows[i]) - sum(row) :] if source[i].is_odd else repeat(rows[i][0])
            for i, row in enumerate(a)
        ]
        # Each source class hands out its places one after the other, cell by cell.
        left = list(map(iter, matched))
        for cells, _ in ways:
            for i, cell in enumerate(cells):
                for place, other in zip(cell, left[i], strict=False):
                    matrix[other][place] += 1
        yield tuple(map(tuple, matrix)), prod(sign for _, sign in ways)


def _lay(
    c: Class, places: range, sizes: Sequence[int]
) -> Iterator[tuple[list[tuple[int, ...]], int]]:
    """Yield all ways to lay cells of given sizes on the places of a target class, with signs."""
    if not c.is_odd:
        yield [(places[0],) * n for n in sizes], 1
        return
    # Number 0 stands for the unmatched places, which come first.
    for cells in _arrangements((len(places) - sum(sizes), *sizes)):
        laid = [
            tuple(place for place, cell in zip(places, cells, strict=True) if cell == n)
            for n in range(1, len(sizes) + 1)
        ]
        yield laid, sorting_sign(cells)


def _arrangements(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield all lists in which every number occurs as often as its size says."""
    if not any(sizes):
        yield ()
    # Numbers in ascending order: the result is lexicographic.
    for number, size in enumerate(sizes):
        if size:
            for rest in _arrangements((*sizes[:number], size - 1, *sizes[number + 1 :])):
                yield (number, *rest)


def gather(source: Sequence[Class], target: Sequence[Class], matrix: Matrix) -> tuple[Matrix, int]:
    """Return the operation whose first summand is an operation between the split orbits.

    Sorting the places of an odd source class costs a sign. An odd target class counts only with its
    places in order, because the other summands follow from that one.

    Returns:
        The overlap matrix and the sign; the sign is 0 if the operation is no first summand.
    """
    rows, cols = _places(source), _places(target)
    sign = 1
    for c, places in zip(source, rows, strict=True):
        # The place in the target that each place is matched with; unmatched ones come first.
        partners = [next((p for p, n in enumerate(matrix[r]) if n), -1) for r in places]
        if c.is_odd:
            has_ties = len(set(partners)) < len(partners)
            sign *= 0 if has_ties else sorting_sign(partners)
    for c, places in zip(target, cols, strict=True):
        cells = [
            next((i for i, row in enumerate(rows) if any(matrix[r][p] for r in row)), -1)
            for p in places
        ]
        # Another summand of the same operation.
        if c.is_odd and cells != sorted(cells):
            sign = 0
    merged = (tuple(sum(matrix[r][p] for r in row for p in col) for col in cols) for row in rows)
    return tuple(merged), sign
