"""Which path layers take in the tests."""

import pytest


@pytest.fixture(autouse=True)
def engine_only(monkeypatch):
    """Turns the path for small structures off: tests are small, and about the engine. `test_small.py` compares the two."""
    monkeypatch.setattr("incidence.kernels.small.MAX_SIZE", 0)
