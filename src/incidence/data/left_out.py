"""What lifts leave out, in words and in numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from incidence.data.lifts import LIFTS, chunks_of, edge_rows
from incidence.errors import TooLargeError
from incidence.geometry import lifting
from incidence.geometry.assembly import face_text
from incidence.geometry.lifting.adjacency import adjacency, edge_pattern
from incidence.structure.collate import collate
from incidence.structure.example import Example
from incidence.structure.ragged import pairs
from incidence.structure.structure import Structure
from incidence.symmetry.group import connect

__all__ = ["edges_on_cycles", "left_out"]

_MOST_CLIQUES = 1_000_000  # a sentence about larger cliques may not cost more than that

_WORDS = {
    "rings": "rings of more than {max_size} nodes, and those with chords",
    "cliques": "cliques of more than {max_size} nodes",
    "hops": "pairs more than {k} steps apart",
    "distances": "how far pairs are that are more than {k} steps apart",
    "walks": "walks of more than {steps} steps",
    "space": "pairs of points farther apart than {cutoff}",
}
"""What lifts leave out, by name, with their options."""


def left_out(name: str, lifted: Sequence[Example] = (), **options: Any) -> list[str]:
    """Return what lifts leave out, in words.

    Args:
        name: A lift, or several joined by +.
        lifted: Examples after the lift. If they are given, what is left out is counted.
        options: Options of these lifts.

    Example:
        >>> left_out("rings+pairs", max_size=8)
        ['rings of more than 8 nodes, and those with chords']
        >>> path = Example(Structure(4, {"{i j}": [[0, 1, 2], [1, 2, 3]]}), {})
        >>> left_out("hops", [LIFTS["hops"](path)])
        ['pairs more than 2 steps apart (1 of 6)']
    """
    words = []
    for one in name.split("+"):
        if one not in _WORDS:
            continue
        parameters = list(signature(LIFTS[one]).parameters.values())[1:]
        chosen = {parameter.name: parameter.default for parameter in parameters}
        chosen |= {key: value for key, value in options.items() if key in chosen}
        count = f" ({_COUNTS[one](lifted, chosen)})" if lifted and one in _COUNTS else ""
        words.append(_WORDS[one].format(**chosen) + count)
    return words


# ---- counts


def _count_rings(lifted: Sequence[Example], options: Mapping[str, Any]) -> str:
    """Count the edges that are on cycles and on no ring that was added."""
    edges, structures = 0, 0
    for part in chunks_of(lifted):
        batch = collate(part).structure
        is_left = edges_on_cycles(batch) & ~_edges_in_rings(batch)
        edges += int(is_left.sum())
        structures += len(torch.unique(batch.batch("{i j}")[is_left]))
    if not edges:
        return "every edge on a cycle is on a ring"
    return (
        f"{_several(edges, 'edge')} of {_several(structures, 'structure')} are on such rings only"
    )


def _count_cliques(lifted: Sequence[Example], options: Mapping[str, Any]) -> str:
    """Count the cliques with one node more."""
    size, cliques, structures = options["max_size"] + 1, 0, 0
    for part in chunks_of(lifted):
        bare = collate(part).structure
        try:
            larger = lifting.cliques(bare, size, edges="{i j}", limit=_MOST_CLIQUES)
        except TooLargeError:
            return f"more than {_MOST_CLIQUES:,} of {size} nodes"
        cliques += larger.num_entries(face_text(size))
        structures += len(torch.unique(larger.batch(face_text(size))))
    if not cliques:
        return f"none of {size} nodes"
    return f"{cliques:,} of {size} nodes, in {_several(structures, 'structure')}"


def _count_hops(lifted: Sequence[Example], options: Mapping[str, Any]) -> str:
    """Count the pairs of nodes that are not in `near`, which has both directions and loops."""
    present = sum(one.structure.num_entries("near") - _num_nodes(one) for one in lifted) // 2
    return _of_pairs(lifted, present)


def _count_distances(lifted: Sequence[Example], options: Mapping[str, Any]) -> str:
    """Count the pairs of nodes in the last column, where each stands twice."""
    far = sum(int(one.features["i j"][:, -1].sum()) for one in lifted) // 2
    return _of_pairs(lifted, _num_pairs(lifted) - far)


def _count_contacts(lifted: Sequence[Example], options: Mapping[str, Any]) -> str:
    return _of_pairs(lifted, sum(one.structure.num_entries("contact") for one in lifted))


_COUNTS: dict[str, Callable[[Sequence[Example], Mapping[str, Any]], str]] = {
    "rings": _count_rings,
    "cliques": _count_cliques,
    "hops": _count_hops,
    "distances": _count_distances,
    "space": _count_contacts,
}


def _of_pairs(lifted: Sequence[Example], present: int) -> str:
    total = _num_pairs(lifted)
    return f"{total - present:,} of {total:,}"


def _num_pairs(lifted: Sequence[Example]) -> int:
    return sum(_num_nodes(one) * (_num_nodes(one) - 1) // 2 for one in lifted)


def _num_nodes(example: Example) -> int:
    return example.structure.total_nodes


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


# ---- edges on cycles and on rings


def edges_on_cycles(structure: Structure) -> Tensor:
    """Return which edges `{i j}` are on a cycle: those that are no bridges.

    Every edge outside of a spanning forest gets a random number, with one sign at each end. A tree
    edge is a bridge if the numbers below it add up to zero: what is wholly below it cancels. Other
    sums are zero with a probability of 2 to the power of -63, and the numbers are always the same.

    Example:
        >>> edges_on_cycles(Structure(4, {"{i j}": [[0, 0, 1, 2], [1, 2, 2, 3]]})).tolist()
        [True, True, True, False]
    """
    ends: Tensor = structure["{i j}"]
    levels, parent, tree_edge = _spanning_forest(structure)
    is_tree = torch.zeros(ends.shape[1], dtype=torch.bool)
    is_tree[tree_edge[tree_edge >= 0]] = True
    draw = torch.Generator().manual_seed(0)
    bound = 2**62
    numbers = torch.randint(-bound, bound, (ends.shape[1],), generator=draw)
    numbers = torch.where(is_tree, 0, numbers)
    below = torch.zeros(structure.total_nodes, dtype=torch.long)
    below.index_add_(0, ends[0], numbers).index_add_(0, ends[1], -numbers)
    is_on_cycle = ~is_tree
    for nodes in reversed(levels[1:]):
        is_on_cycle[tree_edge[nodes]] = below[nodes] != 0
        below.index_add_(0, parent[nodes], below[nodes])
    return is_on_cycle


def _spanning_forest(structure: Structure) -> tuple[list[Tensor], Tensor, Tensor]:
    """Return the nodes by their depth in a forest, the parent of each, and the edge to it.

    A root is its own parent, and has the edge -1.
    """
    count = structure.total_nodes
    ends = structure["{i j}"]
    nodes = torch.arange(count)
    parent, tree_edge = nodes.clone(), torch.full((count,), -1)
    is_root = connect(nodes, *ends) == nodes
    is_reached = is_root.clone()
    levels = [nodes[is_root]]
    graph = adjacency(structure, edge_pattern(structure, "{i j}", "rings"))
    while len(levels[-1]):
        which, node = graph.grow(levels[-1])
        is_new = ~is_reached[node]
        which, node = which[is_new], node[is_new]
        # one of the nodes above, if several reach a node
        parent[node] = levels[-1][which]
        level = torch.unique(node)
        is_reached[level] = True
        tree_edge[level] = edge_rows(structure, parent[level], level)
        levels.append(level)
    return levels, parent, tree_edge


def _edges_in_rings(structure: Structure) -> Tensor:
    """Return which edges `{i j}` are sides of a ring: both ends are in it, as it has no chords."""
    node, ring = structure["ring"]
    first, second = structure["{i j}"]
    count = max(structure.num_entries("ring"), 1)
    known = (node * count + ring).sort().values
    is_side = torch.zeros(len(first), dtype=torch.bool)
    if len(known):
        edge, member = pairs(first, node)  # every edge with every ring of its first end
        queried = second[edge] * count + ring[member]
        place = torch.searchsorted(known, queried).clamp_(max=len(known) - 1)
        is_side[edge[known[place] == queried]] = True
    return is_side
