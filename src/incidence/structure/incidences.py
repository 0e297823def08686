"""Which nodes lie in which entries, both ways: what walks from nodes to their neighbours and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.structure.data import StructureData, arranged, cache_of
from incidence.structure.ragged import no_entries, ranges

__all__ = ["Incidences", "incidences"]


@dataclass(frozen=True)
class Incidences:
    """The nodes of entries and the entries of nodes; nodes are numbered through all sorts, entries through the tensors that were asked for.

    Attributes:
        nodes: The nodes of every entry, one entry after the other, shape (incidences,).
        entry_ptr: Where the nodes of each entry start, and the end, shape (entries + 1,).
        entries: The entries of every node, one node after the other, shape (incidences,).
        node_ptr: Where the entries of each node start, and the end, shape (nodes + 1,).
    """

    nodes: Tensor
    entry_ptr: Tensor
    entries: Tensor
    node_ptr: Tensor


@torch.inference_mode(False)
def incidences(structure: StructureData, patterns: Sequence[Pattern]) -> Incidences:
    """Which nodes lie in which entries of some tensors of a structure; kept with it.

    Example:
        >>> from incidence import Structure
        >>> found = incidences(Structure(3, {"{i j}": [[0, 1], [1, 2]]}), [Pattern("{i j}")])
        >>> found.nodes.tolist(), found.entries.tolist(), found.node_ptr.tolist()
        ([0, 1, 1, 2], [0, 0, 1, 1], [0, 1, 3, 4])
    """
    cache, key = cache_of(structure, Incidences), tuple(patterns)
    if key not in cache:
        cache[key] = _find(structure, patterns)
    return cache[key]


def _find(structure: StructureData, patterns: Sequence[Pattern]) -> Incidences:
    owners, nodes, first = (
        [no_entries(1, structure.device)[0]],
        [no_entries(1, structure.device)[0]],
        0,
    )
    for pattern in patterns:
        for found in arranged(structure, pattern):
            bucket = found.bucket
            owners.append((bucket.rows + first).repeat_interleave(bucket.nodes.shape[1]))
            nodes.append(bucket.nodes.reshape(-1))  # (entries x nodes of each,)
        first += structure.num_entries(pattern)
    owner, node = torch.cat(owners), torch.cat(nodes)
    order = owner.argsort(stable=True)
    owner, node = owner[order], node[order]
    by_node = node.argsort(stable=True)  # the entries of a node ascend
    counts = (
        torch.bincount(owner, minlength=first),
        torch.bincount(node, minlength=structure.total_nodes),
    )
    return Incidences(node, ranges(counts[0]), owner[by_node], ranges(counts[1]))
