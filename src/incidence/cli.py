"""The command line: `incidence explain MAP` and other commands.

Only the command that runs is loaded.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from incidence import __version__
from incidence.algebra.explain import explain
from incidence.errors import IncidenceError, as_called, command, optional, options_as

__all__ = ["main"]

_EXPLAIN = """\
Explain a map: its orbits, and what each of its equivariant operations does.

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

_EXPRESSIVITY = """\
Decide which structures networks of one kind can tell apart: exactly, without
training. A pair that is told apart gets a witness; for any other pair larger
architectures are tried. Features of files are where colours start from; graphs
of edge lists have degrees among them. --bare leaves all features out.
"""

_EXPRESSIVITY_EXAMPLES = """\
examples:
  incidence expressivity "i, {i j} -> i, {i j}" graphs.g6
  incidence expressivity "i, {i j} -> i, {i j}" one.edges other.edges --pair 0 1
  incidence expressivity "i, {i j} -> i, {i j}" cycle-6 petersen --json
  incidence expressivity "i, {i j} -> i" smiles:CCO smiles:COC
  incidence expressivity "i j -> i j" graphs.g6 --lift pairs --products "i j, j k -> i k"
"""

_MOST_CLASSES = 100  # of structures that are listed in words
_ROOT = Path(__file__).parents[2]  # in a clone, the folder of the project

_SYNONYMS = {
    "--learning-rate": "--lr",
    "--num-epochs": "--epochs",
    "--max-epochs": "--epochs",
    "--dataset": "--data",
    "--data-path": "--data",
    "--hidden-size": "--hidden",
    "--hidden-channels": "--hidden",
    "--hidden-dim": "--hidden",
    "--num-layers": "--depth",
    "--layers": "--depth",
    "--wd": "--weight-decay",
    "--output": "--out",
    "--output-dir": "--out",
    "--save-dir": "--out",
    "--gpus": "--devices",
    "--smiles-column": "--smiles",
    "--target-columns": "--target",
    "--split-type": "--groups",
    "--num-folds": "--cv",
    "--bs": "--batch-size",
}
"""What other programs call our options."""

_WELCOME = """\
incidence {version}: learning on sets, graphs, hypergraphs, complexes and meshes.

You write down which nodes index the data; you get every linear map that
respects relabelling the nodes. For a node-node matrix, `i j -> i j`:

{explanation}

Next:  incidence explain "i, {{i j}}, {{i j k}} -> i, {{i j}}, {{i j k}}"
       incidence explain --help"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        The exit code: 0; 1 if something was skipped; or 2 for input that was refused.
    """
    with warnings.catch_warnings(), options_as("command"):
        warnings.showwarning = _print_warning
        return _main(argv)


