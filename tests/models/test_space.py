"""Networks for molecules in space: predictions stay when a molecule moves, and change when it bends
or stretches.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import incidence as inc
from incidence.data.lifts import lift_all, space
from incidence.errors import IncidenceError
from incidence.models import Predictor, make
from tests.models.small import graph


def chain(points: Tensor) -> inc.Example:
    """Atoms in a row, bonded each to the next."""
    n = len(points)
    edges = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    features = {"i": torch.eye(n), "{i j}": torch.ones(n - 1, 1), "pos=i": points}
    return inc.Example(inc.Structure(n, {"{i j}": edges}), features)


def bent() -> Tensor:
    return torch.tensor([[0.0, 0, 0], [1.5, 0, 0], [2, 1.4, 0], [3.5, 1.5, 0.3], [4.0, 2.6, 1.0]])


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    torch.manual_seed(0)
    known = lift_all([chain(bent() + 0.2 * torch.randn(5, 3)) for _ in range(6)], "space")
    net = make(
        "molecule-3d", {key: x.shape[1] for key, x in known[0].features.items()}, hidden=8, depth=2
    )
    made = Predictor(net).fit_scales([e.features for e in known])
    batch = inc.collate(known)
    for _ in range(20):
        made(batch.features, batch.structure)
    return made.eval()


def value(predictor: Predictor, points: Tensor) -> float:
    [lifted] = lift_all([chain(points)], "space")
    return float(predictor.predict(lifted.features, lifted.structure))


def _rotation() -> Tensor:
    q, r = torch.linalg.qr(
        torch.randn(3, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    )
    q = q * r.diagonal().sign()
    return (q * torch.linalg.det(q).sign()).float()


MOVES = {
    "turned": lambda x: x @ _rotation().T,
    "mirrored": lambda x: x * torch.tensor([1.0, 1.0, -1.0]),
    "shifted": lambda x: x + torch.tensor([10.0, -4.0, 2.5]),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES.keys())
def test_predictions_stay_when_a_molecule_is_moved(predictor, move):
    assert value(predictor, move(bent())) == pytest.approx(
        value(predictor, bent()), rel=1e-4, abs=1e-4
    )


def _stretched() -> Tensor:
    return bent() + torch.tensor([[0.0], [0], [0], [0], [0.3]]) * torch.tensor([0.5, 1.1, 0.7])


def _turned_end() -> Tensor:
    """The last atom elsewhere at the same distance from its neighbour: lengths of bonds stay."""
    arm = bent()[4] - bent()[3]
    return torch.cat([bent()[:4], (bent()[3] + arm[[1, 2, 0]])[None]])


@pytest.mark.parametrize("points", [_stretched(), _turned_end()], ids=["stretched", "bent"])
def test_predictions_change_when_a_molecule_is_deformed(predictor, points):
    assert abs(value(predictor, points) - value(predictor, bent())) > 1e-3


def test_contacts_are_the_pairs_within_the_cutoff():
    lifted = space(chain(bent()), cutoff=2.2)
    near = torch.cdist(bent(), bent())
    wanted = {(i, j) for i in range(5) for j in range(i + 1, 5) if near[i, j] <= 2.2}
    assert {tuple(pair) for pair in lifted.structure["contact={i j}"].T.tolist()} == wanted


def test_features_of_contacts_fade_at_the_cutoff():
    apart = torch.tensor([[0.0, 0, 0], [4.9999, 0, 0]])
    waves = space(chain(apart)).features["contact={i j}"][0]
    assert waves[:-1].abs().max() < 1e-6
    assert waves[-1] == pytest.approx(1 / 4.9999)


def test_angles_are_the_pairs_of_neighbours_with_their_cosines():
    corner = torch.tensor([[1.0, 0, 0], [0, 0, 0], [0, 2, 0], [0, 2, 3]])
    lifted = space(chain(corner))
    found = dict(
        zip(
            map(tuple, lifted.structure["angle=i {j k}"].T.tolist()),
            lifted.features["angle=i {j k}"].tolist(),
            strict=True,
        )
    )
    assert found == {(1, 0, 2): pytest.approx([0, 2]), (2, 1, 3): pytest.approx([0, 6])}


def test_the_length_of_an_edge_is_its_last_feature():
    lifted = space(chain(torch.tensor([[0.0, 0, 0], [3, 4, 0]])))
    assert lifted.features["{i j}"].tolist() == [[1.0, 5.0]]


def test_a_batch_is_lifted_as_its_structures_are():
    examples = [graph(seed, nodes=5 + seed) for seed in range(3)]
    together, alone = space(inc.collate(examples)), inc.collate([space(e) for e in examples])
    for key in ("contact={i j}", "angle=i {j k}", "{i j}"):
        torch.testing.assert_close(together.features[key], alone.features[key])
        assert torch.equal(together.structure[key], alone.structure[key])


@pytest.mark.parametrize("count", [1, 2])
def test_molecules_of_one_or_two_atoms_have_finite_features(count):
    lifted = space(chain(bent()[:count]))
    assert all(x.isfinite().all() for x in lifted.features.values())
    assert lifted.structure.num_entries("angle=i {j k}") == 0


def test_two_atoms_in_one_place_have_finite_features():
    lifted = space(chain(torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])))
    assert all(x.isfinite().all() for x in lifted.features.values())


def test_points_without_coordinates_are_refused():
    example = graph()
    bare = example.replace(features={"i": example.features["i"]})
    with pytest.raises(
        IncidenceError, match="the lift 'space' needs coordinates: features of `pos=i`"
    ):
        space(bare)


def test_points_without_edges_are_refused():
    with pytest.raises(IncidenceError, match=r"the lift 'space' reads edges `\{i j\}`"):
        space(
            inc.Example(inc.Structure(2, {}), {"i": torch.ones(2, 1), "pos=i": torch.zeros(2, 3)})
        )


def test_edges_without_features_get_their_length_alone():
    example = graph()
    lifted = space(example.replace(features={"pos=i": example.features["pos=i"]}))
    assert lifted.features["{i j}"].shape[1] == 1
