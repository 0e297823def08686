r"""What a network reads of the holes of complexes: ranks, and features where the holes are.

Harmonic tensors of faces of size k + 1 are as many as there are holes of dimension k, however fine
the complex is. `HarmonicRanks` counts them. `HarmonicReadout` and `HarmonicTerm` use features. All
are invariant or equivariant, and their results do not change with the numbering of nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import torch
from torch import Tensor, nn

from incidence.algebra.pattern import Pattern
from incidence.engine.plain import refused
from incidence.errors import IncidenceError
from incidence.harmonic.boundaries import is_lone_face
from incidence.harmonic.projection import harmonic_part, harmonic_plan_of
from incidence.harmonic.spans import HarmonicSpan, harmonic_span
from incidence.nn.composition import Planned, Side, unknown
from incidence.nn.tensors import Values, as_list, as_side, key_of, takes_examples
from incidence.structure import Structure
from incidence.structure.ragged import ascend

__all__ = ["HarmonicRanks", "HarmonicReadout", "HarmonicTerm", "OfHoles"]

_MOST_NODES = 4  # of a face, for products of features of its nodes: a product has n! terms
_TINY = 1e-12  # of the square of a tensor: a smaller one has no direction


class OfHoles(Planned):
    """A module that reads the holes of the structure.

    Args:
        text: The tensors. Those that are no sets of nodes of one sort are left out.
        columns: The largest number of holes that it tells apart.
        seed: Seed of the noise.

    Raises:
        IncidenceError: None of the tensors is a set of nodes of one sort.
    """

    reads_holes = True  # which neither colours nor formulas of few variables tell

    def __init__(self, text: str, columns: int, seed: int = 0) -> None:
        super().__init__()
        self.all_patterns = as_side(text)
        self.patterns = tuple(p for p in self.all_patterns if is_lone_face(p))
        if not self.patterns:
            raise IncidenceError(
                f"holes are read off tensors on sets of nodes, such as `{{i j}}`; got `{text}`,"
                " which has none. Leave harmonic= out, or add `{i j}` to the hidden tensors."
            )
        if columns < 1:
            raise IncidenceError(f"the number of columns of noise is at least 1; got {columns}.")
        self.columns, self.seed = columns, seed
        self.keys = [key_of(p) for p in self.patterns]

    def plan(self, structure: Structure) -> None:
        """Find the harmonic tensors of a structure.

        Raises:
            IncidenceError: It lacks sides of faces.
        """
        for pattern in self.patterns:
            self._span(structure, pattern)

    def _span(self, structure: Structure, pattern: Pattern) -> HarmonicSpan:
        return harmonic_span(structure, pattern, self.columns, self.seed)

    def _by_key(self, x: Values, structure: Structure) -> dict[str, Tensor]:
        """Return the features of all tensors, by key."""
        values = as_list(self.all_patterns, x, structure, [None] * len(self.all_patterns))
        return dict(zip(map(key_of, self.all_patterns), values, strict=True))

    def extra_repr(self) -> str:
        """Return the tensors, and the number of columns."""
        return f"{', '.join(map(str, self.patterns))!r}, columns={self.columns}"


_NOT_RECORDED = (
    "the holes of a structure are found in every call, which no graph records: call the network"
    " outside of torch.compile and of an export."
)


class HarmonicRanks(OfHoles):
    r"""The number of holes of every dimension, as a row of ones followed by zeros.

    For every tensor, column k is 1 if the harmonic part of noise has a rank of k or more. The rank
    is the Betti number, up to the number of columns.

    Args:
        text: The tensors; those that are no sets of nodes are left out.
        columns: The largest rank.
        seed: Seed of the noise.

    Shape:
        Output: (structures, tensors x columns).

    Example:
        >>> from incidence.structure import Structure
        >>> square = Structure(4, {"{i j}": [[0, 1, 2, 0], [1, 2, 3, 3]]})
        >>> HarmonicRanks("i, {i j}", columns=2)({}, square)  # one part, one hole
        tensor([[1., 0., 1., 0.]])
    """

    @property
    def width(self) -> int:
        """The number of output columns."""
        return self.columns * len(self.patterns)

    @takes_examples
    def forward(self, x: Values, structure: Structure) -> Tensor:
        """Return the ranks; features play no role."""
        if torch.compiler.is_compiling():
            like = x if isinstance(x, Tensor) else next(iter(x.values()))
            return refused(_NOT_RECORDED, like, structure.num_structures, self.width)
        steps = torch.arange(self.columns, device=structure.device)  # (columns,)
        ranks = [self._span(structure, p).ranks for p in self.patterns]
        # (structures, columns) each
        flags = [(steps < own[:, None]).to(torch.get_default_dtype()) for own in ranks]
        joined = torch.cat(flags, dim=1)
        values = [x] if isinstance(x, Tensor) else list(x.values())
        return joined.to(values[0].dtype) if values else joined

    def follow(self, side: Side | None) -> Side:
        """Return one row for each structure."""
        return unknown([Pattern("")])


class HarmonicReadout(OfHoles):
    r"""Features where the holes are, for every structure.

    - Of features h without a sign: their mean with the weights $P_{ee}$, the share of a unit at an
      entry that is harmonic. It is 0 where there is no hole.
    - Of features x of oriented faces: which share of their square is harmonic,
      $\|P x\|^2 / \|x\|^2$.
    - Of features of nodes: the same of products, such as $a_i b_j - a_j b_i$ on edges, where a and
      b are linear maps of the features that are learned.

    None of them grows with the structure.

    Args:
        text: The tensors; those that are no sets of nodes are left out.
        channels: Channels of every tensor.
        columns: Columns of noise: where there are more holes, a part of them is taken.
        products: The number of products of nodes for each tensor of larger faces.
        seed: Seed of the noise.

    Shape:
        Output: (structures, width).
    """

    def __init__(
        self, text: str, channels: int, columns: int, products: int = 4, seed: int = 0
    ) -> None:
        super().__init__(text, columns, seed)
        self.products = products
        self._node_keys = {
            sort: key_of(Pattern(f"i:{sort}"))
            for p in self.patterns
            for sort in p.sorts.values()
            if Pattern(f"i:{sort}") in self.patterns
        }
        self._faces = [p for p in self.patterns if self._has_products(p)]
        self.maps = nn.ModuleList(
            nn.Linear(channels, products * len(p.letters)) for p in self._faces
        )
        self.width = channels * len(self.patterns) + products * len(self._faces)

    def _has_products(self, pattern: Pattern) -> bool:
        [sort] = set(pattern.sorts.values())
        is_small = 1 < len(pattern.letters) <= _MOST_NODES
        return self.products > 0 and is_small and sort in self._node_keys

    @takes_examples
    def forward(self, x: Values, structure: Structure) -> Tensor:
        """Return the means and the shares."""
        if torch.compiler.is_compiling():
            like = x if isinstance(x, Tensor) else next(iter(x.values()))
            return refused(_NOT_RECORDED, like, structure.num_structures, self.width)
        values = self._by_key(x, structure)
        parts = []
        for pattern, key in zip(self.patterns, self.keys, strict=True):
            if pattern.is_oriented:
                parts.append(_harmonic_share(values[key], structure, pattern))
            else:
                parts.append(_harmonic_mean(values[key], self._span(structure, pattern)))
        for pattern, linear in zip(self._faces, self.maps, strict=True):
            [sort] = set(pattern.sorts.values())
            nodes = linear(values[self._node_keys[sort]])  # (nodes, products x size)
            product = _alternating_product(nodes, structure, pattern)  # (faces, products)
            parts.append(_harmonic_share(product, structure, pattern))
        return torch.cat(parts, dim=1)

    def follow(self, side: Side | None) -> Side:
        """Return one row for each structure."""
        return unknown([Pattern("")])


class HarmonicTerm(OfHoles):
    r"""What the holes add to the features of every entry.

    To features of oriented faces it adds a linear map of their harmonic part. To others it adds a
    vector, times the share $P_{ee}$ of a unit at the entry that is harmonic, divided by the mean
    share: large where holes are narrow.

    Args:
        text: The tensors; those that are no sets of nodes are left alone.
        channels: Channels of every tensor.
        columns: Columns of noise: where there are more holes, a part of them is taken.
        seed: Seed of the noise.
        is_flow: Whether only oriented tensors get something.
    """

    def __init__(
        self, text: str, channels: int, columns: int, seed: int = 0, is_flow: bool = False
    ) -> None:
        super().__init__(text, columns, seed)
        if is_flow:
            self.patterns = tuple(p for p in self.patterns if p.is_oriented)
            self.keys = [key_of(p) for p in self.patterns]
        self.maps = nn.ModuleList(
            nn.Linear(channels if p.is_oriented else 1, channels, bias=False) for p in self.patterns
        )

    @takes_examples
    def forward(self, x: Values, structure: Structure) -> Values:
        """Return all features, with what holes add."""
        if torch.compiler.is_compiling():
            like = x if isinstance(x, Tensor) else next(iter(x.values()))
            added = refused(_NOT_RECORDED, like, *like.shape)
            return {**x, self.keys[0]: added} if isinstance(x, Mapping) else added
        values = self._by_key(x, structure)
        for pattern, key, linear in zip(self.patterns, self.keys, self.maps, strict=True):
            own = values[key]
            if pattern.is_oriented:
                read = harmonic_part(own, structure, pattern)
            else:
                read = _relative_mass(self._span(structure, pattern)).to(own.dtype)
            values[key] = own + linear(read)
        return values if isinstance(x, Mapping) else values[self.keys[0]]

    def plan(self, structure: Structure) -> None:
        """Find the harmonic tensors of a structure."""
        for pattern in self.patterns:
            harmonic_plan_of(structure, pattern)

    def follow(self, side: Side | None) -> Side | None:
        """Return the same tensors."""
        return side


def _harmonic_mean(x: Tensor, span: HarmonicSpan) -> Tensor:
    """Return means with the harmonic share of every entry as weights, (structures, channels)."""
    # (entries,); they add up to 1 where there are holes
    shares = span.mass / span.ranks.clamp(min=1)[span.home]
    sums = x.new_zeros(len(span.ranks), x.shape[1])
    return sums.index_add(0, span.home, x * shares[:, None].to(x.dtype))


def _harmonic_share(x: Tensor, structure: Structure, pattern: Pattern) -> Tensor:
    """Return which share of the square of a tensor is harmonic, (structures, channels)."""
    home = structure.batch(pattern)
    zeros = x.new_zeros(structure.num_structures, x.shape[1])
    # (structures, channels)
    part = zeros.index_add(0, home, harmonic_part(x, structure, pattern).square())
    whole = zeros.index_add(0, home, x.square())
    return part / (whole + _TINY)


def _relative_mass(span: HarmonicSpan) -> Tensor:
    """Return the harmonic share of every entry, relative to the mean of its structure, (entries,
    1).
    """
    counts = torch.bincount(span.home, minlength=len(span.ranks))
    mean = span.ranks.clamp(min=1) / counts.clamp(min=1)  # the trace of a projection is its rank
    return (span.mass / mean[span.home])[:, None]


def _alternating_product(nodes: Tensor, structure: Structure, pattern: Pattern) -> Tensor:
    """Return determinants of features of the nodes of every face, (faces, products).

    Args:
        nodes: As many features for each product as a face has nodes, (nodes, products x size).
        structure: The structure.
        pattern: The faces; their nodes count in the order of the reference orientation.
    """
    index = list(structure.index(pattern)[0])
    rows = index if pattern.is_oriented else ascend(index)
    columns = nodes.view(len(nodes), -1, len(rows))  # (nodes, products, size)
    of_nodes = [columns.index_select(0, row) for row in rows]
    return sum(  # type: ignore[return-value]
        sign * torch.stack([of_nodes[node][:, :, k] for k, node in enumerate(order)]).prod(0)
        for order, sign in _signed_orders(len(rows))
    )


def _signed_orders(size: int) -> list[tuple[Sequence[int], int]]:
    """Return all orders of some places, with their signs."""
    orders: list[tuple[Sequence[int], int]] = []
    for order in permutations(range(size)):
        # even or odd decides
        inversions = sum(order[a] > order[b] for b in range(size) for a in range(b))
        orders.append((order, 1 - 2 * (inversions % 2)))
    return orders
