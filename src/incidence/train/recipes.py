"""Options that fit data rather than its kind of files: what one structure with known and unknown entries needs, and which metric counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data import DataSet, Split
from incidence.errors import IncidenceError
from incidence.train.agreement import agreement
from incidence.train.evaluate import metrics_of

__all__ = ["recipe_within", "with_metric"]

_WITHIN = {"epochs": 200, "lr": 1e-2, "warmup": 0.0, "schedule": "constant"}
_NODES = {"model": "nodes", "scale": "columns"}
_DIFFUSION = {"model": "diffusion", "optimizer": "adam", "weight_decay": 5e-4, "clip": 0.0}
_ALIKE = 0.4
"""The agreement of neighbours from which averages over them do better than what a network learns of them; see docs/nodes.md."""
_COMPLETION = {
    "model": "completion",
    "epochs": 40,
    "batch_size": 1,
    "lr": 5e-3,
    "weight_decay": 1e-2,
}
_WATCHED = {"keep": "best", "patience": 100}
"""With a validation part."""


def recipe_within(data: DataSet, split: Split) -> Mapping[str, Any]:
    """Options for data that is learned within; none for other data.

    With fewer known rows than features, entries are mapped on their own and averaged over neighbours, weights decay, and features drop
    out: a network that had to learn what neighbours mean would remember the rows instead. With more, or where the known labels show that
    neighbours are not alike, there are layers that learn what neighbours mean, but none that pools over the whole structure.
    """
    if not data.is_transductive:
        return {}
    if data.completion is not None:
        return {**_COMPLETION, **(_WATCHED if len(split.validation) else {})}
    features = data.examples[0].features
    is_few = len(split.train) < max((x.shape[1] for x in features.values()), default=0)
    found = agreement(data, split.train) if is_few else None
    chosen = (
        _diffusion(features)
        if is_few and (found is None or found >= _ALIKE)
        else _nodes(features, is_few)
    )
    return {**_WITHIN, **chosen, **(_WATCHED if len(split.validation) else {})}


def _diffusion(features: Mapping[str, Tensor]) -> dict[str, Any]:
    return {
        **_DIFFUSION,
        "scale": "rows" if any(map(_are_counts, features.values())) else "columns",
    }


def _nodes(features: Mapping[str, Tensor], is_few: bool) -> dict[str, Any]:
    """Half of all channels drop out where labels are few; what joins nodes is hidden, too, where it says more than that it is there."""
    says_more = any(_says_more(Pattern(key), x) for key, x in features.items())
    return {
        **_NODES,
        **({"dropout": 0.5} if is_few else {}),
        **({"through": ", ".join(features)} if says_more else {}),
    }


def _says_more(pattern: Pattern, x: Tensor) -> bool:
    """Whether entries that join nodes differ from each other, or have an order."""
    if not pattern.is_open and len(pattern.letters) < 2:
        return False
    sorts = [[one.sort for one in orbit.classes] for orbit in pattern.orbits]
    is_ordered = pattern.is_oriented or any(len(set(some)) < len(some) for some in sorts)
    return is_ordered or bool((x != x[:1]).any())


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
        raise IncidenceError(
            f"the metrics of {data.name!r} are {', '.join(known)}; got {metric!r}."
        )
    return replace(data, metric=metric)
