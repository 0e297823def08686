"""Random weights beside the exact answer: what they miss, and what they tell apart against it."""

from dataclasses import replace

import pytest
import torch

from benchmarks.agreement import NETWORKS, SETS, compare, main, pairs_of, table
from benchmarks.expressivity import Kind
from benchmarks.sets import load
from tests.data_folder import data_folder


@pytest.fixture(scope="module")
def regular():
    return list(load("brec", folder=data_folder("brec").parent, group="regular").examples[:8])


def test_all_pairs_come_once():
    pairs = torch.cat(list(pairs_of(30, False)), dim=1)
    assert pairs.shape == (2, 435)
    assert len({tuple(pair) for pair in pairs.T.tolist()}) == 435
    assert bool((pairs[0] < pairs[1]).all())


def test_random_weights_agree_on_pairs_of_brec(regular):
    assert {**compare(NETWORKS["graph"], regular, True), "seconds": 0, "exact_seconds": 0} == {
        "pairs": 4,
        "exact": 0,
        "missed": 0,
        "against": 0,
        "seconds": 0,
        "exact_seconds": 0,
    }
    counts = compare(NETWORKS["ppgn"], regular, True)
    assert (counts["exact"], counts["missed"], counts["against"]) == (4, 0, 0)
    counts = compare(NETWORKS["ppgn"], regular, False)
    assert (counts["pairs"], counts["exact"], counts["missed"]) == (28, 28, 0)


def test_pairs_against_the_exact_answer_and_missed_ones_are_counted(regular):
    weak = replace(NETWORKS["ppgn"], kind=Kind("graph"))  # an exact answer that is too small
    assert compare(weak, regular, True)["against"] == 4
    strong = replace(NETWORKS["graph"], kind=Kind("ppgn"))  # and one that is too large
    assert compare(strong, regular, True)["missed"] == 4


def test_parts_that_are_known_are_not_measured_again(tmp_path, capsys):
    folder, path = str(data_folder("brec").parent), tmp_path / "lines.jsonl"
    words = ["brec", "--networks", "graph", "--every", "100", "--folder", folder]
    lines = main([*words, "--out", str(path)])
    assert [line["part"] for line in lines] == ["basic 0", "regular 40", "extension 90", "cfi 90"]
    before = path.read_text(encoding="utf-8")
    again = main([*words, "--out", str(path)])
    assert again == lines
    assert path.read_text(encoding="utf-8") == before
    assert "| brec | `graph` | 4 | 0 | 0 | 0 |" in capsys.readouterr().out


def test_the_table_adds_up_parts():
    line = {"set": "sr", "network": "rings", "pairs": 2, "exact": 1, "missed": 0, "against": 0}
    lines = [{**line, "part": str(k), "seconds": 1.5} for k in range(3)]
    assert table(lines).splitlines()[2] == "| sr | `rings` | 6 | 3 | 0 | 0 | 4 |"


@pytest.mark.parametrize("name", SETS)
def test_every_set_has_graphs_with_features(name):
    part, examples, in_turns = next(iter(SETS[name](data_folder("brec").parent)))
    assert part
    assert len(examples) % 2 == 0 or not in_turns
    assert all("i" in one.features for one in examples)
