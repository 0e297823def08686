"""`Evaluation`: predictions and metrics of every part of a data set, as text and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite, isnan
from typing import Any

from torch import Tensor

from incidence.data.dataset import DataSet, Task
from incidence.errors import spelled
from incidence.train.metrics import HIGHER, format_metric, is_worse
from incidence.train.run_folder import csv_text, unlike

__all__ = ["PARTS", "Evaluation", "Score", "Scored", "describe_baseline"]

PARTS: tuple[str, ...] = ("test", "validation", "train")
"""The parts; the first one that there is counts."""
_BASELINES = {
    "accuracy": "the most frequent class",
    "ap": "a guess",
    "auc": "a guess",
    "rmse": "the mean of the training data",
    "mae": "the median of the training data",
}
"""What the baseline predicts, by metric."""
_MOST_SHOWN = 4  # targets in one line


@dataclass(frozen=True)
class Score:
    """The metrics of a network, and those of the baseline."""

    metrics: dict[str, float]
    baseline: dict[str, float]

    def is_worse(self, metric: str) -> bool:
        """Return whether the network is worse than the baseline."""
        return is_worse(self.metrics[metric], self.baseline[metric], metric)

    def describe(self, metric: str, unit: str = "") -> str:
        """Return one metric beside that of the baseline, as text."""
        ours = format_metric(self.metrics[metric], metric)
        return f"{ours}{unit}, against {format_metric(self.baseline[metric], metric)}"

    def plain(self) -> dict[str, Any]:
        """Return the numbers for JSON, with None for NaN and infinity."""
        return {**_finite(self.metrics), "baseline": _finite(self.baseline)}


def _finite(metrics: Mapping[str, float]) -> dict[str, float | None]:
    return {name: value if isfinite(value) else None for name, value in metrics.items()}


@dataclass(frozen=True)
class Scored:
    """The predictions of one part, with targets and metrics.

    Attributes:
        predicted: Numbers, or probabilities of classes or labels, (rows, columns).
        target: The targets of the rows.
        score: The metrics of all rows.
        places: For each row, the number of the example in the data set, and of the entry in it.
        by_target: The metrics of each number or label alone, if there are several.
    """

    predicted: Tensor
    target: Tensor
    score: Score
    places: list[tuple[int, int]]
    by_target: dict[str, Score] = field(default_factory=dict)

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the network."""
        return self.score.metrics

    @property
    def baseline(self) -> dict[str, float]:
        """The metrics of the baseline."""
        return self.score.baseline

    def __repr__(self) -> str:
        """Return a line, however many predictions there are."""
        words = "; ".join(
            f"{name} {format_metric(value, name)}, baseline"
            f" {format_metric(self.baseline[name], name)}"
            for name, value in self.metrics.items()
        )
        return f"Scored({len(self.target):,} rows: {words})"


