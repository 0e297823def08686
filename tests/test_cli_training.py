"""The commands of training as a user types them, in processes of their own where that matters."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest
from safetensors.torch import load_file

import incidence as inc
from incidence.cli import main
from incidence.train import Config
from tests.train.small_runs import graphs

SMALL = [
    "--model",
    "i, {i j}",
    "--hidden",
    "4",
    "--depth",
    "1",
    "--batch-size",
    "8",
    "--epochs",
    "2",
    "--dropout",
    "0",
]
COMMAND = str(Path(sys.executable).parent / "incidence")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "numbers.npz"
    inc.collate(graphs(40)).save(path)
    return str(path)


def typed(patch: pytest.MonkeyPatch, *words: str) -> int:
    """What the command line does in a process that was started with these words."""
    patch.setattr(sys, "argv", ["incidence", *words])
    return main(words)


@pytest.fixture(scope="module")
def finished(data: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; tests that change it take a copy."""
    path = tmp_path_factory.mktemp("finished") / "run"
    with pytest.MonkeyPatch.context() as patch:
        assert typed(patch, "train", "--data", data, "--out", str(path), *SMALL) == 0
    return path


def history(path: Path) -> list[list[float]]:
    return [
        [float(v) for v in row.values()]
        for row in csv.DictReader((path / "history.csv").read_text().splitlines())
    ]


def test_a_run_tells_the_metric_the_baseline_the_folder_and_what_comes_next(data, tmp_path, capsys):
    path = tmp_path / "run"
    assert main(["train", "--data", data, "--out", str(path), *SMALL]) == 0
    found = capsys.readouterr()
    metrics = json.loads((path / "metrics.json").read_text())["test"]
    first = found.out.splitlines()[0]
    assert (
        first
        == f"numbers: test rmse {metrics['rmse']:.4g}, against {metrics['baseline']['rmse']:.4g}"
        " for the mean of the training data"
    )
    assert f"Results are in {path}/" in found.out
    assert f"incidence predict {path} examples.npz" in found.out
    assert "measured" in found.out
    assert (path / "log.txt").read_text() == found.out
    # which the first run of a process does
    told = [line for line in found.err.splitlines() if not line.startswith("Loading")]
    about = (
        "numbers: 32 rows to train on, 4 to validate on, 4 to test on; predicting target; model: i,"
        " {i j} (the tensors that were named), which reads `i`, `{i j}`"
    )
    assert told == [
        f"Training on {data} (options: incidence train --help)",
        about,
        "epoch 0 of 2",
    ]
    page = (path / "report.html").read_text()
    # loss, metrics, parity, residuals; the worst and the best of four
    assert page.count("<svg") == 4 + 2 * 2
    assert "hidden: 4" in page
    assert {p.name for p in (path / "plots").iterdir()} == {
        "curves.png",
        "parity.png",
        "residuals.png",
    }


def test_what_comes_next_repeats_the_options_of_the_run_with_another_seed(data, tmp_path, capsys):
    path = tmp_path / "run"
    assert main(["train", "--data", data, "--out", str(path), *SMALL, "--model", "matrix"]) == 0
    told = next(line.strip() for line in capsys.readouterr().out.splitlines() if "--seed 1" in line)
    assert told == f"incidence train --config {path}/config.yaml --seed 1"
    assert main([*told.split()[1:], "--out", str(tmp_path / "next")]) == 0
    first, second = (
        (folder / "config.yaml").read_text().replace("seed: 1", "seed: 0")
        for folder in (path, tmp_path / "next")
    )
    assert "model: matrix" in first
    assert first == second


def test_a_run_is_one_json_object_for_other_programs(data, tmp_path, capsys):
    assert main(["train", "--data", data, "--out", str(tmp_path / "run"), *SMALL, "--json"]) == 0
    told = capsys.readouterr()
    assert told.err.splitlines()[1:] == ["epoch 0 of 2"]
    found = json.loads(told.out)
    assert found["folder"] == str(tmp_path / "run")
    assert found["test"]["baseline"]["rmse"] > 0


