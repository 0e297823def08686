"""The command line: `incidence explain MAP` and its kin."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from incidence import __version__
from incidence.algebra.explain import explain
from incidence.errors import IncidenceError, need
from incidence.train.config import SECTIONS, Config, option_type

__all__ = ["main"]

_EXPLAIN = """\
Explains a map: its orbits, and what each of its equivariant operations does.

A map is `tensors -> tensors`. The tensors are separated by commas; each is
written by the nodes that index it:

  i            a value for every node            (i j)    a directed edge
  i j          a node-node matrix                {i j}    an undirected edge
  i {i j}      a node and an edge it lies in     [i j]    a symmetric matrix
  {i ...}      a set of nodes of any size        u:user   a node of sort user
"""

_EXAMPLES = """\
examples:
  incidence explain "i j -> i j"                 the 15 operations on a matrix
  incidence explain "i, {i j}, {i j k} -> i"     triangles, edges, nodes to nodes
  incidence explain "i j -> " --nodes 1 2 3      readouts; exact at 1, 2, 3 nodes
  incidence explain "u:user m:movie -> u:user" --nodes user=3,movie=2
  incidence explain "{i ...} -> {i ...}" --max-overlap 2
"""

_ROOT = Path(__file__).parents[2]  # in a clone, the folder of the project

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
  incidence train --data pyg:TUDataset/MUTAG --folder DATA   a data set of PyG
  incidence train --data meshes/ --validation 0.1          your own: a folder per class
  incidence train --data molecules.sdf --target SOL --model molecule-rings
  incidence train --model "i, {i j}, ring={i ...}" --hidden 64 --depth 4
  incidence train --config settings.yaml --devices 2       two processes
  incidence train --resume runs/solubility-1

Options may also stand in a file, as `epochs: 50`; those on the command line win.
Data sets, models and layouts of folders: `incidence train --list`.
"""
_PREDICT = """\
Predicts with a trained network, for files like those it was trained on: molecules
(.sdf, .mol), meshes (.obj, .off, .ply, .stl), graphs (.edges, .txt, .csv, .tsv: a line
for each edge; .g6), or examples that the library saved (.npz). A file that cannot
be read is named, and the rest goes on; the exit code is then 1. Values of nodes, edges
or faces have a row each, with the nodes in the column `nodes`.
"""
_EVALUATE = """\
Measures a trained network on every part of its data, or of other data. The parts of its
own data are those it was trained with; of other data, --split and --validation say them.
"""

