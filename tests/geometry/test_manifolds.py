"""Shapes that are known: closed, pure, manifold, orientable."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence import geometry
from incidence.geometry.manifolds import agreeing_signs
from incidence.structure import Structure, collate
from incidence.symmetry.group import connect
from tests.geometry.shapes import (
    MOEBIUS,
    PROJECTIVE_PLANE,
    cone,
    cube_order,
    disjoint,
    glued_at_node_0,
    sphere,
    suspension,
    times,
)

T = torch.tensor
modest = settings(deadline=None, max_examples=25, derandomize=True)
CIRCLE, SPHERE = sphere(1), sphere(2)
INTERVAL = [(0, 1)]
TORUS = times(CIRCLE, CIRCLE)

# name: facets, Euler characteristic, manifold, orientable
SHAPES = {
    "points": ([(0,), (1,)], 2, True, True),
    "interval": (INTERVAL, 1, True, True),
    "circle": (CIRCLE, 0, True, True),
    "star with three arms": ([(0, 1), (0, 2), (0, 3)], 1, False, False),
    "sphere": (SPHERE, 2, True, True),
    "disc": (cone(CIRCLE), 1, True, True),
    "torus": (TORUS, 0, True, True),
    "annulus": (times(CIRCLE, INTERVAL), 0, True, True),
    "moebius strip": (MOEBIUS, 0, True, False),
    "projective plane": (PROJECTIVE_PLANE, 1, True, False),
    "sphere and torus": (disjoint(SPHERE, TORUS), 2, True, True),
    "torus and projective plane": (disjoint(TORUS, PROJECTIVE_PLANE), 1, True, False),
    "two spheres that touch": (glued_at_node_0(SPHERE, SPHERE), 3, False, True),
    "two triangles that touch": ([(0, 1, 2), (0, 3, 4)], 1, False, True),
    "three pages of a book": ([(0, 1, 2), (0, 1, 3), (0, 1, 4)], 1, False, False),
    "triangle with a tail": ([(0, 1, 2), (2, 3)], 1, False, False),
    "triangle and a point": ([(0, 1, 2), (3,)], 2, False, False),
    "ball": ([(0, 1, 2, 3)], 1, True, True),
    "three-sphere": (sphere(3), 0, True, True),
    "three-torus": (times(TORUS, CIRCLE), 0, True, True),
    "solid torus": (times(cone(CIRCLE), CIRCLE), 0, True, True),
    "projective plane times circle": (times(PROJECTIVE_PLANE, CIRCLE), 0, True, False),
    "suspended torus": (suspension(TORUS), 2, False, True),
    "suspended projective plane": (suspension(PROJECTIVE_PLANE), 1, False, False),
    "cone over a torus": (cone(TORUS), 1, False, True),
    "cone over a projective plane": (cone(PROJECTIVE_PLANE), 1, False, False),
    "two balls that share an edge": ([(0, 1, 2, 3), (0, 1, 4, 5)], 1, False, True),
    "four-sphere": (sphere(4), 2, True, True),
    "four-ball": ([(0, 1, 2, 3, 4)], 1, True, True),
    "sphere times sphere": (times(SPHERE, SPHERE), 4, True, True),
    "suspended sphere times circle": (suspension(times(SPHERE, CIRCLE)), 2, False, True),
    "cone over sphere times circle": (cone(times(SPHERE, CIRCLE)), 1, False, True),
    "five-sphere": (sphere(5), 0, True, True),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_recognised(name):
    facets, euler, manifold, orientable = SHAPES[name]
    found = geometry.faces(geometry.simplicial_complex(facets))
    assert (found.euler, found.is_manifold, found.is_orientable) == (euler, manifold, orientable)
    assert found.is_closed
    assert found.is_pure == (len({len(f) for f in facets}) == 1)


@pytest.mark.parametrize("dimension", [2, 3, 4, 5])
def test_the_boundary_of_a_cube_is_a_sphere_and_the_cube_a_ball(dimension):
    for with_top in (False, True):
        found = geometry.faces(geometry.poset(cube_order(dimension, with_top)))
        assert found.euler == (1 if with_top else 1 - (-1) ** dimension)
        assert found.is_closed
        assert found.is_pure
        assert found.is_manifold
        assert found.is_orientable


@pytest.mark.parametrize(
    "name",
    ["moebius strip", "torus", "two spheres that touch", "three pages of a book", "solid torus"],
)
def test_simplices_given_as_open_faces_have_the_same_shape(name):
    facets, euler, manifold, orientable = SHAPES[name]
    closed = geometry.simplicial_complex(facets)
    index = {"{i j}": closed["{i j}"]}
    for pattern in closed.patterns[1:]:
        nodes = closed[pattern]
        entry = torch.arange(nodes.shape[1]).expand_as(nodes)
        index[f"rank{len(nodes) - 1}={{i ...}}"] = torch.stack([nodes.flatten(), entry.flatten()])
    found = geometry.faces(Structure(closed.num_nodes, index))
    assert (found.euler, found.is_manifold, found.is_orientable, found.is_closed) == (
        euler,
        manifold,
        orientable,
        True,
    )


@pytest.mark.parametrize("missing", ["{i j}", "{i j k}"])
def test_a_complex_that_lacks_a_face_is_not_closed(missing):
    ball = geometry.simplicial_complex([(0, 1, 2, 3)])
    found = geometry.faces(ball.select(missing, range(1, ball.num_entries(missing))))
    assert not found.is_closed
    assert not found.is_manifold
    assert not found.is_orientable


def test_a_complex_without_a_whole_rank_is_not_closed():
    assert not geometry.faces(Structure(3, {"{i j k}": T([[0], [1], [2]])})).is_closed
    assert not geometry.faces(
        Structure(3, {"{i j}": T([[0], [1]]), "rank3={i ...}": T([[0, 1, 2], [0, 0, 0]])})
    ).is_closed


@pytest.mark.parametrize("missing", [0, 3, 7])
def test_a_cube_that_lacks_an_edge_is_not_closed(missing):
    cube = geometry.poset(cube_order(3))
    assert not geometry.faces(
        cube.select("{i j}", [k for k in range(12) if k != missing])
    ).is_closed


def test_a_cell_that_lacks_a_face_or_has_a_node_beyond_its_faces_is_not_closed():
    cube = geometry.poset(cube_order(3, with_top=True))
    assert not geometry.faces(cube.select("rank2", range(5))).is_closed
    beyond = Structure(
        4, {"{i j}": T([[0, 1, 0], [1, 2, 2]]), "face={i ...}": T([[0, 1, 2, 3], [0, 0, 0, 0]])}
    )
    assert not geometry.faces(beyond).is_closed


def test_a_node_that_has_no_row_is_a_face_that_is_missing():
    assert not geometry.faces(
        Structure(3, {"i": T([[0, 1]]), "{i j}": T([[0, 1], [1, 2]])})
    ).is_closed


def test_hyperedges_are_closed_but_no_manifold():
    found = geometry.faces(geometry.hypergraph([[0, 1, 2], [2, 3]], 4))
    assert found.is_closed
    assert found.is_pure
    assert not found.is_manifold
    assert not found.is_orientable


def test_a_directed_path_is_an_oriented_manifold():
    found = geometry.faces(geometry.graph([[0, 2], [1, 1]], 3, directed=True))
    assert found.is_manifold
    assert found.is_orientable


def test_nothing_but_nodes_is_a_manifold():
    for nodes in (0, 3):
        found = geometry.faces(Structure(nodes))
        assert (
            found.f_vector,
            found.is_pure,
            found.is_closed,
            found.is_manifold,
            found.is_orientable,
        ) == (
            (nodes,),
            True,
            True,
            True,
            True,
        )


def test_tensors_without_entries_leave_a_complex_that_is_not_pure():
    found = geometry.faces(geometry.simplicial_complex([[0, 1]], max_size=3))
    assert found.is_closed
    assert not found.is_pure


def test_a_batch_is_a_manifold_iff_each_of_its_structures_is():
    torus, touching = (
        geometry.simplicial_complex(SHAPES[name][0]) for name in ("torus", "two spheres that touch")
    )
    assert geometry.faces(collate([torus, torus])).is_manifold
    assert not geometry.faces(collate([torus, touching])).is_manifold


# ---- components


@modest
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_nodes_have_one_label_iff_they_are_connected(edges):
    groups = [{v} for v in range(10)]
    for a, b in edges:
        one = next(g for g in groups if a in g)
        other = next(g for g in groups if b in g)
        if one is not other:
            groups.remove(other)
            one |= other
    found = connect(torch.arange(10), *T(edges, dtype=torch.long).view(-1, 2).T).tolist()
    assert found == [min(next(g for g in groups if v in g)) for v in range(10)]


@modest
@given(
    st.lists(st.sampled_from([1, -1]), min_size=6, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=9),
)
def test_signs_are_found_up_to_one_sign_for_each_component(signs, edges):
    ends = T(edges, dtype=torch.long).view(-1, 2).T
    hidden = T(signs)
    found, is_fine = agreeing_signs(6, ends, hidden[ends].prod(0))
    assert is_fine.all()
    assert torch.equal(found[ends].prod(0), hidden[ends].prod(0))
    assert (found[connect(torch.arange(6), *ends)] == 1).all()


def test_long_paths_take_few_rounds():
    turn = torch.randperm(100_000, generator=torch.Generator().manual_seed(0))
    assert not connect(torch.arange(100_000), turn[:-1], turn[1:]).any()
