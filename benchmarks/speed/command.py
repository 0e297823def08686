"""`./run bench`: which benchmarks, and what becomes of their figures."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from benchmarks.speed.report import as_data, chart, machine, plot, text
from benchmarks.speed.suite import BENCHMARKS, Bench
from incidence.errors import IncidenceError

__all__ = ["main"]

_ABOUT = """\
Measures the library against the limits of this machine, against the usual way of
writing the same maps, and against peers. All figures are ratios inside one run,
the median of three repeats with their spread. `peers` needs PyTorch Geometric.
All of them take 10 to 15 minutes, mostly for the usual ways; --quick takes one.
"""
_OTHERS = """\
also here:
  incidence bench learn --help         what is learned, with the protocols of the literature
  incidence bench throughput --help    graphs per second of a training step, beside a GIN
  incidence bench scale                ten million edges
  incidence bench algebra              how long counting and listing take
  incidence bench train --list         training on the data sets of the literature
"""


def main(words: Sequence[str]) -> int:
    """Measures, and prints what was found.

    Raises:
        IncidenceError: There is no such benchmark, or an option is wrong; nothing was measured then.
    """
    arguments = _parser().parse_args(words)
    names = list(dict.fromkeys(arguments.names or BENCHMARKS))
    _assert_sound(arguments, names)
    torch.set_num_threads(arguments.threads)
    is_shown = sys.stderr.isatty()
    results, times = {}, {}
    if not arguments.json:
        print(machine(), "(quick: a tenth of the size, once)" if arguments.quick else "")
    for name in names:
        if not is_shown:
            print(f"{name} ...", file=sys.stderr)
        bench = Bench(arguments.quick, partial(_progress, name) if is_shown else lambda _: None)
        results[name], times[name] = BENCHMARKS[name](bench), bench.times
        if is_shown:
            _progress("")
        if not arguments.json:
            # As soon as it is there: the next one may take minutes.
            print(text(name, results[name], times[name], arguments.quick), flush=True)
    if arguments.plot:
        plot(results, arguments.plot)
    if arguments.json:
        print(json.dumps(as_data(results, times), indent=1))
    elif not arguments.quick:
        print(chart(results))
    return 0


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="incidence bench", description=_ABOUT, epilog=_OTHERS, formatter_class=raw)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(BENCHMARKS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, once: to see that it works")
    parser.add_argument("--json", action="store_true", help="one JSON object for other programs")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw the figures that have a bar (.png, .svg)")
    threads = min(2, os.cpu_count() or 1)
    parser.add_argument("--threads", type=int, default=threads, metavar="N", help=f"how many threads torch may use (default {threads})")
    return parser


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
        raise IncidenceError(f"--plot writes to a folder that is there; {str(path.parent)!r} is not.")


def _progress(name: str, said: str = "") -> None:
    print(f"\r\x1b[K{name}{': ' if said else ''}{said}", end="", file=sys.stderr, flush=True)
