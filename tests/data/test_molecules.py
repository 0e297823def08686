"""Chemical features: what they say about molecules that everybody knows, and what they do not
depend on.
"""

import sys

import numpy as np
import pytest
import torch

import incidence as inc
from incidence.data.molecules import (
    ATOM_FEATURES,
    BOND_FEATURES,
    RING_FEATURES,
    features_of,
    features_of_all,
)
from incidence.errors import IncidenceError, MissingExtraError
from incidence.geometry.convert import Molecule
from incidence.structure import Example

chem = pytest.importorskip("rdkit.Chem")

SMILES = [
    "C",
    "[Na+].[Cl-]",
    "O",
    "[H][H]",
    "CCO",
    "CC(=O)Oc1ccccc1C(=O)O",
    "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "c1ccc2ccccc2c1",
    "c1ccc2cccc2cc1",
    "c1ccn2cccc2c1",
    "C1CC2CCC1C2",
    "C12C3C4C1C5C2C3C45",
    "CS(=O)(=O)N",
    "[O-][N+](=O)c1ccccc1",
    "CC#N",
    "C=C=C",
    "[NH3+]CC([O-])=O",
    "CN=[N+]=[N-]",
    "O=C1C=CC(=O)C=C1",
    "c1cc[nH]c1",
    "c1ccsc1",
    "O=c1cc[nH]c(=O)[nH]1",
    "C[Si](C)(C)C",
    "CP(=O)(O)O",
    "OB(O)c1ccccc1",
    "[CH3]",
    "CCCC[Sn](CCCC)(CCCC)Cl",
    "O=I(=O)c1ccccc1",
    "C1CCCCCCCCC1",
    "C1=CC=C[CH+]C=C1",
    "c1cc[cH-]c1",
    "O=C1C=CC=CC=C1",
]


def column(example: Example, name: str) -> list[float]:
    return example.features["i"][:, ATOM_FEATURES.index(name)].tolist()


def atoms_with(example: Example, name: str) -> set[int]:
    return {k for k, value in enumerate(column(example, name)) if value}


def bonds_with(example: Example, name: str) -> set[frozenset[int]]:
    values = example.features["{i j}"][:, BOND_FEATURES.index(name)]
    return {frozenset(pair) for pair in example.structure["{i j}"].T[values != 0].tolist()}


def by_nodes(example: Example) -> dict[str, dict[frozenset[int], list[float]]]:
    """The features of every entry under its set of nodes."""
    s = example.structure
    members: dict[int, set[int]] = {}
    for node, ring in s["ring"].T.tolist():
        members.setdefault(ring, set()).add(node)
    nodes = {
        "i": [{k} for k in range(s.num_nodes)],
        "{i j}": [set(pair) for pair in s["{i j}"].T.tolist()],
        "ring={i ...}": [members[k] for k in range(len(members))],
    }
    return {
        key: {
            frozenset(n): row for n, row in zip(sets, example.features[key].tolist(), strict=True)
        }
        for key, sets in nodes.items()
    }


# ---- what they say


def test_the_atoms_and_bonds_of_benzene_are_aromatic_and_those_of_cyclohexane_are_not():
    benzene, cyclohexane = features_of("c1ccccc1"), features_of("C1CCCCC1")
    assert (
        column(benzene, "aromatic")
        == column(benzene, "ring6")
        == column(benzene, "hydrogens")
        == column(benzene, "double")
        == [1] * 6
    )
    assert len(bonds_with(benzene, "aromatic")) == len(bonds_with(benzene, "conjugated")) == 6
    assert not bonds_with(benzene, "single") | bonds_with(benzene, "double")
    assert benzene.features["ring={i ...}"].tolist() == [[6, 1, 0]]
    assert column(cyclohexane, "aromatic") == [0] * 6
    assert column(cyclohexane, "sp3") == column(cyclohexane, "in_ring") == [1] * 6
    assert cyclohexane.features["ring={i ...}"].tolist() == [[6, 0, 0]]


