"""Orientations and signs survive conversion, and are those of the other library."""

import gudhi
import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import toponetx as tnx
import torch
import trimesh
from torch_geometric.data import Batch, Data

from incidence import geometry
from incidence.errors import IncidenceError
from incidence.geometry import convert, lifting
from incidence.structure import Example, Structure, collate
from incidence.testing.rewriting import reoriented

T = torch.tensor
FACETS = [[0, 1, 2], [1, 2, 3], [3, 4], [2, 4, 5]]


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def flows(seed: int = 0) -> Example:
    """A complex with random orientations and random flows."""
    s = reoriented(geometry.simplicial_complex(FACETS, oriented=True), generator(seed))[0]
    texts = ["i", *map(str, s.patterns)]
    return Example(
        s,
        {
            text: torch.randn(
                s.num_entries(text), 2, generator=generator(seed), dtype=torch.float64
            )
            for text in texts
        },
    )


# ---- PyG


def test_pyg_holds_flows_as_opposite_features_of_the_two_directions():
    example = flows()
    data = convert.to_pyg(example)
    there, back = data.edge_index.chunk(2, dim=1)
    assert torch.equal(there, example.structure["<i j>"])
    assert torch.equal(back, there.flip(0))
    assert torch.equal(
        data.edge_attr, torch.cat([example.features["<i j>"], -example.features["<i j>"]])
    )
    assert torch.equal(data.face, example.structure["<i j k>"])
    assert convert.from_pyg(data) == example


def test_batches_of_flows_go_to_pyg_and_back():
    batch = collate([flows(k) for k in range(3)])
    assert convert.from_pyg(convert.to_pyg(batch)) == batch


def test_oriented_edges_have_the_direction_in_which_they_come_first_and_faces_their_winding():
    data = Data(
        edge_index=T([[2, 0, 1], [1, 1, 2]]),
        edge_attr=T([[3.0], [5.0], [-3.0]]),
        face=T([[2], [0], [1]]),
        num_nodes=3,
    )
    found = convert.from_pyg(data, edges="<i j>")
    assert found.structure["<i j>"].tolist() == [[2, 0], [1, 1]]
    assert found.features["<i j>"].tolist() == [[3.0], [5.0]]
    assert found.structure["<i j k>"].tolist() == [[2], [0], [1]]
    whole = convert.from_pyg(Batch.from_data_list([data, data]), edges="<i j>")
    assert whole == collate([found, found])


def test_flows_that_are_not_opposite_are_named():
    data = Data(edge_index=T([[0, 1], [1, 0]]), edge_attr=T([[3.0], [3.0]]), num_nodes=2)
    with pytest.raises(
        IncidenceError,
        match=(
            r"edge_attr of the edge \(0, 1\) is not the opposite of that of \(1, 0\).*Make them"
            r" opposite"
        ),
    ):
        convert.from_pyg(data, edges="<i j>")


def test_triangles_without_orientation_beside_flows_have_a_place_of_their_own():
    s = Structure(3, {"<i j>": T([[1], [0]]), "{i j k}": T([[0], [1], [2]])})
    assert convert.from_pyg(convert.to_pyg(s)).structure == s
    lone = Structure(3, {"<i j k>": T([[1], [0], [2]])})
    assert convert.from_pyg(convert.to_pyg(lone)).structure == lone


# ---- TopoNetX


def test_signs_are_those_of_the_incidence_matrices_of_toponetx():
    cells = tnx.SimplicialComplex([*FACETS, [2, 4, 5, 6]])
    found = geometry.faces(convert.from_toponetx(cells, oriented=True).structure)
    assert found.tensors == ("i", "<i j>", "<i j k>", "<i j k l>")
    for rank in (1, 2, 3):
        theirs = cells.incidence_matrix(rank, signed=True).toarray()
        assert np.array_equal(found.boundary_matrix(rank).to_dense().numpy(), theirs)
        laplacian = geometry.hodge(
            convert.from_toponetx(cells, oriented=True).structure, rank
        ).laplacian
        assert np.array_equal(
            laplacian.to_dense().numpy(), cells.hodge_laplacian_matrix(rank, signed=True).toarray()
        )


