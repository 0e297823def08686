"""A run from start to end: train, resume, and what is made of the result."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any

from incidence.data import DataSet
from incidence.errors import IncidenceError
from incidence.models import Predictor
from incidence.train import checkpoint
from incidence.train.batches import Order
from incidence.train.callbacks import History, KeepLast, Progress
from incidence.train.config import Config
from incidence.train.evaluate import Evaluation, evaluate
from incidence.train.fingerprint import fingerprint
from incidence.train.folder import RunFolder, Spec, build, disk_trouble, resolved, short, write_text
from incidence.train.module import Training, is_known, rows_of
from incidence.train.prepare import Prepared, new_predictor, prepare
from incidence.train.process import alone, is_first, quiet, threads
from incidence.train.trainer import Loaders, new_trainer, watchers

__all__ = ["Interrupted", "Run", "all_given", "is_first", "resume", "train"]


class Interrupted(KeyboardInterrupt):
    """The user stopped a run; it can be resumed from its folder."""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__(f"stopped; go on with: incidence train --resume {folder.path}")
        self.folder = folder


class Run:
    """A finished run: its folder, what it was asked to do, and how well it did."""

    def __init__(self, folder: RunFolder, prepared: Prepared, predictor: Predictor, evaluation: Evaluation, history: History) -> None:
        self.folder, self.prepared, self.predictor, self.evaluation, self.history = folder, prepared, predictor, evaluation, history.rows


def train(options: Mapping[str, Any] | Config | None = None, data: DataSet | None = None, is_shown: bool = False) -> Run | None:
    """Trains a network and keeps everything in a new folder.

    Args:
        options: Of `Config`; what is left out is decided by the recipe of the data.
        data: A data set of your own making, in place of what the options name.
        is_shown: Whether to show progress.

    Returns:
        The run; None in processes other than the first.

    Raises:
        IncidenceError: The options, the data or the disk do not allow it.
        Interrupted: The user stopped it.
    """
    given = options.given() if isinstance(options, Config) else dict(options or {})
    config = Config.of(given if data is None else {"data": data.name, **given})
    with threads(config.threads):
        prepared = _prepare(config, given, data)
        folder = RunFolder.new(config.out, config.data) if is_first() else RunFolder(Path(os.devnull))
        try:
            job = _Job(folder, prepared, new_predictor(prepared), is_shown)
            if is_first():
                folder.start(prepared.config, prepared.spec)
        except BaseException:  # it has not begun: nothing must stand in the way of the next try
            if is_first():
                folder.discard()
            raise
        with _alone(folder):
            return job.run()


def resume(path: Path | str, data: DataSet | None = None, is_shown: bool = False) -> Run | None:
    """Goes on with a run that was stopped or killed, and ends with the same weights as if it had not been.

    Args:
        path: Its folder.
        data: The data set, if the run was given one.
        is_shown: Whether to show progress.

    Raises:
        IncidenceError: The folder is of no run, or its checkpoint is damaged or of another model.
        Interrupted: The user stopped it again.
    """
    folder = RunFolder.open(Path(path))
    config = folder.read_config()
    with threads(config.threads), _alone(folder):
        prepared = _prepare(config, all_given(), data)
        _assert_same(prepared.spec, folder.read_spec(), f"the data or the version of the library has changed since {folder.path} was begun")
        if is_first():
            checkpoint.clean(folder.path)
        if not folder.last.exists():  # killed in its first epoch
            return _Job(folder, prepared, new_predictor(prepared), is_shown).run()
        content = checkpoint.read(folder.last, checkpoint.RESUMABLE)
        _assert_same(prepared.spec, content["incidence"], f"{folder.last} belongs to another model")
        return _Job(folder, prepared, build(prepared.spec), is_shown).run(folder.last)


def _alone(folder: RunFolder) -> AbstractContextManager[None]:
    """Keeps other runs out of a folder; the processes of one run share it."""
    return alone(folder.environment) if is_first() else nullcontext()


def all_given() -> dict[str, Any]:
    """Every option counts as given: no recipe changes a run that has begun."""
    return dict.fromkeys(f.name for f in fields(Config))


def _prepare(config: Config, given: Mapping[str, Any], data: DataSet | None) -> Prepared:
    """Data and model, with all that a run must find unchanged when it goes on."""
    prepared = prepare(config, given, data)
    task = prepared.data.task
    if not any(bool(is_known(rows_of(e, task), task).any()) for e in prepared.parts.train):
        raise IncidenceError(f"none of the training examples of {config.data!r} has a target: there is nothing to learn from.")
    spec = json.loads(json.dumps({**resolved(prepared.spec), "fingerprint": fingerprint(prepared.parts)}))  # as it will be read
    return prepared._replace(config=prepared.config.replace(**spec["settings"]), spec=spec)


class _Job:
    """All that a run needs, made before anything is written: what cannot be done is refused here."""

    def __init__(self, folder: RunFolder, prepared: Prepared, predictor: Predictor, is_shown: bool) -> None:
        config, count = prepared.config, len(prepared.parts.train)
        world = config.devices * config.machines
        if count < world:
            raise IncidenceError(f"{count} examples cannot be shared by {world} processes: use fewer --devices.")
        self.folder, self.prepared, self.predictor = folder, prepared, predictor
        self.history, self.progress = History(folder.path / "history.csv"), Progress(is_shown)
        steps = config.epochs * len(Order(count, config.batch_size, share=(0, world)))
        self.module = Training(predictor, prepared.data.task, config, steps)
        callbacks = [*watchers(config, prepared, folder), self.history, self.progress, KeepLast(folder.last, prepared.spec)]
        with quiet():
            self.trainer = new_trainer(config, folder, callbacks, has_validation=bool(prepared.parts.validation))

    def run(self, start: Path | None = None) -> Run | None:
        """Trains, from a checkpoint if there is one."""
        begun = time.monotonic()
        with quiet():
            self._fit(start)
        if not self.trainer.is_global_zero:
            return None
        if self.prepared.config.keep == "best":
            self._take_best()
        return _finish(self.folder, self.prepared, self.predictor.cpu().eval(), self.history, time.monotonic() - begun)

    def _fit(self, start: Path | None) -> None:
        try:
            self.trainer.fit(self.module, Loaders(self.prepared), ckpt_path=start, weights_only=True)
        except SystemExit as error:  # what Lightning makes of Ctrl-C
            raise Interrupted(self.folder) from error
        except OSError as error:  # of a log; checkpoints and tables say so themselves
            raise IncidenceError(disk_trouble(Path(error.filename or self.folder.path), error)) from error
        except IncidenceError:
            raise
        except (RuntimeError, ValueError, LookupError, TypeError, AttributeError) as error:
            if start is None or self.progress.has_begun:
                raise
            raise IncidenceError(f"{start} cannot be gone on from: {short(error)}. Nothing was changed; start a new run.") from error

    def _take_best(self) -> None:
        best = checkpoint.read(self.folder.best, ["state_dict"])["state_dict"]
        try:
            self.module.load_state_dict(best)
        except (RuntimeError, TypeError, AttributeError) as error:
            raise IncidenceError(f"{self.folder.best} has not the weights of this model: {short(error)}.") from error


def _finish(folder: RunFolder, prepared: Prepared, predictor: Predictor, history: History, seconds: float) -> Run:
    """Writes the model first, then what is made of it."""
    folder.save_weights(predictor, prepared.spec)
    evaluation = _evaluate(prepared, predictor)
    about = {
        "data": prepared.config.data,
        "seconds": round(seconds, 2),
        "epochs": len(history.rows),
        "parameters": sum(p.numel() for p in predictor.parameters()),
    }
    write_text(folder.metrics, json.dumps({**about, **evaluation.metrics()}, indent=1, allow_nan=False) + "\n")
    write_text(folder.predictions, evaluation.table())
    return Run(folder, prepared, predictor, evaluation, history)


def _evaluate(prepared: Prepared, predictor: Predictor) -> Evaluation:
    """The scores of all parts, with where each row comes from."""
    config, data = prepared.config, prepared.data
    split = None if data.is_transductive else data.split(config.split, config.validation or 0.0, config.data_seed)
    return evaluate(predictor, prepared.parts, data.task, config.batch_size, split, data.names)


def _assert_same(spec: Spec, other: Any, what: str) -> None:
    other = other if isinstance(other, Mapping) else {}
    differ = [key for key in spec if spec[key] != other.get(key)]
    if differ:
        key = differ[0]
        raise IncidenceError(f"{what}: {key} is {other.get(key)!r} there and {spec[key]!r} here. Nothing was changed.")
