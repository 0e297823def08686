"""Where the benchmark data is, for the tests that read it; they say so clearly where it is absent."""

import os
from pathlib import Path

import pytest

DEFAULT = Path(__file__).parents[2] / "shared" / "data"


def data_folder(name: str) -> Path:
    """The folder of one data set; skips the test where there is none."""
    folder = Path(os.environ.get("INCIDENCE_DATA", DEFAULT)) / name
    if not folder.is_dir():
        pytest.skip(f"no benchmark data at {folder}: set INCIDENCE_DATA to the folder that holds `{name}`")
    return folder
