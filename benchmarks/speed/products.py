"""Products and attention beside the usual ways: gather, multiply and scatter; dense products; PyG's
TransformerConv.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import torch
from torch import Tensor

from benchmarks.speed import structures
from benchmarks.speed.bench import ROOT, Bench
from benchmarks.speed.timing import Figure, ratio
from incidence import einsum
from incidence.algebra.products import ProductText
from incidence.engine.products.contract import join_plan_of
from incidence.engine.products.plan import JoinStep
from incidence.errors import need
from incidence.nn import Attention
from incidence.structure import Structure

__all__ = ["SparseProduct", "lattice", "products"]

TEXT = "(i j), (j k) -> (i k)"
EDGES, NODES, CHANNELS = 100_000, 400, 64


def products(bench: Bench) -> list[Figure]:
    """The product of two sparse matrices, against gather-multiply-scatter and dense products;
    attention, against TransformerConv.
    """
    return [*sparse(bench), *attention(bench)]


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
            f"dense product, N = {NODES}, over our product of {EDGES:,} entries",
            ratio(times, "dense", "ours"),
        ),
    ]


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
    """Four heads along the edges of a graph: ours, and PyG's TransformerConv with as many
    channels.
    """
    convolution = need("torch_geometric.nn", "the benchmark `products`", "peers").TransformerConv
    graph = structures.shuffled(structures.random_graph(bench.size(EDGES)))
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

    times = bench.timer("attention, K = 64").run(
        {"ours": partial(step, layer, graph), "TransformerConv": partial(step, peer, edges)}
    )
    return [
        Figure(
            "PyG's TransformerConv over our attention, 4 heads",
            ratio(times, "TransformerConv", "ours"),
            bar=1.0,
            is_least=True,
        )
    ]
