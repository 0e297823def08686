"""MEDIT `.mesh` in text: keywords, each with a count and its rows; surfaces and volumes of tetrahedra; numbers from 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from incidence.errors import IncidenceError
from incidence.geometry.meshfiles.soup import Floats, Soup, damaged, shown
from incidence.geometry.meshfiles.table import integers, numbers

__all__ = ["read_medit"]

# Numbers in a row of each keyword; rows of points and cells end with a reference number, which is passed over.
_WIDTHS = {
    b"Edges": 3,
    b"Triangles": 4,
    b"Quadrilaterals": 5,
    b"Tetrahedra": 5,
    b"Hexahedra": 9,
    b"Prisms": 7,
    b"Pyramids": 6,
    b"Corners": 1,
    b"Ridges": 1,
    b"RequiredVertices": 1,
    b"RequiredEdges": 1,
    b"RequiredTriangles": 1,
    b"NormalAtVertices": 2,
    b"TangentAtVertices": 2,
}

Tables = dict[bytes, list[bytes]]  # the words of every keyword


def read_medit(data: bytes, name: str) -> Soup:
    """Points, triangles, quads and tetrahedra of a MEDIT file in text; other keywords and reference numbers are passed over."""
    if b"#" in data:
        data = b"\n".join(line.partition(b"#")[0] for line in data.splitlines())
    dimension, words = _dimension(data.split(), name)
    tables = _tables(words, dimension, name)
    points: Floats = np.ascontiguousarray(_rows(tables, b"Vertices", dimension + 1, float, name))
    cells = {key: _rows(tables, key, _WIDTHS[key], int, name) - 1 for key in (b"Triangles", b"Quadrilaterals", b"Tetrahedra")}
    triangles, quads, tetrahedra = cells.values()
    odd = next((key for key in (b"Hexahedra", b"Prisms", b"Pyramids") if tables.get(key)), b"Quadrilaterals")
    if tables.get(odd) and (odd != b"Quadrilaterals" or len(tetrahedra)):
        raise IncidenceError(f"{name}: `{odd.decode()}` are no cells of a simplicial complex. Split them into simplices first.")
    sizes = np.repeat(np.array([3, 4], dtype=np.int64), [len(triangles), len(quads)])
    return Soup(name, points, sizes, np.concatenate([triangles.ravel(), quads.ravel()]), tetrahedra, first=1)


def _rows(tables: Tables, key: bytes, width: int, kind: type[int] | type[float], name: str) -> NDArray[Any]:
    """The numbers of a keyword without those of reference; shape [rows, width - 1]."""
    words = tables.get(key, [])
    values = numbers(words, zip, kind, lambda place: f"{name}, row {place // width} of `{key.decode()}`")
    return values.reshape(-1, width)[:, :-1]


def _dimension(words: list[bytes], name: str) -> tuple[int, list[bytes]]:
    """The number of coordinates, and the words after it."""
    if words[:1] != [b"MeshVersionFormatted"] or words[2:3] != [b"Dimension"] or words[3:4] not in ([b"2"], [b"3"]):
        raise damaged(f"{name}: a MEDIT file begins with `MeshVersionFormatted 1 Dimension 3` (or 2); got {shown(b' '.join(words[:4]))}.")
    return int(words[3]), words[4:]


def _tables(words: list[bytes], dimension: int, name: str) -> Tables:
    widths = _WIDTHS | {b"Vertices": dimension + 1, b"Normals": dimension, b"Tangents": dimension}
    tables, place = Tables(), 0
    while words[place : place + 1] != [b"End"]:
        [key] = words[place : place + 1] or [b"nothing"]
        if key not in widths or key in tables:
            what = "stands twice" if key in tables else "stands where a keyword of MEDIT or `End` must be"
            raise damaged(f"{name}: {shown(key)} {what}, after {len(tables)} tables.")
        count, width, start = _count(words, place, name), widths[key], place + 2
        place = start + count * width
        if place > len(words):
            raise damaged(f"{name}: `{key.decode()}` promises {count:,} rows of {width} numbers, and {len(words) - start:,} words follow.")
        tables[key] = words[start:place]
    return tables


def _count(words: list[bytes], place: int, name: str) -> int:
    key = words[place].decode()
    after = integers(words[place + 1 : place + 2], f"{name}, after `{key}`")
    if not after or after[0] < 0:
        raise damaged(f"{name}: a number of at least 0 must follow `{key}`.")
    return after[0]
