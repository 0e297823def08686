"""Ranks of boundary matrices over the rationals, exactly: what Betti numbers are made of."""

from __future__ import annotations

from collections.abc import Container
from math import gcd
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from incidence.geometry.ranks import Faces

__all__ = ["betti_number"]

Column = dict[int, int]
"""The entries of a column of an integer matrix that are not 0, by row."""


def betti_number(faces: Faces, rank: int) -> int:
    r"""The dimension of the rational homology in one rank, $f_k - \mathrm{rank}\,B_k - \mathrm{rank}\,B_{k+1}$.

    A row in which a boundary of rank k + 1 ends is a face whose own boundary follows from those of the faces before it: it needs no look.
    """
    above = _pivots(_columns(faces, rank + 1), ()) if rank < faces.top else {}
    below = _pivots(_columns(faces, rank), above) if rank else {}
    return faces.of_rank(rank).count - len(below) - len(above)


def _columns(faces: Faces, rank: int) -> list[Column]:
    columns: list[Column] = [{} for _ in range(faces.of_rank(rank).count)]
    for row, column, sign in zip(
        *faces.boundary(rank).tolist(), faces.signs(rank).tolist(), strict=True
    ):
        columns[column][row] = sign
    return columns


def _pivots(columns: list[Column], skipped: Container[int]) -> dict[int, Column]:
    """Independent columns with the same span, by the last row of each, which no other has; as many as the rank.

    Integers are exact and stay small here: of surfaces, all are 1 or -1.
    """
    found: dict[int, Column] = {}
    for column in (column for number, column in enumerate(columns) if number not in skipped):
        rest = column
        while rest and (last := max(rest)) in found:
            rest = _without(rest, found[last], last)
        if rest:
            found[last] = rest
    return found


def _without(column: Column, other: Column, row: int) -> Column:
    """A combination of two columns in which a row is 0."""
    common = gcd(column[row], other[row])
    times, less = other[row] // common, column[row] // common
    result = {r: times * value for r, value in column.items()}
    for r, value in other.items():
        result[r] = result.get(r, 0) - less * value
        if not result[r]:
            del result[r]
    return result
