"""OFF: a header, the counts, one line for each point `x y z ...` and each polygon `k i1 ... ik ...`; numbers from 0."""

from __future__ import annotations

import re

from incidence.geometry.meshfiles.text import Lines, Soup, coordinates, damaged, integers, lines_of, polygons, shown

__all__ = ["read_off"]

# Colours, normals and texture coordinates follow the coordinates of a point and are passed over.
# The counts may follow the word at once: many files of ModelNet begin with `OFF490 518 0`.
_HEADER = re.compile(rb"\s*(?:ST)?C?N?OFF(?![A-Za-z])")


def read_off(data: bytes, name: str) -> Soup:
    """Points and polygons of an OFF file; colours, normals and textures are passed over."""
    rows = lines_of(data, name, b"#")
    if not len(rows):
        raise damaged(f"{name}: an OFF file begins with OFF (or COFF, NOFF, ...); got comments alone.")
    start = _HEADER.match(rows.lines[0])
    if start is None:
        raise damaged(f"{rows.place(0)}: an OFF file begins with OFF (or COFF, NOFF, ...); got {shown(rows.lines[0].split()[0])}.")
    rest = rows.lines[0][start.end() :]
    if not rest.strip() and len(rows) == 1:
        raise damaged(f"{rows.place(0)}: the numbers of points, faces and edges must follow OFF.")
    rows = Lines(name, [rest, *rows.lines[1:]], rows.places) if rest.strip() else rows[1:]
    counts = integers(rows.lines[0].split(), rows.place(0))
    if not 2 <= len(counts) <= 3 or min(counts) < 0:
        raise damaged(f"{rows.place(0)}: the numbers of points, faces and edges must stand here; got {shown(rows.lines[0].strip())}.")
    num_points, num_faces = counts[:2]
    body = rows[1:]
    if len(body) != num_points + num_faces:
        raise damaged(
            f"{rows.place(0)}: it promises {num_points:,} points and {num_faces:,} faces, one line each, and {len(body):,} lines follow."
        )
    points, faces = body[:num_points], body[num_points:]
    return Soup(name, coordinates(points, [0, 1, 2]), *polygons(faces, 0), point_lines=points.places, face_lines=faces.places)
