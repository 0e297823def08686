"""The commands `train`, `predict` and `evaluate`: their flags, and from there to runs and files, and back to text.

What trains is loaded when a command runs, so that help comes at once and without Lightning.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from incidence.errors import IncidenceError
from incidence.train import launch
from incidence.train.config import SECTIONS, Config, option_type, read_config

__all__ = ["evaluate_flags", "predict_flags", "train_flags"]

_TRAIN = """\
Trains a network and keeps everything in a folder of its own: options, weights,
metrics, predictions, plots, logs. Without options it learns how well 1,025
molecules dissolve in water, and predicts 257 others, in under a minute.

A run that was stopped, or killed, goes on with --resume and ends with the same
weights as if it had not been.
"""
_TRAIN_EXAMPLES = """\
examples:
  incidence train                                          the data in the package
  incidence train --data meshes/ --validation 0.1          your own: a folder per class
  incidence train --data molecules.csv --smiles smiles --target expt   (SDF, .smi as well)
  incidence train --data pyg:TUDataset/MUTAG --folder DATA a data set of PyG
  incidence train --model "i, {i j}, ring={i ...}" --hidden 64 --depth 4
  incidence train --config settings.yaml --devices 2       two processes
  incidence train --resume runs/solubility-1

Options may also stand in a file, as `epochs: 50`; those on the command line win.
Data sets, models and layouts of folders: `incidence train --list`.
"""
_PREDICT = """\
Predicts with a trained network, for files like those it was trained on: molecules
(.csv, .smi, .sdf), meshes (.obj, .off, .ply, .stl), graphs (.edges, .txt, .csv, .tsv: a line
for each edge; .g6), or examples that the library saved (.npz). A file that cannot
be read is named, and the rest goes on; the exit code is then 1. Values of nodes, edges
or faces have a row each, with the nodes in the column `nodes`.
"""
_EVALUATE = """\
Measures a trained network on every part of its data, or of other data. The parts of its
own data are those it was trained with; of other data, --split and --validation say them.
"""
_LAYOUTS = """\
Your own data (--data PATH):
  folder/targets.csv, columns file,target[,split]     files of any kind beside it
  folder/CLASS/FILE or folder/CLASS/{train,test}/FILE  a class for each folder
  molecules.csv [--smiles COLUMN] [--target COLUMN]    SMILES with targets, or several: A,B; .smi, .sdf as well
  examples.npz, written by Example.save
Options of a data set, a reader or a lift: --data-options labels=7"""


def train_flags(command: argparse.ArgumentParser) -> None:
    """Adds the flags of `train`."""
    command.description, command.epilog = _TRAIN, _TRAIN_EXAMPLES
    command.add_argument("--config", metavar="FILE", help="options from a YAML file")
    command.add_argument("--resume", metavar="RUN", help="go on with a run")
    command.add_argument("--list", action="store_true", help="data sets, models and what they are for")
    command.add_argument("--json", action="store_true", help="one JSON object for other programs")
    _add_options(command, SECTIONS)
    command.set_defaults(run=_train)


def predict_flags(command: argparse.ArgumentParser) -> None:
    """Adds the flags of `predict`."""
    command.description = _PREDICT
    command.add_argument("run_folder", metavar="RUN", help="the folder of a run")
    command.add_argument("files", nargs="+", metavar="FILE", help="what to predict")
    command.add_argument("--out", metavar="CSV", help="where to write the predictions; by default they are printed")
    command.set_defaults(run=_predict)


def evaluate_flags(command: argparse.ArgumentParser) -> None:
    """Adds the flags of `evaluate`."""
    command.description = _EVALUATE
    command.add_argument("run_folder", metavar="RUN", help="the folder of a run")
    command.add_argument("--json", action="store_true", help="one JSON object for other programs")
    _add_options(command, ("data",))
    command.set_defaults(run=_evaluate)


def _add_options(command: argparse.ArgumentParser, sections: Sequence[str]) -> None:
    """A flag for every option of `Config`, by section."""
    hints = get_type_hints(Config)
    groups = {name: command.add_argument_group(f"{name} options") for name in sections}
    for f in fields(Config):
        about, kind = f.metadata, option_type(hints[f.name])
        if about["section"] not in groups:
            continue
        how: dict[str, Any] = {"default": argparse.SUPPRESS, "dest": f"option_{f.name}"}
        how["help"] = about["about"].replace("%", "%%") + ("" if f.default in (None, False) else f" (default {f.default})")
        if kind is bool:
            how["action"] = argparse.BooleanOptionalAction
        elif get_origin(kind) is tuple:
            how |= {"nargs": "+", "metavar": "NAME"}
        elif about["among"]:
            how["choices"] = about["among"]
        else:
            how |= {"type": kind, "metavar": {int: "N", float: "X"}.get(kind, "TEXT")}
        groups[about["section"]].add_argument(f"--{f.name.replace('_', '-')}", **how)


def _flags(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that were given on the command line."""
    return {key.removeprefix("option_"): value for key, value in vars(arguments).items() if key.startswith("option_")}


