"""What is registered by a test of the data sets of the literature is forgotten after it: other tests see the library alone."""

import pytest

from incidence.data import DATA_SETS


@pytest.fixture(autouse=True)
def forgotten():
    before = dict(DATA_SETS)
    yield
    DATA_SETS.clear()
    DATA_SETS.update(before)
