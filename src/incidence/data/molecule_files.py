"""Molecules from files: SDF and MOL, SMILES in lines or tables, XYZ; RDKit reads all of them.

`find_smiles` says which column of a table has SMILES, and `scaffolds` groups molecules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from incidence.data.columnar import COLUMNAR
from incidence.data.dataset import DataSet, Record
from incidence.data.molecules import (
    Description,
    MoleculeTables,
    as_mol,
    assert_hydrogens,
    describe,
)
from incidence.data.tables import (
    RowError,
    TextTable,
    as_float,
    legible,
    listed,
    open_text,
    read_table,
    readable,
)
from incidence.errors import IncidenceError, need
from incidence.geometry.convert.sdf import Molecule, records
from incidence.structure.collate import uncollate

__all__ = [
    "FORMATS",
    "MoleculeRecord",
    "are_smiles",
    "find_smiles",
    "has_smiles_name",
    "is_mol",
    "is_molecule",
    "read_molecules",
    "read_records",
    "read_smiles",
    "scaffolds",
    "smiles_column",
    "smiles_of",
    "smiles_records",
    "to_smiles",
]

_TOGETHER = 256  # molecules whose features are computed at once: ten times as fast as one by one
_BONDS = ("file", "distance")
# Atoms are bonded up to this multiple of the sum of their covalent radii: of 1.15, 1.2, 1.25 and
# 1.3 the one that agrees best with QM9.
_STRETCH = 1.15
# Orders of bonds that RDKit tries before all bonds stay single: large molecules that lack
# hydrogens would take forever.
_MOST_TRIES = 10_000


class MoleculeRecord(NamedTuple):
    """A molecule of a file, or the error in its record.

    Attributes:
        place: Where the record is, for messages.
        molecule: The molecule, or what is wrong with the record; None to leave it out.
    """

    place: str
    molecule: Molecule | IncidenceError | None


def read_molecules(
    path: Path,
    errors: list[IncidenceError] | None = None,
    *,
    hydrogens: str = "count",
    lengths: bool = False,
    bonds: str = "file",
    smiles: str | None = None,
) -> Iterator[Record]:
    """Read the molecules of a file, with features.

    Args:
        path: The file.
        errors: Collects the errors of single records; the first one is raised if None.
        hydrogens: As for `features_of`.
        lengths: As for `features_of`.
        bonds: `file`, or `distance` to find bonds from positions in space.
        smiles: The column of a table that has the SMILES, if it is not clear.

    Raises:
        IncidenceError: The file is no file of molecules, or an option has a wrong value.
    """
    path = Path(path)
    if bonds not in _BONDS:
        raise IncidenceError(f"bonds is one of {', '.join(_BONDS)}; got {bonds!r}.")
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix not in FORMATS:
        raise IncidenceError(
            f"{path} is no file of molecules: those end in {', '.join(FORMATS)}, and may be"
            " compressed (.gz)."
        )
    if not path.is_file():
        raise IncidenceError(f"there is no file {path}.")
    assert_hydrogens(hydrogens)
    need("rdkit.Chem", f"reading {path}", "molecules")
    return read_records(
        FORMATS[suffix](path, smiles),
        path.name,
        str(path),
        errors,
        hydrogens=hydrogens,
        lengths=lengths,
        by_distance=bonds == "distance" or suffix == ".xyz",
    )


class _Described(NamedTuple):
    name: str
    molecule: Molecule
    description: Description
    row: int = 0


def read_records(
    records: Iterable[MoleculeRecord],
    name: str,
    source: str,
    errors: list[IncidenceError] | None,
    *,
    hydrogens: str = "count",
    lengths: bool = False,
    by_distance: bool = False,
) -> Iterator[Record]:
    """Read molecules with features.

    Args:
        records: The molecules.
        name: What they are called, with their number.
        source: What messages call the data.
        errors: Collects the errors of single molecules; the first one is raised if None.
        hydrogens: As for `features_of`.
        lengths: As for `features_of`.
        by_distance: Whether to find bonds from positions in space.

    Raises:
        IncidenceError: There is no record.
    """
    number, remaining = 0, enumerate(records, 1)
    # Of each chunk, features are computed together; the molecules of RDKit are then dropped.
    while some := list(islice(remaining, _TOGETHER)):
        described: list[_Described] = []
        for number, (place, molecule) in some:
            if molecule is None:
                continue
            # rows of a frame are called by their labels already
            called = place if place.startswith(f"{name} ") else f"{name}:{number}"
            try:
                one = _described(called, molecule, hydrogens, by_distance)
                described.append(one._replace(row=number - 1))
            except IncidenceError as problem:
                where = "" if source in str(problem) else f"{source}, {place}: "
                error = RowError(f"{where}{problem}", number - 1)
                if errors is None:
                    raise error from None
                errors.append(error)
        if not described:
            continue
        tables = MoleculeTables.of([one.description for one in described], lengths)
        for one, example in zip(described, uncollate(tables.batch()), strict=True):
            nodes = tuple(str(k + 1) for k in one.description.nodes)
            yield Record(one.name, example, nodes, one.molecule.properties, row=one.row)
    if not number:
        raise IncidenceError(f"{source} has no record: a file has at least one molecule.")


def _described(
    name: str, molecule: Molecule | IncidenceError, hydrogens: str, by_distance: bool
) -> _Described:
    if isinstance(molecule, IncidenceError):
        raise molecule
    source = bonded(molecule.mol) if by_distance else molecule
    return _Described(f"{name} {molecule.name}".rstrip(), molecule, describe(source, hydrogens))


def bonded(mol: Any) -> Any:
    """Return a copy with bonds by the distances of atoms, and orders that fill their valences.

    All hydrogens must be there. Where no orders fill the valences, all bonds are single.
    """
    chem, bonds = (
        need(f"rdkit.Chem{part}", "finding bonds", "molecules")
        for part in ("", ".rdDetermineBonds")
    )
    if not mol.GetNumAtoms():
        return mol  # `describe` refuses it
    if not mol.GetNumConformers():
        raise IncidenceError(
            "bonds are found from positions in space, and the molecule has none. Give a file that"
            " has them, such as XYZ."
        )
    single = chem.RWMol(mol)
    with need("rdkit.rdBase", "finding bonds", "molecules").BlockLogs():
        bonds.DetermineConnectivity(single, useVdw=True, covFactor=_STRETCH)
        # RDKit changes the molecule that it is given, also where it fails.
        ordered, charge = chem.Mol(single), chem.GetFormalCharge(single)
        try:
            bonds.DetermineBondOrders(
                ordered, charge=charge, embedChiral=False, maxIterations=_MOST_TRIES
            )
        except (ValueError, RuntimeError):
            return single
    return ordered


def _sdf_records(path: Path, smiles: str | None) -> Iterator[MoleculeRecord]:
    with readable(path):
        for number, molecule in enumerate(records(path), 1):
            yield MoleculeRecord(f"record {number}", molecule)


def _table_records(path: Path, smiles: str | None) -> Iterator[MoleculeRecord]:
    table = read_smiles(path, smiles)
    return smiles_records(table, smiles_column(table, smiles))


def smiles_records(
    table: TextTable, column: str, wanted: Sequence[bool] | None = None
) -> Iterator[MoleculeRecord]:
    """Yield the molecules of a table, named by their SMILES, with all columns as properties.

    Args:
        table: The table.
        column: The column of the SMILES.
        wanted: Whether to make a molecule of each row; of all by default.
    """
    for number, (place, text) in enumerate(zip(table.places, table[column], strict=True)):
        if wanted is not None and not wanted[number]:
            yield MoleculeRecord(place, None)
            continue
        try:
            if not text:
                raise IncidenceError("there is no SMILES.")
            yield MoleculeRecord(place, Molecule(text, as_mol(text), table.row(number)))
        except IncidenceError as error:
            yield MoleculeRecord(place, error)


def _line_records(path: Path, smiles: str | None) -> Iterator[MoleculeRecord]:
    """Yield the molecules of lines with a SMILES and perhaps a name, or of a table."""
    table = read_smiles(path, smiles)
    first, *others = table.columns
    # a lone second column without a header has names of molecules, unless it has numbers
    are_titles = (
        len(others) == 1
        and not table.has_names
        and any(as_float(text) is None for text in table[others[0]] if text)
    )
    if smiles is not None or (others and not are_titles):
        yield from smiles_records(table, smiles_column(table, smiles))
        return
    titles = table[others[0]] if are_titles else [""] * len(table)
    for (place, molecule), title in zip(smiles_records(table, first), titles, strict=True):
        if isinstance(molecule, Molecule) and title:
            molecule = replace(molecule, name=title)
        yield MoleculeRecord(place, molecule)


def _xyz_records(path: Path, smiles: str | None) -> Iterator[MoleculeRecord]:
    """Yield the molecules of blocks: a number of atoms, a title, and a line for each atom."""
    with open_text(path) as file:
        number = 0
        while head := next((line.strip() for line in file if line.strip()), ""):
            number += 1
            place = f"record {number}"
            if not head.isdecimal():
                problem = f"an XYZ record starts with its number of atoms; got {head!r}."
                yield MoleculeRecord(place, IncidenceError(problem))
                return  # where the next record starts is not known
            title = legible(next(file, "").strip())
            mol = _mol_in_space([line.split() for line in islice(file, int(head))], int(head))
            if mol is None:
                problem = f"{head} lines of a symbol and three finite coordinates must follow the"
                yield MoleculeRecord(place, IncidenceError(f"{problem} title."))
            else:
                yield MoleculeRecord(place, Molecule(title, mol))


def _mol_in_space(rows: list[list[str]], count: int) -> Any:
    """Return atoms at their places, without bonds; None if RDKit cannot read them."""
    chem, base = (
        need(f"rdkit.{part}", "reading XYZ files", "molecules") for part in ("Chem", "rdBase")
    )
    symbol = chem.GetPeriodicTable().GetElementSymbol
    # Unknown elements, words that are no numbers, and empty lines raise errors.
    with base.BlockLogs(), suppress(RuntimeError, OverflowError, ValueError, IndexError):
        lines = []
        for name, *numbers in rows:
            element = symbol(int(name)) if name.isdecimal() else name.capitalize()
            # RDKit reads neither exponents nor further columns
            place = " ".join(f"{float(word):.10f}" for word in numbers[:3])
            lines.append(f"{element} {place}")
        return chem.MolFromXYZBlock("\n".join([str(count), "", *lines, ""]))
    return None


FORMATS: dict[str, Callable[[Path, str | None], Iterator[MoleculeRecord]]] = {
    ".sdf": _sdf_records,
    ".mol": _sdf_records,
    ".smi": _line_records,
    ".smiles": _line_records,
    ".csv": _table_records,
    ".tsv": _table_records,
    **dict.fromkeys(COLUMNAR, _table_records),
    ".xyz": _xyz_records,
}
"""By suffix, a function of a path and of the column of SMILES, if it is known."""


_NAMES = {
    "smiles",
    "smi",
    "canonical_smiles",
    "isomeric_smiles",
    "mol",
    "molecule",
    "structure",
    "compound",
}
"""What people call a column of SMILES, in small letters and with `_` for blanks."""
_MOST_TRIED = 30  # values of a column that RDKit is given
_SHORT = 2  # letters of a name, such as `C` and `no`, that is a SMILES, too


def read_smiles(path: Path, column: str | None = None) -> TextTable:
    """Read a table that has SMILES; its first line may be a molecule.

    Files that end in `.smi` or `.smiles` have names of columns only if one of them is a usual name
    for SMILES.

    Args:
        path: The file.
        column: The column of SMILES, if it is known.
    """
    is_list = any(suffix.lower() in (".smi", ".smiles") for suffix in path.suffixes)

    def has_names(first: list[str], others: list[list[str]]) -> bool:
        if column in first or has_smiles_name(first):
            return True
        return not (is_list or is_molecule(first, others))

    return read_table(path, has_names)


def has_smiles_name(words: Sequence[str]) -> bool:
    """Return whether some word is a usual name for a column of SMILES."""
    return any(_plain(word) in _NAMES for word in words)


def is_molecule(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Return whether a line has a molecule, above other molecules if there are lines below."""
    for k, word in enumerate(first):
        below = [row[k] for row in others if k < len(row)]
        if are_smiles([word]) and (not below or are_smiles(below)):
            return True
    return False


