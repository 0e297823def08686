r"""`Attention`: every entry of one tensor looks at entries of another, along the entries of a
third.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.grammar import Face, TensorSyntax, make_face
from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.algebra.products import key_faces, parse_product
from incidence.errors import IncidenceError
from incidence.nn.composition import Planned
from incidence.nn.functional import linked, plan_einsum, plan_softmax, softmax
from incidence.nn.modules import Dropout
from incidence.nn.steps import write, writes
from incidence.nn.tensors import Values, as_channels, as_list, key_of, per_tensor, takes_examples
from incidence.structure import Structure

__all__ = ["Attention"]


class Attention(Planned):
    r"""Attention along the entries of a tensor: `(i j)` over `j` lets every node i look at the
    nodes j of its present pairs.

    With queries $q$ at what is left of an entry without the letters of `over`, keys $k$ and values
    $v$ at those letters, and for each head

    $$
    s = q_i \cdot k_j / \sqrt{d} + b_{ij}, \quad w = \mathrm{softmax}_j(s), \quad
    y_i = \sum_j w_{ij} v_j.
    $$

    Neither scores nor weighted values are ever listed entry by entry with all their channels.

    Args:
        pattern: Along what: `(i j)`; `v e:edge` for nodes and hyperedges; `(i j k)`, and so on.
        over: The letters that are looked at: `j`. What is left of the pattern is where queries are
            and the output is: `i`.
        in_channels: Of queries and values: for both, or a dict by tensor.
        out_channels: Of the output; a multiple of `heads`.
        heads: How many heads.
        edge_channels: Of features of the pattern itself, which are mapped to a bias b of the scores
            of every head; none if not given.
        dropout: The probability with which weights are set to 0 while training.
        device, dtype: Of the parameters.

    Shape:
        x: (entries, channels): one tensor where queries and values are one and there are no edge
            features, else a dict by tensor.
        Output: (entries, out_channels) of the tensor of the queries.

    Example:
        >>> s = Structure(3, {"(i j)": [[0, 0, 1], [1, 2, 0]]})
        >>> layer = Attention("(i j)", "j", 8, 16, heads=4, edge_channels=2)
        >>> layer({"i": torch.randn(3, 8), "(i j)": torch.randn(3, 2)}, s).shape
        torch.Size([3, 16])
        >>> Attention("v e:edge", "v", 8, 16).map
        EquivariantMap('e:edge, v -> e:edge')
    """

    def __init__(
        self,
        pattern: str,
        over: str,
        in_channels: int | Mapping[str, int],
        out_channels: int,
        heads: int = 1,
        edge_channels: int | None = None,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.heads, self.out_channels = (
            as_channels(heads, "heads", 1),
            as_channels(out_channels, "out_channels", 1),
        )
        if self.out_channels % self.heads:
            raise IncidenceError(
                f"out_channels must be a multiple of heads, {self.heads}; got {self.out_channels}."
            )
        self.pattern, self.over = Pattern(pattern), over
        self.queries, self.values = _queries(self.pattern, over), _values(self.pattern, over)
        ends = list(dict.fromkeys([self.queries, self.values]))
        widths = dict(
            zip(
                ends,
                (
                    as_channels(c, "in_channels", 1)
                    for c in per_tensor(ends, in_channels, "in_channels")
                ),
                strict=True,
            )
        )
        if (
            edge_channels is not None
            and widths.setdefault(self.pattern, as_channels(edge_channels, "edge_channels", 1))
            != edge_channels
        ):
            raise IncidenceError(
                f"`{pattern}` is what is looked at too, with {widths[self.pattern]} channels:"
                " edge_channels is as many."
            )
        self.in_channels = widths
        self.map = EquivariantMap.between(widths, [self.queries])
        linear = partial(nn.Linear, device=device, dtype=dtype)
        self.query = linear(widths[self.queries], self.out_channels)
        self.key, self.value = (linear(widths[self.values], self.out_channels) for _ in range(2))
        self.edge = None if edge_channels is None else linear(edge_channels, self.heads)
        self.out = linear(self.out_channels, self.out_channels)
        self.dropout = Dropout(dropout)
        # the scores at the links, and the weighted values at those who look
        self._texts = (
            f"{self.queries}, {self.values} -> {self.pattern}",
            f"{self.pattern}, {self.values} -> {self.queries}",
        )
        self._keys = [key_of(p) for p in widths]
        # where queries, values and links stand among the inputs; -1 without features of links
        self._places = [
            list(widths).index(p) if p in widths else -1
            for p in (self.queries, self.values, self.pattern)
        ]

    @takes_examples
    def forward(self, x: Values, structure: Structure) -> Tensor:
        """Attention on a structure.

        Raises:
            IncidenceError: The features do not fit the structure or the layer.
        """
        xs = self._features(x, structure)
        at_queries, at_values, at_edges = (xs[place] for place in self._places)
        q, k, v = (
            self._by_head(m(u))
            for m, u in ((self.query, at_queries), (self.key, at_values), (self.value, at_values))
        )
        # (entries, heads)
        scores = linked(self._texts[0], [q / sqrt(q.shape[2]), k], structure, (self.heads, 1))[
            :, :, 0
        ]
        scores = scores if self.edge is None else scores + self.edge(at_edges)  # (entries, heads)
        # (entries, heads): the weights of what an entry looks at sum to 1
        weights = self.dropout(softmax(scores, str(self.pattern), self.over, structure), structure)
        # (entries, heads, channels of a head)
        y = linked(self._texts[1], [weights[:, :, None].to(v.dtype), v], structure)
        found: Tensor = self.out(y.flatten(1))  # (queries, out)
        return found

    def _features(self, x: Values, structure: Structure) -> list[Tensor]:
        """Return the features of every tensor, checked."""
        if torch.compiler.is_compiling():
            return [x] if isinstance(x, Tensor) else [x[key] for key in self._keys]
        return as_list(list(self.in_channels), x, structure, list(self.in_channels.values()))

    def _by_head(self, x: Tensor) -> Tensor:
        # (entries, heads, channels of a head)
        return x.view(x.shape[0], self.heads, x.shape[1] // self.heads)

    def plan(self, structure: Structure) -> None:
        """Make the index lists for a structure: needed before tracing."""
        for text in self._texts:
            plan_einsum(text, structure)
        plan_softmax(str(self.pattern), self.over, structure)

    def extra_repr(self) -> str:
        """Return the layer as it was written."""
        return f"{str(self.pattern)!r} over {self.over}, heads={self.heads}"


@writes(Attention)
def _write_attention(program: Any, module: Attention, x: Any) -> Any:
    values = [x[key] for key in module._keys] if isinstance(x, dict) else [x]
    at_queries: Any
    at_queries, at_values, at_edges = (
        values[place] if place >= 0 else None for place in module._places
    )
    rows = program.count("entries", module.pattern) if at_edges is None else at_edges.rows
    heads, channels = module.heads, module.out_channels // module.heads
    wide, lone = (heads, channels), (heads, 1)
    query = write(program, module.query, at_queries)
    key, value = (write(program, m, at_values) for m in (module.key, module.value))
    texts = [parse_product(text) for text in module._texts]
    shapes = wide, wide, lone
    scores = program.product(texts[0], [query, key], shapes, rows, scale=1 / sqrt(channels))
    if module.edge is not None:
        scores = program.add(write(program, module.edge, at_edges), scores)
    weights = program.softmax(scores, str(module.pattern), module.over)
    weights = write(program, module.dropout, weights)
    shapes = lone, wide, wide
    y = program.product(texts[1], [weights, value], shapes, at_queries.rows)
    return write(program, module.out, y)


def _queries(pattern: Pattern, over: str) -> Pattern:
    """Return what is left of a pattern without some letters, each face once."""
    return _tensor(key_faces(str(pattern), over))


def _values(pattern: Pattern, over: str) -> Pattern:
    """Return what some letters leave of a pattern, each face once."""
    kept = (
        face._replace(letters=tuple(x for x in face.letters if x.name in over.split()))
        for face in pattern.faces
    )
    return _tensor(tuple(face for face in kept if face.letters))


def _tensor(faces: tuple[Face, ...]) -> Pattern:
    normal = (make_face(face.kind, face.letters) for face in faces)
    return Pattern(TensorSyntax(None, tuple(dict.fromkeys(normal))))