_WELCOME = """\
incidence {version}: learning on sets, graphs, hypergraphs, complexes and meshes.

You write down which nodes index the data; you get every linear map that
respects relabelling the nodes. For a node-node matrix, `i j -> i j`:

{explanation}

Next:  ./run incidence explain "i, {{i j}}, {{i j k}} -> i, {{i j}}, {{i j k}}"
       ./run incidence explain --help"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code: 0, 1 if something was passed over, or 2 for input that was refused."""
    words = [f" {w}" if w.startswith("->") else w for w in (sys.argv[1:] if argv is None else argv)]
    is_bench = words[:1] == ["bench"]  # which reads its words itself
    arguments = argparse.Namespace(run=_bench, words=words[1:], code=0) if is_bench else _parser().parse_args(words)
    try:
        text = arguments.run(arguments)
        if text:
            print(text)
        sys.stdout.flush()
    except IncidenceError as error:
        print(f"incidence: {str(error).lstrip()}" if "\n" not in str(error) else f"incidence:{error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:  # training says how to go on
        print(f"\nincidence: {stop}" if str(stop) else "\nincidence: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, `head` for example, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return int(arguments.code)


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="incidence", description="Equivariant learning on incidence structures.")
    parser.set_defaults(code=0)
    parser.add_argument("--version", action="version", version=f"incidence {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    command = commands.add_parser("explain", help="what a map can do", description=_EXPLAIN, epilog=_EXAMPLES, formatter_class=raw)
    command.add_argument("map", metavar="MAP", help='the map, in quotes: "i j -> i j"')
    command.add_argument("--nodes", nargs="+", type=_num_nodes, default=[], metavar="N", help="exact dimension at N nodes")
    command.add_argument("--max-overlap", type=int, default=1, metavar="K", help="matched nodes in open faces (default 1)")
    command.add_argument("--all", action="store_true", help="list everything, however long")
    command.add_argument("--json", action="store_true", help="one JSON object for other programs")
    command.set_defaults(run=_explain)

    commands.add_parser("bench", help="how fast it is; what is learned on which data (in the project's folder)")

    command = commands.add_parser("train", help="train a network", description=_TRAIN, epilog=_TRAIN_EXAMPLES, formatter_class=raw)
    command.add_argument("--config", metavar="FILE", help="options from a YAML file")
    command.add_argument("--resume", metavar="RUN", help="go on with a run")
    command.add_argument("--list", action="store_true", help="data sets, models and what they are for")
    command.add_argument("--json", action="store_true", help="one JSON object for other programs")
    _add_options(command, SECTIONS)
    command.set_defaults(run=_train)

    command = commands.add_parser("predict", help="predict for files", description=_PREDICT, formatter_class=raw)
    command.add_argument("run_folder", metavar="RUN", help="the folder of a run")
    command.add_argument("files", nargs="+", metavar="FILE", help="what to predict")
    command.add_argument("--out", metavar="CSV", help="where to write the predictions; by default they are printed")
    command.set_defaults(run=_predict)

    command = commands.add_parser("evaluate", help="metrics of a run", description=_EVALUATE, formatter_class=raw)
    command.add_argument("run_folder", metavar="RUN", help="the folder of a run")
    command.add_argument("--json", action="store_true", help="one JSON object for other programs")
    _add_options(command, ("data",))
    command.set_defaults(run=_evaluate)

    commands.add_parser("welcome", help="a first look").set_defaults(run=_welcome)
    return parser


def _num_nodes(text: str) -> int | dict[str, int]:
    """`5`, or `user=3,movie=2`."""
    try:
        if "=" not in text:
            return int(text)
        return {sort.strip(): int(n) for sort, n in (part.split("=") for part in text.split(","))}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor like user=3,movie=2") from None


def _add_options(command: argparse.ArgumentParser, sections: Sequence[str]) -> None:
    """A flag for every option of `Config`, by section."""
    hints = get_type_hints(Config)
    groups = {name: command.add_argument_group(f"{name} options") for name in sections}
    for f in fields(Config):
        about = f.metadata
        if about["section"] not in groups:
            continue
        kind = option_type(hints[f.name])
        settings: dict[str, Any] = {"default": argparse.SUPPRESS, "dest": f"option_{f.name}", "help": _help(f)}
        if kind is bool:
            settings["action"] = argparse.BooleanOptionalAction
        elif get_origin(kind) is tuple:
            settings |= {"nargs": "+", "metavar": "NAME"}
        else:
            settings |= {"type": kind, "metavar": {int: "N", float: "X"}.get(kind, "TEXT"), "choices": about["among"] or None}
        if about["among"]:
            del settings["metavar"]
        groups[about["section"]].add_argument(f"--{f.name.replace('_', '-')}", **settings)


def _help(option: Any) -> str:
    about = str(option.metadata["about"]).replace("%", "%%")
    return about if option.default in (None, False) else f"{about} (default {option.default})"


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that were given on the command line."""
    return {key.removeprefix("option_"): value for key, value in vars(arguments).items() if key.startswith("option_")}


def _train(arguments: argparse.Namespace) -> str:
    if arguments.list:
        from incidence.train.listing import listing

        return listing()
    commands = need("incidence.train.commands", "training", "train")
    return str(commands.train_command(arguments, _options(arguments)))


def _predict(arguments: argparse.Namespace) -> str:
    return str(need("incidence.train.commands", "prediction", "train").predict_command(arguments))


def _evaluate(arguments: argparse.Namespace) -> str:
    return str(need("incidence.train.commands", "evaluation", "train").evaluate_command(arguments, _options(arguments)))


def _explain(arguments: argparse.Namespace) -> str:
    explanation = explain(arguments.map, nodes=arguments.nodes, max_overlap=arguments.max_overlap)
    if arguments.json:
        return json.dumps(explanation.data(show_all=arguments.all), indent=1)
    return explanation.text(show_all=arguments.all)


def _bench(arguments: argparse.Namespace) -> str:
    """A door to what measures: it lies beside `src` in the project's folder, and is no part of the package."""
    if not (_ROOT / "benchmarks" / "__init__.py").is_file():
        raise IncidenceError("benchmarks are in the project's folder, not in the installed package: clone it, and type ./run bench there.")
    sys.path.insert(0, str(_ROOT))
    arguments.code = import_module("benchmarks").main(arguments.words)
    return ""


def _welcome(_: argparse.Namespace) -> str:
    return _WELCOME.format(version=__version__, explanation=explain("i j -> i j"))
