"""Colours of entries on small graphs, refined from their definition (docs/math.md section 20).

Entries of one colour get different colours where an operation adds up different colours. It is what
`inc.expressivity` decides, for sums and complete layers. Standard library only: it runs in
browsers too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import comb

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.overlap import Matrix
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, TooLargeError
from incidence.plot.small_graphs import SmallGraph, adjacent_pairs, entries_on
from incidence.plot.weights import Entry, NodeSets

__all__ = ["State", "colour_rounds", "tensors_of"]

_MOST_OPERATIONS = 2_000
_MOST_SUMS = 150_000  # of a graph in one round

Place = tuple[int, int]
"""A tensor, and an orbit of it."""

Key = tuple[Place, tuple[frozenset[int], ...]]
"""Some nodes of every class of an orbit."""

Writers = dict[Place, list[tuple[Place, Matrix]]]
"""For every orbit that is written, the orbits that are read, with the overlaps."""

State = list[list[int]]
"""The colours of all entries, graph by graph."""


def tensors_of(m: EquivariantMap) -> list[Pattern]:
    """Return the tensors of a map, if their entries have colours on a graph.

    Raises:
        IncidenceError: They have none.
        TooLargeError: The map has too many operations.
    """
    tensors = list(dict.fromkeys((*m.inputs, *m.outputs)))
    for p in tensors:
        if p.is_oriented:
            hint = p.unoriented()
            raise IncidenceError(f"colours have no sign, and `{p}` is oriented: write `{hint}`.")
        if p.is_open:
            raise IncidenceError(
                f"a graph has no faces of any size, as in `{p}`: write `{{i j}}` or `{{i j k}}`."
            )
    if len(m.sorts) > 1:
        raise IncidenceError(f"nodes of a graph are of one sort; got {', '.join(m.sorts)}.")
    if m.dimension > _MOST_OPERATIONS:
        raise TooLargeError(
            f"colours here are of maps with up to {_MOST_OPERATIONS:,} operations; `{m}` has"
            f" {m.dimension:,}. Write tensors of fewer nodes, or use inc.expressivity."
        )
    return tensors


def colour_rounds(m: EquivariantMap, graphs: Sequence[SmallGraph]) -> list[State]:
    """Return the colours of all entries at the start, and after every layer that changes them.

    Entries are those of all tensors, one tensor after the other. A colour that splits stays the
    colour of the first entry that has it.

    Raises:
        IncidenceError: The map has no colours on graphs.
        TooLargeError: There are too many entries or sums.

    Example:
        >>> from incidence.plot.small_graphs import read_graph
        >>> path = read_graph("0-1-2-3")
        >>> [state[0][:4] for state in colour_rounds(EquivariantMap("i, {i j} -> i"), [path])]
        [[0, 0, 0, 0], [0, 2, 2, 0]]
    """
    tensors = tensors_of(m)
    sides = [_read_of(m, tensors, graph) for graph in graphs]
    states = [_split([[0] * len(side.start) for side in sides], [side.start for side in sides])]
    while True:
        sums: dict[object, int] = {}
        read = [side.read(own, sums) for side, own in zip(sides, states[-1], strict=True)]
        refined = _split(states[-1], read)
        if _num_colours(refined) == _num_colours(states[-1]):
            return states
        states.append(refined)


def _num_colours(state: State) -> int:
    return len({colour for own in state for colour in own})


def _split(state: State, values: Sequence[Sequence[object]]) -> State:
    """Give entries of one colour with different values different colours."""
    keys = [list(zip(own, read, strict=True)) for own, read in zip(state, values, strict=True)]
    numbers: dict[tuple[int, object], int] = {}
    kept: set[int] = set()
    fresh = 1 + max((colour for own in state for colour in own), default=-1)
    for key in dict.fromkeys(key for own in keys for key in own):
        is_first = key[0] not in kept
        numbers[key] = key[0] if is_first else fresh
        fresh += not is_first
        kept.add(key[0])
    return [[numbers[key] for key in own] for own in keys]


@dataclass(frozen=True)
class _ReadGraph:
    """One graph: what its entries read.

    Attributes:
        start: What is known of every entry at the start: tensor, orbit and adjacent nodes.
        bags: Lists of entries that have the same nodes in the same classes.
        reads: For every entry, for every operation that writes it, the bags that it adds up.
    """

    start: Sequence[object]
    bags: list[list[int]]
    reads: list[list[list[int]]]

    def read(self, state: Sequence[int], sums: dict[object, int]) -> list[object]:
        """Return the sums that every entry reads; `sums` numbers those that are known."""
        counts = [Counter(state[row] for row in rows) for rows in self.bags]

        def number(bags: Sequence[int]) -> int:
            total: Counter[int] = Counter()
            for bag in bags:
                total.update(counts[bag])
            return sums.setdefault(frozenset(total.items()), len(sums))

        alone = [number([bag]) for bag in range(len(counts))]
        return [
            tuple(alone[bags[0]] if len(bags) == 1 else number(bags) for bags in own)
            for own in self.reads
        ]


def _read_of(m: EquivariantMap, tensors: Sequence[Pattern], graph: SmallGraph) -> _ReadGraph:
    """List the entries on a graph, and what they read."""
    entries = [((t, e.orbit), e) for t, p in enumerate(tensors) for e in entries_on(graph, p)]
    writers = _writers(m, tensors)
    num_sums = sum(_num_ways(a, e.sets) for place, e in entries for _, a in writers.get(place, ()))
    if num_sums > _MOST_SUMS:
        raise TooLargeError(
            f"`{m}` adds up {num_sums:,} times in a layer on a graph of {len(graph.names)} nodes;"
            f" the limit is {_MOST_SUMS:,} here. Take a smaller graph, or inc.expressivity."
        )
    bags = _bags(entries, writers)
    numbers = {key: number for number, key in enumerate(bags)}
    reads = []
    for place, entry in entries:
        keys = [_keys(source, a, entry.sets) for source, a in writers.get(place, ())]
        reads.append([[numbers[key] for key in own if key in numbers] for own in keys])
    start = [(place, adjacent_pairs(graph, entry)) for place, entry in entries]
    return _ReadGraph(start, list(bags.values()), reads)


def _writers(m: EquivariantMap, tensors: Sequence[Pattern]) -> Writers:
    """The operations that write every orbit."""
    writers: Writers = {}
    for operation in m.operations:
        source, target = operation.source, operation.target
        read = tensors.index(m.inputs[source.tensor]), source.number
        written = tensors.index(m.outputs[target.tensor]), target.number
        writers.setdefault(written, []).append((read, operation.overlap))
    return writers


def _bags(entries: Sequence[tuple[Place, Entry]], writers: Writers) -> dict[Key, list[int]]:
    """The rows of the entries that have some nodes in some classes, as operations match them."""
    matched: dict[Place, set[tuple[int, ...]]] = {}  # how many nodes of every class
    for source, overlap in (one for own in writers.values() for one in own):
        matched.setdefault(source, set()).add(tuple(map(sum, overlap)))
    bags: dict[Key, list[int]] = {}
    for row, (place, entry) in enumerate(entries):
        for sizes in matched.get(place, ()):
            for chosen in product(*map(combinations, entry.sets, sizes)):
                bags.setdefault((place, tuple(map(frozenset, chosen))), []).append(row)
    return bags


def _keys(source: Place, overlap: Matrix, sets: NodeSets) -> Iterator[Key]:
    """Yield, for every way to match nodes of an output entry, the nodes of an input entry."""
    columns = list(zip(*overlap, strict=True)) if overlap else [()] * len(sets)
    ways = (
        list(_shared_out(frozenset(own), sizes)) for own, sizes in zip(sets, columns, strict=True)
    )
    for cells in product(*ways):  # for every output class, its nodes by input class
        rows = (frozenset().union(*(own[i] for own in cells)) for i in range(len(overlap)))
        yield source, tuple(rows)


def _shared_out(
    nodes: frozenset[int], sizes: Sequence[int]
) -> Iterator[tuple[frozenset[int], ...]]:
    """Yield all lists of disjoint sets of some sizes."""
    if not sizes:
        yield ()
        return
    for first in combinations(sorted(nodes), sizes[0]):
        for rest in _shared_out(nodes.difference(first), sizes[1:]):
            yield (frozenset(first), *rest)


def _num_ways(overlap: Matrix, sets: NodeSets) -> int:
    """The number of ways to match nodes of an output entry."""
    ways = 1
    left = [len(own) for own in sets]
    for row in overlap:
        for j, size in enumerate(row):
            ways *= comb(left[j], size)
            left[j] -= size
    return ways
