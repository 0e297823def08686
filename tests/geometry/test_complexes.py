"""Complexes: closure against plain sets, order and labels immaterial, refusals."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence import geometry
from incidence.errors import IncidenceError, TooLargeError
from incidence.structure import Structure, collate

T = torch.tensor
modest = settings(deadline=None, max_examples=25, derandomize=True)
sequences = st.lists(
    st.lists(st.integers(0, 6), min_size=1, max_size=5, unique=True), min_size=1, max_size=8
)
BUILDERS = {"{": geometry.simplicial_complex, "(": geometry.directed_complex}
both = pytest.mark.parametrize("opening", ["{", "("])


def listed(structure):
    """All faces of two or more nodes."""
    return sorted(
        tuple(face) for pattern in structure.patterns for face in structure[pattern].T.tolist()
    )


def closure(faces, opening, max_size=99):
    given_ = [tuple(sorted(face)) if opening == "{" else tuple(face) for face in faces]
    return sorted(
        {
            part
            for face in given_
            for size in range(2, max_size + 1)
            for part in combinations(face, size)
        }
    )


@both
@modest
@given(faces=sequences)
def test_the_closure_has_every_part_of_every_face_once_in_the_preferred_order(opening, faces):
    found = BUILDERS[opening](faces, 7)
    assert listed(found) == closure(faces, opening)
    assert found.canonical()[0] == found


@both
@modest
@given(faces=sequences, max_size=st.integers(1, 6))
def test_max_size_cuts_the_closure_and_fixes_the_tensors(opening, faces, max_size):
    found = BUILDERS[opening](faces, 7, max_size)
    assert listed(found) == closure(faces, opening, max_size)
    assert [len(pattern.letters) for pattern in found.patterns] == list(range(2, max_size + 1))


@both
@modest
@given(faces=sequences, random=st.randoms(use_true_random=False))
def test_the_order_of_the_faces_given_is_immaterial(opening, faces, random):
    assert BUILDERS[opening](random.sample(faces, len(faces)), 7) == BUILDERS[opening](faces, 7)


@modest
@given(sequences, st.randoms(use_true_random=False))
def test_the_order_inside_a_facet_is_immaterial(faces, random):
    assert geometry.simplicial_complex(
        [random.sample(f, len(f)) for f in faces]
    ) == geometry.simplicial_complex(faces)


@both
@modest
@given(faces=sequences, turn=st.permutations(range(7)))
def test_closing_commutes_with_relabelling_of_nodes(opening, faces, turn):
    turned = BUILDERS[opening]([[turn[v] for v in face] for face in faces], 7)
    assert turned == BUILDERS[opening](faces, 7).relabel(turn).canonical()[0]


@both
@modest
@given(faces=st.lists(st.permutations(range(6)).map(lambda p: p[:3]), min_size=3, max_size=8))
def test_columns_of_a_tensor_are_faces(opening, faces):
    for kind in (T, np.array):
        assert BUILDERS[opening](kind(faces).T) == BUILDERS[opening](faces)


@modest
@given(sequences)
def test_the_closure_is_checked_and_accepted_by_a_structure(faces):
    for build in BUILDERS.values():
        found = build(faces)
        assert found == Structure(found.num_nodes, {str(p): found[p] for p in found.patterns})


def test_nodes_are_counted_from_the_largest_unless_told():
    assert geometry.simplicial_complex([[0, 4]]).num_nodes == 5
    assert geometry.simplicial_complex([[0, 4]], num_nodes=9).num_nodes == 9
    assert geometry.simplicial_complex([], num_nodes=3, max_size=2).num_entries("{i j}") == 0


def test_node_numbers_too_large_for_a_product_are_told_apart():
    far = 3_000_000  # three such nodes make a key of more than 64 bits
    found = geometry.simplicial_complex([[far, 1, 0], [far - 1, 1, 0], [0, 1, far]])
    assert found["{i j k}"].T.tolist() == [[0, 1, far - 1], [0, 1, far]]


def test_complexes_of_different_dimension_make_a_batch():
    batch = collate(
        [
            geometry.simplicial_complex(facets, max_size=3)
            for facets in ([[0, 1]], [[0, 1, 2]], [[0]])
        ]
    )
    assert batch.num_entries("{i j k}") == 1


@both
@pytest.mark.parametrize(
    ("faces", "how", "message"),
    [
        (
            [[0, 1], [2, 3, 2]],
            {},
            r"\[1\] is \(2, 3, 2\): the node 2 stands twice, and the nodes of a face are distinct",
        ),
        ([[0, 1], [2, -3]], {}, r"\[1\] has the negative node -3: nodes are numbered from 0"),
        ([[0, 1], [2, 3]], {"num_nodes": 3}, r"\[1\] has the node 3: nodes are numbered 0 to 2"),
        ([[0, 1], []], {}, r"\[1\] is empty"),
        ([], {}, "is empty, and shows no number of nodes. Give num_nodes"),
        ([[0, 1], ["a"]], {}, r"\[1\] must be a list of nodes, which are integers; got \['a'\]"),
        (T([[0, 1], [1, 1], [2, 2]]).T, {}, r"\[:, 1\] is \(1, 1\)"),
        (
            T([[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]]),
            {},
            r"got \[4, 3\], more rows than columns. Transpose it",
        ),
        (T([0, 1, 2]), {}, r"must have shape \[size, faces\], .* got \[3\]. Give a list of faces"),
        (T([[0.5, 1.0], [1.0, 2.0]]), {}, "must have integers"),
        ([[0, 1]], {"max_size": 0}, "_complex: max_size is an integer from 1 to 64; got 0"),
        ([[0, 1]], {"max_size": 2.5}, "_complex: max_size is an integer from 1 to 64; got 2.5"),
        ([[0, 1]], {"num_nodes": "many"}, "must be an integer of at least 0; got 'many'"),
    ],
)
def test_faces_that_make_no_complex_are_refused(opening, faces, how, message):
    with pytest.raises(IncidenceError, match=message):
        BUILDERS[opening](faces, **how)


@both
def test_a_closure_that_is_too_large_is_refused_with_the_way_out(opening):
    with pytest.raises(
        TooLargeError,
        match=r"too many faces of \d+ nodes: .* and the limit is [\d,]+. Give a smaller max_size",
    ):
        BUILDERS[opening]([range(60)])
    assert (
        BUILDERS[opening]([range(60)], max_size=3).num_entries(
            "{i j k}" if opening == "{" else "(i j k)"
        )
        == 34220
    )


def test_faces_of_many_facets_are_counted_before_they_are_listed(monkeypatch):
    monkeypatch.setattr("incidence.geometry.complexes.MAX_ENTRIES", 100)
    with pytest.raises(
        TooLargeError, match="too many faces of 2 nodes: 120 combinations, and the limit is 100"
    ):
        geometry.simplicial_complex([[k, k + 1, k + 2] for k in range(40)])


def test_a_million_triangles_are_closed():
    grid = torch.arange(708 * 708).view(708, 708)
    corners = torch.stack([grid[:-1, :-1], grid[1:, :-1], grid[:-1, 1:], grid[1:, 1:]]).flatten(1)
    triangles = torch.cat([corners[[0, 1, 2]], corners[[3, 2, 1]]], dim=1)
    found = geometry.simplicial_complex(triangles[:, torch.randperm(triangles.shape[1])])
    assert found.num_entries("{i j k}") == 2 * 707**2
    assert found.num_entries("{i j}") == 2 * 707 * 708 + 707**2


# ---- densify


def test_a_dense_structure_has_every_entry_of_the_same_tensors():
    found = geometry.densify(Structure(4, {"{i j}": T([[0], [1]]), "bond=(i j)": T([[0], [1]])}))
    assert found == Structure.complete(4, ["{i j}", "bond=(i j)"])


def test_each_structure_of_a_batch_is_dense_on_its_own():
    parts = [geometry.simplicial_complex([[0, 1, 2]], n) for n in (3, 5)]
    assert geometry.densify(collate(parts)) == collate(
        [Structure.complete(n, ["{i j}", "{i j k}"]) for n in (3, 5)]
    )


def test_there_is_no_dense_structure_of_open_faces_nor_of_too_many():
    with pytest.raises(IncidenceError, match="has open faces: there is no complete structure"):
        geometry.densify(geometry.hypergraph([[0, 1]], 2))
    with pytest.raises(TooLargeError, match="too many entries to list"):
        geometry.densify(geometry.simplicial_complex([[0, 1, 2]], 100_000))
