"""`./run bench`: which benchmarks, and what becomes of their figures."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from textwrap import wrap

import torch

import incidence
from benchmarks.speed.bench import Bench
from benchmarks.speed.load import Load, Watch, of_others
from benchmarks.speed.report import Result, as_data, chart, machine, plot, text
from benchmarks.speed.suite import BENCHMARKS
from incidence.errors import IncidenceError, command

__all__ = ["main"]

_ABOUT = """\
Measures the library as users call it, against the limits of this machine,
against the usual way of writing the same maps, and against peers. All figures
are taken inside one run, the median of three repeats with their spread. Where
the machine is busy with other work, the figures are printed without a verdict.
`peers` and `steps` need PyTorch Geometric, `topomodelx` an environment of its
own. All of them take about half an hour, mostly for the usual ways; --quick
takes two minutes.
"""
_OTHERS = """\
also here:
  incidence bench learn --help         what is learned, by protocols of others
  incidence bench scale                ten million edges
  incidence bench algebra              how long counting and listing take
  incidence bench train --list         training on data sets of the literature
"""


def main(words: Sequence[str]) -> int:
    """Measures, and prints what was found.

    Raises:
        IncidenceError: There is no such benchmark, or an option is wrong; nothing was measured
            then.
    """
    arguments = _parser().parse_args(words)
    names = list(dict.fromkeys(arguments.names or BENCHMARKS))
    _assert_sound(arguments, names)
    torch.set_num_threads(arguments.threads)
    if arguments.keep_memory:
        _keep_memory()
    if not arguments.json:
        print(
            machine(arguments.keep_memory),
            "(quick: a tenth of the size, once)" if arguments.quick else "",
        )
    results = {}
    for name in names:
        results[name] = _measure(name, arguments)
        if not arguments.json:
            # As soon as it is there: the next one may take minutes.
            print(text(name, results[name], arguments.quick), flush=True)
    if arguments.plot:
        plot(results, arguments.plot)
    if arguments.json:
        print(json.dumps(as_data(results, arguments.keep_memory), indent=1))
    elif not arguments.quick:
        print(chart(results))
    return 0


def _measure(name: str, arguments: argparse.Namespace) -> Result:
    """Runs one benchmark, with an eye on what else the machine does."""
    is_shown = sys.stderr.isatty()
    if not is_shown:
        print(f"{name} ...", file=sys.stderr)
    report = partial(_progress, name) if is_shown else lambda _: None
    folder = None if arguments.folder is None else Path(arguments.folder)
    bench = Bench(
        arguments.quick,
        report,
        folder,
        arguments.keep_memory,
        arguments.make_environment,
        arguments.before,
    )
    before, watch = 0.0 if arguments.quick else of_others(), Watch()
    figures = BENCHMARKS[name](bench)
    load = Load.of(max(before, watch.others()), bench.times, torch.get_num_threads())
    if is_shown:
        _progress("")
    return Result(figures, bench.times, bench.notes, load)


def _keep_memory() -> None:
    if not incidence.keep_memory():
        raise IncidenceError(
            "--keep-memory needs a system on which `incidence.keep_memory` works, such as Linux"
            " with glibc."
        )


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    about = {name: wrap(_first_sentence(measure), 65) for name, measure in BENCHMARKS.items()}
    listed = "\n".join(f"  {name:12} " + f"\n{'':15}".join(lines) for name, lines in about.items())
    epilog = f"benchmarks:\n{listed}\n\n{_OTHERS}"
    parser = argparse.ArgumentParser(
        prog=f"{command()} bench", description=_ABOUT, epilog=epilog, formatter_class=raw
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="which of those below; all if none is named"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the size, once: to see that it works"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object for other programs")
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="also draw the figures that have a bar (.png, .svg)",
    )
    threads = min(2, os.cpu_count() or 1)
    parser.add_argument(
        "--threads",
        type=int,
        default=threads,
        metavar="N",
        help=f"how many threads torch may use (default {threads})",
    )
    folder = os.environ.get("INCIDENCE_DATA")
    parser.add_argument(
        "--folder",
        default=folder,
        help="data of `steps` and `peers`; default: INCIDENCE_DATA, or random data of that size",
    )
    parser.add_argument(
        "--keep-memory",
        action="store_true",
        help="keep memory between steps, by incidence.keep_memory()",
    )
    parser.add_argument(
        "--before",
        type=Path,
        metavar="SRC",
        help="the folder `src` of another version of this library, for `versions`",
    )
    parser.add_argument(
        "--make-environment",
        action="store_true",
        help="install TopoModelX for `topomodelx`, in the user's cache folder",
    )
    return parser


def _first_sentence(measure: Callable[..., object]) -> str:
    return " ".join((measure.__doc__ or "").split("\n\n")[0].split()).rstrip(".")


def _assert_sound(arguments: argparse.Namespace, names: Sequence[str]) -> None:
    """Before anything is measured, which takes minutes."""
    unknown = next((name for name in names if name not in BENCHMARKS), None)
    if unknown is not None:
        raise IncidenceError(f"no benchmark {unknown!r}; there are: {', '.join(BENCHMARKS)}.")
    cores = os.cpu_count() or 1
    if not 1 <= arguments.threads <= cores:
        raise IncidenceError(f"--threads is 1 to {cores} on this machine; got {arguments.threads}.")
    path = arguments.plot
    if path is not None and path.suffix not in (".png", ".svg", ".pdf"):
        raise IncidenceError(f"--plot writes .png, .svg or .pdf; got {str(path)!r}.")
    if path is not None and not path.absolute().parent.is_dir():
        raise IncidenceError(
            f"--plot writes to a folder that is there; {str(path.parent)!r} is not."
        )


def _progress(name: str, said: str = "") -> None:
    print(f"\r\x1b[K{name}{': ' if said else ''}{said}", end="", file=sys.stderr, flush=True)
