"""Parts of structures: who holds what, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import incidence as inc
from incidence.distributed import gather, rows, split
from incidence.distributed.ordering import (
    _breadth_first,
    assignment_by_parts,
    best_assignment,
    node_sets,
    num_shared,
)
from incidence.structure.data import cache_of
from incidence.structure.world import World
from tests.distributed.cases import STRUCTURES
from tests.distributed.thread_world import run_threads


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("name", list(STRUCTURES))
def test_every_row_is_on_one_process(name: str, size: int) -> None:
    structure = STRUCTURES[name]()
    texts = [*map(str, structure.patterns), *(f"v:{sort}" for sort in structure.counts)]

    def work(world: World) -> list[torch.Tensor]:
        part = split(structure, world=world)
        for text in texts:
            assert part.num_entries(text) == len(rows(part, text))
            assert bool((rows(part, text).diff() > 0).all())
        return [rows(part, text) for text in texts]

    for text, *held in zip(texts, *run_threads(size, work), strict=True):
        expected = list(range(structure.num_entries(text)))
        assert sorted(torch.cat(held).tolist()) == expected


def test_entries_on_one_node_set_are_on_one_process() -> None:
    structure = STRUCTURES["graph"]()

    def work(world: World) -> list[tuple[int, ...]]:
        part = split(structure, world=world)
        index = structure["i j"][:, rows(part, "i j")]
        return [tuple(sorted(set(pair))) for pair in index.T.tolist()]

    one, other = run_threads(2, work)
    assert one
    assert other
    assert not set(one) & set(other)


def test_parts_are_those_that_the_user_gives() -> None:
    structure = inc.Structure(4, {"{i j}": [[0, 1, 2], [1, 2, 3]]})
    given = torch.tensor([1, 1, 0, 0])

    def work(world: World) -> list[int]:
        part = split(structure, parts=given, world=world)
        assert repr(part).startswith(f"Part({world.rank} of 2: Structure(num_nodes=")
        return rows(part, "i").tolist()

    assert run_threads(2, work) == [[2, 3], [0, 1]]


def test_a_process_may_hold_nothing() -> None:
    structure = inc.Structure(2, {"{i j}": [[0], [1]]})
    layer = inc.nn.Linear("i, {i j} -> {i j}, ", 1, 1).double()

    def work(world: World) -> Any:
        part = split(structure, parts=torch.tensor([2, 2]), world=world)
        x = {k: torch.ones(part.num_entries(k), 1).double() for k in ("i", "{i j}")}
        y = layer(x, part)
        return part.num_entries("{i j}"), gather(y["{i j}"], part, "{i j}").item(), y[""].item()

    counts, values, whole = zip(*run_threads(3, work), strict=True)
    assert counts == (0, 0, 1)
    assert len(set(values)) == 1
    assert len(set(whole)) == 1


def _grid(side: int) -> inc.Structure:
    nodes = torch.arange(side * side).view(side, side)
    across = torch.stack([nodes[:, :-1].flatten(), nodes[:, 1:].flatten()])
    down = torch.stack([nodes[:-1].flatten(), nodes[1:].flatten()])
    order = torch.randperm(side * side, generator=torch.Generator().manual_seed(0))
    return inc.Structure(side * side, {"{i j}": order[torch.cat([across, down], dim=1)]})


def test_blocks_of_the_order_share_few_nodes_of_a_grid() -> None:
    structure = _grid(30)
    sets = node_sets(structure)
    best = num_shared(sets, best_assignment(structure, 4), 4)
    hashed = assignment_by_parts(structure, torch.arange(900) % 4)
    assert best <= 3 * 45  # the cuts between four blocks
    assert num_shared(sets, hashed, 4) > 700


def test_the_order_without_scipy_keeps_neighbours_together(monkeypatch: pytest.MonkeyPatch) -> None:
    structure = _grid(20)
    monkeypatch.setitem(__import__("sys").modules, "scipy.sparse", None)
    sets = node_sets(structure)
    assert num_shared(sets, best_assignment(structure, 4), 4) <= 3 * 40
    order = _breadth_first(structure["{i j}"], 400)
    assert sorted(order.tolist()) == list(range(400))


def test_heavy_tails_are_split_by_nodes_of_low_degree() -> None:
    hub = torch.stack([torch.zeros(200, dtype=torch.long), torch.arange(1, 201)])
    structure = inc.Structure(201, {"{i j}": hub})
    sets = node_sets(structure)
    assert num_shared(sets, best_assignment(structure, 4), 4) <= 3


def test_loads_are_balanced() -> None:
    structure = _grid(30)

    def work(world: World) -> int:
        return split(structure, world=world).num_entries("{i j}")

    counts = run_threads(4, work)
    assert max(counts) < 1.2 * min(counts)


def test_processes_with_different_structures_are_refused() -> None:
    def work(world: World) -> None:
        split(inc.Structure(3 + world.rank, {"{i j}": [[0], [1]]}), world=world)

    with pytest.raises(inc.IncidenceError, match="the structure must be the same on all processes"):
        run_threads(2, work)


def test_processes_with_different_versions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    structure = STRUCTURES["graph"]()
    with pytest.raises(inc.IncidenceError, match=r"different versions of incidence"):
        run_threads(1, lambda world: _with_version(world, structure, monkeypatch))


def _with_version(world: World, structure: inc.Structure, monkeypatch: Any) -> None:
    """Say that another process runs another version."""
    gather_all = world.gather
    monkeypatch.setattr(
        world, "gather", lambda x: [*gather_all(x), x + torch.tensor([1, 0])], raising=False
    )
    split(structure, world=world)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (torch.zeros(3).long(), r"integers of shape \[24\]; got \[3\]"),
        (torch.zeros(24), r"integers of shape \[24\]"),
        (torch.full((24,), 2), "from 0 to 1; got 2"),
        ({"other": torch.zeros(24).long()}, "every node of sort `node`"),
    ],
)
def test_parts_that_do_not_fit_are_refused_on_all_processes(parts: Any, message: str) -> None:
    def work(world: World) -> None:
        with pytest.raises(inc.IncidenceError, match=message):
            split(STRUCTURES["graph"](), parts=parts, world=world)

    run_threads(2, work)


def test_what_is_no_structure_is_refused() -> None:
    def work(world: World) -> None:
        with pytest.raises(inc.IncidenceError, match="split takes a whole structure"):
            split(split(STRUCTURES["graph"](), world=world), world=world)
        with pytest.raises(inc.IncidenceError, match="this takes a part"):
            rows(STRUCTURES["graph"](), "i")  # type: ignore[arg-type]
        part = split(STRUCTURES["graph"](), world=world)
        with pytest.raises(inc.IncidenceError, match=r"gather takes the .* rows of `i`"):
            gather(torch.zeros(99, 1), part, "i")
        with pytest.raises(inc.IncidenceError, match="is not changed, moved or taken apart"):
            part.canonical()
        with pytest.raises(inc.IncidenceError, match="is not pickled"):
            part.__reduce__()

    run_threads(1, work)


def test_a_structure_on_another_device_is_refused() -> None:
    structure = STRUCTURES["graph"]().to("meta")
    with pytest.raises(inc.IncidenceError, match="a structure on the CPU; this one is on meta"):
        run_threads(1, lambda w: split(structure, world=w))


def test_what_needs_the_whole_structure_is_refused_on_a_part() -> None:
    def work(world: World) -> None:
        part = split(STRUCTURES["graph"](), world=world)
        cache_of(part, "relaxed")

    with pytest.raises(inc.IncidenceError, match=r"needs the whole structure \(for its relaxed"):
        run_threads(1, work)


HOLES = {
    "harmonic part": lambda: inc.nn.Harmonic("flow=<i j>"),
    "harmonic part by gradients": lambda: inc.nn.Harmonic("flow=<i j>", way="gradients"),
    "ranks": lambda: inc.nn.HarmonicRanks("flow=<i j>", 2),
    "readout": lambda: inc.nn.HarmonicReadout("flow=<i j>", 2, 2, products=0),
    "term": lambda: inc.nn.HarmonicTerm("flow=<i j>", 2, 2),
}


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("name", list(HOLES))
def test_holes_are_refused_on_a_part(name: str, size: int) -> None:
    def work(world: World) -> None:
        part = split(STRUCTURES["graph"](), world=world)
        x = torch.ones(part.num_entries("flow=<i j>"), 2)
        for call in (lambda layer: layer(x, part), lambda layer: layer.plan(part)):
            with pytest.raises(inc.IncidenceError, match="around holes needs the whole structure"):
                call(HOLES[name]())

    run_threads(size, work)


def test_a_weighted_harmonic_part_is_refused_on_a_part() -> None:
    def work(world: World) -> None:
        part = split(STRUCTURES["graph"](), world=world)
        x = torch.ones(part.num_entries("flow=<i j>"), 2)
        inc.nn.Harmonic("flow=<i j>")(x, part, weights=x[:, 0])

    with pytest.raises(inc.IncidenceError, match="around holes needs the whole structure"):
        run_threads(1, work)


def test_an_aggregation_of_the_user_is_refused_on_a_part() -> None:
    from tests.nn import range_aggregation  # noqa: F401

    layer = inc.nn.Linear("{i j} -> {i j}", 1, 1, aggr="range")

    def work(world: World) -> None:
        part = split(STRUCTURES["graph"](), world=world)
        layer(torch.ones(part.num_entries("{i j}"), 1), part)

    with pytest.raises(inc.IncidenceError, match="needs all entries of a bag on one process"):
        run_threads(1, work)
