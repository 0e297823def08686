"""Broken meshes: the sentence says which file, where in it, and what."""

import gzip
import io
import logging
import sys

import numpy as np
import pytest

from incidence import geometry
from incidence.errors import IncidenceError, MissingExtraError, TooLargeError
from tests.geometry import mesh_writers as w
from tests.little_memory import little_memory

V = b"v 0 0 0\nv 1 0 0\nv 0 1 0\n"  # three points of OBJ
P = b"0 0 0\n1 0 0\n0 1 0\n"
PLY = (
    b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty"
    b" float z\n"
)
FACE = b"element face 1\nproperty list uchar int vertex_indices\nend_header\n"
BINARY = PLY.replace(b"ascii", b"binary_little_endian")
POINTS = np.arange(9, dtype="<f4").tobytes()
FACET = (
    b"solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1"
    b" 0\nendloop\nendfacet\n"
)

BROKEN = {
    # OBJ
    "obj, an unknown word": (
        "obj",
        V + b"fa 1 2 3\n",
        r"a\.obj, line 4: `fa` is no keyword of OBJ\. The file is cut off or damaged",
    ),
    "obj, a line that would run something": (
        "obj",
        V + b"csh ls\n",
        r"line 4: `csh` is no keyword",
    ),
    "obj, a short point": (
        "obj",
        b"v 0 0\n",
        r"line 1: a point has at least 4 numbers here; got 3",
    ),
    "obj, a word for a number": (
        "obj",
        b"v 0 0 0\nv 0 x1 0\n",
        r"line 2: `x1` is not a number that can stand here",
    ),
    "obj, a number only Python knows": ("obj", b"v 0 1_0 0\n", r"line 1: `1_0` is not a number"),
    "obj, a fraction of a node": (
        "obj",
        V + b"f 1 2 2.5\n",
        r"line 4: `2\.5` is not an integer that can stand here",
    ),
    "obj, an endless number": (
        "obj",
        V + b"f 1 2 " + b"9" * 9000 + b"\n",
        r"line 4: `9{40}…` is not an integer",
    ),
    "obj, node 0": (
        "obj",
        V + b"f 0 1 2\n",
        r"line 4: a face names point 0, but OBJ numbers points from 1",
    ),
    "obj, a node too far": (
        "obj",
        V + b"\nf 1 2 4\n",
        r"a\.obj, face 0 \(line 5\) names point 4, but there are 3 points, numbered from 1\.",
    ),
    "obj, a node too far back": (
        "obj",
        V + b"f -1 -2 -4\n",
        r"line 4: a face names point -4, .* but 3 points stand before it",
    ),
    "obj, no face": ("obj", V, r"a\.obj has 3 points and no faces: use `point_cloud`"),
    "obj, a face of two": (
        "obj",
        V + b"f 1 2\n",
        r"face 0 \(line 4\) has 2 points: a face has at least 3\. Remove it",
    ),
    "obj, a point twice": (
        "obj",
        V + b"f 1 2 1\n",
        r"face 0 \(line 4\) is \[1, 2, 1\]: it names a point twice.*repair=True",
    ),
    "obj, a face twice": (
        "obj",
        V + b"f 1 2 3\nf 3 1 2\n",
        r"face 1 \(line 5\) is \[3, 1, 2\]: number 0 has the same points already",
    ),
    "obj, nan": (
        "obj",
        V + b"v 0 nan 0\nf 1 2 3\n",
        r"a\.obj, point 3 \(line 4\) is \(0\.0, nan, 0\.0\): coordinates must be finite",
    ),
    "obj, junk": ("obj", bytes(range(1, 256)), r"a\.obj, line 1: .* is no keyword of OBJ"),
    # OFF
    "off, no header": (
        "off",
        b"3 1 0\n" + P,
        r"a\.off, line 1: an OFF file begins with OFF .*; got `3`",
    ),
    "off, another kind": ("off", b"OFFBINARY\n", r"line 1: an OFF file begins with OFF"),
    "off, comments alone": (
        "off",
        b"# nothing\n",
        r"a\.off: an OFF file begins with OFF .* got comments alone",
    ),
    "off, no counts": (
        "off",
        b"OFF\n",
        r"a\.off, line 1: the numbers of points, faces and edges must follow OFF",
    ),
    "off, one count": (
        "off",
        b"OFF\n3\n",
        r"line 2: the numbers of points, faces and edges must stand here; got `3`",
    ),
    "off, a negative count": ("off", b"OFF\n-3 1 0\n", r"line 2: the numbers of points, faces"),
    "off, cut off": (
        "off",
        b"OFF\n3 2 0\n" + P + b"3 0 1 2\n",
        r"line 2: it promises 3 points and 2 faces, one line each, and 4 lines follow",
    ),
    "off, a huge promise": (
        "off",
        b"OFF\n1000000000000 1 0\n" + P,
        r"it promises 1,000,000,000,000 points",
    ),
    "off, a short face": (
        "off",
        b"OFF\n3 1 0\n" + P + b"4 0 1 2\n",
        r"line 6: a face of 4 points needs its size and as many numbers after it; got 3",
    ),
    "off, a negative size": (
        "off",
        b"OFF\n3 1 0\n" + P + b"-1 0 1 2\n",
        r"line 6: a face of -1 points needs its size",
    ),
    "off, a short point": (
        "off",
        b"OFF\n3 1 0\n0 0\n1 0 0\n0 1 0\n3 0 1 2\n",
        r"line 3: a point has at least 3 numbers here; got 2",
    ),
    "off, a node too far": (
        "off",
        b"OFF\n3 1 0\n" + P + b"3 0 1 3\n",
        r"face 0 \(line 6\) names point 3, but there are 3 points, numbered from 0",
    ),
    # PLY
    "ply, another first word": (
        "ply",
        b"plyable end_header",
        r"the header of a PLY file must begin with `ply`",
    ),
    "ply, another start": (
        "ply",
        b"junk",
        r"a\.ply: the header of a PLY file must begin with `ply`",
    ),
    "ply, no end of the header": (
        "ply",
        PLY,
        r"the header of a PLY file is never closed by `end_header`",
    ),
    "ply, no format": (
        "ply",
        PLY.replace(b"ascii", b"utf8") + FACE,
        r"a\.ply, line 2: `format ascii 1\.0` must stand here",
    ),
    "ply, an odd line": (
        "ply",
        PLY + b"elephant 3\n" + FACE,
        r"line 7: `element name count` or .* must stand here; got `elephant 3`",
    ),
    "ply, an odd type": (
        "ply",
        PLY + b"property quad w\n" + FACE,
        r"line 7: a property is `type name` .*; got `quad w`",
    ),
    "ply, a list counted in fractions": (
        "ply",
        PLY + b"property list float int w\n" + FACE,
        r"line 7: a property is",
    ),
    "ply, a negative count": (
        "ply",
        PLY.replace(b"vertex 3", b"vertex -3") + FACE,
        r"line 3: an element has a new name and a number of at least 0",
    ),
    "ply, an element twice": (
        "ply",
        PLY + b"element vertex 2\n" + FACE,
        r"line 7: an element has a new name",
    ),
    "ply, a property twice": (
        "ply",
        PLY + b"property float x\n" + FACE,
        r"the element `vertex` has two properties of one name",
    ),
    "ply, no faces promised": (
        "ply",
        PLY + b"end_header\n" + P,
        r"a mesh has the elements `vertex` and `face`; the header has \['vertex'\]",
    ),
    "ply, flat points": (
        "ply",
        PLY.replace(b"property float z\n", b"") + FACE,
        r"a vertex has the numbers x, y and z and no lists",
    ),
    "ply, faces without nodes": (
        "ply",
        PLY + FACE.replace(b"vertex_indices", b"corners"),
        r"a face has the list `vertex_indices`; .*\['corners'\]",
    ),
    "ply, nodes in fractions": (
        "ply",
        PLY + FACE.replace(b"uchar int", b"uchar float"),
        r"the list `vertex_indices` must have integers",
    ),
    "ply, cut off": (
        "ply",
        PLY + FACE + P,
        r"a\.ply: the header promises 4 rows, one line each, and 3 lines follow",
    ),
    "ply, a list before the nodes": (
        "ply",
        PLY
        + FACE.replace(b"property list", b"property list uchar int w\nproperty list")
        + P
        + b"0 3 0 1 2\n",
        r"the list `w` stands before the nodes of a face, which is read from binary PLY only",
    ),
    "ply, a face without a size": (
        "ply",
        PLY + FACE.replace(b"property list", b"property int w\nproperty list") + P + b"7\n",
        r"line 14: a face needs its size and as many numbers after it; got 0",
    ),
    "ply, binary, cut off in the points": (
        "ply",
        BINARY + FACE + POINTS[:-1],
        r"promises 3 rows of `vertex` of at least 12 bytes each, and 35",
    ),
    "ply, binary, a huge promise": (
        "ply",
        BINARY.replace(b"vertex 3", b"vertex 1000000000000") + FACE + POINTS,
        r"promises 1,000,000,000,000 rows of `vertex`",
    ),
    "ply, binary, cut off in a face": (
        "ply",
        BINARY + FACE + POINTS + b"\x03\0\0\0\0",
        r"a list of row 0 of `face`.* cannot have its size",
    ),
    "ply, binary, cut off in a later face": (
        "ply",
        BINARY
        + FACE.replace(b"face 1", b"face 2")
        + POINTS
        + b"\x03"
        + bytes(12)
        + b"\x04"
        + bytes(12),
        r"a list of row 1 of `face`, or of one before it, cannot have its size",
    ),
    "ply, binary, a negative size": (
        "ply",
        BINARY
        + FACE.replace(b"uchar", b"char").replace(b"face 1", b"face 2")
        + POINTS
        + b"\x03"
        + bytes(12)
        + b"\xff"
        + bytes(12),
        r"a list of row 1 of `face`, or of one before it, cannot have its size",
    ),
    "ply, binary, bytes left over": (
        "ply",
        BINARY + FACE + POINTS + b"\x03" + bytes(15),
        r"a\.ply: 3 bytes follow the last row",
    ),
    # STL
    "stl, junk": (
        "stl",
        bytes(range(200)),
        r"a\.stl: no triangle is whole .* The file is cut off or damaged",
    ),
    "stl, short junk": (
        "stl",
        b"junk",
        r"a\.stl: no triangle is whole and between `solid` and `endsolid`",
    ),
    "stl, cut off": (
        "stl",
        FACET,
        r"a\.stl: 0 of 1 triangles are whole and between `solid` and `endsolid`",
    ),
    "stl, the second solid cut off": (
        "stl",
        FACET + b"endsolid\n" + FACET,
        r"a\.stl: 1 of 2 triangles are whole and between `solid` and `endsolid`",
    ),
    "stl, a facet of four": (
        "stl",
        FACET.replace(b"endloop", b"vertex 9 9 9\nendloop") + b"endsolid\n",
        r"a\.stl cannot be read as STL, text or binary: cannot reshape",
    ),
    "stl, a short point": (
        "stl",
        FACET.replace(b"vertex 1 0 0", b"vertex 1 0") + b"endsolid\n",
        r"incorrect number of vertices",
    ),
    "stl, a word for a number": (
        "stl",
        FACET.replace(b"vertex 1 0 0", b"vertex 1 x 0") + b"endsolid\n",
        r"a\.stl cannot be read as STL",
    ),
    "stl, corners that are equal": (
        "stl",
        FACET.replace(b"1 0 0", b"0 0 0") + b"endsolid\n",
        r"face 0 is \[0, 0, 1\]: it names a point tw",
    ),
    "stl, nothing inside": ("stl", b"solid a\nendsolid a\n", r"a\.stl: no triangle is whole"),
    "stl, binary, infinite": (
        "stl",
        w.stl_binary([[0, 0, 0], [1, 0, float("inf")], [0, 1, 0]], [[0, 1, 2]]),
        r"a\.stl, point 1 is \(1\.0, 0\.0, inf\)",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused(name, tmp_path, monkeypatch):
    suffix, data, sentence = BROKEN[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"a.{suffix}").write_bytes(data)
    with pytest.raises(IncidenceError, match=sentence):
        geometry.mesh(f"a.{suffix}")


@pytest.mark.parametrize("suffix", ["obj", "off", "ply", "stl"])
@pytest.mark.parametrize("data", [b"", b" \n\n"])
def test_an_empty_file_is_refused(suffix, data, tmp_path):
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(data)
    with pytest.raises(IncidenceError, match=rf"a\.{suffix} is empty: a mesh has points and faces"):
        geometry.mesh(path)


def test_paths_that_are_no_mesh_file_are_refused(tmp_path):
    with pytest.raises(
        IncidenceError, match="is a folder, not a file: give the path of a mesh file"
    ):
        geometry.mesh(tmp_path)
    with pytest.raises(IncidenceError, match=r"there is no file .*none\.obj"):
        geometry.mesh(tmp_path / "none.obj")
    with pytest.raises(IncidenceError, match="/dev/null is not a regular file"):
        geometry.mesh("/dev/null")
    for name, shown in (("a.fbx", "the format 'fbx'"), ("a", "no format"), ("a.gz", "no format")):
        (tmp_path / name).write_bytes(gzip.compress(b"x"))
        with pytest.raises(
            IncidenceError,
            match=rf"is read from obj, off, ply, stl \(also with \.gz\); got {shown}\. Convert it",
        ):
            geometry.mesh(tmp_path / name)
    with pytest.raises(IncidenceError, match=r"got the format 'fbx'"):
        geometry.mesh(io.BytesIO(b"x"), format="fbx")


def test_packed_files_that_are_broken_are_refused(tmp_path):
    path = tmp_path / "a.obj.gz"
    for data in (b"no gzip", gzip.compress(w.obj(w.CUBE_POINTS, w.CUBE_FACES))[:-9]):
        path.write_bytes(data)
        with pytest.raises(IncidenceError, match=r"a\.obj\.gz cannot be read: "):
            geometry.mesh(path)


def test_a_file_that_unpacks_to_more_than_is_allowed_is_refused_before_it_does(
    tmp_path, monkeypatch
):
    (tmp_path / "a.obj.gz").write_bytes(gzip.compress(bytes(1 << 24)))
    monkeypatch.setenv("INCIDENCE_MAX_GB", "0.01")
    with (
        little_memory(),
        pytest.raises(TooLargeError, match=r"a\.obj\.gz, unpacked, would take at least 0\.01 GB"),
    ):
        geometry.mesh(tmp_path / "a.obj.gz")


def test_stl_without_trimesh_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "trimesh", None)
    with pytest.raises(
        MissingExtraError,
        match=(
            r"reading an STL file needs trimesh, which is not installed: pip install"
            r" 'incidence\[mesh\]'"
        ),
    ):
        geometry.mesh(io.BytesIO(FACET + b"endsolid\n"), format="stl")


def test_a_file_open_as_text_is_refused():
    with pytest.raises(IncidenceError, match="the file is open as text: open it in binary mode"):
        geometry.mesh(io.StringIO("v 0 0 0"), format="obj")


T = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (
            None,
            (
                r"a mesh is a path, an open file, a trimesh\.Trimesh or a pair \(points, faces\);"
                r" got NoneType"
            ),
        ),
        ((T, [[0, 1, 2]], 3), "a mesh is a path.*; got tuple"),
        (
            ("x", [[0, 1, 2]]),
            r"points must be a matrix of numbers, shape \[nodes, dimensions\]; got str",
        ),
        (([[1.0], [2.0, 3.0]], []), "points must be a matrix of numbers.*; got list"),
        (([0.0, 1.0], []), r"points must have the shape \[nodes, dimensions\]; got \[2\]"),
        (
            (T, [[0, 1, 2], [0, 1, 1.5]]),
            r"faces\[1\] must be a list of nodes, which are integers; got \[0, 1, 1\.5\]",
        ),
        (
            (T, np.zeros((1, 3))),
            r"faces\[0\] must be a list of nodes, which are integers; got \[0\.0, 0\.0, 0\.0\]",
        ),
        ((T, 7), "faces must be a list of lists of nodes; got int"),
        (
            (T, [[0, 1, 2**70]]),
            (
                r"faces\[0\] must be a list of nodes, which are integers; got \[0, 1,"
                r" 1180591620717411303424\]"
            ),
        ),
        (
            (T, [[0, 1, -1]]),
            "the mesh, face 0 names point -1, but there are 3 points, numbered from 0",
        ),
        (
            (T, [[0, 1, 2], [1, 2, 0]]),
            r"the mesh, face 1 is \[1, 2, 0\]: number 0 has the same points already",
        ),
        (([*T, [0.0, float("nan")]], [[0, 1, 2]]), r"the mesh, point 3 is \(0\.0, nan\)"),
    ],
)
def test_arrays_that_are_no_mesh_are_refused(source, sentence):
    with pytest.raises(IncidenceError, match=sentence):
        geometry.mesh(source)


def test_a_scene_is_not_one_mesh():
    trimesh = pytest.importorskip("trimesh")
    with pytest.raises(
        IncidenceError, match=r"a mesh is one trimesh\.Trimesh; got Scene\. Join its parts first"
    ):
        geometry.mesh(trimesh.Scene())


def test_repair_mends_faces_but_not_files():
    with pytest.raises(IncidenceError, match="names point 9"):
        geometry.mesh((T, [[0, 1, 9]]), repair=True)


def test_what_a_library_logs_of_a_damaged_file_is_not_shown_beside_the_sentence(tmp_path, caplog):
    path = tmp_path / "a.stl"
    path.write_bytes(FACET.replace(b"normal 0 0 1", b"normal 0 x 1") + b"endsolid\n")
    caplog.set_level("DEBUG", logger="trimesh")
    assert geometry.mesh(path).num_nodes == 3  # normals are of no interest
    assert not caplog.records
    assert not logging.getLogger("trimesh.util").disabled
