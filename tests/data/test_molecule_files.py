"""The reader of molecule files: names of records, broken ones, formats."""

import gzip
import sys
from math import cos, pi, sin
from pathlib import Path

import pytest
import torch

from incidence.data import reader
from incidence.data.molecules import ATOM_FEATURES, BOND_FEATURES, features_of
from incidence.errors import IncidenceError, MissingExtraError
from incidence.geometry.convert import Molecule, write_sdf
from tests.data.sdf_texts import TEST, TRAIN

chem = pytest.importorskip("rdkit.Chem")

READ = reader("molecule").read
BROKEN = TRAIN.replace(" O   0", " Qq  0", 1).replace("ethanol", "broken")
TWICE = TRAIN.replace("  2  3  1  0", "  2  1  1  0")
EMPTY = "nothing\n\n\n  0  0  0  0  0  0            999 V2000\nM  END\n$$$$\n"
XYZ = "3\nwater\nO 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n\n"


def write(path: Path, text: str) -> Path:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wb") as file:
        file.write(text.encode())
    return path


@pytest.mark.parametrize("name", ["a.sdf", "a.sdf.gz", "a.SDF", "a.mol", "a.mol.gz"])
def test_records_have_names_numbers_and_features(tmp_path, name):
    found = list(READ(write(tmp_path / name, TRAIN + TEST), []))
    assert [read.name for read in found] == [f"{name}:1 ethanol", f"{name}:2 water"]
    assert found[0].example.features["i"].shape == (3, len(ATOM_FEATURES))
    assert found[0].example.structure.num_entries("ring") == 0
    assert [read.properties for read in found] == [{"SOL": "1.10"}, {"SOL": "1.74"}]


def test_broken_records_are_reported_and_reading_goes_on(tmp_path):
    path = write(tmp_path / "a.sdf", BROKEN + TRAIN + TWICE + EMPTY + TEST + BROKEN)
    errors: list[IncidenceError] = []
    assert [read.name for read in READ(path, errors)] == ["a.sdf:2 ethanol", "a.sdf:5 water"]
    messages = [str(error) for error in errors]
    assert len(messages) == 4
    assert all(str(path) in message for message in messages)
    told = [
        "record 1, which starts in line 1: RDKit",
        "record 3, line 37: RDKit",
        "record 4: the molecule has no atoms",
        "record 6",
    ]
    for message, part in zip(messages, told, strict=True):
        assert part in message
    with pytest.raises(
        IncidenceError,
        match="record 1, which starts in line 1: RDKit cannot read it: Element 'Qq' not found",
    ):
        list(READ(path))


def test_features_are_those_of_the_molecule(tmp_path):
    write_sdf(
        [Molecule(text, chem.MolFromSmiles(text)) for text in ["C1CC1"] * 300 + ["c1ccccc1O"]],
        tmp_path / "a.sdf",
    )
    found = list(READ(tmp_path / "a.sdf"))
    assert len(found) == 301
    assert found[300].name == "a.sdf:301 c1ccccc1O"
    assert found[300].example == features_of("c1ccccc1O")


def test_a_molecule_without_features_does_not_take_others_with_it(tmp_path):
    odd = chem.MolFromSmiles("c1cccc1", sanitize=False)
    write_sdf(
        [Molecule("", mol) for mol in (chem.MolFromSmiles("CO"), odd, chem.MolFromSmiles("CC"))],
        tmp_path / "a.sdf",
    )
    errors: list[IncidenceError] = []
    assert [read.name for read in READ(tmp_path / "a.sdf", errors)] == ["a.sdf:1", "a.sdf:3"]
    assert [str(error).partition(" Unkekulized")[0] for error in errors] == [
        f"{tmp_path / 'a.sdf'}, record 2: RDKit cannot make sense of the molecule: Can't kekulize"
        " mol."
    ]


def test_nodes_are_called_by_their_number_in_the_file(tmp_path):
    mol = chem.RenumberAtoms(chem.AddHs(chem.MolFromSmiles("OC")), [2, 0, 3, 1, 4, 5])
    write_sdf([Molecule("", mol)], tmp_path / "a.sdf")
    assert [read.nodes for read in READ(tmp_path / "a.sdf")] == [("2", "4")]
    assert [read.nodes for read in READ(tmp_path / "a.sdf", hydrogens="keep")] == [tuple("123456")]


@pytest.mark.parametrize("name", ["a.smi", "a.smi.gz"])
def test_lines_of_smiles_are_molecules(tmp_path, name):
    errors: list[IncidenceError] = []
    found = list(READ(write(tmp_path / name, "CCO ethanol\r\n\nC(\tbroken\nc1ccccc1\n"), errors))
    assert [read.name for read in found] == [f"{name}:1 ethanol", f"{name}:3 c1ccccc1"]
    assert [str(error) for error in errors] == [
        f"{tmp_path / name}, line 3: RDKit cannot read the SMILES 'C('."
    ]


def test_tables_with_a_column_of_smiles_are_molecules(tmp_path):
    found = list(READ(write(tmp_path / "a.csv", 'name,Smiles\n"a, b",CCO \n')))
    assert [read.name for read in found] == ["a.csv:1 CCO"]
    with pytest.raises(
        IncidenceError,
        match=(
            r"which column has the SMILES is not clear, it is none of: a, b\. Say which with"
            r" `smiles`"
        ),
    ):
        list(READ(write(tmp_path / "b.csv", "a,b\n1,2\n")))


@pytest.mark.parametrize(("name", "text"), [("a.smi", "C\n"), ("a.sdf", TRAIN), ("a.xyz", XYZ)])
def test_files_without_rdkit_say_what_to_install(tmp_path, monkeypatch, name, text):
    monkeypatch.setitem(sys.modules, "rdkit.Chem", None)
    with pytest.raises(
        MissingExtraError,
        match=rf"reading .*{name} needs rdkit, .*: pip install 'incidence\[molecules\]'",
    ):
        list(READ(write(tmp_path / name, text), []))