def _train(arguments: argparse.Namespace) -> str:
    """Trains, or goes on with a run; gives the report."""
    if arguments.list:
        return _listing()
    flags, is_told = _flags(arguments), not arguments.json and launch.is_first()
    if arguments.resume is not None:
        if flags or arguments.config:
            word = f"--{next(iter(flags)).replace('_', '-')}" if flags else "--config"
            raise IncidenceError(f"a run goes on with the options it began with: leave out {word}, or start a new run.")
        if is_told:
            launch.say(f"Going on with {arguments.resume}")
        done = launch.load("run", "training").resume(Path(arguments.resume), is_shown=True)
    else:
        config = read_config(Path(arguments.config) if arguments.config else None, flags)
        if is_told:
            launch.say(f"Training on {config.data} (all options: incidence train --help)")
        done = launch.load("run", "training").train(config, is_shown=True)
    return "" if done is None else str(launch.load("report", "training").tell(done, arguments.json))


def _predict(arguments: argparse.Namespace) -> str:
    """Predicts for files; what cannot be read is named, and the rest goes on. The exit code is then 1."""
    prediction = launch.load("prediction", "prediction")
    errors: list[IncidenceError] = []
    task, found = prediction.predict(Path(arguments.run_folder), [Path(name) for name in arguments.files], errors)
    for error in errors:
        print(f"incidence: passed over: {error}", file=sys.stderr)
    if not found:
        raise IncidenceError(f"there is nothing to predict: none of {len(arguments.files)} files gave an example that fits the model.")
    arguments.code = int(bool(errors))
    text = str(prediction.table(task, found))
    if arguments.out is None:
        return text.rstrip("\n")
    launch.load("folder", "prediction").write(Path(arguments.out), text)
    print(f"{len(found)} predictions in {arguments.out}", file=sys.stderr)
    return ""


def _evaluate(arguments: argparse.Namespace) -> str:
    """The metrics of a run, part by part."""
    flags = _flags(arguments)
    evaluation, _ = launch.load("prediction", "evaluation").evaluate_run(Path(arguments.run_folder), flags)
    if arguments.json:
        return json.dumps(evaluation.metrics(), indent=1)
    lines = [f"{'part':<12}{'rows':>7}  {'metric':<10}{'network':>10}{'baseline':>10}"]
    for name, part in evaluation.parts.items():
        for metric, value in part.metrics.items():
            lines.append(f"{name:<12}{len(part.target):>7}  {metric:<10}{value:>10.4g}{part.baseline[metric]:>10.4g}")
    if "data" in flags:
        lines.append(f"The parts are those of {flags['data']}.")
    return "\n".join(lines)


def _listing() -> str:
    """Data sets, models and layouts of folders."""
    from incidence import data, models

    sets = "\n".join(f"  {name:<22}{source.about}" for name, source in data.DATA_SETS.items())
    presets = "\n".join(f"  {name:<16}{preset.inputs or 'all tensors':<42}{preset.about}" for name, preset in models.PRESETS.items())
    pyg = f"  {'pyg:CLASS/NAME':<22}a data set of PyG, with --folder DATA for its files"
    return f"Data sets (--data NAME):\n{sets}\n{pyg}\n\nModels (--model NAME):\n{presets}\n\n{_LAYOUTS}"
