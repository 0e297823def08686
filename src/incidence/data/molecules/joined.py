"""`Joined`: many molecules side by side in plain arrays, so that features are made for all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from incidence.algebra.pattern import Pattern
from incidence.data.molecules.tables import Array
from incidence.errors import IncidenceError
from incidence.geometry.convert.molecule import Molecule
from incidence.structure.structure import Structure

__all__ = ["Joined", "assert_sound", "is_counted", "join", "starts", "without_hydrogens"]


@dataclass(frozen=True, eq=False)
class Joined:
    """Atoms and bonds of many molecules, numbered through.

    Attributes:
        atoms: Atomic number, charge, isotope, unpaired electrons; shape [atoms, 4].
        positions: Shape [atoms, 3].
        bonds: Numbers of atoms, shape [2, bonds]; those of one molecule stay together.
        orders: 1, 2, 3, or 4 for aromatic; shape [bonds].
        atom_ptr: Where the atoms of each molecule start, and the end.
        bond_ptr: The same for bonds.
        removed: How many hydrogens of each atom were taken away; shape [atoms].
    """

    atoms: Array
    positions: Array
    bonds: Array
    orders: Array
    atom_ptr: Array
    bond_ptr: Array
    removed: Array

    @property
    def numbers(self) -> Array:
        """The atomic numbers."""
        return self.atoms[:, 0]

    @property
    def is_multiple(self) -> Array:
        """For every bond whether it is double, triple or aromatic; dative ones and those that a query leaves open are not."""
        found: Array = np.isin(self.orders, (2, 3, 4))
        return found

    @property
    def num_atoms(self) -> int:
        """How many atoms there are in all."""
        return len(self.atoms)

    def at_atoms(self, values: Array) -> Array:
        """For every atom the sum over its bonds of their values, shape [atoms]."""
        ends = self.bonds.reshape(-1)
        return np.bincount(ends, np.concatenate([values, values]), minlength=self.num_atoms)

    def over_neighbours(self, values: Array) -> Array:
        """For every atom the sum over its neighbours of their values, shape [atoms]."""
        one, other = self.bonds
        return np.bincount(np.concatenate([one, other]), np.concatenate([values[other], values[one]]), minlength=self.num_atoms)

    def structure(self) -> Structure:
        """The batch of the graphs of the molecules."""
        edges = Pattern("{i j}")
        index = torch.from_numpy(np.ascontiguousarray(self.bonds))
        return Structure._of({"node": torch.from_numpy(self.atom_ptr)}, {edges: (index,)}, {edges: torch.from_numpy(self.bond_ptr)})


def join(molecules: Sequence[Molecule]) -> Joined:
    """Molecules side by side.

    Raises:
        IncidenceError: A molecule has no atoms, or a bond twice.
    """
    for molecule in molecules:
        assert_sound(molecule)
    atom_ptr = starts([len(m.atoms) for m in molecules])
    bond_ptr = starts([m.bonds.shape[1] for m in molecules])
    bonds = torch.cat([m.bonds for m in molecules], dim=1).numpy() + np.repeat(atom_ptr[:-1], np.diff(bond_ptr))
    return Joined(
        atoms=torch.cat([m.atoms for m in molecules]).numpy(),
        positions=torch.cat([m.positions for m in molecules]).numpy(),
        bonds=bonds,
        orders=torch.cat([m.orders[:, 0] for m in molecules]).numpy(),
        atom_ptr=atom_ptr,
        bond_ptr=bond_ptr,
        removed=np.zeros(atom_ptr[-1], dtype=np.int64),
    )


def assert_sound(molecule: Molecule) -> None:
    """Refuses what a file may say, but no structure can be.

    Raises:
        IncidenceError: The molecule has no atoms, or a bond twice, or a position that is no number.
    """
    name = f"the molecule {molecule.name!r}"
    if not len(molecule.atoms):
        raise IncidenceError(f"{name} has no atoms. Leave it out.")
    pairs = [(min(pair), max(pair)) for pair in molecule.bonds.T.tolist()]
    if len(set(pairs)) < len(pairs):
        one, other = max(pairs, key=pairs.count)
        raise IncidenceError(f"{name} has the bond of atoms {one + 1} and {other + 1} twice. Keep one of them.")
    if not bool(molecule.positions.isfinite().all()):
        raise IncidenceError(f"{name} has a position that is not a finite number. Correct the file.")


def starts(counts: Sequence[int] | Array) -> Array:
    """Where each of several parts begins, given how long they are; and the end."""
    return np.concatenate([[0], np.cumsum(np.asarray(counts, dtype=np.int64))]).astype(np.int64)


def without_hydrogens(joined: Joined) -> Joined:
    """Takes away hydrogen atoms with one bond, to an atom that is none, and counts them there; others, as in H2, stay."""
    goes = is_counted(joined)
    if not goes.any():
        return joined
    stays = np.invert(goes)
    removed = joined.removed + joined.over_neighbours(goes).astype(np.int64)
    one, other = stays[joined.bonds]
    kept_bonds = one & other
    number = np.cumsum(stays) - 1
    return replace(
        joined,
        atoms=joined.atoms[stays],
        positions=joined.positions[stays],
        bonds=number[joined.bonds[:, kept_bonds]],
        orders=joined.orders[kept_bonds],
        atom_ptr=starts(_sums(stays, joined.atom_ptr)),
        bond_ptr=starts(_sums(kept_bonds, joined.bond_ptr)),
        removed=removed[stays],
    )


def is_counted(joined: Joined) -> Array:
    """For every atom whether `without_hydrogens` takes it away."""
    is_hydrogen = (joined.numbers == 1) & (joined.atoms[:, 1] == 0)
    heavy = joined.numbers != 1
    found: Array = is_hydrogen & (joined.at_atoms(np.ones(len(joined.orders))) == 1) & (joined.over_neighbours(heavy) == 1)
    return found


def _sums(flags: Array, ptr: Array) -> Array:
    return np.diff(starts(flags)[ptr])
