"""Lifts: tensors that are added to graphs before a network sees them, with their features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.space_lift import space
from incidence.errors import IncidenceError, shown
from incidence.extensions import load_extensions
from incidence.geometry import lifting
from incidence.geometry.assembly import attach, face_text
from incidence.geometry.node_lists import as_integer
from incidence.limits import assert_size
from incidence.structure.collate import collate, uncollate
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = ["LIFTS", "LIFT_OPTIONS", "chunks_of", "edge_rows", "lift_all", "register_lift"]

_EDGES = "{i j}"
_TOGETHER = 2**22  # triples of nodes that are lifted at once: more takes memory and is no faster


def rings(example: Example, *, max_size: int = 6) -> Example:
    """Add cycles without chords, `ring={i ...}`.

    Their features are the size one-hot: a column for each size from 3 to `max_size`.
    """
    structure = lifting.rings(example.structure, max_length=max_size)
    count = structure.num_entries("ring")
    assert_size(
        4 * count * max_size,
        f"a column for every size of rings up to max_size={shown(max_size)}",
    )
    sizes = torch.bincount(structure.index("ring")[1][1], minlength=count)
    one_hot = torch.nn.functional.one_hot(sizes - 3, max_size - 2).float()  # (rings, sizes)
    return _with(example, structure, {"ring={i ...}": one_hot})


def cliques(example: Example, *, max_size: int = 3) -> Example:
    """Add cliques of 3 to `max_size` nodes, `{i j k}`, ..., with a column of ones."""
    structure = lifting.cliques(example.structure, max_size=max_size)
    texts = [face_text(size) for size in range(3, max_size + 1)]
    ones = {text: torch.ones(structure.num_entries(text), 1) for text in texts}
    return _with(example, structure, ones)


def matrix(example: Example) -> Example:
    """Add `i j` with the diagonal and both directions of every edge.

    The features are: is diagonal, is edge, those of the node (on the diagonal), those of the edge
    (off it).
    """
    edges = _edges(example, "matrix")
    nodes = torch.arange(example.structure.total_nodes)
    index = torch.cat([torch.stack([nodes, nodes]), edges, edges.flip(0)], dim=1)
    structure = attach(example.structure, {"i j": (index,)})
    first, second = structure["i j"]
    is_diagonal = (first == second)[:, None]  # (pairs, 1)
    of_nodes = _features(example, "i")[first] * is_diagonal
    of_edges = _features(example, _EDGES)
    of_no_edge = of_edges.new_zeros(1, of_edges.shape[1])  # row -1
    of_edges = torch.cat([of_edges, of_no_edge])[edge_rows(example.structure, first, second)]
    columns = [is_diagonal.float(), (~is_diagonal).float(), of_nodes, of_edges]
    return _with(example, structure, {"i j": torch.cat(columns, dim=1)})


def pairs(example: Example, *, limit: int = lifting.LIMIT) -> Example:
    """Add `i j` with all pairs of nodes, if there are at most `limit`.

    The features are: is diagonal, is edge.
    """
    _edges(example, "pairs")
    structure = lifting.tuples(example.structure, 2, limit=limit)
    first, second = structure["i j"]
    return _with(example, structure, {"i j": torch.cat(_flags(example, [(first, second)]), dim=1)})


def hops(example: Example, *, k: int = 2, limit: int = lifting.LIMIT) -> Example:
    """Add `near=i j`: every node with itself, and all pairs at most k steps apart, both ways.

    There may be at most `limit` pairs. The features are the distance one-hot, a column for each
    from 0 to k.
    """
    _edges(example, "hops")
    k = as_integer("the lift 'hops'", "k", k, 1)
    nodes = torch.arange(example.structure.total_nodes)
    by_distance = [torch.stack([nodes, nodes])]
    for distance in range(1, k + 1):
        lifted = lifting.khop(
            example.structure, distance, exact=True, name="shell", edges=_EDGES, limit=limit
        )
        shell = lifted["shell"]
        by_distance.append(torch.cat([shell, shell.flip(0)], dim=1))
    structure = attach(example.structure, {"near=i j": (torch.cat(by_distance, dim=1),)})
    total = max(example.structure.total_nodes, 1)
    # `attach` puts pairs into canonical order, so that distances are looked up by the code of a
    # pair.
    codes, order = torch.cat([first * total + second for first, second in by_distance]).sort()
    counts = torch.tensor([one.shape[1] for one in by_distance])
    distances = torch.repeat_interleave(torch.arange(k + 1), counts)[order]
    first, second = structure["near"]
    distance_of_pair = distances[torch.searchsorted(codes, first * total + second)]
    one_hot = torch.nn.functional.one_hot(distance_of_pair, k + 1).float()
    return _with(example, structure, {"near=i j": one_hot})


def distances(example: Example, *, k: int = 4, limit: int = lifting.LIMIT) -> Example:
    """Add `i j` with all pairs of nodes, if there are at most `limit`, by their distance.

    The features are the number of steps between the nodes one-hot: a column for each from 0 to k,
    and a last one for pairs that are farther apart or not connected.
    """
    k = as_integer("the lift 'distances'", "k", k, 1)
    return _one_by_one(example, lambda one: _with_distances(one, k, limit))


def _with_distances(example: Example, k: int, limit: int) -> Example:
    lifted = pairs(example, limit=limit)
    count = example.structure.total_nodes
    is_near = torch.eye(count, dtype=torch.bool)
    steps = torch.full((count, count), k + 1)  # (nodes, nodes)
    steps.fill_diagonal_(0)
    adjacency = _adjacency(example).float()
    for step in range(1, k + 1):
        # One step from the nodes reached last, and not reached before: breadth first from all nodes
        # at once.
        is_reached = (is_near.float() @ adjacency > 0) & (steps == k + 1)
        steps[is_reached] = step
        is_near = is_reached
    first, second = lifted.structure["i j"]
    one_hot = torch.nn.functional.one_hot(steps[first, second], k + 2).float()
    return lifted.replace(features={**lifted.features, "i j": one_hot})


def walks(example: Example, *, steps: int = 8) -> Example:
    r"""Add to the features of nodes how likely a random walk returns.

    With $P$ the matrix of steps to a random neighbour, the columns are the diagonals of $P^1$ to
    $P^{steps}$. A node without neighbours has zeros.
    """
    steps = as_integer("the lift 'walks'", "steps", steps, 1)
    return _one_by_one(example, lambda one: _with_walks(one, steps))


def _with_walks(example: Example, steps: int) -> Example:
    adjacency = _adjacency(example).double()
    step = adjacency / adjacency.sum(1, keepdim=True).clamp(min=1)  # (nodes, nodes)
    walk, columns = step, [step.diagonal()]
    for _ in range(steps - 1):
        walk = walk @ step
        columns.append(walk.diagonal())
    returns = torch.stack(columns, 1).float()  # (nodes, steps)
    both = torch.cat([_features(example, "i"), returns], 1)
    return _with(example, example.structure, {"i": both})


def _adjacency(example: Example) -> Tensor:
    """Return which nodes of a graph an edge joins, as a full matrix."""
    first, second = _edges(example, "distances or walks")
    count = example.structure.total_nodes
    assert_size(8 * count * count, f"a matrix of {count:,} x {count:,} nodes")
    matrix = torch.zeros(count, count, dtype=torch.bool)
    matrix[first, second] = matrix[second, first] = True
    return matrix


def _one_by_one(example: Example, lift: Callable[[Example], Example]) -> Example:
    """Lift every example of a batch alone, as matrices of all nodes are of one graph."""
    if not example.is_batch:
        return lift(example)
    return collate([lift(one) for one in uncollate(example)])


def triples(example: Example, *, features: bool = False) -> Example:
    """Add `i j` as `pairs` does, and `i j k` with all triples.

    The features of triples are a column of ones; with `features`, whether i j, j k and i k are
    edges, and whether i = j, j = k and i = k.
    """
    lifted = pairs(example)
    structure = lifting.tuples(lifted.structure, 3)
    i, j, k = structure["i j k"]
    columns = torch.ones(len(i), 1)
    if features:
        are_equal, are_joined = _flags(example, [(i, j), (j, k), (i, k)])
        columns = torch.cat([are_joined, are_equal], dim=1)
    return _with(lifted, structure, {"i j k": columns})


LIFTS: dict[str, Callable[..., Example]] = {
    "none": lambda example: example,
    "rings": rings,
    "cliques": cliques,
    "matrix": matrix,
    "pairs": pairs,
    "hops": hops,
    "distances": distances,
    "walks": walks,
    "triples": triples,
    "space": space,
}
"""Lifts by name: functions of an example, or a batch, with `i` and `{i j}`, and of options."""


LIFT_OPTIONS = {"cutoff", "features", "k", "limit", "max_size", "steps"}
"""The options of all lifts."""


def register_lift(name: str, lift: Callable[..., Example]) -> None:
    """Register a lift by name, for presets and `incidence train --lift NAME`.

    Args:
        name: The name, without +.
        lift: Called as `lift(example, **options)`, with an example or a batch of examples; returns
            it with more tensors and their features.

    Raises:
        IncidenceError: The name has a +.

    Example:
        >>> def ones(example: Example) -> Example:
        ...     count = example.structure.num_entries("i")
        ...     return example.replace(features={**example.features, "i": torch.ones(count, 1)})
        >>> register_lift("ones", ones)
        >>> lift_all([Example(Structure(2), {})], "ones")[0].features["i"].shape
        torch.Size([2, 1])
        >>> del LIFTS["ones"]
    """
    if "+" in name or not name:
        raise IncidenceError(f"the name of a lift has no +, which joins lifts; got {name!r}.")
    LIFTS[name] = lift
    # Training looks here to tell options of lifts from those of presets.
    LIFT_OPTIONS.update(list(signature(lift).parameters)[1:])


def _options_of(name: str) -> list[str]:
    load_extensions()
    if name not in LIFTS:
        raise IncidenceError(
            f"no lift {name!r}; there are: {', '.join(LIFTS)}, or several, one after the other, as"
            " in 'rings+pairs'."
        )
    return list(signature(LIFTS[name]).parameters)[1:]


def lift_all(examples: Sequence[Example], name: str, **options: Any) -> list[Example]:
    """Lift every example; many small ones at once, which is much faster than one by one.

    Args:
        examples: Graphs, each with edges `{i j}`.
        name: A lift, or several, one after the other: `rings+pairs`.
        options: Options of these lifts.

    Raises:
        IncidenceError: There is no such lift, it has no such option, or an example has no edges `{i
            j}`.
        TooLargeError: More entries would be added than `limit` allows.

    Example:
        >>> triangle = Structure(3, {"{i j}": [[0, 0, 1], [1, 2, 2]]})
        >>> triangle = Example(triangle, {"i": torch.ones(3, 1)})
        >>> [lifted] = lift_all([triangle], "rings")
        >>> lifted.structure, lifted.features["ring={i ...}"]
        (Structure(num_nodes=3, '{i j}': 3 entries, 'ring={i ...}': 1 entry), tensor([[1., 0., 0.,
        0.]]))
    """
    takes = {one: _options_of(one) for one in name.split("+")}
    known = [option for some in takes.values() for option in some]
    unknown = next((option for option in options if option not in known), None)
    if unknown is not None:
        has = ", ".join(known) or "no options"
        raise IncidenceError(f"the lift {name!r} has no option {unknown!r}: it takes {has}.")
    lifted = list(examples)
    for one, names in takes.items():
        if one != "none":
            given = {option: options[option] for option in names if option in options}
            batches = (LIFTS[one](collate(part), **given) for part in chunks_of(lifted))
            lifted = [example for batch in batches for example in uncollate(batch)]
    return lifted


def chunks_of(examples: Sequence[Example]) -> Iterator[list[Example]]:
    """Yield the examples in parts that are small enough to be lifted together."""
    part: list[Example] = []
    size = 0
    for example in examples:
        # The largest lift makes triples; a bound for all lifts is simpler than one for each.
        num_triples = example.structure.total_nodes**3
        if part and size + num_triples > _TOGETHER:
            yield part
            part, size = [], 0
        part.append(example)
        size += num_triples
    if part:
        yield part


def _with(example: Example, structure: Structure, features: Mapping[str, Tensor]) -> Example:
    return example.replace(structure=structure, features={**example.features, **features})


def _edges(example: Example, who: str) -> Tensor:
    if Pattern(_EDGES) not in example.structure.patterns:
        have = ", ".join(f"`{p}`" for p in example.structure.patterns) or "none"
        raise IncidenceError(
            f"the lift {who!r} reads edges `{_EDGES}`; the example has the tensors: {have}."
        )
    edges: Tensor = example.structure[_EDGES]
    return edges


def edge_rows(structure: Structure, first: Tensor, second: Tensor) -> Tensor:
    """Return the rows of `{i j}` between nodes, -1 where there is none.

    Unlike `Structure.locate`, it may be asked about a node and itself.
    """
    edges, total = structure[_EDGES], max(structure.total_nodes, 1)
    known, queried = (
        torch.minimum(*ends) * total + torch.maximum(*ends)
        for ends in ((edges[0], edges[1]), (first, second))
    )
    if not len(known):
        return torch.full_like(queried, -1)
    order = None
    if bool((known[1:] < known[:-1]).any()):  # edges in the preferred order are sorted
        known, order = known.sort()
    place = torch.searchsorted(known, queried).clamp_(max=len(known) - 1)
    row = place if order is None else order[place]
    return torch.where(known[place] == queried, row, -1)


def _features(example: Example, text: str) -> Tensor:
    """Return the features of a tensor under any spelling; without channels if it has none."""
    structure = example.structure
    for key, x in example.features.items():
        if structure.resolve(key) == structure.resolve(text):
            return x
    return torch.zeros(structure.num_entries(text), 0)


def _flags(example: Example, sides: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Return columns of 0 and 1 for pairs of nodes: are they equal, and does an edge join them."""
    are_equal = torch.stack([u == v for u, v in sides], dim=1)
    are_joined = torch.stack([edge_rows(example.structure, u, v) >= 0 for u, v in sides], dim=1)
    return are_equal.float(), are_joined.float()
