"""Presets, lifts, readers and data sets of other packages are there by name, on the command line
too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from incidence import extensions
from incidence.data import register_lift, register_reader
from incidence.errors import IncidenceError
from incidence.models import make, register_preset

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
PARTS = """
import incidence as inc
inc.models.register_preset("mine", "i, {i j}", "a preset of an extension")
"""


def run(words, folder, **variables):
    places = [os.environ.get("PYTHONPATH", ""), variables.pop("path", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places)), **variables}
    command = [sys.executable, "-m", "incidence", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_the_examples_of_the_page_have_at_most_15_lines():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) == 5
    assert max(len([line for line in block.splitlines() if line]) for block in blocks) <= 15


def test_all_examples_of_the_page_train_from_the_command_line(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    (tmp_path / "my_parts.py").write_text("\n".join(blocks))
    (tmp_path / "lines.dots").write_text("\n".join("." * (2 + k % 4) for k in range(20)))
    small = ["--epochs", "1", "--hidden", "4", "--depth", "1"]
    for words in (
        ["--data", "my-rings", "--data-options", "count=20", "--model", "cycles"],
        ["--data", "lines.dots", "--target", "dots", "--lift", "ends", "--aggr", "midrange"],
    ):
        code, out, err = run(["train", *words, *small], tmp_path, INCIDENCE_EXTENSIONS="my_parts")
        assert code == 0, err
        assert "test rmse" in out
    code, _, err = run(["train", "--data", "my-rings", *small], tmp_path)
    assert code == 2
    assert "'my-rings' is no data set" in err


def test_a_package_is_found_by_its_entry_point(tmp_path):
    (tmp_path / "parts_of_a_package.py").write_text(PARTS)
    about = tmp_path / "parts_of_a_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: parts-of-a-package\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        f"[{extensions.GROUP}]\nmine = parts_of_a_package\nbroken = nothing_here\n"
    )
    code, out, err = run(["train", "--list"], tmp_path, path=str(tmp_path))
    assert code == 0
    assert "a preset of an extension" in out
    assert "the extension 'nothing_here' was not loaded: ModuleNotFoundError" in err


def test_an_extension_may_be_a_function_and_is_called_once(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(extensions, "_loaded", {"entry points"})
    monkeypatch.setattr(extensions, "_import", lambda name: lambda: calls.append(name))
    monkeypatch.setenv(extensions.VARIABLE, "one, two")
    extensions.load_extensions()
    extensions.load_extensions()
    assert calls == ["one", "two"]


def test_names_that_mean_something_else_are_refused():
    with pytest.raises(IncidenceError, match="'i j' names tensors, and cannot name a preset"):
        register_preset("i j", "i")
    with pytest.raises(TypeError, match=r"no setting 'depht'\. Did you mean 'depth'"):
        register_preset("mine", "i", settings={"depht": 3})
    with pytest.raises(IncidenceError, match=r"has no \+, which joins lifts; got 'a\+b'"):
        register_lift("a+b", lambda example: example)
    with pytest.raises(IncidenceError, match=r"texts like '\.tgf'; got \('tgf',\)"):
        register_reader("tgf", ("tgf",), lambda path, errors: iter(()))


def test_what_a_test_registers_is_there_in_it():
    register_preset("mine", "i, {i j}", settings={"depth": 1})
    assert make("mine", {"i": 2}).settings.depth == 1
