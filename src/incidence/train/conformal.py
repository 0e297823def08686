r"""Intervals that cover a given share of new values, by split conformal prediction.

With the absolute errors $r_1 \le \dots \le r_n$ of rows that were not trained on, the interval
$\hat y \pm r_k$ with $k = \lceil (n + 1) c \rceil$ covers a new value with probability at least
$c$, if its row is drawn as these were.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from incidence.data.dataset import Task
from incidence.errors import IncidenceError
from incidence.limits import parse_json

__all__ = ["Calibration"]

_MOST = 2000  # errors that are stored for each number


@dataclass(frozen=True)
class Calibration:
    """The absolute errors on the validation part, ascending, for each number that is predicted."""

    errors: Mapping[str, tuple[float, ...]]

    @staticmethod
    def of(predicted: Tensor, target: Tensor, task: Task) -> Calibration:
        """Return the errors of predictions, (rows, numbers); of many rows, some at random."""
        target = target.reshape(predicted.shape)
        by_name = {}
        for name, column in zip(task.names, (predicted - target).abs().T, strict=True):
            known = column[~column.isnan()]
            if len(known) > _MOST:
                generator = torch.Generator().manual_seed(0)
                known = known[torch.randperm(len(known), generator=generator)[:_MOST]]
            by_name[name] = tuple(known.sort().values.tolist())
        return Calibration(by_name)

    def radius(self, name: str, coverage: float) -> float:
        """Return how far an interval reaches from the prediction.

        Raises:
            IncidenceError: The coverage is no share, or there are too few errors for it.
        """
        if not 0 < coverage < 1:
            raise IncidenceError(f"an interval covers a share between 0 and 1; got {coverage!r}.")
        errors = self.errors[name]
        number = ceil((len(errors) + 1) * coverage)
        if number > len(errors):
            needed = ceil(coverage / (1 - coverage))
            raise IncidenceError(
                f"intervals that cover {coverage:g} of the values need {needed} validation rows;"
                f" the run had {len(errors)}."
            )
        return errors[number - 1]

    def to_json(self) -> str:
        """Return the errors as a JSON file has them."""
        return json.dumps({name: list(values) for name, values in self.errors.items()}) + "\n"

    @staticmethod
    def read(path: Path) -> Calibration:
        """Read the file of a run.

        Raises:
            IncidenceError: There is none, or it is damaged.
        """
        try:
            text = path.read_bytes()
        except OSError as error:
            raise IncidenceError(
                "the run has no calibrated intervals: they need numbers as targets, and a"
                " validation part when it is trained (the option validation, such as 0.1)."
            ) from error
        values: Any = parse_json(text, str(path), "calibration")
        is_table = isinstance(values, dict) and all(map(_are_ascending, values.values()))
        if not is_table:
            raise IncidenceError(f"{path} is damaged. Train again, or copy it anew.")
        return Calibration({name: tuple(errors) for name, errors in values.items()})


def _are_ascending(errors: Any) -> bool:
    """Return whether a value is a list of errors in order."""
    if not isinstance(errors, list) or not all(isinstance(one, (int, float)) for one in errors):
        return False
    return all(0 <= low <= high for low, high in zip([0, *errors], errors, strict=False))
