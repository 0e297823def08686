r"""Relaxed symmetry: every dimension of a tensor becomes a sort of its own, whose nodes are the faces that index it.

A tensor of order D over such sorts has the symmetry of a product of D symmetric groups. Dimensions of different tensors that are indexed
by the same faces share their sort: in `i {i j}, {i j} {i j k}` the edges are one set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.data import cache_of
from incidence.structure.entries import buckets, count_entries
from incidence.structure.face_lookup import lone
from incidence.structure.ragged import code, ranges, rank
from incidence.structure.structure import Structure
from incidence.structure.validate import first_true

__all__ = ["Relaxation"]

Dimension = tuple[Pattern, int]
"""The faces that index a dimension, as a lone pattern, and how often they stood in the tensor before."""


class Relaxation:
    r"""Tensors with every dimension a sort of its own.

    Args:
        patterns: The tensors. Tables, whose dimensions are letters with sorts, stay as they are.
        is_strict: Give every dimension a new sort, those of tables too.

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
                f"`{oriented}` has an oriented face: where every dimension is permuted on its own, faces are points without orientation. "
                f"Use `Linear`, or write `{{ }}` for `< >`."
            )
        self.is_strict = is_strict
        self._key = f"relaxed {is_strict} {self.given!r}"
        self._sorts: dict[Dimension, str] = {}
        self._prefix = "dim"
        while not is_strict and any(
            sort.startswith(self._prefix) for pattern in patterns for sort in pattern.sorts.values()
        ):
            self._prefix += "_"
        self._dimensions = [self._name(pattern) for pattern in patterns]
        self.patterns = tuple(map(self._relaxed, self.given, self._dimensions))

    def _name(self, pattern: Pattern) -> list[Dimension]:
        seen: Counter[Pattern] = Counter()
        found = []
        for face in map(lone, pattern.faces):
            found.append((face, seen[face]))
            seen[face] += 1
            is_kept = not self.is_strict and _is_node(face) and found[-1][1] == 0
            self._sorts.setdefault(
                found[-1],
                face.faces[0].letters[0].sort if is_kept else f"{self._prefix}{len(self._sorts)}",
            )
        return found

    def _relaxed(self, pattern: Pattern, dimensions: Sequence[Dimension]) -> Pattern:
        if not self.is_strict and all(
            _is_node(face) and face.faces[0].letters[0].sort != "node" for face, _ in dimensions
        ):
            return pattern  # a table already
        name = f"{pattern.name}=" if pattern.name else ""
        known = list(self._sorts)
        return Pattern(name + " ".join(f"d{known.index(d)}:{self._sorts[d]}" for d in dimensions))

    @torch.inference_mode(False)
    def apply(self, structure: Structure) -> Structure:
        """The structure of the relaxed tensors, kept on the structure; entries keep their order.

        Raises:
            IncidenceError: A face of an entry is absent from the list of faces that the structure has.
        """
        if self.patterns == self.given:
            return structure
        kept = cache_of(structure, Structure)
        if self._key not in kept:
            kept[self._key] = self._make(structure)
        return kept[self._key]

    def _make(self, structure: Structure) -> Structure:
        numbers, node_ptr = self._number_faces(structure)
        index: dict[Pattern, tuple[Tensor, ...]] = {}
        entry_ptr = {}
        for given, relaxed, dimensions in zip(
            self.given, self.patterns, self._dimensions, strict=True
        ):
            pattern = structure.resolve(given)
            if not self._is_all(pattern, dimensions, structure):
                index[relaxed] = (torch.stack([numbers[given, d] for d in range(len(dimensions))]),)
                entry_ptr[relaxed] = structure.entry_ptr(pattern)
        kept = (
            {} if self.is_strict else {sort: structure.node_ptr(sort) for sort in structure.counts}
        )
        return Structure._of({**kept, **node_ptr}, index, entry_ptr)

    @staticmethod
    def _is_all(pattern: Pattern, dimensions: Sequence[Dimension], structure: Structure) -> bool:
        """Whether the entries are all nodes of a relaxed sort, in order; or those of the empty pattern."""
        if len(dimensions) > 1 or pattern not in structure.patterns:
            return len(dimensions) < 2
        return pattern == dimensions[0][0] and not _is_node(pattern)

    def _number_faces(
        self, structure: Structure
    ) -> tuple[dict[tuple[Pattern, int], Tensor], dict[str, Tensor]]:
        """The number of the face of every entry in every dimension; and where the faces of each structure start."""
        numbers: dict[tuple[Pattern, int], Tensor] = {}
        node_ptr: dict[str, Tensor] = {}
        for dimension, sort in self._sorts.items():
            face = dimension[0]
            places = [
                (p, d)
                for p, own in zip(self.given, self._dimensions, strict=True)
                for d, x in enumerate(own)
                if x == dimension
            ]
            parts = [_faces_of(structure, p, d) for p, d in places]
            if _is_node(face):
                node_ptr[sort] = structure.node_ptr(face.faces[0].letters[0].sort)
                found = [part[0][0] for part in parts]
            elif face in structure.patterns:
                node_ptr[sort] = structure.entry_ptr(face)
                found = [
                    structure.locate(face, part if face.is_open else part[0]) for part in parts
                ]
                for (p, _), rows in zip(places, found, strict=True):
                    if (bad := first_true(rows < 0)) is not None:
                        raise IncidenceError(
                            f"entry {bad} of `{p}` has a face that is not among the entries of `{face}`. Add it there, or leave `{face}` "
                            f"out of the structure: then the faces that occur are taken."
                        )
            else:
                home = torch.cat([structure.batch(p) for p, _ in places])
                found, node_ptr[sort] = _ranked(structure, face, parts, home)
            numbers.update(zip(places, found, strict=True))
        return numbers, node_ptr


