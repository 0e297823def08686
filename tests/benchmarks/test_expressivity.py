"""BREC decided exactly: kinds of networks, the pairs that are small enough, and the table."""

import pytest

from benchmarks.expressivity import GROUPS, KINDS, Kind, main, measured, read_pairs, table
from tests.data_folder import data_folder


@pytest.fixture(scope="module")
def basic():
    return read_pairs(data_folder("brec").parent, "basic")


def test_nodes_and_edges_tell_no_pair_apart_and_products_do(basic):
    assert len(basic) == GROUPS["basic"] == 60
    few = basic[::20]
    assert measured(KINDS["`graph`"], few)["apart"] == 0
    assert measured(KINDS["`ppgn`"], few)["apart"] == len(few)
    assert measured(KINDS["`triangles`"], few)["apart"] == len(few)


def test_larger_graphs_are_left_out_and_counted(basic):
    own = measured(Kind("graph", most_nodes=9), basic[:3])
    assert (own["apart"], own["run"], own["pairs"]) == (0, 0, 3)


def test_a_table_says_what_was_left_out():
    whole = {group: {"apart": 1, "run": n, "pairs": n, "seconds": 1} for group, n in GROUPS.items()}
    part = {**whole, "cfi": {"apart": 1, "run": 7, "pairs": 100, "seconds": 1}}
    none = {**whole, "cfi": {"apart": 0, "run": 0, "pairs": 100, "seconds": 0}}
    lines = table({"a": whole, "b": part, "c": none}).splitlines()
    assert lines[2].endswith("| **7** | 7 |")
    assert "1 of 7" in lines[3]
    assert "| 7 of 307 |" in lines[3]
    assert "| - |" in lines[4]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in KINDS if "order3" not in name])
def test_every_kind_runs(name, monkeypatch):
    monkeypatch.setattr("benchmarks.expressivity.KINDS", {name: KINDS[name]})
    words = ["--folder", str(data_folder("brec").parent), "--every", "25", "--most-nodes", "20"]
    assert set(main(words)) == {name}
