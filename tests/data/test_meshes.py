import math

import pytest
import torch
from torch import Tensor

from incidence.data.meshes import COLUMNS, features_of
from incidence.errors import IncidenceError
from incidence.structure import Structure
from incidence.structure.collate import collate
from incidence.structure.example import Example
from tests.data.mesh_examples import (
    CUBE_FACES,
    CUBE_POINTS,
    bumpy,
    cube,
    example_of,
    grid,
    icosahedron,
    moebius,
    rotation,
    tetrahedron,
    torus,
)

MESHES = {
    "cube": cube,
    "tetrahedron": tetrahedron,
    "icosahedron": icosahedron,
    "grid": grid,
    "torus": torus,
    "moebius": moebius,
    "bumpy": bumpy,
}
EULER = {
    "cube": 2,
    "tetrahedron": 2,
    "icosahedron": 2,
    "grid": 1,
    "torus": 0,
    "moebius": 0,
    "bumpy": 0,
}
ANGLE = COLUMNS["{i j}"].index("dihedral angle")


def column(example: Example, pattern: str, name: str) -> Tensor:
    return features_of(example).features[pattern][:, COLUMNS[pattern].index(name)].double()


def moved(example: Example, points: Tensor) -> Example:
    return example.replace(features={"pos=i": points})


def assert_same(one: Example, other: Example) -> None:
    for key in COLUMNS:
        torch.testing.assert_close(
            features_of(one).features[key], features_of(other).features[key], atol=1e-5, rtol=1e-5
        )


@pytest.fixture(params=MESHES, ids=str)
def example(request: pytest.FixtureRequest) -> Example:
    found: Example = MESHES[request.param]()
    return found


def test_features_are_invariant_under_rotation(example: Example) -> None:
    assert_same(example, moved(example, example.features["pos=i"] @ rotation(1)))


def test_features_are_invariant_under_reflection(example: Example) -> None:
    assert_same(example, moved(example, example.features["pos=i"] * torch.tensor([1.0, -1.0, 1.0])))


def test_features_are_invariant_under_translation(example: Example) -> None:
    assert_same(
        example, moved(example, example.features["pos=i"] + torch.tensor([100.0, -7.0, 3.0]))
    )


@pytest.mark.parametrize("factor", [1e-100, 1e-3, 50.0, 1e100])
def test_features_are_invariant_under_scaling(example: Example, factor: float) -> None:
    assert_same(example, moved(example, example.features["pos=i"] * factor))


def test_features_follow_a_relabelling_of_the_nodes_and_another_order_of_faces() -> None:
    points, faces = bumpy().features["pos=i"], bumpy().structure["{i j k}"].T
    order, shuffled = (
        torch.randperm(54, generator=torch.Generator().manual_seed(3)),
        torch.randperm(len(faces)),
    )
    new = torch.empty_like(order)
    new[order] = torch.arange(54)
    other = features_of(example_of(points[order], new[faces[shuffled]].roll(1, 1)))
    own = features_of(bumpy())
    torch.testing.assert_close(other.features["i"], own.features["i"][order])
    for key in ("{i j}", "{i j k}"):
        rows = other.structure.locate(key, new[own.structure[key]])
        torch.testing.assert_close(other.features[key][rows], own.features[key])


def test_entries_of_a_structure_may_stand_in_any_order_and_spelling() -> None:
    s, own = bumpy().structure, features_of(bumpy())
    edges, faces = s["{i j}"], s["{i j k}"]
    generator = torch.Generator().manual_seed(0)
    p, q = (
        torch.randperm(edges.shape[1], generator=generator),
        torch.randperm(faces.shape[1], generator=generator),
    )
    shuffled = Structure(54, {"{i j}": edges.flip(0)[:, p], "{i j k}": faces[[2, 0, 1]][:, q]})
    other = features_of(Example(shuffled, {"pos=i": bumpy().features["pos=i"]}))
    torch.testing.assert_close(other.features["{i j}"], own.features["{i j}"][p])
    torch.testing.assert_close(other.features["{i j k}"], own.features["{i j k}"][q])
    torch.testing.assert_close(other.features["i"], own.features["i"])


