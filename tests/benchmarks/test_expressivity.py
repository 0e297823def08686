"""BREC decided exactly: kinds of networks, lines that are not run again, and the table."""

import json

import pytest

from benchmarks.expressivity import GROUPS, KINDS, Kind, decided, main, num_keys, read_pairs, table
from incidence.geometry import lifting
from tests.data_folder import data_folder


@pytest.fixture(scope="module")
def basic():
    return read_pairs(data_folder("brec").parent, "basic")


def num_apart(kind, pairs):
    return sum(kind.judge(pair).is_apart for pair in pairs)


def test_nodes_and_edges_tell_no_pair_apart_and_products_do(basic):
    assert len(basic) == GROUPS["basic"] == 60
    few = basic[::20]
    assert num_apart(KINDS["`graph`"], few) == 0
    assert num_apart(KINDS["`ppgn`"], few) == len(few)
    assert num_apart(KINDS["`triangles`"], few) == len(few)


def test_classes_of_several_pairs_are_those_of_each(basic):
    graphs = [one for pair in basic[:6] for one in pair]
    classes = KINDS["`triangles`"].classes(graphs)
    apart = [classes[2 * k] != classes[2 * k + 1] for k in range(6)]
    assert apart == [KINDS["`triangles`"].judge(pair).is_apart for pair in basic[:6]]


def test_pairs_that_are_too_large_say_how_large_they_are(basic, monkeypatch):
    monkeypatch.setattr("benchmarks.expressivity._MOST_KEYS", 10)
    verdict = Kind("rings", {"max_size": 5}).judge(basic[0])
    assert verdict.is_apart is None
    assert " entries, with " in verdict.why
    ring = lifting.rings(basic[0][0].structure, max_length=5)
    [_, (_, homes)] = ring.index("ring")
    sizes = homes.bincount().tolist()
    assert num_keys(ring) == sum(size * (size + 1) // 2 for size in sizes)


def test_pairs_come_from_the_smallest_to_the_largest():
    cfi = dict(enumerate(read_pairs(data_folder("brec").parent, "cfi")[50:56]))
    lines = list(decided("a", Kind("graph"), "cfi", cfi))
    nodes = [line["nodes"] for line in lines]
    assert nodes == sorted(nodes)
    assert {line["pair"] for line in lines} == set(cfi)


def test_what_fewer_rings_tell_apart_is_not_run_again(basic):
    few, more = "`rings`, up to 5 nodes", "`rings`, up to 6 nodes"
    assert KINDS[more].includes == few
    known = [{"kind": few, "group": "basic", "pair": k, "apart": k < 1, "by": few} for k in (0, 1)]
    known.append({"kind": few, "group": "regular", "pair": 2, "apart": True, "by": few})
    pairs = dict(enumerate(basic[:3]))
    lines = {line["pair"]: line for line in decided(more, KINDS[more], "basic", pairs, known)}
    assert {number for number, line in lines.items() if line.get("by") == few} == {0}
    assert all(line["kind"] == more and line["apart"] for line in lines.values())


def test_a_table_says_what_was_left_out():
    def lines(kind, group, decided, count, seconds=1):
        return [
            {"kind": kind, "group": group, "pair": k, "apart": decided, "seconds": seconds}
            for k in range(count)
        ]

    whole = [line for group, n in GROUPS.items() for line in lines("a", group, True, n)]
    part = [line for line in whole if line["group"] != "cfi"]
    part = [*part, *lines("a", "cfi", True, 7), *lines("a", "cfi", None, 93)]
    none = lines("a", "basic", False, 60, seconds=0)
    assert table(whole).splitlines()[2].endswith("| **400** | 400 |")
    assert "| 7 of 7 |" in table(part)
    assert table(part).splitlines()[2].endswith("| **307 of 307** | 400 |")
    assert table(none).splitlines()[2] == "| a | 0 | - | - | - | - | - | - | **0 of 60** | 0 |"


def test_lines_of_a_file_are_not_run_again(tmp_path, capsys):
    path = tmp_path / "lines.jsonl"
    words = ["--folder", str(data_folder("brec").parent), "--every", "30", "--out", str(path)]
    words += ["--kinds", "graph", "--groups", "basic"]
    lines = main(words)
    assert {line["pair"] for line in lines} == {0, 30}
    rows = path.read_text(encoding="utf-8").splitlines()
    changed = {**lines[1], "apart": True}
    path.write_text(f"{rows[0]}\n{json.dumps(changed)}\n", encoding="utf-8")
    again = main(words)
    assert again[1]["apart"] is True
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2
    assert "1 of 2" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_runs(name, monkeypatch):
    monkeypatch.setattr("benchmarks.expressivity.KINDS", {name: KINDS[name]})
    words = ["--folder", str(data_folder("brec").parent), "--every", "25", "--most-nodes", "18"]
    assert {line["kind"] for line in main(words)} == {name}
