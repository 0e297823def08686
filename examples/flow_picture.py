"""Draw a flow, its divergence, its curl, and what goes around a hole: `./run python
examples/flow_picture.py docs/flows`.
"""

import sys
from math import cos, pi, sin
from pathlib import Path

import torch

import incidence as inc


def ring(count: int = 10) -> tuple[inc.Structure, torch.Tensor]:
    """Return a ring of triangles around a hole, and the places of its nodes."""
    facets = [(k, (k + 1) % count, k + count) for k in range(count)]
    facets += [((k + 1) % count, (k + 1) % count + count, k + count) for k in range(count)]
    angles = [2 * pi * k / count for k in range(count)] + [
        2 * pi * (k + 0.5) / count for k in range(count)
    ]
    radii = [2.0] * count + [1.0] * count
    points = torch.tensor([[r * cos(a), r * sin(a)] for r, a in zip(radii, angles, strict=True)])
    return inc.geometry.simplicial_complex(facets, oriented=True), points


def flow_on(structure: inc.Structure, points: torch.Tensor) -> torch.Tensor:
    """Return the values of `<i j>`: a source at the right, a vortex at the left, and a current
    around the hole.
    """
    tail, head = points[structure["<i j>"]]
    middle, along = (tail + head) / 2, head - tail
    source, vortex = torch.tensor([1.6, 0.4]), torch.tensor([-1.5, -0.3])

    def away(x: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
        return (x - centre) / ((x - centre).square().sum(1, keepdim=True) + 0.2)

    turned = away(middle, vortex).flip(1) * torch.tensor([-1.0, 1.0])
    around = middle.flip(1) * torch.tensor([-1.0, 1.0]) / middle.square().sum(1, keepdim=True)
    field = away(middle, source) + turned + 0.7 * around
    return (field * along).sum(1, keepdim=True)


PICTURES = ("flow", "divergence", "curl", "harmonic")


def draw(name: str) -> str:
    """Return one of the pictures as SVG."""
    structure, points = ring()
    x = flow_on(structure, points)
    edges = inc.geometry.hodge(structure, 1)
    values = {
        "flow": {"<i j>": x},
        "divergence": {"i": edges.boundary.float() @ x},
        "curl": {"<i j k>": edges.coboundary.float() @ x},
        "harmonic": {"<i j>": edges.decompose(x).harmonic},
    }[name]
    tensors = ["<i j k>"] if name == "curl" else ["<i j>"]
    return inc.plot.structure(
        structure, values, points, labels=False, tensors=tensors, size=190, title=name
    )._repr_svg_()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for picture in PICTURES:
        (folder / f"{picture}.svg").write_text(draw(picture), encoding="utf-8")