def test_triangles_of_a_cell_complex_keep_their_cycle_and_signs_agree():
    cells = tnx.CellComplex()
    for cycle in ([2, 1, 0], [0, 1, 3]):
        cells.add_cell(cycle, rank=2)
    cells.add_edge(5, 3)
    example = convert.from_toponetx(cells, oriented=True)
    found = geometry.faces(example.structure)
    nodes = list(cells.nodes)
    for rank, name in ((1, "<i j>"), (2, "<i j k>")):
        rows, columns, theirs = cells.incidence_matrix(rank, signed=True, index=True)
        own = [tuple(nodes[v] for v in column) for column in example.structure[name].T.tolist()]
        below = (
            nodes
            if rank == 1
            else [
                tuple(nodes[v] for v in column) for column in example.structure["<i j>"].T.tolist()
            ]
        )
        order = np.ix_([rows[face] for face in below], [columns[face] for face in own])
        assert np.array_equal(
            found.boundary_matrix(rank).to_dense().numpy(), theirs.toarray()[order]
        )


def test_flows_in_toponetx_belong_to_its_own_orientations():
    example = flows()
    cells = convert.to_toponetx(example)
    divergence = geometry.faces(example.structure).boundary_matrix(1) @ example.features["<i j>"]
    values = np.stack([cells[edge]["features"] for edge in cells.skeleton(1)])
    assert np.allclose(cells.incidence_matrix(1, signed=True) @ values, divergence)


@pytest.mark.parametrize("seed", range(3))
def test_orientations_survive_toponetx(seed):
    example = flows(seed)
    back = convert.from_toponetx(convert.to_toponetx(example))
    for text, x in example.features.items():
        rows, signs = back.structure.locate(text, example.structure[text], with_sign=True)
        assert signs.eq(1).all()  # the same orientations, in another order of rows
        assert torch.equal(back.features[text][rows], x)
    plain = convert.from_toponetx(convert.to_toponetx(example), oriented=False).structure
    assert [str(p) for p in plain.patterns] == ["{i j}", "{i j k}"]


def test_cells_without_orientation_are_refused():
    square = tnx.CellComplex()
    square.add_cell([0, 1, 2, 3], rank=2)
    with pytest.raises(IncidenceError, match=r"`face={i \.\.\.}` has the cell \(0, 1, 2, 3\)"):
        convert.from_toponetx(square, oriented=True)
    with pytest.raises(
        IncidenceError, match=r"the cells `rank2={i \.\.\.}` of this complex have none"
    ):
        convert.from_toponetx(
            tnx.CombinatorialComplex([[0, 1], [0, 1, 2]], ranks=[1, 2]), oriented=True
        )


# ---- gudhi


def test_gudhi_gives_oriented_faces_beside_its_filtration():
    tree = gudhi.SimplexTree()
    for facet in FACETS:
        tree.insert(facet, 0.5)
    example = convert.from_gudhi(tree, oriented=True)
    s = example.structure
    assert torch.equal(s["<i j k>"], s["{i j k}"])
    assert set(example.features) == {"i", "{i j}", "{i j k}"}
    assert convert.from_gudhi(convert.to_gudhi(example), oriented=True) == example
    alone = geometry.simplicial_complex(FACETS, oriented=True)
    assert convert.to_gudhi(alone).num_simplices() == tree.num_simplices()


def test_orientations_that_gudhi_cannot_keep_are_refused():
    s, _ = geometry.simplicial_complex(FACETS, oriented=True).reverse("<i j>", [2])
    with pytest.raises(
        IncidenceError,
        match=r"orients faces by ascending nodes, and \(2, 1\) of `<i j>` is not. Reverse it first",
    ):
        convert.to_gudhi(s)
    with pytest.raises(IncidenceError, match=r"`{i j}` and `<i j>` are different faces"):
        convert.to_gudhi(Structure(3, {"{i j}": T([[0], [1]]), "<i j>": T([[1], [2]])}))


