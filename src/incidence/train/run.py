"""A run from start to end: train, resume, and what is made of the result; its lock, its threads, and silence around it."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import torch

from incidence.errors import IncidenceError
from incidence.models import Predictor
from incidence.notebook import html_of
from incidence.train import checkpoint
from incidence.train.config import Config
from incidence.train.evaluate import Evaluation, blind_words, evaluate
from incidence.train.folder import RunFolder, disk_trouble, read_json, short, write
from incidence.train.launch import is_first
from incidence.train.module import Training
from incidence.train.prepare import Prepared, loaded, new_predictor, prepare
from incidence.train.trainer import History, Progress, new_trainer

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None  # type: ignore[assignment]

__all__ = ["Interrupted", "Run", "resume", "train"]


class Interrupted(KeyboardInterrupt):
    """The user stopped a run, which can be resumed from its folder; `words` say how, if it was one of several."""

    def __init__(self, folder: RunFolder, words: str = "") -> None:
        super().__init__(
            f"stopped; go on with: {words or f'incidence train --resume {folder.path}'}"
        )
        self.folder = folder


@dataclass(frozen=True)
class Run:
    """A finished run: its folder, what it began with, the model, how well it does, and a row of metrics for each epoch."""

    folder: RunFolder
    prepared: Prepared
    predictor: Predictor
    evaluation: Evaluation
    history: list[dict[str, float]]

    _repr_html_ = html_of

    def __repr__(self) -> str:
        """Where it is, and how well it does."""
        count = len(self.history)
        return f"Run({str(self.folder.path)!r}: {self.evaluation.line()}; {count} epoch{'s' * (count != 1)})"


def train(
    options: Mapping[str, Any] | Config | None = None, data: Any = None, is_shown: bool = False
) -> Run | None:
    """Trains a network and keeps everything in a new folder.

    Args:
        options: Of `Config`; what is left out is decided by the recipe of the data.
        data: Anything that `inc.data.load` takes, in place of what the options name.
        is_shown: Whether to show progress.

    Returns:
        The run; None in processes other than the first.

    Raises:
        IncidenceError: The options, the data or the disk do not allow it.
        Interrupted: The user stopped it.
    """
    given = {} if isinstance(options, Config) else dict(options or {})
    if data is None and not isinstance(given.get("data", ""), str):
        data = given.pop("data")
    config = options if isinstance(options, Config) else Config(**given)
    if isinstance(data, (str, PathLike)):
        config, data = config.replace(data=fspath(data)), None
    elif data is not None:
        data = loaded(config, data)
        config = Config(**{"data": data.name, **config.given()})
    with _threads(config.threads):
        prepared = prepare(config, data)
        if config.augment and prepared.data.augment is None:
            raise IncidenceError(
                f"there is no way to change {config.data!r} a little, as there is for named data sets of meshes: leave out --augment."
            )
        folder = (
            RunFolder.new(config.out, config.data) if is_first() else RunFolder(Path(os.devnull))
        )
        try:
            job = _Job(folder, prepared, is_shown)
            if is_first():
                folder.start(prepared.config, prepared.spec)
        except BaseException:  # it has not begun: nothing must stand in the way of the next try
            if is_first():
                shutil.rmtree(folder.path, ignore_errors=True)
            raise
        with _locked(folder):
            return job.run()


def resume(
    path: Path | str, data: Any = None, is_shown: bool = False, epochs: int | None = None
) -> Run | None:
    """Goes on with a run that was stopped or killed, and ends with the same weights as if it had not been.

    Args:
        path: Its folder.
        data: What the run was given, if it was no name or path.
        is_shown: Whether to show progress.
        epochs: How many the run is to have in all, if more than it was begun for: the learning rate then follows the schedule of the
            longer run from where it is.

    Raises:
        IncidenceError: The folder is of no run, its checkpoint is damaged or of another model, or the run is for more epochs than asked.
        Interrupted: The user stopped it again.
    """
    folder = RunFolder.open(Path(path))
    begun = folder.read_config()
    if epochs is not None and epochs < begun.epochs:
        raise IncidenceError(
            f"the run in {folder.path} is for {begun.epochs} epochs: a run goes on with as many or more; got {epochs}."
        )
    config = begun if epochs is None else begun.replace(epochs=epochs)
    with _threads(config.threads), _locked(folder):
        prepared = prepare(config, None if data is None else loaded(config, data))
        told = folder.read_spec().plain()
        prepared.spec.assert_same(
            told,
            f"the data or the version of the library has changed since {folder.path} was begun",
        )
        if is_first():
            folder.clean()
            if config.epochs != begun.epochs:
                folder.prolong(prepared.config)
        if folder.last.exists():
            content = checkpoint.read(folder.last, checkpoint.RESUMABLE)
            prepared.spec.assert_same(
                content["incidence"], f"{folder.last} belongs to another model"
            )
        return _Job(
            folder, prepared, is_shown, start=folder.last if folder.last.exists() else None
        ).run()


@contextmanager
def _locked(folder: RunFolder) -> Iterator[None]:
    """Keeps other runs out of a folder, by a lock that the kernel gives back however the process ends; processes of one run share it."""
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
                f"another process trains in {folder.path}: wait for its end, or start a run of its own."
            ) from error
        except OSError:  # a disk without locks
            pass
        yield


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Lets torch use so many threads, and as many as before in the end."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _quiet() -> Iterator[None]:
    """Lightning tells much that is of no use to the person who trains."""
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


def _earlier(folder: RunFolder) -> float:
    """The seconds of a run that was finished before and goes on."""
    try:
        return float(read_json(folder.metrics).get("seconds", 0.0))
    except (ValueError, TypeError):
        return 0.0


class _Job:
    """All that a run needs, made before anything is written: what cannot be done is refused here."""

    def __init__(
        self, folder: RunFolder, prepared: Prepared, is_shown: bool, start: Path | None = None
    ) -> None:
        config, task, train = prepared.config, prepared.data.task, prepared.parts.train
        if not any(bool(task.is_known(task.rows(e)).any()) for e in train):
            raise IncidenceError(
                f"none of the training examples of {config.data!r} has a target: there is nothing to learn from."
            )
        world = config.devices * config.machines
        count = len(prepared.batches)
        if count < world:
            what = "examples" if config.neighbours is None else "nodes"
            raise IncidenceError(
                f"{count} {what} cannot be shared by {world} processes: use fewer --devices."
            )
        self.folder, self.prepared, self.start = folder, prepared, start
        self.predictor = new_predictor(prepared) if start is None else prepared.spec.build()
        if config.neighbours is not None and self.predictor.net.reach is None:
            raise IncidenceError(
                "--neighbours is for networks that only look near by, and this one looks at all: add --operations local."
            )
        self.history, self.progress = History(folder.history, _earlier(folder)), Progress(is_shown)
        self.module = Training(self.predictor, prepared)
        with _quiet():
            self.trainer = new_trainer(prepared, folder, [self.history, self.progress])

    def run(self) -> Run | None:
        """Trains, from a checkpoint if there is one; writes the model, then what is made of it."""
        folder, config, data = self.folder, self.prepared.config, self.prepared.data
        if self.progress.is_shown and is_first():
            print(self.prepared.told(), file=sys.stderr, flush=True)
        with _quiet():
            self._fit()
        if not self.trainer.is_global_zero:
            return None
        if config.keep == "best":
            best = checkpoint.read(folder.best, ["state_dict"])["state_dict"]
            try:
                self.module.load_state_dict(best)
            except (RuntimeError, TypeError, AttributeError) as error:
                raise IncidenceError(
                    f"{folder.best} has not the weights of this model: {short(error)}."
                ) from error
        seconds, epochs = round(self.history.seconds, 2), len(self.history.rows)
        about = {
            "data": config.data,
            "baseline": blind_words(data, data.metric),
            "seconds": seconds,
            "epochs": epochs,
        }
        predictor = self.predictor.cpu().eval()
        folder.save_weights(predictor, self.prepared.spec)
        if data.completion is not None:
            folder.save_known(data.completion)
        evaluation = evaluate(
            predictor, data, data.split(config.split), self.prepared.parts, config.batch_size
        )
        about["fingerprint"] = self.prepared.fingerprint()
        metrics = {
            **about,
            "parameters": sum(p.numel() for p in predictor.parameters()),
            **evaluation.metrics(),
        }
        write(folder.metrics, json.dumps(metrics, indent=1, allow_nan=False) + "\n")
        write(folder.predictions, evaluation.table())
        return Run(folder, self.prepared, predictor, evaluation, self.history.rows)

    def _fit(self) -> None:
        try:
            self.trainer.fit(self.module, ckpt_path=self.start, weights_only=True)
        except SystemExit as error:  # what Lightning makes of Ctrl-C
            raise Interrupted(self.folder) from error
        except OSError as error:  # of a log; checkpoints and tables say so themselves
            raise IncidenceError(
                disk_trouble(Path(error.filename or self.folder.path), error)
            ) from error
        except IncidenceError:
            raise
        except (RuntimeError, ValueError, LookupError, TypeError, AttributeError) as error:
            if self.start is None or self.progress.has_begun:
                raise
            raise IncidenceError(
                f"{self.start} cannot be gone on from: {short(error)}. Nothing was changed; start a new run."
            ) from error
