"""Labels of nodes on one graph: what `incidence train` does with the data as it comes, beside GCNs
by PyG on the same parts.

    ./run bench nodes [SET ...] [--folder DATA] [--seeds 10] [--out FOLDER]

Citation graphs are the cliques of co-citation or co-authorship, with 140 labels and no validation
part: all networks train for 200 epochs and the last one counts. The heterophilous graphs have parts
for training, validation and testing; for all networks the epoch counts that is best on the
validation part, of at most 200, and 100 epochs without a better one are the end. Every seed has the
split of its number. Peers have a width, depth, dropout and scale that were chosen by the metric on
the validation part, on the first splits:

    gcn           two layers, as Kipf and Welling (2017) have them; Adam with a decay of 5e-4 of the
                  first
    residual gcn  what is called a tuned GCN (Luo, Shi and Wu, 2024): a linear map beside every
                  convolution, batch norm, dropout
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from math import isnan, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.sets import load as load_set
from benchmarks.words import parser_for, understood
from incidence.data import DataSet, load
from incidence.errors import need
from incidence.structure.structure import Structure
from incidence.train import train
from incidence.train.metrics import area_under_curve


def cliques(name: str, folder: Path) -> DataSet:
    """A citation hypergraph with an edge for every two papers of a hyperedge."""
    data = load_set(name, folder)
    [example] = data.examples
    _, members = example.structure.index("{i ...}")
    faces = members[0].split(torch.bincount(members[1]).tolist())
    pairs = sorted({pair for face in faces for pair in combinations(sorted(face.tolist()), 2)})
    structure = Structure(example.structure.num_nodes, {"{i j}": torch.tensor(pairs).T})
    features = {"i": example.features["i"], "{i j}": torch.ones(len(pairs), 1)}
    return replace(
        data,
        name=f"{name}-cliques",
        examples=[example.replace(structure=structure, features=features)],
    )


def _heterophilous(name: str, folder: Path) -> DataSet:
    return load(
        next(
            path
            for path in (folder / f"{name}.npz", folder / "heterophilous" / f"{name}.npz")
            if path.is_file()
        )
    )


# name: (loader, what it is called there, the metric that the literature reports)
SETS: dict[str, tuple[Callable[[str, Path], DataSet], str, str]] = {
    "cora": (cliques, "cora-cocitation", "accuracy"),
    "cora-authors": (cliques, "cora-coauthorship", "accuracy"),
    "minesweeper": (_heterophilous, "minesweeper", "auc"),
    "chameleon": (_heterophilous, "chameleon_filtered", "accuracy"),
    "squirrel": (_heterophilous, "squirrel_filtered", "accuracy"),
}


class Peer(NamedTuple):
    """How a GCN is made and trained."""

    hidden: int = 64
    depth: int = 2
    dropout: float = 0.5
    decay: float = 5e-4
    is_residual: bool = False
    has_scaled_rows: bool = False


_KIPF = Peer(hidden=16, has_scaled_rows=True)
_PLAIN, _TUNED = Peer(), Peer(depth=5, is_residual=True, decay=0.0)
PEERS: dict[str, dict[str, Peer]] = {
    "cora": {"gcn": _KIPF},
    "cora-authors": {"gcn": _KIPF},
    "minesweeper": {
        "gcn": _PLAIN._replace(dropout=0.2),
        "residual gcn": _TUNED._replace(dropout=0.2),
    },
    "chameleon": {"gcn": _PLAIN, "residual gcn": _TUNED},
    "squirrel": {"gcn": _PLAIN, "residual gcn": _TUNED},
}
EPOCHS, PATIENCE = 200, 100


def ours(data: DataSet, metric: str, split: int, seed: int, out: Path) -> tuple[float, float]:
    """What `incidence train` gives without any option: on the validation part (nan without one),
    and on the test part.
    """
    run = train(
        {"seed": seed, "split": split, "metric": metric, "out": str(out), "data": data.name}, data
    )
    assert run is not None
    parts = run.evaluation.parts
    return parts["validation"].metrics[metric] if "validation" in parts else nan, parts[
        "test"
    ].metrics[metric]


class GCN(nn.Module):
    """Graph convolutions with ReLU and dropout; residual: each beside a linear map, with batch
    norm, and a linear map in the end.
    """

    def __init__(self, channels: int, classes: int, peer: Peer) -> None:
        super().__init__()
        conv = need("torch_geometric.nn", "the comparison", "peers").GCNConv
        self.peer = peer
        inner = peer.depth - (not peer.is_residual)
        widths = [channels, *[peer.hidden] * inner]
        self.convs = nn.ModuleList(conv(a, b, cached=True) for a, b in pairwise(widths))
        self.maps = (
            nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
            if peer.is_residual
            else [None] * inner
        )
        self.norms = nn.ModuleList(
            nn.BatchNorm1d(peer.hidden) if peer.is_residual else nn.Identity() for _ in range(inner)
        )
        self.last = (
            nn.Linear(peer.hidden, classes)
            if peer.is_residual
            else conv(peer.hidden, classes, cached=True)
        )

    def _drop(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, self.peer.dropout, self.training)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        x = x if self.peer.is_residual else self._drop(x)
        for conv, linear, norm in zip(self.convs, self.maps, self.norms, strict=True):
            y = conv(x, edges) if linear is None else conv(x, edges) + linear(x)
            x = self._drop(torch.relu(norm(y)))
        scores: Tensor = self.last(x) if self.peer.is_residual else self.last(x, edges)
        return scores

    def rates(self) -> list[dict[str, Any]]:
        """The weights, those of the first layer with a decay."""
        first = list(self.convs[0].parameters())
        others = [p for p in self.parameters() if all(p is not one for one in first)]
        return [{"params": first, "weight_decay": self.peer.decay}, {"params": others}]


def score(scores: Tensor, labels: Tensor, rows: Tensor, metric: str) -> float:
    """The metric on some rows; nan if there are none."""
    if not len(rows):
        return nan
    if metric == "auc":
        return float(area_under_curve(scores[rows].softmax(1)[:, 1], labels[rows] == 1))
    return float((scores[rows].argmax(1) == labels[rows]).float().mean())


def theirs(data: DataSet, metric: str, split: int, seed: int, peer: Peer) -> tuple[float, float]:
    """What a GCN gives on the same parts, by the same rule of when to end and which epoch
    counts.
    """
    torch.manual_seed(seed)
    [example], parts = data.examples, data.split(split)
    x, labels = example.features["i"], data.task.rows(example)
    x = x / x.abs().sum(1, keepdim=True).clamp(min=1e-9) if peer.has_scaled_rows else x
    pairs = example.structure["{i j}"]
    edges = torch.cat([pairs, pairs.flip(0)], dim=1)
    net = GCN(x.shape[1], len(data.task.names), peer)
    optimizer = torch.optim.Adam(net.rates(), lr=0.01)
    best, result, since = nan, nan, 0
    for _ in range(EPOCHS):
        net.train()
        loss = nn.functional.cross_entropy(net(x, edges)[parts.train], labels[parts.train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            scores = net.eval()(x, edges)
        watched, since = score(scores, labels, parts.validation, metric), since + 1
        if not watched <= best:  # without a validation part every epoch is the best so far
            best, result, since = watched, score(scores, labels, parts.test, metric), 0
        if since == PATIENCE:
            break
    return best, result


def told_of(values: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """The mean and the deviation of the test part over the splits, and the mean of the validation
    part, if there is one.
    """
    validation, test = zip(*values, strict=True)
    found: dict[str, Any] = {
        "mean": round(statistics.mean(test), 4),
        "values": np.round(test, 4).tolist(),
    }
    found |= {"deviation": round(statistics.stdev(test), 4)} if len(test) > 1 else {}
    return (
        found
        if isnan(validation[0])
        else {**found, "validation": round(statistics.mean(validation), 4)}
    )


def main(words: Sequence[str] = ()) -> int:
    parser = parser_for("nodes", __doc__, SETS, "how many, each with the split of its number")
    arguments = understood(parser, SETS, words)
    for name in arguments.sets:
        loader, called, metric = SETS[name]
        data, found, start = (
            loader(called, arguments.folder),
            dict[str, list[tuple[float, float]]](),
            time.process_time(),
        )
        for seed in range(arguments.seeds):
            split = seed % len(data.splits)
            for who, peer in PEERS[name].items():
                found.setdefault(who, []).append(theirs(data, metric, split, seed, peer))
            found.setdefault("ours", []).append(
                ours(data, metric, split, seed, arguments.out / name / f"seed-{seed}")
            )
            print(
                f"  {name} seed {seed}: "
                + ", ".join(f"{who} {values[-1][1]:.4f}" for who, values in found.items()),
                file=sys.stderr,
            )
        told = {who: told_of(values) for who, values in found.items()}
        print(
            json.dumps(
                {
                    "set": name,
                    "metric": metric,
                    **told,
                    "cpu_seconds": round(time.process_time() - start),
                }
            ),
            flush=True,
        )
    return 0
