"""`RunFolder`: the files of a run, and how a model comes back from them; tables as CSV."""

from __future__ import annotations

import csv
import importlib.metadata
import io
import json
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

import incidence
from incidence.data.completion import Completion, read_completion, write_completion
from incidence.data.tables import legible
from incidence.errors import IncidenceError, command
from incidence.files import disk_trouble, whole_file
from incidence.models import Predictor
from incidence.train.config import Config, read_config
from incidence.train.model_spec import COMPLETIONS, ModelSpec, problem_of

__all__ = [
    "RunFolder",
    "csv_text",
    "describe_score",
    "read_history",
    "read_json",
    "unlike",
    "write",
]

# the names that `whole_file` gives to files while it writes them
_HALF_WRITTEN = re.compile(
    r"\.[\w-]+\.(yaml|json|csv|html|txt|png|npz|safetensors|ckpt)\.[a-z0-9_]{8}"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_FORMULA = ("=", "+", "-", "@")  # what a formula begins with, in one spreadsheet or another
_LIBRARIES = ("torch", "numpy", "lightning", "torchmetrics", "safetensors")


class RunFolder:
    """The files of one run.

    No run writes over the files of another, and reading a file executes no code.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # what the run is
        self.config = path / "config.yaml"
        self.spec = path / "model.json"
        self.environment = path / "environment.json"
        self.resumed = path / "resumed.json"
        # what training writes
        self.checkpoints = path / "checkpoints"
        self.last = self.checkpoints / "last.ckpt"
        self.best = self.checkpoints / "best.ckpt"
        self.logs = path / "logs"
        self.history = path / "history.csv"
        # the results
        self.weights = path / "model.safetensors"
        self.known = path / "known.npz"
        self.calibration = path / "calibration.json"
        self.members = path / "members"
        self.metrics = path / "metrics.json"
        self.predictions = path / "predictions.csv"
        self.plots = path / "plots"
        self.report = path / "report.html"
        self.log = path / "log.txt"

    def __repr__(self) -> str:
        """Return the path."""
        return f"RunFolder({str(self.path)!r})"

    @staticmethod
    def new(out: str | None, data: str) -> RunFolder:
        """Make a folder: the given one, or the next number in `runs/`.

        Raises:
            IncidenceError: It exists and has something in it, or cannot be made.
        """
        try:
            return _numbered_folder(data) if out is None else _empty_folder(Path(out))
        except IncidenceError:
            raise
        except (OSError, ValueError) as error:  # the latter for a NUL in the name
            raise IncidenceError(
                f"no folder can be made for the run: {error}. Choose one with --out."
            ) from error

    @staticmethod
    def open(path: Path) -> RunFolder:
        """Open the folder of a run, by its path or by that of a file in it.

        Raises:
            IncidenceError: It is no folder of a run.
        """
        folder = RunFolder(path.parent if os.path.isfile(path) else path)
        if os.path.isfile(folder.config) and os.path.isfile(folder.spec):
            return folder
        inside: list[str] = []
        if os.path.isdir(path):
            inside = sorted(str(file.parent) for file in path.glob("*/config.yaml"))
        hint = "`incidence train` makes one."
        if inside:
            runs = ", ".join([*inside[:5], *(["..."] if len(inside) > 5 else [])])
            hint = f"It has runs in it, give one of them: {runs}."
        raise IncidenceError(
            f"{path} is no folder of a run: it has no config.yaml and model.json. {hint}"
        )

    def start(self, config: Config, spec: ModelSpec) -> None:
        """Write what the run is, before it begins.

        Raises:
            IncidenceError: The disk does not allow it.
        """
        try:
            self.checkpoints.mkdir()
            self.plots.mkdir()
        except OSError as error:
            raise IncidenceError(disk_trouble(self.path, error)) from error
        environment = {
            "incidence": incidence.__version__,
            "python": platform.python_version(),
            "system": platform.platform(),
            "processor": platform.processor() or platform.machine(),
            "processors": os.cpu_count(),
            "threads": config.threads,
            "libraries": {name: importlib.metadata.version(name) for name in _LIBRARIES},
            "accelerators": torch.cuda.device_count(),
            "command": _typed_command(),
        }
        _write_json(self.environment, environment)
        _write_json(self.spec, spec.plain())
        write(self.config, config.to_yaml())

    def prolong(self, config: Config) -> None:
        """Write that the run continues for more epochs, and by which command."""
        earlier = read_json(self.resumed).get("commands", [])
        _write_json(self.resumed, {"commands": [*earlier, _typed_command()]})
        write(self.config, config.to_yaml())

    def clean(self) -> None:
        """Remove what a killed process left half written."""
        for place in (self.path, self.checkpoints, self.plots):
            for file in place.glob(".*"):
                if _HALF_WRITTEN.fullmatch(file.name):
                    file.unlink(missing_ok=True)

    def read_config(self) -> Config:
        """Return the options of the run, none of them open."""
        config = read_config(self.config, {}).all_given()
        # settings that did not exist when the run began have the values of its model
        open_settings = {
            key: value
            for key, value in self.read_spec().settings.items()
            if getattr(config, key) is None
        }
        return config.replace(**open_settings)

    def read_spec(self) -> ModelSpec:
        """Return what the model of the run is.

        Raises:
            IncidenceError: The file cannot be read.
        """
        try:
            text = self.spec.read_bytes()
        except OSError as error:
            raise IncidenceError(f"{self.spec} cannot be read: {error}.") from error
        return ModelSpec.from_json(text, str(self.spec))

    def save_weights(self, predictor: Predictor, spec: ModelSpec) -> None:
        """Write the finished model: its weights and scales, with what it is.

        Raises:
            IncidenceError: A weight is not finite, or the disk is full.
        """
        state = predictor.state()
        problem = problem_of(state)
        if problem is not None:
            raise IncidenceError(f"{self.weights} was not written: {problem}. Start a new run.")
        write(self.weights, save(state, metadata={"incidence": json.dumps(spec.plain())}))

    def save_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Write the metrics, none of which may be infinite or NaN."""
        write(self.metrics, json.dumps(metrics, indent=1, allow_nan=False) + "\n")

    def save_known(self, completion: Completion) -> None:
        """Write what the model knows when it predicts: all facts of its data."""
        write_completion(completion, self.known)

    def load_known(self) -> Completion:
        """Return what the model knows when it predicts.

        Raises:
            IncidenceError: The file is not there, or damaged.
        """
        return read_completion(self.known, COMPLETIONS)

    def load(self) -> tuple[Predictor, ModelSpec]:
        """Return the finished model, ready to predict.

        Raises:
            IncidenceError: The run is not finished, or its files are damaged or of another model.
        """
        spec = self.read_spec()
        if not self.weights.is_file():
            raise IncidenceError(
                f"the run in {self.path} has no model yet: finish it with `incidence train --resume"
                f" {self.path}`."
            )
        try:
            state = load_file(self.weights)
        except (OSError, SafetensorError) as error:
            raise IncidenceError(
                f"{self.weights} is damaged: {error}. Train again, or copy it anew."
            ) from error
        return spec.with_weights(state, str(self.weights), str(self.spec)), spec


def _empty_folder(path: Path) -> RunFolder:
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        hint = ""
        if (path / "config.yaml").exists():
            hint = f" To continue the run in it: incidence train --resume {path}."
        raise IncidenceError(
            f"{path} exists already, and is not written over: choose another --out.{hint}"
        )
    path.mkdir(parents=True, exist_ok=True)
    return RunFolder(path)


def _numbered_folder(data: str) -> RunFolder:
    Path("runs").mkdir(exist_ok=True)
    number = 1
    while True:
        path = Path("runs", f"{Path(data).stem or 'run'}-{number}")
        try:
            path.mkdir()
        except FileExistsError:  # so that two runs that start at once get two folders
            number += 1
        else:
            return RunFolder(path)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file, or an empty one if the file is missing or damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _write_json(path: Path, content: Any) -> None:
    write(path, json.dumps(content, indent=1) + "\n")


def write(path: Path, content: str | bytes) -> None:
    """Write a file atomically.

    Raises:
        IncidenceError: It cannot be written, for example because the disk is full.
    """
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def read_history(path: Path) -> list[dict[str, float]]:
    """Return a row of metrics for every epoch; none if the file is missing or damaged."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = list(csv.DictReader(lines))
        return [{key: float(value) for key, value in row.items() if value} for row in rows]
    except (OSError, ValueError, TypeError, csv.Error):
        return []


def describe_score(metrics: Mapping[str, Any], metric: str) -> str:
    """Return how well a model does on the last part that it was measured on; perhaps nothing.

    Example:
        >>> describe_score({"test": {"rmse": 0.5, "baseline": {"rmse": 1.25}}}, "rmse")
        'test rmse 0.5, baseline 1.25'
    """
    part = next((name for name in ("test", "validation", "train") if name in metrics), "")
    score = metrics.get(part)
    baseline = score.get("baseline") if isinstance(score, Mapping) else None
    values = [one.get(metric) if isinstance(one, Mapping) else None for one in (score, baseline)]
    if not all(isinstance(value, (int, float)) for value in values):
        return ""
    return f"{part} {metric} {values[0]:.4g}, baseline {values[1]:.4g}"


def csv_text(rows: Iterable[Sequence[object]], separator: str = ",") -> str:
    """Return rows, the names of the columns first, as CSV in which no cell is a formula.

    Example:
        >>> print(csv_text([["name", "value"], ["=HYPERLINK(A1)", -0.5]]), end="")
        name,value
        '=HYPERLINK(A1),-0.5
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", delimiter=separator)
    writer.writerows([_inert(cell) for cell in row] for row in rows)
    return text.getvalue()


def unlike(names: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the names of a user's columns, changed where other columns have the same name.

    Example:
        >>> unlike(["id", "part", "smiles"], ["part", "name", "predicted"])
        ['id', 'input part', 'smiles']
        >>> unlike(["name", "input name"], ["name"])
        ['input input name', 'input name']
    """
    changed = []
    for name in names:
        free = name
        while free in others or (free != name and free in names):
            free = f"input {free}"
        changed.append(free)
    return changed


def _inert(cell: object) -> object:
    """Return a cell with an apostrophe before what a spreadsheet would compute."""
    if not isinstance(cell, str):
        return cell
    # a carriage return would begin a new row, as the writer does not quote it
    cell = _CONTROLS.sub(" ", legible(cell))
    if not cell.lstrip().startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def _typed_command() -> list[str]:
    """Return the words that started this process, as a user would type them again."""
    script = Path(sys.argv[0])
    is_module = script.name == "__main__.py" and script.parent.name == "incidence"
    is_ours = script.name == "incidence" or is_module
    return [*(command().split() if is_ours else [script.name]), *sys.argv[1:]]