@pytest.mark.parametrize("name", MESHES)
def test_angle_defects_sum_to_the_euler_characteristic(name: str) -> None:
    assert float(column(MESHES[name](), "i", "angle defect").sum()) == pytest.approx(
        2 * math.pi * EULER[name], abs=1e-4
    )


def test_angle_defects_sum_to_the_euler_characteristic_with_branches_loose_edges_and_points() -> (
    None
):
    faces = [[0, 1, 2], [0, 1, 3], [0, 1, 4]]
    pages = example_of(
        [[0.0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [-1, 0, 0], [5, 5, 5], [6, 5, 5], [7, 7, 7]],
        faces,
    )
    s = pages.structure
    loose = Structure(
        8, {"{i j}": torch.cat([s["{i j}"], torch.tensor([[5], [6]])], 1), "{i j k}": s["{i j k}"]}
    )
    euler = 8 - 8 + 3
    assert float(
        column(Example(loose, pages.features), "i", "angle defect").sum()
    ) == pytest.approx(2 * math.pi * euler, abs=1e-4)


def test_the_dihedral_angles_of_a_cube_are_right_angles_and_zero_on_its_diagonals() -> None:
    angles = column(cube(), "{i j}", "dihedral angle").sort().values
    torch.testing.assert_close(
        angles, torch.tensor([0.0] * 6 + [math.pi / 2] * 12, dtype=torch.float64), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize(
    ("name", "inner"),
    [("tetrahedron", math.acos(1 / 3)), ("icosahedron", math.acos(-(5**0.5) / 3))],
)
def test_the_dihedral_angles_of_regular_solids_are_those_of_the_textbook(
    name: str, inner: float
) -> None:
    angles = column(MESHES[name](), "{i j}", "dihedral angle")
    torch.testing.assert_close(angles, torch.full_like(angles, math.pi - inner), atol=1e-6, rtol=0)


def test_a_fold_inwards_is_negative() -> None:
    # the top is replaced by a pyramid into the middle of the cube
    points = torch.tensor([*CUBE_POINTS, [0.5, 0.5, 0.5]])
    top = {1, 3, 5, 7}
    sides = [face for face in CUBE_FACES if not set(face) <= top]
    dented = features_of(example_of(points, [*sides, [1, 5, 8], [5, 7, 8], [7, 3, 8], [3, 1, 8]]))
    at_tip = (dented.structure["{i j}"] == 8).any(0)
    angles = dented.features["{i j}"][:, ANGLE]
    torch.testing.assert_close(angles[at_tip], torch.full((4,), -math.pi / 3))
    assert (angles[~at_tip] >= 0).all()


def test_a_bowl_bulges_though_it_is_open_and_a_strip_without_sides_has_no_signs() -> None:
    bowl = example_of(CUBE_POINTS, [face for face in CUBE_FACES if not set(face) <= {1, 3, 5, 7}])
    assert (column(bowl, "{i j}", "dihedral angle") >= 0).all()
    bent = (
        moebius().features["pos=i"]
        + torch.randn(18, 3, generator=torch.Generator().manual_seed(0)) / 20
    )
    strip = column(moved(moebius(), bent), "{i j}", "dihedral angle")
    assert (strip >= 0).all()
    assert strip.max() > 0.1


def test_every_part_of_a_mesh_has_its_own_outside() -> None:
    points = torch.tensor(CUBE_POINTS)
    faces = torch.tensor(CUBE_FACES)
    two = example_of(torch.cat([points, points / 4 + 0.3]), torch.cat([faces, faces + 8]))
    assert (column(two, "{i j}", "dihedral angle") >= 0).all()
    bowl = torch.tensor([face for face in CUBE_FACES if not set(face) <= {1, 3, 5, 7}])
    apart = example_of(
        torch.cat([points, points - torch.tensor([0.0, 0.0, 20.0])]), torch.cat([bowl, faces + 8])
    )
    assert (column(apart, "{i j}", "dihedral angle") >= 0).all()


def test_a_flat_grid_has_no_curvature() -> None:
    size = 5
    flat = features_of(grid(size))
    edges, nodes = flat.features["{i j}"], flat.features["i"]
    assert (edges[:, ANGLE] == 0).all()
    inner = [r * size + c for r in range(1, size - 1) for c in range(1, size - 1)]
    assert nodes[inner, 0].abs().max() < 1e-5
    corners = [0, size - 1, size * (size - 1), size * size - 1]
    torch.testing.assert_close(nodes[corners, 0], torch.full((4,), math.pi / 2))
    assert int(edges[:, COLUMNS["{i j}"].index("is border")].sum()) == 4 * (size - 1)


def test_an_edge_in_three_faces_is_branching_and_has_no_angle() -> None:
    pages = features_of(
        example_of(
            [[0.0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [-1, 0, 0]],
            [[0, 1, 2], [0, 1, 3], [0, 1, 4]],
        )
    )
    row = int(pages.structure.locate("{i j}", [[0], [1]]))
    assert pages.features["{i j}"][row, 1:4].tolist() == [0, 0, 1]
    assert pages.features["{i j}"][:, 3].sum() == 1


def test_lengths_areas_and_curvature_of_a_cube_are_exact() -> None:
    solid = features_of(cube())
    area, root = 6.0, 6.0**0.5
    edges, faces, nodes = (solid.features[key].double() for key in ("{i j}", "{i j k}", "i"))
    lengths = torch.tensor([1 / root] * 12 + [2**0.5 / root] * 6, dtype=torch.float64)
    torch.testing.assert_close(edges[:, 0].sort().values, lengths, atol=1e-6, rtol=0)
    half, right = math.pi / 4, math.pi / 2
    expected = torch.tensor(
        [0.5 / area, half, half, right, 1 / root, 1 / root, 2**0.5 / root], dtype=torch.float64
    )
    torch.testing.assert_close(faces, expected.expand(12, 7), atol=1e-6, rtol=0)
    torch.testing.assert_close(
        nodes[:, 0], torch.full((8,), right, dtype=torch.float64), atol=1e-6, rtol=0
    )
    assert float(nodes[:, 1].sum()) == pytest.approx(1)
    assert float(nodes[:, 2].sum()) == pytest.approx(12 * (math.pi / 2) / 2 / root)
    assert nodes[:, 3].sum() == 36


def test_opposite_angles_and_heights_are_sorted_and_exact() -> None:
    kite = features_of(
        example_of([[0.0, 0, 0], [2, 0, 0], [1, 1, 0], [1, -3, 0]], [[0, 1, 2], [0, 1, 3]])
    )
    row = int(kite.structure.locate("{i j}", [[0], [1]]))
    expected = torch.tensor([2 * math.atan(1 / 3), math.pi / 2, 0.5, 1.5])
    torch.testing.assert_close(kite.features["{i j}"][row, 4:], expected)


@pytest.mark.parametrize(
    "points",
    [
        pytest.param([[0.0, 0, 0]] * 4, id="one point"),
        pytest.param([[0.0, 0, 0], [1, 1, 1], [2, 2, 2], [3, 3, 3]], id="a line"),
        pytest.param([[0.0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0]], id="two equal points"),
        pytest.param([[0.0, 0, 0], [1e-30, 0, 0], [1, 0, 0], [0, 1e-25, 1]], id="slivers"),
        pytest.param([[0.0, 0, 0], [1, 0, 0], [0.5, 1e-8, 0], [0.7, 0, 1e-8]], id="a thread"),
        pytest.param([[1e300, 0, 0], [-1e300, 0, 0], [0, 1e300, 0], [0, 0, 1e300]], id="huge"),
        pytest.param([[1e-300, 0, 0], [0, 0, 0], [0, 1e-300, 0], [0, 0, 1e-300]], id="tiny"),
    ],
)
def test_degenerate_meshes_give_finite_features(points: list[list[float]]) -> None:
    found = features_of(
        example_of(torch.tensor(points, dtype=torch.float64), tetrahedron().structure["{i j k}"].T)
    )
    for key in COLUMNS:
        assert found.features[key].isfinite().all()
        assert found.features[key].abs().max() < 1001


def test_a_batch_has_the_features_of_its_meshes() -> None:
    meshes = [bumpy(0), cube(), moebius(), grid()]
    batch = features_of(collate(meshes))
    for one, other in zip(batch, meshes, strict=True):
        for key in COLUMNS:
            torch.testing.assert_close(one.features[key], features_of(other).features[key])


def test_coordinates_targets_and_other_features_stay() -> None:
    given = cube().replace(
        features={**cube().features, "colour=i": torch.ones(8, 1), "i": torch.zeros(8, 2)},
        target=3.0,
    )
    found = features_of(given)
    assert found.target == given.target
    assert torch.equal(found.features["pos=i"], given.features["pos=i"])
    assert torch.equal(found.features["colour=i"], torch.ones(8, 1))
    assert {key: found.features[key].shape[1] for key in COLUMNS} == {
        key: len(names) for key, names in COLUMNS.items()
    }


def test_a_mesh_in_the_plane_is_a_mesh_in_space() -> None:
    assert_same(grid(), moved(grid(), grid().features["pos=i"][:, :2]))


def test_a_mesh_without_coordinates_is_refused() -> None:
    with pytest.raises(IncidenceError, match=r"give features\['pos=i'\]"):
        features_of(Example(cube().structure))


def test_coordinates_of_another_dimension_are_refused() -> None:
    with pytest.raises(IncidenceError, match="2 or 3 columns; got 4"):
        features_of(moved(cube(), torch.zeros(8, 4)))


def test_coordinates_that_are_not_finite_are_refused() -> None:
    points = cube().features["pos=i"].clone()
    points[5, 1] = torch.nan
    with pytest.raises(IncidenceError, match="node 5 is at"):
        features_of(moved(cube(), points))


@pytest.mark.parametrize("edges", [[[0, 0], [1, 2]], [[], []]], ids=["one missing", "none"])
def test_triangles_whose_sides_are_no_edges_are_refused(edges: list[list[int]]) -> None:
    s = Structure(3, {"{i j}": torch.tensor(edges, dtype=torch.long), "{i j k}": [[0], [1], [2]]})
    with pytest.raises(IncidenceError, match=r"which is no entry of `\{i j\}`"):
        features_of(Example(s, {"pos=i": torch.eye(3)}))


def test_a_structure_without_triangles_has_features_too() -> None:
    s = Structure(3, {"{i j}": [[0], [1]], "{i j k}": torch.zeros(3, 0, dtype=torch.long)})
    found = features_of(Example(s, {"pos=i": torch.eye(3)}))
    assert found.features["{i j k}"].shape == (0, 7)
    assert found.features["i"][:, 3].tolist() == [1, 1, 0]
    assert found.features["{i j}"].isfinite().all()


def test_a_face_that_is_a_line_has_no_heights_and_a_needle_has_bounded_ones() -> None:
    heights = slice(COLUMNS["{i j}"].index("smaller height ratio"), None)
    for width, expected in ((1e-12, 0.0), (1e-3, 10.0)):
        needle = features_of(example_of([[0.0, 0, 0], [1, 0, 0], [1, width, 0]], [[0, 1, 2]]))
        row = int(needle.structure.locate("{i j}", [[1], [2]]))
        assert needle.features["{i j}"][row, heights].tolist() == [expected, expected]
