r"""The weights of a layer as the matrices of its products.

One node set and two words, u for the input entry and w for the output entry, determine exactly one
operation. So all operations of a level between two tensors are one product of the pooled rows with
a matrix, whose block (u, w) is the weight of that operation: see `docs/engine.md`. With oriented
faces a block has a sign. An operation that partners serve is a product with its weight alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, product
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap, TensorOrbit
from incidence.algebra.overlap import Matrix, overlaps
from incidence.algebra.words import overlap_of, sign_of
from incidence.engine.bags import bag_sum, concatenated
from incidence.engine.layout import layout_of, orbits_of
from incidence.engine.partners import PartnerKey
from incidence.structure.data import Array
from incidence.structure.ragged import ranges

__all__ = [
    "LevelProduct",
    "Matrices",
    "PartnerProduct",
    "Products",
    "WeightLayout",
    "empty_matrices",
    "gathered",
    "weight_gradients",
]


class WeightLayout:
    """Where the operations of a map stand in the weights of a layer.

    Attributes:
        map: The map.
        kept: For every pair (source tensor, target tensor), the numbers of the operations that the
            layer has.
        pairs: The pairs, one for each weight.
        num_aggregations: The number of aggregations.
        aggr_of: For every operation the numbers of its aggregations, one row of the weight for
            each; None where every operation has a weight for each aggregation.
    """

    def __init__(
        self,
        equivariant_map: EquivariantMap,
        kept: dict[tuple[int, int], tuple[int, ...]],
        num_aggregations: int = 1,
        aggr_of: dict[int, tuple[int, ...]] | None = None,
    ) -> None:
        self.map, self.kept = equivariant_map, kept
        self.num_aggregations, self.aggr_of = num_aggregations, aggr_of
        self.pairs = tuple(kept)
        self._rows = {
            pair: {term: row for row, term in enumerate(self.terms(pair))} for pair in kept
        }
        self._starts = {(pair.source, pair.target): pair.start for pair in equivariant_map.pairs}

    def terms(self, pair: tuple[int, int]) -> list[tuple[int, int]]:
        """Return the terms of the rows of a weight: an operation and an aggregation, by number."""
        if self.aggr_of is not None:
            return [(number, aggr) for number in self.kept[pair] for aggr in self.aggr_of[number]]
        return [
            (number, aggr) for aggr in range(self.num_aggregations) for number in self.kept[pair]
        ]

    def num_rows(self, pair: tuple[int, int]) -> int:
        """Return the number of rows of a weight."""
        return len(self._rows[pair])

    def rows(self, source: TensorOrbit, target: TensorOrbit, aggr: int) -> dict[Matrix, int]:
        """Return the row of the weight for every overlap matrix that one aggregation pools."""
        rows = self._rows[source.tensor, target.tensor]
        classes = source.orbit.classes, target.orbit.classes
        matrices = overlaps(*classes, self.map.max_overlap)
        listed = enumerate(matrices, self._starts[source, target])
        return {matrix: rows[number, aggr] for number, matrix in listed if (number, aggr) in rows}


class LevelProduct(NamedTuple):
    """Pooled rows of a level of an input, times a matrix, added at the same level of an output.

    Attributes:
        aggr: The aggregation that pools.
        source, source_level: The input, and the number of the level among its levels.
        target, target_level: The output, likewise.
        matrix: The number of the matrix.
    """

    aggr: int
    source: int
    source_level: int
    target: int
    target_level: int
    matrix: int


class PartnerProduct(NamedTuple):
    """Entries times a matrix, read by their partners.

    Attributes:
        key: The orbit, by the number of its pattern, and the operation.
        adjoint: The same operation read backwards.
        source, target: The input and the output.
        matrices: One for each aggregation that gives a lone entry back; their sum counts.
    """

    key: PartnerKey
    adjoint: PartnerKey
    source: int
    target: int
    matrices: tuple[int, ...]


class _Table(NamedTuple):
    """One matrix as a table of blocks.

    Attributes:
        weight: The weight that its blocks are rows of.
        rows: The row of the weight for every pair of slots, -1 where the layer has no operation.
        signs: The sign of every block.
    """

    weight: int
    rows: Array
    signs: Array


_Widths = tuple[tuple[int, ...], tuple[int, ...], torch.device]
"""The channels of inputs and of outputs, and a device."""


class Products:
    """All operations of a layer as products.

    Attributes:
        layout: The slots of the tensors.
        weights: Where operations stand in the weights.
        tables: All matrices, as tables of blocks.
        of_levels: All products on levels.
        into: Those of every output, by level.
        out_of: Those that start from the same rows, by aggregation, input and level.
        of_partners: All products that partners read.
        partner_keys: The partners that forward or backward reads.
    """

    def __init__(self, weights: WeightLayout, keeps_entry: Sequence[bool]) -> None:
        self.layout, self.weights = layout_of(weights.map), weights
        self.tables: list[_Table] = []
        self.of_levels = list(self._level_products(len(keeps_entry)))
        # backward and forward go through products by target, and by source
        self.into = [
            [
                [p for p in self.of_levels if (p.target, p.target_level) == (t, level)]
                for level in range(len(tensor.levels))
            ]
            for t, tensor in enumerate(self.layout.outputs)
        ]
        self.out_of: dict[tuple[int, int, int], list[LevelProduct]] = {}
        for p in self.of_levels:
            self.out_of.setdefault((p.aggr, p.source, p.source_level), []).append(p)
        keeping = [aggr for aggr, keeps in enumerate(keeps_entry) if keeps]
        self.of_partners = list(self._partner_products(keeping))
        self.partner_keys = tuple(
            dict.fromkeys(key for p in self.of_partners for key in (p.key, p.adjoint))
        )
        self._keeps_entry = tuple(keeps_entry)
        self._matrices: dict[_Widths, list[Matrices]] = {}

    def __reduce__(self) -> tuple[type[Products], tuple[WeightLayout, tuple[bool, ...]]]:
        return Products, (self.weights, self._keeps_entry)

    def matrices(
        self, num_in: Sequence[int], num_out: Sequence[int], device: torch.device
    ) -> list[Matrices]:
        """Return how the matrices are gathered from weights with given channels; cached.

        Weights whose outputs have as many channels are gathered together.
        """
        key = tuple(num_in), tuple(num_out), device
        known = self._matrices.get(key)
        return known if known is not None else self._new_matrices(key)

    @torch.inference_mode(False)
    def _new_matrices(self, key: _Widths) -> list[Matrices]:
        num_in, num_out, device = key
        self._matrices[key] = [
            Matrices(self, num_in, num_out, width, device) for width in dict.fromkeys(num_out)
        ]
        return self._matrices[key]

    def _level_products(self, num_aggregations: int) -> Iterator[LevelProduct]:
        sides = product(enumerate(self.layout.inputs), enumerate(self.layout.outputs))
        for (s, source), (t, target) in sides:
            for i, level in enumerate(source.levels):
                if level not in target.levels:
                    continue
                j = target.levels.index(level)
                for aggr in range(num_aggregations):
                    table = self._level_table((s, i), (t, j), aggr)
                    if (table.rows >= 0).any():
                        yield LevelProduct(aggr, s, i, t, j, self._add(table))

    def _level_table(
        self, of_source: tuple[int, int], of_target: tuple[int, int], aggr: int
    ) -> _Table:
        """Return the operation of every pair of slots of a level, for one aggregation."""
        (s, i), (t, j) = of_source, of_target
        source, target = self.layout.inputs[s], self.layout.outputs[t]
        level = source.levels[i]
        rows = np.full((source.num_slots[i], target.num_slots[j]), -1)  # (slots, slots)
        signs = np.ones_like(rows)
        ones, others = orbits_of(source.pattern, s), orbits_of(target.pattern, t)
        for (one, us), (other, ws) in product(source.slots[i].items(), target.slots[j].items()):
            classes = ones[one].orbit.classes, others[other].orbit.classes
            known = self.weights.rows(ones[one], others[other], aggr)
            pairs = product(
                zip(us, source.words(one, level), strict=True),
                zip(ws, target.words(other, level), strict=True),
            )
            for (u, source_word), (w, target_word) in pairs:
                row = known.get(overlap_of(source_word, target_word, *map(len, classes)))
                if row is not None:
                    rows[u, w] = row
                    signs[u, w] = sign_of(*classes, source_word, target_word)
        return _Table(self.weights.pairs.index((s, t)), rows, signs)

    def _partner_products(self, keeping: Sequence[int]) -> Iterator[PartnerProduct]:
        one = np.ones((1, 1), dtype=np.int64)  # partners have signs of their own
        for s, t in self.layout.partners:
            weight = self.weights.pairs.index((s.tensor, t.tensor))
            by_aggr = [self.weights.rows(s, t, aggr) for aggr in keeping]
            # an operation that matches so many nodes needs no key
            orbit = self.layout.by_pattern(s)
            matched = dict.fromkeys(
                overlap
                for rows in by_aggr
                for overlap in rows
                if sum(map(sum, overlap)) == s.orbit.size
            )
            for overlap in matched:
                matrices = tuple(
                    self._add(_Table(weight, one * rows[overlap], one))
                    for rows in by_aggr
                    if overlap in rows
                )
                transposed = tuple(zip(*overlap, strict=True))
                yield PartnerProduct(
                    (orbit, overlap), (orbit, transposed), s.tensor, t.tensor, matrices
                )

    def _add(self, table: _Table) -> int:
        self.tables.append(table)
        return len(self.tables) - 1


class Matrices:
    """The matrices of outputs with as many channels, gathered from the rows of their weights.

    The rows of all their weights stand one below the other, (operations x in, out) each, and a row
    of a block of a matrix is one of these rows.

    Args:
        products: All operations of the layer.
        num_in: The channels of every input.
        num_out: The channels of every output.
        width: The channels of the outputs of these matrices.
        device: Where the lists go.

    Attributes:
        weights: The numbers of the weights.
        numbers: The numbers of the matrices.
        lengths: The number of rows of the blocks of every matrix.
        num_rows: The sum of these.
        weight_rows: The row of the weights of every row of a block; one more than there are, where
            there is none.
        row_signs: The sign of every row of a block; None where all are 1.
        members, ptr: The rows of blocks for every row of the weights, and where those start.
        member_signs: The signs of these rows of blocks.
    """

    def __init__(
        self,
        products: Products,
        num_in: tuple[int, ...],
        num_out: tuple[int, ...],
        width: int,
        device: torch.device,
    ) -> None:
        pairs = products.weights.pairs
        self.weights = [k for k, (_, t) in enumerate(pairs) if num_out[t] == width]
        tables = dict(enumerate(products.tables))
        self.numbers = [k for k, table in tables.items() if table.weight in self.weights]
        channels = {k: num_in[pairs[k][0]] for k in self.weights}
        counts = [products.weights.num_rows(pairs[k]) * channels[k] for k in self.weights]
        self._shapes = [
            (tables[k].rows.shape[0] * channels[tables[k].weight], tables[k].rows.shape[1] * width)
            for k in self.numbers
        ]
        firsts = dict(zip(self.weights, accumulate(counts, initial=0), strict=False))
        self._set_lists([tables[k] for k in self.numbers], firsts, channels, sum(counts), device)

    def _set_lists(
        self,
        tables: Sequence[_Table],
        firsts: dict[int, int],
        num_in: dict[int, int],
        total: int,
        device: torch.device,
    ) -> None:
        """List where every row of a block comes from.

        Args:
            tables: The matrices.
            firsts: For every weight, its first row.
            num_in: For every weight, its number of input channels.
            total: The number of rows of all weights.
            device: Where the lists go.
        """
        parts, signs = [np.zeros(0, dtype=np.int64)], [np.ones(0, dtype=np.int64)]
        for table in tables:
            width = num_in[table.weight]
            channels = np.arange(width)[:, None]  # (in, 1)
            blocks = table.rows[:, None, :]  # (slots, 1, slots)
            sources = firsts[table.weight] + blocks * width + channels  # (slots, in, slots)
            # row `total` is the row of zeros
            parts.append(np.where(blocks < 0, total, sources).ravel())
            signs.append(np.repeat(table.signs[:, None, :], width, axis=1).ravel())
        self.lengths = [len(part) for part in parts[1:]]
        self.num_rows = sum(self.lengths)
        rows = torch.from_numpy(np.concatenate(parts))
        ptr = ranges(torch.bincount(rows, minlength=total))[: total + 1]
        # the transpose; rows of zeros come last and are cut off
        members = rows.sort(stable=True)[1][: int(ptr[-1])]
        all_signs = np.concatenate(signs)
        row_signs = None
        if (all_signs != 1).any():
            row_signs = torch.from_numpy(all_signs).float()
        self._is_full = len(members) == len(rows)
        in_order = torch.arange(total, device=rows.device)
        self._is_plain = row_signs is None and torch.equal(rows, in_order)
        self.weight_rows = rows.to(device)
        self.members, self.ptr = members.int().to(device), ptr.int().to(device)
        self.row_signs = self.member_signs = row_signs
        if row_signs is not None:
            self.row_signs = row_signs.to(device)
            self.member_signs = row_signs[members].to(device)

    def gather(self, weights: Sequence[Tensor]) -> dict[int, Tensor]:
        """Return the matrices, (slots x in, slots x out) each, from all weights."""
        # (operations x in, out) each
        parts = [weights[k].reshape(-1, weights[k].shape[-1]) for k in self.weights]
        if not self._is_full:  # a row of zeros where the layer has no operation
            parts.append(parts[0].new_zeros(1, parts[0].shape[1]))
        rows = concatenated(parts)
        if not self._is_plain:
            rows = rows.index_select(0, self.weight_rows)  # (rows of blocks, out)
            if self.row_signs is not None:
                rows.mul_(self.row_signs[:, None])
        return self.split(rows)

    def split(self, rows: Tensor) -> dict[int, Tensor]:
        """Return the matrices whose blocks have some rows, by number."""
        parts = rows.split_with_sizes(self.lengths)
        return {
            number: part.view(shape)  # (slots x in, slots x out)
            for number, part, shape in zip(self.numbers, parts, self._shapes, strict=True)
        }

    def to_weights(self, rows: Tensor, like: Sequence[Tensor]) -> dict[int, Tensor]:
        """Return the gradients of the weights, from those of the rows of the matrices."""
        if not self._is_plain:  # sums over where each row stands: (rows of weights, out)
            rows = bag_sum(rows, self.members, self.ptr, self.member_signs)
        shapes = [like[k].shape for k in self.weights]
        parts = rows.unsafe_split_with_sizes([prod(shape[:-1]) for shape in shapes])
        return {
            k: part.view(shape) for k, part, shape in zip(self.weights, parts, shapes, strict=True)
        }


def gathered(groups: Sequence[Matrices], weights: Sequence[Tensor]) -> list[Tensor]:
    """Return all matrices of a layer from its weights."""
    return _in_order(group.gather(weights) for group in groups)


def empty_matrices(
    groups: Sequence[Matrices], weights: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return all matrices to be written, and the arrays that hold them, one for each group."""
    likes = [weights[group.weights[0]] for group in groups]
    arrays = [
        like.new_empty(group.num_rows, like.shape[-1])
        for group, like in zip(groups, likes, strict=True)
    ]
    matrices = (group.split(array) for group, array in zip(groups, arrays, strict=True))
    return _in_order(matrices), arrays


def weight_gradients(
    groups: Sequence[Matrices], arrays: Sequence[Tensor], weights: Sequence[Tensor]
) -> list[Tensor]:
    """Return the gradients of the weights, from the arrays that hold those of the matrices."""
    pairs = zip(groups, arrays, strict=True)
    return _in_order(group.to_weights(array, weights) for group, array in pairs)


def _in_order(parts: Iterable[dict[int, Tensor]]) -> list[Tensor]:
    """Return tensors by ascending number."""
    by_number: dict[int, Tensor] = {}
    for part in parts:
        by_number.update(part)
    return [by_number[number] for number in range(len(by_number))]
