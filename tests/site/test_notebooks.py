"""The notebooks are their guides: the same text, the same code, and what the code gives."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKE = runpy.run_path(str(ROOT / "scripts" / "make_notebooks.py"))
GUIDES = MAKE["guides"]()


def kept(guide: str) -> list[dict]:
    return json.loads((ROOT / "examples" / f"{guide}.ipynb").read_text(encoding="utf-8"))["cells"]


def made(guide: str) -> list[dict]:
    return MAKE["cells_of"]((ROOT / "docs" / f"{guide}.md").read_text(encoding="utf-8"))


def test_the_guides_are_those_of_the_first_page():
    assert {"pyg", "csv", "segmentation", "nodes", "hypergraphs", "published"} <= set(GUIDES)


@pytest.mark.parametrize("guide", GUIDES)
def test_a_notebook_has_the_text_and_the_code_of_its_guide(guide):
    """If it does not: `./run python scripts/make_notebooks.py`."""
    assert [(c["cell_type"], c["source"]) for c in kept(guide)] == [
        (c["cell_type"], c["source"]) for c in made(guide)
    ]


@pytest.mark.parametrize("guide", GUIDES)
def test_a_notebook_is_small_and_every_cell_was_run(guide):
    assert (ROOT / "examples" / f"{guide}.ipynb").stat().st_size < 200_000
    counts = [cell["execution_count"] for cell in kept(guide) if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1))


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES)
def test_a_notebook_gives_what_it_shows(guide):
    cells = made(guide)
    MAKE["run"](cells)
    shown, given = (
        [[o["data"]["text/plain"] for o in c.get("outputs", [])] for c in found]
        for found in (kept(guide), cells)
    )
    assert shown == given


@pytest.mark.parametrize(
    ("block", "cells"),
    [
        ("x = 1\nx + 1  # 2\ny = 3\n", ["x = 1\nx + 1", "y = 3"]),
        ("f(x)  # (1, [2]): a pair, in brackets\n", ["f(x)  # a pair, in brackets", ""]),
        ("x = 1\nx + 1\n# 2\ny = 3\n", ["x = 1\nx + 1", "y = 3"]),
        ("m = f(2)  # 4\n", ["m = f(2)\nm", ""]),
        ("picture = draw()\nx = 1\n", ["picture = draw()\npicture", "x = 1"]),
        ("x = 1  # one, and no value\n", ["x = 1  # one, and no value"]),
    ],
)
def test_a_block_is_cut_where_a_value_is_stated_or_a_picture_made(block, cells):
    assert list(MAKE["code_cells"](block)) == cells


def test_links_of_a_page_lead_to_the_pages_from_the_folder_of_the_notebooks():
    text = "[a](models.md#presets), ![b](guides/b.svg), [c](https://example.org), [d](#here)"
    assert (
        MAKE["prose"](text)
        == "[a](../docs/models.md#presets), ![b](../docs/guides/b.svg), [c](https://example.org),"
        " [d](#here)"
    )


def test_what_a_cell_gives_is_kept_as_its_text_and_its_picture():
    cells = MAKE["cells_of"](
        "```python\nimport incidence as inc\npicture = inc.plot.orbits('i j')\n1 + 1  # 2\n```\n"
    )
    MAKE["run"](cells)
    drawn, two = (cell["outputs"][0]["data"] for cell in cells)
    assert drawn["image/svg+xml"].startswith("<svg")
    assert two == {"text/plain": "2"}
