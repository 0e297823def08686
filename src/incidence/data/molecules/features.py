"""Chemical features of molecules: what RDKit works out about atoms and bonds, and rings without chords."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence.errors import IncidenceError, need
from incidence.geometry.convert.sdf import Molecule
from incidence.geometry.lifting.rings import rings
from incidence.structure.example import Example
from incidence.structure.examples import uncollate
from incidence.structure.ragged import ranges
from incidence.structure.structure import Structure

__all__ = [
    "ATOM_FEATURES", "BOND_FEATURES", "RING_FEATURES", "Description", "Tables", "as_mol", "assert_hydrogens", "describe", "features_of",
    "features_of_all",
]  # fmt: skip

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
"""Those with a column of their own, and their atomic numbers; all others share one."""

_MAX_RING = 8
_RING_SIZES = range(3, _MAX_RING + 1)

ATOM_FEATURES = (
    *_ELEMENTS, "other", "degree", "hydrogens", "charge", "electronegativity", "aromatic", "in_ring", *(f"ring{k}" for k in _RING_SIZES),
    "double", "triple", "hetero_neighbours", "donor", "carbonyl_carbon", "carbonyl_oxygen", "sp3",
)  # fmt: skip
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
"""The columns of `{i j}`; one more, `length`, if it is asked for."""

RING_FEATURES = ("size", "aromatic", "hetero")
"""The columns of `ring={i ...}`."""

_HYDROGENS = ("count", "keep")

# Pauling's scale by atomic number from 1, in hundredths; 170, that of an average metal, where it tells none.
# fmt: off
_PAULING = (
    220, 170, 98, 157, 204, 255, 304, 344, 398, 170, 93, 131, 161, 190, 219, 258, 316, 170, 82, 100, 136, 154, 163, 166, 155, 183, 188, 191,
    190, 165, 181, 201, 218, 255, 296, 170, 82, 95, 122, 133, 160, 216, 190, 220, 228, 220, 193, 169, 178, 196, 205, 210, 266, 260, 79, 89,
    *(170,) * 15, 130, 150, 236, 190, 220, 220, 228, 254, 200, 162, 233, 202,
)
# fmt: on
_ELECTRONEGATIVITY = torch.full((256,), 170)
_ELECTRONEGATIVITY[1 : len(_PAULING) + 1] = torch.tensor(_PAULING)


def features_of(molecule: Any, *, hydrogens: str = "count", lengths: bool = False) -> Example:
    r"""A molecule with chemical features: atoms `i`, bonds `{i j}`, rings without chords of up to 8 atoms `ring={i ...}`, `pos=i`.

    Args:
        molecule: A molecule of RDKit, a `Molecule` that `read_sdf` reads, or a SMILES.
        hydrogens: `count`: hydrogen atoms are taken away and counted at their neighbours, with those that are not written;
            `keep`: they stay atoms, and none are added.
        lengths: Whether the lengths of bonds are features; only where positions are those in space.

    Raises:
        IncidenceError: RDKit cannot make sense of the molecule, or it has no atoms.
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
    """`features_of` for many molecules, at a tenth of the time each."""
    return (
        uncollate(Tables.of([describe(one, hydrogens) for one in molecules], lengths).batch())
        if molecules
        else []
    )


def assert_hydrogens(hydrogens: str) -> None:
    """Refuses an unknown way with hydrogens."""
    if hydrogens not in _HYDROGENS:
        raise IncidenceError(f"hydrogens is one of {', '.join(_HYDROGENS)}; got {hydrogens!r}.")


def as_mol(given: Any) -> Any:
    """The molecule of RDKit, from itself, from a record of an SDF file or from a SMILES."""
    chem = need("rdkit.Chem", "a feature of molecules", "molecules")
    if isinstance(given, str):
        with need("rdkit.rdBase", "reading SMILES", "molecules").BlockLogs():
            # RDKit would drop the end of a text that is not ASCII in silence, and take no text for a molecule without atoms.
            found = chem.MolFromSmiles(given.strip()) if given.strip() and given.isascii() else None
        if found is None:
            raise IncidenceError(f"RDKit cannot read the SMILES {given.strip()!r}.")
        return found
    found = given.mol if isinstance(given, Molecule) else given
    if not isinstance(found, chem.Mol):
        raise IncidenceError(
            f"a molecule is one of RDKit, one that `read_sdf` reads, or a SMILES; got {type(given).__name__}."
        )
    return found


class Description(NamedTuple):
    """What RDKit tells about a molecule; hydrogens that are only counted are left out."""

    atoms: Sequence[tuple[int, ...]]  # number, charge, hydrogens, aromatic, in a ring
    bonds: Sequence[tuple[int, ...]]  # two rows of atoms, order, aromatic, in a ring, conjugated
    positions: Tensor
    nodes: list[int]  # the number of every row of atoms in the molecule


