"""Lightning's loop as the options want it: what watches it, and what it logs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch.distributed as dist
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from lightning.pytorch.strategies import DDPStrategy
from tqdm import tqdm

from incidence.distributed.processes import DEFAULT_TIMEOUT
from incidence.distributed.starts import this_start
from incidence.errors import IncidenceError, need
from incidence.train.checkpoint import AtomicCheckpointIO
from incidence.train.launch import is_first
from incidence.train.metrics import HIGHER, watched_metric
from incidence.train.prepare import Experiment
from incidence.train.run_folder import RunFolder, csv_text, write

__all__ = ["History", "Progress", "new_trainer"]

_EPOCH_PAUSE, _STEP_PAUSE = 5, 10  # seconds between lines of progress


def new_trainer(experiment: Experiment, folder: RunFolder, callbacks: list[Callback]) -> pl.Trainer:
    """Return Lightning's loop.

    Raises:
        IncidenceError: Lightning refuses the options.
    """
    config = experiment.config
    try:
        return pl.Trainer(
            max_epochs=config.epochs,
            accelerator="cpu" if config.split_structure else config.accelerator,
            devices=config.devices,
            num_nodes=config.machines,
            strategy=_strategy(config.devices * config.machines),
            precision=config.precision,  # type: ignore[arg-type]
            callbacks=[*callbacks, *_watchers(experiment, folder)],
            logger=_loggers(config.logger, folder) if is_first() else False,
            plugins=[AtomicCheckpointIO()],
            default_root_dir=folder.path,
            limit_val_batches=1.0 if experiment.parts.validation else 0,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,  # see `batches.Order`
            enable_progress_bar=False,  # see `Progress`
            enable_model_summary=False,  # the report has it
            log_every_n_steps=1,
        )
    except (ValueError, RuntimeError, MisconfigurationException) as error:
        if isinstance(error, IncidenceError):
            raise
        raise IncidenceError(f"Lightning does not take these options: {error}") from error


def _strategy(world: int) -> Any:
    """Return how processes share the work. They wait for each other as long as those of parts."""
    if world == 1:
        return "auto"
    return RestartableStrategy(timeout=timedelta(seconds=DEFAULT_TIMEOUT))


class RestartableStrategy(DDPStrategy):
    """Lightning's, except that processes which torchrun restarts meet in a store of their own.

    In the store of torchrun they would read the addresses of dead processes.
    """

    def setup_distributed(self) -> None:
        """Connect the processes, before Lightning would."""
        store, device = this_start().store, self.root_device
        if store is not None and not dist.is_initialized():
            self.set_world_ranks()
            dist.init_process_group(
                self.process_group_backend or dist.get_default_backend_for_device(device),
                store=store,
                rank=self.global_rank,
                world_size=self.world_size,
                timeout=timedelta(seconds=DEFAULT_TIMEOUT),
                device_id=None if device.type == "cpu" else device,
            )
        super().setup_distributed()


def _watchers(experiment: Experiment, folder: RunFolder) -> Iterator[Callback]:
    """Yield early stopping, the best weights, and last the checkpoint of every epoch."""
    config, metric = experiment.config, experiment.data.metric
    if (config.keep == "best" or config.patience) and not experiment.parts.validation:
        raise IncidenceError(
            "`--keep best` and --patience need a validation part: add `--validation 0.1`."
        )
    metric = watched_metric(experiment.data.task, metric)
    watched: dict[str, Any] = {
        "monitor": f"validation_{metric}",
        "mode": "max" if metric in HIGHER else "min",
    }
    one_file: dict[str, Any] = {"save_on_train_epoch_end": True, "enable_version_counter": False}
    if config.max_minutes:
        yield TimeLimit(60 * config.max_minutes)
    if config.patience:
        yield Stop(patience=config.patience, **watched)
    if config.keep == "best":
        yield BestCheckpoint(
            folder.checkpoints, folder.best.stem, save_weights_only=True, **watched, **one_file
        )
    yield ModelCheckpoint(folder.checkpoints, folder.last.stem, **one_file)


def _loggers(which: str, folder: RunFolder) -> list[Logger]:
    # a run that is resumed must not empty the log of its first part
    part = f"part_{1 + len(list(folder.logs.glob('csv/part_*')))}"
    logs: list[Logger] = [] if which == "tensorboard" else [CSVLogger(folder.logs, "csv", part)]
    if which != "csv":
        need("tensorboard", "`--logger tensorboard`", "tensorboard")
        logs.append(TensorBoardLogger(folder.logs, "tensorboard", part))
    return logs


class History(Callback):
    """The metrics of every epoch as a table, and the time that all epochs took.

    It is part of the checkpoint, so that a run that was killed and resumed has one history.
    Lightning's CSV log has one for each try.

    Args:
        path: The file of the table.
        earlier: The seconds of the run before it was resumed.
    """

    def __init__(self, path: Path, earlier: float = 0.0) -> None:
        self.path, self.rows = path, list[dict[str, float]]()
        self.earlier, self.begun = earlier, time.monotonic()

    @property
    def seconds(self) -> float:
        """The time until now, with that before a stop."""
        return self.earlier + time.monotonic() - self.begun

    def state_dict(self) -> dict[str, Any]:
        """Return the rows and their time.

        The time is no part of the table: runs that do the same have the same table.
        """
        return {"rows": self.rows, "seconds": self.seconds}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over the rows and the time of a checkpoint."""
        self.rows = list(state["rows"])
        self.earlier = max(self.earlier, float(state["seconds"]))

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Add a row, and write the table."""
        values = {key: float(value) for key, value in trainer.callback_metrics.items()}
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        self.rows.append({"epoch": trainer.current_epoch + 1, **values, "lr": rate})
        if trainer.is_global_zero:
            columns = list(dict.fromkeys(key for row in self.rows for key in row))
            rows = ([row.get(key, "") for key in columns] for row in self.rows)
            write(self.path, csv_text([columns, *rows]))


class BestCheckpoint(ModelCheckpoint):
    """Lightning's, except that it stores the best score without a path.

    Lightning forgets the score when the folder has moved.
    """

    def state_dict(self) -> dict[str, Any]:
        """Return the best score so far."""
        return {"best": self.best_model_score}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over the best score of a checkpoint."""
        if state["best"] is not None:
            path = str(Path(self.dirpath or "", f"{self.filename}.ckpt"))
            self.best_model_path = self.kth_best_model_path = path
            self.best_model_score = self.kth_value = self.best_k_models[path] = state["best"]


