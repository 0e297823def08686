"""The TDL Challenge 2026: triangles and communities in twelve families of random graphs.

The number of a run is 12 times the seed plus the family: the first twelve runs are one seed of all.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.sets.universe import SETTINGS
from benchmarks.tasks.bench import Bench
from benchmarks.tasks.task import Outcome, Row, Task, at_least, at_most
from incidence.data import DataSet
from incidence.data.lifts import lift_all
from incidence.structure.collate import collate
from incidence.train import Run

_SEEDS = (42, 43, 44)
_BUDGET = {"batch_size": 16, "keep": "best"}
_GROUP = "TDL Challenge 2026"
_PUBLISHED_TRIANGLES = "TopoPolynormer 0.0451, TopNets 0.119, ETNN 0.121, DirSNN 0.172"
_PUBLISHED_COMMUNITIES = "TopoPolynormer 48.0, GPR-GNN 47.0, HiD-Net 46.9, Polynormer 45.5"


def measure_triangles(bench: Bench, number: int) -> Iterator[Outcome]:
    """Train on one family, and test on it and on the other eleven."""
    seed, setting = _SEEDS[number // 12], SETTINGS[number % 12]
    data = bench.load("universe", setting=setting)
    run = bench.train(data, f"{setting} seed {seed}", seed=seed, **_BUDGET)
    errors = {name: _triangle_error(run, bench.load("universe", setting=name)) for name in SETTINGS}
    shifted = [error for name, error in errors.items() if name != setting]
    more = {"family": setting, "seed": seed, "validation": bench.validation(run, "rmse")}
    yield Outcome(errors[setting], run=run, more=more)
    worst = {"worst": max(shifted), "by family": errors, **more}
    yield Outcome(sum(shifted) / len(shifted), "shifted", run, more=worst)


def _test_of(run: Run, data: DataSet) -> tuple[Tensor, Tensor]:
    """Return the predictions and targets of the test graphs of a family."""
    tests = [data.examples[row] for row in data.splits[0].test.tolist()]
    lift = run.experiment.lift
    if lift.name != "none":
        tests = lift_all(tests, lift.name, **lift.options)
    batches = [collate(tests[start : start + 50]) for start in range(0, len(tests), 50)]
    predictor = run.predictor.eval()
    predicted = [predictor.predict(batch.features, batch.structure) for batch in batches]
    return torch.cat(predicted), torch.cat([data.task.rows(batch) for batch in batches])


def _triangle_error(run: Run, data: DataSet) -> float:
    """Return the squared error by the number of triangles in the test graphs, as published."""
    predicted, target = (values.double().flatten() for values in _test_of(run, data))
    return float((predicted - target).square().mean() / target.sum())


def measure_communities(bench: Bench, number: int) -> Iterator[Outcome]:
    """Train on one family, and test on it and on the other eleven."""
    seed, setting = _SEEDS[number // 12], SETTINGS[number % 12]
    data = bench.load("universe", setting=setting, target="communities")
    run = bench.train(data, f"{setting} seed {seed}", seed=seed, **_BUDGET)
    more = {
        "family": setting,
        "seed": seed,
        "validation": 100 * bench.validation(run, "accuracy"),
    }
    yield Outcome(100 * bench.test(run, "accuracy"), run=run, more=more)
    scores = {
        name: _accuracy(run, bench.load("universe", setting=name, target="communities"))
        for name in SETTINGS
        if name != setting
    }
    yield Outcome(
        sum(scores.values()) / len(scores), "shifted", run, more={"by family": scores, **more}
    )


def _accuracy(run: Run, data: DataSet) -> float:
    predicted, target = _test_of(run, data)
    return 100 * float((predicted.argmax(1) == target).double().mean())


TASKS = {
    "tdl-triangles": Task(
        _GROUP,
        measure_triangles,
        {
            "": Row(
                "Triangles, same family",
                "three seeds; the recipe takes triangle products, as targets follow them",
                "squared error by triangles",
                _PUBLISHED_TRIANGLES,
                at_most(0.001),
                digits=-2,
                is_for_every_run=True,
            ),
            "shifted": Row(
                "Triangles, other families",
                "the same networks, on the test graphs of the other eleven families",
                "squared error by triangles",
                "TopoPolynormer 1.51, DirSNN 2.40, ETNN 2.74, TopNets 8.57",
                at_most(0.001),
                digits=-2,
                is_for_every_run=True,
            ),
        },
        runs=36,
        run_is="run",
    ),
    "tdl-communities": Task(
        _GROUP,
        measure_communities,
        {
            "": Row(
                "Communities, same family",
                "12 families, three seeds, best epoch by validation",
                "accuracy, %",
                _PUBLISHED_COMMUNITIES,
                at_least(48.0),
                digits=1,
            ),
            "shifted": Row(
                "Communities, other families",
                "the same networks on the test graphs of the other eleven",
                "accuracy, %",
                "HiD-Net 41.6, GPR-GNN 41.5, GATE 39.7, GFT 38.1",
                digits=1,
            ),
        },
        runs=36,
        run_is="run",
    ),
}
