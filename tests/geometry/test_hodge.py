"""Boundary matrices, Laplacians, holes and the Hodge decomposition, on known shapes and on real
meshes.
"""

import gudhi
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence import geometry
from incidence.errors import IncidenceError
from incidence.structure import Structure, collate
from tests.data_folder import data_folder
from tests.geometry.shapes import MOEBIUS, PROJECTIVE_PLANE, disjoint, sphere, times

CIRCLE = sphere(1)
TORUS = times(CIRCLE, CIRCLE)

# name: facets, Betti numbers over the rationals
SHAPES = {
    "circle": (CIRCLE, (1, 1)),
    "sphere": (sphere(2), (1, 0, 1)),
    "torus": (TORUS, (1, 2, 1)),
    "moebius strip": (MOEBIUS, (1, 1, 0)),
    "projective plane": (PROJECTIVE_PLANE, (1, 0, 0)),  # mod 2 they would be (1, 1, 1)
    "circle times projective plane": (times(CIRCLE, PROJECTIVE_PLANE), (1, 1, 0, 0)),
    "sphere and torus": (disjoint(sphere(2), TORUS), (2, 2, 2)),
    "three-torus": (times(TORUS, CIRCLE), (1, 3, 3, 1)),
    "four-sphere": (sphere(4), (1, 0, 0, 0, 1)),
}


def betti(structure: Structure) -> tuple[int, ...]:
    return tuple(
        geometry.hodge(structure, k).betti for k in range(geometry.faces(structure).top + 1)
    )


@pytest.mark.parametrize("name", SHAPES)
def test_betti_numbers_are_those_of_the_shape_over_the_rationals(name):
    facets, expected = SHAPES[name]
    assert betti(geometry.simplicial_complex(facets, oriented=True)) == expected


@pytest.mark.parametrize("name", SHAPES)
def test_the_kernel_of_the_laplacian_has_the_dimension_that_integers_tell(name):
    s = geometry.simplicial_complex(SHAPES[name][0])
    for k, expected in enumerate(SHAPES[name][1]):
        eigenvalues = torch.linalg.eigvalsh(geometry.hodge(s, k).laplacian.to_dense())
        assert int((eigenvalues < 1e-9).sum()) == expected


@given(st.lists(st.sets(st.integers(0, 6), min_size=1, max_size=4), min_size=1, max_size=12))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_betti_numbers_agree_with_gudhi(facets):
    tree = gudhi.SimplexTree()
    for node in range(7):
        tree.insert([node])
    for facet in facets:
        tree.insert(sorted(facet))
    tree.compute_persistence(homology_coeff_field=11, persistence_dim_max=True)
    s = geometry.simplicial_complex([sorted(facet) for facet in facets], num_nodes=7)
    found = list(betti(s))
    assert found == [*tree.betti_numbers(), *[0] * 9][: len(found)]


def reversed_faces(s: Structure, seed: int) -> Structure:
    """The same complex with some faces told in the opposite orientation."""
    generator = torch.Generator().manual_seed(seed)
    index = {}
    for pattern in s.patterns:
        columns = s[pattern].clone()
        is_reversed = torch.rand(columns.shape[1], generator=generator) < 0.5
        columns[:2, is_reversed] = columns[:2, is_reversed].flip(0)
        index[str(pattern)] = columns
    return Structure(s.num_nodes, index)


@pytest.mark.parametrize("name", ["torus", "circle times projective plane"])
def test_reversing_a_face_reverses_its_row_and_its_column(name):
    s = geometry.simplicial_complex(SHAPES[name][0], oriented=True)
    t = reversed_faces(s, seed=0)
    one, other = geometry.faces(s), geometry.faces(t)
    signs = [torch.ones(one.f_vector[0])]
    signs += [torch.where((s[p] == t[p]).all(0), 1.0, -1.0) for p in s.patterns]
    for k in range(1, one.top + 1):
        expected = signs[k - 1][:, None] * one.boundary_matrix(k).to_dense() * signs[k]
        assert torch.equal(other.boundary_matrix(k).to_dense(), expected)
        assert (
            not geometry.hodge(t, k)
            .boundary.to_dense()
            .matmul(geometry.hodge(t, k).coboundary.to_dense().T)
            .any()
        )


