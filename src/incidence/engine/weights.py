r"""The weights of a layer as the matrices of its products.

One node set and two words, u for the input entry and w for the output entry, determine exactly one
operation. So all operations of a level between two tensors are one product of the pooled rows with
a matrix, whose block (u, w) is the weight of that operation: see `docs/engine.md`. With oriented
faces a block has a sign. An operation that partners serve is a product with its weight alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

__all__ = ["LevelProduct", "Matrices", "PartnerProduct", "Products", "WeightLayout"]


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
        self._matrices: dict[tuple[tuple[int, ...], tuple[int, ...], torch.device], Matrices] = {}

    def __reduce__(self) -> tuple[type[Products], tuple[WeightLayout, tuple[bool, ...]]]:
        return Products, (self.weights, self._keeps_entry)

    def matrices(
        self, num_in: Sequence[int], num_out: Sequence[int], device: torch.device
    ) -> Matrices:
        """Return how the matrices are gathered from weights with given channels; cached."""
        key = tuple(num_in), tuple(num_out), device
        known = self._matrices.get(key)
        return known if known is not None else self._new_matrices(key)

    @torch.inference_mode(False)
    def _new_matrices(self, key: tuple[tuple[int, ...], tuple[int, ...], torch.device]) -> Matrices:
        self._matrices[key] = Matrices(self, *key)
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
    """How all matrices of a layer are gathered from the rows of its weights.

    Weights whose outputs have as many channels are gathered together: their rows stand one below
    the other, (operations x in, out) each, and a row of a block is one of these rows.

    Attributes:
        groups: For each such group its weights, its matrices, and the rows of their blocks.
    """

    def __init__(
        self,
        products: Products,
        num_in: tuple[int, ...],
        num_out: tuple[int, ...],
        device: torch.device,
    ) -> None:
        pairs, rows_of = products.weights.pairs, products.weights.num_rows
        self._shapes = [
            (table.rows.shape[0] * num_in[s], table.rows.shape[1] * num_out[t])
            for table in products.tables
            for s, t in [pairs[table.weight]]
        ]
        self.groups = []
        for width in dict.fromkeys(num_out):
            # they are gathered together
            weights = [k for k, (_, t) in enumerate(pairs) if num_out[t] == width]
            numbers = [k for k, table in enumerate(products.tables) if table.weight in weights]
            lengths = [rows_of(pairs[k]) * num_in[pairs[k][0]] for k in weights]
            blocks = _Blocks(
                [products.tables[k] for k in numbers],
                dict(zip(weights, accumulate(lengths, initial=0), strict=False)),
                {k: num_in[pairs[k][0]] for k in weights},
                sum(lengths),
                device,
            )
            self.groups.append((weights, numbers, blocks))

    def gather(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """Return the matrices, (slots x in, slots x out) each, from the weights."""
        matrices: dict[int, Tensor] = {}
        for members, numbers, blocks in self.groups:
            # (operations x in, out) each
            parts = [weights[k].reshape(-1, weights[k].shape[-1]) for k in members]
            matrices.update(self._split(blocks.gather(parts), numbers, blocks))
        return [matrices[k] for k in range(len(self._shapes))]

    def empty(self, like: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Return matrices of the same shapes to be written, and the arrays that hold them."""
        matrices: dict[int, Tensor] = {}
        arrays = []
        for members, numbers, blocks in self.groups:
            weight = like[members[0]]
            arrays.append(weight.new_empty(blocks.num_rows, weight.shape[-1]))
            matrices.update(self._split(arrays[-1], numbers, blocks))
        return [matrices[k] for k in range(len(self._shapes))], arrays

    def _split(self, rows: Tensor, numbers: Sequence[int], blocks: _Blocks) -> dict[int, Tensor]:
        """Return the matrices whose blocks have some rows, by number."""
        parts = rows.split_with_sizes(blocks.lengths)
        return {
            number: part.view(self._shapes[number])  # (slots x in, slots x out)
            for number, part in zip(numbers, parts, strict=True)
        }

    def to_weights(self, arrays: Sequence[Tensor], like: Sequence[Tensor]) -> list[Tensor]:
        """Return the gradients of the weights from those of the matrices."""
        gradients: dict[int, Tensor] = {}
        for (members, _, blocks), rows in zip(self.groups, arrays, strict=True):
            shapes = [like[k].shape for k in members]
            parts = blocks.scatter(rows).unsafe_split_with_sizes([prod(s[:-1]) for s in shapes])
            for k, part, shape in zip(members, parts, shapes, strict=True):
                gradients[k] = part.view(shape)
        return [gradients[k] for k in range(len(like))]


class _Blocks:
    """The rows of the blocks of some matrices: where each comes from among the rows of weights.

    Args:
        tables: The matrices.
        first: For every weight, its first row.
        num_in: For every weight, its number of input channels.
        total: The number of rows of all weights.
        device: Where the lists go.

    Attributes:
        lengths: The number of rows of the blocks of every matrix.
        num_rows: The sum of these.
        weight_rows: The row of the weights of every row of a block; `total` where there is none.
        row_signs: The sign of every row of a block; None where all are 1.
        members, ptr: The rows of blocks for every row of the weights, and where those start.
        member_signs: The signs of these rows of blocks.
    """

    def __init__(
        self,
        tables: Sequence[_Table],
        first: dict[int, int],
        num_in: dict[int, int],
        total: int,
        device: torch.device,
    ) -> None:
        parts, signs = [np.zeros(0, dtype=np.int64)], [np.ones(0, dtype=np.int64)]
        for table in tables:
            width = num_in[table.weight]
            channels = np.arange(width)[:, None]  # (in, 1)
            blocks = table.rows[:, None, :]  # (slots, 1, slots)
            sources = first[table.weight] + blocks * width + channels  # (slots, in, slots)
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

    def gather(self, parts: Sequence[Tensor]) -> Tensor:
        """Return the rows of the blocks, (rows, out), from the rows of every weight."""
        if not self._is_full:  # a row of zeros where the layer has no operation
            parts = [*parts, parts[0].new_zeros(1, parts[0].shape[1])]
        rows = concatenated(parts)
        if self._is_plain:
            return rows
        blocks = rows.index_select(0, self.weight_rows)  # (rows of blocks, out)
        return blocks if self.row_signs is None else blocks.mul_(self.row_signs[:, None])

    def scatter(self, rows: Tensor) -> Tensor:
        """Return the gradients of the rows of the weights: sums over where each row stands."""
        if self._is_plain:
            return rows
        return bag_sum(rows, self.members, self.ptr, self.member_signs)  # (rows of weights, out)