def test_readers_and_their_options_are_given_by_flags(tmp_path, capsys):
    for k in range(6):
        (tmp_path / f"{k}.csv").write_text(f"0,1\n1,2\n2,{k % 2 * 3}\n")
        (tmp_path / f"{k}.nodes").write_text(
            "".join(f"{node} {node % 2 + 1}\n" for node in range(4))
        )
    (tmp_path / "targets.csv").write_text(
        "file,a,b\n" + "".join(f"{k}.csv,{k},{2 * k}\n" for k in range(6))
    )
    words = ["train", "--data", str(tmp_path), "--target", "a,b", *SMALL]
    assert main(words) == 2
    assert (
        "the readers graph, molecule all read such files. Give --reader" in capsys.readouterr().err
    )
    out = tmp_path / "run"
    flags = [
        "--reader",
        "graph",
        "--data-options",
        "labels=[1, 2]",
        "degrees=false",
        "--validation",
        "0.4",
        "--out",
        str(out),
    ]
    assert main([*words, *flags]) == 0
    spec = json.loads((out / "model.json").read_text())
    assert spec["reader_options"] == {"labels": [1, 2], "degrees": False}
    assert spec["in_channels"]["i"] == 2
    assert spec["task"]["names"] == ["a", "b"]
    capsys.readouterr()
    assert main(["predict", str(out), str(tmp_path / "0.csv")]) == 0


def test_a_file_of_options_is_read_and_flags_win(data, tmp_path, capsys):
    (tmp_path / "c.yaml").write_text(
        f"data: {data}\nepochs: 7\nhidden: 4\ndepth: 1\nmodel: 'i, {{i j}}'\naggr: [sum, max]\n"
    )
    assert (
        main(
            [
                "train",
                "--config",
                str(tmp_path / "c.yaml"),
                "--epochs",
                "1",
                "--out",
                str(tmp_path / "run"),
            ]
        )
        == 0
    )
    assert len(history(tmp_path / "run")) == 1
    assert "aggr:\n- sum\n- max\n" in (tmp_path / "run" / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--resume", "run", "--lr", "3"],
            (
                "a run continues with the options it began with, except for --epochs: leave out"
                " --lr, or start a new run"
            ),
        ),
        (["--resume", "run", "--epochs", "0"], "the option `epochs` is at least 1"),
        (["--resume", "run", "--config", "c.yaml"], "leave out --config"),
        (["--resume", "run"], "run is no folder of a run"),
        (["--config", "absent.yaml"], "the config 'absent.yaml' cannot be read"),
        (["--data", "absent"], "'absent' is no data set and no file or folder"),
        (["--epochs", "0"], "the option `epochs` is at least 1"),
        (
            ["--augment"],
            (
                "'solubility' cannot be changed at random, which only named data sets of meshes"
                " allow: leave out --augment"
            ),
        ),
        (
            ["--data-options", "labels"],
            "an option of the data is written as in --data-options labels=7",
        ),
        (
            ["--data-options", "labels=7"],
            "the data set 'solubility' has no option `labels`: it takes no options",
        ),
        (
            ["--data-options", "cutoff=4"],
            "the lift 'none' has no option 'cutoff': it takes no options",
        ),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *words]) == 2
    assert message in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words", [["--norm", "group"], ["--epochs", "many"], ["--unheard-of", "3"]]
)
def test_flags_of_the_wrong_kind_are_refused_by_the_parser(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["train", *words])
    assert "usage:" in capsys.readouterr().err


def test_data_sets_and_models_are_listed(capsys):
    assert main(["train", "--list"]) == 0
    found = capsys.readouterr().out
    assert all(word in found for word in ("solubility", "molecule-3d", "targets.csv"))


