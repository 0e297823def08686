"""Peers get the same data and as much work as they would in their own libraries."""

import sys

import pytest
import torch
from torch import nn

from benchmarks.speed import steps, structures, topomodelx
from benchmarks.speed.bench import Bench
from benchmarks.speed.peers import _stack
from benchmarks.speed.products import SparseProduct, lattice
from benchmarks.speed.sparse_matrix import OPERATIONS, FifteenOperations, SparseMatrix
from benchmarks.speed.stand_ins import hypergraph, molecules, random_hypergraph, random_molecules
from incidence.errors import IncidenceError, options_as
from incidence.models import make, settings_of
from incidence.nn import Dropout, Linear


def test_the_fifteen_features_span_what_the_layer_does():
    x = torch.randn(1, 5, 5, 1, dtype=torch.float64)
    assert _stack(x).shape == (15, 1, 5, 5, 1)
    eye = torch.eye(25, dtype=torch.float64).view(25, 5, 5, 1)
    assert torch.linalg.matrix_rank(_stack(eye).reshape(15, -1)) == 15


def test_the_authors_way_computes_the_same_map_with_matched_weights():
    matrix = structures.shuffled(structures.with_diagonal(structures.random_graph(60)))
    count = matrix.num_entries("i j")
    layer, theirs = Linear("i j -> i j", 3, 3, dtype=torch.float64), FifteenOperations(3).double()
    eye = SparseMatrix.of(matrix["i j"], torch.eye(count, dtype=torch.float64))
    their_operators = torch.stack(
        [broadcast(eye, pool(eye)).flatten() for pool, broadcast in OPERATIONS], dim=1
    )
    our_operators = torch.stack(
        [layer.operator(k, matrix).to_dense().flatten() for k in range(15)], dim=1
    )
    change = torch.linalg.lstsq(our_operators, their_operators).solution
    assert torch.linalg.matrix_rank(change) == 15  # nothing is there twice, or left out
    with torch.no_grad():
        layer.weight.copy_(torch.einsum("ba,acd->bcd", change, theirs.weight))
    x = torch.randn(count, 3, dtype=torch.float64)
    torch.testing.assert_close(theirs(SparseMatrix.of(matrix["i j"], x)), layer(x, matrix))


def test_a_sparse_matrix_has_the_edges_and_the_diagonal():
    graph = structures.random_graph(60)
    index = structures.with_diagonal(graph)["i j"]
    assert index.shape[1] == graph.num_entries("(i j)") + graph.num_nodes
    assert int((index[0] == index[1]).sum()) == graph.num_nodes


def _modules(net, kind):
    return [module for module in net.modules() if isinstance(module, kind)]


@pytest.mark.parametrize("has_edges", [False, True], ids=["GIN", "GINE"])
def test_peers_have_the_layers_the_width_and_the_dropout_of_the_preset(has_edges):
    examples = random_molecules(2)
    graph = steps.graph_of(examples[0], has_edges)
    peer, preset = (
        steps.Peer(graph, settings_of("graph", {})),
        make("graph", {"i": 9, "{i j}": 1}, 2),
    )
    assert len(peer.convolutions) == 1 + len(preset.blocks)  # the encoder is a layer, too
    assert peer.head[1].weight.shape[0] == preset.heads[0][2].weight.shape[0] == 32
    dropouts = [module.p for kind in (Dropout, nn.Dropout) for module in _modules(preset, kind)]
    assert [module.p for module in _modules(peer, nn.Dropout)] == dropouts == [0.2] * 4


def test_graphs_of_peers_have_every_edge_in_both_directions_and_only_what_is_read():
    example = random_molecules(1)[0]
    edges = example.structure["{i j}"]
    gin, gine = steps.graph_of(example, False), steps.graph_of(example, True)
    assert {*map(tuple, gin.edge_index.T.tolist())} == {
        *map(tuple, edges.T.tolist()),
        *map(tuple, edges.flip(0).T.tolist()),
    }
    assert (sorted(gin.keys()), sorted(gine.keys())) == (
        ["edge_index", "x", "y"],
        ["edge_attr", "edge_index", "x", "y"],
    )
    assert torch.equal(gine.edge_attr[: edges.shape[1]], gine.edge_attr[edges.shape[1] :])


def test_steps_measure_presets_as_users_get_them(monkeypatch):
    made = []
    monkeypatch.setattr(
        steps,
        "make",
        lambda *words, **settings: made.append((words, settings)) or make(*words, **settings),
    )
    bench = Bench(is_quick=True)
    figures = steps.steps(bench)
    assert [words[0] for words, _ in made] == ["graph", "rings", "matrix"]
    assert not any(settings for _, settings in made)
    assert [(figure.bar, figure.is_least) for figure in figures if "`graph`" in figure.name] == [
        (0.95, True),
        (1.0, True),
        (None, True),
        (None, True),
    ]
    assert [time.name for time in bench.times] == [
        f"a step: {name}"
        for name in (
            "graph",
            "rings",
            "matrix",
            "GIN",
            "GIN of as many parameters",
            "GINE",
            "GINE of as many parameters",
        )
    ]


