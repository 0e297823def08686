"""Operations by words, numbers and formulas."""

from __future__ import annotations

import pytest

import incidence as inc
from incidence.algebra import EquivariantMap, explain, read
from incidence.algebra.selection import WORDS, carried, predicate, word_for
from incidence.errors import IncidenceError

RINGS = EquivariantMap("i, {i j}, ring={i ...} -> i, {i j}, ring={i ...}", max_overlap=2)
MAPS = [
    EquivariantMap("i j -> i j"),
    EquivariantMap("i, {i j}, {i j k} -> i, {i j}, {i j k}"),
    RINGS,
    EquivariantMap("u:user m:movie -> u:user"),
]


def formulas(choice: object, m: EquivariantMap) -> list[str]:
    return [read(o).formula for o in m.operations if predicate(choice, m)(o)]


@pytest.mark.parametrize("m", MAPS, ids=str)
def test_every_operation_is_global_or_in_the_boundary_or_an_adjacency(m):
    for operation in m.operations:
        kinds = [word for word in ("global", "boundary", "adjacency") if WORDS[word](operation)]
        assert len(kinds) == 1
        assert WORDS["local"](operation) == (kinds != ["global"])
        assert not WORDS["self"](operation) or kinds == ["boundary"]
        assert word_for(operation) in (*kinds, "self")


def test_the_boundary_has_sides_of_rings_nodes_of_edges_and_back():
    assert formulas("boundary", RINGS) == [
        "y[i] = x[i]",
        "y[{i a}] = x[i]",
        "y[{i ...}] = x[i]",
        "y[i] = sum_j x[{i j}]",
        "y[{i j}] = x[{i j}]",
        "y[{i j ...}] = x[{i j}]",
        "y[u] = sum x[{u ...}]",
        "y[{u v}] = sum x[{u v ...}]",
    ]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, 15),
        ("all", 15),
        ("self", 3),
        (["self", "global"], 6 + 1),
        ([0, 14], 2),
        ("y[j i] = x[i j]", 1),
        (["y[j i]=x[i j]", 12, "self"], 3),
        (EquivariantMap("i j -> i j").operations[3], 1),
        (list(EquivariantMap("i j -> i j").operations[3:6]), 3),
        (lambda operation: operation.source.number == 0, 5),
    ],
)
def test_operations_are_chosen_by_words_numbers_formulas_themselves_or_a_function(choice, expected):
    assert len(formulas(choice, EquivariantMap("i j -> i j"))) == expected


def test_what_explain_lists_chooses_the_same_operations():
    explanation = explain("i, {i j} -> i, {i j}")
    listed = [o for block in explanation.data()["blocks"] for o in block["operations"]]
    m = explanation.map
    assert [formulas([o["number"]], m) for o in listed] == [[o["formula"]] for o in listed]


def test_a_choice_for_one_map_is_carried_to_others_by_the_tensors_they_share():
    head = EquivariantMap("{i j}, ring={i ...} -> ring={i ...}, i j", max_overlap=2)
    kept = [o for o in head.operations if carried(["y[{i j ...}] = x[{i j}]"], RINGS, head)(o)]
    assert [read(o).formula for o in kept if o.target.tensor == 0] == ["y[{i j ...}] = x[{i j}]"]
    # not known to the other map
    assert sum(o.target.tensor == 1 for o in kept) == sum(
        o.target.tensor == 1 for o in head.operations
    )
    words = [o for o in head.operations if carried("boundary", RINGS, head)(o)]
    assert all(map(WORDS["boundary"], words))
    assert any(o.target.tensor == 1 for o in words)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("bundary", "got 'bundary'. Did you mean 'boundary'?"),
        ("y[i j] = x[j i]", "got 'y[i j] = x[j i]'. Did you mean"),
        (["local", 15], "numbers from 0 to 14 or formulas that `explain` prints for `i j -> i j`"),
        (3.5, "got 3.5"),
        ([True], "got True"),
        (b"local", "got b'local'"),
        ({"local"}, "got {'local'}"),
    ],
)
def test_what_names_no_operation_is_refused(choice, message):
    with pytest.raises(IncidenceError) as error:
        predicate(choice, EquivariantMap("i j -> i j"))
    assert message in str(error.value)


@pytest.mark.parametrize("word", [word for word in WORDS if word != "all"])
def test_a_layer_has_the_operations_of_a_word(word):
    layer = inc.nn.Linear("i, {i j} -> i, {i j}", 2, 2, operations=word)
    expected = [o for o in layer.map.operations if WORDS[word](o)]
    assert [o for s in range(2) for t in range(2) for o in layer.operations_of(s, t)] == expected
    assert f"operations={len(expected)}" in repr(layer)
