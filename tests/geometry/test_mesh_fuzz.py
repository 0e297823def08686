"""Files cut off and corrupted at random are refused with a sentence, or are meshes; nothing else
happens.
"""

import io
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence import Structure, geometry
from incidence.errors import IncidenceError
from tests.geometry import mesh_writers as w


def read(data: bytes, file_format: str) -> Structure | None:
    """The mesh, or None where it is refused; whatever else is raised is a failure."""
    try:
        return geometry.mesh(io.BytesIO(data), format=file_format)
    except IncidenceError as error:
        assert "\n" not in str(error)
        return None


def sample(name: str) -> tuple[str, bytes]:
    file_format, write = w.WRITERS[name]
    if name in w.POLYGON_WRITERS:
        return file_format, write(w.PYRAMID_POINTS, w.PYRAMID_FACES)
    return file_format, write(w.TETRA_POINTS, w.TETRA_FACES)


@pytest.mark.parametrize("name", w.WRITERS)
def test_every_truncation_is_refused_unless_only_the_end_is_lost(name):
    file_format, data = sample(name)
    whole = read(data, file_format)
    assert whole is not None
    for stop in range(len(data) - 1):
        found = read(data[:stop], file_format)
        # an OBJ file does not say how many lines it has
        if file_format != "obj" and found is not None:
            assert stop > len(data) - 12
            assert found.num_nodes >= whole.num_nodes - 1


@pytest.mark.parametrize("name", w.WRITERS)
@settings(max_examples=150, deadline=None)
@given(
    edits=st.lists(
        st.tuples(st.integers(0, 10**4), st.binary(max_size=6), st.integers(0, 3)),
        min_size=1,
        max_size=4,
    )
)
def test_any_corruption_gives_a_sentence_or_a_sound_mesh(name, edits):
    file_format, data = sample(name)
    for place, piece, dropped in edits:
        start = place % len(data) if data else 0
        data = data[:start] + piece + data[start + dropped :]
    found = read(data, file_format)
    if found is not None:
        assert found.canonical()[0] == found


@pytest.mark.parametrize("file_format", ["obj", "off", "ply", "stl"])
@settings(max_examples=100, deadline=None)
@given(junk=st.binary(max_size=300))
def test_junk_gives_a_sentence(file_format, junk):
    assert read(junk, file_format) is None or file_format == "obj"


@pytest.mark.parametrize("count", [10**12, 2**31 - 1, 2**63, 10**4000])
@pytest.mark.parametrize("name", ["off", "ply", "ply little endian", "stl binary"])
def test_a_promise_of_any_size_takes_no_memory(name, count):
    file_format, data = sample(name)
    if name == "stl binary":
        data = data[:80] + b"\xff\xff\xff\xff" + data[84:]
    else:
        key = {"off": b"\n%d " % len(w.PYRAMID_POINTS)}.get(name, b"vertex 5")
        assert key in data
        data = data.replace(
            key, key[:-2] + b" %d " % count if name == "off" else key[:-1] + b"%d" % count, 1
        )
    tracemalloc.start()
    try:
        assert read(data, file_format) is None
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()
