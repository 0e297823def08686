"""The rows of a binary PLY file."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incidence.geometry.meshfiles.ply_header import Element, Header
from incidence.geometry.meshfiles.soup import Floats, Integers, damaged

__all__ = ["read_binary"]

_CODES = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I"}


def read_binary(data: bytes, header: Header, name: str) -> tuple[Floats, Integers, Integers]:
    """Points, and sizes and nodes of the polygons."""
    place, rows = header.stop, {}
    spots = np.zeros((0, 2), dtype=np.int64)
    for element in header.elements:
        _assert_room(data, place, element, name)
        # In most files all rows are alike, and numpy reads them at once; only mixed polygons are walked one by one.
        table = _even_rows(data, place, element, header.byte_order, name)
        if table is not None:
            rows[element.name], place = table, place + table.nbytes
        else:
            own, place = _walk(data, place, element, header.byte_order, element.count, name)
            spots = own if element.name == "face" else spots
    if place != len(data):
        raise damaged(f"{name}: {len(data) - place:,} bytes follow the last row that the header promises.")
    points = np.stack([rows["vertex"][axis].astype(np.float64) for axis in "xyz"], axis=1)
    key = header.face.nodes_name
    if "face" in rows:
        nodes = rows["face"][key].astype(np.int64)
        return points, np.full(len(nodes), nodes.shape[1], dtype=np.int64), nodes.reshape(-1)
    return points, *_gather(data, header.face, header.byte_order, spots)


def _assert_room(data: bytes, place: int, element: Element, name: str) -> None:
    least = sum(np.dtype(p.count_type or p.type).itemsize for p in element.properties)
    if element.count * least > len(data) - place:
        raise damaged(
            f"{name}: the header promises {element.count:,} rows of `{element.name}` of at least {least} bytes each, and "
            f"{len(data) - place:,} bytes follow."
        )


def _even_rows(data: bytes, place: int, element: Element, order: str, name: str) -> NDArray[Any] | None:
    """The rows of an element if its lists have the sizes of the first row throughout."""
    first, _ = _walk(data, place, element, order, min(element.count, 1), name)
    sizes = iter(first[:, 1].tolist() if element.count else [0] * len(element.properties))
    fields: list[Any] = []
    for p in element.properties:
        fields += [(f"{p.name} count", order + p.count_type), (p.name, order + p.type, (next(sizes),))] if p.count_type else []
        fields += [] if p.count_type else [(p.name, order + p.type)]
    row = np.dtype(fields)
    if element.count * row.itemsize > len(data) - place:
        return None
    rows = np.frombuffer(data, dtype=row, count=element.count, offset=place) if row.itemsize else np.zeros(0, dtype=row)
    counts = [rows[f"{p.name} count"] for p in element.properties if p.count_type]
    return rows if all((own == own[:1]).all() for own in counts) else None


def _walk(data: bytes, place: int, element: Element, order: str, count: int, name: str) -> tuple[Integers, int]:
    """Where every list of the rows starts, and its size, shape [rows x lists, 2]; and where the rows end."""
    steps: list[tuple[int, Any, int]] = []
    gap = 0  # bytes of plain numbers since the last list
    for p in element.properties:
        if p.count_type:
            steps.append((gap, struct.Struct(order + _CODES[p.count_type]), np.dtype(p.type).itemsize))
            gap = 0
        else:
            gap += np.dtype(p.type).itemsize
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
    table = np.array(spots, dtype=np.int64).reshape(-1, 2)
    if place > len(data) or (table[:, 1] < 0).any():
        row = max(len(spots) - 1, 0) // max(len(steps), 1)
        raise damaged(f"{name}: a list of row {row} of `{element.name}`, or of one before it, cannot have its size.")
    return table, place


def _gather(data: bytes, element: Element, order: str, spots: Integers) -> tuple[Integers, Integers]:
    """Sizes and nodes of polygons that lie at given places."""
    [column] = element.columns(element.nodes_name)
    lists = [p.name for p in element.properties if p.count_type]
    start, size = spots[lists.index(element.nodes_name) :: len(lists)].T
    item = np.dtype(order + element.properties[column].type)
    place = np.repeat(start - (np.cumsum(size) - size) * item.itemsize, size) + np.arange(size.sum()) * item.itemsize
    values = np.frombuffer(data, dtype=np.uint8)[place[:, None] + np.arange(item.itemsize)].reshape(-1).view(item)
    return size, values.astype(np.int64)
