"""Chemical features: what they say, and what they do not depend on."""

from dataclasses import replace

import pytest
import torch

import incidence as inc
from incidence.data.molecules import ATOM_FEATURES, BOND_FEATURES, RING_FEATURES, features_of, features_of_all
from incidence.data.molecules.smiles import from_smiles
from incidence.errors import IncidenceError
from incidence.geometry.convert import Molecule, from_rdkit
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
    "CN(=O)=O",
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
    "C=C1C=CC=CC=C1",
    "O=C1C=CC=CC=C1",
]


def column(example: Example, name: str) -> list[float]:
    return example.features["i"][:, ATOM_FEATURES.index(name)].tolist()


def bond_column(example: Example, name: str) -> list[float]:
    return example.features["{i j}"][:, BOND_FEATURES.index(name)].tolist()


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
    return {key: {frozenset(n): row for n, row in zip(sets, example.features[key].tolist(), strict=True)} for key, sets in nodes.items()}


def relabelled(molecule: Molecule, order: torch.Tensor) -> Molecule:
    """The same molecule with atom `order[k]` in place k, its bonds in another order and written the other way round."""
    place = order.argsort()
    bonds = place[molecule.bonds].flip(0).flip(1)
    return replace(molecule, atoms=molecule.atoms[order], positions=molecule.positions[order], bonds=bonds, orders=molecule.orders.flip(0))


@pytest.mark.parametrize("smiles", SMILES)
def test_relabelling_atoms_relabels_features(smiles):
    molecule = from_smiles(smiles)
    order = torch.randperm(len(molecule.atoms), generator=torch.Generator().manual_seed(1))
    place = order.argsort().tolist()
    before, after = by_nodes(features_of(molecule)), by_nodes(features_of(relabelled(molecule, order)))
    assert {key: {frozenset(place[n] for n in nodes): row for nodes, row in rows.items()} for key, rows in before.items()} == after


@pytest.mark.parametrize("smiles", SMILES)
def test_hydrogen_counts_are_those_of_rdkit(smiles):
    wanted = [atom.GetTotalNumHs(includeNeighbors=True) for atom in chem.MolFromSmiles(smiles).GetAtoms()]
    assert column(features_of(from_smiles(smiles)), "hydrogens") == wanted


@pytest.mark.parametrize("smiles", SMILES)
def test_aromatic_atoms_are_those_of_rdkit(smiles):
    wanted = [atom.GetIsAromatic() for atom in chem.MolFromSmiles(smiles).GetAtoms()]
    assert column(features_of(from_smiles(smiles)), "aromatic") == wanted


@pytest.mark.parametrize("smiles", [s for s in SMILES if s != "[H][H]"])
def test_explicit_hydrogens_are_removed_and_counted(smiles):
    full = chem.AddHs(chem.MolFromSmiles(smiles))
    chem.Kekulize(full, clearAromaticFlags=True)
    assert features_of(Molecule.of(from_rdkit(full))) == features_of(from_smiles(smiles))


def test_kept_hydrogens_are_atoms_and_none_are_added():
    full = Molecule.of(from_rdkit(chem.AddHs(chem.MolFromSmiles("CO"))))
    example = features_of(full, hydrogens="keep")
    assert example.structure.num_nodes == 6
    assert column(example, "H") == [0, 0, 1, 1, 1, 1]
    assert column(example, "hydrogens") == [3, 1, 0, 0, 0, 0]
    assert column(features_of(from_smiles("CO"), hydrogens="keep"), "hydrogens") == [0, 0]


@pytest.mark.parametrize("smiles", SMILES)
def test_features_are_finite_float32_and_batches_agree(smiles):
    example = features_of(from_smiles(smiles))
    assert all(x.dtype == torch.float32 and bool(x.isfinite().all()) for x in example.features.values())
    widths = {key: x.shape[1] for key, x in example.features.items()}
    assert widths == {"i": len(ATOM_FEATURES), "{i j}": len(BOND_FEATURES), "ring={i ...}": len(RING_FEATURES), "pos=i": 3}
    assert len(inc.collate([example, features_of(from_smiles("C1CC1"))])) == 2


def test_many_molecules_at_once_are_what_they_are_one_by_one():
    molecules = [from_smiles(smiles) for smiles in SMILES]
    assert features_of_all(molecules) == [features_of(molecule) for molecule in molecules]
    assert features_of_all([]) == []


def test_entries_are_in_canonical_order():
    example = features_of(relabelled(from_smiles("Cn1cnc2c1c(=O)n(C)c(=O)n2C"), torch.arange(13, -1, -1)))
    assert example.canonical() == example


