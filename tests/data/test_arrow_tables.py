"""Tables of Arrow in memory are read as data frames are."""

import pytest

import incidence as inc

arrow = pytest.importorskip("pyarrow")


def test_a_table_of_arrow_is_read_as_a_frame():
    columns = {"user": ["a", "a", "b"], "movie": ["x", "y", "x"], "rating": [1.0, None, 3.5]}
    data = inc.data.load(arrow.table(columns), target="rating")
    assert data.task.names == ("rating",)
    assert data.examples[0].target["query=a:user b:movie"].flatten().nan_to_num(-1).tolist() == [
        1.0,
        -1.0,
        3.5,
    ]
