"""Limits: they are stated, can be raised, and are asked before there is memory for anything."""

import gzip
import os
import zipfile

import pytest

import incidence as inc
from incidence.errors import IncidenceError, TooLargeError, shown
from incidence.limits import assert_size, assert_unpacked, max_bytes, parse_json, read_text
from tests.little_memory import little_memory, packed


@pytest.mark.parametrize(
    ("text", "expected"), [("8", 8 << 30), ("0.5", 1 << 29), ("inf", 10**9 << 30)]
)
def test_the_limit_is_what_the_environment_says(text, expected, monkeypatch):
    monkeypatch.setenv("INCIDENCE_MAX_GB", text)
    assert max_bytes() == expected


@pytest.mark.parametrize("text", ["", "much", "-1", "0", "nan"])
def test_a_limit_that_is_no_number_of_gigabytes_is_refused(text, monkeypatch):
    monkeypatch.setenv("INCIDENCE_MAX_GB", text)
    with pytest.raises(
        IncidenceError, match=r"INCIDENCE_MAX_GB is a number of gigabytes, such as 8; got"
    ):
        max_bytes()


def test_what_is_just_as_large_as_is_allowed_passes_and_a_byte_more_does_not(monkeypatch):
    monkeypatch.delenv("INCIDENCE_MAX_GB", raising=False)
    assert_size(2 << 30, "it")
    with pytest.raises(
        TooLargeError,
        match=(
            r"it would take at least 2 GB, and 2 GB are allowed\. If that is meant, set"
            r" INCIDENCE_MAX_GB to more"
        ),
    ):
        assert_size((2 << 30) + 1, "it")
    with pytest.raises(TooLargeError, match=r"it would take at least 1e\+21 GB"):
        assert_size(10**400, "it")


def test_bytes_are_counted_as_they_unpack_and_none_is_kept(tmp_path, monkeypatch):
    path = tmp_path / "file.gz"
    # the size at its end is that of the second part
    path.write_bytes(gzip.compress(bytes(1 << 23)) + gzip.compress(bytes(1 << 23)))
    assert_unpacked(path)
    monkeypatch.setenv("INCIDENCE_MAX_GB", str(((1 << 24) - 1) / (1 << 30)))
    with (
        little_memory(),
        pytest.raises(TooLargeError, match=r"file\.gz, unpacked, would take at least 0\.0156 GB"),
    ):
        assert_unpacked(path)


def test_a_packed_text_of_nothing_but_repetition_is_refused_beyond_16_mb(tmp_path, monkeypatch):
    monkeypatch.delenv("INCIDENCE_MAX_GB", raising=False)
    assert_unpacked(packed(tmp_path / "small.gz", b"[],", 15 << 20))
    assert_unpacked(packed(tmp_path / "dense.gz", b"[],", 17 << 20, others=1 << 18))
    bomb = packed(tmp_path / "bomb.gz", b"[],", 17 << 20)
    said = (
        r"bomb\.gz is text that unpacks to more than 100 times its size, and to more than 16 MB\."
        r" If that is meant, unpack it first"
    )
    with little_memory(), pytest.raises(TooLargeError, match=said):
        assert_unpacked(bomb)
    monkeypatch.setenv("INCIDENCE_MAX_GB", "2.5")
    assert_unpacked(bomb)


@pytest.mark.parametrize(
    ("name", "repeated", "read"),
    [
        ("a.hif.json.gz", b"[],", inc.geometry.convert.read_hif),
        ("a.obj.gz", b"v 1 1 1\n", inc.geometry.read_mesh),
        ("a.sdf.gz", b"$$$$\n", lambda path: list(inc.geometry.convert.read_sdf(path))),
    ],
    ids=["HIF", "mesh", "molecules"],
)
def test_every_reader_of_packed_texts_refuses_repetition_before_it_makes_objects(
    name, repeated, read, tmp_path
):
    path = packed(tmp_path / name, repeated, 20 << 20)
    with (
        little_memory(1 << 22),
        pytest.raises(TooLargeError, match="is text that unpacks to more than 100 times its size"),
    ):
        read(path)


