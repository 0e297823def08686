"""Text files with one point or one polygon a line."""

from __future__ import annotations

from operator import itemgetter

from incidence.geometry.meshfiles.soup import Floats, Integers, damaged, numbers

__all__ = ["Table", "coordinates", "polygons", "table"]

Table = list[tuple[int, list[bytes]]]  # the numbers and the words of lines


def table(data: bytes, comment: bytes = b"", first: int = 1) -> Table:
    """The lines that have words, with their numbers."""
    lines = data.splitlines()
    if comment and comment in data:
        lines = [line.partition(comment)[0] for line in lines]
    return [(number, words) for number, words in enumerate(map(bytes.split, lines), first) if words]


def coordinates(points: Table, columns: list[int], name: str) -> Floats:
    """Three columns of a table of points; shape [points, 3]."""
    least = max(columns) + 1
    for number, words in points:
        if len(words) < least:
            raise damaged(f"{name}, line {number}: a point has at least {least} numbers here; got {len(words)}.")
    rows = map(itemgetter(*columns), (words for _, words in points))
    values: Floats = numbers(rows, float, lambda k: f"{name}, line {points[k][0]}")
    return values.reshape(-1, 3)


def polygons(faces: Table, column: int, name: str) -> tuple[Integers, Integers]:
    """Sizes and nodes of polygons, told from a column on by their size and their nodes."""

    def place(row: int) -> str:
        return f"{name}, line {faces[row][0]}"

    sizes: Integers = numbers([words[column : column + 1] or [b""] for _, words in faces], int, place)
    for (number, words), size in zip(faces, sizes.tolist(), strict=True):
        if not 0 <= size < len(words) - column:
            got = len(words) - column - 1
            raise damaged(f"{name}, line {number}: a face of {size} points needs as many numbers after it; got {got}.")
    first = column + 1
    lists = [words[first : first + size] for (_, words), size in zip(faces, sizes.tolist(), strict=True)]
    return sizes, numbers(lists, int, place)
