r"""The faces of a polytope from its facets: every face is an intersection of facets.

A face is a bit mask of its nodes: intersection is `&`, and a Python integer has as many bits as
there are nodes. The faces one rank below a face F are the largest of its intersections with the
facets that do not contain it; facets without a node of F are never looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from incidence.errors import IncidenceError, TooLargeError

__all__ = [
    "MAX_FACES",
    "NotPolytopeError",
    "face_lattice",
    "loose_nodes",
    "mask_of",
    "nodes_of",
    "transposed",
]

MAX_FACES = 1_000_000


class NotPolytopeError(IncidenceError):
    """Facets whose intersections are not the faces of a polytope."""


def mask_of(nodes: Sequence[int]) -> int:
    """Return the mask of a node set."""
    return sum(1 << node for node in nodes)


def nodes_of(mask: int) -> list[int]:
    """Return the nodes of a mask, ascending."""
    nodes = []
    while mask:
        low = mask & -mask
        nodes.append(low.bit_length() - 1)
        mask ^= low
    return nodes


def transposed(masks: Sequence[int], num_nodes: int) -> list[int]:
    """Return for every node the mask of the sets that contain it."""
    homes = [0] * num_nodes
    for number, mask in enumerate(masks):
        bit = 1 << number
        for node in nodes_of(mask):
            homes[node] |= bit
    return homes


def loose_nodes(facets: Sequence[int], num_nodes: int) -> list[int]:
    """Return the nodes that are no intersection of facets, and so no corners of a polytope with
    these facets.
    """
    loose = []
    for node, home in enumerate(transposed(facets, num_nodes)):
        around = [facets[number] for number in nodes_of(home)]
        if not around or reduce(and_, around) != 1 << node:
            loose.append(node)
    return loose


def face_lattice(facets: Sequence[int], num_nodes: int) -> list[list[int]]:
    """Return the faces of every rank, from the nodes up to the facets.

    Facets must differ, none may lie in another, and no node may be loose. The work is faces times
    facets that meet them.

    Raises:
        NotPolytopeError: The intersections have no ranks, or are not what they are in a polytope:
            every face in the right number of others (between two faces that differ by two ranks
            there are exactly two), all around a face connected, and Euler's relation.
    """
    homes = [nodes_of(mask) for mask in transposed(facets, num_nodes)]
    levels = [list(facets)]
    seen = set(facets)
    # for every face those one rank below; for all nodes together, the facets
    below = {(1 << num_nodes) - 1: list(facets)}
    while any(face & (face - 1) for face in levels[-1]):  # some face has more than one node
        below.update({face: _facets_of(face, facets, homes) for face in levels[-1]})
        level = list(dict.fromkeys(lower for face in levels[-1] for lower in below[face]))
        odd = [face for face in levels[-1] if not below[face]]
        odd += [face for face in level if face in seen]
        if odd:
            raise NotPolytopeError(
                f"the facets are not those of a polytope: their intersection {nodes_of(odd[0])}"
                " lies at two ranks or at none. Correct the facets."
            )
        seen.update(level)
        if len(seen) > MAX_FACES:
            raise TooLargeError(
                f"the polytope has more than {MAX_FACES:,} faces, which are not listed."
            )
        levels.append(level)
    levels.reverse()
    below.update({node: [0] for node in levels[0]})
    above: dict[int, list[int]] = {}
    for face, lower in below.items():
        for middle in lower:
            above.setdefault(middle, []).append(face)
    _assert_sections(below, "below")
    _assert_sections(above, "above")
    f_vector = tuple(map(len, levels))
    euler = sum((-1) ** rank * count for rank, count in enumerate(f_vector))
    expected = 1 - (-1) ** len(levels)
    if euler != expected:
        raise NotPolytopeError(
            f"the facets are not those of a polytope: the numbers of faces by rank, {f_vector},"
            f" have the alternating sum {euler} instead of {expected} (Euler's relation). Correct"
            " the facets, or use `mesh` or `simplicial_complex` for other surfaces."
        )
    return levels


def _facets_of(face: int, facets: Sequence[int], homes: Sequence[Sequence[int]]) -> list[int]:
    """The largest proper intersections of a face with facets."""
    around = {number for node in nodes_of(face) for number in homes[node]}
    candidates = {face & facets[number] for number in around}
    candidates.discard(face)
    largest: list[int] = []
    for one in sorted(candidates, key=int.bit_count, reverse=True):
        if all(one & larger != one for larger in largest):
            largest.append(one)
    return largest


def _assert_sections(near: dict[int, list[int]], word: str) -> None:
    """Check that between a face and one two ranks away there are two faces, and that neighbours
    connect all faces one rank away.
    """
    for face, middles in near.items():
        homes: dict[int, list[int]] = {}
        for middle in middles:
            for far in near.get(middle, ()):
                homes.setdefault(far, []).append(middle)
        bad = next((far for far, around in homes.items() if len(around) != 2), None)
        if bad is not None:
            raise NotPolytopeError(
                f"the facets are not those of a polytope: between {nodes_of(min(face, bad))} and"
                f" {nodes_of(max(face, bad))} there must be 2 faces, and there are"
                f" {len(homes[bad])}. Correct the facets."
            )
        # each meets another, so that 3 hang together
        lost = _unreached(middles, near, homes) if len(middles) > 3 else None
        if lost is not None:
            raise NotPolytopeError(
                f"the facets are not those of one polytope: no chain of neighbours one rank {word}"
                f" {nodes_of(face)} leads from {nodes_of(middles[0])} to {nodes_of(lost)}. Correct"
                " the facets, or give those of one polytope at a time."
            )


def _unreached(
    middles: list[int], near: dict[int, list[int]], homes: dict[int, list[int]]
) -> int | None:
    """A face that no chain of neighbours leads to from the first."""
    reached = {middles[0]}
    rest = [middles[0]]
    while rest:
        for far in near.get(rest.pop(), ()):
            fresh = [middle for middle in homes[far] if middle not in reached]
            reached.update(fresh)
            rest.extend(fresh)
    return next((middle for middle in middles if middle not in reached), None)
