"""Draw the pictures of docs/gallery.md: all of them by `./run python examples/gallery.py`, or some
by name.

`incidence plot` draws named objects. This script makes the others first, in a few lines each.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import incidence as inc
from incidence.cli import main as incidence_command

FOLDER = Path(__file__).parents[1] / "docs" / "gallery"


def grid(rows: int, columns: int, is_flipped: bool) -> list[list[int]]:
    """Return the quadrilaterals of a sheet whose opposite sides are glued: columns as they are,
    rows turned around if it is flipped.
    """

    def node(r: int, c: int) -> int:
        turned = -c % columns if is_flipped and r == rows else c % columns
        return r % rows * columns + turned

    return [
        [node(r, c), node(r + 1, c), node(r + 1, c + 1), node(r, c + 1)]
        for r in range(rows)
        for c in range(columns)
    ]


def angles(rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    u, v = torch.meshgrid(torch.arange(rows) / rows, torch.arange(columns) / columns, indexing="ij")
    return (2 * torch.pi * u).double().flatten(), (2 * torch.pi * v).double().flatten()


def torus() -> inc.plot.Picture:
    u, v = angles(36, 16)
    points = torch.stack([(3 + v.cos()) * u.cos(), (3 + v.cos()) * u.sin(), v.sin()], 1)
    mesh = inc.geometry.read_mesh((points, grid(36, 16, is_flipped=False)))
    return inc.plot.structure(
        mesh.structure,
        {"face": face_means(mesh, points[:, 2])},
        layout=points,
        tensors=["face"],
        view=(-60, 38),
    )


def face_means(mesh: inc.geometry.meshes.Mesh, x: torch.Tensor) -> torch.Tensor:
    """Return the mean of a value of the nodes over every face."""
    node, face = mesh.structure["face"]
    return torch.zeros(len(mesh.faces)).double().index_add(0, face, x[node]) / torch.bincount(face)


def klein_bottle() -> inc.plot.Picture:
    """Draw it as an eight that turns half around while it goes around."""
    u, v = angles(40, 18)
    radius = 2.6 + (u / 2).cos() * v.sin() - (u / 2).sin() * (2 * v).sin()
    points = torch.stack(
        [
            radius * u.cos(),
            radius * u.sin(),
            (u / 2).sin() * v.sin() + (u / 2).cos() * (2 * v).sin(),
        ],
        1,
    )
    mesh = inc.geometry.read_mesh((points, grid(40, 18, is_flipped=True)))
    return inc.plot.structure(
        mesh.structure,
        {"face": face_means(mesh, u.cos())},
        layout=points,
        tensors=["face"],
        view=(-70, 42),
        opacity=0.92,
    )


def hypergraph() -> inc.plot.Picture:
    """Draw who wrote papers with whom: an author is a node, a paper a set of them."""
    papers = [[0, 1, 2], [2, 3], [3, 4, 5, 6], [6, 7], [7, 8, 9], [9, 0], [4, 10], [10, 11, 12]]
    return inc.plot.structure(inc.geometry.hypergraph(papers, 13))


def annulus() -> tuple[inc.Structure, torch.Tensor]:
    """Return triangles around a hole."""
    rings, around = 3, 13
    turn = 2 * torch.pi * torch.arange(around).double() / around
    points = torch.cat(
        [
            (1.6 + 0.9 * r)
            * torch.stack(
                [(turn + r * torch.pi / around).cos(), (turn + r * torch.pi / around).sin()], 1
            )
            for r in range(rings)
        ]
    )
    facets = []
    for r in range(rings - 1):
        for k in range(around):
            a, b, c, d = (
                r * around + k,
                r * around + (k + 1) % around,
                (r + 1) * around + k,
                (r + 1) * around + (k - 1) % around,
            )
            facets += [[a, b, c], [a, c, d]]
    return inc.geometry.simplicial_complex(facets, oriented=True), points


def flow() -> inc.plot.Picture:
    """Draw the flow around a hole that has neither sources nor whirls: the harmonic one."""
    structure, points = annulus()
    around = inc.geometry.hodge(structure).harmonic[:, 0]
    return inc.plot.structure(
        structure, {"<i j>": around}, layout=points, tensors=["<i j>"], labels=False, size=300
    )


def cloud() -> tuple[inc.Structure, torch.Tensor]:
    """Return points near a circle, and which of them are near each other."""
    draw = torch.Generator().manual_seed(1)
    turn = 2 * torch.pi * torch.arange(26) / 26
    points = torch.stack([turn.cos(), turn.sin()], 1) * (2 + 0.8 * (torch.arange(26) % 2))[
        :, None
    ] + 0.15 * torch.randn(26, 2, generator=draw)
    return inc.geometry.lifting.vietoris_rips(points, 1.2, max_size=2), points


def before_a_lift() -> inc.plot.Picture:
    graph, points = cloud()
    return inc.plot.structure(graph, layout=points, labels=False)


def after_a_lift() -> inc.plot.Picture:
    graph, points = cloud()
    return inc.plot.structure(inc.geometry.lifting.cliques(graph), layout=points, labels=False)


def ratings() -> inc.plot.Picture:
    users, movies = (
        [0, 0, 1, 1, 2, 3, 3, 4, 4, 4],
        [
            "a",
            "b",
            "b",
            "c",
            "a",
            "d",
            "e",
            "c",
            "d",
            "e",
        ],
    )
    stars = torch.tensor([5, 3, 4, 1, 2, 5, 4, 3, 2, 5])
    table = inc.geometry.table({"user": users, "movie": movies})
    return inc.plot.structure(
        table.structure, {"a:user b:movie": stars[table.rows["table"]].float()}
    )


PICTURES: dict[str, str | Callable[[], inc.plot.Picture]] = {
    "cube": "cube",
    "soccer-ball": '"soccer ball" --values size',
    "torus": torus,
    "klein-bottle": klein_bottle,
    "24-cell": '24-cell --layout shadow --tensors "{i j}" --no-labels',
    "tesseract": 'tesseract --tensors "{i j}" --theme dark',
    "hypergraph": hypergraph,
    "caffeine": '"smiles:CN1C=NC2=C1C(=O)N(C(=O)N2C)C"',
    "flow": flow,
    "before-a-lift": before_a_lift,
    "after-a-lift": after_a_lift,
    "ratings": ratings,
    "molecules": "solubility --rows 400 600 800 1000 1100 1200",
    "poset": "cube --as poset",
    "operations": '"i, {i j} -> i"',
    "products": '"(i j) * i -> i"',
    "orbits": '"{i j} {i k}"',
    "sharing": '"<i j> -> <i j>" --as sharing --nodes 4',
    "plan": '"{i j} -> {i j}" --as plan --on cycle-5',
}
"""For every picture the words after `incidence plot`, or the function that makes it."""


def command(name: str) -> str:
    """Return what to type for a picture."""
    how = PICTURES[name]
    return (
        f"./run incidence plot {how} --out {name}.svg"
        if isinstance(how, str)
        else f"./run python examples/gallery.py {name}"
    )


def draw(name: str) -> str:
    """Return a picture as SVG."""
    how = PICTURES[name]
    if not isinstance(how, str):
        return how().svg()
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.svg"
        incidence_command(["plot", *shlex.split(how), "--out", str(path)])
        return path.read_text(encoding="utf-8")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        (FOLDER / f"{name}.svg").write_text(draw(name), encoding="utf-8")
        print(f"wrote {FOLDER / name}.svg")
