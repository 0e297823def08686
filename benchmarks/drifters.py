r"""Where does a drifter go next? `python -m benchmarks.drifters --folder DATA`: next-node accuracy
on `ocean_drifters`.

The protocol of Roddenberry, Glaze and Segarra (ICML 2021): steps back are dropped, paths of at
least 5 nodes kept, their last 10 nodes taken; the flow of all but the last two nodes is the input,
and the node that follows the target. Four fifths of the paths train. A model gives a score to every
node, and the neighbours of the last node of the input compete.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import incidence as inc
from benchmarks.sets.files import arrays, find
from incidence.models import IncidenceNet, make

__all__ = ["MODELS", "SCoNe", "accuracies", "main", "read_drifters", "without_steps_back"]


class Drifters(NamedTuple):
    """Paths on one complex.

    Attributes:
        structure: The complex, oriented.
        flows: The flow of every path so far, shape [paths, edges]: 1 along an edge, -1 against it.
        last: The node where it ends, shape [paths].
        target: The node that follows, shape [paths].
    """

    structure: inc.Structure
    flows: Tensor
    last: Tensor
    target: Tensor


def without_steps_back(path: Sequence[int]) -> list[int]:
    """A path without the steps that go there and back at once.

    Example:
        >>> without_steps_back([0, 1, 2, 1, 3])
        [0, 1, 3]
    """
    found: list[int] = []
    for node in path:
        if found[-2:-1] == [node]:
            found.pop()
        elif found[-1:] != [node]:
            found.append(node)
    return found


def read_drifters(folder: Path | str | None = None) -> Drifters:
    """The complex and the paths that the protocol keeps."""
    path_of = find("ocean_drifters", folder, "ocean_drifters", "ocean_drifters.npz")
    file = arrays(path_of, ["edges", "triangles", "traj_ptr", "traj_nodes", "coords"])
    faces = [*file["edges"].tolist(), *file["triangles"].tolist()]
    ptr, nodes, count = file["traj_ptr"].tolist(), file["traj_nodes"].tolist(), len(file["coords"])
    structure = inc.geometry.simplicial_complex(faces, num_nodes=count, oriented=True)
    paths = [without_steps_back(nodes[start:stop]) for start, stop in pairwise(ptr)]
    paths = [path[-10:] for path in paths if len(path) >= 5]
    flows = torch.zeros(len(paths), structure.num_entries("<i j>"))
    for flow, path in zip(flows, paths, strict=True):
        rows, signs = structure.locate("<i j>", [path[:-3], path[1:-2]], with_sign=True)
        flow.index_add_(0, rows, signs.float())
    return Drifters(
        structure, flows, torch.tensor([p[-3] for p in paths]), torch.tensor([p[-2] for p in paths])
    )


def split(count: int, seed: int = 1) -> Tensor:
    """Which paths train; the authors' own draw for seed 1."""
    mask = np.array([True] * round(count * 0.8) + [False] * (count - round(count * 0.8)))
    np.random.RandomState(seed).shuffle(mask)
    return torch.from_numpy(mask)


class SCoNe(nn.Module):
    """Three layers of identity, down and up Laplacian with tanh between, then the boundary: SCoNe
    as a choice of operations.
    """

    def __init__(self, hidden: int = 16) -> None:
        super().__init__()
        widths = [1, hidden, hidden, hidden]
        self.flat = nn.ModuleList(
            inc.nn.Linear("<i j> -> <i j>", a, b, bias=False) for a, b in pairwise(widths)
        )
        self.up = nn.ModuleList(
            inc.nn.Linear("<i j> -> <i j k>", a, a, bias=False) for a in widths[:-1]
        )
        self.down = nn.ModuleList(
            inc.nn.Linear("<i j k> -> <i j>", a, b, bias=False) for a, b in pairwise(widths)
        )
        self.out = inc.nn.Linear("<i j> -> i", hidden, 1, bias=False)

    def forward(self, x: dict[str, Tensor], structure: inc.Structure) -> Tensor:
        """A score for every node."""
        y = x["<i j>"]
        for flat, up, down in zip(self.flat, self.up, self.down, strict=True):
            y = torch.tanh(flat(y, structure) + down(up(y, structure), structure))
        score: Tensor = self.out(y, structure)
        return score


