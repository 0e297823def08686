"""Entries of random structures against plain listings: read, told apart, ordered."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._pytree import tree_leaves

from incidence.algebra import EquivariantMap, Pattern
from incidence.engine.plan import plan_of
from incidence.errors import IncidenceError
from incidence.structure import Structure
from tests.structure.indexed_patterns import INDEXED, modest
from tests.structure.listing import entries_of
from tests.structure.random_structures import random_structure

seeds = st.integers(0, 10**4)


@modest
@given(st.sampled_from(INDEXED), st.permutations("pqrs"), seeds)
def test_any_spelling_reads_the_same_entries(text, names, seed):
    structure = random_structure(4, [text], seed)
    pattern = Pattern(text)
    spelt = str(pattern.rename(dict(zip(pattern.letters, names, strict=False))))
    assert entries_of(structure, spelt) == entries_of(structure, text)


@modest
@given(st.sampled_from([t for t in INDEXED if "..." not in t]), seeds)
def test_a_duplicate_is_found_wherever_it_stands(text, seed):
    structure = random_structure(4, [text], seed)
    count = structure.num_entries(text)
    again = seed % max(count, 1)
    index = torch.cat([structure[text], structure[text][:, again : again + 1]], dim=1)
    if not count:
        assert Structure(structure.counts, {text: index}) == structure
        return
    with pytest.raises(IncidenceError, match=rf"columns {again} and {count} denote one entry"):
        Structure(structure.counts, {text: index})


@modest
@given(st.sampled_from(INDEXED), st.integers(0, 5), seeds)
def test_the_canonical_structure_has_the_same_entries_in_the_order_of_its_rows(
    text, num_nodes, seed
):
    structure = random_structure(num_nodes, [text], seed)
    ordered, rows = structure.canonical()
    [moved] = rows.values()
    listed = entries_of(structure, text)
    assert sorted(moved.tolist()) == list(range(len(listed)))
    assert entries_of(ordered, text) == [listed[row] for row in moved.tolist()]
    assert all(
        again.tolist() == list(range(len(again))) for again in ordered.canonical()[1].values()
    )


def test_the_index_of_the_caller_is_not_changed_by_what_happens_later():
    edges = torch.tensor([[2, 0, 1], [3, 1, 2]])
    index = edges.clone()
    structure = Structure(4, {"(i j)": index, "{i j}": index})
    structure.canonical()
    structure.relabel([3, 2, 1, 0])
    plan_of(structure, EquivariantMap("(i j) -> {i j}"))
    assert torch.equal(index, edges)


def test_pinning_pins_every_tensor(monkeypatch):
    pinned = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: pinned.append(self) or self)
    structure = Structure(
        4, {"(i j)": torch.tensor([[0], [1]]), "{i ...}": torch.tensor([[0, 1], [0, 0]])}
    )
    assert structure.pin_memory() == structure
    assert len(pinned) == len(tree_leaves(structure))
