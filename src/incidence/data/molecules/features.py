"""Chemical features of molecules: of atoms, bonds and rings, from nothing but elements, charges and bonds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from incidence.data.molecules.aromatic import Rings, rings_of
from incidence.data.molecules.joined import Joined, join, without_hydrogens
from incidence.data.molecules.tables import ELECTRONEGATIVITY, ELEMENTS, LONE_PAIR, Array, column_of, valence
from incidence.errors import IncidenceError
from incidence.geometry.convert.molecule import Molecule
from incidence.geometry.lifting.rings import rings
from incidence.structure.example import Example
from incidence.structure.examples import uncollate

__all__ = ["ATOM_FEATURES", "BOND_FEATURES", "RING_FEATURES", "batch_of", "features_of", "features_of_all"]

ATOM_FEATURES = (
    *ELEMENTS,
    "other",
    "degree",
    "hydrogens",
    "charge",
    "electronegativity",
    "aromatic",
    "in_ring",
    "ring3",
    "ring4",
    "ring5",
    "ring6",
    "ring7",
    "ring8",
    "double",
    "triple",
    "hetero_neighbours",
    "donor",
    "carbonyl_carbon",
    "carbonyl_oxygen",
    "sp3",
)
"""The columns of `i`. `ring3` to `ring8` count the rings of that size."""

BOND_FEATURES = ("single", "double", "triple", "aromatic", "in_ring", "conjugated", "electronegativity_difference", "rotatable")
"""The columns of `{i j}`; one more, `length`, if it is asked for."""

RING_FEATURES = ("size", "aromatic", "hetero")
"""The columns of `ring={i ...}`."""

_MAX_RING = 8
_HYDROGENS = ("count", "keep")


def features_of(molecule: Molecule, *, hydrogens: str = "count", lengths: bool = False) -> Example:
    r"""A molecule with chemical features: atoms `i`, bonds `{i j}`, rings without chords of up to 8 atoms `ring={i ...}`, `pos=i`.

    Args:
        molecule: What `read_sdf` reads.
        hydrogens: `count`: hydrogen atoms are taken away and counted at their neighbours, and those that the file leaves out are added to
            the count by valence; `keep`: they stay atoms, and none are added.
        lengths: Whether the lengths of bonds are features; only where positions are those in space.

    Raises:
        IncidenceError: The molecule has no atoms, or a bond twice.

    Example:
        >>> water = Molecule("water", torch.tensor([[8, 0, 0, 0]]), torch.zeros(1, 3), torch.zeros(2, 0).long(), torch.zeros(0, 1).long())
        >>> example = features_of(water)
        >>> dict(zip(ATOM_FEATURES, example.features["i"][0].tolist()))["hydrogens"]
        2.0
    """
    [example] = features_of_all([molecule], hydrogens=hydrogens, lengths=lengths)
    return example


def features_of_all(molecules: Sequence[Molecule], *, hydrogens: str = "count", lengths: bool = False) -> list[Example]:
    """`features_of` for many molecules, at a tenth of the time each."""
    return uncollate(batch_of(join(molecules), hydrogens=hydrogens, lengths=lengths)) if molecules else []


def batch_of(joined: Joined, target: Tensor | None = None, *, hydrogens: str = "count", lengths: bool = False) -> Example:
    """The same as a batch, with a target for every molecule."""
    if hydrogens not in _HYDROGENS:
        raise IncidenceError(f"hydrogens is one of {', '.join(_HYDROGENS)}; got {hydrogens!r}.")
    if hydrogens == "count":
        joined = without_hydrogens(joined)
    structure = rings(joined.structure(), _MAX_RING, edges="{i j}", limit=None)
    found = rings_of(joined, structure)
    aromatic = found.count(found.bonds, found.is_aromatic, len(joined.orders)) > 0
    bonds = _bond_features(joined, found, aromatic)
    if lengths:
        one, other = joined.positions[joined.bonds]
        bonds.append(np.linalg.norm(one - other, axis=1))
    features = {
        "i": _tensor(_atom_features(joined, found, hydrogens == "count")),
        "{i j}": _tensor(bonds),
        "ring={i ...}": _tensor(_ring_features(joined, found)),
        "pos=i": torch.from_numpy(joined.positions).float(),
    }
    return Example(structure, features, target, is_batch=True).canonical()


def _tensor(columns: Sequence[Array]) -> Tensor:
    return torch.from_numpy(np.stack(columns, axis=1).astype(np.float32))


def _is_hetero(joined: Joined) -> Array:
    found: Array = ~np.isin(joined.numbers, (1, 6))
    return found


def _atom_features(joined: Joined, found: Rings, adds_hydrogens: bool) -> list[Array]:
    number, count = joined.numbers, joined.num_atoms
    degree = joined.at_atoms(np.ones(len(joined.orders)))
    hydrogens = joined.removed + joined.over_neighbours(number == 1) + (_missing(joined) if adds_hydrogens else 0)
    aromatic = found.count(found.atoms, found.is_aromatic, count) > 0
    by_size = [found.count(found.atoms, found.sizes == size, count) for size in range(3, _MAX_RING + 1)]
    double, triple = joined.at_atoms(joined.orders == 2), joined.at_atoms(joined.orders == 3)
    carbon, oxygen = _carbonyl(joined, degree)
    return [
        *np.eye(len(ELEMENTS) + 1)[:, column_of(number)],
        degree,
        hydrogens,
        joined.atoms[:, 1],
        ELECTRONEGATIVITY[number],
        aromatic,
        np.sum(by_size, axis=0) > 0,
        *by_size,
        double,
        triple,
        joined.over_neighbours(_is_hetero(joined)),
        np.isin(number, (7, 8)) & (hydrogens > 0),
        carbon,
        oxygen,
        ~_is_unsaturated(joined) & (number != 1),
    ]


def _missing(joined: Joined) -> Array:
    """The hydrogens that the file leaves out: what bonds, unpaired electrons and those taken away leave of the valence."""
    aromatic = joined.at_atoms(joined.orders == 4)
    total = joined.at_atoms(np.where(joined.orders <= 3, joined.orders, 0)) + np.floor(1.5 * aromatic) + joined.removed
    total = total.astype(np.int64) + joined.atoms[:, 3]
    return np.maximum(valence(joined.numbers, joined.atoms[:, 1], total) - total, 0)


def _is_unsaturated(joined: Joined) -> Array:
    found: Array = joined.at_atoms(joined.is_multiple) > 0
    return found


def _carbonyl(joined: Joined, degree: Array) -> tuple[Array, Array]:
    """Carbons with a double bond to an oxygen that has no other, and those oxygens."""
    number, double = joined.numbers, joined.orders == 2
    ends = np.concatenate([joined.bonds[:, double], joined.bonds[::-1, double]], axis=1)
    is_carbonyl = (number[ends[0]] == 6) & (number[ends[1]] == 8) & (degree[ends[1]] == 1)
    flags = np.zeros((2, joined.num_atoms))
    flags[0, ends[0, is_carbonyl]] = 1
    flags[1, ends[1, is_carbonyl]] = 1
    return flags[0], flags[1]


def _bond_features(joined: Joined, found: Rings, aromatic: Array) -> list[Array]:
    in_ring = found.count(found.bonds, np.ones(len(found.sizes)), len(joined.orders)) > 0
    aromatic = aromatic | (joined.orders == 4)
    one, other = ELECTRONEGATIVITY[joined.numbers[joined.bonds]]
    kinds = [(joined.orders == order) & ~aromatic for order in (1, 2, 3)]
    return [*kinds, aromatic, in_ring, _conjugated(joined, aromatic), np.abs(one - other), _rotatable(joined, kinds[0] & ~in_ring)]


def _conjugated(joined: Joined, aromatic: Array) -> Array:
    """Aromatic bonds; single ones between two atoms with multiple bonds, or between one and a lone pair; multiple ones beside those."""
    unsaturated = _is_unsaturated(joined)
    pair = LONE_PAIR[joined.numbers] & (joined.atoms[:, 1] <= 0) & ~unsaturated
    (u, v), (p, q) = unsaturated[joined.bonds], pair[joined.bonds]
    single = (joined.orders == 1) & ((u & v) | (u & q) | (v & p))
    beside = joined.at_atoms(single) > 0
    found: Array = aromatic | single | (joined.is_multiple & beside[joined.bonds].any(axis=0))
    return found


def _rotatable(joined: Joined, single: Array) -> Array:
    """Single bonds outside rings with something to turn at both ends; beside a triple bond nothing turns."""
    heavy = joined.over_neighbours(joined.numbers != 1)
    turns = (heavy > 1) & (joined.at_atoms(joined.orders == 3) == 0) & (joined.numbers != 1)
    found: Array = single & turns[joined.bonds].all(axis=0)
    return found


def _ring_features(joined: Joined, found: Rings) -> list[Array]:
    hetero = np.bincount(found.atoms[1], _is_hetero(joined)[found.atoms[0]], minlength=len(found.sizes))
    return [found.sizes, found.is_aromatic, hetero]
