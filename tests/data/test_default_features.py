"""Features of tensors for which the data has none."""

import pytest
import torch

import incidence as inc
from incidence.data.default_features import plan_features, with_planned
from incidence.data.meshes import COLUMNS

POINTS = [[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
FACES = [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]


def corner(**features: torch.Tensor) -> inc.Example:
    mesh = inc.geometry.read_mesh((POINTS, FACES))
    return inc.Example(mesh.structure, {"pos=i": mesh.points.float(), **features})


def test_a_mesh_with_coordinates_alone_gets_measures_that_no_rotation_changes():
    plan = plan_features(corner())
    assert plan == {"measures": list(COLUMNS)}
    measured = with_planned(corner(), plan)
    assert {key: x.shape[1] for key, x in measured.features.items()} == {
        "pos=i": 3, **{key: len(names) for key, names in COLUMNS.items()},
    }  # fmt: skip
    turn = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(0)))[0]
    example = corner()
    turned = example.replace(features={"pos=i": example.features["pos=i"] @ turn})
    for key, x in with_planned(turned, plan).features.items():
        if key != "pos=i":
            torch.testing.assert_close(x, measured.features[key], atol=1e-4, rtol=1e-4)


def test_features_that_are_there_stay():
    colours = torch.rand(4, 5)
    plan = plan_features(corner(i=colours))
    assert plan == {"measures": ["{i j}", "{i j k}"]}
    assert torch.equal(with_planned(corner(i=colours), plan).features["i"], colours)


def test_without_any_features_nodes_have_degrees_and_hyperedges_sizes():
    structure = inc.Structure(4, {"{i ...}": [[0, 1, 1, 2, 3], [0, 0, 1, 1, 1]]})
    example = inc.Example(structure, {})
    plan = plan_features(example)
    assert plan == {"degrees": ["i"], "sizes": ["{i ...}"]}
    filled = with_planned(example, plan)
    assert filled.features["i"].tolist() == [[1], [2], [1], [1]]
    assert filled.features["{i ...}"].tolist() == [[2], [3]]


def test_nodes_of_every_sort_and_tensor_have_their_degrees():
    structure = inc.Structure(
        {"user": 3, "movie": 2},
        {"u:user m:movie": [[0, 1, 1], [1, 0, 1]], "(u:user v:user)": [[2], [0]]},
    )
    filled = with_planned(inc.Example(structure, {}), plan_features(inc.Example(structure, {})))
    assert filled.features["i:user"].tolist() == [[1, 1], [2, 0], [0, 1]]
    assert filled.features["i:movie"].tolist() == [[1], [2]]
    assert filled.features["u:user m:movie"].tolist() == [[1], [1], [1]]


@pytest.mark.parametrize("text", ["{i j}", "(i j)", "i j"])
def test_links_without_features_get_ones(text):
    structure = inc.Structure(3, {text: [[0, 1], [1, 2]]})
    example = inc.Example(structure, {"i": torch.rand(3, 2)})
    plan = plan_features(example)
    assert plan == {"ones": [text]}
    assert with_planned(example, plan).features[text].tolist() == [[1], [1]]
