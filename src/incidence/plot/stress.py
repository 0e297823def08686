"""Where to put the nodes of a graph: distances in the picture near those in the graph (stress majorization), the same each time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Points", "components", "num_crossings", "packed", "stress_layout"]

Points = NDArray[np.float64]
"""Coordinates of nodes, shape (nodes, dimensions)."""

_EXACT = 400  # nodes up to which all pairs are looked at in every step
_STEPS = 120
_STARTS = 12  # besides the first, for small graphs: the drawing with the fewest crossings is taken


def components(num_nodes: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The nodes of every connected part, the largest part first."""
    near = _neighbours(num_nodes, edges)
    found, seen = [], [False] * num_nodes
    for start in range(num_nodes):
        if not seen[start]:
            reached = [v for v, d in enumerate(_distances(near, start)) if d >= 0]
            for v in reached:
                seen[v] = True
            found.append(reached)
    return sorted(found, key=lambda part: (-len(part), part))


def stress_layout(num_nodes: int, edges: Sequence[tuple[int, int]], dimensions: int = 2) -> Points:
    """Coordinates with edges of about length 1; parts that hang together stand side by side.

    Begins with the classical scaling of the distances, and lessens the squared errors weighted by 1 / distance^2 step by step.
    """
    parts = components(num_nodes, edges)
    near = _neighbours(num_nodes, edges)
    placed = []
    for part in parts:
        number = {v: k for k, v in enumerate(part)}
        inside = [[number[w] for w in near[v]] for v in part]
        placed.append(_connected(inside, dimensions))
    points = np.zeros((num_nodes, dimensions))
    for part, own in zip(parts, packed(placed), strict=True):
        points[part] = own
    return points


def _connected(near: list[list[int]], dimensions: int) -> Points:
    size = len(near)
    if size <= 2:
        return np.pad(np.arange(float(size))[:, None], ((0, 0), (0, dimensions - 1)))
    pivots = range(size) if size <= _EXACT else [round(k * (size - 1) / 49) for k in range(50)]
    distances = np.array([_distances(near, v) for v in pivots], dtype=float)  # (pivots, nodes)
    points = _scaled(distances, dimensions)
    if size > _EXACT:
        return points
    starts = [
        points,
        *(
            np.random.default_rng(seed).normal(size=points.shape) * size**0.5 / 2
            for seed in range(_STARTS if size <= 60 else 0)
        ),
    ]
    found = [_majorized(distances, start) for start in starts]
    edges = [(v, w) for v, own in enumerate(near) for w in own if v < w]
    return min(found, key=lambda own: (_clutter(own, edges), round(_error(distances, own), 6)))


def _clutter(points: Points, edges: Sequence[tuple[int, int]]) -> int:
    """How many edges cross, and run over nodes that are not theirs, which is worse; 0 in space, where one can look from elsewhere."""
    return (
        num_crossings(points, edges) + 3 * _num_covered(points, edges)
        if points.shape[1] == 2
        else 0
    )


def _num_covered(points: Points, edges: Sequence[tuple[int, int]]) -> int:
    pairs = np.array(edges)
    start, along = points[pairs[:, 0]], points[pairs[:, 1]] - points[pairs[:, 0]]
    gaps = points[:, None] - start  # (nodes, edges, 2)
    share = np.clip((gaps * along).sum(-1) / np.maximum((along**2).sum(-1), 1e-9), 0, 1)
    apart = np.linalg.norm(gaps - share[..., None] * along, axis=-1)
    apart[pairs[:, 0], range(len(pairs))] = apart[pairs[:, 1], range(len(pairs))] = np.inf
    return int((apart < 0.2).sum())


def _error(wanted: Points, points: Points) -> float:
    apart = np.linalg.norm(points[:, None] - points, axis=-1)
    return float((((apart - wanted) / np.maximum(wanted, 1)) ** 2).sum())


def num_crossings(points: Points, edges: Sequence[tuple[int, int]]) -> int:
    """How many pairs of edges cross."""
    pairs = np.array(edges, dtype=int).reshape(-1, 2)
    start, stop = points[pairs[:, 0]], points[pairs[:, 1]]

    def side(a: Points, b: Points, c: Points) -> Any:
        return np.sign(
            (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1])
            - (b[..., 1] - a[..., 1]) * (c[..., 0] - a[..., 0])
        )

    one, other = start[:, None], stop[:, None]
    crosses = (side(one, other, start) * side(one, other, stop) < 0) & (
        side(start, stop, one) * side(start, stop, other) < 0
    )
    return int(crosses.sum()) // 2


def _scaled(distances: Points, dimensions: int) -> Points:
    """Classical scaling by the distances from some nodes to all; columns signed so that the result does not depend on the library."""
    squares = distances**2
    centred = (
        squares - squares.mean(0) - squares.mean(1, keepdims=True) + squares.mean()
    )  # (pivots, nodes)
    _, sizes, axes = np.linalg.svd(-0.5 * centred, full_matrices=False)
    points = (axes[:dimensions] * np.sqrt(sizes[:dimensions, None])).T  # (nodes, dimensions)
    points = np.pad(points, ((0, 0), (0, dimensions - points.shape[1])))
    signs = np.sign(np.take_along_axis(points, np.abs(points).argmax(0)[None], 0))
    points = points * np.where(signs == 0, 1, signs)
    # Nodes that look alike from everywhere would stay in one place for ever: a spiral of small steps sets them apart.
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


def packed(parts: Sequence[Points], gap: float = 1.0) -> list[Points]:
    """Drawings side by side in rows, about as wide as high, the largest first."""
    boxes = [np.ptp(part, axis=0) + gap for part in parts]
    wide = max(
        [
            sum(float(np.prod(box[:2])) for box in boxes) ** 0.5 * 1.2,
            *(float(box[0]) for box in boxes),
        ],
        default=0.0,
    )
    x = y = high = 0.0
    found = []
    for part, box in zip(parts, boxes, strict=True):
        if x and x + box[0] > wide + 1e-9:
            x, y, high = 0.0, y - high, 0.0
        corner = np.zeros(part.shape[1])
        corner[0], corner[1:2] = x, y - box[1:2]
        found.append(part - part.min(0) + corner)
        x, high = x + float(box[0]), max(high, float(box[1]) if len(box) > 1 else gap)
    return found


def _neighbours(num_nodes: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    near: list[set[int]] = [set() for _ in range(num_nodes)]
    for a, b in edges:
        if a != b:
            near[a].add(b)
            near[b].add(a)
    return [sorted(own) for own in near]


def _distances(near: list[list[int]], start: int) -> list[int]:
    """Steps from one node to all, -1 where none leads."""
    found = [-1] * len(near)
    found[start] = 0
    queue = deque([start])
    while queue:
        v = queue.popleft()
        for w in near[v]:
            if found[w] < 0:
                found[w] = found[v] + 1
                queue.append(w)
    return found
