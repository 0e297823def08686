"""Oriented faces in structures: the column of an entry is its reference orientation, and whatever
moves the entry keeps it.
"""

from itertools import permutations, product
from math import prod

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence.algebra import Pattern
from incidence.errors import IncidenceError
from incidence.structure import Example, Structure, collate, pack, uncollate
from incidence.structure.arrange import orientations
from tests.algebra.brute_force import sign
from tests.structure.listing import (
    entries_of,
    entry_of,
    letters_of,
    orientation_signs,
    oriented_faces,
)
from tests.structure.random_structures import random_structure

T = torch.tensor
PATTERNS = [
    "<i j>",
    "<i j k>",
    "i <i j>",
    "i <j i>",
    "{i j} <i j k>",
    "<i j> <j k>",
    "<i j> {j k}",
    "<i j> <k l>",
    "[i j] <j k>",
    "(i j) <i k j>",
    "<i:a j:a k:b>",
    "<i:b j:a> <k:a i:b>",
    "<i j> {i ...}",
    "<i j> {k ...}",
]
modest = settings(deadline=None, max_examples=60, derandomize=True)
patterns, seeds = st.sampled_from(PATTERNS), st.integers(0, 10**4)


@modest
@given(patterns, seeds)
def test_the_sign_of_an_entry_is_that_of_its_column_against_classes_in_order(text, seed):
    structure = random_structure(5, [text], seed)
    assert orientations(structure, text).tolist() == orientation_signs(structure, text)


@modest
@given(patterns, seeds)
def test_the_sign_of_an_entry_is_found_in_a_batch_too(text, seed):
    batch = collate([random_structure(n, [text], seed) for n in (4, 5)])
    expected = [s for part in uncollate(batch) for s in orientation_signs(part, text)]
    assert orientations(batch, text).tolist() == expected


@pytest.mark.parametrize("text", [text for text in PATTERNS if "..." not in text])
def test_every_assignment_locates_its_entry_with_the_sign_of_its_orientation(text):
    pattern = Pattern(text)
    structure = random_structure(4, [text], 1, draws=4)
    for row, (entry, own) in enumerate(
        zip(entries_of(structure, text), letters_of(structure, text), strict=True)
    ):
        for letters in product(range(4), repeat=len(pattern.letters)):
            faces = oriented_faces(pattern, list(letters))
            if entry_of(pattern, list(letters)) != entry or any(
                len(set(face)) < len(face) for face in faces
            ):
                continue
            pairs = zip(oriented_faces(pattern, own), faces, strict=True)
            expected = prod(sign([one.index(node) for node in other]) for one, other in pairs)
            rows, signs = structure.locate(text, T(letters)[:, None], with_sign=True)
            assert (rows.tolist(), signs.tolist()) == ([row], [expected])


def test_absent_entries_have_the_sign_zero():
    structure = Structure(4, {"<i j k>": [[2], [0], [1]]})
    rows, signs = structure.locate("<i j k>", T([[0, 1, 0], [1, 0, 1], [2, 2, 3]]), with_sign=True)
    assert (rows.tolist(), signs.tolist()) == ([0, 0, -1], [1, -1, 0])
    assert structure.locate("<i j k>", T([[0, 1, 0], [1, 0, 1], [2, 2, 3]])).tolist() == [0, 0, -1]
    rows, signs = Structure(4, {"<i j>": []}).locate("<i j>", T([[0], [1]]), with_sign=True)
    assert (rows.tolist(), signs.tolist()) == ([-1], [0])


def test_unoriented_entries_have_the_sign_one():
    assert Structure(3, {"{i j}": [[2], [0]]}).locate("{i j}", T([[0], [2]]), with_sign=True)[
        1
    ].tolist() == [1]


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("<i j>", "<j i>"),
        ("<i j k>", "<k i j>"),
        ("{i j} <i j k>", "{i j} <j i k>"),
        ("{i j} <i j k>", "{j k} <k i j>"),
        ("i <i j k>", "i <k j i>"),
        ("<i j> <j k>", "<b c> <c a>"),
        ("<i j> <k l>", "<j i> <k l>"),
    ],
)
def test_another_spelling_gives_columns_of_the_same_orientation(given, asked):
    structure = random_structure(4, [given], 0)
    assert Structure(4, {asked: structure[asked]}) == structure
    assert structure.locate(asked, structure[asked], with_sign=True)[1].unique().tolist() == [1]
    assert collate([structure, Structure(4, {asked: structure[asked]})]) == collate([structure] * 2)


def test_the_same_entries_with_the_opposite_sign_are_another_tensor():
    structure = Structure(3, {"i <i j>": [[0], [1]]})
    with pytest.raises(
        IncidenceError,
        match=r"There is `i <i j>`, which has the same entries and values of the opposite sign",
    ):
        structure["i <j i>"]
    both = structure.with_index({"i <j i>": [[0], [1]]})
    assert len(both.patterns) == 2


@pytest.mark.parametrize("columns", [[[0, 0], [1, 1]], [[0, 1], [1, 0]]], ids=["same", "reversed"])
def test_two_columns_of_one_entry_are_refused_whatever_their_orientation(columns):
    with pytest.raises(
        IncidenceError, match="columns 0 and 1 denote one entry, whatever its orientation"
    ):
        Structure(3, {"<i j>": columns})


