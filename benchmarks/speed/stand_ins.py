"""Data of the literature where it is there; else random data of the same sizes, and a note that
says so.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks.sets import load
from benchmarks.speed.bench import Bench
from incidence.errors import IncidenceError
from incidence.structure import Example, Structure

__all__ = ["hypergraph", "molecules", "random_hypergraph", "random_molecules"]

# of Cora's co-authorship; a hyperedge has two members and some others
_NUM_NODES, _NUM_HYPEREDGES, _OTHER_MEMBERS = 2708, 970, 2.49


def molecules(bench: Bench) -> list[Example]:
    """The 188 molecules of MUTAG."""
    return _load(bench, "mutag", random_molecules)


def hypergraph(bench: Bench) -> Structure:
    """The hypergraph of Cora in which a hyperedge joins the papers of one author."""
    return _load(bench, "cora-coauthorship", lambda: [Example(random_hypergraph())])[0].structure


def _load(bench: Bench, name: str, stand_in: Callable[[], list[Example]]) -> list[Example]:
    try:
        return list(load(name, folder=bench.folder).examples)
    except IncidenceError as error:
        bench.notes.append(f"on random data of the size of {name}: {error}")
        return stand_in()


def random_molecules(count: int = 188) -> list[Example]:
    """Chains of 10 to 26 atoms that are closed to rings of six, with a class at random."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(10, 27, (count,), generator=generator).tolist()
    return [_molecule(size, generator) for size in sizes]


def _molecule(size: int, generator: torch.Generator) -> Example:
    chain, first = torch.arange(size - 1), torch.arange(0, size - 5, 6)
    bonds = torch.cat([torch.stack([chain, chain + 1]), torch.stack([first, first + 5])], dim=1)
    atoms = torch.eye(9)[torch.randint(9, (size,), generator=generator)]
    features = {"i": atoms, "{i j}": torch.rand(bonds.shape[1], 1, generator=generator)}
    return Example(
        Structure(size, {"{i j}": bonds}), features, torch.randint(2, (), generator=generator)
    )


def random_hypergraph() -> Structure:
    """Hyperedges on nodes that are drawn at random, of the number and sizes of Cora's."""
    generator = torch.Generator().manual_seed(0)
    sizes = (
        2
        + torch.poisson(torch.full((_NUM_HYPEREDGES,), _OTHER_MEMBERS), generator=generator).long()
    )
    members = [torch.randperm(_NUM_NODES, generator=generator)[:size] for size in sizes.tolist()]
    return Structure(
        _NUM_NODES,
        {
            "{i ...}": torch.stack(
                [torch.cat(members), torch.arange(len(sizes)).repeat_interleave(sizes)]
            )
        },
    )
