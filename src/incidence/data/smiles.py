"""SMILES in tables: which column has them; and the scaffolds of molecules."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from incidence.data.dataset import DataSet
from incidence.data.tables import TextTable, as_float, listed, read_table
from incidence.errors import IncidenceError, need

__all__ = [
    "are_smiles",
    "find_smiles",
    "has_smiles_name",
    "is_molecule",
    "read_smiles",
    "scaffolds",
    "smiles_column",
    "smiles_of",
]

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
