"""The script `run`: the library works where the user stands, the tools in the project."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[1]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the script beside programs that say where they run, with what words."""
    folder = tmp_path / "the project"
    (folder / ".venv" / "bin").mkdir(parents=True)
    for name in ("run", "pyproject.toml", "constraints.txt", "locked.txt"):
        shutil.copy(PROJECT / name, folder)
    for name in ("incidence", "python", "mypy"):
        program = folder / ".venv" / "bin" / name
        program.write_text('#!/bin/sh\necho "$(pwd): $*"\n')
        program.chmod(0o755)
    stamp = subprocess.check_output(
        ["bash", "-c", "cat pyproject.toml constraints.txt locked.txt run | cksum"],
        cwd=folder,
        text=True,
    )
    (folder / ".venv" / "stamp").write_text(f"{folder} {stamp}")
    return folder


@pytest.mark.parametrize(
    ("words", "place", "said"),
    [
        ([], "", "train"),
        (["incidence", "predict", "runs/a b", "x.sdf"], "", "predict runs/a b x.sdf"),
        (["python", "x.py"], "", "x.py"),
        (["bench", "pool"], "", "bench pool"),
        (
            ["test", "-k", "orbit"],
            "the project",
            "-m pytest -n logical --maxprocesses 8 --dist worksteal -k orbit",
        ),
        (
            ["test-all"],
            "the project",
            "-m pytest -n logical --maxprocesses 8 --dist worksteal -m not slow and not browser",
        ),
        (["type"], "the project", ""),
    ],
)
def test_jobs_run_where_their_paths_are(project, words, place, said):
    found = subprocess.check_output([project / "run", *words], cwd=project.parent, text=True)
    assert found == f"{(project.parent / place).resolve()}: {said}\n"


def test_yardsticks_are_those_of_the_code_and_of_its_walks(project):
    found = subprocess.check_output([project / "run", "yardsticks"], text=True).splitlines()
    assert found == [f"{project}: scripts/{name}.py" for name in ("yardsticks", "walks")]


def test_the_explorer_is_built_and_served_at_an_address_that_is_told(project):
    done = subprocess.run(
        [project / "run", "explore"],
        cwd=project.parent,
        capture_output=True,
        text=True,
        env={**os.environ, "PORT": "8123"},
    )
    assert done.stdout == f"{project}: scripts/build_explorer.py build/docs/explorer\n"
    assert "open http://localhost:8123/explorer/" in done.stderr


PIP = """#!/bin/sh
case "$*" in
  *dry-run* | *"import torch"*) exit 1 ;;  # it is neither at hand nor there
  *index-url*) exit ${NO_BUILD:-0} ;;
  *"pip install"*"-e .") ;;
  *"pip install"*"--require-hashes --no-deps -r locked.txt")
    echo "WARNING: of the machine" >&2
    [ -z "$FAIL" ] || echo "ERROR: no b" >&2
    echo 'Requirement already satisfied: a'
    echo 'Collecting b>=2 (from a)'
    echo 'Installing collected packages: b, c'
    exit ${FAIL:-0} ;;
  *"pip install"*)
    echo 'Collecting torch==2.13.0'
    echo '  Downloading torch-2.13.0.whl (190.1 MB)' ;;
esac
"""


# A system without an NVIDIA driver, wherever the tests run, as functions that bash takes from its
# environment.
NO_DRIVER = {
    "BASH_FUNC_uname%%": "() { echo Linux; }",
    "BASH_FUNC_command%%": '() { [ "$2" != nvidia-smi ] && builtin command "$@"; }',
}


@pytest.fixture
def bare_project(project: Path) -> Path:
    """The same before it was set up, with a pip that only talks."""
    (project / ".venv" / "stamp").unlink()
    (project / ".venv" / "bin" / "python").write_text(PIP)
    return project


def set_up(project: Path, **changes: Any) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        **NO_DRIVER,
        "PYTHON": sys.executable,
        "NO_BUILD": "1",
        **changes.pop("env", {}),
    }
    return subprocess.run(
        [project / "run", "type"],
        **{"stderr": subprocess.PIPE, **changes},
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def all_of(terminal: int) -> str:
    """What was written to a terminal that nobody writes to any more."""
    told = b""
    with suppress(OSError):  # which is how some systems tell the end
        while part := os.read(terminal, 4096):
            told += part
    os.close(terminal)
    return told.decode()


def test_setting_up_names_every_package_where_there_is_no_terminal(bare_project):
    done = set_up(bare_project)
    told = [line.rpartition("[run]\033[0m ")[2] for line in done.stderr.splitlines()]
    large, others = told.index("Collecting torch==2.13.0"), told.index("Collecting b>=2")
    assert told[large + 1] == "Downloading torch-2.13.0.whl (190.1 MB)"
    assert not any("WARNING" in line for line in told)
    assert told[others + 1 :] == ["Unpacking packages: 2", "ready"]
    assert done.stdout == f"{bare_project.resolve()}: \n"  # of the job alone


def test_setting_up_shows_what_pip_is_at_in_a_terminal(bare_project):
    ours, theirs = pty.openpty()
    done = set_up(bare_project, stderr=theirs)
    os.close(theirs)
    told = all_of(ours)
    # pip's own words, where its bar is
    assert "  Downloading torch-2.13.0.whl (190.1 MB)\r\n" in told
    # one line that changes
    assert "\033[KCollecting b>=2\r\033[KUnpacking packages: 2\r\033[K" in told
    assert done.stdout == f"{bare_project.resolve()}: \n"


def test_a_set_up_that_fails_is_no_set_up(bare_project):
    done = set_up(bare_project, env={"FAIL": "3"})
    assert done.returncode == 3
    assert "ERROR: no b\n" in done.stderr
    assert done.stdout == ""
    assert not (bare_project / ".venv" / "stamp").exists()


@pytest.mark.parametrize(("no_build", "is_other_taken"), [("1", True), ("0", False)])
def test_the_usual_build_of_torch_is_taken_where_the_small_one_cannot_be_had(
    bare_project, no_build, is_other_taken
):
    told = set_up(bare_project, env={"NO_BUILD": no_build}).stderr
    assert ("that build cannot be had" in told) == ("Collecting torch" in told) == is_other_taken