def smiles_column(table: TextTable, column: str | None = None) -> str:
    """Return the column of a table that has SMILES: the given one, or the one that is clear.

    Raises:
        IncidenceError: It is not there, none is clear, or several are.
    """
    if column is not None:
        return table.named(column)
    columns = find_smiles(table)
    if len(columns) == 1:
        return columns[0]
    problem = f"is none of: {listed(table.columns)}"
    if columns:
        problem = f"could be any of: {listed(columns)}"
    raise IncidenceError(
        f"{table.source}: which column has the SMILES is not clear, it {problem}. Say which with"
        " --smiles."
    )


def find_smiles(table: TextTable) -> list[str]:
    """Return the columns that may have SMILES: those with such a name, or with such values.

    Short names, such as `C` and `no`, are SMILES as well. A column that has nothing else counts
    only if it has a usual name.
    """
    # `smiles` wins over `canonical_smiles` beside it.
    exact = [name for name in table.columns if _plain(name) == "smiles"]
    by_name = exact or [name for name in table.columns if "smiles" in _plain(name)]
    if by_name:
        return by_name
    by_content = [name for name, texts in table.columns.items() if are_smiles(texts)]
    usual = [name for name in by_content if _plain(name) in _NAMES]
    return usual or [name for name in by_content if any(len(text) > _SHORT for text in table[name])]


