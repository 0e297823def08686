"""Small files of every kind that the library reads, to be mangled, and what reads them."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from contextlib import redirect_stderr
from copy import copy
from functools import lru_cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

__all__ = ["SUFFIXES", "read", "samples"]

_MESH = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 2 4\nf 1 3 4\nf 2 3 4\n"
_OFF = "OFF\n4 4 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n3 0 2 3\n3 1 2 3\n"
_PLY = (
    "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float"
    " z\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n3"
    " 0 1 2\n"
)
_STL = (
    "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1"
    " 0\nendloop\nendfacet\nendsolid a\n"
)
_XYZ = "3\nwater\nO 0 0 0.1\nH 0 0.76 -0.47\nH 0 -0.76 -0.47\n"
_CONFIG = (
    "data: solubility\nmodel: 'i, {i j}'\nhidden: 8\ndepth: 2\nlr: 0.003\naggr: [sum,"
    " mean]\nepochs: 5\n"
)
_TEXTS = {
    ".obj": _MESH,
    ".off": _OFF,
    ".ply": _PLY,
    ".stl": _STL,
    ".xyz": _XYZ,
    ".yaml": _CONFIG,
    ".g6": "Bw\nC~\n",
    ".edges": "0 1 0.5\n1 2 1.5\n2 3 -1\n",
    ".smi": "CCO ethanol\nc1ccccc1 benzene\n",
    ".csv": "smiles,y\nCCO,1.5\nCC,2\nCCC,0\n",
}
_RUN = {
    ".run.json": "model.json",
    ".run.yaml": "config.yaml",
    ".run.safetensors": "model.safetensors",
    ".run.ckpt": "checkpoints/last.ckpt",
    ".metrics.json": "metrics.json",
    ".history.csv": "history.csv",
}
"""Files of a run, which are read as parts of it."""
_EXPORTED = (".onnx", ".pt2")
_WRITTEN = (".npz", ".example.npz", ".json", ".sdf", ".graph.npz", ".links.npz", ".hif.json.gz")
SUFFIXES = (
    *_TEXTS,
    ".json",
    ".npz",
    ".example.npz",
    ".sdf",
    *_RUN,
    *_EXPORTED,
    ".graph.npz",
    ".links.npz",
    ".hif.json.gz",
)


@lru_cache(maxsize=1)
def _run() -> TemporaryDirectory[str]:
    """The folder of a small run that is finished; it is there until the process ends."""
    import incidence as inc
    from incidence.train import train

    folder = TemporaryDirectory(prefix="attacked-run-")
    path = inc.Structure(3, {"{i j}": [[0, 1], [1, 2]]})
    examples = [
        inc.Example(
            path,
            {"i": torch.full((3, 1), float(n)), "{i j}": torch.ones(2, 1)},
            torch.tensor([float(n)]),
        )
        for n in range(8)
    ]
    inc.collate(examples).save(Path(folder.name, "data.npz"))
    small = {"model": "i, {i j}", "epochs": 1, "batch_size": 4, "hidden": 2, "depth": 1}
    with redirect_stderr(StringIO()):
        train(
            {
                **small,
                "data": str(Path(folder.name, "data.npz")),
                "out": str(Path(folder.name, "run")),
            }
        )
        for suffix in _EXPORTED:
            inc.load(Path(folder.name, "run")).export(Path(folder.name, f"model{suffix}"))
    return folder


def _read_run(path: Path) -> None:
    """Opens a run that has the file in the place of its own, and reads what is in it."""
    from incidence.train import checkpoint
    from incidence.train.run_folder import RunFolder

    suffix = "".join(path.suffixes)
    with TemporaryDirectory() as name:
        run = Path(name)
        (run / "checkpoints").mkdir()
        for other in _RUN.values():
            (run / other).symlink_to(
                path.absolute() if other == _RUN[suffix] else Path(_run().name, "run", other)
            )
        folder = RunFolder.open(run)
        if suffix == ".run.ckpt":
            folder.read_spec().assert_same(
                checkpoint.read(folder.last, checkpoint.RESUMABLE)["incidence"], "another model"
            )
        elif suffix in (".metrics.json", ".history.csv"):
            model = copy(_model())
            model.folder = folder
            assert isinstance(model.metrics, dict)
            assert isinstance(model.history, list)
        else:
            _model_of(folder)


def _model_of(folder: Any) -> Any:
    from incidence.train.model import Model

    return Model(folder)


@lru_cache(maxsize=1)
def _model() -> Any:
    from incidence.train.run_folder import RunFolder

    return _model_of(RunFolder.open(Path(_run().name, "run")))


@lru_cache(maxsize=1)
def samples() -> dict[str, bytes]:
    """The bytes of a sound file of every kind, by suffix."""
    from rdkit import Chem

    import incidence as inc
    from incidence.geometry.convert import Molecule, write_hif, write_sdf

    found = {suffix: text.encode() for suffix, text in _TEXTS.items()}
    structure = inc.Structure(
        4, {"{i ...}": [[0, 1, 1, 2, 3], [0, 0, 1, 1, 1]], "(i j)": [[0, 1], [1, 2]]}
    )
    hypergraph = inc.Example(
        inc.Structure(3, {"{i ...}": [[0, 1, 1, 2], [0, 0, 1, 1]]}), {"i": torch.ones(3, 2)}
    )
    with TemporaryDirectory() as name:
        folder = Path(name)
        structure.save(folder / "a.npz")
        inc.Example(structure, {"i": torch.ones(4, 2), "(i j)": torch.ones(2, 1)}, 0.5).save(
            folder / "a.example.npz"
        )
        write_hif(hypergraph, folder / "a.json")
        (folder / "a.hif.json.gz").write_bytes(gzip.compress((folder / "a.json").read_bytes()))
        edges = np.array([[k, (k + 1) % 30] for k in range(30)])
        np.savez_compressed(
            folder / "a.graph.npz",
            edges=edges,
            labels=np.arange(30) % 2,
            x=np.ones((30, 2)),
            train_mask=np.arange(30) < 20,
        )
        np.savez(folder / "a.links.npz", edges=edges)
        write_sdf([Molecule("m", Chem.MolFromSmiles("CCO"), {"SOL": "1.5"})] * 2, folder / "a.sdf")
        found |= {suffix: (folder / f"a{suffix}").read_bytes() for suffix in _WRITTEN}
    found |= {suffix: Path(_run().name, f"model{suffix}").read_bytes() for suffix in _EXPORTED}
    return found | {
        suffix: Path(_run().name, "run", name).read_bytes() for suffix, name in _RUN.items()
    }


def read(path: Path) -> None:
    """Reads a file as its suffix says; what it makes of it is of no interest."""
    import incidence as inc
    from incidence.data import reader
    from incidence.train.config import read_config

    suffix = "".join(path.suffixes)
    doors: dict[str, Callable[[Path], Any]] = {
        ".npz": inc.Structure.load,
        ".example.npz": inc.Example.load,
        ".graph.npz": inc.data.load,
        ".links.npz": lambda p: inc.data.load(p, task="links"),
        **dict.fromkeys((".json", ".hif.json.gz"), inc.geometry.convert.read_hif),
        ".yaml": lambda p: read_config(p, {}),
        **dict.fromkeys(
            (".obj", ".off", ".ply", ".stl"), lambda p: list(reader("mesh").read(p, []))
        ),
        **dict.fromkeys((".edges", ".g6"), lambda p: list(reader("graph").read(p, []))),
        **dict.fromkeys((".sdf", ".xyz", ".smi"), lambda p: list(reader("molecule").read(p, []))),
        ".csv": lambda p: inc.data.load(p, "y"),
        **dict.fromkeys(_RUN, _read_run),
        **dict.fromkeys(_EXPORTED, inc.load),
    }
    doors[suffix](path)
