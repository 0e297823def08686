r"""Where nearly all entries are present a product of two tensors is one of matrices.

The letters of such a step fall into four groups: *outer* ones are in both factors and in the
target, *inner* ones in both factors alone, and so are summed. *Left* and *right* ones are in one
factor and in the target. So for every structure, every place of the outer letters and every channel

    z[left, right] = sum over inner:  x[left, inner] y[inner, right]

A tensor has a *cell* for every way to put its letters on the nodes of a structure. A list says
which row is in each cell, and -1 where an entry is absent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
import torch
from torch import Tensor

from incidence.engine.bags import Pairs
from incidence.engine.products.tables import Table
from incidence.engine.store import Listed
from incidence.structure.data import Array, StructureData
from incidence.structure.ragged import expand

__all__ = ["DENSE", "DenseStep", "complete_table", "dense_step", "multiply_arrays", "num_cells"]

OUTER, LEFT, INNER, RIGHT = range(4)

GROUPS = ((OUTER, LEFT, RIGHT), (OUTER, LEFT, INNER), (OUTER, INNER, RIGHT))
"""The groups of letters of every role: the target, and the factors."""

DENSE = "cells "
"""How the kind of such a step starts."""

_EQUATIONS = ("olic,oirc->olrc", "olrc,oirc->olic", "olrc,olic->oirc")


@dataclass(frozen=True, eq=False)
class DenseStep:
    """A step of a product by matrices. Its gradients are the step in other *roles*.

    Attributes:
        sources: The numbers of the factors.
        num_rows: How many rows the target and each factor have.
        sizes: In how many ways the letters of every group can be put on each structure, shape
            (4, structures); on the host.
        rows: For the target and each factor the row in every cell, or -1.
        signs: For the target and each factor 1 or -1 for every cell; None where all are 1.
        num_targets: How many targets each structure has; on the host.
    """

    sources: tuple[int, ...]
    num_rows: tuple[int, ...]
    sizes: Array
    rows: tuple[Tensor, ...]
    signs: tuple[Tensor | None, ...]
    num_targets: Array
    _readings: dict[int, Pairs] = field(default_factory=dict, repr=False)

    @property
    def kind(self) -> str:
        """What plans of a batch must share besides the factors."""
        return DENSE + "".join("01"[sign is not None] for sign in self.signs)

    @property
    def num_products(self) -> int:
        """How many products are computed for each channel, absent entries included."""
        return int(self.sizes.prod(axis=0).sum())

    @property
    def cost(self) -> str:
        """What it costs, in words."""
        return f"{self.num_products:,} products of matrices into {self.num_rows[0]:,}"

    @property
    def tensors(self) -> list[Tensor]:
        """The lists."""
        return [*self.rows, *(sign for sign in self.signs if sign is not None)]

    @property
    def device(self) -> torch.device:
        """Where the lists live."""
        return self.rows[0].device

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The sizes of arrays with room for every structure; structures are outer, too."""
        outer, *others = self.sizes.max(axis=1, initial=0).tolist()
        return (outer * self.sizes.shape[1], *others)

    def readings(self, role: int) -> Pairs:
        """Return the cells of a role that have a row, by where they are in an array.

        They are listed once.
        """
        if role not in self._readings:
            rows, sign = self.rows[role], self.signs[role]
            cells = (rows >= 0).nonzero()[:, 0]
            places = torch.from_numpy(self._places(role)).to(rows.device)[cells]
            signs = None if sign is None else sign[cells]
            self._readings[role] = Pairs(places, rows[cells].long(), signs=signs)
        return self._readings[role]

    def _places(self, role: int) -> Array:
        """Return where the cells of a role are in an array."""
        own, most = self.sizes[list(GROUPS[role])], self.sizes.max(axis=1, initial=0)
        counts = own.prod(axis=0)
        home = np.repeat(np.arange(len(counts)), counts)
        cell = np.arange(len(home)) - (counts.cumsum() - counts)[home]
        place, scale = np.zeros_like(cell), 1
        for group, size in zip(GROUPS[role][::-1], own[::-1], strict=True):
            place += cell % size[home] * scale
            cell //= size[home]
            scale *= int(most[group])
        found: Array = place + home * scale
        return found

    def moved(self, targets: Tensor, sign: Tensor | None, target_home: Tensor) -> DenseStep:
        """Return the step with other targets.

        Args:
            targets: The new target of every target, or -1.
            sign: 1 or -1 for every target that there is now; None where all are 1.
            target_home: The structure of every new target.
        """
        rows, before = self.rows[0], self.signs[0]
        moved = torch.where(rows >= 0, targets[rows], -1).to(rows.dtype)
        if sign is not None:
            sign = sign[rows] if before is None else before * sign[rows]
        num_targets = torch.bincount(target_home, minlength=self.sizes.shape[1]).cpu().numpy()
        return replace(
            self,
            num_rows=(len(target_home), *self.num_rows[1:]),
            rows=(moved, *self.rows[1:]),
            signs=(before if sign is None else sign, *self.signs[1:]),
            num_targets=num_targets,
            _readings={},
        )

    # ---- batches: see `engine/store.py`. The last space is that of the targets.

    def spaces(self) -> list[Array]:
        """Return the spaces of the step: its sizes, the cells of every role, and its targets."""
        cells = (self.sizes[list(groups)].prod(axis=0)[None] for groups in GROUPS)
        return [self.sizes, *cells, self.num_targets[None]]

    def batched_lists(self, first: int, factors: Sequence[int]) -> Iterator[Listed]:
        """Return the lists, given the number of the first space and those of the factors."""
        for role, counted in enumerate((first + 4, *factors)):
            yield Listed(self.rows[role], first + 1 + role, counted)
            sign = self.signs[role]
            if sign is not None:
                yield Listed(sign, first + 1 + role, None)

    def remade(
        self, spaces: Sequence[Array], num_rows: Sequence[int], tensors: Iterator[Tensor]
    ) -> DenseStep:
        """Return the step of other structures, from the sizes of its spaces and its lists."""
        rows, signs = [], []
        for sign in self.signs:
            rows.append(next(tensors))
            signs.append(None if sign is None else next(tensors).to(torch.int8))
        return DenseStep(
            self.sources, tuple(num_rows), spaces[0], tuple(rows), tuple(signs), spaces[4][0]
        )


