"""The commands `train`, `prepare`, `predict`, `evaluate`, `export`, `compare` and `sweep`: their
flags and output.

What trains is loaded when a command runs, so that help comes at once and without Lightning.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields
from pathlib import Path
from textwrap import wrap
from typing import Any, get_origin, get_type_hints

from incidence.errors import IncidenceError, as_called, command
from incidence.train.config import SECTIONS, Config, option_type, read_config
from incidence.train.launch import is_first, loading, say

__all__ = [
    "compare_flags",
    "evaluate_flags",
    "export_flags",
    "predict_flags",
    "prepare_flags",
    "sweep_flags",
    "train_flags",
]

_TRAIN = """\
Train a network. Options, weights, metrics, predictions, plots and logs go to a
new folder. Without options, the network learns the solubility in water of 1,025
molecules, and is tested on 257 others, in under a minute.
"""
_TRAIN_EXAMPLES = """\
examples:
  incidence train                                        the data in the package
  incidence train --data meshes/ --validation 0.1        a folder for each class
  incidence train --data edges.csv --nodes nodes.csv     labels of nodes
  incidence train --data edges.csv --task links          missing edges
  incidence train --data ratings.csv --target rating     ratings of movies
  incidence train --data tables/ --task-table task.csv   forecasts
  incidence train --data molecules.csv --smiles smiles --target expt
  incidence train --config settings.yaml --seed 1        options from a file
  incidence train --resume runs/solubility-1             after a stop or a kill
  incidence train --resume runs/solubility-1 --epochs 80 for longer

A run that was stopped or killed continues with --resume, and ends with the same
weights as if it had not been. Meshes, labels of nodes, ratings and links have
other defaults: config.yaml in the folder of a run lists what was used.
Layouts of data, data sets and models: incidence train --list
"""
_PREPARE = """\
Prepare a data set once, for many runs: read it, lift it, and write its examples
to shards, which are files that training maps into memory. A run then never holds
all examples, but what a batch needs and some numbers for each row.

Without --shard, one process writes all shards. With --shard K/N it writes shard
K of N alone, so that N processes share the work, on one machine or many. A shard
is written whole or not at all, and writing it again does no harm.
"""
_PREPARE_EXAMPLES = """\
examples:
  incidence prepare molecules.csv --smiles smiles --target expt --out prepared
  incidence prepare graphs/ --lift rings --shards 16 --out prepared
  seq 16 | xargs -P 4 -I K incidence prepare graphs/ --shard K/16 --out prepared
  incidence train --data prepared
"""
_PREDICT = """\
Predict with a trained network. WHAT is any number of:

  molecules   .csv or .tsv with a column of SMILES, .smi, .sdf, .mol, .xyz; or a
              SMILES itself, in quotes
  meshes      .obj, .off, .ply, .stl
  graphs      .edges, .txt, .csv, .tsv: a line for each edge; .g6
  examples    .npz files that the library saved
  folders     all files in them that the model reads, also in folders inside
  data sets   by name, as in `incidence train --data NAME`
  pairs       for models of ratings, links and triples: .csv with a row for each
              pair; with a column less, as of users alone, the best candidates
  a graph     for models of nodes: edges.csv with --nodes nodes.csv, a folder
              with both, or .npz with arrays; its columns are those of training

The output is a table with the names of the examples, the columns of their
files, and the predictions: `predicted NAME` for a number; `predicted` and
`p(NAME)` for classes. Values of nodes, edges or faces have a row each.
Files that cannot be read are skipped with a message; the exit code is then 1.
"""
_PREDICT_EXAMPLES = """\
examples:
  incidence predict runs/solubility-1 molecules.sdf
  incidence predict runs/solubility-1 "CCO" "c1ccccc1O"
  incidence predict runs/shapes-1 meshes/ --out predicted.csv
  incidence predict runs/parts-1 new.obj --out new.ply   a coloured mesh
  incidence predict runs/papers-1 edges.csv --nodes nodes.csv    another graph
  incidence predict runs/ratings-1 users.csv --top 5     movies for each user
  incidence predict model.onnx molecules.sdf             after incidence export
"""
_EVALUATE = """\
Measure a trained network on every part of its data, or on other data (--data).

The data of the run has the parts of training. If the file has changed since,
evaluation stops with an error, because the parts can no longer be reproduced.
Other data is one test part, unless it defines its parts: by a column `split`,
by masks, or as a named data set. A copy of the data of the run has its parts.

