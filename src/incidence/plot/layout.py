"""The places of nodes: coordinates if there are any, else columns by sort, molecules as RDKit draws
them, or distances in the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from torch import Tensor

from incidence.errors import IncidenceError, need
from incidence.plot.drawing import DrawnTensor, cycle_of, edges_of
from incidence.plot.stress import num_crossings, stress_layout
from incidence.plot.viewport import Points
from incidence.structure import Example, Structure

__all__ = ["LAYOUTS", "layout_of"]

_COORDINATES = ("pos", "position", "points")  # names of features


def layout_of(
    structure: Structure, example: Example | None, tensors: Sequence[DrawnTensor], layout: Any
) -> Points:
    """Return the coordinates of all nodes, shape (nodes, 2 or 3); nodes are numbered through all
    sorts.

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
                f"a layout is one of {', '.join(map(repr, LAYOUTS))}, or coordinates of the nodes;"
                f" got {layout!r}."
            )
        return LAYOUTS[layout](structure, tensors)
    return _given(structure, layout)


def _suitable(structure: Structure, example: Example | None, tensors: Sequence[DrawnTensor]) -> Any:
    if _is_molecular(structure, tensors) and _has_rdkit():
        return "molecule"
    for key, x in ({} if example is None else example.features).items():
        if structure.resolve(key).name in _COORDINATES and 2 <= x.shape[1] <= 3:
            return x
    if len(structure.counts) > 1:
        return "columns"
    return "space" if _is_closed(tensors) else "force"


def _is_closed(tensors: Sequence[DrawnTensor]) -> bool:
    """Whether most edges lie in two polygons or more: then the plane has no room."""
    edges = edges_of([t for t in tensors if t.largest == 2])
    faces = [face for t in tensors if t.is_lone for (face,) in t.entries if 3 <= len(face) <= 12]
    # each edge once for every polygon
    sides = sum(len(face) for face in faces if cycle_of(face, edges))
    return sides > 1.5 * len(edges) > 0


def _is_molecular(structure: Structure, tensors: Sequence[DrawnTensor]) -> bool:
    """Whether a tensor has the name `ring`, and nodes have at most four neighbours (a metal has
    more).
    """
    degrees = Counter(node for pair in _pairs(tensors, 2) for node in pair)
    has_rings = any(p.name == "ring" for p in structure.patterns)
    return has_rings and max(degrees.values(), default=0) <= 4


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
                f"the layout has no coordinates for nodes of sort `{sort}`; it has"
                f" {', '.join(map(repr, parts))}."
            )
        given = parts[sort]
        x = np.asarray(given.detach().cpu() if isinstance(given, Tensor) else given, dtype=float)
        if x.ndim != 2 or x.shape[0] != structure.counts[sort] or x.shape[1] < 1:
            raise IncidenceError(
                f"a layout has a row of coordinates for each of the {structure.counts[sort]} nodes;"
                f" got shape {x.shape}."
            )
        if not np.isfinite(x).all():
            raise IncidenceError(
                "a layout has finite coordinates; some are not. Replace them, or leave the layout"
                " out."
            )
        rows.append(x)
    points = np.concatenate(rows)
    if points.shape[1] == 1:
        points = np.pad(points, ((0, 0), (0, 1)))
    return points if points.shape[1] <= 3 else _from_above(points)


def _from_above(points: Points) -> Points:
    """Coordinates in more than three dimensions, seen from a point on the last axis until three are
    left.
    """
    while points.shape[1] > 3:
        points = points - points.mean(0)
        reach = float(np.linalg.norm(points, axis=1).max()) or 1.0
        # (nodes, dimensions - 1)
        points = points[:, :-1] * (2 * reach / (2 * reach - points[:, -1:]))
    return points


def _pairs(tensors: Sequence[DrawnTensor], largest: int) -> list[tuple[int, int]]:
    """The pairs of nodes that an entry of at most so many nodes joins."""
    entries = [sorted(set(nodes)) for t in tensors for nodes in t.node_lists]
    small = [nodes for nodes in entries if len(nodes) <= largest]
    return sorted({pair for nodes in small for pair in combinations(nodes, 2)})