def smiles_of(data: DataSet) -> Sequence[str]:
    """Return the SMILES of all molecules of a data set, or nothing if it has no such column."""
    column = str(data.reader_options.get("smiles", ""))
    if column in data.columns:
        return data.columns[column]
    columns = find_smiles(TextTable(data.name, data.columns, data.names))
    return data.columns[columns[0]] if columns else ()


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_")


def is_mol(what: Any) -> bool:
    """Return whether something is a molecule of RDKit, without importing it."""
    chem = sys.modules.get("rdkit.Chem")
    return chem is not None and isinstance(what, chem.Mol)


def to_smiles(mol: Any) -> str:
    """Return the SMILES of a molecule of RDKit."""
    return str(need("rdkit.Chem", "reading molecules", "molecules").MolToSmiles(mol))


def are_smiles(texts: Sequence[str]) -> bool:
    """Return whether RDKit reads the first few texts, or half of them, as molecules."""
    tried = [text for text in texts if text][:_MOST_TRIED]
    if not tried or find_spec("rdkit") is None or any(as_float(text) is not None for text in tried):
        return False
    chem = need("rdkit.Chem", "reading SMILES", "molecules")
    with need("rdkit.rdBase", "reading SMILES", "molecules").BlockLogs():
        num_bad = sum(
            not text.isascii() or chem.MolFromSmiles(text, sanitize=False) is None for text in tried
        )
    # Some rows of a real table are broken; half of them may be, but a lone text that fails is no
    # SMILES.
    return num_bad <= len(tried) // 2 and num_bad < len(tried)


def scaffolds(smiles: Sequence[str]) -> list[str]:
    """Return the scaffold of Bemis and Murcko of every molecule, as a SMILES.

    It is what is left of a molecule without side chains: empty without rings.

    Example:
        >>> scaffolds(["CCc1ccccc1", "Oc1ccccc1", "CCO"])
        ['c1ccccc1', 'c1ccccc1', '']
    """
    purpose = "scaffolds of molecules"
    chem = need("rdkit.Chem", purpose, "molecules")
    murcko = need("rdkit.Chem.Scaffolds.MurckoScaffold", purpose, "molecules")
    found = []
    # the reader has warned of what RDKit cannot read
    with need("rdkit.rdBase", purpose, "molecules").BlockLogs():
        for text in smiles:
            mol = chem.MolFromSmiles(text)
            scaffold = ""
            if mol is not None:
                scaffold = str(murcko.MurckoScaffoldSmiles(mol=mol, includeChirality=False))
            found.append(scaffold)
    return found
