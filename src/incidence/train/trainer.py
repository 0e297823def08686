"""What Lightning needs to know: what watches the loop, what is shown of it, and where logs go."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from tqdm import tqdm

from incidence.errors import IncidenceError, need
from incidence.train.checkpoint import AtomicCheckpointIO
from incidence.train.evaluate import HIGHER
from incidence.train.folder import RunFolder, csv_text, write
from incidence.train.launch import is_first
from incidence.train.prepare import Prepared

__all__ = ["History", "Progress", "new_trainer"]


def new_trainer(prepared: Prepared, folder: RunFolder, callbacks: list[Callback]) -> pl.Trainer:
    """Lightning's loop, as the options want it."""
    config = prepared.config
    try:
        return pl.Trainer(
            max_epochs=config.epochs,
            accelerator=config.accelerator,
            devices=config.devices,
            num_nodes=config.machines,
            strategy="ddp" if config.devices * config.machines > 1 else "auto",
            precision=config.precision,  # type: ignore[arg-type]
            gradient_clip_val=config.clip or None,
            callbacks=[*callbacks, *_watchers(prepared, folder)],
            logger=_loggers(config.logger, folder) if is_first() else False,
            plugins=[AtomicCheckpointIO()],
            default_root_dir=folder.path,
            limit_val_batches=1.0 if prepared.parts.validation else 0,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,  # see `batches.Order`
            enable_progress_bar=False,  # see `Progress`
            enable_model_summary=False,  # the page of the run has it
            log_every_n_steps=1,
        )
    except (ValueError, RuntimeError, MisconfigurationException) as error:
        if isinstance(error, IncidenceError):
            raise
        raise IncidenceError(f"Lightning does not take these options: {error}") from error


def _watchers(prepared: Prepared, folder: RunFolder) -> Iterator[Callback]:
    """What looks at the validation part, early stopping and the best weights; then what is written anew after every epoch."""
    config, metric = prepared.config, prepared.data.metric
    if (config.keep == "best" or config.patience) and not prepared.parts.validation:
        raise IncidenceError(
            "--keep best and --patience need a validation part: add --validation 0.1."
        )
    watched: dict[str, Any] = {
        "monitor": f"validation_{metric}",
        "mode": "max" if metric in HIGHER else "min",
    }
    one_file: dict[str, Any] = {"save_on_train_epoch_end": True, "enable_version_counter": False}
    if config.patience:
        yield Stop(patience=config.patience, **watched)
    if config.keep == "best":
        yield BestCheckpoint(
            folder.checkpoints, folder.best.stem, save_weights_only=True, **watched, **one_file
        )
    yield ModelCheckpoint(folder.checkpoints, folder.last.stem, **one_file)


def _loggers(which: str, folder: RunFolder) -> list[Logger]:
    part = f"part_{1 + len(list(folder.logs.glob('csv/part_*')))}"  # a run that goes on must not empty the log of its first part
    logs: list[Logger] = [] if which == "tensorboard" else [CSVLogger(folder.logs, "csv", part)]
    if which != "csv":
        need("tensorboard", "--logger tensorboard", "tensorboard")
        logs.append(TensorBoardLogger(folder.logs, "tensorboard", part))
    return logs


class History(Callback):
    """The metrics of every epoch, as a table, and how long they took.

    Ours, as it is part of the checkpoint: a run that was killed and resumed has one history, and Lightning's CSV log has one for each try.

    Args:
        path: Of the table.
        earlier: The seconds of a run that was finished before and goes on.
    """

    def __init__(self, path: Path, earlier: float = 0.0) -> None:
        self.path, self.rows = path, list[dict[str, float]]()
        self.earlier, self.begun = earlier, time.monotonic()

    @property
    def seconds(self) -> float:
        """The time until now, with that before a stop, as far as a checkpoint knows it."""
        return self.earlier + time.monotonic() - self.begun

    def state_dict(self) -> dict[str, Any]:
        """The rows so far, and their time, which is no part of the table: that is the same for all runs that do the same."""
        return {"rows": self.rows, "seconds": self.seconds}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over the rows of a checkpoint, and their time, which checkpoints did not always have."""
        self.rows, self.earlier = (
            list(state["rows"]),
            max(self.earlier, float(state.get("seconds", 0.0))),
        )

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Adds a row, and writes the table."""
        values = {key: float(value) for key, value in trainer.callback_metrics.items()}
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        self.rows.append({"epoch": trainer.current_epoch + 1, **values, "lr": rate})
        if trainer.is_global_zero:
            columns = list(dict.fromkeys(key for row in self.rows for key in row))
            write(
                self.path,
                csv_text([columns, *([row.get(key, "") for key in columns] for row in self.rows)]),
            )


