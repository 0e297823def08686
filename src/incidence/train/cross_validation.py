"""`cross_validate`: a run for every fold of the data, and what they make together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import Any

from incidence.train.config import Config
from incidence.train.evaluation import Evaluation
from incidence.train.metrics import format_metric
from incidence.train.run import train

__all__ = ["CrossValidation", "cross_validate"]


@dataclass(frozen=True)
class CrossValidation:
    """The evaluations of all folds.

    Attributes:
        metric: The main metric.
        evaluations: The predictions and metrics of every fold, in order.
    """

    metric: str
    evaluations: tuple[Evaluation, ...]

    @property
    def values(self) -> list[float]:
        """The main metric on the test part of every fold."""
        return [one.scored.metrics[self.metric] for one in self.evaluations]

    @property
    def mean(self) -> float:
        """The mean of the main metric."""
        return fmean(self.values)

    @property
    def deviation(self) -> float:
        """The standard deviation of the main metric, as a sample."""
        return stdev(self.values) if len(self.values) > 1 else 0.0

    def __repr__(self) -> str:
        """Return mean, deviation, and the value of every fold."""
        numbers = [format_metric(value, self.metric) for value in self.values]
        mean, deviation = (format_metric(one, self.metric) for one in (self.mean, self.deviation))
        folds = f"{len(numbers)} folds: {', '.join(numbers)}"
        return f"CrossValidation({self.metric} {mean} ± {deviation}; {folds})"


def cross_validate(
    options: Mapping[str, Any] | Config | None = None,
    data: Any = None,
    cv: int = 5,
    is_shown: bool = False,
) -> CrossValidation:
    """Train on all folds but one, test on that one, for every fold in turn.

    Args:
        options: Options of `train`. With `out`, the runs stay in that folder, numbered from 1.
        data: Anything that `inc.data.load` takes, in place of the option `data`.
        cv: The number of folds.
        is_shown: Whether to print progress.

    Raises:
        IncidenceError: The options or the data do not allow it.
    """
    given = options.given() if isinstance(options, Config) else dict(options or {})
    out = given.pop("out", None)
    evaluations, metric = [], ""
    with TemporaryDirectory(prefix="incidence-") as temporary:
        for fold in range(cv):
            place = str(Path(out or temporary) / str(fold + 1))
            run = train({**given, "cv": cv, "split": fold, "out": place}, data, is_shown)
            if run is not None:  # None in processes other than the first
                metric = run.experiment.data.metric
                evaluations.append(run.evaluation)
    return CrossValidation(metric, tuple(evaluations))
