"""`RunFolder`: where a run keeps what it made, and how a model comes back from there; `ModelSpec`: what that model is and reads."""

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
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

import incidence
from incidence.data.completion import Completion
from incidence.data.completion_file import read_completion, write_completion
from incidence.data.dataset import Task
from incidence.errors import IncidenceError, command, shown
from incidence.files import disk_trouble, whole_file
from incidence.limits import assert_size, parse_json
from incidence.models import Predictor, assert_has, make, settings_of
from incidence.train.config import Config, read_config

__all__ = [
    "ModelSpec",
    "RunFolder",
    "apart",
    "csv_text",
    "disk_trouble",
    "read_json",
    "short",
    "told_score",
    "unsound",
    "write",
]

_HALF = re.compile(
    r"\.[\w-]+\.(yaml|json|csv|html|txt|png|npz|safetensors|ckpt)\.[a-z0-9_]{8}"
)  # as `whole_file` names them
_FORMAT = 1
_LATER = {"offset": ""}  # what descriptions did not always have
_FORMULA = ("=", "+", "-", "@")  # what a formula begins with, in one spreadsheet or another


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """All that is needed to make the model again, to read files for it, and to know its data.

    Attributes:
        format: Of this description.
        data: What it was trained on.
        model: The preset, or the tensors it reads.
        settings: Of the network, every one: no later change of a preset or a default makes it another.
        in_channels: Of the features, by tensor.
        task: What it predicts.
        metric: The one that counts.
        reader: What reads files for it, with `reader_options`.
        lift: What adds tensors to what was read, with `lift_options`.
        fingerprint: Of the data.
        offset: The tensor whose first feature the network adds to; empty for none.
    """

    format: int = _FORMAT
    data: str
    model: str
    settings: Mapping[str, Any]
    in_channels: Mapping[str, int]
    task: Task
    metric: str
    reader: str
    reader_options: Mapping[str, Any]
    lift: str
    lift_options: Mapping[str, Any]
    fingerprint: str
    offset: str = ""

    def __repr__(self) -> str:
        """A line, however many columns its tables have."""
        reads = ", ".join(f"{key}: {count}" for key, count in self.in_channels.items())
        return f"ModelSpec({self.what}; {self.model} network that reads {reads}; trained on {self.data})"

    @property
    def what(self) -> str:
        """What is predicted, in words."""
        names = ", ".join(self.task.names[:5]) + (", ..." if len(self.task.names) > 5 else "")
        if self.task.kind == "classification" and self.task.target:
            names = f"{self.task.target} ({len(self.task.names)} classes)"
        return f"{self.task.kind} of {names}{f' for every entry of `{self.task.at}`' if self.task.at else ''}"

    @property
    def is_completion(self) -> bool:
        """Whether it completes what it knows, which is kept beside it: ratings, links."""
        return self.reader in ("ratings", "links")

    def plain(self) -> dict[str, Any]:
        """The values as a file has them: no tuples, and nothing that JSON does not know."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return found

    @staticmethod
    def from_json(text: str | bytes, where: str) -> ModelSpec:
        """What a text describes.

        Raises:
            IncidenceError: It is no description of a model, or one of another format.
        """
        found = parse_json(text, where, "description of a model")
        if isinstance(found, dict) and found.get("format", _FORMAT) != _FORMAT:
            raise IncidenceError(
                f"{where} has format {shown(found['format'])}; this version reads format {_FORMAT}. Update the library."
            )
        try:
            assert_fields(found, ModelSpec)
            told: dict[str, Any] = {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in found["task"].items()
            }
            task = Task(**told)
            Config(**found["settings"])  # says what is out of bounds
            known = {
                f.name: found[f.name]
                for f in fields(ModelSpec)
                if f.name in found or f.default is MISSING
            }
            settings = {
                **settings_of("i", {}),
                **found["settings"],
            }  # those that have come since change nothing, whatever presets say now
            return ModelSpec(**{**known, "task": task, "settings": settings})
        except IncidenceError as error:
            raise IncidenceError(
                f"{where} is no description of a model, or is damaged: {error}"
            ) from None
        except (LookupError, TypeError) as error:
            raise IncidenceError(
                f"{where} is no description of a model, or is damaged. Train again, or copy it anew."
            ) from error

    def build(self) -> Predictor:
        """The predictor, with fresh weights.

        Raises:
            TooLargeError: Its weights would take more memory than is allowed.
        """
        outline = self.outline()
        count = sum(p.numel() for p in outline.parameters())
        assert_size(
            sum(p.numel() * p.element_size() for p in outline.parameters()),
            f"a network with {count:,} weights",
        )
        return self._make()

    def outline(self) -> Predictor:
        """The predictor with shapes alone, which take no memory."""
        with torch.device("meta"):
            return self._make()

    def _make(self) -> Predictor:
        settings = {key: tuple(v) if isinstance(v, list) else v for key, v in self.settings.items()}
        assert_has(self.model, self.in_channels)
        net = make(self.model, self.in_channels, self.task.out_channels, self.task.at, **settings)
        return Predictor(net, self.task.kind, offset=self.offset)

    def with_weights(
        self, state: Mapping[str, torch.Tensor], weights: str, where: str
    ) -> Predictor:
        """The predictor with the weights of a file, ready to predict; messages name that file, and the one that has the description.

        Raises:
            IncidenceError: A weight is no finite number, or they are those of another model.
        """
        wrong = unsound(state)
        if wrong is not None:
            raise IncidenceError(f"{weights} is damaged: {wrong}. Train again, or copy it anew.")
        try:
            predictor = self.outline()
        except (LookupError, TypeError, AttributeError, ValueError, RuntimeError) as error:
            raise IncidenceError(
                f"{where} is no description of a model, or is damaged: {short(error)}"
            ) from error
        single = {
            key: value.float() if value.is_floating_point() else value
            for key, value in state.items()
        }
        wrong = unsound(single)  # what is finite in double precision need not be so in single
        if wrong is not None:
            raise IncidenceError(
                f"{weights} is damaged: {wrong} in single precision. Train again, or copy it anew."
            )
        try:
            predictor.load_state_dict(
                single, assign=True
            )  # shapes are compared, and the file's own tensors are the weights
        except RuntimeError as error:
            raise IncidenceError(
                f"{weights} belongs to another model than {where}: {short(error)}"
            ) from error
        return predictor.eval()

    def assert_same(self, other: Any, what: str) -> None:
        """Refuses to go on with a model that was described in another way."""
        other = {**_LATER, **other} if isinstance(other, Mapping) else {}
        if isinstance(other.get("task"), Mapping):
            other["task"] = {"ranks": [], "target": self.task.target, **other["task"]}
        if isinstance(
            other.get("settings"), Mapping
        ):  # those that have come since are at their defaults, which change nothing
            other["settings"] = {
                **json.loads(json.dumps(settings_of("i", {}))),
                **other["settings"],
            }
        for key, value in self.plain().items():
            if value != other.get(key):
                raise IncidenceError(
                    f"{what}: {key} is {other.get(key)!r} there and {value!r} here. Nothing was changed."
                )


class RunFolder:
    """The files of one run. Nothing here is ever written over by another run, and nothing that is read can execute code."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config, self.spec, self.environment = (
            path / "config.yaml",
            path / "model.json",
            path / "environment.json",
        )
        self.checkpoints, self.weights, self.metrics = (
            path / "checkpoints",
            path / "model.safetensors",
            path / "metrics.json",
        )
        self.last, self.best = self.checkpoints / "last.ckpt", self.checkpoints / "best.ckpt"
        self.predictions, self.logs, self.plots = (
            path / "predictions.csv",
            path / "logs",
            path / "plots",
        )
        self.known, self.resumed = path / "known.npz", path / "resumed.json"
        self.history, self.report, self.log = (
            path / "history.csv",
            path / "report.html",
            path / "log.txt",
        )

    def __repr__(self) -> str:
        """Where it is."""
        return f"RunFolder({str(self.path)!r})"

    @staticmethod
    def new(out: str | None, data: str) -> RunFolder:
        """A new folder: the one that was asked for, or the next number in `runs/`.

        Raises:
            IncidenceError: It is there already, with something in it, or cannot be made.
        """
        try:
            if out is not None:
                path = Path(out)
                if path.exists() and (not path.is_dir() or any(path.iterdir())):
                    hint = (
                        f" To go on with the run in it: incidence train --resume {path}."
                        if (path / "config.yaml").exists()
                        else ""
                    )
                    raise IncidenceError(
                        f"{path} is there already, and is not written over: choose another --out.{hint}"
                    )
                path.mkdir(parents=True, exist_ok=True)
                return RunFolder(path)
            Path("runs").mkdir(exist_ok=True)
            number = 1
            while True:
                try:
                    path = Path("runs", f"{Path(data).stem or 'run'}-{number}")
                    path.mkdir()
                    return RunFolder(path)
                except (
                    FileExistsError
                ):  # perhaps a moment ago: two runs that start at once get two folders
                    number += 1
        except IncidenceError:
            raise
        except (OSError, ValueError) as error:  # the latter for a NUL in the name
            raise IncidenceError(
                f"no folder can be made for the run: {error}. Choose one with --out."
            ) from error

    @staticmethod
    def open(path: Path) -> RunFolder:
        """A folder that a run has made, by its path or that of a file in it.

        Raises:
            IncidenceError: It is none.
        """
        folder = RunFolder(path.parent if os.path.isfile(path) else path)
        if not os.path.isfile(folder.config) or not os.path.isfile(folder.spec):
            inside = (
                sorted(str(file.parent) for file in folder.path.glob("*/config.yaml"))
                if os.path.isdir(path)
                else []
            )
            runs = f"It has runs in it, give one of them: {', '.join(inside[:5])}{', ...' if len(inside) > 5 else ''}."
            hint = runs if inside else "`incidence train` makes one."
            raise IncidenceError(
                f"{path} is no folder of a run: it has no config.yaml and model.json. {hint}"
            )
        return folder

    def start(self, config: Config, spec: ModelSpec) -> None:
        """Writes down what the run is, before it begins."""
        try:
            self.checkpoints.mkdir()
            self.plots.mkdir()
        except OSError as error:
            raise IncidenceError(disk_trouble(self.path, error)) from error
        names = ("torch", "numpy", "lightning", "torchmetrics", "safetensors")
        environment = {
            "incidence": incidence.__version__,
            "python": platform.python_version(),
            "system": platform.platform(),
            "processor": platform.processor() or platform.machine(),
            "processors": os.cpu_count(),
            "threads": config.threads,
            "libraries": {name: importlib.metadata.version(name) for name in names},
            "accelerators": torch.cuda.device_count(),
            "command": _typed(),
        }
        write(self.environment, json.dumps(environment, indent=1) + "\n")
        write(self.spec, json.dumps(spec.plain(), indent=1) + "\n")
        write(self.config, config.to_yaml())

    def prolong(self, config: Config) -> None:
        """Writes down that the run goes on for more epochs, by which command; what it was begun with stays as it was."""
        earlier = read_json(self.resumed).get("commands", [])
        write(self.resumed, json.dumps({"commands": [*earlier, _typed()]}, indent=1) + "\n")
        write(self.config, config.to_yaml())

    def clean(self) -> None:
        """Removes what a killed process left half written."""
        for place in (self.path, self.checkpoints, self.plots):
            for rest in place.glob(".*"):
                if _HALF.fullmatch(rest.name):
                    rest.unlink(missing_ok=True)

    def read_config(self) -> Config:
        """The options of the run; none is left open: settings that have come since it was begun are those of its model."""
        config = read_config(self.config, {}).all_given()
        settings = {
            key: value
            for key, value in self.read_spec().settings.items()
            if getattr(config, key) is None
        }
        return config.replace(**settings)

    def read_spec(self) -> ModelSpec:
        """What the model of the run is."""
        try:
            text = self.spec.read_bytes()
        except OSError as error:
            raise IncidenceError(f"{self.spec} cannot be read: {error}.") from error
        return ModelSpec.from_json(text, str(self.spec))

    def save_weights(self, predictor: Predictor, spec: ModelSpec) -> None:
        """Writes the finished model: its weights and scales, with what it is.

        Raises:
            IncidenceError: A weight is no finite number, or the disk is full.
        """
        state = predictor.state()
        wrong = unsound(state)
        if wrong is not None:
            raise IncidenceError(f"{self.weights} was not written: {wrong}. Start a new run.")
        write(self.weights, save(state, metadata={"incidence": json.dumps(spec.plain())}))

    def save_known(self, completion: Completion) -> None:
        """Writes what the model knows when it predicts: all facts of its data."""
        write_completion(completion, self.known)

    def load_known(self) -> Completion:
        """What the model knows when it predicts.

        Raises:
            IncidenceError: The file is not there, or damaged.
        """
        return read_completion(self.known)

    def load(self) -> tuple[Predictor, ModelSpec]:
        """The finished model, ready to predict.

        Raises:
            IncidenceError: The run is not finished, or its files are damaged or of another model.
        """
        spec = self.read_spec()
        if not self.weights.is_file():
            raise IncidenceError(
                f"the run in {self.path} has no model yet: finish it with `incidence train --resume {self.path}`."
            )
        try:
            state = load_file(self.weights)
        except (OSError, SafetensorError) as error:
            raise IncidenceError(
                f"{self.weights} is damaged: {error}. Train again, or copy it anew."
            ) from error
        return spec.with_weights(state, str(self.weights), str(self.spec)), spec