def _num_ways(
    structure: StructureData, sorts: Mapping[str, str], letters: Collection[str]
) -> Array:
    """Return in how many ways letters can be put on the nodes of each structure."""
    ways = np.ones(structure.num_structures, dtype=np.int64)
    for name in letters:
        ways = ways * structure._lengths_of(sorts[name])
    return ways


def num_cells(
    structure: StructureData,
    sorts: Mapping[str, str],
    letters: Collection[str],
    is_padded: bool = False,
) -> int:
    """Return how many cells there are for some letters, in all structures.

    With `is_padded` every structure is as large as the largest.
    """
    lengths = [structure._lengths_of(sorts[name]) for name in letters]
    if not lengths or is_padded:
        return structure.num_structures * prod(int(own.max(initial=0)) for own in lengths)
    # in Python's integers, as it may be too many for a machine's
    return sum(prod(map(int, own)) for own in zip(*lengths, strict=True))


def _node_range(structure: StructureData, sort: str) -> tuple[Tensor, Tensor]:
    """Return the first node of a sort in every structure, and how many there are."""
    starts = structure.node_ptr(sort)[:-1] + structure._node_offsets[sort]
    return starts, torch.from_numpy(structure._lengths_of(sort)).to(starts.device)


def complete_table(
    structure: StructureData, sorts: Mapping[str, str], letters: Collection[str]
) -> Table:
    """Return the table of all ways to put letters on the nodes of a structure, by structure."""
    table = Table({}, torch.arange(structure.num_structures, device=structure.device))
    for name in sorted(letters):
        starts, lengths = _node_range(structure, sorts[name])
        which, node = expand(starts[table.home], lengths[table.home])
        table = table.take(which)
        table = replace(table, nodes=table.nodes | {name: node})
    return table


