"""Small graphs and triangulated surfaces with a name."""

from __future__ import annotations

import torch

from incidence.geometry.assembly import assemble
from incidence.geometry.node_lists import NodeLists, sides
from incidence.structure import Structure

__all__ = ["complete", "cycle", "directed_cycle", "klein_bottle", "moebius_strip", "petersen", "projective_plane", "torus"]


def _graph(num_nodes: int, edges: list[list[int]]) -> Structure:
    return assemble(num_nodes, {"{i j}": NodeLists.of_lists(edges).arranged(num_nodes)[0].nodes.view(-1, 2).T.contiguous()})


def cycle(n: int) -> Structure:
    """The undirected cycle."""
    return assemble(n, {"{i j}": sides(NodeLists.of_rows(torch.arange(n)[None]), n)})


def directed_cycle(n: int) -> Structure:
    """The directed cycle 0 -> 1 -> ... -> 0."""
    nodes = torch.arange(n)
    return Structure(n, {"(i j)": torch.stack([nodes, (nodes + 1) % n])}).canonical()[0]


def complete(n: int) -> Structure:
    """Every pair of nodes."""
    return assemble(n, {"{i j}": torch.combinations(torch.arange(n)).T.contiguous()})


def petersen() -> Structure:
    """A pentagon, a pentagram, and the edges between them."""
    return _graph(10, [pair for v in range(5) for pair in ([v, (v + 1) % 5], [v, v + 5], [v + 5, (v + 2) % 5 + 5])])


def _surface(triangles: list[list[int]]) -> Structure:
    """The triangles with their edges and nodes: edges of triangles are all pairs of their nodes, so that is closed."""
    num_nodes = 1 + max(max(own) for own in triangles)
    sets = NodeLists.of_lists(triangles)
    faces = sets.arranged(num_nodes)[0].nodes.view(-1, 3).T.contiguous()
    return assemble(num_nodes, {"{i j}": sides(sets, num_nodes), "{i j k}": faces})


def moebius_strip() -> Structure:
    """5 nodes: triangles of consecutive nodes."""
    return _surface([[v, (v + 1) % 5, (v + 2) % 5] for v in range(5)])


def torus() -> Structure:
    """Möbius' torus with 7 nodes, every two of them joined."""
    return _surface([[v, (v + step) % 7, (v + 3) % 7] for v in range(7) for step in (1, 2)])


def projective_plane() -> Structure:
    """6 nodes, every two joined: an icosahedron with opposite nodes made one."""
    return _surface([own for v in range(5) for own in ([v, (v + 1) % 5, 5], [v, (v + 1) % 5, (v + 3) % 5])])


def klein_bottle() -> Structure:
    """9 nodes: three rings of three, the last ring joined to the first in reverse."""

    def node(ring: int, place: int) -> int:
        return 3 * ring + place % 3 if ring < 3 else -place % 3

    squares = [[node(r, p), node(r, p + 1), node(r + 1, p), node(r + 1, p + 1)] for r in range(3) for p in range(3)]
    return _surface([own for a, b, c, d in squares for own in ([a, b, c], [b, c, d])])
