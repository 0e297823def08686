"""Where the tests find their numbers, and which path layers take in them."""

import json
from pathlib import Path
from typing import Any

import pytest

VECTORS = Path(__file__).parent / "vectors"


def load_cases(name: str) -> list[dict[str, Any]]:
    """The cases of one file of exact numbers."""
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))["cases"]


@pytest.fixture(autouse=True)
def engine_only(monkeypatch):
    """Turns the path for small structures off: tests are small, and about the engine. `test_small.py` compares the two."""
    monkeypatch.setattr("incidence.kernels.small.MAX_SIZE", 0)
