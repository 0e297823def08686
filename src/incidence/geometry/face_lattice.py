r"""The faces of a polytope from its facets: every face is an intersection of facets, and is found rank by rank.

A face is a bit mask of its nodes: intersection is `&`, and a Python integer has as many bits as there are nodes. The faces one rank
below a face F are the largest of its intersections with the facets that do not contain it; facets without a node of F are never
looked at.
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
    """The mask of a node set."""
    return sum(1 << node for node in nodes)


def nodes_of(mask: int) -> list[int]:
    """The nodes of a mask, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def transposed(masks: Sequence[int], num_nodes: int) -> list[int]:
    """For every node the mask of the sets that contain it."""
    found = [0] * num_nodes
    for number, mask in enumerate(masks):
        bit = 1 << number
        for node in nodes_of(mask):
            found[node] |= bit
    return found


def loose_nodes(facets: Sequence[int], num_nodes: int) -> list[int]:
    """The nodes that are no intersection of facets, and so no corners of a polytope with these facets."""
    homes = transposed(facets, num_nodes)
    common = [
        reduce(and_, (facets[number] for number in nodes_of(home)), 0 if not home else -1)
        for home in homes
    ]
    return [node for node, own in enumerate(common) if own != 1 << node]


def face_lattice(facets: Sequence[int], num_nodes: int) -> list[list[int]]:
    """The faces of every rank, from the nodes up to the facets, which must differ, none in another, without a loose node.

    The work is faces times facets that meet them.

    Raises:
        NotPolytopeError: The intersections have no ranks, or are not what they are in a polytope: every face in the right number of others
            (between two faces that differ by two ranks there are exactly two), all around a face connected, and Euler's relation.
    """
    homes = [nodes_of(mask) for mask in transposed(facets, num_nodes)]
    levels, seen = [list(facets)], set(facets)
    below = {
        (1 << num_nodes) - 1: list(facets)
    }  # for every face those one rank below; for all nodes together, the facets
    while any(face & (face - 1) for face in levels[-1]):  # some face has more than one node
        below.update({face: _facets_of(face, facets, homes) for face in levels[-1]})
        level = list(dict.fromkeys(lower for face in levels[-1] for lower in below[face]))
        odd = [face for face in levels[-1] if not below[face]] + [
            face for face in level if face in seen
        ]
        if odd:
            raise NotPolytopeError(
                f"the facets are not those of a polytope: their intersection {nodes_of(odd[0])} lies at two ranks or at none. Correct the "
                f"facets."
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
    euler, expected = (
        sum((-1) ** rank * count for rank, count in enumerate(f_vector)),
        1 - (-1) ** len(levels),
    )
    if euler != expected:
        raise NotPolytopeError(
            f"the facets are not those of a polytope: the numbers of faces by rank, {f_vector}, have the alternating sum {euler} "
            f"instead of {expected} (Euler's relation). Correct the facets, or use `mesh` or `simplicial_complex` for other surfaces."
        )
    return levels


def _facets_of(face: int, facets: Sequence[int], homes: Sequence[Sequence[int]]) -> list[int]:
    """The largest proper intersections of a face with facets."""
    around = {number for node in nodes_of(face) for number in homes[node]}
    candidates = {face & facets[number] for number in around}
    candidates.discard(face)
    found: list[int] = []
    for one in sorted(candidates, key=int.bit_count, reverse=True):
        if all(one & larger != one for larger in found):
            found.append(one)
    return found


def _assert_sections(near: dict[int, list[int]], word: str) -> None:
    """Whether the faces one rank from a face are joined by those two ranks from it, each to exactly one other, in one piece."""
    for face, middles in near.items():
        homes: dict[int, list[int]] = {}
        for middle in middles:
            for far in near.get(middle, ()):
                homes.setdefault(far, []).append(middle)
        bad = next((far for far, around in homes.items() if len(around) != 2), None)
        if bad is not None:
            raise NotPolytopeError(
                f"the facets are not those of a polytope: between {nodes_of(min(face, bad))} and {nodes_of(max(face, bad))} there must be "
                f"2 faces, and there are {len(homes[bad])}. Correct the facets."
            )
        lost = (
            _unreached(middles, near, homes) if len(middles) > 3 else None
        )  # each meets another, so that 3 hang together
        if lost is not None:
            raise NotPolytopeError(
                f"the facets are not those of one polytope: no chain of neighbours one rank {word} {nodes_of(face)} leads from "
                f"{nodes_of(middles[0])} to {nodes_of(lost)}. Correct the facets, or give those of one polytope at a time."
            )


def _unreached(
    middles: list[int], near: dict[int, list[int]], homes: dict[int, list[int]]
) -> int | None:
    """A face that no chain of neighbours leads to from the first."""
    reached, rest = {middles[0]}, [middles[0]]
    while rest:
        for far in near.get(rest.pop(), ()):
            fresh = [middle for middle in homes[far] if middle not in reached]
            reached.update(fresh)
            rest.extend(fresh)
    return next((middle for middle in middles if middle not in reached), None)
