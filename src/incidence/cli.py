"""The command line: `incidence explain MAP` and its kin. A command that is not asked for is not loaded."""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from incidence import __version__
from incidence.algebra.explain import explain
from incidence.errors import IncidenceError, as_called, command, need

__all__ = ["main"]

_EXPLAIN = """\
Explains a map: its orbits, and what each of its equivariant operations does.

A map is `tensors -> tensors`. The tensors are separated by commas; each is
written by the nodes that index it:

  i            a value for every node            (i j)    a directed edge
  i j          a node-node matrix                {i j}    an undirected edge
  i {i j}      a node and an edge it lies in     [i j]    a symmetric matrix
  {i ...}      a set of nodes of any size        u:user   a node of sort user
  <i j>        an oriented edge: with a sign
"""

_EXAMPLES = """\
examples:
  incidence explain "i j -> i j"                 the 15 operations on a matrix
  incidence explain "i, {i j}, {i j k} -> i"     from nodes, edges, triangles
  incidence explain "i j -> " --nodes 1 2 3      readouts, at 1, 2, 3 nodes
  incidence explain "u:user m:movie -> u:user" --nodes user=3,movie=2
  incidence explain "{i ...} -> {i ...}" --max-overlap 2
  incidence explain "i j * i j -> i j"           all 203 products of matrices
"""

_ROOT = Path(__file__).parents[2]  # in a clone, the folder of the project

_MEANT = {
    "--learning-rate": "--lr", "--num-epochs": "--epochs", "--max-epochs": "--epochs", "--dataset": "--data", "--data-path": "--data",
    "--hidden-size": "--hidden", "--hidden-channels": "--hidden", "--hidden-dim": "--hidden", "--num-layers": "--depth",
    "--layers": "--depth", "--wd": "--weight-decay", "--output": "--out", "--output-dir": "--out", "--save-dir": "--out",
    "--gpus": "--devices", "--smiles-column": "--smiles", "--target-columns": "--target", "--split-type": "--groups",
    "--num-folds": "--cv", "--bs": "--batch-size",
}  # fmt: skip
"""What other programs call options of ours."""

_WELCOME = """\
incidence {version}: learning on sets, graphs, hypergraphs, complexes and meshes.

You write down which nodes index the data; you get every linear map that
respects relabelling the nodes. For a node-node matrix, `i j -> i j`:

{explanation}

Next:  incidence explain "i, {{i j}}, {{i j k}} -> i, {{i j}}, {{i j k}}"
       incidence explain --help"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code: 0, 1 if something was passed over, or 2 for input that was refused."""
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        return _main(argv)


