from pathlib import Path

import pytest
import torch

from incidence.data import READERS, Record, reader
from incidence.data.meshes import COLUMNS, examples_of, features_of, triangulated
from incidence.errors import IncidenceError
from incidence.geometry import read_mesh
from incidence.structure.example import Example
from tests.data.mesh_examples import CUBE_FACES, CUBE_POINTS, CUBE_QUADS, cube

POINTS = [" ".join(map(str, p)) for p in CUBE_POINTS]
TEXTS = {
    ".obj": (
        "".join(f"v {p}\n" for p in POINTS)
        + "".join("f " + " ".join(str(v + 1) for v in f) + "\n" for f in CUBE_FACES)
    ),
    ".off": (
        "OFF\n8 12 0\n"
        + "".join(f"{p}\n" for p in POINTS)
        + "".join("3 " + " ".join(map(str, f)) + "\n" for f in CUBE_FACES)
    ),
    ".ply": (
        "ply\nformat ascii 1.0\nelement vertex 8\nproperty float x\nproperty float y\nproperty"
        " float z\nelement face 12\nproperty list uchar int vertex_indices\nend_header\n"
        + "".join(f"{p}\n" for p in POINTS)
        + "".join("3 " + " ".join(map(str, f)) + "\n" for f in CUBE_FACES)
    ),
    ".stl": (
        "solid cube\n"
        + "".join(
            "facet normal 0 0 0\nouter loop\n"
            + "".join(f"vertex {POINTS[v]}\n" for v in face)
            + "endloop\nendfacet\n"
            for face in CUBE_FACES
        )
        + "endsolid cube\n"
    ),
}


def read(path: Path) -> Record:
    errors: list[object] = []
    [found] = reader("mesh").read(path, errors)
    assert not errors
    return found


def summary(example: Example) -> dict[str, torch.Tensor]:
    """Features whatever the order of the nodes."""
    return {key: example.features[key].sort(0).values for key in COLUMNS}


@pytest.mark.parametrize("suffix", TEXTS)
def test_a_cube_is_read_from_every_format_with_the_same_features(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"cube{suffix}"
    path.write_text(TEXTS[suffix])
    found = read(path)
    assert found.name == f"cube{suffix}"
    assert suffix in reader("mesh").suffixes
    torch.testing.assert_close(
        summary(found.example), summary(features_of(cube())), atol=1e-6, rtol=1e-6
    )


def test_the_reader_is_in_the_registry() -> None:
    assert "mesh" in READERS


def test_polygons_are_cut_into_triangles_at_their_first_corner() -> None:
    mixed = read_mesh(
        (
            [[0.0, 0, 0], [1, 0, 0], [2, 1, 0], [1, 2, 0], [0, 1, 0], [-1, 0, 0]],
            [[0, 1, 2, 3, 4], [0, 4, 5]],
        )
    )
    cut = triangulated(mixed)
    assert [face.tolist() for face in cut.faces] == [[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 5]]
    assert triangulated(cut) is cut


def test_a_cube_of_squares_has_the_features_of_its_triangles(tmp_path: Path) -> None:
    path = tmp_path / "squares.obj"
    path.write_text(
        "".join(f"v {p}\n" for p in POINTS)
        + "".join("f " + " ".join(str(v + 1) for v in f) + "\n" for f in CUBE_QUADS)
    )
    found = read(path).example
    expected = features_of(cube())
    assert found.structure == expected.structure
    torch.testing.assert_close(found.features["{i j}"], expected.features["{i j}"])


def test_faces_that_name_a_point_twice_or_stand_there_twice_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "flawed.obj"
    path.write_text(TEXTS[".obj"] + "f 1 1 2\n" + TEXTS[".obj"].splitlines()[-1] + "\n")
    assert read(path).example.structure == cube().structure


def test_coordinates_far_from_the_origin_lose_nothing() -> None:
    far = read_mesh((torch.tensor(CUBE_POINTS, dtype=torch.float64) + 1e9, CUBE_FACES))
    [found] = examples_of([far])
    torch.testing.assert_close(found.features["{i j}"], features_of(cube()).features["{i j}"])
    torch.testing.assert_close(features_of(found).features["{i j}"], found.features["{i j}"])
    assert found.features["pos=i"].dtype == torch.float32


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(IncidenceError, match=r"there is no file .*absent\.obj"):
        read(tmp_path / "absent.obj")


def test_a_file_without_a_proper_face_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "line.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nf 1 1 2\n")
    with pytest.raises(IncidenceError, match="no face with three different points"):
        read(path)


def test_coordinates_beyond_single_precision_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "huge.obj"
    path.write_text("v 0 0 0\nv 1e300 0 0\nv 0 1e300 0\nf 1 2 3\n")
    with pytest.raises(IncidenceError, match="beyond 3e38"):
        read(path)
