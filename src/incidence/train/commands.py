"""The commands `train`, `predict` and their kin: their flags, and from there to runs and files, and back to text.

What trains is loaded when a command runs, so that help comes at once and without Lightning.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from textwrap import wrap
from typing import Any, get_origin, get_type_hints

from incidence.errors import IncidenceError, as_called, command
from incidence.train import launch
from incidence.train.config import SECTIONS, Config, option_type, read_config

__all__ = [
    "compare_flags",
    "evaluate_flags",
    "export_flags",
    "predict_flags",
    "sweep_flags",
    "train_flags",
]

_TRAIN = """\
Trains a network and keeps everything in a folder of its own: options, weights,
metrics, predictions, plots, logs. Without options it learns how well 1,025
molecules dissolve in water, and predicts 257 others, in under a minute.

A run that was stopped, or killed, goes on with --resume and ends with the same
weights as if it had not been.
"""
_TRAIN_EXAMPLES = """\
examples:
  incidence train                                        the data in the package
  incidence train --data meshes/ --validation 0.1        a folder for each class
  incidence train --data edges.csv --nodes nodes.csv     labels of nodes
  incidence train --data edges.csv --task links          which edges are missing
  incidence train --data ratings.csv --target rating     of movies by users
  incidence train --data molecules.csv --smiles smiles --target expt
  incidence train --data pyg:TUDataset/MUTAG --folder DATA
  incidence train --model "i, {i j}, ring={i ...}" --hidden 64 --depth 4
  incidence train --config settings.yaml --devices 2     two processes
  incidence train --resume runs/solubility-1             after a stop or a kill
  incidence train --resume runs/solubility-1 --epochs 80 for longer

Options may also stand in a file, as `epochs: 50`; those that are typed win.
Data sets, models and layouts of folders: `incidence train --list`.
"""
_PREDICT = """\
Predicts with a trained network, for what it was trained on and the like:

  molecules   .csv or .tsv with a column of SMILES, .smi, .sdf, .mol, .xyz; or a
              SMILES itself, in quotes
  meshes      .obj, .off, .ply, .stl
  graphs      .edges, .txt, .csv, .tsv: a line for each edge; .g6
  examples    .npz, which the library saved
  folders     all files in them, and in folders inside, that the model reads
  data sets   by name, as in `incidence train --data NAME`
  pairs       for models of ratings and links: .csv with a row for each, by the
              names that their data had
  a graph     for models of nodes: edges.csv with --nodes nodes.csv, a folder
              with both, or .npz with arrays; its columns are those of training

A file that cannot be read is named, and the rest goes on; the exit code is then
1. The table has the names of the examples, what their files say about them, and
the predictions, as in predictions.csv: `predicted NAME` for a number, for a
class `predicted` and `p(NAME)` of each. Values of nodes, edges or faces have a
row each, with the nodes in the column `nodes`. Of labels of nodes, `name` is
the node, and `file` tells several graphs apart.
"""
_PREDICT_EXAMPLES = """\
examples:
  incidence predict runs/solubility-1 molecules.sdf
  incidence predict runs/solubility-1 "CCO" "c1ccccc1O"
  incidence predict runs/shapes-1 meshes/ --out predicted.csv
  incidence predict runs/papers-1 edges.csv --nodes nodes.csv    another graph
  incidence predict model.onnx molecules.sdf             after incidence export
"""
_EVALUATE = """\
Measures a trained network on every part of its data, or on other data. The
parts of its own data are those it was trained with; if the file has changed
since, nobody knows them, and it is refused. Other data (--data) is one part,
for testing, unless it tells its parts: a column `split`, masks, or a data set
with parts of its own. A copy of the data of the run has the parts of the run.

Targets are told by their names: those of the model, or what --target says.
"""
_EVALUATE_EXAMPLES = """\
examples:
  incidence evaluate runs/solubility-1
  incidence evaluate runs/solubility-1 --data new.csv
  incidence evaluate runs/solubility-1 --data new.csv --target logS
