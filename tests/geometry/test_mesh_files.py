"""Every format is read as it was written: points, polygons, and their order."""

import gzip
import io
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence import geometry
from tests.data_folder import data_folder
from tests.geometry import mesh_writers as w


def read(data: bytes, file_format: str, **options):
    return geometry.read_mesh(io.BytesIO(data), format=file_format, **options)


def polygons(mesh) -> list[list[int]]:
    return [mesh.faces[k].tolist() for k in range(len(mesh.faces))]


@st.composite
def random_meshes(draw, sizes=(3, 4, 5, 7)):
    num_points = draw(st.integers(7, 12))
    number = st.floats(-1e3, 1e3, width=32).map(lambda x: x + 0.0)
    points = draw(
        st.lists(
            st.tuples(number, number, number), min_size=num_points, max_size=num_points, unique=True
        )
    )
    face = st.sampled_from(sizes).flatmap(
        lambda k: st.permutations(range(num_points)).map(lambda p: list(p[:k]))
    )
    faces = draw(st.lists(face, min_size=1, max_size=8, unique_by=frozenset))
    return [list(p) for p in points], faces


@pytest.mark.parametrize("name", w.POLYGON_WRITERS)
@settings(max_examples=25, deadline=None)
@given(mesh=random_meshes())
def test_polygons_of_any_size_come_back_in_their_order(name, mesh):
    points, faces = mesh
    file_format, write = w.POLYGON_WRITERS[name]
    found = read(write(points, faces), file_format)
    assert found.points.tolist() == points
    assert polygons(found) == faces


@pytest.mark.parametrize("name", w.TRIANGLE_WRITERS)
@settings(max_examples=25, deadline=None)
@given(mesh=random_meshes(sizes=(3,)))
def test_triangles_come_back_in_their_order_with_their_corners(name, mesh):
    points, faces = mesh
    file_format, write = w.TRIANGLE_WRITERS[name]
    found = read(write(points, faces), file_format)
    assert found.points[found.faces.nodes].tolist() == [points[v] for f in faces for v in f]


@pytest.mark.parametrize("name", ["stl", "stl binary"])
def test_equal_corners_of_stl_are_one_node_in_order_of_appearance(name):
    points = [[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [2.0, 2.0, 0.0]]
    found = read(w.WRITERS[name][1](points, [[3, 1, 0], [0, 2, 3]]), "stl")
    assert found.points.tolist() == [points[3], points[1], points[0], points[2]]
    assert polygons(found) == [[0, 1, 2], [2, 3, 0]]


def test_minus_zero_is_zero_when_corners_are_compared():
    data = w.stl(
        [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-0.0, -0.0, 0.0], [1.0, 1.0, 0.0]],
        [[0, 1, 2], [3, 4, 1]],
    )
    assert len(read(data, "stl").points) == 4


def test_stl_may_have_several_solids():
    one = w.stl([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [[0, 1, 2]])
    other = w.stl([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], [[2, 1, 0]])
    found = read(one + other, "stl")
    assert polygons(found) == [[0, 1, 2], [3, 1, 0]]


# ---- what the formats allow

OBJ_VARIANTS = {
    "textures and normals": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nvn 0 0 1\nf 1/1/1 2/1/1 3/1/1\n",
    "normals alone": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1//1 2//1 3//1\n",
    "from the end": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf -3 -2 -1\nv 5 5 5\n",
    "weights and colours": b"v 0 0 0 1.0\nv 1 0 0 0.5 0.5 0.5\nv 0 1 0\nf 1 2 3\n",
    "comments, tabs and windows lines": (
        b"# v 9 9 9\r\nv\t0 0 0 # first\r\n  v 1 0 0\r\nv 0 1 0\r\n\r\nf 1 2 3\r\n"
    ),
    "a continued line": b"v 0 0 0\nv 1 0 \\\n0\nv 0 1 0\nf 1 2 \\\n3\n",
    "no newline at the end": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3",
    "groups, materials and lines": (
        b"mtllib a.mtl\no a\ng b\nusemtl c\ns off\nv 0 0 0\nv 1 0 0\nv 0 1 0\nl 1 2\nf 1 2 3\n"
    ),
}


@pytest.mark.parametrize("name", OBJ_VARIANTS)
def test_obj_allows(name):
    found = read(OBJ_VARIANTS[name], "obj")
    assert polygons(found) == [[0, 1, 2]]
    assert found.points[:3].tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]


