"""Loops and parallel edges, which most patterns of edges have not: left out, joined, and counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.convert.exchange import Homes, by_graph, differ, once
from incidence.structure.example import Example
from incidence.structure.ragged import distinct, no_entries, rank

__all__ = ["TARGET", "Changes", "Once", "entries", "no_loops", "simply"]

Once = Callable[[Pattern, Tensor, int, Mapping[str, Tensor], str], tuple[Tensor, dict[str, Tensor]]]
"""How pairs of nodes become the entries of a pattern: `exchange.once`, or `Changes.once`."""

TARGET = "y"
"""What the target of edges is called among their values; the mean of targets is none."""

_DOORS = "`inc.data.load`, the loaders of `inc.data` and `inc.collate` leave out loops and join parallel edges."


@dataclass
class Changes:
    """What had to be changed so that edges are entries.

    Attributes:
        loops: How many loops were left out.
        parallel: How many edges were joined to others.
        patterns: What the edges are that were changed.
    """

    loops: int = 0
    parallel: int = 0
    patterns: dict[str, None] = field(default_factory=dict)

    def add(self, other: Changes) -> None:
        """Counts the changes of one more graph."""
        self.loops += other.loops
        self.parallel += other.parallel
        self.patterns.update(other.patterns)

    def once(
        self,
        pattern: Pattern,
        pairs: Tensor,
        num_nodes: int,
        values: Mapping[str, Tensor],
        who: str,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """What `exchange.once` gives for the pairs without loops, if the pattern has none, each once in a direction.

        The features of parallel edges are their mean, where they differ.
        """
        if not pairs.numel() or int(pairs.min()) < 0 or int(pairs.max()) >= num_nodes:
            return once(pattern, pairs, num_nodes, values, who)  # a structure says where
        kept = no_loops(pattern, pairs)
        key = (pairs[0] * num_nodes + pairs[1])[kept]
        number, count = rank(key)
        first = distinct(key)
        order = first.argsort()  # as they come
        left = {name: x[kept] for name, x in values.items()}
        if TARGET in left:
            _assert_one_target(left[TARGET], number, first, pairs[:, kept], who)
        joined = {name: _joined(x, number, first)[order] for name, x in left.items()}
        loops, parallel = len(kept) - len(key), len(key) - count
        self.add(Changes(loops, parallel, {str(pattern): None} if loops or parallel else {}))
        return once(pattern, pairs[:, kept][:, first[order]], num_nodes, joined, who)


def entries(
    once: Once,
    pattern: Pattern,
    edge_index: Any,
    num_nodes: int,
    values: Mapping[str, Tensor],
    homes: Homes,
    sort: str,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The edges that PyG lists, by graph, as the entries of a pattern, whose first node has a sort; `values` are rows for its columns."""
    pairs = torch.as_tensor(edge_index)
    pairs = (
        pairs if pairs.numel() else no_entries(2, pairs.device)
    )  # whatever the shape and type of nothing
    if pairs.ndim != 2 or len(pairs) != 2 or pairs.is_floating_point():
        raise IncidenceError(
            f"from_pyg: edge_index has integers of shape [2, edges]; got {list(pairs.shape)} of {pairs.dtype}."
        )
    for key, x in values.items():
        if len(x) != pairs.shape[1]:
            raise IncidenceError(
                f"from_pyg: {key} has {len(x)} rows, and edge_index has {pairs.shape[1]} columns."
            )
    pairs, values = by_graph(pairs.long(), values, homes, sort)
    return once(pattern, pairs, num_nodes, values, "from_pyg")


def no_loops(pattern: Pattern, pairs: Tensor) -> Tensor:
    """Which pairs are no loops; all, if the pattern has loops, or nodes of two sorts."""
    has_none = len(set(pattern.sorts.values())) == 1 and all(
        orbit.size > 1 for orbit in pattern.orbits
    )
    return pairs[0] != pairs[1] if has_none else torch.ones_like(pairs[0], dtype=torch.bool)


def _assert_one_target(y: Tensor, number: Tensor, first: Tensor, pairs: Tensor, who: str) -> None:
    wrong = differ(y, y[first][number])
    if bool(wrong.any()):
        u, v = pairs[:, wrong][:, 0].tolist()
        raise IncidenceError(
            f"{who}: {TARGET} differs among the parallel edges ({u}, {v}), and an entry has one target: keep one of them."
        )


def _joined(x: Tensor, number: Tensor, first: Tensor) -> Tensor:
    """A row for each edge: that of all its parallel edges, or their mean.

    Rows that agree stay as they are: categories are whole numbers, and the mean of equal floats may be another float.
    """
    whole = x[first]
    is_other = differ(x, whole[number])
    if not bool(is_other.any()):
        return whole
    times = torch.bincount(number, minlength=len(first))[:, None]
    mean = (
        torch.zeros(whole.shape, dtype=torch.double, device=x.device).index_add(
            0, number, x.double()
        )
        / times
    )  # whatever the order
    is_mean = torch.zeros_like(first, dtype=torch.bool).index_fill(0, number[is_other], True)[
        :, None
    ]
    kind = x.dtype if x.is_floating_point() else torch.get_default_dtype()
    return torch.where(is_mean, mean.to(kind), whole.to(kind))


def simply(read: Callable[[Once], Example], changes: Changes | None) -> Example:
    """An example with its edges as they are, if they are entries; else with those that are, if somebody counts the changes.

    Args:
        read: Gives the example, by a function that makes entries of pairs.
        changes: Takes what was changed; what is not as it should be is refused, if not given.
    """
    try:
        return read(once)
    except IncidenceError as error:
        problem = error
    made = Changes()
    try:
        found = read(made.once)
    except IncidenceError as error:
        raise (problem if changes is None else error) from None
    if changes is None:
        raise IncidenceError(f"{problem} {_DOORS}") from None
    changes.add(made)
    return found
