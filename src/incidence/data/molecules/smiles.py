"""SMILES in tables: which column has them, and whether the first line of a file names its columns."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from incidence.data.dataset import DataSet
from incidence.data.readers import as_float
from incidence.data.tables import Table, listed, read_table
from incidence.errors import IncidenceError, need

__all__ = [
    "are_smiles",
    "find_smiles",
    "is_known",
    "is_molecule",
    "read_smiles",
    "smiles_column",
    "smiles_of",
]

_KNOWN = {
    "smiles",
    "smi",
    "canonical_smiles",
    "isomeric_smiles",
    "mol",
    "molecule",
    "structure",
    "compound",
}
"""What people call the column, in small letters and without blanks."""
_LOOKED_AT, _SHORT = 30, 2


def read_smiles(path: Path, asked: str | None = None) -> Table:
    """A table that has SMILES, whose first line may be a molecule already: the columns are then `column 1`, `column 2`, ...

    Files that end in `.smi` or `.smiles` have names of columns only if one of them is a name that people give to SMILES.
    """
    is_list = any(suffix.lower() in (".smi", ".smiles") for suffix in path.suffixes)
    return read_table(
        path,
        lambda first, others: (
            asked in first or is_known(first) or not (is_list or is_molecule(first, others))
        ),
    )


def is_known(first: Sequence[str]) -> bool:
    """Whether one of some words is a name that people give to SMILES."""
    return any(_plain(word) in _KNOWN for word in first)


def is_molecule(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Whether a line has a molecule above other molecules, if there are any."""
    below = [[row[k] for row in others if k < len(row)] for k in range(len(first))]
    return any(
        are_smiles([word]) and (not texts or are_smiles(texts))
        for word, texts in zip(first, below, strict=True)
    )


def smiles_column(table: Table, asked: str | None = None) -> str:
    """The column of a table that has SMILES: the one asked for, or the one that is clear.

    Raises:
        IncidenceError: It is not there, none is clear, or several are.
    """
    if asked is not None:
        return table.named(asked)
    found = find_smiles(table)
    if len(found) != 1:
        what = (
            f"could be any of: {listed(found)}" if found else f"is none of: {listed(table.columns)}"
        )
        raise IncidenceError(
            f"{table.source}: which column has the SMILES is not clear, it {what}. Say which with --smiles."
        )
    return found[0]


def find_smiles(table: Table) -> list[str]:
    """The columns that may have SMILES: those that are called so, else those whose first values RDKit can read.

    Names of one or two letters, such as `C` and `no`, are SMILES as well: they are taken for some only where the column is called so.
    """
    by_name = [name for name in table.columns if _plain(name) == "smiles"] or [
        name for name in table.columns if "smiles" in _plain(name)
    ]
    if by_name:
        return by_name
    by_content = [name for name, texts in table.columns.items() if are_smiles(texts)]
    known = [name for name in by_content if _plain(name) in _KNOWN]
    return known or [name for name in by_content if any(len(text) > _SHORT for text in table[name])]


def smiles_of(data: DataSet) -> Sequence[str]:
    """The SMILES of all molecules of a data set, from the column that was asked for, else from one that seems to have them; or nothing."""
    asked = str(data.reader_options.get("smiles", ""))
    found = (
        [asked]
        if asked in data.columns
        else find_smiles(Table(data.name, data.columns, data.names))
    )
    return data.columns[found[0]] if found else ()


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_")


def are_smiles(texts: Sequence[str]) -> bool:
    """Whether RDKit can read the first few texts as molecules, or half of them; numbers are none."""
    some = [text for text in texts if text][:_LOOKED_AT]
    if not some or find_spec("rdkit") is None or any(as_float(text) is not None for text in some):
        return False
    chem = need("rdkit.Chem", "reading SMILES", "molecules")
    with need("rdkit.rdBase", "reading SMILES", "molecules").BlockLogs():
        bad = sum(
            not text.isascii() or chem.MolFromSmiles(text, sanitize=False) is None for text in some
        )
    return bad <= len(some) // 2 and bad < len(some)
