"""OFF: a header, the counts, one line for each point `x y z ...` and each polygon `k i1 ... ik ...`; numbers from 0."""

from __future__ import annotations

import re

from incidence.geometry.meshfiles.soup import Soup, damaged, numbers, shown
from incidence.geometry.meshfiles.table import Table, coordinates, polygons, table

__all__ = ["read_off"]

# Colours, normals and texture coordinates follow the coordinates of a point and are passed over.
# The counts may follow the word at once: many files of ModelNet begin with `OFF490 518 0`.
_HEADER = re.compile(rb"(?:ST)?C?N?OFF(?![A-Za-z])")


def read_off(data: bytes, name: str) -> Soup:
    """Points and polygons of an OFF file; colours, normals and textures are passed over."""
    rows = _without_header(table(data, b"#"), name)
    num_points, num_faces = _counts(rows, name)
    body = rows[1:]
    if len(body) != num_points + num_faces:
        raise damaged(
            f"{name}, line {rows[0][0]}: it promises {num_points:,} points and {num_faces:,} faces, one line each, and "
            f"{len(body):,} lines follow."
        )
    points, faces = body[:num_points], body[num_points:]
    sizes, nodes = polygons(faces, 0, name)
    return Soup(
        name, coordinates(points, [0, 1, 2], name), sizes, nodes, point_lines=[n for n, _ in points], face_lines=[n for n, _ in faces]
    )


def _without_header(rows: Table, name: str) -> Table:
    number, words = rows[0] if rows else (1, [b"comments alone"])
    start = _HEADER.match(words[0])
    if start is None:
        raise damaged(f"{name}, line {number}: an OFF file begins with OFF (or COFF, NOFF, ...); got {shown(words[0])}.")
    rest = [word for word in (words[0][start.end() :], *words[1:]) if word]
    rows = [(number, rest), *rows[1:]] if rest else rows[1:]
    if not rows:
        raise damaged(f"{name}, line {number}: the numbers of points, faces and edges must follow OFF.")
    return rows


def _counts(rows: Table, name: str) -> tuple[int, int]:
    number, words = rows[0]
    counts = numbers([words], int, lambda _: f"{name}, line {number}").tolist()
    if not 2 <= len(counts) <= 3 or min(counts) < 0:
        raise damaged(f"{name}, line {number}: the numbers of points, faces and edges must stand here; got {shown(b' '.join(words))}.")
    return counts[0], counts[1]
