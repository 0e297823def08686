"""Molecules from SMILES, which RDKit reads; nothing else of it is used."""

from __future__ import annotations

from dataclasses import replace

from incidence.errors import IncidenceError, need
from incidence.geometry.convert.molecule import Molecule
from incidence.geometry.convert.rdkit import from_rdkit

__all__ = ["from_smiles"]


def from_smiles(text: str, name: str = "") -> Molecule:
    """A molecule without positions; double bonds in rings are written out, so that features come from the same rules as for files.

    Raises:
        IncidenceError: RDKit cannot read the text.
        MissingExtraError: RDKit is not installed.

    Example:
        >>> from_smiles("c1ccccc1 ", "benzene").orders.flatten().tolist()
        [2, 1, 2, 1, 2, 1]
    """
    chem = need("rdkit.Chem", "reading SMILES", "convert")
    with need("rdkit.rdBase", "reading SMILES", "convert").BlockLogs():
        found = chem.MolFromSmiles(text.strip())
        if found is None or not text.strip():
            raise IncidenceError(f"RDKit cannot read the SMILES {text.strip()!r}.")
        chem.Kekulize(found, clearAromaticFlags=True)
        chem.RemoveStereochemistry(found)  # no feature tells it, and its labels take time
        return replace(Molecule.of(from_rdkit(found)), name=name or text.strip())
