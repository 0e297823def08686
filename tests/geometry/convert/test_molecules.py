"""SDF files: records, line ends, errors with their lines; and molecules of RDKit, there and
back.
"""

import gzip
import sys
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import incidence as inc
from incidence.errors import IncidenceError, MissingExtraError, TooLargeError
from incidence.geometry.convert import Molecule, from_rdkit, read_sdf, to_rdkit, write_sdf
from incidence.structure import Example, Structure
from tests.data_folder import data_folder
from tests.little_memory import little_memory

chem = pytest.importorskip("rdkit.Chem")
T = torch.tensor
few = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

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


# ---- SDF


def test_what_is_written_is_read(tmp_path):
    every = [chem.MolFromSmiles(smiles) for smiles in SMILES]
    given = [
        Molecule(f"m{k} é", mol, {"SOL": f"{k / 4}", "two lines": "a é\nb"})
        for k, mol in enumerate(every)
    ]
    write_sdf(given, tmp_path / "file.sdf")
    found = list(read_sdf(tmp_path / "file.sdf"))
    for one, other in zip(given, found, strict=True):
        assert (one.name, one.properties, one.symbols) == (
            other.name,
            other.properties,
            other.symbols,
        )
        ours, theirs = one.example(), other.example()
        assert ours.structure == theirs.structure
        assert all(torch.equal(ours.features[key], theirs.features[key]) for key in ("i", "{i j}"))
        assert not theirs.features["pos=i"].any()


def in_file(at: tuple[float, ...]) -> tuple[float, ...]:
    """A position as the examples have it: RDKit may refuse two atoms in one place."""
    return tuple((torch.round(T(at, dtype=torch.float64) * 100) / 100 + 0.0).tolist())


molecules = st.integers(1, 8).flatmap(
    lambda n: st.builds(
        lambda atoms, at, bonds, orders: Example(
            Structure(n, {"{i j}": T(bonds, dtype=torch.long).view(-1, 2).T}),
            {
                "i": T(atoms, dtype=torch.long).view(-1, 4),
                "{i j}": T(orders[: len(bonds)], dtype=torch.long).view(-1, 1),
                "pos=i": torch.round(T(at, dtype=torch.float64).view(-1, 3) * 100) / 100,
            },
        ),
        st.lists(
            st.tuples(st.integers(1, 118), st.integers(-3, 3), st.integers(0, 200), st.just(0)),
            min_size=n,
            max_size=n,
        ),
        st.lists(st.tuples(*[st.floats(-999, 999)] * 3), min_size=n, max_size=n, unique_by=in_file),
        (
            st.lists(st.sampled_from(list(combinations(range(n), 2))), unique=True, max_size=6)
            if n > 1
            else st.just([])
        ),
        st.lists(st.integers(1, 4), min_size=6, max_size=6),
    )
)


@few
@given(st.lists(molecules, min_size=1, max_size=3))
def test_examples_that_are_written_are_read_whatever_their_atoms_and_bonds(tmp_path, items):
    write_sdf(items, tmp_path / "file.sdf")
    assert [molecule.example() for molecule in read_sdf(tmp_path / "file.sdf")] == items


def test_a_centre_with_an_atom_in_its_own_place_is_refused_with_its_record(tmp_path):
    # the phosphorus is where its first neighbour is
    at = T([[0.0, 0, 0], [0, 0, 1.1], [0, 0, 0], [0, 0, 1]], dtype=torch.float64)
    atoms = T([[1, 0, 0, 0], [1, 0, 0, 0], [15, 0, 0, 0], [1, 0, 0, 0]])
    bonds = Structure(4, {"{i j}": [[1, 2, 0], [2, 3, 2]]})
    write_sdf(
        [Example(bonds, {"i": atoms, "{i j}": torch.ones(3, 1, dtype=torch.long), "pos=i": at})],
        tmp_path / "file.sdf",
    )
    with pytest.raises(IncidenceError, match=r"record 1, line .*RDKit cannot read it"):
        list(read_sdf(tmp_path / "file.sdf"))


