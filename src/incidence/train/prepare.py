"""From a config to data and a model: what a run begins with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.data import DATA_SETS, DataSet, Parts, load
from incidence.data.lifts import LIFT_OPTIONS, lift_all
from incidence.errors import IncidenceError
from incidence.models import Predictor, find_preset, settings_of
from incidence.structure.examples import collate
from incidence.structure.storage import arrays_of
from incidence.train.batches import Batches, Order, training_batches
from incidence.train.config import RECIPES, Config, read_options
from incidence.train.folder import ModelSpec
from incidence.train.recipes import recipe_within, with_metric

__all__ = ["Prepared", "new_predictor", "prepare"]

_TOGETHER = 1024
_LAYOUT = ("smiles", "nodes", "keys", "tables")
"""Options that say what the user's own tables have."""


@dataclass(frozen=True)
class Prepared:
    """A config with nothing left open, its data after the lift, the parts of its split, and the lift."""

    config: Config
    data: DataSet
    parts: Parts
    lift: str
    lift_options: dict[str, Any]

    @cached_property
    def batches(self) -> Batches:
        """What the batches of training are made of."""
        augment = self.data.augment if self.config.augment else None
        return training_batches(self.parts.train, self.data.task, self.config.neighbours, augment)

    @cached_property
    def spec(self) -> ModelSpec:
        """What the model is, with a fingerprint of the data."""
        config, data = self.config, self.data
        return ModelSpec(
            data=config.data,
            model=config.model or "",
            settings=settings_of(config.model or "", config.settings()),
            in_channels={key: x.shape[1] for key, x in data.examples[0].features.items()},
            task=data.task,
            metric=data.metric,
            offset=data.task.at if data.completion is not None and data.task.kind == "regression" else "",
            reader=data.reader,
            reader_options=dict(data.reader_options),
            lift=self.lift,
            lift_options=self.lift_options,
            fingerprint=_fingerprint(self.parts),
        )


def prepare(config: Config, data: DataSet | None = None) -> Prepared:
    """Loads the data, if it is not at hand, and fills in what is left open: what its recipe says, then the preset of the model."""
    options = read_options(config.data_options or ())
    parts: dict[str, Any] = {"validation": config.validation, "seed": config.data_seed}
    is_in_hand = data is not None and data.name == config.data  # a folder here that is called so has nothing to do with it
    if data is None:
        of_data = {key: value for key, value in options.items() if key not in LIFT_OPTIONS}
        of_data |= {key: value for key in _LAYOUT if (value := getattr(config, key)) is not None}
        data = load(config.data, config.target, folder=config.folder, reader=config.reader, task=config.task, **of_data, **parts)
    else:
        data = load(data, **parts)
    kind = "links" if data.task.ranks else data.task.kind
    if config.task is not None and config.task != kind:
        has = f"the targets of {config.data!r} are for {kind}"
        raise IncidenceError(f"the task is {config.task}, and {has}: leave out --task, or change the data.")
    if kind == "classification" and len(data.task.names) < 2:
        raise IncidenceError(f"{data.name}: there is one class only, {data.task.names[0]!r}, so nothing to learn: see what --target is.")
    if config.metric is not None:
        data = with_metric(data, config.metric)
    named = DATA_SETS[config.data].recipe if config.data in DATA_SETS else {}
    split = data.split(config.split)
    config = config.with_recipe({**RECIPES.get(data.reader, RECIPES["example"]), **recipe_within(data, split), **named})
    lift_options = {key: value for key, value in read_options(config.data_options or ()).items() if key in LIFT_OPTIONS}
    preset, lift = find_preset(config.model or ""), config.lift
    if lift is None:  # none if the data has all the tensors of the model
        given = {Pattern(key) for key in data.examples[0].features}
        lift = "none" if preset.inputs and given.issuperset(EquivariantMap(f"{preset.inputs} -> ").inputs) else preset.lift
    if config.max_size is not None and lift != "none":
        lift_options["max_size"] = config.max_size
    if not len(split.train):
        raise IncidenceError(f"split {config.split} of {config.data!r} has no training data: it is there for comparison, not for training.")
    if data.completion is not None and (lift != "none" or lift_options):
        raise IncidenceError(
            f"what is known of {config.data!r} changes from part to part, so it has no lift: leave out --lift and --max-size."
        )
    if lift != "none" or lift_options:
        data = replace(data, examples=lift_all(list(data.examples), lift, **lift_options))
    # Paths that lead to the data from anywhere: a run may be resumed elsewhere.
    paths = {key: Path(path).expanduser() for key, path in (("folder", config.folder), ("data", config.data)) if path is not None}
    if is_in_hand or config.data in DATA_SETS or not paths["data"].exists():
        del paths["data"]
    absolute: dict[str, Any] = {key: str(path.resolve()) for key, path in paths.items()}
    for key, paths_of_tables in (("nodes", config.nodes), ("tables", config.tables)):
        if paths_of_tables is not None:
            absolute[key] = tuple(str(Path(path).expanduser().resolve()) for path in paths_of_tables)
    config = config.replace(**settings_of(config.model or "", config.settings()), **absolute)
    return Prepared(config, data, data.parts(split), lift, lift_options)


def new_predictor(prepared: Prepared) -> Predictor:
    """A predictor with fresh weights, scaled to the training data."""
    config, train, task = prepared.config, prepared.parts.train, prepared.data.task
    torch.manual_seed(config.seed)
    predictor = prepared.spec.build()
    predictor.fit_scales([e.features for e in train], [task.rows(e) for e in train])
    first = next(iter(Order(len(prepared.batches), config.batch_size, config.seed)))  # the first in a file are often alike
    batch = training_batches(train, task, config.neighbours)[first]
    return predictor.calibrate(batch.features, batch.structure)


def _fingerprint(parts: Parts) -> str:
    """Some letters that change with any structure, feature or target, with the parts and with their order."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(f"a part of {len(part)}".encode())
        for start in range(0, len(part), _TOGETHER):
            batch = collate(part[start : start + _TOGETHER])
            target = batch.target if isinstance(batch.target, dict) else {} if batch.target is None else {"": batch.target}
            arrays = arrays_of(batch.structure)
            arrays |= {f"feature {key}": x.cpu().numpy() for key, x in batch.features.items()}
            arrays |= {f"target {key}": x.cpu().numpy() for key, x in target.items()}
            for key, array in arrays.items():
                digest.update(f"{key} {array.dtype} {array.shape}".encode())
                digest.update(array.tobytes())
    return digest.hexdigest()