@dataclass(frozen=True, eq=False)
class Tables:
    """Features of the atoms and bonds of many molecules one below the other, as RDKit tells them; rings are still to be found.

    Attributes:
        num_atoms: Of every molecule.
        num_bonds: Of every molecule.
        ends: The two atoms of every bond, counted from 0 in each molecule; shape [2, bonds].
        atoms: The columns `ATOM_FEATURES`, those of rings 0; float32.
        bonds: The columns `BOND_FEATURES`; float32.
        positions: Shape [atoms, 3], float32; 0 for molecules without.
    """

    num_atoms: Tensor
    num_bonds: Tensor
    ends: Tensor
    atoms: Tensor
    bonds: Tensor
    positions: Tensor

    @classmethod
    def of(cls, described: Sequence[Description], lengths: bool = False) -> Tables:
        """What RDKit tells about several molecules; with the lengths of bonds, if they are wanted."""
        num_atoms, num_bonds = (
            torch.tensor([len(one.atoms) for one in described]),
            torch.tensor([len(one.bonds) for one in described]),
        )
        atoms = torch.tensor(
            [row for one in described for row in one.atoms], dtype=torch.long
        ).view(-1, 5)
        rows = torch.tensor([row for one in described for row in one.bonds], dtype=torch.long).view(
            -1, 6
        )
        positions = torch.cat([one.positions for one in described])
        ends = rows[:, :2].T + ranges(num_atoms)[:-1].repeat_interleave(num_bonds)
        atom_features, bond_features = _columns(atoms, ends, rows[:, 2:])
        if lengths:
            difference = positions[ends[0]] - positions[ends[1]]
            bond_features = torch.cat(
                [bond_features, difference.norm(dim=1, keepdim=True).float()], dim=1
            )
        return cls(
            num_atoms, num_bonds, rows[:, :2].T, atom_features, bond_features, positions.float()
        )

    def batch(self, target: Tensor | None = None) -> Example:
        """The molecules as a batch, with their rings and a target for every one."""
        home = torch.arange(len(self.num_atoms)).repeat_interleave(self.num_atoms)
        ends = self.ends + ranges(self.num_atoms)[:-1].repeat_interleave(self.num_bonds)
        graphs = Structure(len(home), {"{i j}": ends}, batch=home)
        structure = rings(graphs, _MAX_RING, edges="{i j}", limit=None)
        counts, found = _ring_features(structure, self.atoms, self.bonds)
        first = ATOM_FEATURES.index("ring3")
        atoms = torch.cat(
            [self.atoms[:, :first], counts, self.atoms[:, first + counts.shape[1] :]], dim=1
        )
        features = {"i": atoms, "{i j}": self.bonds, "ring={i ...}": found, "pos=i": self.positions}
        return Example(structure, features, target, is_batch=True).canonical()


def _ring_features(structure: Structure, atoms: Tensor, bonds: Tensor) -> tuple[Tensor, Tensor]:
    """How many rings of each size every atom is in, and the features of the rings: aromatic are those whose bonds all are."""
    node, ring = structure["ring"]
    sizes = ring.bincount(minlength=structure.num_entries("ring"))
    node = node[ring.argsort(stable=True)]
    size_of = sizes.repeat_interleave(sizes)
    is_aromatic = bonds[:, BOND_FEATURES.index("aromatic")]
    is_hetero = 1 - atoms[:, ATOM_FEATURES.index("H")] - atoms[:, ATOM_FEATURES.index("C")]
    counts, found = (
        atoms.new_zeros(len(atoms), len(_RING_SIZES)),
        atoms.new_zeros(len(sizes), len(RING_FEATURES)),
    )
    for column, size in enumerate(_RING_SIZES):
        members = node[size_of == size].view(-1, size)  # (rings, size)
        counts[:, column] = members.flatten().bincount(minlength=len(atoms))
        pairs = members[:, torch.tensor(list(combinations(range(size), 2)))]  # (rings, pairs, 2)
        rows = structure.locate("{i j}", pairs.flatten(0, 1).T)
        inside = (
            torch.where(rows < 0, 0, is_aromatic[rows]).view(pairs.shape[:2]).sum(1)
        )  # without chords, `size` bonds are inside
        whole = torch.full_like(inside, size)
        found[sizes == size] = torch.stack(
            [whole, (inside == size).float(), is_hetero[members].sum(1)], dim=1
        )
    return counts, found


