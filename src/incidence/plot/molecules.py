"""Molecules as chemists know them: elements in the nodes, double bonds as two lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from incidence.data.molecules import ATOM_FEATURES, BOND_FEATURES
from incidence.plot.theme import Theme
from incidence.structure import Example

__all__ = ["TINTS", "MoleculeLook", "molecule_of"]

_ELEMENTS = ATOM_FEATURES[: ATOM_FEATURES.index("other")]
_ORDERS = {1: 1.0, 2: 2.0, 3: 3.0, 4: 1.5}  # of bonds as files have them; 4 is aromatic
TINTS = {"N": 0, "O": 1, "S": 6, "P": 4, "F": 2, "Cl": 2, "Br": 2, "I": 2}
"""The place of every element in the palette of a theme."""


@dataclass(frozen=True)
class MoleculeLook:
    """How a molecule is drawn.

    Attributes:
        elements: The element of every atom.
        orders: The order of every bond, 1.5 if it is aromatic, by its atoms.
    """

    elements: Sequence[str]
    orders: Mapping[frozenset[int], float] = field(default_factory=dict)

    def tints(self, theme: Theme) -> list[str]:
        """Return a colour for every atom."""
        known = {e: theme.palette[place] for e, place in TINTS.items()}
        known |= {"C": theme.faint, "H": theme.faint}
        return [known.get(e, theme.palette[3]) for e in self.elements]


def molecule_of(example: Example | None) -> MoleculeLook | None:
    """Return how to draw an example as a molecule.

    It is None unless the features are those that this library makes of molecules.

    Example:
        >>> import incidence as inc
        >>> pentane = inc.data.load("solubility").examples[0]
        >>> molecule_of(pentane).elements
        ['C', 'C', 'C', 'C', 'C']
    """
    if example is None or set(example.structure.counts) != {"node"}:
        return None
    known = {str(example.structure.resolve(key)): x for key, x in example.features.items()}
    atoms = known.get("i")
    bonds = known.get("{i j}")
    if atoms is None or not len(atoms):
        return None
    elements = _elements(atoms)
    if elements is None:
        return None
    return MoleculeLook(elements, {} if bonds is None else _orders(example, bonds))


def _elements(atoms: Tensor) -> list[str] | None:
    if atoms.is_floating_point():
        one_hot = atoms[:, : len(_ELEMENTS) + 1]
        if atoms.shape[1] != len(ATOM_FEATURES) or not bool((one_hot.sum(1) == 1).all()):
            return None
        return [(*_ELEMENTS, "*")[k] for k in one_hot.argmax(1).tolist()]
    if atoms.shape[1] < 4:
        return None
    numbers = atoms[:, 0].tolist()
    if min(numbers) < 0 or max(numbers) > 118:
        return None
    return [_SYMBOLS.get(number, str(number)) for number in numbers]


def _orders(example: Example, bonds: Tensor) -> dict[frozenset[int], float]:
    pairs = [frozenset(pair) for pair in example.structure["{i j}"].T.tolist()]
    if bonds.is_floating_point():
        if bonds.shape[1] < len(BOND_FEATURES):
            return {}
        kinds = bonds[:, :4].argmax(1) + 1
    else:
        kinds = bonds[:, 0]
    return dict(zip(pairs, (_ORDERS.get(kind, 1.0) for kind in kinds.tolist()), strict=True))


# The elements of organic chemistry by atomic number; others are shown by their number.
_NUMBERS = (
    "1:H 3:Li 5:B 6:C 7:N 8:O 9:F 11:Na 12:Mg 14:Si 15:P 16:S 17:Cl 19:K 20:Ca 26:Fe 29:Cu 30:Zn"
    " 34:Se 35:Br 47:Ag 50:Sn 53:I 78:Pt 80:Hg"
)
_SYMBOLS = {int(number): symbol for number, symbol in (x.split(":") for x in _NUMBERS.split())}
