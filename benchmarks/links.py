"""Links: what `incidence train --task links` does with a graph or hypergraph as it comes, beside
scores that learn nothing.

    ./run bench links [SET ...] [--folder DATA] [--seeds 3] [--set OPTION=VALUE ...] [--out FOLDER]

`cora` and `cora-authors` are the cliques of co-citation and co-authorship with the words of the
papers, `cora-sets` is the hypergraph of co-citation itself. A tenth of the links is for testing and
a tenth for validation, drawn anew with every seed, as are absent ones.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.nodes import cliques
from benchmarks.sets import load as load_set
from benchmarks.words import parser_for, understood
from incidence.data import DataSet, load
from incidence.train import train
from incidence.train.config import read_options

# name: (loader, what it is called there)
SETS: dict[str, tuple[Callable[[str, Path], DataSet], str]] = {
    "cora": (cliques, "cora-cocitation"),
    "cora-authors": (cliques, "cora-coauthorship"),
    "cora-sets": (load_set, "cora-cocitation"),
}


def main(words: Sequence[str] = ()) -> int:
    parser = parser_for("links", __doc__, SETS, "how many, of the parts and of the weights")
    parser.add_argument(
        "--set",
        nargs="+",
        default=(),
        metavar="OPTION=VALUE",
        help="options of `incidence train`, as in epochs=20",
    )
    arguments = understood(parser, SETS, words)
    for name in arguments.sets:
        print(json.dumps(_measured(name, arguments, arguments.out / name)), flush=True)
    return 0


def _measured(name: str, arguments: argparse.Namespace, out: Path) -> dict[str, Any]:
    loader, called = SETS[name]
    graph, start, found = (
        loader(called, arguments.folder),
        time.process_time(),
        dict[str, list[float]](),
    )
    for seed in range(arguments.seeds):
        data = load(graph, task="links", seed=seed)
        run = train(
            {
                "seed": seed,
                "out": str(out / f"seed-{seed}"),
                "data": name,
                **read_options(arguments.set),
            },
            data,
        )
        assert run is not None
        test = run.evaluation.parts["test"]
        for metric, value in test.metrics.items():
            found.setdefault(metric, []).append(value)
            found.setdefault(f"floor {metric}", []).append(test.baseline[metric])
        print(
            f"  {name} seed {seed}: auc {test.metrics['auc']:.4f}, floor"
            f" {test.baseline['auc']:.4f}",
            file=sys.stderr,
        )
    told = {
        key: {"mean": round(statistics.mean(v), 4), "values": [round(x, 4) for x in v]}
        for key, v in found.items()
    }
    return {"set": name, **told, "cpu_seconds": round(time.process_time() - start)}
