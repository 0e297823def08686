r"""Where nearly all entries are present a product of two tensors is one of matrices: a step that
fills arrays, multiplies and reads back.

Arrays have an axis for the structures of the batch, one for every letter, as long as the largest
structure needs, and one for channels. Absent entries are 0, and nothing is read at them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.engine.products.tables import Factor, Space, Table
from incidence.structure.data import Array, StructureData
from incidence.structure.ragged import expand

__all__ = ["DenseFactor", "DenseStep", "Grid", "dense_join", "multiply_arrays"]


class DenseFactor(NamedTuple):
    """How an array is filled: from which rows, to which places, with which signs (None where all
    are 1).
    """

    rows: Tensor
    places: Tensor
    sign: Tensor | None


@dataclass(frozen=True, eq=False)
class DenseStep:
    """A step of a product by arrays.

    Attributes:
        sources: The numbers of the factors.
        equation: The product of the arrays, for `torch.einsum`; `x` is the axis of structures, `y`
            that of channels.
        sizes: How long the axis of every letter of the equation is; `x` for structures.
        factors: How the arrays of the factors are filled.
        places: Where the targets are in the array of the result.
        num_targets: How many targets each structure has; on the host.
    """

    sources: tuple[int, ...]
    equation: str
    sizes: Mapping[str, int]
    factors: tuple[DenseFactor, ...]
    places: Tensor
    num_targets: Array

    @property
    def kind(self) -> str:
        """What tracing has to know of it besides its factors: the equation, and which of them have
        signs.
        """
        return (
            f"{self.equation} {''.join('01'[factor.sign is not None] for factor in self.factors)}"
        )

    @property
    def num_products(self) -> int:
        """How many products are taken, those with absent entries included, for each channel."""
        return prod(self.sizes.values())

    @property
    def cost(self) -> str:
        """What it costs, in words."""
        return f"{self.num_products:,} products of arrays, read at {len(self.places):,}"

    @property
    def num_bytes(self) -> int:
        """The memory of the lists."""
        held = [self.places, *(t for factor in self.factors for t in factor if t is not None)]
        return sum(t.numel() * t.element_size() for t in held)


class Grid:
    """The nodes of every structure, numbered from 0: where rows of tables are in arrays.

    Args:
        structure: The structure.
        sorts: The sort of every letter.
    """

    def __init__(self, structure: StructureData, sorts: Mapping[str, str]) -> None:
        self._sorts, self._num_structures = sorts, structure.num_structures
        self._lengths = {sort: structure._lengths_of(sort) for sort in set(sorts.values())}
        self._starts = {
            sort: structure.node_ptr(sort)[:-1] + structure._node_offsets[sort]
            for sort in self._lengths
        }
        self.space = Space(structure.total_nodes, structure.num_structures)
        self._names = {name: chr(ord("a") + number) for number, name in enumerate(sorts)}

    @property
    def can_name(self) -> bool:
        """Whether there are letters enough to write the product of arrays; `x` and `y` are
        taken.
        """
        return len(self._names) <= ord("x") - ord("a")

    def num_cells(self, letters: Sequence[str], is_padded: bool = False) -> int:
        """How many ways there are to put letters on the nodes of a structure, added up; with every
        structure as large as the largest.
        """
        lengths = [self._lengths[self._sorts[name]] for name in letters] or [
            np.ones(self._num_structures, dtype=np.int64)
        ]
        if is_padded:
            return self._num_structures * prod(int(own.max(initial=0)) for own in lengths)
        return int(np.prod(np.stack(lengths).astype(object), axis=0).sum())

    def complete(self, letters: Collection[str]) -> Table:
        """The table of all ways to put letters on the nodes of a structure, by structure."""
        table = Table(
            {}, torch.arange(self._num_structures, device=next(iter(self._starts.values())).device)
        )
        for name in sorted(letters):
            sort = self._sorts[name]
            counts = torch.from_numpy(self._lengths[sort]).to(table.home.device)[table.home]
            which, node = expand(self._starts[sort][table.home], counts)
            table = table.take(which)
            table = replace(table, nodes=table.nodes | {name: node})
        return table

    def places(self, table: Table, letters: Sequence[str]) -> Tensor:
        """Where the rows of a table are in its array."""
        place = table.home
        for name in letters:
            sort = self._sorts[name]
            place = place * int(self._lengths[sort].max(initial=0)) + (
                table.nodes[name] - self._starts[sort][table.home]
            )
        return place

    def step(
        self, sources: tuple[int, int], tables: tuple[Table, Table], target: Table
    ) -> DenseStep:
        """The step that multiplies two tables, each with one factor, and adds up at the rows of a
        third.
        """
        letters = [sorted(table.letters) for table in (*tables, target)]
        words = ["x" + "".join(self._names[name] for name in own) + "y" for own in letters]
        sizes = {
            self._names[name]: int(self._lengths[self._sorts[name]].max(initial=0))
            for own in letters
            for name in own
        }
        factors = (
            DenseFactor(_only(t).rows, self.places(t, own), t.sign)
            for t, own in zip(tables, letters, strict=False)
        )
        num_targets = torch.bincount(target.home, minlength=self._num_structures).cpu().numpy()
        equation, sizes = f"{words[0]},{words[1]}->{words[2]}", {"x": self._num_structures, **sizes}
        return DenseStep(
            sources, equation, sizes, tuple(factors), self.places(target, letters[2]), num_targets
        )


def _only(table: Table) -> Factor:
    [factor] = table.factors
    return factor


def dense_join(step: DenseStep, xs: Sequence[Tensor], shape: Sequence[int] | None = None) -> Tensor:
    """One step; the rows of the factors may have any shape that can be broadcast, and are summed to
    `shape`, if it is given.
    """
    return multiply_arrays(step.equation, step.sizes, step.factors, step.places, xs, shape)


def multiply_arrays(
    equation: str,
    sizes: Mapping[str, int],
    factors: Sequence[DenseFactor],
    places: Tensor,
    xs: Sequence[Tensor],
    shape: Sequence[int] | None,
) -> Tensor:
    """The same from the parts of a step."""
    wide = torch.broadcast_shapes(*(x.shape[1:] for x in xs))
    words = equation.partition("->")[0]
    arrays = [
        _filled(x.expand(-1, *wide).flatten(1), factor, [sizes[letter] for letter in word[:-1]])
        for x, factor, word in zip(xs, factors, words.split(","), strict=True)
    ]
    y = torch.einsum(equation, *arrays)
    found = y.reshape(-1, y.shape[-1]).index_select(0, places).view(places.shape[0], *wide)
    return found if shape is None else found.sum_to_size(places.shape[0], *shape)


def _filled(x: Tensor, factor: DenseFactor, sizes: Sequence[int]) -> Tensor:
    """An array (*sizes, channels) with rows of x at their places, and 0 elsewhere."""
    rows = x.index_select(0, factor.rows)
    if factor.sign is not None:
        rows = rows * factor.sign[:, None].to(rows.dtype)
    total = 1
    for size in sizes:
        total = total * size
    return (
        rows.new_zeros(total, x.shape[1])
        .index_copy(0, factor.places, rows)
        .view(*sizes, x.shape[1])
    )
