"""Where the nodes go: by coordinates if there are any, else in columns by sort, as RDKit draws molecules, or by distances in the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from torch import Tensor

from incidence.errors import IncidenceError, need
from incidence.plot.faces import DrawnTensor, cycle_of, edges_of
from incidence.plot.stress import Points, num_crossings, stress_layout
from incidence.structure import Example, Structure

__all__ = ["LAYOUTS", "layout_of"]

Pairs = list[tuple[int, int]]


def layout_of(
    structure: Structure, example: Example | None, tensors: Sequence[DrawnTensor], layout: Any
) -> Points:
    """The coordinates of all nodes, shape (nodes, 2 or 3); numbered through all sorts.

    Args:
        structure: The structure.
        example: The example it belongs to, which may have coordinates.
        tensors: What is drawn.
        layout: Coordinates, a name of `LAYOUTS`, or None for what suits.

    Raises:
        IncidenceError: The coordinates do not fit, or there is no layout of that name.
    """
    if layout is None:
        layout = _suitable(structure, example, tensors)
    if isinstance(layout, str):
        if layout not in LAYOUTS:
            raise IncidenceError(
                f"a layout is one of {', '.join(map(repr, LAYOUTS))}, or coordinates of the nodes; got {layout!r}."
            )
        return LAYOUTS[layout](structure, tensors)
    return _given(structure, layout)


def _suitable(structure: Structure, example: Example | None, tensors: Sequence[DrawnTensor]) -> Any:
    if _is_molecular(structure, tensors) and _has_rdkit():
        return "molecule"
    if example is not None:
        place = next(
            (
                x
                for key, x in example.features.items()
                if structure.resolve(key).name in ("pos", "position", "points")
            ),
            None,
        )
        if place is not None and 2 <= place.shape[1] <= 3:
            return place
    if len(structure.counts) > 1:
        return "columns"
    return "space" if _is_closed(tensors) else "force"


def _is_closed(tensors: Sequence[DrawnTensor]) -> bool:
    """Whether most edges lie in two polygons or more, so that there is no room for it in the plane."""
    edges = edges_of([t for t in tensors if t.largest == 2])
    faces = [face for t in tensors if t.is_lone for (face,) in t.entries if 3 <= len(face) <= 12]
    sides = sum(len(face) for face in faces if cycle_of(face, edges))
    return sides > 1.5 * len(edges) > 0


def _is_molecular(structure: Structure, tensors: Sequence[DrawnTensor]) -> bool:
    """Rings that are told as such, and at most four neighbours (a metal has more)."""
    degrees: dict[int, int] = {}
    for a, b in _pairs(tensors, 2):
        degrees[a], degrees[b] = degrees.get(a, 0) + 1, degrees.get(b, 0) + 1
    return (
        any(p.name == "ring" for p in structure.patterns) and max(degrees.values(), default=0) <= 4
    )


def _has_rdkit() -> bool:
    try:
        need("rdkit.Chem", "a drawing", "molecules")
    except ImportError:
        return False
    return True


def _given(structure: Structure, layout: Any) -> Points:
    parts = layout if isinstance(layout, Mapping) else dict.fromkeys(structure.counts, layout)
    rows = []
    for sort in sorted(structure.counts):
        if sort not in parts:
            raise IncidenceError(
                f"the layout has no coordinates for nodes of sort `{sort}`; it has {', '.join(map(repr, parts))}."
            )
        own = parts[sort]
        x = np.asarray(own.detach().cpu() if isinstance(own, Tensor) else own, dtype=float)
        if x.ndim != 2 or x.shape[0] != structure.counts[sort] or x.shape[1] < 1:
            raise IncidenceError(
                f"a layout has a row of coordinates for each of the {structure.counts[sort]} nodes; got shape {x.shape}."
            )
        if not np.isfinite(x).all():
            raise IncidenceError(
                "a layout has finite coordinates; some are not. Replace them, or leave the layout out."
            )
        rows.append(x)
    points = np.concatenate(rows)
    if points.shape[1] == 1:
        points = np.pad(points, ((0, 0), (0, 1)))
    return points if points.shape[1] <= 3 else _from_above(points)


def _from_above(points: Points) -> Points:
    """Coordinates in more than three dimensions, seen one after the other from a point on the last axis."""
    while points.shape[1] > 3:
        points = points - points.mean(0)
        reach = float(np.linalg.norm(points, axis=1).max()) or 1.0
        points = points[:, :-1] * (2 * reach / (2 * reach - points[:, -1:]))
    return points


def _pairs(tensors: Sequence[DrawnTensor], largest: int) -> Pairs:
    """The pairs of nodes that a face of at most so many nodes joins."""
    found = {
        (min(pair), max(pair))
        for t in tensors
        for faces in t.entries
        if len(nodes := {v for face in faces for v in face}) <= largest
        for pair in combinations(nodes, 2)
    }
    return sorted(found)


def _stars(structure: Structure, tensors: Sequence[DrawnTensor], dimensions: int) -> Points:
    """Distances in the graph in which every larger face that has no edges is a node of its own."""
    count = structure.total_nodes
    pairs = _pairs(tensors, 2)
    joined = {frozenset(pair) for pair in pairs}
    for t in tensors:
        for faces in t.entries:
            nodes = sorted({v for face in faces for v in face})
            if len(nodes) > 2 and not any(
                frozenset(pair) in joined for pair in combinations(nodes[:8], 2)
            ):
                pairs += [(v, count) for v in nodes]
                count += 1
    return stress_layout(count, pairs, dimensions)[: structure.total_nodes]


def _force(structure: Structure, tensors: Sequence[DrawnTensor]) -> Points:
    return _stars(structure, tensors, 2)


def _space(structure: Structure, tensors: Sequence[DrawnTensor]) -> Points:
    return _stars(structure, tensors, 3)


def _circle(structure: Structure, tensors: Sequence[DrawnTensor]) -> Points:
    turn = np.arange(structure.total_nodes) * 2 * np.pi / max(structure.total_nodes, 1)
    return np.stack([np.sin(turn), np.cos(turn)], axis=1)


def _columns(structure: Structure, tensors: Sequence[DrawnTensor]) -> Points:
    """A column for every sort, in the order in which patterns name them; inside, nodes near those that they are joined to."""
    offsets = structure._node_offsets
    sorts = list(
        dict.fromkeys(
            [s for p in structure.patterns for s in p.sorts.values()] + list(structure.counts)
        )
    )
    blocks = {sort: np.arange(structure.counts[sort]) + offsets[sort] for sort in sorts}
    high = max(structure.counts.values())
    height = np.zeros(structure.total_nodes)
    for own in blocks.values():
        height[own] = (np.arange(len(own)) + 0.5) / max(len(own), 1)
    pairs = np.array(_pairs(tensors, 12) or np.zeros((0, 2)), dtype=int).reshape(-1, 2)
    for _ in range(8):
        for own in list(blocks.values())[1:] + list(blocks.values())[:1]:
            height[own] = _by_neighbours(own, pairs, height)
    points = np.zeros((structure.total_nodes, 2))
    for column, own in enumerate(blocks.values()):
        points[own, 0] = column * max(2.0, 0.6 * high)
        points[own, 1] = -height[own] * high
    return points


def _by_neighbours(own: Any, pairs: Any, height: Points) -> Points:
    """Places in a column, in the order of the mean height of what each node is joined to."""
    inside = np.zeros(len(height), dtype=bool)
    inside[own] = True
    sums, counts = np.zeros(len(height)), np.zeros(len(height))
    for a, b in ((0, 1), (1, 0)):
        across = inside[pairs[:, a]] & ~inside[pairs[:, b]]
        np.add.at(sums, pairs[across, a], height[pairs[across, b]])
        np.add.at(counts, pairs[across, a], 1)
    wanted = np.where(counts > 0, sums / np.maximum(counts, 1), height)[own]
    places = np.empty(len(own))
    places[np.argsort(wanted, kind="stable")] = (np.arange(len(own)) + 0.5) / max(len(own), 1)
    return places


def _molecule(structure: Structure, tensors: Sequence[DrawnTensor]) -> Points:
    """As RDKit draws a molecule with these bonds, whatever its atoms are; by distances, if that has fewer crossings."""
    chem = need("rdkit.Chem", "the layout 'molecule'", "molecules")
    depict = need("rdkit.Chem.rdDepictor", "the layout 'molecule'", "molecules")
    molecule = chem.RWMol()
    for _ in range(structure.total_nodes):
        molecule.AddAtom(chem.Atom(0))
    for a, b in _pairs(tensors, 2):
        molecule.AddBond(a, b, chem.BondType.SINGLE)
    chem.FastFindRings(molecule)
    depict.Compute2DCoords(molecule)
    points = np.array(molecule.GetConformer().GetPositions(), dtype=float).reshape(-1, 3)[:, :2]
    near = np.linalg.norm(points[:, None] - points, axis=-1) + np.eye(len(points))
    edges = _pairs(tensors, 2)
    if near.min(initial=1.0) > 0.1 and not num_crossings(points, edges):
        return points
    other = _force(structure, tensors)
    return (
        points
        if near.min(initial=1.0) > 0.1
        and num_crossings(points, edges) <= num_crossings(other, edges)
        else other
    )


LAYOUTS: dict[str, Callable[[Structure, Sequence[DrawnTensor]], Points]] = {
    "force": _force,
    "space": _space,
    "circle": _circle,
    "columns": _columns,
    "molecule": _molecule,
}
"""Layouts by name."""
