"""What is refused at the door of the package, with a sentence instead of an error from inside."""

import pytest
import torch

from incidence import geometry
from incidence.errors import IncidenceError
from incidence.geometry import convert, lifting
from incidence.structure import Structure

EDGE = Structure(2, {"{i j}": [[0], [1]]})
CUBE = geometry.named("cube")
TRIANGLE = b"v 0 0 0\nv 1 0 0\nv 0 1 0\n"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: geometry.polytope([[10**400, 0], [0, 1], [0, 0]]),
            r"point 0 has a coordinate of 2\^1000 or more",
        ),
        (
            lambda: geometry.polytope([[0.5, 0], [0, 1], [0, 0]], tolerance="x"),
            "tolerance must be .*; got 'x'",
        ),
        (
            lambda: lifting.as_transform(lifting.rings, foo=3),
            "rings takes the options max_length, .*'foo'",
        ),
        (
            lambda: EDGE.with_pattern("i {i j}", limit="a"),
            "limit must be an integer from 0, .*; got 'a'",
        ),
        (
            lambda: EDGE.with_pattern("i {i j}", limit=-1),
            "limit must be an integer from 0, .*; got -1",
        ),
        (
            lambda: geometry.align(EDGE, "{i j}", [[0], [1]], "a"),
            "features must be numbers, .*; got str",
        ),
        (lambda: geometry.align(5, "{i j}", [[0], [1]], [1.0]), "align takes a Structure; got int"),
        (lambda: geometry.faces(5), "faces takes a Structure; got int"),
        (lambda: geometry.faces(CUBE, ranks=5), "ranks maps ranks to tensors, .*; got 5"),
        (lambda: geometry.densify(5), "densify takes a Structure; got int"),
        (lambda: geometry.mesh("a.obj", format=5), "format must be one of .*; got 5"),
        (lambda: geometry.mesh(""), "the path of the mesh is empty"),
        (lambda: convert.read_hif(5), "a file is given by its path, as a text; got 5"),
        (lambda: convert.read_sdf(5), "a file is given by its path, as a text; got 5"),
        (lambda: geometry.faces(CUBE).adjacency(7), "ranks 0 to 2; got 7"),
        (
            lambda: geometry.simplicial_complex([[0, -1]]),
            r"facets\[0\] has the negative node -1: nodes are numbered from 0",
        ),
        (
            lambda: geometry.point_cloud([[0.0]], k=1),
            "k must be less than the number of points, which is 1",
        ),
        (
            lambda: geometry.table({"a": {"user": [1], "movie": [2]}}),
            "the table 'a' has the name of a letter. Give it two letters or more",
        ),
    ],
)
def test_a_sentence_says_what_is_wrong(call, message):
    with pytest.raises(IncidenceError, match=message):
        call()


def test_equal_points_have_one_corner():
    assert geometry.corners([[0, 0], [0, 0]]).tolist() == [0]


def test_a_transform_of_a_function_that_does_not_tell_its_options_is_made():
    assert repr(lifting.as_transform(max)) == "as_transform(max)"


def test_an_obj_file_names_points_from_the_end_as_it_writes_them(tmp_path):
    (tmp_path / "back.obj").write_bytes(TRIANGLE + b"f -9 1 2\n")
    with pytest.raises(
        IncidenceError,
        match=(
            "line 4: a face names point -9, counted back from the last, but 3 points stand"
            " before it"
        ),
    ):
        geometry.mesh(tmp_path / "back.obj")


def test_an_obj_file_may_start_with_a_byte_order_mark(tmp_path):
    (tmp_path / "marked.obj").write_bytes(b"\xef\xbb\xbf" + TRIANGLE + b"f 1 2 3\n")
    assert torch.equal(
        geometry.mesh(tmp_path / "marked.obj")["{i j k}"], torch.tensor([[0], [1], [2]])
    )


def test_an_empty_sdf_file_is_refused(tmp_path):
    (tmp_path / "empty.sdf").write_text("")
    with pytest.raises(IncidenceError, match=r"empty.sdf has no record"):
        list(convert.read_sdf(tmp_path / "empty.sdf"))
