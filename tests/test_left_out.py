"""Without the benchmark data the tests that need it are left out, and one line says so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEEDS_DATA = """
from tests.data_folder import data_folder

def test_one(): assert data_folder("csl")
def test_two(): assert data_folder("csl")
def test_three(): assert True
"""


@pytest.mark.parametrize("processes", ["0", "1"])
def test_tests_that_lack_their_data_are_counted_in_one_line(tmp_path, processes):
    path = tmp_path / "test_data.py"
    path.write_text(NEEDS_DATA)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        str(ROOT / "pyproject.toml"),
        "--rootdir",
        str(ROOT),
        "-p",
        "tests.conftest",
    ]
    done = subprocess.run(
        [*command, "-n", processes, str(path)],
        cwd=ROOT,
        env={**os.environ, "INCIDENCE_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if "data" in line]
    assert lines == [
        "left out for lack of data: 2 tests (set INCIDENCE_DATA to the folder with the benchmark"
        " data)"
    ]
