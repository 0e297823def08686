"""Lists of pairs of nodes, as other libraries keep edges, and the entries of a pattern.

An entry comes once; an undirected one may come in both directions. `strict_entries` refuses other
lists. `EdgeChanges` leaves out loops, joins parallel edges and counts both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.assembly import is_directed
from incidence.structure.collate import collate
from incidence.structure.example import Example
from incidence.structure.ragged import distinct, no_entries, rank
from incidence.structure.structure import Structure

__all__ = [
    "TARGET",
    "DirectedPairs",
    "EdgeChanges",
    "NodeGraphs",
    "both_directions",
    "is_no_loop",
    "pyg_entries",
    "strict_entries",
    "with_changes",
    "with_graphs",
]

TARGET = "y"
"""The name of the target of edges among their values. Targets of parallel edges have no mean."""

NodeGraphs = Mapping[str, Tensor] | None
"""For every sort the number of the graph of each node; None for a single graph."""

Entries = tuple[Tensor, dict[str, Tensor]]
"""An index, and rows of values that go with its entries."""

_LENIENT = (
    "`inc.data.load`, the loaders of `inc.data` and `inc.collate` leave out loops and join parallel"
    " edges."
)


def strict_entries(
    pattern: Pattern, pairs: Tensor, num_nodes: int, values: Mapping[str, Tensor], who: str
) -> Entries:
    """Return pairs of nodes as the entries of a pattern, in the order in which they first come.

    Args:
        pattern: The pattern: `(i j)`, `{i j}`, ....
        pairs: The nodes, shape [2, pairs]. Undirected edges come in one direction or in both.
        num_nodes: The number of nodes.
        values: Rows of features for the pairs, which must agree for the two directions of an
            undirected edge, and be opposite for those of an oriented edge.
        who: The function that errors name.

    Raises:
        IncidenceError: An edge comes more often, or its values do not fit.
    """
    first, last = _two_directions(pattern, pairs, num_nodes, who)
    for name, x in values.items():
        there = x[first]
        back = x[last]
        if pattern.is_oriented:
            back = torch.where((first != last)[:, None], -back, back)
        wrong = _differ(there, back)
        if bool(wrong.any()):
            u, v = pairs[:, int(first[wrong].min())].tolist()
            relation, remedy = "differs from", "equal"
            if pattern.is_oriented:
                relation, remedy = "is not the opposite of", "opposite"
            raise IncidenceError(
                f"{who}: {name} of the edge ({u}, {v}) {relation} that of ({v}, {u}), so the edges"
                f" are no `{pattern}`. Make them {remedy}, or read the edges as `(i j)`."
            )
    return pairs[:, first], {name: x[first] for name, x in values.items()}


def _two_directions(
    pattern: Pattern, pairs: Tensor, num_nodes: int, who: str
) -> tuple[Tensor, Tensor]:
    """The first and the last pair of every entry, in the order of the first.

    They are the same where an entry comes in one direction.
    """
    place = torch.arange(pairs.shape[1], device=pairs.device)
    if is_directed(pattern) or not len(place):
        return place, place
    low = pairs.amin(0)
    high = pairs.amax(0)
    if int(low.min()) < 0 or int(high.max()) >= num_nodes:
        return place, place  # a structure refuses these nodes
    number, count = rank(low * num_nodes + high)
    times = torch.bincount(number)
    first = torch.full((count,), len(number), device=pairs.device)
    first = first.scatter_reduce(0, number, place, "amin")
    last = torch.zeros(count, dtype=torch.long, device=pairs.device)
    last = last.scatter_reduce(0, number, place, "amax")
    source, target = pairs
    is_back = (source[first] == target[last]) & (source[first] != source[last])
    wrong = (times > 1) & ~((times == 2) & is_back)
    if bool(wrong.any()):
        u, v = pairs[:, int(first[wrong].min())].tolist()
        raise IncidenceError(
            f"{who}: the edge ({u}, {v}) comes more than once in one direction, and an entry of"
            f" `{pattern}` comes once. Join parallel edges first (PyG: data.coalesce(); NetworkX:"
            " nx.Graph(multigraph); scipy: matrix.sum_duplicates())."
        )
    first, order = first.sort()
    return first, last[order]


def _differ(one: Tensor, other: Tensor) -> Tensor:
    """Which rows differ; a missing value agrees with another."""
    are_missing = (one != one) & (other != other)
    return ((one != other) & ~are_missing).any(1)


@dataclass
class EdgeChanges:
    """Counts of what was changed so that edges are entries.

    Attributes:
        loops: The number of loops that were left out.
        parallel: The number of edges that were joined to others.
        patterns: The patterns of the edges that were changed.
    """

    loops: int = 0
    parallel: int = 0
    patterns: dict[str, None] = field(default_factory=dict)

    def add(self, other: EdgeChanges) -> None:
        """Add the changes of one more graph."""
        self.loops += other.loops
        self.parallel += other.parallel
        self.patterns.update(other.patterns)

    def entries(
        self,
        pattern: Pattern,
        pairs: Tensor,
        num_nodes: int,
        values: Mapping[str, Tensor],
        who: str,
    ) -> Entries:
        """Return what `strict_entries` gives for the pairs without loops, each once in a direction.

        Loops stay if the pattern has them. Where features of parallel edges differ, they become
        their mean.
        """
        is_outside = (pairs < 0) | (pairs >= num_nodes)
        if not pairs.numel() or bool(is_outside.any()):
            return strict_entries(pattern, pairs, num_nodes, values, who)
        is_edge = is_no_loop(pattern, pairs)
        pairs = pairs[:, is_edge]
        values = {name: x[is_edge] for name, x in values.items()}
        key = pairs[0] * num_nodes + pairs[1]
        number, count = rank(key)
        first = distinct(key)
        order = first.argsort()  # as they come
        if TARGET in values:
            _assert_one_target(values[TARGET], number, first, pairs, who)
        joined = {name: _joined(x, number, first)[order] for name, x in values.items()}
        loops = len(is_edge) - len(key)
        parallel = len(key) - count
        if loops or parallel:
            self.add(EdgeChanges(loops, parallel, {str(pattern): None}))
        return strict_entries(pattern, pairs[:, first[order]], num_nodes, joined, who)


def is_no_loop(pattern: Pattern, pairs: Tensor) -> Tensor:
    """Return which pairs are no loops; all, if the pattern has loops, or nodes of two sorts."""
    is_one_sort = len(set(pattern.sorts.values())) == 1
    if is_one_sort and all(orbit.size > 1 for orbit in pattern.orbits):
        return pairs[0] != pairs[1]
    return torch.ones_like(pairs[0], dtype=torch.bool)


def _assert_one_target(y: Tensor, number: Tensor, first: Tensor, pairs: Tensor, who: str) -> None:
    wrong = _differ(y, y[first][number])
    if bool(wrong.any()):
        u, v = pairs[:, wrong][:, 0].tolist()
        raise IncidenceError(
            f"{who}: {TARGET} differs among the parallel edges ({u}, {v}), and an entry has one"
            " target: keep one of them."
        )


def _joined(x: Tensor, number: Tensor, first: Tensor) -> Tensor:
    """A row for each edge: that of all its parallel edges, or their mean.

    Rows that agree stay as they are: categories are integers, and the mean of equal floats may be
    another float.

    Args:
        x: A row for every pair.
        number: The number of the edge of every pair.
        first: The first pair of every edge.
    """
    rows = x[first]
    is_other = _differ(x, rows[number])
    if not bool(is_other.any()):
        return rows
    # in double precision, so that the order of pairs does not matter
    sums = torch.zeros(rows.shape, dtype=torch.double, device=x.device)
    sums = sums.index_add(0, number, x.double())
    means = sums / torch.bincount(number, minlength=len(first))[:, None]
    has_mean = torch.zeros_like(first, dtype=torch.bool)
    has_mean[number[is_other]] = True
    dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
    return torch.where(has_mean[:, None], means.to(dtype), rows.to(dtype))


def with_changes(
    read: Callable[[EdgeChanges | None], Example], changes: EdgeChanges | None
) -> Example:
    """Read an example strictly if that can be, else with changes of its edges.

    Args:
        read: Returns the example. With None it refuses edges that are no entries; with an
            `EdgeChanges` it changes and counts them.
        changes: Takes the counts. If it is None, an example that needs changes is refused.
    """
    try:
        return read(None)
    except IncidenceError as error:
        problem = error
    made = EdgeChanges()
    try:
        example = read(made)
    except IncidenceError as error:
        raise (problem if changes is None else error) from None
    if changes is None:
        raise IncidenceError(f"{problem} {_LENIENT}") from None
    changes.add(made)
    return example


class DirectedPairs(NamedTuple):
    """Entries as directed pairs of nodes: undirected ones in both directions.

    Attributes:
        nodes: The nodes, shape [2, pairs].
        entry: For each pair the number of its entry.
        signs: For each pair the sign of its value; None where values have none.
    """

    nodes: Tensor
    entry: Tensor
    signs: Tensor | None

    def values(self, x: Tensor) -> Tensor:
        """Return features of the entries as features of the pairs."""
        rows = x[self.entry]
        return rows if self.signs is None else rows * self.signs.to(x.dtype)[:, None]


def both_directions(pattern: Pattern, index: Tensor) -> DirectedPairs:
    """Return entries as directed pairs; those of an oriented edge have opposite values."""
    entry = torch.arange(index.shape[1], device=index.device)
    if is_directed(pattern):
        return DirectedPairs(index, entry, None)
    apart = index[0] != index[1]
    nodes = torch.cat([index, index[:, apart].flip(0)], dim=1)  # (2, pairs)
    signs = None
    if pattern.is_oriented:
        signs = torch.cat([torch.ones_like(entry), -torch.ones_like(entry)])
    return DirectedPairs(nodes, torch.cat([entry, entry[apart]]), signs)


# ---- PyG: lists of edges that may be those of many graphs


def pyg_entries(
    pattern: Pattern,
    edge_index: Any,
    num_nodes: int,
    values: Mapping[str, Tensor],
    graphs: Tensor | None,
    changes: EdgeChanges | None,
) -> Entries:
    """Return the edges that PyG lists as the entries of a pattern, those of a batch by graph.

    Args:
        pattern: The pattern.
        edge_index: The edges, shape [2, edges].
        num_nodes: The number of nodes.
        values: Rows for the edges.
        graphs: The graph of every node that an edge may start at; None for a single graph.
        changes: Changes and counts edges that are no entries; None refuses them.
    """
    pairs = torch.as_tensor(edge_index)
    if not pairs.numel():  # whatever its shape and type
        pairs = no_entries(2, pairs.device)
    if pairs.ndim != 2 or len(pairs) != 2 or pairs.is_floating_point():
        raise IncidenceError(
            f"from_pyg: edge_index has integers of shape [2, edges]; got {list(pairs.shape)} of"
            f" {pairs.dtype}."
        )
    for key, x in values.items():
        if len(x) != pairs.shape[1]:
            raise IncidenceError(
                f"from_pyg: {key} has {len(x)} rows, and edge_index has {pairs.shape[1]} columns."
            )
    pairs = pairs.long()
    if graphs is not None and len(graphs):
        order = graphs[pairs[0].clamp(0, len(graphs) - 1)].sort(stable=True)[1]
        pairs = pairs[:, order]
        values = {key: x[order] for key, x in values.items()}
    entries = strict_entries if changes is None else changes.entries
    return entries(pattern, pairs, num_nodes, values, "from_pyg")


def with_graphs(
    counts: Mapping[str, int], index: Mapping[str, Any], graphs: NodeGraphs, num_graphs: int
) -> Structure:
    """Return a structure, or a batch of so many graphs.

    Nodes do not show graphs without nodes at the end of a batch; these are added.
    """
    structure = Structure(counts, index, batch=graphs)
    missing = num_graphs - structure.num_structures
    if graphs is None or not missing:
        return structure
    device = structure.device
    nothing = {str(p): no_entries(len(p.letters), device) for p in structure.patterns}
    empty = Structure(dict.fromkeys(structure.counts, 0), nothing, device=device)
    return collate([structure, *[empty] * missing])
