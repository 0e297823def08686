"""Tables: values to nodes, rows to entries, and what is refused."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence import geometry
from incidence.errors import IncidenceError

modest = settings(deadline=None, max_examples=25, derandomize=True)
rows_of = st.lists(
    st.tuples(st.sampled_from("xyz"), st.integers(-2, 2)), min_size=1, max_size=8, unique=True
)


@modest
@given(rows_of)
def test_entries_and_values_tell_the_rows_again(rows):
    users, movies = zip(*rows, strict=True)
    found = geometry.table({"user": users, "movie": movies})
    entries = found.structure["a:user b:movie"].T.tolist()
    told = [(found.values["user"][u], found.values["movie"][m]) for u, m in entries]
    assert told == [rows[k] for k in found.rows["table"].tolist()]
    assert found.structure.canonical()[0] == found.structure


@modest
@given(rows_of, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_is_immaterial(rows, random):
    mixed = random.sample(rows, len(rows))
    one, other = (
        geometry.table({"user": [u for u, _ in some], "movie": [m for _, m in some]})
        for some in (rows, mixed)
    )
    assert one.structure == other.structure
    assert one.values == other.values


def test_columns_may_share_a_sort():
    found = geometry.table({"a:user": ["ann", "bob"], "b:user": ["bob", "ann"]})
    assert found.structure.num_nodes == {"user": 2}
    assert found.structure["a:user b:user"].tolist() == [[0, 1], [1, 0]]


def test_tables_share_sorts():
    found = geometry.table(
        {
            "rates": {"user": [3, 1], "movie": ["x", "y"]},
            "knows": {"a:user": [1, 2], "b:user": [2, 3]},
        }
    )
    assert found.structure.num_nodes == {"movie": 2, "user": 3}
    assert found.structure["rates"].T.tolist() == [[2, 0], [0, 1]]
    assert found.structure["knows"].T.tolist() == [[0, 1], [1, 2]]
    assert found.rows["rates"].tolist() == [0, 1]


def test_letters_that_are_written_are_not_given_away():
    found = geometry.table({"user": [1], "a:movie": [2], "node": [3]})
    assert [str(p) for p in found.structure.patterns] == ["b:user a:movie c"]


def test_all_values_of_a_sort_may_be_told_beforehand():
    found = geometry.table(
        {"user": [4, 2], "movie": ["x", "x"]}, nodes={"user": 6, "movie": ["z", "x", "y"]}
    )
    assert found.structure.num_nodes == {"movie": 3, "user": 6}
    assert found.structure["a:user b:movie"].T.tolist() == [[2, 1], [4, 1]]
    assert found.rows["table"].tolist() == [1, 0]


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor], ids=["list", "numpy", "torch"])
def test_columns_come_as_lists_arrays_and_tensors(kind):
    assert geometry.table({"user": kind([7, 5])}).values == {"user": [5, 7]}


def test_values_that_do_not_compare_are_numbered_by_appearance():
    assert geometry.table({"thing": ["b", 1, (2,)]}).values["thing"] == ["b", 1, (2,)]


def test_nodes_of_values_are_looked_up():
    found = geometry.table({"user": ["ann", "bob"]})
    assert found.nodes("user", ["bob", "ann", "bob"]).tolist() == [1, 0, 1]
    with pytest.raises(
        IncidenceError,
        match="nodes of sort `user`: 'eve' in row 1 is not one of the 2 values of its nodes",
    ):
        found.nodes("user", ["bob", "eve"])
    with pytest.raises(IncidenceError, match="is not one of the 2 values"):
        found.nodes("user", [["bob"]])
    with pytest.raises(IncidenceError, match="no column has the sort `movie`; there are: user"):
        found.nodes("movie", [])


@pytest.mark.parametrize(
    ("columns", "nodes", "message"),
    [
        (
            {"user": [1, 2, 1], "movie": [3, 4, 3]},
            None,
            r"rows 0 and 2 are both \(1, 3\). Join .* as in 'event': range\(3\)",
        ),
        (
            {"rates": {"user": [1, 1]}, "knows": {"user": [1, 2]}},
            None,
            "rates: rows 0 and 1 are both",
        ),
        ({"user": [1, 2], "movie": [3]}, None, "the column `movie` has 1 values and `user` has 2"),
        ({"user": [1, None]}, None, "column `a:user` has no value in row 1"),
        ({"user": [float("nan")]}, None, "column `a:user` has no value in row 0"),
        ({"user": [1, [2]]}, None, r"has \[2\] in row 1, which is not hashable"),
        ({"first name": [1]}, None, "a column is named by its sort .* got 'first name'"),
        ({3: [1]}, None, "a column is named by its sort .* got 3"),
        ({"rates": {}}, None, "rates: a column is named by its sort .* got no column"),
        (
            {"a:user": [1], "a:movie": [1]},
            None,
            "every column has a letter of its own; `a` is there twice",
        ),
        ({"user": "ab"}, None, "a column is a list of values, one for each row; got 'ab'"),
        (
            {"user": [1], "movie": {"a": [1]}},
            None,
            "a column is a list of values, one for each row; got {'a'",
        ),
        ({}, None, "table needs a mapping from sorts to columns of values"),
        ([1, 2], None, "table needs a mapping"),
        (
            {"user": [1, 7]},
            {"user": 5},
            "column `a:user`: 7 in row 1 is not one of the 5 values of its nodes",
        ),
        ({"user": [1, 7]}, {"user": [7, 1, 7]}, r"nodes\['user'\] has 7 twice"),
        ({"user": [1, 7]}, {"movie": 3}, "nodes: no column has the sort `movie`; there are: user"),
        ({"user": {1, 2}}, None, "a column is a list of values"),
        ({"r": {"user": [1]}, "s": {"user": [1]}}, None, "the table 'r' has the name of a letter"),
    ],
)
def test_columns_that_make_no_table_are_refused(columns, nodes, message):
    with pytest.raises(IncidenceError, match=message):
        geometry.table(columns, nodes)


class Odd:
    """Cannot be compared with itself, as missing values of some libraries cannot."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        raise TypeError


def test_what_cannot_be_compared_with_itself_is_a_missing_value():
    with pytest.raises(IncidenceError, match="no value in row 0"):
        geometry.table({"user": [Odd()]})


def test_tables_print_short_however_large_they_are():
    made = geometry.table(
        {"user": [f"u{k}" for k in range(500)], "movie": [k % 2 for k in range(500)]}
    )
    structure = "Structure(num_nodes={'movie': 2, 'user': 500}, 'a:user b:movie': 500 entries)"
    assert repr(made) == f"RelationalData({structure}; user: 'u0', 'u1', 'u10', ...; movie: 0, 1)"
