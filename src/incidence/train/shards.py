"""`incidence prepare`: a data set is read and lifted once, and written to shards."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from incidence.data.prepared import prepare_shard, start_folder
from incidence.data.shards import ShardFolder
from incidence.data.spool import spooling
from incidence.train.config import Config
from incidence.train.prepare import lift_for
from incidence.train.shard_rows import ShardRows

__all__ = ["PreparedShards", "prepare_shards"]

_IN_A_SHARD = 10_000  # examples, which are in memory while they are lifted and written


@dataclass(frozen=True)
class PreparedShards:
    """What was written.

    Attributes:
        folder: The folder.
        lift: The lift.
        num_examples: How many examples were lifted and written.
        reading: The seconds until the data was read.
        lifting: The seconds of lifting and writing.
    """

    folder: ShardFolder
    lift: str
    num_examples: int
    reading: float
    lifting: float

    def describe(self) -> str:
        """Return what was written, and what to do next."""
        folder = self.folder
        every = range(1, folder.num_shards + 1)
        missing = [number for number in every if not folder.is_complete(number)]
        rate = self.num_examples / max(self.lifting, 1e-9)
        words = (
            f"{self.num_examples:,} examples with the lift {self.lift}, {rate:,.0f} a second; the"
            f" data was read in {self.reading:.1f} s"
        )
        if missing:
            return f"{words}\nmissing: {len(missing)} of {folder.num_shards} shards"
        return f"{words}\nnext: incidence train --data {folder.path}"


def prepare_shards(
    config: Config,
    path: Path,
    num_shards: int | None = None,
    number: int | None = None,
    is_shown: bool = False,
    with_plans: bool = True,
) -> PreparedShards:
    """Read a data set, and write one of its shards, or all of them.

    Shards that are complete are not written again, unless one is named.

    Args:
        config: The options that say how the data is read and lifted.
        path: The folder of the shards.
        num_shards: The number of shards; by default one for each 10,000 examples.
        number: The only shard to write, from 1.
        is_shown: Whether to print progress.
        with_plans: Whether to store the plans of the model, so that training need not build them.

    Raises:
        IncidenceError: The data cannot be prepared, or the folder is for something else.
    """
    with spooling():
        return _prepare(config, path, num_shards, number, is_shown, with_plans)


def _prepare(
    config: Config,
    path: Path,
    num_shards: int | None,
    number: int | None,
    is_shown: bool,
    with_plans: bool,
) -> PreparedShards:
    started = time.monotonic()
    key = None if number is None else ShardRows.key_of(config, num_shards, with_plans)
    noted, first = ShardRows.read(path, key), 0
    begun = None if noted is None or number is None else noted.job(path, config, number)
    if begun is not None and number is not None:
        folder, job = begun
        first = int(folder.starts[number - 1])
    else:
        job = lift_for(config, with_plans)
        count = len(job.data.examples)
        folder = start_folder(
            path,
            job.data,
            job.preparation,
            -(-count // _IN_A_SHARD) if num_shards is None else num_shards,
        )
        ShardRows.write(folder, key, job)
    num_shards, preparation = folder.num_shards, job.preparation
    read, count = time.monotonic(), 0
    for one in range(1, num_shards + 1) if number is None else [number]:
        if number is None and folder.is_complete(one):
            continue
        prepare_shard(folder, job.data, preparation, one, job.make_plans, first)
        count += int(folder.starts[one] - folder.starts[one - 1])
        if is_shown:
            print(f"shard {one} of {num_shards}: {folder.file(one)}", file=sys.stderr, flush=True)
    lifting = time.monotonic() - read
    return PreparedShards(folder, preparation.lift, count, read - started, lifting)
