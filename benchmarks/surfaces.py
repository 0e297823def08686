r"""Do networks know a surface again when its triangulation is refined? All 43,138 triangulated
closed surfaces with at most 10 vertices, by the split of the data set: 60 % train, 20 % test.

    python -m benchmarks.surfaces [TASK ...] [--folder DATA] [--out FOLDER] [--epochs N]
        [--seeds N] [--first-seed N] [--networks NAME ...] [--each N]

Every network is trained by `incidence train` with the same options, one for each task: the type (11
classes), orientability, and the first Betti number. It is then measured on the test part, and on
500 surfaces of the test part that were refined, without any more training. Finished trainings in
FOLDER are not repeated, and an interrupted one goes on.

With `--each N` an epoch has N training surfaces of every type: those of frequent types are drawn
with the seed, and those of rare types stand in it several times. Validation and test parts stay.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import incidence as inc
from benchmarks import record
from benchmarks.sets.files import arrays, find
from incidence.data import DataSet, Split
from incidence.data.surfaces import TARGETS, TYPES
from incidence.geometry import subdivide
from incidence.models import Predictor
from incidence.structure import Example, collate
from incidence.structure.collate import uncollate
from incidence.train import resume, train

__all__ = ["MODELS", "REFINED", "TASKS", "balanced_accuracy", "main", "table"]

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


def some_of_each(types: Tensor, each: int, seed: int) -> Tensor:
    """Return so many rows of every type, in random order; rare ones several times.

    Example:
        >>> rows = some_of_each(torch.tensor([0, 0, 0, 1]), 2, seed=0)
        >>> torch.tensor([0, 0, 0, 1])[rows].sort()[0]
        tensor([0, 0, 1, 1])
    """
    generator = torch.Generator().manual_seed(seed)
    chosen = []
    for one in types.unique():
        rows = (types == one).nonzero()[:, 0]
        rows = rows[torch.randperm(len(rows), generator=generator)]
        chosen.append(rows.repeat(-(-each // len(rows)))[:each])
    return torch.cat(chosen)


class Surfaces:
    """The surfaces, and some of the test part refined; loaded once.

    Args:
        folder: The folder with the data; None for that of `INCIDENCE_DATA`.
        options: Options of the data set.
    """

    def __init__(self, folder: Path | None, **options: Any) -> None:
        self._folder = folder
        self.whole = inc.data.load("surfaces", folder=folder, **options)

    def for_task(self, task: str, each: int = 0, seed: int = 0) -> DataSet:
        """Return the data set with the classes of a task.

        Args:
            task: The task.
            each: How many training surfaces of every type an epoch has; 0 for all as they are.
            seed: Seed of the choice.
        """
        examples = [one.replace(target=self._class(task, one)) for one in self.whole.examples]
        splits = self.whole.splits
        if each:
            part = self.whole.split(0)
            types = torch.tensor([int(self.whole.examples[row].target) for row in part.train])
            rows = part.train[some_of_each(types, each, seed)]
            splits = (Split(rows, part.validation, part.test),)
        return replace(self.whole, examples=examples, task=TARGETS[task], splits=splits)

    def _class(self, task: str, example: Example) -> Tensor:
        assert isinstance(example.target, Tensor)
        return TASKS[task][example.target]

    def batches(self, part: str) -> Iterator[Example]:
        """Yield the batches of a part that is measured: `test`, or a name of `REFINED`.

        They are made anew for every network: with their plans they would take 8 GB of memory.
        """
        is_test = part == "test"
        test = self.whole.parts(self.whole.split(0)).test if is_test else self.refined(part)
        examples = list(test)
        for start in range(0, len(examples), _TOGETHER):
            yield collate(examples[start : start + _TOGETHER])

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


def scores(predictor: Predictor, batches: Iterable[Example], task: str) -> dict[str, float]:
    """Return the accuracy and the balanced accuracy, in percent."""
    predictor.eval()
    predicted, target = [], []
    for batch in batches:
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


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return a table in Markdown: of every part the accuracy of the worst seed, and in brackets the
    balanced one.
    """
    parts = ["test", *REFINED]
    header = ["task", "network", "seeds", *parts]
    rows = [header, ["---"] * len(header)]
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for line in lines:
        groups.setdefault((line["task"], line["network"]), []).append(line)
    for (task, network), own in groups.items():
        cells = [task, f"`{MODELS.get(network, network)}`", str(len(own))]
        for part in parts:
            known = [line[part] for line in own if part in line]
            worst: Mapping[str, float] = min(known, key=_order, default={})
            cells.append(_cell(worst))
        rows.append(cells)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _order(score: Mapping[str, float]) -> tuple[float, float]:
    return score["accuracy"], score["balanced"]


def _cell(score: Mapping[str, float]) -> str:
    if not score:
        return "-"
    accuracy, balanced = score["accuracy"], score["balanced"]
    return f"{_percent(accuracy)} ({_percent(balanced)})"


def _percent(number: float) -> str:
    digits = 2 if 99.9 <= number < 100 else 1
    return "100" if number == 100 else f"{number:.{digits}f}"


def main(arguments: Sequence[str] | None = None, **options: Any) -> list[dict[str, Any]]:
    """Print a line in JSON for every task, network and seed, and a table at the end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.surfaces")
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"default: {', '.join(TASKS)}")
    parser.add_argument("--folder", type=Path, default=os.environ.get("INCIDENCE_DATA"))
    parser.add_argument("--out", type=Path, help="default: a temporary folder")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--networks", nargs="+", choices=MODELS.values(), metavar="NAME")
    parser.add_argument("--each", type=int, default=0, help="training surfaces of every type")
    given = parser.parse_args(arguments)
    out = given.out or Path(tempfile.mkdtemp(prefix="surfaces-"))
    surfaces = Surfaces(given.folder, **options)
    wanted = given.networks or MODELS.values()
    chosen_models = {name: model for name, model in MODELS.items() if model in wanted}
    lines = []
    for task in given.tasks or TASKS:
        for name, model in chosen_models.items():
            for seed in range(given.first_seed, given.first_seed + given.seeds):
                chosen = {"model": model, "epochs": given.epochs, "seed": seed}
                path = out / f"{task}-{model}-{seed}"
                load = partial(surfaces.for_task, task, given.each, seed)
                predictor, seconds = trained(path, load, task, chosen)
                line: dict[str, Any] = {"network": name, "task": task, "seed": seed}
                line |= {"cpu_seconds": round(seconds)}
                for part in ("test", *REFINED):
                    line[part] = scores(predictor, surfaces.batches(part), task)
                    print(name, task, seed, part, line[part], file=sys.stderr, flush=True)
                print(json.dumps(line), flush=True)
                lines.append(line)
    print(table(lines), file=sys.stderr)
    print(f"Measured on {record.today()}, {record.machine()}.", file=sys.stderr)
    return lines


if __name__ == "__main__":
    main()
