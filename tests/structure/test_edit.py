"""Structures from structures: finding, adding, renaming, restricting and choosing entries."""

import re
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from incidence.algebra import Pattern
from incidence.errors import IncidenceError
from incidence.nn import Linear
from incidence.structure import Structure, collate
from tests.structure.indexed_patterns import INDEXED, modest
from tests.structure.listing import assignment_of, entries_of
from tests.structure.random_structures import random_structure

T = torch.tensor
PATH = T([[0, 1, 2], [1, 2, 3]])
patterns, seeds = st.sampled_from(INDEXED), st.integers(0, 10**4)


# ---- locate


@modest
@given(patterns, seeds)
def test_every_entry_is_found_at_its_row_and_absent_ones_nowhere(text, seed):
    structure, other = random_structure(4, [text], seed), random_structure(4, [text], seed + 1)
    row_of = {entry: row for row, entry in enumerate(entries_of(structure, text))}
    found = structure.locate(text, other[text])
    assert found.tolist() == [row_of.get(entry, -1) for entry in entries_of(other, text)]


@modest
@given(st.sampled_from([t for t in INDEXED if "..." not in t]), seeds)
def test_entries_are_found_by_any_of_their_assignments(text, seed):
    structure = random_structure(4, [text], seed)
    columns = [assignment_of(entry, Pattern(text)) for entry in entries_of(structure, text)]
    query = T(columns).view(-1, len(Pattern(text).letters)).T
    assert structure.locate(text, query).tolist() == list(range(len(columns)))


def test_queries_are_told_in_the_letters_of_the_text_of_the_query():
    structure = Structure(4, {"{i j} j": PATH})
    assert structure.locate("{i j} j", T([[0, 1], [1, 0]])).tolist() == [0, -1]
    assert structure.locate("{x y} x", T([[1, 0], [0, 1]])).tolist() == [0, -1]


def test_named_nodes_and_scalars_are_found():
    structure = Structure(4, {"bond={i j}": PATH})
    assert structure.locate("bond", T([[2, 3], [1, 0]])).tolist() == [1, -1]
    assert structure.locate("bond={a b}", T([[2], [1]])).tolist() == [1]
    assert structure.locate("i", T([[3, 0]])).tolist() == [3, 0]
    assert Structure(4, {"i": T([[3, 0]])}).locate("i", T([0, 1, 3])).tolist() == [1, -1, 0]


def test_nothing_is_found_where_nothing_is_asked_or_present():
    structure = Structure(4, {"(i j)": PATH, "{i j}": []})
    assert structure.locate("(i j)", []).tolist() == []
    assert structure.locate("{i j}", PATH).tolist() == [-1, -1, -1]


def test_entries_of_a_batch_are_found_by_the_numbers_of_its_nodes():
    batch = collate([Structure(4, {"(i j)": PATH})] * 2)
    assert batch.locate("(i j)", T([[4, 0, 3], [5, 1, 4]])).tolist() == [3, 0, -1]


# ---- with_index


def test_further_tensors_stand_beside_those_there():
    structure = Structure(4, {"(i j)": PATH})
    both = structure.with_index({"{i j}": PATH[:, :1], "bond={i j}": PATH})
    assert [str(p) for p in both.patterns] == ["(i j)", "{i j}", "bond={i j}"]
    assert torch.equal(both["(i j)"], PATH)
    assert [str(p) for p in structure.patterns] == ["(i j)"]


def test_entries_of_a_tensor_that_is_there_are_replaced_whatever_its_spelling():
    structure = Structure(4, {"(i j)": PATH, "i": T([[0]])})
    layer = Linear("(i j) -> i", 1, 1)
    layer.plan(structure)
    other = structure.with_index({"(a b)": T([[3], [0]])})
    assert other["(i j)"].tolist() == [[3], [0]]
    assert other["i"].tolist() == [[0]]
    assert layer(torch.ones(1, 1), other).shape == (1, 1)


def test_every_sort_is_kept():
    structure = Structure({"a": 2, "b": 3}, {"i:a j:b": T([[0], [2]])})
    assert structure.with_index({"{i:b j:b}": T([[0], [1]])}).num_nodes == {"a": 2, "b": 3}


# ---- relabel


@modest
@given(patterns, seeds)
def test_relabelling_renames_the_nodes_of_every_entry_in_place(text, seed):
    structure = random_structure(4, [text], seed)
    generator = torch.Generator().manual_seed(seed)
    labels = {sort: torch.randperm(n, generator=generator) for sort, n in structure.counts.items()}
    moved = structure.relabel(labels)
    kinds = [face.kind.is_ordered for face in Pattern(text).faces]
    for before, after in zip(entries_of(structure, text), entries_of(moved, text), strict=True):
        faces = [tuple((sort, int(labels[sort][v])) for sort, v in face) for face in before]
        assert (
            tuple(
                f if is_ordered else tuple(sorted(f))
                for f, is_ordered in zip(faces, kinds, strict=True)
            )
            == after
        )


