"""Molecules as chemists know them: elements in the nodes, double bonds as two lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from incidence.data.molecules.features import ATOM_FEATURES, BOND_FEATURES
from incidence.plot.theme import Theme
from incidence.structure import Example

__all__ = ["TINTS", "Molecule", "molecule_of"]

_ELEMENTS = ATOM_FEATURES[: ATOM_FEATURES.index("other")]
_ORDERS = {1: 1.0, 2: 2.0, 3: 3.0, 4: 1.5}  # of bonds as files have them; 4 is aromatic
TINTS = {"N": 0, "O": 1, "S": 6, "P": 4, "F": 2, "Cl": 2, "Br": 2, "I": 2}
"""The places in the palette of a theme that elements have."""


@dataclass(frozen=True)
class Molecule:
    """What is known of a molecule.

    Attributes:
        elements: Of every atom.
        orders: Of every bond, 1.5 if it is aromatic, by its atoms.
    """

    elements: Sequence[str]
    orders: Mapping[frozenset[int], float] = field(default_factory=dict)

    def tints(self, theme: Theme) -> list[str]:
        """A colour for every atom: carbon is that of lines."""
        return [
            theme.palette[TINTS[e]]
            if e in TINTS
            else theme.faint
            if e in ("C", "H")
            else theme.palette[3]
            for e in self.elements
        ]


def molecule_of(example: Example | None) -> Molecule | None:
    """The molecule that an example is, if its features are those that this library makes of molecules.

    Example:
        >>> import incidence as inc
        >>> pentane = inc.data.load("solubility").examples[0]
        >>> molecule_of(pentane).elements
        ['C', 'C', 'C', 'C', 'C']
    """
    if example is None or set(example.structure.counts) != {"node"}:
        return None
    known = {str(example.structure.resolve(key)): x for key, x in example.features.items()}
    atoms, bonds = known.get("i"), known.get("{i j}")
    if atoms is None or not len(atoms):
        return None
    elements = _elements(atoms)
    return (
        None
        if elements is None
        else Molecule(elements, {} if bonds is None else _orders(example, bonds))
    )


def _elements(atoms: Tensor) -> list[str] | None:
    if atoms.is_floating_point():
        if atoms.shape[1] != len(ATOM_FEATURES) or not bool(
            (atoms[:, : len(_ELEMENTS) + 1].sum(1) == 1).all()
        ):
            return None
        return [(*_ELEMENTS, "*")[k] for k in atoms[:, : len(_ELEMENTS) + 1].argmax(1).tolist()]
    if atoms.shape[1] < 4 or not bool(((atoms[:, 0] >= 0) & (atoms[:, 0] <= 118)).all()):
        return None
    return [_SYMBOLS.get(number, str(number)) for number in atoms[:, 0].tolist()]


def _orders(example: Example, bonds: Tensor) -> dict[frozenset[int], float]:
    pairs = [frozenset(pair) for pair in example.structure["{i j}"].T.tolist()]
    if bonds.is_floating_point():
        if bonds.shape[1] < len(BOND_FEATURES):
            return {}
        kinds = bonds[:, :4].argmax(1) + 1
    else:
        kinds = bonds[:, 0]
    return dict(zip(pairs, (_ORDERS.get(kind, 1.0) for kind in kinds.tolist()), strict=True))


# The elements that organic chemistry is made of, by atomic number; others are told by theirs.
_SYMBOLS = {1: "H", 3: "Li", 5: "B", 6: "C", 7: "N", 8: "O", 9: "F", 11: "Na", 12: "Mg", 14: "Si", 15: "P", 16: "S", 17: "Cl", 19: "K"} | {
    20: "Ca", 26: "Fe", 29: "Cu", 30: "Zn", 34: "Se", 35: "Br", 47: "Ag", 50: "Sn", 53: "I", 78: "Pt", 80: "Hg",
}  # fmt: skip
