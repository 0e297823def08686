"""Structures in files: what is written is read back; what is damaged is refused; nothing is
executed.
"""

import errno
import pickle
import zipfile
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from incidence.algebra import EquivariantMap
from incidence.errors import IncidenceError, TooLargeError
from incidence.structure import Example, Structure, collate
from tests.cases import some
from tests.little_memory import little_memory
from tests.nn.sparse_maps import ALL, IDS, structure_for

T = torch.tensor


def batch() -> Structure:
    index = {
        "(i j)": T([[0, 1], [1, 2]]),
        "bond={i j}": T([[0], [4]]),
        "i {i ...}": (T([[0, 3]]), T([[0, 1, 3], [0, 0, 1]])),
        "{i ...}": T([[0, 1, 2], [0, 0, 1]]),
        "u:user i": [],
    }
    structure = Structure({"node": 5, "user": 2}, index)
    return collate([structure, structure])


@pytest.mark.parametrize("sizes", [(4,), (4, 0, 3)], ids=["one", "batch"])
@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_what_is_saved_is_loaded(text, max_overlap, sizes, tmp_path):
    m = EquivariantMap(text, max_overlap)
    structure = collate([structure_for(m, n, seed=n) for n in sizes])
    structure.save(tmp_path / "structure")
    loaded = Structure.load(tmp_path / "structure")
    assert loaded == structure
    assert loaded.patterns == structure.patterns
    assert loaded.num_structures == len(sizes)


@pytest.mark.parametrize(
    "structure",
    [Structure(0), Structure(3), Structure({"a": 1, "b": 0}), batch()],
    ids=["none", "nodes", "sorts", "all"],
)
def test_structures_with_little_or_much_in_them_are_loaded(structure, tmp_path):
    structure.save(tmp_path / "structure.npz")
    assert Structure.load(tmp_path / "structure.npz") == structure


def test_a_path_may_be_text_and_keeps_its_name(tmp_path):
    Structure(3).save(str(tmp_path / "plain"))
    assert [p.name for p in tmp_path.iterdir()] == ["plain"]
    assert Structure.load(str(tmp_path / "plain")) == Structure(3)


def test_the_file_is_a_zip_of_plain_arrays(tmp_path):
    batch().save(tmp_path / "file")
    assert zipfile.is_zipfile(tmp_path / "file")
    with np.load(tmp_path / "file", allow_pickle=False) as file:
        assert int(file["format"]) == 1
        assert {file[key].dtype.kind for key in file.files} <= {"i", "U"}


def test_a_file_that_is_there_is_replaced(tmp_path):
    Structure(3).save(tmp_path / "file")
    Structure(4).save(tmp_path / "file")
    assert Structure.load(tmp_path / "file").num_nodes == 4
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "no space left"), KeyboardInterrupt()],
    ids=["full disk", "interrupt"],
)
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(error, tmp_path, monkeypatch):
    Structure(3).save(tmp_path / "file")

    def half(file: Any, **arrays: Any) -> None:
        file.write(b"PK")
        raise error

    monkeypatch.setattr(np, "savez", half)
    with pytest.raises(
        IncidenceError if isinstance(error, OSError) else type(error),
        match=r"the disk is full: .*was not written|^$",
    ):
        Structure(4).save(tmp_path / "file")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert Structure.load(tmp_path / "file").num_nodes == 3


# ---- damage


def test_a_file_cut_short_is_refused(tmp_path):
    path = tmp_path / "file"
    batch().save(path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(
            IncidenceError, match=r"not a structure written by `Structure\.save`, or it is damaged"
        ):
            Structure.load(path)


def test_a_file_with_a_flipped_bit_is_refused_or_unharmed(tmp_path):
    path = tmp_path / "file"
    structure = batch()
    structure.save(path)
    whole, random = path.read_bytes(), Random(0)
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[random.randrange(len(whole))] ^= 1 << random.randrange(8)
        path.write_bytes(damaged)
        with suppress(IncidenceError):
            assert Structure.load(path) == structure


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("exploded"),)


def write_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps(Bomb()))


def write_objects(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, format=np.array([Bomb()], dtype=object))


