"""Other ways to do the same, and layers that people know, on the same data."""

from __future__ import annotations

from importlib import import_module

import torch
from torch import Tensor

from benchmarks.speed import structures
from benchmarks.speed.suite import Bench, Work
from benchmarks.speed.timing import Figure, ratio
from incidence.errors import need
from incidence.nn import Linear

__all__ = ["dense_fifteen", "geometric"]


def geometric(bench: Bench) -> list[Figure]:
    """PyTorch Geometric: the same map composed from its scatter; GCNConv and GINEConv, which do far less, for context."""
    layers = need("torch_geometric.nn", "the benchmark `peers`", "peers")
    scatter = import_module("torch_geometric.utils").scatter
    work = Work("(i j) -> (i j)", structures.random_graph(bench.size(400_000)), 64)
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

    variants = {"ours": work.ours, "composed": work.composed("entries", scattered), "GCNConv": gcn, "GINEConv": gine}
    times = bench.timer("K = 64").run(variants)
    return [
        Figure("the same map from PyG's scatter over ours", ratio(times, "composed", "ours"), bar=5.5, is_least=True),
        Figure("ours over GCNConv (1 operation on nodes)", ratio(times, "ours", "GCNConv")),
        Figure("ours over GINEConv (2 operations)", ratio(times, "ours", "GINEConv")),
    ]


def dense_fifteen(bench: Bench) -> list[Figure]:
    """`i j -> i j` on complete graphs: our dense layer against stacking fifteen features and one product.

    On one thread, as the smaller arrays are too small for two.
    """
    rows, threads = [], torch.get_num_threads()
    torch.set_num_threads(1)
    for nodes in (100, 200, 400):
        layer = Linear("i j -> i j", 16, 16)
        weight = torch.randn(15, 16, 16, requires_grad=True)
        x = torch.randn(1, nodes, nodes, 16, requires_grad=True)

        def stacked(x: Tensor = x, weight: Tensor = weight) -> None:
            torch.einsum("obijc,ocd->bijd", _stack(x), weight).sum().backward()
            x.grad = weight.grad = None

        def ours(x: Tensor = x, layer: Linear = layer) -> None:
            layer.dense(x).sum().backward()
            x.grad = None
            layer.zero_grad()

        times = bench.timer(f"dense, N = {nodes}").run({"ours": ours, "stacked": stacked})
        rows.append(Figure(f"stack and einsum over our dense layer, N = {nodes}", ratio(times, "stacked", "ours"), bar=3.0, is_least=True))
    torch.set_num_threads(threads)
    return rows


def _stack(x: Tensor) -> Tensor:
    """The fifteen features of a matrix, as they are usually written: pooled, placed on the diagonal or spread, and stacked."""
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
    spread = [x, x.transpose(1, 2), down(diagonal), across(diagonal), down(rows), across(rows), down(cols), across(cols)]
    whole = [v[:, :, None].expand(-1, n, n, -1) for v in (total, trace)]
    return torch.stack([*map(on_diagonal, vectors), *spread, *whole])
