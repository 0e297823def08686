r"""The faces of a structure by rank: how many, which contain which, and what shape they make together.

Ranks are read off the tensors: nodes have rank 0, a lone face of m letters rank m - 1, `face={i ...}` rank 2, `rankK={i ...}` rank K, and
a lone `{i ...}` without a name (hyperedges) rank 1. Other tensors are ignored. A face contains another iff its node set does; a
directed face contains its subsequences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry import manifolds
from incidence.geometry.assembly import assert_structure, attach
from incidence.geometry.containment import RankedFaces, contained
from incidence.structure import Structure
from incidence.structure.ragged import MAX_ENTRIES, distinct, pairs

__all__ = ["Faces", "faces", "rank_of", "with_adjacency"]


def faces(structure: Structure, ranks: Mapping[int, str] | None = None) -> Faces:
    r"""The faces of a structure by rank.

    Args:
        structure: The structure; a batch is looked at as a whole.
        ranks: The tensors to take for the ranks, where the structure has several for one rank, or others are meant. If given, no
            tensor is taken but these, and the nodes.

    Of two tensors of one rank, one oriented and one not, the oriented one is taken.

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
    sort = "node" if "node" in structure.counts else next(iter(structure.counts))
    told = (
        None if ranks is None else [(rank, structure.resolve(text)) for rank, text in ranks.items()]
    )
    found: dict[int, Pattern] = {}
    for rank, pattern in [(rank_of(p), p) for p in structure.patterns] if told is None else told:
        sorts = set(pattern.sorts.values())
        if told is None and (not rank or sorts != {sort}):
            continue
        if not isinstance(rank, int) or rank < 1 or pattern.order != 1 or len(sorts) != 1:
            raise IncidenceError(
                f"ranks maps ranks from 1 to tensors that have one face, of one sort; got {rank!r}: `{pattern}`."
            )
        if rank in found and pattern.is_oriented != found[rank].is_oriented:
            pattern = max(
                pattern, found[rank], key=lambda p: p.is_oriented
            )  # it is the one with signs
        elif rank in found:
            name = pattern.name or str(pattern)
            raise IncidenceError(
                f"`{found[rank]}` and `{pattern}` both have rank {rank}. Say which is meant, as in ranks={{{rank}: '{name}'}}."
            )
        found[rank] = pattern
    nodes = structure.resolve(Pattern(f"i:{sort}"))
    top = max(found, default=0)
    return Faces(
        [
            RankedFaces(structure, nodes),
            *(RankedFaces(structure, found.get(rank)) for rank in range(1, top + 1)),
        ]
    )


def rank_of(pattern: Pattern) -> int:
    """The rank of the entries of a tensor; 0 if it has none of its own."""
    if pattern.order != 1:
        return 0
    if not pattern.is_open:
        return len(pattern.letters) - 1
    if pattern.name is None:
        return 1
    numbered = re.fullmatch(r"rank(\d{1,3})", pattern.name)
    return int(numbered[1]) if numbered else 2 * (pattern.name == "face")