def _main(argv: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    # a map may start with its arrow, which argparse would take for an option
    words = [f" {word}" if word.startswith("->") else word for word in words]
    try:
        if words[:1] == ["bench"]:  # which parses its words itself
            return _bench(words[1:])
        arguments = _parse(words)
        text = arguments.run(arguments)
        if text:
            print(text if getattr(arguments, "json", False) else as_called(text))
        sys.stdout.flush()  # a closed pipe raises here, and not when Python exits
        return int(arguments.code)
    except IncidenceError as error:
        message = as_called(str(error))
        separator = "" if message.startswith("\n") else " "
        return _fail(f"{command()}:{separator}{message}")
    except KeyboardInterrupt as stop:  # the message of training is the command that continues
        _fail(f"\n{command()}: {as_called(str(stop)) or 'stopped'}")
        return 130
    except BrokenPipeError:  # the reader, `head` for example, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # of the disk, or a name that is too long
        return _fail(f"{command()}: {error}")


def _fail(text: str) -> int:
    print(text, file=sys.stderr)
    return 2


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning without its place in the code."""
    print(f"{command()}: {as_called(str(message))}", file=sys.stderr)


class _CommandParser(argparse.ArgumentParser):
    """A parser with short errors: a line of usage, what is wrong, and where to read more."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, and exit."""
        places = [str(action.metavar) for action in self._actions if not action.option_strings]
        usage = " ".join([self.prog, "[options]", *places])
        self.exit(2, f"usage: {usage}\n{self.prog}: {message}\nMore: {self.prog} --help\n")

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """Print which option does not exist, with a similar one, and exit."""
        word, known = words[0].partition("=")[0], self._options()
        if not word.startswith("-"):
            hint = ""
            if "--target" in known:
                hint = (
                    " Data is given with --data, and several targets are divided by commas:"
                    " --target A,B."
                )
            self.error(f"cannot tell what {word!r} is for.{hint}")
        meant = _SYNONYMS.get(word)
        if meant not in known:
            close = get_close_matches(word[2:], [option[2:] for option in known], n=1)
            meant = f"--{close[0]}" if close else None
        self.error(f"no option {word}.{f' Did you mean {meant}?' if meant else ''}")

    def unknown(self, words: Sequence[str]) -> list[str]:
        """Return the words that look like options, and are none, nor the beginning of one."""
        known = self._options()
        words = words[: words.index("--")] if "--" in words else words  # what follows is no option
        names = [word.partition("=")[0] for word in words if word.startswith("--")]
        return [name for name in names if not any(one.startswith(name) for one in known)]

    def _options(self) -> list[str]:
        names = [name for action in self._actions for name in action.option_strings]
        return [name for name in names if name.startswith("--")]


def _parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse words; the command itself refuses options that it does not have."""
    parser, commands = _parsers(words)
    if not words:
        parser.print_help()
        parser.exit(0)
    if words[0] not in commands and not words[0].startswith("-"):
        close = get_close_matches(words[0], commands, n=1, cutoff=0.5)
        hint = f"Did you mean {close[0]}?" if close else f"There are: {', '.join(commands)}."
        parser.error(f"no command {words[0]!r}. {hint}")
    chosen = commands.get(words[0], parser)  # that of the command, if there is one
    unknown = chosen.unknown(words)
    if unknown:  # before argparse says what else is missing
        chosen.refuse(unknown)
    arguments, rest = parser.parse_known_args(words)
    if rest:
        chosen.refuse(rest)
    return arguments


def _parsers(words: Sequence[str]) -> tuple[_CommandParser, dict[str, _CommandParser]]:
    """Return the parser, and that of every command; only the command of the words has flags."""
    wide = max(map(len, _COMMANDS))
    parser = _CommandParser(
        prog=command(),
        description="Equivariant learning on incidence structures.",
        # argparse itself breaks the line of the longest command
        epilog="\n".join(f"  {name:{wide}}  {about}" for name, (about, _) in _COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(code=0)
    parser.add_argument("--version", action="version", version=f"incidence {__version__}")
    commands = parser.add_subparsers(
        title="commands", required=True, metavar="COMMAND", help="one of these:"
    )
    parsers = {}
    for name, (_, add_flags) in _COMMANDS.items():
        one = commands.add_parser(name, formatter_class=argparse.RawDescriptionHelpFormatter)
        # Flags of other commands would load their libraries, for help that nobody reads.
        if name in words[:1]:
            add_flags(one)
            one.description, one.epilog = (
                as_called(text or "") for text in (one.description, one.epilog)
            )
        parsers[name] = one
    return parser, parsers


def _explain_flags(command: argparse.ArgumentParser) -> None:
    command.description, command.epilog = _EXPLAIN, _EXAMPLES
    command.add_argument("map", metavar="MAP", help='map, in quotes: "i j -> i j"')
    command.add_argument(
        "--nodes",
        nargs="+",
        type=_num_nodes,
        default=[],
        metavar="N",
        help="numbers of nodes to give the exact dimension at, such as 5, or user=3,movie=2",
    )
    command.add_argument(
        "--max-overlap",
        type=int,
        default=1,
        metavar="K",
        help="largest number of matched nodes in faces of any size (default 1)",
    )
    command.add_argument("--all", action="store_true", help="list everything, however long")
    command.add_argument(
        "--json", action="store_true", help="print one JSON object, for other programs"
    )
    command.set_defaults(run=_explain)


def _num_nodes(text: str) -> int | dict[str, int]:
    """Return `5`, or `user=3,movie=2` as a dict."""
    try:
        if "=" not in text:
            return int(text)
        return {sort.strip(): int(n) for sort, n in (part.split("=") for part in text.split(","))}
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a number nor like user=3,movie=2"
        ) from None


def _explain(arguments: argparse.Namespace) -> str:
    explanation = explain(arguments.map, nodes=arguments.nodes, max_overlap=arguments.max_overlap)
    if arguments.json:
        return json.dumps(explanation.data(show_all=arguments.all), indent=1)
    return explanation.text(show_all=arguments.all)


def _expressivity_flags(command: argparse.ArgumentParser) -> None:
    command.description, command.epilog = _EXPRESSIVITY, _EXPRESSIVITY_EXAMPLES
    add = command.add_argument
    add("map", metavar="MAP", help='map of the layers, in quotes: "i, {i j} -> i, {i j}"')
    add("files", metavar="FILE", nargs="+", help="a file, a named object, or smiles:...")
    add("--products", nargs="+", default=(), metavar="TEXT", help="products that layers add")
    add("--aggr", metavar="NAME", help="how layers pool: sum (default), mean, max, min, std")
    add("--operations", nargs="+", metavar="NAME", help="operations of layers, such as local")
    add("--max-overlap", type=int, metavar="K", help="matched nodes in faces of any size")
    add("--lift", metavar="NAME", help="tensors to add: rings, cliques, pairs, hops, triples")
    add("--bare", action="store_true", help="ignore the features that files have")
    add("--pair", nargs=2, type=int, metavar="N", help="the structures to explain, from 0")
    add("--json", action="store_true", help="print one JSON object, for other programs")
    command.set_defaults(run=_expressivity)


def _expressivity(arguments: argparse.Namespace) -> str:
    from incidence.expressive import expressivity

    e = expressivity(
        arguments.map,
        _structures(arguments.files, arguments.lift, arguments.bare),
        aggr=arguments.aggr,
        products=arguments.products,
        operations=arguments.operations,
        max_overlap=arguments.max_overlap,
    )
    words = e.explain(*(arguments.pair or ()))
    if not arguments.json:
        listed = " ".join(map(str, e.classes[:_MOST_CLASSES]))
        is_short = len(e.classes) <= _MOST_CLASSES
        more = "" if is_short else f" ... ({len(e.classes):,} structures; --json lists all)"
        return f"{words}\n\nClasses: {listed}{more}"
    data = {
        "map": arguments.map,
        "is_exact": e.is_exact,
        "classes": e.classes,
        "groups": e.groups,
        "rounds": e.rounds,
        "colours": {key: colours.tolist() for key, colours in e.colours.items()},
        "explanation": words,
    }
    return json.dumps(data, indent=1)


def _structures(texts: Sequence[str], lift: str | None, is_bare: bool) -> list[Any]:
    """Return the structures of files and names; with features, if all have some."""
    from incidence.plot.subjects import lifted, subject_of
    from incidence.structure import Example, uncollate

    found: list[Any] = []
    for text in texts:
        subject = subject_of(text, _open_run)
        if subject.kind != "structure":
            raise IncidenceError(
                f"expressivity compares structures, and {text!r} is a {subject.kind}. Name files,"
                " objects such as cube, or smiles:... after the map."
            )
        value = lifted(subject.value, lift or "none")  # one structure, or a batch
        found += uncollate(value)
    if not is_bare and all(isinstance(one, Example) for one in found):
        return found
    bare = [one.structure if isinstance(one, Example) else one for one in found]
    # a batch has one list of tensors
    shared = set.intersection(*(set(one.patterns) for one in bare))
    return [one.only(shared) for one in bare]


def _training(name: str) -> _AddFlags:
    """Return what adds the flags of a command of training, whose libraries may be missing."""

    def add_flags(command: argparse.ArgumentParser) -> None:
        with optional("this command", "train"):
            import incidence.train.commands as commands
        getattr(commands, f"{name}_flags")(command)

    return add_flags


def _plot_flags(command: argparse.ArgumentParser) -> None:
    with optional("this command", "plot"):
        from incidence.plot.commands import plot_flags
    plot_flags(command, _open_run)


def _open_run(path: Path) -> Any:
    """Open a run for `plot`, which does not know runs."""
    with optional("drawing a run", "train"):
        from incidence.train.model import load
    return load(path)


def _bench(words: Sequence[str]) -> int:
    """Run the benchmarks, which lie beside `src` in the project, and are no part of the package."""
    if not (_ROOT / "benchmarks" / "__init__.py").is_file():
        raise IncidenceError(
            "benchmarks are in the folder of the project, and no part of the package: run them in a"
            " clone of it."
        )
    # Benchmarks are beside the package, and import it as everybody does.
    sys.path.insert(0, str(_ROOT))
    import benchmarks

    return int(benchmarks.main(words))


def _welcome_flags(command: argparse.ArgumentParser) -> None:
    command.set_defaults(run=_welcome)


def _welcome(_: argparse.Namespace) -> str:
    return _WELCOME.format(version=__version__, explanation=explain("i j -> i j"))


_AddFlags = Callable[[argparse.ArgumentParser], None]
_COMMANDS: dict[str, tuple[str, _AddFlags]] = {
    "explain": ("explain what a map can do", _explain_flags),
    "expressivity": ("decide what networks can tell apart, exactly", _expressivity_flags),
    "bench": (
        "measure speed and learning (in the project's folder)",
        lambda command: None,
    ),
    "train": ("train a network", _training("train")),
    "prepare": ("read and lift data once, into shards", _training("prepare")),
    "predict": ("predict with a trained network", _training("predict")),
    "evaluate": ("measure a trained network", _training("evaluate")),
    "compare": ("compare runs", _training("compare")),
    "sweep": ("train a run for every combination of options", _training("sweep")),
    "export": ("export a trained network: ONNX, torch.export", _training("export")),
    "plot": ("draw a map, a structure, a file or a run", _plot_flags),
    "welcome": ("show a first example", _welcome_flags),
}
"""The commands: a line of help, and what adds their flags and sets what runs them."""
