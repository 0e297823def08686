"""What happens in a step of training, in an epoch, and in validation."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn
from torch.utils.data import DataLoader

from incidence.data.order import Order, seed_of
from incidence.distributed.agreement import assert_same
from incidence.distributed.processes import as_world
from incidence.errors import IncidenceError
from incidence.models.predictor import Predictor
from incidence.nn.norms import RowNorm
from incidence.structure.example import Example
from incidence.train.batches import (
    Epoch,
    ExampleBatches,
    SplitExamples,
    loader,
    one_epoch,
)
from incidence.train.learning_rate import LearningRate
from incidence.train.metrics import HIGHER, metrics_of, update
from incidence.train.prepare import Experiment

__all__ = ["LOSSES", "Training"]

LOSSES: dict[str, Callable[..., Tensor]] = {
    "squared": nn.functional.mse_loss,
    "absolute": nn.functional.l1_loss,
    "huber": nn.functional.smooth_l1_loss,
}
"""The losses of numbers."""
_OF_ONE_PROCESS = ("data", "out", "threads")  # options that may differ between machines
_Pairs = tuple[list[Tensor], list[Tensor]]
_OPTIMIZERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}


class Training(pl.LightningModule):
    """What happens in a step and in an epoch; everything else is Lightning's.

    Around each of its steps, Lightning spends up to 1 ms, and a step of a small network takes five.
    So it makes one step an epoch, and `training_step` goes through the batches.

    Args:
        predictor: The network.
        experiment: The options and the data.
        after_step: Is called after every step, with the number of steps of this epoch so far.

    Attributes:
        checkpoint: The file for checkpoints in the middle of an epoch; None for none.
    """

    checkpoint: Path | None = None

    def __init__(
        self,
        predictor: Predictor,
        experiment: Experiment,
        after_step: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.predictor, self.experiment, self.after_step = predictor, experiment, after_step
        self.task, self.config = experiment.data.task, experiment.config
        world = self.config.devices * self.config.machines
        order = Order(len(experiment.batches), self.config.batch_size, share=(0, world))
        self.steps_per_epoch = 1 if self.config.split_structure else len(order)
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
        num_steps = self.config.epochs * self.steps_per_epoch
        self.rate = LearningRate(self.config, num_steps, is_higher_better)
        # the sum of the losses of the epoch, and the number of their targets, of all processes
        self._epoch_sums = torch.zeros(2)
        # where the epoch is in a checkpoint, and when the last one was saved
        self._num_done, self._is_due, self._saved = 0, False, time.monotonic()

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
        checkpoint["plateau"] = self.rate.plateau.state()
        checkpoint["position"] = {"batches": self._num_done, "sums": self._epoch_sums}
        if self._num_done:
            # Lightning has begun the only batch that it knows of, and has not done it.
            progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
            progress["is_last_batch"] = False

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take over the state of the learning rate, and of an epoch that was not finished."""
        if "plateau" in checkpoint:
            self.rate.plateau.load(checkpoint["plateau"])
        if "position" in checkpoint:
            self._num_done = int(checkpoint["position"]["batches"])
            self._epoch_sums = checkpoint["position"]["sums"].to(self.device)

    # ---- data

    def train_dataloader(self) -> DataLoader[Any]:
        """Return the training part, in another order in every epoch; each process has its share."""
        if self.config.split_structure:
            return one_epoch([self._split.batch(self.experiment.parts.train)], [0])
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
        return one_epoch(batches, order)

    def val_dataloader(self) -> DataLoader[Any]:
        """Return the share of the validation part of this process.

        A process that has no share takes an example without a target, or the others would wait.
        """
        held = self.experiment.parts.validation
        if self.config.split_structure:
            return loader([self._split.batch(held)], [0])
        share = held[self.trainer.global_rank :: self.trainer.world_size]
        if not share:
            share = [self.task.only(held[0], None)]
        return loader(ExampleBatches(share), Order(len(share), self.config.batch_size))

    def transfer_batch_to_device(
        self, batch: Any, device: torch.device, dataloader_idx: int
    ) -> Any:
        """Return the batch on a device; those of an epoch move one by one."""
        return batch if isinstance(batch, Epoch) else _on_device(batch, device)

    # ---- an epoch

    def on_train_epoch_start(self) -> None:
        """Begin to add up the losses of the epoch; one that is continued goes on adding."""
        self._epoch_sums = torch.zeros(2, device=self.device)

    def training_step(self, epoch: Epoch, _: int) -> None:
        """Take the steps of an epoch, and log the loss, once, as each log takes long."""
        optimizer: Any = self.optimizers()
        first = self.current_epoch * self.steps_per_epoch
        # the plateau, or the number of all steps of a run that resumes, may have changed
        self.rate.set(optimizer, first + self._num_done)
        for number, batch in enumerate(epoch, self._num_done + 1):
            self._seed_step(number - 1)
            self.take_step(_on_device(batch, self.device), optimizer, number)
            self.rate.set(optimizer, first + number)
            self._move_averages(first + number)
            self._save_if_due(number)
            if self.after_step is not None:
                self.after_step(number)
        self._num_done = 0
        total, known = self._epoch_sums
        mean = total / known.clamp(min=1)
        self.log("train_loss", mean, batch_size=1, on_step=False, on_epoch=True)

    def _seed_step(self, number: int) -> None:
        """Seed a step by its number, so that a step that is done again is the same."""
        seed = seed_of(self.config.seed, self.current_epoch, number, self.global_rank)
        if self.device.type == "cpu":
            # 60 times as fast as the other, which looks for devices
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)

    def _save_if_due(self, number: int) -> None:
        """Write a checkpoint in the middle of the epoch; all processes do this together."""
        if self._is_due and number < self.steps_per_epoch and self.checkpoint is not None:
            self._num_done = number
            self.trainer.save_checkpoint(self.checkpoint)
            self._saved = time.monotonic()

    def take_step(self, batch: Example, optimizer: Any, number: int) -> None:
        """Change the weights once.

        Lightning scales losses, and lets processes add their gradients. Where neither is needed,
        its hooks would take longer than both. It still takes the last step of an epoch, as it saves
        no checkpoint before it has counted one.
        """
        loss = self.batch_loss(batch)
        optimizer.zero_grad()
        is_special = "mixed" in self.config.precision or self.trainer.world_size > 1
        if is_special or number == self.steps_per_epoch:
            self.manual_backward(loss)
            optimizer.step()
        else:
            loss.backward()
            self.on_before_optimizer_step(optimizer)
            optimizer.optimizer.step()

    def batch_loss(self, batch: Example) -> Tensor:
        """Return a loss whose mean over the processes is the loss of their batches as one."""
        total, count = self._loss(batch)
        world = self.trainer.world_size
        sums = torch.stack([total.detach(), count, torch.full_like(count, self._is_over())])
        if world > 1:
            dist.all_reduce(sums)
        if not torch.isfinite(sums[0]):  # in all processes at once: none waits for another
            self._refuse(f"the loss is {float(sums[0])}")
        self._is_due = bool(sums[2])
        self._epoch_sums = self._epoch_sums + sums[:2]  # of all processes already
        count = sums[1].clamp(min=1)
        return total / count if world == 1 else total * world / count

    def _is_over(self) -> bool:
        """Return whether it is time to save, by the clock of the first process."""
        if self.checkpoint is None or not self.config.save_minutes or self.global_rank:
            return False
        return time.monotonic() - self._saved >= 60 * self.config.save_minutes

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        """Clip the gradients where their norm is too large; one norm of all is quickly computed.

        Mixed precision scales the loss. Here its gradients have their true size again.
        """
        if not self.config.clip:
            return
        weights = optimizer.param_groups[0]["params"]
        grads = [p.grad.flatten() for p in weights if p.grad is not None]
        if not grads:
            return
        # a GPU would be waited for
        if grads[0].is_cpu and torch.cat(grads).norm() <= self.config.clip:
            return
        self.clip_gradients(optimizer, self.config.clip, "norm")

    @torch.no_grad()
    def _move_averages(self, step: int) -> None:
        """Move the averaged weights; quickly at first, as they start at random weights.

        Statistics of norms are averaged as well: those of the present weights do not fit.
        """
        if self.averaged is None:
            return
        decay = min(self.config.average, (1 + step) / (10 + step))
        floats, others = _pairs(self.averaged, self.predictor)
        get_ema_multi_avg_fn(decay)(*floats, step)  # one call for all tensors
        for average, current in zip(*others, strict=True):
            average.copy_(current)

    def on_train_epoch_end(self) -> None:
        """Check the weights before they are saved: no loss has shown the last step yet."""
        if not all(bool(p.isfinite().all()) for p in self.parameters()):
            self._refuse("a weight is no finite number")
        if self.config.schedule == "plateau":
            self.rate.plateau.update(float(self.trainer.callback_metrics[self.watched]))

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

    # ---- validation

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
        """Return Adam or AdamW; `LearningRate` sets the rate of every step."""
        return _OPTIMIZERS[self.config.optimizer](
            [p for p in self.parameters() if p.requires_grad],
            lr=self.config.lr,
            weight_decay=self.config.weight_decay,
            # Lightning clips no gradients of a fused optimiser in mixed precision
            fused="mixed" not in self.config.precision,
        )


def _on_device(batch: Example, device: torch.device) -> Example:
    return batch if batch.structure.device == device else batch.to(device)


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
