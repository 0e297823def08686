"""The pictures of the gallery and of the page of the paper are what their scripts draw, and the
commands below them say how.
"""

import re
import runpy
from functools import lru_cache

import pytest

import incidence as inc
from tests.exact_numbers import VECTORS

ROOT = VECTORS.parent.parent
COLOUR, NUMBER = (
    re.compile(r"#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})"),
    re.compile(r"-?\d+(?:\.\d+)?"),
)


@lru_cache
def script(name: str) -> dict[str, object]:
    return runpy.run_path(str(ROOT / "examples" / f"{name}.py"))


GALLERY, FIGURES = sorted(script("gallery")["PICTURES"]), sorted(script("paper_figures")["FIGURES"])
# the others are drawn by running the guides, which the tests of pages do
GUIDES = ["allset", "cin", "deepsets", "gin", "scn"]


@pytest.mark.parametrize(
    ("name", "folder", "picture"),
    [
        *(("gallery", "gallery", p) for p in GALLERY),
        *(("paper_figures", "figures", p) for p in FIGURES),
        *(("guide_pictures", "guides", p) for p in GUIDES),
    ],
)
def test_a_picture_of_the_pages_is_what_its_script_draws(name, folder, picture):
    """Up to a point of paper and a shade: places are found by iterations, which differ between
    machines in their last digits.
    """
    texts = (
        script(name)["draw"](picture),
        (ROOT / "docs" / folder / f"{picture}.svg").read_text(encoding="utf-8"),
    )
    one, other = (
        [int(part, 16) for colour in COLOUR.findall(text) for part in colour] for text in texts
    )
    assert max(abs(a - b) for a, b in zip(one, other, strict=True)) <= 2
    drawn, kept = (COLOUR.sub("", text) for text in texts)
    assert NUMBER.sub("", drawn) == NUMBER.sub("", kept)
    ours, theirs = ([float(n) for n in NUMBER.findall(text)] for text in (drawn, kept))
    assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) < 1


def test_the_flow_chart_is_what_its_script_draws():
    kept = (ROOT / "docs" / "choosing.svg").read_text(encoding="utf-8")
    assert script("choosing_picture")["draw"]() == kept


def test_the_moving_picture_of_the_readme_is_what_its_script_draws():
    drawn = runpy.run_path(str(ROOT / "scripts" / "moving_picture.py"))["draw"]()
    assert drawn == (ROOT / "docs" / "moving.svg").read_text(encoding="utf-8")


def test_the_flow_chart_ends_at_networks_that_there_are():
    named = {name for _, answers in script("choosing_picture")["LADDER"] for _, name in answers}
    assert named <= set(inc.models.PRESETS)


def test_every_picture_of_the_guides_has_a_place_in_one():
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    placed = set(re.findall(r"\(guides/([\w-]+)\.svg\)", pages))
    assert placed == {*script("guide_pictures")["PICTURES"], "colours"}  # of its own script


def test_a_page_has_the_command_below_every_picture():
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    found = dict(re.findall(r"\(gallery/([\w-]+)\.svg\)\n\n`(.*)`\n", page))
    assert found == {name: script("gallery")["command"](name) for name in GALLERY}


def test_the_page_of_the_paper_shows_every_figure():
    page = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\(figures/([\w-]+)\.svg\)", page)) == FIGURES


def test_the_pictures_of_the_docs_are_small():
    sizes = [
        path.stat().st_size
        for folder in ("gallery", "figures", "guides")
        for path in (ROOT / "docs" / folder).iterdir()
    ]
    assert sum(sizes) < 1_000_000
