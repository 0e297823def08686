"""The table of readers, and which of them reads a file.

A new file type is one entry of `READERS`: its name, its suffixes, and a function from a path to
records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from incidence.data.graphs import read_graphs
from incidence.data.meshes import read_meshes
from incidence.data.molecule_files import FORMATS, read_molecules
from incidence.data.npz_files import read_examples
from incidence.data.records import Reader, Record, assert_options
from incidence.errors import IncidenceError

__all__ = ["READERS", "read_file", "reader", "reader_for"]

READERS: dict[str, Reader] = {
    "graph": Reader((".edges", ".txt", ".tsv", ".csv", ".g6"), read_graphs),
    "example": Reader((".npz",), read_examples),
    "molecule": Reader((*FORMATS, *(f"{suffix}.gz" for suffix in FORMATS)), read_molecules),
    "mesh": Reader((".obj", ".off", ".ply", ".stl"), read_meshes),
}
"""The readers of files by name."""


def reader(name: str) -> Reader:
    """Return the reader of that name.

    Raises:
        IncidenceError: There is none.
    """
    if name not in READERS:
        raise IncidenceError(f"no reader {name!r}; there are: {', '.join(sorted(READERS))}.")
    return READERS[name]


def reader_for(paths: Sequence[Path], name: str | None = None) -> str:
    """Return the name of the reader for files: the given one, else the one their suffixes tell.

    Raises:
        IncidenceError: No reader, or more than one, reads all of the files.
    """
    if name is not None:
        reader(name)  # raises if there is none
        return name
    fitting = {path: {key for key in READERS if READERS[key].reads(path)} for path in paths}
    unread = next((path for path, names in fitting.items() if not names), None)
    if unread is not None:
        suffixes = ", ".join(f"{key} ({' '.join(one.suffixes)})" for key, one in READERS.items())
        raise IncidenceError(
            f"no reader reads {unread}. Readers by suffix: {suffixes}. Give --reader for another"
            " suffix."
        )
    candidates = [key for key in READERS if all(key in names for names in fitting.values())]
    if len(candidates) == 1:
        return candidates[0]
    problem = "the files need different readers"
    if candidates:
        problem = f"the readers {', '.join(candidates)} all read such files"
    raise IncidenceError(
        f"cannot tell which reader to use for {paths[0].name}: {problem}. Give --reader."
    )


def read_file(
    name: str, path: Path, options: Mapping[str, Any], errors: list[IncidenceError] | None = None
) -> list[Record]:
    """Return the records of a file.

    Args:
        name: The name of the reader.
        path: The file.
        options: Options of the reader.
        errors: Collects the errors of single records; the first one is raised if it is None.

    Raises:
        IncidenceError: The file cannot be read, or has no record.
    """
    if not path.is_file():
        raise IncidenceError(f"there is no file {path}.")
    read = reader(name).read
    assert_options(read, f"the reader {name!r}", options)
    met: list[IncidenceError] = [] if errors is None else errors
    records = list(read(path, met, **options))
    if errors is None and met:
        raise met[0]
    if not records and not met:
        raise IncidenceError(f"{path} has no example.")
    return records