def test_a_step_trains():
    net = nn.Linear(2, 2)
    x, target = torch.eye(2), torch.tensor([0, 1])
    step = steps._step(net, lambda numbers: (net(x[numbers]), target[numbers]), [[0], [1]])
    before = nn.functional.cross_entropy(net(x), target)
    for _ in range(20):
        step()
    assert nn.functional.cross_entropy(net(x), target) < before


def test_random_data_takes_the_place_of_what_is_not_there_and_that_is_said(tmp_path):
    bench = Bench(folder=tmp_path)
    assert molecules(bench)[0] == random_molecules()[0]
    assert hypergraph(bench) == random_hypergraph()
    assert [note.split(":")[0] for note in bench.notes] == [
        "on random data of the size of mutag", "on random data of the size of cora-coauthorship"
    ]  # fmt: skip


def test_random_data_has_the_size_of_what_it_stands_for():
    examples = random_molecules()
    nodes, edges = (
        sum(e.structure.num_entries(p) for e in examples) / len(examples) for p in ("i", "{i j}")
    )
    assert (len(examples), round(nodes), round(edges)) == (188, 18, 20)
    assert {key: x.shape[1] for key, x in examples[0].features.items()} == {"i": 9, "{i j}": 1}
    graph = random_hypergraph()
    assert (graph.num_nodes, graph.num_entries("{i ...}")) == (2708, 970)
    assert abs(graph["{i ...}"].shape[1] - 4353) < 100


def test_a_mesh_of_the_benchmark_has_the_laplacians_of_its_cells():
    mesh = structures.shuffled(structures.triangle_mesh(18))
    nodes, edges, faces = (laplacian.to_dense() for laplacian in topomodelx.hodge_laplacians(mesh))
    ends, sides = mesh["{i j}"], mesh["{i j k}"]
    degrees = torch.bincount(ends.flatten(), minlength=mesh.num_nodes)
    adjacency = torch.zeros(mesh.num_nodes, mesh.num_nodes)
    adjacency[ends[0], ends[1]] = adjacency[ends[1], ends[0]] = 1
    torch.testing.assert_close(nodes, degrees.diag().float() - adjacency)
    assert torch.equal(faces.diagonal(), torch.full((sides.shape[1],), 3.0))
    # A grid has no holes, so nothing is harmonic on its edges; shared edges are those of two
    # triangles.
    assert torch.linalg.matrix_rank(edges) == ends.shape[1]
    assert int((faces != 0).sum()) - sides.shape[1] == 2 * (3 * sides.shape[1] - ends.shape[1])


def test_without_an_environment_one_sentence_says_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    bench = Bench(is_quick=True)
    with options_as("command"):
        assert topomodelx.topomodelx(bench) == []
    (note,) = bench.notes
    assert note.startswith(
        "not measured: TopoModelX has no environment yet; --make-environment installs it in"
    )
    assert not any(tmp_path.iterdir())


def test_an_installation_that_fails_is_told_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(topomodelx.sys, "executable", "false")  # which cannot make an environment
    bench = Bench(is_quick=True, may_install=True)
    assert topomodelx.topomodelx(bench) == []
    assert bench.notes == [
        "not measured: the environment could not be installed: it did not say why"
    ]
    assert not (topomodelx.environment() / "done").exists()


def test_what_cannot_be_installed_is_told_by_the_last_line_of_the_installer():
    with pytest.raises(IncidenceError, match=r"^torch could not be installed: no such version$"):
        topomodelx._run(
            "torch", sys.executable, "-c", "import sys; sys.exit('looking\\nno such version')"
        )


def test_an_environment_is_made_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = []
    monkeypatch.setattr(
        topomodelx, "_install", lambda folder, python: made.append(folder.mkdir(parents=True))
    )
    bench = Bench(may_install=True)
    assert (
        topomodelx._python(bench)
        == topomodelx._python(bench)
        == topomodelx.environment() / "bin" / "python"
    )
    assert len(made) == 1


def test_the_layers_have_the_operations_that_the_figures_name():
    assert Linear("i, {i ...} -> i, {i ...}", 1, 1).map.dimension == 8
    assert Linear("i, {i j}, {i j k} -> i, {i j}, {i j k}", 1, 1).map.dimension == 23


def test_the_usual_way_to_multiply_sparse_matrices_gives_our_product():
    work = SparseProduct(500)
    torch.testing.assert_close(work.product(), work.scattered())


def test_the_support_of_products_has_as_many_arrows_at_every_node_and_is_closed():
    s = lattice(200)
    assert (
        torch.bincount(s["(i j)"][0]).tolist()
        == torch.bincount(s["(i j)"][1]).tolist()
        == [10] * 20
    )
    assert len(SparseProduct(500).targets) > 2500
