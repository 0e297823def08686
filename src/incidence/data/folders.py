"""The user's own files: tables, files with a table of targets, a folder for each class, SDF files, or examples that were saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from os.path import isdir, isfile
from pathlib import Path
from typing import Any

from incidence.data.arrays import from_arrays, has_arrays
from incidence.data.building import Asked, data_set_of, from_properties
from incidence.data.dataset import DataSet
from incidence.data.examples_file import from_examples
from incidence.data.graphs import beside
from incidence.data.molecules.smiles import find_smiles
from incidence.data.readers import READERS, read_file, reader, reader_for
from incidence.data.tables import SUFFIXES, is_table, join_parts, read_table
from incidence.data.tabular import from_tables, read_any
from incidence.data.targets import (
    PARTS,
    as_classes,
    choose_targets,
    is_split,
    read_parts,
    read_targets,
    wanted_names,
)
from incidence.errors import IncidenceError, shown
from incidence.files import regular_file

__all__ = ["TARGETS", "read_folder"]

TARGETS, _SAVED = "targets.csv", "examples.npz"
_TEXTS = (".txt", ".dat", ".data", ".tab")
"""Of files that may be tables."""
_MOLECULES = tuple(suffix + end for suffix in (".sdf", ".smi", ".smiles") for end in ("", ".gz"))


def read_folder(
    path: Path,
    target: str | int | Sequence[str] | None = None,
    *,
    reader: str | None = None,
    task: str | None = None,
    **options: Any,
) -> DataSet:
    """A data set from a folder or file of the user's; see docs/datasets.md for the layouts. Without splits, if the data tells none.

    The target is a column of the table, or a property of the SDF file; several, in a list or divided by commas, make several numbers. The
    reader is found by the suffixes of the files, and the task by the values, if they are not given. Options are those of the reader.
    """
    name = (
        path.resolve().name
        if isdir(path)
        else regular_file(path, "a data set").name.partition(".")[0]
    )
    asked = Asked(str(path), name, reader, wanted_names(target), task, options, path)
    layout = next((read for applies, read in _LAYOUTS if applies(asked)), None)
    if layout is None:
        raise IncidenceError(
            f"{path} is no data set: a folder of your own has {TARGETS} beside its files, or a folder of files for each class, or SDF "
            f"files, or tables (.csv), or {_SAVED}."
        )
    return layout(asked)


def _files(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """The files of a folder with one of the suffixes, in order; hidden ones are none."""
    visible = (
        file
        for file in sorted(folder.iterdir())
        if file.is_file() and not file.name.startswith(".")
    )
    return [file for file in visible if file.name.lower().endswith(tuple(suffixes))]


def _listed(asked: Asked) -> DataSet:
    """Files with a table that lists them."""
    path = asked.path / TARGETS
    outside = asked.options.get("outside", False)
    asked = replace(
        asked, options={key: value for key, value in asked.options.items() if key != "outside"}
    )
    table = read_table(path)
    values = [name for name in table.columns if name != "file" and not is_split(name)]
    wanted = choose_targets(table, asked.target) if asked.target else tuple(values)
    missing = (
        "file"
        if "file" not in table.columns
        else next((name for name in wanted if name not in values), None)
    )
    if missing is not None or not wanted:
        kind = " of targets" if missing in table.columns else ""
        raise IncidenceError(
            f"{path} has no column `{missing or 'target'}`{kind}; it has: {', '.join(table.columns)}."
        )
    task, targets = read_targets(str(path), {name: table[name] for name in wanted}, asked.task)
    files = [asked.path / name for name in table["file"]]
    read = (one for file in files for one in (file, beside(file)))
    strange = (
        None
        if outside is True
        else next((file for file in read if not _is_below(file, asked.path)), None)
    )
    if strange is not None:
        remedy = "If that is meant, give outside=True, or --data-options outside=true"
        raise IncidenceError(
            f"{path} lists {shown(str(strange))}, which is not below its folder. {remedy}."
        )
    absent = next((file for file in files if not isfile(file)), None)
    if absent is not None:
        raise IncidenceError(f"{path} lists {shown(str(absent))}, and there is no such file.")
    name = reader_for(files, asked.reader)
    reads = []
    for number, file in enumerate(files):
        found = read_file(name, file, asked.options)
        if len(found) > 1:
            raise IncidenceError(
                f"{file} has {len(found)} examples, and a row of {TARGETS} is for one: put each into a file of its own."
            )
        reads.append(found[0]._replace(properties=table.row(number)))
    return data_set_of(asked, reads, name, task, targets, read_parts(table))


def _is_below(file: Path, folder: Path) -> bool:
    """Whether a file lies in a folder, or in one of its folders, wherever links lead."""
    try:
        return file.resolve().is_relative_to(folder.resolve())
    except (
        OSError,
        ValueError,
        RuntimeError,
    ):  # names that are too long, have a NUL, or links in a circle
        return False


def _classes(asked: Asked) -> DataSet:
    suffixes = [
        s for name in ([asked.reader] if asked.reader else READERS) for s in reader(name).suffixes
    ]
    found: list[
        tuple[str, Path, int | None]
    ] = []  # the class of a file, and its part, if it lies in a folder that is called after one
    for folder in _folders(asked.path):
        below = [
            (place, PARTS[place.name.lower()])
            for place in _folders(folder)
            if place.name.lower() in PARTS
        ]
        found += [
            (folder.name, file, part)
            for place, part in [(folder, None), *below]
            for file in _files(place, suffixes)
        ]
    if not found:
        raise IncidenceError(
            f"the folders of {asked.path} have no files to read; suffixes that can be read are {', '.join(suffixes)}."
        )
    name = reader_for([file for _, file, _ in found], asked.reader)
    reads, classes, parts = [], [], []
    for label, file, part in found:
        for read in read_file(name, file, asked.options):
            reads.append(read._replace(name=f"{label}/{read.name}"))
            classes.append(label)
            parts.append(part)
    told = [part for part in parts if part is not None]
    if told and len(told) < len(parts):
        raise IncidenceError(
            f"{asked.path}: some classes have folders train and test, and others have files of their own. Use one way."
        )
    return data_set_of(asked, reads, name, *as_classes(classes), told or None)


def _folders(path: Path) -> list[Path]:
    return sorted(
        child for child in path.iterdir() if child.is_dir() and not child.name.startswith(".")
    )


def _molecules(asked: Asked) -> DataSet:
    """Molecules with properties, in SDF files or lines of SMILES; broken ones are passed over."""
    files = _molecule_files(asked.path)
    parts = [PARTS.get(file.name.partition(".")[0].lower()) for file in files]
    if len(files) > 1 and None in parts:
        raise IncidenceError(
            f"{asked.path} has several files of molecules: name one of them, or call them train.sdf and test.sdf."
        )
    name, errors = reader_for(files, asked.reader), list[IncidenceError]()
    found = [
        (read, part)
        for file, part in zip(files, parts, strict=True)
        for read in read_file(name, file, asked.options, errors)
    ]
    told = [part for _, part in found if part is not None] if len(files) > 1 else None
    return from_properties(
        asked, [read for read, _ in found], name, find_smiles, told, errors, "property"
    )


def _molecule_files(path: Path) -> list[Path]:
    return (
        _files(path, _MOLECULES)
        if path.is_dir()
        else [path]
        if path.is_file() and path.name.lower().endswith(_MOLECULES)
        else []
    )


def _tables(asked: Asked) -> DataSet:
    """A table, or a folder of tables; those that are called after parts are one."""
    files = _table_files(asked)
    tables = {
        file.name.partition(".")[0]: read_any(file, asked.options.get("smiles")) for file in files
    }
    are_parts = len(tables) > 1 and all(name.lower() in PARTS for name in tables)
    return from_tables({asked.name: join_parts(tables)} if are_parts else tables, asked)


def _table_files(asked: Asked) -> list[Path]:
    """The tables of a folder, or a file that is one by its name, or because of what is said about its columns or stands beside it."""
    if asked.path.is_dir():
        return _files(asked.path, SUFFIXES)
    is_one = (
        is_table(asked.path)
        or asked.path.suffix.lower() in _TEXTS
        or bool({"nodes", "keys", "tables"} & asked.options.keys())
    )
    return [asked.path] if is_one else []


def _saved(asked: Asked) -> DataSet:
    path = asked.path / _SAVED if asked.path.is_dir() else asked.path
    given = {
        "--target": asked.target,
        "--reader": asked.reader not in (None, "example"),
        "--data-options": asked.options,
    }
    unused = next((flag for flag, value in given.items() if value), None)
    if unused:
        raise IncidenceError(f"{path} has its own targets and features: leave out {unused}.")
    name = path.stem if path.stem != "examples" else path.resolve().parent.name
    return from_examples(
        [read.example for read in reader("example").read(path)],
        name=name,
        source=str(path),
        task=asked.task,
    )


_LAYOUTS: tuple[tuple[Callable[[Asked], bool], Callable[[Asked], DataSet]], ...] = (
    (lambda asked: (asked.path / TARGETS).is_file(), _listed),
    (lambda asked: asked.path.is_file() and has_arrays(asked.path), from_arrays),
    (
        lambda asked: (
            (asked.path.is_file() and asked.path.suffix.lower() == ".npz")
            or (asked.path / _SAVED).is_file()
        ),
        _saved,
    ),
    (lambda asked: bool(_molecule_files(asked.path)), _molecules),
    (lambda asked: bool(_table_files(asked)), _tables),
    (lambda asked: asked.path.is_dir() and bool(_folders(asked.path)), _classes),
)
"""Whether what was asked for is laid out in a way, and what reads it; the first that applies."""
