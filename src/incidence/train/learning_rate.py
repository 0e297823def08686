"""The learning rate of every step: a warm-up, then a schedule."""

from __future__ import annotations

from math import cos, inf, pi
from typing import Any

from incidence.train.config import Config

__all__ = ["LearningRate", "Plateau"]

_LEAST_FACTOR = 1e-3  # of the peak learning rate


class LearningRate:
    """The learning rate as a function of the step, so that a run that resumes needs no state of it.

    Only the plateau of the metric depends on what happened, and is part of the checkpoint.

    Args:
        config: The options of the run.
        num_steps: The number of steps of the whole run.
        is_higher_better: Whether a higher metric is better, for the plateau.
    """

    def __init__(self, config: Config, num_steps: int, is_higher_better: bool) -> None:
        self.peak, self.schedule, self.num_steps = config.lr, config.schedule, num_steps
        self.num_warm = max(1, round(config.warmup * num_steps))
        self.plateau = Plateau(config.plateau_patience, is_higher_better)

    def set(self, optimizer: Any, step: int) -> None:
        """Give an optimiser the rate of a step, counted from 0."""
        rate = self.peak * self.factor(step)
        for group in optimizer.param_groups:
            group["lr"] = rate

    def factor(self, step: int) -> float:
        """Return the learning rate at a step as a share of its peak.

        It rises from 1/25, and falls to 0 along a cosine, or stays, or is halved on a plateau.
        """
        if step < self.num_warm:
            return 0.04 + 0.96 * (1 - cos(pi * step / self.num_warm)) / 2
        if self.schedule == "constant":
            return 1.0
        if self.schedule == "plateau":
            return self.plateau.factor
        num_cold = max(1, self.num_steps - self.num_warm)
        return (1 + cos(pi * min(1.0, (step - self.num_warm) / num_cold))) / 2


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