def _is_node(face: Pattern) -> bool:
    return not face.faces[0].kind.opening


def _faces_of(structure: Structure, pattern: Pattern, number: int) -> tuple[Tensor, ...]:
    """The faces of one dimension, told like the index of a lone face."""
    letters, *members = structure.index(pattern)
    face = pattern.faces[number]
    if face.is_open:
        return letters[:0], members[sum(other.is_open for other in pattern.faces[:number])]
    return (letters[[pattern.fixed_letters.index(letter.name) for letter in face.letters]],)


def _ranked(
    structure: Structure, face: Pattern, parts: Sequence[tuple[Tensor, ...]], home: Tensor
) -> tuple[list[Tensor], Tensor]:
    """Numbers the different faces of some dimensions together, structure by structure; `home` is the structure of every one."""
    counts = [count_entries(face, part) for part in parts]
    joined: tuple[Tensor, ...] = (torch.cat([part[0] for part in parts], dim=1),)
    if face.is_open:
        starts = [sum(counts[:k]) for k in range(len(counts))]
        shifted = [
            torch.stack([part[1][0], part[1][1] + start])
            for part, start in zip(parts, starts, strict=True)
        ]
        joined = (*joined, torch.cat(shifted, dim=1))
    number, total = torch.zeros_like(home), 0
    num_nodes = sum(structure.counts.values())
    for bucket in buckets(face, joined, structure._node_offsets, max(num_nodes, 1)):
        ranks, count = rank(code(bucket.nodes.unbind(1), [num_nodes] * bucket.nodes.shape[1])[0])
        number[bucket.rows] = ranks + total
        total += count
    final, count = rank(code([home, number], [structure.num_structures, max(total, 1)])[0])
    of_face = torch.zeros(count, dtype=torch.long, device=home.device).index_copy_(0, final, home)
    return list(final.split(counts)), ranges(
        torch.bincount(of_face, minlength=structure.num_structures)
    )
