"""The places of nodes: coordinates if there are any, else columns by sort, molecules as RDKit draws
them, or distances in the graph.

`stress_layout` makes distances in the picture like those in the graph (stress majorization), the
same each time. `shadow` shows what has more than three dimensions on the plane with most symmetry.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.errors import IncidenceError, need
from incidence.plot.drawing import DrawnTensor, cycle_of, edges_of
from incidence.plot.viewport import Points
from incidence.structure import Example, Structure
from incidence.symmetry import Group
from incidence.symmetry.automorphisms import automorphisms

__all__ = ["LAYOUTS", "layout_of", "num_crossings", "shadow", "stress_layout"]

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
        for nodes in (*columns[1:], columns[0]):
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
        molecule.AddAtom(chem.Atom(0))
    edges = _pairs(tensors, 2)
    for a, b in edges:
        molecule.AddBond(a, b, chem.BondType.SINGLE)
    chem.FastFindRings(molecule)
    depict.Compute2DCoords(molecule)
    points = np.array(molecule.GetConformer().GetPositions(), dtype=float).reshape(-1, 3)[:, :2]
    near = np.linalg.norm(points[:, None] - points, axis=-1) + np.eye(len(points))
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


_EXACT = 400  # nodes up to which every step uses all pairs
_STEPS = 120
# for small graphs, besides the first start: the drawing with the fewest crossings is taken
_STARTS = 12


def stress_layout(num_nodes: int, edges: Sequence[tuple[int, int]], dimensions: int = 2) -> Points:
    """Return coordinates with edges of about length 1; connected parts stand side by side.

    The method starts with the classical scaling of the distances. Then it lessens the squared
    errors, weighted by 1 / distance^2, step by step.
    """
    near = _neighbours(num_nodes, edges)
    parts = _components(near)
    drawings = []
    for part in parts:
        number = {v: k for k, v in enumerate(part)}
        inside = [[number[w] for w in near[v]] for v in part]
        drawings.append(_connected(inside, dimensions))
    points = np.zeros((num_nodes, dimensions))
    for part, drawing in zip(parts, _packed(drawings), strict=True):
        points[part] = drawing
    return points


def _components(near: list[list[int]]) -> list[list[int]]:
    """The nodes of every connected part, the largest part first."""
    parts = []
    seen = set[int]()
    for start in range(len(near)):
        if start not in seen:
            part = [v for v, distance in enumerate(_distances(near, start)) if distance >= 0]
            seen.update(part)
            parts.append(part)
    return sorted(parts, key=lambda part: (-len(part), part))


def _connected(near: list[list[int]], dimensions: int) -> Points:
    size = len(near)
    if size <= 2:
        return np.pad(np.arange(float(size))[:, None], ((0, 0), (0, dimensions - 1)))
    is_exact = size <= _EXACT
    pivots = range(size) if is_exact else [round(k * (size - 1) / 49) for k in range(50)]
    distances = np.array([_distances(near, v) for v in pivots], dtype=float)  # (pivots, nodes)
    points = _scaled(distances, dimensions)
    if not is_exact:
        return points
    starts = [points]
    for seed in range(_STARTS if size <= 60 else 0):
        starts.append(np.random.default_rng(seed).normal(size=points.shape) * size**0.5 / 2)
    edges = [(v, w) for v, others in enumerate(near) for w in others if v < w]

    def badness(drawing: Points) -> tuple[int, float]:
        return _clutter(drawing, edges), round(_error(distances, drawing), 6)

    return min((_majorized(distances, start) for start in starts), key=badness)


def _clutter(points: Points, edges: Sequence[tuple[int, int]]) -> int:
    """How many edges cross, or run over the nodes of others, which is worse.

    It is 0 in space, where one can look from elsewhere.
    """
    if points.shape[1] != 2:
        return 0
    return num_crossings(points, edges) + 3 * _num_covered(points, edges)


def _num_covered(points: Points, edges: Sequence[tuple[int, int]]) -> int:
    pairs = np.array(edges)
    start = points[pairs[:, 0]]
    along = points[pairs[:, 1]] - points[pairs[:, 0]]
    gaps = points[:, None] - start  # (nodes, edges, 2)
    share = np.clip((gaps * along).sum(-1) / np.maximum((along**2).sum(-1), 1e-9), 0, 1)
    apart = np.linalg.norm(gaps - share[..., None] * along, axis=-1)
    apart[pairs[:, 0], range(len(pairs))] = apart[pairs[:, 1], range(len(pairs))] = np.inf
    return int((apart < 0.2).sum())


def _error(wanted: Points, points: Points) -> float:
    apart = np.linalg.norm(points[:, None] - points, axis=-1)
    return float((((apart - wanted) / np.maximum(wanted, 1)) ** 2).sum())


def num_crossings(points: Points, edges: Sequence[tuple[int, int]]) -> int:
    """Return how many pairs of edges cross."""
    pairs = np.array(edges, dtype=int).reshape(-1, 2)
    start = points[pairs[:, 0]]
    stop = points[pairs[:, 1]]
    one = start[:, None]
    other = stop[:, None]

    def side(point: Points) -> Any:
        """On which side of every edge a point lies."""
        x, y = np.moveaxis(stop - start, -1, 0)
        right, up = np.moveaxis(point - start, -1, 0)
        return np.sign(x * up - y * right)  # (points, edges)

    parts = side(one) * side(other) < 0  # both ends on different sides, (edges, edges)
    return int((parts & parts.T).sum()) // 2


def _scaled(distances: Points, dimensions: int) -> Points:
    """Classical scaling by the distances from some nodes to all.

    Columns have signs that do not depend on the library.
    """
    squares = distances**2
    # (pivots, nodes)
    centred = squares - squares.mean(0) - squares.mean(1, keepdims=True) + squares.mean()
    _, sizes, axes = np.linalg.svd(-0.5 * centred, full_matrices=False)
    points = (axes[:dimensions] * np.sqrt(sizes[:dimensions, None])).T  # (nodes, dimensions)
    points = np.pad(points, ((0, 0), (0, dimensions - points.shape[1])))
    signs = np.sign(np.take_along_axis(points, np.abs(points).argmax(0)[None], 0))
    points = points * np.where(signs == 0, 1, signs)
    # Nodes that look alike from everywhere would stay in one place for ever: a spiral of small
    # steps sets them apart.
    turn = np.arange(len(points)) * 2.399963
    spiral = np.stack([np.cos(turn), np.sin(turn), np.sin(1.7 * turn)])[:dimensions].T
    placed: Points = (
        points * (len(points) ** 0.5 / max(float(np.abs(points).max()), 1e-9)) + 0.05 * spiral
    )
    return placed


def _majorized(wanted: Points, points: Points) -> Points:
    size = len(points)
    weights = 1 / np.maximum(wanted, 1) ** 2 - np.eye(size)
    inverse = np.linalg.pinv(np.diag(weights.sum(1)) - weights)
    for _ in range(_STEPS):
        apart = np.linalg.norm(points[:, None] - points, axis=-1) + np.eye(size)
        pull = weights * wanted / np.maximum(apart, 1e-6)
        points = inverse @ (pull.sum(1)[:, None] * points - pull @ points)
    return points


def _packed(parts: Sequence[Points], gap: float = 1.0) -> list[Points]:
    """Drawings side by side in rows, about as wide as high, the largest first."""
    boxes = [np.ptp(part, axis=0) + gap for part in parts]
    area = sum(float(np.prod(box[:2])) for box in boxes)
    wide = max([area**0.5 * 1.2, *(float(box[0]) for box in boxes)])
    x = y = high = 0.0
    packed = []
    for part, box in zip(parts, boxes, strict=True):
        if x and x + box[0] > wide + 1e-9:
            x = 0.0
            y = y - high
            high = 0.0
        corner = np.zeros(part.shape[1])
        corner[0], corner[1:2] = x, y - box[1:2]
        packed.append(part - part.min(0) + corner)
        x = x + float(box[0])
        high = max(high, float(box[1]) if len(box) > 1 else gap)
    return packed


def _neighbours(num_nodes: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    near: list[set[int]] = [set() for _ in range(num_nodes)]
    for a, b in edges:
        if a != b:
            near[a].add(b)
            near[b].add(a)
    return [sorted(others) for others in near]


def _distances(near: list[list[int]], start: int) -> list[int]:
    """Steps from one node to all, -1 where none leads."""
    distances = [-1] * len(near)
    distances[start] = 0
    queue = deque([start])
    while queue:
        v = queue.popleft()
        for w in near[v]:
            if distances[w] < 0:
                distances[w] = distances[v] + 1
                queue.append(w)
    return distances


_WORDS = 400  # random products of generators that are tried


def shadow(structure: Structure, points: Any) -> Tensor:
    r"""Return the coordinates of a polytope on the plane that a symmetry rotates by the smallest
    angle; shape [nodes, 2].

    An automorphism that is an isometry $A$ has eigenvalues $e^{\pm 2\pi i / h}$; the plane of the
    largest $h$ is the Coxeter plane of a regular polytope, on which its shadow has $h$-fold
    symmetry.

    Args:
        structure: The structure.
        points: The coordinates of its nodes, shape [nodes, dimensions].

    Raises:
        IncidenceError: There are no coordinates, or no symmetry of the structure rotates them.

    Example:
        >>> import incidence as inc
        >>> cell = shadow(inc.geometry.named("24-cell"), inc.geometry.coordinates("24-cell"))
        >>> radii = cell.norm(dim=1).sort()[0]
        >>> (radii[:12] - radii[0]).abs().max() < 1e-6, (radii[12:] - radii[12]).abs().max() < 1e-6
        (tensor(True), tensor(True))
    """
    if points is None:
        raise IncidenceError(
            "a shadow is one of coordinates: give those of the nodes, as in plot.shadow(s,"
            " geometry.coordinates(name))."
        )
    x = np.asarray(torch.as_tensor(points, dtype=torch.float64))
    x = x - x.mean(0)
    elements = _elements(automorphisms(structure))
    planes = [plane for element in elements for plane in _planes(x, element)]
    if not planes:
        raise IncidenceError(
            "no symmetry of this structure rotates its coordinates in a plane: use another layout."
        )
    _, axes = max(planes, key=lambda plane: plane[0])
    return torch.from_numpy(x @ axes)


def _elements(group: Group) -> list[Any]:
    """Some permutations of a group: random products of its generators, the same each time."""
    generators = [np.asarray(g) for g in group.generators]
    if not generators:
        return []
    draw = np.random.default_rng(0)
    product = np.arange(len(generators[0]))
    elements = []
    for _ in range(_WORDS):
        product = product[generators[draw.integers(len(generators))]]
        elements.append(product)
    return elements


def _planes(points: Points, permutation: Any) -> list[tuple[float, Points]]:
    """The planes that an isometry rotates, by how many steps make a turn."""
    moved = points[permutation]
    matrix, *_ = np.linalg.lstsq(points, moved, rcond=None)  # (dimensions, dimensions)
    is_linear = np.allclose(points @ matrix, moved, atol=1e-8)
    if not is_linear or not np.allclose(matrix @ matrix.T, np.eye(len(matrix)), atol=1e-8):
        return []
    values, vectors = np.linalg.eig(matrix)
    planes = []
    for k, angle in enumerate(np.angle(values)):
        is_simple = np.sum(np.abs(values - values[k]) < 1e-6) == 1
        if is_simple and 1e-6 < angle < np.pi - 1e-6:
            axes, _ = np.linalg.qr(np.stack([vectors[:, k].real, vectors[:, k].imag], axis=1))
            planes.append((round(2 * np.pi / float(angle), 6), axes))
    return planes
