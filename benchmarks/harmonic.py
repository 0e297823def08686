r"""How long the harmonic part of a flow takes on a mesh of 100,000 triangles, in units of one
product with the Laplacian: `python -m benchmarks.harmonic`.

The mesh is a torus with numbers of nodes drawn at random. The first call makes a basis, and is
measured alone; later calls use it. With weights, and with `way="gradients"`, every call solves.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

import incidence as inc
from incidence.harmonic.boundaries import face_maps
from incidence.nn import Harmonic

__all__ = ["main", "torus"]


def torus(side: int) -> inc.Structure:
    """Return a torus of `side` times `side` squares, each cut in two, numbered at random."""
    number = torch.randperm(side * side, generator=torch.Generator().manual_seed(0))
    row, column = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")

    def node(down: int, right: int) -> Tensor:
        return number[((row + down) % side * side + (column + right) % side).flatten()]

    corners = node(1, 0), node(0, 1)
    one = torch.stack([node(0, 0), *corners], dim=1)
    other = torch.stack([node(1, 1), *corners], dim=1)
    triangles = torch.cat([one, other]).T
    s: inc.Structure = inc.geometry.simplicial_complex(triangles, max_size=3, oriented=True)
    return s


def seconds(run: Callable[[], object], repeats: int) -> float:
    """Return the processor time of the fastest of some runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Print one line in JSON: times as multiples of that of a product."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.harmonic")
    parser.add_argument("--triangles", type=int, default=100_000)
    parser.add_argument("--channels", type=int, default=16)
    given = parser.parse_args(arguments)
    s = torus(max(3, round((given.triangles / 2) ** 0.5)))
    x = torch.randn(s.num_entries("<i j>"), given.channels, dtype=torch.double)
    maps = face_maps(s, inc.Pattern("<i j>")).known
    for one in maps:
        one.back @ (one.forth @ x)  # makes the matrices
    product = seconds(lambda: [one.back @ (one.forth @ x) for one in maps], 5)
    layer = Harmonic("<i j>")
    first = seconds(lambda: layer(x, s), 1)
    later = seconds(lambda: layer(x, s), 5)
    solved = seconds(lambda: Harmonic("<i j>", "gradients", residual=1e-8)(x, s), 1)
    line = {
        "triangles": s.num_entries("<i j k>"),
        "channels": given.channels,
        "product_seconds": round(product, 4),
        "first_call": round(first / product, 1),
        "later_calls": round(later / product, 2),
        "solved_to_1e-8": round(solved / product, 1),
    }
    print(json.dumps(line))
    return line


if __name__ == "__main__":
    main()
