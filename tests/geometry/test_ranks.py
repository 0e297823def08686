"""Faces by rank: counts, incidence against node sets, signs, adjacency."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence import geometry
from incidence.errors import IncidenceError, TooLargeError
from incidence.structure import Structure, collate
from tests.geometry.shapes import PROJECTIVE_PLANE, cube_order, grid_order, sphere, times
from tests.structure.listing import entries_of

T = torch.tensor
modest = settings(deadline=None, max_examples=25, derandomize=True)
facet_lists = st.lists(st.sets(st.integers(0, 6), min_size=1, max_size=4), min_size=1, max_size=7)
sequences = st.lists(
    st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True), min_size=1, max_size=6
)
ranked_sets = st.lists(
    st.lists(st.sets(st.integers(0, 5), min_size=1), max_size=6), min_size=1, max_size=3
)


def polygons(*faces: str) -> Structure:
    """A mesh of polygons over the letters of their names, with all sides."""
    letters = sorted(set("".join(faces)))
    numbers = [[letters.index(x) for x in face] for face in faces]
    sides = {
        tuple(sorted(pair))
        for face in numbers
        for pair in zip(face, face[1:] + face[:1], strict=True)
    }
    members = [(v, number) for number, face in enumerate(numbers) for v in face]
    return Structure(
        len(letters), {"{i j}": T(sorted(sides)).T, "face={i ...}": T(members).T}
    ).canonical()[0]


def open_ranks(levels) -> Structure:
    """A structure with arbitrary sets of each rank, most of which make no sense together."""
    index = {}
    for rank, sets in enumerate(levels, 1):
        different = sorted({tuple(sorted(s)) for s in sets})
        pairs = [(v, number) for number, nodes in enumerate(different) for v in nodes]
        index[f"rank{rank}={{i ...}}"] = T(pairs, dtype=torch.long).view(-1, 2).T
    return Structure(6, index)


def node_sets(structure, faces, rank):
    return [
        frozenset(v for _, v in entry[0])
        for entry in entries_of(structure, str(structure.resolve(faces.tensors[rank])))
    ]


def boundary_matrix(faces, rank):
    matrix = torch.zeros(faces.f_vector[rank - 1], faces.f_vector[rank], dtype=torch.long)
    matrix[tuple(faces.boundary(rank))] = faces.signs(rank)
    return matrix


def has_zero_products(faces):
    return not any(
        (boundary_matrix(faces, k - 1) @ boundary_matrix(faces, k)).any()
        for k in range(2, faces.top + 1)
    )


# ---- counts


@modest
@given(facet_lists)
def test_the_f_vector_counts_subsets_by_size(facets):
    found = geometry.faces(geometry.simplicial_complex(facets, 7))
    subsets = {
        frozenset(v for k, v in enumerate(sorted(f)) if bits >> k & 1)
        for f in facets
        for bits in range(1, 1 << len(f))
    }
    counts = [sum(len(s) == size for s in subsets) for size in range(2, max(map(len, subsets)) + 1)]
    assert found.f_vector == (7, *counts)
    assert found.euler == 7 + sum((-1) ** (len(s) - 1) for s in subsets if len(s) > 1)


@modest
@given(facet_lists, facet_lists)
def test_counts_and_euler_add_up_over_a_batch(one, other):
    parts = [geometry.simplicial_complex(facets, 7, max_size=4) for facets in (one, other)]
    each, both = [geometry.faces(s) for s in parts], geometry.faces(collate(parts))
    assert both.f_vector == tuple(map(sum, zip(*(f.f_vector for f in each), strict=True)))
    assert both.euler == sum(f.euler for f in each)


@modest
@given(facet_lists, st.permutations(range(7)))
def test_nothing_said_of_the_shape_depends_on_labels(facets, turn):
    structure = geometry.simplicial_complex(facets, 7)
    one, other = geometry.faces(structure), geometry.faces(structure.relabel(turn))
    for name in ("f_vector", "euler", "is_closed", "is_pure", "is_manifold", "is_orientable"):
        assert getattr(one, name) == getattr(other, name), name


def test_ranks_are_read_off_the_tensors():
    found = geometry.faces(
        Structure(
            5,
            {
                "{i j}": T([[0], [1]]),
                "rank3={i ...}": T([[0, 1], [0, 0]]),
                "i {i j}": T([[0], [1]]),
            },
        )
    )
    assert found.f_vector == (5, 1, 0, 1)
    assert found.tensors == ("i", "{i j}", None, "rank3")
    assert found.boundary(3).shape == found.boundary(2).shape == (2, 0)
    assert found.incidence(1, 3).tolist() == [[0], [0]]
    assert repr(found) == "Faces(f_vector=(5, 1, 0, 1), euler=3)"


@pytest.mark.parametrize(
    ("text", "index", "rank"),
    [
        ("(i j k)", T([[0], [1], [2]]), 2),
        ("[i j]", T([[0], [0]]), 1),
        ("{i ...}", T([[0, 1], [0, 0]]), 1),
        ("face={i ...}", T([[0, 1], [0, 0]]), 2),
        ("rank7={i ...}", T([[0, 1], [0, 0]]), 7),
        ("bond={i j}", T([[0], [1]]), 1),
        ("other={i ...}", T([[0, 1], [0, 0]]), 0),
        ("{i j} {i k}", T([[0], [1], [2]]), 0),
    ],
)
def test_every_tensor_has_its_rank(text, index, rank):
    assert geometry.faces(Structure(3, {text: index})).top == rank


def test_tensors_of_other_sorts_are_ignored():
    structure = Structure(
        {"node": 3, "user": 2}, {"{i j}": T([[0], [1]]), "{u:user v:user}": T([[0], [1]])}
    )
    assert geometry.faces(structure).f_vector == (3, 1)
    assert geometry.faces(structure.induced({}), ranks={1: "{i j}"}).f_vector == (3, 1)
    assert geometry.faces(Structure({"atom": 3}, {"{a:atom b:atom}": T([[0], [1]])})).f_vector == (
        3,
        1,
    )


def test_two_tensors_of_one_rank_are_told_apart_by_choice():
    structure = Structure(3, {"{i j}": T([[0], [1]]), "bond={i j}": T([[0, 1], [1, 2]])})
    with pytest.raises(
        IncidenceError,
        match=r"`\{i j\}` and `bond=\{i j\}` both have rank 1. .* ranks=\{1: 'bond'\}",
    ):
        geometry.faces(structure)
    assert geometry.faces(structure, ranks={1: "bond"}).f_vector == (3, 2)


@pytest.mark.parametrize("choice", [{0: "{i j}"}, {"1": "{i j}"}, {1: "i {i j}"}])
def test_choices_that_are_no_ranks_are_refused(choice):
    structure = Structure(3, {"{i j}": T([[0], [1]]), "i {i j}": T([[0], [1]])})
    with pytest.raises(
        IncidenceError,
        match="ranks maps ranks from 1 to tensors that have one face, of one sort; got",
    ):
        geometry.faces(structure, ranks=choice)


# ---- incidence


@modest
@given(ranked_sets)
def test_incidence_of_open_faces_is_containment_of_their_nodes(levels):
    structure = open_ranks(levels)
    faces = geometry.faces(structure)
    for low, high in product(range(faces.top + 1), repeat=2):
        if low < high:
            inside, around = node_sets(structure, faces, low), node_sets(structure, faces, high)
            contained = [
                [i, j] for j, b in enumerate(around) for i, a in enumerate(inside) if a <= b
            ]
            assert faces.incidence(low, high).T.tolist() == contained
            assert faces.incidence(high, low).T.tolist() == [[j, i] for i, j in contained]


@modest
@given(facet_lists, st.randoms(use_true_random=False))
def test_incidence_of_simplices_is_containment_in_any_order_of_entries(facets, random):
    structure = geometry.simplicial_complex(facets, 7)
    for pattern in structure.patterns:
        rows = list(range(structure.num_entries(pattern)))
        structure = structure.select(pattern, random.sample(rows, len(rows)))
    faces = geometry.faces(structure)
    for high in range(1, faces.top + 1):
        for low in range(high):
            inside, around = node_sets(structure, faces, low), node_sets(structure, faces, high)
            contained = [
                (i, j) for i, a in enumerate(inside) for j, b in enumerate(around) if a <= b
            ]
            assert sorted(map(tuple, faces.incidence(low, high).T.tolist())) == contained


@modest
@given(sequences)
def test_a_directed_face_contains_its_subsequences(given_):
    structure = geometry.directed_complex(given_, 6)
    faces = geometry.faces(structure)
    listed = [
        [(v,) for v in range(6)],
        *(list(map(tuple, structure[p].T.tolist())) for p in structure.patterns),
    ]
    for high in range(1, faces.top + 1):
        shorter = [[b[:p] + b[p + 1 :] for p in range(len(b))] for b in listed[high]]
        below = [
            (i, j)
            for i, a in enumerate(listed[high - 1])
            for j, parts in enumerate(shorter)
            if a in parts
        ]
        assert sorted(map(tuple, faces.boundary(high).T.tolist())) == below


def test_an_undirected_face_contains_directed_ones_by_their_nodes():
    faces = geometry.faces(
        Structure(3, {"(i j)": T([[0, 1, 2], [1, 0, 1]]), "{i j k}": T([[2], [1], [0]])})
    )
    assert faces.boundary(2).tolist() == [[0, 1, 2], [0, 0, 0]]


def test_a_symmetric_face_that_repeats_a_node_has_it_once():
    assert geometry.faces(Structure(2, {"[i j]": T([[0, 1], [0, 0]])})).boundary(1).tolist() == [
        [0, 0, 1],
        [0, 1, 1],
    ]


@modest
@given(ranked_sets, st.integers(0, 3), st.integers(0, 3))
def test_faces_are_adjacent_iff_they_share_a_face(levels, rank, via):
    structure = open_ranks(levels)
    faces = geometry.faces(structure)
    if max(rank, via) > faces.top or rank == via:
        return
    through = faces.incidence(via, rank).T.tolist()
    shared = {(a, b) for v, a in through for w, b in through if v == w and a != b}
    assert sorted(map(tuple, faces.adjacency(rank, via).T.tolist())) == sorted(shared)


def test_the_index_tensors_of_a_square_with_a_diagonal():
    # edges 01 02 12 13 23
    faces = geometry.faces(geometry.simplicial_complex([[0, 1, 2], [1, 2, 3]]))
    assert faces.boundary(2).tolist() == [[0, 1, 2, 2, 3, 4], [0, 0, 0, 1, 1, 1]]
    assert faces.coboundary(1).tolist() == [[0, 0, 0, 1, 1, 1], [0, 1, 2, 2, 3, 4]]
    assert faces.coboundary(2).tolist() == [[], []]
    assert faces.adjacency(2).tolist() == faces.incidence(2, 2).tolist() == [[1, 0], [0, 1]]
    assert faces.adjacency(0).T.tolist() == [
        [1, 0],
        [2, 0],
        [0, 1],
        [2, 1],
        [3, 1],
        [0, 2],
        [1, 2],
        [3, 2],
        [1, 3],
        [2, 3],
    ]
    assert faces.adjacency(2, via=0).tolist() == [[1, 0], [0, 1]]
    assert faces.signs(2).tolist() == [1, -1, 1, 1, -1, 1]
    assert faces.signs(1).tolist() == [-1, 1] * 5


def test_polygons_that_share_one_node_only_are_not_adjacent():
    faces = geometry.faces(polygons("abcd", "cefg", "abh"))
    assert faces.adjacency(2).shape == (2, 2)
    assert faces.adjacency(2, via=0).shape == (2, 4)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda f: f.boundary(0), "nodes, the faces of rank 0, have no boundary"),
        (lambda f: f.boundary(3), "the faces here have ranks 0 to 2; got 3"),
        (lambda f: f.coboundary(-1), "ranks 0 to 2; got -1"),
        (lambda f: f.incidence(0, 1.5), "ranks 0 to 2; got 1.5"),
        (
            lambda f: f.adjacency(1, via=1),
            "faces of rank 1 are adjacent via faces of another rank; got via=1",
        ),
        (lambda f: f.signs(0), "have no boundary"),
    ],
)
def test_ranks_that_are_not_there_are_refused(ask, message):
    with pytest.raises(IncidenceError, match=message):
        ask(geometry.faces(geometry.simplicial_complex([[0, 1, 2]])))


def test_too_many_adjacent_faces_are_refused():
    star = geometry.graph([[0] * 9999, list(range(1, 10**4))], 10**4)
    with pytest.raises(
        TooLargeError,
        match=r"too many faces of rank 1 are adjacent via rank 0: 99,990,\d+ combinations",
    ):
        geometry.faces(star).adjacency(1)


def test_too_many_candidates_for_containment_are_refused(monkeypatch):
    monkeypatch.setattr("incidence.geometry.ranks.MAX_ENTRIES", 10)
    with pytest.raises(TooLargeError, match="too many faces have nodes in common"):
        geometry.faces(polygons("abcdefgh", "ijklm")).boundary(2)


# ---- signs


@modest
@given(facet_lists)
def test_the_boundary_of_a_boundary_of_simplices_vanishes(facets):
    assert has_zero_products(geometry.faces(geometry.simplicial_complex(facets)))


@modest
@given(sequences)
def test_the_boundary_of_a_boundary_of_sequences_vanishes(given_):
    assert has_zero_products(geometry.faces(geometry.directed_complex(given_)))


@pytest.mark.parametrize(
    "structure",
    [
        polygons("abcd", "cefg", "abh"),
        geometry.poset(cube_order(2, with_top=True)),
        geometry.poset(cube_order(3, with_top=True)),
        geometry.poset(cube_order(4)),
        geometry.poset(grid_order(3, 4)),
        geometry.poset(grid_order(3, 4, flip=True)),
        collate([geometry.poset(cube_order(3)), geometry.poset(grid_order(3, 3))]),
    ],
    ids=["polygons", "square", "cube", "tesseract", "torus", "klein bottle", "batch"],
)
def test_the_boundary_of_a_boundary_of_cells_vanishes(structure):
    faces = geometry.faces(structure)
    assert has_zero_products(faces)
    first = [
        int((faces.boundary(faces.top)[1] == k).nonzero()[0]) for k in range(faces.f_vector[-1])
    ]
    assert (faces.signs(faces.top)[first] == 1).all()


@modest
@given(st.randoms(use_true_random=False))
def test_cells_have_signs_in_any_order_of_entries(random):
    structure = geometry.poset(cube_order(4))
    for pattern in structure.patterns:
        rows = list(range(structure.num_entries(pattern)))
        structure = structure.select(pattern, random.sample(rows, len(rows)))
    assert has_zero_products(geometry.faces(structure))


def test_quadrilaterals_of_four_letters_may_be_chosen_as_rank_2():
    cube = geometry.poset(cube_order(3))
    nodes = cube["rank2"][0].view(-1, 4).T
    faces = geometry.faces(
        Structure(8, {"{i j}": cube["{i j}"], "{i j k l}": nodes}),
        ranks={1: "{i j}", 2: "{i j k l}"},
    )
    assert has_zero_products(faces)
    assert (faces.f_vector, faces.is_closed, faces.is_manifold, faces.is_orientable) == (
        (8, 12, 6),
        True,
        True,
        True,
    )


def test_simplices_over_edges_of_mixed_size_have_signs_that_go_together():
    ball = geometry.simplicial_complex([[0, 1, 2, 3], [1, 2, 3, 4]])
    pairs = ball["{i j}"]
    edges = torch.stack([pairs.T.flatten(), torch.arange(pairs.shape[1]).repeat_interleave(2)])
    open_edges = Structure(
        5, {"{i ...}": edges, "{i j k}": ball["{i j k}"], "{i j k l}": ball["{i j k l}"]}
    )
    assert has_zero_products(geometry.faces(open_edges))
    assert geometry.faces(open_edges).is_manifold


def test_signs_where_there_are_no_faces_are_none():
    assert geometry.faces(geometry.simplicial_complex([[0, 1]], max_size=3)).signs(2).tolist() == []


def with_cell(facets) -> Structure:
    """A surface of triangles with one cell of rank 3 inside."""
    surface = geometry.simplicial_complex(facets)
    return surface.with_index(
        {
            "rank3={i ...}": torch.stack(
                [torch.arange(surface.num_nodes), torch.zeros(surface.num_nodes).long()]
            )
        }
    )


def test_a_cell_inside_a_surface_is_oriented_iff_the_surface_is():
    circle = sphere(1)
    assert has_zero_products(geometry.faces(with_cell(times(circle, circle))))
    with pytest.raises(
        IncidenceError, match=r"face 0 of rank 3 \(`rank3`\) has a boundary that cannot be oriented"
    ):
        geometry.faces(with_cell(PROJECTIVE_PLANE)).signs(3)


@pytest.mark.parametrize(
    ("structure", "rank", "message"),
    [
        (
            geometry.hypergraph([[0, 1], [1, 2, 3]], 4),
            1,
            r"face 1 of rank 1 \(`\{i \.\.\.\}`\) does not have two nodes",
        ),
        (
            Structure(
                4,
                {
                    "{i j}": T([[0, 1, 2], [1, 2, 3]]),
                    "face={i ...}": T([[0, 1, 2, 3], [0, 0, 0, 0]]),
                },
            ),
            *(
                2,
                (
                    r"face 0 of rank 2 \(`face`\) has no closed boundary: a face of rank 0 in it"
                    r" lies in other than two of"
                ),
            ),
        ),
        (
            Structure(
                6,
                {
                    "{i j}": T([[0, 1, 0, 3, 4, 3], [1, 2, 2, 4, 5, 5]]),
                    "face={i ...}": T([[0, 1, 2, 3, 4, 5], [0] * 6]),
                },
            ),
            *(2, r"face 0 of rank 2 \(`face`\) has a boundary in several parts"),
        ),
    ],
)
def test_faces_without_orientation_are_named(structure, rank, message):
    with pytest.raises(IncidenceError, match=message):
        geometry.faces(structure).signs(rank)


# ---- a tensor of adjacent faces


@modest
@given(facet_lists)
def test_adjacent_simplices_are_found_by_their_pattern(facets):
    structure = geometry.simplicial_complex(facets, 7, max_size=3)
    found = geometry.with_adjacency(structure, 2)
    every = structure.with_pattern("{i j k} {i j l}")
    different = [e for e in entries_of(every, "{i j k} {i j l}") if e[0] != e[1]]
    assert entries_of(found, "adjacent={i j k} {i j l}") == different
    assert found.canonical()[0] == found


def test_adjacent_polygons_are_pairs_of_open_faces():
    found = geometry.with_adjacency(polygons("abcd", "cefg", "abh"), 2)
    letters = [
        {"".join("abcdefgh"[v] for _, v in face) for face in entry}
        for entry in entries_of(found, "adjacent={i ...} {i ...}")
    ]
    assert letters == [{"abcd", "abh"}] * 2


def test_adjacent_edges_and_another_name():
    found = geometry.with_adjacency(geometry.graph([[0, 1], [1, 2]], 3), 1, name="meets")
    assert sorted(found["meets"].T.tolist()) == [[1, 0, 2], [1, 2, 0]]


def test_adjacent_faces_of_a_batch_stay_in_their_structure():
    parts = [
        geometry.simplicial_complex(f) for f in ([[0, 1, 2], [1, 2, 3]], [[0, 1, 2]], sphere(2))
    ]
    assert geometry.with_adjacency(collate(parts), 2) == collate(
        [geometry.with_adjacency(s, 2) for s in parts]
    )
    parts = [polygons("abcd", "abh"), polygons("abc"), polygons("abcde", "cdf")]
    assert geometry.with_adjacency(collate(parts), 2) == collate(
        [geometry.with_adjacency(s, 2) for s in parts]
    )


def test_faces_that_cannot_be_adjacent_are_refused():
    with pytest.raises(
        IncidenceError, match=r"adjacent faces are undirected; those of rank 1 are `\(i j\)`"
    ):
        geometry.with_adjacency(geometry.graph([[0], [1]], 2, directed=True), 1)
    with pytest.raises(IncidenceError, match="have no boundary"):
        geometry.with_adjacency(geometry.graph([[0], [1]], 2), 0)
    odd = Structure(5, {"{i ...}": T([[0], [0]]), "{i j k}": T([[0, 0], [1, 3], [2, 4]])})
    with pytest.raises(
        IncidenceError,
        match="are adjacent where they share all nodes but one: rank 1 has other faces",
    ):
        geometry.with_adjacency(odd, 2)


def test_names_of_the_package_are_functions_whatever_was_loaded_before():
    names = [
        "align",
        "densify",
        "directed_complex",
        "faces",
        "graph",
        "hypergraph",
        "point_cloud",
        "poset",
        "simplicial_complex",
        "table",
    ]
    assert all(callable(getattr(geometry, name)) for name in names)


def test_a_polygon_with_a_chord_is_not_closed_and_the_chord_is_named():
    folded = geometry.faces(polygons("abcd", "ace"))
    assert not folded.is_closed
    assert not folded.is_manifold
    with pytest.raises(IncidenceError, match=r"the edge \{0 2\} is a chord of face 1 of rank 2"):
        folded.signs(2)
    with pytest.raises(
        IncidenceError, match=r"some of the edges \{0 1\}, \{0 2\}, .* are chords of face"
    ):
        geometry.faces(polygons("abcd", "ace", "bdf")).signs(2)
