"""A run from start to end: train, resume, and write the results."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import isnan, nan
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import torch

from incidence.distributed.heartbeat import watched
from incidence.distributed.processes import DEFAULT_TIMEOUT, is_lost_connection
from incidence.distributed.starts import this_start
from incidence.errors import IncidenceError, options_as, spelled
from incidence.files import disk_trouble
from incidence.models import Predictor
from incidence.notebook import html_of
from incidence.train import checkpoint
from incidence.train.config import Config
from incidence.train.conformal import Calibration
from incidence.train.evaluate import evaluate
from incidence.train.evaluation import Evaluation, describe_baseline
from incidence.train.launch import is_first, started_processes
from incidence.train.members import assert_one_process, train_members
from incidence.train.metrics import HIGHER, watched_metric
from incidence.train.model_spec import in_one_line
from incidence.train.prepare import Experiment, load_for, new_predictor, prepare
from incidence.train.run_folder import RunFolder, read_history, read_json, write
from incidence.train.steps import Training
from incidence.train.trainer import History, Progress, new_trainer

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None  # type: ignore[assignment]

__all__ = ["Interrupted", "Run", "quiet", "resume", "train"]


class Interrupted(KeyboardInterrupt):
    """The user stopped a run.

    Args:
        folder: The folder of the run.
        command: The command that continues it.
    """

    def __init__(self, folder: RunFolder, command: str = "") -> None:
        command = command or f"incidence train --resume {folder.path}"
        super().__init__(spelled(f"stopped; continue with: {command}"))
        self.folder = folder


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        folder: Its folder.
        experiment: Its options and data.
        predictor: The trained network.
        evaluation: Predictions and metrics of every part.
        history: A row of metrics for each epoch.
    """

    folder: RunFolder
    experiment: Experiment
    predictor: Predictor
    evaluation: Evaluation
    history: list[dict[str, float]]

    _repr_html_ = html_of

    @property
    def saved_epoch(self) -> int:
        """The epoch whose weights are saved, from 1: the last, or the best on the validation part.

        Of several equal epochs it is the first. Members of an ensemble have epochs of their own.
        """
        data = self.experiment.data
        metric = watched_metric(data.task, data.metric)
        sign = -1.0 if metric in HIGHER else 1.0
        scores = [sign * row.get(f"validation_{metric}", nan) for row in self.history]
        known = [score for score in scores if not isnan(score)]
        if self.experiment.config.keep != "best" or not known:
            return len(self.history)
        return 1 + scores.index(min(known))

    def __repr__(self) -> str:
        """Return the folder, and how well the network does."""
        count = len(self.history)
        epochs = f"{count} epoch{'s' * (count != 1)}"
        return f"Run({str(self.folder.path)!r}: {self.evaluation.line()}; {epochs})"


@options_as("config")
def train(
    options: Mapping[str, Any] | Config | None = None, data: Any = None, is_shown: bool = False
) -> Run | None:
    """Train a network, and write all results to a new folder.

    Args:
        options: Options of `Config`; the recipe of the data decides those that are left out.
        data: Anything that `inc.data.load` takes, in place of the option `data`.
        is_shown: Whether to print progress.

    Returns:
        The run; None in processes other than the first.

    Raises:
        IncidenceError: The options, the data or the disk do not allow it.
        Interrupted: The user stopped it.
    """
    with watched():
        return _train(options, data, is_shown)


def _train(options: Mapping[str, Any] | Config | None, data: Any, is_shown: bool) -> Run | None:
    config, data = _config_and_data(options, data)
    # unlike Path.exists, isfile takes names that no file can have
    has_begun = config.out is not None and os.path.isfile(os.path.join(config.out, "config.yaml"))
    if config.out is not None and has_begun and this_start().is_restart:
        return _resume(Path(config.out), data, is_shown, None)
    config = _with_processes(config)
    with _threads(config.threads):
        experiment = prepare(config, data)
        if config.augment and experiment.data.augment is None:
            raise IncidenceError(
                f"{config.data!r} cannot be changed at random, which only named data sets of meshes"
                " allow: leave out --augment."
            )
        if config.ensemble > 1:
            return _new_ensemble(experiment, data, is_shown)
        folder = RunFolder(Path(os.devnull))
        if is_first():
            folder = RunFolder.new(config.out, config.data)
        try:
            job = _Job(folder, experiment, is_shown)
            if is_first():
                folder.start(experiment.config, experiment.spec)
        except BaseException:  # it has not begun: nothing must stand in the way of the next try
            if is_first():
                shutil.rmtree(folder.path, ignore_errors=True)
            raise
        with _locked(folder):
            return job.run()


