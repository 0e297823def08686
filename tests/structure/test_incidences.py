"""Which nodes lie in which entries, both ways, for tensors of any kind."""

import pytest

from incidence import Structure
from incidence.algebra.pattern import Pattern
from incidence.structure.incidences import incidences
from tests.structure.listing import entries_of
from tests.structure.random_structures import random_structure

SORTS = ["u:user m:movie", "{u:user v:user}"]
SIDES = [
    ["{i j}"],
    ["(i j)", "{i j k}"],
    ["i j"],
    ["{i ...}"],
    ["i {i ...}", "{i j}"],
    ["{i j} {i k}"],
    SORTS,
]


@pytest.mark.parametrize("texts", SIDES, ids=", ".join)
@pytest.mark.parametrize("seed", range(3))
def test_nodes_of_entries_and_entries_of_nodes_are_those_that_are_listed(texts, seed):
    structure = random_structure(5, texts, seed)
    found = incidences(structure, [Pattern(text) for text in texts])
    offsets, first = {}, 0
    for sort in sorted(structure.counts):
        offsets[sort], first = first, first + structure.counts[sort]
    wanted = [
        {offsets[sort] + node for face in entry for sort, node in face}
        for text in texts
        for entry in entries_of(structure, text)
    ]
    assert [
        set(part.tolist()) for part in found.nodes.split(found.entry_ptr.diff().tolist())
    ] == wanted
    assert found.entry_ptr.diff().tolist() == [len(nodes) for nodes in wanted]
    by_node = [part.tolist() for part in found.entries.split(found.node_ptr.diff().tolist())]
    assert by_node == [
        [k for k, nodes in enumerate(wanted) if node in nodes]
        for node in range(structure.total_nodes)
    ]


def test_they_are_found_once():
    structure = Structure(3, {"{i j}": [[0, 1], [1, 2]]})
    assert incidences(structure, [Pattern("{i j}")]) is incidences(structure, [Pattern("{a b}")])


def test_a_structure_without_entries_has_none():
    found = incidences(Structure(2, {"{i j}": [[], []]}), [Pattern("{i j}")])
    assert (found.nodes.tolist(), found.node_ptr.tolist(), found.entry_ptr.tolist()) == (
        [],
        [0, 0, 0],
        [0],
    )
