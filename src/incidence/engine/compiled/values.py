"""What steps of a program refer to: values, plans, and masks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import nn

from incidence.engine.layout import MapLayout
from incidence.engine.products.plan import JoinPlan
from incidence.structure.data import StructureData

__all__ = ["NONE", "CannotCompileError", "Drop", "JoinUse", "PlanUse", "Value"]

NONE = -1
"""In the code, where nothing is referred to."""


class CannotCompileError(Exception):
    """A module is not made of steps that the compiled network has."""


class Value(NamedTuple):
    """A matrix that a step makes.

    Attributes:
        number: Its number.
        rows: The number of its count of rows: see `Program.counts`.
        width: Its channels.
    """

    number: int
    rows: int
    width: int


@dataclass
class PlanUse:
    """A plan that steps read.

    Attributes:
        layout: The map that it is of.
        view: Changes the structure before it is planned; None to take it as it is.
        numbers: For every tensor, where its numbers start: rows, bags, and the first bag of every
            level.
        lists: For every tensor, where the addresses of its lists start.
        rows, bags: For every tensor, the numbers of the counts of its rows and of its bags.
        partners: For every operation between partners: where its number and its lists are.
    """

    layout: MapLayout
    view: Any
    numbers: list[int] = field(default_factory=list)
    lists: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    bags: list[int] = field(default_factory=list)
    partners: dict[Any, tuple[int, int]] = field(default_factory=dict)


Drop = tuple[nn.Module, str, list[int], list[Value]]
"""The masks that one module of dropout draws at once: the module, which says whether it trains; how
they are made (`bits`, `floats`, or `all`, where everything is dropped); where the address of each
is; and the values that they are for."""

JoinUse = tuple[Callable[[StructureData], JoinPlan], int, int, int, bool]
"""A plan of a product, or of groups, that steps read: what returns it for a structure, where its
lists and its numbers start, the count of its rows, and whether it multiplies two factors; else it
adds up groups of rows."""
