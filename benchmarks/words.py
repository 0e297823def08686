"""The words that benchmarks of learning are called with: which sets, where the data is, how many
seeds, where runs are kept.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

__all__ = ["parser_for", "understood"]


def parser_for(
    name: str, doc: str | None, sets: Collection[str], seeds: str = "how many"
) -> argparse.ArgumentParser:
    """The options that all of them have.

    Args:
        name: Of the benchmark.
        doc: Whose first line says what it measures.
        sets: The names of its data sets.
        seeds: What a seed is for.
    """
    parser = argparse.ArgumentParser(
        prog=f"incidence bench {name}", description=(doc or "").splitlines()[0]
    )
    parser.add_argument(
        "sets", nargs="*", metavar="SET", help=f"which: {', '.join(sets)}; by default all"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=os.environ.get("INCIDENCE_DATA"),
        help="the data; default: INCIDENCE_DATA",
    )
    parser.add_argument("--seeds", type=int, default=3, help=seeds)
    parser.add_argument(
        "--out",
        type=Path,
        help="where runs, and the tables they read, are kept; default: a temporary folder",
    )
    return parser


def understood(
    parser: argparse.ArgumentParser, sets: Collection[str], words: Sequence[str]
) -> argparse.Namespace:
    """What was asked for, with nothing left open: `sets`, `folder`, `seeds`, `out`."""
    found = parser.parse_args(words)
    unknown = [name for name in found.sets if name not in sets]
    if unknown or found.folder is None:
        parser.error(
            f"no set {unknown[0]!r}; there are: {', '.join(sets)}"
            if unknown
            else "say where the data is, with --folder"
        )
    found.sets, found.folder = found.sets or list(sets), Path(found.folder)
    found.out = found.out or Path(tempfile.mkdtemp(prefix=f"{parser.prog.split()[-1]}-"))
    return found
