"""Chemical features of molecules, from RDKit and from rings; and the data set of the package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.data.dataset import DataSet, Split, Task
from incidence.errors import IncidenceError, need
from incidence.geometry.convert.sdf import Molecule
from incidence.geometry.lifting.rings import rings
from incidence.structure.collate import uncollate
from incidence.structure.example import Example
from incidence.structure.ragged import ranges
from incidence.structure.structure import Structure

__all__ = ["ATOM_FEATURES", "BOND_FEATURES", "RING_FEATURES", "features_of", "features_of_all"]

_ELEMENTS = {
    "H": 1,
    "B": 5,
    "C": 6,
    "N": 7,
    "O": 8,
    "F": 9,
    "Si": 14,
    "P": 15,
    "S": 16,
    "Cl": 17,
    "Br": 35,
    "I": 53,
}
"""The elements that have a column each, with their atomic numbers; all others share a column."""

_MAX_RING = 8
_RING_SIZES = range(3, _MAX_RING + 1)

ATOM_FEATURES = (
    *_ELEMENTS,
    "other",
    "degree",
    "hydrogens",
    "charge",
    "electronegativity",
    "aromatic",
    "in_ring",
    *(f"ring{k}" for k in _RING_SIZES),
    "double",
    "triple",
    "hetero_neighbours",
    "donor",
    "carbonyl_carbon",
    "carbonyl_oxygen",
    "sp3",
)
"""The columns of `i`. `ring3` to `ring8` count the rings of that size."""

BOND_FEATURES = (
    "single",
    "double",
    "triple",
    "aromatic",
    "in_ring",
    "conjugated",
    "electronegativity_difference",
    "rotatable",
)
"""The columns of `{i j}`; with `lengths=True` there is one more, `length`."""

RING_FEATURES = ("size", "aromatic", "hetero")
"""The columns of `ring={i ...}`."""

_HYDROGENS = ("count", "keep")

# Electronegativity on Pauling's scale, in hundredths, by atomic number from 1. It has none for some
# elements: they get 170, which is that of an average metal.
_PAULING = (
    "220 170 98 157 204 255 304 344 398 170 93 131 161 190 219 258 316 170 82 100 136 154 163 166"
    " 155 183 188 191 190 165 181 201 218 255 296 170 82 95 122 133 160 216 190 220 228 220 193 169"
    " 178 196 205 210 266 260 79 89 170 170 170 170 170 170 170 170 170 170 170 170 170 170 170 130"
    " 150 236 190 220 220 228 254 200 162 233 202"
)
# No element has a number as large as 256, so that no index needs a check.
_ELECTRONEGATIVITY = torch.full((256,), 170)
_ELECTRONEGATIVITY[1:84] = torch.tensor([int(number) for number in _PAULING.split()])


def features_of(molecule: Any, *, hydrogens: str = "count", lengths: bool = False) -> Example:
    r"""Return a molecule with chemical features.

    It has atoms `i`, bonds `{i j}`, rings without chords of up to 8 atoms `ring={i ...}`, and the
    coordinates of the atoms `pos=i`.

    Args:
        molecule: A molecule of RDKit, a `Molecule` that `read_sdf` reads, or a SMILES.
        hydrogens: `count`: hydrogen atoms are removed, and counted as a feature of their
            neighbours, together with implicit ones. `keep`: they stay atoms, and none are added.
        lengths: Whether the lengths of bonds are features; of use only with positions in space.

    Raises:
        IncidenceError: RDKit cannot read the molecule, or it has no atoms.
        MissingExtraError: RDKit is not installed.

    Example:
        >>> example = features_of("O")
        >>> dict(zip(ATOM_FEATURES, example.features["i"][0].tolist()))["hydrogens"]
        2.0
    """
    [example] = features_of_all([molecule], hydrogens=hydrogens, lengths=lengths)
    return example


def features_of_all(
    molecules: Sequence[Any], *, hydrogens: str = "count", lengths: bool = False
) -> list[Example]:
    """Return `features_of` of many molecules, ten times as fast as one by one."""
    described = [describe(one, hydrogens) for one in molecules]
    return uncollate(MoleculeTables.of(described, lengths).batch()) if described else []


def assert_hydrogens(hydrogens: str) -> None:
    """Check the option `hydrogens`.

    Raises:
        IncidenceError: It has another value than `count` and `keep`.
    """
    if hydrogens not in _HYDROGENS:
        raise IncidenceError(f"hydrogens is one of {', '.join(_HYDROGENS)}; got {hydrogens!r}.")


def as_mol(molecule: Any) -> Any:
    """Return the molecule of RDKit of a SMILES, a record of an SDF file, or itself.

    Raises:
        IncidenceError: RDKit cannot read the SMILES, or it is something else.
    """
    chem = need("rdkit.Chem", "a feature of molecules", "molecules")
    if isinstance(molecule, str):
        text = molecule.strip()
        mol = None
        # RDKit silently drops the end of a text that is not ASCII, and accepts an empty one.
        if text and text.isascii():
            with need("rdkit.rdBase", "reading SMILES", "molecules").BlockLogs():
                mol = chem.MolFromSmiles(text)
        if mol is None:
            raise IncidenceError(f"RDKit cannot read the SMILES {text!r}.")
        return mol
    mol = molecule.mol if isinstance(molecule, Molecule) else molecule
    if not isinstance(mol, chem.Mol):
        raise IncidenceError(
            "a molecule is one of RDKit, one that `read_sdf` reads, or a SMILES; got"
            f" {type(molecule).__name__}."
        )
    return mol


class Description(NamedTuple):
    """What RDKit knows about a molecule, without hydrogens that are only counted.

    Attributes:
        atoms: For each atom: number, charge, hydrogens, is aromatic, is in a ring.
        bonds: For each bond: rows of its two atoms, order, is aromatic, is in a ring, is
            conjugated.
        positions: The coordinates, [atoms, 3]; 0 for a molecule without.
        nodes: The number of every row of atoms in the molecule.
    """

    atoms: Sequence[tuple[int, ...]]
    bonds: Sequence[tuple[int, ...]]
    positions: Tensor
    nodes: list[int]


@dataclass(frozen=True, eq=False)
class MoleculeTables:
    """Features of the atoms and bonds of many molecules, one below the other, without rings.

    Attributes:
        num_atoms: The number of atoms of every molecule.
        num_bonds: The number of bonds of every molecule.
        ends: The two atoms of every bond, counted from 0 in each molecule, [2, bonds].
        atoms: The columns `ATOM_FEATURES`, with 0 in those of rings, [atoms, columns].
        bonds: The columns `BOND_FEATURES`, [bonds, columns].
        positions: The coordinates, [atoms, 3]; 0 for molecules without.
    """

    num_atoms: Tensor
    num_bonds: Tensor
    ends: Tensor
    atoms: Tensor
    bonds: Tensor
    positions: Tensor

    @classmethod
    def of(cls, described: Sequence[Description], lengths: bool = False) -> MoleculeTables:
        """Return the tables of several molecules, perhaps with the lengths of bonds."""
        num_atoms = torch.tensor([len(one.atoms) for one in described])
        num_bonds = torch.tensor([len(one.bonds) for one in described])
        rows = [row for one in described for row in one.atoms]
        atoms = torch.tensor(rows, dtype=torch.long).view(-1, 5)
        rows = [row for one in described for row in one.bonds]
        bonds = torch.tensor(rows, dtype=torch.long).view(-1, 6)
        positions = torch.cat([one.positions for one in described])
        local_ends = bonds[:, :2].T  # (2, bonds)
        # (2, bonds), atoms of all molecules
        ends = local_ends + ranges(num_atoms)[:-1].repeat_interleave(num_bonds)
        atom_features, bond_features = _columns(atoms, ends, bonds[:, 2:])
        if lengths:
            difference = positions[ends[0]] - positions[ends[1]]
            length = difference.norm(dim=1, keepdim=True).float()  # (bonds, 1)
            bond_features = torch.cat([bond_features, length], dim=1)
        return cls(
            num_atoms, num_bonds, local_ends, atom_features, bond_features, positions.float()
        )

    def batch(self, target: Tensor | None = None) -> Example:
        """Return the molecules as a batch with rings, and with a target for each if given."""
        # the molecule of each atom
        home = torch.arange(len(self.num_atoms)).repeat_interleave(self.num_atoms)
        ends = self.ends + ranges(self.num_atoms)[:-1].repeat_interleave(self.num_bonds)
        graphs = Structure(len(home), {"{i j}": ends}, batch=home)
        structure = rings(graphs, _MAX_RING, edges="{i j}", limit=None)
        counts, ring_features = _ring_features(structure, self.atoms, self.bonds)
        atoms = self.atoms.clone()
        first = ATOM_FEATURES.index("ring3")
        atoms[:, first : first + counts.shape[1]] = counts
        features = {
            "i": atoms,
            "{i j}": self.bonds,
            "ring={i ...}": ring_features,
            "pos=i": self.positions,
        }
        return Example(structure, features, target, is_batch=True).canonical()


def _ring_features(structure: Structure, atoms: Tensor, bonds: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many rings of each size every atom is in, and the features of the rings."""
    node, ring = structure["ring"]
    sizes = ring.bincount(minlength=structure.num_entries("ring"))
    node = node[ring.argsort(stable=True)]  # the atoms of one ring after the other
    size_of_node = sizes.repeat_interleave(sizes)
    is_aromatic = bonds[:, BOND_FEATURES.index("aromatic")]
    # neither H nor C
    is_hetero = 1 - atoms[:, ATOM_FEATURES.index("H")] - atoms[:, ATOM_FEATURES.index("C")]
    counts = atoms.new_zeros(len(atoms), len(_RING_SIZES))  # (atoms, sizes)
    features = atoms.new_zeros(len(sizes), len(RING_FEATURES))
    for column, size in enumerate(_RING_SIZES):
        members = node[size_of_node == size].view(-1, size)  # (rings, size)
        counts[:, column] = members.flatten().bincount(minlength=len(atoms))
        pairs = members[:, torch.tensor(list(combinations(range(size), 2)))]  # (rings, pairs, 2)
        # (rings x pairs,), -1 without a bond
        rows = structure.locate("{i j}", pairs.flatten(0, 1).T)
        # a ring without chords has `size` bonds inside; it is aromatic if they all are
        aromatic = torch.where(rows < 0, 0, is_aromatic[rows]).view(pairs.shape[:2]).sum(1)
        whole = torch.full_like(aromatic, size)
        features[sizes == size] = torch.stack(
            [whole, (aromatic == size).float(), is_hetero[members].sum(1)], dim=1
        )
    return counts, features