def test_acetic_acid_has_a_donor_and_a_carbonyl():
    acid = features_of("CC(=O)O")
    assert (
        atoms_with(acid, "carbonyl_carbon"),
        atoms_with(acid, "carbonyl_oxygen"),
        atoms_with(acid, "donor"),
    ) == ({1}, {2}, {3})
    assert column(acid, "hydrogens") == [3, 0, 0, 1]
    assert column(acid, "degree") == [1, 3, 1, 1]
    assert column(acid, "hetero_neighbours") == [0, 2, 0, 0]
    assert column(acid, "electronegativity") == pytest.approx([2.55, 2.55, 3.44, 3.44])
    assert atoms_with(acid, "sp3") == {0, 3}
    assert bonds_with(acid, "double") == {frozenset({1, 2})}
    assert bonds_with(acid, "conjugated") == {frozenset({1, 2}), frozenset({1, 3})}
    assert acid.features["{i j}"][
        :, BOND_FEATURES.index("electronegativity_difference")
    ].tolist() == pytest.approx([0, 0.89, 0.89])


def test_an_oxygen_with_another_neighbour_is_no_carbonyl():
    assert not atoms_with(features_of("C=[O+]C"), "carbonyl_carbon")


def test_aspirin_has_the_features_of_the_textbook():
    example = features_of("CC(=O)Oc1ccccc1C(=O)O")
    assert (atoms_with(example, "carbonyl_carbon"), atoms_with(example, "carbonyl_oxygen")) == (
        {1, 10},
        {2, 11},
    )
    assert atoms_with(example, "donor") == {12}
    assert atoms_with(example, "ring6") == atoms_with(example, "in_ring") == {4, 5, 6, 7, 8, 9}
    assert bonds_with(example, "rotatable") == {
        frozenset(pair) for pair in ((1, 3), (3, 4), (9, 10))
    }
    assert example.features["ring={i ...}"].tolist() == [[6, 1, 0]]


@pytest.mark.parametrize(
    ("smiles", "aromatic"),
    [
        ("c1cc[nH]c1", {0, 1, 2, 3, 4}),
        ("C1=CCC=C1", set()),
        ("O=C1C=CC(=O)C=C1", set()),
        ("C1=CC=C[CH+]C=C1", set(range(7))),
        ("c1ccc2cccc2cc1", set(range(10))),
        ("C1=CC=CC=CC=C1", set()),
    ],
    ids=["pyrrole", "cyclopentadiene", "quinone", "tropylium", "azulene", "cyclooctatetraene"],
)
def test_aromatic_are_rings_that_chemists_call_so(smiles, aromatic):
    assert atoms_with(features_of(smiles), "aromatic") == aromatic


def test_a_ring_between_aromatic_rings_is_not_aromatic_itself():
    biphenylene = features_of("c1ccc2c(c1)-c1ccccc1-2")
    assert len(atoms_with(biphenylene, "aromatic")) == 12
    assert sorted(biphenylene.features["ring={i ...}"].tolist()) == [
        [4, 0, 0],
        [6, 1, 0],
        [6, 1, 0],
    ]


def test_rings_are_all_cycles_without_chords_of_up_to_eight_atoms():
    cubane = features_of("C12C3C4C1C5C2C3C45")
    # no basis of cycles has the ten of them
    assert cubane.features["ring={i ...}"][:, 0].tolist() == [4] * 6 + [6] * 4
    assert column(cubane, "ring4") == column(cubane, "ring6") == [3] * 8
    assert features_of("C1COCCN1").features["ring={i ...}"].tolist() == [[6, 0, 2]]
    assert features_of("CC").features["ring={i ...}"].shape == (0, 3)
    large = features_of("C1CCCCCCCCC1")
    assert large.features["ring={i ...}"].shape == (0, 3)
    assert column(large, "in_ring") == [1] * 10  # in a ring that is no face


def test_beside_a_triple_bond_nothing_turns_and_conjugation_needs_neighbours():
    assert not bonds_with(features_of("CCC#CCC"), "rotatable")
    assert len(bonds_with(features_of("C=CC=C"), "conjugated")) == 3
    assert not bonds_with(features_of("C=CCC=C"), "conjugated")
    assert column(features_of("CC#N"), "triple") == [0, 1, 1]


