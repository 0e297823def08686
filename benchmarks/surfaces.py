r"""Do networks know a surface again when its triangulation is refined? All 43,138 triangulated
closed surfaces with at most 10 vertices, by the split of the data set: 60 % train, 20 % test.

    python -m benchmarks.surfaces [TASK ...] [--folder DATA] [--out FOLDER] [--epochs N]
        [--seeds N] [--networks NAME ...]

Every network is trained by `incidence train` with the same options, one for each task: the type (11
classes), orientability, and the first Betti number. It is then measured on the test part, and on
500 surfaces of the test part that were refined, without any more training. Finished trainings in
FOLDER are not repeated, and an interrupted one goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import incidence as inc
from benchmarks.sets.files import arrays, find
from incidence.data import DataSet
from incidence.data.surfaces import TARGETS, TYPES
from incidence.geometry import subdivide
from incidence.models import Predictor
from incidence.structure import Example, collate
from incidence.structure.collate import uncollate
from incidence.train import resume, train

__all__ = ["MODELS", "REFINED", "TASKS", "balanced_accuracy", "main"]

MODELS = {"topology": "topology", "CIN-like": "triangles", "GIN-like": "graph"}
"""Our presets: `triangles` passes messages between nodes, edges and triangles, `graph` between
nodes and edges. Both also pool over the whole structure.
"""

_ORIENTABLE = torch.tensor([number < 4 for number in range(len(TYPES))]).long()
_B1 = torch.tensor([2 * n if n < 4 else n - 4 for n in range(len(TYPES))])
TASKS: dict[str, Tensor] = {
    "type": torch.arange(len(TYPES)),
    "orientable": _ORIENTABLE,
    "b1": _B1,
}
"""For every task the class of each type of surface."""

REFINED: dict[str, tuple[str, int]] = {
    "barycentric": ("barycentric", 1),
    "barycentric twice": ("barycentric", 2),
    "stellar": ("stellar", 1),
    "stellar twice": ("stellar", 2),
    "edges cut": ("edge", 1),
    "edges cut twice": ("edge", 2),
    "graded to 20": ("graded20", 1),
    "graded to 40": ("graded40", 1),
}
"""How surfaces are refined, by `inc.geometry.subdivide` or a list in the files, and how often."""

_TOGETHER = 50  # surfaces in a batch: those that are refined twice are large


def balanced_accuracy(predicted: Tensor, target: Tensor) -> float:
    """Return the mean over the classes that occur of the share that is predicted.

    Example:
        >>> balanced_accuracy(torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 1, 1]))
        0.75
    """
    shares = [(predicted[target == one] == one).double().mean() for one in target.unique()]
    return float(torch.stack(shares).mean())


class Surfaces:
    """The surfaces, and some of the test part refined; loaded once.

    Args:
        folder: The folder with the data; None for that of `INCIDENCE_DATA`.
        options: Options of the data set.
    """

    def __init__(self, folder: Path | None, **options: Any) -> None:
        self._folder = folder
        self.whole = inc.data.load("surfaces", folder=folder, **options)

    def for_task(self, task: str) -> DataSet:
        """Return the data set with the classes of a task."""
        examples = [one.replace(target=self._class(task, one)) for one in self.whole.examples]
        return replace(self.whole, examples=examples, task=TARGETS[task])

    def _class(self, task: str, example: Example) -> Tensor:
        assert isinstance(example.target, Tensor)
        return TASKS[task][example.target]

    def parts(self) -> Iterator[tuple[str, list[Example]]]:
        """Yield the names and examples of everything that is measured."""
        yield "test", list(self.whole.parts(self.whole.split(0)).test)
        for name in REFINED:
            yield name, self.refined(name)

    @cache  # noqa: B019, one object for the whole program
    def refined(self, name: str) -> list[Example]:
        """Return the 500 surfaces of the test part that the files list, refined."""
        how, rounds = REFINED[name]
        if how.startswith("graded"):
            data = inc.data.load("surfaces", folder=self._folder, refined=how)
            return list(data.parts(data.split(0)).test)
        path = find("surfaces", self._folder, "surfaces", "refine500.npz")
        [index] = arrays(path, ["index"]).values()
        batch = collate([self.whole.examples[number] for number in index.tolist()])
        finer = subdivide(batch.structure, how, rounds)
        ones = {key: inc.ones(finer, key) for key in batch.features}
        return uncollate(Example(finer, ones, batch.target, is_batch=True))


def scores(predictor: Predictor, examples: Sequence[Example], task: str) -> dict[str, float]:
    """Return the accuracy and the balanced accuracy, in percent."""
    predictor.eval()
    predicted, target = [], []
    for start in range(0, len(examples), _TOGETHER):
        batch = collate(examples[start : start + _TOGETHER])
        predicted.append(predictor.predict(batch).argmax(1))
        assert isinstance(batch.target, Tensor)
        target.append(TASKS[task][batch.target])
    mine, theirs = torch.cat(predicted), torch.cat(target)
    return {
        "accuracy": 100 * float((mine == theirs).double().mean()),
        "balanced": 100 * balanced_accuracy(mine, theirs),
    }


def trained(
    path: Path, load: Callable[[], DataSet], task: str, options: dict[str, Any]
) -> tuple[Predictor, float]:
    """Return a trained network and how long it took, from its folder if it is there."""
    took = path / "seconds.json"
    if took.is_file():
        return inc.load(path).predictor, json.loads(took.read_text(encoding="utf-8"))
    start = time.process_time()
    if (path / "config.yaml").is_file():
        run = resume(path, load())
    else:
        run = train({"data": "surfaces", "target": task, "out": str(path), **options}, load())
    assert run is not None
    seconds = time.process_time() - start
    took.write_text(json.dumps(seconds), encoding="utf-8")
    return run.predictor, seconds


def main(arguments: Sequence[str] | None = None, **options: Any) -> list[dict[str, Any]]:
    """Print a line in JSON for every task and network."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.surfaces")
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"default: {', '.join(TASKS)}")
    parser.add_argument("--folder", type=Path, default=os.environ.get("INCIDENCE_DATA"))
    parser.add_argument("--out", type=Path, help="default: a temporary folder")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--networks", nargs="+", choices=MODELS.values(), metavar="NAME")
    given = parser.parse_args(arguments)
    out = given.out or Path(tempfile.mkdtemp(prefix="surfaces-"))
    surfaces = Surfaces(given.folder, **options)
    wanted = given.networks or MODELS.values()
    chosen_models = {name: model for name, model in MODELS.items() if model in wanted}
    lines = []
    for task in given.tasks or TASKS:
        for name, model in chosen_models.items():
            for seed in range(given.seeds):
                chosen = {"model": model, "epochs": given.epochs, "seed": seed}
                path = out / f"{task}-{model}-{seed}"
                load = partial(surfaces.for_task, task)
                predictor, seconds = trained(path, load, task, chosen)
                line: dict[str, Any] = {"network": name, "task": task, "seed": seed}
                line |= {"cpu_seconds": round(seconds)}
                for part, examples in surfaces.parts():
                    line[part] = scores(predictor, examples, task)
                    print(name, task, seed, part, line[part], file=sys.stderr, flush=True)
                print(json.dumps(line), flush=True)
                lines.append(line)
    return lines


if __name__ == "__main__":
    main()
