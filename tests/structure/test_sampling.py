"""Samples: the entries inside of what was reached, with their old numbers; every neighbour as
likely; bad wishes are refused.
"""

import pickle

import pytest
import torch

import incidence as inc
from incidence.errors import IncidenceError
from incidence.structure.sampling import prepare_samples
from tests.structure.random_structures import random_structure

TEXTS = [
    ["i", "{i j}"],
    ["(i j)", "{i j k}"],
    ["i j", "near=i j"],
    ["{i ...}", "i {i ...}"],
    ["<i j>", "<i j k>"],
    ["u:user m:movie", "{u:user v:user}"],
    ["[i j]", "{i j} {i k}"],
]
IDS = [", ".join(texts) for texts in TEXTS]


def neighbours_by_definition(
    structure: inc.Structure, nodes: set[tuple[str, int]]
) -> set[tuple[str, int]]:
    """All nodes that share an entry with given ones, entry by entry."""
    found = set(nodes)
    for pattern in structure.patterns:
        letters, *members = structure.index(pattern)
        sorts = [pattern.sorts[name] for name in structure._as_spelt(pattern).fixed_letters]
        for entry in range(structure.num_entries(pattern)):
            mine = {(sort, int(row[entry])) for sort, row in zip(sorts, letters, strict=True)}
            for face, part in zip((f for f in pattern.faces if f.is_open), members, strict=True):
                mine |= {
                    (face.letters[0].sort, int(node))
                    for node, owner in part.T.tolist()
                    if owner == entry
                }
            if mine & nodes:
                found |= mine
    return found


@pytest.mark.parametrize("texts", TEXTS, ids=IDS)
@pytest.mark.parametrize("hops", [0, 1, 2])
def test_with_all_neighbours_a_sample_is_the_structure_induced_by_the_ball(texts, hops):
    s = random_structure(24, texts, seed=hops, draws=12)
    sort = sorted(s.counts)[-1]
    seeds = [5, 2]
    found = s.sample({sort: seeds}, hops)
    ball = {(sort, node) for node in seeds}
    for _ in range(hops):
        ball = neighbours_by_definition(s, ball)
    kept = found.nodes if isinstance(found.nodes, dict) else {"node": found.nodes}
    assert {(which, node) for which, nodes in kept.items() for node in nodes.tolist()} == ball
    assert kept[sort][:2].tolist() == seeds
    assert found.seeds[sort].tolist() == [0, 1]
    expected, rows = s._induced_with_rows(kept)
    assert found.structure == expected
    for pattern in s.patterns:
        assert found.rows(pattern).tolist() == rows[pattern].tolist()


def test_of_each_node_at_most_so_many_neighbours_are_drawn_and_all_if_there_are_fewer():
    star = inc.Structure(9, {"{i j}": [[0] * 8, list(range(1, 9))]})
    assert star.sample([0], sizes=[3]).structure.num_nodes == 4
    assert star.sample([0], sizes=[20]).structure.num_nodes == 9
    # the centre, then three of its neighbours, one perhaps the seed
    assert star.sample([1], sizes=[2, 3]).structure.num_nodes in (4, 5)
    assert star.sample([0], hops=1, sizes=0).structure.num_nodes == 1


def test_every_neighbour_is_as_likely_however_many_entries_it_shares():
    s = inc.Structure(
        4, {"{i j}": [[0, 0, 0], [1, 2, 3]], "(i j)": [[0, 1], [1, 0]], "{i j k}": [[0], [1], [2]]}
    )
    generator = torch.Generator().manual_seed(0)
    drawn = [int(s.sample([0], sizes=[1], generator=generator).nodes[1]) for _ in range(600)]
    counts = torch.bincount(torch.tensor(drawn))[1:]
    assert counts.min() > 150, counts


def test_a_generator_makes_samples_that_come_again():
    s = random_structure(40, ["{i j}"], seed=0, draws=80)
    one, other = (
        s.sample([1, 2], sizes=[2, 2], generator=torch.Generator().manual_seed(3)) for _ in range(2)
    )
    assert one.structure == other.structure
    assert one.nodes.tolist() == other.nodes.tolist()


