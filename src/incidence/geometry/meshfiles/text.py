"""Mesh files in lines of text, OBJ and OFF; and what all formats share: a polygon soup, lines that
become numbers, messages with places.

Lines stay bytes until they become numbers: millions of small lists would keep Python's garbage
collector busy for longer than all the rest.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from incidence.errors import IncidenceError
from incidence.geometry.node_lists import NodeLists
from incidence.structure.ragged import ranges

__all__ = [
    "Floats",
    "Integers",
    "Soup",
    "coordinates",
    "damaged",
    "integers",
    "lines_of",
    "polygons",
    "read_obj",
    "read_off",
    "shown",
]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
# the words that matter of every line
Words = Callable[[Iterable[bytes]], Iterable[Sequence[bytes]]]


@dataclass(frozen=True)
class Soup:
    """Points and polygons as a file has them, before anything is checked but the grammar of the
    file.

    Attributes:
        name: How messages call the file.
        points: Shape [nodes, dimensions].
        sizes: The number of nodes of every polygon.
        nodes: The nodes of all polygons one after the other, numbered from 0.
        first: How the file itself numbers its first point, for messages.
        point_lines: The line of every point, where the file has lines.
        face_lines: The line of every polygon.
    """

    name: str
    points: Floats
    sizes: Integers
    nodes: Integers
    first: int = 0
    point_lines: Sequence[int] | None = None
    face_lines: Sequence[int] | None = None

    def point(self, number: int) -> str:
        """Return the place of a point, for a message."""
        return f"{self.name}, point {number}{_line(self.point_lines, number)}"

    def face(self, number: int) -> str:
        """Return the place of a polygon, for a message."""
        return f"{self.name}, face {number}{_line(self.face_lines, number)}"

    @property
    def faces(self) -> NodeLists:
        """The polygons as node lists."""
        return NodeLists(ranges(torch.from_numpy(self.sizes)), torch.from_numpy(self.nodes))


def _line(lines: Sequence[int] | None, number: int) -> str:
    return f" (line {lines[number]})" if lines else ""


def damaged(what: str) -> IncidenceError:
    """Return the error for a file that breaks the grammar of its format."""
    return IncidenceError(f"{what} The file is cut off or damaged.")


def shown(token: bytes) -> str:
    """Return a word of a file as a message quotes it."""
    text = token[:40].decode("ascii", "backslashreplace")
    return f"`{text}…`" if len(token) > 40 else f"`{text}`"


@dataclass(frozen=True)
class Lines:
    """Some lines of a file, and their numbers in it."""

    name: str
    lines: list[bytes]
    places: list[int]

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, rows: slice) -> Lines:
        return Lines(self.name, self.lines[rows], self.places[rows])

    def place(self, row: int) -> str:
        """Return the place of a line, for a message."""
        return f"{self.name}, line {self.places[row]}"


def lines_of(data: bytes, name: str, comment: bytes = b"", first: int = 1) -> Lines:
    """Return the lines that have words."""
    lines = data.splitlines()
    if comment and comment in data:
        lines = [line.partition(comment)[0] for line in lines]
    rows = [row for row, line in enumerate(lines) if line and not line.isspace()]
    return Lines(name, [lines[row] for row in rows], [first + row for row in rows])


def numbers(
    lines: Sequence[bytes], words: Words, kind: type[int] | type[float], place: Callable[[int], str]
) -> NDArray[Any]:
    """Return numbers of lines, one after the other.

    `map` and `chain` keep the loop inside the interpreter, at about 0.1 µs a number.

    Raises:
        IncidenceError: A word is no number; `place(row)` says where.
        IndexError: A line has too few words.
    """
    dtype = np.int64 if kind is int else np.float64
    try:
        values = np.fromiter(map(kind, chain.from_iterable(words(lines))), dtype=dtype)
        if b"_" not in b"".join(lines):  # Python reads 1_0 as 10
            return values
    except (ValueError, OverflowError):
        values = np.zeros(0, dtype=dtype)
    for row, some in enumerate(words(lines)):
        for word in some:
            try:
                np.asarray(kind(word), dtype=dtype)
                is_fine = b"_" not in word
            except (ValueError, OverflowError):
                is_fine = False
            if not is_fine:
                what = "an integer" if kind is int else "a number"
                raise damaged(f"{place(row)}: {shown(word)} is not {what} that can stand here.")
    return values


def integers(words: Sequence[bytes], place: str) -> list[int]:
    """Return a few words as integers."""
    values: list[int] = numbers(words, zip, int, lambda _: place).tolist()
    return values


def coordinates(points: Lines, columns: Sequence[int]) -> Floats:
    """Return three columns of the lines of points; shape [points, 3]."""
    pick = itemgetter(*columns)
    try:
        values: Floats = numbers(
            points.lines, lambda lines: map(pick, map(bytes.split, lines)), float, points.place
        )
        return values.reshape(-1, 3)
    except IndexError:
        least = max(columns) + 1
        lengths = [len(line.split()) for line in points.lines]
        row, count = next((row, n) for row, n in enumerate(lengths) if n < least)
        raise damaged(
            f"{points.place(row)}: a point has at least {least} numbers here; got {count}."
        ) from None


def polygons(faces: Lines, column: int) -> tuple[Integers, Integers]:
    """Return sizes and nodes of polygons, whose lines have them from a column on."""
    first = column + 1
    lengths = np.fromiter(map(len, map(bytes.split, faces.lines)), dtype=np.int64)
    size_of = itemgetter(slice(column, first))
    sizes: Integers = numbers(
        faces.lines, lambda lines: map(size_of, map(bytes.split, lines)), int, faces.place
    )
    is_bad = lengths < first if len(sizes) < len(faces) else (sizes < 0) | (lengths - first < sizes)
    if is_bad.any():
        row = int(is_bad.argmax())
        size = f" of {int(sizes[row])} points" if len(sizes) == len(faces) else ""
        got = max(int(lengths[row]) - first, 0)
        raise damaged(
            f"{faces.place(row)}: a face{size} needs its size and as many numbers after it; got"
            f" {got}."
        )
    stops = (first + sizes).tolist()

    def nodes(lines: Iterable[bytes]) -> Iterable[list[bytes]]:
        return (
            words[first:stop] for words, stop in zip(map(bytes.split, lines), stops, strict=True)
        )

    return sizes, numbers(faces.lines, nodes, int, faces.place)


# All keywords of OBJ that are not about points and polygons. Another word is a damaged line: to
# skip it could lose a point, and shift the number of every point after it. Lines that run something
# (`call`, `csh`) are refused like any other word.
_SKIPPED = frozenset(
    b"vt vn vp cstype deg bmat step p l curv curv2 surf parm trim hole scrv sp end con g s mg o"
    b" bevel c_interp d_interp lod usemtl mtllib usemap maplib shadow_obj trace_obj ctech"
    b" stech".split()
)


def read_obj(data: bytes, name: str) -> Soup:
    """Read Wavefront OBJ: the lines `v x y z` and `f a b c ...`, `f a/t/n ...`; numbers from 1, or
    from the end if negative.

    Textures, normals, groups, curves, and lone points and lines are skipped.
    """
    lines = _obj_lines(data)
    keys = [line.split(None, 1)[0] if line and not line.isspace() else b"" for line in lines]
    unknown = set(keys) - _SKIPPED - {b"v", b"f", b""}
    if unknown:
        number, key = next((n, key) for n, key in enumerate(keys, 1) if key in unknown)
        raise damaged(f"{name}, line {number}: {shown(key)} is no keyword of OBJ.")
    points, faces = (_lines_with(name, lines, keys, key) for key in (b"v", b"f"))
    sizes, nodes = _obj_polygons(faces)
    # how many points stand before each face
    before = np.searchsorted(points.places, faces.places)
    is_bad = nodes < -np.repeat(before, sizes)
    if is_bad.any():
        spot = int(is_bad.argmax())
        face = int(np.repeat(np.arange(len(sizes)), sizes)[spot])
        raise IncidenceError(
            f"{faces.place(face)}: a face names point {int(nodes[spot])}, counted back from the"
            f" last, but {int(before[face]):,} points stand before it. Correct the face."
        )
    # -1 is the last of them
    nodes = np.where(nodes < 0, nodes + np.repeat(before, sizes), nodes - 1)
    return Soup(
        name,
        coordinates(points, [1, 2, 3]),
        sizes,
        nodes,
        first=1,
        point_lines=points.places,
        face_lines=faces.places,
    )


def _lines_with(name: str, lines: list[bytes], keys: list[bytes], key: bytes) -> Lines:
    """The lines of one keyword."""
    places = [number for number, other in enumerate(keys, 1) if other == key]
    return Lines(name, [lines[number - 1] for number in places], places)


def _obj_lines(data: bytes) -> list[bytes]:
    lines = data.removeprefix(BOM_UTF8).splitlines()
    # A backslash at the end continues a line; the lines it takes are left empty, so that all keep
    # their numbers.
    for number in range(len(lines) - 2, -1, -1) if b"\\" in data else ():
        if lines[number].endswith(b"\\"):
            lines[number] = lines[number][:-1] + b" " + lines[number + 1]
            lines[number + 1] = b""
    return [line.partition(b"#")[0] for line in lines] if b"#" in data else lines


def _obj_polygons(faces: Lines) -> tuple[Integers, Integers]:
    text = b"\n".join(faces.lines)
    lines = re.sub(rb"/\S*", b"", text).split(b"\n") if b"/" in text else faces.lines
    rest = itemgetter(slice(1, None))
    nodes: Integers = numbers(lines, lambda own: map(rest, map(bytes.split, own)), int, faces.place)
    sizes = np.fromiter(map(len, map(bytes.split, lines)), dtype=np.int64) - 1
    if not nodes.all():
        face = int(np.repeat(np.arange(len(sizes)), sizes)[nodes == 0][0])
        raise damaged(f"{faces.place(face)}: a face names point 0, but OBJ numbers points from 1.")
    return sizes, nodes


# Colours, normals and texture coordinates follow the coordinates of a point and are skipped.
# The counts may follow the word at once: many files of ModelNet begin with `OFF490 518 0`.
_HEADER = re.compile(rb"\s*(?:ST)?C?N?OFF(?![A-Za-z])")


def read_off(data: bytes, name: str) -> Soup:
    """Read OFF: a header, the counts, one line for each point `x y z ...` and each polygon `k i1
    ... ik ...`; numbers from 0.
    """
    rows = lines_of(data, name, b"#")
    if not len(rows):
        raise damaged(
            f"{name}: an OFF file begins with OFF (or COFF, NOFF, ...); got comments alone."
        )
    start = _HEADER.match(rows.lines[0])
    if start is None:
        raise damaged(
            f"{rows.place(0)}: an OFF file begins with OFF (or COFF, NOFF, ...); got"
            f" {shown(rows.lines[0].split()[0])}."
        )
    rest = rows.lines[0][start.end() :]
    if not rest.strip() and len(rows) == 1:
        raise damaged(f"{rows.place(0)}: the numbers of points, faces and edges must follow OFF.")
    rows = Lines(name, [rest, *rows.lines[1:]], rows.places) if rest.strip() else rows[1:]
    counts = integers(rows.lines[0].split(), rows.place(0))
    if not 2 <= len(counts) <= 3 or min(counts) < 0:
        raise damaged(
            f"{rows.place(0)}: the numbers of points, faces and edges must stand here; got"
            f" {shown(rows.lines[0].strip())}."
        )
    num_points, num_faces = counts[:2]
    body = rows[1:]
    if len(body) != num_points + num_faces:
        raise damaged(
            f"{rows.place(0)}: it promises {num_points:,} points and {num_faces:,} faces, one line"
            f" each, and {len(body):,} lines follow."
        )
    points = body[:num_points]
    faces = body[num_points:]
    return Soup(
        name,
        coordinates(points, [0, 1, 2]),
        *polygons(faces, 0),
        point_lines=points.places,
        face_lines=faces.places,
    )
