"""Draw the one harmonic flow of a ring, and of the same ring refined: `./run python
examples/holes_picture.py docs/flows/holes.svg`.
"""

import runpy
import sys
from pathlib import Path

import torch

import incidence as inc


def refined(structure: inc.Structure, points: torch.Tensor) -> tuple[inc.Structure, torch.Tensor]:
    """Return a structure with a new node in the middle of every edge, and the places of nodes."""
    middles = points[structure["<i j>"]].mean(0)
    return inc.geometry.subdivide(structure, "edge"), torch.cat([points, middles])


def panel(structure: inc.Structure, points: torch.Tensor) -> inc.plot.Picture:
    """Return the picture of what is harmonic of noise on the edges."""
    noise = torch.randn(
        structure.num_entries("<i j>"), 1, generator=torch.Generator().manual_seed(1)
    )
    flow = inc.nn.Harmonic("<i j>")(noise.double(), structure)
    scaled = (flow / flow.abs().max()).float()
    return inc.plot.structure(
        structure, {"<i j>": scaled}, points, labels=False, tensors=["<i j>"], size=230, nodes=False
    )


def draw() -> str:
    """Return the picture as SVG."""
    ring, points = runpy.run_path(str(Path(__file__).with_name("flow_picture.py")))["ring"](8)
    finer, more = refined(ring, points)
    titles = ["16 triangles: rank 1", "64 triangles: rank 1"]
    picture = inc.plot.grid([panel(ring, points), panel(finer, more)], titles)
    return picture._repr_svg_()


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(), encoding="utf-8")