def read_json(path: Path) -> dict[str, Any]:
    """The object of a JSON file; an empty one where the file is gone, or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


_NUMBERS = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool]
_NUMBERS += [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor has ordinary numbers, all of them in memory: a file may say that one has 10^12 of which it holds a single one."""
    return (
        tensor.layout is torch.strided
        and not (tensor.is_nested or tensor.is_quantized or tensor.is_meta)
        and tensor.dtype in _NUMBERS
        and tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()
    )


def unsound(state: Mapping[str, Any]) -> str | None:
    """What is wrong with a tensor of some, if anything is: nothing is computed with those that have no ordinary numbers."""
    tensors = {key: value for key, value in state.items() if isinstance(value, torch.Tensor)}
    strange = next((key for key, value in tensors.items() if not is_plain(value)), None)
    if strange is not None:
        return f"{shown(strange)} has no ordinary numbers, one for each of its entries"
    wrong = next((key for key, value in tensors.items() if not bool(value.isfinite().all())), None)
    return None if wrong is None else f"{wrong} has values that are no finite numbers"


def assert_fields(found: Any, kind: type) -> None:
    """Refuses an object of JSON whose values are not of the types of the fields of a class; those that are missing are not looked at.

    Raises:
        IncidenceError: One is not.
    """
    for name, hint in get_type_hints(kind).items():
        if name in found and is_dataclass(hint):
            assert_fields(found[name], cast("type", hint))
        elif name in found and not _fits(found[name], hint):
            raise IncidenceError(f"`{name}` cannot be {shown(found[name])}.")


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value of JSON is of a type; a tuple is a list there."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin is Literal:
        return value in inner
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _fits(key, inner[0]) and _fits(one, inner[1]) for key, one in value.items()
        )
    if origin is tuple:
        return isinstance(value, (list, tuple)) and all(_fits(one, inner[0]) for one in value)
    return isinstance(value, hint) and not isinstance(value, bool)