def describe(molecule: Any, hydrogens: str = "count") -> Description:
    """Return what RDKit knows about a molecule; arguments and errors are those of `features_of`."""
    assert_hydrogens(hydrogens)
    mol, counts = _sanitised(as_mol(molecule)), hydrogens == "count"
    atoms = [atom for atom in mol.GetAtoms() if not (counts and _is_counted(atom))]
    place = {atom.GetIdx(): row for row, atom in enumerate(atoms)}
    bonds = [
        (place[bond.GetBeginAtomIdx()], place[bond.GetEndAtomIdx()], *_bond_row(bond))
        for bond in mol.GetBonds()
        if bond.GetBeginAtomIdx() in place and bond.GetEndAtomIdx() in place
    ]
    positions = torch.zeros(len(atoms), 3, dtype=torch.float64)
    if mol.GetNumConformers():
        positions = torch.from_numpy(mol.GetConformer().GetPositions())[list(place)]  # (atoms, 3)
    if not bool(positions.isfinite().all()):
        raise IncidenceError(
            "the molecule has a position that is not a finite number. Correct the file."
        )
    return Description([_atom_row(atom, counts) for atom in atoms], bonds, positions, list(place))


def _atom_row(atom: Any, counts: bool) -> tuple[int, ...]:
    if counts:
        num_hydrogens = int(atom.GetTotalNumHs(includeNeighbors=True))
    else:
        num_hydrogens = sum(other.GetAtomicNum() == 1 for other in atom.GetNeighbors())
    return (
        atom.GetAtomicNum(),
        atom.GetFormalCharge(),
        num_hydrogens,
        int(atom.GetIsAromatic()),
        int(atom.IsInRing()),
    )


