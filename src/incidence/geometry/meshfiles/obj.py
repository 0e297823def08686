"""Wavefront OBJ: the lines `v x y z` and `f a b c ...`, `f a/t/n ...`; numbers from 1, or from the end if negative."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from operator import itemgetter

import numpy as np

from incidence.errors import IncidenceError
from incidence.geometry.meshfiles.text import Integers, Lines, Soup, coordinates, damaged, numbers, shown

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
    keys = [line.split(None, 1)[0] if line and not line.isspace() else b"" for line in lines]
    unknown = set(keys) - _PASSED_OVER - {b"v", b"f", b""}
    if unknown:
        number, key = next((n, key) for n, key in enumerate(keys, 1) if key in unknown)
        raise damaged(f"{name}, line {number}: {shown(key)} is no keyword of OBJ.")
    places = {kind: [number for number, key in enumerate(keys, 1) if key == kind] for kind in (b"v", b"f")}
    points, faces = (Lines(name, [lines[number - 1] for number in own], own) for own in places.values())
    sizes, nodes = _polygons(faces)
    before = np.searchsorted(points.places, faces.places)  # how many points stand before each face
    is_bad = nodes < -np.repeat(before, sizes)
    if is_bad.any():
        spot = int(is_bad.argmax())
        face = int(np.repeat(np.arange(len(sizes)), sizes)[spot])
        raise IncidenceError(
            f"{faces.place(face)}: a face names point {int(nodes[spot])}, counted back from the last, but {int(before[face]):,} points "
            f"stand before it. Correct the face."
        )
    nodes = np.where(nodes < 0, nodes + np.repeat(before, sizes), nodes - 1)  # -1 is the last of them
    return Soup(name, coordinates(points, [1, 2, 3]), sizes, nodes, first=1, point_lines=points.places, face_lines=faces.places)


def _lines(data: bytes) -> list[bytes]:
    lines = data.removeprefix(BOM_UTF8).splitlines()
    # A backslash at the end continues a line; the lines it takes are left empty, so that all keep their numbers.
    for number in range(len(lines) - 2, -1, -1) if b"\\" in data else ():
        if lines[number].endswith(b"\\"):
            lines[number] = lines[number][:-1] + b" " + lines[number + 1]
            lines[number + 1] = b""
    return [line.partition(b"#")[0] for line in lines] if b"#" in data else lines


def _polygons(faces: Lines) -> tuple[Integers, Integers]:
    text = b"\n".join(faces.lines)
    lines = re.sub(rb"/\S*", b"", text).split(b"\n") if b"/" in text else faces.lines
    rest = itemgetter(slice(1, None))
    nodes: Integers = numbers(lines, lambda own: map(rest, map(bytes.split, own)), int, faces.place)
    sizes = np.fromiter(map(len, map(bytes.split, lines)), dtype=np.int64) - 1
    if not nodes.all():
        face = int(np.repeat(np.arange(len(sizes)), sizes)[nodes == 0][0])
        raise damaged(f"{faces.place(face)}: a face names point 0, but OBJ numbers points from 1.")
    return sizes, nodes
