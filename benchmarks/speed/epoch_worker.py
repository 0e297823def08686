"""Epochs of training on molecules, timed on demand; run as a script, so that it serves any version.

    python epoch.py zinc12k.npz rings 1280 64

It answers each line of its input with the seconds of one epoch. A driver runs one such process for
each version, and lets them take turns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

import incidence as inc
from incidence import models
from incidence.data.lifts import lift_all
from incidence.models import PRESETS, Predictor, make
from incidence.structure import Example, collate, pack

__all__ = ["epochs", "molecules"]

_ATOMS, _BONDS = 28, 3  # kinds


def molecules(path: str, count: int) -> list[Example]:
    """Return the first graphs of ZINC-12k: atoms and bonds as one-hot features."""
    with np.load(path) as data:
        arrays = {
            name: torch.from_numpy(data[name].astype(np.int64))
            for name in data.files
            if name != "y"
        }
        targets = torch.from_numpy(data["y"])
    num_atoms, num_bonds = arrays["num_atoms"].tolist(), arrays["num_edges"].tolist()
    atoms = torch.eye(_ATOMS)[arrays["atoms"]].split(num_atoms)
    bonds = torch.eye(_BONDS)[arrays["bond"] - 1].split(num_bonds)
    edges = arrays["edges"].split(num_bonds, dim=1)
    return [
        Example(
            inc.Structure(num_atoms[k], {"{i j}": edges[k]}),
            {"i": atoms[k], "{i j}": bonds[k]},
            targets[k],
        )
        for k in range(count)
    ]


def epochs(examples: list[Example], name: str, batch_size: int) -> Callable[[], None]:
    """Return one epoch of training of a preset: batches, forward, backward, AdamW."""
    examples = pack(lift_all(examples, PRESETS[name].lift))
    widths = {key: x.shape[1] for key, x in examples[0].features.items()}
    if hasattr(models, "read_channels"):  # earlier versions ignored other tensors
        widths = models.read_channels(name, widths)
    torch.manual_seed(0)
    net = Predictor(make(name, widths, 1), "regression")
    first = collate(examples[:batch_size])
    net.calibrate(first.features, first.structure)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)

    def epoch() -> None:
        net.train()
        for numbers in torch.randperm(len(examples)).split(batch_size):
            batch = collate([examples[k] for k in numbers.tolist()])
            y = net(batch.features, batch.structure)
            loss = nn.functional.l1_loss(y[:, 0], batch.target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return epoch


def main(path: str, name: str, count: str, batch_size: str) -> None:
    """Answer each line of input with the seconds of an epoch."""
    torch.set_num_threads(1)
    epoch = epochs(molecules(path, int(count)), name, int(batch_size))
    epoch()
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        epoch()
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
