"""`incidence bench` finds what measures in the project's folder, and says where it is if it is not
there.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from incidence.cli import main

ROOT = Path(__file__).parents[2]


def test_outside_the_project_one_sentence_says_where_the_benchmarks_are(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("incidence.cli._ROOT", tmp_path)
    assert main(["bench", "limits"]) == 2
    assert (
        capsys.readouterr().err
        == "incidence: benchmarks are in the folder of the project, and no part of the package: run"
        " them in a clone of it.\n"
    )


def test_training_knows_the_data_sets_of_the_literature_behind_the_door_alone(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.delenv("INCIDENCE_COMMAND", raising=False)
    assert main(["train", "--data", "csl", "--folder", str(tmp_path)]) == 2
    assert (
        "'csl' is no data set and no file or folder. Data sets: solubility"
        in capsys.readouterr().err
    )
    assert main(["bench", "train", "--data", "csl", "--folder", str(tmp_path)]) == 2
    assert "the data set 'csl' needs the file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["learn", "--help"],
        ["scale", "--help"],
        ["ratings", "--help"],
        ["links", "--help"],
        ["--help"],
    ],
)
def test_what_measures_has_a_help(words, capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["bench", *words])
    assert (
        f"usage: incidence bench {words[0] if len(words) > 1 else ''}".rstrip()
        in capsys.readouterr().out
    )


def test_the_folder_is_a_program_too():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "nothing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "no benchmark 'nothing'; there are: limits, pool" in done.stderr


def test_what_a_run_tells_to_type_next_goes_through_the_door(monkeypatch):
    monkeypatch.setenv("INCIDENCE_COMMAND", "./run incidence")
    for _ in range(2):  # processes that training starts come by here again
        assert main(["bench", "train", "--list"]) == 0
        assert os.environ["INCIDENCE_COMMAND"] == "./run incidence bench"
