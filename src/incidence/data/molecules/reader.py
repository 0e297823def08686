"""The reader of molecule files: SDF and MOL, SMILES in lines or tables, XYZ; RDKit makes sense of all of them."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any

from incidence.data.molecules.features import Description, Tables, as_mol, assert_hydrogens, describe
from incidence.data.readers import Read, Reader, legible
from incidence.errors import IncidenceError, need
from incidence.geometry.convert.sdf import Molecule, records
from incidence.structure.examples import uncollate

__all__ = ["READER"]

_TOGETHER = 256  # molecules whose features are made at once: ten times as fast as one by one
_BONDS = ("file", "distance")
_STRETCH = 1.15
"""Atoms are bonded up to this multiple of the sum of their covalent radii: of 1.15, 1.2, 1.25 and 1.3 the one that agrees best with QM9."""
_MOST_TRIES = 10_000  # at orders of bonds, before they all stay single: large molecules that lack hydrogens would take forever
_Record = Molecule | IncidenceError
"""What a record says, or what is wrong with it."""


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
    """
    path = Path(path)
    if bonds not in _BONDS:
        raise IncidenceError(f"bonds is one of {', '.join(_BONDS)}; got {bonds!r}.")
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix not in _FORMATS:
        raise IncidenceError(f"{path} is no file of molecules: those end in {', '.join(_FORMATS)}, and may be compressed (.gz).")
    if not path.is_file():
        raise IncidenceError(f"there is no file {path}.")
    assert_hydrogens(hydrogens)
    need("rdkit.Chem", f"reading {path}", "molecules")
    by_distance = bonds == "distance" or suffix == ".xyz"

    number, numbered = 0, enumerate(_FORMATS[suffix](path), 1)
    while some := list(islice(numbered, _TOGETHER)):
        sound: list[tuple[str, Molecule, Description]] = []
        for number, found in some:
            try:
                if isinstance(found, IncidenceError):
                    raise found
                described = describe(bonded(found.mol) if by_distance else found, hydrogens)
                sound.append((f"{path.name}:{number} {found.name}".rstrip(), found, described))
            except IncidenceError as problem:
                error = problem if str(path) in str(problem) else IncidenceError(f"{path}, record {number}: {problem}")
                if errors is None:
                    raise error from None
                errors.append(error)
        examples = uncollate(Tables.of([described for *_, described in sound], lengths).batch()) if sound else []
        for (name, molecule, described), example in zip(sound, examples, strict=True):
            yield Read(name, example, tuple(str(k + 1) for k in described.nodes), molecule.properties)
    if not number:
        raise IncidenceError(f"{path} has no record: a file has at least one molecule.")


def bonded(mol: Any) -> Any:
    """A copy with the bonds that the distances of its atoms tell, and orders that fill their valences; all hydrogens must be there.

    Where no orders do, all bonds are single.
    """
    chem, bonds = (need(f"rdkit.Chem{part}", "finding bonds", "molecules") for part in ("", ".rdDetermineBonds"))
    if not mol.GetNumAtoms():
        return mol  # it is refused for that
    if not mol.GetNumConformers():
        raise IncidenceError("bonds are found from positions in space, and the molecule has none. Give a file that has them, such as XYZ.")
    found = chem.RWMol(mol)
    with need("rdkit.rdBase", "finding bonds", "molecules").BlockLogs():
        bonds.DetermineConnectivity(found, useVdw=True, covFactor=_STRETCH)
        ordered, charge = chem.Mol(found), chem.GetFormalCharge(found)
        try:
            bonds.DetermineBondOrders(ordered, charge=charge, embedChiral=False, maxIterations=_MOST_TRIES)
        except (ValueError, RuntimeError):
            return found
    return ordered


@contextmanager
def _within(path: Path) -> Iterator[None]:
    """Turns what a damaged file makes libraries raise into one sentence."""
    try:
        yield
    except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
        if isinstance(error, IncidenceError):
            raise
        raise IncidenceError(f"{path} cannot be read ({error}): get the file again.") from error


@contextmanager
def _text(path: Path) -> Iterator[IO[str]]:
    """A text file, plain or compressed with gzip."""
    opener: Callable[..., IO[str]] = gzip.open if path.suffix == ".gz" else open
    with _within(path), opener(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        yield file


def _sdf(path: Path) -> Iterator[_Record]:
    with _within(path):
        yield from records(path)


def _smi(path: Path) -> Iterator[_Record]:
    """Lines of a SMILES, a blank and a name."""
    with _text(path) as file:
        for line in file:
            text, _, title = line.replace("\t", " ").strip().partition(" ")
            if text:
                yield _of_smiles(text, title.strip() or text)


def _csv(path: Path) -> Iterator[_Record]:
    """A table with a column `smiles`, in any case."""
    with _text(path) as file:
        rows = (row for row in csv.reader(file) if any(word.strip() for word in row))
        header = [word.strip().lower() for word in next(rows, [])]
        if "smiles" not in header:
            raise IncidenceError(f"{path} has no column 'smiles'; it has: {', '.join(header) or 'none'}.")
        place = header.index("smiles")
        for row in rows:
            text = row[place].strip() if place < len(row) else ""
            yield _of_smiles(text, text)


def _of_smiles(text: str, title: str) -> _Record:
    try:
        return Molecule(legible(title), as_mol(legible(text)))
    except IncidenceError as error:
        return error


def _xyz(path: Path) -> Iterator[_Record]:
    """Blocks of a number of atoms, a title, and so many lines of a symbol or number and three coordinates."""
    with _text(path) as file:
        while head := next((line.strip() for line in file if line.strip()), ""):
            if not head.isdecimal():
                yield IncidenceError(f"an XYZ record starts with its number of atoms; got {head!r}.")
                return  # where the next record starts is not known
            title = legible(next(file, "").strip())
            mol = _in_space([line.split() for line in islice(file, int(head))], int(head))
            wanted = f"{head} lines of a symbol and three finite coordinates must follow the title."
            yield IncidenceError(wanted) if mol is None else Molecule(title, mol)


def _in_space(rows: list[list[str]], count: int) -> Any:
    """Atoms at their places, without bonds; None if RDKit cannot read them."""
    chem, base = (need(f"rdkit.{part}", "reading XYZ files", "molecules") for part in ("Chem", "rdBase"))
    symbol = chem.GetPeriodicTable().GetElementSymbol
    # Elements that are none, words that are no numbers, empty lines. RDKit takes no exponents, and no further columns.
    with base.BlockLogs(), suppress(RuntimeError, OverflowError, ValueError, IndexError):
        symbols = [symbol(int(row[0])) if row[0].isdecimal() else row[0].capitalize() for row in rows]
        atoms = [" ".join([name, *(f"{float(word):.10f}" for word in row[1:4])]) for name, row in zip(symbols, rows, strict=True)]
        return chem.MolFromXYZBlock("\n".join([str(count), "", *atoms, ""]))
    return None


_FORMATS: dict[str, Callable[[Path], Iterator[_Record]]] = {".sdf": _sdf, ".mol": _sdf, ".smi": _smi, ".csv": _csv, ".xyz": _xyz}

READER = Reader(suffixes=tuple(suffix + end for suffix in _FORMATS for end in ("", ".gz")), read=_read)
"""Reads files of molecules; options `hydrogens`, `lengths` and `bonds`."""
