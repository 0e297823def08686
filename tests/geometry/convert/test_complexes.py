"""trimesh, gudhi and TopoNetX: meshes and complexes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import incidence as inc
from incidence.algebra import Pattern
from incidence.errors import IncidenceError
from incidence.geometry import lifting
from incidence.geometry.convert import (
    from_gudhi,
    from_toponetx,
    from_trimesh,
    to_gudhi,
    to_toponetx,
    to_trimesh,
)
from incidence.structure import Example, Structure
from tests.geometry.convert.random_examples import (
    closed_complex,
    node_keys,
    random_rows,
    seeds,
    with_features,
)
from tests.structure.random_structures import random_structure

gudhi = pytest.importorskip("gudhi")
tnx = pytest.importorskip("toponetx")
trimesh = pytest.importorskip("trimesh")
T = torch.tensor
few = settings(max_examples=30, deadline=None)
TRIANGLE = Structure(3, {"{i j}": [[0, 0, 1], [1, 2, 2]], "{i j k}": [[0], [1], [2]]})


# ---- trimesh


def random_mesh(num_nodes: int, seed: int) -> Example:
    faces = random_structure(num_nodes, ["{i j k}"], seed)["{i j k}"]
    edges = closed_edges(faces)
    structure = Structure(num_nodes, {"{i j}": edges, "{i j k}": faces})
    features = {
        "pos=i": random_rows(num_nodes, 3, seed, torch.float64),
        "i": random_rows(num_nodes, 2, seed + 1),
    }
    return Example(structure, {**features, "{i j k}": random_rows(faces.shape[1], 1, seed + 2)})


def closed_edges(faces: torch.Tensor) -> torch.Tensor:
    pairs = {
        tuple(sorted((f[a], f[b]))) for f in faces.T.tolist() for a, b in ((0, 1), (0, 2), (1, 2))
    }
    return torch.tensor(sorted(pairs), dtype=torch.long).view(-1, 2).T


@few
@given(st.integers(3, 7), seeds)
def test_meshes_come_back_with_winding_and_features(num_nodes, seed):
    example = random_mesh(num_nodes, seed)
    there = to_trimesh(example)
    assert len(there.vertices) == num_nodes  # vertices of no face stay
    back = from_trimesh(there)
    assert back == example
    assert torch.equal(back.structure["{i j k}"], example.structure["{i j k}"])


def test_a_mesh_without_faces_comes_back():
    structure = Structure(3, {"{i j}": [], "{i j k}": []})
    example = Example(structure, {"pos=i": torch.eye(3, dtype=torch.float64)})
    assert from_trimesh(to_trimesh(example)) == example


def test_the_triangles_alone_are_a_mesh():
    structure = Structure(3, {"{i j k}": [[0], [2], [1]]})
    assert to_trimesh(Example(structure, {"pos=i": torch.eye(3)})).faces.tolist() == [[0, 2, 1]]


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: from_trimesh("mesh"), "from_trimesh takes a Trimesh; got str"),
        (
            lambda: from_trimesh(trimesh.Trimesh(np.eye(3), [[0, 1, 1]], process=False)),
            r"from_trimesh, face 0 is \[0, 1, 1\]: it names a point twice\. Remove it",
        ),
        (
            lambda: from_trimesh(trimesh.Trimesh(np.eye(3), [[0, 1, 2], [2, 1, 0]], process=False)),
            r"face 1 is \[.*\]: number 0 has the same points already",
        ),
        (
            lambda: to_trimesh(TRIANGLE),
            r"a mesh needs coordinates.*give features\['pos=i'\] of shape \[nodes, 3\]",
        ),
        (
            lambda: to_trimesh(Example(TRIANGLE, {"pos=i": torch.zeros(3, 2)})),
            "a mesh needs coordinates",
        ),
        (
            lambda: to_trimesh(
                Example(
                    Structure(3, {"{i j}": [[0], [1]], "{i j k}": [[0], [1], [2]]}),
                    {"pos=i": torch.eye(3)},
                )
            ),
            "the edges of a mesh are those of its triangles, and these are others",
        ),
        (
            lambda: to_trimesh(Example(TRIANGLE, {"{i j}": torch.zeros(3, 1)})),
            "no place for features of `{i j}`",
        ),
    ],
)
def test_what_is_no_mesh_is_refused(read, message):
    with pytest.raises(IncidenceError, match=message):
        read()


# ---- gudhi


def filtered(structure: Structure, seed: int) -> Example:
    """Values that grow with the faces: the largest of the nodes, and a bit more for each."""
    at = torch.rand(
        structure.counts["node"], generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    features = {"i": at[:, None]}
    for p in structure.patterns:
        features[str(p)] = (
            at[structure[p]].amax(0)[:, None] + len(p.letters)
            if structure.num_entries(p)
            else torch.zeros(0, 1).double()
        )
    return Example(structure, features)


@few
@given(st.integers(1, 6), st.integers(2, 4), seeds)
def test_filtered_complexes_come_back(num_nodes, max_size, seed):
    structure = closed_complex(num_nodes, max_size, seed)
    example = filtered(structure, seed)
    assert from_gudhi(to_gudhi(example), max_size) == example
    assert from_gudhi(to_gudhi(structure), max_size).structure == structure


def test_a_tree_is_read_up_to_its_dimension_or_a_size():
    tree = gudhi.SimplexTree()
    tree.insert([7, 3, 5], 2.0)
    tree.insert([9], 1.0)
    example = from_gudhi(tree)
    assert example.structure.num_nodes == 4
    assert example.structure["{i j k}"].tolist() == [[0], [1], [2]]
    assert example.features["i"].tolist() == [[2.0], [2.0], [2.0], [1.0]]
    assert [str(p) for p in from_gudhi(tree, 2).structure.patterns] == ["{i j}"]
    assert from_gudhi(tree, 4).structure.num_entries("{i j k l}") == 0
    assert from_gudhi(gudhi.SimplexTree()).structure == Structure(0)


def test_a_rips_complex_of_gudhi_is_ours():
    points = torch.rand(12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    tree = gudhi.RipsComplex(points=points.numpy(), max_edge_length=0.7).create_simplex_tree(
        max_dimension=3
    )
    assert from_gudhi(tree, 4).structure == lifting.vietoris_rips(points, 0.7, 4)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: from_gudhi([[0, 1]]), "from_gudhi takes a SimplexTree; got list"),
        (lambda: to_gudhi(Structure(3, {"{i j k}": [[0], [1], [2]]})), "not closed under subsets"),
        (
            lambda: to_gudhi(Structure(3, {"(i j)": [[0], [1]]})),
            r"gudhi has no place for `\(i j\)`",
        ),
        (
            lambda: to_gudhi(Example(TRIANGLE, {"i": torch.zeros(3, 1)})),
            "a feature of one channel of every tensor, of `i` too, or of none",
        ),
        (
            lambda: to_gudhi(
                Example(
                    TRIANGLE,
                    {
                        "i": torch.ones(3, 1),
                        "{i j}": torch.zeros(3, 1),
                        "{i j k}": torch.ones(1, 1),
                    },
                )
            ),
            r"the face \[0\] of `i` has the value 1.0, and one that contains it has 0.0",
        ),
    ],
)
def test_what_is_no_filtered_complex_is_refused(read, message):
    with pytest.raises(IncidenceError, match=message):
        read()


# ---- TopoNetX


@few
@given(st.integers(1, 6), st.integers(2, 4), seeds)
def test_simplicial_complexes_come_back(num_nodes, max_size, seed):
    structure = closed_complex(num_nodes, max_size, seed)
    example = with_features(structure, ["i", "pos=i"], seed)
    entries = {
        str(p): random_rows(structure.num_entries(p), 2, seed)
        for p in structure.patterns
        if structure.num_entries(p)
    }
    example = example.replace(features={**example.features, **entries})
    there = to_toponetx(example, "simplicial")
    assert isinstance(there, tnx.SimplicialComplex)
    assert from_toponetx(there, max_size - 1) == example


@few
@given(st.integers(3, 7), seeds)
def test_cell_complexes_of_rings_come_back(num_nodes, seed):
    graph = closed_complex(num_nodes, 2, seed)
    more = torch.stack([torch.arange(num_nodes - 1), torch.arange(1, num_nodes)])
    edges = torch.cat([graph["{i j}"], more], 1).unique(dim=1)
    structure = lifting.rings(Structure(num_nodes, {"{i j}": edges}), num_nodes, name="face")
    keys = [key for key in node_keys(structure) if structure.num_entries(key)]
    example = with_features(structure, keys, seed)
    there = to_toponetx(example)
    assert isinstance(there, tnx.CellComplex)
    back = from_toponetx(there, 2)
    assert back == example
    rank_two = there.incidence_matrix(2).shape[1] if structure.num_entries("face") else 0
    assert rank_two == structure.num_entries("face")


def test_a_graph_is_a_cell_complex_without_cells():
    graph = Structure(3, {"{i j}": [[0, 1], [1, 2]]})
    assert from_toponetx(to_toponetx(graph, "cell"), 1).structure == graph


def test_a_cell_with_a_chord_keeps_its_way_around():
    cells = tnx.CellComplex()
    for node in range(4):
        cells.add_node(node)
    cells.add_cell([0, 2, 1, 3], rank=2)
    cells.add_edge(0, 1)
    back = to_toponetx(from_toponetx(cells))
    assert [tuple(cell.elements) for cell in back.cells] == [(0, 2, 1, 3)]


def ranked(num_nodes: int, seed: int) -> Structure:
    structure = random_structure(num_nodes, ["{i j}", "rank2={i ...}"], seed)
    _, entry = structure["rank2"]
    sizes = torch.bincount(entry, minlength=structure.num_entries("rank2"))
    return structure.select("rank2", sizes > 2)


@few
@given(st.integers(1, 6), seeds, st.sampled_from(["combinatorial", "colored"]))
def test_combinatorial_complexes_come_back(num_nodes, seed, kind):
    structure = ranked(num_nodes, seed)
    keys = [key for key in node_keys(structure) if structure.num_entries(key)]
    example = with_features(structure, keys, seed)
    there = to_toponetx(example, kind)
    assert (
        type(there).__name__
        == {"combinatorial": "CombinatorialComplex", "colored": "ColoredHyperGraph"}[kind]
    )
    assert from_toponetx(there, 2) == example


def test_hyperedges_of_rank_one_are_open_faces_unless_all_are_pairs():
    cells = tnx.CombinatorialComplex()
    cells.add_cell([0, 1, 2], rank=1)
    cells.add_cell([2, 3], rank=1)
    assert [str(p) for p in from_toponetx(cells).structure.patterns] == ["rank1={i ...}"]
    assert from_toponetx(to_toponetx(from_toponetx(cells))) == from_toponetx(cells)


def test_nodes_called_anything_are_read():
    example = from_toponetx(tnx.SimplicialComplex([["b", "a", "c"]]))
    assert example.structure == TRIANGLE


SQUARE = {"{i j}": T([[0, 0, 1, 2], [1, 3, 2, 3]])}


def several_cells() -> object:
    cells = tnx.CellComplex()
    cells.add_cell([0, 1, 2], rank=2)
    cells.add_cell([2, 1, 0], rank=2)
    return cells


def half_with_features() -> object:
    cells = tnx.CombinatorialComplex()
    cells.add_cell([0, 1], rank=1, features=1.0)
    cells.add_cell([1, 2], rank=1)
    return cells


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: from_toponetx([[0, 1]]), "from_toponetx takes a complex of TopoNetX; got list"),
        (
            lambda: from_toponetx(several_cells()),
            r"index\[.face={i \.\.\.}.\]: columns 0 and 1 denote one entry",
        ),
        (
            lambda: from_toponetx(half_with_features()),
            "1 of 2 cells of `{i j}` have no attribute `features`",
        ),
        (
            lambda: to_toponetx(Structure(2), "graph"),
            "kind is one of simplicial, cell, combinatorial, colored; got 'graph'",
        ),
        (
            lambda: to_toponetx(Structure(3, {"{i j k}": [[0], [1], [2]]})),
            "a simplicial complex is closed under subsets",
        ),
        (
            lambda: to_toponetx(Structure(2, {"(i j)": [[0], [1]]})),
            r"toponetx has no place for `\(i j\)`",
        ),
        (
            lambda: to_toponetx(Structure(3, {"{i ...}": [[0, 1, 2], [0, 0, 0]]})),
            "a cell complex has edges `{i j}`, and faces such as",
        ),
        (
            lambda: to_toponetx(Structure(4, {**SQUARE, "face={i ...}": [[0, 1, 2], [0, 0, 0]]})),
            r"the nodes \[0, 1, 2\] of a face are no cycle of edges without chords",
        ),
        (
            lambda: to_toponetx(
                Structure(3, {"{i j}": [[0], [1]], "rank1={i ...}": [[0, 1, 2], [0, 0, 0]]}),
                "combinatorial",
            ),
            "two of `{i j}`, `rank1={i ...}` have one rank",
        ),
        (
            lambda: to_toponetx(
                Structure(
                    3, {"rank1={i ...}": [[0, 1, 2], [0, 0, 0]], "rank2={i ...}": [[0, 1], [0, 0]]}
                )
            ),
            (
                "to_toponetx: .*violation of the combinatorial complex condition|has no set of"
                " nodes in two ranks"
            ),
        ),
        (
            lambda: to_toponetx(
                Structure(
                    3,
                    {
                        "rank1={i ...}": [[0, 1, 2], [0, 0, 0]],
                        "rank2={i ...}": [[0, 1, 2], [0, 0, 0]],
                    },
                )
            ),
            "has no set of nodes in two ranks. Write it with kind='colored'",
        ),
        (lambda: to_toponetx(inc.collate([TRIANGLE] * 2)), "this is a batch of 2"),
    ],
)
def test_what_is_no_complex_is_refused(read, message):
    with pytest.raises(IncidenceError, match=message):
        read()


def test_patterns_are_those_of_the_builders():
    assert (
        Pattern("{i j k}") in from_toponetx(tnx.SimplicialComplex([[0, 1, 2]])).structure.patterns
    )