class Faces:
    r"""What `faces` finds: the faces of a structure by rank.

    Index tensors have shape [2, pairs]. Their numbers are rows of the tensors of the structure, see `tensors`, so that they go with
    the rows of features. Row 1 is the face that is asked about, row 0 its neighbour, as in an `edge_index`.
    """

    def __init__(self, ranks: list[RankedFaces]) -> None:
        self._ranks = ranks
        self._known: dict[tuple[int, int], Tensor] = {}

    @property
    def top(self) -> int:
        """The highest rank."""
        return len(self._ranks) - 1

    @property
    def tensors(self) -> tuple[str | None, ...]:
        """For every rank the tensor of the structure that has its faces: its name, or its pattern."""
        return tuple(
            None if own.pattern is None else own.pattern.name or str(own.pattern)
            for own in self._ranks
        )

    @property
    def f_vector(self) -> tuple[int, ...]:
        """The number of faces of every rank, nodes first."""
        return tuple(own.count for own in self._ranks)

    @property
    def euler(self) -> int:
        r"""The Euler characteristic $\sum_k (-1)^k f_k$."""
        return sum((-1) ** rank * count for rank, count in enumerate(self.f_vector))

    def __repr__(self) -> str:
        return f"Faces(f_vector={self.f_vector}, euler={self.euler})"

    def of_rank(self, rank: int) -> RankedFaces:
        """The faces of one rank.

        Raises:
            IncidenceError: There is no such rank.
        """
        if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank <= self.top:
            raise IncidenceError(f"the faces here have ranks 0 to {self.top}; got {rank!r}.")
        return self._ranks[rank]

    def incidence(self, rank: int, other: int) -> Tensor:
        """Incident faces of two ranks, as the paper has it: rows (face of the first rank, face of the second).

        Faces of different rank are incident iff one contains the other, faces of one rank iff they share a face one rank below.
        """
        lower, upper = self.of_rank(min(rank, other)), self.of_rank(max(rank, other))
        if rank == other:
            return self.adjacency(rank)
        key = (min(rank, other), max(rank, other))
        if key not in self._known:
            self._known[key] = contained(lower, upper)
        return self._known[key] if rank < other else self._known[key].flip(0)

    def boundary(self, rank: int) -> Tensor:
        """The faces one rank below in every face of a rank: rows (face of rank - 1, face of rank), by the latter.

        They are those whose nodes are all in it, chords of a polygon included.
        """
        self.assert_above(rank)
        return self.incidence(rank - 1, rank)

    def coboundary(self, rank: int) -> Tensor:
        """The faces one rank above around every face of a rank: rows (face of rank + 1, face of rank); none for the highest rank."""
        own = self.of_rank(rank)
        return (
            self.incidence(rank + 1, rank)
            if rank < self.top
            else torch.zeros(2, 0, dtype=torch.long, device=own.structure.device)
        )

    def adjacency(self, rank: int, via: int | None = None) -> Tensor:
        """Pairs of different faces of a rank that share a face one rank below, in both orders.

        Args:
            rank: The rank.
            via: The rank of what they share. Above `rank`, both are contained in it. If not given, `rank` - 1, and 1 for nodes, which
                have nothing below.
        """
        self.of_rank(rank)
        through = via if via is not None else abs(rank - 1)
        if through == rank:
            raise IncidenceError(
                f"faces of rank {rank} are adjacent via faces of another rank; got via={via!r}."
            )
        shared, face = self.incidence(through, rank)
        one, other = pairs(
            shared,
            shared,
            MAX_ENTRIES,
            f"too many faces of rank {rank} are adjacent via rank {through}",
        )
        found = torch.stack([face[one], face[other]])
        found = found[:, found[0] != found[1]]
        return found[:, distinct(found[1] * max(self.of_rank(rank).count, 1) + found[0])]

    def signs(self, rank: int) -> Tensor:
        r"""The sign, +1 or -1, of every pair of `boundary(rank)`: incidence numbers of cochains.

        Oriented faces have their reference orientation; other faces of one size are oriented by ascending nodes (directed ones by their
        sequence). The face without the node at position p has the sign $(-1)^p$, if it is oriented like the rest of the nodes. Faces of
        mixed size are oriented one after the other such that the boundary of the boundary vanishes, and
        the first face in the boundary has the sign +1. On a closed structure the signed boundary matrices have product 0.

        Raises:
            IncidenceError: The boundary of a face is not closed or not connected, so it has no orientation; the message names the face.
        """
        self.assert_above(rank)
        return manifolds.signs(self, rank)

    def boundary_matrix(self, rank: int) -> Tensor:
        r"""The signed boundary of a rank as a sparse matrix in float64, shape [faces below, faces].

        Nodes have nothing below, shape [0, nodes], and one above the highest rank there is nothing, shape [faces, 0]. Of oriented faces it
        is the matrix that `nn.Linear.operator` gives for the operation: `<i j k> -> <i j>` for rank 2.

        Raises:
            IncidenceError: As for `signs`.

        Example:
            >>> from incidence.geometry import simplicial_complex
            >>> faces(simplicial_complex([[0, 1, 2]], oriented=True)).boundary_matrix(2).to_dense().T.tolist()
            [[1.0, -1.0, 1.0]]
        """
        device = self._ranks[0].structure.device
        place, values = (
            torch.zeros(2, 0, dtype=torch.long, device=device),
            torch.zeros(0, device=device),
        )
        if 0 < rank <= self.top:
            place, values = self.boundary(rank), self.signs(rank)
        shape = [
            self.of_rank(rank - 1).count if rank else 0,
            self.of_rank(rank).count if rank <= self.top else 0,
        ]
        return torch.sparse_coo_tensor(
            place, values.double(), shape, check_invariants=False
        ).coalesce()

    def assert_above(self, rank: int) -> None:
        """Refuses nodes, and ranks that are not there."""
        self.of_rank(rank)
        if rank == 0:
            raise IncidenceError(
                "nodes, the faces of rank 0, have no boundary. Ask for a rank from 1."
            )

    @cached_property
    def is_closed(self) -> bool:
        """Whether no face lacks a face of its boundary.

        A face of fixed size has all its subfaces. In a face of mixed size the faces one rank below have all its nodes, and
        each face two ranks below lies in exactly two of them. So a polygon with a chord, an edge of other faces between two of its
        nodes, is not closed: a structure has node sets, which do not tell a chord from a side.
        """
        return all(manifolds.has_boundary_faces(self, rank) for rank in range(1, self.top + 1))

    @cached_property
    def is_pure(self) -> bool:
        """Whether every face, node by node, lies in a face of the highest rank."""
        return manifolds.is_pure(self)

    @cached_property
    def is_manifold(self) -> bool:
        """Whether the faces make a manifold, with or without boundary.

        They must be closed and pure, a face one below the top lies in one or two of the top, and around every lower face the others
        make a sphere or a ball. In codimension 2 and 3 this is decided exactly (a path or cycle; a disc or sphere); in codimension 4
        and more by homology with coefficients mod 2, which some spaces that are no spheres have too.
        """
        return manifolds.is_manifold(self)

    @cached_property
    def is_orientable(self) -> bool:
        """Whether the faces of highest rank can be oriented such that neighbours agree.

        This is asked of pseudomanifolds: closed, pure, and every face one below the top lies in one or two of the top. For others it is
        False.
        """
        return manifolds.is_orientable(self)


