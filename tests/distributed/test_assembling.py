"""A structure of what every process has read is the structure of all of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import incidence as inc
from incidence.distributed import assemble, gather, rows
from incidence.structure.world import World
from tests.cases import some
from tests.distributed.cases import STRUCTURES, features
from tests.distributed.thread_world import run_threads


def _share(structure: inc.Structure, text: str, world: World) -> tuple[Any, torch.Tensor]:
    """The entries of a tensor that a process has read, and their rows."""
    pattern = structure.resolve(text)
    count = structure.num_entries(pattern)
    own = torch.arange(count * world.rank // world.size, count * (world.rank + 1) // world.size)
    letters, *members = structure._stored(pattern)
    if not members:
        return letters[:, own], own
    [pairs] = members
    inside = pairs[:, (pairs[1] >= own[:1].sum()) & (pairs[1] < own[:1].sum() + len(own))]
    return torch.stack([inside[0], inside[1] - own[:1].sum()]), own


@pytest.mark.parametrize(
    ("name", "text", "size"),
    some(
        [
            (name, text, size)
            for name, text in [
                ("graph", "i, (i j) -> i, (i j)"),
                ("graph", "{i j k}, {i j} -> {i j}"),
                ("hypergraph", "i, {i ...} -> i, {i ...}"),
                ("sorts", "u:user f:film, f:film t:tag -> u:user f:film"),
            ]
            for size in (1, 2, 3)
        ],
        share=3,
    ),
)
def test_a_layer_on_an_assembled_structure_is_that_on_the_whole(
    name: str, text: str, size: int
) -> None:
    structure = STRUCTURES[name]()
    layer = inc.nn.Linear(text, 2, 3).double()
    xs = features(structure, layer.map.inputs)
    wanted = layer(xs if len(xs) > 1 else next(iter(xs.values())), structure)
    texts = [str(p) for p in structure.patterns]

    def work(world: World) -> None:
        shares = {key: _share(structure, key, world) for key in texts}
        counts: Any = structure.num_nodes
        part = assemble(counts, {key: index for key, (index, _) in shares.items()}, world=world)
        here = {}
        for key, x in xs.items():
            if key in shares:
                here[key] = part.bring(x[shares[key][1]], key)
                torch.testing.assert_close(here[key], x[rows(part, key)])
            else:
                here[key] = x[rows(part, key)]
        ys = layer(here if len(here) > 1 else next(iter(here.values())), part)
        for p in layer.map.outputs:
            key = str(p)
            y, expected = (v[key] if isinstance(v, dict) else v for v in (ys, wanted))
            torch.testing.assert_close(gather(y, part, key), expected, rtol=0, atol=1e-10)

    run_threads(size, work)


@pytest.mark.parametrize("parts", [lambda nodes: nodes % 2, torch.arange(24) % 2])
def test_nodes_go_where_the_user_says(parts: Any) -> None:
    def work(world: World) -> list[int]:
        index = {"{i j}": torch.tensor([[0], [2 + world.rank]])}
        return rows(assemble(24, index, parts=parts, world=world), "i").tolist()

    assert run_threads(2, work) == [list(range(0, 24, 2)), list(range(1, 24, 2))]


@pytest.mark.parametrize(
    ("index", "parts", "message"),
    [
        ([[0], [9]], None, r"process 1: index\['\{i j\}'\]"),
        ([[0], [1]], None, r"process 0: index\['\{i j\}'\].*denote one entry"),
        ([[1], [2]], lambda nodes: nodes + 7, "process 0: parts= gives for every node"),
        ([[1], [2]], [0, 1], "process 0: parts= is a function of nodes"),
    ],
)
def test_what_one_process_gives_wrong_all_of_them_refuse(
    index: Any, parts: Any, message: str
) -> None:
    def work(world: World) -> None:
        own = [[0], [1]] if world.rank == 0 else index
        with pytest.raises(inc.IncidenceError, match=message):
            assemble(5, {"{i j}": torch.tensor(own)}, parts=parts, world=world)

    run_threads(2, work)


def test_features_of_tensors_that_were_not_given_are_not_brought() -> None:
    def work(world: World) -> None:
        part = assemble(3, {"{i j}": torch.tensor([[0], [1]])}, world=world)
        with pytest.raises(inc.IncidenceError, match="`i` was not"):
            part.bring(torch.ones(3, 1), "i")
        with pytest.raises(inc.IncidenceError, match="gave 1 entries"):
            part.bring(torch.ones(3, 1), "{i j}")

    run_threads(1, work)
