r"""The entries of a pattern, found from the faces that are present.

An entry of a pattern is one face for each face of the pattern, such that the letters can be assigned (docs/math.md section 2). So it is
told by the rows of its faces in the tensors that list them, and all entries are a join of those lists on the letters that faces share. A
face enters the join once for every way to put its nodes on its letters; letters that may be exchanged (equal sort and signature) take
their nodes in ascending order, which leaves few ways, often one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import factorial, prod
from typing import Any, TypeVar

import torch
from torch import Tensor

from incidence.algebra.grammar import Face
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.data import StructureData, entry_ptr_of
from incidence.structure.edit import add_tensors, canonical
from incidence.structure.face_lookup import lone, sources
from incidence.structure.ragged import (
    MAX_ENTRIES,
    assert_few,
    by_entry,
    code,
    common_keys,
    distinct,
    expand,
    is_among,
    no_entries,
    pairs,
)

__all__ = ["attach", "with_pattern"]

S = TypeVar("S", bound=StructureData)


def with_pattern(
    structure: S,
    text: str | Pattern,
    faces: Mapping[Any, str] | None = None,
    limit: int = MAX_ENTRIES,
) -> S:
    """The same structure with one more tensor: the entries of a pattern whose faces are all present."""
    pattern = Pattern(text)
    if not pattern.faces:
        raise IncidenceError(
            "the empty pattern has one entry for each structure: there is nothing to find."
        )
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise IncidenceError(
            f"with_pattern: limit must be an integer from 0, the number of entries to look for at most; got {limit!r}."
        )
    search = _Search(structure, pattern, sources(structure, pattern, faces), limit)
    found = search.join(
        search.reduced(
            [
                search.open(d) if face.is_open else search.fixed(d)
                for d, face in enumerate(pattern.faces)
            ]
        )
    )
    rows = [found[number] for number in range(pattern.order)]
    fixed = [found[name] for name in pattern.fixed_letters]
    letters = torch.stack(fixed) if fixed else no_entries(0, structure.device)
    return attach(structure, pattern, letters, list(zip(search.sources, rows, strict=True)), limit)


Candidates = dict[str | int, Tensor]
"""A column of nodes for every letter, and a column of rows for every face (by its number in the pattern)."""


def _take(table: Candidates, rows: Tensor) -> Candidates:
    return {key: column[rows] for key, column in table.items()}


def _letters(table: Candidates) -> list[str]:
    return [key for key in table if isinstance(key, str)]


def _length(table: Candidates) -> int:
    return len(next(iter(table.values())))


@dataclass(frozen=True)
class _Search:
    """A pattern to be found in a structure, each face of it among the entries of one tensor."""

    structure: StructureData
    pattern: Pattern
    sources: Sequence[Pattern]
    limit: int

    @property
    def what(self) -> str:
        return f"`{self.pattern}` has too many entries here"

    def fixed(self, number: int) -> Candidates:
        """The candidates for a face of fixed size."""
        face, source = self.pattern.faces[number], self.sources[number]
        nodes = self.structure.index(lone(face._replace(kind=source.faces[0].kind), source.name))[0]
        if not face.kind.is_ordered:  # nodes are to ascend, for each sort on its own
            nodes = nodes.clone()
            for sort in {x.sort for x in face.letters}:
                own = [p for p, x in enumerate(face.letters) if x.sort == sort]
                nodes[own] = nodes[own].sort(dim=0)[0]
        ways = self._ways(face, nodes.shape[1])
        table: Candidates = {
            x.name: torch.cat([nodes[way[p]] for way in ways]) for p, x in enumerate(face.letters)
        }
        table[number] = torch.arange(nodes.shape[1], device=nodes.device).repeat(len(ways))
        return table

    def _ways(self, face: Face, count: int) -> list[dict[int, int]]:
        """For every letter of a face the position of its node; letters that may be exchanged take theirs in ascending order."""
        if face.kind.is_ordered:
            return [{p: p for p in range(len(face.letters))}]
        sorts = [x.sort for x in face.letters]
        alike: dict[object, list[int]] = {}
        for position, x in enumerate(face.letters):
            alike.setdefault((self.pattern.signatures[x.name], x.sort), []).append(position)
        size = prod(factorial(sorts.count(s)) for s in set(sorts)) // prod(
            factorial(len(own)) for own in alike.values()
        )
        assert_few(size * count, self.limit, self.what)
        ways: list[dict[int, int]] = [{}]
        for own in alike.values():
            places = [p for p, sort in enumerate(sorts) if sort == sorts[own[0]]]
            ways = [
                way | dict(zip(own, chosen, strict=True))
                for way in ways
                for chosen in combinations([p for p in places if p not in way.values()], len(own))
            ]
        return ways

    def open(self, number: int) -> Candidates:
        """The candidates for an open face: only the letters that other faces share get nodes; the others ask for a size."""
        face, source = self.pattern.faces[number], self.sources[number]
        members = self.structure.index(source)[1]
        sizes = torch.bincount(members[1], minlength=self.structure.num_entries(source))
        table: Candidates = {number: (sizes >= len(face.letters)).nonzero()[:, 0]}
        signatures = self.pattern.signatures
        for name in (x.name for x in face.letters if len(signatures[x.name]) > 1):
            which, spot = pairs(table[number], members[1], self.limit, self.what)
            before, table = _letters(table), _take(table, which)
            node = members[0, spot]
            fits = torch.ones_like(node, dtype=torch.bool)
            for other in before:
                fits &= (
                    node > table[other]
                    if signatures[other] == signatures[name]
                    else node != table[other]
                )
            table[name] = node
            table = _take(table, fits)
        return table

    def reduced(self, tables: list[Candidates]) -> list[Candidates]:
        """Candidates that find a partner in every neighbour, there and back: no join of a tree of faces then leads nowhere."""
        if len(tables) < 3:
            return tables
        steps = list(combinations(range(len(tables)), 2))
        for one, other in [*steps, *((b, a) for a, b in reversed(steps))]:
            shared = self._shared(tables[one], tables[other])
            if shared:
                asked, known = self._keys(tables[other], tables[one], shared)
                tables[other] = _take(tables[other], is_among(asked, known))
        return tables

    def join(self, tables: list[Candidates]) -> Candidates:
        """Joins all tables, neighbours first, and keeps one assignment of every entry."""
        tables = sorted(tables, key=_length)
        found = tables.pop(0)
        while tables:
            following = max(
                tables, key=lambda table: (len(self._shared(found, table)), -_length(table))
            )
            tables = [table for table in tables if table is not following]
            shared = self._shared(found, following)
            keys = (
                self._keys(found, following, shared)
                if shared
                else (self._homes(found), self._homes(following))
            )
            which, spot = pairs(*keys, self.limit, self.what)
            joined = _take(following, spot) | _take(found, which)
            found = self._distinct(joined, {name for table in tables for name in _letters(table)})
        return found

    @staticmethod
    def _shared(one: Candidates, other: Candidates) -> list[str]:
        return [name for name in _letters(one) if name in other]

    def _keys(
        self, one: Candidates, other: Candidates, shared: Sequence[str]
    ) -> tuple[Tensor, Tensor]:
        bounds = [self.structure.counts[self.pattern.sorts[name]] for name in shared]
        return common_keys([one[name] for name in shared], [other[name] for name in shared], bounds)

    def _homes(self, table: Candidates) -> Tensor:
        number = next(key for key in table if isinstance(key, int))
        return self.structure.batch(self.sources[number])[table[number]]

    def _distinct(self, table: Candidates, needed: set[str]) -> Candidates:
        """One of the candidates with the same faces and the same nodes where other faces will ask; letters without a use are dropped."""
        numbers = sorted(key for key in table if isinstance(key, int))
        names = [name for name in _letters(table) if name in needed]
        bounds = [self.structure.num_entries(self.sources[number]) for number in numbers]
        bounds += [self.structure.counts[self.pattern.sorts[name]] for name in names]
        kept = distinct(
            code(
                [*(table[number] for number in numbers), *(table[name] for name in names)], bounds
            )[0]
        )
        useful: set[str | int] = {*numbers, *names, *self.pattern.fixed_letters}
        return {key: column[kept] for key, column in table.items() if key in useful}


def attach(
    structure: S,
    pattern: Pattern,
    letters: Tensor,
    faces: Sequence[tuple[Pattern, Tensor]],
    limit: int = MAX_ENTRIES,
) -> S:
    """The same structure with one more tensor, in the preferred order of entries.

    Args:
        structure: The structure.
        pattern: The new pattern; every face of it is a face of the structure.
        letters: Nodes of the letters in faces of fixed size, shape [letters, entries].
        faces: For every face of the pattern the tensor that lists it, and the rows of the entries there. The rows of the first
            ascend, so that the entries of each structure of a batch stand together.
        limit: How many incidences of open faces may be listed.
    """
    clash = next(
        (p for p in structure.patterns if pattern.name and p.name == pattern.name and p != pattern),
        None,
    )
    if clash is not None:
        raise IncidenceError(
            f"a name means one tensor; `{pattern.name}` is `{clash}` here already. Use another name."
        )
    ptr = entry_ptr_of(structure.batch(faces[0][0])[faces[0][1]], structure.num_structures)
    members = _members(
        structure,
        [pair for face, pair in zip(pattern.faces, faces, strict=True) if face.is_open],
        limit,
    )
    preferred, _ = canonical(structure._with({pattern: (letters, *members)}, {pattern: ptr}))
    return add_tensors(structure, preferred._index, preferred._entry_ptr)


def _members(
    structure: StructureData, faces: Sequence[tuple[Pattern, Tensor]], limit: int
) -> Iterator[Tensor]:
    for source, rows in faces:
        nodes, ptr = by_entry(structure.index(source)[1], structure.num_entries(source))
        counts = ptr.diff()[rows]
        assert_few(int(counts.sum()), limit, f"`{source}` has too many nodes in the entries found")
        entry, spot = expand(ptr[rows], counts)
        yield torch.stack([nodes[spot], entry])
