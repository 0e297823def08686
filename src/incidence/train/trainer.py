"""What Lightning needs to know: batches for each process, what watches the loop, and where logs go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from torch.utils.data import DataLoader

from incidence.data import Task
from incidence.errors import IncidenceError, need
from incidence.structure.example import Example
from incidence.train.batches import Order, loader
from incidence.train.callbacks import BestCheckpoint, Stop
from incidence.train.checkpoint import AtomicCheckpointIO
from incidence.train.config import Config
from incidence.train.folder import RunFolder
from incidence.train.prepare import Prepared
from incidence.train.process import is_first

__all__ = ["Loaders", "new_trainer"]


class Loaders(pl.LightningDataModule):
    """Batches of the parts of a data set; each process takes its share."""

    def __init__(self, prepared: Prepared) -> None:
        super().__init__()
        self.prepared = prepared

    def _share(self) -> tuple[int, int]:
        assert self.trainer is not None
        return self.trainer.global_rank, self.trainer.world_size

    def train_dataloader(self) -> DataLoader[Any]:
        """The training part, in another order in every epoch."""
        config, data, train = self.prepared.config, self.prepared.data, self.prepared.parts.train
        order = Order(len(train), config.batch_size, config.seed, self._share(), lambda: self.trainer.current_epoch)  # type: ignore[union-attr]
        return loader(train, order, data.augment if config.augment else None)

    def val_dataloader(self) -> DataLoader[Any]:
        """The validation part."""
        held = self.prepared.parts.validation
        rank, world = self._share()
        own = held[rank::world] or [_without_target(held[0], self.prepared.data.task)]  # all must take part, or the others wait
        return loader(own, Order(len(own), self.prepared.config.batch_size))


def _without_target(example: Example, task: Task) -> Example:
    """The same example, of which nothing counts."""
    nothing = torch.full_like(task.rows(example), -1 if task.kind == "classification" else torch.nan)
    return example.replace(target={task.at: nothing} if task.at else nothing)


def new_trainer(prepared: Prepared, folder: RunFolder, callbacks: list[Callback]) -> pl.Trainer:
    """Lightning's loop, as the options want it.

    Raises:
        IncidenceError: It does not take them, or there is nothing to validate on.
    """
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
            callbacks=[*callbacks, *_watchers(prepared, folder), _checkpoint(ModelCheckpoint, folder.last)],
            logger=_loggers(config, folder) if is_first() else False,
            plugins=[AtomicCheckpointIO()],
            default_root_dir=folder.path,
            limit_val_batches=1.0 if prepared.parts.validation else 0,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,  # see `batches.Order`
            enable_progress_bar=False,  # see `callbacks.Progress`
            enable_model_summary=False,  # the page of the run has it
            log_every_n_steps=1,
        )
    except (ValueError, RuntimeError, MisconfigurationException) as error:
        if isinstance(error, IncidenceError):
            raise
        raise IncidenceError(f"Lightning does not take these options: {error}") from error


def _watchers(prepared: Prepared, folder: RunFolder) -> list[Callback]:
    """What looks at the validation part: early stopping, and the best weights."""
    config, metric = prepared.config, prepared.data.metric
    if config.keep != "best" and not config.patience:
        return []
    if not prepared.parts.validation:
        raise IncidenceError("--keep best and --patience need a validation part: add --validation 0.1.")
    watched: dict[str, Any] = {"monitor": f"validation_{metric}", "mode": "max" if metric == "accuracy" else "min"}
    stop = [Stop(patience=config.patience, **watched)] if config.patience else []
    best = [_checkpoint(BestCheckpoint, folder.best, save_weights_only=True, **watched)] if config.keep == "best" else []
    return [*stop, *best]


def _checkpoint(kind: type[ModelCheckpoint], path: Path, **options: Any) -> ModelCheckpoint:
    """One file, written anew after an epoch."""
    return kind(path.parent, path.stem, save_on_train_epoch_end=True, enable_version_counter=False, **options)


def _loggers(config: Config, folder: RunFolder) -> list[Logger]:
    part = f"part_{1 + len(list(folder.logs.glob('csv/part_*')))}"  # a run that goes on must not empty the log of its first part
    made: dict[str, Any] = {
        "csv": lambda: CSVLogger(folder.logs, "csv", part),
        "tensorboard": lambda: (
            need("tensorboard", "--logger tensorboard", "tensorboard") and TensorBoardLogger(folder.logs, "tensorboard", part)
        ),
    }
    return [make() for name, make in made.items() if config.logger in (name, "both")]