BODY = b"0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"
OFF_VARIANTS = {
    "counts on the first line": b"OFF 3 1 3\n" + BODY,
    "counts stuck to the word": b"OFF3 1 3\n" + BODY,
    "two counts": b"OFF\n3 1\n" + BODY,
    "comments": b"# made by hand\nOFF\n# counts\n3 1 0\n\n0 0 0 # a\n1 0 0\n0 1 0\n3 0 1 2\n",
    "colours of points": (
        b"COFF\n3 1 0\n0 0 0 255 0 0 255\n1 0 0 255 0 0 255\n0 1 0 255 0 0 255\n3 0 1 2\n"
    ),
    "colours of faces": b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2 0.5 0.5 0.5\n",
    "a name for a colour": b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2 dark_red\n",
}


@pytest.mark.parametrize("name", OFF_VARIANTS)
def test_off_allows(name):
    found = read(OFF_VARIANTS[name], "off")
    assert polygons(found) == [[0, 1, 2]]
    assert found.points.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]


def ply_with_company(order: str) -> bytes:
    """Other elements before, between and after, other properties around, two lists in a face."""
    header = (
        f"ply\nformat {order} 1.0\nobj_info x\nelement camera 1\nproperty float a\nproperty list"
        " uchar short b\nelement vertex 3\nproperty uchar red\nproperty float z\nproperty float"
        " x\nproperty float y\nelement edge 0\nproperty int v1\nelement face 2\nproperty ushort"
        " flags\nproperty list ushort uint vertex_index\nproperty list uchar float"
        " texcoord\nproperty double area\nelement tail 1\nproperty char c\nend_header\n"
    ).encode()
    if order == "ascii":
        return (
            header + b"1.5 2 7 8\n9 2 0 1\n9 5 3 4\n9 8 6 7\n1 3 0 1 2 2 0.5 0.5 1.0\n2 3 2 1 0 0"
            b" 4.0\n-3\n"
        )
    np_order = {"binary_little_endian": "<", "binary_big_endian": ">"}[order]

    def pack(*parts):
        return b"".join(
            np.array(values, dtype=np_order + kind).tobytes() for kind, *values in parts
        )

    rows = [pack(("f4", 1.5), ("u1", 2), ("i2", 7, 8))]
    rows += [pack(("u1", 9), ("f4", *xyz)) for xyz in ((2, 0, 1), (5, 3, 4), (8, 6, 7))]
    rows += [pack(("u2", 1), ("u2", 3), ("u4", 0, 1, 2), ("u1", 2), ("f4", 0.5, 0.5), ("f8", 1.0))]
    rows += [pack(("u2", 2), ("u2", 3), ("u4", 2, 1, 0), ("u1", 0), ("f8", 4.0)), pack(("i1", -3))]
    return header + b"".join(rows)


@pytest.mark.parametrize("order", ["ascii", "binary_little_endian", "binary_big_endian"])
def test_ply_passes_over_all_but_points_and_polygons(order):
    data = ply_with_company(order)
    found = read(data, "ply", repair=True)  # both faces have the same nodes
    assert found.points.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert polygons(found) == [[0, 1, 2]]
    assert found.kept.tolist() == [0]


@pytest.mark.parametrize("name", ["ply", "ply little endian"])
def test_the_lines_of_a_ply_header_may_end_as_on_windows(name):
    head, end, body = w.WRITERS[name][1](w.PYRAMID_POINTS, w.PYRAMID_FACES).partition(
        b"end_header\n"
    )
    found = read((head + end).replace(b"\n", b"\r\n") + body, "ply")
    assert found.points.tolist() == w.PYRAMID_POINTS
    assert polygons(found) == w.PYRAMID_FACES


# ---- where a file is


@pytest.mark.parametrize("name", w.WRITERS)
def test_a_path_tells_its_format_by_its_suffix_packed_or_not(name, tmp_path):
    file_format, write = w.WRITERS[name]
    data = write(w.TETRA_POINTS, w.TETRA_FACES)
    plain, packed = tmp_path / f"thing.{file_format.upper()}", tmp_path / f"thing.{file_format}.gz"
    plain.write_bytes(data)
    packed.write_bytes(gzip.compress(data))
    assert (
        geometry.mesh(plain)
        == geometry.mesh(str(packed))
        == geometry.mesh((w.TETRA_POINTS, w.TETRA_FACES))
    )


def test_an_open_file_tells_its_format_by_its_name(tmp_path):
    path = tmp_path / "thing.off"
    path.write_bytes(w.off(w.CUBE_POINTS, w.CUBE_FACES))
    with path.open("rb") as file:
        assert geometry.mesh(file) == geometry.mesh(path)


# ---- real files: vertices, edges, faces, V - E + F, edges in one face, edges in more than two

