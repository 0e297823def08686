"""Processes as threads: what they send each other is handed over, with nothing in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from incidence.distributed import run_blocks
from incidence.structure.world import World

__all__ = ["run_threads"]


def run_threads(size: int, work: Callable[[World], Any]) -> list[Any]:
    """Return what every thread makes of its world; the first error of any is raised."""
    return run_blocks(work, blocks=size)
