"""Molecules: numbers and labels of graphs, and energies of atoms in space."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.tasks.bench import Bench
from benchmarks.tasks.peers import train_gin
from benchmarks.tasks.task import Outcome, Row, Task, at_least, at_most

_GROUP = "Molecules"
Measure = Callable[[Bench, int], Iterator[Outcome]]


def measure_solubility(bench: Bench, seed: int) -> Iterator[Outcome]:
    """Fixed parts, last epoch; beside the mean of the training data."""
    run = bench.train(bench.load("solubility"), f"seed {seed}", seed=seed)
    baseline = run.evaluation.parts["test"].baseline["rmse"]
    yield Outcome(bench.test(run, "rmse"), run=run, baselines={"mean": baseline})


def drawn_splits(name: str) -> Measure:
    """Return a measure with random parts of 80, 10 and 10 per cent, drawn with the seed."""

    def measure(bench: Bench, seed: int) -> Iterator[Outcome]:
        data = bench.load(name, seed=seed)
        run = bench.train(data, f"split {seed}", seed=seed)
        peer = train_gin(run, bench.path(f"split {seed} gin"))
        baselines = {
            "mean": run.evaluation.parts["test"].baseline["rmse"],
            "GIN": peer.parts["test"].metrics["rmse"],
        }
        more = {"validation": bench.validation(run, "rmse")}
        yield Outcome(bench.test(run, "rmse"), run=run, baselines=baselines, more=more)

    return measure


def fixed_parts(name: str, metric: str, factor: float = 1.0, **options: Any) -> Measure:
    """Return a measure with the parts of the data, seed by seed, beside GIN.

    Args:
        name: The data set.
        metric: The metric.
        factor: What the metric is multiplied by: 100 for percent.
        **options: Options of the loader.
    """

    def measure(bench: Bench, seed: int) -> Iterator[Outcome]:
        run = bench.train(bench.load(name, **options), f"seed {seed}", seed=seed)
        peer = train_gin(run, bench.path(f"seed {seed} gin"))
        yield Outcome(
            factor * bench.test(run, metric),
            run=run,
            baselines={"GIN": factor * peer.parts["test"].metrics[metric]},
            more={"validation": factor * bench.validation(run, metric)},
        )

    return measure


def _labels(title: str, protocol: str, published: str, goal: float) -> Row:
    return Row(title, protocol, "area under the ROC curve, %", published, at_least(goal), digits=1)


_SCAFFOLD = "scaffold split, three seeds, best epoch by validation"
_RANDOM = "random 80/10/10, five splits, best epoch by validation"
TASKS = {
    "zinc": Task(
        _GROUP,
        fixed_parts("zinc", "mae"),
        {
            "": Row(
                "ZINC-12k, at most 500k parameters",
                "published parts, three seeds, averaged weights",
                "mean absolute error",
                "GIN 0.163, CIN 0.079, CIN++ 0.074, Subgraphormer 0.063, N2-GNN 0.059",
                at_most(0.065),
                digits=4,
            )
        },
        runs=3,
    ),
    "molhiv": Task(
        _GROUP,
        fixed_parts("molhiv", "auc", 100),
        {"": _labels("molhiv", _SCAFFOLD, "GIN 77.1, PNA 79.1, SUN 80.0, CIN 80.9", 79.0)},
        runs=3,
    ),
    "bbbp": Task(
        _GROUP,
        fixed_parts("bbbp", "auc", 100),
        {"": _labels("BBBP", _SCAFFOLD, "GIN 65.8, pre-trained GIN 68.8, GraphMVP 72.4", 68.8)},
        runs=3,
    ),
    "clintox": Task(
        _GROUP,
        fixed_parts("clintox", "auc", 100),
        {"": _labels("ClinTox", _SCAFFOLD, "GIN 58.0, pre-trained GIN 73.7, GraphMVP 79.0", 73.7)},
        runs=3,
    ),
    "sider": Task(
        _GROUP,
        fixed_parts("sider", "auc", 100),
        {"": _labels("SIDER", _SCAFFOLD, "GIN 57.3, GraphMVP 62.3, pre-trained GIN 63.9", 63.9)},
        runs=3,
    ),
    "solubility": Task(
        _GROUP,
        measure_solubility,
        {
            "": Row(
                "Aqueous solubility",
                "1,025 / 257 molecules, three seeds, last epoch",
                "RMSE, log mol/l",
                "gradient boosting on the features of the library 0.681",
                at_most(0.57),
            )
        },
        runs=3,
    ),
    "esol": Task(
        _GROUP,
        drawn_splits("esol"),
        {
            "": Row(
                "ESOL",
                _RANDOM,
                "RMSE, log mol/l",
                "MPNN 0.58, GC 0.97 (Wu et al. 2018)",
                at_most(0.58),
            )
        },
        runs=5,
        run_is="split",
    ),
    "freesolv": Task(
        _GROUP,
        drawn_splits("freesolv"),
        {
            "": Row(
                "FreeSolv", _RANDOM, "RMSE, kcal/mol", "MPNN 1.15 (Wu et al. 2018)", at_most(1.15)
            )
        },
        runs=5,
        run_is="split",
    ),
    "lipophilicity": Task(
        _GROUP,
        drawn_splits("lipophilicity"),
        {
            "": Row(
                "Lipophilicity", _RANDOM, "RMSE, logD", "GC 0.655 (Wu et al. 2018)", at_most(0.655)
            )
        },
        runs=5,
        run_is="split",
    ),
    "qm7": Task(
        _GROUP,
        fixed_parts("qm7", "mae", subtract_atoms=True),
        {
            "": Row(
                "QM7",
                "every tenth molecule for testing, three seeds",
                "mean absolute error, kcal/mol",
                "kernel ridge 9.9, DTNN 8.8, ANI-1 2.9 (other splits)",
                at_most(9.9),
                digits=2,
            )
        },
        runs=3,
    ),
    "qm9-dipole": Task(
        _GROUP,
        fixed_parts("qm9", "mae", target="Dipole_debye"),
        {
            "": Row(
                "QM9, every tenth molecule: dipole",
                "every tenth of these for testing, three seeds",
                "mean absolute error, D",
                "1-2-3-GNN 0.476, PPGN 0.0934 (ten times the data)",
                at_most(0.4),
            )
        },
        runs=3,
    ),
}
