"""The records of molecule files: SDF and MOL, SMILES in lines or tables, XYZ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from incidence.data.molecules.features import as_mol
from incidence.data.molecules.smiles import read_smiles, smiles_column
from incidence.data.readers import as_float, legible
from incidence.data.tables import Table, open_text, readable
from incidence.errors import IncidenceError, need
from incidence.geometry.convert.sdf import Molecule, records

__all__ = ["FORMATS", "Record", "smiles_records"]


class Record(NamedTuple):
    """Where a record is, as messages say it, and what it says, or what is wrong with it."""

    place: str
    found: Molecule | IncidenceError


def _sdf(path: Path, smiles: str | None) -> Iterator[Record]:
    with readable(path):
        for number, found in enumerate(records(path), 1):
            yield Record(f"record {number}", found)


def _table(path: Path, smiles: str | None) -> Iterator[Record]:
    table = read_smiles(path, smiles)
    return smiles_records(table, smiles_column(table, smiles))


def smiles_records(table: Table, column: str) -> Iterator[Record]:
    """The molecules of a table, each called by its SMILES, with all columns as properties."""
    for number, (place, text) in enumerate(zip(table.places, table[column], strict=True)):
        try:
            if not text:
                raise IncidenceError("there is no SMILES.")
            yield Record(place, Molecule(text, as_mol(text), table.row(number)))
        except IncidenceError as error:
            yield Record(place, error)


def _lines(path: Path, smiles: str | None) -> Iterator[Record]:
    """Lines of a SMILES and perhaps a name; or a table, if there are more columns or names of columns."""
    table = read_smiles(path, smiles)
    first, *others = table.columns
    are_named = (
        len(others) == 1
        and not table.has_names
        and any(as_float(text) is None for text in table[others[0]] if text)
    )
    if len(others) > are_named or smiles is not None:
        yield from smiles_records(table, smiles_column(table, smiles))
        return
    titles = table[others[0]] if are_named else [""] * len(table)
    for (place, found), title in zip(smiles_records(table, first), titles, strict=True):
        yield Record(
            place, replace(found, name=title) if isinstance(found, Molecule) and title else found
        )


def _xyz(path: Path, smiles: str | None) -> Iterator[Record]:
    """Blocks of a number of atoms, a title, and so many lines of a symbol or number and three coordinates."""
    with open_text(path) as file:
        number = 0
        while head := next((line.strip() for line in file if line.strip()), ""):
            number += 1
            if not head.isdecimal():
                yield Record(
                    f"record {number}",
                    IncidenceError(f"an XYZ record starts with its number of atoms; got {head!r}."),
                )
                return  # where the next record starts is not known
            title = legible(next(file, "").strip())
            mol = _in_space([line.split() for line in islice(file, int(head))], int(head))
            wanted = f"{head} lines of a symbol and three finite coordinates must follow the title."
            yield Record(
                f"record {number}", IncidenceError(wanted) if mol is None else Molecule(title, mol)
            )


def _in_space(rows: list[list[str]], count: int) -> Any:
    """Atoms at their places, without bonds; None if RDKit cannot read them."""
    chem, base = (
        need(f"rdkit.{part}", "reading XYZ files", "molecules") for part in ("Chem", "rdBase")
    )
    symbol = chem.GetPeriodicTable().GetElementSymbol
    # Elements that are none, words that are no numbers, empty lines. RDKit takes no exponents, and no further columns.
    with base.BlockLogs(), suppress(RuntimeError, OverflowError, ValueError, IndexError):
        symbols = [
            symbol(int(row[0])) if row[0].isdecimal() else row[0].capitalize() for row in rows
        ]
        atoms = [
            " ".join([name, *(f"{float(word):.10f}" for word in row[1:4])])
            for name, row in zip(symbols, rows, strict=True)
        ]
        return chem.MolFromXYZBlock("\n".join([str(count), "", *atoms, ""]))
    return None


FORMATS: dict[str, Callable[[Path, str | None], Iterator[Record]]] = {
    ".sdf": _sdf, ".mol": _sdf, ".smi": _lines, ".smiles": _lines, ".csv": _table, ".tsv": _table, ".xyz": _xyz,
}  # fmt: skip
"""By suffix, from a path and the column of SMILES, if it was named, to the records of a file."""
