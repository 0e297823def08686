"""Lifts: what is added to graphs before a network sees them, by name, with features for every new tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.space import space
from incidence.errors import IncidenceError
from incidence.geometry import lifting
from incidence.geometry.assembly import attach, face_text
from incidence.structure.example import Example
from incidence.structure.examples import collate, uncollate
from incidence.structure.structure import Structure

__all__ = ["LIFTS", "LIFT_OPTIONS", "edge_rows", "lift_all"]

_EDGES = "{i j}"
_TOGETHER = 2**22  # triples of nodes that are lifted at once: more takes memory and is no faster


def none(example: Example) -> Example:
    """The example as it is."""
    return example


def rings(example: Example, *, max_size: int = 6) -> Example:
    """Adds cycles without chords, `ring={i ...}`, with their size one-hot: a column for each from 3 to `max_size`."""
    structure = lifting.rings(example.structure, max_length=max_size)
    return _with(example, structure, {"ring={i ...}": _sizes(structure, "ring", max_size)})


def _sizes(structure: Structure, text: str, largest: int) -> Tensor:
    members = structure.index(text)[1]
    sizes = torch.bincount(members[1], minlength=structure.num_entries(text))
    return torch.nn.functional.one_hot(sizes - 3, largest - 2).float()


def cliques(example: Example, *, max_size: int = 3) -> Example:
    """Adds cliques of 3 to `max_size` nodes, `{i j k}`, ..., with a column of ones."""
    structure = lifting.cliques(example.structure, max_size=max_size)
    texts = [face_text(size) for size in range(3, max_size + 1)]
    return _with(example, structure, {text: torch.ones(structure.num_entries(text), 1) for text in texts})


def matrix(example: Example) -> Example:
    """Adds `i j` with the diagonal and both directions of every edge.

    Features: is diagonal, is edge, those of the node (on the diagonal), those of the edge (off it).
    """
    edges = _edges(example, "matrix")
    nodes = torch.arange(example.structure.total_nodes)
    structure = attach(example.structure, {"i j": (torch.cat([torch.stack([nodes, nodes]), edges, edges.flip(0)], dim=1),)})
    first, second = structure["i j"]
    is_diagonal = (first == second)[:, None]
    row = edge_rows(example.structure, first, second)
    of_nodes = _features(example, "i")[first] * is_diagonal
    of_edges = _features(example, _EDGES)
    of_edges = torch.cat([of_edges, of_edges.new_zeros(1, of_edges.shape[1])])[row]  # the last row, -1, is of no edge
    return _with(example, structure, {"i j": torch.cat([is_diagonal.float(), (~is_diagonal).float(), of_nodes, of_edges], dim=1)})


def pairs(example: Example) -> Example:
    """Adds `i j` with all pairs of nodes. Features: is diagonal, is edge."""
    _edges(example, "pairs")
    structure = lifting.tuples(example.structure, 2)
    first, second = structure["i j"]
    return _with(example, structure, {"i j": torch.cat([_equal([(first, second)]), _joined(example, [(first, second)])], dim=1)})


def triples(example: Example, *, features: bool = False) -> Example:
    """Adds `i j` as `pairs` does, and `i j k` with all triples.

    Features of these: a column of ones. With `features`, whether i j, j k and i k are edges, and whether i = j, j = k and i = k.
    """
    lifted = pairs(example)
    structure = lifting.tuples(lifted.structure, 3)
    i, j, k = structure["i j k"]
    sides = [(i, j), (j, k), (i, k)]
    columns = torch.cat([_joined(example, sides), _equal(sides)], dim=1) if features else torch.ones(len(i), 1)
    return _with(lifted, structure, {"i j k": columns})


LIFTS: dict[str, Callable[..., Example]] = {
    "none": none,
    "rings": rings,
    "cliques": cliques,
    "matrix": matrix,
    "pairs": pairs,
    "triples": triples,
    "space": space,
}
"""From a name to a function of an example, or a batch, with `i` and `{i j}`, and options."""


LIFT_OPTIONS = {key for lift in LIFTS.values() for key in list(signature(lift).parameters)[1:]}
"""The options of all lifts: `max_size`, `features`, `cutoff`."""


def lift_all(examples: Sequence[Example], name: str, **options: Any) -> list[Example]:
    """Lifts every example; many small ones at once, which is much faster than one after the other.

    Raises:
        IncidenceError: There is no such lift, it has no such option, or an example has no edges `{i j}`.

    Example:
        >>> triangle = Example(Structure(3, {"{i j}": [[0, 0, 1], [1, 2, 2]]}), {"i": torch.ones(3, 1)})
        >>> [lifted] = lift_all([triangle], "rings")
        >>> lifted.structure, lifted.features["ring={i ...}"]
        (Structure(num_nodes=3, '{i j}': 3 entries, 'ring={i ...}': 1 entry), tensor([[1., 0., 0., 0.]]))
    """
    if name not in LIFTS:
        raise IncidenceError(f"no lift {name!r}; there are: {', '.join(LIFTS)}.")
    known = list(signature(LIFTS[name]).parameters)[1:]
    unknown = next((key for key in options if key not in known), None)
    if unknown is not None:
        takes = f"takes {', '.join(known)}" if known else "takes no options"
        raise IncidenceError(f"the lift {name!r} has no option {unknown!r}: it {takes}.")
    if name == "none":
        return list(examples)
    return [lifted for part in _chunks(examples) for lifted in uncollate(LIFTS[name](collate(part), **options))]


def _chunks(examples: Sequence[Example]) -> Iterator[list[Example]]:
    part: list[Example] = []
    size = 0
    for example in examples:
        own = example.structure.total_nodes**3
        if part and size + own > _TOGETHER:
            yield part
            part, size = [], 0
        part.append(example)
        size += own
    if part:
        yield part


def _with(example: Example, structure: Structure, features: dict[str, Tensor]) -> Example:
    return example.replace(structure=structure, features={**example.features, **features})


def _edges(example: Example, who: str) -> Tensor:
    if Pattern(_EDGES) not in example.structure.patterns:
        have = ", ".join(f"`{p}`" for p in example.structure.patterns) or "none"
        raise IncidenceError(f"the lift {who!r} reads edges `{_EDGES}`; the example has the tensors: {have}.")
    edges: Tensor = example.structure[_EDGES]
    return edges


def edge_rows(structure: Structure, first: Tensor, second: Tensor) -> Tensor:
    """The rows of `{i j}` between nodes, -1 where there is none; several times as fast as `Structure.locate`, which sorts what is asked."""
    edges, total = structure[_EDGES], max(structure.total_nodes, 1)
    known, asked = (torch.minimum(*ends) * total + torch.maximum(*ends) for ends in ((edges[0], edges[1]), (first, second)))
    if not len(known):
        return torch.full_like(asked, -1)
    order = None
    if bool((known[1:] < known[:-1]).any()):  # in the preferred order they are sorted
        known, order = known.sort()
    place = torch.searchsorted(known, asked).clamp_(max=len(known) - 1)
    return torch.where(known[place] == asked, place if order is None else order[place], -1)


def _features(example: Example, text: str) -> Tensor:
    """The features of a tensor under any spelling; without channels if it has none."""
    wanted = example.structure.resolve(text)
    empty = torch.zeros(example.structure.num_entries(text), 0)
    return next((x for key, x in example.features.items() if example.structure.resolve(key) == wanted), empty)


def _equal(sides: list[tuple[Tensor, Tensor]]) -> Tensor:
    """A column of 0 and 1 for each pair of nodes: whether they are equal."""
    return torch.stack([(u == v).float() for u, v in sides], dim=1)


def _joined(example: Example, sides: list[tuple[Tensor, Tensor]]) -> Tensor:
    """A column of 0 and 1 for each pair of nodes: whether an edge joins them."""
    return torch.stack([(edge_rows(example.structure, u, v) >= 0).float() for u, v in sides], dim=1)
