"""PLY, in text and binary: a header says which tables follow, and with which columns."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incidence.errors import IncidenceError
from incidence.geometry.meshfiles.text import (
    Floats,
    Integers,
    Soup,
    coordinates,
    damaged,
    integers,
    lines_of,
    polygons,
    shown,
)

__all__ = ["read_ply", "read_ply_numbers"]

_ORDERS = {b"ascii": "", b"binary_little_endian": "<", b"binary_big_endian": ">"}
_TYPES = {
    b"char": "i1",
    b"uchar": "u1",
    b"short": "i2",
    b"ushort": "u2",
    b"int": "i4",
    b"uint": "u4",
    b"float": "f4",
    b"double": "f8",
}
_TYPES |= {
    b"int8": "i1",
    b"uint8": "u1",
    b"int16": "i2",
    b"uint16": "u2",
    b"int32": "i4",
    b"uint32": "u4",
}
_TYPES |= {b"float32": "f4", b"float64": "f8"}
# what numpy's types are for `struct`
_CODES = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I"}
_END = b"end_header"


def read_ply(data: bytes, name: str) -> Soup:
    """Read points and polygons of a PLY file; all other elements and properties are skipped."""
    byte_order, elements, stop = _read_header(data, name)
    if byte_order:
        return Soup(name, *_read_binary(data, byte_order, elements, stop, name))
    rows = lines_of(data[stop:], name, first=len(data[:stop].splitlines()) + 1)
    parts = {}
    start = 0
    for element in elements.values():
        if element.properties:
            parts[element.name] = rows[start : start + element.count]
            start += element.count
    if len(rows) != start:
        raise damaged(
            f"{name}: the header promises {start:,} rows, one line each, and {len(rows):,} lines"
            " follow."
        )
    face = elements["face"]
    [column] = face.columns(face.nodes_name)
    early = next((p.name for p in face.properties[:column] if p.count_type), None)
    if early is not None:  # then the header does not tell in which column the nodes start
        raise IncidenceError(
            f"{name}: the list `{early}` stands before the nodes of a face, which is read from"
            " binary PLY only."
        )
    values = coordinates(parts["vertex"], elements["vertex"].columns("x", "y", "z"))
    sizes, nodes = polygons(parts["face"], column)
    return Soup(
        name,
        values,
        sizes,
        nodes,
        point_lines=parts["vertex"].places,
        face_lines=parts["face"].places,
    )


def read_ply_numbers(data: bytes, name: str) -> dict[str, dict[str, NDArray[Any]]]:
    """Return the numbers of vertices and faces beside coordinates and nodes, such as labels.

    Lists, and faces of a binary file that are not all of one size, have none.

    Returns:
        For `vertex` and `face`, a number for each row by the name of the property.
    """
    byte_order, elements, place = _read_header(data, name)
    found: dict[str, dict[str, NDArray[Any]]] = {"vertex": {}, "face": {}}
    rows = [] if byte_order else lines_of(data[place:], name).lines
    start = 0
    for element in elements.values():
        plain = [p.name for p in element.properties if not p.count_type and p.name not in "xyz"]
        if not byte_order:
            some = rows[start : start + element.count]
            start += element.count if element.properties else 0
            columns = {one: _of_text(some, element, one, name) for one in plain}
        else:
            even = _even_rows(data, place, element, byte_order, name)
            if even is None:
                _, place = _walk(data, place, element, byte_order, element.count, name)
                continue
            place += even.nbytes
            columns = {one: even[one].astype(np.float64) for one in plain}
        if element.name in found:
            found[element.name] = columns
    return found


def _of_text(rows: list[bytes], element: _Element, name: str, file: str) -> NDArray[Any]:
    """A number of every line of text: counted from its end, if a list stands before it."""
    [column] = element.columns(name)
    has_list = any(p.count_type for p in element.properties[:column])
    place = column - len(element.properties) if has_list else column
    try:
        return np.array([float(row.split()[place]) for row in rows], dtype=np.float64)
    except (ValueError, IndexError):
        raise damaged(f"{file}: a row of `{element.name}` has no number `{name}`.") from None


@dataclass(frozen=True)
class _Property:
    """A number of an element, or a list of them; types are those of numpy, without the byte
    order.
    """

    name: str
    type: str
    count_type: str = ""


@dataclass(frozen=True)
class _Element:
    """One of the tables that follow the header."""

    name: str
    count: int
    properties: list[_Property]

    def columns(self, *names: str) -> list[int]:
        """Return the places of properties."""
        known = [p.name for p in self.properties]
        return [known.index(name) for name in names]

    @property
    def nodes_name(self) -> str:
        """The name of the list of nodes of a face; empty if there is none."""
        lists = [p.name for p in self.properties if p.count_type]
        return next((n for n in lists if n in ("vertex_indices", "vertex_index")), "")


def _read_header(data: bytes, name: str) -> tuple[str, dict[str, _Element], int]:
    """The byte order, empty for text; the elements that follow; and where they start."""
    end = data.find(_END)
    is_ply = data[:4].strip() == b"ply"
    if not is_ply or end < 0:
        what = "is never closed by `end_header`" if is_ply else "must begin with `ply`"
        raise damaged(f"{name}: the header of a PLY file {what}.")
    stop = end + len(_END)
    # Binary data follows at once: a byte too many would shift all numbers.
    stop += 2 if data[stop : stop + 2] == b"\r\n" else 1
    lines = enumerate(data[:end].splitlines()[1:], 2)
    rows = [(number, words) for number, line in lines if (words := line.split())]
    # Numbers of lines stay those of the file, for messages.
    rows = [row for row in rows if row[1][0] not in (b"comment", b"obj_info")]
    first = rows[0][1] if rows else []
    if len(first) != 3 or first[0] != b"format" or first[1] not in _ORDERS:
        raise damaged(
            f"{name}, line 2: `format ascii 1.0` must stand here (or binary_little_endian,"
            " binary_big_endian)."
        )
    elements = _elements(rows[1:], name)
    _assert_mesh(elements, name)
    return _ORDERS[first[1]], elements, stop


def _elements(rows: list[tuple[int, list[bytes]]], name: str) -> dict[str, _Element]:
    elements: dict[str, _Element] = {}
    element = ""
    for number, words in rows:
        place = f"{name}, line {number}"
        if words[0] == b"element" and len(words) == 3:
            element = words[1].decode("latin-1")
            [count] = integers(words[2:], place)
            if count < 0 or element in elements:
                raise damaged(f"{place}: an element has a new name and a number of at least 0.")
            elements[element] = _Element(element, count, [])
        elif words[0] == b"property" and elements:
            elements[element].properties.append(_property(words[1:], place))
        else:
            raise damaged(
                f"{place}: `element name count` or `property type name` must stand here; got"
                f" {shown(b' '.join(words))}."
            )
    return elements


def _property(words: list[bytes], place: str) -> _Property:
    """A property, from `type name` or `list type type name`."""
    is_list = words[:1] == [b"list"]
    types = words[1:-1] if is_list else words[:-1]
    is_known = all(t in _TYPES for t in types) and len(types) == (2 if is_list else 1)
    if not is_known or (is_list and _TYPES[types[0]].startswith("f")):
        raise damaged(
            f"{place}: a property is `type name` or `list type type name`; got"
            f" {shown(b' '.join(words))}."
        )
    name = words[-1].decode("latin-1")
    return _Property(name, _TYPES[types[-1]], _TYPES[types[0]] if is_list else "")


def _assert_mesh(elements: dict[str, _Element], name: str) -> None:
    if not {"vertex", "face"} <= elements.keys():
        raise IncidenceError(
            f"{name}: a mesh has the elements `vertex` and `face`; the header has {[*elements]}."
            " Convert the file first."
        )
    names = {key: [p.name for p in element.properties] for key, element in elements.items()}
    for key, properties in names.items():
        if len(set(properties)) < len(properties):
            raise damaged(f"{name}: the element `{key}` has two properties of one name.")
    face = elements["face"]
    has_lists = any(p.count_type for p in elements["vertex"].properties)
    if has_lists or not {"x", "y", "z"} <= set(names["vertex"]):
        raise IncidenceError(
            f"{name}: a vertex has the numbers x, y and z and no lists; the header has"
            f" {names['vertex']}."
        )
    if not face.nodes_name:
        raise IncidenceError(
            f"{name}: a face has the list `vertex_indices`; the header has {names['face']}."
        )
    if face.properties[face.columns(face.nodes_name)[0]].type.startswith("f"):
        raise IncidenceError(
            f"{name}: the list `{face.nodes_name}` must have integers. Convert the file first."
        )


def _read_binary(
    data: bytes, byte_order: str, elements: dict[str, _Element], place: int, name: str
) -> tuple[Floats, Integers, Integers]:
    """Points, and sizes and nodes of the polygons."""
    rows = {}
    spots = np.zeros((0, 2), dtype=np.int64)
    for element in elements.values():
        least = sum(np.dtype(p.count_type or p.type).itemsize for p in element.properties)
        if element.count * least > len(data) - place:
            raise damaged(
                f"{name}: the header promises {element.count:,} rows of `{element.name}` of at"
                f" least {least} bytes each, and {len(data) - place:,} bytes follow."
            )
        # In most files all rows are alike, and numpy reads them at once; only mixed polygons are
        # walked one by one.
        even = _even_rows(data, place, element, byte_order, name)
        if even is not None:
            rows[element.name], place = even, place + even.nbytes
        else:
            lists_of_rows, place = _walk(data, place, element, byte_order, element.count, name)
            if element.name == "face":
                spots = lists_of_rows
    if place != len(data):
        raise damaged(
            f"{name}: {len(data) - place:,} bytes follow the last row that the header promises."
        )
    points = np.stack([rows["vertex"][axis].astype(np.float64) for axis in "xyz"], axis=1)
    face = elements["face"]
    if "face" in rows:
        nodes = rows["face"][face.nodes_name].astype(np.int64)
        return points, np.full(len(nodes), nodes.shape[1], dtype=np.int64), nodes.reshape(-1)
    lists = [p.name for p in face.properties if p.count_type]
    start, size = spots[lists.index(face.nodes_name) :: len(lists)].T
    item = np.dtype(byte_order + face.properties[face.columns(face.nodes_name)[0]].type)
    wide = item.itemsize
    before = (np.cumsum(size) - size) * wide  # bytes of the lists before each list
    spot = np.repeat(start - before, size) + np.arange(size.sum()) * wide
    items = np.frombuffer(data, dtype=np.uint8)[spot[:, None] + np.arange(wide)]  # (nodes, bytes)
    return points, size, items.reshape(-1).view(item).astype(np.int64)


def _even_rows(
    data: bytes, place: int, element: _Element, order: str, name: str
) -> NDArray[Any] | None:
    """The rows of an element if its lists have the sizes of the first row throughout."""
    first, _ = _walk(data, place, element, order, min(element.count, 1), name)
    sizes = iter(first[:, 1].tolist() if element.count else [0] * len(element.properties))
    fields: list[Any] = []
    for p in element.properties:
        if p.count_type:
            fields.append((f"{p.name} count", order + p.count_type))
            fields.append((p.name, order + p.type, (next(sizes),)))
        else:
            fields.append((p.name, order + p.type))
    row = np.dtype(fields)
    if element.count * row.itemsize > len(data) - place:
        return None
    rows = np.zeros(0, dtype=row)
    if row.itemsize:
        rows = np.frombuffer(data, dtype=row, count=element.count, offset=place)
    counts = [rows[f"{p.name} count"] for p in element.properties if p.count_type]
    return rows if all((sizes == sizes[:1]).all() for sizes in counts) else None


def _walk(
    data: bytes, place: int, element: _Element, order: str, count: int, name: str
) -> tuple[Integers, int]:
    """The start and the size of every list of the rows, shape [rows x lists, 2]; and the end of the
    rows.
    """
    steps: list[tuple[int, Any, int]] = []
    gap = 0  # bytes of plain numbers since the last list
    for p in element.properties:
        wide = np.dtype(p.type).itemsize
        if p.count_type:
            steps.append((gap, struct.Struct(order + _CODES[p.count_type]), wide))
            gap = 0
        else:
            gap += wide
    spots: list[tuple[int, int]] = []
    try:
        for _ in range(count):
            for before, number, item in steps:
                [size] = number.unpack_from(data, place + before)
                place += before + number.size
                spots.append((place, size))
                place += item * size
            place += gap
    except struct.error:
        place = len(data) + 1
    lists = np.array(spots, dtype=np.int64).reshape(-1, 2)
    if place > len(data) or (lists[:, 1] < 0).any():
        row = max(len(spots) - 1, 0) // max(len(steps), 1)
        raise damaged(
            f"{name}: a list of row {row} of `{element.name}`, or of one before it, cannot have its"
            " size."
        )
    return lists, place