@pytest.mark.parametrize("write", [write_pickle, write_objects], ids=["pickle", "object array"])
def test_a_pickle_is_refused_and_not_executed(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "file")
    with pytest.raises(IncidenceError, match=r"not a structure written by `Structure\.save`"):
        Structure.load(tmp_path / "file")
    assert not (tmp_path / "exploded").exists()


NODES = {"nodes/node": np.array([0, 3])}
EDGE = {
    "tensor/0/pattern": np.array("(i j)"),
    "tensor/0/0": np.array([[0], [1]]),
    "tensor/0/ptr": np.array([0, 1]),
}
DAMAGED = {
    "no format": {},
    "format as text": {"format": np.array("x")},
    "several formats": {"format": np.array([1, 1])},
    "no nodes": {"format": np.array(1)},
    "nodes as text": {"format": np.array(1), "nodes/node": np.array(["a"])},
    "nodes without numbers": {"format": np.array(1), "nodes/node": np.array([], dtype=np.int64)},
    "nodes with two axes": {"format": np.array(1), "nodes/node": np.array([[0, 3]])},
    "half a node": {"format": np.array(1), "nodes/node": np.array([0, 3.5])},
    "nodes that do not start at 0": {"format": np.array(1), "nodes/node": np.array([1, 3])},
    "fewer and fewer nodes": {"format": np.array(1), "nodes/node": np.array([0, 5, 3])},
    "a tensor without number": {"format": np.array(1), **NODES, "tensor/x/0": np.array([[0]])},
    "a tensor without index": {
        "format": np.array(1),
        **NODES,
        **{k: v for k, v in EDGE.items() if not k.endswith("/0")},
    },
    "a tensor without pattern": {
        "format": np.array(1),
        **NODES,
        **{k: v for k, v in EDGE.items() if not k.endswith("pattern")},
    },
    "a tensor without pointers": {
        "format": np.array(1),
        **NODES,
        **{k: v for k, v in EDGE.items() if not k.endswith("ptr")},
    },
    "a pattern that is none": {
        "format": np.array(1),
        **NODES,
        **EDGE,
        "tensor/0/pattern": np.array("(i j"),
    },
    "an index of text": {
        "format": np.array(1),
        **NODES,
        **EDGE,
        "tensor/0/0": np.array([["a"], ["b"]]),
    },
    "a node that is not there": {
        "format": np.array(1),
        **NODES,
        **EDGE,
        "tensor/0/0": np.array([[0], [3]]),
    },
    "pointers that do not add up": {
        "format": np.array(1),
        **NODES,
        **EDGE,
        "tensor/0/ptr": np.array([0, 5]),
    },
    "pointers of another batch": {
        "format": np.array(1),
        **NODES,
        **EDGE,
        "tensor/0/ptr": np.array([0, 1, 1]),
    },
    "an entry between two structures": {
        "format": np.array(1),
        "nodes/node": np.array([0, 2, 4]),
        **EDGE,
        "tensor/0/0": np.array([[0], [3]]),
        "tensor/0/ptr": np.array([0, 1, 1]),
    },
}


@pytest.mark.parametrize("arrays", DAMAGED.values(), ids=DAMAGED)
def test_a_file_whose_arrays_make_no_structure_is_refused(arrays, tmp_path):
    with (tmp_path / "file").open("wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(
        IncidenceError, match=r"damaged|missing|closed|nodes are numbered|shape|structure"
    ):
        Structure.load(tmp_path / "file")


LARGE = np.zeros(1 << 24, dtype=np.uint8)  # packed, a thousandth of that


@pytest.mark.parametrize("name", ["nobody asked", "nodes/node"])
def test_an_archive_that_unpacks_to_more_than_is_allowed_is_refused_before_it_does(
    name, tmp_path, monkeypatch
):
    monkeypatch.setenv("INCIDENCE_MAX_GB", "0.01")
    np.savez_compressed(tmp_path / "file.npz", **{"format": np.array(1), **NODES, name: LARGE})
    said = (
        r"file\.npz, unpacked, would take at least 0\.0156 GB, and 0\.01 GB are allowed\. If that"
        r" is meant, set INCIDENCE_MAX_GB to more"
    )
    with little_memory(), pytest.raises(TooLargeError, match=said):
        Structure.load(tmp_path / "file.npz")