def test_relabelling_back_gives_the_same_structure():
    structure = random_structure(5, ["i {j k}", "{i ...}"], seed=0)
    labels = T([3, 0, 4, 1, 2])
    assert structure.relabel(labels).relabel(labels.argsort()) == structure
    assert structure.relabel(labels.tolist()) == structure.relabel({"node": labels}) != structure


def test_one_sort_may_be_relabelled_alone():
    structure = Structure({"a": 2, "b": 2}, {"i:a j:b": T([[0], [0]])})
    assert structure.relabel({"b": [1, 0]})["i:a j:b"].tolist() == [[0], [1]]


def test_a_batch_is_relabelled_within_its_structures():
    batch = collate(
        [Structure(2, {"(i j)": T([[0], [1]])}), Structure(3, {"(i j)": T([[0], [2]])})]
    )
    moved = batch.relabel([1, 0, 4, 2, 3])
    assert moved["(i j)"].tolist() == [[1, 4], [0, 3]]
    assert moved[1]["(i j)"].tolist() == [[2], [1]]


# ---- induced


@modest
@given(patterns, seeds)
def test_the_induced_structure_has_the_entries_on_the_nodes_kept(text, seed):
    structure = random_structure(5, [text], seed)
    generator = torch.Generator().manual_seed(seed)
    kept = {
        sort: torch.randperm(n, generator=generator)[:3] for sort, n in structure.counts.items()
    }
    found = structure.induced(kept)
    new = {
        (sort, old): (sort, number)
        for sort, nodes in kept.items()
        for number, old in enumerate(nodes.tolist())
    }
    expected = []
    for entry in entries_of(structure, text):
        if all(node in new for face in entry for node in face):
            faces = [tuple(new[node] for node in face) for face in entry]
            kinds = [face.kind.is_ordered for face in Pattern(text).faces]
            expected.append(
                tuple(
                    f if is_ordered else tuple(sorted(f))
                    for f, is_ordered in zip(faces, kinds, strict=True)
                )
            )
    assert entries_of(found, text) == expected
    assert found.counts == dict.fromkeys(structure.counts, 3)


@pytest.mark.parametrize(
    "nodes",
    [[1, 2], T([1, 2]), T([False, True, True, False]), {"node": [1, 2]}],
    ids=["list", "tensor", "mask", "dict"],
)
def test_nodes_to_keep_are_numbers_or_a_mask(nodes):
    found = Structure(4, {"(i j)": PATH}).induced(nodes)
    assert found.num_nodes == 2
    assert found["(i j)"].tolist() == [[0], [1]]


def test_nodes_are_numbered_anew_in_the_given_order():
    assert Structure(4, {"(i j)": PATH}).induced([2, 1])["(i j)"].tolist() == [[1], [0]]


@pytest.mark.parametrize(
    "nothing",
    [[], T([], dtype=torch.long), torch.zeros(4, dtype=torch.bool)],
    ids=["list", "tensor", "mask"],
)
def test_no_node_may_be_kept(nothing):
    found = Structure(4, {"(i j)": PATH}).induced(nothing)
    assert (found.num_nodes, found.num_entries("(i j)")) == (0, 0)


# ---- select


@modest
@given(patterns, seeds)
def test_chosen_entries_stand_in_the_given_order(text, seed):
    structure = random_structure(
        4, [text, "{i ...}" if text != "{i ...}" and ":" not in text else text], seed
    )
    listed = entries_of(structure, text)
    rows = torch.randperm(len(listed), generator=torch.Generator().manual_seed(seed))[
        : len(listed) // 2
    ]
    found = structure.select(text, rows)
    assert entries_of(found, text) == [listed[row] for row in rows.tolist()]
    assert found.patterns == structure.patterns


@pytest.mark.parametrize(
    "which", [[0, 2], T([0, 2]), T([True, False, True])], ids=["list", "tensor", "mask"]
)
def test_entries_are_chosen_by_number_or_mask(which):
    structure = Structure(4, {"(i j)": PATH, "{i j}": PATH})
    found = structure.select("(a b)", which)
    assert found["(i j)"].tolist() == [[0, 2], [1, 3]]
    assert found.num_entries("{i j}") == 3


@pytest.mark.parametrize(
    "nothing",
    [[], T([], dtype=torch.long), torch.zeros(3, dtype=torch.bool)],
    ids=["list", "tensor", "mask"],
)
def test_no_entry_may_be_chosen(nothing):
    assert Structure(4, {"(i j)": PATH}).select("(i j)", nothing).num_entries("(i j)") == 0


def test_named_tensors_are_chosen_from_by_name():
    assert Structure(4, {"bond={i j}": PATH}).select("bond", [1])["bond"].tolist() == [[1], [2]]


def test_entries_of_a_batch_stay_with_their_structures():
    batch = collate([Structure(4, {"(i j)": PATH})] * 3)
    found = batch.select("(i j)", T([2, 0, 7, 8]))
    assert found.batch("(i j)").tolist() == [0, 0, 2, 2]
    assert [found[k]["(i j)"].tolist() for k in range(3)] == [
        [[2, 0], [3, 1]],
        [[], []],
        [[1, 2], [2, 3]],
    ]


# ---- equality


