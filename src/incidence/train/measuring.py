"""How well a finished run does on data: its own, with the parts it was trained with, or other data.

All rows of other data are one part, unless it tells its parts. Whatever it is called and wherever it is, data with the fingerprint of the
run is its own: rows of training are never told as those of a test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from incidence.data import DataSet, Parts, Split, load
from incidence.errors import IncidenceError
from incidence.models import Predictor
from incidence.train.config import Config
from incidence.train.evaluate import Evaluation, evaluate
from incidence.train.exported import SUFFIXES
from incidence.train.fitting import for_other
from incidence.train.folder import ModelSpec, RunFolder
from incidence.train.prepare import fingerprint, loaded, prepare
from incidence.train.recipes import with_metric
from incidence.train.sources import lifted

__all__ = ["OF_OWN", "evaluate_other", "evaluate_run"]

_PARTING = {
    "split": 0,
    "data_seed": 0,
    "validation": None,
    "cv": None,
    "groups": None,
    "data_options": None,
}
"""Options that say what the parts of the data are; those of a run do not count for other data."""
_DRAWN = ("validation", "cv", "groups")
"""Those that have parts drawn, which is for training."""
OF_OWN: Mapping[str, Any] = {**_PARTING, "nodes": None, "tables": None, "target": None}
"""Options that are about the data of a run alone: its parts, its tables beside others, and what its target is called."""


def evaluate_run(run: Path, changes: Mapping[str, Any]) -> tuple[Evaluation, str]:
    """The metrics of a finished run on its own data, or on other data; and the metric that counts.

    Args:
        run: The folder of the run.
        changes: Options about data in place of those of the run, such as `data` and `target`.

    Raises:
        IncidenceError: The data of the run has changed; other data is for another task; or parts are asked for that it does not tell.
    """
    if run.suffix in SUFFIXES:
        raise IncidenceError(
            f"{run} is an exported model, which only predicts: give the folder of its run."
        )
    folder = RunFolder.open(run)
    predictor, spec = folder.load()
    trained = folder.read_config()
    asked, known = (
        Path(data).expanduser().resolve()
        for data in (changes.get("data", trained.data), trained.data)
    )
    drawn = next(
        (name for name in _PARTING if name in changes and changes[name] != getattr(trained, name)),
        None,
    )
    if drawn is not None and asked == known:
        raise IncidenceError(
            f"leave out --{drawn.replace('_', '-')}: in other parts of its own data there are rows that the run was trained on. "
            "Give other data with --data."
        )
    if asked == known:
        own = _on_own(predictor, spec, trained.replace(**changes), is_asked="data" in changes)
        if own is not None:
            return own, own.data.metric
    elif drawn in _DRAWN:
        raise IncidenceError(
            f"leave out --{drawn}: nothing is trained here, so all rows of other data are one part, unless it tells its own."
        )
    config = trained.replace(**{**(OF_OWN if asked != known else {"target": None}), **changes})

    def read(target: str | Sequence[str] | None) -> DataSet:
        return loaded(config, config.data, spec, target=target)

    data = for_other(read, config.data, spec, config.target)
    data = data if config.metric is None else with_metric(data, config.metric)
    return evaluate_other(predictor, spec, trained, data, config.split), data.metric


def _on_own(
    predictor: Predictor, spec: ModelSpec, config: Config, is_asked: bool
) -> Evaluation | None:
    """The metrics on the data of the run; None if that has changed, and was asked for by its path."""
    try:
        prepared = prepare(config, model=spec)
    except IncidenceError:
        if is_asked:
            return None
        raise
    if prepared.spec.fingerprint == spec.fingerprint:
        return evaluate(
            predictor,
            prepared.data,
            prepared.data.split(prepared.config.split),
            prepared.parts,
            config.batch_size,
        )
    if is_asked:
        return None
    raise IncidenceError(
        f"{config.data} is not what the run was trained on: its rows, their order, or what is read of them has changed, and nobody knows "
        f"which rows are those of its test part. To measure on all rows, as on other data, say --data {config.data}."
    )


def evaluate_other(
    predictor: Predictor, spec: ModelSpec, trained: Config, data: DataSet, split: int = 0
) -> Evaluation:
    """The metrics of a model on other data: all of it is for testing, unless it tells its parts, or is that of the run.

    Args:
        predictor: The network.
        spec: What the model is.
        trained: The options that it was trained with.
        data: What `for_other` gives.
        split: Which of the splits that the data tells.
    """
    data = replace(data, examples=[lifted(example, spec) for example in data.examples])
    own = _own_parts(data, spec, trained)
    chosen, parts, about = _told_parts(data, split) if own is None else own
    return replace(evaluate(predictor, data, chosen, parts, trained.batch_size), about=about)


_Measured = tuple[Split, Parts, str]  # and where the parts come from, in words


def _own_parts(data: DataSet, spec: ModelSpec, trained: Config) -> _Measured | None:
    """The parts of the run, if this is its data under another name or from another place."""
    parting: dict[str, Any] = {
        "validation": trained.validation,
        "seed": trained.data_seed,
        "cv": trained.cv,
        "groups": trained.groups,
    }
    for told in (
        (data, replace(data, splits=(), has_drawn_parts=False)) if data.has_drawn_parts else (data,)
    ):
        with suppress(
            IncidenceError
        ):  # there is no such column, or no such split: it is not the data of the run
            split = load(told, **parting).split(trained.split)
            parts = data.parts(split)
            if fingerprint(parts) == spec.fingerprint:
                return (
                    split,
                    parts,
                    f"{data.name} is what the run was trained on, so the parts are those of the run.",
                )
    return None


def _told_parts(data: DataSet, number: int) -> _Measured:
    """The parts that data tells, or all of it as one; of ratings and links some must be known, so that parts are drawn."""
    if data.splits and not data.has_drawn_parts:
        return (
            data.split(number),
            data.parts(number),
            f"The parts are those that {data.name} tells.",
        )
    if data.completion is not None:
        drawn = data if data.splits else data.with_parts()
        return (
            drawn.split(number),
            drawn.parts(number),
            f"The parts of {data.name} are drawn: what is not asked for is known.",
        )
    nothing = torch.zeros(0, dtype=torch.long)
    split = Split(nothing, nothing, torch.arange(data.num_rows))
    return split, data.parts(split), f"{data.name} tells no parts, so all of it is for testing."
