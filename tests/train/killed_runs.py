"""Runs that are killed in a step, and compared with others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from incidence.train.steps import Training
from tests.train.small_runs import die

OPTIONS: dict[str, Any] = {
    "model": "i, {i j}",
    "epochs": 4,
    "batch_size": 8,
    "hidden": 6,
    "depth": 1,
    "dropout": 0.2,
    "validation": 0.1,
}


def kill_in_step(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Lets the process die in its nth training step."""
    own, count = Training.take_step, iter(range(10**6))

    def step(self: Training, *arguments: Any) -> Any:
        if next(count) == number:
            die()
        return own(self, *arguments)

    monkeypatch.setattr(Training, "take_step", step)


def assert_same_bits(one: Path, other: Path) -> None:
    first, second = load_file(one / "model.safetensors"), load_file(other / "model.safetensors")
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert (one / "history.csv").read_text() == (other / "history.csv").read_text()
    assert (one / "predictions.csv").read_text() == (other / "predictions.csv").read_text()
