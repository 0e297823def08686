"""Random weights of our presets and the exact answer agree on pairs of BREC, one by one."""

from dataclasses import replace

import pytest

from benchmarks.expressivity import GROUPS, KINDS, Kind, read_pairs
from benchmarks.separate import GRAPH, PPGN, RINGS, pairs_told_apart
from tests.data_folder import data_folder

CASES = {
    "graph": (KINDS["`graph`"], GRAPH),
    "rings": (Kind("rings", {"max_size": 5}, most_nodes=63, most_edges=400), RINGS),
    "ppgn": (replace(KINDS["`ppgn`"], most_nodes=25), PPGN),
}


def assert_agree(name, group, every, most_nodes):
    kind, contestant = CASES[name]
    pairs = [
        pair
        for pair in read_pairs(data_folder("brec").parent, group)[::every]
        if kind.runs(pair) and pair[0].structure.total_nodes <= most_nodes
    ]
    exact = [kind.separates(pair) for pair in pairs]
    random = pairs_told_apart([one for pair in pairs for one in pair], contestant)
    assert exact == random
    assert pairs


@pytest.mark.parametrize("group", ["basic", "regular", "extension"])
@pytest.mark.parametrize("name", CASES)
def test_random_weights_agree_with_the_exact_answer_on_some_pairs(name, group):
    assert_agree(name, group, 25, 12)


@pytest.mark.slow
@pytest.mark.parametrize("group", [group for group in GROUPS if group != "4vtx"])
@pytest.mark.parametrize("name", CASES)
def test_random_weights_agree_with_the_exact_answer_on_all_pairs(name, group):
    assert_agree(name, group, 1, 100)
