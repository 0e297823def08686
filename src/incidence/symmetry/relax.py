r"""Relaxed symmetry: every dimension of a tensor becomes a sort of its own, whose nodes are the faces that index it.

A tensor of order D over such sorts has the symmetry of a product of D symmetric groups. Dimensions of different tensors that are indexed
by the same faces share their sort: in `i {i j}, {i j} {i j k}` the edges are one set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from incidence.algebra.grammar import write_faces
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.entries import buckets, count_entries
from incidence.structure.ragged import code, ranges, rank
from incidence.structure.structure import Structure

__all__ = ["Relaxation", "is_table"]


def is_table(pattern: Pattern) -> bool:
    """Whether every dimension is a plain letter of a sort with a name of its own: such a tensor is relaxed already.

    Example:
        >>> is_table(Pattern("u:user m:movie")), is_table(Pattern("i j")), is_table(Pattern("u:user {u:user v:user}"))
        (True, False, False)
    """
    return all(not face.kind.opening and face.letters[0].sort != "node" for face in pattern.faces)


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
        self.is_strict = is_strict
        self._sorts: dict[tuple[Pattern, int], str] = {}
        self._prefix = "dim"
        while not is_strict and any(sort.startswith(self._prefix) for pattern in patterns for sort in pattern.sorts.values()):
            self._prefix += "_"
        self._dimensions = [self._name(pattern) for pattern in patterns]
        self.patterns = tuple(map(self._relaxed, self.given, self._dimensions))

    def _name(self, pattern: Pattern) -> list[tuple[Pattern, int]]:
        """For every dimension its faces, as a lone pattern, and how often they stood in the tensor before."""
        seen: Counter[Pattern] = Counter()
        found = []
        for face in pattern.faces:
            lone = Pattern(write_faces([(face.kind, (f"{x.name}:{x.sort}" for x in face.letters), face.is_open)]))
            found.append((lone, seen[lone]))
            seen[lone] += 1
            is_kept = not self.is_strict and not face.kind.opening and found[-1][1] == 0
            self._sorts.setdefault(found[-1], face.letters[0].sort if is_kept else f"{self._prefix}{len(self._sorts)}")
        return found

    def _relaxed(self, pattern: Pattern, dimensions: Sequence[tuple[Pattern, int]]) -> Pattern:
        if not self.is_strict and is_table(pattern):
            return pattern
        name = f"{pattern.name}=" if pattern.name else ""
        known = list(self._sorts)
        return Pattern(name + " ".join(f"d{known.index(d)}:{self._sorts[d]}" for d in dimensions))

    @property
    def is_trivial(self) -> bool:
        """Whether nothing changes."""
        return self.patterns == self.given

    @torch.inference_mode(False)
    def apply(self, structure: Structure) -> Structure:
        """The structure of the relaxed tensors; entries keep their order.

        Raises:
            IncidenceError: A face of an entry is absent from the list of faces that the structure has.
        """
        if self.is_trivial:
            return structure
        numbers, node_ptr = self._number_faces(structure)
        index: dict[Pattern, Index] = {}
        entry_ptr = {}
        for given, relaxed, dimensions in zip(self.given, self.patterns, self._dimensions, strict=True):
            pattern = structure.resolve(given)
            if not self._is_all(pattern, dimensions, structure):
                index[relaxed] = (torch.stack([numbers[given, d] for d in range(len(dimensions))]),)
                entry_ptr[relaxed] = structure.entry_ptr(pattern)
        kept = {} if self.is_strict else structure._node_ptr
        return Structure._of({**kept, **node_ptr}, index, entry_ptr)

    @staticmethod
    def _is_all(pattern: Pattern, dimensions: Sequence[tuple[Pattern, int]], structure: Structure) -> bool:
        """Whether the entries are all nodes of a relaxed sort, in order; or those of the empty pattern."""
        if len(dimensions) > 1 or pattern not in structure.patterns:
            return len(dimensions) < 2
        return pattern == dimensions[0][0] and not _is_plain(pattern)

    def _number_faces(self, structure: Structure) -> tuple[dict[tuple[Pattern, int], Tensor], dict[str, Tensor]]:
        """The number of the face of every entry in every dimension; and where the faces of each structure start."""
        numbers: dict[tuple[Pattern, int], Tensor] = {}
        node_ptr: dict[str, Tensor] = {}
        for dimension, sort in self._sorts.items():
            lone = dimension[0]
            places = [(p, d) for p, own in zip(self.given, self._dimensions, strict=True) for d, x in enumerate(own) if x == dimension]
            parts = [_faces_of(structure, p, d) for p, d in places]
            if _is_plain(lone):
                node_ptr[sort] = structure.node_ptr(lone.faces[0].letters[0].sort)
                found = [part[0][0] for part in parts]
            elif lone in structure.patterns:
                node_ptr[sort] = structure.entry_ptr(lone)
                found = [_located(structure, lone, p, part) for (p, _), part in zip(places, parts, strict=True)]
            else:
                found, node_ptr[sort] = _ranked(structure, lone, parts)
            numbers.update(zip(places, found, strict=True))
        return numbers, node_ptr


def _is_plain(lone: Pattern) -> bool:
    return not lone.faces[0].kind.opening


Index = tuple[Tensor, ...]


def _faces_of(structure: Structure, pattern: Pattern, number: int) -> Index:
    """The faces of one dimension, told like the index of a lone face."""
    kept = next((p for p in structure.patterns if p == pattern), structure.resolve(pattern))
    letters, *members = structure._stored(kept)
    face = kept.faces[number]
    if face.is_open:
        before = sum(other.is_open for other in kept.faces[:number])
        return torch.zeros(0, 0, dtype=torch.long, device=structure.device), members[before]
    return (letters[[kept.fixed_letters.index(letter.name) for letter in face.letters]],)


def _located(structure: Structure, lone: Pattern, pattern: Pattern, part: Index) -> Tensor:
    rows = structure.locate(lone, part if lone.is_open else part[0])
    if bool((rows < 0).any()):
        bad = int((rows < 0).nonzero()[0])
        raise IncidenceError(
            f"entry {bad} of `{pattern}` has a face that is not among the entries of `{lone}`. Add it there, or leave `{lone}` out of "
            f"the structure: then the faces that occur are taken."
        )
    return rows


def _ranked(structure: Structure, lone: Pattern, parts: Sequence[Index]) -> tuple[list[Tensor], Tensor]:
    """Numbers the different faces of some dimensions together, structure by structure."""
    counts = [count_entries(lone, part) for part in parts]
    starts = [sum(counts[:k]) for k in range(len(counts))]
    if lone.is_open:
        shifted = [torch.stack([part[1][0], part[1][1] + start]) for part, start in zip(parts, starts, strict=True)]
        joined: Index = (parts[0][0], torch.cat(shifted, dim=1))
    else:
        joined = (torch.cat([part[0] for part in parts], dim=1),)
    number = torch.zeros(sum(counts), dtype=torch.long, device=structure.device)
    home, total = torch.zeros_like(number), 0
    for bucket in buckets(lone, joined, structure.node_offsets, max(structure.total_nodes, 1)):
        size = bucket.nodes.shape[1]
        ranks, count = rank(code(bucket.nodes.unbind(1), [structure.total_nodes] * size)[0])
        number[bucket.rows] = ranks + total
        total += count
        sort = next(c.sort for c, n in zip(lone.orbits[bucket.orbit].classes, bucket.sizes, strict=True) if n)
        first = bucket.nodes[:, 0] - structure.node_offsets[sort]
        home[bucket.rows] = torch.bucketize(first, structure.node_ptr(sort)[1:], right=True)
    final, count = rank(code([home, number], [structure.num_structures, max(total, 1)])[0])
    of_face = torch.zeros(count, dtype=torch.long, device=number.device).index_copy_(0, final, home)
    ptr = ranges(torch.bincount(of_face, minlength=structure.num_structures))
    return list(final.split(counts)), ptr
