"""`ModelSpec`: what a trained model is, predicts and reads; `model.json` in the folder of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

import torch

from incidence.data.dataset import Task
from incidence.data.links import Links
from incidence.data.ratings import Ratings
from incidence.data.triples import Triples
from incidence.errors import IncidenceError, shown
from incidence.limits import assert_size, parse_json
from incidence.models import Predictor, assert_has, make, read_channels, settings_of
from incidence.models.ensemble import Ensemble
from incidence.train.config import Config

__all__ = ["COMPLETIONS", "ModelSpec", "are_plain_numbers", "in_one_line", "problem_of"]

_FORMAT = 1
_MOST_NAMES = 5  # targets in a description
COMPLETIONS = {one.kind: one for one in (Ratings, Links, Triples)}
"""What completes entries that it knows, by the reader of such data."""


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """All that is needed to make a model again, to read files for it, and to recognise its data.

    Attributes:
        format: The format of this description.
        data: The data that it was trained on.
        model: The preset, or the tensors that it reads.
        settings: All settings of the network, so that later presets and defaults change nothing.
        in_channels: The channels of the features, by tensor.
        task: What it predicts.
        metric: The main metric.
        reader: The reader of files for it.
        reader_options: Options of the reader.
        lift: The lift that adds tensors to what was read.
        lift_options: Options of the lift.
        fingerprint: The fingerprint of the data.
        offset: The tensor whose first feature is added to the output of the network; may be empty.
        members: How many networks there are; the mean of several is predicted.
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
    members: int = 1

    def __repr__(self) -> str:
        """Return a line, however many columns the tables have."""
        channels = read_channels(self.model, self.in_channels)
        reads = ", ".join(f"{key}: {count}" for key, count in channels.items())
        return (
            f"ModelSpec({self.describe()}; {self.model} network that reads {reads}; trained on"
            f" {self.data})"
        )

    def describe(self) -> str:
        """Return what is predicted, in words."""
        names = ", ".join(self.task.names[:_MOST_NAMES])
        if len(self.task.names) > _MOST_NAMES:
            names += ", ..."
        if self.task.kind == "classification" and self.task.target:
            names = f"{self.task.target} ({len(self.task.names)} classes)"
        place = f" for every entry of `{self.task.at}`" if self.task.at else ""
        return f"{self.task.kind} of {names}{place}"

    @property
    def is_completion(self) -> bool:
        """Whether it completes what it knows, which is a file of the run: ratings, links."""
        return self.reader in COMPLETIONS

    def plain(self) -> dict[str, Any]:
        """Return the values as a JSON file has them."""
        values: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return values

    @staticmethod
    def from_json(text: str | bytes, where: str) -> ModelSpec:
        """Return the model that a text describes.

        Args:
            text: The text.
            where: What messages call the file.

        Raises:
            IncidenceError: It is no description of a model, or has another format.
        """
        values = parse_json(text, where, "description of a model")
        if isinstance(values, dict) and values.get("format", _FORMAT) != _FORMAT:
            raise IncidenceError(
                f"{where} has format {shown(values['format'])}; this version reads format"
                f" {_FORMAT}. Update the library."
            )
        damaged = f"{where} is no description of a model, or is damaged"
        try:
            _assert_types(values, ModelSpec)
            # refuses values that are out of bounds
            Config(**values["settings"], ensemble=values.get("members", 1))
            known = {
                f.name: values[f.name]
                for f in fields(ModelSpec)
                if f.name in values or f.default is MISSING
            }
            known["task"] = Task(**{key: _as_tuple(v) for key, v in values["task"].items()})
            known["settings"] = _with_defaults(values["settings"])
            return ModelSpec(**known)
        except IncidenceError as error:
            raise IncidenceError(f"{damaged}: {error}") from None
        except (LookupError, TypeError) as error:
            raise IncidenceError(f"{damaged}. Train again, or copy it anew.") from error

    def build(self) -> Predictor:
        """Return the predictor with fresh weights.

        Raises:
            TooLargeError: Its weights would take more memory than is allowed.
        """
        weights = list(self.outline().parameters())
        size = sum(p.numel() * p.element_size() for p in weights)
        assert_size(size, f"a network with {sum(p.numel() for p in weights):,} weights")
        return self._make()

    def outline(self) -> Predictor:
        """Return the predictor with the shapes of weights alone, which take no memory."""
        with torch.device("meta"):
            return self._make()

    def _make(self) -> Predictor:
        settings = {key: _as_tuple(value) for key, value in self.settings.items()}
        assert_has(self.model, self.in_channels)
        channels = read_channels(self.model, self.in_channels)

        def member() -> Predictor:
            net = make(self.model, channels, self.task.out_channels, self.task.at, **settings)
            return Predictor(net, self.task.kind, offset=self.offset)

        if self.members == 1:
            return member()
        return Ensemble([member() for _ in range(self.members)])

    def with_weights(
        self, state: Mapping[str, torch.Tensor], weights: str, where: str
    ) -> Predictor:
        """Return the predictor with the weights of a file, ready to predict.

        Args:
            state: The weights.
            weights: What messages call their file.
            where: What messages call the file with the description.

        Raises:
            IncidenceError: A weight is not finite, or the weights belong to another model.
        """
        problem = problem_of(state)
        if problem is not None:
            raise IncidenceError(f"{weights} is damaged: {problem}. Train again, or copy it anew.")
        single = {
            key: value.float() if value.is_floating_point() else value
            for key, value in state.items()
        }
        overflow = problem_of(single)
        if overflow is not None:
            raise IncidenceError(
                f"{weights} is damaged: {overflow} in single precision. Train again, or copy it"
                " anew."
            )
        try:
            predictor = self.outline()
        except (LookupError, TypeError, AttributeError, ValueError, RuntimeError) as error:
            raise IncidenceError(
                f"{where} is no description of a model, or is damaged: {in_one_line(error)}"
            ) from error
        try:
            # compares the shapes, and takes the tensors of the file as weights
            predictor.load_state_dict(single, assign=True)
        except RuntimeError as error:
            raise IncidenceError(
                f"{weights} belongs to another model than {where}: {in_one_line(error)}"
            ) from error
        return predictor.eval()

    def assert_same(self, other: Any, what: str) -> None:
        """Check that another description is the same.

        Args:
            other: Plain values.
            what: What the message says about a difference.

        Raises:
            IncidenceError: It differs.
        """
        other = dict(other) if isinstance(other, Mapping) else {}
        if isinstance(other.get("settings"), Mapping):
            other["settings"] = _with_defaults(other["settings"])
        for key, value in self.plain().items():
            if value != other.get(key):
                raise IncidenceError(
                    f"{what}: {key} is {other.get(key)!r} there and {value!r} here. Nothing was"
                    " changed."
                )