# ---- trimesh


def test_winding_is_orientation_in_trimesh():
    box = trimesh.creation.box()
    example = convert.from_trimesh(box, oriented=True)
    assert torch.equal(example.structure["<i j k>"], T(np.array(box.faces)).T)
    top = geometry.faces(example.structure).boundary_matrix(2)
    # a closed surface, wound in one sense
    assert not (top @ torch.ones(12, 1, dtype=torch.float64)).any()
    example = example.replace(
        features={**example.features, "<i j k>": torch.randn(12, 1, dtype=torch.float64)}
    )
    assert convert.from_trimesh(convert.to_trimesh(example)) == example


# ---- NetworkX and scipy


def test_a_digraph_is_a_graph_with_oriented_edges():
    graph = nx.DiGraph([(1, 0), (1, 2)])
    nx.set_edge_attributes(graph, {(1, 0): 2.0, (1, 2): 3.0}, "flow")
    example = convert.from_networkx(graph, edges="<i j>", edge_features=["flow"])
    # nodes are numbered as the graph has them
    assert example.structure["<i j>"].tolist() == [[0, 0], [1, 2]]
    kept = example.replace(features={"<i j>": example.features["<i j>"]})
    back = convert.to_networkx(kept)
    assert back.is_directed()
    assert convert.from_networkx(back) == kept
    with pytest.raises(
        IncidenceError, match=r"the edges of a Graph are read as `{i j}`, for example; got `<i j>`"
    ):
        convert.from_networkx(nx.path_graph(3), edges="<i j>")
    with pytest.raises(IncidenceError, match="denote one entry, whatever its orientation"):
        convert.from_networkx(nx.DiGraph([(0, 1), (1, 0)]), edges="<i j>")


def test_an_antisymmetric_matrix_is_a_flow():
    matrix = np.array([[0, 2.0, 0], [-2.0, 0, -5.0], [0, 5.0, 0]])
    example = convert.from_scipy(matrix, "<i j>")
    assert example.structure["<i j>"].tolist() == [[0, 1], [1, 2]]
    assert example.features["<i j>"].tolist() == [[2.0], [-5.0]]
    assert np.array_equal(convert.to_scipy(example).toarray(), matrix)
    half = convert.from_scipy(scipy.sparse.coo_array(np.triu(matrix)), "<i j>")
    assert half == example
    with pytest.raises(IncidenceError, match="is not the opposite of"):
        convert.from_scipy(np.ones((2, 2)) - np.eye(2), "<i j>")


def test_arrays_keep_orientations():
    example = flows()
    assert convert.from_numpy(convert.to_numpy(example)) == example


# ---- features


def test_features_follow_the_orientation_in_which_they_are_told():
    s = geometry.graph(T([[0, 1], [1, 2]]), num_nodes=3, oriented=True)
    edges = T([[2, 0, 1], [1, 1, 2]])
    assert geometry.align(s, "<i j>", edges, T([4.0, 7.0, 6.0]), reduce="mean").tolist() == [
        7.0,
        1.0,
    ]
    for reduce, values, what in (
        ("max", T([4.0, 7.0, 6.0]), "reduce='max'"),
        ("sum", T([True, True, False]), "type bool"),
    ):
        with pytest.raises(
            IncidenceError,
            match=rf"values of `<i j>` change sign with the orientation.*{what} cannot follow",
        ):
            geometry.align(s, "<i j>", edges, values, reduce=reduce)


def test_a_line_graph_does_not_take_flows_for_features_of_nodes():
    to_lines = lifting.as_transform(lifting.line_graph)
    s = geometry.graph(T([[0, 1], [1, 2]]), num_nodes=3, oriented=True)
    assert to_lines(Example(s)).structure.num_entries("{i j}") == 1
    with pytest.raises(
        IncidenceError,
        match="features of `<i j>` change sign with orientations, and those of nodes do not",
    ):
        to_lines(Example(s, {"<i j>": torch.ones(2, 1)}))
