"""Preparing shards on a Dask cluster: a task for each shard, and nothing else."""

from __future__ import annotations

from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from incidence.errors import IncidenceError, need
from incidence.train.config import Config
from incidence.train.shards import prepare_shards

__all__ = ["prepare_with_dask"]


def prepare_with_dask(
    client: Any, data: str, out: str | PathLike[str], shards: int, **options: Any
) -> Path:
    """Prepare a data set on a Dask cluster: what `incidence prepare --shard K/N` does for every K.

    Args:
        client: A `distributed.Client`. Its workers need this library, the data, and the folder.
        data: The data, as for `incidence prepare`.
        out: The folder of the shards, which all workers can write to.
        shards: The number of shards.
        options: The other options of `incidence prepare`, such as `target="y"`.

    Returns:
        The folder, for `incidence train --data FOLDER` or `inc.data.load`.

    Raises:
        IncidenceError: The client is none, or a shard cannot be prepared.
    """
    distributed = need("distributed", "preparing shards with Dask", "dask")
    if not isinstance(client, distributed.Client):
        raise IncidenceError(
            "the first argument of prepare_with_dask is a distributed.Client; got"
            f" {type(client).__name__}."
        )
    if shards < 1:
        raise IncidenceError(f"there is at least one shard; got {shards}.")
    path = Path(out).resolve()
    work = partial(_prepare_one, Config(data=data, **options), path, shards)
    client.gather(client.map(work, range(1, shards + 1), pure=False))
    return path


def _prepare_one(config: Config, path: Path, count: int, number: int) -> int:
    """Write one shard, in a worker; return the number of its examples."""
    return prepare_shards(config, path, count, number).num_examples
