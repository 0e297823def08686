"""Parts by mtkahypar, which searches for parts that share few nodes.

The hypergraph that it partitions has a vertex for every node set that has entries, and a net for
every node: all node sets with that node. So the cost of its parts is the number of shared nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from incidence.distributed.agreement import agreed
from incidence.distributed.ordering import Assignment, node_sets
from incidence.errors import need
from incidence.structure.data import StructureData
from incidence.structure.ragged import ascend, rank_rows
from incidence.structure.world import World

__all__ = ["SetAssignment", "partitioned"]

_IMBALANCE = 0.03  # a part may have 3 % more entries than the mean
_SEED = 0


@dataclass(frozen=True)
class SetAssignment(Assignment):
    """Every node set has a process of its own choice.

    Attributes:
        parts: The process of every node, shape (nodes of all sorts,).
        sets: The node sets of each number of nodes, in lexicographic order, (sets, nodes) each.
        homes: The processes of these sets.
    """

    parts: Tensor
    sets: dict[int, Tensor]
    homes: dict[int, Tensor]

    def of_sets(self, nodes: Tensor) -> Tensor:
        """Return the process of entries, from their nodes, shape (entries, nodes)."""
        size = nodes.shape[1]
        if not size:
            return torch.zeros(len(nodes), dtype=torch.long)
        known = self.sets[size]
        both = torch.cat([known, torch.stack(ascend(nodes.unbind(1)), dim=1)])
        # every entry is on a known set, so the known sets have all ranks, in order
        ranks, _ = rank_rows(both.unbind(1), [len(self.parts)] * size)
        return self.homes[size][ranks[len(known) :]]


def partitioned(structure: StructureData, world: World) -> SetAssignment:
    """Return the parts that mtkahypar finds. The first process searches, and sends them to all.

    Raises:
        IncidenceError: The library is not installed on the first process.
    """
    sets, weights = _different_sets(structure)
    counts = [len(one) for one in sets.values()]
    found = agreed(world, lambda: _parts(structure, sets, weights, world))
    homes = torch.cat(world.gather(found)).split(counts)
    return SetAssignment(homes[0], sets, dict(zip(sets, homes, strict=True)))


def _different_sets(structure: StructureData) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
    """Return the different node sets by their size, and how many entries each has.

    Those of one node come first. They are all nodes, whose features are dealt out, too.
    """
    num_nodes = structure.total_nodes
    by_size = {1: [torch.arange(num_nodes)[:, None]]}
    for nodes in node_sets(structure):
        by_size.setdefault(nodes.shape[1], []).append(nodes)
    sets, weights = {}, {}
    for size, parts in by_size.items():
        columns = ascend(torch.cat(parts).unbind(1))
        ranks, count = rank_rows(columns, [num_nodes] * size)
        first = torch.empty(count, dtype=torch.long)
        first[ranks] = torch.arange(len(ranks))
        sets[size] = torch.stack(columns, dim=1)[first]
        weights[size] = torch.bincount(ranks, minlength=count)
    return sets, weights


def _parts(
    structure: StructureData, sets: dict[int, Tensor], weights: dict[int, Tensor], world: World
) -> Tensor:
    """Return the process of every node set on the first process, and nothing on the others."""
    if world.rank:
        return torch.zeros(0, dtype=torch.long)
    total = sum(map(len, sets.values()))
    if world.size == 1 or not total:
        return torch.zeros(total, dtype=torch.long)
    library: Any = need("mtkahypar", 'parts="mtkahypar"', "parts")
    nets = _nets(structure, sets)
    loads = torch.cat(list(weights.values())).tolist()
    # with one seed, its deterministic search gives one result for any number of threads
    library.set_seed(_SEED)
    search = library.initialize(torch.get_num_threads(), print_warnings=False)
    context = search.context_from_preset(library.PresetType.DETERMINISTIC)
    context.set_partitioning_parameters(world.size, _IMBALANCE, library.Objective.KM1)
    context.logging = False
    graph = search.create_hypergraph(context, total, len(nets), nets, loads, [1] * len(nets))
    return torch.tensor(graph.partition(context).get_partition())


def _nets(structure: StructureData, sets: dict[int, Tensor]) -> list[list[int]]:
    """Return for every node with several node sets the numbers of these."""
    first, ends, numbers = 0, [], []
    for nodes in sets.values():
        ends.append(nodes.flatten())
        numbers.append(torch.arange(first, first + len(nodes)).repeat_interleave(nodes.shape[1]))
        first += len(nodes)
    whole = torch.cat(ends)
    order = whole.argsort(stable=True)
    counts = torch.bincount(whole, minlength=structure.total_nodes)
    pins = torch.cat(numbers)[order].split(counts.tolist())
    return [own.tolist() for own in pins if len(own) > 1]
