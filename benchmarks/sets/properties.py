"""Properties of molecules that are true or not: BBBP, ClinTox and SIDER by scaffold, and molhiv
with the split of OGB.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from benchmarks.sets.files import arrays, checked_rows, damaged, find, integers
from incidence.data import DataSet, Record, Split, Task, reader
from incidence.errors import IncidenceError

__all__ = ["load_molhiv", "load_properties"]

_ABOUT = {
    "bbbp": "BBBP: does a molecule enter the brain?",
    "clintox": "ClinTox: was a drug approved, and was it toxic in trials?",
    "sider": "SIDER: 27 kinds of side effects of drugs.",
}
_NO_TARGET = ("num", "name", "smiles")
_PARTS = ("train", "valid", "test")


def load_properties(name: str, folder: Path | None) -> DataSet:
    """One of `bbbp`, `clintox` and `sider`, with the deterministic scaffold split of 80, 10 and 10
    per cent; molecules that RDKit refuses are left out.

    Args:
        name: Which one.
        folder: `moleculenet_classification`, or the folder that holds it.
    """
    below = "moleculenet_classification"
    path = find(name, folder, below, f"{name}.csv.gz")
    parts = arrays(find(name, folder, below, f"{name}_scaffold.npz"), _PARTS)
    rows = [torch.from_numpy(parts[part].astype("int64")) for part in _PARTS]
    about = f"{_ABOUT[name]} MoleculeNet (Wu et al. 2018), scaffold split. The target is yes or no."
    return _data_set(name, path, _records(path), None, rows, about)


def load_molhiv(name: str, folder: Path | None) -> DataSet:
    """Whether a molecule inhibits the replication of HIV, with the scaffold split of OGB.

    Args:
        name: `molhiv`.
        folder: The folder `molhiv`, or the one that holds it.
    """
    path = find(name, folder, "molhiv", "HIV.csv.gz")
    rows = [
        torch.from_numpy(integers(find(name, folder, "molhiv", f"{part}_idx.txt.gz")))
        for part in ("train", "val", "test")
    ]
    about = (
        "ogbg-molhiv: does a molecule inhibit the replication of HIV? 41,127 molecules of"
        " MoleculeNet with the scaffold split of OGB. The target is yes or no."
    )
    return _data_set(name, path, _records(path), ["HIV_active"], rows, about)


def _records(path: Path) -> dict[int, Record]:
    """Return the molecules of a table by their row; those that RDKit refuses have none."""
    refused: list[IncidenceError] = []
    found = {}
    for record in reader("molecule").read(path, refused, smiles="smiles"):
        number = record.name.removeprefix(f"{path.name}:").partition(" ")[0]
        found[int(number) - 1] = record
    return found


def _data_set(
    name: str,
    path: Path,
    records: dict[int, Record],
    names: list[str] | None,
    rows: list[Tensor],
    about: str,
) -> DataSet:
    """Return a data set of molecules with labels, and the parts that number rows of the table."""
    if not records:
        raise damaged(path, "it has no molecules")
    first = next(iter(records.values())).properties
    names = names or [column for column in first if column not in _NO_TARGET]
    examples = [
        record.example.replace(target=_labels(path, record, names)) for record in records.values()
    ]
    place = torch.full((max(records) + 1,), -1)
    place[torch.tensor(list(records))] = torch.arange(len(records))
    parts = []
    for part in rows:
        numbers = place[checked_rows(path, part, len(place))]
        parts.append(numbers[numbers >= 0])
    return DataSet(
        name,
        examples,
        Task("multilabel", tuple(names)),
        (Split(*parts),),
        reader="molecule",
        about=about,
        metric="auc",
    )


def _labels(path: Path, record: Record, names: list[str]) -> Tensor:
    try:
        return torch.tensor([float(record.properties[column]) for column in names])
    except (KeyError, ValueError) as error:
        raise damaged(path, f"{record.name} has no label: {error}") from None
