"""Graphs per second of a training step on MUTAG, beside a GIN of the same width and depth from PyTorch Geometric, in one run.

    ./run bench throughput [--folder DATA] [--batch 64] [--hidden 32] [--rounds 9] [--threads 1]

A step is: put a batch together, forward, backward, AdamW. The variants take turns; figures are medians over the rounds, with their range.
The incidence network has all 9 operations between nodes and edges (more with rings) where a GIN has two, so it does more work in a step.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import incidence as inc
from benchmarks.sets import load
from incidence.data.lifts import lift_all
from incidence.geometry.convert import to_pyg
from incidence.models import Predictor, make

STEPS = 20


def ours(examples: list[inc.Example], model: str, hidden: int, batch: int) -> Callable[[int], None]:
    """One step of an incidence network."""
    examples = inc.pack(examples)
    widths = {key: x.shape[1] for key, x in examples[0].features.items()}
    net = Predictor(make(model, widths, 2, hidden=hidden, depth=3, aggr="sum", whole=None), is_regression=False)
    first = inc.collate(examples[:batch])
    net.calibrate(first.features, first.structure)

    def forward(numbers: list[int]) -> tuple[Tensor, Tensor]:
        chosen = inc.collate([examples[k] for k in numbers])
        assert isinstance(chosen.target, Tensor)
        return net(chosen.features, chosen.structure), chosen.target

    return _step(net, forward, len(examples), batch)


def gin(examples: list[inc.Example], hidden: int, batch: int) -> Callable[[int], None]:
    """One step of a GIN: three convolutions with two linear maps and norms each, sum and mean as readout, the same head."""
    import torch_geometric.nn as pyg
    from torch_geometric.data import Batch

    graphs = [to_pyg(e) for e in examples]
    width = graphs[0].x.shape[1]

    class GIN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolutions = nn.ModuleList()
            for own in (width, hidden, hidden):
                inner = [
                    nn.Linear(own, hidden),
                    nn.BatchNorm1d(hidden),
                    nn.ReLU(),
                    nn.Linear(hidden, hidden),
                    nn.BatchNorm1d(hidden),
                    nn.ReLU(),
                ]
                self.convolutions.append(pyg.GINConv(nn.Sequential(*inner)))
            self.head = nn.Sequential(nn.BatchNorm1d(2 * hidden), nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2))

        def forward(self, data: Any) -> Tensor:
            x = data.x
            for convolution in self.convolutions:
                x = convolution(x, data.edge_index)
            pooled = pyg.global_add_pool(x, data.batch), pyg.global_mean_pool(x, data.batch)
            result: Tensor = self.head(torch.cat(pooled, 1))
            return result

    net = GIN()

    def forward(numbers: list[int]) -> tuple[Tensor, Tensor]:
        chosen = Batch.from_data_list([graphs[k] for k in numbers])
        return net(chosen), chosen.y.flatten()

    return _step(net, forward, len(graphs), batch)


def _step(net: nn.Module, forward: Callable[[list[int]], tuple[Tensor, Tensor]], count: int, batch: int) -> Callable[[int], None]:
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)

    def step(number: int) -> None:
        y, target = forward([(number * batch + k) % count for k in range(batch)])
        loss = nn.functional.cross_entropy(y, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def main(words: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="incidence bench throughput", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=os.environ.get("INCIDENCE_DATA"), help="the data; default: INCIDENCE_DATA")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args(words)
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    examples = list(load("mutag", folder=None if arguments.folder is None else Path(arguments.folder)).examples)
    variants = {
        "GIN (PyG)": gin(examples, arguments.hidden, arguments.batch),
        "i, {i j}": ours(examples, "graph", arguments.hidden, arguments.batch),
        "i, {i j}, rings": ours(lift_all(examples, "rings"), "rings", arguments.hidden, arguments.batch),
        "i j": ours(lift_all(examples, "matrix"), "matrix", arguments.hidden, arguments.batch),
    }
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(arguments.rounds + 2):
        print(f"\rround {number + 1} of {arguments.rounds + 2}", end="", file=sys.stderr, flush=True)
        for name, step in variants.items():
            start = time.perf_counter()
            for k in range(STEPS):
                step(k)
            if number > 1:  # two rounds to warm up
                seconds[name].append((time.perf_counter() - start) / STEPS)
    print("\r\x1b[K", end="", file=sys.stderr)
    peer = seconds["GIN (PyG)"]
    for name, own in seconds.items():
        ratios = [b / a for a, b in zip(own, peer, strict=True)]
        rate = arguments.batch / statistics.median(own)
        print(f"{name:<18}{rate:>9.0f} graphs/s   {statistics.median(ratios):.2f} of GIN ({min(ratios):.2f} to {max(ratios):.2f})")
    return 0
