"""Distances in the picture like those in the graph: stress majorization, the same each time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from incidence.plot.viewport import Points

__all__ = ["num_crossings", "stress_layout"]

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
        # other starts, the same each time
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
    # (nodes, edges)
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
    weights = 1 / np.maximum(wanted, 1) ** 2 - np.eye(size)  # the diagonal is 0
    # The weighted Laplacian: singular, as moving the whole drawing changes no distance.
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
        if x and x + box[0] > wide + 1e-9:  # the next row
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
