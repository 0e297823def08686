"""What outputs depend on: with as many hops as a network reaches far, a sample gives the seeds what
the whole gives them.
"""

import pytest
import torch

import incidence as inc
from incidence.models import IncidenceNet
from incidence.structure.incidences import incidences
from tests.structure.random_structures import random_structure

CASES = [
    ("i, {i j} -> i", {"aggr": "mean"}),
    ("i, {i j} -> i, {i j}", {"aggr": ("sum", "max"), "norm": "layer"}),
    ("i, (i j) -> i, (i j)", {"aggr": "mean", "ends": "entry", "depth": 2}),
    ("i, {i j}, {i j k} -> i, {i j k}", {"aggr": "sum"}),
    ("i, {i ...} -> i, {i ...}", {"aggr": "mean", "max_overlap": 2}),
    ("i, {i ...} -> i", {"aggr": "std", "ends": "entry", "hops": 2}),
    ("i, <i j>, <i j k> -> i, <i j>", {"aggr": "mean"}),
    ("u:user, m:movie, u:user m:movie -> u:user, u:user m:movie", {"aggr": "mean"}),
    ("i j -> i j, i", {"aggr": ("mean", "min"), "depth": 0}),
    ("i, {i j} -> i", {"aggr": "mean", "operations": "boundary"}),
    ("i, {i j} -> i", {"aggr": "mean", "ends": "entry", "adjacent": True, "depth": 2}),
    ("i, {i j} -> i, {i j}", {"aggr": "mean", "adjacent": True, "through": "i, {i j}", "depth": 2}),
    ("i, (i j), {i ...} -> i", {"aggr": "mean", "adjacent": True, "first_norm": "layer"}),
    (
        "u:user, m:movie, u:user m:movie -> u:user, u:user m:movie",
        {"aggr": "mean", "ends": "entry", "adjacent": True},
    ),
]


def network_and_data(text: str, settings: dict, num_nodes: int = 60):
    sides = [[part.strip() for part in side.split(",")] for side in text.split("->")]
    texts = list(dict.fromkeys(sides[0] + sides[1]))
    s = random_structure(num_nodes, texts, seed=3, draws=3 if "..." in text else 40)
    generator = torch.Generator().manual_seed(0)
    x = {
        key: torch.randn(s.num_entries(key), 2, generator=generator, dtype=torch.float64)
        for key in sides[0]
    }
    torch.manual_seed(0)
    net = IncidenceNet(
        text, 2, 3, **{"hidden": 4, "depth": 1, "operations": "local", "dropout": 0.0, **settings}
    ).double()
    net.calibrate(x, s)
    return net.eval(), inc.Example(s, x), sides[1]


def outputs(net: IncidenceNet, example: inc.Example, keys: list[str]) -> dict[str, torch.Tensor]:
    y = net(example)
    return y if isinstance(y, dict) else {keys[0]: y}


def first_entries(structure: inc.Structure, keys: list[str]) -> dict[str, list[int]]:
    """The nodes of an entry of every tensor, by sort."""
    seeds: dict[str, set[int]] = {sort: set() for sort in structure.counts}
    for lists in (incidences(structure, [structure.resolve(key)]) for key in keys):
        for node in lists.nodes[: int(lists.entry_ptr[1])].tolist():
            sort = max(
                (sort for sort in seeds if structure._node_offsets[sort] <= node),
                key=structure._node_offsets.__getitem__,
            )
            seeds[sort].add(node - structure._node_offsets[sort])
    return {sort: sorted(nodes, reverse=True) for sort, nodes in seeds.items()}


@pytest.mark.parametrize(
    ("text", "settings"),
    CASES,
    ids=[f"{text} {'adjacent' * ('adjacent' in settings)}" for text, settings in CASES],
)
def test_outputs_of_the_seeds_are_those_of_the_whole_when_all_neighbours_within_reach_are_sampled(
    text, settings
):
    net, example, keys = network_and_data(text, settings)
    seeds = first_entries(example.structure, keys)
    found = example.sample(seeds, hops=net.reach)
    assert found.structure.total_nodes < example.structure.total_nodes  # or nothing is shown
    whole, part = outputs(net, example, keys), outputs(net, found, keys)
    seed_rows = {sort: range(len(nodes)) for sort, nodes in found.seeds.items()}
    _, inside = found.structure._induced_with_rows(seed_rows)
    for key in keys:
        pattern = found.structure.resolve(key)
        rows = inside[pattern if pattern in inside else next(iter(pattern.sorts.values()))]
        assert len(rows)
        torch.testing.assert_close(
            part[key][rows], whole[key][found.rows(key)[rows]], rtol=1e-12, atol=1e-12
        )


def test_one_hop_fewer_than_the_reach_is_too_few():
    n = 13
    s = inc.Structure(n, {"{i j}": [list(range(n - 1)), list(range(1, n))]})
    x = {
        "i": torch.zeros(n, 1, dtype=torch.float64),
        "{i j}": torch.zeros(n - 1, 1, dtype=torch.float64),
    }
    torch.manual_seed(0)
    net = (
        IncidenceNet(
            "i, {i j} -> i",
            1,
            hidden=4,
            depth=2,
            operations="local",
            norm="none",
            activation="none",
            dropout=0.0,
        )
        .double()
        .eval()
    )
    # the edge {0 1} alone is not 0
    changed = {**x, "{i j}": torch.eye(n - 1, dtype=torch.float64)[:, :1]}
    depends = (net(x, s) - net(changed, s)).abs()[:, 0] > 1e-12
    assert net.reach == 4
    assert depends.nonzero().max() == net.reach
    whole = net(changed, s)[4]
    for hops, is_same in ((net.reach, True), (net.reach - 1, False)):
        found = inc.Example(s, changed).sample([4], hops)
        assert torch.allclose(net(found)[0], whole, rtol=0, atol=1e-12) == is_same


@pytest.mark.parametrize(
    ("text", "settings", "reach"),
    [
        ("i, {i j} -> i", {"operations": "local", "depth": 3}, 5),
        ("i, {i j} -> i", {"operations": "local", "depth": 3, "ends": "entry"}, 3),
        ("i, {i j} -> i", {"operations": "local", "depth": 1, "ends": "entry", "hops": 4}, 5),
        (
            "i, {i j} -> i",
            {"operations": "local", "depth": 3, "ends": "entry", "adjacent": True},
            4,
        ),
        (
            "i, {i j} -> i",
            {
                "operations": "local",
                "depth": 3,
                "ends": "entry",
                "adjacent": True,
                "through": "i, {i j}",
            },
            3,
        ),
        ("i, {i j} -> i", {"operations": "self", "depth": 3}, 0),
        ("i, {i j} -> i", {"depth": 1}, None),
        ("i, {i j} -> ", {"operations": "local"}, None),
        ("i, i j -> i", {"operations": "local", "products": "i j, j k -> i k"}, None),
    ],
)
def test_the_reach_counts_steps_and_has_no_bound_where_something_looks_at_everything(
    text, settings, reach
):
    assert IncidenceNet(text, 2, hidden=4, **settings).reach == reach
