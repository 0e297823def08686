"""The page of the mathematics: its tables are the library's numbers, and the code cites sections
that are there.
"""

import re
from pathlib import Path

import pytest

from incidence.algebra import EquivariantMap, Pattern, read
from incidence.algebra.counting import paper_count

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "math.md").read_text(encoding="utf-8")
SECTIONS = {
    int(number): text
    for number, text in re.findall(
        r"^## (\d+)\. (.*?)(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL
    )
}


def rows(section: int, number: int = 0, first: int = 2) -> list[list[str]]:
    """The rows of a table of a section, cell by cell; from below its head, unless that is asked
    for.
    """
    table = re.findall(r"(?:^\|.*\n)+", SECTIONS[section], flags=re.MULTILINE)[number]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[first:]
    ]


def numbers(cell: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", cell)]


COUNTS = [(row[0].strip("`"), *map(numbers, row[1:])) for row in rows(15)]
ORBITS = [(text, row[1]) for row in rows(3) for text in re.findall(r"`([^`]*)`", row[0])]
PATTERNS = [cell.strip("`") if cell != "scalar" else "" for cell in rows(16, 1, first=0)[0][1:]]
DIMENSIONS = [
    (row[0].strip("`"), other, int(n))
    for row in rows(16, 1)
    for other, n in zip(PATTERNS, row[1:], strict=True)
]
ORIENTED = [
    (text, *map(numbers, row[1:]))
    for row in rows(16, 2)
    for text in re.findall(r"`([^`]*)`", row[0])
]
OPEN = [(row[k].split("`")[1], numbers(row[k + 1])) for row in rows(11) for k in (0, 3)]


def test_the_page_has_its_twenty_sections():
    assert list(SECTIONS) == list(range(1, 21))
    assert (len(COUNTS), len(ORBITS), len(OPEN)) == (29, 10, 6)
    assert (len(DIMENSIONS), len(ORIENTED)) == (7 * 13, 19)


@pytest.mark.parametrize(
    ("text", "large", "small", "bias", "paper"), COUNTS, ids=[row[0] for row in COUNTS]
)
def test_the_known_counts_are_those_of_the_library(text, large, small, bias, paper):
    m = EquivariantMap(text)
    assert [m.dimension] == large == small[-1:]
    assert [m.num_biases] == bias
    assert [m.dimension_at(n + 1) for n in range(len(small) + 2)] == [*small, *large, *large]
    counted = paper_count(m)
    assert [n for n in (counted.tau, counted.tau_symm) if n is not None][: len(paper)] == paper


def test_the_dimensions_of_oriented_faces_are_those_of_the_library_on_either_side():
    for text, other, dimension in DIMENSIONS:
        for a, b in ((text, other), (other, text)):
            assert EquivariantMap(f"{a} -> {b}").dimension == dimension, (a, b)


@pytest.mark.parametrize(
    ("text", "large", "small", "bias"), ORIENTED, ids=[row[0] for row in ORIENTED]
)
def test_the_counts_of_oriented_faces_are_those_of_the_library(text, large, small, bias):
    m = EquivariantMap(text)
    assert [m.dimension] == large == small[-1:]
    assert [m.num_biases] == bias
    assert [m.dimension_at(n + 1) for n in range(len(small) + 2)] == [*small, *large, *large]


def test_the_familiar_operators_are_operations_of_their_maps():
    for row in rows(16, 0):
        for text in re.findall(r"`([^`]*->[^`]*)`", row[0]):
            assert any(":" in read(o).words for o in EquivariantMap(text).operations), text


@pytest.mark.parametrize(("text", "listed"), ORBITS, ids=[row[0] for row in ORBITS])
def test_the_orbits_are_those_of_the_library(text, listed):
    expected = []
    for times, size, classes in re.findall(r"(?:(\d+)x)?\((\d+)(?:;([\d,]+))?\)", listed):
        expected += [(int(size), sorted(numbers(classes or size)))] * int(times or 1)
    assert [
        (orbit.size, sorted(c.size for c in orbit.classes)) for orbit in Pattern(text).orbits
    ] == expected


@pytest.mark.parametrize(("text", "counts"), OPEN, ids=[row[0] for row in OPEN])
def test_the_counts_of_open_faces_are_those_of_the_library(text, counts):
    assert [EquivariantMap(text, max_overlap=k).dimension for k in range(4)] == counts


def test_the_code_cites_sections_that_are_there():
    cited = {}
    for path in (ROOT / "src").rglob("*.py"):
        text = " ".join(path.read_text(encoding="utf-8").split())
        mentions = re.findall(r"\S*math\.md\S*(?: \S+ \d+)?", text)
        for mention in mentions:
            found = re.fullmatch(r"\(?`?docs/math\.md`?,? sections? (\d+)", mention)
            assert found is not None, f"{path}: {mention!r} is not like `docs/math.md section 5`"
            cited.setdefault(int(found[1]), []).append(path.name)
    assert set(cited) <= set(SECTIONS)
    assert {1, 2, 3, 4, 5, 11, 13, 14, 16} <= set(cited)
