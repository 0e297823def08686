"""Data sets of molecules: counts, splits, floors, and what is said about files that are not
right.
"""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

import incidence as inc
from benchmarks.sets import load
from incidence.data import DataSet, reader
from incidence.errors import IncidenceError
from tests.data_folder import data_folder


def targets(data: DataSet) -> torch.Tensor:
    return torch.stack([example.target for example in data.examples])


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
@pytest.mark.parametrize(
    ("name", "count", "floor"), [("esol", 1128, 2.17), ("lipophilicity", 4200, 1.22)]
)
def test_moleculenet_has_its_counts_and_floors(name, count, floor):
    pytest.importorskip("rdkit")
    data = load(name, data_folder("moleculenet").parent)
    assert len(data.examples) == count
    assert all(
        bool(x.isfinite().all()) for example in data.examples for x in example.features.values()
    )
    y, position = targets(data)[:, 0], torch.arange(count) % 10
    assert float(
        (y[position == 9] - y[position < 8].mean()).square().mean().sqrt()
    ) == pytest.approx(floor, abs=0.006)


def write_freesolv(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    with gzip.open(folder / "freesolv.csv.gz", "wt") as file:
        file.write(text)
    return folder


def test_blanks_lone_atoms_and_salts_are_molecules_and_other_columns_count_for_nothing(tmp_path):
    pytest.importorskip("rdkit")
    folder = write_freesolv(
        tmp_path,
        'iupac,SMILES,expt,calc\n"a,b",C ,1.5,9\nsalt,[Na+].[Cl-],-2,9\n,c1ccccc1C,0,9\n\n',
    )
    data = load("freesolv", folder)
    assert targets(data)[:, 0].tolist() == [1.5, -2, 0]
    assert [example.structure.num_nodes for example in data.examples] == [1, 2, 7]
    assert inc.collate(list(data.examples)).features["i"].shape[1] == 32


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("iupac,smiles,calc\nx,C,1\n", "it has no column 'expt', but iupac, smiles, calc"),
        (
            "iupac,smiles,expt,calc\nx,C,high,1\n",
            "the value to predict of row 1 is a number, not 'high'",
        ),
        ("iupac,smiles,expt,calc\nx,C\n", "the value to predict of row 1 is a number, not ''"),
        ("iupac,smiles,expt,calc\nx,C(,1,1\n", "RDKit cannot read the SMILES"),
        ("iupac,smiles,expt,calc\n", "it has no molecules"),
    ],
)
def test_a_table_that_is_not_right_is_refused(tmp_path, text, message):
    pytest.importorskip("rdkit")
    with pytest.raises(IncidenceError, match=message.replace("(", r"\(")):
        load("freesolv", write_freesolv(tmp_path, text))


@pytest.mark.parametrize("name", ["esol", "freesolv", "lipophilicity", "qm7", "qm9"])
def test_a_missing_folder_or_file_is_named_with_the_remedy(name, tmp_path):
    with pytest.raises(IncidenceError, match=r"give the folder that holds `.*` with `folder`"):
        load(name)
    with pytest.raises(IncidenceError, match=r"needs the file .* which is not there"):
        load(name, tmp_path)


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "freesolv.csv.gz").write_bytes(b"\x1f\x8b\x08broken")
    (tmp_path / "qm7.npz").write_bytes(b"broken")
    for name in ("freesolv", "qm7"):
        with pytest.raises(IncidenceError, match=r"is damaged .*: fetch it again"):
            load(name, tmp_path)


# ---- QM7 and QM9

METHANE = [
    [0, 0, 0],
    [0.63, 0.63, 0.63],
    [-0.63, -0.63, 0.63],
    [-0.63, 0.63, -0.63],
    [0.63, -0.63, -0.63],
]
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
    assert data.examples[1].features["{i j}"][:, -1].tolist() == pytest.approx(
        [0.96, 0.9605], abs=1e-3
    )
    assert torch.equal(
        data.examples[0].features["pos=i"], torch.tensor(METHANE, dtype=torch.float32)
    )
    assert targets(data)[:2, 0].tolist() == pytest.approx([0, 1.85])
    assert (data.task.names, data.task.unit, data.metric) == (("Dipole_debye",), "D", "mae")
    assert [part.tolist() for part in data.splits[0]][1:] == [[8, 18], [9, 19]]


def test_the_reader_makes_the_same_features_of_a_file(tmp_path):
    data = load("qm9", write_qm(tmp_path))
    (tmp_path / "water.xyz").write_text("3\nwater\nO 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n")
    [(_, example, *_)] = reader(data.reader).read(tmp_path / "water.xyz", [], **data.reader_options)
    assert example == data.examples[1].replace(target=None)


def test_a_fit_on_atoms_leaves_the_rest_and_says_so(tmp_path):
    data = load("qm7", write_qm(tmp_path), subtract_atoms=True)
    assert targets(data).abs().max() < 1e-4
    assert "add it to predictions" in data.about
    assert targets(load("qm7", tmp_path))[0, 0] == -417


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"z": None}, r"qm7.npz is damaged \(.*z is not a file in the archive"),
        ({"ptr": np.array([0, 5])}, "do not fit together"),
        ({"energy": np.zeros((3, 2))}, "has 20 molecules and 3 values"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, changes, message):
    with pytest.raises(IncidenceError, match=message):
        load("qm7", write_qm(tmp_path, **changes))


def test_an_unknown_property_is_refused(tmp_path):
    with pytest.raises(
        IncidenceError,
        match="target of the data set 'qm9' is one of HOMO_au, Dipole_debye; got 'Mass'",
    ):
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
    assert float(
        (y[data.splits[0].test] - y[data.splits[0].train].mean()).abs().mean()
    ) == pytest.approx(floor, rel=2e-3)


@pytest.mark.slow
def test_bonds_from_distances_are_those_of_the_smiles_of_qm9():
    chem = pytest.importorskip("rdkit.Chem")
    folder = data_folder("qm9_subset")
    data = load("qm9", folder)
    with np.load(folder / "qm9_every10th.npz", allow_pickle=False) as arrays:
        wanted = [
            chem.AddHs(chem.MolFromSmiles(text)).GetNumBonds() for text in arrays["smiles"].tolist()
        ]
    differ = [
        e.structure.num_entries("{i j}") != count
        for e, count in zip(data.examples, wanted, strict=True)
    ]
    assert sum(differ) <= 5
