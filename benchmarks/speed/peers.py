"""Other ways to do the same, and layers that people know, on the same data."""

from __future__ import annotations

from importlib import import_module

import torch
from torch import Tensor

from benchmarks.speed import structures
from benchmarks.speed.bench import Bench, Work, one_thread
from benchmarks.speed.sparse_matrix import FifteenOperations, SparseMatrix
from benchmarks.speed.stand_ins import hypergraph
from benchmarks.speed.timing import Figure, ratio
from incidence.errors import need
from incidence.nn import Linear

__all__ = ["hypergraph_layer", "peers"]


def peers(bench: Bench) -> list[Figure]:
    """Layers of PyG on graphs and hypergraphs, the layer of the paper's authors, and a dense layer
    of fifteen operations.
    """
    return [*geometric(bench), *hypergraph_layer(bench), authors(bench), *dense_fifteen(bench)]


def geometric(bench: Bench) -> list[Figure]:
    """PyTorch Geometric: the same map composed from its scatter; GCNConv and GINEConv, which do far
    less, for context.
    """
    layers = need("torch_geometric.nn", "the benchmark `peers`", "peers")
    scatter = import_module("torch_geometric.utils").scatter
    work = Work(
        "(i j) -> (i j)", structures.shuffled(structures.random_graph(bench.size(400_000))), 64
    )
    edges = work.structure["(i j)"]
    nodes = torch.randn(int(edges.max()) + 1, 64, requires_grad=True)
    gcn_layer, gine_layer = layers.GCNConv(64, 64), layers.GINEConv(torch.nn.Linear(64, 64))

    def scattered(rows: Tensor, keys: Tensor, num_keys: int) -> Tensor:
        found: Tensor = scatter(rows, keys, dim=0, dim_size=num_keys, reduce="sum")
        return found

    def gcn() -> None:
        gcn_layer(nodes, edges).sum().backward()
        nodes.grad = None

    def gine() -> None:
        gine_layer(nodes, edges, work.xs[0]).sum().backward()
        nodes.grad = work.xs[0].grad = None

    variants = {
        "ours": work.ours,
        "composed": work.composed("entries", scattered),
        "GCNConv": gcn,
        "GINEConv": gine,
    }
    times = bench.timer("K = 64").run(variants)
    return [
        Figure(
            "the same map from PyG's scatter over ours",
            ratio(times, "composed", "ours"),
            bar=5.5,
            is_least=True,
        ),
        Figure("ours over GCNConv (1 operation on nodes)", ratio(times, "ours", "GCNConv")),
        Figure("ours over GINEConv (2 operations)", ratio(times, "ours", "GINEConv")),
    ]


def hypergraphs(bench: Bench) -> Figure:
    """All operations between nodes and hyperedges against PyG's one from nodes to hyperedges and
    back to nodes; on one thread.
    """
    layers = need("torch_geometric.nn", "the benchmark `peers`", "peers")
    work = Work("i, {i ...} -> i, {i ...}", structures.shuffled(hypergraph(bench)), 64)
    incidences, peer = work.structure["{i ...}"], layers.HypergraphConv(64, 64)
    nodes, grad = work.xs[0], work.grads[0]

    def theirs() -> None:
        peer(nodes, incidences).backward(grad)
        nodes.grad = None
        peer.zero_grad()

    with one_thread():
        times = bench.timer("hypergraph, K = 64", calls=10).run(
            {"ours": work.ours, "HypergraphConv": theirs}
        )
    name = "`i, {i ...}` to itself (8 operations) over PyG's HypergraphConv (1)"
    return Figure(name, ratio(times, "ours", "HypergraphConv"), bar=1.1)


def hypergraph_layer(bench: Bench) -> list[Figure]:
    """The layer on a hypergraph of `peers` alone, beside PyG's HypergraphConv."""
    return [hypergraphs(bench)]


def authors(bench: Bench) -> Figure:
    """`i j -> i j` on a sparse matrix, against every operation by itself, as the authors of the
    paper have it.
    """
    matrix = structures.with_diagonal(structures.random_graph(bench.size(100_000)))
    work = Work("i j -> i j", structures.shuffled(matrix), 64)
    theirs, x = FifteenOperations(64), SparseMatrix.of(work.structure["i j"], work.xs[0])

    def run() -> None:
        theirs(x).backward(work.grads[0])
        x.values.grad = None
        theirs.zero_grad()

    times = bench.timer("sparse matrix, K = 64").run({"ours": work.ours, "the authors' way": run})
    return Figure(
        "the authors' way over ours, `i j -> i j`, K = 64",
        ratio(times, "the authors' way", "ours"),
        bar=4.5,
        is_least=True,
    )


def dense_fifteen(bench: Bench) -> list[Figure]:
    """`i j -> i j` on complete graphs: our dense layer against stacking fifteen features and one
    product.

    On one thread, as the smaller arrays are too small for two.
    """
    with one_thread():
        return [_dense(bench, nodes) for nodes in (100, 200, 400)]


def _dense(bench: Bench, nodes: int) -> Figure:
    layer = Linear("i j -> i j", 16, 16)
    weight = torch.randn(15, 16, 16, requires_grad=True)
    x = torch.randn(1, nodes, nodes, 16, requires_grad=True)

    def stacked() -> None:
        torch.einsum("obijc,ocd->bijd", _stack(x), weight).sum().backward()
        x.grad = weight.grad = None

    def ours() -> None:
        layer.dense(x).sum().backward()
        x.grad = None
        layer.zero_grad()

    times = bench.timer(f"dense, N = {nodes}").run({"ours": ours, "stacked": stacked})
    return Figure(
        f"stack and einsum over our dense layer, N = {nodes}",
        ratio(times, "stacked", "ours"),
        bar=3.0,
        is_least=True,
    )


def _stack(x: Tensor) -> Tensor:
    """The fifteen features of a matrix, as they are usually written: pooled, placed on the diagonal
    or spread, and stacked.
    """
    n = x.shape[1]
    diagonal = x.diagonal(dim1=1, dim2=2).transpose(1, 2)  # (batch, N, channels)
    rows, cols = x.sum(2), x.sum(1)
    total, trace = rows.sum(1, keepdim=True), diagonal.sum(1, keepdim=True)

    def on_diagonal(v: Tensor) -> Tensor:
        return torch.diag_embed(v.transpose(1, 2)).permute(0, 2, 3, 1)

    def down(v: Tensor) -> Tensor:
        return v[:, :, None].expand(-1, -1, n, -1)

    def across(v: Tensor) -> Tensor:
        return v[:, None].expand(-1, n, -1, -1)

    vectors = [diagonal, rows, cols, total.expand(-1, n, -1), trace.expand(-1, n, -1)]
    spread = [
        x,
        x.transpose(1, 2),
        down(diagonal),
        across(diagonal),
        down(rows),
        across(rows),
        down(cols),
        across(cols),
    ]
    whole = [v[:, :, None].expand(-1, n, n, -1) for v in (total, trace)]
    return torch.stack([*map(on_diagonal, vectors), *spread, *whole])