Targets are matched by name: those of the model, or those of --target. Options
that are not given are those of the run.
"""
_EVALUATE_EXAMPLES = """\
examples:
  incidence evaluate runs/solubility-1
  incidence evaluate runs/solubility-1 --data new.csv
  incidence evaluate runs/solubility-1 --data new.csv --target logS
"""
_EXPORT = """\
Export the network of a finished run to an ONNX file, or to a program of
torch.export, which needs nothing but torch. Structures of any size go in, as
lists that a few lines of any language make (docs/export.md). Before a file is
written, it runs on random structures, and its outputs are compared with those
of the network.
"""
_EXPORT_EXAMPLES = """\
examples:
  incidence export runs/solubility-1 --onnx model.onnx
  incidence export runs/solubility-1 --torch-export model.pt2
  incidence predict model.onnx "CCO" "c1ccccc1O"
"""
_COMPARE = """\
Compare finished runs, the best first: the metric, the options in which the runs
differ, and their cost. Runs on other data are in another table, also if the
file has changed between them. Runs on other parts of the same data have a
baseline each. Runs that differ only in seeds and parts also have a mean, with
its standard deviation as a sample.
"""
_COMPARE_EXAMPLES = """\
examples:
  incidence compare runs/*
  incidence compare runs/a runs/b --out compare.png
"""
_SWEEP = """\
Train a run for every combination of the values in a file, and compare the runs.
A sweep that was stopped continues with the same command: finished runs stay,
and the run that was stopped is resumed.
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
  triples.tsv                 head, relation, tail, with --task links
  incidences.csv, h.hif.json  hypergraphs: node,hyperedge[,weight], with --nodes
  tables/, base.sqlite        forecasts from tables with keys: --task-table CSV
  examples.npz                written by Example.save
Options of a data set, a reader or a lift: --data-options labels=7"""
_PYG = "a data set of PyG, with --folder DATA for its files"
_COLUMN = 30  # where the second column of a list begins
_JSON = "print one JSON object, for other programs"
_USUAL = {
    "train": (
        *("data", "target", "task", "smiles", "nodes", "validation"),
        *("model", "hidden", "depth", "epochs", "batch_size", "lr", "seed", "out"),
    ),
    "prepare": ("target", "task", "smiles", "model", "lift", "max_size"),
    "evaluate": ("data", "folder", "target", "smiles", "nodes", "metric", "split"),
}
"""The options in the short help of a command; `--help-all` lists all of them."""


_READING = (
    *("folder", "target", "task", "smiles", "keys", "tables", "reader", "data_options"),
    *("data_seed", "lift", "max_size", "model"),
)
"""The options that say how data is read and lifted."""


def train_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `train`."""
    command.description, command.epilog = _TRAIN, _TRAIN_EXAMPLES
    command.usage = "%(prog)s [options]"
    command.add_argument(
        "--config", metavar="FILE", help="YAML file with options; flags win over it"
    )
    command.add_argument("--resume", metavar="RUN", help="folder of a run to continue")
    command.add_argument(
        "--list", action="store_true", help="list data sets, models and layouts of data, and exit"
    )
    command.add_argument("--json", action="store_true", help=_JSON)
    _add_options(command, SECTIONS, _USUAL["train"])
    command.set_defaults(run=_train)


def prepare_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `prepare`."""
    command.description, command.epilog = _PREPARE, _PREPARE_EXAMPLES
    command.usage = "%(prog)s DATA --out FOLDER [options]"
    command.add_argument("option_data", metavar="DATA", help="name, file or folder of the data")
    command.add_argument("--out", metavar="FOLDER", required=True, help="folder for the shards")
    command.add_argument("--shard", metavar="K/N", help="write shard K of N alone, from 1")
    command.add_argument(
        "--shards",
        type=int,
        metavar="N",
        help="write N shards, one after the other (default: one for each 10,000 examples)",
    )
    command.add_argument(
        "--no-plans",
        action="store_true",
        help="store no plans of the model: smaller shards, and training builds the plans",
    )
    _add_options(command, ("data", "model"), _USUAL["prepare"], names=_READING)
    command.set_defaults(run=_prepare)


def predict_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `predict`."""
    command.description, command.epilog = _PREDICT, _PREDICT_EXAMPLES
    _add_run(command, "folder of a finished run, or an exported model")
    command.add_argument(
        "files", nargs="+", metavar="WHAT", help="files, folders, SMILES or names of data sets"
    )
    command.add_argument("--nodes", metavar="CSV", help="table of nodes, beside a table of edges")
    command.add_argument(
        "--known", metavar="CSV", help="table of further known ratings or links, as of a new user"
    )
    command.add_argument(
        "--coverage",
        type=float,
        metavar="SHARE",
        help="add intervals that cover this share of the true values, such as 0.9; the run must"
        " have had a validation part",
    )
    command.add_argument(
        "--top",
        type=int,
        default=10,
        metavar="N",
        help="best candidates for a row that leaves one column open (default 10)",
    )
    command.add_argument("--json", action="store_true", help=_JSON)
    command.add_argument(
        "--out",
        metavar="FILE",
        help="file for the predictions (default: print them); for a mesh also .ply, with colours",
    )
    command.set_defaults(run=_predict)


def evaluate_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `evaluate`."""
    command.description, command.epilog = _EVALUATE, _EVALUATE_EXAMPLES
    command.usage = "%(prog)s [options] RUN"
    _add_run(command)
    command.add_argument("--json", action="store_true", help=_JSON)
    _add_options(command, ("data",), _USUAL["evaluate"], has_defaults=False)
    command.set_defaults(run=_evaluate)


def export_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `export`."""
    command.description, command.epilog = _EXPORT, _EXPORT_EXAMPLES
    _add_run(command)
    command.add_argument("--onnx", metavar="FILE", help="ONNX file to write, such as model.onnx")
    command.add_argument(
        "--torch-export",
        metavar="FILE",
        help="program of torch.export to write, such as model.pt2",
    )
    command.add_argument(
        "--tolerance",
        type=float,
        metavar="X",
        help="largest difference of outputs on random structures (default 0.0001)",
    )
    command.set_defaults(run=_export)


def compare_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `compare`."""
    command.description, command.epilog = _COMPARE, _COMPARE_EXAMPLES
    command.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help="folders of runs, or of sweeps (default: all in runs/)",
    )
    command.add_argument(
        "--out", metavar="FILE", help="picture (.png, .svg, .pdf) or table (.csv) to write"
    )
    command.add_argument("--json", action="store_true", help=_JSON)
    command.set_defaults(run=_compare)


def sweep_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `sweep`."""
    command.description, command.epilog = _SWEEP, _SWEEP_EXAMPLES
    command.add_argument(
        "file", metavar="FILE", help="YAML file of options, with lists of values to combine"
    )
    command.add_argument(
        "--out",
        metavar="FOLDER",
        help="folder for the runs (default: runs/ and the name of the file)",
    )
    command.add_argument("--json", action="store_true", help=_JSON)
    command.set_defaults(run=_sweep)


def _add_run(command: argparse.ArgumentParser, about: str = "folder of a finished run") -> None:
    command.add_argument("run_folder", metavar="RUN", help=about)


class _HelpAll(argparse.Action):
    """Print the help with all options, and exit."""

    def __init__(
        self, option_strings: Sequence[str], texts: Mapping[argparse.Action, str], **others: Any
    ) -> None:
        super().__init__(option_strings, nargs=0, default=argparse.SUPPRESS, **others)
        self.texts = texts

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        for action, text in self.texts.items():
            action.help = text
        parser.print_help()
        parser.exit()


_SECTIONS = {
    "model": "Values that you leave out come from the recipe of the data, then from the\n"
    "model. config.yaml in the folder of a run has all of them.",
}
"""What the help says of a group of options."""


def _add_options(
    command: argparse.ArgumentParser,
    sections: Sequence[str],
    usual: Sequence[str],
    has_defaults: bool = True,
    names: Sequence[str] = (),
) -> None:
    """Add a flag for every option of some sections; the short help lists the usual ones.

    Args:
        command: The parser.
        sections: The sections.
        usual: The options of the short help.
        has_defaults: Whether the help says the defaults.
        names: The only options to add, if not all of them.
    """
    hidden: dict[argparse.Action, str] = {}
    command.add_argument("--help-all", action=_HelpAll, texts=hidden, help="list all options")
    hints = get_type_hints(Config)
    groups = {name: command.add_argument_group(name, _SECTIONS.get(name)) for name in sections}
    for f in fields(Config):
        group = groups.get(f.metadata["section"])
        if group is None or (names and f.name not in names):
            continue
        keywords = _keywords(f, option_type(hints[f.name]), has_defaults)
        action = group.add_argument(
            f"--{f.name.replace('_', '-')}", dest=f"option_{f.name}", **keywords
        )
        if f.name not in usual:
            hidden[action], action.help = str(action.help), argparse.SUPPRESS


def _keywords(f: Field[Any], kind: Any, has_default: bool) -> dict[str, Any]:
    """Return how argparse is to treat an option."""
    about = f.metadata["about"].replace("%", "%%")
    if has_default and f.default is not None and f.default is not False:
        about += f" (default {f.default})"
    keywords: dict[str, Any] = {"default": argparse.SUPPRESS, "help": about}
    if kind is bool:
        return {**keywords, "action": argparse.BooleanOptionalAction}
    if f.metadata["among"]:
        if f.metadata["metavar"]:
            keywords["metavar"] = f.metadata["metavar"]
        return {**keywords, "choices": f.metadata["among"]}
    usual = {int: "N", float: "X"}.get(kind, f.name.upper())
    keywords["metavar"] = f.metadata["metavar"] or usual
    if get_origin(kind) is tuple:
        return {**keywords, "nargs": "+"}
    return {**keywords, "type": kind}


def _flags(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options that were given on the command line."""
    return {
        key.removeprefix("option_"): value
        for key, value in vars(arguments).items()
        if key.startswith("option_")
    }


def _train(arguments: argparse.Namespace) -> str:
    """Train, or resume a run; return what to print."""
    if arguments.list:
        return _listing()
    run = _resumed(arguments) if arguments.resume is not None else _trained(arguments)
    if run is None:  # a process other than the first
        return ""
    with loading("training"):
        from incidence.train.report import finish
    return finish(run, arguments.json)


def _trained(arguments: argparse.Namespace) -> Any:
    file = Path(arguments.config) if arguments.config else None
    config = read_config(file, _flags(arguments))
    _announce(arguments, f"Training on {config.data} (options: incidence train --help)")
    with loading("training"):
        from incidence.train.run import train
    return train(config, is_shown=True)


def _resumed(arguments: argparse.Namespace) -> Any:
    flags = _flags(arguments)
    epochs = flags.pop("epochs", None)
    if flags or arguments.config:
        flag = f"--{next(iter(flags)).replace('_', '-')}" if flags else "--config"
        raise IncidenceError(
            "a run continues with the options it began with, except for --epochs: leave out"
            f" {flag}, or start a new run."
        )
    if epochs is not None:
        Config(epochs=epochs)  # refuses a wrong number before anything is loaded
    _announce(arguments, f"Resuming {arguments.resume}")
    with loading("training"):
        from incidence.train.run import resume
    return resume(Path(arguments.resume), is_shown=True, epochs=epochs)


def _announce(arguments: argparse.Namespace, text: str) -> None:
    if not arguments.json and is_first():
        say(text)


def _prepare(arguments: argparse.Namespace) -> str:
    """Write one shard, or all of them; return what to do next."""
    number, count = _shard(arguments.shard, arguments.shards)
    config = Config(**_flags(arguments))
    print(f"Preparing {config.data}", file=sys.stderr, flush=True)
    with loading("preparing data"):
        from incidence.train.shards import prepare_shards
    made = prepare_shards(
        config,
        Path(arguments.out),
        count,
        number,
        is_shown=True,
        with_plans=not arguments.no_plans,
    )
    return made.describe()


def _shard(text: str | None, count: int | None) -> tuple[int | None, int | None]:
    """Return the number of the only shard to write, if there is one, and the number of shards."""
    if text is None:
        return None, count
    parts = text.split("/")
    are_numbers = len(parts) == 2 and all(one.isdecimal() and len(one) < 8 for one in parts)
    number, total = map(int, parts) if are_numbers else (0, 0)
    if not 1 <= number <= total:
        raise IncidenceError(f"a shard is K/N, with K from 1 to N, such as 3/16; got {text!r}.")
    if count not in (None, total):
        raise IncidenceError(f"--shard {text} says how many shards there are: leave out --shards.")
    return number, total


def _predict(arguments: argparse.Namespace) -> str:
    """Predict for files; those that cannot be read are skipped, and the exit code is then 1."""
    if arguments.out is not None and Path(arguments.out).is_dir():
        raise IncidenceError(
            f"{arguments.out} is a folder, and predictions are one file: give --out"
            f" {Path(arguments.out) / 'predicted.csv'}."
        )
    with loading("prediction"):
        from incidence.train.prediction import (
            as_json,
            assert_writable,
            content_for,
            predict,
            table,
            write_mesh,
        )
        from incidence.train.run_folder import write
    if arguments.out is not None and not arguments.json:
        assert_writable(Path(arguments.out))
    errors: list[IncidenceError] = []
    task, predictions = predict(
        Path(arguments.run_folder),
        arguments.files,
        errors,
        nodes=arguments.nodes,
        known=arguments.known,
        top=arguments.top,
        coverage=arguments.coverage,
    )
    _print_skipped(arguments, errors)
    if not predictions:
        raise IncidenceError(
            f"there is nothing to predict: none of {len(arguments.files)} files gave an example"
            " that fits the model."
        )
    if arguments.out is not None and arguments.out.lower().endswith(".ply"):
        write_mesh(Path(arguments.run_folder), arguments.files, predictions, Path(arguments.out))
        print(f"the coloured mesh is in {arguments.out}", file=sys.stderr)
        return ""
    if arguments.out is None:
        text = table(task, predictions)
        if arguments.json:
            text = as_json(task, predictions, errors)
        return text.rstrip("\n")
    out = Path(arguments.out)
    if arguments.json:
        write(out, as_json(task, predictions, errors))
    else:
        write(out, content_for(out, task, predictions, errors))
    count = sum(len(one.rows) for one in predictions)
    print(f"{count:,} prediction{'s' * (count != 1)} in {arguments.out}", file=sys.stderr)
    return ""


def _evaluate(arguments: argparse.Namespace) -> str:
    """Measure a run, part by part."""
    with loading("evaluation"):
        from incidence.train.evaluate import evaluate_run
    evaluation, _ = evaluate_run(Path(arguments.run_folder), _flags(arguments))
    if arguments.json:
        return json.dumps(evaluation.metrics(), indent=1)
    return str(evaluation.scores())


def _export(arguments: argparse.Namespace) -> str:
    """Write the files that were named."""
    files = {".onnx": arguments.onnx, ".pt2": arguments.torch_export}
    if not any(files.values()):
        raise IncidenceError(
            "nothing to write: give --onnx model.onnx, --torch-export model.pt2, or both."
        )
    for suffix, file in files.items():
        if file is not None and not file.endswith(suffix):
            raise IncidenceError(
                "--onnx writes a file that ends with .onnx, and --torch-export one that ends with"
                f" .pt2; got {file!r}."
            )
    say(f"Exporting {arguments.run_folder}: up to a minute")
    with loading("exporting"):
        from incidence.train.model import load
    model = load(Path(arguments.run_folder))
    written = [model.export(file, arguments.tolerance) for file in files.values() if file]
    return "\n".join(map(str, written))


def _compare(arguments: argparse.Namespace) -> str:
    """Compare runs."""
    with loading("comparing runs"):
        from incidence.train.compare import compare
    comparison = compare(arguments.runs or ["runs"])
    _print_skipped(arguments, comparison.passed_over)
    if arguments.out is not None:
        comparison.save(Path(arguments.out))
        count = len(comparison.results)
        print(f"{count} run{'s' * (count > 1)} in {arguments.out}", file=sys.stderr)
    return _comparison_text(arguments, comparison)


def _sweep(arguments: argparse.Namespace) -> str:
    """Train a run for every combination."""
    with loading("training"):
        from incidence.train.sweep import sweep

    def announce(text: str) -> None:
        _announce(arguments, text)

    out = None if arguments.out is None else Path(arguments.out)
    comparison, errors = sweep(Path(arguments.file), out, announce)
    _print_skipped(arguments, errors)
    return _comparison_text(arguments, comparison)


def _comparison_text(arguments: argparse.Namespace, comparison: Any) -> str:
    if arguments.json:
        return json.dumps({"runs": comparison.data()}, indent=1)
    return str(comparison)


def _print_skipped(arguments: argparse.Namespace, errors: Sequence[IncidenceError]) -> None:
    """Print why things were skipped, and let the command end with exit code 1 if any were."""
    for error in errors:
        print(as_called(f"{command()}: skipped: {error}"), file=sys.stderr)
    arguments.code = int(bool(errors))


def _listing() -> str:
    """Return data sets, models and layouts of data."""
    from incidence import data, models
    from incidence.extensions import load_extensions

    load_extensions()
    sets = {name: source.about for name, source in data.DATA_SETS.items()}
    sets["pyg:CLASS/NAME"] = _PYG
    presets = {
        f"{name}: {preset.inputs or 'all tensors'}": preset.about
        for name, preset in models.PRESETS.items()
    }
    return (
        f"Data sets (--data NAME):\n{_two_columns(sets)}\n\nModels (--model NAME), with the tensors"
        f" that they read:\n{_two_columns(presets)}\n\n{_LAYOUTS}"
    )


def _two_columns(rows: Mapping[str, str]) -> str:
    """Return names and descriptions in two columns, in lines of at most 80 characters."""
    lines = []
    for name, about in rows.items():
        head = f"  {name:<{_COLUMN - 2}}"
        if len(name) >= _COLUMN - 2:
            head = f"  {name}\n{'':{_COLUMN}}"
        lines.append(head + f"\n{'':{_COLUMN}}".join(wrap(about, 80 - _COLUMN)))
    return "\n".join(lines)