SURFACES = {
    "3holes.off": (3596, 10800, 7200, -4, 0, 0),
    "alligator.obj": (3208, 9188, 5981, 1, 433, 0),
    "beetle.obj": (1148, 3204, 2053, -3, 296, 47),
    "bunny.off": (3485, 10449, 6966, 2, 0, 0),
    "cheburashka.obj": (6669, 20001, 13334, 2, 0, 0),
    "cow.obj": (2903, 8706, 5804, 1, 0, 0),
    "cube.off": (8, 12, 6, 2, 0, 0),
    "decimated-knight.off": (502, 1500, 1000, 2, 0, 0),
    "fandisk.obj": (6475, 19419, 12946, 2, 0, 0),
    "fertility.off": (4494, 13500, 9000, -6, 0, 0),
    "homer.obj": (6002, 18000, 12000, 2, 0, 0),
    "horse_quad.obj": (2400, 4796, 2398, 2, 0, 0),
    "rocker-arm.obj": (10044, 30132, 20088, 0, 0, 0),
    "spot.obj": (2930, 8784, 5856, 2, 0, 0),
    "suzanne.obj": (507, 1005, 500, 2, 42, 0),
    "teapot.obj": (3644, 9998, 6320, -34, 1036, 0),
    "woody.obj": (694, 1960, 1267, 1, 119, 0),
}
PIECES = {"suzanne.obj": 3, "teapot.obj": 4}


def faces_per_edge(mesh) -> torch.Tensor:
    """In how many faces each edge of the structure is."""
    pairs = torch.cat(
        [
            torch.stack([own, own.roll(-1)])
            for own in map(mesh.faces.__getitem__, range(len(mesh.faces)))
        ],
        dim=1,
    )
    different, counts = pairs.sort(dim=0).values.unique(dim=1, return_counts=True)
    rows = mesh.structure.locate("{i j}", different)
    assert sorted(rows.tolist()) == list(range(mesh.structure.num_entries("{i j}")))
    return counts


def num_pieces(mesh) -> int:
    label = torch.arange(mesh.structure.num_nodes)
    one, other = mesh.structure["{i j}"]
    for _ in range(mesh.structure.num_nodes):
        new = label.scatter_reduce(0, one, label[other], "amin").scatter_reduce(
            0, other, label[one], "amin"
        )
        if torch.equal(new, label):
            break
        label = new[new]
    return len(label.unique())


@pytest.mark.parametrize("name", SURFACES)
def test_a_classic_surface_has_the_listed_numbers(name):
    mesh = geometry.read_mesh(data_folder("classic_meshes") / f"{name}.gz")
    s, counts = mesh.structure, faces_per_edge(mesh)
    v, e, f = s.num_nodes, s.num_entries("{i j}"), s.num_entries(mesh.face_pattern)
    assert (v, e, f, v - e + f, int((counts == 1).sum()), int((counts > 2).sum())) == SURFACES[name]
    assert s.canonical()[0] == s


@pytest.mark.parametrize("name", PIECES)
def test_a_classic_surface_has_the_listed_pieces(name):
    assert (
        num_pieces(geometry.read_mesh(data_folder("classic_meshes") / f"{name}.gz")) == PIECES[name]
    )


def test_suzanne_keeps_her_quads():
    mesh = geometry.read_mesh(data_folder("classic_meshes") / "suzanne.obj.gz")
    assert mesh.face_pattern == "face"
    assert torch.bincount(mesh.faces.sizes).tolist() == [0, 0, 0, 32, 468]


@pytest.mark.slow
def test_600_meshes_of_shrec_have_the_published_numbers():
    archive = ZipFile(data_folder("shrec11_meshes") / "shrec_16.zip")
    eulers = []
    for name in [name for name in archive.namelist() if name.endswith(".obj")]:
        s = geometry.mesh(archive.open(name))
        assert (s.num_entries("{i j k}"), s.num_entries("{i j}")) == (500, 750)
        eulers.append(s.num_nodes - 250)
    assert (len(eulers), eulers.count(2), eulers.count(0)) == (600, 588, 12)


def test_a_library_that_reads_the_same_file_agrees_on_triangles(tmp_path):
    trimesh = pytest.importorskip("trimesh")
    for name in ("obj", "off", "ply little endian", "stl binary"):
        file_format, write = w.WRITERS[name]
        path = Path(tmp_path) / f"thing.{file_format}"
        path.write_bytes(write(w.TETRA_POINTS, w.TETRA_FACES))
        other = trimesh.load(path, process=False)
        corners = torch.from_numpy(np.array(other.vertices)[np.array(other.faces)])
        mine = geometry.read_mesh(path)
        assert torch.equal(mine.points[mine.faces.nodes.view(-1, 3)], corners)
