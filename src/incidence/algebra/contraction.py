r"""In which order the tables of a product are joined, as far as letters alone tell (docs/math.md section 17, cost).

Every operand is a table with a column for each of its letters, and so is the output, whose present entries say what is read. Two kinds
of steps take time linear in the tables, and never make one longer:

- *sum*: letters that no other table has are summed away;
- *multiply into*: a table whose letters another one has is looked up there, once for each of its rows.

A product whose tables form a tree is done by these. What is left otherwise, its *core*, needs a join, and the sizes of the tables then
say which one is the smallest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from incidence.algebra.products import ProductText

__all__ = ["OUTPUT", "Into", "Letters", "Sum", "needs_join", "next_step", "private_letters"]

Letters = frozenset[str]
OUTPUT = -1
"""The number of the table of the output; those of operands are from 0."""


class Sum(NamedTuple):
    """Sum the letters of a table away that no other table has."""

    table: int
    kept: Letters


class Into(NamedTuple):
    """Multiply a table into another that has all its letters."""

    source: int
    target: int


def private_letters(tables: Mapping[int, Letters], number: int) -> Letters:
    """The letters of a table that no other one has."""
    others: Letters = frozenset().union(
        *(letters for other, letters in tables.items() if other != number)
    )
    return tables[number] - others


def next_step(tables: Mapping[int, Letters]) -> Sum | Into | None:
    """The next step in linear time; None where all is in the output, or a join is needed.

    Example:
        >>> next_step({0: frozenset("ij"), 1: frozenset("j"), OUTPUT: frozenset("i")})
        Into(source=1, target=0)
    """
    operands = sorted(number for number in tables if number != OUTPUT)
    for number in operands:
        private = private_letters(tables, number)
        if private:
            return Sum(number, tables[number] - private)
    steps = [Into(a, b) for a in operands for b in tables if a != b and tables[a] <= tables[b]]
    # Few letters mean few rows; the output comes last, so that its rows are read once all is multiplied.
    return min(
        steps,
        key=lambda step: (
            len(tables[step.target]),
            step.target == OUTPUT,
            -step.source,
            step.target,
        ),
        default=None,
    )


def needs_join(product: ProductText) -> bool:
    """Whether a product is more than pooling, copying and multiplying entry by entry.

    Example:
        >>> needs_join(ProductText("i j, j k -> i k")), needs_join(ProductText("i j, j k -> i"))
        (True, False)
    """
    tables = {number: frozenset(pattern.letters) for number, pattern in enumerate(product.operands)}
    tables[OUTPUT] = frozenset(product.output.letters)
    while (step := next_step(tables)) is not None:
        if isinstance(step, Sum):
            tables[step.table] = step.kept
        else:
            del tables[step.source]
    return len(tables) > 1
