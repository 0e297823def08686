"""`Experiment`: a config with nothing left open, with its data: what a run begins with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import incidence
from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.data import DATA_SETS, DataSet, Parts, Split, load
from incidence.data.left_out import left_out
from incidence.data.lifts import LIFT_OPTIONS, lift_all
from incidence.data.loading import load_whole
from incidence.data.order import Order
from incidence.data.prepared import Preparation, preparation_of
from incidence.data.shards import ShardedExamples
from incidence.data.splitting import sizes_of
from incidence.data.tables import listed
from incidence.errors import IncidenceError
from incidence.models import IncidenceNet, Predictor, find_preset, make, read_channels, settings_of
from incidence.models.presets import is_position
from incidence.structure.collate import collate
from incidence.structure.example import Example
from incidence.structure.storage import arrays_of
from incidence.structure.structure import Structure
from incidence.train.batches import Batches, training_batches
from incidence.train.config import RECIPES, Config, read_options
from incidence.train.inputs import load_options, with_targets_of_model
from incidence.train.model_spec import ModelSpec
from incidence.train.recipes import (
    Recipe,
    preset_recipe,
    recipe_by_traits,
    transductive_recipe,
    with_metric,
)

__all__ = ["Experiment", "fingerprint", "lift_for", "load_for", "new_predictor", "prepare"]
__all__ += ["PreparationJob", "job_of", "reading_options"]

_TOGETHER = 1024  # examples that are looked at together
_WITH_RECIPE = RECIPES.keys() - {"example"}
_LAYOUT_OPTIONS = ("smiles", "nodes", "keys", "tables", "task_table")


class Lift(NamedTuple):
    """The name of a lift, with its options."""

    name: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """A config with nothing left open, and its data.

    Attributes:
        config: The options.
        data: The data after the lift.
        parts: The examples of the parts of the split.
        lift: The lift.
        unlifted: The examples before the lift.
        reason: Why the options are as they are, if a trait of the data decided them.
    """

    config: Config
    data: DataSet
    parts: Parts
    lift: Lift
    unlifted: Sequence[Example] = ()
    reason: str = ""

    def __repr__(self) -> str:
        """Return a line, however large the data is."""
        return (
            f"Experiment({self.data.name!r}: {sizes_of(self.parts)}; {self.config.model} network,"
            f" lift {self.lift.name})"
        )

    @cached_property
    def batches(self) -> Batches:
        """The batches of training."""
        augment = self.data.augment if self.config.augment else None
        return training_batches(self.parts.train, self.data.task, self.config.neighbours, augment)

    @cached_property
    def spec(self) -> ModelSpec:
        """What the model is, with a fingerprint of the parts."""
        config, data = self.config, self.data
        model = config.model or ""
        is_rated = data.completion is not None and data.task.kind == "regression"
        return ModelSpec(
            data=config.data,
            model=model,
            settings=settings_of(model, config.settings()),
            in_channels={key: x.shape[1] for key, x in data.examples[0].features.items()},
            task=data.task,
            metric=data.metric,
            offset=data.task.at if is_rated else "",
            reader=data.reader,
            reader_options=dict(data.reader_options),
            lift=self.lift.name,
            lift_options=self.lift.options,
            fingerprint=fingerprint(self.parts),
            members=config.ensemble,
        )

    def data_fingerprint(self) -> str:
        """Return a fingerprint of the data, whatever its parts are, and without the lift."""
        return fingerprint(Parts(self.unlifted, [], []))

    @property
    def predicted(self) -> str:
        """What is predicted, in words."""
        task = self.data.task
        if task.kind != "classification":
            return listed(task.names)
        count = f"{len(task.names)} classes"
        return f"{task.target} ({count})" if task.target else count

    def describe(self) -> str:
        """Return a line about the data, the target and the model, and one about the recipe."""
        train, validation, test = (f"{len(rows):,}" for rows in self.data.split(self.config.split))
        return (
            f"{self.data.name}: {train} rows to train on, {validation} to validate on, {test} to"
            f" test on; predicting {self.predicted}; {self._model_in_words()}{self._left_out()}"
            + (f"\nrecipe: {self.reason}" if self.reason else "")
        )

    def _left_out(self) -> str:
        """Return what the lift leaves out, or nothing."""
        lifted = self.data.examples
        if isinstance(lifted, ShardedExamples) or self.lift.name == "none":
            lifted = ()  # shards are not read for a sentence
        words = left_out(self.lift.name, lifted, **self.lift.options)
        return f"; the lift {self.lift.name} leaves out {', '.join(words)}" if words else ""

    def _model_in_words(self) -> str:
        """Return the model, which tensors it reads, and why it does not read the others."""
        model = self.config.model or ""
        features = self.data.examples[0].features
        read = read_channels(model, {key: x.shape[1] for key, x in features.items()})
        tensors = ", ".join(f"`{key}`" for key in read)
        words = f"model: {model} ({find_preset(model).about}), which reads {tensors}"
        unread = [key for key in features if key not in read]
        positions = [key for key in unread if is_position(key)]
        others = [f"`{key}`" for key in unread if not is_position(key)]
        if others:
            words += f", and not {', '.join(others)}"
        if positions:
            words += f"; not the coordinates `{positions[0]}`, which change with every rotation"
        return words


def load_for(config: Config, what: Any, model: ModelSpec | None = None, **given: Any) -> DataSet:
    """Load data with the options of a config that concern data.

    Args:
        config: The config.
        what: The data, as users name it.
        model: A model that exists, for which the data is read.
        given: Options of `inc.data.load` that win over those of the config.
    """
    if isinstance(what, DataSet):
        return what
    options = {**reading_options(config), "folder": config.folder, "seed": config.data_seed}
    if model is not None:
        options |= load_options(model, what)
    return load_whole(what, **{**options, **given})


def reading_options(config: Config) -> dict[str, Any]:
    """Return the options of a config that say how data is read, for `inc.data.load`."""
    options: dict[str, Any] = {
        "target": config.target,
        "reader": config.reader,
        "task": config.task,
    }
    for key, value in read_options(config.data_options or ()).items():
        if key not in LIFT_OPTIONS:
            options[key] = value
    for key in _LAYOUT_OPTIONS:
        if getattr(config, key) is not None:
            options[key] = getattr(config, key)
    return options


class PreparationJob(NamedTuple):
    """What is to be prepared.

    Attributes:
        data: The data before the lift, without drawn parts.
        preparation: How to prepare it.
        make_plans: Caches the plans of the model on a structure; None if no plans are stored.
        config: The options, filled by the recipe of the data.
    """

    data: DataSet
    preparation: Preparation
    make_plans: Callable[[Structure], object] | None
    config: Config


def lift_for(config: Config, with_plans: bool = True) -> PreparationJob:
    """Return the data of a config before the lift, and how to prepare it.

    The lift, and the model whose plans are stored, are those of training with these options.

    Raises:
        IncidenceError: The data cannot be loaded, does not fit the options, or is prepared.
    """
    data = load_for(config, config.data)
    if preparation_of(data) is not None:
        raise IncidenceError(
            f"{config.data} is prepared already: give the data that it was prepared from."
        )
    whole = _with_parts(data, config)
    _assert_learnable(whole, config)
    recipe = _recipe(whole, whole.split(config.split), config)
    filled = config.with_recipe(recipe.options)
    lift = _lift(filled, whole)
    source = _absolute_paths(config, False).get("data", config.data)
    reading = reading_options(config)
    plans = filled.model if with_plans else None
    made = Preparation(source, reading, lift.name, lift.options, plans, incidence.__version__)
    return job_of(filled, data, made)


def job_of(config: Config, data: DataSet, preparation: Preparation) -> PreparationJob:
    """Return a job whose options and preparation are known."""
    lift = Lift(preparation.lift, dict(preparation.lift_options))
    make_plans = None if preparation.plans is None else _network(config, data, lift).plan
    return PreparationJob(data, preparation, make_plans, config)


def _network(config: Config, data: DataSet, lift: Lift) -> IncidenceNet:
    """Return the network that training would begin with."""
    [example] = lift_all(list(data.examples[:1]), lift.name, **lift.options)
    model = config.model or ""
    channels = read_channels(model, {key: x.shape[1] for key, x in example.features.items()})
    settings = settings_of(model, config.settings())
    with torch.device("meta"):  # no weights: plans need none
        return make(model, channels, data.task.out_channels, data.task.at, **settings)


def prepare(
    config: Config, data: DataSet | None = None, model: ModelSpec | None = None
) -> Experiment:
    """Return an experiment: load the data, fill open options, and lift the data.

    The recipe of the data fills open options first, then the preset of the model.

    Args:
        config: The config.
        data: The data, if it is loaded already.
        model: A model that exists, for which the data is read.

    Raises:
        IncidenceError: The data cannot be loaded, or does not fit the options.
    """
    whole = load_for(config, config.data if data is None else data, model)
    whole = _with_parts(whole, config)
    if model is not None:
        whole = with_targets_of_model(whole, model)
    _assert_learnable(whole, config)
    if config.metric is not None:
        whole = with_metric(whole, config.metric)
    split = whole.split(config.split)
    recipe = _recipe(whole, split, config)
    filled = config.with_recipe(recipe.options)
    if not len(split.train):
        raise IncidenceError(
            f"split {config.split} of {config.data!r} has no training data: it is there for"
            " comparison, not for training."
        )
    lift = _lift(filled, whole)
    lifted = _lifted(whole, lift)
    # a file or folder that is called as data at hand has nothing to do with it
    is_at_hand = data is not None and data.name == config.data
    settings = settings_of(filled.model or "", filled.settings())
    filled = filled.replace(**settings, **_absolute_paths(filled, is_at_hand))
    reason = recipe.reason if filled.model == recipe.options["model"] else ""
    return Experiment(filled, lifted, lifted.parts(split), lift, whole.examples, reason)


def _with_parts(data: DataSet, config: Config) -> DataSet:
    return load(
        data,
        validation=config.validation,
        seed=config.data_seed,
        cv=config.cv,
        groups=config.groups,
        time=config.time,
    )


def _assert_learnable(data: DataSet, config: Config) -> None:
    """Refuse data for another task than the given one, and targets that are all the same."""
    task = data.task
    are_links = data.completion is not None and task.kind == "classification"
    kind = "links" if are_links else task.kind
    general = "classification" if kind == "multilabel" else kind
    if config.task not in (None, kind, general):
        raise IncidenceError(
            f"the task is {config.task}, and the targets of {config.data!r} are for {kind}: leave"
            " out --task, or change the data."
        )
    only = ""
    if task.kind == "classification":
        if len(task.names) < 2:
            only = f"one class only, {task.names[0]!r}"
    else:
        targets = task.rows_of_all(data.examples)
        rows = [y.reshape(-1, len(task.names)) for y in targets]
        known = [column[~column.isnan()] for column in torch.cat(rows).T]
        if all(len(column) > 1 and bool((column == column[0]).all()) for column in known):
            only = f"one value only, {float(known[0][0]):g}"
    if only:
        raise IncidenceError(
            f"{data.name}: there is {only}, so nothing to learn: see what --target is."
        )


def _recipe(data: DataSet, split: Split, config: Config) -> Recipe:
    """Return the options that fit the data; those of a named data set win.

    A validation part that the data defines decides which epoch is saved.
    """
    preparation = preparation_of(data)
    name = config.data if preparation is None else preparation.source
    named = DATA_SETS[name].recipe if name in DATA_SETS else {}
    of_reader = RECIPES[data.reader] if data.reader in _WITH_RECIPE else preset_recipe(data)
    watched = {"keep": "best"} if data.gives_validation(split) else {}
    traits = recipe_by_traits(data, split)
    # traits decide if the model is open; the recipe of a named data set was chosen on that set
    if "model" in named or config.model is not None:
        traits = Recipe({})
    options = {**of_reader, **watched, **traits.options}
    return Recipe({**options, **transductive_recipe(data, split), **named}, traits.reason)


def _lift(config: Config, data: DataSet) -> Lift:
    """Return the lift that a model needs, unless the data has all its tensors.

    Prepared data has its lift already.
    """
    name = config.lift
    preparation = preparation_of(data)
    if name is None:
        preset = find_preset(config.model or "")
        has = {Pattern(key) for key in data.examples[0].features}
        needs = EquivariantMap(f"{preset.inputs} -> ").inputs if preset.inputs else None
        has_all = needs is not None and has.issuperset(needs)
        name = "none" if has_all else preset.lift
        if preparation is not None and name in ("none", preparation.lift):
            name = preparation.lift
    options = {
        key: value
        for key, value in read_options(config.data_options or ()).items()
        if key in LIFT_OPTIONS
    }
    if config.max_size is not None and name != "none":
        options["max_size"] = config.max_size
    if preparation is None:
        return Lift(name, options)
    return _lift_of(config.data, preparation, Lift(name, options))


def _lift_of(name: str, preparation: Preparation, wanted: Lift) -> Lift:
    """Return the lift of prepared data, if it is the one that is wanted.

    Raises:
        IncidenceError: The model, or an option, wants another lift.
    """
    lift = Lift(preparation.lift, dict(preparation.lift_options))
    others = {key: value for key, value in wanted.options.items() if value != lift.options.get(key)}
    if wanted.name == lift.name and not others:
        return lift
    options = "".join(f" {key}={value}" for key, value in (others or wanted.options).items())
    raise IncidenceError(
        f"{name} was prepared with the lift {lift.name!r}, and these options need"
        f" {wanted.name!r}{options}: leave them out, or prepare the data again with --lift"
        f" {wanted.name}."
    )


def _lifted(data: DataSet, lift: Lift) -> DataSet:
    if lift == Lift("none", {}) or preparation_of(data) is not None:
        return data
    if data.completion is not None:
        raise IncidenceError(
            f"what is known of {data.name!r} changes from part to part, so it has no lift: leave"
            " out --lift and --max-size."
        )
    return replace(data, examples=lift_all(list(data.examples), lift.name, **lift.options))


def _absolute_paths(config: Config, is_at_hand: bool) -> dict[str, Any]:
    """Return the paths in a config as absolute ones: a run may be resumed elsewhere."""
    paths: dict[str, Any] = {}
    if config.folder is not None:
        paths["folder"] = _absolute(config.folder)
    is_path = not is_at_hand and config.data not in DATA_SETS
    if is_path and Path(config.data).expanduser().exists():
        paths["data"] = _absolute(config.data)
    for key in ("nodes", "tables", "task_table"):
        if getattr(config, key) is not None:
            paths[key] = tuple(map(_absolute, getattr(config, key)))
    return paths


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().resolve())


def new_predictor(experiment: Experiment) -> Predictor:
    """Return a predictor with fresh weights, scaled to the training data."""
    config, train, task = experiment.config, experiment.parts.train, experiment.data.task
    torch.manual_seed(config.seed)
    predictor = experiment.spec.build()
    predictor.fit_scales(_features(train), task.rows_of_all(train))
    # a random batch, as the first examples of a file are often alike
    chosen = next(iter(Order(len(experiment.batches), config.batch_size, config.seed)))
    batch = training_batches(train, task, config.neighbours)[chosen]
    return predictor.calibrate(batch.features, batch.structure)


def _features(examples: Sequence[Example]) -> Iterator[dict[str, Tensor]]:
    """Yield the features of examples; those of many at once, if they are in shards."""
    if not isinstance(examples, ShardedExamples):
        yield from (one.features for one in examples)
        return
    for start in range(0, len(examples), _TOGETHER):
        yield examples[start : start + _TOGETHER].batch().features


def fingerprint(parts: Parts) -> str:
    """Return a text that changes with any structure, feature or target, and with the parts."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(f"a part of {len(part)}".encode())
        if isinstance(part, ShardedExamples):
            digest.update(part.fingerprint())
            continue
        for start in range(0, len(part), _TOGETHER):
            batch = collate(part[start : start + _TOGETHER])
            target = batch.target if isinstance(batch.target, dict) else {"": batch.target}
            arrays = arrays_of(batch.structure)
            arrays |= {f"feature {key}": x.cpu().numpy() for key, x in batch.features.items()}
            for key, y in target.items():
                if y is not None:
                    arrays[f"target {key}"] = y.cpu().numpy()
            for key, array in arrays.items():
                digest.update(f"{key} {array.dtype} {array.shape}".encode())
                digest.update(array.tobytes())
    return digest.hexdigest()
