r"""Does the harmonic layer help on meshes whose classes are shapes? `python -m benchmarks.shrec
--folder DATA --out FOLDER`: SHREC11 with the preset `mesh`, with and without `harmonic=12`.

Both networks are trained with the same options and the same split of the seed: 10 training meshes
of each of 30 classes, and 300 test meshes. Almost all meshes are spheres. Finished trainings in
FOLDER are not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.tasks.bench import Bench

__all__ = ["NETWORKS", "main"]

NETWORKS: dict[str, dict[str, Any]] = {"mesh": {}, "mesh, harmonic": {"harmonic": 12}}
"""Options of the networks that differ."""


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Print a line in JSON for every seed and network."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shrec")
    parser.add_argument("--folder", type=Path, default=os.environ.get("INCIDENCE_DATA"))
    parser.add_argument("--out", type=Path, help="default: a temporary folder")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    given = parser.parse_args(arguments)
    out = given.out or Path(tempfile.mkdtemp(prefix="shrec-"))
    bench = Bench("shrec11-10", given.folder, out)
    lines = []
    for seed in range(given.seeds):
        data = bench.load("shrec11-10", seed=seed)
        for name in given.networks:
            options = {"epochs": given.epochs, "seed": seed, "keep": "last", **NETWORKS[name]}
            run = bench.train(data, f"{name} {seed}", **options)
            line = {"network": name, "seed": seed, "epochs": given.epochs}
            line |= {"accuracy": round(100 * bench.test(run, "accuracy"), 2)}
            line |= {"date": record.today(), "machine": record.machine()}
            print(json.dumps(line), flush=True)
            lines.append(line)
    return lines


if __name__ == "__main__":
    main()
