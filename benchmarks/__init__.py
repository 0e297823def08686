"""Everything that measures, and the data sets of the literature: `./run bench` in the project's
folder.

./run bench [NAME ...]                         how fast the library is (`speed`)
./run bench learn [TASK ...] --folder DATA     what is learned, with the protocols of the literature
./run bench train --data csl --folder DATA     any command of `incidence`, with those data sets
./run bench nodes [SET ...] --folder DATA      labels of nodes, beside GCN
./run bench ratings [SET ...] --folder DATA    ratings, beside damped means
./run bench links [SET ...] --folder DATA      links, beside scores that learn nothing
./run bench distributed                        one structure over 1, 2 and 4 processes
./run bench parts                              how many nodes its parts share, dealt out in six ways
./run bench shards --folder DATA              many structures: lifts written to shards, and read
./run bench results                            the page docs/results.md, of all results
./run bench bars FILE --folder DATA            the figures that have a goal for steps and products
./run bench scale | algebra
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module

__all__ = ["MEASURES", "main"]

MEASURES = (
    "bars",
    "learn",
    "links",
    "nodes",
    "ratings",
    "scale",
    "algebra",
    "distributed",
    "parts",
    "results",
    "shards",
)
_COMMANDS = ("train", "predict", "evaluate")


def main(words: Sequence[str]) -> int:
    """Does what the words say, and returns the exit code."""
    first = words[0] if words else ""
    if first in _COMMANDS:
        return _with_sets(words)
    if first in MEASURES:
        module = "results_page" if first == "results" else first
        return int(import_module(f"benchmarks.{module}").main(words[1:]))
    return int(import_module("benchmarks.speed.command").main(words))


def _with_sets(words: Sequence[str]) -> int:
    """A command of the library, which then knows the data sets of the literature; what it tells the
    user to type next does, too.
    """
    from benchmarks.sets import register
    from incidence.cli import main as incidence

    register()
    os.environ["INCIDENCE_COMMAND"] = (
        f"{os.environ.get('INCIDENCE_COMMAND', 'incidence').removesuffix(' bench')} bench"
    )
    return incidence(words)
