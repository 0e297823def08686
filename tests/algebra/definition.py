"""Operations by their definition on class sets, with the signs of oriented faces: section 16 of the
mathematics, word by word.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import prod

from tests.algebra.brute_force import Node, sign

Sets = Sequence[frozenset[Node]]
Matrix = Sequence[Sequence[int]]


def choices(x: Sets, y: Sets, a: Matrix) -> Iterator[list[list[tuple[Node, ...]]]]:
    """All choices of sets V_ij of a_ij nodes in X_i and Y_j, each in ascending order."""
    found: list[list[list[tuple[Node, ...]]]] = [[[() for _ in y] for _ in x]]
    for i, one in enumerate(x):
        for j, other in enumerate(y):
            found = [
                [
                    [*row[:j], nodes, *row[j + 1 :]] if k == i else row
                    for k, row in enumerate(chosen)
                ]
                for chosen in found
                for nodes in combinations(sorted(one & other), a[i][j])
            ]
    yield from found


def rest_first(whole: frozenset[Node], cells: Sequence[Sequence[Node]]) -> int:
    """The sign of "unmatched nodes first, then the cells in order"."""
    matched = [node for cell in cells for node in cell]
    return sign([*sorted(whole - set(matched)), *matched])


def value(x: Sets, y: Sets, odd: Sequence[bool], odd_too: Sequence[bool], a: Matrix) -> int:
    """B_A(y, x): over all choices of V the sign of pooling times the sign of broadcasting."""
    total = 0
    for v in choices(x, y, a):
        pooling = prod(rest_first(one, v[i]) for i, one in enumerate(x) if odd[i])
        total += pooling * prod(
            rest_first(other, [row[j] for row in v]) for j, other in enumerate(y) if odd_too[j]
        )
    return total


def indicator(x: Sets, y: Sets, odd: Sequence[bool], odd_too: Sequence[bool], c: Matrix) -> int:
    """O_C(y, x): B_C where the overlaps are exactly C, else 0."""
    is_exact = all(
        len(one & other) == c[i][j] for i, one in enumerate(x) for j, other in enumerate(y)
    )
    return value(x, y, odd, odd_too, c) if is_exact else 0
