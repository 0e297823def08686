"""The reader of molecule files: SDF and MOL, SMILES in lines or tables, XYZ; RDKit makes sense of all of them."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from incidence.data.molecules.features import as_mol, tables_of
from incidence.data.readers import Read, Reader, legible
from incidence.errors import IncidenceError, MissingExtraError, need
from incidence.geometry.convert.sdf import Molecule, read_sdf
from incidence.structure.examples import uncollate

__all__ = ["READER", "bonded"]

_TOGETHER = 256  # molecules whose features are made at once: ten times as fast as one by one
_BONDS = ("file", "distance")
_STRETCH = 1.15
"""Atoms are bonded up to this multiple of the sum of their covalent radii: of 1.15, 1.2, 1.25 and 1.3 the one that agrees best with QM9."""
_MOST_TRIES = 10_000  # at orders of bonds, before they all stay single: large molecules that lack hydrogens would take forever


class _Record(NamedTuple):
    """The number of a record, and what it says or what is wrong with it."""

    number: int
    found: Molecule | IncidenceError


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
        MissingExtraError: RDKit is not installed.
    """
    path = Path(path)
    if bonds not in _BONDS:
        raise IncidenceError(f"bonds is one of {', '.join(_BONDS)}; got {bonds!r}.")
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix not in _FORMATS:
        raise IncidenceError(f"{path} is no file of molecules: those end in {', '.join(_FORMATS)}, and may be compressed (.gz).")
    if not path.is_file():
        raise IncidenceError(f"there is no file {path}.")
    need("rdkit.Chem", f"reading {path}", "molecules")
    by_distance = bonds == "distance" or suffix == ".xyz"

    def features(molecules: list[Molecule]) -> list[tuple[Any, list[str]]]:
        mols = [bonded(m.mol) if by_distance else m.mol for m in molecules]
        tables = tables_of(mols, hydrogens=hydrogens, lengths=lengths)
        return list(zip(uncollate(tables.batch()), [[str(k + 1) for k in own] for own in tables.nodes], strict=True))

    number, records = 0, _FORMATS[suffix](path)
    while some := list(islice(records, _TOGETHER)):
        number = some[-1].number
        for record, made in _each(features, some):
            if isinstance(made, IncidenceError):
                error = made if str(path) in str(made) else IncidenceError(f"{path}, record {record.number}: {made}")
                if errors is None:
                    raise error
                errors.append(error)
                continue
            example, atoms = made
            assert isinstance(record.found, Molecule)
            name = f"{path.name}:{record.number} {record.found.name}".rstrip()
            yield Read(name, example, tuple(atoms), record.found.properties)
    if not number:
        raise IncidenceError(f"{path} has no record: a file has at least one molecule.")


def _each(features: Callable[[list[Molecule]], list[Any]], records: list[_Record]) -> Iterator[tuple[_Record, Any]]:
    """What is made of each record, or its error; if one cannot be made, of every one on its own, so that the others are not lost."""
    sound = [record.found for record in records if isinstance(record.found, Molecule)]
    try:
        made = iter(features(sound) if sound else [])
    except IncidenceError as error:
        if len(sound) > 1:
            for record in records:
                yield from _each(features, [record])
            return
        made = iter([error])
    for record in records:
        yield record, record.found if isinstance(record.found, IncidenceError) else next(made)


