"""The tensors of a structure as things to draw: for every entry its faces, each a list of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from incidence.algebra.pattern import Pattern
from incidence.structure import Structure

__all__ = ["DrawnTensor", "Nodes", "cycle_of", "drawn_tensors", "edges_of"]

Nodes = tuple[int, ...]
"""The nodes of a face, numbered through all sorts."""


@dataclass(frozen=True)
class DrawnTensor:
    """A tensor of a structure.

    Attributes:
        pattern: Its pattern.
        entries: For every entry its faces.
    """

    pattern: Pattern
    entries: list[tuple[Nodes, ...]]

    @property
    def key(self) -> str:
        """The name or text by which the tensor is called."""
        return self.pattern.name or str(self.pattern)

    @property
    def is_lone(self) -> bool:
        """Whether an entry is one face."""
        return self.pattern.order == 1

    @property
    def has_direction(self) -> bool:
        """Whether an entry reads from its first node to its last."""
        kinds = [kind for kind, _ in self.pattern.kinds]
        return not self.is_lone or any(kind.is_ordered or kind.is_oriented for kind in kinds)

    @property
    def is_oriented(self) -> bool:
        """Whether a negative value means the other direction."""
        return any(kind.is_oriented for kind, _ in self.pattern.kinds)

    @cached_property
    def node_lists(self) -> set[Nodes]:
        """The nodes of every entry, one face after the other."""
        return {tuple(v for face in faces for v in face) for faces in self.entries}

    @cached_property
    def largest(self) -> int:
        """The number of nodes of the largest face."""
        return max((len(set(face)) for faces in self.entries for face in faces), default=0)


def drawn_tensors(structure: Structure) -> list[DrawnTensor]:
    """All tensors that have an index."""
    return [
        DrawnTensor(pattern, list(_entries(structure, pattern))) for pattern in structure.patterns
    ]


def _entries(structure: Structure, pattern: Pattern) -> Iterator[tuple[Nodes, ...]]:
    offsets = structure._node_offsets
    letters, *members = structure.index(pattern)
    columns = {
        name: (row + offsets[pattern.sorts[name]]).tolist()
        for name, row in zip(pattern.fixed_letters, letters.cpu(), strict=True)
    }
    sets = iter([_members(part.tolist(), structure.num_entries(pattern)) for part in members])
    parts: list[list[Nodes]] = []
    for face in pattern.faces:
        if face.is_open:
            shift = offsets[face.letters[0].sort]
            parts.append([tuple(v + shift for v in own) for own in next(sets)])
        else:
            parts.append(list(zip(*(columns[letter.name] for letter in face.letters), strict=True)))
    return zip(*parts, strict=True)


def _members(pairs: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(count)]
    for node, entry in zip(*pairs, strict=True):
        found[entry].append(node)
    return found


def edges_of(tensors: Sequence[DrawnTensor]) -> set[frozenset[int]]:
    """The pairs of different nodes that are an entry of a tensor whose entries are pairs."""
    pairs = (
        frozenset(v for face in faces for v in face)
        for t in tensors
        if t.largest <= 2
        for faces in t.entries
    )
    return {pair for pair in pairs if len(pair) == 2}


def cycle_of(nodes: Nodes, edges: set[frozenset[int]]) -> Nodes | None:
    """The nodes in the order of the one cycle that the edges between them make; None if they make something else."""
    near = {v: [w for w in nodes if frozenset((v, w)) in edges] for v in nodes}
    if len(nodes) < 3 or any(len(own) != 2 for own in near.values()):
        return None
    path = [nodes[0], near[nodes[0]][0]]
    while len(path) < len(nodes):
        after = [w for w in near[path[-1]] if w != path[-2]]
        path.append(after[0])
    return tuple(path) if len(set(path)) == len(nodes) else None