COMMANDS = ["explain", "train", "predict", "evaluate", "export", "compare", "sweep", "plot"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_of_at_most_80_columns(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    told = capsys.readouterr().out
    assert "usage: incidence" in told
    assert [line for line in told.splitlines() if len(line) > 80] == []


def help_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit, match="0"):
        main(words)
    return capsys.readouterr().out


def flags_in(text: str) -> list[str]:
    """The options that a help text lists, each once."""
    return re.findall(r"^  (?:-h, )?(--[a-z-]+)", text, flags=re.MULTILINE)


def test_the_help_of_training_lists_what_people_use_and_help_all_every_option(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    short = help_of(["train", "--help"], capsys)
    usual = flags_in(short)
    assert {"--data", "--target", "--model", "--epochs", "--out", "--resume"} < {*usual}
    assert len(usual) <= 20
    assert len(short.splitlines()) < 70
    text = help_of(["train", "--help-all"], capsys)
    every = {f"--{f.name.replace('_', '-')}" for f in fields(Config)}
    assert every < {*flags_in(text)}
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert "(default 0.003)" in text
    assert text.count("(default 0)") >= 3
    assert help_of(["train", "--help"], capsys) == short


def test_options_of_evaluation_have_the_defaults_of_the_run(capsys):
    text = help_of(["evaluate", "--help-all"], capsys)
    assert "--data-options" in text
    assert "(default solubility)" not in text
    assert "those of the run" in text


def test_lists_have_at_most_80_columns_and_nothing_is_cut(capsys):
    assert main(["train", "--list"]) == 0
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if len(line) > 80] == []
    words = " ".join(told.split())
    assert all(
        preset.about in words and (preset.inputs or "all tensors") in words
        for preset in inc.models.PRESETS.values()
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "--hiden", "3"], "{} train: no option --hiden. Did you mean --hidden?"),
        (
            ["train", "--learning-rate", "3"],
            "{} train: no option --learning-rate. Did you mean --lr?",
        ),
        (["train", "--foo"], "{} train: no option --foo.\n"),
        (["sweep", "--foo"], "{} sweep: no option --foo.\n"),
        (
            ["train", "x.csv"],
            "{} train: cannot tell what 'x.csv' is for. Data is given with --data,",
        ),
        (
            ["train", "--target", "a", "b"],
            "{} train: cannot tell what 'b' is for. Data is given with --data,",
        ),
        (["train", "--batchsize=3"], "{} train: no option --batchsize. Did you mean --batch-size?"),
        (
            ["predict", "run", "file", "--output", "x"],
            "{} predict: no option --output. Did you mean --out?",
        ),
        (["evaluate", "run", "--xyzzy"], "{} evaluate: no option --xyzzy."),
        (["evaluate", "run", "another"], "{} evaluate: cannot tell what 'another' is for."),
        (["predict", "run"], "{} predict: the following arguments are required: WHAT"),
        (["trian"], "{}: no command 'trian'. Did you mean train?"),
        (["fly"], "{}: no command 'fly'. There are: explain, expressivity, bench, train,"),
        (["--fly"], "{}: "),
    ],
)
@pytest.mark.parametrize("command", ["incidence", "./run incidence"])
def test_a_command_answers_for_its_own_options_in_the_name_it_was_called_by(
    command, words, message, capsys, monkeypatch
):
    monkeypatch.setenv("INCIDENCE_COMMAND", command)
    with pytest.raises(SystemExit, match="2"):
        main(words)
    told = capsys.readouterr().err
    assert message.format(command) in told
    assert told.startswith(f"usage: {command}")
    assert len(told.splitlines()) == 3
    assert told.endswith(f"{message.format(command).partition(': ')[0]} --help\n")


def test_nothing_typed_is_help(capsys):
    with pytest.raises(SystemExit, match="0"):
        main([])
    assert "train a network" in capsys.readouterr().out


