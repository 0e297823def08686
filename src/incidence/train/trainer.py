"""Lightning's loop as the options want it: the steps of training, what watches them, and logs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import fields
from datetime import timedelta
from itertools import chain
from math import cos, inf, pi
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
import torch.distributed as dist
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from lightning.pytorch.profilers import PassThroughProfiler
from lightning.pytorch.strategies import DDPStrategy
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn
from torch.utils.data import DataLoader
from tqdm import tqdm

from incidence.data.order import Order, seed_of
from incidence.distributed.agreement import assert_same
from incidence.distributed.processes import DEFAULT_TIMEOUT, as_world
from incidence.errors import IncidenceError, need
from incidence.models.predictor import Predictor
from incidence.nn.norms import RowNorm
from incidence.structure.example import Example
from incidence.train.batches import ExampleBatches, SplitExamples, loader
from incidence.train.checkpoint import AtomicCheckpointIO
from incidence.train.launch import is_first
from incidence.train.metrics import HIGHER, metrics_of, update, watched_metric
from incidence.train.prepare import Experiment
from incidence.train.run_folder import RunFolder, csv_text, write

__all__ = ["LOSSES", "History", "Progress", "Training", "new_trainer"]

_Pairs = tuple[list[Tensor], list[Tensor]]
_LEAST_FACTOR = 1e-3  # of the peak learning rate
_EPOCH_PAUSE, _STEP_PAUSE = 5, 10  # seconds between lines of progress
_OF_ONE_PROCESS = ("data", "out", "threads")  # options that may differ between machines


def _pairs(first: nn.Module, second: nn.Module) -> tuple[_Pairs, _Pairs]:
    """Return the tensors of two equal modules: those with floats, and all others."""
    floats: _Pairs = ([], [])
    others: _Pairs = ([], [])
    mine = chain(first.parameters(), first.buffers())
    theirs = chain(second.parameters(), second.buffers())
    for one, other in zip(mine, theirs, strict=True):
        lists = floats if one.is_floating_point() else others
        lists[0].append(one)
        lists[1].append(other)
    return floats, others


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
            gradient_clip_val=config.clip or None,
            callbacks=[*callbacks, *_watchers(experiment, folder)],
            logger=_loggers(config.logger, folder) if is_first() else False,
            plugins=[AtomicCheckpointIO()],
            profiler=NoProfiler(),
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
    return DDPStrategy(timeout=timedelta(seconds=DEFAULT_TIMEOUT))


class NoProfiler(PassThroughProfiler):
    """Measures nothing, in less time: Lightning makes a new context for each of 40 hooks a step."""

    _nothing = nullcontext()

    def profile(self, action_name: str) -> AbstractContextManager[None]:  # type: ignore[override]
        """Return a context that does nothing."""
        return self._nothing


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


class Plateau:
    """Halves a factor of the learning rate after some epochs without a better metric.

    Args:
        patience: The number of epochs.
        is_higher_better: Whether a higher metric is better.
    """

    def __init__(self, patience: int, is_higher_better: bool) -> None:
        self.patience = patience
        self.is_higher_better = is_higher_better
        self.factor, self.best, self.waited = 1.0, -inf, 0

    def update(self, value: float) -> None:
        """Take the metric of an epoch into account."""
        score = value if self.is_higher_better else -value
        if score > self.best:
            self.best, self.waited = score, 0
            return
        self.waited += 1
        if self.waited >= self.patience:
            self.factor, self.waited = max(_LEAST_FACTOR, self.factor / 2), 0

    def state(self) -> list[float]:
        """Return the numbers that a checkpoint has."""
        return [self.factor, self.best, float(self.waited)]

    def load(self, state: list[float]) -> None:
        """Take over the numbers of a checkpoint."""
        self.factor, self.best, waited = state
        self.waited = int(waited)


class Progress(Callback):
    """One bar for the whole run, or a line now and then without a terminal.

    Lightning has a bar for each epoch, of which there may be dozens in a minute, and its control
    characters fill log files.

    Args:
        is_shown: Whether to print anything.
        stream: Where to print; stderr by default.
    """

    def __init__(self, is_shown: bool = True, stream: Any = None) -> None:
        self.is_shown, self.stream = is_shown, stream or sys.stderr
        self.bar: Any = None
        self.last_line = 0.0
        self.has_begun = False

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Print a first line, or an empty bar, or one filled as far as a resumed run had come."""
        self.has_begun = True
        self.is_shown = self.is_shown and trainer.is_global_zero
        if not self.is_shown:
            return
        if not self.stream.isatty():
            self._print(_place(trainer, 0))
            return
        steps = int(trainer.num_training_batches)
        self.bar = tqdm(
            total=(trainer.max_epochs or 0) * steps,
            initial=trainer.current_epoch * steps,
            desc=_place(trainer, 0),
            file=self.stream,
            # the bar takes the room that is left, so that no number is cut
            bar_format="{desc} |{bar}| {elapsed}<{remaining}{postfix}",
            dynamic_ncols=True,
        )

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Move the bar; print a line in an epoch that takes long."""
        if self.bar is not None:
            self.bar.update()
        elif self._is_time(_STEP_PAUSE):
            step = f"step {batch_idx + 1} of {trainer.num_training_batches}"
            self._print(f"{_place(trainer, 1)}, {step}")

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


LOSSES: dict[str, Callable[..., Tensor]] = {
    "squared": nn.functional.mse_loss,
    "absolute": nn.functional.l1_loss,
    "huber": nn.functional.smooth_l1_loss,
}
"""The losses of numbers."""
_OPTIMIZERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}


class Training(pl.LightningModule):
    """What happens in a step and in an epoch; everything else is Lightning's.

    Attributes:
        checkpoint: The file for checkpoints in the middle of an epoch; None for none.
    """

    checkpoint: Path | None = None

    def __init__(self, predictor: Predictor, experiment: Experiment) -> None:
        super().__init__()
        self.predictor, self.experiment = predictor, experiment
        self.task, self.config = experiment.data.task, experiment.config
        world = self.config.devices * self.config.machines
        order = Order(len(experiment.batches), self.config.batch_size, share=(0, world))
        steps = 1 if self.config.split_structure else len(order)
        self.num_steps = self.config.epochs * steps
        self._split = SplitExamples(self.config.split_structure and world > 1)
        self.validation_metrics = metrics_of(self.task, is_shared=True)
        for module in predictor.modules():
            if isinstance(module, RowNorm):
                module.is_shared = not self.config.split_structure
        self.averaged: Predictor | None = None
        if self.config.average:
            self.averaged = deepcopy(predictor).requires_grad_(False).eval()
        self.watched = f"validation_{experiment.data.metric}"
        if not experiment.parts.validation:
            self.watched = "train_loss"
        is_higher_better = self.watched.removeprefix("validation_") in HIGHER
        self.plateau = Plateau(self.config.plateau_patience, is_higher_better)
        # the sum of the losses of the epoch, and the number of their targets
        self._epoch_sums = torch.zeros(2)
        # where the epoch is, and when it was saved last
        self._num_done, self._is_due, self._saved = 0, False, time.monotonic()

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute.

        Lightning sets the name of its present hook 60 times a step, and the checks of torch for
        parameters take long.
        """
        if isinstance(value, str | None) and name in self.__dict__:
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)

    @property
    def result(self) -> Predictor:
        """The predictor that is validated and saved: with averaged weights, if there are any."""
        return self.predictor if self.averaged is None else self.averaged

    def setup(self, stage: str) -> None:
        """Check that all processes have one version, the same data and the same options.

        Raises:
            IncidenceError: They differ; all processes raise it.
        """
        if self.trainer.world_size == 1:
            return
        world = as_world(None)
        assert_same(world, "the data", self.experiment.data_fingerprint())
        options = {field.name: getattr(self.config, field.name) for field in fields(self.config)}
        for name in _OF_ONE_PROCESS:
            del options[name]
        assert_same(world, "the options", options)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what the model is, so that no other is taken for it, and where the run is."""
        checkpoint["incidence"] = self.experiment.spec.plain()
        checkpoint["plateau"] = self.plateau.state()
        checkpoint["position"] = {"batches": self._num_done, "sums": self._epoch_sums}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take over the state of the learning rate, and of an epoch that was not finished."""
        if "plateau" in checkpoint:
            self.plateau.load(checkpoint["plateau"])
        if "position" in checkpoint:
            self._num_done = int(checkpoint["position"]["batches"])
            self._epoch_sums = checkpoint["position"]["sums"].to(self.device)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Move the averaged weights; log the loss after the last step, as each log takes long."""
        self._move_averages()
        is_last = batch_idx + 1 == self.trainer.num_training_batches
        self._num_done = 0 if is_last else batch_idx + 1
        if self._is_due and not is_last and self.checkpoint is not None:
            self.trainer.save_checkpoint(self.checkpoint)  # all processes do this together
            self._saved = time.monotonic()
        if is_last:
            total, known = self._epoch_sums
            mean = total / known.clamp(min=1)
            self.log("train_loss", mean, batch_size=1, on_step=False, on_epoch=True)

    @torch.no_grad()
    def _move_averages(self) -> None:
        """Move the averaged weights; quickly at first, as they start at random weights.

        Statistics of norms are averaged as well: those of the present weights do not fit.
        """
        if self.averaged is None:
            return
        step = self.global_step
        decay = min(self.config.average, (1 + step) / (10 + step))
        floats, others = _pairs(self.averaged, self.predictor)
        get_ema_multi_avg_fn(decay)(*floats, step)  # one call for all tensors
        for average, current in zip(*others, strict=True):
            average.copy_(current)

    def train_dataloader(self) -> DataLoader[Any]:
        """Return the training part, in another order in every epoch; each process has its share."""
        if self.config.split_structure:
            return self._split.loader(self.experiment.parts.train)
        batches = self.experiment.batches
        share = (self.trainer.global_rank, self.trainer.world_size)
        order = Order(
            len(batches),
            self.config.batch_size,
            self.config.seed,
            share,
            lambda: self.trainer.current_epoch,
            lambda: self._num_done,
        )
        return loader(batches, order)

    def val_dataloader(self) -> DataLoader[Any]:
        """Return the share of the validation part of this process.

        A process that has no share takes an example without a target, or the others would wait.
        """
        held = self.experiment.parts.validation
        if self.config.split_structure:
            return self._split.loader(held)
        share = held[self.trainer.global_rank :: self.trainer.world_size]
        if not share:
            share = [self.task.only(held[0], None)]
        return loader(ExampleBatches(share), Order(len(share), self.config.batch_size))

    def on_train_epoch_start(self) -> None:
        """Begin to add up the losses of the epoch; one that is continued goes on adding."""
        self._epoch_sums = torch.zeros(2, device=self.device)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Seed the step by its number, so that a step that is done again is the same."""
        seed = seed_of(self.config.seed, self.current_epoch, batch_idx, self.global_rank)
        if self.device.type == "cpu":
            # 60 times as fast as the other, which looks for devices
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)

    def transfer_batch_to_device(
        self, batch: Example, device: torch.device, dataloader_idx: int
    ) -> Example:
        """Return the batch on a device."""
        return batch if batch.structure.device == device else batch.to(device)

    def training_step(self, batch: Example, _: int) -> Tensor:
        """Return a loss whose mean over the processes is the loss of their batches as one."""
        total, count = self._loss(batch)
        sums = torch.stack([total.detach(), count, torch.full_like(count, self._is_over())])
        if self.trainer.world_size > 1:
            dist.all_reduce(sums)
        if not torch.isfinite(sums[0]):  # in all processes at once: none waits for another
            self._refuse(f"the loss is {float(sums[0])}")
        self._is_due = bool(sums[2])
        self._epoch_sums = self._epoch_sums + sums[:2]  # of all processes already
        return total * self.trainer.world_size / sums[1].clamp(min=1)

    def _is_over(self) -> bool:
        """Return whether it is time to save, by the clock of the first process."""
        if self.checkpoint is None or not self.config.save_minutes or self.global_rank:
            return False
        return time.monotonic() - self._saved >= 60 * self.config.save_minutes

    def configure_gradient_clipping(
        self,
        optimizer: Any,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the gradients where their norm is too large; one norm of all is quickly computed."""
        if not gradient_clip_val:
            return
        weights = optimizer.param_groups[0]["params"]
        grads = [p.grad.reshape(-1) for p in weights if p.grad is not None]
        if not grads:
            return
        # a GPU would be waited for
        if grads[0].is_cpu and torch.cat(grads).norm() <= gradient_clip_val:
            return
        super().configure_gradient_clipping(optimizer, gradient_clip_val, gradient_clip_algorithm)

    def on_train_epoch_end(self) -> None:
        """Check the weights before they are saved: no loss has shown the last step yet."""
        if not all(bool(p.isfinite().all()) for p in self.parameters()):
            self._refuse("a weight is no finite number")
        if self.config.schedule == "plateau":
            self.plateau.update(float(self.trainer.callback_metrics[self.watched]))

    def _refuse(self, what: str) -> None:
        raise IncidenceError(
            f"{what} in epoch {self.current_epoch + 1}: training has diverged, and this epoch was"
            " not saved. Try a smaller learning rate (--lr), or look for values in the data that"
            " are far off."
        )

    def _loss(self, batch: Example) -> tuple[Tensor, Tensor]:
        """Return the sum of the losses of all rows that have a target, and their number."""
        y, target = self.predictor(batch.features, batch.structure), self.task.rows(batch)
        smoothing = self.config.label_smoothing
        if self.task.kind == "classification":
            total = nn.functional.cross_entropy(
                y, target, ignore_index=-1, label_smoothing=smoothing, reduction="sum"
            )
            return total, (target >= 0).sum().to(total.dtype)
        target, loss = target.reshape(y.shape).to(y.dtype), LOSSES[self.config.loss]
        if self.task.kind == "multilabel":
            target = target + smoothing * (0.5 - target)
            loss = nn.functional.binary_cross_entropy_with_logits
        else:
            target = self.predictor.scaled(target)
        # A mask as an index would wait for a GPU, which has to count what it lets through.
        known = ~target.isnan()
        losses = loss(y, target.nan_to_num(), reduction="none")
        total = torch.where(known, losses, 0.0).sum()
        return total, known.sum().to(total.dtype)

    def validation_step(self, batch: Example, _: int) -> None:
        """Update the metrics, in the units of the data."""
        predicted = self.result.eval().predict(batch.features, batch.structure)
        update(self.validation_metrics, predicted, self.task.rows(batch), self.task)

    def on_validation_epoch_end(self) -> None:
        """Log the metrics of the validation part."""
        values = self.validation_metrics.compute()
        self.log_dict({f"validation_{name}": value for name, value in values.items()})
        self.validation_metrics.reset()

    def configure_optimizers(self) -> Any:
        """Return Adam or AdamW, with the schedule of the learning rate."""
        optimizer = _OPTIMIZERS[self.config.optimizer](
            [p for p in self.parameters() if p.requires_grad],
            lr=self.config.lr,
            weight_decay=self.config.weight_decay,
            # Lightning clips no gradients of a fused optimiser in mixed precision
            fused="mixed" not in self.config.precision,
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self._factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _factor(self, step: int) -> float:
        """Return the learning rate at a step as a share of its peak.

        It rises from 1/25, and falls to 0 along a cosine, or stays, or is halved on a plateau.
        """
        peak = max(1, round(self.config.warmup * self.num_steps))
        if step < peak:
            return 0.04 + 0.96 * (1 - cos(pi * step / peak)) / 2
        if self.config.schedule == "constant":
            return 1.0
        if self.config.schedule == "plateau":
            return self.plateau.factor
        return (1 + cos(pi * min(1.0, (step - peak) / max(1, self.num_steps - peak)))) / 2
