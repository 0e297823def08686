"""The header of a PLY file: its format, its elements and their properties."""

from __future__ import annotations

from dataclasses import dataclass

from incidence.errors import IncidenceError
from incidence.geometry.meshfiles.soup import damaged, shown
from incidence.geometry.meshfiles.table import integers

__all__ = ["Element", "Header", "Property", "read_header"]

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
    b"int8": "i1",
    b"uint8": "u1",
    b"int16": "i2",
    b"uint16": "u2",
    b"int32": "i4",
    b"uint32": "u4",
    b"float32": "f4",
    b"float64": "f8",
}
_END = b"end_header"


@dataclass(frozen=True)
class Property:
    """A number of an element, or a list of them; types are those of numpy, without the byte order."""

    name: str
    type: str
    count_type: str = ""


@dataclass(frozen=True)
class Element:
    """A table of the file."""

    name: str
    count: int
    properties: tuple[Property, ...]

    def columns(self, *names: str) -> list[int]:
        """Where properties stand."""
        known = [p.name for p in self.properties]
        return [known.index(name) for name in names]

    @property
    def nodes_name(self) -> str:
        """What a face calls the list of its nodes."""
        return next((p.name for p in self.properties if p.name in ("vertex_indices", "vertex_index") and p.count_type), "")


@dataclass(frozen=True)
class Header:
    """What follows in the file, from byte `stop` on; `byte_order` is empty for text."""

    byte_order: str
    elements: tuple[Element, ...]
    stop: int

    @property
    def vertex(self) -> Element:
        """The table of points."""
        return next(e for e in self.elements if e.name == "vertex")

    @property
    def face(self) -> Element:
        """The table of polygons."""
        return next(e for e in self.elements if e.name == "face")


def read_header(data: bytes, name: str) -> Header:
    """Reads and checks the header.

    Raises:
        IncidenceError: It is not one, or it does not promise points and polygons.
    """
    found = data.find(_END)
    is_ply = data[:4].strip() == b"ply"
    if not is_ply or found < 0:
        what = "is never closed by `end_header`" if is_ply else "must begin with `ply`"
        raise damaged(f"{name}: the header of a PLY file {what}.")
    stop = found + len(_END)
    stop += 2 if data[stop : stop + 2] == b"\r\n" else 1
    rows = [(number, line.split()) for number, line in enumerate(data[:found].splitlines(), 1)][1:]
    rows = [(number, words) for number, words in rows if words and words[0] not in (b"comment", b"obj_info")]
    if not rows or len(rows[0][1]) != 3 or rows[0][1][0] != b"format" or rows[0][1][1] not in _ORDERS:
        raise damaged(f"{name}, line 2: `format ascii 1.0` must stand here (or binary_little_endian, binary_big_endian).")
    header = Header(_ORDERS[rows[0][1][1]], _elements(rows[1:], name), stop)
    _assert_mesh(header, name)
    return header


def _elements(rows: list[tuple[int, list[bytes]]], name: str) -> tuple[Element, ...]:
    tables: list[tuple[str, int, list[Property]]] = []
    for number, words in rows:
        place = f"{name}, line {number}"
        if words[0] == b"element" and len(words) == 3:
            [count] = integers(words[2:], place)
            if count < 0 or any(words[1].decode("latin-1") == known for known, _, _ in tables):
                raise damaged(f"{place}: an element has a new name and a number of at least 0.")
            tables.append((words[1].decode("latin-1"), count, []))
        elif words[0] == b"property" and tables:
            tables[-1][2].append(_property(words[1:], place))
        else:
            raise damaged(f"{place}: `element name count` or `property type name` must stand here; got {shown(b' '.join(words))}.")
    return tuple(Element(own, count, tuple(properties)) for own, count, properties in tables)


def _property(words: list[bytes], place: str) -> Property:
    is_list = words[:1] == [b"list"]
    types = words[1:-1] if is_list else words[:-1]
    if len(types) != 1 + is_list or any(t not in _TYPES for t in types) or (is_list and _TYPES[types[0]].startswith("f")):
        raise damaged(f"{place}: a property is `type name` or `list type type name`; got {shown(b' '.join(words))}.")
    return Property(words[-1].decode("latin-1"), _TYPES[types[-1]], _TYPES[types[0]] if is_list else "")


def _assert_mesh(header: Header, name: str) -> None:
    names = [element.name for element in header.elements]
    for needed in ("vertex", "face"):
        if needed not in names:
            raise IncidenceError(f"{name}: a mesh has the elements `vertex` and `face`; the header has {names}. Convert the file first.")
    for element in header.elements:
        own = [p.name for p in element.properties]
        if len(set(own)) < len(own):
            raise damaged(f"{name}: the element `{element.name}` has two properties of one name.")
    own = [p.name for p in header.vertex.properties]
    if any(p.count_type for p in header.vertex.properties) or not {"x", "y", "z"} <= set(own):
        raise IncidenceError(f"{name}: a vertex has the numbers x, y and z and no lists; the header has {own}.")
    if not header.face.nodes_name:
        raise IncidenceError(f"{name}: a face has the list `vertex_indices`; the header has {[p.name for p in header.face.properties]}.")
    if next(p.type for p in header.face.properties if p.name == header.face.nodes_name).startswith("f"):
        raise IncidenceError(f"{name}: the list `{header.face.nodes_name}` must have integers. Convert the file first.")
