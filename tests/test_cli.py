"""The command line as a user types it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from incidence import __version__, cli
from incidence.cli import main


def test_explain_prints_the_table(capsys):
    assert main(["explain", "i j -> i j"]) == 0
    assert "15 operations and 2 biases, for 4 nodes or more." in capsys.readouterr().out


def test_explain_prints_one_json_object(capsys):
    assert main(["explain", "i j -> i j k", "--json", "--all", "--nodes", "4"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["dimension"] == len([o for b in data["blocks"] for o in b["operations"]]) == 52
    assert data["dimension_at"] == [{"num_nodes": 4, "dimension": 51}]


def test_a_map_may_start_with_its_arrow(capsys):
    assert main(["explain", "-> i"]) == 0
    assert "1 operation and 1 bias" in capsys.readouterr().out


def test_numbers_of_nodes_go_by_sort(capsys):
    assert main(["explain", "u:user m:movie -> u:user", "--nodes", "user=1,movie=2", "3"]) == 0
    assert "Exact dimension: 1 at user=1, movie=2; 2 at 3 nodes." in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["i {i j -> i"], "^ this `{` is never closed"),
        (["{i ...} -> i", "--max-overlap", "-1"], "max_overlap is a number of matched nodes"),
        (["i:a -> i:a", "--nodes", "b=3"], "needs a number of nodes for the sort `a`"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(capsys, words, message):
    assert main(["explain", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_bad_number_of_nodes_says_how_to_write_it(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["explain", "i -> i", "--nodes", "many"])
    assert "neither a number nor like user=3,movie=2" in capsys.readouterr().err


def test_help_teaches_the_language(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["explain", "--help"])
    assert "an undirected edge" in capsys.readouterr().out


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out.strip() == f"incidence {__version__}"


def test_a_reader_that_stops_early_is_no_error():
    command = (
        f"{Path(sys.executable).parent / 'incidence'} explain 'i j k l -> i j k l' --all | head"
        " -n 1"
    )
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("i j k l -> i j k l\n", "")


def test_welcome_shows_the_fifteen(capsys):
    assert main(["welcome"]) == 0
    assert "15 operations" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["incidence", "./run incidence"])
def test_what_to_type_next_is_what_the_user_has(command, capsys, monkeypatch):
    monkeypatch.setenv("INCIDENCE_COMMAND", command)
    if command == "incidence":  # installed, without a folder of the project
        monkeypatch.delenv("INCIDENCE_COMMAND")
    assert main(["welcome"]) == 0
    told = capsys.readouterr().out
    assert f"Next:  {command} explain" in told
    assert ("./run" in told) == ("./run" in command)


def test_trouble_with_a_file_is_one_sentence(capsys, monkeypatch):
    def fail(arguments):
        raise OSError(36, "File name too long", "xxx")

    monkeypatch.setitem(
        cli._COMMANDS, "welcome", ("a first look", lambda command: command.set_defaults(run=fail))
    )
    assert main(["welcome"]) == 2
    assert capsys.readouterr().err == "incidence: [Errno 36] File name too long: 'xxx'\n"


def test_no_message_of_the_package_speaks_of_the_script_of_the_project():
    folder = Path(cli.__file__).parent
    assert [
        path.name for path in folder.rglob("*.py") if "./run" in path.read_text(encoding="utf-8")
    ] == []


def test_a_command_that_is_not_installed_is_told_and_the_others_work(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "incidence.train.commands", None)
    assert main(["train"]) == 2
    assert (
        "this command needs incidence.train.commands, which is not installed: pip install"
        " 'incidence[train]'" in capsys.readouterr().err
    )
    assert main(["explain", "i -> i"]) == 0


def test_a_command_that_is_not_asked_for_is_not_loaded():
    code = (
        "import sys; from incidence.cli import main; main(['explain', 'i -> i']); print({'torch',"
        " 'incidence.train'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\nset()\n")