def describe(molecule: Any, hydrogens: str = "count") -> Description:
    """Asks RDKit about a molecule; arguments and errors are those of `features_of`."""
    assert_hydrogens(hydrogens)
    mol, counts = _sanitised(as_mol(molecule)), hydrogens == "count"

    def num_hydrogens(atom: Any) -> int:
        return (
            int(atom.GetTotalNumHs(includeNeighbors=True))
            if counts
            else sum(b.GetAtomicNum() == 1 for b in atom.GetNeighbors())
        )

    atoms = [atom for atom in mol.GetAtoms() if not (counts and _is_counted(atom))]
    place = {atom.GetIdx(): row for row, atom in enumerate(atoms)}
    orders = {kind: order for order, kind in enumerate(("SINGLE", "DOUBLE", "TRIPLE"), 1)}
    atom_rows = [
        (
            a.GetAtomicNum(),
            a.GetFormalCharge(),
            num_hydrogens(a),
            int(a.GetIsAromatic()),
            int(a.IsInRing()),
        )
        for a in atoms
    ]
    ends = [
        (b, place.get(b.GetBeginAtomIdx()), place.get(b.GetEndAtomIdx())) for b in mol.GetBonds()
    ]
    bond_rows = [
        (
            one,
            other,
            orders.get(b.GetBondType().name, 0),
            int(b.GetIsAromatic()),
            int(b.IsInRing()),
            int(b.GetIsConjugated()),
        )
        for b, one, other in ends
        if one is not None and other is not None
    ]
    positions = torch.zeros(len(atoms), 3, dtype=torch.float64)
    if mol.GetNumConformers():
        positions = torch.from_numpy(mol.GetConformer().GetPositions())[list(place)]
    if not bool(positions.isfinite().all()):
        raise IncidenceError(
            "the molecule has a position that is not a finite number. Correct the file."
        )
    return Description(atom_rows, bond_rows, positions, list(place))


def _sanitised(mol: Any) -> Any:
    """A copy with aromatic atoms and bonds, rings and hydrogens; double bonds of aromatic rings are written out."""
    chem, base = (
        need(f"rdkit.{part}", "a feature of molecules", "molecules") for part in ("Chem", "rdBase")
    )
    if not mol.GetNumAtoms():
        raise IncidenceError("the molecule has no atoms. Leave it out.")
    found = chem.Mol(mol)
    try:
        with base.BlockLogs():
            found.UpdatePropertyCache(
                strict=False
            )  # files have atoms with more bonds than they should: those get no hydrogens
            chem.SanitizeMol(found, chem.SANITIZE_ALL ^ chem.SANITIZE_PROPERTIES)
            chem.Kekulize(found)
    except (ValueError, RuntimeError) as error:  # the latter where it contradicts itself
        raise IncidenceError(
            f"RDKit cannot make sense of the molecule: {' '.join(str(error).split())}."
        ) from None
    return found


def _is_counted(atom: Any) -> bool:
    """A hydrogen with one bond, to an atom that is none; others, as in H2, are atoms."""
    is_lone = atom.GetAtomicNum() == 1 and not atom.GetFormalCharge() and atom.GetDegree() == 1
    return is_lone and bool(atom.GetNeighbors()[0].GetAtomicNum() != 1)


def _columns(atoms: Tensor, ends: Tensor, bonds: Tensor) -> tuple[Tensor, Tensor]:
    """The features of atoms, with 0 for the numbers of rings, and of bonds, from the rows that RDKit tells."""
    number, charge, hydrogens, aromatic, in_ring = atoms.T
    order, is_aromatic, bond_in_ring, conjugated = bonds.T
    one, other = ends

    def sums(at_one: Tensor, at_other: Tensor) -> Tensor:
        """For every atom the sum over its bonds of a value that each bond has at either end."""
        return torch.bincount(
            ends.flatten(), torch.cat([at_one, at_other]).double(), minlength=len(atoms)
        )

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
    # Something turns at both ends, and beside a triple bond nothing does.
    turns = (over_neighbours(number != 1) > 1) & (triple == 0) & (number != 1)
    kinds = [(order == k) & (is_aromatic == 0) for k in (1, 2, 3)]
    electronegativity = _ELECTRONEGATIVITY[number]
    is_element = number[:, None] == torch.tensor(list(_ELEMENTS.values()))
    atom_columns = [
        *is_element.T,
        *(
            ~is_element.any(1),
            degree,
            hydrogens,
            charge,
            electronegativity / 100,
            aromatic,
            in_ring,
        ),
        *torch.zeros(len(_RING_SIZES), len(atoms)),
        *(double, triple, over_neighbours(is_hetero)),
        ((number == 7) | (number == 8)) & (hydrogens > 0),
        sums(*carbonyl) > 0,
        sums(*carbonyl.flip(0)) > 0,
        (double + triple == 0) & (number != 1),
    ]
    difference = (electronegativity[one] - electronegativity[other]).abs() / 100
    bond_columns = [
        *kinds,
        is_aromatic,
        bond_in_ring,
        conjugated,
        difference,
        kinds[0] & (bond_in_ring == 0) & turns[one] & turns[other],
    ]
    return torch.stack([c.float() for c in atom_columns], dim=1), torch.stack(
        [c.float() for c in bond_columns], dim=1
    )