class BestCheckpoint(ModelCheckpoint):
    """Lightning's, except that it remembers the best score and no path: Lightning forgets the score when the folder has moved."""

    def state_dict(self) -> dict[str, Any]:
        """The best score so far."""
        return {"best": self.best_model_score}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over the best score of a checkpoint."""
        if state["best"] is not None:
            path = str(Path(self.dirpath or "", f"{self.filename}.ckpt"))
            self.best_model_path = self.kth_best_model_path = path
            self.best_model_score = self.kth_value = self.best_k_models[path] = state["best"]


class Stop(EarlyStopping):
    """Lightning's, except that a run that is resumed after its early end trains no more: Lightning's would do another epoch."""

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Stops at once, if the checkpoint says so."""
        trainer.should_stop = self.wait_count >= self.patience


class Progress(Callback):
    """One bar for the whole run; a line now and then where there is no terminal.

    Ours, as Lightning's bars are one for each epoch, of which there are dozens in a minute, and fill a log file with control characters.
    """

    def __init__(self, is_shown: bool = True, stream: Any = None) -> None:
        self.is_shown, self.stream = is_shown, stream or sys.stderr
        self.bar: Any = None
        self.spoke = 0.0
        self.has_begun = False

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Shows an empty bar, or one that is filled as far as a resumed run had come."""
        self.has_begun = True
        self.is_shown = self.is_shown and trainer.is_global_zero
        if self.is_shown and self.stream.isatty():
            form = "{desc} |{bar}| {elapsed}<{remaining}{postfix}"  # the bar takes the room that is left, so that no number is cut
            steps = int(trainer.num_training_batches)
            total, done = (trainer.max_epochs or 0) * steps, trainer.current_epoch * steps
            self.bar = tqdm(
                total=total,
                initial=done,
                desc=_place(trainer, 0),
                file=self.stream,
                bar_format=form,
                dynamic_ncols=True,
            )
        elif self.is_shown:
            self._say(_place(trainer, 0))

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Moves the bar."""
        if self.bar is not None:
            self.bar.update()
        elif self.is_shown and time.monotonic() - self.spoke > 10:  # an epoch that takes long
            self._say(
                f"{_place(trainer, 1)}, step {batch_idx + 1} of {trainer.num_training_batches}"
            )

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Tells the metrics of the epoch."""
        shown = {
            key.replace("validation_", "val "): f"{float(value):.4g}"
            for key, value in trainer.callback_metrics.items()
        }
        if self.bar is not None:
            self.bar.set_description(_place(trainer, 1), refresh=False)
            self.bar.set_postfix(shown)
        elif self.is_shown and time.monotonic() - self.spoke > 5:
            self._say(
                f"{_place(trainer, 1)}: {', '.join(f'{key} {value}' for key, value in shown.items())}"
            )

    def _say(self, text: str) -> None:
        print(text, file=self.stream, flush=True)
        self.spoke = time.monotonic()

    def on_train_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Closes the bar."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def on_exception(
        self, trainer: pl.Trainer, module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Closes the bar, so that the error stands on a line of its own."""
        self.on_train_end(trainer, module)


def _place(trainer: pl.Trainer, begun: int) -> str:
    return f"epoch {trainer.current_epoch + begun} of {trainer.max_epochs}"
