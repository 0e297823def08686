"""What happens beside the loop: the history of a run, its best weights, an early end, and a display of progress."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from tqdm import tqdm

from incidence.train.folder import csv_text, write_text

__all__ = ["BestCheckpoint", "History", "Progress", "Stop"]


class History(Callback):
    """The metrics of every epoch, as a table.

    Ours, as it is part of the checkpoint: a run that was killed and resumed has one history, and Lightning's CSV log has one for each try.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.rows = path, list[dict[str, float]]()

    def state_dict(self) -> dict[str, Any]:
        """The rows so far."""
        return {"rows": self.rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over the rows of a checkpoint."""
        self.rows = list(state["rows"])

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Adds a row, and writes the table."""
        values = {key: float(value) for key, value in trainer.callback_metrics.items()}
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        self.rows.append({"epoch": trainer.current_epoch + 1, **values, "lr": rate})
        if trainer.is_global_zero:
            columns = list(dict.fromkeys(key for row in self.rows for key in row))
            write_text(self.path, csv_text([columns, *([row.get(key, "") for key in columns] for row in self.rows)]))


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
            form = "{desc} |{bar:30}| [{elapsed}<{remaining}]{postfix}"
            steps = int(trainer.num_training_batches)
            total, done = (trainer.max_epochs or 0) * steps, trainer.current_epoch * steps
            self.bar = tqdm(total=total, initial=done, desc=_place(trainer, 0), file=self.stream, bar_format=form)
        elif self.is_shown:
            self._say(_place(trainer, 0))

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Moves the bar."""
        if self.bar is not None:
            self.bar.update()
        elif self.is_shown and time.monotonic() - self.spoke > 10:  # an epoch that takes long
            self._say(f"{_place(trainer, 1)}, step {batch_idx + 1} of {trainer.num_training_batches}")

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Tells the metrics of the epoch."""
        shown = {key.replace("validation_", "val "): f"{float(value):.4g}" for key, value in trainer.callback_metrics.items()}
        if self.bar is not None:
            self.bar.set_description(_place(trainer, 1), refresh=False)
            self.bar.set_postfix(shown)
        elif self.is_shown and time.monotonic() - self.spoke > 5:
            self._say(f"{_place(trainer, 1)}: {', '.join(f'{key} {value}' for key, value in shown.items())}")

    def _say(self, text: str) -> None:
        print(text, file=self.stream, flush=True)
        self.spoke = time.monotonic()

    def on_train_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Closes the bar."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def on_exception(self, trainer: pl.Trainer, module: pl.LightningModule, exception: BaseException) -> None:
        """Closes the bar, so that the error stands on a line of its own."""
        self.on_train_end(trainer, module)


def _place(trainer: pl.Trainer, begun: int) -> str:
    return f"epoch {trainer.current_epoch + begun} of {trainer.max_epochs}"
