"""The picture of the page on what networks tell apart is what its script draws."""

import runpy

from tests.exact_numbers import VECTORS

ROOT = VECTORS.parent.parent


def test_the_picture_of_colours_is_what_its_script_draws():
    drawn = runpy.run_path(str(ROOT / "examples" / "colours_picture.py"))["draw"]()
    assert drawn == (ROOT / "docs" / "guides" / "colours.svg").read_text(encoding="utf-8")
