"""Random weights of our presets and the exact answer agree on pairs of BREC, one by one."""

import pytest

from benchmarks.expressivity import GROUPS, KINDS, read_pairs
from benchmarks.separate import GRAPH, PPGN, RINGS, pairs_told_apart
from tests.data_folder import data_folder

CASES = {
    "graph": (KINDS["`graph`"], GRAPH, 100),
    "rings": (KINDS["`rings`, up to 5 nodes"], RINGS, 45),
    "ppgn": (KINDS["`ppgn`"], PPGN, 25),
}


def assert_agree(name, group, every, most_nodes):
    kind, contestant, largest = CASES[name]
    pairs = [
        pair
        for pair in read_pairs(data_folder("brec").parent, group)[::every]
        if pair[0].structure.total_nodes <= min(most_nodes, largest)
    ]
    exact = [kind.judge(pair).is_apart for pair in pairs]
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
