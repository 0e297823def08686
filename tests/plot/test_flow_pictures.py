"""The pictures of flows in the docs are what their script draws."""

import re
import runpy

import pytest

from tests.exact_numbers import VECTORS

ROOT = VECTORS.parent.parent


PICTURES = {name: ("flow_picture", [name]) for name in ("flow", "divergence", "curl", "harmonic")}
PICTURES["holes"] = ("holes_picture", [])


@pytest.mark.parametrize("picture", PICTURES)
def test_a_picture_of_a_flow_is_what_its_script_draws(picture):
    """Up to the last digits, which differ between machines."""
    script, arguments = PICTURES[picture]
    drawn = runpy.run_path(str(ROOT / "examples" / f"{script}.py"))["draw"](*arguments)
    kept = (ROOT / "docs" / "flows" / f"{picture}.svg").read_text(encoding="utf-8")
    number = re.compile(r"#[0-9a-f]{6}|-?\d+(?:\.\d+)?")
    assert number.sub("", drawn) == number.sub("", kept)
    places = [[float(n) for n in number.findall(text) if n[0] != "#"] for text in (drawn, kept)]
    assert max(abs(a - b) for a, b in zip(*places, strict=True)) < 1
