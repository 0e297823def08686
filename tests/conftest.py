"""What is said of tests that were left out."""

from tests.data_folder import ABSENT


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