@pytest.mark.parametrize("texts", TEXTS, ids=IDS)
def test_a_prepared_structure_is_sampled_without_making_lists(texts, monkeypatch):
    s, bare = (random_structure(12, texts, seed=0) for _ in range(2))
    prepare_samples(s)
    seeds = {sorted(s.counts)[-1]: [5, 2]}
    with monkeypatch.context() as patch:
        patch.setattr(
            "incidence.structure.incidences._list_incidences",
            lambda *args: pytest.fail("the lists were made again"),
        )
        patch.setattr(
            "incidence.structure.sampling.by_entry",
            lambda *args: pytest.fail("the members were listed again"),
        )
        found = s.sample(seeds, hops=1)
    assert found.structure == bare.sample(seeds, hops=1).structure


def test_nodes_are_numbers_or_a_mask_and_sorts_are_told_apart():
    s = random_structure({"movie": 4, "user": 5}, ["u:user m:movie"], seed=1, draws=12)
    mask = torch.tensor([False, True, False, True, False])
    one, other = s.sample({"user": mask}, hops=1), s.sample({"user": [1, 3]}, hops=1)
    assert one.structure == other.structure
    assert one.rows("u:user").tolist() == one.nodes["user"].tolist()
    both = s.sample({"user": [4], "movie": [2]}, hops=0)
    assert both.nodes["movie"].tolist() == [2]
    assert both.nodes["user"].tolist() == [4]


def test_features_and_targets_go_along_and_targets_are_those_of_the_seeds():
    s = inc.Structure(5, {"{i j}": [[0, 1, 2, 3], [1, 2, 3, 4]]})
    target = {"i": torch.arange(5), "{i j}": torch.arange(4.0)}
    example = inc.Example(
        s,
        {
            "i": torch.arange(5.0)[:, None],
            "{i j}": torch.arange(4.0)[:, None],
            "": torch.ones(1, 2),
        },
        target,
    )
    found = example.sample([2, 1], hops=1)
    assert found.features["i"][:, 0].tolist() == found.nodes.tolist() == [2, 1, 0, 3]
    assert found.features["{i j}"][:, 0].tolist() == found.rows("{i j}").tolist() == [0, 1, 2]
    assert found.features[""].shape == (1, 2)
    assert found.rows("").tolist() == [0]
    assert found.target["i"].tolist() == [2, 1, -1, -1]
    # that between the seeds alone
    assert found.target["{i j}"].nan_to_num(-7).tolist() == [-7, 1, -7]
    assert found.seeds.tolist() == [0, 1]


def test_targets_of_truth_values_stay_and_those_of_the_whole_too():
    s = inc.Structure(3, {"{i j}": [[0, 1], [1, 2]]})
    assert inc.Example(s, {}, {"i": torch.tensor([True, False, True])}).sample([2], hops=1).target[
        "i"
    ].tolist() == [True, False]
    assert float(inc.Example(s, {}, 2.5).sample([2], hops=1).target) == 2.5


def test_a_sampled_example_moves_and_pickles_with_its_seeds():
    s = inc.Structure(3, {"{i j}": [[0, 1], [1, 2]]})
    found = inc.Example(s, {"i": torch.ones(3, 1)}, {"i": torch.arange(3)}).sample([2], hops=1)
    for other in (found.to("cpu"), found.cpu(), pickle.loads(pickle.dumps(found))):
        assert other == found
        assert other.seeds.tolist() == [0]
        assert other.nodes.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.sample([0]), r"sample needs hops=2.*or sizes=\[10, 10\]"),
        (lambda s: s.sample([0], hops=-1), "hops counts steps from the seeds, from 0; got -1"),
        (lambda s: s.sample([0], hops=True), "hops counts steps"),
        (
            lambda s: s.sample([0], hops=2, sizes=[3]),
            r"sizes has a number for every hop: 2 of them; got \[3\]",
        ),
        (lambda s: s.sample([0], sizes=[2, "3"]), "sizes are numbers of neighbours.*got '3'"),
        (lambda s: s.sample([0], sizes=[-2]), "sizes are numbers of neighbours.*got -2"),
        (lambda s: s.sample([3], hops=1), "sample needs different numbers of 0 to 2"),
        (lambda s: s.sample([1, 1], hops=1), "sample needs different numbers"),
        (
            lambda s: s.sample([True], hops=1),
            "sample needs different numbers of 0 to 2, or a mask, of the 3 nodes",
        ),
        (lambda s: s.sample({"user": [0]}, hops=1), "sample: no nodes of sort `user` here"),
        (
            lambda s: inc.collate([s, s]).sample([0], hops=1),
            r"sample is for one structure: index the batch first",
        ),
    ],
)
def test_bad_wishes_are_answered(call, message):
    with pytest.raises(IncidenceError, match=message):
        call(inc.Structure(3, {"{i j}": [[0, 1], [1, 2]]}))
