"""SDF files without RDKit, checked by RDKit; and molecules of RDKit."""

import gzip
from dataclasses import replace
from io import StringIO
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import incidence as inc
from incidence.errors import IncidenceError
from incidence.geometry.convert import Molecule, from_rdkit, read_sdf, to_rdkit, write_sdf
from incidence.structure import Example, Structure
from tests.data_folder import data_folder

chem = pytest.importorskip("rdkit.Chem")
T = torch.tensor
few = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

SMILES = [
    "C",
    "CCO",
    "c1ccccc1",
    "c1cc[nH]c1",
    "OC(=O)[C@@H](N)C",
    "C/C=C/C",
    "C/C=C\\C",
    "[NH4+].[Cl-]",
    "[13CH4]",
    "[2H]O[2H]",
    "[CH3]",
    "C[C@H](O)[C@@H](C)O",
    "F/C=C/C=C\\Cl",
    "C1CC[C@H]2CCCC[C@@H]2C1",
    "CC#N",
    "O=C1C=CC(=O)C=C1",
    "[O-][N+](=O)c1ccccc1",
    "C[C@@]12CC[C@@H](C1(C)C)CC2=O",
    "N->[Cu]",
]


def write_with_rdkit(path: Path, molecules: list[object]) -> None:
    stream = StringIO()
    writer = chem.SDWriter(stream)
    for number, molecule in enumerate(molecules):
        molecule.SetProp("_Name", f"m{number}")
        molecule.SetProp("SOL", f"{number / 4}")
        writer.write(molecule)
    writer.close()
    path.write_text(stream.getvalue())


# ---- SDF


def assert_same(ours: Molecule, theirs: object) -> None:
    """What RDKit reads in the same record, by the columns that both have."""
    other = from_rdkit(theirs)
    assert torch.equal(ours.atoms[:, :3], other.features["i"][:, :3])
    assert torch.equal(ours.bonds, other.structure["{i j}"])
    assert torch.equal(ours.positions, other.features["pos=i"])
    assert ours.name == theirs.GetProp("_Name")
    assert ours.properties == theirs.GetPropsAsDict(autoConvertStrings=False)


def test_records_are_what_rdkit_reads(tmp_path):
    path = tmp_path / "molecules.sdf"
    molecules = [chem.MolFromSmiles(smiles) for smiles in SMILES[:-1]]
    write_with_rdkit(path, molecules)
    theirs = list(chem.SDMolSupplier(str(path), sanitize=False, removeHs=False))
    ours = list(read_sdf(path))
    assert len(ours) == len(theirs) == len(molecules)
    for one, other in zip(ours, theirs, strict=True):
        assert_same(one, other)
    assert [m.atoms[0, 3].item() for m in ours if m.name == "m10"] == [1]  # the methyl radical