@dataclass(frozen=True)
class Evaluation:
    """The scored parts of a data set.

    Attributes:
        data: The data set.
        parts: The parts by name.
        other: Predictions for rows that belong to no part.
        about: Where the parts come from, if it is not the data of the run.
    """

    data: DataSet
    parts: dict[str, Scored]
    other: Scored | None = None
    about: str = ""

    @property
    def task(self) -> Task:
        """What is predicted."""
        return self.data.task

    @property
    def part(self) -> str:
        """The part that counts: the first of test, validation and train that there is."""
        return next(name for name in PARTS if name in self.parts)

    @property
    def scored(self) -> Scored:
        """The scores of the part that counts."""
        return self.parts[self.part]

    def __repr__(self) -> str:
        """Return the metrics of every part."""
        return f"Evaluation of {self.data.name}\n{self.scores()}"

    def line(self) -> str:
        """Return the main metric beside that of the baseline, in one line."""
        metric = self.data.metric
        unit = f" {self.task.unit}" if self.task.unit and metric not in HIGHER else ""
        values = "; ".join(self.each_target()) or self.scored.score.describe(metric, unit)
        baseline = describe_baseline(self.data, metric)
        return f"{self.data.name}: {self.part} {metric} {values} for {baseline}"

    def each_target(self) -> list[str]:
        """Return the main metric of each of several numbers, which have no common scale."""
        if self.task.kind != "regression":
            return []
        metric, by_target = self.data.metric, self.scored.by_target
        lines = [f"{name} {score.describe(metric)}" for name, score in by_target.items()]
        more = len(lines) - _MOST_SHOWN
        return [*lines[:_MOST_SHOWN], *([f"and {more} more"] if more > 0 else [])]

    def cautions(self) -> list[str]:
        """Return what must stand beside the main metric: a better baseline, or no test part."""
        return [text for text in (self._verdict(), self._no_test_part()) if text]

    def _verdict(self) -> str:
        """Return that the baseline is better, for some or all targets; or nothing."""
        metric, scored = self.data.metric, self.scored
        if self.task.kind == "regression" and scored.by_target:
            worse = [name for name, score in scored.by_target.items() if score.is_worse(metric)]
            if 0 < len(worse) < len(scored.by_target):
                return f"Worse than the baseline: {', '.join(worse)}."
            is_bad = bool(worse)
        else:
            is_bad = scored.score.is_worse(metric)
        return "That is worse than the baseline." if is_bad else ""

    def _no_test_part(self) -> str:
        if self.part == "test":
            return ""
        seen = "the model was trained on" if self.part == "train" else "may have chosen the model"
        return f"There is no test part: these rows {seen}, and new rows may be predicted worse."

    def scores(self) -> str:
        """Return the metrics of every part as a table, and notes about them."""
        lines = [f"{'part':<12}{'rows':>7}  {'metric':<10}{'network':>10}{'baseline':>10}"]
        for name, part in self.parts.items():
            for metric, value in part.metrics.items():
                if isnan(value) and isnan(part.baseline[metric]):  # as ranks of training rows
                    continue
                row = f"{name:<12}{len(part.target):>7}  {metric:<10}"
                lines.append(f"{row}{value:>10.4g}{part.baseline[metric]:>10.4g}")
        caution = self._no_test_part()
        return "\n".join([*lines, *([caution] if caution else []), *self.notes()])

    def notes(self) -> list[str]:
        """Return what one must know about the metrics: the parts, and metrics to ignore."""
        notes = [self.about] if self.about else []
        for name, part in self.parts.items():
            note = _one_class(self.task, name, part)
            if note:
                notes.append(note)
        for name, part in self.parts.items():
            num_absent = int((part.target == 0).sum())
            void = " and ".join(f"hits@{rank}" for rank in self.task.ranks if num_absent < rank)
            if void:
                notes.append(
                    spelled(
                        f"The {name} part has {num_absent} absent links, too few for {void}: 100 %"
                        " whatever is predicted. Draw more with `--data-options negatives=5`."
                    )
                )
        return notes

    def metrics(self) -> dict[str, Any]:
        """Return all numbers for a JSON file, with None for NaN and infinity."""
        numbers = {name: part.score.plain() for name, part in self.parts.items()}
        for name, part in self.parts.items():
            if part.by_target:
                targets = {target: score.plain() for target, score in part.by_target.items()}
                numbers[name]["targets"] = targets
        return numbers

    def table(self) -> str:
        """Return every prediction beside its target, as the text of a CSV file."""
        columns = list(self.data.columns)
        labels = self.data.label_columns
        first = ["part", *labels[: len(labels) - len(columns)]]
        last = self._prediction_columns()
        rows: list[list[object]] = [[*first, *unlike(columns, [*first, *last]), *last]]
        parts = dict(self.parts)
        if self.other is not None:
            parts["other"] = self.other
        for name, part in parts.items():
            values = zip(part.places, part.predicted.tolist(), part.target.tolist(), strict=True)
            for (example, entry), predicted, target in values:
                label = self.data.label(example, entry)
                rows.append([name, *label, *self._cells(predicted, target)])
        return csv_text(rows)

    def _prediction_columns(self) -> list[str]:
        names = self.task.names
        probabilities = [f"p({name})" for name in names]
        if self.task.kind == "classification":
            return ["target", "predicted", *probabilities]
        targets = [f"target {name}" for name in names]
        if self.task.kind == "multilabel":
            return [*targets, *probabilities]
        return [*targets, *(f"predicted {name}" for name in names)]

    def _cells(self, predicted: list[float], target: Any) -> list[str]:
        """Return the cells of a row in the columns of predictions."""
        names = self.task.names
        if self.task.kind == "classification":
            best = names[predicted.index(max(predicted))]
            true = names[target] if target >= 0 else ""
            return [true, best, *(f"{p:.6g}" for p in predicted)]
        targets = target if isinstance(target, list) else [target]
        return ["" if isnan(value) else f"{value:.7g}" for value in (*targets, *predicted)]


def _one_class(task: Task, name: str, part: Scored) -> str:
    """Return a note on a part with one class, for which AUC is undefined; or nothing."""
    if task.ranks or "auc" not in part.metrics:
        return ""
    if task.kind == "classification":
        classes = part.target[part.target >= 0].unique().tolist()
        if len(classes) != 1:
            return ""
        only = f"class only, {task.names[classes[0]]}"
    else:
        labels = [one for one, score in part.by_target.items() if isnan(score.metrics["auc"])]
        if not labels:
            return ""
        more = f" and {len(labels) - _MOST_SHOWN} more" if len(labels) > _MOST_SHOWN else ""
        only = f"value only of {', '.join(labels[:_MOST_SHOWN])}{more}"
    return f"The {name} part has one {only}: no AUC and no ROC curve."


def describe_baseline(data: DataSet, metric: str) -> str:
    """Return what the baseline of a metric predicts."""
    if data.completion is None:
        return _BASELINES.get(metric, "the baseline")
    names = list(data.completion.baselines)
    if len(names) == 1:
        return names[0]
    return f"the best of {', '.join(names[:-1])} and {names[-1]}"
