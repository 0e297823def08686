"""Oblivious 3-WL on all triples of nodes of two graphs, exactly, in memory linear in the triples.

Layers on `i j k` have 203 operations. Three of them, which replace one node of a triple by every
other, tell apart as much as all (docs/math.md, section 20, and the bound of the text). So graphs
that are too large for lists of 203 operations are still decided. No number is rounded, and no value
is hashed: a colour is a triple of ranks in 63 bits, and a bag is a sorted row of colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_NODES", "tell_apart"]

MOST_NODES = 500
"""So many nodes at most: there are 1.25e8 triples of them, and pairs of nodes have 19 bits."""

_START, _BAG = 6, 19  # bits of the first colour, and of a bag: together 63
_AXES = (0, 1, 2)

Array = NDArray[Any]


def tell_apart(one: Array, other: Array) -> tuple[bool, int]:
    """Return whether oblivious 3-WL tells two graphs apart, and after how many rounds it stopped.

    Args:
        one: The adjacency matrix of a graph, of truth values.
        other: That of another one with as many nodes.

    Example:
        >>> hexagon = np.roll(np.eye(6, dtype=bool), 1, axis=0)
        >>> triangles = np.kron(np.eye(2, dtype=bool), ~np.eye(3, dtype=bool))
        >>> tell_apart(hexagon | hexagon.T, triangles)
        (True, 1)
    """
    graphs = [one, other]
    assert one.shape == other.shape
    assert len(one) <= MOST_NODES
    start = [_first_colours(graph) for graph in graphs]
    colours, known, rounds = start, (0, 0, 0), 0
    while True:
        bags, numbers = zip(*(_bags(colours, axis) for axis in _AXES), strict=True)
        rounds += 1
        if not all(_are_equal_counts(*own) for own in bags):
            return True, rounds
        if numbers == known:  # bags only split: as many as before are the same
            return False, rounds
        known = numbers
        colours = [
            _colours(first, [own[graph] for own in bags]) for graph, first in enumerate(start)
        ]


def _first_colours(graph: Array) -> Array:
    """Return which nodes of every triple are adjacent, and which are equal, (n, n, n)."""
    adjacent, equal = graph.astype(np.int64), np.eye(len(graph), dtype=np.int64)
    pair = 2 * adjacent + equal  # (n, n)
    colours: Array = 16 * pair[:, :, None] + 4 * pair[:, None, :] + pair[None, :, :]
    return colours


def _bags(colours: Sequence[Array], axis: int) -> tuple[list[Array], int]:
    """Return the bag of every pair of nodes, for the third node at one place; and their number.

    Equal bags have equal numbers, across both graphs.
    """
    count = len(colours[0])
    rows = np.empty((len(colours), count, count, count), dtype=np.int64)
    for own, colour in zip(rows, colours, strict=True):
        own[:] = np.moveaxis(colour, axis, 2)
    rows.sort(axis=3)
    lines = rows.view(np.dtype((np.void, rows.itemsize * count))).ravel()
    known, which = np.unique(lines, return_inverse=True)
    return list(which.reshape(len(colours), count, count)), len(known)


def _colours(start: Array, bags: Sequence[Array]) -> Array:
    """Return the colours that triples with three bags have.

    The colour of the round before need not be kept, because bags of later rounds tell it.
    """
    colours: Array = start.copy()
    for place, (axis, own) in enumerate(zip(_AXES, bags, strict=True)):
        colours |= np.expand_dims(own.astype(np.int64) << (_START + place * _BAG), axis)
    return colours


def _are_equal_counts(one: Array, other: Array) -> bool:
    most = max(int(one.max()), int(other.max())) + 1
    first, second = (np.bincount(own.ravel(), minlength=most) for own in (one, other))
    return np.array_equal(first, second)
