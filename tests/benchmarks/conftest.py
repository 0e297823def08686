"""What is registered by a test of the data sets of the literature is forgotten after it: other tests see the library alone."""

import pytest
from benchmarks.sets import SETS

from incidence.data import DATA_SETS


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    for name in SETS:
        monkeypatch.delitem(DATA_SETS, name, raising=False)
