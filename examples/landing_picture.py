"""Draws the first pictures, a structure and what a layer on it can do: `./run python examples/landing_picture.py docs`."""

import sys
from pathlib import Path

import torch

import incidence as inc

POINTS = [[0.0, 0.0], [1.1, 0.3], [0.45, 1.0], [1.6, 1.2], [0.9, 1.9], [2.2, 0.4], [0.0, 1.9]]
FACETS = [[0, 1, 2], [1, 2, 3], [2, 3, 4], [1, 5], [3, 5], [4, 6], [2, 6]]


def structure() -> inc.plot.Picture:
    """Seven nodes with edges and triangles."""
    return inc.plot.structure(
        inc.geometry.simplicial_complex(FACETS), layout=torch.tensor(POINTS), size=230
    )


def operations() -> inc.plot.Picture:
    """All that a layer from nodes and edges to nodes can do."""
    return inc.plot.operations("i, {i j} -> i", columns=2)


def draw() -> str:
    """Both as SVG, for the README."""
    return inc.plot.grid([structure(), operations()], columns=2, gap=30).svg()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "landing.svg").write_text(draw(), encoding="utf-8")
    (folder / "structure.svg").write_text(structure().svg(), encoding="utf-8")
    (folder / "operations.svg").write_text(operations().svg(), encoding="utf-8")
