"""The structure of a mesh: its tensors, and which row is which face of the caller."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import incidence as inc
from incidence import geometry
from tests.geometry import mesh_writers as w

POINTS = torch.rand(12, 3, generator=torch.Generator().manual_seed(0))


@st.composite
def faces_of(draw, sizes):
    face = st.sampled_from(sizes).flatmap(
        lambda k: st.permutations(range(12)).map(lambda p: list(p[:k]))
    )
    return draw(st.lists(face, min_size=1, max_size=12, unique_by=frozenset))


@settings(max_examples=60, deadline=None)
@given(faces_of((3, 4, 6)))
def test_rows_of_faces_and_edges_are_those_of_the_polygons(faces):
    mesh = geometry.read_mesh((POINTS, faces))
    s = mesh.structure
    name = mesh.face_pattern
    index = s[name] if name == "face" else None
    for k, row in enumerate(mesh.face_rows.tolist()):
        own = index[0, index[1] == row] if index is not None else s[name][:, row]
        assert sorted(own.tolist()) == sorted(faces[k])
    edges = {frozenset(pair) for f in faces for pair in zip(f, f[1:] + f[:1], strict=True)}
    assert {frozenset(pair) for pair in s["{i j}"].T.tolist()} == edges
    assert s.num_entries("{i j}") == len(edges)


@settings(max_examples=60, deadline=None)
@given(faces_of((3, 4, 6)), st.randoms())
def test_the_structure_is_canonical_and_does_not_depend_on_the_order_of_faces_or_where_they_start(
    faces, random
):
    s = geometry.mesh((POINTS, faces))
    assert s.canonical()[0] == s
    # all that is checked of a structure holds
    assert inc.Structure(12, {str(p): s[str(p)] for p in s.patterns}) == s
    turned = [
        f[k:] + f[:k] if random.random() < 0.5 else (f[k:] + f[:k])[::-1]
        for f in faces
        for k in [random.randrange(len(f))]
    ]
    random.shuffle(turned)
    assert geometry.mesh((POINTS, turned)) == s


def test_triangles_alone_are_closed_faces_and_others_are_open():
    assert [str(p) for p in geometry.mesh((w.TETRA_POINTS, w.TETRA_FACES)).patterns] == [
        "{i j}",
        "{i j k}",
    ]
    assert [str(p) for p in geometry.mesh((w.CUBE_POINTS, w.CUBE_FACES)).patterns] == [
        "{i j}",
        "face={i ...}",
    ]
    assert [
        str(p) for p in geometry.mesh((w.TETRA_POINTS, w.TETRA_FACES), open_faces=True).patterns
    ] == ["{i j}", "face={i ...}"]


def test_open_faces_let_triangles_and_polygons_share_a_batch():
    tetrahedron = geometry.mesh((w.TETRA_POINTS, w.TETRA_FACES), open_faces=True)
    batch = inc.collate([tetrahedron, geometry.mesh((w.PYRAMID_POINTS, w.PYRAMID_FACES))])
    assert batch.num_entries("face") == 9
    assert batch[0] == tetrahedron


def test_features_of_faces_go_to_their_rows_and_back():
    mesh = geometry.read_mesh((w.PYRAMID_POINTS, w.PYRAMID_FACES))
    sizes = mesh.faces.sizes  # a feature of the faces, in the order of the caller
    x = torch.empty_like(sizes)
    x[mesh.face_rows] = sizes
    assert torch.equal(x, torch.bincount(mesh.structure["face"][1]))
    assert torch.equal(x[mesh.structure.locate("face", mesh.face_index)], sizes)


def test_points_in_no_face_are_nodes():
    assert geometry.mesh((POINTS, [[0, 1, 2]])).num_nodes == 12


def test_an_edge_may_be_in_many_faces_and_faces_may_hang_apart():
    s = geometry.mesh((POINTS, [[0, 1, 2], [0, 1, 3], [0, 1, 4], [5, 6, 7]]))
    assert (s.num_entries("{i j}"), s.num_entries("{i j k}")) == (10, 4)


@pytest.mark.parametrize(
    "faces",
    [torch.tensor(w.CUBE_FACES), torch.tensor(w.CUBE_FACES).numpy(), [set(f) for f in [[0, 1, 2]]]],
)
def test_faces_may_be_a_matrix_or_lists_of_anything_countable(faces):
    expected = [list(f) for f in faces]
    assert geometry.mesh((w.CUBE_POINTS, faces)) == geometry.mesh((w.CUBE_POINTS, expected))


def test_a_mesh_may_have_no_face_yet_when_given_by_arrays():
    s = geometry.mesh((POINTS, []))
    assert (s.num_entries("{i j}"), s.num_entries("{i j k}")) == (0, 0)
    assert s.canonical()[0] == s


def test_its_own_faces_are_taken_back():
    mesh = geometry.read_mesh((w.PYRAMID_POINTS, w.PYRAMID_FACES))
    assert geometry.mesh((mesh.points, mesh.faces)) == mesh.structure


def test_a_trimesh_is_taken_as_it_is():
    trimesh = pytest.importorskip("trimesh")
    box = trimesh.creation.box()
    mesh = geometry.read_mesh(box)
    assert mesh.points.tolist() == box.vertices.tolist()
    assert mesh.faces.nodes.view(-1, 3).tolist() == box.faces.tolist()
    assert mesh.structure.num_entries("{i j}") == 18


def test_repair_drops_faces_that_name_a_point_twice_and_all_but_the_first_of_equal_ones():
    faces = [[0, 1, 2], [3, 3, 4], [2, 0, 1], [4, 5, 6, 7], [1, 0, 2]]
    mesh = geometry.read_mesh((POINTS, faces), repair=True)
    assert mesh.kept.tolist() == [0, 3]
    assert [mesh.faces[k].tolist() for k in range(2)] == [faces[0], faces[3]]
    assert mesh.structure == geometry.mesh((POINTS, [faces[0], faces[3]]))


def test_polygons_are_indexed_like_a_list():
    mesh = geometry.read_mesh((w.PYRAMID_POINTS, w.PYRAMID_FACES))
    assert mesh.faces[-1].tolist() == w.PYRAMID_FACES[-1]
    with pytest.raises(IndexError):
        mesh.faces[5]
