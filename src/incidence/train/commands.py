"""The commands `train`, `predict` and `evaluate`: from words on the command line to runs and files, and back to text."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from incidence.errors import IncidenceError
from incidence.train import report
from incidence.train.config import Config, read_yaml
from incidence.train.folder import write_text
from incidence.train.prediction import evaluate_run, predict, table
from incidence.train.run import Run, is_first, resume, train

__all__ = ["evaluate_command", "predict_command", "train_command"]


def train_command(arguments: argparse.Namespace, flags: dict[str, Any]) -> str:
    """Trains, or goes on with a run; gives the report."""
    if arguments.resume is not None:
        if flags or arguments.config:
            word = f"--{next(iter(flags)).replace('_', '-')}" if flags else "--config"
            raise IncidenceError(f"a run goes on with the options it began with: leave out {word}, or start a new run.")
        run = resume(Path(arguments.resume), is_shown=True)
    else:
        options = {**(read_yaml(Path(arguments.config)) if arguments.config else {}), **flags}
        _greet(options, is_silent=arguments.json or not is_first())
        run = train(options, is_shown=True)
    return "" if run is None else _told(run, arguments.json)


def _greet(options: dict[str, Any], is_silent: bool) -> None:
    config = Config.of(options)
    if not is_silent:
        print(f"Training on {config.data} (all options: incidence train --help)", file=sys.stderr, flush=True)


def _told(run: Run, is_json: bool) -> str:
    report.page(run)
    if is_json:
        metrics = json.loads(run.folder.metrics.read_text(encoding="utf-8"))
        return json.dumps({"folder": str(run.folder.path), **metrics}, indent=1)
    text = report.summary(run)
    write_text(run.folder.log, text + "\n")
    return text


def predict_command(arguments: argparse.Namespace) -> str:
    """Predicts for files; what cannot be read is named, and the rest goes on. The exit code is then 1."""
    errors: list[IncidenceError] = []
    task, found = predict(Path(arguments.run_folder), [Path(name) for name in arguments.files], errors)
    for error in errors:
        print(f"incidence: passed over: {error}", file=sys.stderr)
    if not found:
        raise IncidenceError(f"there is nothing to predict: none of {len(arguments.files)} files gave an example that fits the model.")
    arguments.code = int(bool(errors))
    text = table(task, found)
    if arguments.out is not None:
        write_text(Path(arguments.out), text)
        print(f"{len(found)} predictions in {arguments.out}", file=sys.stderr)
        return ""
    return text.rstrip("\n")


def evaluate_command(arguments: argparse.Namespace, flags: dict[str, Any]) -> str:
    """The metrics of a run, part by part."""
    evaluation, _ = evaluate_run(Path(arguments.run_folder), flags)
    if arguments.json:
        return json.dumps(evaluation.metrics(), indent=1)
    lines = [f"{'part':<12}{'rows':>7}  {'metric':<10}{'network':>10}{'baseline':>10}"]
    for name, part in evaluation.parts.items():
        for metric, value in part.metrics.items():
            lines.append(f"{name:<12}{len(part.target):>7}  {metric:<10}{value:>10.4g}{part.baseline[metric]:>10.4g}")
    if "data" in flags:
        lines.append(f"The parts are those of {flags['data']}.")
    return "\n".join(lines)