"""
_EXPORT = """\
Writes the network of a finished run for other programs: an ONNX file, or a
program of torch.export, which needs nothing but torch. Structures of any size
go in, as lists that a few lines of any language make (docs/export.md). Before a
file is written, it is run on random structures and compared with the network.
"""
_EXPORT_EXAMPLES = """\
examples:
  incidence export runs/solubility-1 --onnx model.onnx
  incidence export runs/solubility-1 --torch-export model.pt2
  incidence predict model.onnx "CCO" "c1ccccc1O"
"""
_COMPARE = """\
Puts finished runs side by side: the metric, the options in which they differ,
and what each cost; the best first. Runs on other data stand apart, also where
the file was another at the time; runs on other parts of the same data have a
baseline each. Runs that differ in nothing but seeds and parts have a mean, with
its deviation as a sample.
"""
_COMPARE_EXAMPLES = """\
examples:
  incidence compare runs/*
  incidence compare runs/a runs/b --out compare.png
"""
_SWEEP = """\
Trains a run for every combination of the values in a file, and compares them. A
sweep that was stopped goes on with the same words: runs that are finished are
left as they are, and the one that was stopped is resumed.
"""
_SWEEP_EXAMPLES = """\
a file of four runs, sizes.yaml:
  data: solubility
  epochs: 20
  hidden: [32, 64]
  seed: [0, 1]

  incidence sweep sizes.yaml
"""
_LAYOUTS = """\
Your own data (--data PATH):
  folder/targets.csv          columns file,target[,split]; the files beside it
  folder/CLASS/FILE           a class for each folder;
                              also CLASS/{train,test}/FILE
  molecules.csv               SMILES with targets: --smiles COLUMN --target A,B;
                              .smi and .sdf as well
  edges.csv, nodes.csv        a graph whose nodes have labels: a folder with
                              both, or --nodes nodes.csv; .npz with masks
  ratings.csv                 user,movie,rating: --keys, if others are columns;
                              --tables users.csv movies.csv beside it
  edges.csv, sets.txt         links, or hyperedges, with --task links
  examples.npz                written by Example.save
Options of a data set, a reader or a lift: --data-options labels=7"""
_PYG = "a data set of PyG, with --folder DATA for its files"
_COLUMN = 30  # where the second column of a list begins


def train_flags(command: argparse.ArgumentParser) -> None:
    """Adds the flags of `train`."""
    command.description, command.epilog = _TRAIN, _TRAIN_EXAMPLES
    command.add_argument("--config", metavar="FILE", help="options from a YAML file")
    command.add_argument("--resume", metavar="RUN", help="go on with a run")
    command.add_argument(
        "--list", action="store_true", help="data sets, models and what they are for"
    )
    command.add_argument("--json", action="store_true", help="one JSON object for other programs")
    _add_options(command, SECTIONS)
    command.set_defaults(run=_train)


def predict_flags(command: argparse.ArgumentParser) -> None:
    """Adds the flags of `predict`."""
    command.description, command.epilog = _PREDICT, _PREDICT_EXAMPLES
    command.add_argument("run_folder", metavar="RUN", help="the folder of a run")
    command.add_argument(
        "files", nargs="+", metavar="WHAT", help="files, folders, SMILES or names of data sets"
    )
    command.add_argument("--nodes", metavar="CSV", help="a table of nodes, beside a table of edges")
    command.add_argument(
        "--json", action="store_true", help="one JSON object for other programs, instead of a table"
    )
    command.add_argument(
        "--out", metavar="CSV", help="where to write the predictions; by default they are printed"
    )
    command.set_defaults(run=_predict)


def evaluate_flags(command: argparse.ArgumentParser) -> None:
    """Adds the flags of `evaluate`."""
    command.description, command.epilog = _EVALUATE, _EVALUATE_EXAMPLES
    command.add_argument("run_folder", metavar="RUN", help="the folder of a run")
    command.add_argument("--json", action="store_true", help="one JSON object for other programs")
    _add_options(command, ("data",))
    command.set_defaults(run=_evaluate)


def export_flags(command: argparse.ArgumentParser) -> None:
    """Adds the flags of `export`."""
    command.description, command.epilog = _EXPORT, _EXPORT_EXAMPLES
    command.add_argument("run_folder", metavar="RUN", help="the folder of a run")
    command.add_argument("--onnx", metavar="FILE", help="an ONNX file, such as model.onnx")
    command.add_argument(
        "--torch-export", metavar="FILE", help="a program of torch.export, such as model.pt2"
    )
    command.add_argument(
        "--tolerance", type=float, metavar="X", help="how far outputs may be off (default 0.0001)"
    )
    command.set_defaults(run=_export)


def compare_flags(command: argparse.ArgumentParser) -> None:
    """Adds the flags of `compare`."""
    command.description, command.epilog = _COMPARE, _COMPARE_EXAMPLES
    command.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help="folders of runs, or of sweeps; by default all in runs/",
    )
    command.add_argument(
        "--out", metavar="FILE", help="writes a picture (.png, .svg, .pdf) or a table (.csv)"
    )
    command.add_argument("--json", action="store_true", help="one JSON object for other programs")
    command.set_defaults(run=_compare)


def sweep_flags(command: argparse.ArgumentParser) -> None:
    """Adds the flags of `sweep`."""
    command.description, command.epilog = _SWEEP, _SWEEP_EXAMPLES
    command.add_argument(
        "file", metavar="FILE", help="options, as for `train --config`, with lists of values"
    )
    command.add_argument(
        "--out",
        metavar="FOLDER",
        help="the folder of the runs; by default runs/ and the name of the file",
    )
    command.add_argument("--json", action="store_true", help="one JSON object for other programs")
    command.set_defaults(run=_sweep)


def _add_options(command: argparse.ArgumentParser, sections: Sequence[str]) -> None:
    """A flag for every option of `Config`, by section."""
    hints = get_type_hints(Config)
    groups = {name: command.add_argument_group(f"{name} options") for name in sections}
    for f in fields(Config):
        about, kind = f.metadata, option_type(hints[f.name])
        if about["section"] not in groups:
            continue
        how: dict[str, Any] = {"default": argparse.SUPPRESS, "dest": f"option_{f.name}"}
        how["help"] = about["about"].replace("%", "%%") + (
            "" if f.default in (None, False) else f" (default {f.default})"
        )
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
    return {
        key.removeprefix("option_"): value
        for key, value in vars(arguments).items()
        if key.startswith("option_")
    }


def _train(arguments: argparse.Namespace) -> str:
    """Trains, or goes on with a run; gives the report."""
    if arguments.list:
        return _listing()
    flags, is_told = _flags(arguments), not arguments.json and launch.is_first()
    if arguments.resume is not None:
        epochs = flags.pop("epochs", None)
        if flags or arguments.config:
            word = f"--{next(iter(flags)).replace('_', '-')}" if flags else "--config"
            raise IncidenceError(
                f"a run goes on with the options it began with, but for --epochs: leave out {word}, or start a new run."
            )
        Config(
            **({} if epochs is None else {"epochs": epochs})
        )  # is refused before anything is loaded
        if is_told:
            launch.say(f"Going on with {arguments.resume}")
        done = launch.load("run", "training").resume(
            Path(arguments.resume), is_shown=True, epochs=epochs
        )
    else:
        config = read_config(Path(arguments.config) if arguments.config else None, flags)
        if is_told:
            launch.say(f"Training on {config.data} (all options: incidence train --help)")
        done = launch.load("run", "training").train(config, is_shown=True)
    return "" if done is None else str(launch.load("report", "training").tell(done, arguments.json))


def _predict(arguments: argparse.Namespace) -> str:
    """Predicts for files; what cannot be read is named, and the rest goes on. The exit code is then 1."""
    if arguments.out is not None and Path(arguments.out).is_dir():
        raise IncidenceError(
            f"{arguments.out} is a folder, and predictions are one file: give --out {Path(arguments.out) / 'predicted.csv'}."
        )
    prediction = launch.load("prediction", "prediction")
    errors: list[IncidenceError] = []
    task, found = prediction.predict(
        Path(arguments.run_folder), arguments.files, errors, arguments.nodes
    )
    _tell_passed_over(errors)
    if not found:
        raise IncidenceError(
            f"there is nothing to predict: none of {len(arguments.files)} files gave an example that fits the model."
        )
    arguments.code = int(bool(errors))
    text = str(
        prediction.as_json(task, found, errors) if arguments.json else prediction.table(task, found)
    )
    if arguments.out is None:
        return text.rstrip("\n")
    launch.load("folder", "prediction").write(Path(arguments.out), text)
    count = sum(len(one.rows) for one in found)
    print(f"{count:,} prediction{'s' * (count != 1)} in {arguments.out}", file=sys.stderr)
    return ""


def _evaluate(arguments: argparse.Namespace) -> str:
    """The metrics of a run, part by part."""
    evaluation, _ = launch.load("measuring", "evaluation").evaluate_run(
        Path(arguments.run_folder), _flags(arguments)
    )
    return (
        json.dumps(evaluation.metrics(), indent=1) if arguments.json else str(evaluation.scores())
    )


def _export(arguments: argparse.Namespace) -> str:
    """Writes the files that are asked for."""
    wanted = {".onnx": arguments.onnx, ".pt2": arguments.torch_export}
    if not any(wanted.values()):
        raise IncidenceError(
            "say what to write: --onnx model.onnx, --torch-export model.pt2, or both."
        )
    wrong = next(
        (file for suffix, file in wanted.items() if file is not None and not file.endswith(suffix)),
        None,
    )
    if wrong is not None:
        raise IncidenceError(
            f"--onnx writes a file that ends with .onnx, and --torch-export one that ends with .pt2; got {wrong!r}."
        )
    launch.say(f"Exporting {arguments.run_folder}: up to a minute")
    model = launch.load("model", "exporting").load(Path(arguments.run_folder))
    return "\n".join(
        str(model.export(file, arguments.tolerance)) for file in wanted.values() if file is not None
    )


def _compare(arguments: argparse.Namespace) -> str:
    """Runs side by side."""
    comparing = launch.load("compare", "comparing runs")
    found = comparing.compare(arguments.runs or ["runs"])
    _tell_passed_over(found.passed_over)
    arguments.code = int(bool(found.passed_over))
    if arguments.out is not None:
        found.save(Path(arguments.out))
        print(
            f"{len(found.results)} run{'s' * (len(found.results) > 1)} in {arguments.out}",
            file=sys.stderr,
        )
    return json.dumps({"runs": found.data()}, indent=1) if arguments.json else str(found)


def _sweep(arguments: argparse.Namespace) -> str:
    """A run for every combination."""
    say = (lambda text: None) if arguments.json or not launch.is_first() else launch.say
    out = None if arguments.out is None else Path(arguments.out)
    found, errors = launch.load("sweep", "training").sweep(Path(arguments.file), out, say)
    _tell_passed_over(errors)
    arguments.code = int(bool(errors))
    return json.dumps({"runs": found.data()}, indent=1) if arguments.json else str(found)


def _tell_passed_over(errors: Sequence[IncidenceError]) -> None:
    for error in errors:
        print(as_called(f"{command()}: passed over: {error}"), file=sys.stderr)


def _listing() -> str:
    """Data sets, models and layouts of folders."""
    from incidence import data, models

    sets = {
        **{name: source.about for name, source in data.DATA_SETS.items()},
        "pyg:CLASS/NAME": _PYG,
    }
    presets = {
        f"{name}: {preset.inputs or 'all tensors'}": preset.about
        for name, preset in models.PRESETS.items()
    }
    return f"Data sets (--data NAME):\n{_table(sets)}\n\nModels (--model NAME): the tensors they read\n{_table(presets)}\n\n{_LAYOUTS}"


def _table(rows: Mapping[str, str]) -> str:
    """Names and what they are, in two columns; lines have at most 80 letters, and nothing is cut."""
    lines = []
    for name, about in rows.items():
        head = (
            f"  {name:<{_COLUMN - 2}}" if len(name) < _COLUMN - 2 else f"  {name}\n{'':{_COLUMN}}"
        )
        lines.append(head + f"\n{'':{_COLUMN}}".join(wrap(about, 80 - _COLUMN)))
    return "\n".join(lines)
