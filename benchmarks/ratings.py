"""Ratings: what `incidence train` does with tables as they come, beside damped means and published
networks.

    ./run bench ratings [SET ...] [--folder DATA] [--seeds 3] [--validate] [--out FOLDER]

The sets are those of Monti et al. (2017): a table `user,movie,rating,split`, and tables of edges
between users or movies. Nothing is told but the tables. With --validate a tenth of the training
ratings is kept apart, and the test part is not scored: settings were chosen so.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.words import parser_for, understood
from incidence.train import train
from incidence.train.config import read_options

SETS = ("flixster", "douban", "yahoo_music")
PUBLISHED = {
    "flixster": {"GC-MC": 0.917, "IGMC": 0.872},
    "douban": {"GC-MC": 0.734, "IGMC": 0.721},
    "yahoo_music": {"GC-MC": 20.5, "IGMC": 19.1},
}
"""Test RMSE, as Zhang and Chen (ICLR 2020) tabulate them."""
_EDGES = {
    "W_users": ("friends", "user"),
    "W_movies": ("similar", "movie"),
    "W_tracks": ("similar", "movie"),
}


def write_tables(name: str, source: Path, folder: Path) -> list[Path]:
    """The ratings of a set as a table, and the edges between users or movies as others; the paths,
    ratings first.
    """
    path = next(
        path
        for path in (source / f"{name}.npz", source / "monti_ratings" / f"{name}.npz")
        if path.is_file()
    )
    folder.mkdir(parents=True, exist_ok=True)
    with np.load(path) as file:
        rows = [
            f"u{u},m{m},{r:g},{part}\n"
            for part in ("train", "test")
            for (u, m), r in zip(file[part], file[f"{part}_rating"], strict=True)
        ]
        made = {"ratings": "user,movie,rating,split\n" + "".join(rows)}
        for key, (called, sort) in _EDGES.items():
            if key in file.files:
                pairs = [f"{sort[0]}{a},{sort[0]}{b}\n" for a, b in file[key] if a < b]
                made[called] = f"{sort}1,{sort}2\n" + "".join(pairs)
    for called, text in made.items():
        (folder / f"{called}.csv").write_text(text, encoding="utf-8")
    return [folder / f"{called}.csv" for called in made]


def main(words: Sequence[str] = ()) -> int:
    parser = parser_for("ratings", __doc__, SETS)
    parser.add_argument(
        "--validate",
        action="store_true",
        help="score a tenth of the training ratings, and no test ratings",
    )
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
    ratings, *others = write_tables(name, arguments.folder, out / "tables")
    start, part, errors, floor = (
        time.process_time(),
        "validation" if arguments.validate else "test",
        list[float](),
        0.0,
    )
    for seed in range(arguments.seeds):
        options = {
            "data": str(ratings),
            "target": "rating",
            "seed": seed,
            "out": str(out / f"seed-{seed}"),
            **read_options(arguments.set),
        }
        options |= {"tables": tuple(map(str, others))} if others else {}
        options |= {"validation": 0.1, "keep": "last", "patience": 0} if arguments.validate else {}
        run = train(options)
        assert run is not None
        scored = run.evaluation.parts[part]
        errors.append(scored.metrics["rmse"])
        floor = scored.baseline["rmse"]
        print(
            f"  {name} seed {seed}: {part} rmse {errors[-1]:.4f}, damped means {floor:.4f}",
            file=sys.stderr,
        )
    told = {
        "set": name,
        "part": part,
        "rmse": round(statistics.mean(errors), 4),
        "values": np.round(errors, 4).tolist(),
    }
    return {
        **told,
        "damped_means": round(floor, 4),
        "published": PUBLISHED[name],
        "cpu_seconds": round(time.process_time() - start),
    }
