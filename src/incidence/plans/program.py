r"""A map compiled for a layer and a structure: the products that it comes down to, and the operation of every block of their matrices.

One node set and two words, u for the input entry and w for the output entry, determine exactly one operation. So all operations of a
level are one product of pooled rows with a matrix Big, whose block (u, w) is the weight of that operation: see `docs/engine.md`. Which
products there are depends on the layer alone; a structure adds its lists. With oriented faces a block has a sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.overlap import Matrix, overlaps
from incidence.algebra.words import overlap_of, sign_of
from incidence.plans.layout import BagLayout, MapLayout, OrbitRef
from incidence.plans.plan import PartnerKey, Plan
from incidence.plans.stack import Partners, StackPlan
from incidence.structure.data import Array
from incidence.structure.ragged import ranges

__all__ = [
    "BigIndex",
    "LevelProduct",
    "MatrixRef",
    "PartnerProduct",
    "Products",
    "Program",
    "Stack",
    "WeightLayout",
    "compile_map",
    "num_rows",
]


class Statistic(Protocol):
    """What compiling needs to know of an aggregation: whether a bag of one entry gives that entry, or 0."""

    keeps_entry: bool


A = TypeVar("A", bound=Statistic)


class MatrixRef(NamedTuple):
    """A matrix that is made of weights: between which stacks, an input and an output, and which of their matrices."""

    source: int
    target: int
    number: int


class LevelProduct(NamedTuple):
    """The rows of a level of an input stack, pooled by one aggregation, times a matrix, into a level of an output stack."""

    aggr: int
    source: int
    target: int
    source_level: int
    target_level: int
    matrix: MatrixRef

    @property
    def factor(self) -> tuple[int, int, int]:
        """What it starts from: aggregation, input stack, level."""
        return self.aggr, self.source, self.source_level


class PartnerProduct(NamedTuple):
    """Entries times a matrix, read by their partners: the sum of those of all aggregations that keep single entries.

    Attributes:
        key: The orbit, by the number of its tensor, and the operation; `adjoint` is the same read backwards.
        source, target: Which input, and which output.
        matrices: One for each aggregation.
    """

    key: PartnerKey
    adjoint: PartnerKey
    source: int
    target: int
    matrices: tuple[MatrixRef, ...]


class BigIndex(NamedTuple):
    """How the matrices between two stacks are gathered from the rows of their weights, and their gradients back.

    Attributes:
        weight_rows: For every row of the blocks of all matrices, one matrix after the other, its row of the weights.
        block_rows, block_ptr: The rows of the blocks for every row of the weights, and where they start.
        row_signs, block_signs: The signs of the rows of the blocks, as `weight_rows` and as `block_rows` have them; None without signs.
        lengths, shapes: Of every matrix: how many rows of blocks, and (slots x in, slots x out).
        is_full: Whether no row is missing.
        is_plain: Whether they are the rows of the weights in order.
    """

    weight_rows: Tensor
    block_rows: Tensor
    block_ptr: Tensor
    row_signs: Tensor | None
    block_signs: Tensor | None
    lengths: list[int]
    shapes: list[tuple[int, int]]
    is_full: bool
    is_plain: bool


class _StackPair:
    """All matrices between an input and an output stack, as tables of operations: rows of their weights, one weight after the other.

    Attributes:
        weights: The weights, by number.
        first: For every weight, its first operation among those of all.
        num_operations: Of all weights, once for each aggregation where all have a weight of their own.
        tables: For every matrix the operation of every pair of slots, -1 where the layer has none; on the host.
        signs: For every matrix the signs of these operations there.
    """

    def __init__(self, weights: Sequence[int], counts: Sequence[int]) -> None:
        self.weights = tuple(weights)
        self.first = {weight: sum(counts[:at]) for at, weight in enumerate(weights)}
        self.num_operations = sum(counts)
        self.tables: list[Array] = []
        self.signs: list[Array] = []
        self._by_shape: dict[tuple[int, int, torch.device], BigIndex] = {}

    def index(self, num_in: int, num_out: int, device: torch.device) -> BigIndex:
        """How the matrices are gathered from weights with given channels; kept."""
        key = num_in, num_out, device
        if key not in self._by_shape:
            self._by_shape[key] = self._make(*key)
        return self._by_shape[key]

    @torch.inference_mode(False)
    def _make(self, num_in: int, num_out: int, device: torch.device) -> BigIndex:
        total = self.num_operations * num_in
        within = np.arange(num_in)[:, None]  # (in, 1)
        blocks = (table[:, None, :] for table in self.tables)  # (slots, 1, slots) each
        parts = [
            np.where(block < 0, total, block * num_in + within).ravel() for block in blocks
        ]  # (slots x in x slots,) each
        rows = torch.from_numpy(np.concatenate([np.zeros(0, dtype=np.int64), *parts]))
        ptr = ranges(torch.bincount(rows, minlength=total))[: total + 1]
        signs = self._row_signs(num_in)
        is_full, is_plain = (
            int(ptr[-1]) == len(rows),
            signs is None and torch.equal(rows, torch.arange(total)),
        )
        members = rows.sort(stable=True)[1][: int(ptr[-1])]
        shapes = [(table.shape[0] * num_in, table.shape[1] * num_out) for table in self.tables]
        of_rows, of_blocks = (
            (None, None) if signs is None else (signs.to(device), signs[members].to(device))
        )
        rows, members, ptr = (t.to(device) for t in (rows, members.int(), ptr.int()))
        return BigIndex(
            rows,
            members,
            ptr,
            of_rows,
            of_blocks,
            [len(part) for part in parts],
            shapes,
            is_full,
            is_plain,
        )

    def _row_signs(self, num_in: int) -> Tensor | None:
        """The signs of the rows of the blocks of all matrices; None if there is nothing but 1."""
        if all((signs == 1).all() for signs in self.signs):
            return None
        parts = [
            np.repeat(signs[:, None, :], num_in, axis=1).ravel() for signs in self.signs
        ]  # (slots x in x slots,) each
        return torch.from_numpy(np.concatenate(parts)).float()


class Products:
    """All operations of a layer as products.

    Attributes:
        layout, weights: What they are made of.
        num_weights: How many weights the layer has.
        stack_pairs: The matrices between every input and every output stack.
        of_levels: All products on levels.
        into: Those of every output stack by level.
        out_of: Those that start from the same rows: by aggregation, input stack and level.
        of_partners: The products of entries that are read by partners.
        native: What `kernels.native` makes of them, by channels.
    """

    def __init__(
        self, layout: MapLayout, weights: WeightLayout, keeps_entry: Sequence[bool]
    ) -> None:
        self.layout, self.weights = layout, weights
        self.stack_pairs = {
            (a, b): _StackPair(*weights.between(sources, targets))
            for (a, sources), (b, targets) in product(
                enumerate(layout.input_stacks), enumerate(layout.output_stacks)
            )
        }
        self.num_weights = len(weights.pairs)
        self.native: dict[tuple[int, int], Any] = {}
        self._rows: dict[tuple[OrbitRef, OrbitRef, int], dict[Matrix, int]] = {}
        self.of_levels = list(self._level_products(len(keeps_entry)))
        self.into = [
            [
                [p for p in self.of_levels if (p.target, p.target_level) == (b, level)]
                for level in range(len(stack.all_levels))
            ]
            for b, stack in enumerate(layout.outputs)
        ]
        self.out_of: dict[tuple[int, int, int], list[LevelProduct]] = {}
        for p in self.of_levels:
            self.out_of.setdefault(p.factor, []).append(p)
        self.of_partners = list(
            self._partner_products([aggr for aggr, keeps in enumerate(keeps_entry) if keeps])
        )

    def _level_products(self, num_aggregations: int) -> Iterator[LevelProduct]:
        inputs, outputs = self.layout.inputs, self.layout.outputs
        for (a, source), (b, target) in product(enumerate(inputs), enumerate(outputs)):
            for i, level in enumerate(source.all_levels):
                if level not in target.all_levels:
                    continue
                j = target.all_levels.index(level)
                for aggr in range(num_aggregations):
                    table, signs = self._level_table(a, b, i, j, aggr)
                    if (table >= 0).any():
                        yield LevelProduct(aggr, a, b, i, j, self._matrix(a, b, table, signs))

    def _level_table(self, a: int, b: int, i: int, j: int, aggr: int) -> tuple[Array, Array]:
        """The operation of every pair of slots of a level, for one aggregation; and its sign there."""
        source, target = self.layout.inputs[a], self.layout.outputs[b]
        level = source.all_levels[i]
        table = np.full((source.num_slots[i], target.num_slots[j]), -1)
        signs = np.ones_like(table)
        for (one, us), (other, ws) in product(source.slots[i].items(), target.slots[j].items()):
            s = OrbitRef(self.layout.input_stacks[a][one.tensor], one.orbit)
            t = OrbitRef(self.layout.output_stacks[b][other.tensor], other.orbit)
            rows = self._rows_of(s, t, aggr)
            classes = source.orbits[one].classes, target.orbits[other].classes
            for (u, one_word), (w, other_word) in product(
                zip(us, source.words(one, level), strict=True),
                zip(ws, target.words(other, level), strict=True),
            ):
                row = rows.get(overlap_of(one_word, other_word, *map(len, classes)))
                if row is not None:
                    table[u, w], signs[u, w] = row, sign_of(*classes, one_word, other_word)
        return table, signs

    def _rows_of(self, source: OrbitRef, target: OrbitRef, aggr: int) -> dict[Matrix, int]:
        """For every overlap matrix of two orbits, its operation among those of their stacks."""
        key = source, target, aggr
        if key not in self._rows:
            stacks = (
                self.layout.place_in(source.tensor).stack,
                self.layout.place_out(target.tensor).stack,
            )
            first = self.stack_pairs[stacks].first[self.weights.number(source, target)]
            self._rows[key] = {
                overlap: first + row for overlap, row in self.weights.rows(*key).items()
            }
        return self._rows[key]

    def _partner_products(self, keeping: Sequence[int]) -> Iterator[PartnerProduct]:
        for s, t in self.layout.partners:
            a, b = self.layout.place_in(s.tensor).stack, self.layout.place_out(t.tensor).stack
            by_aggr = [self._rows_of(s, t, aggr) for aggr in keeping]
            size = self.layout.map.inputs[s.tensor].orbits[s.orbit].size
            ref = OrbitRef(self.layout.tensors.index(self.layout.map.inputs[s.tensor]), s.orbit)
            matched = dict.fromkeys(
                overlap for rows in by_aggr for overlap in rows if sum(map(sum, overlap)) == size
            )
            for overlap in matched:
                one = np.ones((1, 1), dtype=np.int64)  # partners have signs of their own
                matrices = tuple(
                    self._matrix(a, b, one * rows[overlap], one)
                    for rows in by_aggr
                    if overlap in rows
                )
                transposed = tuple(zip(*overlap, strict=True))
                yield PartnerProduct(
                    (ref, overlap), (ref, transposed), s.tensor, t.tensor, matrices
                )

    def _matrix(self, a: int, b: int, table: Array, signs: Array) -> MatrixRef:
        """Notes one more matrix."""
        pair = self.stack_pairs[a, b]
        pair.tables.append(table)
        pair.signs.append(signs)
        return MatrixRef(a, b, len(pair.tables) - 1)


class Stack(NamedTuple):
    """Some tensors of a side: their positions there, their slots, and their lists."""

    tensors: tuple[int, ...]
    layout: BagLayout
    plan: StackPlan

    @property
    def num_biases(self) -> tuple[int, ...]:
        """How many orbits of every tensor have a bias."""
        return self.layout.num_biases


@dataclass(frozen=True)
class Program(Generic[A]):
    """What a layer does on a structure: the stacks of either side, the products between them, partners, and the aggregations."""

    inputs: tuple[Stack, ...]
    outputs: tuple[Stack, ...]
    products: Products
    partners: dict[PartnerKey, Partners]
    aggregations: tuple[A, ...]
    native: dict[tuple[int, int], Any] = field(default_factory=dict, repr=False, compare=False)
    """What `kernels.native` makes of it, by channels."""

    @cached_property
    def device(self) -> torch.device:
        """Where the lists live."""
        return self.inputs[0].plan.lists.bags_of_rows.device

    @cached_property
    def num_rows(self) -> tuple[int, ...]:
        """For every input, the number of its entries."""
        return num_rows(self.inputs)


def num_rows(stacks: Sequence[Stack]) -> tuple[int, ...]:
    """For every tensor of a side, the number of its entries."""
    found = {
        k: n for stack in stacks for k, n in zip(stack.tensors, stack.plan.num_rows_of, strict=True)
    }
    return tuple(found[k] for k in range(len(found)))


class WeightLayout:
    """Where the operations of a map stand in the weights of a layer.

    Attributes:
        map: The map.
        kept: For every pair (source tensor, target tensor), the numbers of the operations that the layer has.
        pairs: The pairs, one for each weight.
        aggr_of: For every operation the numbers of its aggregations, one row of the weight for each; None where every operation has a
            weight for each of `num_aggregations`, one after the other.
    """

    def __init__(
        self,
        equivariant_map: EquivariantMap,
        kept: dict[tuple[int, int], tuple[int, ...]],
        num_aggregations: int = 1,
        aggr_of: dict[int, tuple[int, ...]] | None = None,
    ) -> None:
        self.map, self.kept, self.num_aggregations, self.aggr_of = (
            equivariant_map,
            kept,
            num_aggregations,
            aggr_of,
        )
        self.pairs = tuple(kept)
        self._rows = {
            pair: {term: row for row, term in enumerate(self.terms(pair))} for pair in kept
        }
        self._starts = {
            (OrbitRef(*pair.source[:2]), OrbitRef(*pair.target[:2])): pair.start
            for pair in equivariant_map.pairs
        }
        self._products: dict[tuple[MapLayout, tuple[bool, ...]], Products] = {}

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_products": {}}

    def terms(self, pair: tuple[int, int]) -> list[tuple[int, int]]:
        """What the rows of a weight are for: the number of an operation, and of an aggregation."""
        if self.aggr_of is None:
            return [
                (number, aggr)
                for aggr in range(self.num_aggregations)
                for number in self.kept[pair]
            ]
        return [(number, aggr) for number in self.kept[pair] for aggr in self.aggr_of[number]]

    def number(self, source: OrbitRef, target: OrbitRef) -> int:
        """The weight of the operations between two orbits."""
        return self.pairs.index((source.tensor, target.tensor))

    def between(
        self, sources: Sequence[int], targets: Sequence[int]
    ) -> tuple[list[int], list[int]]:
        """The weights from some inputs to some outputs, and how many rows each has."""
        pairs = list(product(sources, targets))
        return [self.pairs.index(pair) for pair in pairs], [len(self._rows[pair]) for pair in pairs]

    def rows(self, source: OrbitRef, target: OrbitRef, aggr: int) -> dict[Matrix, int]:
        """The row of the weight for every overlap matrix of two orbits that is pooled by one aggregation."""
        at = self._rows[source.tensor, target.tensor]
        one = self.map.inputs[source.tensor].orbits[source.orbit]
        other = self.map.outputs[target.tensor].orbits[target.orbit]
        listed = enumerate(
            overlaps(one.classes, other.classes, self.map.max_overlap), self._starts[source, target]
        )
        return {matrix: at[number, aggr] for number, matrix in listed if (number, aggr) in at}

    def products(self, layout: MapLayout, aggregations: Sequence[Statistic]) -> Products:
        """The products of the layer; kept."""
        key = layout, tuple(aggregation.keeps_entry for aggregation in aggregations)
        if key not in self._products:
            self._products[key] = Products(layout, self, key[1])
        return self._products[key]


def compile_map(weights: WeightLayout, plan: Plan, aggregations: Sequence[A]) -> Program[A]:
    """The program of a layer on the structure of a plan."""
    layout = plan.layout
    inputs = tuple(map(Stack, layout.input_stacks, layout.inputs, plan.inputs))
    outputs = tuple(map(Stack, layout.output_stacks, layout.outputs, plan.outputs))
    return Program(
        inputs, outputs, weights.products(layout, aggregations), plan.partners, tuple(aggregations)
    )