class Stop(EarlyStopping):
    """Lightning's, except that a run that has stopped early trains no more when it is resumed.

    Lightning's would train for another epoch.
    """

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Stop at once, if the checkpoint says so."""
        trainer.should_stop = self.wait_count >= self.patience


class TimeLimit(Callback):
    """Stops at the end of the epoch in which a time is over, with that before a resume.

    Args:
        seconds: The time.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Stop at once, if a run is resumed whose time is over."""
        if trainer.current_epoch > 0:
            self._stop_if_over(trainer)

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Stop, if the time is over for the first process."""
        self._stop_if_over(trainer)

    def _stop_if_over(self, trainer: pl.Trainer) -> None:
        [history] = [one for one in trainer.callbacks if isinstance(one, History)]  # type: ignore[attr-defined]
        is_over = trainer.strategy.broadcast(history.seconds > self.seconds)
        trainer.should_stop = trainer.should_stop or is_over


class Progress(Callback):
    """One bar for the whole run, or a line now and then without a terminal.

    Lightning has a bar for each epoch, of which there may be dozens in a minute, and its control
    characters fill log files.

    Args:
        is_shown: Whether to print anything.
        stream: Where to print; stderr by default.

    Attributes:
        steps_per_epoch: The number of steps of an epoch, which the loop of training knows.
    """

    def __init__(self, is_shown: bool = True, stream: Any = None) -> None:
        self.is_shown, self.stream = is_shown, stream or sys.stderr
        self.steps_per_epoch = 1
        self.bar: Any = None
        self.last_line = 0.0
        self.has_begun = False

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Print a first line, or an empty bar, or one filled as far as a resumed run had come."""
        self.has_begun, self._trainer = True, trainer
        self.is_shown = self.is_shown and trainer.is_global_zero
        if not self.is_shown:
            return
        if not self.stream.isatty():
            self._print(_place(trainer, 0))
            return
        self.bar = tqdm(
            total=(trainer.max_epochs or 0) * self.steps_per_epoch,
            initial=trainer.current_epoch * self.steps_per_epoch,
            desc=_place(trainer, 0),
            file=self.stream,
            # the bar takes the room that is left, so that no number is cut
            bar_format="{desc} |{bar}| {elapsed}<{remaining}{postfix}",
            dynamic_ncols=True,
        )

    def after_step(self, number: int) -> None:
        """Move the bar; print a line in an epoch that takes long.

        Args:
            number: The number of steps of this epoch so far.
        """
        if self.bar is not None:
            self.bar.update()
        elif self._is_time(_STEP_PAUSE):
            step = f"step {number} of {self.steps_per_epoch}"
            self._print(f"{_place(self._trainer, 1)}, {step}")

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Print the metrics of the epoch."""
        metrics = {
            key.replace("validation_", "val "): f"{float(value):.4g}"
            for key, value in trainer.callback_metrics.items()
        }
        if self.bar is not None:
            self.bar.set_description(_place(trainer, 1), refresh=False)
            self.bar.set_postfix(metrics)
        elif self._is_time(_EPOCH_PAUSE):
            values = ", ".join(f"{key} {value}" for key, value in metrics.items())
            self._print(f"{_place(trainer, 1)}: {values}")

    def _is_time(self, pause: float) -> bool:
        return self.is_shown and time.monotonic() - self.last_line > pause

    def _print(self, text: str) -> None:
        print(text, file=self.stream, flush=True)
        self.last_line = time.monotonic()

    def on_train_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Close the bar."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def on_exception(
        self, trainer: pl.Trainer, module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Close the bar, so that the error stands on a line of its own."""
        self.on_train_end(trainer, module)


def _place(trainer: pl.Trainer, begun: int) -> str:
    return f"epoch {trainer.current_epoch + begun} of {trainer.max_epochs}"
