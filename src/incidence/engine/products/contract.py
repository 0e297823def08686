r"""From the text of a product to its plan on a structure: tables are summed, looked up in each
other and joined, smallest first.

Which steps take linear time is decided by the letters alone (`algebra/contraction.py`). For the
rest a table is extended by the letters of others, row by row from the one with the fewest rows that
fit; how many rows that makes is counted before they are made, and the extension with the fewest is
taken. The entries of the output are one more table, without values, so that nothing is made that is
not read.

Where one program must serve all structures, letters alone choose the extensions too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.algebra.products import (
    OUTPUT,
    Letters,
    ProductText,
    SumAway,
    needs_join,
    next_step,
    private_letters,
)
from incidence.engine.products.dense import DenseStep, Grid
from incidence.engine.products.plan import JoinPlan, Step, step_of
from incidence.engine.products.tables import (
    Candidates,
    Factor,
    Table,
    candidates,
    extended,
    find_rows,
    num_extended,
    number_keys,
    table_of,
)
from incidence.engine.shared import CopyStep, ExchangeStep, OwnRowsStep, exchange_step
from incidence.engine.store import cached_plan
from incidence.errors import TooLargeError
from incidence.structure.data import StructureData, support_of
from incidence.structure.ragged import assert_few
from incidence.structure.world import World

__all__ = ["MAX_JOINED", "build_join_plan", "join_plan_of"]

MAX_JOINED = 100_000_000
"""How many rows may be looked at to join them: while the lists are made, each takes about 100
bytes.
"""

# Joined rows of a packed dataset. With more, the plan of every batch is made on its own.
_MOST_STORED = 20_000_000

_FASTER = 8  # products of matrices take about that much less time each than joined rows
_MOST_ABSENT = 3  # cells of a matrix for each entry that is there

_REMEDY = (
    "Raise it with limit=, take smaller structures or batches, or leave entries out that the"
    " product does not need"
)


def join_plan_of(
    structure: StructureData, text: ProductText, limit: int = MAX_JOINED, is_fixed: bool = False
) -> JoinPlan:
    """Return the plan of a product on a structure. It is built once and cached on the structure.

    Args:
        structure: The structure.
        text: The product.
        limit: The number of rows that a step may look at to join them.
        is_fixed: Whether the steps must be those of every other structure.

    Raises:
        IncidenceError: Some tensor of the product is missing.
        TooLargeError: No plan is cached, and some step would look at more than `limit` rows.
    """
    key = f"{text.key}, fixed" if is_fixed else text.key

    def build(source: StructureData) -> JoinPlan:
        most = limit if source is structure else _MOST_STORED
        return build_join_plan(text, source, most, is_fixed)

    return cached_plan(structure, JoinPlan, key, build)


def build_join_plan(
    text: ProductText, structure: StructureData, limit: int = MAX_JOINED, is_fixed: bool = False
) -> JoinPlan:
    """The plan of a product on a structure; `is_fixed` says that its program must be that of every
    other structure.

    Raises:
        IncidenceError: Some tensor of the product is not there.
        TooLargeError: Some step would look at more than `limit` rows to join them; it has made none
            of them then.
    """
    supports = [support_of(structure, pattern) for pattern in text.tensors]
    tables = [
        table_of(text, pattern, stored, structure, limit)
        for pattern, stored in zip(text.tensors, supports, strict=True)
    ]
    homes = [structure.batch(stored) for stored in supports]
    if structure.world is not None and needs_join(text):
        return _copied_plan(text, supports, structure, structure.world, limit)
    if structure.world is not None:
        steps = _SharedContraction(text, tables, homes, structure, limit).run()
    else:
        kind = _FixedContraction if is_fixed else _Contraction
        steps = kind(text, tables, homes, Grid(structure, text.sorts), limit).run()
    return JoinPlan(
        str(text), tuple(steps), np.stack([structure._lengths_of(stored) for stored in supports])
    )


class _UnlistedStep(NamedTuple):
    """A step before it is listed.

    Attributes:
        factors: What is multiplied, row by row.
        targets: Where every product is added.
        sign: 1 or -1 for every product, or None.
        home: The structure of every product.
        target_home: The structure of every target.
    """

    factors: tuple[Factor, ...]
    targets: Tensor
    sign: Tensor | None
    home: Tensor
    target_home: Tensor


class _Read(NamedTuple):
    """Rows of an output that wait for values by the nodes of some of its letters: the number of
    those nodes for every row.
    """

    output: Table
    target_home: Tensor
    keys: Tensor
    is_once: bool


class _Contraction:
    """The tables of a product while they are put together; the output is the table `OUTPUT`."""

    def __init__(
        self,
        text: ProductText,
        tables: Sequence[Table],
        homes: Sequence[Tensor],
        grid: Grid,
        limit: int,
    ) -> None:
        self._text, self._grid, self._space, self._limit = text, grid, grid.space, limit
        *operands, output = tables
        self._tables = {
            number: _reading(number, table) for number, table in enumerate(operands)
        } | {OUTPUT: output}
        # of all values: operands, and results of steps
        self._num_rows = {number: len(home) for number, home in enumerate(homes[:-1])}
        self._target_home = homes[-1]
        self._joins: dict[
            int, _UnlistedStep | DenseStep | ExchangeStep
        ] = {}  # by the number of what they give
        self._reads: list[_Read] = []

    def run(self) -> list[Step]:
        """Puts all tables together."""
        while len(self._tables) > 1:
            step = next_step(self._letters)
            if step is None:
                self._prepare()
                self._extend_or_fill()
            elif isinstance(step, SumAway):
                self._tables[step.table] = self._summed(self._tables[step.table], step.kept)
            else:
                self._multiply(step.source, step.target)
        output = self._tables[OUTPUT]
        found = self._emit(output, output.target, self._target_home)
        for read in reversed(self._reads):
            factors = (Factor(found, read.keys, read.is_once), *read.output.factors)
            found = self._emit(
                replace(read.output, factors=factors), read.output.target, read.target_home
            )
        return self._listed()

    @property
    def _letters(self) -> dict[int, Letters]:
        return {number: table.letters for number, table in self._tables.items()}

    def _emit(self, table: Table, targets: Tensor | None, target_home: Tensor) -> int:
        """Notes a step that multiplies the factors of every row and adds them up at the targets;
        the number of what it gives.
        """
        assert targets is not None
        number = max(self._num_rows) + 1
        self._num_rows[number] = len(target_home)
        join = _UnlistedStep(table.factors, targets, table.sign, table.home, target_home)
        [first, *others] = table.factors
        # Sums that are only summed once more, or put in another place, are added up there at once.
        before = self._joins.get(first.source) if not others and first.is_once else None
        if before is not None and not isinstance(before, ExchangeStep):
            del self._joins[first.source]
            self._joins[number] = _composed(before, join)
            return number
        self._joins[number] = join
        return number

    def _summed(self, table: Table, kept: Letters) -> Table:
        """A table with fewer letters, whose values are sums."""
        numbers, keys = number_keys(table, kept, self._space)
        return _reading(self._emit(table, numbers, keys.home), keys)

    def _multiplied(self, table: Table) -> Table:
        """The same table with the product of its factors as its values."""
        rows = torch.arange(len(table), device=table.home.device)
        return _reading(self._emit(table, rows, table.home), replace(table, sign=None))

    def _multiply(self, source: int, target: int) -> None:
        """Multiplies a table into another one that has its letters; what has several factors is
        multiplied before it is copied.
        """
        table, into = self._tables.pop(source), self._tables[target]
        if len(table.factors) > 1 and table.letters < into.letters and not table.is_joined:
            table = self._multiplied(table)
        self._tables[target] = into.times(table, find_rows(into, table, self._space))

    def _prepare(self) -> None:
        """Before rows become many: everything that has several factors is multiplied, and the
        output waits for the rest.
        """
        for number, table in self._tables.items():
            if number != OUTPUT and len(table.factors) > 1 and not table.is_joined:
                self._tables[number] = self._multiplied(table)
        output, private = self._tables[OUTPUT], private_letters(self._letters, OUTPUT)
        if output.factors or private:
            numbers, keys = number_keys(output, output.letters - private, self._space)
            self._reads.append(_Read(output, self._target_home, numbers, not private))
            rows = torch.arange(len(keys), device=keys.home.device)
            self._tables[OUTPUT], self._target_home = replace(keys, target=rows), keys.home

    def _extend_or_fill(self) -> None:
        """Extends one table by letters of others, the one that becomes the shortest; or multiplies
        two as arrays, if that is less.
        """
        number, found = min(self._extensions(), key=lambda option: num_extended(option[1]))
        pair = min(self._pairs(), key=self._num_cells, default=None)
        if pair is not None and self._is_less(pair, num_extended(found)):
            self._fill(*pair)
            return
        self._extend(number, found)

    def _pairs(self) -> list[tuple[int, int]]:
        """Operands with a letter that they share with each other alone, so that it is summed when
        they are multiplied.
        """
        operands = [
            number
            for number, table in self._tables.items()
            if number != OUTPUT and len(table.factors) == 1
        ]
        return [pair for pair in combinations(operands, 2) if self._summed_by(pair)]

    def _summed_by(self, pair: tuple[int, int]) -> Letters:
        """The letters of two tables that no other has."""
        others = (table.letters for number, table in self._tables.items() if number not in pair)
        return (self._letters[pair[0]] & self._letters[pair[1]]).difference(*others)

    def _num_cells(self, pair: tuple[int, int]) -> int:
        return self._grid.num_cells(self._letters[pair[0]] | self._letters[pair[1]])

    def _is_less(self, pair: tuple[int, int], num_joined: int) -> bool:
        """Whether arrays are less work than so many joined rows, and their memory is not mostly for
        what is absent.
        """
        is_full = all(
            self._grid.num_cells(self._letters[n], is_padded=True)
            <= _MOST_ABSENT * len(self._tables[n])
            for n in (*pair, OUTPUT)
        )
        return is_full and self._num_cells(pair) <= _FASTER * num_joined

    def _fill(self, one: int, other: int) -> None:
        """Multiplies two tables as arrays; the result has the rows that the output or the larger of
        them asks for.
        """
        output = self._tables[OUTPUT]
        kept = (self._letters[one] | self._letters[other]) - self._summed_by((one, other))
        tables = self._tables.pop(one), self._tables.pop(other)
        target = (
            Table(output.nodes, output.home)
            if output.letters == kept
            else self._grid.complete(kept)
        )
        sources = tables[0].factors[0].source, tables[1].factors[0].source
        num_rows = self._num_rows[sources[0]], self._num_rows[sources[1]]
        number = max(self._num_rows) + 1
        self._num_rows[number] = len(target)
        self._joins[number] = self._grid.step(sources, num_rows, tables, target)
        self._tables[one] = _reading(number, target)

    def _extend(self, number: int, found: list[Candidates]) -> None:
        assert_few(
            num_extended(found), self._limit, f"`{self._text}` joins too many rows here", _REMEDY
        )
        output, base = self._tables[OUTPUT], self._tables[number]
        table = extended(base if number != OUTPUT else Table(base.nodes, base.home), found)
        if output.letters <= table.letters:
            table = table.take((find_rows(table, output, self._space) >= 0).nonzero()[:, 0])
        self._tables[max(self._tables) + 1 if number == OUTPUT else number] = table

    def _extensions(self) -> list[tuple[int, list[Candidates]]]:
        """The tables that can be extended, each with those that have the same new letters.

        The output has no values, so it serves only where it brings two tables together at least.
        """
        found: dict[tuple[int, Letters], list[int]] = {}
        for number, base in self._letters.items():
            for other, letters in self._letters.items():
                if letters - base and letters & base:
                    found.setdefault((number, letters - base), []).append(other)
        return [
            (
                number,
                [
                    candidates(self._tables[number], self._tables[other], self._space)
                    for other in others
                ],
            )
            for (number, _), others in found.items()
            if number != OUTPUT or len(others) > 1
        ]

    def _listed(self) -> list[Step]:
        """The steps in the order in which they are taken."""
        num_operands = len(self._text.operands)
        places = {number: number for number in range(num_operands)}
        places |= {number: num_operands + place for place, number in enumerate(self._joins)}
        steps: list[Step] = []
        for join in self._joins.values():
            if isinstance(join, (DenseStep, ExchangeStep)):
                steps.append(
                    replace(join, sources=tuple(places[source] for source in join.sources))
                )
                continue
            # whatever was joined first in this structure
            factors = sorted(join.factors, key=lambda factor: factor.source)
            sources = tuple(places[factor.source] for factor in factors)
            num_rows = len(join.target_home), *(self._num_rows[factor.source] for factor in factors)
            rows, homes = tuple(factor.rows for factor in factors), (join.home, join.target_home)
            steps.append(
                step_of(
                    sources,
                    num_rows,
                    join.targets,
                    rows,
                    join.sign,
                    homes,
                    self._space.num_structures,
                )
            )
        return steps


class _FixedContraction(_Contraction):
    """The same with steps that letters alone decide, none of them by arrays."""

    def _extend_or_fill(self) -> None:
        """Extends the table that has the fewest letters then; of these one whose new letters most
        tables bound.
        """

        def cost(option: tuple[int, list[Candidates]]) -> tuple[int, int]:
            number, found = option
            return len(self._letters[number] | found[0].table.letters), -len(found)

        self._extend(*min(self._extensions(), key=cost))


class _SharedContraction(_Contraction):
    """The same on a part of a structure.

    What is multiplied into a table is summed at the keys of that table first, and exchanged: then
    it is complete there. The table itself may have partial sums, as products are linear in them.
    """

    def __init__(
        self,
        text: ProductText,
        tables: Sequence[Table],
        homes: Sequence[Tensor],
        structure: StructureData,
        limit: int,
    ) -> None:
        super().__init__(text, tables, homes, Grid(structure, text.sorts), limit)
        self._structure = structure
        # tables whose rows are entries: those on one node set are on one process
        self._of_entries = {*self._tables}

    def _summed(self, table: Table, kept: Letters) -> Table:
        number = next(n for n, other in self._tables.items() if other is table)
        self._of_entries.discard(number)
        return super()._summed(table, kept)

    def _multiply(self, source: int, target: int) -> None:
        table, into = self._tables[source], self._tables[target]
        both = {source, target} <= self._of_entries
        if (both and table.letters == into.letters) or (
            source in self._of_entries and not table.letters
        ):
            super()._multiply(source, target)
            return
        del self._tables[source]
        keys = self._completed(table, into)
        self._tables[target] = into.times(keys, find_rows(into, keys, self._space))

    def _completed(self, table: Table, into: Table) -> Table:
        """Return a table of all keys of another one, with the sums of all processes."""
        names = sorted(table.letters)
        both = Table(
            {name: torch.cat([table.nodes[name], into.nodes[name]]) for name in names},
            torch.cat([table.home, into.home]),
        )
        numbers, keys = number_keys(both, names, self._space)
        partial = self._emit(table, numbers[: len(table)], keys.home)
        world = self._structure.world
        assert world is not None
        columns = [keys.nodes[name] for name in names]
        nodes = torch.stack(columns, 1) if names else keys.home.new_zeros(len(keys), 0)
        number = max(self._num_rows) + 1
        self._num_rows[number] = len(keys)
        self._joins[number] = exchange_step(partial, self._structure.whole_nodes(nodes), world)
        rows = torch.arange(len(keys))
        return replace(keys, factors=(Factor(number, rows),))


_MOST_COPIED = 1_000_000
"""Rows of operands that are copied to every process, where a product joins them in a circle."""


def _copied_plan(
    text: ProductText,
    supports: Sequence[Pattern],
    structure: StructureData,
    world: World,
    limit: int,
) -> JoinPlan:
    """Return the plan of a product that joins tensors in a circle, on a part of a structure.

    Rows of several tensors have to meet on one process. So all rows are copied to every process,
    which computes the product of the whole structure, and takes its rows.

    Raises:
        TooLargeError: More than `_MOST_COPIED` rows would have to travel.
    """
    *operands, output = supports
    held = torch.tensor([sum(structure.num_entries(p) for p in operands if p.faces)])
    num_copied = int(world.reduce(held)) * (world.size - 1)
    if num_copied > _MOST_COPIED or structure.num_structures > 1:
        raise TooLargeError(
            f"`{text}` joins tensors in a circle, so its rows would have to travel between"
            f" processes: {num_copied:,} rows in every step; up to {_MOST_COPIED:,} rows of one"
            " structure are copied. Products that pool to keys and read back work on any part."
            " Compute this one on the whole structure, on one process."
        )
    plan = build_join_plan(text, structure.whole(supports), limit)
    copies = [_copy_step(k, p, structure, world) for k, p in enumerate(operands)]
    moved = [
        replace(step, sources=tuple(source + len(operands) for source in step.sources))
        for step in plan.batched_steps
    ]
    own = structure.whole_rows(output)
    num_values = len(operands) + len(copies) + len(moved)
    last = OwnRowsStep((num_values - 1,), (len(own), plan.num_rows[-1]), own)
    lengths = np.stack([structure._lengths_of(stored) for stored in supports])
    return JoinPlan(str(text), (*copies, *moved, last), lengths)


def _copy_step(
    number: int, pattern: Pattern, structure: StructureData, world: World
) -> CopyStep | OwnRowsStep:
    own = structure.whole_rows(pattern)
    if not pattern.faces:  # values of whole structures are on every process
        return OwnRowsStep((number,), (len(own), len(own)), own)
    every = torch.cat(world.gather(own))
    return CopyStep((number,), (len(every), len(own)), world, own, every)


def _reading(number: int, table: Table) -> Table:
    """A table with values of its own: those of its entries, if it has some, or one for
    every row.
    """
    rows = (
        torch.arange(len(table), device=table.home.device) if table.target is None else table.target
    )
    return replace(table, factors=(Factor(number, rows, table.target is None),), target=None)


def _composed(first: _UnlistedStep | DenseStep, then: _UnlistedStep) -> _UnlistedStep | DenseStep:
    """Two steps in one, where every sum of the first is used at most once by the second, its only
    factor.
    """
    [factor] = then.factors
    if isinstance(first, DenseStep):
        targets = then.targets.new_full((first.num_rows[0],), -1)
        targets[factor.rows] = then.targets
        sign = then.sign
        if sign is not None:
            sign = sign.new_ones(first.num_rows[0]).index_copy(0, factor.rows, sign)
        return first.moved(targets, sign, then.target_home)
    place = torch.full((len(first.target_home),), -1, device=first.targets.device)
    place[factor.rows] = torch.arange(len(then.targets), device=place.device)
    rows = place[first.targets]
    kept = (rows >= 0).nonzero()[:, 0]
    rows = rows[kept]
    sign = None if first.sign is None else first.sign[kept]
    if then.sign is not None:
        sign = then.sign[rows] if sign is None else sign * then.sign[rows]
    factors = tuple(Factor(f.source, f.rows[kept]) for f in first.factors)
    return _UnlistedStep(factors, then.targets[rows], sign, first.home[kept], then.target_home)
