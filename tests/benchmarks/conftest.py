"""What a test of benchmarks registers, or tells the commands of training, is forgotten after it:
other tests see the library alone.
"""

import pytest

from incidence.data import DATA_SETS


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    monkeypatch.setenv("INCIDENCE_COMMAND", "incidence")  # which the door to the commands changes
    before = dict(DATA_SETS)
    yield
    DATA_SETS.clear()
    DATA_SETS.update(before)
