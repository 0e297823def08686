r"""Relaxed symmetry: every dimension of a tensor becomes a sort, with the faces that index it as
nodes.

A tensor of order D over such sorts has the symmetry of a product of D symmetric groups. Dimensions
of different tensors that are indexed by the same faces share their sort: in `i {i j}, {i j} {i j
k}` the edges are one set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.data import cache_of, entry_ptr_of
from incidence.structure.entries import buckets, count_entries
from incidence.structure.faces import lone
from incidence.structure.ragged import rank_rows
from incidence.structure.structure import Structure
from incidence.structure.validate import first_true

__all__ = ["Relaxation"]

Dimension = tuple[Pattern, int]
"""The faces that index a dimension, as a lone pattern, and how many earlier dimensions of the
tensor have the same faces.
"""


class Relaxation:
    r"""Tensors in which every dimension has a sort for itself.

    Args:
        patterns: The tensors. Tables, whose dimensions are letters with sorts, stay as they are.
        is_strict: Whether the dimensions of tables get new sorts, too.

    Attributes:
        patterns: The relaxed patterns, a letter for each face.

    Example:
        >>> [str(p) for p in Relaxation([Pattern("i {i j}"), Pattern("{i j} {i k}")]).patterns]
        ['d0 d1:dim1', 'd1:dim1 d2:dim2']
    """

    def __init__(self, patterns: Sequence[Pattern], is_strict: bool = False) -> None:
        self.given = tuple(patterns)
        oriented = next((p for p in self.given if p.is_oriented), None)
        if oriented is not None:
            raise IncidenceError(
                f"`{oriented}` has an oriented face: where every dimension is permuted on its own,"
                " faces are points without orientation. Use `Linear`, or write `{ }` for `< >`."
            )
        self.is_strict = is_strict
        self._key = f"relaxed {is_strict} {self.given!r}"
        self._sorts: dict[Dimension, str] = {}
        # New sorts must not have the name of a sort of the caller.
        self._prefix = "dim"
        sorts = {sort for pattern in patterns for sort in pattern.sorts.values()}
        while not is_strict and any(sort.startswith(self._prefix) for sort in sorts):
            self._prefix += "_"
        self._dimensions = [self._name(pattern) for pattern in patterns]
        self.patterns = tuple(map(self._relaxed, self.given, self._dimensions))

    def _name(self, pattern: Pattern) -> list[Dimension]:
        """Return the dimensions of a tensor, and name their sorts."""
        seen: Counter[Pattern] = Counter()
        dimensions = []
        for face in map(lone, pattern.faces):
            dimension = face, seen[face]
            dimensions.append(dimension)
            sort = f"{self._prefix}{len(self._sorts)}"
            if _is_node(face) and not seen[face] and not self.is_strict:
                sort = _sort_of(face)
            self._sorts.setdefault(dimension, sort)
            seen[face] += 1
        return dimensions

    def _relaxed(self, pattern: Pattern, dimensions: Sequence[Dimension]) -> Pattern:
        is_table = all(_is_node(face) and _sort_of(face) != "node" for face, _ in dimensions)
        if is_table and not self.is_strict:
            return pattern
        name = f"{pattern.name}=" if pattern.name else ""
        known = list(self._sorts)
        return Pattern(name + " ".join(f"d{known.index(d)}:{self._sorts[d]}" for d in dimensions))

    @torch.inference_mode(False)
    def apply(self, structure: Structure) -> Structure:
        """Return the structure of the relaxed tensors, cached; entries keep their order.

        Raises:
            IncidenceError: A face of an entry is absent from the tensor that lists such faces.
        """
        if self.patterns == self.given:
            return structure
        cache: dict[str, Structure] = cache_of(structure, "relaxed")
        if self._key not in cache:
            cache[self._key] = self._relax(structure)
        return cache[self._key]

    def _relax(self, structure: Structure) -> Structure:
        numbers, node_ptr = self._number_faces(structure)
        if not self.is_strict:
            node_ptr = {sort: structure.node_ptr(sort) for sort in structure.counts} | node_ptr
        index: dict[Pattern, tuple[Tensor, ...]] = {}
        entry_ptr = {}
        tensors = zip(self.given, self.patterns, self._dimensions, strict=True)
        for given, relaxed, dimensions in tensors:
            pattern = structure.resolve(given)
            if not self._is_all(pattern, dimensions, structure):
                rows = [numbers[given, d] for d in range(len(dimensions))]
                index[relaxed] = (torch.stack(rows),)  # (dimensions, entries)
                entry_ptr[relaxed] = structure.entry_ptr(pattern)
        return Structure._of(node_ptr, index, entry_ptr)

    @staticmethod
    def _is_all(pattern: Pattern, dimensions: Sequence[Dimension], structure: Structure) -> bool:
        """Return whether the entries are all nodes of a relaxed sort, in order.

        The same holds for the single entry of the empty pattern.
        """
        if len(dimensions) > 1 or pattern not in structure.patterns:
            return len(dimensions) < 2
        return pattern == dimensions[0][0] and not _is_node(pattern)

    def _number_faces(
        self, structure: Structure
    ) -> tuple[dict[tuple[Pattern, int], Tensor], dict[str, Tensor]]:
        """Number the faces of all entries.

        Returns:
            For every tensor and dimension the number of the face of each entry; and for every sort
            where the faces of each structure start.
        """
        numbers: dict[tuple[Pattern, int], Tensor] = {}
        node_ptr: dict[str, Tensor] = {}
        for dimension, sort in self._sorts.items():
            face = dimension[0]
            places = [
                (pattern, dimensions.index(dimension))
                for pattern, dimensions in zip(self.given, self._dimensions, strict=True)
                if dimension in dimensions
            ]
            parts = [_faces_of(structure, p, d) for p, d in places]
            if _is_node(face):
                node_ptr[sort] = structure.node_ptr(_sort_of(face))
                rows = [part[0][0] for part in parts]
            elif face in structure.patterns:
                # The entries of that tensor are the nodes of the sort.
                node_ptr[sort] = structure.entry_ptr(face)
                rows = [structure.locate(face, part if face.is_open else part[0]) for part in parts]
                for (pattern, _), each in zip(places, rows, strict=True):
                    if (bad := first_true(each < 0)) is not None:
                        raise IncidenceError(
                            f"entry {bad} of `{pattern}` has a face that is not among the entries"
                            f" of `{face}`. Add it there, or leave `{face}` out of the structure:"
                            " then the faces that occur are taken."
                        )
            else:
                home = torch.cat([structure.batch(p) for p, _ in places])
                rows, node_ptr[sort] = _ranked(structure, face, parts, home)
            numbers.update(zip(places, rows, strict=True))
        return numbers, node_ptr


def _is_node(face: Pattern) -> bool:
    return not face.faces[0].kind.opening


def _sort_of(face: Pattern) -> str:
    return face.faces[0].letters[0].sort


def _faces_of(structure: Structure, pattern: Pattern, number: int) -> tuple[Tensor, ...]:
    """Return the faces of one dimension, as the index of a lone face."""
    letters, *members = structure.index(pattern)
    face = pattern.faces[number]
    if face.is_open:
        return letters[:0], members[sum(other.is_open for other in pattern.faces[:number])]
    return (letters[[pattern.fixed_letters.index(letter.name) for letter in face.letters]],)


def _ranked(
    structure: Structure, face: Pattern, parts: Sequence[tuple[Tensor, ...]], home: Tensor
) -> tuple[list[Tensor], Tensor]:
    """Number the different faces of some dimensions together, structure by structure.

    Args:
        structure: The structure.
        face: The pattern of the faces.
        parts: The faces of each dimension, as the index of a lone face.
        home: The structure of every face, shape (faces of all dimensions,).

    Returns:
        The numbers of the faces of each dimension; and where the faces of each structure start.
    """
    counts = [count_entries(face, part) for part in parts]
    joined = [torch.cat([part[0] for part in parts], dim=1)]
    if face.is_open:
        starts = [sum(counts[:k]) for k in range(len(counts))]
        shifted = [
            torch.stack([part[1][0], part[1][1] + start])
            for part, start in zip(parts, starts, strict=True)
        ]
        joined.append(torch.cat(shifted, dim=1))
    number, total = torch.zeros_like(home), 0
    num_nodes = max(structure.total_nodes, 1)
    for bucket in buckets(face, joined, structure._node_offsets, num_nodes):
        columns = bucket.nodes.unbind(1)
        ranks, count = rank_rows(columns, [num_nodes] * len(columns))
        number[bucket.rows] = ranks + total
        total += count
    # Numbered by structure first, as the nodes of a batch must be.
    bounds = structure.num_structures, max(total, 1)
    final, count = rank_rows([home, number], bounds)
    home_of_face = torch.zeros(count, dtype=torch.long, device=home.device)
    home_of_face.index_copy_(0, final, home)
    ptr = entry_ptr_of(home_of_face, structure.num_structures)
    return list(final.split(counts)), ptr