def test_on_complete_structures_the_laplacian_is_the_number_of_nodes():
    s = geometry.simplicial_complex([range(5)], oriented=True)
    for k in range(1, 5):
        assert torch.equal(
            geometry.hodge(s, k).laplacian.to_dense(),
            5 * torch.eye(geometry.faces(s).f_vector[k], dtype=torch.float64),
        )


def test_the_matrices_of_a_triangle_are_those_of_the_textbook():
    edges = geometry.hodge(geometry.simplicial_complex([[0, 1, 2]], oriented=True), 1)
    # into the head, out of the tail
    assert edges.boundary.to_dense().tolist() == [[-1, -1, 0], [1, 0, -1], [0, 1, 1]]
    assert edges.coboundary.to_dense().tolist() == [[1, -1, 1]]
    assert edges.down.to_dense().tolist() == [[2, 1, -1], [1, 2, 1], [-1, 1, 2]]
    assert edges.up.to_dense().tolist() == [[1, -1, 1], [-1, 1, -1], [1, -1, 1]]


def assert_hodge(s: Structure, k: int, tolerance: float = 1e-9) -> None:
    """All identities of one rank."""
    h = geometry.hodge(s, k)
    generator = torch.Generator().manual_seed(k)
    x = torch.randn(h.num_faces, 2, generator=generator, dtype=torch.float64)
    parts = h.decompose(x)
    scale = max(float(x.norm()), 1.0)
    assert float((sum(parts) - x).norm()) <= tolerance * scale
    # a gradient has no curl
    assert float((h.coboundary @ parts.gradient).norm()) <= tolerance * scale
    # a curl has no divergence
    assert float((h.boundary @ parts.curl).norm()) <= tolerance * scale
    for matrix in (h.boundary, h.coboundary, h.laplacian):
        assert float((matrix @ parts.harmonic).norm()) <= tolerance * scale
        assert float((matrix @ h.harmonic).norm()) <= tolerance * scale
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert abs(float((parts[one] * parts[other]).sum())) <= tolerance * scale**2
    assert torch.allclose(
        h.laplacian @ x, h.boundary.T @ (h.boundary @ x) + h.coboundary.T @ (h.coboundary @ x)
    )
    assert h.harmonic.shape == (h.num_faces, h.betti)
    assert torch.allclose(
        h.harmonic.T @ h.harmonic, torch.eye(h.betti, dtype=torch.float64), atol=tolerance
    )
    # the basis is complete
    assert torch.allclose(h.harmonic @ (h.harmonic.T @ x), parts.harmonic, atol=tolerance * scale)


@pytest.mark.parametrize("name", SHAPES)
def test_the_three_parts_are_orthogonal_and_are_what_they_are_called(name):
    s = geometry.simplicial_complex(SHAPES[name][0], oriented=True)
    for k in range(geometry.faces(s).top + 1):
        assert_hodge(s, k)


def test_a_gradient_is_found_again_and_a_rotation_too():
    s = geometry.simplicial_complex(TORUS, oriented=True)
    h = geometry.hodge(s, 1)
    potential, spin = (
        torch.randn(h.boundary.shape[0], 1).double(),
        torch.randn(h.coboundary.shape[0], 1).double(),
    )
    gradient, curl = h.boundary.T @ potential, h.coboundary.T @ spin
    parts = h.decompose(gradient + curl)
    assert torch.allclose(parts.gradient, gradient)
    assert torch.allclose(parts.curl, curl)
    assert parts.harmonic.abs().max() < 1e-9


def test_values_keep_their_type_and_a_structure_without_faces_has_none():
    s = geometry.simplicial_complex([[0, 1]], num_nodes=3, max_size=3, oriented=True)
    assert geometry.hodge(s, 1).decompose(torch.ones(1, 4)).gradient.dtype == torch.float32
    assert geometry.hodge(s, 2).harmonic.shape == (0, 0)
    assert geometry.hodge(s, 2).decompose(torch.ones(0, 4)).curl.shape == (0, 4)
    assert betti(s) == (2, 0, 0)


