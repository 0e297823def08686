"""Builders and liftings that make oriented faces."""

import pytest
import torch

from incidence import geometry
from incidence.errors import IncidenceError
from incidence.geometry import lifting
from incidence.structure import Structure, collate

SQUARE = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]


def test_the_faces_of_an_oriented_complex_are_those_of_the_complex_by_ascending_nodes():
    facets = [[3, 1, 2], [2, 0], [4]]
    plain, oriented = (
        geometry.simplicial_complex(facets, max_size=4, oriented=flag) for flag in (False, True)
    )
    assert [str(p) for p in oriented.patterns] == ["<i j>", "<i j k>", "<i j k l>"]
    for one, other in zip(plain.patterns, oriented.patterns, strict=True):
        assert torch.equal(plain[one], oriented[other])
    same, rows = oriented.canonical()  # this is the preferred order already
    assert same == oriented
    assert all(
        torch.equal(rows[str(p)], torch.arange(oriented.num_entries(p))) for p in oriented.patterns
    )


def test_oriented_edges_go_from_the_smaller_node_to_the_larger():
    s = geometry.graph([[2, 0, 1], [1, 1, 2]], num_nodes=3, oriented=True)
    assert s["<i j>"].T.tolist() == [[0, 1], [1, 2]]
    with pytest.raises(IncidenceError, match=r"either directed, `\(i j\)`, or oriented, `<i j>`"):
        geometry.graph([[0], [1]], num_nodes=2, directed=True, oriented=True)


def test_triangles_of_a_mesh_keep_their_winding_in_the_preferred_order():
    m = geometry.read_mesh((SQUARE, [[2, 3, 0], [1, 0, 2]]), oriented=True)
    assert m.face_pattern == "<i j k>"
    assert m.structure["<i j k>"].T.tolist() == [[1, 0, 2], [2, 3, 0]]
    assert m.structure["<i j>"].T.tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [2, 3]]
    assert m.face_rows.tolist() == [1, 0]
    assert geometry.mesh((SQUARE, [[2, 3, 0]]), oriented=True) == geometry.mesh(
        (SQUARE, [[3, 0, 2]]), oriented=True
    )
    assert geometry.mesh((SQUARE, [[2, 3, 0]]), oriented=True)["<i j k>"].tolist() == [
        [2],
        [3],
        [0],
    ]


def test_a_surface_wound_in_one_sense_has_only_its_border_as_boundary():
    s = geometry.mesh((SQUARE, [[0, 1, 2], [2, 3, 0]]), oriented=True)
    flux = geometry.faces(s).boundary_matrix(2) @ torch.ones(2, 1, dtype=torch.float64)
    ends = s["<i j>"].T.tolist()
    assert {tuple(ends[k]): int(flux[k]) for k in range(5)} == {
        (0, 1): 1,
        (0, 2): 0,
        (0, 3): -1,
        (1, 2): 1,
        (2, 3): 1,
    }


def test_polygons_have_no_orientation():
    with pytest.raises(
        IncidenceError,
        match=r"the mesh, face 1 has 4 points, and oriented faces are triangles. Cut polygons",
    ):
        geometry.mesh(([*SQUARE, [2.0, 0.0]], [[1, 4, 2], [0, 1, 2, 3]]), oriented=True)
    with pytest.raises(
        IncidenceError,
        match="open_faces=True writes faces of any size, and oriented faces are triangles",
    ):
        geometry.mesh((SQUARE, [[0, 1, 2]]), oriented=True, open_faces=True)


def test_liftings_give_oriented_faces_when_asked():
    k4 = Structure.complete(4, ["{i j}"])
    lifted = lifting.cliques(k4, max_size=4, oriented=True)
    assert [str(p) for p in lifted.patterns] == ["{i j}", "<i j>", "<i j k>", "<i j k l>"]
    assert torch.equal(lifted["<i j k>"], lifting.cliques(k4, max_size=4)["{i j k}"])
    rips = lifting.vietoris_rips(SQUARE, 1.5, oriented=True)
    assert torch.equal(rips["<i j k>"], lifting.vietoris_rips(SQUARE, 1.5)["{i j k}"])
    points = [*SQUARE, [0.4, 0.5]]
    alpha = lifting.alpha(points, oriented=True)
    assert torch.equal(alpha["<i j k>"], lifting.alpha(points)["{i j k}"])


def test_liftings_read_oriented_edges_and_leave_them_as_they_are():
    s = Structure(4, {"<i j>": [[1, 2, 2, 0], [0, 1, 0, 3]]})
    lifted = lifting.cliques(s, oriented=True)
    assert lifted["<i j>"].tolist() == s["<i j>"].tolist()
    assert lifted["<i j k>"].T.tolist() == [[0, 1, 2]]
    assert lifting.rings(s, max_length=4).num_entries("ring") == 1
    both = lifting.cliques(collate([s, s]), oriented=True)
    assert both["<i j k>"].T.tolist() == [[0, 1, 2], [4, 5, 6]]


def test_the_densest_oriented_structure_has_every_face():
    dense = geometry.densify(geometry.simplicial_complex([[0, 1, 2], [3]], oriented=True))
    assert (dense.num_entries("<i j>"), dense.num_entries("<i j k>")) == (6, 4)
