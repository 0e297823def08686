"""Search options with Optuna. Every trial is a run, and the validation part judges it. The test
part is used once.

    python examples/optuna_search.py [--trials 20] [--epochs 15] [--out runs/search]

The study is a file beside the runs, so the same command continues it after a stop.
Needs `pip install optuna`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import optuna

import incidence as inc


def objective(trial: optuna.Trial, data: inc.data.DataSet, epochs: int, out: Path) -> float:
    """Return the validation error of a run with the options that a trial suggests."""
    options = {
        "hidden": trial.suggest_categorical("hidden", [16, 32, 48, 64]),
        "depth": trial.suggest_int("depth", 1, 4),
        "lr": trial.suggest_float("lr", 5e-4, 1e-2, log=True),
        "dropout": trial.suggest_float("dropout", 0.0, 0.3),
        "aggr": trial.suggest_categorical("aggr", ["mean", "sum"]),
    }
    run = inc.train.train(
        {**options, "epochs": epochs, "out": str(out / f"trial-{trial.number}")}, data
    )
    assert run is not None
    return run.evaluation.parts["validation"].metrics[data.metric]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path("runs/search"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    data = inc.data.load("solubility", validation=0.2)
    storage = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend(str(arguments.out / "study.log"))
    )
    study = optuna.create_study(
        study_name="solubility", storage=storage, direction="minimize", load_if_exists=True
    )
    study.optimize(
        lambda trial: objective(trial, data, arguments.epochs, arguments.out),
        n_trials=arguments.trials,
    )
    best = arguments.out / f"trial-{study.best_trial.number}"
    print(f"\nThe best of {len(study.trials)} trials: {study.best_params}\n{inc.load(best)}")
    print(f"\nAll of them: incidence compare {arguments.out}")


if __name__ == "__main__":
    main()
