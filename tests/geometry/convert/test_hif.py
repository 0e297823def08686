"""HIF files: hypergraphs, directed ones, and what only pairs of nodes and edges can hold."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from incidence.errors import IncidenceError, TooLargeError
from incidence.geometry.convert import read_hif, write_hif
from incidence.structure import Example, Structure
from tests.geometry.convert.random_examples import random_example, seeds
from tests.little_memory import little_memory
from tests.structure.random_structures import random_structure

few = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def keys_of(text: str, num_nodes: int, seed: int) -> list[str]:
    structure = random_structure(
        {"node": num_nodes, "edge": 3} if "edge" in text else num_nodes, [text], seed
    )
    keys = ["i", text, *(["e:edge"] if "edge" in text else [])]
    return [key for key in keys if structure.num_entries(key)]


@few
@given(
    st.sampled_from(["{i ...}", "{i ...} {j ...}", "i e:edge", "group={i ...}"]),
    st.integers(0, 6),
    seeds,
    st.booleans(),
)
def test_hypergraphs_come_back(tmp_path, text, num_nodes, seed, has_features):
    counts = {"node": num_nodes, "edge": 3} if "edge" in text else num_nodes
    keys = keys_of(text, num_nodes, seed) if has_features else []
    example = random_example(counts, [text], keys, seed)
    write_hif(example, tmp_path / "graph.hif.json")
    assert read_hif(tmp_path / "graph.hif.json") == example


def write(folder: Path, **content: Any) -> Path:
    path = folder / "graph.json"
    path.write_text(json.dumps(content))
    return path


PAIRS = [{"edge": "one", "node": "b"}, {"edge": "one", "node": "a"}, {"edge": "two", "node": "a"}]


def test_nodes_and_edges_are_numbered_as_listed_then_as_they_come(tmp_path):
    example = read_hif(write(tmp_path, incidences=PAIRS, nodes=[{"node": "c"}, {"node": "a"}]))
    assert example.structure.num_nodes == 3
    assert example.structure["{i ...}"].tolist() == [[2, 1, 1], [0, 0, 1]]
    assert not example.features


def test_weights_and_numbers_among_attributes_are_features(tmp_path):
    nodes = [
        {"node": n, "weight": k, "attrs": {"at": [k, 1.5], "name": "x", "is_good": True}}
        for k, n in enumerate("abc")
    ]
    edges = [{"edge": "one", "attrs": {"cost": 2}}, {"edge": "two", "attrs": {"cost": 3}}]
    example = read_hif(
        write(tmp_path, **{"network-type": "asc"}, incidences=PAIRS, nodes=nodes, edges=edges)
    )
    assert example.features["i"].tolist() == [[0.0, 0.0, 1.5], [1.0, 1.0, 1.5], [2.0, 2.0, 1.5]]
    assert example.features["{i ...}"].tolist() == [[2], [3]]


def test_directed_edges_have_tails_and_heads(tmp_path):
    incidences = [
        {**pair, "direction": "tail" if pair["node"] == "b" else "head"} for pair in PAIRS[:2]
    ]
    example = read_hif(write(tmp_path, **{"network-type": "directed"}, incidences=incidences))
    _, tails, heads = example.structure["{i ...} {j ...}"]
    assert (tails.tolist(), heads.tolist()) == ([[0], [0]], [[1], [0]])


def test_pairs_hold_weights_of_incidences_empty_edges_and_equal_ones(tmp_path):
    incidences = [{**pair, "weight": k} for k, pair in enumerate(PAIRS)]
    path = write(
        tmp_path,
        incidences=[*incidences, {"edge": "three", "node": "a", "weight": 7}],
        edges=[{"edge": "none"}],
    )
    example = read_hif(path, "i e:edge")
    assert example.structure.num_nodes == {"edge": 4, "node": 2}
    assert example.features["i e:edge"].tolist() == [[0], [1], [2], [7]]


def test_a_compressed_file_is_read(tmp_path):
    path = tmp_path / "graph.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"incidences": PAIRS}).encode()))
    assert read_hif(path).structure.num_entries("{i ...}") == 2


def test_a_file_without_incidences_has_no_edges(tmp_path):
    assert read_hif(write(tmp_path, incidences=[], nodes=[{"node": 5}])) == Example(
        Structure(1, {"{i ...}": []})
    )


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ({}, {}, r"graph.json is no HIF file: it must be an object with a list of `incidences`"),
        ({"incidences": [{"node": 1}]}, {}, "incidence 0 is a record with `node` and `edge`; got"),
        (
            {"incidences": [{"node": [1], "edge": 1}]},
            {},
            "incidence 0 is a record with `node` and `edge`; got",
        ),
        (
            {"incidences": [], "nodes": [{"id": 1}]},
            {},
            "number 0 of `nodes` is a record with `node`; got",
        ),
        ({"incidences": [], "edges": [{"edge": 1}, {"edge": 1}]}, {}, "the edge 1 is listed twice"),
        (
            {"incidences": [], "network-type": "other"},
            {},
            "the network-type is undirected, directed or asc; got 'other'",
        ),
        (
            {"incidences": PAIRS, "edges": [{"edge": "none"}]},
            {},
            "the edge 'none' has no node, and a face has at least one. Read the file with",
        ),
        (
            {"incidences": [{**PAIRS[0], "weight": 2}]},
            {},
            r"has weights or numbers for incidences.*pattern='i e:edge'",
        ),
        (
            {"incidences": PAIRS, "nodes": [{"node": "a", "weight": 1}]},
            {},
            "number 1 of the nodes has other numbers than the rest",
        ),
        (
            {"incidences": PAIRS},
            {"pattern": "{i j}"},
            r"a HIF file is read as `{i ...}`, .* got `{i j}`",
        ),
        (
            {"incidences": PAIRS, "network-type": "directed"},
            {},
            "incidence 0 of a directed hypergraph has the direction `tail` or `head`; got None",
        ),
        ({"incidences": [*PAIRS, {"edge": "two", "node": "b"}]}, {}, "denote one entry"),
        (
            {"incidences": [], "metadata": [1]},
            {},
            r"graph.json is no HIF file: `metadata` is an object; got \[1\]",
        ),
        (
            {"incidences": [], "metadata": {"types": "float"}},
            {},
            "`types` is an object; got 'float'",
        ),
        (
            {"incidences": [], "metadata": {"pattern": "{i"}},
            {},
            "its metadata has the pattern '{i', which is none",
        ),
        (
            {"incidences": [], "network-type": ["directed"]},
            {},
            r"`network-type` is a text; got \['directed'\]",
        ),
        ({"incidences": [], "nodes": 7}, {}, "`nodes` is a list; got 7"),
        (
            {"incidences": [], "nodes": [{"node": 1, "attrs": [1]}]},
            {},
            r"`attrs` is an object; got \[1\]",
        ),
        (
            {"incidences": [], "nodes": [{"node": 1, "weight": 10**400}]},
            {},
            "the nodes have a number that is too large, or not of their type",
        ),
        (
            {"incidences": [], "nodes": [{"node": 1, "weight": float("nan")}]},
            {},
            "number 0 of the nodes has a value that is no finite number",
        ),
        (
            {
                "incidences": [],
                "metadata": {"types": {"nodes": "uint8"}},
                "nodes": [{"node": 1, "weight": 300}],
            },
            {},
            "not of their type",
        ),
        (
            {
                "incidences": [],
                "metadata": {"types": {"nodes": "qint8"}},
                "nodes": [{"node": 1, "weight": 3}],
            },
            {},
            "not of their type",
        ),
    ],
)
def test_files_that_do_not_fit_are_refused(content, arguments, message, tmp_path):
    with pytest.raises(IncidenceError, match=message):
        read_hif(write(tmp_path, **content), **arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"incidences": [], "nodes": [{"node": 1}, {"node": 2, "weight": 1e999}]}',
            "number 0 of the nodes has other numbers",
        ),
        (
            '{"incidences": [], "nodes": [{"node": 1, "weight": 1e999}]}',
            "number 0 of the nodes has a value that is no finite number",
        ),
        ('{"incidences": ' + "[" * 200_000, "its lists or objects lie too deep in each other"),
        (
            '{"incidences": [{"node": ' + "9" * 5000 + "}]}",
            "is no HIF file: a number has thousands of digits",
        ),
    ],
    ids=["some numbers", "infinite", "200,000 brackets", "5,000 digits"],
)
def test_numbers_and_brackets_beyond_all_bounds_are_refused(text, message, tmp_path):
    (tmp_path / "graph.json").write_text(text)
    with pytest.raises(IncidenceError, match=message):
        read_hif(tmp_path / "graph.json")


def test_a_file_that_unpacks_to_more_than_is_allowed_is_refused_before_it_does(
    tmp_path, monkeypatch
):
    (tmp_path / "graph.hif.json.gz").write_bytes(
        gzip.compress(b'{"incidences": [' + b" " * (1 << 24))
    )
    monkeypatch.setenv("INCIDENCE_MAX_GB", "0.01")
    with (
        little_memory(),
        pytest.raises(
            TooLargeError, match=r"graph\.hif\.json\.gz, unpacked, would take at least 0\.01 GB"
        ),
    ):
        read_hif(tmp_path / "graph.hif.json.gz")


def test_features_for_which_json_has_no_words_are_not_written(tmp_path):
    with pytest.raises(
        IncidenceError, match="write_hif: the features have values that are no finite numbers"
    ):
        write_hif(
            Example(Structure(1, {"{i ...}": []}), {"i": torch.tensor([[torch.nan]])}),
            tmp_path / "file",
        )
    assert not list(tmp_path.iterdir())


def test_files_that_are_something_else_are_refused(tmp_path):
    with pytest.raises(IncidenceError, match=r"there is no file .*nowhere"):
        read_hif(tmp_path / "nowhere")
    (tmp_path / "text").write_text("{")
    with pytest.raises(IncidenceError, match=r"text is no HIF file: Expecting property name"):
        read_hif(tmp_path / "text")
    (tmp_path / "broken.gz").write_bytes(b"\x1f\x8bxx")
    with pytest.raises(IncidenceError, match="is no HIF file"):
        read_hif(tmp_path / "broken.gz")


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (Structure(2, {"{i j}": [[0], [1]]}), r"a HIF file holds `{i ...}`, .* not `{i j}`"),
        (
            Structure(2, {"{i ...}": [[0], [0]], "{i j}": [[0], [1]]}),
            "a HIF file has no place for `{i j}`",
        ),
        (
            Example(Structure(1, {"{i ...}": [[0], [0]]}), target=1.0),
            "a HIF file has no place for a target",
        ),
    ],
)
def test_what_a_file_cannot_hold_is_refused(example, message, tmp_path):
    with pytest.raises(IncidenceError, match=message):
        write_hif(example, tmp_path / "file")
    assert not list(tmp_path.iterdir())


def test_numbers_of_eight_bits_are_read_as_such(tmp_path):
    types = {"types": {"nodes": "float8_e4m3fn"}}
    found = read_hif(
        write(
            tmp_path,
            incidences=PAIRS,
            metadata=types,
            nodes=[{"node": name, "weight": 2} for name in "abc"],
        )
    )
    assert (found.features["i"].dtype, found.features["i"].float().tolist()) == (
        torch.float8_e4m3fn,
        [[2], [2], [2]],
    )