def _with_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the plain defaults of those that are missing.

    Presets do not fill them: they may have changed since the run.
    """
    defaults = json.loads(json.dumps(settings_of("i", {})))
    return {**defaults, **settings}


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_NUMBERS = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool]
_NUMBERS += [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def are_plain_numbers(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has ordinary numbers, and all of them in memory.

    A file may describe a tensor of 10^12 entries and store a single one.
    """
    return (
        tensor.layout is torch.strided
        and not (tensor.is_nested or tensor.is_quantized or tensor.is_meta)
        and tensor.dtype in _NUMBERS
        and tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()
    )


def problem_of(state: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the first bad tensor among some values, or None."""
    tensors = {key: value for key, value in state.items() if isinstance(value, torch.Tensor)}
    for key, value in tensors.items():
        if not are_plain_numbers(value):
            return f"{shown(key)} has no ordinary numbers, one for each of its entries"
    for key, value in tensors.items():
        if not bool(value.isfinite().all()):
            return f"{key} has values that are no finite numbers"
    return None


def _assert_types(values: Any, kind: type) -> None:
    """Check the values of a JSON object against the fields of a dataclass.

    Raises:
        IncidenceError: One has another type.
    """
    for name, hint in get_type_hints(kind).items():
        if name not in values:
            continue
        if is_dataclass(hint):
            _assert_types(values[name], cast("type", hint))
        elif not _is_of_type(values[name], hint):
            raise IncidenceError(f"`{name}` cannot be {shown(values[name])}.")


def _is_of_type(value: Any, hint: Any) -> bool:
    """Return whether a value of JSON, which has lists for tuples, is of a type."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin is Literal:
        return value in inner
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _is_of_type(key, inner[0]) and _is_of_type(one, inner[1]) for key, one in value.items()
        )
    if origin is tuple:
        return isinstance(value, (list, tuple)) and all(_is_of_type(v, inner[0]) for v in value)
    return isinstance(value, hint) and not isinstance(value, bool)


def in_one_line(error: Exception) -> str:
    """Return the message of an error on one line."""
    return " ".join(str(error).split())[:300]
