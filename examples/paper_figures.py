"""Draw the five figures of the paper from the code: `./run python examples/paper_figures.py`, into
docs/figures.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import torch

import incidence as inc
from incidence.plot.scene import Mark, Scene, Style, Text
from incidence.plot.scene import Path as Outline
from incidence.plot.theme import LIGHT

FOLDER = Path(__file__).parents[1] / "docs" / "figures"
# triangles around; nodes 3 and 4 are the tips
BIPYRAMID = [(0, 1, 3), (0, 2, 3), (1, 2, 3), (0, 1, 4), (0, 2, 4), (1, 2, 4)]
POINTS = torch.tensor([[1, 0, 0], [-0.5, 0.87, 0], [-0.5, -0.87, 0], [0, 0, 1.1], [0, 0, -1.1]])
EDGES = torch.tensor([[0, 0, 0, 1, 2, 2, 3], [1, 2, 3, 2, 3, 4, 4]])


def incidence_matrix(
    rows: list[int], columns: list[tuple[int, ...]], own: set[tuple[int, ...]]
) -> inc.plot.Picture:
    """Draw which node lies in which triangle; triangles from densification are paler."""
    shapes: list[Mark] = []
    side, ink = 15.0, Style(fill=LIGHT.ink)
    for y, node in enumerate(rows):
        shapes.append(Text(-5, (y + 0.68) * side, str(node), 8, "end", style=ink))
        for x, face in enumerate(columns):
            colour = LIGHT.palette[0] if tuple(sorted(face)) in own else LIGHT.palette[5]
            corners = ((x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1))
            style = Style(
                fill=colour if node in face else LIGHT.pale, stroke=LIGHT.paper, width=0.6
            )
            part = "incident" if node in face else "apart"
            shapes.append(
                Outline(
                    tuple((side * a, side * b) for a, b in corners),
                    is_closed=True,
                    style=style,
                    part=part,
                )
            )
    for x, face in enumerate(columns):
        for k, node in enumerate(face):
            shapes.append(
                Text(
                    (x + 0.5) * side,
                    -4 - 8 * (len(face) - 1 - k),
                    str(node),
                    7,
                    "middle",
                    style=Style(fill=LIGHT.faint),
                )
            )
    return inc.plot.Picture(Scene.around(shapes), LIGHT, "nodes and triangles")


def figure_1() -> inc.plot.Picture:
    """Draw the bipyramid, a symmetry of it, all triangles, and any permutation."""
    solid = inc.geometry.simplicial_complex(BIPYRAMID)
    own, every = set(BIPYRAMID), list(combinations(range(5), 3))
    # a rotation with a reflection; no symmetry at all
    turned, any_order = [1, 2, 0, 4, 3], [4, 2, 0, 1, 3]

    def moved(order: list[int], faces: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [tuple(order[v] for v in face) for face in faces]

    assert torch.tensor(turned) in inc.geometry.automorphisms(solid)
    assert torch.tensor(any_order) not in inc.geometry.automorphisms(solid)
    pictures = [
        inc.plot.structure(
            solid, layout=POINTS, labels=True, opacity=0.75, size=150, view=(-70, 16)
        ),
        incidence_matrix([0, 1, 2, 3, 4], BIPYRAMID, own),
        incidence_matrix(turned, moved(turned, BIPYRAMID), own),
        incidence_matrix([0, 1, 2, 3, 4], every, own),
        incidence_matrix(any_order, moved(any_order, every), own),
    ]
    titles = [
        "triangular bipyramid",
        "a  its nodes and triangles",
        "b  after a symmetry",
        "c  all triangles",
        "d  after any permutation",
    ]
    return inc.plot.grid(pictures, titles, columns=3)


def figure_2() -> inc.plot.Picture:
    """Draw the weight between every input and output, on a graph with 5 nodes and 7 edges."""
    both = torch.cat([torch.arange(5).expand(2, 5), EDGES, EDGES.flip(0)], 1)
    matrix = inc.Structure(5, {"i j": both})
    incidence = inc.Structure(5, {"{i j}": EDGES}).with_pattern("i {i j}")
    relaxed = inc.nn.Exchangeable("i {i j}", 1, 1).relax(incidence)
    pictures = [
        inc.plot.sharing("i j -> i j", matrix, nested=True, size=5.5),
        inc.plot.sharing("i {i j} -> i {i j}", incidence, nested=True, size=4.6),
        inc.plot.sharing("a b:dim1 -> a b:dim1", relaxed, nested=True, size=4.6),
    ]
    return inc.plot.grid(
        pictures,
        [
            "15 weights: node-node",
            "7 weights: node-edge",
            "4 weights: nodes and edges permuted apart",
        ],
        columns=1,
    )


def figure_3() -> inc.plot.Picture:
    """Draw the 15 = 2 + 3 + 3 + 7 operations on a matrix."""
    return inc.plot.operations("i j -> i j")


def figure_4() -> inc.plot.Picture:
    """Draw the cube, and its faces as a partially ordered set."""
    cube = inc.geometry.named("cube")
    solid = inc.plot.structure(
        cube, layout=inc.geometry.coordinates("cube"), labels=True, opacity=0.8, size=170
    )
    return inc.plot.grid([solid, inc.plot.poset(cube)], columns=2)


def figure_5() -> inc.plot.Picture:
    """Draw the 52 = 2 + 3 + 9 + 21 + 4 + 13 operations from a matrix to a cube of numbers."""
    return inc.plot.operations("i j -> i j k", columns=7)


FIGURES: dict[str, Callable[[], inc.plot.Picture]] = {
    "figure-1": figure_1,
    "figure-2": figure_2,
    "figure-3": figure_3,
    "figure-4": figure_4,
    "figure-5": figure_5,
}


def draw(name: str) -> str:
    """Return a figure as SVG."""
    return FIGURES[name]().svg()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or FIGURES:
        (FOLDER / f"{name}.svg").write_text(draw(name), encoding="utf-8")
        print(f"wrote {FOLDER / name}.svg")
