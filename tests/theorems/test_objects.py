"""The objects and small examples of the paper, each with the numbers it gives."""

from itertools import combinations, permutations
from math import factorial

import pytest
import torch

import incidence as inc
from incidence.algebra import EquivariantMap, counting
from incidence.nn import AutomorphismLinear, Exchangeable, Linear
from incidence.structure import Structure, carry
from incidence.symmetry import Group, automorphisms
from incidence.theorems.spans import is_within, rank
from tests.symmetry import solids

D = torch.float64


def test_a_layer_on_a_matrix_commutes_with_permuting_rows_and_columns_together():
    layer = Linear("i j -> i j", 1, 1, dtype=D)
    x = torch.randn(1, 5, 5, 1, dtype=D)
    pi = torch.randperm(5)
    assert torch.allclose(
        layer.dense(x[:, pi][:, :, pi]), layer.dense(x)[:, pi][:, :, pi], atol=1e-12
    )


def test_the_bipyramid_has_5_nodes_9_edges_7_triangles_and_2_tetrahedra():
    bipyramid = solids.bipyramid()
    assert [bipyramid.num_entries(t) for t in ("i", "{i j}", "{i j k}", "{i j k l}")] == [
        5,
        9,
        7,
        2,
    ]


def test_the_symmetries_of_the_bipyramid_are_the_12_of_the_prism():
    """D_3h: the six permutations of the triangle, times the exchange of the two apexes."""
    group = automorphisms(solids.bipyramid())
    assert group.order == 12
    for triangle in permutations(range(3)):
        assert [*triangle, 3, 4] in group
        assert [*triangle, 4, 3] in group
    assert [3, 1, 2, 0, 4] not in group


def test_a_symmetry_of_the_bipyramid_moves_the_columns_of_its_incidence_matrix_along():
    bipyramid = solids.bipyramid()
    turn = Group(bipyramid, [[1, 2, 0, 3, 4]])
    [nodes], [faces], [entries] = (turn.permutations(t) for t in ("i", "{i j k}", "i {i j k}"))
    triangles = [set(c) for c in bipyramid["{i j k}"].T.tolist()]
    for before, after in enumerate(faces.tolist()):
        assert triangles[after] == {int(nodes[v]) for v in triangles[before]}
    assert sorted(entries.tolist()) == list(range(21))


def test_after_densification_every_permutation_of_nodes_keeps_the_incidence_matrix():
    dense = Structure.complete(5, ["i {i j k}"])
    assert dense.num_entries("i {i j k}") == 3 * 10
    assert automorphisms(dense).order == factorial(5)


def test_the_receptive_fields_of_the_figure_have_15_and_7_and_4_parameters():
    assert EquivariantMap("i j -> i j").dimension == 15
    assert EquivariantMap("i {i j} -> i {i j}").dimension == 7
    assert Exchangeable("i {i j}", 1, 1).num_operations == 4
    edges = [
        b.count
        for b in EquivariantMap("i j -> i j").pairs
        if b.source.orbit.size == b.target.orbit.size == 2
    ]
    assert edges == [7]  # the pair between off-diagonals is the seven-parameter layer


def test_a_directed_cycle_and_a_complete_graph_need_different_layers():
    ring, complete = solids.directed_cycle(5), Structure.complete(5, ["(i j)"])
    assert AutomorphismLinear(ring, "i -> i", 1, 1).weight.shape[0] == 5
    assert AutomorphismLinear(complete, "i -> i", 1, 1).weight.shape[0] == 2


def poset(faces: dict[int, list[frozenset[int]]]) -> dict[tuple[int, int], list[int]]:
    """For every pair of ranks, how many faces of the higher rank contain each face of the lower,
    and the other way.
    """
    return {
        (a, b): [sum(x <= y or y <= x for y in faces[b]) for x in faces[a]]
        for a in faces
        for b in faces
        if a != b
    }


