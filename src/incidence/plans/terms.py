"""The terms of a layer, and the products that they come down to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from incidence.plans.tables import Matrices, Table

__all__ = ["Own", "Product", "Term", "Terms"]

Place = tuple[int, int]
"""An orbit by tensor and number; or a matrix by weight and number."""


@dataclass(frozen=True)
class Term:
    """All operations between two orbits.

    Attributes:
        source, target: (tensor, orbit) on either side.
        weight: Which weight holds the operations.
        levels: For every level that both have: its place in the lists of either, and the operation of every pair of words.
        blocks: Where the two are the same entries: for every mask, the operation of every pair of words; else None.
    """

    source: tuple[int, int]
    target: tuple[int, int]
    weight: int
    levels: tuple[tuple[int, int, Table], ...]
    blocks: tuple[Table, ...] | None


class Product(NamedTuple):
    """The rows of a level of an input orbit, pooled by one aggregation, times a matrix, into a level of an output orbit."""

    source: Place
    target: Place
    number: int
    levels: tuple[int, int]
    matrix: Place


class Own(NamedTuple):
    """An orbit that meets itself: for every mask the matrices, one for each aggregation, that are added up."""

    source: Place
    target: Place
    matrices: tuple[tuple[Place, ...], ...]


class Terms:
    """All terms of a layer as products. They depend on the masks that occur and on nothing else of a structure.

    Attributes:
        all: The terms.
        products: All products on levels; `into` and `out_of` are those of every output and every input orbit.
        own_into: The products of entries that lie side by side, by output orbit; `own_out_of` by input orbit.
        weight_into: For every output, a weight that tells its channels.
    """

    def __init__(self, terms: Sequence[Term], aggr: Sequence[str]) -> None:
        self.all = tuple(terms)
        self.weight_into = [own for _, own in sorted({term.target[0]: term.weight for term in terms}.items())]
        self.products: list[Product] = []
        self.own_into: dict[Place, Own] = {}
        self._tables: list[list[tuple[int, Table]]] = [[] for _ in {term.weight for term in terms}]
        kept = [number for number, name in enumerate(aggr) if name != "std"]  # a bag of one entry is the entry, and its spread is 0
        for term in terms:
            for i, j, table in term.levels:
                for number in range(len(aggr)):
                    self.products.append(Product(term.source, term.target, number, (i, j), self._place(term, number, table)))
            if kept and any(len(table.present) for table in term.blocks or ()):
                found = tuple(tuple(self._place(term, number, table) for number in kept) for table in term.blocks or ())
                self.own_into[term.target] = Own(term.source, term.target, found)
        self.own_out_of = {own.source: own for own in self.own_into.values()}
        self.into = {place: [p for p in self.products if p.target == place] for place in {term.target for term in terms}}
        self.out_of = {place: [p for p in self.products if p.source == place] for place in {term.source for term in terms}}
        self._matrices = [Matrices(tables) for tables in self._tables]

    def _place(self, term: Term, number: int, table: Table) -> Place:
        """Notes one more matrix."""
        own = self._tables[term.weight]
        own.append((number, table))
        return term.weight, len(own) - 1

    def make(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """For every weight the rows of its matrices."""
        return [own.make(weight) for own, weight in zip(self._matrices, weights, strict=True)]

    def split(self, rows: Sequence[Tensor], shapes: Sequence[tuple[int, ...]]) -> list[list[Tensor]]:
        """For every weight its matrices; views of the rows."""
        return [own.split(part, shape) for own, part, shape in zip(self._matrices, rows, shapes, strict=True)]

    def adjoint(self, rows: Sequence[Tensor], shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
        """The gradients of the weights."""
        return [own.adjoint(part, shape) for own, part, shape in zip(self._matrices, rows, shapes, strict=True)]
