"""The user's own files: with a table of targets, in a folder for each class, SDF files, or examples that were saved."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from incidence.data.dataset import METRICS, DataSet, Split, Task, assert_task
from incidence.data.examples_file import from_examples
from incidence.data.readers import READERS, Read, as_float, assert_alike, read_file, reader, reader_for
from incidence.errors import IncidenceError

__all__ = ["read_folder"]

_TARGETS, _SAVED, _SDF = "targets.csv", "examples.npz", (".sdf", ".sdf.gz")
_PARTS = {"train": 0, "training": 0, "validation": 1, "valid": 1, "val": 1, "test": 2}
_MISSING = {"", "nan", "na", "none", "null", "?"}


@dataclass(frozen=True)
class _Asked:
    """A path, and what was asked for: the reader, the targets, the kind of task, and options of the reader."""

    path: Path
    reader: str | None
    target: tuple[str, ...]
    task: str | None
    options: Mapping[str, Any]


def read_folder(
    path: Path, target: str | int | Sequence[str] | None = None, *, reader: str | None = None, task: str | None = None, **options: Any
) -> DataSet:
    """A data set from a folder or file of the user's; see docs/datasets.md for the layouts. Without splits, if the data tells none.

    The target is a column of the table, or a property of the SDF file; several, in a list or divided by commas, make several numbers. The
    reader is found by the suffixes of the files, and the task by the values, if they are not given. Options are those of the reader.
    """
    names = target.split(",") if isinstance(target, str) else () if target is None else target
    if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
        raise IncidenceError(
            f"the target of files is the name of a column or property, or a list of names; got {target!r}. Write it as text, as in "
            f"target='SOL'; numbers are for data of PyG."
        )
    wanted = tuple(name.strip() for name in names) if isinstance(target, str) else tuple(names)
    layout = next((read for applies, read in _LAYOUTS if applies(path)), None)
    if layout is None:
        raise IncidenceError(
            f"{path} is no data set: a folder of your own has {_TARGETS} beside its files, or a folder of files for each class, or SDF "
            f"files, or {_SAVED}."
        )
    return layout(_Asked(path, reader, wanted, task, options))


def _data_set(
    asked: _Asked, reads: Sequence[Read], reader: str, task: Task, targets: Tensor, parts: Sequence[int] | None = None
) -> DataSet:
    """The data set of what was read: a row of targets for each, and its part (0, 1, 2) if that is told."""
    assert_alike((read.name, read.example) for read in reads)
    examples = [read.example.replace(target=row) for read, row in zip(reads, targets, strict=True)]
    if parts is not None and 0 not in parts:
        raise IncidenceError("the data tells which examples are for testing, and none is left for training.")
    numbers = torch.tensor(parts or ())
    return DataSet(
        asked.path.stem if asked.path.is_file() else asked.path.resolve().name,
        examples,
        task,
        () if parts is None else (Split(*((numbers == k).nonzero()[:, 0] for k in range(3))),),
        reader=reader,
        reader_options=asked.options,
        about=f"Your own data: {len(examples)} examples.",
        metric=METRICS[task.kind],
    )


def _files(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """The files of a folder with one of the suffixes, in order; hidden ones are none."""
    shown = (file for file in sorted(folder.iterdir()) if file.is_file() and not file.name.startswith("."))
    return [file for file in shown if file.name.lower().endswith(tuple(suffixes))]


def _read_targets(source: str, columns: Mapping[str, Sequence[str]], task: str | None = None) -> tuple[Task, Tensor]:
    """The task, and a row of targets for each example: [rows, columns] floats, or [rows] classes; an empty text, or `nan`, is missing.

    Without a task, text makes classes and numbers do not; with `classification`, numbers are names of classes, too.
    """
    assert_task(task)
    for name, texts in columns.items():
        if all(_is_missing(text) for text in texts):
            raise IncidenceError(f"{source}: all values of the target `{name}` are missing.")
    kinds = {name: task or _kind(source, name, texts) for name, texts in columns.items()}
    if "classification" not in kinds.values():
        rows = [[math.nan if _is_missing(text) else as_float(text) for text in texts] for texts in columns.values()]
        for (name, texts), row in zip(columns.items(), rows, strict=True):
            wrong = next((text for text, value in zip(texts, row, strict=True) if value is None or math.isinf(value)), None)
            if wrong is not None:
                raise IncidenceError(f"{source}: the target `{name}` is a finite number for regression; got {wrong!r}.")
        return Task("regression", tuple(columns)), torch.tensor(rows).T.contiguous()
    if len(columns) > 1:
        name = next(name for name, kind in kinds.items() if kind == "classification")
        raise IncidenceError(f"{source}: the target `{name}` has classes, which are predicted alone: give target={name!r} or another.")
    [texts] = columns.values()
    return _as_classes([None if _is_missing(text) else text.strip() for text in texts])


def _as_classes(names: Sequence[str | None]) -> tuple[Task, Tensor]:
    """A class for each name, in the order of names, or of numbers if they are numbers; -1 where there is none."""
    different = {name for name in names if name is not None}
    is_numeric = all(as_float(name) is not None for name in different)
    ordered = sorted(different, key=(lambda name: (as_float(name), name)) if is_numeric else str)
    number = {name: k for k, name in enumerate(ordered)}
    return Task("classification", tuple(ordered)), torch.tensor([-1 if name is None else number[name] for name in names])


def _is_missing(text: str) -> bool:
    return text.strip().lower() in _MISSING


def _kind(source: str, name: str, texts: Sequence[str]) -> str:
    present = [text for text in texts if not _is_missing(text)]
    words = [text for text in present if as_float(text) is None]
    if words and len(words) < len(present):
        raise IncidenceError(
            f"{source}: the target `{name}` has numbers and text, such as {words[0]!r}. Correct it, or give task='classification' to read "
            f"every value as the name of a class."
        )
    return "classification" if words else "regression"


def _table(asked: _Asked) -> DataSet:
    path = asked.path / _TARGETS
    rows, columns = _read_table(path)
    values = [name for name in columns if name not in ("file", "split")]
    wanted = asked.target or tuple(values)
    missing = "file" if "file" not in columns else next((name for name in wanted if name not in values), None)
    if missing is not None or not wanted:
        kind = " of targets" if missing in columns else ""
        raise IncidenceError(f"{path} has no column `{missing or 'target'}`{kind}; it has: {', '.join(columns)}.")
    task, targets = _read_targets(str(path), {name: [row[name] for row in rows] for name in wanted}, asked.task)
    files = [asked.path / row["file"].strip() for row in rows]
    absent = next((file for file in files if not file.is_file()), None)
    if absent is not None:
        raise IncidenceError(f"{path} lists {absent}, and there is no such file.")
    name = reader_for(files, asked.reader)
    reads = []
    for file in files:
        found = read_file(name, file, asked.options)
        if len(found) > 1:
            raise IncidenceError(f"{file} has {len(found)} examples, and a row of {_TARGETS} is for one: put each into a file of its own.")
        reads += found
    if "split" not in columns:
        return _data_set(asked, reads, name, task, targets)
    told = [row["split"].strip().lower() for row in rows]
    wrong = next((number for number, part in enumerate(told) if part not in _PARTS), None)
    if wrong is not None:
        raise IncidenceError(f"{path}: the split of an example is train, validation or test; got {rows[wrong]['split']!r}.")
    return _data_set(asked, reads, name, task, targets, [_PARTS[part] for part in told])


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


def _classes(asked: _Asked) -> DataSet:
    suffixes = [s for name in ([asked.reader] if asked.reader else READERS) for s in reader(name).suffixes]
    found: list[tuple[str, Path, int | None]] = []  # the class of a file, and its part, if it lies in a folder that is called after one
    for folder in _folders(asked.path):
        below = [(place, _PARTS[place.name.lower()]) for place in _folders(folder) if place.name.lower() in _PARTS]
        found += [(folder.name, file, part) for place, part in [(folder, None), *below] for file in _files(place, suffixes)]
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
    return _data_set(asked, reads, name, *_as_classes(classes), told or None)


def _folders(path: Path) -> list[Path]:
    return sorted(child for child in path.iterdir() if child.is_dir() and not child.name.startswith("."))


def _molecules(asked: _Asked) -> DataSet:
    files = _sdf_files(asked.path)
    parts = [_PARTS.get(file.name.partition(".")[0].lower()) for file in files]
    if len(files) > 1 and None in parts:
        raise IncidenceError(f"{asked.path} has several SDF files: name one of them, or call them train.sdf and test.sdf.")
    name = reader_for(files, asked.reader)
    found = [(read, part) for file, part in zip(files, parts, strict=True) for read in read_file(name, file, asked.options)]
    reads = [read for read, _ in found]
    have = sorted({key for read in reads for key in read.properties})
    missing = next((key for key in asked.target if key not in have), None)
    if missing is not None or not asked.target:
        what = f"there is no property `{missing}`" if missing else "no property was named which is to be predicted"
        raise IncidenceError(f"{asked.path}: {what}: give one with --target; it has: {', '.join(have) or 'none'}.")
    columns = {key: [read.properties.get(key, "") for read in reads] for key in asked.target}
    told = [part for _, part in found if part is not None] if len(files) > 1 else None
    return _data_set(asked, reads, name, *_read_targets(str(asked.path), columns, asked.task), told)


def _sdf_files(path: Path) -> list[Path]:
    return _files(path, _SDF) if path.is_dir() else [path] if path.is_file() and path.name.lower().endswith(_SDF) else []


def _saved(asked: _Asked) -> DataSet:
    path = asked.path / _SAVED if asked.path.is_dir() else asked.path
    given = {"--target": asked.target, "--reader": asked.reader not in (None, "example"), "--data-options": asked.options}
    unused = next((flag for flag, value in given.items() if value), None)
    if unused:
        raise IncidenceError(f"{path} has its own targets and features: leave out {unused}.")
    name = path.stem if path.stem != "examples" else path.resolve().parent.name
    return from_examples([read.example for read in reader("example").read(path)], name=name, source=str(path), task=asked.task)


_LAYOUTS: tuple[tuple[Callable[[Path], bool], Callable[[_Asked], DataSet]], ...] = (
    (lambda path: (path / _TARGETS).is_file(), _table),
    (lambda path: (path.is_file() and path.name.lower().endswith(".npz")) or (path / _SAVED).is_file(), _saved),
    (lambda path: bool(_sdf_files(path)), _molecules),
    (lambda path: path.is_dir() and bool(_folders(path)), _classes),
)
"""Whether a path is laid out in a way, and what reads it; the first that applies."""
