"""STL, in text and binary, by trimesh: triangles given by their corners; equal corners are one node, numbered as they first appear."""

from __future__ import annotations

import warnings
from io import BytesIO

import numpy as np

from incidence.errors import need
from incidence.geometry.meshfiles.text import Soup, damaged

__all__ = ["read_stl"]


def read_stl(data: bytes, name: str) -> Soup:
    """Points and triangles of an STL file; normals and attributes are passed over."""
    trimesh = need("trimesh", "reading an STL file", "mesh")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # where text is no number, numpy warns and drops the rest of the file
            found = trimesh.load_mesh(BytesIO(data), file_type="stl", process=False)
            corners = np.array(found.vertices, dtype=np.float64)[np.array(found.faces).ravel()]
    except Exception as error:  # a damaged file may raise anything in a reader that trusts it
        raise damaged(f"{name} cannot be read as STL, text or binary: {' '.join(str(error).split())}.") from None
    written = data.lower().count(b"endfacet")  # none in a binary file
    if not len(corners) or written not in (0, len(corners) // 3):
        got = f"{len(corners) // 3:,} of {written:,} triangles are" if written else "no triangle is"
        raise damaged(f"{name}: {got} whole and between `solid` and `endsolid`, and it has not the length of a binary STL.")
    corners = corners.reshape(-1, 3) + 0.0  # -0.0 becomes 0.0, its equal
    _, first, number = np.unique(corners, axis=0, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))  # numbered by first appearance
    return Soup(name, corners[np.sort(first)], np.full(len(corners) // 3, 3), rank[number.ravel()])
