"""Answers the requests of the page of colours (docs/explorer/colours.html): two small graphs, the
colours of their entries layer by layer, and whether they are told apart. Standard library only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.multilinear import MultilinearMap
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.plot.small_colours import colour_rounds, tensors_of
from incidence.plot.small_graphs import SmallGraph, entries_on, places, read_graph
from incidence.plot.theme import DARK, LIGHT

__all__ = ["colours_of_pair"]

Colours = list[list[list[int]]]
"""For every tensor, for every graph, the colours of its entries."""

Row = tuple[int, int, int, int]
"""A tensor, a colour, and how many entries of each graph have it."""


def colours_of_pair(m: EquivariantMap | MultilinearMap, *texts: str) -> dict[str, Any]:
    """Return the colours of two graphs after every layer, and what that says.

    Args:
        m: The map.
        texts: The two graphs, as `read_graph` takes them.

    Raises:
        IncidenceError: The map has no colours on graphs, or a text is no graph.
    """
    if isinstance(m, MultilinearMap):
        raise IncidenceError(
            "colours here are of linear maps; inc.expressivity takes products, too."
        )
    tensors = tensors_of(m)
    graphs = [read_graph(text) for text in texts]
    listed = [[entries_on(graph, p) for graph in graphs] for p in tensors]
    sizes = [[len(own) for own in entries] for entries in listed]
    states = [_by_tensor(state, sizes) for state in colour_rounds(m, graphs)]
    counts = [_counts(state) for state in states]
    # the first layer that tells
    first = next((k for k, rows in enumerate(counts) if any(a != b for _, _, a, b in rows)), None)
    num_colours = len(counts[-1])
    return {
        "map": str(m),
        "graphs": [_graph(graph) for graph in graphs],
        "tensors": [
            {
                "text": str(p) or "one value",
                "look": _look(p),
                "entries": [
                    [[v for nodes in e.sets for v in nodes] for e in own] for own in entries
                ],
            }
            for p, entries in zip(tensors, listed, strict=True)
        ],
        "states": states,
        "counts": counts,
        "palette": [[theme.category(k) for theme in (LIGHT, DARK)] for k in range(num_colours)],
        "first": first,
        "sentence": _sentence(tensors, counts, first),
    }


def _graph(graph: SmallGraph) -> dict[str, Any]:
    return {"names": graph.names, "edges": graph.edges, "places": places(graph)}


def _by_tensor(state: Sequence[Sequence[int]], sizes: Sequence[Sequence[int]]) -> Colours:
    """Take apart the colours of the entries of all tensors."""
    left = [iter(own) for own in state]  # the colours that are not taken yet, by graph
    return [
        [[next(colours) for _ in range(size)] for colours, size in zip(left, own, strict=True)]
        for own in sizes
    ]


def _counts(colours: Colours) -> list[Row]:
    """How many entries of each graph have a colour, for all colours."""
    rows = []
    for t, own in enumerate(colours):
        one, other = map(Counter, own)
        rows += [(t, colour, one[colour], other[colour]) for colour in sorted(one | other)]
    return rows


def _look(pattern: Pattern) -> str:
    """How entries are drawn: as nodes, lines, arrows, regions, or cells of a matrix, of which a
    symmetric one has both.
    """
    size = len(pattern.letters)
    if size == 1:
        return "node"
    if size == 2 and pattern.order == 2 and all(len(f.letters) == 1 for f in pattern.faces):
        return "cell"
    if size < 2 or pattern.order > 1:
        return "none"
    [face] = pattern.faces
    if not face.kind.is_distinct:
        return "both" if size == 2 else "none"
    if size > 2:
        return "region"
    return "arrow" if face.kind.is_ordered else "line"


def _sentence(
    tensors: Sequence[Pattern], counts: Sequence[Sequence[Row]], first: int | None
) -> str:
    """What was decided, and why."""
    if first is None:
        last = len(counts) - 1
        end = f"{_after(last)} nothing changes" if last else "the first layer changes nothing"
        return (
            f"Not told apart: every colour is as frequent in both graphs, and {end}. No network"
            " with such layers gives them different values, however deep and wide it is."
        )
    differing = (row for row in counts[first] if row[2] != row[3])
    # The rarest colour makes the shortest argument.
    t, colour, one, other = min(differing, key=lambda row: row[2] + row[3])
    return (
        f"Told apart {_after(first)}: colour {colour + 1} of {_tensor(tensors[t])} occurs {one}"
        f" time{'s' * (one != 1)} in the first graph, and {other} in the second. Some network with"
        " such layers gives them different values."
    )


def _after(layers: int) -> str:
    if not layers:
        return "before the first layer"
    return f"after {layers} layer{'s' * (layers > 1)}"


def _tensor(pattern: Pattern) -> str:
    return f"`{pattern}`" if pattern.letters else "the whole"