def test_every_message_says_the_name_that_it_was_called_by(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("INCIDENCE_COMMAND", "./run incidence")
    path = tmp_path / "run"
    assert main(["train", "--data", data, "--out", str(path), *SMALL]) == 0
    assert main(["train", "--data", data, "--out", str(path), *SMALL]) == 2
    assert main(["predict", str(path), str(tmp_path / "absent.npz")]) == 2
    assert main(["predict", str(tmp_path), data]) == 2
    assert main(["welcome"]) == 0
    with pytest.raises(SystemExit, match="0"):
        main(["train", "--help"])
    told = "".join(capsys.readouterr())
    assert re.findall(r"(?<!run )incidence (?:train|predict|explain|evaluate)", told) == []
    assert len(re.findall(r"\./run incidence: ", told)) == 4
    assert f"./run incidence train --resume {path}" in told


def test_a_folder_is_read_where_a_file_is_expected_and_a_file_where_a_run_is(
    data, finished, tmp_path, capsys
):
    path = finished
    folder = tmp_path / "new"
    (folder / "inside").mkdir(parents=True)
    shutil.copy(data, folder / "inside" / "numbers.npz")
    (folder / ".hidden.npz").write_bytes(b"nothing")
    (folder / "notes.txt").write_text("nothing\n")
    capsys.readouterr()
    assert main(["predict", str(path / "model.safetensors"), str(folder)]) == 0
    whole = capsys.readouterr()
    assert main(["predict", str(path), data]) == 0
    values = [
        [line.rpartition(",")[2] for line in text.splitlines()]
        for text in (whole.out, capsys.readouterr().out)
    ]
    assert values[0] == values[1]
    assert whole.err == ""
    (tmp_path / "empty").mkdir()
    assert main(["predict", str(path), str(tmp_path / "empty")]) == 2
    assert (
        f"the folder {tmp_path / 'empty'} has none of the files this model reads: .npz"
        in capsys.readouterr().err
    )
    assert (
        main(["train", "--config", str(path), "--seed", "1", "--out", str(tmp_path / "again")]) == 0
    )
    assert len(history(tmp_path / "again")) == 2


def test_a_run_goes_on_for_more_epochs_and_its_report_has_the_commands(
    finished, tmp_path, monkeypatch, capsys
):
    path = tmp_path / "run"
    shutil.copytree(finished, path)
    begun = (path / "environment.json").read_text()
    for count, more in ((3, ["--epochs", "3"]), (3, []), (4, ["--epochs", "4"])):
        assert typed(monkeypatch, "train", "--resume", str(path), *more) == 0
        assert len(history(path)) == count
    assert main(["train", "--resume", str(path), "--epochs", "2"]) == 2
    assert "is for 4 epochs: a run continues for as many or more; got 2" in capsys.readouterr().err
    later = " &amp;&amp; ".join(
        f"incidence train --resume {path} --epochs {epochs}" for epochs in (3, 4)
    )
    assert (
        f" --epochs 2 --dropout 0 &amp;&amp; {later}</code>" in (path / "report.html").read_text()
    )
    assert (path / "environment.json").read_text() == begun  # by which the folder is locked


# ---- processes of their own

# In single precision Adam follows rounding where the loss is flat, and two processes round
# otherwise than one.
EXACT = [*SMALL, "--precision", "64-true"]


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def _assert_equal_runs(one: Path, two: Path) -> None:
    for first, second in zip(history(one), history(two), strict=True):
        assert first == pytest.approx(second, rel=1e-4, abs=1e-6)
    a, b = load_file(one / "model.safetensors"), load_file(two / "model.safetensors")
    assert all(
        a[key].float().tolist() == pytest.approx(b[key].float().tolist(), rel=1e-2, abs=1e-3)
        for key in a
        if a[key].ndim == 1
    )


@pytest.mark.slow
def test_two_processes_do_what_one_does(data, tmp_path, capsys):
    words = ["train", "--data", data, *EXACT]
    one, two = tmp_path / "one", tmp_path / "two"
    done = subprocess.run(
        [COMMAND, *words, "--out", str(two), "--devices", "2"],
        env=_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Results are in") == 1
    assert done.stderr.count("Training on") == 1
    assert main([*words, "--out", str(one)]) == 0
    _assert_equal_runs(one, two)
    assert sorted(p.name for p in one.iterdir()) == sorted(p.name for p in two.iterdir())


@pytest.mark.slow
def test_two_processes_of_torchrun_do_what_one_does(data, tmp_path, capsys):
    words = ["train", "--data", data, *EXACT]
    one, two = tmp_path / "one", tmp_path / "two"
    launcher = [
        str(Path(sys.executable).parent / "torchrun"),
        "--nproc-per-node=2",
        "--master-port=29731",
        "--no-python",
        COMMAND,
    ]
    done = subprocess.run(
        [*launcher, *words, "--out", str(two), "--devices", "2"],
        env=_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert main([*words, "--out", str(one)]) == 0
    _assert_equal_runs(one, two)


@pytest.mark.slow
def test_torchrun_needs_no_further_options(data, tmp_path):
    words = ["-m", "incidence", "train", "--data", str(Path(data).resolve()), "--epochs", "1"]
    launcher = [str(Path(sys.executable).parent / "torchrun"), "--nproc_per_node=2"]
    done = subprocess.run(
        [*launcher, "--master-port=29733", *words],
        cwd=tmp_path,
        env=_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    [run] = (tmp_path / "runs").iterdir()
    assert (run / "model.safetensors").is_file()
    assert done.stderr.count("Training on") == 1


@pytest.mark.slow
def test_two_processes_end_together_when_weights_run_away(data, tmp_path):
    words = ["train", "--data", data, *SMALL, "--out", str(tmp_path / "run"), "--devices", "2"]
    words += ["--lr", "1e38", "--norm", "none", "--clip", "0"]
    done = subprocess.run(
        [COMMAND, *words], env=_environment(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2
    assert "training has diverged" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_ends_with_130_and_can_be_resumed(data, tmp_path, capsys):
    path, words = tmp_path / "run", ["train", "--data", data, *SMALL, "--epochs", "400"]
    child = subprocess.Popen(
        [COMMAND, *words, "--out", str(path)], env=_environment(), stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 60
    while not (path / "checkpoints" / "last.ckpt").exists() and time.monotonic() < until:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=60)
    assert child.returncode == 130
    assert f"continue with: incidence train --resume {path}" in told
    assert "Traceback" not in told


MISSING = """
import sys
from incidence.cli import main
import incidence as inc

def without(module, work):
    sys.modules[module] = None
    try:
        work()
    except inc.IncidenceError as error:
        print(module, type(error).__name__, error)
    del sys.modules[module]
    for name in [name for name in sys.modules if name.startswith(("incidence.train", module))]:
        del sys.modules[name]

print(inc.train.Config(epochs=1))
without("lightning", lambda: main(["train"]))
for module in ("lightning", "torchmetrics", "yaml"):
    without(module, lambda: inc.train.train)
without("safetensors", lambda: inc.load("run"))
"""


def test_a_library_that_is_missing_is_named_on_the_command_line_and_in_python():
    done = subprocess.run(
        [sys.executable, "-c", MISSING], capture_output=True, text=True, check=True
    )
    packages = {
        "lightning": "lightning",
        "torchmetrics": "lightning",
        "yaml": "pyyaml",
        "safetensors": "safetensors",
    }
    message = "training needs {}, which is not installed: pip install 'incidence[train]'."
    assert done.stdout.splitlines() == [
        "Config(epochs=1)",
        *(f"{key} MissingExtraError {message.format(name)}" for key, name in packages.items()),
    ]
    assert f"incidence: {message.format('lightning')}" in done.stderr