def bonded(mol: Any) -> Any:
    """A copy with the bonds that the distances of its atoms tell, and orders that fill their valences; all hydrogens must be there.

    Where no orders do, all bonds are single.
    """
    chem, bonds = (need(f"rdkit.Chem{part}", "finding bonds", "molecules") for part in ("", ".rdDetermineBonds"))
    found = chem.RWMol(mol)
    for bond in list(found.GetBonds()):
        found.RemoveBond(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
    with need("rdkit.rdBase", "finding bonds", "molecules").BlockLogs():
        bonds.DetermineConnectivity(found, useVdw=True, covFactor=_STRETCH)
        ordered = chem.Mol(found)
        try:
            charge = sum(atom.GetFormalCharge() for atom in found.GetAtoms())
            bonds.DetermineBondOrders(ordered, charge=charge, embedChiral=False, maxIterations=_MOST_TRIES)
        except (ValueError, RuntimeError):
            return found
    return ordered


def in_space(numbers: NDArray[Any], positions: NDArray[Any]) -> Any:
    """Atoms at their places, without bonds.

    Raises:
        IncidenceError: A position is no finite number.
    """
    chem = need("rdkit.Chem", "a molecule in space", "molecules")
    if not np.isfinite(positions).all():
        raise IncidenceError("the molecule has a position that is not a finite number. Correct the file.")
    found, conformer = chem.RWMol(), chem.Conformer(len(numbers))
    for number in numbers.tolist():
        found.AddAtom(chem.Atom(number))
    conformer.SetPositions(np.ascontiguousarray(positions, dtype=np.float64))
    found.AddConformer(conformer)
    return found


# ---- formats


_DAMAGE = (OSError, EOFError, ValueError, csv.Error, zlib.error)
"""What reading a damaged file may raise."""


@contextmanager
def _within(path: Path) -> Iterator[None]:
    """Turns what a damaged file makes libraries raise into one sentence."""
    try:
        yield
    except IncidenceError:
        raise
    except _DAMAGE as error:
        raise IncidenceError(f"{path} cannot be read ({error}): get the file again.") from error


@contextmanager
def _text(path: Path) -> Iterator[IO[str]]:
    """A text file, plain or compressed with gzip."""
    opener: Callable[..., IO[str]] = gzip.open if path.suffix == ".gz" else open
    with _within(path), opener(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        yield file


def _sdf(path: Path) -> Iterator[_Record]:
    broken: list[IncidenceError] = []
    told = number = 0
    with _within(path):
        for molecule in read_sdf(path, broken):
            for error in broken[told:]:
                number, told = number + 1, told + 1
                yield _Record(number, error)
            number += 1
            yield _Record(number, molecule)
    for error in broken[told:]:
        number += 1
        yield _Record(number, error)


def _smi(path: Path) -> Iterator[_Record]:
    """Lines of a SMILES, a blank and a name."""
    with _text(path) as file:
        lines = (line.strip().partition(" ") for line in (text.replace("\t", " ") for text in file) if line.strip())
        for number, (text, _, title) in enumerate(lines, 1):
            yield _Record(number, _molecule(text, title.strip()))


def _csv(path: Path) -> Iterator[_Record]:
    """A table with a column `smiles`, in any case."""
    with _text(path) as file:
        rows = (row for row in csv.reader(file) if any(word.strip() for word in row))
        header = [word.strip().lower() for word in next(rows, [])]
        if "smiles" not in header:
            raise IncidenceError(f"{path} has no column 'smiles'; it has: {', '.join(header) or 'none'}.")
        place = header.index("smiles")
        for number, row in enumerate(rows, 1):
            yield _Record(number, _molecule(row[place].strip() if place < len(row) else "", ""))


def _molecule(text: str, title: str) -> Molecule | IncidenceError:
    try:
        return Molecule(legible(title or text), as_mol(legible(text)))
    except MissingExtraError:
        raise
    except IncidenceError as error:
        return error


def _xyz(path: Path) -> Iterator[_Record]:
    """Blocks of a number of atoms, a title, and so many lines of a symbol and three coordinates."""
    with _text(path) as file:
        number = 0
        while head := next((line.strip() for line in file if line.strip()), ""):
            number += 1
            if not head.isdecimal():
                yield _Record(number, IncidenceError(f"an XYZ record starts with its number of atoms; got {head!r}."))
                return  # where the next record starts is not known
            title = legible(next(file, "").strip())
            yield _Record(number, _atoms(title, [line.split() for line in islice(file, int(head))], int(head)))


def _atoms(title: str, rows: list[list[str]], count: int) -> Molecule | IncidenceError:
    chem, base = (need(f"rdkit.{part}", "reading XYZ files", "molecules") for part in ("Chem", "rdBase"))
    table = chem.GetPeriodicTable()
    try:
        positions = np.array([[float(word) for word in row[1:4]] for row in rows]).reshape(count, 3)
        with base.BlockLogs():
            numbers = [int(row[0]) if row[0].isdecimal() else table.GetAtomicNumber(row[0].capitalize()) for row in rows]
            return Molecule(title, in_space(np.array(numbers, dtype=np.int64), positions))
    except IncidenceError as error:
        return error
    except (ValueError, IndexError, RuntimeError):  # the last is what RDKit says to a symbol or number that it does not know
        return IncidenceError(f"{count} lines of a symbol and three coordinates must follow the title.")


_FORMATS: dict[str, Callable[[Path], Iterator[_Record]]] = {".sdf": _sdf, ".mol": _sdf, ".smi": _smi, ".csv": _csv, ".xyz": _xyz}

READER = Reader(suffixes=tuple(suffix + end for suffix in _FORMATS for end in ("", ".gz")), read=_read)
"""Reads files of molecules; options `hydrogens`, `lengths` and `bonds`."""
