r"""The faces of a polytope from its facets: every face is an intersection of facets, and is found rank by rank.

A face is a bit mask of its nodes: intersection is `&`, and a Python integer has as many bits as there are nodes. The faces one rank
below a face F are the largest of its intersections with the facets that do not contain it; facets without a node of F are never
looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from incidence.errors import IncidenceError, TooLargeError

__all__ = ["MAX_FACES", "Lattice", "NotPolytopeError", "face_lattice", "loose_nodes", "mask_of", "nodes_of", "transposed"]

MAX_FACES = 1_000_000


class NotPolytopeError(IncidenceError):
    """Facets whose intersections are not the faces of a polytope."""


@dataclass(frozen=True)
class Lattice:
    """The faces of a polytope as masks.

    Attributes:
        levels: The faces of every rank, from the nodes up to the facets.
        below: For every face, the faces one rank below; for all nodes together (the polytope), its facets.
    """

    levels: list[list[int]]
    below: dict[int, list[int]]


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
    return [node for node, home in enumerate(homes) if not home or _intersection(facets, home) != 1 << node]


def face_lattice(facets: Sequence[int], num_nodes: int) -> Lattice:
    """All faces by rank; the facets must differ, none may lie in another, and there must be no loose node.

    The work is faces times facets that meet them.

    Raises:
        NotPolytopeError: The intersections have no ranks, or are not what they are in a polytope: every face in the right number of others
            (between two faces that differ by two ranks there are exactly two), all around a face connected, and Euler's relation.
    """
    lattice = _descend(facets, num_nodes)
    lattice.below[(1 << num_nodes) - 1] = list(facets)
    lattice.below.update({node: [0] for node in lattice.levels[0]})
    _assert_sections(lattice.below, "below")
    _assert_sections(_reversed(lattice.below), "above")
    _assert_euler(lattice)
    return lattice


def _intersection(facets: Sequence[int], which: int) -> int:
    first, *rest = nodes_of(which)
    common = facets[first]
    for number in rest:
        common &= facets[number]
    return common


def _descend(facets: Sequence[int], num_nodes: int) -> Lattice:
    homes = [nodes_of(mask) for mask in transposed(facets, num_nodes)]
    levels, below = [list(facets)], {}
    seen = set(facets)
    while any(face & (face - 1) for face in levels[-1]):  # some face has more than one node
        for face in levels[-1]:
            below[face] = _facets_of(face, facets, homes)
            if not below[face]:
                raise _ungraded(face)
        level = list(dict.fromkeys(lower for face in levels[-1] for lower in below[face]))
        again = next((face for face in level if face in seen), None)
        if again is not None:
            raise _ungraded(again)
        seen.update(level)
        if len(seen) > MAX_FACES:
            raise TooLargeError(f"the polytope has more than {MAX_FACES:,} faces, which are not listed.")
        levels.append(level)
    return Lattice(levels[::-1], below)


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


def _ungraded(face: int) -> NotPolytopeError:
    return NotPolytopeError(
        f"the facets are not those of a polytope: their intersection {nodes_of(face)} lies at two ranks or at none. Correct the facets."
    )


def _reversed(below: dict[int, list[int]]) -> dict[int, list[int]]:
    above: dict[int, list[int]] = {}
    for face, lower in below.items():
        for middle in lower:
            above.setdefault(middle, []).append(face)
    return above


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
        lost = _unreached(middles, near, homes) if len(middles) > 3 else None  # each meets another, so that 3 hang together
        if lost is not None:
            raise NotPolytopeError(
                f"the facets are not those of one polytope: no chain of neighbours one rank {word} {nodes_of(face)} leads from "
                f"{nodes_of(middles[0])} to {nodes_of(lost)}. Correct the facets, or give those of one polytope at a time."
            )


def _unreached(middles: list[int], near: dict[int, list[int]], homes: dict[int, list[int]]) -> int | None:
    """A face that no chain of neighbours leads to from the first."""
    reached, rest = {middles[0]}, [middles[0]]
    while rest:
        for far in near.get(rest.pop(), ()):
            fresh = [middle for middle in homes[far] if middle not in reached]
            reached.update(fresh)
            rest.extend(fresh)
    return next((middle for middle in middles if middle not in reached), None)


def _assert_euler(lattice: Lattice) -> None:
    f_vector = [len(level) for level in lattice.levels]
    euler = sum((-1) ** rank * count for rank, count in enumerate(f_vector))
    expected = 1 - (-1) ** len(f_vector)
    if euler != expected:
        raise NotPolytopeError(
            f"the facets are not those of a polytope: the numbers of faces by rank, {tuple(f_vector)}, have the alternating sum {euler} "
            f"instead of {expected} (Euler's relation). Correct the facets, or use `mesh` or `simplicial_complex` for other surfaces."
        )
