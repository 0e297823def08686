"""Molecules from SMILES, which RDKit reads; nothing else of it is used."""

from __future__ import annotations

from typing import Any

import torch

from incidence.errors import IncidenceError, need
from incidence.geometry.convert.molecule import Molecule

__all__ = ["from_smiles"]

_ORDERS = {1.0: 1, 2.0: 2, 3.0: 3}
_OTHER = 9  # dative and the like, which count for no valence


def from_smiles(text: str, name: str = "") -> Molecule:
    """A molecule without positions; double bonds in rings are written out, so that features come from the same rules as for files.

    Raises:
        IncidenceError: RDKit cannot read the text.
        MissingExtraError: RDKit is not installed.

    Example:
        >>> sorted(from_smiles("c1ccccc1 ", "benzene").orders.flatten().tolist())
        [1, 1, 1, 2, 2, 2]
    """
    chem = need("rdkit.Chem", "reading SMILES", "convert")
    with need("rdkit.rdBase", "reading SMILES", "convert").BlockLogs():
        found = chem.MolFromSmiles(text.strip()) if text.isascii() else None  # RDKit would drop the end of such a text in silence
        if found is None or not text.strip():
            raise IncidenceError(f"RDKit cannot read the SMILES {text.strip()!r}.")
        chem.Kekulize(found, clearAromaticFlags=True)
    return _molecule(found, name or text.strip())


def _molecule(found: Any, name: str) -> Molecule:
    # `from_rdkit` would work out stereochemistry and a structure, too: three times as slow, and no feature needs them.
    atoms = [(a.GetAtomicNum(), a.GetFormalCharge(), a.GetIsotope(), a.GetNumRadicalElectrons()) for a in found.GetAtoms()]
    rows = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx(), _order(b)) for b in found.GetBonds()]
    bonds = torch.tensor(rows, dtype=torch.long).view(-1, 3)
    return Molecule(
        name=name,
        atoms=torch.tensor(atoms, dtype=torch.long).view(-1, 4),
        positions=torch.zeros(len(atoms), 3, dtype=torch.float64),
        bonds=bonds[:, :2].T.contiguous(),
        orders=bonds[:, 2:].contiguous(),
    )


def _order(bond: Any) -> int:
    return _OTHER if bond.GetBondType().name == "DATIVE" else _ORDERS.get(bond.GetBondTypeAsDouble(), _OTHER)