def test_a_text_in_an_archive_is_bounded_as_one_by_itself(tmp_path, monkeypatch):
    monkeypatch.delenv("INCIDENCE_MAX_GB", raising=False)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("small.json", b"[]")
        archive.writestr("bomb.json", bytes(17 << 20))
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert read_text(archive, "small.json", tmp_path / "a.zip") == b"[]"
        with (
            little_memory(),
            pytest.raises(
                TooLargeError,
                match=r"bomb\.json in .*a\.zip is text that unpacks to more than 100 times",
            ),
        ):
            read_text(archive, "bomb.json", tmp_path / "a.zip")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 200_000, "is no JSON: its lists or objects lie too deep in each other"),
        ("9" * 5000, "is no JSON"),
        ("{", "is no JSON"),
        (b"\xff\xfe\xfd", "is no JSON"),
    ],
    ids=["200,000 brackets", "5,000 digits", "half an object", "no text"],
)
def test_json_that_cannot_be_read_is_refused_in_a_sentence(text, said):
    with pytest.raises(IncidenceError, match=f"the file {said}"):
        parse_json(text, "the file")


def nested(depth: int) -> list[object]:
    found: list[object] = ["x" * 1000] * 10
    for _ in range(depth):
        found = [found] * 10
    return found


@pytest.mark.parametrize(
    "value",
    [nested(30), 10**5000, -(10**5000), "a" * 10**6, dict.fromkeys(range(10**4), "b" * 500)],
    ids=["nested", "long", "negative", "text", "dict"],
)
def test_any_value_is_shown_in_a_line(value):
    assert len(shown(value)) < 2_000
    assert "\n" not in shown(value)


READERS = {
    "Structure.load": inc.Structure.load,
    "Example.load": inc.Example.load,
    "read_hif": inc.geometry.convert.read_hif,
    "read_sdf": inc.geometry.convert.read_sdf,
    "read_mesh": inc.geometry.read_mesh,
}


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"], ids=["300 characters", "a NUL"])
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_file_whose_name_no_disk_can_have_is_not_there(read, name):
    with pytest.raises(IncidenceError, match=r"there is no file|does not exist"):
        read(name)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_pipe_is_refused_as_it_may_never_end(read, tmp_path):
    os.mkfifo(tmp_path / "a")
    with pytest.raises(
        IncidenceError, match="is not a regular file, and may never end: give the path of"
    ):
        read(tmp_path / "a")


@pytest.mark.parametrize(
    "read", [inc.Structure.load, inc.Example.load, inc.geometry.convert.read_hif], ids=range(3)
)
def test_a_path_is_a_text(read):
    with pytest.raises(IncidenceError, match="a file is given by its path, as a text; got 5"):
        read(5)


SMALL = inc.Structure(2, {"{i j}": [[0], [1]]})


def test_a_name_may_be_as_long_as_the_disk_takes(tmp_path):
    SMALL.save(tmp_path / ("x" * 251 + ".npz"))
    assert inc.Structure.load(tmp_path / ("x" * 251 + ".npz")) == SMALL
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x" * 300 + ".npz", "cannot be written: File name too long"),
        ("a\0b.npz", "cannot be written: no name of a file has a NUL"),
        ("folder", "folder cannot be written: Is a directory"),
        ("x" * 300 + "/a.npz", "there is no folder x* to save to"),
        (5, "a file is given by its path, as a text; got 5"),
        ("/proc/x.npz", r"/proc/x\.npz cannot be written"),
    ],
)
def test_a_place_that_cannot_be_written_to_is_told_in_a_sentence(name, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(IncidenceError, match=said):
        SMALL.save(name)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_message_that_quotes_something_long_is_cut_in_its_middle():
    found = str(IncidenceError("a" * 10**6 + "the end"))
    assert len(found) < 2100
    assert (found[:3], found[-7:]) == ("aaa", "the end")
    assert str(IncidenceError("b" * 2000)) == "b" * 2000
