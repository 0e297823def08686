"""The user's own data: files with a table of targets, a folder for each class, SDF files, or examples that were saved."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence.data.dataset import DataSet, Split, Task
from incidence.data.reading import assert_alike, legible, read_file, readable, reader_for
from incidence.data.registry import READERS, Read, reader
from incidence.data.splits import held_out, random_split
from incidence.data.stored import METRICS, read_stored
from incidence.data.targets import as_classes, read_targets
from incidence.errors import IncidenceError
from incidence.geometry.convert.sdf import read_sdf

__all__ = ["load_folder"]

_TARGETS, _SAVED, _SDF = "targets.csv", "examples.npz", (".sdf", ".sdf.gz")
_PARTS = {"train": 0, "training": 0, "validation": 1, "valid": 1, "val": 1, "test": 2}


@dataclass(frozen=True)
class _Asked:
    path: Path
    reader: str | None
    target: tuple[str, ...]
    task: str | None
    seed: int
    validation: float | None
    options: Mapping[str, Any]


class _Found(NamedTuple):
    """Examples without targets, what reads them, the task with a row for each, and the part (0, 1, 2) of each if that is told."""

    reads: list[Read]
    reader: str
    task: Task
    targets: Tensor
    parts: list[int] | None


def load_folder(
    path: Path | str,
    *,
    reader: str | None = None,
    target: str | Sequence[str] | None = None,
    task: str | None = None,
    seed: int = 0,
    validation: float | None = None,
    reader_options: Mapping[str, Any] | None = None,
) -> DataSet:
    """A data set from a folder or file of the user's; see docs/datasets.md for the layouts.

    Args:
        path: A folder with `targets.csv`, with `examples.npz`, with SDF files or with a folder for each class; or an SDF or npz file.
        reader: The name of the reader; found by the suffixes of the files, if not given.
        target: The column of the table, or the property of the SDF file, that is to be predicted; several, in a list or divided by
            commas, make several numbers.
        task: `classification` or `regression`, where the values themselves do not tell.
        seed: Of the split, if the data does not tell one: 80 % for training, 10 % for validation, 10 % for testing.
        validation: The share of the training part to keep apart for validation, where the data does not tell that part.
        reader_options: Options of the reader, as in `{"labels": 7}`.

    Raises:
        IncidenceError: The layout is not known, a file cannot be read, or targets do not fit; the message says which.
    """
    path = Path(path)
    wanted = tuple(name.strip() for name in target.split(",")) if isinstance(target, str) else tuple(target or ())
    asked = _Asked(path, reader, wanted, task, seed, validation, dict(reader_options or {}))
    layout = next((read for applies, read in _LAYOUTS if applies(path)), None)
    if layout is None:
        raise IncidenceError(
            f"{path} is no data set: a folder of your own has {_TARGETS} beside its files, or a folder of files for each class, or SDF "
            f"files, or {_SAVED}."
        )
    return layout(asked)


def _data_set(asked: _Asked, found: _Found) -> DataSet:
    assert_alike(found.reads)
    examples = [read.example.replace(target=row) for read, row in zip(found.reads, found.targets, strict=True)]
    data = DataSet(
        asked.path.stem if asked.path.is_file() else asked.path.resolve().name,
        examples,
        found.task,
        (_split(found, asked),),
        reader=found.reader,
        reader_options=asked.options,
        about=f"Your own data: {len(examples)} examples.",
        metric=METRICS[found.task.kind],
    )
    return held_out(data, asked.validation, asked.seed)


def _split(found: _Found, asked: _Asked) -> Split:
    if found.parts is None:
        return random_split(len(found.reads), asked.seed, asked.validation)
    parts = torch.tensor(found.parts)
    train, kept, test = ((parts == k).nonzero()[:, 0] for k in range(3))
    if not len(train):
        raise IncidenceError("the data tells which examples are for testing, and none is left for training.")
    return Split(train, kept, test)


# ---- a table of targets


def _table(asked: _Asked) -> DataSet:
    path = asked.path / _TARGETS
    rows, columns = _read_table(path)
    values = [name for name in columns if name not in ("file", "split")]
    wanted = asked.target or tuple(values)
    missing = "file" if "file" not in columns else next((name for name in wanted if name not in values), None)
    if missing is not None or not wanted:
        kind = " of targets" if missing in columns else ""
        raise IncidenceError(f"{path} has no column `{missing or 'target'}`{kind}; it has: {', '.join(columns)}.")
    task, targets = read_targets(str(path), {name: [row[name] for row in rows] for name in wanted}, asked.task)
    files = [asked.path / row["file"].strip() for row in rows]
    absent = next((file for file in files if not file.is_file()), None)
    if absent is not None:
        raise IncidenceError(f"{path} lists {absent}, and there is no such file.")
    name = reader_for(files, asked.reader)
    reads = [_only(read_file(name, file, asked.options), file) for file in files]
    parts = [_part(path, row["split"]) for row in rows] if "split" in columns else None
    return _data_set(asked, _Found(reads, name, task, targets, parts))


def _read_table(path: Path) -> tuple[list[dict[str, str]], list[str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [line for line in csv.reader(file) if any(word.strip() for word in line)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise IncidenceError(f"{path} cannot be read as a table: {error}.") from None
    if len(lines) < 2:
        raise IncidenceError(f"{path} has no rows: its first line names the columns, `file,target`, and every other one an example.")
    columns = [word.strip() for word in lines[0]]
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(columns):
            raise IncidenceError(f"{path}, row {number}: there are {len(line)} values for {len(columns)} columns.")
    return [dict(zip(columns, line, strict=True)) for line in lines[1:]], columns


def _part(path: Path, text: str) -> int:
    if text.strip().lower() not in _PARTS:
        raise IncidenceError(f"{path}: the split of an example is train, validation or test; got {text!r}.")
    return _PARTS[text.strip().lower()]


def _only(reads: list[Read], file: Path) -> Read:
    if len(reads) > 1:
        raise IncidenceError(f"{file} has {len(reads)} examples, and a row of {_TARGETS} is for one: put each into a file of its own.")
    return reads[0]


# ---- a folder for each class


def _classes(asked: _Asked) -> DataSet:
    suffixes = [s for name in ([asked.reader] if asked.reader else READERS) for s in reader(name).suffixes]
    found = [one for folder in _folders(asked.path) for one in _of_class(folder, suffixes)]
    if not found:
        raise IncidenceError(f"the folders of {asked.path} have no files to read; suffixes that can be read are {', '.join(suffixes)}.")
    name = reader_for([file for _, file, _ in found], asked.reader)
    reads, classes, parts = [], [], []
    for label, file, part in found:
        for read in read_file(name, file, asked.options):
            reads.append(read._replace(name=f"{label}/{read.name}"))
            classes.append(label)
            parts.append(part)
    told = [part for part in parts if part is not None]
    if told and len(told) < len(parts):
        raise IncidenceError(f"{asked.path}: some classes have folders train and test, and others have files of their own. Use one way.")
    return _data_set(asked, _Found(reads, name, *as_classes(classes), told or None))


def _folders(path: Path) -> list[Path]:
    return sorted(child for child in path.iterdir() if child.is_dir() and not child.name.startswith("."))


def _of_class(folder: Path, suffixes: Sequence[str]) -> list[tuple[str, Path, int | None]]:
    """The files of a class, each with its class and its part, if it lies in a folder that is called after one."""
    found: list[tuple[str, Path, int | None]] = [(folder.name, file, None) for file in sorted(folder.iterdir()) if readable(file, suffixes)]
    for below in _folders(folder):
        if below.name.lower() in _PARTS:
            part = _PARTS[below.name.lower()]
            found += [(folder.name, file, part) for file in sorted(below.iterdir()) if readable(file, suffixes)]
    return found


# ---- SDF files


def _molecules(asked: _Asked) -> DataSet:
    files = _sdf_files(asked.path)
    parts = [_PARTS.get(file.name.partition(".")[0].lower()) for file in files]
    if len(files) > 1 and None in parts:
        raise IncidenceError(f"{asked.path} has several SDF files: name one of them, or call them train.sdf and test.sdf.")
    records = [(molecule, part, file) for file, part in zip(files, parts, strict=True) for molecule in read_sdf(file)]
    have = sorted({key for molecule, _, _ in records for key in molecule.properties})
    missing = next((name for name in asked.target if name not in have), None)
    if missing is not None or not asked.target:
        what = f"there is no property `{missing}`" if missing else "no property was named which is to be predicted"
        raise IncidenceError(f"{asked.path}: {what}: give one with --target; it has: {', '.join(have) or 'none'}.")
    columns = {name: [legible(molecule.properties.get(name, "")) for molecule, _, _ in records] for name in asked.target}
    task, targets = read_targets(str(asked.path), columns, asked.task)
    name = reader_for(files, asked.reader)
    reads = [read for file in files for read in read_file(name, file, asked.options)]
    if len(reads) != len(records):
        raise IncidenceError(f"{asked.path} has {len(records)} records, and the reader {name!r} made {len(reads)} examples of them.")
    told = [part for _, part, _ in records if part is not None]
    return _data_set(asked, _Found(reads, name, task, targets, told if len(files) > 1 else None))


def _sdf_files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.iterdir() if readable(file, _SDF))
    return [path] if readable(path, _SDF) else []


# ---- examples that were saved


def _stored(asked: _Asked) -> DataSet:
    path = asked.path / _SAVED if asked.path.is_dir() else asked.path
    given = {"--target": asked.target, "--reader": asked.reader not in (None, "example"), "--data-options": asked.options}
    unused = next((flag for flag, value in given.items() if value), None)
    if unused:
        raise IncidenceError(f"{path} has its own targets and features: leave out {unused}.")
    return read_stored(path, asked.task, asked.seed, asked.validation)


_LAYOUTS: tuple[tuple[Callable[[Path], bool], Callable[[_Asked], DataSet]], ...] = (
    (lambda path: (path / _TARGETS).is_file(), _table),
    (lambda path: readable(path, [".npz"]) or (path / _SAVED).is_file(), _stored),
    (lambda path: bool(_sdf_files(path)), _molecules),
    (lambda path: path.is_dir() and bool(_folders(path)), _classes),
)
"""Whether a path is laid out in a way, and what reads it; the first that applies."""
