r"""Faces of a structure: which tensor lists them, and the entries of a pattern made of them.

An entry of a pattern is one face for each face of the pattern, such that the letters can be
assigned (docs/math.md section 2). So rows of faces, in the tensors that list them, determine an
entry, and all entries are a join of these lists on the letters that faces share. A face enters the
join once for every way to put its nodes on its letters. Letters that may be exchanged (equal sort
and signature) take their nodes in ascending order, which leaves few ways, often one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import factorial, prod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from incidence.algebra.grammar import Face, TensorSyntax
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.data import StructureData, entry_ptr_of
from incidence.structure.edit import Edits, add_tensors
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

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["FaceSearch", "lone"]


class FaceSearch(Edits):
    """The method of a structure that finds the entries of a pattern."""

    def with_pattern(
        self, text: str | Pattern, faces: Mapping[Any, str] | None = None, limit: int = MAX_ENTRIES
    ) -> Self:
        """Return the structure with the entries of one more pattern, in the preferred order.

        An entry is present if each of its faces is an entry of the tensor that lists such faces:
        `{i j} {i j k}` needs `{i j}` and `{i j k}`, and `i {i ...}` needs `{i ...}`; all nodes are
        present. Entries never cross the structures of a batch.

        Args:
            text: The pattern. With a name, as in `meets={i j} {i k}`, the new tensor has that name.
            faces: The tensors that list faces, if several could or another is meant: from the text
                or the number of the face to a tensor.
            limit: The greatest number of combinations of faces to list.

        Raises:
            IncidenceError: No tensor, or more than one, lists faces that the pattern has.
            TooLargeError: There are more combinations than `limit`.

        Example:
            >>> from incidence import Structure
            >>> path = Structure(4, {"{i j}": torch.tensor([[0, 1, 2], [1, 2, 3]])})
            >>> path.with_pattern("i {i j}").num_entries("i {i j}")
            6
            >>> # three pairs of an edge with itself, four pairs of edges that meet in a node
            >>> path.with_pattern("{i j} {i k}")["{i j} {i k}"].shape[1]
            7
        """
        pattern = Pattern(text)
        if not pattern.faces:
            raise IncidenceError(
                "the empty pattern has one entry for each structure: there is nothing to find."
            )
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise IncidenceError(
                "with_pattern: limit must be an integer from 0, the number of entries to look for"
                f" at most; got {limit!r}."
            )
        search = _FaceJoin(self, pattern, _sources(self, pattern, faces or {}), limit)
        table = search.join(search.reduced([*map(search.candidates, range(pattern.order))]))
        rows = [table[number] for number in range(pattern.order)]
        fixed = [table[name] for name in pattern.fixed_letters]
        letters = torch.stack(fixed) if fixed else no_entries(0, self.device)
        return self._attach(pattern, letters, list(zip(search.sources, rows, strict=True)), limit)

    def _attach(
        self,
        pattern: Pattern,
        letters: Tensor,
        faces: Sequence[tuple[Pattern, Tensor]],
        limit: int = MAX_ENTRIES,
    ) -> Self:
        """Return the structure with one more tensor, in the preferred order of entries.

        Args:
            pattern: The new pattern; every face of it is a face of the structure.
            letters: The nodes of the letters in faces of fixed size, shape [letters, entries].
            faces: For every face of the pattern the tensor that lists it, and the rows of the
                entries there. The rows of the first ascend, so that the entries of each structure
                of a batch stand together.
            limit: The greatest number of incidences of open faces to list.
        """
        for other in self.patterns:
            if pattern.name and other.name == pattern.name and other != pattern:
                raise IncidenceError(
                    f"a name means one tensor; `{pattern.name}` is `{other}` here already. Use"
                    " another name."
                )
        source, rows = faces[0]
        ptr = entry_ptr_of(self.batch(source)[rows], self.num_structures)
        listed = zip(pattern.faces, faces, strict=True)
        members = self._members([pair for face, pair in listed if face.is_open], limit)
        alone = self._with({pattern: (letters, *members)}, {pattern: ptr})
        # Only the new tensor is sorted; the others keep the order of the caller.
        preferred, _ = alone.canonical()
        return add_tensors(self, preferred._index, preferred._entry_ptr)

    def _members(self, faces: Sequence[tuple[Pattern, Tensor]], limit: int) -> Iterator[Tensor]:
        """Yield the members of open faces, from the tensors that list them and the rows there."""
        for source, rows in faces:
            # members of every face of the source
            nodes, ptr = by_entry(self.index(source)[1], self.num_entries(source))
            counts = ptr.diff()[rows]  # (entries,): nodes of the face of each entry
            what = f"`{source}` has too many nodes in the entries found"
            assert_few(int(counts.sum()), limit, what)
            entry, spot = expand(ptr[rows], counts)  # (incidences,) each
            yield torch.stack([nodes[spot], entry])  # (2, incidences)


def lone(face: Face, name: str | None = None) -> Pattern:
    """Return the pattern that has only this face."""
    return Pattern(TensorSyntax(name, (face,)))


def _sources(structure: StructureData, pattern: Pattern, faces: Mapping[Any, str]) -> list[Pattern]:
    """Return for every face of a pattern the tensor that lists such faces.

    Raises:
        IncidenceError: No tensor has such faces, several have and none is chosen, or the chosen one
            has others.
    """
    if not isinstance(faces, Mapping):
        raise IncidenceError(
            "faces maps faces of the pattern, by text or number, to tensors, as in {'{i ...}':"
            f" 'rank2'}}; got {faces!r}."
        )
    chosen: dict[int, str] = {}
    for key, tensor in faces.items():
        chosen.update(dict.fromkeys(_numbers(pattern, key), tensor))
    return [
        _named_source(structure, pattern, number, chosen[number])
        if number in chosen
        else _only_source(structure, pattern, number)
        for number in range(pattern.order)
    ]


def _numbers(pattern: Pattern, key: Any) -> list[int]:
    """Return the numbers of the faces that a key of `faces` means."""
    numbers = []
    for number, face in enumerate(pattern.faces):
        if isinstance(key, int):
            is_meant = number == key
        else:  # an oriented face is meant as it is written
            text = Pattern(key)
            is_meant = _lists(text, face) and text.is_oriented == face.kind.is_oriented
        if is_meant:
            numbers.append(number)
    if not numbers:
        known = ", ".join(f"{d}: `{lone(face)}`" for d, face in enumerate(pattern.faces))
        raise IncidenceError(f"faces: `{pattern}` has no face {key!r}; it has {known}.")
    return numbers


def _lists(tensor: Pattern, face: Face) -> bool:
    """Return whether a tensor lists faces of this kind."""
    return tensor.order == 1 and _shape(tensor.faces[0]) == _shape(face)


def _shape(face: Face) -> tuple[object, ...]:
    """Return the properties in which a face and the tensor that lists it agree.

    The letters of an open face only ask for a size. An oriented face is present if the set of its
    nodes is: so `{i j}` lists the faces `<i j>`, and the other way round.
    """
    sorts = [x.sort for x in face.letters]
    if face.is_open:
        sorts = sorts[:1]
    elif not face.kind.is_ordered:
        sorts.sort()
    return face.kind.is_ordered, face.kind.is_distinct, face.is_open, sorts


def _named_source(structure: StructureData, pattern: Pattern, number: int, name: str) -> Pattern:
    tensor = structure.resolve(name)
    if not _lists(tensor, pattern.faces[number]):
        raise IncidenceError(
            f"faces: `{tensor}` does not list faces like `{lone(pattern.faces[number])}`, face"
            f" {number} of `{pattern}`."
        )
    return tensor


def _only_source(structure: StructureData, pattern: Pattern, number: int) -> Pattern:
    """Return the tensor of exactly this face, or else the only one that lists such faces.

    Tensors without a name go before those with one.
    """
    face = pattern.faces[number]
    wanted = lone(face)
    if wanted in structure.patterns or structure._is_implicit(wanted):
        return structure.resolve(wanted)
    fitting = [p for p in structure.patterns if _lists(p, face)]
    # A name usually marks a special selection of faces.
    fitting = [p for p in fitting if not p.name] or fitting
    if not fitting:
        raise IncidenceError(
            f"`{pattern}` needs the faces `{wanted}`, which are not here; there are:"
            f" {structure._known_tensors()}. Add them with `with_index`."
        )
    if len(fitting) > 1:
        these = " or ".join(f"`{p}`" for p in fitting)
        key = fitting[0].name or str(fitting[0])
        raise IncidenceError(
            f"face {number} of `{pattern}` may be one of {these}: say which, as in"
            f" faces={{{number}: '{key}'}}."
        )
    return fitting[0]


Candidates = dict[str | int, Tensor]
"""A table of candidates for an entry: a column of nodes for every letter, and a column of rows for
every face, by its number in the pattern.
"""


def _take(table: Candidates, rows: Tensor) -> Candidates:
    return {key: column[rows] for key, column in table.items()}


def _letters(table: Candidates) -> list[str]:
    return [key for key in table if isinstance(key, str)]


def _shared(one: Candidates, other: Candidates) -> list[str]:
    return [name for name in _letters(one) if name in other]


def _length(table: Candidates) -> int:
    return len(next(iter(table.values())))


@dataclass(frozen=True)
class _FaceJoin:
    """The join that finds a pattern in a structure.

    Attributes:
        structure: The structure.
        pattern: The pattern.
        sources: For every face of the pattern the tensor that lists such faces.
        limit: The greatest number of candidates to list.
    """

    structure: StructureData
    pattern: Pattern
    sources: Sequence[Pattern]
    limit: int

    @property
    def what(self) -> str:
        return f"`{self.pattern}` has too many entries here"

    def candidates(self, number: int) -> Candidates:
        """Return the candidates for a face."""
        is_open = self.pattern.faces[number].is_open
        return self._open(number) if is_open else self._fixed(number)

    def _fixed(self, number: int) -> Candidates:
        face, source = self.pattern.faces[number], self.sources[number]
        as_listed = lone(face._replace(kind=source.faces[0].kind), source.name)
        [nodes] = self.structure.index(as_listed)  # (letters, faces)
        if not face.kind.is_ordered:  # nodes must ascend, for each sort on its own
            nodes = nodes.clone()
            for sort in {x.sort for x in face.letters}:
                rows = [p for p, x in enumerate(face.letters) if x.sort == sort]
                nodes[rows] = nodes[rows].sort(dim=0)[0]
        ways = self._ways(face, nodes.shape[1])
        table: Candidates = {}
        for p, x in enumerate(face.letters):
            table[x.name] = torch.cat([nodes[way[p]] for way in ways])  # (ways x faces,)
        every = torch.arange(nodes.shape[1], device=nodes.device)
        table[number] = every.repeat(len(ways))
        return table

    def _ways(self, face: Face, count: int) -> list[dict[int, int]]:
        """Return the ways to put the nodes of a face on its letters.

        Letters that may be exchanged take their nodes in ascending order.

        Returns:
            For each way, the position of the node of every letter.
        """
        if face.kind.is_ordered:
            return [{p: p for p in range(len(face.letters))}]
        sorts = [x.sort for x in face.letters]
        alike: dict[object, list[int]] = {}
        for position, x in enumerate(face.letters):
            alike.setdefault(self.pattern.place(x.name), []).append(position)
        # The number of ways: a multinomial for each sort.
        size = prod(factorial(sorts.count(s)) for s in set(sorts))
        size //= prod(factorial(len(positions)) for positions in alike.values())
        assert_few(size * count, self.limit, self.what)
        ways: list[dict[int, int]] = [{}]
        for positions in alike.values():
            places = [p for p, sort in enumerate(sorts) if sort == sorts[positions[0]]]
            longer = []
            for way in ways:
                free = [p for p in places if p not in way.values()]
                for chosen in combinations(free, len(positions)):
                    longer.append(way | dict(zip(positions, chosen, strict=True)))
            ways = longer
        return ways

    def _open(self, number: int) -> Candidates:
        """Return the candidates for an open face.

        Only letters that other faces share get nodes; the other letters only ask for a size.
        """
        face, source = self.pattern.faces[number], self.sources[number]
        members = self.structure.index(source)[1]  # (2, incidences)
        # Faces that are too small for the letters drop out before the join.
        sizes = torch.bincount(members[1], minlength=self.structure.num_entries(source))
        table: Candidates = {number: (sizes >= len(face.letters)).nonzero()[:, 0]}
        signatures = self.pattern.signatures
        for name in (x.name for x in face.letters if len(signatures[x.name]) > 1):
            which, spot = pairs(table[number], members[1], self.limit, self.what)
            before, table = _letters(table), _take(table, which)
            node = members[0, spot]
            # Letters that may be exchanged take ascending nodes, and all others different ones.
            fits = torch.ones_like(node, dtype=torch.bool)
            for other in before:
                may_exchange = signatures[other] == signatures[name]
                # one of all orders is enough
                fits &= node > table[other] if may_exchange else node != table[other]
            table[name] = node
            table = _take(table, fits)
        return table

    def reduced(self, tables: list[Candidates]) -> list[Candidates]:
        """Return the candidates that have a partner in every other table.

        Going there and back means that no join of a tree of faces leads nowhere.
        """
        if len(tables) < 3:
            return tables
        steps = list(combinations(range(len(tables)), 2))
        for one, other in [*steps, *((b, a) for a, b in reversed(steps))]:
            shared = _shared(tables[one], tables[other])
            if shared:
                keys, known = self._keys(tables[other], tables[one], shared)
                tables[other] = _take(tables[other], is_among(keys, known))
        return tables

    def join(self, tables: list[Candidates]) -> Candidates:
        """Join all tables, neighbours first, and return one assignment of every entry."""
        rest = sorted(tables, key=_length)  # start small: tables only grow
        joined = rest.pop(0)
        while rest:
            # Many shared letters and few candidates keep the join small.
            order = [(len(_shared(joined, table)), -_length(table)) for table in rest]
            following = rest.pop(order.index(max(order)))
            shared = _shared(joined, following)
            if shared:
                keys = self._keys(joined, following, shared)
            else:
                # Without shared letters only the structure of the batch must agree.
                keys = self._homes(joined), self._homes(following)
            which, spot = pairs(*keys, self.limit, self.what)
            joined = _take(following, spot) | _take(joined, which)
            joined = self._distinct(joined, {name for table in rest for name in _letters(table)})
        return joined

    def _keys(
        self, one: Candidates, other: Candidates, shared: Sequence[str]
    ) -> tuple[Tensor, Tensor]:
        bounds = [self.structure.counts[self.pattern.sorts[name]] for name in shared]
        return common_keys([one[name] for name in shared], [other[name] for name in shared], bounds)

    def _homes(self, table: Candidates) -> Tensor:
        """Return the structure of every candidate."""
        number = next(key for key in table if isinstance(key, int))
        return self.structure.batch(self.sources[number])[table[number]]

    def _distinct(self, table: Candidates, needed: set[str]) -> Candidates:
        """Return one of the candidates with equal faces and equal nodes of the needed letters.

        Letters without a use are dropped.
        """
        numbers = sorted(key for key in table if isinstance(key, int))
        names = [name for name in _letters(table) if name in needed]
        bounds = [self.structure.num_entries(self.sources[number]) for number in numbers]
        bounds += [self.structure.counts[self.pattern.sorts[name]] for name in names]
        compared: list[str | int] = [*numbers, *names]
        keys, _ = code([table[key] for key in compared], bounds)  # (candidates,)
        # Letters in faces of fixed size become rows of the index.
        useful = {*compared, *self.pattern.fixed_letters}
        return _take({key: table[key] for key in table if key in useful}, distinct(keys))
