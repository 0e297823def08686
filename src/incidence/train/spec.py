"""`ModelSpec`: what a trained model is and reads, in plain values; `model.json` in the folder of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from incidence.data.dataset import Task
from incidence.errors import IncidenceError
from incidence.models import Predictor, make

__all__ = ["ModelSpec"]

_FORMAT = 1


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

    def plain(self) -> dict[str, Any]:
        """The values as a file has them: no tuples, and nothing that JSON does not know."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return found

    @staticmethod
    def read(text: str, where: str) -> ModelSpec:
        """The spec of a file.

        Raises:
            IncidenceError: It is none, or of another format.
        """
        try:
            found = json.loads(text)
        except ValueError as error:
            raise IncidenceError(f"{where} cannot be read: {error}.") from error
        if isinstance(found, dict) and found.get("format", _FORMAT) != _FORMAT:
            raise IncidenceError(f"{where} has format {found['format']!r}; this version reads format {_FORMAT}. Update the library.")
        try:
            task = Task(**{**found["task"], "names": tuple(found["task"]["names"])})
            return ModelSpec(**{**{f.name: found[f.name] for f in fields(ModelSpec)}, "task": task})
        except (LookupError, TypeError) as error:
            raise IncidenceError(f"{where} is no description of a model, or is damaged. Train again, or copy it anew.") from error

    def build(self) -> Predictor:
        """The predictor, with fresh weights."""
        settings = {key: tuple(v) if isinstance(v, list) else v for key, v in self.settings.items()}
        net = make(self.model, self.in_channels, self.task.out_channels, self.task.at, **settings)
        return Predictor(net, is_regression=self.task.kind == "regression")

    def assert_same(self, other: Any, what: str) -> None:
        """Refuses to go on with a model that was described in another way.

        Raises:
            IncidenceError: The message says what differs.
        """
        other = other if isinstance(other, Mapping) else {}
        for key, value in self.plain().items():
            if value != other.get(key):
                raise IncidenceError(f"{what}: {key} is {other.get(key)!r} there and {value!r} here. Nothing was changed.")