@pytest.mark.parametrize("name", ["Data/NCI/first_200.props.sdf", "Contrib/PBF/testData/egfr.sdf", "Contrib/Fastcluster/testdata/cdk2.sdf"])
def test_files_of_the_wild_are_what_rdkit_reads(name):
    path = Path(chem.__file__).parents[1] / name
    if not path.exists():
        pytest.skip(f"this build of RDKit has no {name}")
    ours, theirs = list(read_sdf(path)), chem.SDMolSupplier(str(path), sanitize=False, removeHs=False)
    assert len(ours) == len(theirs) > 10
    for number in range(0, len(ours), 1 + len(ours) // 50):
        assert_same(ours[number], theirs[number])


molecules = st.integers(0, 8).flatmap(
    lambda n: st.builds(
        lambda atoms, at, bonds, orders, name, properties: Molecule(
            name,
            T(atoms, dtype=torch.long).view(-1, 4),
            torch.round(T(at, dtype=torch.float64).view(-1, 3) * 100) / 100,
            T(bonds, dtype=torch.long).view(-1, 2).T.contiguous(),
            T(orders[: len(bonds)], dtype=torch.long).view(-1, 1),
            properties,
        ),
        st.lists(st.tuples(st.integers(0, 118), st.integers(-3, 3), st.integers(0, 200), st.integers(0, 2)), min_size=n, max_size=n),
        st.lists(st.tuples(*[st.floats(-999, 999)] * 3), min_size=n, max_size=n),
        st.lists(st.sampled_from(list(combinations(range(n), 2))), unique=True, max_size=6) if n > 1 else st.just([]),
        st.lists(st.integers(1, 4), min_size=6, max_size=6),
        st.text("abc XYZ-é", max_size=8).map(str.strip),
        st.dictionaries(st.text("abcD 1", min_size=1), st.text("0123.é ", min_size=1).map(str.strip).filter(bool), max_size=2),
    )
)


@few
@given(st.lists(molecules, min_size=1, max_size=3))
def test_what_is_written_is_read(tmp_path, items):
    write_sdf(items, tmp_path / "file.sdf")
    assert list(read_sdf(tmp_path / "file.sdf")) == items


@few
@given(molecules)
def test_rdkit_reads_what_is_written(tmp_path, molecule):
    turn = torch.arange(len(molecule.atoms), dtype=torch.float64)  # on a screw: RDKit gives up where atoms lie on each other
    molecule = replace(molecule, positions=torch.stack([turn.cos(), turn.sin(), turn / 3], 1))
    write_sdf([molecule], tmp_path / "file.sdf")
    [theirs] = chem.SDMolSupplier(str(tmp_path / "file.sdf"), sanitize=False, removeHs=False, strictParsing=True)
    assert theirs is not None
    assert theirs.GetNumAtoms() == len(molecule.atoms)
    if theirs.GetNumAtoms():
        assert theirs.GetConformer().Is3D() == (len(molecule.atoms) > 1)
        found = from_rdkit(theirs).features["i"]
        assert torch.equal(found[:, [0, 1]], molecule.atoms[:, [0, 1]])


HEADER = "water\n  program\n\n"
COUNTS = "  3  2  0  0  0  0            999 V2000\n"
ATOMS = "    0.0000    0.0000    0.0000 O\n    0.9500    0.0000    0.0000 H   0  0\n   -0.2400    0.9200    0.0000 H\n"
BONDS = "  1  2  1\n  1  3  1  0\n"
WATER = HEADER + COUNTS + ATOMS + BONDS + "M  END\n"
ITEMS = "> <SOL>\n-0.5\n\n>  <ID>  (1)\nA1\nB2\n\n>  25 <smiles>\nO\n\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "dos"])
@pytest.mark.parametrize("last", ["$$$$\n", "$$$$", "", "$$$$\n\n"], ids=["mark", "no newline", "no mark", "blank line"])
def test_short_lines_line_ends_and_data_items_are_understood(end, last, tmp_path):
    (tmp_path / "water.sdf").write_bytes((WATER + ITEMS + last).replace("\n", end).encode())
    [water] = read_sdf(tmp_path / "water.sdf")
    assert water.symbols == ["O", "H", "H"]
    assert water.bonds.tolist() == [[0, 0], [1, 2]]
    assert water.properties == {"SOL": "-0.5", "ID": "A1\nB2", "smiles": "O"}
    assert water != "water"
    assert repr(water) == "Molecule('water', 3 atoms, 2 bonds, properties=['SOL', 'ID', 'smiles'])"


def test_a_compressed_file_is_read(tmp_path):
    (tmp_path / "water.sdf.gz").write_bytes(gzip.compress(WATER.encode()))
    assert len(list(read_sdf(tmp_path / "water.sdf.gz"))) == 1


def test_a_file_without_molecules_is_not_written(tmp_path):
    with pytest.raises(IncidenceError, match="there is no molecule to write"):
        write_sdf([], tmp_path / "empty.sdf")
    assert not (tmp_path / "empty.sdf").exists()


def test_charges_isotopes_and_radicals_of_both_kinds(tmp_path):
    atoms = "    0.0000    0.0000    0.0000 N   0  3\n    0.9500    0.0000    0.0000 C   1  0\n   -0.2400    0.9200    0.0000 D   0  4\n"
    old = HEADER + COUNTS + atoms + BONDS + "M  END\n$$$$\n"
    new = HEADER + COUNTS + atoms + BONDS + "A    1\ntext\nM  CHG  2   1  -1   2   2\nM  ISO  1   1  15\nM  RAD  1   2   3\nM  END\n$$$$\n"
    (tmp_path / "file.sdf").write_text(old + new)
    one, two = read_sdf(tmp_path / "file.sdf")
    assert one.atoms.tolist() == [[7, 1, 0, 0], [6, 0, 13, 0], [1, 0, 2, 1]]
    assert two.atoms.tolist() == [[7, -1, 15, 0], [6, 2, 0, 2], [1, 0, 0, 0]]


def test_a_molecule_is_an_example_with_a_target(tmp_path):
    (tmp_path / "water.sdf").write_text(WATER + ITEMS)
    [water] = read_sdf(tmp_path / "water.sdf")
    example = water.example("SOL")
    assert example.target == -0.5
    assert example.structure.num_entries("{i j}") == 2
    assert {key: list(x.shape) for key, x in example.features.items()} == {"i": [3, 4], "pos=i": [3, 3], "{i j}": [2, 1]}
    assert water.example(["SOL"]).target.tolist() == [-0.5]
    assert water.example().target is None
    write_sdf([example], tmp_path / "again.sdf")
    [again] = read_sdf(tmp_path / "again.sdf")
    assert again.example() == water.example()
    with pytest.raises(IncidenceError, match="the molecule 'water' has no property `pH`; it has: SOL, ID, smiles"):
        water.example("pH")
    with pytest.raises(IncidenceError, match="the property `smiles` of the molecule 'water' is 'O', no number"):
        water.example("smiles")


BROKEN = {
    "the record ends before its counts line": ("water\n", 2),
    "this is a V3000 record": (WATER.replace("V2000", "V3000"), 4),
    "the counts line starts with the numbers of atoms and bonds": (WATER.replace("  3  2  0", "        0"), 4),
    "the number of atoms is a number; got '  x'": (WATER.replace("  3  2  0", "  x  2  0"), 4),
    "the record ends before its 9 atoms and 2 bonds": (WATER.replace("  3  2  0", "  9  2  0"), 11),
    "an atom line starts with three coordinates": (WATER.replace("    0.9500", "    0.95x0"), 6),
    "are the symbol of an element; got 'Xx'": (WATER.replace(" O\n", " Xx\n"), 5),
    "the mass difference is a number; got ' z'": (WATER.replace("H   0  0", "H   z  0"), 6),
    "the charge code of an atom is one of 0 to 7; got 9": (WATER.replace("H   0  0", "H   0  9"), 6),
    "a bond joins two of the atoms 1 to 3; got 4": (WATER.replace("  1  3  1", "  1  4  1"), 9),
    "a bond joins two different atoms; got 1 twice": (WATER.replace("  1  3  1", "  1  1  1"), 9),
    "the type of a bond is one of 1 to 8; got 0": (WATER.replace("  1  3  1", "  1  3  0"), 9),
    "the block of atoms and bonds has no `M  END`": (WATER.replace("M  END\n", "") + ITEMS, 10),
    "`M  CHG` has a number of pairs": (WATER.replace("M  END", "M  CHG  2   1   1\nM  END"), 10),
    "`M  CHG` speaks of one of the atoms 1 to 3; got 7": (WATER.replace("M  END", "M  CHG  1   7   1\nM  END"), 10),
    "a data item starts with `> <NAME>`; got 'SOL'": (WATER + "SOL\n", 11),
}


@pytest.mark.parametrize(("problem", "broken"), BROKEN.items(), ids=BROKEN)
def test_a_broken_record_is_named_and_may_be_passed_over(problem, broken, tmp_path):
    text, line = broken
    good = WATER + "$$$$\n"
    path = tmp_path / "file.sdf"
    path.write_text(good + text + "$$$$\n" + good)
    with pytest.raises(IncidenceError) as raised:
        list(read_sdf(path))
    message = str(raised.value)
    assert problem in message
    assert message.startswith(f"{path}, record 2, line {good.count(chr(10)) + line}: ")
    errors: list[IncidenceError] = []
    assert len(list(read_sdf(path, errors))) == 2
    assert [str(error) for error in errors] == [message]


def test_lines_are_counted_from_one(tmp_path):
    (tmp_path / "file.sdf").write_text(WATER.replace("V2000", "V3000"))
    with pytest.raises(IncidenceError, match=r"record 1, line 4: this is a V3000 record"):
        list(read_sdf(tmp_path / "file.sdf"))


def test_a_file_that_is_not_there_is_named_at_once(tmp_path):
    with pytest.raises(IncidenceError, match=r"there is no file .*nowhere"):
        read_sdf(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (Structure(2), "a molecule has atomic numbers as features of `i`, and bonds `{i j}`"),
        (Example(Structure(1000, {"{i j}": []}), {"i": torch.ones(1000, 1)}), "molecule 1 has more than 999 atoms or bonds"),
        (
            Example(Structure(1, {"{i j}": []}), {"i": torch.ones(1, 1), "pos=i": torch.full((1, 3), 1e6)}),
            "does not fit into ten characters",
        ),
        (inc.collate([Structure(1)] * 2), "this is a batch of 2"),
    ],
)
def test_what_a_file_cannot_hold_is_refused(item, message, tmp_path):
    with pytest.raises(IncidenceError, match=message):
        write_sdf([item], tmp_path / "file")
    assert not list(tmp_path.iterdir())