def test_elements_charges_and_what_has_no_column_of_its_own():
    salt = features_of("[Na+].[Cl-]")
    assert (column(salt, "other"), column(salt, "Cl"), column(salt, "charge")) == (
        [1, 0],
        [0, 1],
        [1, -1],
    )
    # a dative bond counts for no valence
    assert column(features_of("[NH3]->[Cu]"), "hydrogens") == [3, 0]
    assert column(features_of("*C"), "electronegativity") == pytest.approx([1.7, 2.55])


def test_a_nitro_group_means_the_same_with_and_without_charges():
    plain = chem.MolFromSmiles("CN(=O)=O", sanitize=False)
    assert features_of(plain) in (features_of("C[N+](=O)[O-]"), features_of("C[N+]([O-])=O"))


def test_an_atom_with_too_many_bonds_has_no_hydrogens_and_is_no_error():
    assert column(
        features_of(chem.MolFromSmiles("C(C)(C)(C)(C)C", sanitize=False)), "hydrogens"
    ) == [0, 3, 3, 3, 3, 3]


# ---- what they do not depend on


@pytest.mark.parametrize("smiles", SMILES)
def test_relabelling_atoms_relabels_features(smiles):
    molecule = chem.MolFromSmiles(smiles)
    order = np.random.default_rng(1).permutation(molecule.GetNumAtoms()).tolist()
    place = np.argsort(order).tolist()
    before, after = (
        by_nodes(features_of(molecule)),
        by_nodes(features_of(chem.RenumberAtoms(molecule, order))),
    )
    assert {
        key: {frozenset(place[n] for n in nodes): row for nodes, row in rows.items()}
        for key, rows in before.items()
    } == after


@pytest.mark.parametrize("smiles", [s for s in SMILES if s != "[H][H]"])
def test_explicit_hydrogens_are_removed_and_counted(smiles):
    assert features_of(chem.AddHs(chem.MolFromSmiles(smiles))) == features_of(smiles)


def test_isotopes_of_hydrogen_are_counted_and_hydrogen_molecules_are_atoms():
    assert column(features_of("[2H]O[2H]"), "hydrogens") == [2]
    assert column(features_of("[H][H]"), "H") == [1, 1]
    assert column(features_of("[H+]"), "charge") == [1]


def test_kept_hydrogens_are_atoms_and_none_are_added():
    example = features_of(chem.AddHs(chem.MolFromSmiles("CO")), hydrogens="keep")
    assert column(example, "H") == [0, 0, 1, 1, 1, 1]
    assert column(example, "hydrogens") == [3, 1, 0, 0, 0, 0]
    assert column(example, "degree") == [4, 2, 1, 1, 1, 1]
    assert column(features_of("CO", hydrogens="keep"), "hydrogens") == [0, 0]


def test_molecules_of_rdkit_records_of_files_and_smiles_have_the_same_features():
    mol = chem.MolFromSmiles("Cc1ccccc1O")
    assert features_of(mol) == features_of("Cc1ccccc1O") == features_of(Molecule("cresol", mol))


@pytest.mark.parametrize("smiles", ["Cc1ccccc1O", "c1ccc2ccccc2c1", "c1ccn2cccc2c1"])
def test_it_does_not_matter_how_the_double_bonds_of_a_ring_are_written(smiles):
    kekule = chem.MolFromSmiles(smiles)
    chem.Kekulize(kekule, clearAromaticFlags=True)
    assert features_of(kekule) == features_of(smiles)
    other = chem.MolFromSmiles("Cc1ccccc1O")
    chem.Kekulize(other, clearAromaticFlags=True)
    swap = {chem.BondType.SINGLE: chem.BondType.DOUBLE, chem.BondType.DOUBLE: chem.BondType.SINGLE}
    for bond in other.GetBonds():
        if bond.IsInRing():
            bond.SetBondType(swap[bond.GetBondType()])
    assert features_of(other) == features_of("Cc1ccccc1O")