def _main(argv: Sequence[str] | None) -> int:
    words = [f" {w}" if w.startswith("->") else w for w in (sys.argv[1:] if argv is None else argv)]
    code = 0
    try:
        if words[:1] == ["bench"]:  # which reads its words itself
            return _bench(words[1:])
        arguments = _parse(words)
        text = arguments.run(arguments)
        if text:
            print(text if getattr(arguments, "json", False) else as_called(text))
        sys.stdout.flush()
        code = int(arguments.code)
    except IncidenceError as error:
        message = as_called(str(error))
        print(
            f"{command()}: {message.lstrip()}" if "\n" not in message else f"{command()}:{message}",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt as stop:  # training says how to go on
        print(
            f"\n{command()}: {as_called(str(stop))}" if str(stop) else f"\n{command()}: stopped",
            file=sys.stderr,
        )
        return 130
    except BrokenPipeError:  # the reader, `head` for example, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:  # of the disk, or a name that is too long
        print(f"{command()}: {error}", file=sys.stderr)
        return 2
    return code


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """Tells a warning as a command does, without the place in the code."""
    print(f"{command()}: {as_called(str(message))}", file=sys.stderr)


class _Parser(argparse.ArgumentParser):
    """A parser whose refusals are short: one line of usage, what is wrong, and where to read more."""

    def error(self, message: str) -> NoReturn:
        """Says what is wrong, and ends."""
        places = " ".join(
            str(action.metavar) for action in self._actions if not action.option_strings
        )
        self.exit(
            2,
            f"usage: {' '.join(f'{self.prog} [options] {places}'.split())}\n{self.prog}: {message}\nMore: {self.prog} --help\n",
        )

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """Says which option there is not, and which may be meant."""
        word, known = words[0].partition("=")[0], self._options()
        if not word.startswith("-"):
            hint = (
                " Data is given with --data, and several targets are divided by commas: --target A,B."
                if "--target" in known
                else ""
            )
            self.error(f"what {word!r} is for is not clear.{hint}")
        close = get_close_matches(word[2:], [option[2:] for option in known], n=1)
        meant = _MEANT[word] if _MEANT.get(word) in known else f"--{close[0]}" if close else None
        self.error(f"no option {word}.{f' Did you mean {meant}?' if meant else ''}")

    def unknown(self, words: Sequence[str]) -> list[str]:
        """The words that look like options, and are none, nor the beginning of one."""
        known, words = self._options(), words[: words.index("--")] if "--" in words else words
        return [
            w
            for w in words
            if w.startswith("--")
            and not any(option.startswith(w.partition("=")[0]) for option in known)
        ]

    def _options(self) -> list[str]:
        return [
            option
            for action in self._actions
            for option in action.option_strings
            if option.startswith("--")
        ]


def _parse(words: Sequence[str]) -> argparse.Namespace:
    """What the words say; options that a command does not have are refused by the command."""
    parser, commands = _parsers(words)
    if not words:
        parser.print_help()
        parser.exit(0)
    if words[0] not in commands and not words[0].startswith("-"):
        close = get_close_matches(words[0], commands, n=1, cutoff=0.5)
        hint = f"Did you mean {close[0]}?" if close else f"There are: {', '.join(commands)}."
        parser.error(f"no command {words[0]!r}. {hint}")
    asked = commands.get(words[0], parser)
    unknown = asked.unknown(words)
    if unknown:  # before it is said what else is missing
        asked.refuse(unknown)
    arguments, rest = parser.parse_known_args(words)
    if rest:
        asked.refuse(rest)
    return arguments


def _parsers(words: Sequence[str]) -> tuple[_Parser, dict[str, _Parser]]:
    """The parser for these words, and that of every command; only the one that is asked for has its flags."""
    parser = _Parser(prog=command(), description="Equivariant learning on incidence structures.")
    parser.set_defaults(code=0)
    parser.add_argument("--version", action="version", version=f"incidence {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    found = {}
    for name, (about, add_flags) in _COMMANDS.items():
        found[name] = commands.add_parser(
            name, help=about, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name in words[:1]:
            add_flags(found[name])
            found[name].description, found[name].epilog = (
                as_called(text or "") for text in (found[name].description, found[name].epilog)
            )
    return parser, found


def _explain_flags(command: argparse.ArgumentParser) -> None:
    command.description, command.epilog = _EXPLAIN, _EXAMPLES
    command.add_argument("map", metavar="MAP", help='the map, in quotes: "i j -> i j"')
    command.add_argument(
        "--nodes",
        nargs="+",
        type=_num_nodes,
        default=[],
        metavar="N",
        help="exact dimension at N nodes",
    )
    command.add_argument(
        "--max-overlap",
        type=int,
        default=1,
        metavar="K",
        help="matched nodes in open faces (default 1)",
    )
    command.add_argument("--all", action="store_true", help="list everything, however long")
    command.add_argument("--json", action="store_true", help="one JSON object for other programs")
    command.set_defaults(run=_explain)


def _training(flags: str, command: argparse.ArgumentParser) -> None:
    """Adds the flags of a command of training, which this installation may be without."""
    getattr(need("incidence.train.commands", "this command", "train"), flags)(command)


def _plotting(command: argparse.ArgumentParser) -> None:
    """Adds the flags of `plot`; of a run, which only training knows, it is told how to open one."""
    need("incidence.plot.commands", "this command", "plot").plot_flags(command, _open_run)


def _open_run(path: Path) -> Any:
    return need("incidence.train.model", "drawing a run", "train").load(path)


def _num_nodes(text: str) -> int | dict[str, int]:
    """`5`, or `user=3,movie=2`."""
    try:
        if "=" not in text:
            return int(text)
        return {sort.strip(): int(n) for sort, n in (part.split("=") for part in text.split(","))}
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a number nor like user=3,movie=2"
        ) from None


def _explain(arguments: argparse.Namespace) -> str:
    found = explain(arguments.map, nodes=arguments.nodes, max_overlap=arguments.max_overlap)
    return (
        json.dumps(found.data(show_all=arguments.all), indent=1)
        if arguments.json
        else found.text(show_all=arguments.all)
    )


def _bench(words: Sequence[str]) -> int:
    """Hands the words on to what measures: it lies beside `src` in the project's folder, and is no part of the package."""
    if not (_ROOT / "benchmarks" / "__init__.py").is_file():
        raise IncidenceError(
            "benchmarks are in the folder of the project, and no part of the package: run them in a clone of it."
        )
    sys.path.insert(0, str(_ROOT))
    return int(import_module("benchmarks").main(words))


def _welcome(_: argparse.Namespace) -> str:
    return _WELCOME.format(version=__version__, explanation=explain("i j -> i j"))


# name: (one line of help, what adds its flags and says what it runs)
_COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "explain": ("what a map can do", _explain_flags),
    "bench": (
        "how fast it is; what is learned on which data (in the project's folder)",
        lambda command: None,
    ),
    "train": ("train a network", partial(_training, "train_flags")),
    "predict": ("predict with a trained network", partial(_training, "predict_flags")),
    "evaluate": ("metrics of a run", partial(_training, "evaluate_flags")),
    "compare": ("runs side by side", partial(_training, "compare_flags")),
    "sweep": ("a run for every combination of options", partial(_training, "sweep_flags")),
    "export": (
        "a trained network for other programs: ONNX, torch.export",
        partial(_training, "export_flags"),
    ),
    "plot": ("draw a map, a structure, a file or a run", _plotting),
    "welcome": ("a first look", lambda command: command.set_defaults(run=_welcome)),
}