def test_atoms_in_space_get_their_bonds_from_distances(tmp_path):
    path = write(tmp_path / "a.xyz", XYZ + XYZ.replace("water", "").replace("O 0", "8 0"))
    first, second = READ(path, hydrogens="keep", lengths=True)
    assert (first.name, second.name) == ("a.xyz:1 water", "a.xyz:2")
    assert first.example == second.example
    assert first.example.features["{i j}"].shape == (2, len(BOND_FEATURES) + 1)


AROUND = [(cos(k * pi / 3), sin(k * pi / 3)) for k in range(6)]
IN_SPACE = {
    "benzene": (
        [("C", 1.39 * x, 1.39 * y) for x, y in AROUND]
        + [("H", 2.48 * x, 2.48 * y) for x, y in AROUND],
        {"aromatic": 6, "single": 6},
    ),
    "hydrogen cyanide": (
        [("C", 0, 0), ("N", 1.16, 0), ("H", -1.07, 0)],
        {"single": 1, "triple": 1},
    ),
    # O=[S+][O-]
    "sulfur dioxide": (
        [("S", 0, 0), ("O", 1.24, 0.72), ("O", -1.24, 0.72)],
        {"single": 1, "double": 1},
    ),
    "formaldehyde": (
        [("C", 0, 0), ("O", 1.21, 0), ("H", -0.59, 0.94), ("H", -0.59, -0.94)],
        {"single": 2, "double": 1},
    ),
    "neon": ([("Ne", 0, 0)], {}),
    "carbons too far apart": ([("C", 0, 0), ("C", 1.8, 0)], {}),
    "carbon that lacks hydrogens": ([("C", 0, 0), ("C", 1.5, 0), ("C", 3.0, 0)], None),
}


def xyz(atoms: list[tuple[str, float, float]]) -> str:
    return f"{len(atoms)}\n\n" + "".join(f"{symbol} {x} {y} 0\n" for symbol, x, y in atoms)


@pytest.mark.parametrize(("atoms", "wanted"), IN_SPACE.values(), ids=IN_SPACE)
def test_orders_of_bonds_in_space_fill_the_valences(tmp_path, atoms, wanted):
    [read] = READ(write(tmp_path / "a.xyz", xyz(atoms)), hydrogens="keep")
    kinds = read.example.features["{i j}"][:, :4].sum(0).tolist()
    found = {name: count for name, count in zip(BOND_FEATURES, kinds, strict=False) if count}
    assert found == wanted if wanted is not None else sum(found.values()) == 2


def test_bonds_from_distances_replace_those_of_a_file(tmp_path):
    path = write(tmp_path / "a.sdf", TRAIN)
    [by_file], [by_distance] = READ(path), READ(path, bonds="distance")
    assert torch.equal(by_file.example.structure["{i j}"], by_distance.example.structure["{i j}"])
    far = write(tmp_path / "b.sdf", TRAIN.replace("    2.0000    1.3000", "    9.0000    1.3000"))
    assert next(READ(far, bonds="distance")).example.structure.num_entries("{i j}") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("water\n", "starts with its number of atoms; got 'water'"),
        ("2\n\nO 0 0 0\n", "2 lines of a symbol and three finite coordinates must follow"),
        ("1\n\nQq 0 0 0\n", "1 lines of a symbol"),
        ("1\n\n999 0 0 0\n", "1 lines of a symbol"),
        ("1\n\n99999999999999999999 0 0 0\n", "1 lines of a symbol"),
        ("1\n\nO 0 0\n", "1 lines of a symbol"),
        ("0\n\n", "has no atoms"),
        ("1\n\nO 0 0 nan\n", "1 lines of a symbol and three finite coordinates"),
    ],
)
def test_a_broken_xyz_record_is_reported(tmp_path, text, message):
    with pytest.raises(IncidenceError, match=message):
        list(READ(write(tmp_path / "a.xyz", text)))


def test_files_that_cannot_be_read_are_refused(tmp_path):
    with pytest.raises(IncidenceError, match="there is no file"):
        list(READ(tmp_path / "a.sdf"))
    with pytest.raises(IncidenceError, match=r"is no file of molecules: those end in \.sdf"):
        list(READ(write(tmp_path / "a.pdf", "")))
    with pytest.raises(IncidenceError, match=r"a\.smi has no rows"):
        list(READ(write(tmp_path / "a.smi", "\n"), []))
    with pytest.raises(IncidenceError, match="has no record"):
        list(READ(write(tmp_path / "b.sdf", ""), []))
    (tmp_path / "c.sdf.gz").write_bytes(gzip.compress(TRAIN.encode())[:40])
    with pytest.raises(IncidenceError, match=r"c\.sdf\.gz cannot be read"):
        list(READ(tmp_path / "c.sdf.gz", []))
    with pytest.raises(IncidenceError, match="bonds is one of file, distance; got 'none'"):
        list(READ(tmp_path / "a.sdf", bonds="none"))
    with pytest.raises(IncidenceError, match="hydrogens is one of count, keep; got 'none'"):
        list(READ(tmp_path / "c.sdf.gz", [], hydrogens="none"))


def test_bonds_by_distance_need_positions(tmp_path):
    errors: list[IncidenceError] = []
    assert list(READ(write(tmp_path / "a.smi", "CC\n"), errors, bonds="distance")) == []
    assert [str(error).partition(" Give")[0] for error in errors] == [
        f"{tmp_path / 'a.smi'}, line 1: bonds are found from positions in space, and the molecule"
        " has none."
    ]
