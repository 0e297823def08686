"""Scaffolds of molecules: what is left of them without side chains, so that similar molecules stay in one part."""

from __future__ import annotations

from collections.abc import Sequence

from incidence.errors import need

__all__ = ["scaffolds"]


def scaffolds(smiles: Sequence[str]) -> list[str]:
    """The scaffold of Bemis and Murcko of every molecule, as a SMILES; a molecule without rings has none, and is a group of its own kind.

    Example:
        >>> scaffolds(["CCc1ccccc1", "Oc1ccccc1", "CCO"])
        ['c1ccccc1', 'c1ccccc1', '']
    """
    chem = need("rdkit.Chem", "scaffolds of molecules", "molecules")
    murcko = need("rdkit.Chem.Scaffolds.MurckoScaffold", "scaffolds of molecules", "molecules")
    with need(
        "rdkit.rdBase", "scaffolds of molecules", "molecules"
    ).BlockLogs():  # what it cannot read was told by the reader
        mols = [chem.MolFromSmiles(text) for text in smiles]
        return [
            "" if mol is None else str(murcko.MurckoScaffoldSmiles(mol=mol, includeChirality=False))
            for mol in mols
        ]
