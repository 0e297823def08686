"""Small complexes with oriented faces."""

from __future__ import annotations

import itertools
from functools import lru_cache

import torch

import incidence as inc
from incidence.structure import Structure


@lru_cache
def random_complexes(count: int = 50) -> list[Structure]:
    """Complexes with up to 12 nodes and facets of up to 4, some orientations reversed."""
    generator = torch.Generator().manual_seed(0)

    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=generator))

    complexes = []
    for _ in range(count):
        nodes = number(4, 13)
        facets = [
            torch.randperm(nodes, generator=generator)[: number(1, 5)].tolist()
            for _ in range(number(2, 20))
        ]
        s = inc.geometry.simplicial_complex(facets, nodes, max_size=4, oriented=True)
        for text in ("<i j>", "<i j k>", "<i j k l>"):
            which = torch.rand(s.num_entries(text), generator=generator) < 0.5
            s, _ = s.reverse(text, which)
        complexes.append(s)
    return complexes


def torus(across: int, along: int) -> Structure:
    """A torus of squares cut in two."""

    def node(row: int, column: int) -> int:
        return (row % across) * along + column % along

    facets = []
    for row, column in itertools.product(range(across), range(along)):
        corner = node(row + 1, column), node(row, column + 1)
        facets += [[node(row, column), *corner], [node(row + 1, column + 1), *corner]]
    return inc.geometry.simplicial_complex(facets, max_size=4, oriented=True)
