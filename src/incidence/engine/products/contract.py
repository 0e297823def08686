r"""From the text of a product to its plan on a structure: tables are summed, looked up in each
other and joined, smallest first.

Which steps take linear time is decided by the letters alone (`algebra/products.py`). For the rest a
table is extended by the letters of others, row by row from the one with the fewest rows that fit.
How many rows that makes is counted before they are made, and the extension with the fewest is
taken. The entries of the output are one more table, without values, so that nothing is made that is
not read.

Where one program must serve all structures, letters alone choose the extensions too. On a part of a
structure, what is multiplied into a table is summed at the keys of that table first, and exchanged:
then it is complete there. The table itself may have partial sums, as products are linear in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

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
from incidence.engine.products.dense import DenseStep, complete_table, dense_step, num_cells
from incidence.engine.products.plan import JoinPlan, JoinStep, Step, step_of
from incidence.engine.products.tables import (
    Candidates,
    Table,
    candidates,
    extended,
    find_rows,
    num_extended,
    number_keys,
    table_of,
)
from incidence.engine.shared import SharedKeys, all_shared, shared_keys
from incidence.engine.store import cached_plan
from incidence.errors import TooLargeError
from incidence.structure.data import Array, StructureData, support_of
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
    """Build the plan of a product on a structure.

    Args:
        text: The product.
        structure: The structure.
        limit: The number of rows that a step may look at to join them.
        is_fixed: Whether the steps must be those of every other structure.

    Raises:
        IncidenceError: Some tensor of the product is missing.
        TooLargeError: Some step would look at more than `limit` rows to join them. None of them are
            made then.
    """
    supports = [support_of(structure, pattern) for pattern in text.tensors]
    if structure.world is not None and needs_join(text):
        return _copied_plan(text, supports, structure, structure.world, limit)
    tables = _tables_of(text, supports, structure, limit)
    homes = [structure.batch(stored) for stored in supports]
    steps = _Contraction(text, tables, homes, structure, limit, is_fixed).run()
    return JoinPlan(str(text), tuple(steps), _lengths(supports, structure))


def _tables_of(
    text: ProductText, supports: Sequence[Pattern], structure: StructureData, limit: int
) -> list[Table]:
    """Return the tables of all tensors of a product, the output last."""
    return [
        table_of(text, pattern, stored, structure, limit)
        for pattern, stored in zip(text.tensors, supports, strict=True)
    ]


def _lengths(supports: Sequence[Pattern], structure: StructureData) -> Array:
    """Return how many entries each tensor has, (tensors, structures)."""
    return np.stack([structure._lengths_of(stored) for stored in supports])


class _Contraction:
    """The tables of a product while they are put together; the output is the table `OUTPUT`.

    Values have numbers: operands first, then the results of steps.

    Args:
        text: The product.
        tables: Its tables, the output last.
        homes: The structure of every entry, for each tensor.
        structure: The structure.
        limit: The number of rows that a step may look at to join them.
        is_fixed: Whether letters alone decide the steps, none of which are by arrays.
    """

    def __init__(
        self,
        text: ProductText,
        tables: Sequence[Table],
        homes: Sequence[Tensor],
        structure: StructureData,
        limit: int,
        is_fixed: bool = False,
    ) -> None:
        self._text, self._structure, self._limit = text, structure, limit
        self._is_fixed = is_fixed
        *operands, output = tables
        self._tables = {number: _reading(number, table) for number, table in enumerate(operands)}
        # tables whose rows are entries: those on one node set are on one process
        self._of_entries = set(self._tables)
        self._tables[OUTPUT] = output
        # the structure of every row of a value
        self._homes = dict(enumerate(homes[:-1]))
        # by the number of what it gives: a table whose rows are added up at their targets, or a
        # step by arrays
        self._joins: dict[int, Table | DenseStep] = {}
        # the keys at which the sums of a step are exchanged
        self._shared: dict[int, SharedKeys] = {}
        self._result = self._new_value(homes[-1])  # what the table `OUTPUT` gives
        # by the number of what they give: outputs that read the result of the table `OUTPUT`
        self._waiting: dict[int, Table] = {}

    def run(self) -> list[Step]:
        """Put all tables together, and return the steps."""
        while len(self._tables) > 1:
            step = next_step(self._letters)
            if step is None:
                self._prepare()
                self._extend_or_fill()
            elif isinstance(step, SumAway):
                self._tables[step.table] = self._summed(step.table, step.kept)
            else:
                self._multiply(step.source, step.target)
        self._waiting[self._result] = self._tables[OUTPUT]
        for number, table in reversed(self._waiting.items()):
            self._emit(table, number)
        return self._listed()

    @property
    def _letters(self) -> dict[int, Letters]:
        return {number: table.letters for number, table in self._tables.items()}

    def _new_value(self, home: Tensor) -> int:
        """Return the number of a new value, from the structure of each of its rows."""
        number = len(self._homes)
        self._homes[number] = home
        return number

    def _emit(self, table: Table, number: int) -> None:
        """Note the step that gives a value: it adds up the rows of a table at their targets."""
        first, *others = table.factors
        before = None
        if not others and table.is_once and first not in self._shared:
            before = self._joins.pop(first, None)
        if before is not None:
            # Sums that are only summed once more, or put in another place, are added up there.
            home, num_sums = self._homes[number], len(self._homes[first])
            self._joins[number] = _composed(before, num_sums, table, home)
        else:
            self._joins[number] = replace(table, nodes={})  # its nodes are no longer needed

    def _summed(self, number: int, kept: Letters) -> Table:
        """Return a table with fewer letters, whose values are sums."""
        table = self._tables[number]
        self._of_entries.discard(number)
        numbers, keys = number_keys(table, kept, self._structure)
        value = self._new_value(keys.home)
        self._emit(replace(table, target=numbers), value)
        return _reading(value, keys)

    def _multiplied(self, table: Table) -> Table:
        """Return the same table with the product of its factors as its values."""
        value = self._new_value(table.home)
        self._emit(replace(table, target=_numbers(table)), value)
        return _reading(value, replace(table, sign=None))

    def _multiply(self, source: int, target: int) -> None:
        """Multiply a table into another one that has its letters."""
        is_complete = self._is_complete(source, target)
        table, into = self._tables.pop(source), self._tables[target]
        if not is_complete:
            table = self._completed(table, into)
        elif len(table.factors) > 1 and table.letters < into.letters and not table.is_joined:
            # what has several factors is multiplied before it is copied
            table = self._multiplied(table)
        self._tables[target] = into.times(table, find_rows(into, table, self._structure))

    def _is_complete(self, source: int, target: int) -> bool:
        """Return whether all rows that a table needs of another one are on this process."""
        if self._structure.world is None:
            return True
        if not self._letters[source]:
            return source in self._of_entries
        is_of_one_set = self._letters[source] == self._letters[target]
        return is_of_one_set and {source, target} <= self._of_entries

    def _completed(self, table: Table, into: Table) -> Table:
        """Return a table of all keys of another one, with the sums of all processes."""
        world = self._structure.world
        assert world is not None
        names = sorted(table.letters)
        both = Table(
            {name: torch.cat([table.nodes[name], into.nodes[name]]) for name in names},
            torch.cat([table.home, into.home]),
        )
        numbers, keys = number_keys(both, names, self._structure)
        value = self._new_value(keys.home)
        self._emit(replace(table, target=numbers[: len(table)]), value)
        columns = [keys.nodes[name] for name in names]
        nodes = torch.stack(columns, 1) if names else keys.home.new_zeros(len(keys), 0)
        self._shared[value] = shared_keys(self._structure.whole_nodes(nodes), world)
        return replace(keys, factors={value: _numbers(keys)})

    def _prepare(self) -> None:
        """Before rows become many, multiply everything that has several factors.

        The output waits for the rest.
        """
        for number, table in self._tables.items():
            if number != OUTPUT and len(table.factors) > 1 and not table.is_joined:
                self._tables[number] = self._multiplied(table)
        output, private = self._tables[OUTPUT], private_letters(self._letters, OUTPUT)
        if output.factors or private:
            numbers, keys = number_keys(output, output.letters - private, self._structure)
            value = self._new_value(keys.home)
            factors = {value: numbers, **output.factors}
            self._waiting[self._result] = replace(output, factors=factors, is_once=not private)
            self._tables[OUTPUT] = replace(keys, target=_numbers(keys))
            self._result = value

    def _extend_or_fill(self) -> None:
        """Extend one table by letters of others, or multiply two as arrays, whichever is less.

        Extended is the table that becomes the shortest. Where the steps are fixed, it is the one
        with the fewest letters then; of these one whose new letters most tables bound.
        """

        def num_letters(option: tuple[int, list[Candidates]]) -> tuple[int, int]:
            number, found = option
            return len(self._letters[number] | found[0].table.letters), -len(found)

        if self._is_fixed:
            self._extend(*min(self._extensions(), key=num_letters))
            return
        number, found = min(self._extensions(), key=lambda option: num_extended(option[1]))
        pair = min(self._pairs(), key=self._num_cells, default=None)
        if pair is not None and self._is_less(pair, num_extended(found)):
            self._fill(*pair)
        else:
            self._extend(number, found)

    def _pairs(self) -> list[tuple[int, int]]:
        """Return the operands with a letter that they share with each other alone.

        It is summed when they are multiplied.
        """
        operands = [
            number
            for number, table in self._tables.items()
            if number != OUTPUT and len(table.factors) == 1
        ]
        return [pair for pair in combinations(operands, 2) if self._summed_by(pair)]

    def _summed_by(self, pair: tuple[int, int]) -> Letters:
        """Return the letters of two tables that no other has."""
        others = (table.letters for number, table in self._tables.items() if number not in pair)
        return (self._letters[pair[0]] & self._letters[pair[1]]).difference(*others)

    def _num_cells(self, pair: tuple[int, int]) -> int:
        letters = self._letters[pair[0]] | self._letters[pair[1]]
        return num_cells(self._structure, self._text.sorts, letters)

    def _is_less(self, pair: tuple[int, int], num_joined: int) -> bool:
        """Return whether arrays are less work than so many joined rows.

        Their memory must not be mostly for what is absent.
        """
        structure, sorts = self._structure, self._text.sorts
        is_full = all(
            num_cells(structure, sorts, self._letters[n], is_padded=True)
            <= _MOST_ABSENT * len(self._tables[n])
            for n in (*pair, OUTPUT)
        )
        return is_full and self._num_cells(pair) <= _FASTER * num_joined

    def _fill(self, one: int, other: int) -> None:
        """Multiply two tables as arrays.

        The result has the rows that the output or the larger of them needs.
        """
        output = self._tables[OUTPUT]
        kept = (self._letters[one] | self._letters[other]) - self._summed_by((one, other))
        tables = self._tables.pop(one), self._tables.pop(other)
        if output.letters == kept:
            target = Table(output.nodes, output.home)
        else:
            target = complete_table(self._structure, self._text.sorts, kept)
        sources = [number for table in tables for number in table.factors]
        num_rows = [len(target), *(len(self._homes[number]) for number in sources)]
        value = self._new_value(target.home)
        self._joins[value] = dense_step(
            self._structure, self._text.sorts, tables, target, tuple(num_rows)
        )
        self._tables[one] = _reading(value, target)

    def _extend(self, number: int, found: list[Candidates]) -> None:
        """Extend a table by letters of others."""
        what = f"`{self._text}` joins too many rows here"
        assert_few(num_extended(found), self._limit, what, _REMEDY)
        output, base = self._tables[OUTPUT], self._tables[number]
        if number == OUTPUT:
            base, number = Table(base.nodes, base.home), max(self._tables) + 1
        table = extended(base, found)
        if output.letters <= table.letters:
            is_read = find_rows(table, output, self._structure) >= 0
            table = table.take(is_read.nonzero()[:, 0])
        self._tables[number] = table

    def _extensions(self) -> list[tuple[int, list[Candidates]]]:
        """Return the tables that can be extended, each with those that have the same new letters.

        The output has no values, so it serves only where it brings two tables together at least.
        """
        options: dict[tuple[int, Letters], list[int]] = {}
        for number, base in self._letters.items():
            for other, letters in self._letters.items():
                if letters - base and letters & base:
                    options.setdefault((number, letters - base), []).append(other)
        extensions = []
        for (number, _), others in options.items():
            if number != OUTPUT or len(others) > 1:
                base_table = self._tables[number]
                tables = [self._tables[other] for other in others]
                fitting = [candidates(base_table, table, self._structure) for table in tables]
                extensions.append((number, fitting))
        return extensions

    def _listed(self) -> list[Step]:
        """Return the steps in the order in which they are taken."""
        num_operands = len(self._text.operands)
        places = {number: number for number in range(num_operands)}
        places |= {number: num_operands + place for place, number in enumerate(self._joins)}
        steps: list[Step] = []
        for number, join in self._joins.items():
            if isinstance(join, DenseStep):
                steps.append(replace(join, sources=tuple(places[s] for s in join.sources)))
                continue
            step = self._step(number, join)
            steps.append(replace(step, sources=tuple(places[s] for s in step.sources)))
        return steps

    def _step(self, number: int, table: Table) -> JoinStep:
        """Return the step that gives a value, with the numbers of values as its sources."""
        assert table.target is not None
        sources = sorted(table.factors)  # whatever was joined first in this structure
        home = self._homes[number]
        step = step_of(
            tuple(sources),
            (len(home), *(len(self._homes[source]) for source in sources)),
            table.target,
            tuple(table.factors[source] for source in sources),
            table.sign,
            (table.home, home),
            self._structure.num_structures,
        )
        return replace(step, shared=self._shared.get(number))


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
    which computes its rows of the product of the whole structure.

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
    whole = structure.whole(supports)
    tables = _tables_of(text, supports, whole, limit)
    homes = [whole.batch(stored) for stored in supports]
    own = structure.whole_rows(output)
    tables[-1], homes[-1] = _own_rows(tables[-1], own, len(homes[-1])), homes[-1][own]
    # values of whole structures are on every process
    copied = [number for number, pattern in enumerate(operands) if pattern.faces]
    copies = [
        _copy_step(number, structure.whole_rows(operands[number]), homes[number], world)
        for number in copied
    ]
    # where each value is, once the copies stand before the steps
    places = list(range(len(operands)))
    for place, number in enumerate(copied, len(operands)):
        places[number] = place
    steps: list[Step] = list(copies)
    for step in _Contraction(text, tables, homes, whole, limit).run():
        sources = tuple(places[s] if s < len(operands) else s + len(copies) for s in step.sources)
        steps.append(replace(step, sources=sources))
    return JoinPlan(str(text), tuple(steps), _lengths(supports, structure))


def _own_rows(output: Table, own: Tensor, num_entries: int) -> Table:
    """Return the part of the table of an output that gives some of its entries."""
    assert output.target is not None
    place = torch.full((num_entries,), -1)
    place[own] = torch.arange(len(own))
    part = output.take((place[output.target] >= 0).nonzero()[:, 0])
    assert part.target is not None
    return replace(part, target=place[part.target])


def _copy_step(number: int, own: Tensor, home: Tensor, world: World) -> JoinStep:
    """Return the step that gives every process all rows of an operand.

    Every process puts its rows in their places, and the exchange adds them up.

    Args:
        number: The number of the operand.
        own: The rows of this process.
        home: The structure of every row of the whole.
        world: The processes.
    """
    rows = torch.arange(len(own))
    num_rows = len(home), len(own)
    step = step_of((number,), num_rows, own, (rows,), None, (home[own], home), 1)
    return replace(step, shared=all_shared(len(home), world))


def _numbers(table: Table) -> Tensor:
    """Return the numbers of the rows of a table."""
    return torch.arange(len(table), device=table.home.device)


def _reading(number: int, table: Table) -> Table:
    """Return a table with values of its own.

    These are the values of its entries, if it has some, or one for every row.
    """
    rows = _numbers(table) if table.target is None else table.target
    return replace(table, factors={number: rows}, is_once=table.target is None, target=None)


def _composed(
    first: Table | DenseStep, num_sums: int, then: Table, home: Tensor
) -> Table | DenseStep:
    """Return two steps in one: every sum of the first is used at most once by the second.

    Args:
        first: The first step.
        num_sums: The number of its sums.
        then: The second step. Its only factor are these sums.
        home: The structure of every row of the result.
    """
    [read] = then.factors.values()
    assert then.target is not None
    if isinstance(first, DenseStep):
        targets = then.target.new_full((num_sums,), -1)
        targets[read] = then.target
        sign = then.sign
        if sign is not None:
            sign = sign.new_ones(num_sums).index_copy(0, read, sign)
        return first.moved(targets, sign, home)
    assert first.target is not None
    place = torch.full((num_sums,), -1, device=first.target.device)
    place[read] = _numbers(then)
    rows = place[first.target]
    is_used = (rows >= 0).nonzero()[:, 0]
    used, rows = first.take(is_used), rows[is_used]
    return replace(used, sign=_times(used.sign, then.sign, rows), target=then.target[rows])


def _times(sign: Tensor | None, other: Tensor | None, rows: Tensor) -> Tensor | None:
    """Return the product of signs with some rows of others."""
    if other is None:
        return sign
    return other[rows] if sign is None else sign * other[rows]
