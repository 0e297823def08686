"""Features in the order of a structure."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence import geometry
from incidence.errors import IncidenceError
from incidence.structure import Structure
from tests.structure.random_structures import random_structure

T = torch.tensor
modest = settings(deadline=None, max_examples=25, derandomize=True)
EDGES = T([[2, 0, 3], [1, 1, 0]])
PATTERNS = [
    "{i j}",
    "(i j)",
    "i {i j}",
    "{i j} {i k}",
    "[i j]",
    "{i ...}",
    "i {i ...}",
    "bond={i j}",
    "u:user m:movie",
]


@modest
@given(st.sampled_from(PATTERNS), st.integers(0, 10**4))
def test_features_follow_their_entries_into_the_preferred_order(text, seed):
    given_ = random_structure(4, [text], seed)
    ordered, rows = given_.canonical()
    features = torch.arange(given_.num_entries(text))
    [order] = rows.values()
    assert torch.equal(geometry.align(ordered, text, given_[text], features), features[order])


def test_both_directions_of_an_edge_are_joined():
    edges = T([[0, 1, 1, 2], [1, 0, 2, 1]])
    s, x = geometry.graph(edges, 3), T([[1.0], [5.0], [2.0], [2.0]])
    joined = {
        reduce: geometry.align(s, "{i j}", edges, x, reduce).flatten().tolist()
        for reduce in ("sum", "mean", "max", "min")
    }
    assert joined == {"sum": [6.0, 4.0], "mean": [3.0, 2.0], "max": [5.0, 2.0], "min": [1.0, 2.0]}


def test_features_of_any_shape_follow():
    s = geometry.graph(EDGES, 4)  # {0 1}, {0 3}, {1 2}
    assert geometry.align(s, "{i j}", EDGES, torch.arange(12).view(3, 2, 2))[:, 1, 1].tolist() == [
        7,
        11,
        3,
    ]
    assert geometry.align(s, "{i j}", EDGES, [5, 6, 7]).tolist() == [6, 7, 5]


def test_hyperedges_may_be_told_by_lists():
    faces = [[0, 1, 2], [3], [1, 3]]
    s = geometry.hypergraph(faces, 4)
    assert geometry.align(s, "{i ...}", faces, T([7, 8, 9])).tolist() == [8, 9, 7]


def test_gradients_flow_to_the_features_given():
    x = torch.ones(3, requires_grad=True)
    geometry.align(geometry.graph(EDGES, 4), "{i j}", EDGES, x)[1].backward()
    assert x.grad.tolist() == [0.0, 0.0, 1.0]


def test_a_named_tensor_is_meant_by_its_name():
    s = Structure(3, {"bond={i j}": T([[0, 1], [1, 2]])})
    assert geometry.align(s, "bond", T([[2, 1], [1, 0]]), T([3, 4])).tolist() == [4, 3]


@pytest.mark.parametrize(
    ("entries", "features", "reduce", "message"),
    [
        (
            T([[2, 0, 3, 2], [1, 1, 0, 3]]),
            torch.ones(4),
            None,
            r"entry 3 is not an entry of `\{i j\}` in this structure",
        ),
        (
            EDGES[:, :1],
            torch.ones(1),
            None,
            r"2 of the 3 entries of `\{i j\}` .* are not among those given, the first in row 0",
        ),
        (
            torch.cat([EDGES, EDGES[:, 1:2]], 1),
            torch.ones(4),
            None,
            r"entries 1 and 3 are one entry of `\{i j\}`.*reduce=",
        ),
        (
            EDGES,
            torch.ones(2),
            None,
            r"features must have a row for each of the 3 entries .*got shape \[2\]",
        ),
        (EDGES, torch.tensor(1.0), None, r"features must have a row for each .*got shape \[\]"),
        (
            EDGES,
            torch.ones(3),
            "median",
            "reduce must be one of 'sum', 'mean', 'max', 'min', or None; got 'median'",
        ),
    ],
)
def test_features_that_do_not_fit_are_refused(entries, features, reduce, message):
    with pytest.raises(IncidenceError, match=message):
        geometry.align(geometry.graph(EDGES, 4), "{i j}", entries, features, reduce)