def test_the_poset_of_the_cube_is_that_of_the_figure():
    listed = solids.cube_faces()
    faces = {
        0: [frozenset([v]) for v in range(8)],
        1: list(map(frozenset, listed["{i j}"])),
        2: list(map(frozenset, listed["{i j k l}"])),
    }
    assert {rank_: len(members) for rank_, members in faces.items()} == {0: 8, 1: 12, 2: 6}
    degrees = {pair: set(counts) for pair, counts in poset(faces).items()}
    assert degrees == {(0, 1): {3}, (0, 2): {3}, (1, 0): {2}, (1, 2): {2}, (2, 0): {4}, (2, 1): {4}}


def test_incidence_in_the_cube_is_what_the_operators_count():
    """A face contains another iff it shares all of its nodes: the operator that matches
    them all.
    """
    cube = solids.cube()
    operator = Linear("{i j} -> {i j k l}", 1, 1).operator(2, cube).to_dense()
    assert operator.sum(1).tolist() == [4.0] * 6
    assert operator.sum(0).tolist() == [2.0] * 12


def test_the_soccer_ball_has_faces_of_two_sizes_and_one_rank():
    ball = solids.soccer_ball()
    sizes = torch.bincount(ball["face"][1])
    assert torch.bincount(sizes).tolist() == [0, 0, 0, 0, 0, 12, 20]
    assert ball.num_entries("i") - ball.num_entries("{i j}") + ball.num_entries("face") == 2
    assert automorphisms(ball).order == 120


def test_faces_of_one_rank_are_incident_iff_they_share_one_of_the_rank_below():
    """On the soccer ball: two polygons that share an edge. Every pentagon touches five hexagons,
    every hexagon six polygons.
    """
    ball = solids.soccer_ball()
    members = [set() for _ in range(32)]
    for node, face in ball["face"].T.tolist():
        members[face].add(node)
    edges = [set(e) for e in ball["{i j}"].T.tolist()]
    touching = [
        sum(any(e <= a and e <= b for e in edges) for b in members if b is not a) for a in members
    ]
    assert [touching[k] for k in range(32)] == [len(m) for m in members]


