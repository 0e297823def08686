"""What modules do between two graphs of `torch.compile`, for structures that have no plan.

A module imports this while `torch.compile` records it, as torch then has loaded its compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn

__all__ = ["call", "plan", "planned_call"]

F = TypeVar("F", bound=Callable[..., Any])


def _disable(function: F) -> F:
    disabled: F = torch.compiler.disable(function)  # torch has no types for it
    return disabled


@_disable
def plan(module: Any, structure: Any) -> None:
    """Build the index lists of a module."""
    module.plan(structure)


@_disable
def planned_call(module: Any, x: Any, structure: Any) -> Any:
    """Apply a layer to a structure, which then has a plan."""
    module.plan(structure)
    return module(x, structure)


@_disable
def call(module: nn.Module, *arguments: Any) -> Any:
    """Apply a module as without `torch.compile`."""
    return module(*arguments)