def _stars(structure: Structure, tensors: Sequence[DrawnTensor], dimensions: int) -> Points:
    """Distances in the graph in which every larger face that has no edges is a node of its own."""
    count = structure.total_nodes
    pairs = _pairs(tensors, 2)
    joined = set(pairs)
    for t in tensors:
        for faces in t.entries:
            nodes = sorted({v for face in faces for v in face})
            # A few nodes tell: large faces would have millions of pairs.
            has_edges = any(pair in joined for pair in combinations(nodes[:8], 2))
            if len(nodes) > 2 and not has_edges:
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
    """A column for every sort, in the order in which patterns name them; inside, nodes near those
    that they are joined to.
    """
    offsets = structure._node_offsets
    named = [sort for p in structure.patterns for sort in p.sorts.values()]
    sorts = dict.fromkeys([*named, *structure.counts])
    columns = [np.arange(structure.counts[sort]) + offsets[sort] for sort in sorts]
    high = max(structure.counts.values())
    height = np.zeros(structure.total_nodes)
    for nodes in columns:
        height[nodes] = _levels(len(nodes))
    pairs = np.array(_pairs(tensors, 12), dtype=int).reshape(-1, 2)
    for _ in range(8):
        for nodes in (*columns[1:], columns[0]):  # the first column follows the others
            height[nodes] = _by_neighbours(nodes, pairs, height)
    points = np.zeros((structure.total_nodes, 2))
    for number, nodes in enumerate(columns):
        points[nodes, 0] = number * max(2.0, 0.6 * high)
        points[nodes, 1] = -height[nodes] * high
    return points


def _levels(count: int) -> Points:
    """Heights between 0 and 1, evenly apart."""
    return (np.arange(count) + 0.5) / max(count, 1)


def _by_neighbours(nodes: Any, pairs: Any, height: Points) -> Points:
    """Heights in a column, in the order of the mean height of the neighbours in other columns."""
    inside = np.zeros(len(height), dtype=bool)
    inside[nodes] = True
    sums = np.zeros(len(height))
    counts = np.zeros(len(height))
    for a, b in ((0, 1), (1, 0)):
        across = inside[pairs[:, a]] & ~inside[pairs[:, b]]
        np.add.at(sums, pairs[across, a], height[pairs[across, b]])
        np.add.at(counts, pairs[across, a], 1)
    wanted = np.where(counts > 0, sums / np.maximum(counts, 1), height)[nodes]
    levels = np.empty(len(nodes))
    levels[np.argsort(wanted, kind="stable")] = _levels(len(nodes))
    return levels


def _molecule(structure: Structure, tensors: Sequence[DrawnTensor]) -> Points:
    """As RDKit draws a molecule with these bonds, whatever its atoms are.

    Distances in the graph decide if that has fewer crossings, or if atoms lie on each other.
    """
    chem = need("rdkit.Chem", "the layout 'molecule'", "molecules")
    depict = need("rdkit.Chem.rdDepictor", "the layout 'molecule'", "molecules")
    molecule = chem.RWMol()
    for _ in range(structure.total_nodes):
        molecule.AddAtom(chem.Atom(0))  # an atom of no element: any number of bonds fits
    edges = _pairs(tensors, 2)
    for a, b in edges:
        molecule.AddBond(a, b, chem.BondType.SINGLE)
    chem.FastFindRings(molecule)
    depict.Compute2DCoords(molecule)
    points = np.array(molecule.GetConformer().GetPositions(), dtype=float).reshape(-1, 3)[:, :2]
    near = np.linalg.norm(points[:, None] - points, axis=-1) + np.eye(len(points))  # (nodes, nodes)
    are_apart = near.min(initial=1.0) > 0.1
    crossings = num_crossings(points, edges)
    if are_apart and not crossings:
        return points
    other = _force(structure, tensors)
    return points if are_apart and crossings <= num_crossings(other, edges) else other


LAYOUTS: dict[str, Callable[[Structure, Sequence[DrawnTensor]], Points]] = {
    "force": _force,
    "space": _space,
    "circle": _circle,
    "columns": _columns,
    "molecule": _molecule,
}
"""Layouts by name."""
