"""Which nodes lie in which entries, both ways, to walk from nodes to their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.structure.arrange import arranged
from incidence.structure.data import StructureData, cache_of
from incidence.structure.ragged import no_entries, ranges

__all__ = ["Incidences", "incidences"]


@dataclass(frozen=True)
class Incidences:
    """The nodes of entries and the entries of nodes.

    Nodes are numbered through all sorts, entries through the tensors of the call.

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
    """Return which nodes lie in which entries of some tensors of a structure; cached.

    Example:
        >>> from incidence import Structure
        >>> lists = incidences(Structure(3, {"{i j}": [[0, 1], [1, 2]]}), [Pattern("{i j}")])
        >>> lists.nodes.tolist(), lists.entries.tolist(), lists.node_ptr.tolist()
        ([0, 1, 1, 2], [0, 0, 1, 1], [0, 1, 3, 4])
    """
    cache: dict[tuple[Pattern, ...], Incidences] = cache_of(structure, "incidences")
    key = tuple(patterns)
    if key not in cache:
        cache[key] = _list_incidences(structure, patterns)
    return cache[key]


def _list_incidences(structure: StructureData, patterns: Sequence[Pattern]) -> Incidences:
    empty = no_entries(1, structure.device)[0]
    all_entries, all_nodes, start = [empty], [empty], 0
    for pattern in patterns:
        for part in arranged(structure, pattern):
            rows, nodes = part.bucket.rows, part.bucket.nodes  # (entries,), (entries, nodes)
            all_entries.append((rows + start).repeat_interleave(nodes.shape[1]))
            all_nodes.append(nodes.reshape(-1))
        start += structure.num_entries(pattern)
    entry, node = torch.cat(all_entries), torch.cat(all_nodes)  # (incidences,)
    # Buckets come one after the other, so the entries of a tensor are not in order yet.
    order = entry.argsort(stable=True)
    entry, node = entry[order], node[order]
    by_node = node.argsort(stable=True)  # the entries of a node ascend
    entry_ptr = ranges(torch.bincount(entry, minlength=start))
    node_ptr = ranges(torch.bincount(node, minlength=structure.total_nodes))
    return Incidences(node, entry_ptr, entry[by_node], node_ptr)