def test_a_file_that_is_itself_as_large_as_its_arrays_needs_no_leave(tmp_path, monkeypatch):
    structure = Structure(2, {"i j": [[0, 1], [1, 0]]})
    structure.save(tmp_path / "file")
    monkeypatch.setenv("INCIDENCE_MAX_GB", "1e-7")
    assert Structure.load(tmp_path / "file") == structure


def test_arrays_that_nobody_asks_for_are_not_read(tmp_path):
    np.savez_compressed(
        tmp_path / "file.npz", **{"format": np.array(1), **NODES, "nobody asked": LARGE}
    )
    with little_memory():
        assert Structure.load(tmp_path / "file.npz") == Structure(3)


def write_declaring(path: Path, name: str, shape: str, data: bytes = b"") -> None:
    """An archive of a structure, one of whose arrays has a header that declares a shape."""
    with path.open("wb") as file:
        np.savez(
            file,
            format=np.array(1),
            **NODES,
            **{key: value for key, value in EDGE.items() if key != name},
        )
    text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(
            f"{name}.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data
        )


SHAPES = {
    "10^15": f"(2, {10**15})",
    "10^8": f"(2, {10**8})",
    "negative": "(-2, -1)",
    "no number": "(2, 10**9)",
    "brackets": "(" * 9000,
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_an_array_that_declares_other_numbers_than_it_has_is_refused_without_memory_for_them(
    shape, tmp_path
):
    write_declaring(tmp_path / "file", "tensor/0/0", shape, bytes(24))
    with (
        little_memory(1 << 25),
        pytest.raises(
            IncidenceError, match=r"file is damaged: (tensor/0/0 declares|tensor/0/0 has no header)"
        ),
    ):
        Structure.load(tmp_path / "file")


def test_nodes_of_which_a_file_has_only_the_number_are_limited(tmp_path):
    with (tmp_path / "file").open("wb") as file:
        np.savez(file, format=np.array(1), **{"nodes/node": np.array([0, 10**15])})
    with pytest.raises(
        IncidenceError,
        match=(
            r"1,000,000,000,000,000 nodes, .* would take at least 7\.45e\+06 GB, and 2 GB are"
            r" allowed"
        ),
    ):
        Structure.load(tmp_path / "file")


def test_an_empty_tensor_that_declares_numbers_is_refused(tmp_path):
    arrays = {
        "feature/0/key": "i",
        "feature/0/type": "float32",
        "target": "none",
        "is_batch": False,
    }
    with (tmp_path / "file").open("wb") as file:
        np.savez(
            file,
            format=1,
            **NODES,
            **arrays,
            **{"feature/0/shape": [10**15], "feature/0/bytes": np.zeros(0, dtype=np.uint8)},
        )
    with pytest.raises(IncidenceError, match=r"feature/0 is no tensor"):
        Example.load(tmp_path / "file")


def test_a_file_of_a_later_format_asks_for_an_update(tmp_path):
    with (tmp_path / "file").open("wb") as file:
        np.savez(file, format=np.array(2), **NODES)
    with pytest.raises(
        IncidenceError, match=r"has format 2; this version reads format 1. Update the library"
    ):
        Structure.load(tmp_path / "file")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(IncidenceError, match=r"there is no file .*nowhere"):
        Structure.load(tmp_path / "nowhere")


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(
        IncidenceError, match="is a folder, not a file: give the path of a structure written by"
    ):
        Structure.load(tmp_path)


def test_a_single_array_is_refused(tmp_path):
    np.save(tmp_path / "array.npy", np.zeros(3))
    with pytest.raises(IncidenceError, match="not a structure written by"):
        Structure.load(tmp_path / "array.npy")


@pytest.mark.parametrize("kind", ["bits8", "uint1", "int4", "qint8", "quint8", "float4_e2m1fn_x2"])
def test_types_that_torch_cannot_compute_with_are_none_of_tensors(kind, tmp_path):
    if not hasattr(torch, kind):
        kind = "bits8"
    Example(Structure(4), {"i": torch.ones(4, 1, dtype=torch.uint8)}).save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as file:
        arrays = {**file, "feature/0/type": np.array(kind)}
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(IncidenceError, match=r"a\.npz is damaged: feature/0 is no tensor"):
        Example.load(tmp_path / "a.npz")