def _new_ensemble(experiment: Experiment, data: Any, is_shown: bool) -> Run:
    """Train the members of an ensemble in a new folder."""
    config = experiment.config
    assert_one_process(config)
    _assert_trainable(experiment)
    folder = RunFolder.new(config.out, config.data)
    folder.start(config, experiment.spec)
    with _locked(folder):
        return _finish_ensemble(folder, experiment, data, is_shown)


def _finish_ensemble(folder: RunFolder, experiment: Experiment, data: Any, is_shown: bool) -> Run:
    """Train the members of an ensemble that are not finished, and write the results of all."""

    def begin(config: Config) -> object:
        return train(config, data, is_shown)

    def go_on(path: Path) -> object:
        return resume(path, data, is_shown)

    started = time.monotonic()
    try:
        predictor = train_members(folder, experiment.config, begin, go_on)
    except Interrupted as stop:
        raise Interrupted(folder) from stop
    folder.save_weights(predictor, experiment.spec)
    rows = read_history(folder.history)
    seconds = time.monotonic() - started
    evaluation = _write_results(folder, experiment, predictor, seconds, len(rows))
    return Run(folder, experiment, predictor, evaluation, rows)


def _config_and_data(options: Mapping[str, Any] | Config | None, data: Any) -> tuple[Config, Any]:
    """Return the config, and loaded data unless the config names it."""
    if not isinstance(options, Config):
        given = dict(options or {})
        if data is None and not isinstance(given.get("data", ""), str):
            data = given.pop("data")
        options = Config(**given)
    if isinstance(data, (str, PathLike)):
        return options.replace(data=fspath(data)), None
    if data is None:
        return options, None
    loaded = load_for(options, data)
    return Config(**{"data": loaded.name, **options.given()}), loaded


@options_as("config")
def resume(
    path: Path | str, data: Any = None, is_shown: bool = False, epochs: int | None = None
) -> Run | None:
    """Continue a run that was stopped or killed; it ends with the same weights as without the stop.

    Args:
        path: The folder of the run.
        data: The data that the run was given, if that was no name or path.
        is_shown: Whether to print progress.
        epochs: The number of epochs in all, if more than the run was started for. The learning
            rate then follows the schedule of the longer run.

    Raises:
        IncidenceError: It is no folder of a run, its checkpoint is damaged or of another model, or
            the run is for more epochs.
        Interrupted: The user stopped it again.
    """
    with watched():
        return _resume(Path(path), data, is_shown, epochs)


def _resume(path: Path, data: Any, is_shown: bool, epochs: int | None) -> Run | None:
    folder = RunFolder.open(path)
    started = folder.read_config()
    if epochs is not None and epochs < started.epochs:
        raise IncidenceError(
            f"the run in {folder.path} is for {started.epochs} epochs: a run continues for as many"
            f" or more; got {epochs}."
        )
    config = started if epochs is None else started.replace(epochs=epochs)
    config = _as_torchrun_started(config)
    with _threads(config.threads), _locked(folder):
        experiment = prepare(config, None if data is None else load_for(config, data))
        experiment.spec.assert_same(
            folder.read_spec().plain(),
            f"the data or the version of the library has changed since {folder.path} was started",
        )
        if config.ensemble > 1:
            if config.epochs != started.epochs:
                raise IncidenceError(
                    f"an ensemble continues with the epochs it was started for, {started.epochs};"
                    f" got {config.epochs}: start a new one."
                )
            folder.clean()
            return _finish_ensemble(folder, experiment, data, is_shown)
        if is_first():
            folder.clean()
            if config.epochs != started.epochs:
                folder.prolong(experiment.config)
        start = folder.last if folder.last.exists() else None
        if start is not None:
            content = checkpoint.read(start, checkpoint.RESUMABLE)
            experiment.spec.assert_same(content["incidence"], f"{start} belongs to another model")
        return _Job(folder, experiment, is_shown, start).run()