_ORDERS = {"SINGLE": 1, "DOUBLE": 2, "TRIPLE": 3}


def _bond_row(bond: Any) -> tuple[int, ...]:
    return (
        _ORDERS.get(bond.GetBondType().name, 0),
        int(bond.GetIsAromatic()),
        int(bond.IsInRing()),
        int(bond.GetIsConjugated()),
    )


def _sanitised(mol: Any) -> Any:
    """Return a copy with aromatic atoms and bonds, rings, hydrogens, and explicit double bonds."""
    chem = need("rdkit.Chem", "a feature of molecules", "molecules")
    base = need("rdkit.rdBase", "a feature of molecules", "molecules")
    if not mol.GetNumAtoms():
        raise IncidenceError("the molecule has no atoms. Leave it out.")
    copy = chem.Mol(mol)  # sanitising changes it, and it belongs to the caller
    try:
        with base.BlockLogs():
            # files have atoms with more bonds than they should: those get no hydrogens
            copy.UpdatePropertyCache(strict=False)
            chem.SanitizeMol(copy, chem.SANITIZE_ALL ^ chem.SANITIZE_PROPERTIES)
            chem.Kekulize(copy)
    except (ValueError, RuntimeError) as error:  # the latter where it contradicts itself
        raise IncidenceError(
            f"RDKit cannot make sense of the molecule: {' '.join(str(error).split())}."
        ) from None
    return copy


