"""From options to data and a model: what a run begins with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.data import DATA_SETS, DataSet, Parts
from incidence.data.checks import sound
from incidence.data.lifts import LIFT_OPTIONS, lift_all
from incidence.data.loading import load_data, read_options
from incidence.data.splits import held_out
from incidence.errors import IncidenceError
from incidence.models import Predictor, find
from incidence.structure.examples import collate
from incidence.train.batches import Order
from incidence.train.config import Config
from incidence.train.folder import Spec, build
from incidence.train.module import rows_of
from incidence.train.recipes import resolve

__all__ = ["Prepared", "lifting_of", "new_predictor", "prepare"]


class Prepared(NamedTuple):
    """Data and the description of a model, ready to train."""

    config: Config
    data: DataSet
    parts: Parts
    spec: Spec


def prepare(config: Config, given: Mapping[str, Any], data: DataSet | None = None) -> Prepared:
    """Loads the data, fills in what was left open, and describes the model.

    Args:
        config: The options.
        given: Those that the user gave; the recipe of the data decides about the others.
        data: The data, if it is at hand; else what the options name.

    Raises:
        IncidenceError: The data is missing or damaged, or does not fit the task or the model.
    """
    data = sound(_load(config)) if data is None else held_out(sound(data), config.validation, config.data_seed)
    config = resolve(config, given, data.reader)
    if config.task is not None and config.task != data.task.kind:
        wanted, has = config.task, data.task.kind
        raise IncidenceError(
            f"the task is {wanted}, and the targets of {config.data!r} are for {has}: leave out --task, or change the data."
        )
    if given.get("augment") and data.augment is None:
        raise IncidenceError(
            f"there is no way to change {config.data!r} a little, as there is for named data sets of meshes: leave out --augment."
        )
    lift, options = lifting_of(config, list(data.examples[0].features))
    split = data.split(config.split)
    if not len(split.train):
        raise IncidenceError(f"split {config.split} of {config.data!r} has no training data: it is there for comparison, not for training.")
    data = _with_examples(data, lift, options)
    config = config.replace(**_absolute(config))
    return Prepared(config, data, data.parts(split), _spec(config, data, lift, options))


def _absolute(config: Config) -> dict[str, str]:
    """Paths that lead to the data from anywhere: a run may be resumed elsewhere."""
    folder = {} if config.folder is None else {"folder": str(Path(config.folder).expanduser().resolve())}
    path = Path(config.data).expanduser()
    return {**folder, **({"data": str(path.resolve())} if config.data not in DATA_SETS and path.exists() else {})}


def _load(config: Config) -> DataSet:
    folder = None if config.folder is None else Path(config.folder).expanduser()
    plain = {key: value for key, value in read_options(config.data_options or ()).items() if key not in LIFT_OPTIONS}
    asked: dict[str, Any] = {
        "validation": config.validation,
        "task": config.task,
        "target": config.target,
        "reader": config.reader,
        "options": plain,
    }
    return load_data(config.data, folder, seed=config.data_seed, **asked)


def lifting_of(config: Config, features: list[str]) -> tuple[str, dict[str, Any]]:
    """Which lift the model needs, and its options: none if the data has all its tensors."""
    preset = find(config.model or "relational")
    have = {Pattern(key) for key in features}
    needs = not preset.inputs or not have.issuperset(EquivariantMap(f"{preset.inputs} -> ").inputs)
    name = config.lift if config.lift is not None else preset.lift if needs else "none"
    given = {key: value for key, value in read_options(config.data_options or ()).items() if key in LIFT_OPTIONS}
    return name, given if config.max_size is None or name == "none" else {**given, "max_size": config.max_size}


def _with_examples(data: DataSet, lift: str, options: Mapping[str, Any]) -> DataSet:
    return data if lift == "none" and not options else replace(data, examples=lift_all(list(data.examples), lift, **options))


def _spec(config: Config, data: DataSet, lift: str, options: Mapping[str, Any]) -> Spec:
    settings = config.section("model")
    model = settings.pop("model")
    aggr = settings.get("aggr")
    if aggr is not None and len(aggr) == 1:
        settings["aggr"] = aggr[0]
    return {
        "format": 1,
        "data": config.data,
        "model": model,
        "settings": settings,
        "in_channels": {key: x.shape[1] for key, x in data.examples[0].features.items()},
        "task": {**asdict(data.task), "names": list(data.task.names)},
        "metric": data.metric,
        "reader": data.reader,
        "reader_options": dict(data.reader_options),
        "lift": lift,
        "lift_options": dict(options),
    }


def new_predictor(prepared: Prepared) -> Predictor:
    """A predictor with fresh weights, scaled to the training data."""
    train = prepared.parts.train
    torch.manual_seed(prepared.config.seed)
    predictor = build(prepared.spec)
    predictor.fit_scales([e.features for e in train], [rows_of(e, prepared.data.task) for e in train])
    _, numbers = next(iter(Order(len(train), prepared.config.batch_size, prepared.config.seed)))  # the first in a file are often alike
    batch = collate([train[k] for k in numbers])
    return predictor.calibrate(batch.features, batch.structure)
