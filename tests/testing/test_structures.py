"""Random structures and features to test with."""

import pytest
import torch

from incidence.errors import IncidenceError
from incidence.structure import Structure
from incidence.testing import random_features, random_structure

EDGES = torch.tensor([[0, 1, 2, 4, 3], [1, 2, 3, 0, 1]])
GRAPH = Structure(6, {"(i j)": EDGES})


def test_random_structures_have_entries_with_the_given_probability():
    generator = torch.Generator().manual_seed(0)
    structure = random_structure(12, ["(i j)", "{i j k}"], density=0.25, generator=generator)
    assert structure.num_entries("(i j)") == pytest.approx(132 / 4, rel=0.4)
    assert structure.num_entries("{i j k}") == pytest.approx(220 / 4, rel=0.4)
    assert random_structure(4, ["i j"], density=0.0).num_entries("i j") == 0
    assert random_structure(4, ["i j"], density=1.0).num_entries("i j") == 16


def test_random_structures_have_open_faces_sorts_and_names():
    structure = random_structure(
        {"a": 4, "b": 3},
        ["u:a m:b", "{u:a ...}", "x_y={u:a v:a ...}", ""],
        0.6,
        torch.Generator().manual_seed(1),
    )
    assert set(structure.counts) == {"a", "b"}
    assert structure.num_entries("{u:a ...}") > 0
    assert [str(p) for p in structure.patterns] == ["u:a m:b", "{u:a ...}", "x_y={u:a v:a ...}"]


def test_random_structures_and_features_are_the_same_for_the_same_generator():
    made = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(5)
        structure = random_structure(5, ["(i j)", "{i ...}"], generator=generator)
        made.append((structure, random_features("i, (i j)", structure, generator=generator)))
    assert made[0][0] == made[1][0]
    assert all(torch.equal(made[0][1][key], made[1][1][key]) for key in ("i", "(i j)"))


def test_random_features_are_one_tensor_or_a_dict():
    assert random_features("i", GRAPH, 4).shape == (6, 4)
    assert random_features("i", GRAPH).dtype == torch.float64
    xs = random_features(
        "i, edge=(i j), ", Structure(3, {"edge=(i j)": EDGES[:, :2]}), 1, torch.float32
    )
    assert {key: tuple(v.shape) for key, v in xs.items()} == {
        "i": (3, 1),
        "edge": (2, 1),
        "": (1, 1),
    }


def test_random_structures_may_have_no_nodes():
    assert random_structure(0, ["{i ...}", "i j"]).num_entries("{i ...}") == 0


def test_patterns_with_more_than_a_lone_open_face_are_refused():
    with pytest.raises(
        IncidenceError,
        match=(
            r"random structures have lone open faces, such as `\{i \.\.\.\}`; `i \{i \.\.\.\}` has"
            r" more"
        ),
    ):
        random_structure(4, ["i {i ...}"])