def edges(*columns: tuple[int, int], num_nodes: int = 4, text: str = "{i j}") -> Structure:
    return Structure(num_nodes, {text: T(columns).view(-1, 2).T})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (edges((0, 1), (1, 2)), edges((1, 0), (2, 1))),
        (edges((0, 1)), edges((0, 1), text="{a b}")),
        (edges(), Structure(4, {"{i j}": []})),
        (Structure(2), Structure({"node": 2})),
        (
            Structure(3, {"{i ...}": T([[0, 1, 2], [0, 0, 1]])}),
            Structure(3, {"{i ...}": T([[2, 1, 0], [1, 0, 0]])}),
        ),
        (collate([edges((0, 1))] * 2), collate([edges((1, 0))] * 2)),
    ],
    ids=["assignments", "spelling", "empty", "nodes", "open faces", "batches"],
)
def test_structures_with_the_same_entries_in_order_are_equal(one, other):
    assert one == other
    assert (one != other) is False


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (edges((0, 1), (1, 2)), edges((1, 2), (0, 1))),
        (edges((0, 1)), edges((0, 1), num_nodes=5)),
        (edges((0, 1)), edges((0, 2))),
        (edges((0, 1)), edges((0, 1), text="(i j)")),
        (edges((0, 1)), edges((0, 1), text="bond={i j}")),
        (edges((0, 1), text="(i j)"), edges((1, 0), text="(i j)")),
        (edges((0, 1), text="<i j>"), edges((1, 0), text="<i j>")),
        (edges((0, 1)), edges((0, 1), (1, 2))),
        (Structure({"a": 2, "b": 1}), Structure({"a": 1, "b": 2})),
        (Structure({"a": 2}), Structure({"b": 2})),
        (collate([Structure(1), Structure(2)]), collate([Structure(2), Structure(1)])),
        (collate([Structure(1), Structure(2)]), Structure(3)),
        (edges((0, 1)), "a structure"),
        (Structure(2), Structure(2, device="meta")),
    ],
    ids=[
        "order",
        "nodes",
        "entry",
        "pattern",
        "name",
        "direction",
        "orientation",
        "number",
        "sizes",
        "sorts",
        "parts",
        "batch",
        "type",
        "device",
    ],
)
def test_structures_that_differ_are_not_equal(one: Any, other: Any):
    assert one != other


def test_a_mask_keeps_some_entries_in_their_order():
    s = Structure(
        3, {"{i j}": torch.tensor([[0, 1, 0], [1, 2, 2]]), "i j": torch.tensor([[0], [0]])}
    )
    kept = s.masked("{i j}", torch.tensor([True, False, True]))
    assert kept["{i j}"].tolist() == [[0, 0], [1, 2]]
    assert kept.num_entries("i j") == 1
    assert kept == s.select("{i j}", [0, 2])


def test_a_mask_with_a_name_adds_a_tensor():
    s = Structure(3, {"{i j}": torch.tensor([[0, 1, 0], [1, 2, 2]])})
    both = s.masked("{i j}", [True, False, False], name="strong")
    assert both["strong"].tolist() == [[0], [1]]
    assert both.num_entries("{i j}") == 3
    assert both.masked("strong", [False]).num_entries("strong") == 0


def test_nodes_and_open_faces_may_be_masked():
    s = Structure(3, {"{i ...}": torch.tensor([[0, 1, 2, 0], [0, 0, 1, 1]])})
    assert s.masked("i", [True, False, True])["i"].tolist() == [[0, 2]]
    assert s.masked("{i ...}", [False, True])["{i ...}"].tolist() == [[2, 0], [0, 0]]


def test_masked_batches_are_batches_of_masked_structures():
    parts = [Structure.complete(n, ["{i j}"]) for n in (3, 2)]
    masks = [torch.tensor([True, False, True]), torch.tensor([False])]
    batch = collate(parts).masked("{i j}", torch.cat(masks))
    assert all(batch[k] == parts[k].masked("{i j}", masks[k]) for k in range(2))


def test_masks_that_do_not_fit_are_refused():
    s = Structure.complete(3, ["{i j}"])
    with pytest.raises(
        IncidenceError,
        match=(
            r"masked needs a mask of the 3 entries of `\{i j\}`, True for those to keep; got"
            r" torch.int64"
        ),
    ):
        s.masked("{i j}", torch.tensor([0, 1, 2]))
    for mask in (None, "abc", [0, 1, 2], [[True], [True, False]]):
        with pytest.raises(
            IncidenceError, match=f"True for those to keep; got {re.escape(repr(mask))}"
        ):
            s.masked("{i j}", mask)
    with pytest.raises(
        IncidenceError, match=r"True for those to keep; got torch.bool of shape \[3, 1\]"
    ):
        s.masked("{i j}", torch.ones(3, 1, dtype=torch.bool))
    with pytest.raises(
        IncidenceError,
        match="the empty pattern has one entry for each structure, which cannot be masked",
    ):
        s.masked("", [True])
    with pytest.raises(IncidenceError, match="there is a tensor `strong` already"):
        s.masked("{i j}", [True] * 3, name="strong").masked("{i j}", [True] * 3, name="strong")
