"""The pictures of the docs are what their scripts draw."""

import runpy

import pytest

from tests.exact_numbers import VECTORS

ROOT = VECTORS.parent.parent


@pytest.mark.parametrize(
    ("script", "picture"),
    [
        ("examples/fifteen_operations", "fifteen"),
        ("examples/engine_picture", "engine"),
    ],
)
def test_a_picture_is_what_its_script_draws(script, picture):
    drawn = runpy.run_path(str(ROOT / f"{script}.py"))["draw"]()
    assert drawn == (ROOT / "docs" / f"{picture}.svg").read_text(encoding="utf-8")
