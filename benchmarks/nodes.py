"""Labels of nodes on one graph: what `incidence train` does with the data as it comes, beside PyG's GCN on the same parts.

    ./run bench nodes [SET ...] [--folder DATA] [--seeds 3] [--out FOLDER]

Citation graphs are the cliques of co-citation or co-authorship, with 140 labels and no validation part: both networks train for 200
epochs and the last one counts. The heterophilous graphs have parts for training, validation and testing; for both networks the epoch
counts that is best on the validation part. Every seed has the split of its number. GCN has two layers of 16 channels, dropout 0.5, Adam
with a rate of 0.01 and a decay of 5e-4 of its first layer (Kipf and Welling 2017), and rows of features that add up to 1.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.sets import load as load_set
from benchmarks.words import parser_for, understood
from incidence.data import DataSet, load
from incidence.errors import need
from incidence.structure.structure import Structure
from incidence.train import train
from incidence.train.ranking import area_under_curve


def cliques(name: str, folder: Path) -> DataSet:
    """A citation hypergraph with an edge for every two papers of a hyperedge."""
    data = load_set(name, folder)
    [example] = data.examples
    _, members = example.structure.index("{i ...}")
    faces = members[0].split(torch.bincount(members[1]).tolist())
    pairs = sorted({pair for face in faces for pair in combinations(sorted(face.tolist()), 2)})
    structure = Structure(example.structure.num_nodes, {"{i j}": torch.tensor(pairs).T})
    features = {"i": example.features["i"], "{i j}": torch.ones(len(pairs), 1)}
    return replace(data, name=f"{name}-cliques", examples=[example.replace(structure=structure, features=features)])


def _heterophilous(name: str, folder: Path) -> DataSet:
    return load(next(path for path in (folder / f"{name}.npz", folder / "heterophilous" / f"{name}.npz") if path.is_file()))


# name: (loader, what it is called there, the metric that the literature reports)
SETS: dict[str, tuple[Callable[[str, Path], DataSet], str, str]] = {
    "cora": (cliques, "cora-cocitation", "accuracy"),
    "cora-authors": (cliques, "cora-coauthorship", "accuracy"),
    "minesweeper": (_heterophilous, "minesweeper", "auc"),
    "chameleon": (_heterophilous, "chameleon_filtered", "accuracy"),
    "squirrel": (_heterophilous, "squirrel_filtered", "accuracy"),
}


def ours(data: DataSet, metric: str, split: int, seed: int, out: Path) -> float:
    """What `incidence train` gives without any option."""
    run = train({"seed": seed, "split": split, "metric": metric, "out": str(out), "data": data.name}, data)
    assert run is not None
    return run.evaluation.parts["test"].metrics[metric]


class GCN(nn.Module):
    """Two layers, as Kipf and Welling have them."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        conv = need("torch_geometric.nn", "the comparison", "peers").GCNConv
        self.first, self.last = conv(channels, 16, cached=True), conv(16, classes, cached=True)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        def drop(rows: Tensor) -> Tensor:
            return nn.functional.dropout(rows, 0.5, self.training)

        scores: Tensor = self.last(drop(torch.relu(self.first(drop(x), edges))), edges)
        return scores


def theirs(data: DataSet, metric: str, split: int, seed: int) -> float:
    """What GCN gives on the same parts."""
    torch.manual_seed(seed)
    [example], parts = data.examples, data.split(split)
    x, labels = example.features["i"], example.target["i"]  # type: ignore[index]
    x = x / x.abs().sum(1, keepdim=True).clamp(min=1e-9)
    pairs = example.structure["{i j}"]
    edges = torch.cat([pairs, pairs.flip(0)], dim=1)
    net = GCN(x.shape[1], len(data.task.names))
    rates = [{"params": net.first.parameters(), "weight_decay": 5e-4}, {"params": net.last.parameters()}]
    optimizer = torch.optim.Adam(rates, lr=0.01)

    def score(scores: Tensor, rows: Tensor) -> float:
        if metric == "auc":
            return float(area_under_curve(scores[rows].softmax(1)[:, 1], labels[rows] == 1))
        return float((scores[rows].argmax(1) == labels[rows]).float().mean())

    best, result = -1.0, 0.0
    for _ in range(200):
        net.train()
        loss = nn.functional.cross_entropy(net(x, edges)[parts.train], labels[parts.train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            scores = net.eval()(x, edges)
        watched = score(scores, parts.validation) if len(parts.validation) else best + 1
        if watched > best:
            best, result = watched, score(scores, parts.test)
    return result


def main(words: Sequence[str] = ()) -> int:
    parser = parser_for("nodes", __doc__, SETS, "how many, each with the split of its number")
    arguments = understood(parser, SETS, words)
    for name in arguments.sets:
        loader, called, metric = SETS[name]
        data, found, start = loader(called, arguments.folder), dict[str, list[float]](), time.process_time()
        for seed in range(arguments.seeds):
            split = seed % len(data.splits)
            found.setdefault("gcn", []).append(theirs(data, metric, split, seed))
            found.setdefault("ours", []).append(ours(data, metric, split, seed, arguments.out / name / f"seed-{seed}"))
            print(f"  {name} seed {seed}: " + ", ".join(f"{who} {values[-1]:.4f}" for who, values in found.items()), file=sys.stderr)
        told: dict[str, Any] = {who: {"mean": round(statistics.mean(v), 4), "values": np.round(v, 4).tolist()} for who, v in found.items()}
        print(json.dumps({"set": name, "metric": metric, **told, "cpu_seconds": round(time.process_time() - start)}), flush=True)
    return 0
