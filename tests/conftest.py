"""What is said of tests that were left out; what tests register is forgotten after each."""

import sys

import pytest

from tests.data_folder import ABSENT

REGISTRIES = (
    ("incidence.models.presets", "PRESETS"),
    ("incidence.data.lifts", "LIFTS"),
    ("incidence.data.lifts", "LIFT_OPTIONS"),
    ("incidence.data.files", "READERS"),
    ("incidence.data.loading", "DATA_SETS"),
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    """Names that a page, a test or its fixtures register are not there for the next.

    Fixtures of a module or of a session begin after this, and before those of a test.
    """
    tables = [
        getattr(sys.modules[name], table) for name, table in REGISTRIES if name in sys.modules
    ]
    before = [table.copy() for table in tables]
    result = yield
    for table, content in zip(tables, before, strict=True):
        if table != content:
            table.clear()
            table.update(content)
    return result


def pytest_terminal_summary(terminalreporter):
    """One line for all tests that need data which is not here."""
    count = sum(
        ABSENT in str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())
    )
    if count:
        terminalreporter.write_line(
            f"left out for lack of data: {count} tests (set INCIDENCE_DATA to the folder with the"
            " benchmark data)"
        )
