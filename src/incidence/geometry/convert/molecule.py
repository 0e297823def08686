"""`Molecule`: what a record of an SDF file says, and the example it makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.convert.elements import SYMBOLS
from incidence.geometry.convert.exchange import by_meaning, single
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = ["ATOM_COLUMNS", "Molecule"]

ATOM_COLUMNS = ("number", "charge", "isotope", "radical")
"""The features of an atom: atomic number, formal charge, mass number of the isotope (0 for the natural mixture), unpaired electrons."""


@dataclass(frozen=True, eq=False)
class Molecule:
    r"""Atoms, bonds and properties of a molecule, as a file tells them.

    Attributes:
        name: The first line of the record.
        atoms: One row for each atom: atomic number, formal charge, isotope, unpaired electrons; shape [atoms, 4], integers.
        positions: Coordinates in the units of the file, shape [atoms, 3], float64.
        bonds: The two atoms of every bond, counted from 0; shape [2, bonds].
        orders: 1, 2, 3, or 4 for aromatic ones; shape [bonds, 1].
        properties: The data items, as text.
    """

    name: str
    atoms: Tensor
    positions: Tensor
    bonds: Tensor
    orders: Tensor
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def symbols(self) -> list[str]:
        """What the elements of the atoms are called."""
        return [SYMBOLS[number] for number in self.atoms[:, 0].tolist()]

    def example(self, target: str | Sequence[str] | None = None) -> Example:
        """The molecule as an example: atoms are `i`, positions `pos=i`, bonds `{i j}` with their order.

        Args:
            target: The property to predict, or several of them; they must be numbers.

        Raises:
            IncidenceError: A bond comes twice, or a property is missing or is no number.
        """
        structure = Structure(len(self.atoms), {"{i j}": self.bonds})
        features = {"i": self.atoms, "pos=i": self.positions, "{i j}": self.orders}
        if target is None:
            return Example(structure, features)
        if isinstance(target, str):
            return Example(structure, features, torch.tensor(self._number(target)))
        return Example(structure, features, torch.tensor([self._number(name) for name in target]))

    def _number(self, name: str) -> float:
        if name not in self.properties:
            known = ", ".join(self.properties) or "none"
            raise IncidenceError(f"the molecule {self.name!r} has no property `{name}`; it has: {known}.")
        try:
            return float(self.properties[name])
        except ValueError:
            raise IncidenceError(f"the property `{name}` of the molecule {self.name!r} is {self.properties[name]!r}, no number.") from None

    @classmethod
    def of(cls, given: Molecule | Example | Structure) -> Molecule:
        """A molecule from an example such as `example` makes; the charge, the isotope and what follows may be left out."""
        if isinstance(given, Molecule):
            return given
        example = single(given, "write_sdf")
        found = by_meaning(example)
        bonds = Pattern("{i j}")
        if Pattern("i") not in found or bonds not in example.structure.patterns:
            raise IncidenceError("a molecule has atomic numbers as features of `i`, and bonds `{i j}`.")
        atoms = found[Pattern("i")].long()
        count = example.structure.num_entries(bonds)
        return cls(
            name="",
            atoms=torch.cat([atoms, atoms.new_zeros(len(atoms), 4)], dim=1)[:, :4],
            positions=found.get(Pattern("pos=i"), torch.zeros(len(atoms), 3)).double(),
            bonds=example.structure["{i j}"],
            orders=found.get(bonds, torch.ones(count, 1)).long()[:, :1],
        )

    def __eq__(self, other: object) -> bool:
        """Whether all that the molecules say is the same."""
        if not isinstance(other, Molecule):
            return NotImplemented
        ours, theirs = ((m.atoms, m.positions, m.bonds, m.orders) for m in (self, other))
        same = self.name == other.name and self.properties == other.properties
        return same and all(torch.equal(x, y) for x, y in zip(ours, theirs, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Molecule({self.name!r}, {len(self.atoms)} atoms, {self.bonds.shape[1]} bonds, properties={list(self.properties)})"