def incidence_of_k3() -> Structure:
    """The node-edge incidence of the example, with edges 12, 13, 23."""
    return Structure(
        3,
        {
            "i {i j}": torch.tensor([[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]),
            "{i j}": torch.tensor([[0, 0, 1], [1, 2, 2]]),
        },
    )


def relaxed_term(kept: tuple[int, int]) -> torch.Tensor:
    """One operation of the relaxed layer on the two channels of the example: n = 1, 10, 100 and e =
    2, 20, 200.
    """
    structure = incidence_of_k3()
    nodes, edges = (
        torch.tensor([[1.0], [10.0], [100.0]], dtype=D),
        torch.tensor([[2.0], [20.0], [200.0]], dtype=D),
    )
    x = torch.cat(
        [carry(structure, "i", "i {i j}", nodes), carry(structure, "{i j}", "i {i j}", edges)],
        dim=1,
    )
    layer = Exchangeable("i {i j}", 1, 1, bias=False, dtype=D)
    [number] = [
        k
        for k, o in enumerate(layer.linear.map.operations)
        if (o.overlap[0][0], o.overlap[1][1]) == kept
    ]
    return layer.linear.operator(number, layer.relax(structure)).to_dense() @ x


def test_pooling_over_edges_gives_twice_the_nodes_and_sums_of_edges():
    n, e = relaxed_term((1, 0)).T.tolist()
    assert n == [2.0, 2.0, 20.0, 20.0, 200.0, 200.0]
    assert e == [22.0, 22.0, 202.0, 202.0, 220.0, 220.0]  # e12 + e13, e12 + e23, e13 + e23


def test_pooling_over_nodes_gives_sums_of_nodes_and_twice_the_edges():
    n, e = relaxed_term((0, 1)).T.tolist()
    assert n == [11.0, 101.0, 11.0, 110.0, 101.0, 110.0]  # n1 + n2, n1 + n3, n2 + n3
    assert e == [4.0, 40.0, 4.0, 400.0, 40.0, 400.0]


@pytest.mark.parametrize("num_nodes", [3, 5])
def test_products_of_exact_layers_on_the_complete_graph_are_exact_layers(num_nodes):
    layer, graph = Linear("i, {i j} -> i, {i j}", 1, 1), Structure.complete(num_nodes, ["{i j}"])
    size = [num_nodes, num_nodes * (num_nodes - 1) // 2]
    whole = []
    for number, operation in enumerate(layer.map.operations):
        blocks = [[torch.zeros(r, c, dtype=D) for c in size] for r in size]
        blocks[operation.target.tensor][operation.source.tensor] = layer.operator(
            number, graph
        ).to_dense()
        whole.append(torch.cat([torch.cat(row, dim=1) for row in blocks]))
    span = torch.stack([m.flatten() for m in whole])
    products = torch.stack([(a @ b).flatten() for a in whole for b in whole])
    assert rank(span) == EquivariantMap("i, {i j} -> i, {i j}").dimension_at(num_nodes)
    assert bool(is_within(products, span).all())


def test_pooling_and_broadcasting_are_those_of_the_definitions():
    """W^(2->1): pool both and broadcast, pool the second index, pool the first."""
    layer = Linear("(i j) -> i", 1, 1, bias=False, dtype=D)
    x = torch.randn(1, 4, 4, 1, dtype=D)
    x[:, range(4), range(4)] = 0
    by_hand = {
        (0, 0): x.sum((1, 2), keepdim=True)[:, 0].expand(1, 4, 1),
        (1, 0): x.sum(2),
        (0, 1): x.sum(1),
    }
    assert len(layer.map.operations) == counting.tau(2, 1) == 3
    for number, operation in enumerate(layer.map.operations):
        layer.weight.data = torch.zeros(3, 1, 1, dtype=D)
        layer.weight.data[number] = 1
        assert torch.allclose(
            layer.dense(x), by_hand[operation.overlap[0][0], operation.overlap[1][0]], atol=1e-12
        )


def test_a_triangle_gets_the_features_of_an_edge_broadcast_along_its_third_node():
    s = Structure.complete(4, ["(i j)", "(i j k)"])
    x = torch.arange(12.0)[:, None]
    value = {tuple(c): v for c, v in zip(s["(i j)"].T.tolist(), x[:, 0].tolist(), strict=True)}
    assert carry(s, "(i j)", "(i j k)", x)[:, 0].tolist() == [
        value[i, j] for i, j, _ in s["(i j k)"].T.tolist()
    ]


def test_order_3_node_tensors_have_one_node_vector_three_edge_vectors_and_one_of_triples():
    assert (
        counting.kappa("i j k")
        == {m: counting.stirling(3, m) for m in (1, 2, 3)}
        == {1: 1, 2: 3, 3: 1}
    )
    assert [str(p.unnamed()) for p in inc.structure.face_patterns("i j k")] == [
        "i",
        "(i j)",
        "(i j)",
        "(i j)",
        "(i j k)",
    ]


def test_bell_numbers_count_matched_blocks_of_two_halves():
    for order in range(1, 6):
        sizes = range(1, order + 1)
        total = sum(
            counting.stirling(order, m) * counting.stirling(order, n) * counting.tau(m, n)
            for m in sizes
            for n in sizes
        )
        assert total == counting.bell(2 * order)


def test_a_simplicial_complex_is_closed_under_subsets_and_the_bipyramid_is_one():
    faces = solids.bipyramid_faces()
    listed = {frozenset(f) for members in faces.values() for f in members} | {
        frozenset([v]) for v in range(5)
    }
    assert all(
        frozenset(s) in listed
        for f in listed
        for k in range(1, len(f))
        for s in combinations(sorted(f), k)
    )
