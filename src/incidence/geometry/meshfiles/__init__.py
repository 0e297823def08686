"""Mesh files: bytes in, points and polygons out; nothing in a file is ever executed.

Why not a library: trimesh cuts every quad and polygon into triangles and merges nodes as it reads;
meshio regroups faces by their size. Rows of features that belong to the faces of a file would match
neither. These readers keep every polygon, and its place. trimesh reads STL, which has triangles and
no nodes.
"""

from __future__ import annotations

import gzip
import logging
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from incidence.errors import IncidenceError, need
from incidence.files import regular_file
from incidence.geometry.meshfiles.ply import read_ply
from incidence.geometry.meshfiles.text import Soup, damaged, read_obj, read_off
from incidence.limits import assert_unpacked

__all__ = ["FORMATS", "Soup", "read_soup"]


@contextmanager
def _without_log(name: str) -> Iterator[None]:
    """Silence the log of a library: an error says in a sentence what went wrong."""
    log = logging.getLogger(name)
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before


def read_stl(data: bytes, name: str) -> Soup:
    """Read points and triangles of an STL file, text or binary, by trimesh.

    Equal corners are one node, numbered as they first appear.
    """
    trimesh = need("trimesh", "reading an STL file", "mesh")
    try:
        with warnings.catch_warnings(), _without_log("trimesh.util"):
            # where text is no number, numpy warns and drops the rest of the file
            warnings.simplefilter("error")
            mesh = trimesh.load_mesh(BytesIO(data), file_type="stl", process=False)
            corners = np.array(mesh.vertices, dtype=np.float64)[np.array(mesh.faces).ravel()]
    except Exception as error:  # a damaged file may raise anything in a reader that trusts it
        raise damaged(
            f"{name} cannot be read as STL, text or binary: {' '.join(str(error).split())}."
        ) from None
    written = data.lower().count(b"endfacet")  # none in a binary file
    if not len(corners) or written not in (0, len(corners) // 3):
        got = "no triangle is"
        if written:
            got = f"{len(corners) // 3:,} of {written:,} triangles are"
        raise damaged(
            f"{name}: {got} whole and between `solid` and `endsolid`, and it has not the length of"
            " a binary STL."
        )
    corners = corners.reshape(-1, 3) + 0.0  # -0.0 becomes 0.0, its equal
    _, first, number = np.unique(corners, axis=0, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))  # numbered by first appearance
    return Soup(name, corners[np.sort(first)], np.full(len(corners) // 3, 3), rank[number.ravel()])


FORMATS: dict[str, Callable[[bytes, str], Soup]] = {
    "obj": read_obj,
    "off": read_off,
    "ply": read_ply,
    "stl": read_stl,
}


def read_soup(source: Any, file_format: str | None = None) -> Soup:
    """Read points and polygons of a file, in the order of the file.

    Args:
        source: A path, or an open binary file (then the format must be given); `.gz` is unpacked.
        file_format: One of `FORMATS`. Default: the suffix of the path.

    Raises:
        IncidenceError: There is no such file or format, or the file is broken; the message says
            where.
    """
    if file_format is not None and not isinstance(file_format, str):
        raise IncidenceError(
            f"format must be one of {', '.join(map(repr, FORMATS))}; got {file_format!r}."
        )
    if source == "":
        raise IncidenceError("the path of the mesh is empty: give the path of a mesh file.")
    if hasattr(source, "read"):
        name = str(getattr(source, "name", "the file"))
        data = source.read()
        if not isinstance(data, bytes):
            raise IncidenceError(
                f"{name} is open as text: open it in binary mode, open(path, 'rb')."
            )
        suffix = Path(name).suffix
    else:
        data, name, suffix = _from_path(Path(source))
    wanted = (file_format or suffix).lower().removeprefix(".")
    if wanted not in FORMATS:
        got = f"the format {wanted!r}" if wanted else "no format"
        raise IncidenceError(
            f"{name}: a mesh is read from {', '.join(FORMATS)} (also with .gz); got {got}. Convert"
            " it, or give `format=`."
        )
    if not data.strip():
        raise IncidenceError(f"{name} is empty: a mesh has points and faces.")
    return FORMATS[wanted](data, name)


def _from_path(path: Path) -> tuple[bytes, str, str]:
    regular_file(path, "a mesh file")
    try:
        if path.suffix.lower() == ".gz":
            assert_unpacked(path)
            return gzip.decompress(path.read_bytes()), str(path), Path(path.stem).suffix
        data = path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise IncidenceError(f"{path} cannot be read: {error}.") from None
    return data, str(path), path.suffix
