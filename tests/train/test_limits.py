"""Limits of what data sets and runs are read from: packed tables, pipes, names that no disk can
have.
"""

import os

import pytest

import incidence as inc
from incidence.errors import IncidenceError, TooLargeError
from tests.little_memory import little_memory, packed


def test_a_packed_table_of_nothing_but_repetition_is_refused_before_it_makes_objects(tmp_path):
    path = packed(tmp_path / "a.csv.gz", b"1,2\n", 20 << 20)
    with (
        little_memory(1 << 22),
        pytest.raises(TooLargeError, match="is text that unpacks to more than 100 times its size"),
    ):
        inc.data.load(path)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"], ids=["300 characters", "a NUL"])
def test_a_network_whose_name_no_disk_can_have_is_not_there(name):
    with pytest.raises(IncidenceError, match=r"there is no file|does not exist"):
        inc.load(f"{name}.onnx")


@pytest.mark.parametrize(("name", "read"), [("a.csv", inc.data.load), ("a.onnx", inc.load)])
def test_a_pipe_is_refused_as_it_may_never_end(name, read, tmp_path):
    os.mkfifo(tmp_path / name)
    with pytest.raises(
        IncidenceError, match="is not a regular file, and may never end: give the path of"
    ):
        read(tmp_path / name)


def test_the_path_of_a_run_is_a_text():
    with pytest.raises(IncidenceError, match="a file is given by its path, as a text; got 5"):
        inc.load(5)
