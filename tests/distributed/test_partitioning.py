"""Parts by a library that searches: where entries go, and when the library is missing."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

import incidence as inc
from incidence.distributed import gather, rows, split
from incidence.distributed.ordering import best_assignment, node_sets, num_shared
from incidence.distributed.partitioning import SetAssignment, partitioned
from incidence.structure.world import World
from tests.distributed.cases import STRUCTURES, features
from tests.distributed.thread_world import run_threads


class _Search:
    """Stands for mtkahypar: vertices go to parts in turn. It notes what it was given."""

    def __init__(self) -> None:
        self.nets: list[list[int]] = []
        self.weights: list[int] = []
        self.size = 0

    def module(self) -> ModuleType:
        made: Any = ModuleType("mtkahypar")
        made.PresetType = SimpleNamespace(DETERMINISTIC=0)
        made.Objective = SimpleNamespace(KM1=1)
        made.set_seed = lambda seed: None
        made.initialize = lambda threads, print_warnings: self
        return made

    def context_from_preset(self, preset: int) -> Any:
        def parameters(size: int, imbalance: float, objective: int) -> None:
            self.size = size

        return SimpleNamespace(set_partitioning_parameters=parameters)

    def create_hypergraph(self, *words: Any) -> Any:
        _, count, num_nets, self.nets, self.weights, costs = words
        assert num_nets == len(self.nets) == len(costs)
        own = [vertex * 7 % self.size for vertex in range(count)]
        return SimpleNamespace(partition=lambda context: SimpleNamespace(get_partition=lambda: own))

    def cost(self) -> int:
        """How many parts every net has beyond the first."""
        return sum(len({vertex * 7 % self.size for vertex in net}) - 1 for net in self.nets)


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch) -> _Search:
    made = _Search()
    monkeypatch.setitem(sys.modules, "mtkahypar", made.module())
    return made


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", list(STRUCTURES))
def test_the_cost_of_the_search_is_the_number_of_shared_nodes(
    name: str, size: int, search: _Search
) -> None:
    structure = STRUCTURES[name]()
    sets = node_sets(structure)

    def work(world: World) -> SetAssignment:
        return partitioned(structure, world)

    found = run_threads(size, work)
    for assignment in found:
        assert num_shared(sets, assignment, size) == search.cost()
        assert torch.equal(assignment.parts, found[0].parts)
    assert sum(search.weights) == structure.total_nodes + sum(map(len, sets))


@pytest.mark.parametrize("name", list(STRUCTURES))
def test_a_layer_on_parts_that_were_searched_is_that_on_the_whole(
    name: str, search: _Search
) -> None:
    structure = STRUCTURES[name]()
    text = str(structure.patterns[0])
    layer = inc.nn.Linear(f"{text} -> {text}", 2, 2).double()
    [x] = features(structure, layer.map.inputs).values()
    expected = layer(x, structure).detach()

    def work(world: World) -> None:
        part = split(structure, parts="mtkahypar", world=world)
        y = layer(x[rows(part, text)], part)
        torch.testing.assert_close(gather(y, part, text), expected, rtol=1e-10, atol=1e-10)

    run_threads(3, work)


def test_one_process_needs_no_search() -> None:
    structure = STRUCTURES["graph"]()
    [found] = run_threads(1, lambda world: partitioned(structure, world))
    assert not found.parts.any()


def test_a_missing_library_is_an_error_on_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mtkahypar", None)

    def work(world: World) -> str:
        with pytest.raises(inc.IncidenceError, match=r"process 0: .*incidence\[parts\]") as error:
            split(STRUCTURES["graph"](), parts="mtkahypar", world=world)
        return str(error.value)

    assert len(set(run_threads(3, work))) == 1


def test_processes_that_name_different_parts_are_refused(search: _Search) -> None:
    def work(world: World) -> None:
        parts = "mtkahypar" if world.rank else None
        with pytest.raises(inc.IncidenceError, match="parts= must be the same on all processes"):
            split(STRUCTURES["graph"](), parts=parts, world=world)

    run_threads(2, work)


def test_other_names_of_parts_are_refused() -> None:
    def work(world: World) -> None:
        with pytest.raises(inc.IncidenceError, match="or \"mtkahypar\"; got 'metis'"):
            split(STRUCTURES["graph"](), parts="metis", world=world)

    run_threads(2, work)


def _power_law(num_nodes: int) -> inc.Structure:
    draw = torch.Generator().manual_seed(0)
    ends = (torch.rand(2, 6 * num_nodes, generator=draw) ** 3 * num_nodes).long()
    pairs = ends[:, ends[0] != ends[1]].sort(dim=0)[0]
    return inc.Structure(num_nodes, {"{i j}": torch.unique(pairs, dim=1)})


def test_the_search_shares_fewer_nodes_than_the_default() -> None:
    pytest.importorskip(
        "mtkahypar", reason="the search is not installed: pip install 'incidence[parts]'"
    )
    structure = _power_law(500)
    sets = node_sets(structure)

    def work(world: World) -> SetAssignment:
        return partitioned(structure, world)

    before = torch.get_num_threads()
    first = run_threads(4, work)[0]
    torch.set_num_threads(before + 1)
    try:
        second = run_threads(4, work)[0]
    finally:
        torch.set_num_threads(before)
    assert torch.equal(first.homes[2], second.homes[2])
    default = best_assignment(structure, 4)
    assert num_shared(sets, first, 4) < 0.8 * num_shared(sets, default, 4)