def _with_processes(config: Config) -> Config:
    """Return the config with the processes that torchrun started, if it did.

    Raises:
        IncidenceError: The config names several processes, and another number of them.
    """
    actual = _as_torchrun_started(config)
    wanted, there = (config.devices, config.machines), (actual.devices, actual.machines)
    if wanted not in ((1, 1), there):
        raise IncidenceError(
            f"the options are devices={wanted[0]} and machines={wanted[1]}, and torchrun started"
            f" {there[0]} processes on each of {there[1]} machines: leave out both, as torchrun"
            " decides."
        )
    return actual


def _as_torchrun_started(config: Config) -> Config:
    """Return the config with the numbers of torchrun; a run may resume with other numbers."""
    counts = started_processes()
    if counts is None:
        return config
    devices, machines = counts
    return config.replace(devices=devices, machines=machines)


@contextmanager
def _locked(folder: RunFolder) -> Iterator[None]:
    """Refuse a second run in a folder.

    The kernel gives the lock back however the process ends. The processes of one run share it.
    """
    if not is_first():
        yield
        return
    try:
        file = folder.environment.open("ab")  # which no run replaces
    except OSError as error:
        raise IncidenceError(f"{folder.environment} cannot be written: {error}.") from error
    with file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise IncidenceError(
                f"another process trains in {folder.path}: wait for its end, or start another run."
            ) from error
        except OSError:  # a disk without locks
            pass
        yield


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let torch use some number of threads, and as many as before in the end."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Lightning, which prints much that is of no use to the person who trains."""
    loggers = [
        logging.getLogger(f"lightning.{name}")
        for name in ("pytorch", "fabric", "pytorch.utilities.rank_zero")
    ]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)


def _earlier_seconds(folder: RunFolder) -> float:
    """Return the seconds of a run that was finished before, and continues."""
    try:
        return float(read_json(folder.metrics).get("seconds", 0.0))
    except (ValueError, TypeError):
        return 0.0


class _Job:
    """All that a run needs, made before anything is written.

    Args:
        folder: The folder of the run.
        experiment: Its options and data.
        is_shown: Whether to print progress.
        start: The checkpoint to continue from.

    Raises:
        IncidenceError: The run cannot be done.
    """

    def __init__(
        self, folder: RunFolder, experiment: Experiment, is_shown: bool, start: Path | None = None
    ) -> None:
        _assert_trainable(experiment)
        self.folder, self.experiment, self.start = folder, experiment, start
        self.predictor = new_predictor(experiment) if start is None else experiment.spec.build()
        if experiment.config.neighbours is not None and self.predictor.net.reach is None:
            raise IncidenceError(
                "--neighbours is for networks without global operations, and this one has some:"
                " add `--operations local`."
            )
        self.history = History(folder.history, _earlier_seconds(folder))
        self.progress = Progress(is_shown)
        self.module = Training(self.predictor, experiment, self.progress.after_step)
        self.module.checkpoint = folder.last
        self.progress.steps_per_epoch = self.module.steps_per_epoch
        with quiet():
            self.trainer = new_trainer(experiment, folder, [self.history, self.progress])

    def run(self) -> Run | None:
        """Train, then write the model and the results; None in processes other than the first."""
        if self.progress.is_shown and is_first():
            print(self.experiment.describe(), file=sys.stderr, flush=True)
        with quiet():
            self._fit()
        if not self.trainer.is_global_zero:
            return None
        if self.experiment.config.keep == "best":
            self._load_best()
        predictor = self.module.result.cpu().eval()
        self.folder.save_weights(predictor, self.experiment.spec)
        history = self.history
        evaluation = _write_results(
            self.folder, self.experiment, predictor, history.seconds, len(history.rows)
        )
        return Run(self.folder, self.experiment, predictor, evaluation, history.rows)

    def _fit(self) -> None:
        try:
            self.trainer.fit(self.module, ckpt_path=self.start, weights_only=True)
        except SystemExit as error:  # what Lightning makes of Ctrl-C
            raise Interrupted(self.folder) from error
        except OSError as error:  # of a log; checkpoints and tables have better messages
            raise IncidenceError(
                disk_trouble(Path(error.filename or self.folder.path), error)
            ) from error
        except IncidenceError:
            raise
        except (RuntimeError, ValueError, LookupError, TypeError, AttributeError) as error:
            if self.trainer.world_size > 1 and is_lost_connection(error):
                # the first process alone has made the folder
                path = self.folder.path if is_first() else self.experiment.config.out or "RUN"
                raise IncidenceError(
                    f"process {self.trainer.global_rank} of {self.trainer.world_size} lost the"
                    " others: one of them has ended, or did not answer within the timeout of"
                    f" {DEFAULT_TIMEOUT:g} s. Continue with: incidence train --resume {path}"
                    f" ({in_one_line(error)[:160]})"
                ) from error
            if self.start is None or self.progress.has_begun:
                raise
            raise IncidenceError(
                f"the run cannot continue from {self.start}: {in_one_line(error)}. Nothing was"
                " changed; start a new run."
            ) from error

    def _load_best(self) -> None:
        best = self.folder.best
        state = checkpoint.read(best, ["state_dict"])["state_dict"]
        try:
            self.module.load_state_dict(state)
        except (RuntimeError, TypeError, AttributeError) as error:
            raise IncidenceError(
                f"{best} has not the weights of this model: {in_one_line(error)}."
            ) from error


