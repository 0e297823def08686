"""`Training`: loss, metrics and optimiser of a predictor, for Lightning's loop."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi
from typing import Any

import lightning.pytorch as pl
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader

from incidence.errors import IncidenceError
from incidence.models.predictor import Predictor
from incidence.nn.norms import RowNorm
from incidence.structure.example import Example
from incidence.train.batches import ExampleBatches, Order, loader, seed_of
from incidence.train.metrics import metrics_of, update
from incidence.train.prepare import Experiment

__all__ = ["LOSSES", "Training"]

LOSSES: dict[str, Callable[..., Tensor]] = {
    "squared": nn.functional.mse_loss,
    "absolute": nn.functional.l1_loss,
    "huber": nn.functional.smooth_l1_loss,
}
"""The losses of numbers."""
_OPTIMIZERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}


class Training(pl.LightningModule):
    """What happens in a step and in an epoch; everything else is Lightning's."""

    def __init__(self, predictor: Predictor, experiment: Experiment) -> None:
        super().__init__()
        self.predictor, self.experiment = predictor, experiment
        self.task, self.config = experiment.data.task, experiment.config
        world = self.config.devices * self.config.machines
        order = Order(len(experiment.batches), self.config.batch_size, share=(0, world))
        self.num_steps = self.config.epochs * len(order)
        self.validation_metrics = metrics_of(self.task, is_shared=True)
        for module in predictor.modules():
            if isinstance(module, RowNorm):
                module.is_shared = True

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what the model is, so that no other is taken for it."""
        checkpoint["incidence"] = self.experiment.spec.plain()

    def train_dataloader(self) -> DataLoader[Any]:
        """Return the training part, in another order in every epoch; each process has its share."""
        batches = self.experiment.batches
        share = (self.trainer.global_rank, self.trainer.world_size)
        order = Order(
            len(batches),
            self.config.batch_size,
            self.config.seed,
            share,
            lambda: self.trainer.current_epoch,
        )
        return loader(batches, order)

    def val_dataloader(self) -> DataLoader[Any]:
        """Return the share of the validation part of this process.

        A process that has no share takes an example without a target, or the others would wait.
        """
        held = self.experiment.parts.validation
        share = held[self.trainer.global_rank :: self.trainer.world_size]
        if not share:
            share = [self.task.only(held[0], None)]
        return loader(ExampleBatches(share), Order(len(share), self.config.batch_size))

    def on_train_epoch_start(self) -> None:
        """Seed the epoch by its number, so that an epoch that is done again is the same."""
        torch.manual_seed(seed_of(self.config.seed, self.current_epoch, self.global_rank))

    def training_step(self, batch: Example, _: int) -> Tensor:
        """Return a loss whose mean over the processes is the loss of their batches as one."""
        total, count = self._loss(batch)
        sums = torch.stack([total.detach(), count])
        if self.trainer.world_size > 1:
            dist.all_reduce(sums)
        if not torch.isfinite(sums[0]):  # in all processes at once: none waits for another
            self._refuse(f"the loss is {float(sums[0])}")
        known = sums[1].clamp(min=1)
        # of all processes already
        self.log("train_loss", sums[0] / known, batch_size=int(known), on_step=False, on_epoch=True)
        return total * self.trainer.world_size / known

    def on_train_epoch_end(self) -> None:
        """Check the weights before they are saved: no loss has shown the last step yet."""
        if not all(bool(p.isfinite().all()) for p in self.parameters()):
            self._refuse("a weight is no finite number")

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
        known = ~target.isnan()
        total = loss(y[known], target[known], reduction="sum")
        return total, known.sum().to(total.dtype)

    def validation_step(self, batch: Example, _: int) -> None:
        """Update the metrics, in the units of the data."""
        predicted = self.predictor.predict(batch.features, batch.structure)
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

        It rises from 1/25, and falls to 0 along a cosine, or stays.
        """
        peak = max(1, round(self.config.warmup * self.num_steps))
        if step < peak:
            return 0.04 + 0.96 * (1 - cos(pi * step / peak)) / 2
        if self.config.schedule == "constant":
            return 1.0
        return (1 + cos(pi * min(1.0, (step - peak) / max(1, self.num_steps - peak)))) / 2
