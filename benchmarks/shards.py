"""Preparing and reading many structures: lifts of ZINC-12k written to shards, and read from them.

Times are those of the processor, so that they are per core. They include reading the file of ZINC,
the lift, the plans of a network, and writing. TopoBench's published pipeline lifts 83 structures a
second. Batches are read twice: with the plans of the shards, and with plans that are built. With
--times 84, ZINC is repeated to a million structures. --epoch trains on the shards for one epoch in
a process of its own, and prints its peak memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

import incidence as inc
from benchmarks.sets.zinc import load_zinc
from benchmarks.speed.timing import peak_memory
from incidence.data.lifts import lift_all
from incidence.data.prepared import Preparation, prepare_shard, start_folder
from incidence.data.shards import ShardFolder
from incidence.engine.plan import Plan, plan_of
from incidence.errors import command
from incidence.structure import Example
from incidence.structure.data import cache_of

ROOT = Path(__file__).parents[1]  # where a fresh process finds this package
_BATCH = 128
_MOST_READ = 100  # batches
_MODELS = {"rings": "rings", "cliques": "triangles"}


class Repeated(Sequence[Example]):
    """Examples again and again, of which each is in memory once.

    Args:
        examples: The examples.
        times: How often they come.
    """

    def __init__(self, examples: Sequence[Example], times: int) -> None:
        self.examples, self.times = examples, times

    def __len__(self) -> int:
        return len(self.examples) * self.times

    def __getitem__(self, item: Any) -> Any:
        """Return an example, or a list of some."""
        if isinstance(item, slice):
            return [self[k] for k in range(*item.indices(len(self)))]
        if not 0 <= item < len(self):
            raise IndexError(item)
        return self.examples[item % len(self.examples)]


def main(words: Sequence[str] = ()) -> int:
    """Print a line for each lift."""
    parser = ArgumentParser(prog=f"{command()} bench shards", description=__doc__)
    parser.add_argument("--folder", type=Path, help="folder of the data sets")
    parser.add_argument("--lifts", nargs="+", default=["rings", "cliques"])
    parser.add_argument("--times", type=int, default=1, help="how often ZINC is repeated")
    parser.add_argument("--epoch", action="store_true", help="train for an epoch, too")
    parser.add_argument("--train-on", help="shards to train on in this process")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    if options.train_on is not None:
        _train(options.train_on)
        return 0
    for lift in options.lifts:
        with tempfile.TemporaryDirectory() as folder:
            _measure(options, lift, Path(folder, "shards"))
    return 0


def _measure(options: Any, lift: str, path: Path) -> None:
    zinc, reading_zinc = _timed(lambda: load_zinc("zinc", options.folder))
    data = replace(zinc, examples=Repeated(zinc.examples, options.times), splits=())
    preparation = Preparation("zinc", {}, lift, {}, _MODELS[lift], inc.__version__)
    num_shards = 4 * options.times
    folder, _ = _timed(lambda: start_folder(path, data, preparation, num_shards))
    net = _network(zinc.examples[0], lift)

    def write() -> None:
        for number in range(1, num_shards + 1):
            prepare_shard(folder, data, preparation, number, net.plan)

    _, writing = _timed(write)
    writing += reading_zinc * options.times
    count, size = len(data.examples), sum(file.stat().st_size for file in path.glob("*.npz"))
    print(
        f"{lift}: {count:,} structures, {count / writing:,.0f} a second and core read, lifted,"
        f" planned and written; {size / count:,.0f} bytes each;"
        f" peak {peak_memory() / 2**30:.2f} GiB",
        flush=True,
    )
    ways = {"with stored plans": False, "and planned": True}
    best = dict.fromkeys(ways, 0.0)
    for _ in range(3):  # in turns, as other programs disturb both
        for way, builds in ways.items():
            read, reading = _timed(partial(_read_batches, folder, net, builds))
            best[way] = max(best[way], read / reading)
    rates = ", ".join(f"{rate:,.0f} {way}" for way, rate in best.items())
    print(f"  read a second in batches of {_BATCH}: {rates}", flush=True)
    if options.epoch:
        _train_apart(path)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    return work(), time.process_time() - start


def _network(example: Example, lift: str) -> Any:
    [lifted] = lift_all([example], lift)
    channels = {key: x.shape[1] for key, x in lifted.features.items()}
    model = _MODELS[lift]
    return inc.models.make(model, inc.models.read_channels(model, channels), 1, hidden=16, depth=2)


def _read_batches(folder: ShardFolder, net: Any, builds: bool) -> int:
    """Read batches of random examples with their plans, and return the number of examples."""
    examples = inc.data.load(folder.path).examples
    order = torch.randperm(len(examples), generator=torch.Generator().manual_seed(0))
    first = inc.collate(examples[:1]).structure
    net.plan(first)
    layouts: Any = list(cache_of(first, Plan))
    chosen = order[: _BATCH * _MOST_READ]
    for rows in chosen.split(_BATCH):
        structure = inc.collate(examples.take(rows)).structure  # type: ignore[attr-defined]
        if builds:
            structure._origin = None
        for layout in layouts:
            plan_of(structure, layout)
    return len(chosen)


def _train_apart(path: Path) -> None:
    words = [sys.executable, "-m", "benchmarks", "shards", "--train-on", str(path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    printed = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout
    seconds, peak, count = json.loads(printed.splitlines()[-1])
    print(
        f"  one epoch on {count:,.0f} of them: {count / seconds:,.0f} a second with the results of"
        f" all parts, peak {peak / 2**30:.2f} GiB",
        flush=True,
    )


def _train(path: str) -> None:
    from incidence.train import train

    start = time.process_time()
    options = {"data": path, "epochs": 1, "batch_size": _BATCH, "hidden": 16, "depth": 2}
    run = train({**options, "out": str(Path(path).parent / "run")})
    assert run is not None
    seconds, count = time.process_time() - start, len(run.experiment.parts.train)
    print(json.dumps([seconds, peak_memory(), count]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
