"""How good predictions are: metrics of every part, and of finished runs on any data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence.data import DataSet, Parts, Split, Task, load
from incidence.data.completion import Completion
from incidence.data.prepared import preparation_of
from incidence.errors import IncidenceError, options_as
from incidence.models import Predictor
from incidence.structure.collate import collate
from incidence.structure.example import Example
from incidence.train.config import Config
from incidence.train.evaluation import Evaluation, Score, Scored
from incidence.train.export import SUFFIXES
from incidence.train.inputs import data_for_model, is_lifted, lifted
from incidence.train.metrics import HIGHER, metrics_of, update
from incidence.train.model_spec import ModelSpec
from incidence.train.prepare import fingerprint, load_for, prepare
from incidence.train.recipes import with_metric
from incidence.train.run_folder import RunFolder

__all__ = ["OF_OWN_DATA", "evaluate", "evaluate_other", "evaluate_run"]

_PARTING = {
    "split": 0,
    "data_seed": 0,
    "validation": None,
    "cv": None,
    "groups": None,
    "time": None,
    "data_options": None,
}
"""Options that decide the parts of data; those of a run do not apply to other data."""
_DRAWING = ("validation", "cv", "groups", "time")  # those that draw parts for training
OF_OWN_DATA: Mapping[str, Any] = {
    **_PARTING,
    "nodes": None,
    "tables": None,
    "task_table": None,
    "target": None,
}
"""Options that concern the data of a run alone: its parts, further tables, and its target."""


def evaluate(
    predictor: Predictor, data: DataSet, split: Split, parts: Parts, batch_size: int = 64
) -> Evaluation:
    """Score every part of a split that has examples, and predict the rows of no part.

    Args:
        predictor: The network.
        data: The data set.
        split: The split.
        parts: The examples of its parts.
        batch_size: How many examples to predict at once.
    """
    predictor.eval()
    # other data than that of the run may have no training part
    trained = _targets(next(part for part in parts if part), data.task)
    scorer = _Scorer(predictor, data, trained, batch_size)
    scored = {
        name: scorer.score(examples, rows)
        for name, examples, rows in zip(Split._fields, parts, data.order(split), strict=True)
        if examples
    }
    if data.completion is not None and _has_ranks(data, data.completion):
        for name, rows in zip(Split._fields, split, strict=True):
            if name in scored:
                scored[name] = scorer.with_ranks(scored[name], _known_for(name, split), rows)
    rest = data.rest(split)
    return Evaluation(data, scored, scorer.score(rest, data.others(split)) if rest else None)


def _has_ranks(data: DataSet, completion: Completion) -> bool:
    """Return whether ranks among all candidates are measured: they are cheap, or are named."""
    is_cheap = bool(completion.ranked) and completion.is_cheap_to_rank
    return is_cheap or data.metric in completion.ranked


def _known_for(part: str, split: Split) -> Tensor | None:
    """Return the rows that are known when a part is predicted; training is not ranked."""
    if part == "train":
        return None
    return split.train if part == "validation" else torch.cat([split.train, split.validation])


class _Scorer(NamedTuple):
    """Scores parts of a data set.

    Attributes:
        predictor: The network.
        data: The data set.
        trained: The targets of training, which the baseline knows.
        batch_size: How many examples to predict at once.
    """

    predictor: Predictor
    data: DataSet
    trained: Tensor
    batch_size: int

    def score(self, examples: Sequence[Example], rows: Tensor) -> Scored:
        """Return the predictions of one part, whose rows are given by number.

        Of entries of many examples, only those with a target are predicted.
        """
        data, task = self.data, self.data.task
        starts = range(0, len(examples), self.batch_size)
        batches = (collate(examples[start : start + self.batch_size]) for start in starts)
        predicted = torch.cat([self.predictor.predict(b.features, b.structure) for b in batches])
        target, places = _targets(examples, task), _places(data, examples, rows)
        if task.at and data.completion is None:
            if not data.is_transductive:
                rows = task.is_known(target).reshape(len(target), -1).any(1).nonzero()[:, 0]
            predicted, target = predicted[rows], target[rows]
            places = [places[row] for row in rows.tolist()]
        baseline = {
            metric: self._baseline(examples, target, metric)
            for metric in map(str, metrics_of(task))
        }
        score = Score(_metrics(task, predicted, target), baseline)
        return Scored(predicted, target, score, places, self._by_target(predicted, target))

    def with_ranks(self, scored: Scored, known: Tensor | None, rows: Tensor) -> Scored:
        """Return the scores of a part with metrics of ranks among all candidates."""
        completion = self.data.completion
        assert completion is not None  # nothing else has ranks
        ours, blind = scored.metrics, scored.baseline
        if known is None:
            nothing = dict.fromkeys(completion.ranked, nan)
            return replace(scored, score=Score({**ours, **nothing}, {**blind, **nothing}))

        def score(example: Example) -> Tensor:
            return self.predictor.predict(example.features, example.structure)[:, -1]

        ranks = completion.rank(known, rows, score)
        others = [
            completion.rank(known, rows, partial(_baseline_score, completion, name))
            for name in completion.baselines
        ]
        best = {name: max(one[name] for one in others) for name in ranks}
        if self.data.metric in ranks:  # the main metric comes first
            return replace(scored, score=Score({**ranks, **ours}, {**best, **blind}))
        return replace(scored, score=Score({**ours, **ranks}, {**blind, **best}))

    def _by_target(self, predicted: Tensor, target: Tensor) -> dict[str, Score]:
        """Return the metrics of each number or label alone, if there are several."""
        task = self.data.task
        if task.kind == "classification" or len(task.names) == 1:
            return {}
        target = target.reshape(predicted.shape)
        trained = self.trained.reshape(-1, len(task.names))
        scores = {}
        for k, name in enumerate(task.names):
            alone, y = replace(task, names=(name,)), target[:, k : k + 1]
            baseline = {}
            for metric in map(str, metrics_of(alone)):
                guess = _best_constant(alone, trained[:, k : k + 1], len(y), metric)
                baseline[metric] = _metrics(alone, guess, y)[metric]
            scores[name] = Score(_metrics(alone, predicted[:, k : k + 1], y), baseline)
        return scores

    def _baseline(self, examples: Sequence[Example], target: Tensor, metric: str) -> float:
        """Return a metric of the baseline; of the best baseline, if there are several."""
        task, completion = self.data.task, self.data.completion
        if completion is None:
            guesses = [_best_constant(task, self.trained, len(target), metric)]
        else:
            found = [completion.baseline(example) for example in examples]
            columns = [torch.cat([one[name] for one in found]) for name in completion.baselines]
            is_class = task.kind == "classification"
            guesses = [torch.stack([-x, x], 1) if is_class else x[:, None] for x in columns]
        scores = [_metrics(task, guess, target)[metric] for guess in guesses]
        return max(scores) if metric in HIGHER else min(scores)


def _baseline_score(completion: Completion, name: str, example: Example) -> Tensor:
    return completion.baseline(example)[name]


def _best_constant(task: Task, trained: Tensor, count: int, metric: str) -> Tensor:
    """Return what the best predictor says that knows the training targets alone, (count, columns).

    They are the frequencies of classes, or the mean or median of numbers.
    """
    if task.kind == "classification":
        frequencies = torch.bincount(trained[trained >= 0], minlength=len(task.names)).float()
        return (frequencies / frequencies.sum().clamp(min=1)).expand(count, -1)
    rows = trained.reshape(-1, len(task.names))
    best = rows.nanmedian(0).values if metric == "mae" else rows.nanmean(0)
    return best.expand(count, -1)


def _places(data: DataSet, examples: Sequence[Example], rows: Tensor) -> list[tuple[int, int]]:
    """Return the example and the entry of every row that is predicted."""
    if data.completion is not None:
        return [(0, row) for row in rows.tolist()]
    numbers = [0] if data.is_transductive else rows.tolist()
    if not data.task.at:
        return [(number, 0) for number in numbers]
    counts = [len(data.task.rows(one)) for one in examples]
    pairs = zip(numbers, counts, strict=True)
    return [(number, entry) for number, count in pairs for entry in range(count)]


def _targets(examples: Sequence[Example], task: Task) -> Tensor:
    return torch.cat(task.rows_of_all(examples))


def _metrics(task: Task, predicted: Tensor, target: Tensor) -> dict[str, float]:
    metrics = metrics_of(task)
    if not task.is_known(target).any():
        return dict.fromkeys(map(str, metrics.keys()), nan)
    update(metrics, predicted, target, task)
    return {name: float(value) for name, value in metrics.compute().items()}


@options_as("config")
def evaluate_run(run: Path, changes: Mapping[str, Any]) -> tuple[Evaluation, str]:
    """Return the metrics of a finished run on its data or on other data, and the main metric.

    Args:
        run: The folder of the run.
        changes: Options about data that replace those of the run, such as `data` and `target`.

    Raises:
        IncidenceError: The data of the run has changed; other data is for another task; or an
            option asks for other parts.
    """
    if run.suffix in SUFFIXES:
        raise IncidenceError(
            f"{run} is an exported model, which only predicts: give the folder of its run."
        )
    folder = RunFolder.open(run)
    predictor, spec = folder.load()
    trained = folder.read_config()
    is_own = _is_same_path(changes.get("data", trained.data), trained.data)
    _assert_no_other_parts(changes, trained, is_own)
    if is_own:
        config = trained.replace(**changes)
        evaluation = _on_own_data(predictor, spec, config, is_named="data" in changes)
        if evaluation is not None:
            return evaluation, evaluation.data.metric
    dropped = {"target": None} if is_own else OF_OWN_DATA
    config = trained.replace(**{**dropped, **changes})

    def read(target: str | Sequence[str] | None) -> DataSet:
        return load_for(config, config.data, spec, target=target)

    data = data_for_model(read, config.data, spec, config.target)
    if config.metric is not None:
        data = with_metric(data, config.metric)
    return evaluate_other(predictor, spec, trained, data, config.split), data.metric


def _is_same_path(one: str, other: str) -> bool:
    return Path(one).expanduser().resolve() == Path(other).expanduser().resolve()


def _assert_no_other_parts(changes: Mapping[str, Any], trained: Config, is_own: bool) -> None:
    """Refuse options that would draw other parts than those of the run."""
    changed = [
        name for name in _PARTING if name in changes and changes[name] != getattr(trained, name)
    ]
    if is_own and changed:
        raise IncidenceError(
            f"leave out --{changed[0].replace('_', '-')}: other parts of the data of the run have"
            " rows that it was trained on. Give other data with --data."
        )
    drawing = next((name for name in changed if name in _DRAWING), None)
    if drawing is not None:
        raise IncidenceError(
            f"leave out --{drawing}: nothing is trained here, so all rows of other data are one"
            " part, unless it defines its parts."
        )


def _on_own_data(
    predictor: Predictor, spec: ModelSpec, config: Config, is_named: bool
) -> Evaluation | None:
    """Return the metrics on the data of the run; None if it has changed, and was named again."""
    try:
        experiment = prepare(config, model=spec)
    except IncidenceError:
        if is_named:
            return None
        raise
    if experiment.spec.fingerprint == spec.fingerprint:
        data = experiment.data
        split = data.split(experiment.config.split)
        return evaluate(predictor, data, split, experiment.parts, config.batch_size)
    if is_named:
        return None
    raise IncidenceError(
        f"{config.data} has changed since training, or is read differently now, so the rows of the"
        " test part are not known any more. To measure on all rows, as on other data, give"
        f" `--data {config.data}`."
    )


def evaluate_other(
    predictor: Predictor, spec: ModelSpec, trained: Config, data: DataSet, split: int = 0
) -> Evaluation:
    """Return the metrics of a model on other data.

    All of it is one test part, unless the data defines its parts, or is that of the run.

    Args:
        predictor: The network.
        spec: What the model is.
        trained: The options that it was trained with.
        data: Data for the model, as `data_for_model` returns it.
        split: Which of the splits that the data defines.
    """
    if preparation_of(data) is None or not is_lifted(data.examples[0], spec):
        data = replace(data, examples=[lifted(example, spec) for example in data.examples])
    measured = _parts_of_run(data, spec, trained) or _parts_of_data(data, split)
    evaluation = evaluate(predictor, data, measured.split, measured.parts, trained.batch_size)
    return replace(evaluation, about=measured.about)


class _Measured(NamedTuple):
    """Parts that are measured, and where they come from, in words."""

    split: Split
    parts: Parts
    about: str


def _parts_of_run(data: DataSet, spec: ModelSpec, trained: Config) -> _Measured | None:
    """Return the parts of the run, if this is its data under another name or path."""
    candidates = [data]
    if data.has_drawn_parts:  # by another seed, perhaps
        candidates.append(replace(data, splits=(), has_drawn_parts=False))
    for candidate in candidates:
        # without such a column, or such a split, it is not the data of the run
        with suppress(IncidenceError):
            split = load(
                candidate,
                validation=trained.validation,
                seed=trained.data_seed,
                cv=trained.cv,
                groups=trained.groups,
                time=trained.time,
            ).split(trained.split)
            parts = data.parts(split)
            if fingerprint(parts) == spec.fingerprint:
                about = f"{data.name} is the data of the run: the parts are those of training."
                return _Measured(split, parts, about)
    return None


def _parts_of_data(data: DataSet, number: int) -> _Measured:
    """Return the parts that data defines, or one test part.

    Of ratings and links some must be known, so that parts are drawn.
    """
    if data.splits and not data.has_drawn_parts:
        about = f"The parts are those that {data.name} defines."
        return _Measured(data.split(number), data.parts(number), about)
    if data.completion is not None:
        drawn = data if data.splits else data.with_parts()
        about = f"The parts of {data.name} are drawn: what is not queried is known."
        return _Measured(drawn.split(number), drawn.parts(number), about)
    nothing = torch.zeros(0, dtype=torch.long)
    split = Split(nothing, nothing, torch.arange(data.num_rows))
    about = f"{data.name} defines no parts, so all of it is for testing."
    return _Measured(split, data.parts(split), about)
