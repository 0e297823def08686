"""Options that fit data rather than its kind of files: what one structure with known and unknown entries needs, and which metric counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from incidence.data import DataSet, Split
from incidence.errors import IncidenceError
from incidence.train.evaluate import metrics_of

__all__ = ["recipe_within", "with_metric"]

_MANY = {"model": "nodes", "epochs": 200, "lr": 3e-3}
_FEW = {
    "model": "diffusion", "epochs": 200, "lr": 1e-2, "optimizer": "adam", "weight_decay": 5e-4, "warmup": 0.0, "schedule": "constant",
    "clip": 0.0,
}  # fmt: skip
_COMPLETION = {"model": "completion", "epochs": 40, "batch_size": 1, "lr": 5e-3, "weight_decay": 1e-2}
_WATCHED = {"keep": "best", "patience": 100}
"""With a validation part."""


def recipe_within(data: DataSet, split: Split) -> Mapping[str, Any]:
    """Options for data that is learned within; none for other data.

    With fewer known rows than features, entries are mapped on their own and averaged over neighbours, weights decay, and features drop
    out: a network that had to learn what neighbours mean would remember the rows instead. With more, there are complete layers, but none
    that pools over the whole structure.
    """
    if not data.is_transductive:
        return {}
    if data.completion is not None:
        return {**_COMPLETION, **(_WATCHED if len(split.validation) else {})}
    features = data.examples[0].features
    is_few = len(split.train) < max((x.shape[1] for x in features.values()), default=0)
    scale = "rows" if any(map(_are_counts, features.values())) else "columns"
    return {**(_FEW if is_few else _MANY), "scale": scale, **(_WATCHED if len(split.validation) else {})}


def _are_counts(x: Tensor) -> bool:
    """Whether features are like counts of words: many columns, none below 0 and most of them 0."""
    return x.shape[1] > 1 and bool((x >= 0).all()) and float((x != 0).float().mean()) < 0.2


def with_metric(data: DataSet, metric: str) -> DataSet:
    """The same data with another metric that counts.

    Raises:
        IncidenceError: Its task has no such metric.
    """
    known = [str(name) for name in metrics_of(data.task)]
    if metric not in known:
        raise IncidenceError(f"the metrics of {data.name!r} are {', '.join(known)}; got {metric!r}.")
    return replace(data, metric=metric)
