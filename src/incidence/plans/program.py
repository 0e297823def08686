r"""A map compiled for a structure: which products a layer comes down to, and which operation every block of their matrices holds.

One node set and two words, u for the input entry and w for the output entry, determine exactly one operation. So all operations of a
level are one product of pooled rows with a matrix Big, whose block (u, w) is the weight of that operation: see `docs/engine.md`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.orbit import Class
from incidence.algebra.overlap import Matrix, overlaps
from incidence.algebra.words import Word, overlap_of, words
from incidence.plans.orbit_plan import OrbitPlan
from incidence.plans.plan import Plan, is_aligned
from incidence.structure.ragged import ranges

__all__ = ["BigIndex", "Layout", "LevelProduct", "OrbitTerm", "Products", "Program", "SelfProduct", "Side", "WordTable", "compile_map"]


class Statistic(Protocol):
    """What compiling needs to know of an aggregation: whether a bag of one entry gives that entry, or 0."""

    keeps_entry: bool


A = TypeVar("A", bound=Statistic)


class OrbitRef(NamedTuple):
    """An orbit of a side of a map: which tensor, and which of its orbits."""

    tensor: int
    orbit: int


class MatrixRef(NamedTuple):
    """A matrix that is made of a weight: which weight, and which of its matrices."""

    weight: int
    number: int


class WordTable:
    """The operation that every pair of words means, as its row in the weight; -1 where the layer has none.

    Attributes:
        weight_rows: Shape (words of the input entry, words of the output entry).
    """

    def __init__(self, weight_rows: Tensor) -> None:
        self.weight_rows = weight_rows

    @property
    def is_empty(self) -> bool:
        """Whether the layer has none of the operations."""
        return not bool((self.weight_rows >= 0).any())

    def rows_of_blocks(self, aggr: int, shape: Sequence[int]) -> Tensor:
        """For every row of the blocks of a matrix its row of the weight, one past the last where there is no operation.

        Args:
            aggr: Which aggregation.
            shape: Of the weight, ([aggregations,] operations, in, out).

        Returns:
            Shape (words x in x words,), as the matrix has rows (words x in) and columns (words x out).
        """
        num_operations, num_in = shape[-3:-1]
        rows = self.weight_rows[:, None, :]  # (words, 1, words)
        within = torch.arange(num_in, device=rows.device)[:, None]  # (in, 1)
        found = (aggr * num_operations + rows) * num_in + within  # (words, in, words)
        return found.masked_fill(rows < 0, prod(shape[:-1])).flatten()


class TermLevel(NamedTuple):
    """A level that two orbits have: its place in the lists of either, and the operation of every pair of words."""

    source_level: int
    target_level: int
    table: WordTable


@dataclass(frozen=True)
class OrbitTerm:
    """All operations between two orbits.

    Attributes:
        source, target: The orbits.
        weight: Which weight holds the operations.
        levels: The levels that both have.
        blocks: Where the two are the same entries: for every mask, the operation of every pair of words; else None.
    """

    source: OrbitRef
    target: OrbitRef
    weight: int
    levels: tuple[TermLevel, ...]
    blocks: tuple[WordTable, ...] | None


class LevelProduct(NamedTuple):
    """The rows of a level of an input orbit, pooled by one aggregation, times a matrix, into a level of an output orbit."""

    source: OrbitRef
    target: OrbitRef
    aggr: int
    source_level: int
    target_level: int
    matrix: MatrixRef


class SelfProduct(NamedTuple):
    """An orbit that meets itself: for every mask the matrices, one for each aggregation that keeps entries, which are added up."""

    source: OrbitRef
    target: OrbitRef
    matrices: tuple[tuple[MatrixRef, ...], ...]


class BigIndex(NamedTuple):
    """How the matrices of one weight are gathered from its rows, and their gradients back.

    Attributes:
        weight_rows: For every row of the blocks of all matrices, one matrix after the other, its row of the weight.
        block_rows, block_ptr: The rows of the blocks for every row of the weight, and where they start.
        lengths, shapes: Of every matrix: how many rows of blocks, and (words x in, words x out).
        is_full: Whether no row is missing.
        is_plain: Whether they are the rows of the weight in order.
    """

    weight_rows: Tensor
    block_rows: Tensor
    block_ptr: Tensor
    lengths: list[int]
    shapes: list[tuple[int, int]]
    is_full: bool
    is_plain: bool


class _WeightTables:
    """All matrices that are made of one weight: for each an aggregation, and the operations of its blocks."""

    def __init__(self) -> None:
        self.tables: list[tuple[int, WordTable]] = []
        self._by_shape: dict[tuple[int, ...], BigIndex] = {}

    def index(self, shape: tuple[int, ...]) -> BigIndex:
        """How they are gathered from a weight of a given shape; kept."""
        if shape not in self._by_shape:
            self._by_shape[shape] = self._make(shape)
        return self._by_shape[shape]

    @torch.inference_mode(False)
    def _make(self, shape: tuple[int, ...]) -> BigIndex:
        parts = [table.rows_of_blocks(aggr, shape) for aggr, table in self.tables]
        rows = torch.cat(parts) if parts else torch.zeros(0, dtype=torch.long)
        total = prod(shape[:-1])
        ptr = ranges(torch.bincount(rows, minlength=total + 1))[: total + 1]
        is_full = int(ptr[-1]) == len(rows)
        is_plain = torch.equal(rows.cpu(), torch.arange(total))
        members = rows.sort(stable=True)[1][: int(ptr[-1])]
        shapes = [(len(t.weight_rows) * shape[-2], t.weight_rows.shape[1] * shape[-1]) for _, t in self.tables]
        return BigIndex(rows, members.int(), ptr.int(), [len(part) for part in parts], shapes, is_full, is_plain)


class Products:
    """All terms of a layer as products. They depend on the masks that occur and on nothing else of a structure.

    Args:
        terms: The terms.
        keeps_entry: For every aggregation, whether a bag of one entry gives that entry.

    Attributes:
        terms: The terms.
        of_levels: All products on levels; `into` and `out_of` are those of every output and every input orbit.
        self_into: The products of entries that lie side by side, by output orbit; `self_out_of` by input orbit.
        weight_into: For every output, a weight that tells its channels.
    """

    def __init__(self, terms: Sequence[OrbitTerm], keeps_entry: Sequence[bool]) -> None:
        self.terms = tuple(terms)
        self.weight_into = [weight for _, weight in sorted({term.target.tensor: term.weight for term in terms}.items())]
        self.of_levels: list[LevelProduct] = []
        self.self_into: dict[OrbitRef, SelfProduct] = {}
        self._weights = [_WeightTables() for _ in {term.weight for term in terms}]
        keeping = [aggr for aggr, keeps in enumerate(keeps_entry) if keeps]
        for term in terms:
            for source_level, target_level, table in term.levels:
                for aggr in range(len(keeps_entry)):
                    matrix = self._matrix(term, aggr, table)
                    self.of_levels.append(LevelProduct(term.source, term.target, aggr, source_level, target_level, matrix))
            if keeping and not all(table.is_empty for table in term.blocks or ()):
                matrices = tuple(tuple(self._matrix(term, aggr, table) for aggr in keeping) for table in term.blocks or ())
                self.self_into[term.target] = SelfProduct(term.source, term.target, matrices)
        self.self_out_of = {product.source: product for product in self.self_into.values()}
        self.into = {ref: [p for p in self.of_levels if p.target == ref] for ref in {term.target for term in terms}}
        self.out_of = {ref: [p for p in self.of_levels if p.source == ref] for ref in {term.source for term in terms}}

    def _matrix(self, term: OrbitTerm, aggr: int, table: WordTable) -> MatrixRef:
        """Notes one more matrix."""
        tables = self._weights[term.weight].tables
        tables.append((aggr, table))
        return MatrixRef(term.weight, len(tables) - 1)

    def big_index(self, shapes: Sequence[tuple[int, ...]]) -> list[BigIndex]:
        """For weights of given shapes, how the matrices of each are gathered."""
        return [tables.index(shape) for tables, shape in zip(self._weights, shapes, strict=True)]


@dataclass(frozen=True)
class Side:
    """A tensor of the input or the output: how many entries it has, the lists of its orbits, and its rows among their entries."""

    num_entries: int
    orbits: tuple[OrbitPlan, ...]
    places: Tensor | None


@dataclass(frozen=True)
class Program(Generic[A]):
    """What a layer does on a structure: the tensors of either side, the products between them, and the aggregations."""

    inputs: tuple[Side, ...]
    outputs: tuple[Side, ...]
    products: Products
    aggregations: tuple[A, ...]

    @cached_property
    def device(self) -> torch.device:
        """Where the lists live."""
        return self.inputs[0].orbits[0].bags_of_entries.device

    @cached_property
    def num_rows(self) -> tuple[int, ...]:
        """For every input, the number of its entries."""
        return tuple(side.num_entries for side in self.inputs)


_MOST_KEPT = 64  # sets of masks that a layer remembers its products for


class Layout:
    """Where the operations of a map stand in the weights of a layer.

    Attributes:
        map: The map.
        kept: For every pair (source tensor, target tensor), the numbers of the operations that the layer has.
        pairs: The pairs, one for each weight.
    """

    def __init__(self, equivariant_map: EquivariantMap, kept: dict[tuple[int, int], tuple[int, ...]]) -> None:
        self.map = equivariant_map
        self.kept = kept
        self.pairs = tuple(kept)
        self._rows = {pair: {number: row for row, number in enumerate(numbers)} for pair, numbers in kept.items()}
        self._products: dict[Hashable, Products] = {}  # those made last

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_products": {}}

    def _operation_rows(self, source: OrbitRef, target: OrbitRef) -> dict[Matrix, int]:
        """The row of the weight for every overlap matrix of two orbits."""
        start = next(
            pair.start
            for pair in self.map.pairs
            if (pair.source.tensor, pair.source.number) == source and (pair.target.tensor, pair.target.number) == target
        )
        at = self._rows[source.tensor, target.tensor]
        listed = enumerate(overlaps(*self._classes(source, target), self.map.max_overlap), start)
        return {matrix: at[number] for number, matrix in listed if number in at}

    def _classes(self, source: OrbitRef, target: OrbitRef) -> tuple[tuple[Class, ...], tuple[Class, ...]]:
        one = self.map.inputs[source.tensor].orbits[source.orbit]
        other = self.map.outputs[target.tensor].orbits[target.orbit]
        return one.classes, other.classes

    def products(self, plan: Plan, aggregations: Sequence[Statistic]) -> Products:
        """The products of the layer on a structure; most batches of a data set have the same masks, and so the same products."""
        keeps_entry = tuple(aggregation.keeps_entry for aggregation in aggregations)
        key = keeps_entry, plan.device, plan.levels, tuple((lists.level_numbers, lists.masks) for orbits in plan.orbits for lists in orbits)
        if key not in self._products:
            while len(self._products) >= _MOST_KEPT:
                self._products.pop(next(iter(self._products)), None)
            self._products[key] = Products(list(self._terms(plan)), keeps_entry)
        return self._products[key]

    def _terms(self, plan: Plan) -> Iterator[OrbitTerm]:
        for s, p in enumerate(self.map.inputs):
            for t, q in enumerate(self.map.outputs):
                for a in range(len(p.orbits)):
                    for b in range(len(q.orbits)):
                        yield self._term(plan, OrbitRef(s, a), OrbitRef(t, b))

    def _term(self, plan: Plan, source: OrbitRef, target: OrbitRef) -> OrbitTerm:
        p, q = self.map.inputs[source.tensor], self.map.outputs[target.tensor]
        rows, classes = self._operation_rows(source, target), self._classes(source, target)
        one = plan.orbits[plan.tensors.index(p)][source.orbit]
        other = plan.orbits[plan.tensors.index(q)][target.orbit]
        aligned = is_aligned(p, q, source.orbit, target.orbit)
        found = []
        for i, level in enumerate(one.level_numbers):
            is_whole = aligned and len(plan.levels[level]) == p.orbits[source.orbit].size  # those operations are blocks
            if level in other.level_numbers and not is_whole:
                us, ws = (words(c, plan.levels[level], self.map.max_overlap) for c in classes)
                table = _word_table(us, ws, classes, rows, plan.device)
                if not table.is_empty:
                    found.append(TermLevel(i, other.level_numbers.index(level), table))
        blocks = tuple(_word_table(mask, mask, classes, rows, plan.device) for mask in one.masks) if aligned else None
        return OrbitTerm(source, target, self.pairs.index((source.tensor, target.tensor)), tuple(found), blocks)


def _word_table(
    us: Sequence[Word],
    ws: Sequence[Word],
    classes: tuple[tuple[Class, ...], tuple[Class, ...]],
    rows: dict[Matrix, int],
    device: torch.device,
) -> WordTable:
    """The row of the weight for every pair of words."""
    sizes = len(classes[0]), len(classes[1])
    listed = [[rows.get(overlap_of(u, w, *sizes), -1) for w in ws] for u in us]
    return WordTable(torch.tensor(listed, dtype=torch.long, device=device).view(len(us), len(ws)))


def compile_map(layout: Layout, plan: Plan, aggregations: Sequence[A]) -> Program[A]:
    """The program of a layer on the structure of a plan."""

    def side(number: int) -> Side:
        return Side(int(plan.num_entries[number].sum()), plan.orbits[number], plan.places[number])

    inputs = tuple(side(plan.tensors.index(p)) for p in layout.map.inputs)
    outputs = tuple(side(plan.tensors.index(q)) for q in layout.map.outputs)
    return Program(inputs, outputs, layout.products(plan, aggregations), tuple(aggregations))
