"""Small files of every kind that the library reads, to be mangled, and what reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

__all__ = ["SUFFIXES", "read", "samples"]

_MESH = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 2 4\nf 1 3 4\nf 2 3 4\n"
_OFF = "OFF\n4 4 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n3 0 2 3\n3 1 2 3\n"
_PLY = (
    "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\nelement face 1\n"
    "property list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"
)
_STL = "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\nendsolid a\n"
_XYZ = "3\nwater\nO 0 0 0.1\nH 0 0.76 -0.47\nH 0 -0.76 -0.47\n"
_CONFIG = "data: solubility\nmodel: 'i, {i j}'\nhidden: 8\ndepth: 2\nlr: 0.003\naggr: [sum, mean]\nepochs: 5\n"
_TEXTS = {
    ".obj": _MESH, ".off": _OFF, ".ply": _PLY, ".stl": _STL, ".xyz": _XYZ, ".yaml": _CONFIG, ".g6": "Bw\nC~\n",
    ".edges": "0 1 0.5\n1 2 1.5\n2 3 -1\n", ".smi": "CCO ethanol\nc1ccccc1 benzene\n", ".csv": "smiles,y\nCCO,1.5\nCC,2\nCCC,0\n",
}  # fmt: skip
SUFFIXES = (*_TEXTS, ".json", ".npz", ".example.npz", ".sdf")


def samples() -> dict[str, bytes]:
    """The bytes of a sound file of every kind, by suffix."""
    import torch
    from rdkit import Chem

    import incidence as inc
    from incidence.geometry.convert import Molecule, write_hif, write_sdf

    found = {suffix: text.encode() for suffix, text in _TEXTS.items()}
    structure = inc.Structure(4, {"{i ...}": [[0, 1, 1, 2, 3], [0, 0, 1, 1, 1]], "(i j)": [[0, 1], [1, 2]]})
    hypergraph = inc.Example(inc.Structure(3, {"{i ...}": [[0, 1, 1, 2], [0, 0, 1, 1]]}), {"i": torch.ones(3, 2)})
    with TemporaryDirectory() as name:
        folder = Path(name)
        structure.save(folder / "a.npz")
        inc.Example(structure, {"i": torch.ones(4, 2), "(i j)": torch.ones(2, 1)}, 0.5).save(folder / "a.example.npz")
        write_hif(hypergraph, folder / "a.json")
        write_sdf([Molecule("m", Chem.MolFromSmiles("CCO"), {"SOL": "1.5"})] * 2, folder / "a.sdf")
        found |= {suffix: (folder / f"a{suffix}").read_bytes() for suffix in (".npz", ".example.npz", ".json", ".sdf")}
    return found


def read(path: Path) -> None:
    """Reads a file as its suffix says; what it makes of it is of no interest."""
    import incidence as inc
    from incidence.data import reader
    from incidence.train.config import read_config

    suffix = "".join(path.suffixes)
    doors: dict[str, Callable[[Path], Any]] = {
        ".npz": inc.Structure.load,
        ".example.npz": inc.Example.load,
        ".json": inc.geometry.convert.read_hif,
        ".yaml": lambda p: read_config(p, {}),
        **dict.fromkeys((".obj", ".off", ".ply", ".stl"), lambda p: list(reader("mesh").read(p, []))),
        **dict.fromkeys((".edges", ".g6"), lambda p: list(reader("graph").read(p, []))),
        **dict.fromkeys((".sdf", ".xyz", ".smi"), lambda p: list(reader("molecule").read(p, []))),
        ".csv": lambda p: inc.data.load(p, "y"),
    }
    doors[suffix](path)