HEADER = "water\n  program\n\n"
COUNTS = "  3  2  0  0  0  0            999 V2000\n"
ATOMS = (
    "    0.0000    0.0000    0.0000 O\n    0.9500    0.0000    0.0000 H   0  0\n   -0.2400   "
    " 0.9200    0.0000 H\n"
)
BONDS = "  1  2  1\n  1  3  1  0\n"
WATER = HEADER + COUNTS + ATOMS + BONDS + "M  END\n"
ITEMS = "> <SOL>\n-0.5\n\n>  <ID>  (1)\nA1\nB2\n\n>  25 <smiles>\nO\n\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "dos"])
@pytest.mark.parametrize(
    "last", ["$$$$\n", "$$$$", "", "$$$$\n\n"], ids=["mark", "no newline", "no mark", "blank line"]
)
def test_short_lines_line_ends_and_data_items_are_understood(end, last, tmp_path):
    (tmp_path / "water.sdf").write_bytes((WATER + ITEMS + last).replace("\n", end).encode())
    [water] = read_sdf(tmp_path / "water.sdf")
    assert water.symbols == ["O", "H", "H"]
    assert water.example().structure["{i j}"].tolist() == [[0, 0], [1, 2]]
    assert water.properties == {"SOL": "-0.5", "ID": "A1\nB2", "smiles": "O"}
    assert repr(water) == "Molecule('water', 3 atoms, 2 bonds, properties=['SOL', 'ID', 'smiles'])"


def test_a_compressed_file_is_read(tmp_path):
    (tmp_path / "water.sdf.gz").write_bytes(gzip.compress(WATER.encode()))
    assert len(list(read_sdf(tmp_path / "water.sdf.gz"))) == 1


def test_a_file_that_unpacks_to_more_than_is_allowed_is_refused_before_it_does(
    tmp_path, monkeypatch
):
    (tmp_path / "a.sdf.gz").write_bytes(gzip.compress(bytes(1 << 24)))
    monkeypatch.setenv("INCIDENCE_MAX_GB", "0.01")
    with (
        little_memory(),
        pytest.raises(TooLargeError, match=r"a\.sdf\.gz, unpacked, would take at least 0\.01 GB"),
    ):
        list(read_sdf(tmp_path / "a.sdf.gz"))


def test_a_file_without_molecules_is_not_written(tmp_path):
    with pytest.raises(IncidenceError, match="there is no molecule to write"):
        write_sdf([], tmp_path / "empty.sdf")
    assert not (tmp_path / "empty.sdf").exists()


def test_charges_isotopes_and_radicals_of_both_kinds(tmp_path):
    atoms = (
        "    0.0000    0.0000    0.0000 N   0  3\n    0.9500    0.0000    0.0000 C   1  0\n  "
        " -0.2400    0.9200    0.0000 D   0  4\n"
    )
    old = HEADER + COUNTS + atoms + BONDS + "M  END\n$$$$\n"
    new = (
        HEADER
        + COUNTS
        + atoms
        + BONDS
        + "A    1\ntext\nM  CHG  2   1  -1   2   2\nM  ISO  1   1  15\nM  RAD  1   2   3\nM "
        " END\n$$$$\n"
    )
    (tmp_path / "file.sdf").write_text(old + new)
    one, two = read_sdf(tmp_path / "file.sdf")
    # RDKit knows radicals by `M  RAD` only
    assert one.example().features["i"].tolist() == [[7, 1, 0, 0], [6, 0, 13, 0], [1, 0, 2, 0]]
    assert two.example().features["i"].tolist() == [[7, -1, 15, 0], [6, 2, 13, 2], [1, 0, 2, 0]]


