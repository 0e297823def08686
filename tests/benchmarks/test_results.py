"""The page of results is what the files of results give, and no figure of it was typed."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import learn, record, results_page
from benchmarks.record import Result
from benchmarks.tasks import TASKS, WAITING
from benchmarks.tasks.bench import Bench
from benchmarks.tasks.task import (
    Outcome,
    Row,
    Task,
    at_least,
    at_most,
    best_by_validation,
    best_epoch_of_all,
    mean,
)
from incidence.errors import IncidenceError

ROOT = Path(__file__).parents[2]
ONE = Result("bbbp", "", "seed 0", "auc", 70.0, "bbbp", "scaffold", date="2026-11-19")


def test_the_page_is_what_the_results_give():
    text = results_page.page(record.read_all())
    assert results_page.PAGE.read_text(encoding="utf-8") == text, "run ./run bench results"


def test_every_result_of_the_project_belongs_to_a_row_and_is_dated():
    for result in record.read_all():
        assert result.row in TASKS[result.task].rows
        assert result.date
        assert result.machine
        assert result.command.startswith("./run bench ")


def test_a_result_comes_back_from_its_file(tmp_path):
    result = replace(
        ONE,
        baselines={"GIN": 65.0},
        more={"validation": 0.0},
        setting={"lr": 0.1},
        parameters=3,
        cpu_seconds=1.5,
    )
    path = record.write(result, tmp_path)
    assert path == tmp_path / "bbbp" / "seed-0.json"
    assert record.read_all(tmp_path) == [result]


def test_a_run_takes_the_place_of_a_summary(tmp_path):
    record.write(replace(ONE, run="", num_runs=3), tmp_path)
    record.write(ONE, tmp_path)
    assert record.read_all(tmp_path) == [ONE]


def test_results_are_in_the_order_of_their_numbers(tmp_path):
    runs = [f"split {number}" for number in (0, 2, 10)]
    for run in reversed(runs):
        record.write(replace(ONE, run=run), tmp_path)
    assert [one.run for one in record.read_all(tmp_path)] == runs


@pytest.mark.parametrize("text", ["", "[]", '{"task": "bbbp"}', '{"other": 1}'])
def test_a_file_that_is_no_result_is_refused(text, tmp_path):
    path = tmp_path / "bbbp" / "seed-0.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(IncidenceError, match="is no result of a run"):
        record.read_all(tmp_path)


def test_a_row_that_never_ran_says_so_and_is_left_to_run():
    text = results_page.page([])
    assert text.count("| not run |") == sum(len(task.rows) for task in TASKS.values())
    left = text.partition("## What is left to run")[2]
    assert [line.split()[3] for line in left.split("\n") if line.startswith("./run")] == [*TASKS]


def test_what_has_no_task_yet_is_on_the_page():
    text = results_page.page([]).partition("## What has no task yet")[2]
    assert all(f"| {what} |" in text for what in WAITING)


README_ROWS = [
    line
    for line in (ROOT / "README.md").read_text(encoding="utf-8").split("\n")
    if line.startswith("|") and re.search(r"`\./run( bench (learn|nodes)|`)", line)
]


@pytest.mark.parametrize("line", README_ROWS)
def test_figures_of_learning_in_the_readme_are_those_of_the_page(line):
    value = line.split("|")[2].strip().removesuffix(" %").removesuffix(" pairs")
    assert f"| {value.partition(' of ')[0]}" in results_page.PAGE.read_text(encoding="utf-8")


def test_a_single_run_is_marked_and_so_is_a_missed_goal():
    text = results_page.page([replace(ONE, value=60.0, baselines={"GIN": 65.0})])
    row = next(line for line in text.split("\n") if line.startswith("| BBBP"))
    assert "| 60.0 (one run) | GIN 65.0 |" in row
    assert row.endswith("at least 68.8: **missed** |")
    assert "- BBBP: 60.0 (one run), at least 68.8." in text


def test_some_runs_of_several_are_marked_and_a_reached_goal_is_named():
    runs = [replace(ONE, run=f"seed {k}", value=70.0 + k) for k in range(2)]
    text = results_page.page(runs)
    assert "| 70.5 ± 0.7 (2 of 3 runs) |" in text
    assert "at least 68.8: reached so far |" in text


def test_a_goal_for_every_run_is_missed_if_the_worst_part_of_one_run_misses_it():
    task = "tdl-triangles"
    runs = [replace(ONE, task=task, run=f"run {k}", value=1e-5) for k in range(2)]
    assert "in every run: reached so far" in results_page.page(runs)
    runs[1] = replace(runs[1], more={"worst": 0.1})
    assert "in every run: **missed**" in results_page.page(runs)


def test_hours_are_the_sum_of_all_runs():
    runs = [replace(ONE, run=f"seed {k}", cpu_seconds=3600.0) for k in range(3)]
    assert "The recorded runs took 3.0 hours of CPU." in results_page.page(runs)


def test_a_check_of_the_page_says_whether_it_is_up_to_date(tmp_path, capsys):
    record.write(ONE, tmp_path / "results")
    words = ["--results", str(tmp_path / "results"), "--page", str(tmp_path / "page.md")]
    assert results_page.main([*words, "--check"]) == 1
    assert results_page.main(words) == 0
    assert results_page.main([*words, "--check"]) == 0
    assert "70.0 (one run)" in (tmp_path / "page.md").read_text()


def test_goals_are_met_at_the_number_itself():
    assert at_least(2.0).is_met(2.0)
    assert not at_least(2.0).is_met(1.9)
    assert at_most(2.0).is_met(2.0)
    assert not at_most(2.0).is_met(2.1)


def test_summaries_are_the_mean_the_best_by_validation_and_the_best_epoch_of_all():
    runs = [
        replace(ONE, value=value, more={"validation": validation, "curve": curve})
        for value, validation, curve in [(1.0, 5.0, [4.0, 8.0]), (3.0, 2.0, [6.0, 0.0])]
    ]
    assert mean(runs)[::2] == (2.0, 2)
    assert best_by_validation(runs).value == 3.0
    assert best_epoch_of_all(runs).value == 5.0  # the first epoch: 5 on average, the second 4


# ---- running tasks


@pytest.fixture
def counted(monkeypatch):
    """A task that measures numbers, and lists which runs it did."""
    done = []

    def measure(bench: Bench, number: int):
        done.append(number)
        yield Outcome(float(number), data="numbers")
        yield Outcome(-1.0, "control", data="numbers")

    rows = {
        "": Row("Numbers", "none", "number"),
        "control": Row("control", "none", "number", runs=1),
    }
    monkeypatch.setitem(TASKS, "numbers", Task("Numbers", measure, rows, runs=3))
    return done


def words(tmp_path: Path, *more: str) -> list[str]:
    return ["numbers", "--results", str(tmp_path), "--out", str(tmp_path / "out"), *more]


def test_runs_that_have_a_result_are_not_repeated_unless_it_says_again(counted, tmp_path, capsys):
    assert learn.main(words(tmp_path, "--runs", "2")) == 0
    assert learn.main(words(tmp_path)) == 0
    assert counted == [0, 1, 2]
    assert "seed 1 has a result; --again repeats it" in capsys.readouterr().err
    learn.main(words(tmp_path, "--again"))
    assert counted == [0, 1, 2, 0, 1, 2]


def test_a_run_without_all_its_results_is_done_again(counted, tmp_path):
    learn.main(words(tmp_path))
    (tmp_path / "numbers" / "control-seed-0.json").unlink()
    learn.main(words(tmp_path))
    assert counted == [0, 1, 2, 0]


def test_a_result_says_what_was_measured_and_how_to_repeat_it(counted, tmp_path):
    learn.main(words(tmp_path, "--runs", "1"))
    content = json.loads((tmp_path / "numbers" / "seed-0.json").read_text())
    assert (content["value"], content["metric"], content["data"]) == (0.0, "number", "numbers")
    assert content["command"] == "./run bench learn numbers"
    assert content["cpu_seconds"] >= 0
    assert f"torch {torch.__version__}" in content["machine"]


def test_an_unknown_task_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        learn.main(["nonsense"])
    assert "no task 'nonsense'; there are: tdl-triangles" in capsys.readouterr().err


def test_a_run_that_was_interrupted_continues_and_a_finished_one_is_not_trained_again(tmp_path):
    bench = Bench("solubility", None, tmp_path)
    data = bench.load("solubility")
    options = {"epochs": 1, "hidden": 4, "depth": 1}
    first = bench.train(data, "seed 0", **options)
    weights = first.folder.weights.read_bytes()
    seconds = json.loads(first.folder.metrics.read_text())["seconds"]
    again = bench.train(data, "seed 0", **options)
    assert again.folder.weights.read_bytes() == weights
    assert again.evaluation.metrics() == first.evaluation.metrics()
    assert bench.earlier_seconds == seconds