def dense_step(
    structure: StructureData,
    sorts: Mapping[str, str],
    tables: tuple[Table, Table],
    target: Table,
    num_rows: tuple[int, ...],
) -> DenseStep:
    """Return the step that multiplies two tables.

    Args:
        structure: The structure.
        sorts: The sort of every letter.
        tables: The tables. Each has one factor.
        target: The rows at which products are added up.
        num_rows: How many rows the target and each factor have.
    """
    left, right, out = (table.letters for table in (*tables, target))
    groups = [left & right & out, left & out - right, left & right - out, right & out - left]
    letters = [[name for g in own for name in sorted(groups[g])] for own in GROUPS]
    sources, factors = zip(*(item for t in tables for item in t.factors.items()), strict=True)
    values = torch.arange(len(target), device=target.home.device), *factors
    rows = [
        _in_cells(structure, sorts, table, names, own)
        for table, names, own in zip((target, *tables), letters, values, strict=True)
    ]
    signs = [
        None if table.sign is None else _in_cells(structure, sorts, table, names, table.sign)
        for table, names in zip(tables, letters[1:], strict=True)
    ]
    num_structures = structure.num_structures
    num_targets = torch.bincount(target.home, minlength=num_structures).cpu().numpy()
    sizes = np.stack([_num_ways(structure, sorts, group) for group in groups])
    return DenseStep(sources, num_rows, sizes, tuple(rows), (None, *signs), num_targets)


def _in_cells(
    structure: StructureData,
    sorts: Mapping[str, str],
    table: Table,
    letters: Sequence[str],
    values: Tensor,
) -> Tensor:
    """Return the value of the row in every cell; -1 where there is none."""
    counts = _num_ways(structure, sorts, letters)
    firsts = torch.from_numpy(counts.cumsum() - counts).to(table.home.device)
    cell = torch.zeros_like(table.home)
    for name in letters:
        starts, lengths = _node_range(structure, sorts[name])
        cell = cell * lengths[table.home] + table.nodes[name] - starts[table.home]
    dtype = torch.int8 if values.dtype == torch.int8 else torch.int32
    found = torch.full((int(counts.sum()),), -1, dtype=dtype, device=cell.device)
    found[firsts[table.home] + cell] = values.to(dtype)
    return found


def multiply_arrays(
    role: int,
    sizes: Sequence[int],
    readings: Sequence[Pairs],
    xs: Sequence[Tensor],
    num_rows: int,
) -> Tensor:
    """Return a step in one role by arrays that have room for every structure.

    Args:
        role: What is computed: the target, or the gradient of a factor.
        sizes: The sizes of the groups in such an array.
        readings: The cells of what is multiplied, and of what is computed.
        xs: What is multiplied, (rows, channels) each.
        num_rows: How many rows are computed.
    """
    *given, wanted = readings
    others = [groups for k, groups in enumerate(GROUPS) if k != role]
    arrays = [
        _filled(x, own, [sizes[group] for group in groups])
        for x, own, groups in zip(xs, given, others, strict=True)
    ]
    y = torch.einsum(_EQUATIONS[role], *arrays)
    found = y.reshape(-1, y.shape[-1]).index_select(0, wanted.targets)
    start = found.new_zeros(num_rows, found.shape[1])
    return start.index_add(0, wanted.sources, wanted.signed(found))


def _filled(x: Tensor, cells: Pairs, sizes: Sequence[int]) -> Tensor:
    """Return an array (*sizes, channels) with rows of x in their cells, and 0 elsewhere."""
    rows = cells.signed(x.index_select(0, cells.sources))
    total = 1
    for size in sizes:
        total = total * size
    array = rows.new_zeros(total, x.shape[1]).index_copy(0, cells.targets, rows)
    return array.view(*sizes, x.shape[1])
