"""The script `run`: the library works where the user stands, the tools in the project."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the script beside programs that say where they run, with what words."""
    folder = tmp_path / "the project"
    (folder / ".venv" / "bin").mkdir(parents=True)
    for name in ("run", "pyproject.toml", "constraints.txt"):
        shutil.copy(PROJECT / name, folder)
    for name in ("incidence", "python", "mypy"):
        program = folder / ".venv" / "bin" / name
        program.write_text('#!/bin/sh\necho "$(pwd): $*"\n')
        program.chmod(0o755)
    stamp = subprocess.check_output(["bash", "-c", "cat pyproject.toml constraints.txt run | cksum"], cwd=folder, text=True)
    (folder / ".venv" / "stamp").write_text(f"{folder} {stamp}")
    return folder


@pytest.mark.parametrize(
    ("words", "place", "said"),
    [
        ([], "", "train"),
        (["incidence", "predict", "runs/a b", "x.sdf"], "", "predict runs/a b x.sdf"),
        (["python", "x.py"], "", "x.py"),
        (["bench", "pool"], "", "bench pool"),
        (["test", "-k", "orbit"], "the project", "-m pytest -n logical --maxprocesses 8 --dist worksteal -k orbit"),
        (["type"], "the project", ""),
    ],
)
def test_jobs_run_where_their_paths_are(project, words, place, said):
    found = subprocess.check_output([project / "run", *words], cwd=project.parent, text=True)
    assert found == f"{(project.parent / place).resolve()}: {said}\n"