def _is_counted(atom: Any) -> bool:
    """Return whether an atom is a hydrogen with one bond, to an atom that is none."""
    is_lone = atom.GetAtomicNum() == 1 and not atom.GetFormalCharge() and atom.GetDegree() == 1
    return is_lone and bool(atom.GetNeighbors()[0].GetAtomicNum() != 1)


def _columns(atoms: Tensor, ends: Tensor, bonds: Tensor) -> tuple[Tensor, Tensor]:
    """Return the features of atoms, with 0 for the numbers of rings, and of bonds.

    Args:
        atoms: Rows of `Description.atoms`, [atoms, 5].
        ends: The two atoms of every bond, [2, bonds].
        bonds: Rows of `Description.bonds` without the atoms, [bonds, 4].
    """
    number, charge, hydrogens, aromatic, in_ring = atoms.T
    order, is_aromatic, bond_in_ring, conjugated = bonds.T
    one, other = ends

    def sums(at_one: Tensor, at_other: Tensor) -> Tensor:
        """Return for every atom the sum over its bonds of the value at its end."""
        values = torch.cat([at_one, at_other]).double()
        return torch.bincount(ends.flatten(), values, minlength=len(atoms))

    def over_neighbours(values: Tensor) -> Tensor:
        return sums(values[other], values[one])

    degree = over_neighbours(torch.ones_like(number))
    double, triple = (sums(is_so, is_so) for is_so in (order == 2, order == 3))
    is_hetero = (number != 1) & (number != 6)
    carbonyl = torch.stack(
        [
            (number[a] == 6) & (number[b] == 8) & (degree[b] == 1) & (order == 2)
            for a, b in ((one, other), (other, one))
        ]
    )
    # a bond is rotatable if both ends have another neighbour and no triple bond
    turns = (over_neighbours(number != 1) > 1) & (triple == 0) & (number != 1)
    kinds = [(order == k) & (is_aromatic == 0) for k in (1, 2, 3)]
    electronegativity = _ELECTRONEGATIVITY[number]
    is_element = number[:, None] == torch.tensor(list(_ELEMENTS.values()))  # (atoms, elements)
    atom_columns = [
        *is_element.T,
        *(~is_element.any(1), degree, hydrogens, charge),
        *(electronegativity / 100, aromatic, in_ring),
        *torch.zeros(len(_RING_SIZES), len(atoms)),
        *(double, triple, over_neighbours(is_hetero)),
        ((number == 7) | (number == 8)) & (hydrogens > 0),
        sums(*carbonyl) > 0,
        sums(*carbonyl.flip(0)) > 0,
        (double + triple == 0) & (number != 1),
    ]
    bond_columns = [
        *kinds,
        *(is_aromatic, bond_in_ring, conjugated),
        (electronegativity[one] - electronegativity[other]).abs() / 100,
        kinds[0] & (bond_in_ring == 0) & turns[one] & turns[other],
    ]
    atom_features = torch.stack([column.float() for column in atom_columns], dim=1)
    bond_features = torch.stack([column.float() for column in bond_columns], dim=1)
    return atom_features, bond_features


def load_solubility(name: str = "solubility", folder: Path | None = None) -> DataSet:
    """Return the solubility of 1,025 molecules for training and 257 for testing.

    The features come with the package, so that no RDKit is needed.

    Args:
        name: The name of the data set.
        folder: Not used.
    """
    with (
        files("incidence.data").joinpath("solubility.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as archive,
    ):
        arrays = {key: archive[key] for key in archive.files}
    about, names = (arrays[key].tobytes().decode() for key in ("about", "names"))
    target, num_train = torch.from_numpy(arrays["solubility"])[:, None], int(arrays["num_train"])
    flat = torch.from_numpy(arrays["hundredths"].T) / 100  # (atoms, 2)
    # A few kinds of atoms and bonds make up all of them.
    atoms, bonds = (
        torch.from_numpy(arrays[f"{key}_kinds"][arrays[f"{key}_kind"]]) / 100
        for key in ("atom", "bond")
    )
    tables = MoleculeTables(
        num_atoms=torch.from_numpy(arrays["num_atoms"]).long(),
        num_bonds=torch.from_numpy(arrays["num_bonds"]).long(),
        ends=torch.from_numpy(arrays["bonds"]).long(),
        atoms=atoms,
        bonds=bonds,
        positions=torch.cat([flat, torch.zeros(len(flat), 1)], dim=1),
    )
    train = torch.arange(num_train)
    return DataSet(
        name=name,
        examples=uncollate(tables.batch(target)),
        task=Task("regression", ("solubility",), unit="log mol/l"),
        splits=(Split(train, train[:0], torch.arange(num_train, len(target))),),
        reader="molecule",
        about=about,
        metric="rmse",
        names=names.split("\n"),
    )
