"""The reader of molecule files: SDF and MOL by ourselves, XYZ too, SMILES through RDKit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from incidence.data.molecules.bonding import bonded
from incidence.data.molecules.features import batch_of
from incidence.data.molecules.files import open_text, table, within
from incidence.data.molecules.joined import Joined, assert_sound, is_counted, join
from incidence.data.molecules.smiles import from_smiles
from incidence.data.readers import Read, Reader, legible
from incidence.errors import IncidenceError, MissingExtraError
from incidence.geometry.convert.elements import NUMBER
from incidence.geometry.convert.molecule import Molecule
from incidence.geometry.convert.sdf import read_sdf
from incidence.structure.examples import uncollate

__all__ = ["READER"]

T = TypeVar("T")

_TOGETHER = 256  # molecules whose features are made at once: ten times as fast as one by one
_BONDS = ("file", "distance")

_Record = tuple[int, "Molecule | IncidenceError"]
"""The number of a record, and what it says or what is wrong with it."""


def _read(
    path: Path, errors: list[IncidenceError] | None = None, *, hydrogens: str = "count", lengths: bool = False, bonds: str = "file"
) -> Iterator[Read]:
    """Reads the molecules of a file, with features.

    Args:
        path: The file.
        errors: Takes the errors of single records, while reading goes on; if not given, the first one is raised.
        hydrogens: As for `features_of`.
        lengths: As for `features_of`.
        bonds: `file`, or `distance` for bonds found from positions in space.

    Raises:
        IncidenceError: The file cannot be read at all, or an option is wrong.
    """
    path = Path(path)
    if bonds not in _BONDS:
        raise IncidenceError(f"bonds is one of {', '.join(_BONDS)}; got {bonds!r}.")
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix not in _FORMATS:
        raise IncidenceError(f"{path} is no file of molecules: those end in {', '.join(_FORMATS)}, and may be compressed (.gz).")
    if not path.is_file():
        raise IncidenceError(f"there is no file {path}.")
    by_distance = bonds == "distance" or suffix == ".xyz"

    for records in _chunks(_sound(path, _FORMATS[suffix](path), errors), _TOGETHER):
        joined = join([molecule for _, molecule in records])
        joined = bonded(joined) if by_distance else joined
        examples = uncollate(batch_of(joined, hydrogens=hydrogens, lengths=lengths))
        for (number, molecule), example, atoms in zip(records, examples, _atom_numbers(joined, hydrogens), strict=True):
            said = {key: legible(value) for key, value in molecule.properties.items()}
            yield Read(f"{path.name}:{number} {legible(molecule.name)}".rstrip(), example, atoms, said)


def _atom_numbers(joined: Joined, hydrogens: str) -> list[tuple[str, ...]]:
    """The numbers, from 1, of the atoms of every molecule in its file; hydrogens that are only counted are no nodes."""
    stays = ~is_counted(joined) if hydrogens == "count" else np.ones(joined.num_atoms, dtype=bool)
    parts = np.split(stays, joined.atom_ptr[1:-1])
    return [tuple(str(k + 1) for k in part.nonzero()[0].tolist()) for part in parts]


def _sound(path: Path, records: Iterator[_Record], errors: list[IncidenceError] | None) -> Iterator[tuple[int, Molecule]]:
    """The molecules that features can be made of; what is wrong with others goes to the list."""
    number = 0
    for number, found in records:
        error = found if isinstance(found, IncidenceError) else _problem(path, number, found)
        if error is None and isinstance(found, Molecule):
            yield number, found
        elif errors is None and error is not None:
            raise error
        elif errors is not None and error is not None:
            errors.append(error)
    if not number:
        raise IncidenceError(f"{path} has no record: a file has at least one molecule.")


def _problem(path: Path, number: int, molecule: Molecule) -> IncidenceError | None:
    try:
        assert_sound(molecule)
    except IncidenceError as error:
        return IncidenceError(f"{path}, record {number}: {error}")
    return None


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def _sdf(path: Path) -> Iterator[_Record]:
    broken: list[IncidenceError] = []
    told = passed = 0
    with within(path):
        for molecule in read_sdf(path, broken):
            for error in broken[told:]:
                passed, told = passed + 1, told + 1
                yield passed, error
            passed += 1
            yield passed, molecule
    for error in broken[told:]:
        passed += 1
        yield passed, error


def _smi(path: Path) -> Iterator[_Record]:
    """Lines of a SMILES, a blank and a name."""
    with within(path), open_text(path) as file:
        lines = (line.strip().partition(" ") for line in (text.replace("\t", " ") for text in file) if line.strip())
        for number, (text, _, title) in enumerate(lines, 1):
            yield number, _molecule(path, number, text, title.strip())


def _csv(path: Path) -> Iterator[_Record]:
    """A table with a column `smiles`."""
    for number, (text,) in enumerate(table(path, ("smiles",)), 1):
        yield number, _molecule(path, number, text, "")


def _molecule(path: Path, number: int, text: str, title: str) -> Molecule | IncidenceError:
    try:
        return from_smiles(legible(text), title)
    except MissingExtraError:
        raise
    except IncidenceError as error:
        return IncidenceError(f"{path}, record {number}: {error}")


def _xyz(path: Path) -> Iterator[_Record]:
    """Blocks of a number of atoms, a title, and so many lines of a symbol and three coordinates."""
    with within(path), open_text(path) as file:
        number = 0
        while head := next((line.strip() for line in file if line.strip()), ""):
            number += 1
            if not head.isdecimal():
                yield number, IncidenceError(f"{path}, record {number}: an XYZ record starts with its number of atoms; got {head!r}.")
                return  # where the next record starts is not known
            title = next(file, "").strip()
            yield number, _atoms(path, number, title, [line.split() for line in islice(file, int(head))], int(head))


def _atoms(path: Path, number: int, title: str, rows: list[list[str]], count: int) -> Molecule | IncidenceError:
    try:
        positions = [[float(word) for word in row[1:4]] for row in rows]
        numbers = [int(row[0]) if row[0].isdecimal() else NUMBER[row[0].capitalize()] for row in rows]
    except (ValueError, KeyError, IndexError):
        positions, numbers = [], []
    if len(numbers) != count or any(len(at) != 3 for at in positions) or not all(0 < n < len(NUMBER) for n in numbers):
        return IncidenceError(f"{path}, record {number}: {count} lines of a symbol and three coordinates must follow the title.")
    atoms = torch.zeros(count, 4, dtype=torch.long)
    atoms[:, 0] = torch.tensor(numbers, dtype=torch.long)
    empty = torch.zeros(2, 0, dtype=torch.long)
    return Molecule(title, atoms, torch.tensor(positions, dtype=torch.float64).view(-1, 3), empty, empty.T)


_FORMATS: dict[str, Callable[[Path], Iterator[_Record]]] = {".sdf": _sdf, ".mol": _sdf, ".smi": _smi, ".csv": _csv, ".xyz": _xyz}

READER = Reader(suffixes=tuple(suffix + end for suffix in _FORMATS for end in ("", ".gz")), read=_read)
"""Reads files of molecules; options `hydrogens`, `lengths` and `bonds`."""
