"""GIN and GCN of PyG, trained by our loop: the same parts, batches, epochs, schedule and choice of
the epoch as the run beside which they stand, and about as many weights.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.maps import EquivariantMap
from incidence.errors import need
from incidence.models import NetSettings, Predictor
from incidence.structure.structure import Structure
from incidence.train import Run, checkpoint
from incidence.train.evaluate import evaluate
from incidence.train.evaluation import Evaluation
from incidence.train.run import quiet
from incidence.train.run_folder import RunFolder
from incidence.train.steps import Training
from incidence.train.trainer import History, new_trainer

__all__ = ["GIN", "train_gin"]

_WIDTHS = range(16, 257, 8)


class GIN(nn.Module):
    """GIN with features of edges (GINE), batch norm, and sums over the nodes of every layer.

    It takes the place of an `IncidenceNet` in a `Predictor`, and reads nodes and edges alone.

    Args:
        channels: Channels of the features of nodes and edges.
        out_channels: Numbers to predict.
        hidden: Channels of all layers.
        depth: Number of layers.
        dropout: Dropout probability after every layer, and in the head.
    """

    map = EquivariantMap("i, {i j} -> ")
    settings = NetSettings()

    def __init__(
        self, channels: tuple[int, int], out_channels: int, hidden: int, depth: int, dropout: float
    ) -> None:
        super().__init__()
        conv = need("torch_geometric.nn", "the comparison", "peers").GINEConv
        self.in_channels, self.out_channels = channels, (out_channels,)
        self.encoders = nn.ModuleList(nn.Linear(width, hidden) for width in channels)
        self.layers = nn.ModuleList(
            conv(
                nn.Sequential(
                    nn.Linear(hidden, hidden),
                    nn.BatchNorm1d(hidden),
                    nn.ReLU(),
                    nn.Linear(hidden, hidden),
                ),
                train_eps=True,
            )
            for _ in range(depth)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden) for _ in range(depth))
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Sequential(
            nn.Linear((depth + 1) * hidden, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, out_channels),
        )

    def select(self, features: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the features of nodes and edges."""
        return [features["i"], features["{i j}"]]

    def calibrate(self, *_: Any) -> GIN:
        """Do nothing: its weights start as PyG has them."""
        return self

    def forward(self, features: Mapping[str, Tensor], structure: Structure) -> Tensor:
        """Return a row for every structure of the batch."""
        x, e = (
            encode(own) for encode, own in zip(self.encoders, self.select(features), strict=True)
        )
        edges = structure["{i j}"]
        both, e = torch.cat([edges, edges.flip(0)], dim=1), torch.cat([e, e])
        home, count = structure.batch("i"), structure.num_structures
        sums = [x.new_zeros(count, x.shape[1]).index_add(0, home, x)]
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + self.dropout(torch.relu(norm(layer(x, both, e))))
            sums.append(x.new_zeros(count, x.shape[1]).index_add(0, home, x))
        y: Tensor = self.head(torch.cat(sums, dim=1))
        return y


def train_gin(run: Run, path: Path) -> Evaluation:
    """Train GIN beside a run of ours, with about as many weights and the same number of layers.

    Args:
        run: The run of ours, whose data, parts and options it takes.
        path: A folder for its checkpoints.
    """
    experiment = run.experiment
    config, data, parts = experiment.config, experiment.data, experiment.parts
    features = data.examples[0].features
    channels = (features["i"].shape[1], features["{i j}"].shape[1])
    depth = max(3, 1 + (config.depth or 3))
    weights = sum(p.numel() for p in run.predictor.parameters())
    dropout = config.dropout or 0.0

    def network(hidden: int) -> GIN:
        return GIN(channels, data.task.out_channels, hidden, depth, dropout)

    def distance(hidden: int) -> int:
        return abs(sum(p.numel() for p in network(hidden).parameters()) - weights)

    torch.manual_seed(config.seed)
    predictor = Predictor(network(min(_WIDTHS, key=distance)), data.task.kind)  # type: ignore[arg-type]
    predictor.fit_scales([e.features for e in parts.train], map(data.task.rows, parts.train))
    shutil.rmtree(path, ignore_errors=True)
    folder = RunFolder.new(str(path), data.name)
    folder.start(config, experiment.spec)
    module = Training(predictor, experiment)
    with quiet():
        trainer = new_trainer(experiment, folder, [History(folder.history)])
        trainer.fit(module)
    if config.keep == "best":
        module.load_state_dict(checkpoint.read(folder.best, ["state_dict"])["state_dict"])
    split = data.split(config.split)
    return evaluate(predictor.eval(), data, split, parts, config.batch_size)
