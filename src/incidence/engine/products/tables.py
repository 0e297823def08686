r"""Tensors of a product as tables: a row for every way to read an entry, a column of nodes for
every letter.

An entry is read once for every assignment of nodes to the letters that gives it, where exchangeable
letters take their nodes in ascending order (docs/math.md section 17). After that a product is a
natural join: rows go together where letters that they share have the same nodes, and rows without
letters where they are of one structure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from math import factorial, prod
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.algebra.grammar import Face
from incidence.algebra.pattern import Pattern
from incidence.algebra.products import ProductText
from incidence.algebra.signs import sorting_sign
from incidence.structure.data import StructureData
from incidence.structure.ragged import ascend, assert_few, code, common_keys, distinct, expand, rank

__all__ = [
    "Candidates",
    "Table",
    "candidates",
    "extended",
    "find_rows",
    "num_extended",
    "number_keys",
    "table_of",
]


@dataclass(frozen=True)
class Table:
    """A table of assignments.

    Attributes:
        nodes: For every letter the node of every row, numbered through all sorts.
        home: The structure of every row.
        factors: The values whose product belongs to a row: by the number of a value, its row for
            every row of the table.
        is_once: Where there is one factor, whether no row of it is read twice, whatever the
            structure is.
        sign: 1 or -1 for every row; None where all are 1.
        target: For the output, the entry of every row.
        is_joined: Whether rows came out of a join, which may be many more than entries.
    """

    nodes: dict[str, Tensor]
    home: Tensor
    factors: dict[int, Tensor] = field(default_factory=dict)
    is_once: bool = False
    sign: Tensor | None = None
    target: Tensor | None = None
    is_joined: bool = False

    def __len__(self) -> int:
        return len(self.home)

    @property
    def letters(self) -> frozenset[str]:
        """The letters that have a column."""
        return frozenset(self.nodes)

    def take(self, rows: Tensor, is_once: bool = True) -> Table:
        """Return some rows; `is_once` says that none is taken twice."""
        return replace(
            self,
            nodes={name: column[rows] for name, column in self.nodes.items()},
            home=self.home[rows],
            factors={number: own[rows] for number, own in self.factors.items()},
            is_once=self.is_once and is_once,
            sign=None if self.sign is None else self.sign[rows],
            target=None if self.target is None else self.target[rows],
        )

    def times(self, other: Table, rows: Tensor) -> Table:
        """Multiply every row by one of another table: -1 where there is none.

        Such rows are left out.
        """
        kept = (rows >= 0).nonzero()[:, 0]
        own, others = self.take(kept), other.take(rows[kept], other.letters == self.letters)
        sign = own.sign
        if others.sign is not None:
            sign = others.sign if sign is None else sign * others.sign
        factors = own.factors | others.factors
        return replace(own, factors=factors, is_once=others.is_once, sign=sign)


def table_of(
    text: ProductText, pattern: Pattern, stored: Pattern, structure: StructureData, limit: int
) -> Table:
    """Return the table of one tensor of a product, by entry; the entries are its target.

    Args:
        text: The product.
        pattern: The tensor.
        stored: The same tensor with the letters of the structure.
        structure: The structure.
        limit: The number of rows that the table may have.

    Raises:
        TooLargeError: It would have more than `limit` rows.
    """
    num_entries = structure.num_entries(stored)
    groups = [group for group in text.exchangeable if set(group) <= set(pattern.letters)]
    num_ways = prod(_num_ways(face, groups) for face in pattern.faces)
    if num_ways > 1:
        what = f"`{text}` reads `{pattern}` in too many ways"
        assert_few(num_entries * num_ways, limit, what, "Raise limit=, or use smaller faces")
    columns = _face_nodes(structure, stored)
    numbers = torch.arange(num_entries, device=structure.device)
    sign = _orientations(stored, columns)
    entries = Table({}, structure.batch(stored), sign=sign, target=numbers)
    ways = product(*(list(_ways(face, groups)) for face in pattern.faces))
    parts = [_read(entries, pattern, columns, way) for way in ways]
    table = _below(parts)
    if len(parts) == 1:
        return table
    return table.take(_by_entry(table, pattern, num_entries, structure.total_nodes))


def _by_entry(table: Table, pattern: Pattern, num_entries: int, num_nodes: int) -> Tensor:
    """The order of rows by entry. A node that stands twice in a symmetric face is read in several
    ways that are one assignment.
    """
    assert table.target is not None
    if all(face.kind.is_ordered or face.kind.is_distinct for face in pattern.faces):
        return table.target.sort(stable=True)[1]
    columns = [table.target, *table.nodes.values()]
    return distinct(code(columns, [num_entries, *[num_nodes] * len(table.nodes)])[0])


def _face_nodes(structure: StructureData, stored: Pattern) -> list[list[Tensor]]:
    """For every face of a stored pattern its nodes, position by position, as they are stored."""
    index, offsets = structure._stored(stored)[0], structure._node_offsets
    shifts = {name: offsets[sort] for name, sort in stored.sorts.items()}
    rows = {
        name: index[k] + shifts[name] if shifts[name] else index[k]
        for k, name in enumerate(stored.letters)
    }
    return [[rows[letter.name] for letter in face.letters] for face in stored.faces]


def _orientations(stored: Pattern, faces: list[list[Tensor]]) -> Tensor | None:
    """Puts the nodes of unordered faces in ascending order; for oriented faces the sign of that,
    None where there are none.
    """
    sign: Tensor | None = None
    for d, face in enumerate(stored.faces):
        if face.kind.is_oriented:
            for one, other in combinations(faces[d], 2):
                swapped = torch.where(one > other, -1, 1).to(torch.int8)
                sign = swapped if sign is None else sign * swapped
        if not face.kind.is_ordered:
            faces[d] = ascend(faces[d])
    return sign


def _units(face: Face, groups: Sequence[Sequence[str]]) -> list[tuple[str, list[str]]]:
    """The letters of an unordered face, those that may be exchanged together; with their sorts."""
    left = {letter.name: letter.sort for letter in face.letters}
    units = []
    while left:
        name = next(iter(left))
        members = [
            x for x in next((group for group in groups if name in group), [name]) if x in left
        ]
        units.append((left[name], members))
        left = {x: sort for x, sort in left.items() if x not in members}
    return units


def _num_ways(face: Face, groups: Sequence[Sequence[str]]) -> int:
    """How many ways there are to put the letters of a face on its nodes."""
    if face.kind.is_ordered:
        return 1
    sorts = [letter.sort for letter in face.letters]
    orders = prod(factorial(sorts.count(sort)) for sort in set(sorts))
    return orders // prod(factorial(len(members)) for _, members in _units(face, groups))


def _ways(face: Face, groups: Sequence[Sequence[str]]) -> Iterator[dict[str, int]]:
    """Yield the ways to put the letters of a face on its nodes: the position of every letter."""
    names = [letter.name for letter in face.letters]
    if face.kind.is_ordered:
        yield {name: position for position, name in enumerate(names)}
        return
    # of the positions, as nodes are numbered by sort
    sorts = sorted(letter.sort for letter in face.letters)
    placed: list[dict[str, int]] = [{}]
    for sort, members in _units(face, groups):
        places = [p for p, own in enumerate(sorts) if own == sort]
        placed = [
            way | dict(zip(members, chosen, strict=True))
            for way in placed
            for chosen in combinations([p for p in places if p not in way.values()], len(members))
        ]
    yield from placed


def _way_sign(face: Face, way: dict[str, int]) -> int:
    """Return the sign of the order in which an oriented face has its letters."""
    if not face.kind.is_oriented:
        return 1
    return sorting_sign([way[letter.name] for letter in face.letters])


def _read(
    entries: Table,
    pattern: Pattern,
    columns: Sequence[Sequence[Tensor]],
    way: Sequence[dict[str, int]],
) -> Table:
    """Return the entries that can be read in one way, with the nodes of the letters.

    A letter in several faces must have one node in them.

    Args:
        entries: All entries.
        pattern: The tensor.
        columns: For every face the nodes at its positions.
        way: For every face the positions of its letters.
    """
    nodes: dict[str, Tensor] = {}
    is_read: Tensor | None = None
    for face_nodes, positions in zip(columns, way, strict=True):
        for name, position in positions.items():
            if name in nodes:
                agrees = nodes[name] == face_nodes[position]
                is_read = agrees if is_read is None else is_read & agrees
            else:
                nodes[name] = face_nodes[position]
    table = replace(entries, nodes={name: nodes[name] for name in pattern.letters})
    if is_read is not None:
        table = table.take(is_read.nonzero()[:, 0])
    if table.sign is None:
        return table
    signs = [_way_sign(face, own) for face, own in zip(pattern.faces, way, strict=True)]
    return replace(table, sign=table.sign * prod(signs))


def _columns(table: Table, names: Sequence[str]) -> list[Tensor]:
    """Return the columns of some letters; without letters, the structures."""
    return [table.nodes[name] for name in names] or [table.home]


def _bounds(structure: StructureData, names: Sequence[str]) -> list[int]:
    """Return what these columns stay below."""
    return [max(structure.total_nodes, 1)] * len(names) or [structure.num_structures]


_FEW = 4  # numbers for each row up to which rows are looked up by number


def find_rows(asked: Table, known: Table, structure: StructureData) -> Tensor:
    """For every row of a table the row of another one that has the same nodes, and no letters
    besides; -1 where there is none.
    """
    names = sorted(known.letters)
    keys, known_keys = common_keys(
        _columns(asked, names), _columns(known, names), _bounds(structure, names)
    )
    bound = prod(_bounds(structure, names))
    if not len(known):
        return torch.full_like(keys, -1)
    if bound <= _FEW * (len(known) + len(asked)):
        place = torch.full((bound,), -1, device=keys.device)
        place[known_keys] = torch.arange(len(known), device=keys.device)
        return place[keys]
    ordered, order = known_keys.sort()
    spot = torch.searchsorted(ordered, keys).clamp(max=len(ordered) - 1)
    return torch.where(ordered[spot] == keys, order[spot], -1)


def number_keys(
    table: Table, names: Collection[str], structure: StructureData
) -> tuple[Tensor, Table]:
    """The different nodes of some letters: their number for every row, and the table of them.
    Without letters, all structures.
    """
    if not names:
        return table.home, Table(
            {}, torch.arange(structure.num_structures, device=table.home.device)
        )
    ordered = sorted(names)
    numbers, count = rank(code(_columns(table, ordered), _bounds(structure, ordered))[0])
    first = torch.empty(count, dtype=torch.long, device=numbers.device)
    first[numbers] = torch.arange(len(numbers), device=numbers.device)
    return numbers, Table({name: table.nodes[name][first] for name in ordered}, table.home[first])


class Candidates(NamedTuple):
    """The rows of one table that fit each row of another: where they start in the order of the
    first, and how many they are.
    """

    table: Table
    order: Tensor
    starts: Tensor
    counts: Tensor


def candidates(base: Table, table: Table, structure: StructureData) -> Candidates:
    """The rows of a table that have the same nodes as each row of `base` where they share
    letters.
    """
    shared = sorted(base.letters & table.letters)
    keys, known = common_keys(
        _columns(base, shared), _columns(table, shared), _bounds(structure, shared)
    )
    ordered, order = known.sort(stable=True)
    starts = torch.searchsorted(ordered, keys)
    return Candidates(table, order, starts, torch.searchsorted(ordered, keys, right=True) - starts)


def num_extended(found: Sequence[Candidates]) -> int:
    """How many rows there are when every row is extended by the table with the fewest that fit."""
    return int(torch.stack([one.counts for one in found]).amin(0).sum())


def extended(base: Table, found: Sequence[Candidates]) -> Table:
    """The rows of a table, each with the new letters from the table that has the fewest rows that
    fit.

    So no row is looked at longer than the rarest of its letters allows: for `i j, j k -> i k` at
    most |S|^1.5 in all.
    """
    choice = torch.stack([one.counts for one in found]).argmin(0)
    new = sorted(found[0].table.letters - base.letters)
    parts = []
    for number, (table, order, starts, counts) in enumerate(found):
        rows = (choice == number).nonzero()[:, 0]
        which, spot = expand(starts[rows], counts[rows])
        own = base.take(rows[which], is_once=False)
        spots = order[spot]
        parts.append(
            replace(own, nodes=own.nodes | {name: table.nodes[name][spots] for name in new})
        )
    return replace(_below(parts), is_joined=True, target=None)


def _below(tables: Sequence[Table]) -> Table:
    """Return tables with the same columns, one below the other."""
    first = tables[0]
    if len(tables) == 1:
        return first
    factors = {n: torch.cat([table.factors[n] for table in tables]) for n in first.factors}
    signs = [table.sign for table in tables if table.sign is not None]
    targets = [table.target for table in tables if table.target is not None]
    return Table(
        nodes={name: torch.cat([table.nodes[name] for table in tables]) for name in first.nodes},
        home=torch.cat([table.home for table in tables]),
        factors=factors,
        sign=torch.cat(signs) if signs else None,
        target=torch.cat(targets) if targets else None,
    )
