"""The command line: `incidence explain MAP` and its kin."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from incidence import __version__
from incidence.algebra.explain import explain
from incidence.errors import IncidenceError

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

_BENCHMARKS = ("limits", "pool", "broadcast", "layer", "triangles", "mesh", "batch", "growth", "memory", "peers")
_BENCH = """\
Measures the library against the limits of this machine, against the usual way of
writing the same maps, and against peers. All figures are ratios inside one run,
the median of three repeats with their spread. `peers` needs PyTorch Geometric.
"""

_WELCOME = """\
incidence {version}: learning on sets, graphs, hypergraphs, complexes and meshes.

You write down which nodes index the data; you get every linear map that
respects relabelling the nodes. For a node-node matrix, `i j -> i j`:

{explanation}

Next:  ./run incidence explain "i, {{i j}}, {{i j k}} -> i, {{i j}}, {{i j k}}"
       ./run incidence explain --help"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code: 0, or 2 for input that was refused."""
    words = [f" {w}" if w.startswith("->") else w for w in (sys.argv[1:] if argv is None else argv)]
    arguments = _parser().parse_args(words)
    try:
        text = arguments.run(arguments)
        if text:
            print(text)
        sys.stdout.flush()
    except IncidenceError as error:
        print(f"incidence: {str(error).lstrip()}" if "\n" not in str(error) else f"incidence:{error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, `head` for example, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="incidence", description="Equivariant learning on incidence structures.")
    parser.add_argument("--version", action="version", version=f"incidence {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    command = commands.add_parser("explain", help="what a map can do", description=_EXPLAIN, epilog=_EXAMPLES, formatter_class=raw)
    command.add_argument("map", metavar="MAP", help='the map, in quotes: "i j -> i j"')
    command.add_argument("--nodes", nargs="+", type=_num_nodes, default=[], metavar="N", help="exact dimension at N nodes")
    command.add_argument("--max-overlap", type=int, default=1, metavar="K", help="matched nodes in open faces (default 1)")
    command.add_argument("--all", action="store_true", help="list everything, however long")
    command.add_argument("--json", action="store_true", help="one JSON object for other programs")
    command.set_defaults(run=_explain)

    command = commands.add_parser("bench", help="how fast it is", description=_BENCH, formatter_class=raw)
    command.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(_BENCHMARKS)}; all if none is named")
    command.add_argument("--quick", action="store_true", help="a tenth of the size, once: to see that it works")
    command.add_argument("--json", action="store_true", help="one JSON object for other programs")
    command.add_argument("--plot", metavar="FILE", help="also draw the figures that have a bar (.png, .svg)")
    command.add_argument("--threads", type=int, default=2, metavar="N", help="how many threads torch may use (default 2)")
    command.set_defaults(run=_bench)

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


def _explain(arguments: argparse.Namespace) -> str:
    explanation = explain(arguments.map, nodes=arguments.nodes, max_overlap=arguments.max_overlap)
    if arguments.json:
        return json.dumps(explanation.data(show_all=arguments.all), indent=1)
    return explanation.text(show_all=arguments.all)


def _bench(arguments: argparse.Namespace) -> str:
    unknown = [name for name in arguments.names if name not in _BENCHMARKS]
    if unknown:
        raise IncidenceError(f"no benchmark {unknown[0]!r}; there are: {', '.join(_BENCHMARKS)}.")
    import torch

    from incidence.bench.report import as_data, machine, plot, table
    from incidence.bench.suite import BENCHMARKS, Bench

    torch.set_num_threads(arguments.threads)
    is_shown = sys.stderr.isatty()
    results = {}
    if not arguments.json:
        print(machine())
    for name in arguments.names or _BENCHMARKS:
        if not is_shown:
            print(f"{name} ...", file=sys.stderr)
        results[name] = BENCHMARKS[name](Bench(arguments.quick, partial(_progress, name) if is_shown else lambda _: None))
        if is_shown:
            _progress("")
        if not arguments.json:
            print(table(name, results[name]), flush=True)  # as soon as it is there: the next one may take minutes
    if arguments.plot:
        plot(results, Path(arguments.plot))
    return json.dumps(as_data(results), indent=1) if arguments.json else ""


def _progress(name: str, text: str = "") -> None:
    print(f"\r\x1b[K{name}{': ' if text else ''}{text}", end="", file=sys.stderr, flush=True)


def _welcome(_: argparse.Namespace) -> str:
    return _WELCOME.format(version=__version__, explanation=explain("i j -> i j"))
