"""From a config to data and a model: what a run begins with."""

from __future__ import annotations

from collections.abc import Sequence
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
from incidence.data.loading import load_whole
from incidence.data.splitting import sizes_of
from incidence.data.tables import listed
from incidence.errors import IncidenceError
from incidence.models import Predictor, find_preset, settings_of
from incidence.structure.example import Example
from incidence.structure.examples import collate
from incidence.structure.storage import arrays_of
from incidence.train.batches import Batches, Order, training_batches
from incidence.train.config import RECIPES, Config, read_options
from incidence.train.fitting import for_model, options_for
from incidence.train.folder import ModelSpec
from incidence.train.recipes import recipe_within, with_metric

__all__ = ["Prepared", "fingerprint", "loaded", "new_predictor", "prepare"]

_TOGETHER = 1024
_LAYOUT = ("smiles", "nodes", "keys", "tables")
"""Options that say what the user's own tables have."""


@dataclass(frozen=True)
class Prepared:
    """A config with nothing left open, its data after the lift, the parts of its split, and the lift; `rows` are from before it."""

    config: Config
    data: DataSet
    parts: Parts
    lift: str
    lift_options: dict[str, Any]
    rows: Sequence[Example] = ()

    def __repr__(self) -> str:
        """A line, however large the data is."""
        return f"Prepared({self.data.name!r}: {sizes_of(self.parts)}; {self.config.model} network, lift {self.lift})"

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
            offset=data.task.at
            if data.completion is not None and data.task.kind == "regression"
            else "",
            reader=data.reader,
            reader_options=dict(data.reader_options),
            lift=self.lift,
            lift_options=self.lift_options,
            fingerprint=fingerprint(self.parts),
        )

    def fingerprint(self) -> str:
        """Of the data, whatever its parts are, and whatever is added to it for a model."""
        return fingerprint(Parts(list(self.rows), [], []))

    @property
    def predicted(self) -> str:
        """What is predicted, as the data calls it."""
        task = self.data.task
        if task.kind != "classification":
            return listed(task.names)
        return (
            f"{task.target} ({len(task.names)} classes)"
            if task.target
            else f"{len(task.names)} classes"
        )

    def told(self) -> str:
        """A line about what is learned from what."""
        train, *others = (f"{len(rows):,}" for rows in self.data.split(self.config.split))
        counts = [
            f"{train} rows to train on",
            *(f"{n} to {word} on" for word, n in zip(("validate", "test"), others, strict=True)),
        ]
        return f"{self.data.name}: {', '.join(counts)}; predicted: {self.predicted}; model: {self.config.model}"


def loaded(config: Config, what: Any, model: ModelSpec | None = None, **given: Any) -> DataSet:
    """Data of any kind, with the options of a config that are about data; for a model that is there already, as that model needs it.

    What is given beside a config wins over it.
    """
    if isinstance(what, DataSet):
        return what
    options = {
        key: value
        for key, value in read_options(config.data_options or ()).items()
        if key not in LIFT_OPTIONS
    }
    options |= {key: value for key in _LAYOUT if (value := getattr(config, key)) is not None}
    options |= {} if model is None else options_for(model, what)
    about = {
        "target": config.target,
        "folder": config.folder,
        "reader": config.reader,
        "task": config.task,
        "seed": config.data_seed,
    }
    return load_whole(what, **{**about, **options, **given})


