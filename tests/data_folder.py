"""Where the benchmark data is, for the tests that read it; a test that asks for what is not there
is left out, and counted at the end.
"""

import os
from pathlib import Path

import pytest

__all__ = ["ABSENT", "data_folder"]

ABSENT = "no benchmark data"
_DEFAULT = Path(__file__).parents[2] / "shared" / "data"


def data_folder(name: str) -> Path:
    """The folder of one data set; leaves the test out where there is none."""
    folder = Path(os.environ.get("INCIDENCE_DATA", _DEFAULT)) / name
    if not folder.is_dir():
        pytest.skip(f"{ABSENT} at {folder}: set INCIDENCE_DATA to the folder that holds `{name}`")
    return folder