def test_the_molecule_that_is_given_stays_as_it_is():
    mol = chem.MolFromMolBlock(
        chem.MolToMolBlock(chem.MolFromSmiles("CN(=O)=O", sanitize=False)), sanitize=False
    )
    before = mol.ToBinary()
    features_of(mol)
    assert mol.ToBinary() == before


def test_only_positions_and_nothing_else_turn_with_the_molecule():
    molecule = chem.MolFromSmiles("CC(=O)Oc1ccccc1C(=O)O")
    rng = np.random.default_rng(0)
    positions, turn = rng.normal(size=(13, 3)), np.linalg.qr(rng.normal(size=(3, 3)))[0]

    def placed(at: np.ndarray) -> dict[str, torch.Tensor]:
        conformer = chem.Conformer(13)
        conformer.SetPositions(np.ascontiguousarray(at))
        other = chem.Mol(molecule)
        other.AddConformer(conformer)
        return features_of(other, lengths=True).features

    still, turned = placed(positions), placed(positions @ turn)
    assert torch.allclose(still["{i j}"], turned["{i j}"], atol=1e-5)
    assert still["{i j}"].shape[1] == len(BOND_FEATURES) + 1
    assert all(torch.equal(still[key], turned[key]) for key in ("i", "ring={i ...}"))
    assert torch.allclose(
        turned["pos=i"], still["pos=i"] @ torch.from_numpy(turn).float(), atol=1e-5
    )


@pytest.mark.parametrize("smiles", SMILES)
def test_features_are_finite_float32_and_batches_agree(smiles):
    example = features_of(smiles)
    assert all(
        x.dtype == torch.float32 and bool(x.isfinite().all()) for x in example.features.values()
    )
    widths = {key: x.shape[1] for key, x in example.features.items()}
    assert widths == {
        "i": len(ATOM_FEATURES),
        "{i j}": len(BOND_FEATURES),
        "ring={i ...}": len(RING_FEATURES),
        "pos=i": 3,
    }
    assert len(inc.collate([example, features_of("C1CC1")])) == 2


def test_many_molecules_at_once_are_what_they_are_one_by_one():
    assert features_of_all(SMILES) == [features_of(smiles) for smiles in SMILES]
    assert features_of_all([]) == []


def test_entries_are_in_canonical_order():
    example = features_of(
        chem.RenumberAtoms(
            chem.MolFromSmiles("Cn1cnc2c1c(=O)n(C)c(=O)n2C"), list(range(13, -1, -1))
        )
    )
    assert example.canonical() == example


# ---- what is refused


def test_an_unknown_way_with_hydrogens_is_refused():
    with pytest.raises(IncidenceError, match="hydrogens is one of count, keep; got 'drop'"):
        features_of("C", hydrogens="drop")


def test_what_is_no_molecule_is_refused():
    with pytest.raises(
        IncidenceError,
        match="a molecule is one of RDKit, one that `read_sdf` reads, or a SMILES; got int",
    ):
        features_of(5)
    with pytest.raises(IncidenceError, match="the molecule has no atoms"):
        features_of(chem.Mol())
    with pytest.raises(
        IncidenceError, match="RDKit cannot make sense of the molecule: Can't kekulize mol"
    ):
        features_of(chem.MolFromSmiles("c1cccc1", sanitize=False))
    molecule, conformer = chem.MolFromSmiles("C"), chem.Conformer(1)
    conformer.SetAtomPosition(0, (0, 0, float("nan")))
    molecule.AddConformer(conformer)
    with pytest.raises(IncidenceError, match="a position that is not a finite number"):
        features_of(molecule)


@pytest.mark.parametrize("text", ["C1CC", "", " ", "no", "C\xe9", "C(C)(C)(C)(C)C"])
def test_text_that_is_no_smiles_is_refused(text):
    with pytest.raises(IncidenceError, match="RDKit cannot read the SMILES"):
        features_of(text)


def test_without_rdkit_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit.Chem", None)
    with pytest.raises(
        MissingExtraError,
        match=r"needs rdkit, which is not installed: pip install 'incidence\[molecules\]'",
    ):
        features_of("C")
