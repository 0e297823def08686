"""`Training`: batches, loss, metrics and optimiser of a predictor, for Lightning's loop."""

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
from incidence.nn.batch_norm import RowNorm
from incidence.structure.example import Example
from incidence.train.batches import Examples, Order, loader, seed_of
from incidence.train.evaluate import metrics_of, update
from incidence.train.prepare import Prepared

__all__ = ["LOSSES", "Training"]

LOSSES: dict[str, Callable[..., Tensor]] = {
    "squared": nn.functional.mse_loss,
    "absolute": nn.functional.l1_loss,
    "huber": nn.functional.smooth_l1_loss,
}


class Training(pl.LightningModule):
    """What is done in a step and in an epoch; everything else is Lightning's."""

    def __init__(self, predictor: Predictor, prepared: Prepared) -> None:
        super().__init__()
        self.predictor, self.prepared, self.task, self.config = (
            predictor,
            prepared,
            prepared.data.task,
            prepared.config,
        )
        order = Order(
            len(prepared.batches),
            self.config.batch_size,
            share=(0, self.config.devices * self.config.machines),
        )
        self.num_steps = self.config.epochs * len(order)
        self.validation_metrics = metrics_of(self.task, is_shared=True)
        for module in predictor.modules():
            if isinstance(module, RowNorm):
                module.is_shared = True

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Adds what the model is, so that another is not taken for it."""
        checkpoint["incidence"] = self.prepared.spec.plain()

    def train_dataloader(self) -> DataLoader[Any]:
        """The training part, in another order in every epoch; each process takes its share."""
        batches, share = self.prepared.batches, (self.trainer.global_rank, self.trainer.world_size)
        order = Order(
            len(batches),
            self.config.batch_size,
            self.config.seed,
            share,
            lambda: self.trainer.current_epoch,
        )
        return loader(batches, order)

    def val_dataloader(self) -> DataLoader[Any]:
        """The validation part; a process that has no share of it takes an example without a target, or the others would wait."""
        held = self.prepared.parts.validation
        share = held[self.trainer.global_rank :: self.trainer.world_size] or [
            self.task.only(held[0], None)
        ]
        return loader(Examples(share), Order(len(share), self.config.batch_size))

    def on_train_epoch_start(self) -> None:
        """Seeds what is random in an epoch by its number, so that an epoch that is done again is the same."""
        torch.manual_seed(seed_of(self.config.seed, self.current_epoch, self.global_rank))

    def training_step(self, batch: Example, _: int) -> Tensor:
        """The loss of a batch, such that the mean over the processes is the loss of their batches as one."""
        total, count = self._loss(batch)
        sums = torch.stack([total.detach(), count])
        if self.trainer.world_size > 1:
            dist.all_reduce(sums)
        if not torch.isfinite(sums[0]):  # in all processes at once: none waits for another
            self._refuse(f"the loss is {float(sums[0])}")
        known = sums[1].clamp(min=1)
        self.log(
            "train_loss", sums[0] / known, batch_size=int(known), on_step=False, on_epoch=True
        )  # of all processes already
        return total * self.trainer.world_size / known

    def on_train_epoch_end(self) -> None:
        """Looks at the weights before they are saved: the loss of the last step does not know what became of them."""
        if not all(bool(p.isfinite().all()) for p in self.parameters()):
            self._refuse("a weight is no finite number")

    def _refuse(self, what: str) -> None:
        raise IncidenceError(
            f"{what} in epoch {self.current_epoch + 1}: the weights have run away. Nothing of it was saved; "
            "try a smaller learning rate (--lr), or look for values in the data that are far off."
        )

    def _loss(self, batch: Example) -> tuple[Tensor, Tensor]:
        """The sum of the losses of all rows that have a target, and how many these are."""
        y, target = self.predictor(batch.features, batch.structure), self.task.rows(batch)
        if self.task.kind == "classification":
            total = nn.functional.cross_entropy(
                y,
                target,
                ignore_index=-1,
                label_smoothing=self.config.label_smoothing,
                reduction="sum",
            )
            return total, (target >= 0).sum().to(total.dtype)
        wanted, loss = target.reshape(y.shape).to(y.dtype), LOSSES[self.config.loss]
        if self.task.kind == "multilabel":
            wanted, loss = (
                wanted + self.config.label_smoothing * (0.5 - wanted),
                nn.functional.binary_cross_entropy_with_logits,
            )
        else:
            wanted = self.predictor.scaled(wanted)
        known = ~wanted.isnan()
        total = loss(y[known], wanted[known], reduction="sum")
        return total, known.sum().to(total.dtype)

    def validation_step(self, batch: Example, _: int) -> None:
        """Takes the metrics of a batch, in the units of the data."""
        update(
            self.validation_metrics,
            self.predictor.predict(batch.features, batch.structure),
            self.task.rows(batch),
            self.task,
        )

    def on_validation_epoch_end(self) -> None:
        """Logs the metrics of the validation part."""
        self.log_dict(
            {
                f"validation_{name}": value
                for name, value in self.validation_metrics.compute().items()
            }
        )
        self.validation_metrics.reset()

    def configure_optimizers(self) -> Any:
        """Adam or AdamW, with a warm-up and a slow decay."""
        parameters = [p for p in self.parameters() if p.requires_grad]
        is_fused = (
            "mixed" not in self.config.precision
        )  # Lightning clips no gradients of a fused optimiser in mixed precision
        kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[self.config.optimizer]
        optimizer = kind(
            parameters, lr=self.config.lr, weight_decay=self.config.weight_decay, fused=is_fused
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self._factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _factor(self, step: int) -> float:
        """The learning rate at a step, as a part of its peak: up from 1/25, down to 0, along a cosine."""
        peak = max(1, round(self.config.warmup * self.num_steps))
        if step < peak:
            return 0.04 + 0.96 * (1 - cos(pi * step / peak)) / 2
        if self.config.schedule == "constant":
            return 1.0
        return (1 + cos(pi * min(1.0, (step - peak) / max(1, self.num_steps - peak)))) / 2