def test_a_thousand_molecules_are_read(tmp_path):
    molecule = from_rdkit(chem.AddHs(chem.MolFromSmiles("CC(C)Cc1ccc(cc1)C(C)C(=O)O")))
    write_sdf([molecule] * 1000, tmp_path / "file.sdf")
    assert sum(len(m.atoms) for m in read_sdf(tmp_path / "file.sdf")) == 33000


# ---- RDKit


@pytest.mark.parametrize("smiles", SMILES)
def test_molecules_of_rdkit_come_back(smiles):
    molecule = chem.MolFromSmiles(smiles)
    example = from_rdkit(molecule)
    back = to_rdkit(example)
    assert from_rdkit(back) == example
    assert chem.MolToSmiles(back) == chem.MolToSmiles(molecule)
    chem.SanitizeMol(back)
    assert chem.MolToSmiles(back) == chem.MolToSmiles(molecule)


@pytest.mark.parametrize("smiles", SMILES)
def test_molecules_do_not_depend_on_the_order_of_atoms(smiles):
    molecule = chem.MolFromSmiles(smiles)
    order = np.random.default_rng(0).permutation(molecule.GetNumAtoms()).tolist()
    renumbered = from_rdkit(chem.RenumberAtoms(molecule, order))
    assert torch.equal(renumbered.features["i"], from_rdkit(molecule).features["i"][order])


