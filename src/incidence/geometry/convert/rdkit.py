"""Molecules of RDKit as examples, and back."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, need
from incidence.geometry.convert.exchange import assert_held, by_meaning, single
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = ["ATOM_COLUMNS", "BOND_COLUMNS", "from_rdkit", "plain", "to_rdkit"]

ATOM_COLUMNS = ("number", "charge", "isotope", "radical", "hydrogens", "no_implicit", "chirality")
"""The features of an atom; the first four are those of `read_sdf`. Chirality: 0 none, 1 R, 2 S, 3
r, 4 s.
"""

BOND_COLUMNS = ("order", "stereo")
"""The features of a bond. Order: 1, 2, 3, 4 for aromatic, 9 for dative; stereo: 0 none, 1 Z, 2 E.
"""

_ORDERS = {
    "SINGLE": 1,
    "DOUBLE": 2,
    "TRIPLE": 3,
    "AROMATIC": 4,
    "QUADRUPLE": 5,
    "ZERO": 8,
    "DATIVE": 9,
}
_CHIRALITY = {"": 0, "R": 1, "S": 2, "r": 3, "s": 4}
_STEREO = {"": 0, "Z": 1, "E": 2}


def from_rdkit(molecule: Any) -> Example:
    r"""Read a molecule: atoms `i` and bonds `{i j}` in their order, with features that do not
    depend on it, all integers.

    The columns of the features are `ATOM_COLUMNS` and `BOND_COLUMNS` of this module. Positions, if
    there are any, are the features of `pos=i`. Chirality has the labels R and S, Z and E; other
    kinds of stereochemistry are ignored.

    Example:
        >>> from rdkit import Chem
        >>> from_rdkit(Chem.MolFromSmiles("CCO"))
        Example(Structure(num_nodes=3, '{i j}': 2 entries), features={'i': [3, 7], '{i j}': [2, 2]},
        target=None)
    """
    example = plain(molecule)
    atom_labels, bond_labels = _labels(need("rdkit.Chem", "from_rdkit", "molecules"), molecule)
    of_atoms = [
        (atom.GetNumExplicitHs(), int(atom.GetNoImplicit()), _CHIRALITY.get(label, 0))
        for atom, label in zip(molecule.GetAtoms(), atom_labels, strict=True)
    ]
    of_bonds = [_STEREO.get(label, 0) for label in bond_labels]
    more = {
        "i": torch.tensor(of_atoms).long().view(-1, len(ATOM_COLUMNS) - 4),
        "{i j}": torch.tensor(of_bonds).long().view(-1, len(BOND_COLUMNS) - 1),
    }
    features = dict(example.features)
    for key, columns in more.items():
        features[key] = torch.cat([features[key], columns], dim=1)
    return example.replace(features=features)


def plain(molecule: Any) -> Example:
    """Return the same with the first four columns of atoms and the first of bonds, which need no
    stereochemistry.
    """
    chem = need("rdkit.Chem", "from_rdkit", "molecules")
    if not isinstance(molecule, chem.Mol):
        hint = " RDKit gives None for what it cannot read." if molecule is None else ""
        raise IncidenceError(
            f"from_rdkit takes a molecule of RDKit; got {type(molecule).__name__}.{hint}"
        )
    atoms = [
        (a.GetAtomicNum(), a.GetFormalCharge(), a.GetIsotope(), a.GetNumRadicalElectrons())
        for a in molecule.GetAtoms()
    ]
    bonds = []
    for bond in molecule.GetBonds():
        kind = bond.GetBondType().name
        if kind not in _ORDERS:
            raise IncidenceError(
                f"from_rdkit: bond {bond.GetIdx()} is of the type {kind}; known are"
                f" {', '.join(_ORDERS)}."
            )
        bonds.append((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), _ORDERS[kind]))
    rows = torch.tensor(bonds, dtype=torch.long).view(-1, 3)  # two atoms and an order
    features = {"i": torch.tensor(atoms, dtype=torch.long).view(-1, 4), "{i j}": rows[:, 2:]}
    if molecule.GetNumConformers():
        positions = molecule.GetConformer().GetPositions()
        features["pos=i"] = torch.tensor(positions, dtype=torch.float64).view(-1, 3)
    return Example(Structure(len(atoms), {"{i j}": rows[:, :2].T}), features)


def _labels(chem: Any, molecule: Any) -> tuple[list[str], list[str]]:
    """The labels R, S and Z, E of atoms and bonds, empty where there is none; the molecule stays as
    it is.
    """
    labelled = chem.Mol(molecule)  # assigning labels changes the molecule
    is_handed = any(
        a.GetChiralTag() != chem.ChiralType.CHI_UNSPECIFIED for a in labelled.GetAtoms()
    )
    if is_handed or any(b.GetStereo() > chem.BondStereo.STEREOANY for b in labelled.GetBonds()):
        labelled.UpdatePropertyCache(strict=False)
        chem.FastFindRings(labelled)
        # versions before 2026.9 fail at an atom with too few neighbours
        with suppress(RuntimeError):
            need("rdkit.Chem.rdCIPLabeler", "from_rdkit", "molecules").AssignCIPLabels(labelled)

    def label(part: Any) -> str:
        return str(part.GetProp("_CIPCode")) if part.HasProp("_CIPCode") else ""

    return [label(a) for a in labelled.GetAtoms()], [label(b) for b in labelled.GetBonds()]


def to_rdkit(example: Example | Structure) -> Any:
    r"""Write a molecule with the features that `from_rdkit` or `read_sdf` makes; columns that are
    missing are 0.

    It is not sanitised, so that nothing in it changes. Call `Chem.SanitizeMol` for the properties
    that RDKit computes.

    Raises:
        IncidenceError: There are no atomic numbers, or the labels of chirality do not fit the
            molecule.

    Example:
        >>> from rdkit import Chem
        >>> Chem.MolToSmiles(to_rdkit(from_rdkit(Chem.MolFromSmiles("OC(=O)[C@@H](N)C"))))
        'C[C@H](N)C(=O)O'
    """
    chem = need("rdkit.Chem", "to_rdkit", "molecules")
    example = single(example, "to_rdkit")
    assert_held(example, "to_rdkit", ["{i j}"], ["i", "pos=i", "{i j}"])
    features = by_meaning(example)
    if Pattern("i") not in features or Pattern("{i j}") not in example.structure.patterns:
        raise IncidenceError(
            "to_rdkit: a molecule has atomic numbers as features of `i`, and bonds `{i j}`."
        )
    atoms = _padded(features[Pattern("i")], len(ATOM_COLUMNS))
    count = example.structure.num_entries("{i j}")
    bonds = _padded(features.get(Pattern("{i j}"), torch.ones(count, 1)), len(BOND_COLUMNS))
    molecule = chem.RWMol()
    for number, charge, isotope, radical, hydrogens, no_implicit, _ in atoms:
        if not 0 <= number <= 118:
            raise IncidenceError(
                f"to_rdkit: the first feature of `i` is an atomic number, 0 to 118; got {number}."
            )
        atom = chem.Atom(number)
        atom.SetFormalCharge(charge)
        atom.SetIsotope(isotope)
        atom.SetNumRadicalElectrons(radical)
        atom.SetNumExplicitHs(hydrogens)
        atom.SetNoImplicit(bool(no_implicit))
        molecule.AddAtom(atom)
    names = {order: name for name, order in _ORDERS.items()}
    for (one, other), (order, _) in zip(example.structure["{i j}"].T.tolist(), bonds, strict=True):
        if order not in names:
            raise IncidenceError(
                f"to_rdkit: the bond ({one}, {other}) has the order {order}; known are"
                f" {', '.join(map(str, names))}."
            )
        molecule.AddBond(one, other, getattr(chem.BondType, names[order]))
        if names[order] == "AROMATIC":
            molecule.GetBondBetweenAtoms(one, other).SetIsAromatic(True)
            for end in (one, other):
                molecule.GetAtomWithIdx(end).SetIsAromatic(True)
    made = molecule.GetMol()
    made.UpdatePropertyCache(strict=False)
    chem.GetSymmSSSR(made)
    if Pattern("pos=i") in features:
        positions = features[Pattern("pos=i")].tolist()
        conformer = chem.Conformer(len(positions))
        for k, at in enumerate(positions):
            conformer.SetAtomPosition(k, at)
        conformer.Set3D(any(at[2] != 0 for at in positions))
        made.AddConformer(conformer)
    _set_labels(chem, made, [row[-1] for row in atoms], [row[-1] for row in bonds])
    chem.SetDoubleBondNeighborDirections(made)
    chem.AssignStereochemistry(made, cleanIt=True, force=True)
    return made


def _padded(x: torch.Tensor, width: int) -> list[list[int]]:
    zeros = torch.zeros(len(x), width, dtype=torch.long)
    rows: list[list[int]] = torch.cat([x.long(), zeros], dim=1)[:, :width].tolist()
    return rows


def _set_labels(chem: Any, molecule: Any, atoms: list[int], bonds: list[int]) -> None:
    """Set a handedness of atoms and bonds that gives the labels.

    A label may depend on others. So all that are wrong are reversed, and in every second round one
    only: two that depend on each other would never settle.
    """
    tags = chem.ChiralType
    stereo = chem.BondStereo
    turns = [tags.CHI_TETRAHEDRAL_CW, tags.CHI_TETRAHEDRAL_CCW]
    handed = {k: list(turns) for k, label in enumerate(atoms) if label}
    double = {k: [stereo.STEREOCIS, stereo.STEREOTRANS] for k, label in enumerate(bonds) if label}
    for k in double:
        bond = molecule.GetBondWithIdx(k)
        begin = bond.GetBeginAtom()
        end = bond.GetEndAtom()
        # a neighbour at each end shows the side
        sides = [_other_neighbour(begin, end), _other_neighbour(end, begin)]
        if None in sides:
            raise IncidenceError(
                f"to_rdkit: bond {k} is labelled Z or E, but an end of it has no other neighbour."
            )
        bond.SetStereoAtoms(*sides)
    for attempt in range(4 * (len(handed) + len(double)) + 1):
        for k, (tag, _) in handed.items():
            molecule.GetAtomWithIdx(k).SetChiralTag(tag)
        for k, (tag, _) in double.items():
            molecule.GetBondWithIdx(k).SetStereo(tag)
        atom_labels, bond_labels = _labels(chem, molecule)
        wrong = [handed[k] for k in handed if _CHIRALITY.get(atom_labels[k], 0) != atoms[k]]
        wrong += [double[k] for k in double if _STEREO.get(bond_labels[k], 0) != bonds[k]]
        if not wrong:
            return
        for pair in wrong[:1] if attempt % 2 else wrong:
            pair.reverse()
    raise IncidenceError(
        "to_rdkit: no handedness of the atoms and bonds gives the labels in their last features."
        " Set those to 0."
    )


def _other_neighbour(atom: Any, partner: Any) -> int | None:
    """The first neighbour of an atom beside its partner in a bond."""
    neighbours = (neighbour.GetIdx() for neighbour in atom.GetNeighbors())
    return next((k for k in neighbours if k != partner.GetIdx()), None)
