"""Bonds and their orders from positions in space."""

from math import cos, pi, sin

import pytest
import torch

from incidence.data.molecules import ATOM_FEATURES
from incidence.data.molecules.bonding import bonded
from incidence.data.molecules.features import batch_of
from incidence.data.molecules.joined import join
from incidence.geometry.convert import Molecule
from incidence.geometry.convert.elements import NUMBER

AROUND = [(cos(k * pi / 3), sin(k * pi / 3)) for k in range(6)]
BENZENE = [("C", 1.39 * x, 1.39 * y) for x, y in AROUND] + [("H", 2.48 * x, 2.48 * y) for x, y in AROUND]
CYANIDE = [("C", 0, 0), ("N", 1.16, 0), ("H", -1.07, 0)]
DIOXIDE = [("S", 0, 0), ("O", 1.24, 0.72), ("O", -1.24, 0.72)]
FORMALDEHYDE = [("C", 0, 0), ("O", 1.21, 0), ("H", -0.59, 0.94), ("H", -0.59, -0.94)]
NEON = [("Ne", 0, 0)]


def molecule(rows: list[tuple[str, float, float]]) -> Molecule:
    atoms = torch.zeros(len(rows), 4, dtype=torch.long)
    atoms[:, 0] = torch.tensor([NUMBER[symbol] for symbol, _, _ in rows])
    positions = torch.tensor([[x, y, 0] for _, x, y in rows], dtype=torch.float64)
    empty = torch.zeros(2, 0, dtype=torch.long)
    return Molecule("", atoms, positions, empty, empty.T)


@pytest.mark.parametrize(
    ("rows", "orders"),
    [
        pytest.param(BENZENE, [1] * 9 + [2] * 3, id="benzene"),
        pytest.param(CYANIDE, [1, 3], id="hydrogen cyanide"),
        pytest.param(DIOXIDE, [2, 2], id="sulfur dioxide"),
        pytest.param(FORMALDEHYDE, [1, 1, 2], id="formaldehyde"),
        pytest.param(NEON, [], id="neon"),
    ],
)
def test_orders_fill_the_valences(rows, orders):
    assert sorted(bonded(join([molecule(rows)])).orders.tolist()) == orders


def test_molecules_side_by_side_do_not_bond():
    joined = bonded(join([molecule(rows) for rows in (BENZENE, CYANIDE, NEON, BENZENE)]))
    assert joined.bond_ptr.tolist() == [0, 12, 14, 14, 26]
    batch = batch_of(joined, hydrogens="keep")
    assert batch.features["i"][:, ATOM_FEATURES.index("aromatic")].sum() == 12
    assert batch[1] == batch_of(bonded(join([molecule(CYANIDE)])), hydrogens="keep")[0]
