"""Boundaries as sparse matrices: from the faces of a tensor to their sides, and to the faces that
they are sides of.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.harmonic.least_squares import FaceMap
from incidence.structure import Structure
from incidence.structure.arrange import orientations
from incidence.structure.ragged import ascend

__all__ = ["FaceMaps", "assert_whole", "face_maps", "faces_of_size", "is_lone_face"]


class FaceMaps(NamedTuple):
    """The two maps whose common kernel is harmonic.

    Attributes:
        below: The boundary, to the sides of every face; None for nodes, which have none.
        above: The transpose of the boundary of the faces one node larger; None if there are none.
    """

    below: FaceMap | None
    above: FaceMap | None

    @property
    def known(self) -> list[FaceMap]:
        """The maps that are there."""
        return [one for one in self if one is not None]


def face_maps(structure: Structure, pattern: Pattern) -> FaceMaps:
    """Return the maps from the faces of a tensor to those of one node less and one node more.

    The reference orientations of these other faces are of no consequence, so they may be listed
    without one.

    Raises:
        IncidenceError: A side of a face is missing.
    """
    size = len(pattern.letters)
    own = _ascending(structure, pattern)
    signs = orientations(structure, pattern).double()
    below = above = None
    if size > 1:
        lower = faces_of_size(structure, pattern, size - 1)
        if lower is None:
            raise IncidenceError(_missing_sides(structure, pattern))
        sides = _sides(structure, pattern, own, lower)
        faces = torch.arange(len(signs), device=signs.device)[:, None].expand_as(sides)
        values = _alternating(sides) * signs[:, None]
        below = _face_map(structure, lower, sides, faces, values, len(signs))
    upper = faces_of_size(structure, pattern, size + 1)
    if upper is not None:
        sides = _sides(structure, upper, _ascending(structure, upper), pattern)
        faces = torch.arange(len(sides), device=signs.device)[:, None].expand_as(sides)
        values = _alternating(sides) * signs[sides]
        above = _face_map(structure, upper, faces, sides, values, len(signs))
    return FaceMaps(below, above)


def assert_whole(structure: Structure) -> None:
    """Refuse a part of a structure.

    Raises:
        IncidenceError: The structure is the part of a process.
    """
    if structure.world is not None:
        raise IncidenceError(
            "what goes around holes needs the whole structure, and a part has some of its entries,"
            " with other holes: compute harmonic parts before you split the structure, and leave"
            " harmonic= out of networks on parts."
        )


def is_lone_face(pattern: Pattern) -> bool:
    """Return whether the entries of a tensor are sets of different nodes of one sort."""
    if pattern.order != 1 or pattern.is_open or len(set(pattern.sorts.values())) != 1:
        return False
    [face] = pattern.faces
    is_set = face.kind.is_distinct and not face.kind.is_ordered
    return is_set or len(pattern.letters) == 1


def faces_of_size(structure: Structure, like: Pattern, size: int) -> Pattern | None:
    """Return the tensor that lists the faces of so many nodes, oriented or not.

    Tensors without a name come first, then oriented ones.

    Args:
        structure: The structure.
        like: A tensor on faces of the same sort.
        size: The number of nodes.

    Raises:
        IncidenceError: Several tensors with names list such faces.
    """
    [sort] = set(like.sorts.values())
    if size == 1:
        return Pattern(f"i:{sort}")
    candidates = [
        p
        for p in structure.patterns
        if is_lone_face(p) and len(p.letters) == size and set(p.sorts.values()) == {sort}
    ]
    unnamed = [p for p in candidates if p.name is None]
    if not unnamed and len(candidates) > 1:
        these = " and ".join(f"`{p}`" for p in candidates)
        raise IncidenceError(
            f"the harmonic part of `{like}` needs the faces of {size} nodes, and {these} both list"
            " such faces. Give the ones that count without a name."
        )
    ordered = sorted(unnamed or candidates, key=lambda p: not p.is_oriented)
    return ordered[0] if ordered else None


def _ascending(structure: Structure, pattern: Pattern) -> list[Tensor]:
    """The nodes of every entry in ascending order, one tensor for each place."""
    return ascend(list(structure.index(pattern)[0]))


def _sides(structure: Structure, pattern: Pattern, nodes: list[Tensor], lower: Pattern) -> Tensor:
    """The rows of the sides of every face, (faces, nodes of a face): the first lacks the first
    node.
    """
    size = len(nodes)
    without = [torch.stack(nodes[:place] + nodes[place + 1 :]) for place in range(size)]
    rows = structure.locate(lower, torch.cat(without, dim=1)).view(size, len(nodes[0])).T
    is_missing = rows < 0
    if is_missing.any():
        face, place = is_missing.nonzero()[0].tolist()
        corners = [int(column[face]) for column in nodes]
        side = corners[:place] + corners[place + 1 :]
        raise IncidenceError(
            f"the face {_shown(corners)} of `{pattern}` has the side {_shown(side)}, which"
            f" `{lower}` lacks. A harmonic part needs all sides: add it, or make the structure by"
            " inc.geometry.simplicial_complex."
        )
    return rows


def _missing_sides(structure: Structure, pattern: Pattern) -> str:
    letters = " ".join(pattern.letters[:-1])
    has = ", ".join(f"`{p}`" for p in structure.patterns)
    return (
        f"the harmonic part of `{pattern}` needs its sides, the tensor `<{letters}>`, and the"
        f" structure has {has}. Add it with s.with_index, or make the structure by"
        " inc.geometry.simplicial_complex(facets, oriented=True)."
    )


def _shown(nodes: list[int]) -> str:
    return f"({', '.join(map(str, nodes))})"


def _alternating(sides: Tensor) -> Tensor:
    """Signs of sides, + for the one that lacks the first node."""
    places = torch.arange(sides.shape[1], device=sides.device)
    return (1.0 - 2 * (places % 2)).double().expand(sides.shape)


def _face_map(
    structure: Structure,
    target: Pattern,
    images: Tensor,
    rows: Tensor,
    values: Tensor,
    num_rows: int,
) -> FaceMap:
    return FaceMap(
        images=images.reshape(-1).contiguous(),
        rows=rows.reshape(-1).contiguous(),
        values=values.reshape(-1).contiguous(),
        num_rows=num_rows,
        home=structure.batch(target),
        num_structures=structure.num_structures,
    )