def test_features_do_not_depend_on_which_double_bonds_of_a_ring_are_written():
    molecule = from_smiles("Cc1ccccc1O")
    in_ring = torch.tensor(bond_column(features_of(molecule), "in_ring")).bool()
    orders = molecule.orders.clone()
    ends = [set(pair) for pair in molecule.bonds.T.tolist()]
    rows = [ends.index(set(pair)) for pair in features_of(molecule).structure["{i j}"].T.tolist()]
    ring = [row for row, is_in in zip(rows, in_ring.tolist(), strict=True) if is_in]
    orders[ring] = 3 - orders[ring]
    assert not torch.equal(orders, molecule.orders)
    assert features_of(replace(molecule, orders=orders)) == features_of(molecule)


def test_bonds_that_a_file_calls_aromatic_mean_the_same():
    molecule = from_smiles("c1ccc2ccccc2c1")
    example = features_of(replace(molecule, orders=torch.full_like(molecule.orders, 4)))
    assert column(example, "aromatic") == [1.0] * 10
    assert column(example, "hydrogens") == column(features_of(molecule), "hydrogens")


def test_only_positions_and_nothing_else_turn_with_the_molecule():
    molecule = from_smiles("CC(=O)Oc1ccccc1C(=O)O")
    generator = torch.Generator().manual_seed(0)
    positions = torch.randn(13, 3, dtype=torch.float64, generator=generator)
    turn = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=generator))[0]
    still, turned = (features_of(replace(molecule, positions=p), lengths=True).features for p in (positions, positions @ turn))
    assert torch.allclose(still["{i j}"], turned["{i j}"], atol=1e-5)
    assert all(torch.equal(still[key], turned[key]) for key in ("i", "ring={i ...}"))
    assert torch.allclose(turned["pos=i"], still["pos=i"] @ turn.float(), atol=1e-5)


def test_aspirin_has_the_features_of_the_textbook():
    example = features_of(from_smiles("CC(=O)Oc1ccccc1C(=O)O"))
    assert sum(column(example, "carbonyl_carbon")) == sum(column(example, "carbonyl_oxygen")) == 2
    assert [k for k, donor in enumerate(column(example, "donor")) if donor] == [12]
    assert sum(column(example, "ring6")) == sum(column(example, "in_ring")) == 6
    assert sum(bond_column(example, "rotatable")) == 3
    assert sum(bond_column(example, "aromatic")) == 6
    assert column(example, "sp3")[0] == 1
    assert column(example, "hetero_neighbours")[1] == 2
    assert example.features["ring={i ...}"].tolist() == [[6, 1, 0]]


def test_beside_a_triple_bond_nothing_turns_and_conjugation_needs_neighbours():
    assert sum(bond_column(features_of(from_smiles("CCC#CCC")), "rotatable")) == 0
    assert sum(bond_column(features_of(from_smiles("C=CC=C")), "conjugated")) == 3
    assert sum(bond_column(features_of(from_smiles("C=CCC=C")), "conjugated")) == 0


def test_rings_tell_their_heteroatoms():
    assert features_of(from_smiles("C1COCCN1")).features["ring={i ...}"].tolist() == [[6, 0, 2]]
    assert features_of(from_smiles("CC")).features["ring={i ...}"].shape == (0, 3)


def test_an_unknown_way_with_hydrogens_is_refused():
    with pytest.raises(IncidenceError, match="hydrogens is one of count, keep; got 'drop'"):
        features_of(from_smiles("C"), hydrogens="drop")


def test_what_no_structure_can_be_is_refused():
    ethane = from_smiles("CC", "ethane")
    with pytest.raises(IncidenceError, match="'ethane' has the bond of atoms 1 and 2 twice"):
        features_of(replace(ethane, bonds=torch.tensor([[0, 1], [1, 0]]), orders=torch.ones(2, 1).long()))
    with pytest.raises(IncidenceError, match="'ethane' has a position that is not a finite number"):
        features_of(replace(ethane, positions=torch.full((2, 3), torch.nan)))
    none = torch.zeros(0, 4).long()
    with pytest.raises(IncidenceError, match="'ethane' has no atoms"):
        features_of(replace(ethane, atoms=none, positions=none[:, :3].double(), bonds=none[:, :2].T, orders=none[:, :1]))


def test_text_that_is_no_smiles_is_refused():
    for text in ("C1CC", "", "no"):
        with pytest.raises(IncidenceError, match="RDKit cannot read the SMILES"):
            from_smiles(text)


def test_a_dative_bond_counts_for_no_valence():
    assert column(features_of(from_smiles("[NH3]->[Cu]")), "hydrogens") == [3, 0]
