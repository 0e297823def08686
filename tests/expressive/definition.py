"""Colour refinements from their definitions, in plain Python on lists of entries: of any map
(docs/math.md section 20), and the usual ones of graphs.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from itertools import product

from incidence.algebra import EquivariantMap
from incidence.structure import Structure
from tests.nn.definition import choices, in_orbit

Graph = list[set[int]]  # the neighbours of every node
Colouring = list[dict[Hashable, int]]  # the colour of everything that has one, graph by graph


def numbered(values: Sequence[Mapping[Hashable, object]]) -> Colouring:
    """The same number for equal values, across all graphs."""
    numbers: dict[object, int] = {}
    return [{k: numbers.setdefault(v, len(numbers)) for k, v in own.items()} for own in values]


def num_colours(colouring: Colouring) -> int:
    return len({colour for own in colouring for colour in own.values()})


def until_stable(colouring: Colouring, refined: Callable) -> tuple[Colouring, int]:
    """The stable colours, and the number of rounds that changed something."""
    rounds = 0
    while True:
        new = numbered(refined(colouring))
        if num_colours(new) == num_colours(colouring):
            return colouring, rounds
        colouring, rounds = new, rounds + 1


def classes(colouring: Colouring) -> tuple[int, ...]:
    """Graphs with as many of every colour, numbered by first occurrence."""
    numbers: dict[object, int] = {}
    return tuple(
        numbers.setdefault(frozenset(Counter(own.values()).items()), len(numbers))
        for own in colouring
    )


# ---- of any map


def pooled(colours: Counter, aggr: str) -> object:
    """What an aggregation can know of a bag; nothing of an empty one."""
    total = sum(colours.values())
    if aggr == "sum":
        return {colour: Fraction(n) for colour, n in colours.items()}
    if aggr == "mean":
        return {colour: Fraction(n, total) for colour, n in colours.items()}
    return frozenset(colours)  # the largest value of any function of colours, and the least


def total(bags: list, aggr: str) -> object:
    """What the sum of bags can tell: the sum of vectors, or the multiset of sets."""
    if aggr in ("max", "min"):
        return frozenset(Counter(bag for bag in bags if bag).items())
    sums: Counter = Counter()
    for bag in bags:
        for colour, n in bag.items():
            sums[colour] += n
    return frozenset((colour, n) for colour, n in sums.items() if n)


def refined_by_map(
    m: EquivariantMap, structures: Sequence[Structure], aggr: str = "sum"
) -> Callable[[Colouring], list]:
    """One round of section 20, where things are pairs of a tensor and a row."""
    tensors = list(dict.fromkeys(m.inputs + m.outputs))
    places = [
        {
            operation: (
                in_orbit(s, m.inputs[operation.source.tensor], operation.source),
                in_orbit(s, m.outputs[operation.target.tensor], operation.target),
            )
            for operation in m.operations
        }
        for s in structures
    ]

    def reads(number: int, own: dict, operation) -> dict:
        sources, targets = places[number][operation]
        tensor = tensors.index(m.inputs[operation.source.tensor])
        target = tensors.index(m.outputs[operation.target.tensor])
        bags: dict = {}
        found = {}
        for entry in targets:
            read = []
            for cells in choices(entry.sets, operation.overlap):
                key = tuple(frozenset(node for cell in row for node in cell) for row in cells)
                if key not in bags:
                    inside = Counter(
                        own[tensor, x.row]
                        for x in sources
                        if all(nodes <= sets for nodes, sets in zip(key, x.sets, strict=True))
                    )
                    bags[key] = pooled(inside, aggr) if inside else {}
                read.append(bags[key])
            found[target, entry.row] = total(read, aggr)
        return found

    def refined(colouring: Colouring) -> list:
        new = []
        for number, own in enumerate(colouring):
            values = {thing: [colour] for thing, colour in own.items()}
            for k, operation in enumerate(m.operations):
                for thing, value in reads(number, own, operation).items():
                    values[thing].append((k, value))
            new.append({thing: tuple(value) for thing, value in values.items()})
        return new

    return refined


def start_of_map(m: EquivariantMap, structures: Sequence[Structure]) -> Colouring:
    """The tensor and the orbit of every entry."""
    tensors = list(dict.fromkeys(m.inputs + m.outputs))
    values = []
    for s in structures:
        own: dict = {}
        for tensor, pattern in enumerate(tensors):
            own |= {(tensor, row): (tensor, -1) for row in range(s.num_entries(pattern))}
        for operation in m.operations:
            for side, where in ((m.inputs, operation.source), (m.outputs, operation.target)):
                pattern = side[where.tensor]
                tensor = tensors.index(pattern)
                for x in in_orbit(s, pattern, where):
                    own[tensor, x.row] = (tensor, where.number)
        values.append(own)
    return numbered(values)


# ---- of graphs


def colour_refinement(graphs: Sequence[Graph]) -> Callable[[Colouring], list]:
    """1-WL: a node sees the multiset of the colours of its neighbours."""

    def refined(colouring: Colouring) -> list:
        return [
            {
                v: (own[v], frozenset(Counter(own[u] for u in graph[v]).items()))
                for v in range(len(graph))
            }
            for graph, own in zip(graphs, colouring, strict=True)
        ]

    return refined


def folklore_2wl(graphs: Sequence[Graph]) -> Callable[[Colouring], list]:
    """2-FWL: a pair (u, v) sees the multiset over all w of the colours of (u, w) and (w, v)."""

    def refined(colouring: Colouring) -> list:
        new = []
        for graph, own in zip(graphs, colouring, strict=True):
            nodes = range(len(graph))
            new.append(
                {
                    (u, v): (
                        own[u, v],
                        frozenset(Counter((own[u, w], own[w, v]) for w in nodes).items()),
                    )
                    for u, v in product(nodes, nodes)
                }
            )
        return new

    return refined


def oblivious_3wl(graphs: Sequence[Graph]) -> Callable[[Colouring], list]:
    """3-WL: a triple sees, place by place, the multiset of the triples with another node there."""

    def refined(colouring: Colouring) -> list:
        new = []
        for graph, own in zip(graphs, colouring, strict=True):
            nodes = range(len(graph))
            values = {}
            for t in product(nodes, repeat=3):
                seen = [
                    frozenset(Counter(own[(*t[:k], w, *t[k + 1 :])] for w in nodes).items())
                    for k in range(3)
                ]
                values[t] = (own[t], *seen)
            new.append(values)
        return new

    return refined


def atomic_types(graphs: Sequence[Graph], size: int) -> Colouring:
    """The colours at the start: which nodes of a tuple are equal, and which are adjacent."""
    return numbered(
        [
            {
                t: tuple((a == b, b in graph[a]) for a, b in product(t, t))
                for t in product(range(len(graph)), repeat=size)
            }
            for graph in graphs
        ]
    )


def same_nodes(graphs: Sequence[Graph]) -> Colouring:
    """All nodes of one colour."""
    return [dict.fromkeys(range(len(graph)), 0) for graph in graphs]