def test_a_batch_has_the_holes_of_all_its_structures():
    s = geometry.simplicial_complex(TORUS, oriented=True)
    assert betti(collate([s, s, geometry.simplicial_complex(sphere(2), oriented=True)])) == (
        3,
        4,
        3,
    )


def test_polygons_have_the_same_holes_as_their_triangles():
    grid = [
        [i * 4 + j, i * 4 + (j + 1) % 4, (i + 1) % 4 * 4 + (j + 1) % 4, (i + 1) % 4 * 4 + j]
        for i in range(4)
        for j in range(4)
    ]
    squares = geometry.mesh((torch.zeros(16, 3), grid))
    assert betti(squares) == (1, 2, 1)
    assert_hodge(squares, 1)


def test_of_two_tensors_of_one_rank_the_oriented_one_is_taken():
    s = Structure(3, {"{i j}": [[0], [1]], "<i j>": [[2, 1], [0, 0]]})
    assert geometry.faces(s).tensors == ("i", "<i j>")
    assert geometry.hodge(s, 1).boundary.to_dense().tolist() == [[1, 1], [0, -1], [-1, 0]]
    assert geometry.hodge(s, 1, ranks={1: "{i j}"}).boundary.to_dense().tolist() == [[-1], [1], [0]]
    both = Structure(3, {"<i j>": [[2, 1], [0, 0]], "{i j}": [[0], [1]]})
    assert geometry.faces(both).tensors == ("i", "<i j>")


def test_what_is_no_complex_or_no_flow_is_refused():
    s = Structure(3, {"<i j>": [[0], [1]], "<i j k>": [[0], [1], [2]]})
    with pytest.raises(
        IncidenceError,
        match=r"face 0 of rank 2 \(`<i j k>`\) lacks faces of its boundary, so there is no Hodge",
    ):
        _ = geometry.hodge(s, 1).betti
    edges = geometry.hodge(geometry.simplicial_complex([[0, 1, 2]]), 1)
    for wrong in (torch.ones(3), torch.ones(2, 1), torch.ones(3, 1).long(), [1.0, 2.0, 3.0]):
        with pytest.raises(
            IncidenceError, match=r"decompose takes a floating tensor of shape \[3, channels\]"
        ):
            edges.decompose(wrong)
    with pytest.raises(IncidenceError, match="ranks 0 to 2; got 3"):
        geometry.hodge(geometry.simplicial_complex([[0, 1, 2]]), 3)


# name: Betti numbers, from the Euler characteristic, components and borders of the folder's list
MESHES = {
    "decimated-knight.off": (1, 0, 1),
    "cube.off": (1, 0, 1),
    "suzanne.obj": (3, 1, 0),  # two eyes, each with a border, and a head with two
    "woody.obj": (1, 0, 0),
    "3holes.off": (1, 6, 1),
    "fertility.off": (1, 8, 1),
    "bunny.off": (1, 0, 1),
    "spot.obj": (1, 0, 1),
    "rocker-arm.obj": (1, 2, 1),
}
FEW = ["decimated-knight.off", "cube.off", "woody.obj", "suzanne.obj"]


@pytest.mark.parametrize(
    "name", [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in MESHES]
)
def test_a_real_mesh_is_a_complex_with_the_holes_it_is_known_for(name):
    s = geometry.mesh(data_folder("classic_meshes") / f"{name}.gz")
    h = geometry.hodge(s, 1)
    # integers: exactly 0
    assert not (
        h.boundary @ (h.coboundary.T @ torch.randn(h.coboundary.shape[0], 3).double().round())
    ).any()
    assert betti(s) == MESHES[name]
    assert_hodge(s, 1)


@pytest.mark.parametrize("name", ["decimated-knight.off", "spot.obj", "fertility.off"])
def test_the_triangles_of_a_closed_mesh_are_wound_such_that_their_boundaries_cancel(name):
    s = geometry.mesh(data_folder("classic_meshes") / f"{name}.gz", oriented=True)
    top = geometry.faces(s).boundary_matrix(2)
    assert not (top @ torch.ones(top.shape[1], 1).double()).any()