def with_adjacency(
    structure: Structure, rank: int, name: str = "adjacent", ranks: Mapping[int, str] | None = None
) -> Structure:
    r"""The same structure with a named tensor of adjacent faces: pairs of different faces of a rank that share a face one rank below.

    The pattern is `{i ...} {i ...}` for faces of mixed size, and for faces of m nodes that with m - 1 letters in common: `{i j k} {i j l}`.

    Args:
        structure: The structure, or a batch.
        rank: The rank of the faces, from 1.
        name: The name of the new tensor.
        ranks: As in `faces`.

    Example:
        >>> from incidence.geometry import simplicial_complex
        >>> with_adjacency(simplicial_complex([[0, 1, 2], [1, 2, 3], [3, 4, 5]]), rank=2)["adjacent"].T.tolist()
        [[1, 2, 0, 3], [1, 2, 3, 0]]
    """
    found = faces(structure, ranks)
    found.assert_above(rank)
    level = found.of_rank(rank)
    if (
        level.pattern is None
        or level.is_ordered
        or (level.columns is None and not level.pattern.is_open)
    ):
        raise IncidenceError(
            f"adjacent faces are undirected; those of rank {rank} are `{level.pattern}`. Use `with_pattern`."
        )
    other, one = found.adjacency(rank)
    if level.columns is None:
        both = [level.lists.take(rows).index for rows in (one, other)]
        return attach(structure, {f"{name}={{i ...}} {{i ...}}": (both[0].new_zeros(0, 0), *both)})
    # Two faces of m nodes on the letters of a pattern in which they share m - 1.
    own, others = level.columns[:, one], level.columns[:, other]
    is_same = own[:, None] == others[None]
    if bool((is_same.sum((0, 1)) != len(own) - 1).any()):
        raise IncidenceError(
            f"faces `{level.pattern}` are adjacent where they share all nodes but one: rank {len(own) - 2} has other faces."
        )
    shared_first = [(~is_same.any(dim)).long().argsort(dim=0, stable=True) for dim in (1, 0)]
    columns = torch.cat([own.gather(0, shared_first[0]), others.gather(0, shared_first[1])[-1:]])
    names = [
        *level.pattern.letters,
        next(x for x in "lmnopqrstuvwxyzabcdefghijk" if x not in level.pattern.letters),
    ]
    sort = level.pattern.sorts[names[0]]
    written = [f"{x}:{sort}" for x in names]
    return attach(
        structure,
        {
            f"{name}={{{' '.join(written[:-1])}}} {{{' '.join([*written[:-2], written[-1]])}}}": columns
        },
    )
