"""The same entries told by other assignments: all of them are found, and nothing else changes."""

from itertools import product

import pytest
import torch

from incidence.algebra import Pattern
from incidence.structure import Structure
from incidence.testing.rewriting import rewritten
from tests.structure.listing import entry_of

REWRITTEN = {
    "{i j}": [[0, 1, 3], [1, 2, 2]],
    "{i j k}": [[0], [1], [2]],
    "[i j k]": [[0, 1, 2, 3], [0, 2, 2, 3], [1, 3, 2, 1]],
    "i {i j k}": [[0, 3], [1, 2], [2, 1]],
    "i {j k}": [[0, 3], [1, 3], [2, 1]],
    "(i j) {j k l}": [[0, 1], [1, 2], [3, 0], [0, 3]],
    "{i j} {i k}": [[1, 0, 2, 0], [0, 1, 3, 3], [2, 1, 3, 1]],
    "{i j} {k l}": [[0, 1], [1, 2], [2, 2], [3, 1]],
    "{i ...}": [[0, 1, 2, 2, 3], [0, 0, 0, 1, 1]],
    "{i j} {i ...}": ([[0, 1], [1, 2]], [[0, 1, 3, 1], [0, 0, 0, 1]]),
}


@pytest.mark.parametrize("text", REWRITTEN)
def test_rewriting_keeps_every_entry(text):
    structure = Structure(4, {text: REWRITTEN[text]})
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        assert rewritten(structure, generator) == structure


@pytest.mark.parametrize("text", [text for text in REWRITTEN if not Pattern(text).is_open])
def test_rewriting_finds_every_assignment_of_an_entry(text):
    pattern = Pattern(text)
    for column in zip(*REWRITTEN[text], strict=True):
        structure = Structure(4, {text: [[node] for node in column]})
        generator = torch.Generator().manual_seed(0)
        found = {tuple(rewritten(structure, generator)[text][:, 0].tolist()) for _ in range(60)}
        every = product(range(4), repeat=len(pattern.letters))
        same = {
            other
            for other in every
            if entry_of(pattern, list(other)) == entry_of(pattern, list(column))
        }
        # a lone entry is never left as it was, if it can be helped
        assert found == (same - {column} or {column})


def test_rewriting_keeps_sorts_apart_and_leaves_ordered_faces_alone():
    structure = Structure(
        {"a": 3, "b": 3}, {"{u:a v:a m:b}": [[0], [1], [1]], "(u:a v:a)": [[0, 1], [2, 0]]}
    )
    new = rewritten(structure, torch.Generator().manual_seed(0))
    assert new["{u:a v:a m:b}"].T.tolist() == [[1, 0, 1]]
    assert torch.equal(new["(u:a v:a)"], structure["(u:a v:a)"])
