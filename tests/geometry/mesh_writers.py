"""Meshes written in every format that is read, the plain way; for tests of the readers."""

import struct
from collections.abc import Callable, Sequence

Points = Sequence[Sequence[float]]
Faces = Sequence[Sequence[int]]

CUBE_POINTS = [[float(x), float(y), float(z)] for x in (0, 1) for y in (0, 1) for z in (0, 1)]
CUBE_FACES = [[0, 1, 3, 2], [4, 5, 7, 6], [0, 1, 5, 4], [2, 3, 7, 6], [0, 2, 6, 4], [1, 3, 7, 5]]
PYRAMID_POINTS = [
    [0.0, 0.0, 0.0],
    [1.0, 0.0, 0.0],
    [1.0, 1.0, 0.0],
    [0.0, 1.0, 0.0],
    [0.5, 0.5, 1.0],
]
PYRAMID_FACES = [[0, 1, 2, 3], [1, 0, 4], [2, 1, 4], [3, 2, 4], [0, 3, 4]]
TETRA_POINTS = [*PYRAMID_POINTS[:3], [0.25, 0.25, 1.0]]
TETRA_FACES = [[0, 1, 2], [1, 0, 3], [2, 1, 3], [0, 2, 3]]


def obj(points: Points, faces: Faces) -> bytes:
    lines = [f"v {' '.join(map(repr, p))}" for p in points] + [
        f"f {' '.join(str(v + 1) for v in f)}" for f in faces
    ]
    return "\n".join(["# a mesh", "o thing", *lines, ""]).encode()


def off(points: Points, faces: Faces) -> bytes:
    lines = [" ".join(map(repr, p)) for p in points] + [
        " ".join(map(str, [len(f), *f])) for f in faces
    ]
    return "\n".join(["OFF", f"{len(points)} {len(faces)} 0", *lines, ""]).encode()


def _ply_header(order: str, num_points: int, num_faces: int) -> bytes:
    return (
        f"ply\nformat {order} 1.0\ncomment a mesh\nelement vertex {num_points}\nproperty double"
        f" x\nproperty double y\nproperty double z\nelement face {num_faces}\nproperty list uchar"
        " int vertex_indices\nend_header\n"
    ).encode()


def ply(points: Points, faces: Faces) -> bytes:
    lines = [" ".join(map(repr, p)) for p in points] + [
        " ".join(map(str, [len(f), *f])) for f in faces
    ]
    return _ply_header("ascii", len(points), len(faces)) + "\n".join([*lines, ""]).encode()


def _ply_binary(order: str, sign: str) -> Callable[[Points, Faces], bytes]:
    def write(points: Points, faces: Faces) -> bytes:
        rows = [struct.pack(f"{sign}3d", *p) for p in points] + [
            struct.pack(f"{sign}B{len(f)}i", len(f), *f) for f in faces
        ]
        return _ply_header(order, len(points), len(faces)) + b"".join(rows)

    return write


def stl(points: Points, faces: Faces) -> bytes:
    lines = ["solid thing"]
    for f in faces:
        corners = [f"      vertex {' '.join(map(repr, points[v]))}" for v in f]
        lines += ["  facet normal 0 0 0", "    outer loop", *corners, "    endloop", "  endfacet"]
    return "\n".join([*lines, "endsolid thing", ""]).encode()


def stl_binary(points: Points, faces: Faces) -> bytes:
    rows = [struct.pack("<12fH", 0, 0, 0, *(x for v in f for x in points[v]), 0) for f in faces]
    return (
        b"solid or not, this is binary".ljust(80) + struct.pack("<I", len(faces)) + b"".join(rows)
    )


POLYGON_WRITERS: dict[str, tuple[str, Callable[[Points, Faces], bytes]]] = {
    "obj": ("obj", obj),
    "off": ("off", off),
    "ply": ("ply", ply),
    "ply little endian": ("ply", _ply_binary("binary_little_endian", "<")),
    "ply big endian": ("ply", _ply_binary("binary_big_endian", ">")),
}
TRIANGLE_WRITERS = {"stl": ("stl", stl), "stl binary": ("stl", stl_binary)}
WRITERS = POLYGON_WRITERS | TRIANGLE_WRITERS
