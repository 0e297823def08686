"""ZINC-12k: constrained solubility of 12,000 drug-like molecules, as graphs with kinds of atoms and
bonds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from benchmarks.sets.files import arrays, damaged, find
from incidence.data import DataSet, Split, Task
from incidence.data.graphs import graphs
from incidence.structure.ragged import ranges

__all__ = ["load_zinc"]

_ATOMS, _BONDS = 28, 4  # columns, as in the published networks
_ABOUT = (
    "ZINC-12k (Dwivedi et al.): constrained solubility of 12,000 molecules as graphs. Nodes have 28"
    " kinds of atoms, edges have the kind of the bond, single, double or triple. The parts are the"
    " published ones, 10,000 / 1,000 / 1,000."
)


def load_zinc(name: str, folder: Path | None) -> DataSet:
    """ZINC-12k with kinds of atoms and bonds, one column each.

    Args:
        name: `zinc`.
        folder: `zinc12k`, or the folder that holds it.
    """
    path = find(name, folder, "zinc12k", "zinc12k.npz")
    keys = ["num_atoms", "num_edges", "atoms", "edges", "bond", "y"]
    found: dict[str, Any] = {
        key: torch.from_numpy(x.astype("float32" if key == "y" else "int64"))
        for key, x in arrays(path, keys).items()
    }
    sizes, num_edges, edges = found["num_atoms"], found["num_edges"], found["edges"]
    fits = (
        int(sizes.sum()) == len(found["atoms"])
        and int(num_edges.sum()) == len(found["bond"]) == edges.shape[1]
        and len(sizes) == len(num_edges) == len(found["y"]) == 12_000
    )
    if not fits:
        raise damaged(path, "its arrays do not fit together")
    first = torch.repeat_interleave(ranges(sizes)[:-1], num_edges)
    one_hot = torch.nn.functional.one_hot
    examples = graphs(
        sizes,
        edges + first,  # numbered through all molecules
        one_hot(found["atoms"], _ATOMS).float(),
        found["y"][:, None],
        one_hot(found["bond"], _BONDS).float(),
    )
    rows = torch.arange(12_000)
    return DataSet(
        name,
        examples,
        Task("regression", ("constrained solubility",)),
        (Split(rows[:10_000], rows[10_000:11_000], rows[11_000:]),),
        reader="graph",
        reader_options={"degrees": False},
        about=_ABOUT,
        metric="mae",
    )
