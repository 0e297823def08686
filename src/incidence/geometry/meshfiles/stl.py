"""STL, in text and binary: triangles given by their corners; equal corners are one node, numbered as they first appear."""

from __future__ import annotations

from itertools import cycle

import numpy as np

from incidence.geometry.meshfiles.soup import Floats, Integers, Soup, damaged, shown
from incidence.geometry.meshfiles.table import Table, coordinates, table

__all__ = ["read_stl"]

_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
_START = 84  # a comment of 80 bytes and the number of triangles
_FACET = (b"facet", b"outer", b"vertex", b"vertex", b"vertex", b"endloop", b"endfacet")


def read_stl(data: bytes, name: str) -> Soup:
    """Points and triangles of an STL file; normals and attributes are passed over."""
    promised = int.from_bytes(data[80:_START], "little")
    length = _START + _TRIANGLE.itemsize * promised
    # Binary files may begin with `solid` as well, but only they have the length that they promise.
    if len(data) == length:
        return _merge(np.frombuffer(data, dtype=_TRIANGLE, offset=_START)["corners"].astype(np.float64), name, None)
    if data.lstrip()[:5].lower() == b"solid":
        return _read_text(data, name)
    raise damaged(
        f"{name} is neither text (`solid ...`) nor binary STL: its header promises {promised:,} triangles in {length:,} bytes, and it has "
        f"{len(data):,} bytes."
    )


def _read_text(data: bytes, name: str) -> Soup:
    rows = table(data, name)
    keys = [line.split(None, 1)[0].lower() for line in rows.lines]
    if keys[-1] != b"endsolid":
        raise damaged(f"{rows.place(len(rows) - 1)}: an STL file ends with `endsolid`.")
    inside = [(row, key) for row, key in enumerate(keys) if key not in (b"solid", b"endsolid")]
    for (row, key), expected in zip(inside, cycle(_FACET), strict=False):
        if key != expected:
            raise damaged(f"{rows.place(row)}: `{expected.decode()}` must stand here; got {shown(key)}.")
    if len(inside) % len(_FACET):
        raise damaged(f"{rows.place(len(rows) - 1)}: the last facet is not finished.")
    corners = [row for row, key in inside if key == b"vertex"]
    points = Table(name, [rows.lines[row] for row in corners], [rows.places[row] for row in corners])
    return _merge(coordinates(points, [1, 2, 3]).reshape(-1, 3, 3), name, points.places)


def _merge(corners: Floats, name: str, lines: list[int] | None) -> Soup:
    """Makes nodes of equal corners."""
    values = corners.reshape(-1, 3) + 0.0  # -0.0 becomes 0.0, its equal
    number, first = _first_seen(values)
    sizes = np.full(len(corners), 3, dtype=np.int64)
    if lines is None:
        return Soup(name, values[first], sizes, number)
    return Soup(name, values[first], sizes, number, point_lines=[lines[k] for k in first.tolist()], face_lines=lines[::3])


def _first_seen(values: Floats) -> tuple[Integers, Integers]:
    """A number for every row, equal iff rows are, in order of first appearance; and the rows that appear first."""
    order = np.lexsort(values.T)
    ordered = values[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.cumsum(is_new) - 1
    first = order[is_new]  # lexsort is stable: the first row of each group
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[group], np.sort(first)