def test_positions_go_along():
    molecule = chem.MolFromSmiles("CO")
    conformer = chem.Conformer(2)
    conformer.SetAtomPosition(1, (0.5, 1.0, 0.25))
    molecule.AddConformer(conformer)
    example = from_rdkit(molecule)
    assert example.features["pos=i"].tolist() == [[0, 0, 0], [0.5, 1.0, 0.25]]
    assert from_rdkit(to_rdkit(example)) == example


def test_kekulised_molecules_stay_as_they_are():
    molecule = chem.MolFromSmiles("c1ccccc1")
    chem.Kekulize(molecule, clearAromaticFlags=True)
    example = from_rdkit(molecule)
    assert set(example.features["{i j}"][:, 0].tolist()) == {1, 2}
    assert from_rdkit(to_rdkit(example)) == example


def test_every_hundredth_molecule_of_qm9_comes_back():
    with np.load(data_folder("qm9_subset") / "qm9_every10th.npz") as file:
        smiles = file["smiles"][::100].tolist()
    for text in smiles:
        molecule = chem.MolFromSmiles(text)
        back = to_rdkit(from_rdkit(molecule))
        assert chem.MolToSmiles(back) == chem.MolToSmiles(molecule), text


CARBONS = Structure(2, {"{i j}": [[0], [1]]})


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: from_rdkit(None), "from_rdkit takes a molecule of RDKit; got NoneType. RDKit gives None for what it cannot read"),
        (lambda: from_rdkit("CC"), "from_rdkit takes a molecule of RDKit; got str"),
        (lambda: from_rdkit(chem.MolFromSmarts("C~C")), "bond 0 is of the type UNSPECIFIED; known are SINGLE"),
        (lambda: to_rdkit(CARBONS), "a molecule has atomic numbers as features of `i`"),
        (lambda: to_rdkit(Example(CARBONS, {"i": T([[200], [6]])})), "an atomic number, 0 to 118; got 200"),
        (lambda: to_rdkit(Example(CARBONS, {"i": T([[6], [6]]), "{i j}": T([[7]])})), r"the bond \(0, 1\) has the order 7; known are 1, 2"),
        (
            lambda: to_rdkit(Example(CARBONS, {"i": T([[6, 0, 0, 0, 0, 0, 1], [6] + [0] * 6])})),
            "no handedness of the atoms and bonds gives",
        ),
        (
            lambda: to_rdkit(Example(CARBONS, {"i": T([[6], [6]]), "{i j}": T([[2, 1]])})),
            "bond 0 is labelled Z or E, but an end of it has no",
        ),
        (lambda: to_rdkit(Example(CARBONS, {"i": T([[6], [6]])}, target=1.0)), "rdkit has no place for a target"),
    ],
)
def test_what_is_no_molecule_is_refused(read, message):
    with pytest.raises(IncidenceError, match=message):
        read()