def told_score(metrics: Mapping[str, Any], metric: str) -> str:
    """How well a model does, of the last part that it was measured on; nothing if the metrics of its run do not tell.

    Example:
        >>> told_score({"test": {"rmse": 0.5, "baseline": {"rmse": 1.25}}}, "rmse")
        'test rmse 0.5, baseline 1.25'
    """
    part = next((name for name in ("test", "validation", "train") if name in metrics), "")
    score = metrics.get(part)
    beside = score.get("baseline") if isinstance(score, Mapping) else None
    told = [of.get(metric) if isinstance(of, Mapping) else None for of in (score, beside)]
    words = [f"{value:.4g}" for value in told if isinstance(value, (int, float))]
    return f"{part} {metric} {', baseline '.join(words)}" if len(words) == 2 else ""


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows, the names of the columns first, as the text of a CSV file; no cell is a formula to a program that opens it.

    Example:
        >>> print(csv_text([["name", "value"], ["=HYPERLINK(A1)", -0.5]]), end="")
        name,value
        '=HYPERLINK(A1),-0.5
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_inert(cell) for cell in row] for row in rows)
    return text.getvalue()


def apart(own: Sequence[str], made: Sequence[str]) -> list[str]:
    """The names of a user's columns beside those that are made, such that no two are the same.

    Example:
        >>> apart(["id", "part", "smiles"], ["part", "name", "predicted"])
        ['id', 'input part', 'smiles']
        >>> apart(["name", "input name"], ["name"])
        ['input input name', 'input name']
    """
    found = []
    for name in own:
        free = name
        while free in made or (free != name and free in own):
            free = f"input {free}"
        found.append(free)
    return found


def _inert(cell: object) -> object:
    """A cell that spreadsheets take for a text or a number: an apostrophe stands before what they would compute."""
    cell = (
        cell.replace("\r", " ") if isinstance(cell, str) else cell
    )  # the writer does not quote it, and what follows would be a row
    if not isinstance(cell, str) or not cell.lstrip().startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def write(path: Path, content: str | bytes) -> None:
    """Writes a file, at once or not at all; a full disk is told as such."""
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def short(error: Exception) -> str:
    """What an error says, on one line."""
    return " ".join(str(error).split())[:300]


def _typed() -> list[str]:
    """The words that started this process, so that they can be typed again: a script, or the command line as it was called."""
    script = Path(sys.argv[0])
    is_ours = script.name == "incidence" or (
        script.name == "__main__.py" and script.parent.name == "incidence"
    )
    return [*(command().split() if is_ours else [script.name]), *sys.argv[1:]]