def flows_preset() -> IncidenceNet:
    """The preset `flows`, with the last node marked."""
    return make("flows", {"i": 1, "<i j>": 1, "<i j k>": 1}, out_channels=1, at="i")


def harmonic_preset() -> IncidenceNet:
    """The same, with the harmonic part of flows in every block and in the head."""
    widths = {"i": 1, "<i j>": 1, "<i j k>": 1}
    return make("flows", widths, out_channels=1, at="i", harmonic=4)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "SCoNe, as operations": SCoNe,
    "preset flows": flows_preset,
    "preset flows, harmonic": harmonic_preset,
}


class _Batch(NamedTuple):
    x: dict[str, Tensor]
    structure: inc.Structure
    allowed: Tensor  # (paths, nodes), whether a node is a neighbour of the last one
    target: Tensor


def _batch(data: Drifters, rows: Tensor) -> _Batch:
    structure = inc.collate([data.structure] * len(rows))
    nodes = data.structure.counts["node"]
    one, other = data.structure["<i j>"]
    neighbours = torch.zeros(nodes, nodes, dtype=torch.bool)
    neighbours[one, other] = neighbours[other, one] = True
    marks = torch.nn.functional.one_hot(data.last[rows], nodes).float().view(-1, 1)
    triangles = torch.zeros(structure.num_entries("<i j k>"), 1)
    x = {"i": marks, "<i j>": data.flows[rows].reshape(-1, 1), "<i j k>": triangles}
    return _Batch(x, structure, neighbours[data.last[rows]], data.target[rows])


def _scores(model: nn.Module, batch: _Batch) -> Tensor:
    scores: Tensor = model(batch.x, batch.structure).view(len(batch.target), -1)
    return scores.masked_fill(~batch.allowed, -torch.inf)


def accuracies(
    make_model: Callable[[], nn.Module], data: Drifters, seed: int, epochs: int, lr: float
) -> tuple[float, float]:
    """The accuracy on the training paths and on the others, after training on the former."""
    torch.manual_seed(seed)
    is_train = split(len(data.target))
    train, test = (_batch(data, mask.nonzero()[:, 0]) for mask in (is_train, ~is_train))
    model = make_model()
    for module in model.modules():
        if isinstance(module, IncidenceNet):
            module.calibrate(train.x, train.structure)
    if isinstance(model, SCoNe):
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.05)
    optimiser = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=5e-5)
    for _ in range(epochs):
        model.train()
        optimiser.zero_grad()
        nn.functional.cross_entropy(_scores(model, train), train.target).backward()
        optimiser.step()
    model.eval()
    with torch.no_grad():
        return tuple(
            float((_scores(model, b).argmax(1) == b.target).float().mean()) for b in (train, test)
        )  # type: ignore[return-value]


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Prints a line for each model: the mean and deviation over seeds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drifters")
    parser.add_argument("--folder", default=os.environ.get("INCIDENCE_DATA"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--lr", type=float, default=0.01)
    options = parser.parse_args(arguments)
    data = read_drifters(options.folder)
    degree = torch.bincount(
        data.structure["<i j>"].flatten(), minlength=data.structure.counts["node"]
    )
    is_test = ~split(len(data.target))
    print(
        f"{len(data.target)} paths, {int(is_test.sum())} of them test; uniform over the neighbours:"
        f" {float((1 / degree[data.last[is_test]]).mean()):.3f}"
    )
    found = {}
    for name, make_model in MODELS.items():
        both = torch.tensor(
            [
                accuracies(make_model, data, seed, options.epochs, options.lr)
                for seed in range(options.seeds)
            ]
        )
        (train, test), spread = both.mean(0).tolist(), both.std(0, unbiased=False).tolist()
        found[name] = both[:, 1].tolist()
        print(
            f"{name}: train {train:.3f}, test {test:.3f} +- {spread[1]:.3f} over {options.seeds}"
            " seeds",
            flush=True,
        )
    return found


if __name__ == "__main__":
    main()
