"""Small meshes for the tests."""

import torch
from torch import Tensor

from incidence.geometry import read_mesh
from incidence.structure.example import Example

CUBE_POINTS = [[float(x), float(y), float(z)] for x in (0, 1) for y in (0, 1) for z in (0, 1)]
CUBE_QUADS = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
CUBE_FACES = [[q[0], q[k], q[k + 1]] for q in CUBE_QUADS for k in (1, 2)]
TETRAHEDRON = (
    [[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]],
    [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]],
)
GOLDEN = (1 + 5**0.5) / 2


def example_of(points: object, faces: object) -> Example:
    mesh = read_mesh((points, faces))
    return Example(mesh.structure, {"pos=i": mesh.points})


def cube() -> Example:
    return example_of(CUBE_POINTS, CUBE_FACES)


def tetrahedron() -> Example:
    return example_of(*TETRAHEDRON)


def icosahedron() -> Example:
    points = torch.tensor(
        [[0, a, b * GOLDEN] for a in (1, -1) for b in (1, -1)], dtype=torch.float64
    )
    points = torch.cat([points.roll(k, 1) for k in range(3)])
    near = (torch.cdist(points, points) - 2).abs() < 1e-6
    faces = [
        [i, j, k]
        for i in range(12)
        for j in range(i)
        for k in range(j)
        if near[i, j] and near[j, k] and near[i, k]
    ]
    return example_of(points, faces)


def grid_faces(rows: int, columns: int, is_closed: bool = False) -> list[list[int]]:
    """Two triangles for each square of a grid of points; closed up to a torus."""
    faces = []
    for r in range(rows if is_closed else rows - 1):
        for c in range(columns if is_closed else columns - 1):
            a, b = r * columns + c, r * columns + (c + 1) % columns
            d, e = (r + 1) % rows * columns + c, (r + 1) % rows * columns + (c + 1) % columns
            faces += [[a, b, d], [b, d, e]]
    return faces


def grid(size: int = 4) -> Example:
    return example_of(
        [[float(r), float(c), 0.0] for r in range(size) for c in range(size)],
        grid_faces(size, size),
    )


def torus(rows: int = 6, columns: int = 9) -> Example:
    r, c = torch.meshgrid(
        torch.arange(rows) * 2 * torch.pi / rows,
        torch.arange(columns) * 2 * torch.pi / columns,
        indexing="ij",
    )
    out = 3 + r.cos()
    points = torch.stack([out * c.cos(), out * c.sin(), r.sin()], -1).view(-1, 3).double()
    return example_of(points, grid_faces(rows, columns, is_closed=True))


def bumpy(seed: int = 0) -> Example:
    """A closed surface without any symmetry."""
    generator = torch.Generator().manual_seed(seed)
    base = torus()
    noise = 0.2 * torch.randn(54, 3, generator=generator, dtype=torch.float64)
    return base.replace(features={"pos=i": base.features["pos=i"] + noise})


def moebius(columns: int = 9) -> Example:
    turn = torch.arange(columns) * 2 * torch.pi / columns
    points = []
    for side in (-0.3, 0.3):
        out = 1 + side * (turn / 2).cos()
        points.append(torch.stack([out * turn.cos(), out * turn.sin(), side * (turn / 2).sin()], 1))
    faces = []
    for c in range(columns):
        is_last = c == columns - 1
        nxt, crossed = ((0, columns) if not is_last else (columns, 0)), (c + 1) % columns
        a, b = c, c + columns
        d, e = crossed + nxt[0], crossed + nxt[1]
        faces += [[a, b, d], [b, d, e]]
    return example_of(torch.cat(points).double(), faces)


def rotation(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    q, r = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=torch.float64))
    q = q * r.diagonal().sign()
    return q * q.det()  # det +1