def prepare(
    config: Config, data: DataSet | None = None, model: ModelSpec | None = None
) -> Prepared:
    """Loads the data, if it is not at hand, and fills in what is left open: what its recipe says, then the preset of the model.

    Data for a model that is there already is read as that model needs it.
    """
    is_in_hand = (
        data is not None and data.name == config.data
    )  # a folder here that is called so has nothing to do with it
    data = loaded(config, config.data if data is None else data, model)
    data = load(
        data,
        validation=config.validation,
        seed=config.data_seed,
        cv=config.cv,
        groups=config.groups,
    )
    data = data if model is None else for_model(data, model)
    kind = "links" if data.task.ranks else data.task.kind
    if config.task not in (None, kind, "classification" if kind == "multilabel" else kind):
        has = f"the targets of {config.data!r} are for {kind}"
        raise IncidenceError(
            f"the task is {config.task}, and {has}: leave out --task, or change the data."
        )
    only = _only_target(data)
    if only is not None:
        raise IncidenceError(
            f"{data.name}: there is {only}, so nothing to learn: see what --target is."
        )
    if config.metric is not None:
        data = with_metric(data, config.metric)
    named = DATA_SETS[config.data].recipe if config.data in DATA_SETS else {}
    split = data.split(config.split)
    config = config.with_recipe(
        {**RECIPES.get(data.reader, RECIPES["example"]), **recipe_within(data, split), **named}
    )
    lift_options = {
        key: value
        for key, value in read_options(config.data_options or ()).items()
        if key in LIFT_OPTIONS
    }
    preset, lift = find_preset(config.model or ""), config.lift
    if lift is None:  # none if the data has all the tensors of the model
        given = {Pattern(key) for key in data.examples[0].features}
        lift = (
            "none"
            if preset.inputs and given.issuperset(EquivariantMap(f"{preset.inputs} -> ").inputs)
            else preset.lift
        )
    if config.max_size is not None and lift != "none":
        lift_options["max_size"] = config.max_size
    if not len(split.train):
        raise IncidenceError(
            f"split {config.split} of {config.data!r} has no training data: it is there for comparison, not for training."
        )
    if data.completion is not None and (lift != "none" or lift_options):
        raise IncidenceError(
            f"what is known of {config.data!r} changes from part to part, so it has no lift: leave out --lift and --max-size."
        )
    rows = data.examples
    if lift != "none" or lift_options:
        data = replace(data, examples=lift_all(list(data.examples), lift, **lift_options))
    # Paths that lead to the data from anywhere: a run may be resumed elsewhere.
    paths = {
        key: Path(path).expanduser()
        for key, path in (("folder", config.folder), ("data", config.data))
        if path is not None
    }
    if is_in_hand or config.data in DATA_SETS or not paths["data"].exists():
        del paths["data"]
    absolute: dict[str, Any] = {key: str(path.resolve()) for key, path in paths.items()}
    for key, paths_of_tables in (("nodes", config.nodes), ("tables", config.tables)):
        if paths_of_tables is not None:
            absolute[key] = tuple(
                str(Path(path).expanduser().resolve()) for path in paths_of_tables
            )
    config = config.replace(**settings_of(config.model or "", config.settings()), **absolute)
    return Prepared(config, data, data.parts(split), lift, lift_options, rows)


def _only_target(data: DataSet) -> str | None:
    """What all examples have in common that should tell them apart; None where they differ."""
    if data.task.kind == "classification":
        return f"one class only, {data.task.names[0]!r}" if len(data.task.names) < 2 else None
    rows = torch.cat(
        [data.task.rows(example).reshape(-1, len(data.task.names)) for example in data.examples]
    )
    known = [column[~column.isnan()] for column in rows.T]
    is_same = all(len(column) > 1 and bool((column == column[0]).all()) for column in known)
    return f"one value only, {float(known[0][0]):g}" if is_same else None


def new_predictor(prepared: Prepared) -> Predictor:
    """A predictor with fresh weights, scaled to the training data."""
    config, train, task = prepared.config, prepared.parts.train, prepared.data.task
    torch.manual_seed(config.seed)
    predictor = prepared.spec.build()
    predictor.fit_scales([e.features for e in train], [task.rows(e) for e in train])
    first = next(
        iter(Order(len(prepared.batches), config.batch_size, config.seed))
    )  # the first in a file are often alike
    batch = training_batches(train, task, config.neighbours)[first]
    return predictor.calibrate(batch.features, batch.structure)


def fingerprint(parts: Parts) -> str:
    """Some letters that change with any structure, feature or target, with the parts and with their order."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(f"a part of {len(part)}".encode())
        for start in range(0, len(part), _TOGETHER):
            batch = collate(part[start : start + _TOGETHER])
            target = (
                batch.target
                if isinstance(batch.target, dict)
                else {}
                if batch.target is None
                else {"": batch.target}
            )
            arrays = arrays_of(batch.structure)
            arrays |= {f"feature {key}": x.cpu().numpy() for key, x in batch.features.items()}
            arrays |= {f"target {key}": x.cpu().numpy() for key, x in target.items()}
            for key, array in arrays.items():
                digest.update(f"{key} {array.dtype} {array.shape}".encode())
                digest.update(array.tobytes())
    return digest.hexdigest()