def test_repeated_nodes_are_refused():
    with pytest.raises(
        IncidenceError,
        match=r"an oriented face has distinct nodes.*Remove the self-loop, its value would be 0",
    ):
        Structure(3, {"<i j>": [[1], [1]]})


TRIANGLES = {
    "<i j>": T([[0, 2, 2], [1, 1, 0]]),
    "<i j k>": T([[2, 3], [0, 1], [1, 0]]),
    "i <i j>": T([[2, 1], [0, 3]]),
}


def test_relabelling_renames_the_columns_and_keeps_their_order():
    structure, names = Structure(4, TRIANGLES), T([3, 0, 2, 1])
    assert all(
        torch.equal(structure.relabel(names)[text], names[index])
        for text, index in TRIANGLES.items()
    )


def test_induced_and_chosen_entries_keep_their_columns():
    structure = Structure(4, TRIANGLES)
    assert structure.induced([2, 0, 1])["<i j k>"].tolist() == [[0], [1], [2]]
    assert structure.select("<i j>", [2, 0])["<i j>"].tolist() == [[2, 0], [0, 1]]
    assert structure.masked("<i j>", [False, True, True], "some")["some"].tolist() == [
        [2, 2],
        [1, 0],
    ]


def test_canonical_order_moves_columns_and_does_not_turn_them():
    structure = Structure(4, TRIANGLES)
    ordered, rows = structure.canonical()
    assert all(
        torch.equal(ordered[text], index[:, rows[text]]) for text, index in TRIANGLES.items()
    )


def test_batches_and_what_is_taken_from_them_keep_orientations():
    parts = [Structure(4, TRIANGLES), Structure(4, TRIANGLES).relabel([3, 2, 1, 0])]
    batch = collate(parts)
    assert [batch[k] == part for k, part in enumerate(parts)] == [True, True]
    assert uncollate(batch) == parts
    assert collate(pack(parts)) == batch
    assert batch != collate([parts[0].reverse("<i j>", [0])[0], parts[1]])


def test_files_and_examples_keep_orientations(tmp_path):
    structure = Structure(4, TRIANGLES)
    structure.save(tmp_path / "s")
    assert Structure.load(tmp_path / "s") == structure
    example = Example(structure, {"<i j>": torch.randn(3, 2)})
    example.save(tmp_path / "e")
    assert Example.load(tmp_path / "e") == example
    assert example.canonical().structure == structure.canonical()[0]
    assert example != Example(structure.reverse("<i j>")[0], example.features)


def test_faces_of_a_complete_structure_ascend():
    structure = Structure.complete(4, ["<i j>", "<i j k>"])
    assert all(bool((structure[text].diff(dim=0) > 0).all()) for text in ("<i j>", "<i j k>"))


def test_entries_found_from_faces_are_oriented_as_their_letters_are_written():
    structure = (
        Structure(3, {"<i j>": [[1, 2], [0, 1]]})
        .with_pattern("i <i j>")
        .with_pattern("<i j> <j k>")
    )
    i, j = structure["i <i j>"]
    assert sorted(zip(i.tolist(), j.tolist(), strict=True)) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert structure.num_entries("<i j> <j k>") == 4


@pytest.mark.parametrize(
    "text",
    [
        "<i j>",
        "<i j k>",
        "{i j} <i j k>",
        "<i j> <k l>",
        "<i:a j:a k:b>",
        "<i j> {k ...}",
        "flow=<i j>",
    ],
)
def test_reversing_some_entries_reverses_just_these(text):
    structure = random_structure(5, [text], 3)
    mask = torch.arange(structure.num_entries(text)) % 2 == 0
    turned, signs = structure.reverse(text, mask)
    assert signs.tolist() == [-1 if m else 1 for m in mask]
    assert entries_of(turned, text) == entries_of(structure, text)
    assert torch.equal(orientations(turned, text), orientations(structure, text) * signs)
    assert turned.reverse(text, mask)[0] == structure
    assert structure.reverse(text)[1].unique().tolist() == [-1]


def test_reversing_refuses_what_has_no_orientation_to_choose():
    structure = Structure(3, {"i <i j>": [[0], [1]], "{i j}": [[0], [1]], "<i j>": [[0], [1]]})
    with pytest.raises(IncidenceError, match="its text settles the orientation of every entry"):
        structure.reverse("i <i j>")
    with pytest.raises(IncidenceError, match="it has no oriented face"):
        structure.reverse("{i j}")
    with pytest.raises(
        IncidenceError,
        match="reverse needs a mask of the 1 entries of `<i j>`, or different rows of 0 to 0",
    ):
        structure.reverse("<i j>", [1])


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_a_permuted_column_differs_by_the_sign_of_the_permutation(order):
    column = T([[4], [1], [3]])
    structure = Structure(5, {"<i j k>": column})
    assert structure.locate("<i j k>", column[list(order)], with_sign=True)[1].tolist() == [
        sign([("node", p) for p in order])
    ]
