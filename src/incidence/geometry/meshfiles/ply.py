"""PLY, in text and binary: a header says which tables follow, and with which columns."""

from __future__ import annotations

from incidence.errors import IncidenceError
from incidence.geometry.meshfiles.ply_binary import read_binary
from incidence.geometry.meshfiles.ply_header import Header, read_header
from incidence.geometry.meshfiles.soup import Soup, damaged
from incidence.geometry.meshfiles.table import coordinates, polygons, table

__all__ = ["read_ply"]


def read_ply(data: bytes, name: str) -> Soup:
    """Points and polygons of a PLY file; all other elements and properties are passed over."""
    header = read_header(data, name)
    if header.byte_order:
        return Soup(name, *read_binary(data, header, name))
    return _read_text(data, header, name)


def _read_text(data: bytes, header: Header, name: str) -> Soup:
    rows = table(data[header.stop :], name, first=len(data[: header.stop].splitlines()) + 1)
    tables = [element for element in header.elements if element.properties]
    promised = sum(element.count for element in tables)
    if len(rows) != promised:
        raise damaged(f"{name}: the header promises {promised:,} rows, one line each, and {len(rows):,} lines follow.")
    parts, start = {}, 0
    for element in tables:
        parts[element.name] = rows[start : start + element.count]
        start += element.count
    points, faces = parts["vertex"], parts["face"]
    [column] = header.face.columns(header.face.nodes_name)
    early = next((p.name for p in header.face.properties[:column] if p.count_type), None)
    if early is not None:  # then the header does not tell in which column the nodes start
        raise IncidenceError(f"{name}: the list `{early}` stands before the nodes of a face, which is read from binary PLY only.")
    values = coordinates(points, header.vertex.columns("x", "y", "z"))
    return Soup(name, values, *polygons(faces, column), point_lines=points.places, face_lines=faces.places)
