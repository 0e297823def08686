"""Aqueous solubility: the data set that comes with the package, with its features, so that it needs no RDKit."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import torch

from incidence.data.dataset import DataSet, Split, Task
from incidence.data.molecules.features import Tables
from incidence.structure.examples import uncollate

__all__ = ["load_solubility"]


def load_solubility(name: str = "solubility", folder: Path | None = None) -> DataSet:
    """Aqueous solubility of 1,025 molecules for training and 257 for the test, with chemical features.

    Args:
        name: What the data set is called.
        folder: Not needed: the data is part of the package.
    """
    with (
        files("incidence.data").joinpath("solubility.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as found,
    ):
        arrays = dict(found)
    about, names = (arrays[key].tobytes().decode() for key in ("about", "names"))
    target, num_train = torch.from_numpy(arrays["solubility"])[:, None], int(arrays["num_train"])
    flat = torch.from_numpy(arrays["hundredths"].T) / 100
    # A few kinds of atoms and bonds make up all of them.
    atoms, bonds = (
        torch.from_numpy(arrays[f"{key}_kinds"][arrays[f"{key}_kind"]]) / 100
        for key in ("atom", "bond")
    )
    tables = Tables(
        num_atoms=torch.from_numpy(arrays["num_atoms"]).long(),
        num_bonds=torch.from_numpy(arrays["num_bonds"]).long(),
        ends=torch.from_numpy(arrays["bonds"]).long(),
        atoms=atoms,
        bonds=bonds,
        positions=torch.cat([flat, torch.zeros(len(flat), 1)], dim=1),
    )
    train = torch.arange(num_train)
    return DataSet(
        name=name,
        examples=uncollate(tables.batch(target)),
        task=Task("regression", ("solubility",), unit="log mol/l"),
        splits=(Split(train, train[:0], torch.arange(num_train, len(target))),),
        reader="molecule",
        about=about,
        metric="rmse",
        names=names.split("\n"),
    )
