"""The map of the code in CONTRIBUTING names files that are there."""

import re

from tests.exact_numbers import VECTORS

ROOT = VECTORS.parent.parent
PLACES = ("", "src/incidence", "src/incidence/engine/products", "src/incidence/engine/compiled")


def missing_files(page: str) -> list[str]:
    """Return the files and folders in code marks of a page that are not in the project."""
    named = re.findall(r"`([\w./*-]+(?:\.(?:py|md|c|txt|toml|html|ipynb)|/))`", page)
    linked = re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", page)
    return [
        name
        for name in (*named, *linked)
        if not any(list((ROOT / place).glob(name)) for place in PLACES)
    ]


def test_every_file_that_the_map_of_the_code_names_is_there():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert page.count(".py`") > 90
    assert missing_files(page) == []


def test_a_file_that_is_gone_is_noticed():
    page = "`engine/plan.py` and `engine/batches.py`, `docs/nowhere/`, [a page](docs/absent.md)"
    assert missing_files(page) == ["engine/batches.py", "docs/nowhere/", "docs/absent.md"]
