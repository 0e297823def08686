"""Products and attention beside the usual ways: gather, multiply and scatter; dense products; PyG's
TransformerConv.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

from benchmarks.speed import structures
from benchmarks.speed.bench import ROOT, Bench, one_thread
from benchmarks.speed.timing import Figure, ratio
from incidence import einsum
from incidence.algebra.products import ProductText
from incidence.engine.products.contract import join_plan_of
from incidence.engine.products.plan import JoinStep
from incidence.errors import need
from incidence.nn import Attention
from incidence.structure import Structure, collate

__all__ = ["SparseProduct", "complete", "lattice", "products"]

TEXT = "(i j), (j k) -> (i k)"
EDGES, NODES, CHANNELS = 100_000, 400, 64


def products(bench: Bench) -> list[Figure]:
    """Products of sparse matrices against gather-multiply-scatter, scipy, tensora and dense
    products, and of complete ones against matmul; attention against TransformerConv.
    """
    return [*sparse(bench), *one_channel(bench), *attention(bench), *complete(bench)]


def lattice(num_edges: int, degree: int = 10) -> Structure:
    """Nodes on a ring, each with arrows to its nearest: a support in which most pairs of arrows
    that meet are closed by a third.
    """
    num_nodes = num_edges // degree
    steps = torch.tensor([step for k in range(1, degree // 2 + 1) for step in (k, -k)])
    nodes = torch.arange(num_nodes).repeat_interleave(degree)
    return Structure(
        num_nodes, {"(i j)": torch.stack([nodes, (nodes + steps.repeat(num_nodes)) % num_nodes])}
    )


class SparseProduct:
    """`(i j), (j k) -> (i k)` forward and backward: ours, and as it is usually written with the
    same index lists.

    Args:
        num_edges: How many entries the support has.
    """

    def __init__(self, num_edges: int) -> None:
        self.structure = structures.shuffled(lattice(num_edges))
        self.xs = [torch.randn(num_edges, CHANNELS, requires_grad=True) for _ in range(2)]
        self.grad = torch.randn(num_edges, CHANNELS)
        [step] = join_plan_of(self.structure, ProductText(TEXT)).steps
        assert isinstance(step, JoinStep)  # few of all pairs are present
        for role in range(3):
            step.lists(role)
        self.rows = [column.long() for column in step.rows]
        self.targets = torch.arange(num_edges).repeat_interleave(step.ptr.diff().long())

    def backward(self, y: Tensor) -> None:
        """Backward from either result."""
        y.backward(self.grad)
        for x in self.xs:
            x.grad = None

    def product(self) -> Tensor:
        """Ours."""
        return einsum(TEXT, *self.xs, self.structure)

    def scattered(self) -> Tensor:
        """Gather the rows of both operands, multiply, add up at the targets: two arrays of joined
        rows x channels, and their product.
        """
        joined = self.xs[0][self.rows[0]] * self.xs[1][self.rows[1]]
        return torch.zeros_like(self.grad).index_add(0, self.targets, joined)

    def ours(self) -> None:
        """Forward and backward."""
        self.backward(self.product())

    def usual(self) -> None:
        """Forward and backward of the usual way."""
        self.backward(self.scattered())


def sparse(bench: Bench) -> list[Figure]:
    """On 100,000 entries, 64 channels; and dense matrices of 400 nodes, which have about as
    many.
    """
    work, nodes = SparseProduct(bench.size(EDGES)), bench.size(NODES)
    matrices = [torch.randn(CHANNELS, nodes, nodes, requires_grad=True) for _ in range(2)]

    def dense() -> None:
        (matrices[0] @ matrices[1]).sum().backward()
        for matrix in matrices:
            matrix.grad = None

    times = bench.timer("product, K = 64").run(
        {"ours": work.ours, "gather, multiply, scatter": work.usual, "dense": dense}
    )
    peaks = [[_peak(bench, way) for _ in range(bench.repeats)] for way in ("usual", "ours")]
    return [
        Figure(
            "gather-multiply-scatter over our product",
            ratio(times, "gather, multiply, scatter", "ours"),
            bar=2.0,
            is_least=True,
        ),
        Figure(
            "its memory above inputs over ours",
            [a / max(b, 1) for a, b in zip(*peaks, strict=True)],
            bar=3.0,
            is_least=True,
        ),
        Figure(
            f"dense product, N = {NODES}, over our product of {EDGES:,} entries of a lattice",
            ratio(times, "dense", "ours"),
        ),
    ]


def one_channel(bench: Bench) -> list[Figure]:
    """The same product of one channel, forward alone, beside scipy, which computes all paths and
    then takes those that are asked for, and beside tensora, where they are installed.
    """
    structure = structures.shuffled(lattice(bench.size(EDGES)))
    nodes, edges = structure.num_nodes, structure["(i j)"].numpy()
    x = torch.randn(edges.shape[1], 1)
    values = x[:, 0].numpy()
    variants: dict[str, Callable[[], object]] = {"ours": lambda: einsum(TEXT, x, x, structure)}
    if find_spec("scipy"):
        sparse_array = import_module("scipy.sparse").csr_array
        a = sparse_array((values, tuple(edges)), shape=(nodes, nodes))
        mask = sparse_array((np.ones_like(values), tuple(edges)), shape=(nodes, nodes))
        variants["scipy"] = lambda: (a @ a).multiply(mask)
    if find_spec("tensora"):
        tensora = import_module("tensora")
        text, places = "c(i,k) = m(i,k) * a(i,j) * b(j,k)", tuple(row.tolist() for row in edges)
        given = {
            name: tensora.Tensor.from_soa(
                places, own.tolist(), dimensions=(nodes, nodes), format=order
            )
            for name, own, order in (
                ("m", np.ones_like(values), "ds"),
                ("a", values, "ds"),
                ("b", values, "d1s0"),
            )
        }
        variants["tensora"] = lambda: tensora.evaluate(text, "ds", **given)
    missing = [name for name in ("scipy", "tensora") if name not in variants]
    bench.notes += [f"{name} is not installed, and not compared" for name in missing]
    with one_thread():
        times = bench.timer("product, one channel", calls=5).run(variants)
    return [
        Figure(f"{name} over our product of one channel, forward", ratio(times, name, "ours"))
        for name in variants
        if name != "ours"
    ]


def complete(bench: Bench) -> list[Figure]:
    """`i j, j k -> i k` on complete graphs, over batched matmul of arrays that already have their
    channels first; and its backward pass over its forward pass; on one thread.
    """
    found = []
    with one_thread():
        for nodes, count, channels, bar in _COMPLETE:
            found += _complete(bench, nodes, bench.size(count) or 1, channels, bar)
    return found


# nodes, graphs, channels, and the bar over matmul
_COMPLETE = ((12, 64, 16, 1.3), (23, 64, 16, 1.3), (100, 1, 16, 1.5), (400, 1, 16, 1.5))


def _complete(bench: Bench, nodes: int, count: int, channels: int, bar: float) -> list[Figure]:
    structure = collate([Structure.complete(nodes, "i j")] * count)
    xs = [torch.randn(count * nodes**2, channels, requires_grad=True) for _ in range(2)]
    shape = count * channels, nodes, nodes
    arrays = [torch.randn(shape, requires_grad=True) for _ in range(2)]
    grads = torch.randn_like(xs[0]), torch.randn(shape)

    def ours() -> None:
        einsum(_DENSE_TEXT, *xs, structure).backward(grads[0])
        for x in xs:
            x.grad = None

    def forward() -> None:
        with torch.no_grad():
            einsum(_DENSE_TEXT, *xs, structure)

    def matmul() -> None:
        (arrays[0] @ arrays[1]).backward(grads[1])
        for array in arrays:
            array.grad = None

    calls = 10 if nodes < 100 else 3 if nodes < 400 else 1
    variants = {"ours": ours, "forward": forward, "matmul": matmul}
    times = bench.timer(f"{count} x {nodes} nodes", 5, calls=calls).run(variants)
    backward = [a / b - 1 for a, b in zip(times["ours"], times["forward"], strict=True)]
    where = f"{count} complete graphs of {nodes} nodes, K = {channels}"
    return [
        Figure(f"`{_DENSE_TEXT}` on {where}, over matmul", ratio(times, "ours", "matmul"), bar=bar),
        Figure(f"its backward over its forward, {where}", backward, bar=2.5),
    ]


_DENSE_TEXT = "i j, j k -> i k"

_MEMORY = """
import torch
from benchmarks.speed.products import SparseProduct
torch.set_num_threads({threads})
small = SparseProduct(1000)
small.{way}()
work = SparseProduct({edges})
resident = int(open("/proc/self/statm").read().split()[1]) * 4096
open("/proc/self/clear_refs", "w").write("5")
work.{way}()
[line] = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(int(line.split()[1]) * 1024 - resident)
"""


def _peak(bench: Bench, way: str) -> float:
    """The peak of forward and backward above the inputs and lists, in bytes; in a process of its
    own.
    """
    bench.report(f"fresh process, {way}")
    code = _MEMORY.format(edges=bench.size(EDGES), way=way, threads=torch.get_num_threads())
    return float(
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout
    )


def attention(bench: Bench) -> list[Figure]:
    """Four heads along the edges of a large graph, and of a batch of small ones: ours, and PyG's
    TransformerConv with as many channels.
    """
    need("torch_geometric.nn", "the benchmark `products`", "peers")
    large = structures.shuffled(structures.random_graph(bench.size(EDGES)))
    small = collate([structures.random_graph(60, degree=4) for _ in range(64)])
    return [
        _attention(bench, large, "a large graph", 1, bar=1.0),
        _attention(bench, small, "64 small graphs", 20, bar=None),
    ]


def _attention(bench: Bench, graph: Structure, where: str, calls: int, bar: float | None) -> Figure:
    convolution = import_module("torch_geometric.nn").TransformerConv
    layer, peer = (
        Attention("(i j)", "i", CHANNELS, CHANNELS, heads=4),
        convolution(CHANNELS, CHANNELS // 4, heads=4),
    )
    edges, x = graph["(i j)"], torch.randn(graph.counts["node"], CHANNELS, requires_grad=True)
    grad = torch.randn_like(x)

    def step(module: torch.nn.Module, given: object) -> None:
        module(x, given).backward(grad)
        module.zero_grad()
        x.grad = None

    times = bench.timer(f"attention, K = 64, {where}", calls=calls).run(
        {"ours": partial(step, layer, graph), "TransformerConv": partial(step, peer, edges)}
    )
    return Figure(
        f"PyG's TransformerConv over our attention, 4 heads, {where}",
        ratio(times, "TransformerConv", "ours"),
        bar=bar,
        is_least=True,
    )
