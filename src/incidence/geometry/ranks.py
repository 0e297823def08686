r"""The faces of a structure by rank: how many, which contain which, and what shape they make
together.

Ranks are read off the tensors: nodes have rank 0, a lone face of m letters rank m - 1, `face={i
...}` rank 2, `rankK={i ...}` rank K, and a lone `{i ...}` without a name (hyperedges) rank 1. Other
tensors are ignored. A face contains another iff its node set does; a directed face contains its
subsequences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry import manifolds
from incidence.geometry.assembly import assert_structure, attach
from incidence.geometry.node_lists import NodeLists
from incidence.structure import Structure
from incidence.structure.arrange import orientations
from incidence.structure.ragged import (
    MAX_ENTRIES,
    assert_few,
    by_entry,
    distinct,
    expand,
    is_among,
    no_entries,
    pairs,
    ranges,
)

__all__ = ["Faces", "RankedFaces", "contained", "faces", "rank_of", "with_adjacency"]


def faces(structure: Structure, ranks: Mapping[int, str] | None = None) -> Faces:
    r"""Return the faces of a structure by rank.

    Of two tensors of one rank, one oriented and one not, the oriented one counts.

    Args:
        structure: The structure; a batch counts as one structure.
        ranks: The tensors of the ranks, where the structure has several for one rank, or others are
            meant. If given, only these tensors count, and the nodes.

    Raises:
        IncidenceError: Two tensors have one rank, and nothing says which is meant.

    Example:
        >>> from incidence.geometry import simplicial_complex
        >>> sphere = faces(simplicial_complex([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]))
        >>> sphere
        Faces(f_vector=(4, 6, 4), euler=2)
        >>> sphere.is_manifold, sphere.is_orientable
        (True, True)
        >>> sphere.boundary(2)[:, :3].tolist()  # the edges 0, 1 and 3 lie in triangle 0
        [[0, 1, 3], [0, 0, 0]]
    """
    assert_structure("faces", structure)
    if ranks is not None and not isinstance(ranks, Mapping):
        raise IncidenceError(
            f"faces: ranks maps ranks to tensors, as in {{2: 'face'}}; got {ranks!r}."
        )
    # Faces are over nodes of one sort: tensors of others are no ranks.
    sort = "node" if "node" in structure.counts else next(iter(structure.counts))
    tensors: dict[int, Pattern] = {}
    if ranks is None:
        for pattern in structure.patterns:
            if rank_of(pattern) and set(pattern.sorts.values()) == {sort}:
                _add_rank(tensors, rank_of(pattern), pattern)
    else:
        for rank, text in ranks.items():
            pattern = structure.resolve(text)
            is_one_sort = len(set(pattern.sorts.values())) == 1
            if not isinstance(rank, int) or rank < 1 or pattern.order != 1 or not is_one_sort:
                raise IncidenceError(
                    "ranks maps ranks from 1 to tensors that have one face, of one sort; got"
                    f" {rank!r}: `{pattern}`."
                )
            _add_rank(tensors, rank, pattern)
    top = max(tensors, default=0)
    nodes = structure.resolve(Pattern(f"i:{sort}"))
    # None for a rank without faces
    by_rank = [nodes, *(tensors.get(rank) for rank in range(1, top + 1))]
    return Faces([RankedFaces(structure, pattern) for pattern in by_rank])


def _add_rank(tensors: dict[int, Pattern], rank: int, pattern: Pattern) -> None:
    """Take a tensor for a rank. An oriented one comes before one without signs."""
    other = tensors.setdefault(rank, pattern)
    if pattern.is_oriented and not other.is_oriented:
        tensors[rank] = pattern
    elif other is not pattern and pattern.is_oriented == other.is_oriented:
        name = pattern.name or str(pattern)
        raise IncidenceError(
            f"`{other}` and `{pattern}` both have rank {rank}. Say which is meant, as in"
            f" ranks={{{rank}: '{name}'}}."
        )


def rank_of(pattern: Pattern) -> int:
    """Return the rank of the entries of a tensor; 0 if they have none."""
    if pattern.order != 1:
        return 0
    if not pattern.is_open:
        return len(pattern.letters) - 1
    if pattern.name is None:
        return 1
    numbered = re.fullmatch(r"rank(\d{1,3})", pattern.name)
    if numbered:
        return int(numbered[1])
    return 2 if pattern.name == "face" else 0


class Faces:
    r"""The faces of a structure by rank.

    Index tensors have shape [2, pairs]. Their numbers are rows of the tensors of the structure, see
    `tensors`, so that they fit the rows of features. Row 1 is the face in question, row 0 its
    neighbour, as in an `edge_index`.
    """

    def __init__(self, ranks: list[RankedFaces]) -> None:
        self._ranks = ranks
        self._incidences: dict[tuple[int, int], Tensor] = {}

    @property
    def top(self) -> int:
        """The highest rank."""
        return len(self._ranks) - 1

    @property
    def tensors(self) -> tuple[str | None, ...]:
        """For every rank the name or pattern of the tensor that has its faces."""
        patterns = [level.pattern for level in self._ranks]
        return tuple(None if p is None else p.name or str(p) for p in patterns)

    @property
    def f_vector(self) -> tuple[int, ...]:
        """The number of faces of every rank, nodes first."""
        return tuple(level.count for level in self._ranks)

    @property
    def euler(self) -> int:
        r"""The Euler characteristic $\sum_k (-1)^k f_k$."""
        return sum((-1) ** rank * count for rank, count in enumerate(self.f_vector))

    def __repr__(self) -> str:
        return f"Faces(f_vector={self.f_vector}, euler={self.euler})"

    def of_rank(self, rank: int) -> RankedFaces:
        """Return the faces of one rank.

        Raises:
            IncidenceError: There is no such rank.
        """
        if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank <= self.top:
            raise IncidenceError(f"the faces here have ranks 0 to {self.top}; got {rank!r}.")
        return self._ranks[rank]

    def incidence(self, rank: int, other: int) -> Tensor:
        """Return incident faces of two ranks, as in the paper: rows (face of the first rank, face
        of the second).

        Faces of different rank are incident iff one contains the other, faces of one rank iff they
        share a face one rank below.
        """
        if rank == other:
            return self.adjacency(rank)
        key = (min(rank, other), max(rank, other))  # one list serves both directions
        lower, upper = map(self.of_rank, key)
        if key not in self._incidences:
            self._incidences[key] = contained(lower, upper)
        incidence = self._incidences[key]
        return incidence if rank < other else incidence.flip(0)

    def boundary(self, rank: int) -> Tensor:
        """Return the faces one rank below in every face of a rank: rows (face of rank - 1, face of
        rank), by the latter.

        These are the faces whose nodes are all in it, chords of a polygon included.
        """
        self.assert_above(rank)
        return self.incidence(rank - 1, rank)

    def coboundary(self, rank: int) -> Tensor:
        """Return the faces one rank above around every face of a rank: rows (face of rank + 1, face
        of rank); none for the highest rank.
        """
        level = self.of_rank(rank)
        if rank < self.top:
            return self.incidence(rank + 1, rank)
        return no_entries(2, level.structure.device)

    def adjacency(self, rank: int, via: int | None = None) -> Tensor:
        """Return pairs of different faces of a rank that share a face one rank below, in both
        orders.

        Args:
            rank: The rank.
            via: The rank of the shared face. Above `rank`, it contains both. Default: `rank` - 1,
                and 1 for nodes, which have nothing below.
        """
        count = self.of_rank(rank).count
        if via is None:
            via = abs(rank - 1)
        if via == rank:
            raise IncidenceError(
                f"faces of rank {rank} are adjacent via faces of another rank; got via={via!r}."
            )
        shared, face = self.incidence(via, rank)
        problem = f"too many faces of rank {rank} are adjacent via rank {via}"
        one, other = pairs(shared, shared, MAX_ENTRIES, problem)
        both = torch.stack([face[one], face[other]])  # (2, pairs), a pair for every shared face
        both = both[:, both[0] != both[1]]
        return both[:, distinct(both[1] * max(count, 1) + both[0])]

    def signs(self, rank: int) -> Tensor:
        r"""Return the sign, +1 or -1, of every pair of `boundary(rank)`: incidence numbers of
        cochains.

        Oriented faces have their reference orientation; other faces of one size are oriented by
        ascending nodes (directed ones by their sequence). The face without the node at position p
        has the sign $(-1)^p$, if it is oriented like the rest of the nodes. Faces of mixed size are
        oriented one after the other such that the boundary of the boundary vanishes, and the first
        face in the boundary has the sign +1. On a closed structure the signed boundary matrices
        have product 0.

        Raises:
            IncidenceError: The boundary of a face is not closed or not connected, so it has no
                orientation; the message names the face.
        """
        self.assert_above(rank)
        return manifolds.signs(self, rank)

    def boundary_matrix(self, rank: int) -> Tensor:
        r"""Return the signed boundary of a rank as a sparse matrix in float64, shape [faces below,
        faces].

        Nodes have nothing below: the shape is [0, nodes]. Above the highest rank there is nothing:
        the shape is [faces, 0]. For oriented faces it is the matrix that `nn.Linear.operator` gives
        for the operation: `<i j k> -> <i j>` for rank 2.

        Raises:
            IncidenceError: As for `signs`.

        Example:
            >>> from incidence.geometry import simplicial_complex
            >>> triangle = faces(simplicial_complex([[0, 1, 2]], oriented=True))
            >>> triangle.boundary_matrix(2).to_dense().T.tolist()
            [[1.0, -1.0, 1.0]]
        """
        num_below = self.of_rank(rank - 1).count if rank else 0
        num_faces = self.of_rank(rank).count if rank <= self.top else 0
        if 0 < rank <= self.top:
            place = self.boundary(rank)
            values = self.signs(rank)  # (pairs,), as `boundary` lists them
        else:
            place = no_entries(2, self._ranks[0].structure.device)
            values = place[0]
        matrix = torch.sparse_coo_tensor(
            place, values.double(), [num_below, num_faces], check_invariants=False
        )
        return matrix.coalesce()

    def assert_above(self, rank: int) -> None:
        """Check that a rank exists and is not that of nodes."""
        self.of_rank(rank)
        if rank == 0:
            raise IncidenceError(
                "nodes, the faces of rank 0, have no boundary. Take a rank from 1."
            )

    @cached_property
    def is_closed(self) -> bool:
        """Whether no face lacks a face of its boundary.

        A face of fixed size has all its subfaces. In a face of mixed size the faces one rank below
        have all its nodes, and each face two ranks below lies in exactly two of them. So a polygon
        with a chord, an edge of other faces between two of its nodes, is not closed: a structure
        has node sets, which do not tell a chord from a side.
        """
        return all(manifolds.has_boundary_faces(self, rank) for rank in range(1, self.top + 1))

    @cached_property
    def is_pure(self) -> bool:
        """Whether every face, node by node, lies in a face of the highest rank."""
        return manifolds.is_pure(self)

    @cached_property
    def is_manifold(self) -> bool:
        """Whether the faces make a manifold, with or without boundary.

        They must be closed and pure, a face one below the top lies in one or two of the top, and
        around every lower face the others make a sphere or a ball. In codimension 2 and 3 this is
        decided exactly (a path or cycle; a disc or sphere); in codimension 4 and more by homology
        with coefficients mod 2, which some spaces that are no spheres have too.
        """
        return manifolds.is_manifold(self)

    @cached_property
    def is_orientable(self) -> bool:
        """Whether the faces of highest rank can be oriented such that neighbours agree.

        It is False unless the faces make a pseudomanifold: closed, pure, and every face one below
        the top lies in one or two of the top.
        """
        return manifolds.is_orientable(self)


def with_adjacency(
    structure: Structure, rank: int, name: str = "adjacent", ranks: Mapping[int, str] | None = None
) -> Structure:
    r"""Return the same structure with a named tensor of adjacent faces: pairs of different faces of
    a rank that share a face one rank below.

    The pattern is `{i ...} {i ...}` for faces of mixed size, and for faces of m nodes that with m -
    1 letters in common: `{i j k} {i j l}`.

    Args:
        structure: The structure, or a batch.
        rank: The rank of the faces, from 1.
        name: The name of the new tensor.
        ranks: As in `faces`.

    Example:
        >>> from incidence.geometry import simplicial_complex
        >>> triangles = simplicial_complex([[0, 1, 2], [1, 2, 3], [3, 4, 5]])
        >>> with_adjacency(triangles, rank=2)["adjacent"].T.tolist()
        [[1, 2, 0, 3], [1, 2, 3, 0]]
    """
    ranked = faces(structure, ranks)
    ranked.assert_above(rank)
    level = ranked.of_rank(rank)
    pattern = level.pattern
    has_sets = pattern is not None and not level.is_ordered
    if pattern is None or not has_sets or (level.columns is None and not pattern.is_open):
        raise IncidenceError(
            f"adjacent faces are undirected; those of rank {rank} are `{pattern}`. Use"
            " `with_pattern`."
        )
    second, first = ranked.adjacency(rank)
    if level.columns is None:
        parts = [level.lists.take(rows).index for rows in (first, second)]
        text = f"{name}={{i ...}} {{i ...}}"
        return attach(structure, {text: (parts[0].new_zeros(0, 0), *parts)})
    # Two faces of m nodes on the letters of a pattern in which they share m - 1.
    one = level.columns[:, first]  # (m, pairs)
    other = level.columns[:, second]
    is_same = one[:, None] == other[None]  # (m, m, pairs)
    if bool((is_same.sum((0, 1)) != len(one) - 1).any()):
        raise IncidenceError(
            f"faces `{pattern}` are adjacent where they share all nodes but one: rank"
            f" {len(one) - 2} has other faces."
        )
    # Nodes that both have come first.
    order, other_order = ((~is_same.any(d)).long().argsort(dim=0, stable=True) for d in (1, 0))
    columns = torch.cat([one.gather(0, order), other.gather(0, other_order)[-1:]])  # (m + 1, pairs)
    names = [*pattern.letters]
    names.append(next(x for x in "lmnopqrstuvwxyzabcdefghijk" if x not in names))
    sort = pattern.sorts[names[0]]
    *shared, last, new = [f"{x}:{sort}" for x in names]
    text = f"{name}={{{' '.join([*shared, last])}}} {{{' '.join([*shared, new])}}}"
    return attach(structure, {text: columns})


@dataclass(frozen=True)
class RankedFaces:
    """The faces of one rank: the entries of one tensor of a structure that has one face.

    Attributes:
        structure: The structure.
        pattern: The tensor; None for a rank that has no faces.
    """

    structure: Structure
    pattern: Pattern | None

    @cached_property
    def count(self) -> int:
        """The number of faces."""
        return 0 if self.pattern is None else self.structure.num_entries(self.pattern)

    @cached_property
    def columns(self) -> Tensor | None:
        """The nodes of faces of one size, shape [size, faces], ascending where their order means
        nothing; None for mixed sizes.
        """
        pattern = self.pattern
        if pattern is None or pattern.is_open or not pattern.faces[0].kind.is_distinct:
            return None
        columns: Tensor = self.structure[pattern]
        return columns if self.is_ordered else columns.sort(dim=0)[0]

    @cached_property
    def orientation(self) -> Tensor | None:
        """The sign by which the reference orientation of every face differs from ascending nodes;
        None where there is no orientation.
        """
        if self.pattern is None or not self.pattern.is_oriented:
            return None
        return orientations(self.structure, self.pattern)

    @property
    def is_ordered(self) -> bool:
        """Whether a face is a sequence, and contains its subsequences only."""
        return self.pattern is not None and self.pattern.faces[0].kind.opening == "("

    @cached_property
    def num_nodes(self) -> int:
        """A bound on the numbers of nodes, at least 1."""
        return max(self.structure.counts.values(), default=0) or 1

    @cached_property
    def lists(self) -> NodeLists:
        """The nodes of every face, ascending."""
        if self.pattern is None:
            return NodeLists.of_rows(no_entries(0, self.structure.device))
        index = self.structure[self.pattern]
        if self.pattern.is_open:
            nodes, ptr = by_entry(index, self.count)
            return NodeLists(ptr, nodes)
        numbers = torch.arange(self.count, device=index.device)
        keys = (numbers * self.num_nodes + index).flatten()  # (letters x faces,)
        keys = keys[distinct(keys)]  # a symmetric face may repeat a node
        sizes = torch.bincount(keys // self.num_nodes, minlength=self.count)
        return NodeLists(ranges(sizes), keys % self.num_nodes)

    def is_like(self, lower: RankedFaces) -> bool:
        """Return whether positions determine the lower faces in a face: both ranks have faces of
        one size and of one kind.
        """
        if lower.columns is None or self.columns is None:
            return False
        size = len(lower.columns)
        return size <= len(self.columns) and (size == 1 or lower.is_ordered == self.is_ordered)

    def is_simplicial_over(self, lower: RankedFaces) -> bool:
        """Return whether the boundary of a face is what is left without one of its nodes."""
        return self.is_like(lower) and self.size == lower.size + 1

    @property
    def size(self) -> int:
        """The number of nodes of a face; 0 for mixed sizes."""
        return 0 if self.columns is None else len(self.columns)

    def subfaces(self, lower: RankedFaces) -> Tensor:
        """Return for every face the rows of the lower faces in it, -1 where one is absent; shape
        [faces, subfaces], positions in lexicographic order.
        """
        assert self.columns is not None
        assert lower.pattern is not None
        positions = list(combinations(range(self.size), lower.size))
        columns = torch.cat([self.columns[list(chosen)] for chosen in positions], dim=1)
        rows = lower.structure.locate(lower.pattern, columns)
        return rows.view(len(positions), self.count).T  # (faces, subfaces)


def contained(lower: RankedFaces, upper: RankedFaces) -> Tensor:
    """Return all pairs of faces, the first in the second: rows (face of the lower rank, face of the
    upper rank), by the latter.
    """
    if not lower.count or not upper.count:
        return no_entries(2, lower.structure.device)
    if upper.is_like(lower):
        rows = upper.subfaces(lower)  # (upper faces, subfaces)
        numbers = torch.arange(upper.count, device=rows.device)
        both = torch.stack([rows.flatten(), numbers.repeat_interleave(rows.shape[1])])
        return both[:, both[0] >= 0]
    # The candidates for a lower face are the upper faces at the node that fewest upper faces have.
    # They are tested for its other nodes.
    total = lower.num_nodes
    nodes = lower.lists.nodes
    upper_nodes = upper.lists.nodes
    owner = upper.lists.numbers
    problem = "too many faces have nodes in common"
    degree = torch.bincount(upper_nodes, minlength=total)
    rarest = torch.full((lower.count,), total * (upper.count + 1), device=nodes.device)
    rarest.scatter_reduce_(0, lower.lists.numbers, degree[nodes] * total + nodes, "amin")
    one, spot = pairs(rarest % total, upper_nodes, MAX_ENTRIES, problem)
    other = owner[spot]
    sizes = lower.lists.sizes[one]
    assert_few(int(sizes.sum()), MAX_ENTRIES, problem)
    which, place = expand(lower.lists.ptr[one], sizes)
    is_in = is_among(other[which] * total + nodes[place], owner * total + upper_nodes)
    is_contained = torch.ones_like(one, dtype=torch.bool)
    is_contained[which[~is_in]] = False
    both = torch.stack([one, other])[:, is_contained]
    return both[:, (both[1] * lower.count + both[0]).sort()[1]]
