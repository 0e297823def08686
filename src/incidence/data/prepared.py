"""Prepared data sets: a folder with a manifest and shards, which training reads example by example.

The manifest says everything about the data set except its examples, and how it was made. Every
process that prepares a shard writes the same manifest, or is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.data.dataset import DataSet, Split, Task
from incidence.data.dataset_builder import DataRequest
from incidence.data.lifts import lift_all
from incidence.data.shards import (
    ShardedExamples,
    ShardedTexts,
    ShardFolder,
    digest_of,
    write_shard,
)
from incidence.errors import IncidenceError, shown
from incidence.files import regular_file, whole_file
from incidence.limits import parse_json
from incidence.structure.storage import read_arrays, write_arrays
from incidence.structure.structure import Structure

__all__ = ["MANIFEST", "Preparation", "is_prepared", "load_prepared", "preparation_of"]
__all__ += ["begun_folder", "prepare_shard", "start_folder"]

MANIFEST, _SPLITS = "manifest.json", "splits.npz"
_FORMAT = 3  # number of the format of folders
_WHAT = "manifest of a prepared data set"
_WHAT_SPLITS = "parts of a prepared data set"
_PLAIN = ("name", "reader", "about", "metric", "has_drawn_parts", "has_drawn_validation")


class Preparation(NamedTuple):
    """How a data set was prepared.

    Attributes:
        source: The data, as the user named it.
        options: The options of `inc.data.load` that it was read with.
        lift: The name of the lift.
        lift_options: The options of the lift.
        plans: The model whose plans are stored with the examples; None without plans.
        version: The version of the library.
    """

    source: str
    options: Mapping[str, Any]
    lift: str
    lift_options: Mapping[str, Any]
    plans: str | None
    version: str

    @staticmethod
    def of(manifest: Mapping[str, Any]) -> Preparation:
        """Return what a manifest says."""
        return Preparation(*(manifest[name] for name in Preparation._fields))


def is_prepared(path: Path) -> bool:
    """Return whether a folder has a manifest of a prepared data set."""
    return (path / MANIFEST).is_file()


def start_folder(
    path: Path, data: DataSet, preparation: Preparation, num_shards: int
) -> ShardFolder:
    """Write the manifest of a folder, or compare it with the one that is there.

    Args:
        path: The folder, which is made if it does not exist.
        data: The data set before the lift.
        preparation: How it is prepared.
        num_shards: The number of shards.

    Raises:
        IncidenceError: The data has no examples that can be cut into shards, or the folder is for
            other data, other options, or another version.
    """
    _assert_fits(data, num_shards)
    text = json.dumps(_manifest(data, preparation, num_shards)).encode()
    path.mkdir(parents=True, exist_ok=True)
    file = path / MANIFEST
    # hidden files may be the unfinished manifest of another process
    others = [child for child in path.iterdir() if not child.name.startswith(".")]
    if file.is_file():
        _assert_same(file, json.loads(text))
    elif others:
        raise IncidenceError(
            f"{path} has other files: give --out a new folder, or one of the same preparation."
        )
    else:
        with whole_file(file) as out:
            out.write(text)
    if data.splits:  # whole each time, so that several processes may do this
        arrays = {key: rows.numpy() for key, rows in _rows_of_splits(data).items()}
        write_arrays(path / _SPLITS, {"format": np.array(_FORMAT), **arrays})
    digest = digest_of(file.read_bytes())
    return ShardFolder(path, digest, num_shards, len(data.examples))


def _assert_fits(data: DataSet, num_shards: int) -> None:
    if data.is_transductive or data.completion is not None:
        raise IncidenceError(
            f"{data.name!r} is one structure, and shards are for many examples: leave out the"
            " preparation, and train with --split-structure on several processes."
        )
    count = len(data.examples)
    if not 1 <= num_shards <= count:
        raise IncidenceError(
            f"{data.name!r} has {count:,} examples, so there are 1 to {count:,} shards; got"
            f" {num_shards}."
        )


def _manifest(data: DataSet, preparation: Preparation, num_shards: int) -> dict[str, Any]:
    digest, of_texts = blake2b(digest_size=16), blake2b(digest_size=16)
    for y in data.task.rows_of_all(data.examples):
        digest.update(y.numpy().tobytes())
    for texts in _sharded_columns(data):
        for text in texts:
            # no text of UTF-8 has this byte, so texts cannot run together
            of_texts.update(text.encode("utf-8", "surrogatepass") + b"\xff")
    return {
        "format": _FORMAT,
        "shards": num_shards,
        "examples": len(data.examples),
        "targets": digest.hexdigest(),
        **preparation._asdict(),
        **{name: getattr(data, name) for name in _PLAIN},
        "reader_options": dict(data.reader_options),
        "task": asdict(data.task),
        "splits": len(data.splits),
        "parts": _digest_of_rows(_rows_of_splits(data)),
        "texts": of_texts.hexdigest(),
        "names": bool(data.names),
        "columns": list(data.columns),
    }


def _rows_of_splits(data: DataSet) -> dict[str, Tensor]:
    """Return the rows of every part of every split."""
    return {
        f"{number}/{part}": rows
        for number, split in enumerate(data.splits)
        for part, rows in zip(Split._fields, split, strict=True)
    }


def _digest_of_rows(rows: Mapping[str, Tensor]) -> str:
    texts = (f"{key} {len(one)} ".encode() + one.numpy().tobytes() for key, one in rows.items())
    return digest_of(b"".join(texts))


def _sharded_columns(data: DataSet) -> list[Sequence[str]]:
    """Return the names of the examples, if they have some, and all columns."""
    return [*([data.names] if data.names else []), *data.columns.values()]


_IN_WORDS = {
    "version": "version of the library",
    "shards": "number of shards",
    "examples": "number of examples",
    "lift_options": "options of the lift",
    "plans": "model whose plans are stored",
    "texts": "digest of names and columns",
}


def _assert_same(file: Path, ours: Mapping[str, Any]) -> None:
    theirs = _read(file)
    differs = next((key for key in ours if ours[key] != theirs.get(key)), None)
    if differs is None:
        return
    what = _IN_WORDS.get(differs, differs)
    raise IncidenceError(
        f"{file.parent} was begun with another {what}: {shown(theirs.get(differs))}, and now it"
        f" is {shown(ours[differs])}. Use the options of the other shards, or give --out a new"
        " folder."
    )


def prepare_shard(
    folder: ShardFolder,
    data: DataSet,
    preparation: Preparation,
    number: int,
    make_plans: Callable[[Structure], object] | None = None,
    first: int = 0,
) -> None:
    """Lift the examples of one shard, and write them, whole or not at all.

    Args:
        folder: The folder.
        data: The data set before the lift.
        preparation: The lift.
        number: The number of the shard, from 1.
        make_plans: Caches the plans on a structure that are stored; None to store none.
        first: The number of the first example of the data; above 0 if it has those of one shard.
    """
    start, stop = (folder.starts[number - 1 : number + 1] - first).tolist()
    examples = list(data.examples[start:stop])
    lifted = lift_all(examples, preparation.lift, **preparation.lift_options)
    columns = [texts[start:stop] for texts in _sharded_columns(data)]
    write_shard(folder, number, lifted, make_plans, columns)


def preparation_of(data: DataSet) -> Preparation | None:
    """Return how a data set was prepared, or None if it is in no shards."""
    if not isinstance(data.examples, ShardedExamples) or not data.examples.folder.digest:
        return None
    folder = data.examples.folder
    return _preparation_at(folder.path / MANIFEST, folder.digest)


@lru_cache(maxsize=16)
def _preparation_at(file: Path, digest: str) -> Preparation:
    """Return what a manifest with that digest says."""
    return Preparation.of(_read(file))


def load_prepared(request: DataRequest) -> DataSet:
    """Return the data set of a prepared folder. Its examples are read when they are needed.

    Raises:
        IncidenceError: A shard is missing or damaged, the folder is of another format, or an
            option asks for data that is read in another way.
    """
    folder, data, preparation = begun_folder(request.path)
    _assert_options(request, preparation)
    for number in range(1, folder.num_shards + 1):
        folder.receipt(number)
    return data


def begun_folder(path: Path) -> tuple[ShardFolder, DataSet, Preparation]:
    """Return what the manifest of a folder says, whose shards may not be written yet.

    Raises:
        IncidenceError: The folder is of another format, or damaged.
    """
    file = path / MANIFEST
    values = _read(file)
    try:
        folder = ShardFolder(
            path, digest_of(file.read_bytes()), int(values["shards"]), int(values["examples"])
        )
        data = _from_manifest(values, folder)
        preparation = Preparation.of(values)
    except (LookupError, TypeError, ValueError) as error:
        raise IncidenceError(
            f"{file} is damaged: {error} is missing or of the wrong kind. Prepare the data again."
        ) from None
    return folder, data, preparation


def _read(file: Path) -> dict[str, Any]:
    values = parse_json(regular_file(file, _WHAT).read_bytes(), str(file), _WHAT)
    version = values.get("format") if isinstance(values, dict) else None
    if version != _FORMAT:
        raise IncidenceError(
            f"{file} has format {shown(version)}, and this version of the library reads format"
            f" {_FORMAT}: prepare the data again with `incidence prepare`."
        )
    return dict(values)


def _from_manifest(values: Mapping[str, Any], folder: ShardFolder) -> DataSet:
    task = {key: _tupled(value) for key, value in values["task"].items()}
    examples, first = ShardedExamples(folder), int(values["names"])
    return DataSet(
        **{name: values[name] for name in _PLAIN},
        examples=examples,
        task=Task(**task),
        splits=_read_splits(folder.path / _SPLITS, values) if values["splits"] else (),
        reader_options=values["reader_options"],
        names=ShardedTexts(examples, 0) if first else (),
        columns={
            key: ShardedTexts(examples, place) for place, key in enumerate(values["columns"], first)
        },
    )


def _read_splits(file: Path, values: Mapping[str, Any]) -> tuple[Split, ...]:
    def read(arrays: Mapping[str, Any]) -> tuple[Split, ...]:
        keys = [f"{k}/{part}" for k in range(values["splits"]) for part in Split._fields]
        rows = {key: torch.from_numpy(arrays[key]) for key in keys}
        if _digest_of_rows(rows) != values["parts"]:
            raise IncidenceError(
                "it has other rows than the manifest says. Write one shard again with `incidence"
                " prepare` and the same options, which writes this file, too."
            )
        every = list(rows.values())
        return tuple(Split(*every[k : k + 3]) for k in range(0, len(every), 3))

    return read_arrays(file, _WHAT_SPLITS, _FORMAT, read)


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _assert_options(request: DataRequest, preparation: Preparation) -> None:
    """Refuse options of reading that differ from those of the preparation."""
    given = {"target": request.target, "task": request.task, "reader": request.reader}
    given |= request.options
    for name, value in given.items():
        before = preparation.options.get(name)
        if value is not None and _plain(name, value) != _plain(name, before):
            raise IncidenceError(
                f"{request.path} was prepared with {name} = {shown(before)}, and now it is"
                f" {shown(value)}: leave the option out, or prepare the data again with it."
            )


def _plain(name: str, value: Any) -> Any:
    """Return a value as JSON has it; targets may be one text or several."""
    if name == "target" and value is not None:
        return list(DataRequest(target=value).targets)
    return json.loads(json.dumps(value))