def test_a_molecule_is_an_example_with_a_target(tmp_path):
    (tmp_path / "water.sdf").write_text(WATER + ITEMS)
    [water] = read_sdf(tmp_path / "water.sdf")
    example = water.example("SOL")
    assert example.target == -0.5
    assert example.structure.num_entries("{i j}") == 2
    assert {key: list(x.shape) for key, x in example.features.items()} == {
        "i": [3, 4],
        "pos=i": [3, 3],
        "{i j}": [2, 1],
    }
    assert water.example(["SOL"]).target.tolist() == [-0.5]
    assert water.example().target is None
    write_sdf([example], tmp_path / "again.sdf")
    [again] = read_sdf(tmp_path / "again.sdf")
    assert again.example() == water.example()
    with pytest.raises(
        IncidenceError, match="the molecule 'water' has no property `pH`; it has: SOL, ID, smiles"
    ):
        water.example("pH")
    with pytest.raises(
        IncidenceError, match="the property `smiles` of the molecule 'water' is 'O', no number"
    ):
        water.example("smiles")


# What RDKit says, the text, and the line of the record if it tells.
BROKEN = {
    "no counts line": ("Counts line too short: ''", "water\n", 4),
    "V3000 only in name": (
        "Line 5 does not start with 'M  V30 '",
        WATER.replace("V2000", "V3000"),
        5,
    ),
    "no number of atoms": (
        "Cannot convert '  x' to unsigned int",
        WATER.replace("  3  2  0", "  x  2  0"),
        4,
    ),
    "too few atoms": (
        "Atom line too short: '  1  2  1'",
        WATER.replace("  3  2  0", "  9  2  0"),
        8,
    ),
    "a coordinate that is no number": (
        "Cannot process coordinates",
        WATER.replace("    0.9500", "    0.95x0"),
        6,
    ),
    "nan": ("Cannot process coordinates", WATER.replace("    0.9500", "       nan"), 6),
    "an unknown element": ("Element 'Xx' not found", WATER.replace(" O\n", " Xx\n"), None),
    "a mass that is no number": (
        "Cannot convert ' z' to int",
        WATER.replace("H   0  0", "H   z  0"),
        6,
    ),
    "a bond of no atom": ("bond_pin->getEndAtomIdx()", WATER.replace("  1  3  1", "  1  4  1"), 9),
    "a bond of one atom": ("attempt to add self-bond", WATER.replace("  1  3  1", "  1  1  1"), 9),
    "a bond twice": ("bond already exists", WATER.replace("  1  3  1", "  2  1  1"), 9),
    "no end": ("Cannot convert '> <' to int", WATER.replace("M  END\n", "") + ITEMS, 10),
    "charges without atoms": (
        "Unexpected error",
        WATER.replace("M  END", "M  CHG  2   1   1\nM  END"),
        10,
    ),
    "charges of no atom": ("idx", WATER.replace("M  END", "M  CHG  1   7   1\nM  END"), 10),
}


@pytest.mark.parametrize(("reason", "text", "line"), BROKEN.values(), ids=BROKEN)
def test_a_broken_record_is_named_and_may_be_passed_over(reason, text, line, tmp_path, capfd):
    good = WATER + "$$$$\n"
    path = tmp_path / "file.sdf"
    path.write_text(good + text + "$$$$\n" + good)
    with pytest.raises(IncidenceError) as raised:
        list(read_sdf(path))
    start = 1 + good.count("\n")
    where = f"which starts in line {start}" if line is None else f"line {start + line - 1}"
    assert str(raised.value) == f"{path}, record 2, {where}: RDKit cannot read it: {reason}."
    errors: list[IncidenceError] = []
    assert len(list(read_sdf(path, errors))) == 2
    assert [str(error) for error in errors] == [str(raised.value)]
    assert capfd.readouterr().err == ""  # RDKit's own log would be told twice


def test_without_its_reasons_rdkit_still_names_the_record(tmp_path, monkeypatch):
    monkeypatch.delattr("rdkit.rdBase.CaptureErrorLog")
    (tmp_path / "file.sdf").write_text(WATER.replace("  3  2  0", "  x  2  0"))
    with pytest.raises(
        IncidenceError,
        match="record 1, which starts in line 1: RDKit cannot read it: it says no more",
    ):
        list(read_sdf(tmp_path / "file.sdf"))


