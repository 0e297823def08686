"""Compare a GINE model of PyG with the same model after one line has changed: errors, and seconds
of an epoch.

    python examples/pyg_swap.py [--epochs 60] [--seeds 3]

The data comes with the package: how well 1,025 molecules dissolve in water, and 257 others for the
test. Both models have the same width, depth, norms, readout, optimiser and loop; `IncidenceConv`
takes the place of `GINEConv`. Needs `pip install 'incidence[convert]'`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINEConv, global_add_pool, global_mean_pool

import incidence as inc
from incidence.geometry.convert import from_pyg, to_pyg
from incidence.pyg import IncidenceConv

HIDDEN, DEPTH = 64, 4


class Net(nn.Module):
    """The usual model of graphs: convolutions with norms, sums and means of nodes, a small head."""

    def __init__(self, node_dim: int, edge_dim: int, conv: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.encoder = nn.Linear(node_dim, HIDDEN)
        self.convs = nn.ModuleList(conv(HIDDEN, edge_dim) for _ in range(DEPTH))
        self.norms = nn.ModuleList(nn.BatchNorm1d(HIDDEN) for _ in range(DEPTH))
        self.head = nn.Sequential(
            nn.Linear(2 * HIDDEN, HIDDEN), nn.ReLU(), nn.Dropout(0.1), nn.Linear(HIDDEN, 1)
        )

    def forward(self, x: Tensor, edges: Any, edge_attr: Tensor, batch: Tensor) -> Tensor:
        x = self.encoder(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + norm(conv(x, edges, edge_attr)).relu()
        return self.head(torch.cat([global_add_pool(x, batch) / 10, global_mean_pool(x, batch)], 1))


def gine(channels: int, edge_dim: int) -> nn.Module:
    return GINEConv(
        nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, channels)),
        edge_dim=edge_dim,
    )


def any_edges(channels: int, edge_dim: int) -> nn.Module:
    return IncidenceConv(channels, channels, edge_dim=edge_dim)


def undirected(channels: int, edge_dim: int) -> nn.Module:
    return IncidenceConv(channels, channels, edge_dim=edge_dim, edges="{i j}")


def of_pyg(batch: Data) -> tuple[Any, ...]:
    return batch.x, batch.edge_index, batch.edge_attr, batch.batch, batch.y


def of_ours(batch: inc.Example) -> tuple[Any, ...]:
    s = batch.structure
    return batch.features["i"], s, batch.features["{i j}"], s.batch("i"), batch.target


def graphs(examples: Iterable[inc.Example], shift: Tensor, scale: Tensor) -> list[Data]:
    """Return atoms and bonds as in PyG, with bonds in both directions, and a target with mean 0 and
    deviation 1.
    """
    found = []
    for e in examples:
        bonds = inc.Structure(e.structure.num_nodes, {"{i j}": e.structure["{i j}"]})
        data = to_pyg(inc.Example(bonds, {key: e.features[key] for key in ("i", "{i j}")}))
        found.append(
            Data(
                x=data.x,
                edge_index=data.edge_index,
                edge_attr=data.edge_attr,
                y=(e.target - shift) / scale,
            )
        )
    return found


def run(
    net: Net, train: Any, test: Any, unpack: Callable[[Any], tuple[Any, ...]], epochs: int
) -> tuple[float, float]:
    """Return the test error on the scale of the target, and the seconds of an epoch."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=epochs * len(train))
    seconds = []
    for _ in range(epochs):
        start = time.perf_counter()
        net.train()
        for batch in train:
            *inputs, y = unpack(batch)
            loss = nn.functional.mse_loss(net(*inputs), y.view(-1, 1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        seconds.append(time.perf_counter() - start)
    net.eval()
    with torch.no_grad():
        errors = [(net(*inputs) - y.view(-1, 1)).square() for *inputs, y in map(unpack, test)]
    return float(torch.cat(errors).mean().sqrt()), statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    parts = inc.data.load("solubility").parts()
    targets = torch.cat([e.target for e in parts.train])
    shift, scale = targets.mean(), targets.std()
    train, test = (graphs(part, shift, scale) for part in (parts.train, parts.test))
    dims = train[0].x.shape[1], train[0].edge_attr.shape[1]
    models = {
        "GINEConv, PyG's loader": (gine, DataLoader, list, of_pyg),
        "IncidenceConv, PyG's loader": (any_edges, DataLoader, list, of_pyg),
        "IncidenceConv, edges='{i j}', PyG's loader": (undirected, DataLoader, list, of_pyg),
        "IncidenceConv, edges='{i j}', inc.data.DataLoader": (
            undirected,
            inc.data.DataLoader,
            from_pyg,
            of_ours,
        ),
    }
    print(f"{'':52}{'parameters':>10}{'RMSE':>16}{'ms an epoch':>13}")
    for name, (conv, loader, read, unpack) in models.items():
        found = []
        for seed in range(arguments.seeds):
            torch.manual_seed(seed)
            net = Net(*dims, conv)
            loaders = (
                loader(read(train), batch_size=64, shuffle=True),
                loader(read(test), batch_size=256),
            )
            found.append(run(net, *loaders, unpack, arguments.epochs))
        errors = [error * float(scale) for error, _ in found]
        spread = statistics.stdev(errors) if len(errors) > 1 else 0.0
        count = sum(p.numel() for p in net.parameters())
        print(
            f"{name:52}{count:>10,}{statistics.mean(errors):>9.3f} ±"
            f" {spread:.3f}{1e3 * min(s for _, s in found):>13.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
