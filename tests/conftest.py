"""Which path layers take in the tests, and what is said of those that were left out."""

import pytest

from tests.data_folder import ABSENT


@pytest.fixture(autouse=True)
def engine_only(monkeypatch):
    """Turns the path for small structures off: tests are small, and about the engine. `test_small.py` compares the two."""
    monkeypatch.setattr("incidence.kernels.small.MAX_SIZE", 0)


def pytest_terminal_summary(terminalreporter):
    """One line for all tests that need data which is not here."""
    count = sum(ABSENT in str(report.longrepr) for report in terminalreporter.stats.get("skipped", ()))
    if count:
        terminalreporter.write_line(f"left out for lack of data: {count} tests (set INCIDENCE_DATA to the folder with the benchmark data)")
