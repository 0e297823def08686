"""Where the examples of every shard stand in a table of molecules.

The first process that writes one shard alone reads all of the table, and notes this. Others then
make no molecule of the rows of other shards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import incidence
from incidence.data.dataset import DataSet
from incidence.data.prepared import begun_folder, is_prepared
from incidence.data.shards import ShardedExamples, ShardFolder, digest_of
from incidence.data.shards.folder import checksum_of
from incidence.data.table_kinds import read_any, read_rows
from incidence.data.tables import is_table
from incidence.errors import IncidenceError
from incidence.structure.data import Array
from incidence.structure.storage import read_arrays, write_arrays
from incidence.train.config import Config
from incidence.train.prepare import PreparationJob, job_of, reading_options

__all__ = ["ShardRows"]

_FILE, _FORMAT = "rows.npz", 1


class ShardRows(NamedTuple):
    """The row of every example in a table, and what else only the whole table says.

    Attributes:
        key: Changes with the options, the version and the table.
        config: The options of the model, filled by the recipe.
        rows: The row of every example, from 0.
        targets: The target of every example.
    """

    key: str
    config: Config
    rows: Array
    targets: Tensor

    @staticmethod
    def key_of(config: Config, num_shards: int | None, with_plans: bool) -> str | None:
        """Return the key of a preparation; None if the data is not one table."""
        path = Path(config.data)
        if config.reader is not None or not path.is_file() or not is_table(path):
            return None
        words = [config.given(), num_shards, with_plans, incidence.__version__, checksum_of(path)]
        return digest_of(json.dumps(words, default=str).encode())

    @classmethod
    def write(cls, folder: ShardFolder, key: str | None, job: PreparationJob) -> None:
        """Note the rows of a data set that was read whole, if they are those of molecules."""
        examples = job.data.examples
        rows = examples.source_rows if isinstance(examples, ShardedExamples) else None
        if key is None or rows is None or job.data.reader != "molecule":
            return
        arrays = {
            "key": np.array(key),
            "config": np.array(json.dumps(job.config.given())),
            "rows": rows,
            "targets": torch.cat(job.data.task.rows_of_all(examples)).numpy(),
        }
        write_arrays(folder.path / _FILE, {"format": np.array(_FORMAT), **arrays})

    @classmethod
    def read(cls, path: Path, key: str | None) -> ShardRows | None:
        """Return what was noted in a folder for the same preparation, if anything was."""

        def read(arrays: Mapping[str, Any]) -> ShardRows:
            config = Config(**json.loads(str(arrays["config"])))
            targets = torch.from_numpy(arrays["targets"])
            return ShardRows(str(arrays["key"]), config, arrays["rows"], targets)

        if key is None or not is_prepared(path) or not (path / _FILE).is_file():
            return None
        try:
            noted = read_arrays(path / _FILE, "rows of shards", _FORMAT, read)
        except IncidenceError:  # the table is read whole, and the file is written again
            return None
        return noted if noted.key == key else None

    def job(
        self, path: Path, given: Config, number: int
    ) -> tuple[ShardFolder, PreparationJob] | None:
        """Return the job of one shard; its data has the examples of that shard alone.

        None if this machine reads other molecules, as another version of RDKit may.
        """
        folder, whole, preparation = begun_folder(path)
        start, stop = folder.starts[number - 1 : number + 1].tolist()
        data = self._data(whole, given, start, stop)
        if data is None:
            return None
        return folder, job_of(self.config, data, preparation)

    def _data(self, whole: DataSet, given: Config, start: int, stop: int) -> DataSet | None:
        options, path = dict(reading_options(given)), Path(given.data)
        for name in ("target", "reader", "task"):
            options.pop(name)
        table = read_any(path, options.get("smiles"))
        wanted = np.zeros(len(table), dtype=bool)
        wanted[self.rows[start:stop]] = True
        records = list(read_rows(table, "molecule", options, [], path.name, wanted))
        if len(records) != stop - start:
            return None
        examples = [
            record.example.replace(target=y)
            for record, y in zip(records, self.targets[start:stop], strict=True)
        ]
        columns = {key: [one.properties.get(key, "") for one in records] for key in whole.columns}
        names = [one.name for one in records]
        return replace(whole, examples=examples, names=names, columns=columns, splits=())