def _write_results(
    folder: RunFolder, experiment: Experiment, predictor: Predictor, seconds: float, epochs: int
) -> Evaluation:
    """Write what a model of ratings or links knows, the metrics, and the predictions."""
    config, data = experiment.config, experiment.data
    if data.completion is not None:
        folder.save_known(data.completion)
    split = data.split(config.split)
    evaluation = evaluate(predictor, data, split, experiment.parts, config.batch_size)
    about = {
        "data": config.data,
        "baseline": describe_baseline(data, data.metric),
        "seconds": round(seconds, 2),
        "epochs": epochs,
        "fingerprint": experiment.data_fingerprint(),
        "parameters": sum(p.numel() for p in predictor.parameters()),
    }
    held = evaluation.parts.get("validation")
    if held is not None and data.task.kind == "regression":
        calibration = Calibration.of(held.predicted, held.target, data.task)
        write(folder.calibration, calibration.to_json())
    folder.save_metrics({**about, **evaluation.metrics()})
    write(folder.predictions, evaluation.table())
    return evaluation


def _assert_trainable(experiment: Experiment) -> None:
    """Refuse data without targets, and fewer examples than processes."""
    config, task = experiment.config, experiment.data.task
    train = experiment.parts.train
    if not any(bool(task.is_known(task.rows(one)).any()) for one in train):
        raise IncidenceError(
            f"none of the training examples of {config.data!r} has a target: there is nothing to"
            " learn from."
        )
    if config.split_structure:
        _assert_splits(experiment)
        return
    world, count = config.devices * config.machines, len(experiment.batches)
    if count < world:
        what = "examples" if config.neighbours is None else "nodes"
        raise IncidenceError(
            f"{count} {what} cannot be shared by {world} processes: use fewer --devices."
        )


def _assert_splits(experiment: Experiment) -> None:
    """Refuse data whose targets are not those of entries."""
    config, data = experiment.config, experiment.data
    if not data.task.at or data.completion is not None:
        raise IncidenceError(
            "--split-structure is for labels or numbers of nodes and other entries; the targets of"
            f" {config.data!r} belong to"
            f" {'queries' if data.completion is not None else 'whole structures'}: leave it out,"
            " and every process takes other examples."
        )
    given = {"neighbours": config.neighbours, "augment": config.augment or None}
    for name, value in given.items():
        if value is not None:
            raise IncidenceError(
                f"--split-structure trains on all entries in every step: leave out --{name}."
            )
