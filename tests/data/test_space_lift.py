"""The lift `space` is for coordinates in space."""

import warnings

import pytest
import torch

import incidence as inc
from incidence.data import load
from incidence.data.lifts import lift_all
from incidence.errors import IncidenceError


def points(at: list[list[float]]) -> inc.Example:
    edges = torch.stack([torch.arange(len(at) - 1), torch.arange(1, len(at))])
    return inc.Example(
        inc.Structure(len(at), {"{i j}": edges}),
        {"i": torch.ones(len(at), 1), "pos=i": torch.tensor(at)},
    )


CHAIN = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]


@pytest.mark.parametrize("shift", [0.0, 2.5])
def test_coordinates_that_are_all_the_same_are_refused(shift):
    with pytest.raises(
        IncidenceError,
        match="all nodes of an example are at one place, as when it was read from SMILES",
    ):
        lift_all([points(CHAIN), points([[shift] * 3] * 3)], "space")


def test_one_atom_is_at_one_place():
    assert len(lift_all([points(CHAIN), points([[0.0, 0.0, 0.0]])], "space")) == 2


def test_drawings_are_no_geometry():
    with pytest.warns(
        UserWarning, match="drawings of molecules say nothing about distances in space"
    ):
        lift_all(load("solubility").examples[:50], "space")


def test_one_flat_molecule_is_no_drawing():
    with warnings.catch_warnings(record=True) as warned:
        [lifted] = lift_all([points([[x, y, 0.0] for x, y, _ in CHAIN])], "space")
    assert warned == []
    assert lifted.structure.num_nodes == len(CHAIN)
