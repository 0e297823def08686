"""scipy and numpy: matrices and plain arrays."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import incidence as inc
from incidence.errors import IncidenceError
from incidence.geometry.convert import from_numpy, from_scipy, to_numpy, to_scipy
from incidence.structure import Example, Structure
from tests.geometry.convert.random_examples import random_example, seeds
from tests.structure.random_structures import random_structure

sparse = pytest.importorskip("scipy.sparse")
T = torch.tensor
few = settings(max_examples=40, deadline=None)


@few
@given(
    st.sampled_from(["i j", "(i j)", "{i j}", "[i j]", "bond={i j}", "i:a j:a"]),
    st.integers(0, 6),
    seeds,
)
def test_matrices_of_adjacency_come_back(text, num_nodes, seed):
    example = random_example(num_nodes, [text], [text], seed, channels=1)
    assert from_scipy(to_scipy(example), text) == example
    assert from_scipy(to_scipy(example.structure), text).structure == example.structure


@few
@given(st.integers(0, 4), st.integers(0, 4), seeds)
def test_rectangular_matrices_come_back(users, movies, seed):
    example = random_example(
        {"user": users, "movie": movies}, ["u:user m:movie"], ["u:user m:movie"], seed, channels=1
    )
    assert to_scipy(example).shape == (users, movies)
    assert from_scipy(to_scipy(example), "u:user m:movie") == example


@few
@given(st.integers(0, 6), seeds)
def test_matrices_of_incidence_come_back(num_nodes, seed):
    structure = random_structure(num_nodes, ["{i ...}"], seed)
    there = to_scipy(structure)
    assert there.shape == (num_nodes, structure.num_entries("{i ...}"))
    assert from_scipy(there, "{i ...}") == Example(structure)


@pytest.mark.parametrize("form", ["csr_array", "csc_array", "coo_matrix", "lil_array", "dok_array"])
def test_every_form_of_a_matrix_is_read(form):
    matrix = getattr(sparse, form)(np.array([[0, 2.0, 0], [2.0, 0, 0], [0, 0, 0]]))
    example = from_scipy(matrix, "{i j}")
    assert example.structure.num_nodes == 3
    assert example.structure["{i j}"].sort(0)[0].tolist() == [[0], [1]]
    assert example.features["{i j}"].tolist() == [[2.0]]


def test_a_stored_zero_is_an_entry_and_a_dense_zero_is_none():
    stored = sparse.coo_array(([0.0, 1.0], ([0, 1], [1, 0])), shape=(2, 2))
    assert from_scipy(stored, "(i j)").features["(i j)"].tolist() == [[0.0], [1.0]]
    assert from_scipy(stored.toarray(), "(i j)").features["(i j)"].tolist() == [[1.0]]


def test_half_a_symmetric_matrix_is_enough():
    upper = sparse.coo_array(([3.0], ([0], [1])), shape=(2, 2))
    assert from_scipy(upper, "{i j}").features["{i j}"].tolist() == [[3.0]]


def test_one_tensor_of_many_is_written_when_asked_for():
    s = Structure(3, {"{i j}": [[0], [1]], "{i ...}": [[0, 1, 2], [0, 0, 0]]})
    example = Example(s, {"i": torch.zeros(3, 2), "{i j}": torch.ones(1, 1)})
    assert to_scipy(example, "{i j}").sum() == 2
    assert to_scipy(example, "{i ...}").sum() == 3
    with pytest.raises(
        IncidenceError,
        match=(
            r"to_scipy: scipy has no place for `{i ...}`. Leave it out: Structure\(s.num_nodes,"
            r" {'{i j}': s"
        ),
    ):
        to_scipy(example)
    with pytest.raises(
        IncidenceError, match=r"no place for features of `i`\. Leave them out with example\.replace"
    ):
        to_scipy(Example(Structure(3, {"{i j}": [[0], [1]]}), {"i": torch.zeros(3, 1)}))
    with pytest.raises(IncidenceError, match="no place for a target"):
        to_scipy(Example(Structure(3, {"{i j}": [[0], [1]]}), target=1.0))


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: from_scipy("text"), "from_scipy takes a matrix; got str"),
        (lambda: from_scipy(np.zeros(3)), "from_scipy takes a matrix, with two axes; got 1"),
        (
            lambda: from_scipy(np.zeros((2, 3)), "(i j)"),
            "its matrix is square; got 2 by 3. Rows and columns of two sorts are written",
        ),
        (lambda: from_scipy(np.eye(2), "(i j)"), "Remove the self-loop"),
        (
            lambda: from_scipy(np.array([[0, 1], [2, 0]]), "{i j}"),
            r"the value of the edge \(0, 1\) differs from that of \(1, 0\)",
        ),
        (
            lambda: from_scipy(np.eye(2), "{i j k}"),
            "a matrix is read as pairs, such as `i j` or `{i j}`, or as faces",
        ),
        (
            lambda: from_scipy(sparse.coo_array(([1, 1], ([0, 0], [1, 1])), shape=(2, 2)), "{i j}"),
            "comes more than once in one direction",
        ),
        (
            lambda: from_scipy(np.array([[1, 0], [1, 0]]), "{i ...}"),
            "column 1 is empty, and a face has at least one node",
        ),
        (
            lambda: from_scipy(np.array([[1, -1], [1, 1]]), "{i ...}"),
            r"the entry \(0, 1\) of a matrix of incidence is -1, and must be 1",
        ),
        (lambda: from_scipy(np.array([[1, 1], [1, 1]]), "{i ...}"), "denote one entry"),
        (
            lambda: to_scipy(Structure(3, {"{i j k}": [[0], [1], [2]]})),
            "a matrix holds pairs, such as `i j` or `{i j}`, or faces",
        ),
        (
            lambda: to_scipy(
                Example(Structure(2, {"i j": [[0], [1]]}), {"i j": torch.zeros(1, 2)})
            ),
            "a matrix holds one value for each entry, and `i j` has 2 channels",
        ),
        (
            lambda: to_scipy(
                Example(Structure(2, {"i j": [[0], [1]]}), {"i j": torch.zeros(1, 1).bfloat16()})
            ),
            "no type for bfloat16",
        ),
        (
            lambda: to_scipy(inc.collate([Structure(1)] * 2)),
            r"this is a batch of 2: use \[to_scipy\(one\) for one in batch\]",
        ),
        (lambda: to_scipy(Structure(2)), "no index for `i j` here"),
    ],
)
def test_what_is_no_such_matrix_is_refused(read, message):
    with pytest.raises(IncidenceError, match=message):
        read()


# ---- numpy

PATTERNS = ["{i j}", "(i j)", "{i ...}", "i {i ...}", "bond={i j}", "i u:user"]


@few
@given(
    st.lists(st.sampled_from(PATTERNS), unique=True),
    st.integers(0, 5),
    seeds,
    st.sampled_from(["none", "whole", "entries"]),
)
def test_arrays_come_back(texts, num_nodes, seed, kind):
    structure = random_structure({"node": num_nodes, "user": 2}, texts, seed)
    keys = ["i", "pos=i", "v:user", *(p.name or str(p) for p in structure.patterns)]
    target = {"none": None, "whole": torch.rand(2), "entries": {"i": torch.arange(num_nodes)}}[kind]
    example = Example(
        structure, {key: torch.rand(structure.num_entries(key), 2) for key in keys}, target
    )
    arrays = to_numpy(example)
    assert isinstance(arrays["features"]["i"], np.ndarray)
    assert from_numpy(arrays) == example
    batch = inc.collate([example, example])
    assert from_numpy(to_numpy(batch)) == batch


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (3, "from_numpy takes a dict with `num_nodes`"),
        ({"index": {}}, "from_numpy takes a dict with `num_nodes`"),
        (
            {"num_nodes": 3, "edges": {}},
            "from_numpy knows num_nodes, index, features, target, and no 'edges'",
        ),
        (
            {"num_nodes": 1, "features": {"i": np.array([["a"]])}},
            "from_numpy: i is no array of numbers",
        ),
        (
            {"num_nodes": 1, "features": {"i": np.zeros((2, 1))}},
            r"features\['i'\] must have 1 rows",
        ),
    ],
)
def test_arrays_that_make_no_example_are_refused(arrays, message):
    with pytest.raises(IncidenceError, match=message):
        from_numpy(arrays)