def test_what_is_no_utf8_is_read_as_latin_1(tmp_path):
    record = WATER.replace("water", "caf\xe9") + ITEMS.replace("A1", "\xe4")
    (tmp_path / "file.sdf").write_bytes(record.encode("latin-1") + b"$$$$\n" + record.encode())
    for molecule in read_sdf(tmp_path / "file.sdf"):
        assert (molecule.name, molecule.properties["ID"]) == ("caf\xe9", "\xe4\nB2")


@pytest.mark.parametrize(
    "use",
    [lambda: read_sdf("file.sdf"), lambda: write_sdf([], "file.sdf"), lambda: from_rdkit(None)],
)
def test_without_rdkit_a_sentence_says_what_to_install(use, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit.Chem", None)
    with pytest.raises(
        MissingExtraError,
        match=r"needs rdkit, which is not installed: pip install 'incidence\[molecules\]'",
    ):
        use()


def test_a_file_that_is_not_there_is_named_at_once(tmp_path):
    with pytest.raises(IncidenceError, match=r"there is no file .*nowhere"):
        read_sdf(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (Structure(2), "a molecule has atomic numbers as features of `i`, and bonds `{i j}`"),
        (
            Example(
                Structure(1, {"{i j}": []}),
                {"i": torch.ones(1, 1), "pos=i": torch.full((1, 3), 1e6)},
            ),
            "molecule 1 has a position beyond 99999, which takes over ten characters",
        ),
        (inc.collate([Structure(1)] * 2), "this is a batch of 2"),
    ],
)
def test_what_a_file_cannot_hold_is_refused(item, message, tmp_path):
    with pytest.raises(IncidenceError, match=message):
        write_sdf([item], tmp_path / "file")
    assert not list(tmp_path.iterdir())


def test_molecules_too_large_for_the_old_format_are_written_in_the_new_one(tmp_path):
    chain = chem.MolFromSmiles("C" * 1001)
    write_sdf([Molecule("chain", chain)], tmp_path / "file.sdf")
    assert "V3000" in (tmp_path / "file.sdf").read_text()
    [found] = read_sdf(tmp_path / "file.sdf")
    assert found.example().structure.num_entries("{i j}") == 1000


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
        (
            lambda: from_rdkit(None),
            (
                "from_rdkit takes a molecule of RDKit; got NoneType. RDKit gives None for what it"
                " cannot read"
            ),
        ),
        (lambda: from_rdkit("CC"), "from_rdkit takes a molecule of RDKit; got str"),
        (
            lambda: from_rdkit(chem.MolFromSmarts("C~C")),
            "bond 0 is of the type UNSPECIFIED; known are SINGLE",
        ),
        (lambda: to_rdkit(CARBONS), "a molecule has atomic numbers as features of `i`"),
        (
            lambda: to_rdkit(Example(CARBONS, {"i": T([[200], [6]])})),
            "an atomic number, 0 to 118; got 200",
        ),
        (
            lambda: to_rdkit(Example(CARBONS, {"i": T([[6], [6]]), "{i j}": T([[7]])})),
            r"the bond \(0, 1\) has the order 7; known are 1, 2",
        ),
        (
            lambda: to_rdkit(Example(CARBONS, {"i": T([[6, 0, 0, 0, 0, 0, 1], [6] + [0] * 6])})),
            "no handedness of the atoms and bonds gives",
        ),
        (
            lambda: to_rdkit(Example(CARBONS, {"i": T([[6], [6]]), "{i j}": T([[2, 1]])})),
            "bond 0 is labelled Z or E, but an end of it has no",
        ),
        (
            lambda: to_rdkit(Example(CARBONS, {"i": T([[6], [6]])}, target=1.0)),
            "rdkit has no place for a target",
        ),
    ],
)
def test_what_is_no_molecule_is_refused(read, message):
    with pytest.raises(IncidenceError, match=message):
        read()
