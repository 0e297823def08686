"""Wavefront OBJ: the lines `v x y z` and `f a b c ...`, `f a/t/n ...`; numbers from 1, or from the end if negative."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from incidence.geometry.meshfiles.soup import Integers, Soup, damaged, numbers, shown
from incidence.geometry.meshfiles.table import Table, coordinates

__all__ = ["read_obj"]

# All that OBJ knows and that says nothing about points and polygons. A word that is not here is a damaged line: to pass over it could
# lose a point, and shift the number of every point after it. Lines that run something (`call`, `csh`) are refused like any other word.
_PASSED_OVER = frozenset(
    b"vt vn vp cstype deg bmat step p l curv curv2 surf parm trim hole scrv sp end con g s mg o bevel c_interp d_interp lod "
    b"usemtl mtllib usemap maplib shadow_obj trace_obj ctech stech".split()
)


def read_obj(data: bytes, name: str) -> Soup:
    """Points and polygons of an OBJ file; textures, normals, groups, curves, and lone points and lines are passed over."""
    lines = _lines(data)
    keys = [line.split(None, 1)[0] if line.strip() else b"" for line in lines]
    _assert_known(keys, name)
    points = [(number, lines[number - 1].split()) for number, key in enumerate(keys, 1) if key == b"v"]
    faces = [(number, lines[number - 1].split()[1:]) for number, key in enumerate(keys, 1) if key == b"f"]
    point_lines, face_lines = [number for number, _ in points], [number for number, _ in faces]
    sizes, nodes = _polygons(faces, name)
    before = np.searchsorted(point_lines, face_lines)  # how many points stand before each face
    nodes = np.where(nodes < 0, nodes + np.repeat(before, sizes), nodes - 1)  # -1 is the last of them
    return Soup(name, coordinates(points, [1, 2, 3], name), sizes, nodes, first=1, point_lines=point_lines, face_lines=face_lines)


def _lines(data: bytes) -> list[bytes]:
    lines = data.splitlines()
    # A backslash at the end continues a line; the lines it takes are left empty, so that all keep their numbers.
    for number in range(len(lines) - 2, -1, -1):
        if lines[number].endswith(b"\\"):
            lines[number] = lines[number][:-1] + b" " + lines[number + 1]
            lines[number + 1] = b""
    return [line.partition(b"#")[0] for line in lines] if b"#" in data else lines


def _assert_known(keys: Sequence[bytes], name: str) -> None:
    unknown = set(keys) - _PASSED_OVER - {b"v", b"f", b""}
    if unknown:
        number, key = next((n, key) for n, key in enumerate(keys, 1) if key in unknown)
        raise damaged(f"{name}, line {number}: {shown(key)} is no keyword of OBJ.")


def _polygons(faces: Table, name: str) -> tuple[Integers, Integers]:
    rows = [words for _, words in faces]
    if any(b"/" in word for words in rows for word in words[:1]):
        rows = [re.sub(rb"/\S*", b"", b" ".join(words)).split() for words in rows]
    nodes: Integers = numbers(rows, int, lambda k: f"{name}, line {faces[k][0]}")
    sizes = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    if not nodes.all():
        face = int(np.repeat(np.arange(len(sizes)), sizes)[nodes == 0][0])
        raise damaged(f"{name}, line {faces[face][0]}: a face names point 0, but OBJ numbers points from 1.")
    return sizes, nodes
