"""Aqueous solubility: the data set that comes with the package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import torch

from incidence.data.dataset import DataSet, Split, Task
from incidence.data.molecules.features import batch_of
from incidence.data.molecules.joined import Joined, starts
from incidence.data.molecules.tables import Array
from incidence.structure.examples import uncollate

__all__ = ["load_solubility", "names"]


def load_solubility(name: str = "solubility", folder: Path | None = None) -> DataSet:
    """Aqueous solubility of 1,025 molecules for training and 257 for the test, with chemical features.

    Args:
        name: What the data set is called.
        folder: Not needed: the data is part of the package.
    """
    arrays = _arrays()
    target = torch.from_numpy(arrays["solubility"])[:, None]
    num_train, count = int(arrays["num_train"]), len(target)
    train = torch.arange(num_train)
    return DataSet(
        name=name,
        examples=uncollate(batch_of(_joined(arrays), target)),
        task=Task("regression", ("solubility",), unit="log mol/l"),
        splits=(Split(train, train[:0], torch.arange(num_train, count)),),
        reader="molecule",
        about=_text(arrays["about"]),
        metric="rmse",
    )


def names() -> list[str]:
    """What the molecules are called, in the order of the examples."""
    return _text(_arrays()["names"]).split("\n")


def _text(value: Array) -> str:
    return value.tobytes().decode()


def _arrays() -> dict[str, Array]:
    with files("incidence.data").joinpath("solubility.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def _joined(arrays: dict[str, Array]) -> Joined:
    atom_ptr, bond_ptr = (starts(arrays[key]) for key in ("num_atoms", "num_bonds"))
    count = len(arrays["numbers"])
    atoms = np.zeros((count, 4), dtype=np.int64)
    atoms[:, 0], atoms[:, 1] = arrays["numbers"], arrays["charges"]
    positions = np.zeros((count, 3))
    positions[:, :2] = arrays["hundredths"].T / 100
    return Joined(
        atoms=atoms,
        positions=positions,
        bonds=arrays["bonds"].astype(np.int64) + np.repeat(atom_ptr[:-1], np.diff(bond_ptr)),
        orders=arrays["orders"].astype(np.int64),
        atom_ptr=atom_ptr,
        bond_ptr=bond_ptr,
        removed=np.zeros(count, dtype=np.int64),
    )
