"""QM7 and a tenth of QM9: properties of molecules in space, with all hydrogens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from incidence.data.dataset import DataSet, Split, Task
from incidence.data.molecules.bonding import bonded
from incidence.data.molecules.features import batch_of
from incidence.data.molecules.files import find, read_npz
from incidence.data.molecules.joined import Joined
from incidence.data.molecules.tables import Array
from incidence.errors import IncidenceError
from incidence.geometry.convert.elements import SYMBOLS
from incidence.structure.examples import uncollate

__all__ = ["load_qm7", "load_qm9"]

_READER_OPTIONS = {"hydrogens": "keep", "lengths": True, "bonds": "distance"}
_UNITS = {"GHz": "GHz", "debye": "D", "bohr3": "bohr^3", "bohr2": "bohr^2", "au": "hartree", "K": "cal/mol/K"}
"""By how the names of the targets of QM9 end."""
_SPLIT = "Split by position modulo 10: 0 to 7 train, 8 validation, 9 test."


def load_qm7(name: str = "qm7", folder: Path | None = None, *, subtract_atoms: bool = False) -> DataSet:
    """QM7: atomisation energies of 7,101 molecules of up to 23 atoms; bonds are found from distances.

    Args:
        name: What the data set is called.
        folder: The folder with `qm7.npz`, or the one that holds a folder `qm7`.
        subtract_atoms: Whether the target is what remains after a linear fit on the numbers of atoms of each element; `about` has the
            fit, which predictions lack.

    Raises:
        IncidenceError: The file is missing or damaged.
    """
    path = find(name, folder, "qm7", "qm7.npz")
    arrays = read_npz(path, ("ptr", "z", "xyz", "energy"))
    about = f"QM7 (Rupp et al. 2012; the copy of qml, MIT): atomisation energies. {_SPLIT}"
    return _data_set(name, path, arrays, arrays["energy"][:, :1], Task("regression", ("energy",), unit="kcal/mol"), about, subtract_atoms)


def load_qm9(name: str = "qm9", folder: Path | None = None, *, target: str = "Dipole_debye", subtract_atoms: bool = False) -> DataSet:
    """Every tenth molecule of QM9, 13,087 in all, with one of 15 properties; bonds are found from distances.

    Args:
        name: What the data set is called.
        folder: The folder with `qm9_every10th.npz`, or the one that holds a folder `qm9_subset`.
        target: The name of the property.
        subtract_atoms: As for QM7; advisable for energies.

    Raises:
        IncidenceError: The file is missing or damaged, or there is no such property.
    """
    path = find(name, folder, "qm9_subset", "qm9_every10th.npz")
    arrays = read_npz(path, ("ptr", "z", "xyz", "targets", "target_names"))
    names = arrays["target_names"].tolist()
    if target not in names:
        raise IncidenceError(f"QM9 has no property {target!r}; it has: {', '.join(names)}.")
    place = names.index(target)
    task = Task("regression", (target,), unit=_UNITS.get(target.rpartition("_")[2], ""))
    about = f"QM9, every tenth molecule (Ramakrishnan et al. 2014, CC0; from qm9pack, MIT): {target}. {_SPLIT}"
    return _data_set(name, path, arrays, arrays["targets"][:, place : place + 1], task, about, subtract_atoms)


def _data_set(name: str, path: Path, arrays: dict[str, Array], values: Array, task: Task, about: str, subtract_atoms: bool) -> DataSet:
    joined = _joined(path, arrays)
    if len(values) != len(joined.atom_ptr) - 1:
        raise IncidenceError(f"{path} has {len(joined.atom_ptr) - 1} molecules and {len(values)} values: get the file again.")
    split = _split(len(values))
    if subtract_atoms:
        values, fit = _residual(joined, values, split.train.numpy())
        about = f"{about} The target is what remains after the fit {fit}: add it to predictions."
    batch = batch_of(bonded(joined), torch.from_numpy(values).float(), hydrogens="keep", lengths=True)
    return DataSet(name, uncollate(batch), task, (split,), "molecule", dict(_READER_OPTIONS), about, metric="mae")


def _joined(path: Path, arrays: dict[str, Array]) -> Joined:
    ptr, count = arrays["ptr"].astype(np.int64), len(arrays["z"])
    if not len(ptr) or ptr[0] != 0 or ptr[-1] != count or (np.diff(ptr) < 1).any() or arrays["xyz"].shape != (count, 3):
        raise IncidenceError(f"{path}: `ptr`, `z` and `xyz` do not fit together. Get the file again.")
    atoms = np.zeros((count, 4), dtype=np.int64)
    atoms[:, 0] = arrays["z"]
    empty = np.zeros((2, 0), dtype=np.int64)
    return Joined(atoms, arrays["xyz"].astype(np.float64), empty, empty[0], ptr, np.zeros_like(ptr), np.zeros(count, dtype=np.int64))


def _split(count: int) -> Split:
    position = torch.arange(count)
    return Split(position[position % 10 < 8], position[position % 10 == 8], position[position % 10 == 9])


def _residual(joined: Joined, values: Array, train: Array) -> tuple[Array, str]:
    """What a linear fit on the counts of elements, made on the training part, leaves; and the fit as text."""
    numbers = np.unique(joined.numbers)
    running = np.concatenate([np.zeros((1, len(numbers))), np.cumsum(joined.numbers[:, None] == numbers, axis=0)])
    counts = np.diff(running[joined.atom_ptr], axis=0)
    inputs = np.concatenate([counts, np.ones((len(counts), 1))], axis=1)
    weights, *_ = np.linalg.lstsq(inputs[train], values[train], rcond=None)
    terms = [f"{w:.8g} {SYMBOLS[n]}" for n, w in zip(numbers, weights[:-1, 0], strict=True)]
    return values - inputs @ weights, " + ".join([*terms, f"{weights[-1, 0]:.8g}"])
