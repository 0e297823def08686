"""Lifts: what is added to graphs before a network sees them, by name, with features for every new tensor."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, shown
from incidence.geometry import lifting
from incidence.geometry.assembly import attach, face_text
from incidence.geometry.node_lists import as_integer
from incidence.limits import assert_size
from incidence.structure.example import Example
from incidence.structure.examples import collate, uncollate
from incidence.structure.ragged import pairs as pairs_of_equal
from incidence.structure.structure import Structure

__all__ = ["LIFTS", "LIFT_OPTIONS", "edge_rows", "lift_all"]

_EDGES = "{i j}"
_NUM_WAVES = 12  # Gaussians of the length of a contact
_TOGETHER = 2**22  # triples of nodes that are lifted at once: more takes memory and is no faster


def rings(example: Example, *, max_size: int = 6) -> Example:
    """Adds cycles without chords, `ring={i ...}`, with their size one-hot: a column for each from 3 to `max_size`."""
    structure = lifting.rings(example.structure, max_length=max_size)
    assert_size(
        4 * structure.num_entries("ring") * max_size,
        f"a column for every size of rings up to max_size={shown(max_size)}",
    )
    sizes = torch.bincount(structure.index("ring")[1][1], minlength=structure.num_entries("ring"))
    return _with(
        example,
        structure,
        {"ring={i ...}": torch.nn.functional.one_hot(sizes - 3, max_size - 2).float()},
    )


def cliques(example: Example, *, max_size: int = 3) -> Example:
    """Adds cliques of 3 to `max_size` nodes, `{i j k}`, ..., with a column of ones."""
    structure = lifting.cliques(example.structure, max_size=max_size)
    texts = [face_text(size) for size in range(3, max_size + 1)]
    return _with(
        example, structure, {text: torch.ones(structure.num_entries(text), 1) for text in texts}
    )


def matrix(example: Example) -> Example:
    """Adds `i j` with the diagonal and both directions of every edge.

    Features: is diagonal, is edge, those of the node (on the diagonal), those of the edge (off it).
    """
    edges = _edges(example, "matrix")
    nodes = torch.arange(example.structure.total_nodes)
    structure = attach(
        example.structure,
        {"i j": (torch.cat([torch.stack([nodes, nodes]), edges, edges.flip(0)], dim=1),)},
    )
    first, second = structure["i j"]
    is_diagonal = (first == second)[:, None]
    row = edge_rows(example.structure, first, second)
    of_nodes = _features(example, "i")[first] * is_diagonal
    of_edges = _features(example, _EDGES)
    of_edges = torch.cat([of_edges, of_edges.new_zeros(1, of_edges.shape[1])])[
        row
    ]  # the last row, -1, is of no edge
    return _with(
        example,
        structure,
        {
            "i j": torch.cat(
                [is_diagonal.float(), (~is_diagonal).float(), of_nodes, of_edges], dim=1
            )
        },
    )


def pairs(example: Example, *, limit: int = lifting.LIMIT) -> Example:
    """Adds `i j` with all pairs of nodes, if they are no more than `limit`. Features: is diagonal, is edge."""
    _edges(example, "pairs")
    structure = lifting.tuples(example.structure, 2, limit=limit)
    first, second = structure["i j"]
    return _with(example, structure, {"i j": torch.cat(_flags(example, [(first, second)]), dim=1)})


def hops(example: Example, *, k: int = 2, limit: int = lifting.LIMIT) -> Example:
    """Adds `near=i j`: every node with itself, and all pairs at most k steps apart, both ways, if they are no more than `limit`.

    Features: the distance one-hot, a column for each from 0 to k.
    """
    _edges(example, "hops")
    k = as_integer("the lift 'hops'", "k", k, 1)
    steps = range(1, k + 1)
    nodes = torch.arange(example.structure.total_nodes)
    shells = [
        lifting.khop(example.structure, n, exact=True, name="shell", edges=_EDGES, limit=limit)[
            "shell"
        ]
        for n in steps
    ]
    found = [
        torch.stack([nodes, nodes]),
        *(torch.cat([shell, shell.flip(0)], dim=1) for shell in shells),
    ]
    structure = attach(example.structure, {"near=i j": (torch.cat(found, dim=1),)})
    total = max(example.structure.total_nodes, 1)
    known, order = torch.cat([first * total + second for first, second in found]).sort()
    distance = torch.repeat_interleave(
        torch.arange(k + 1), torch.tensor([pairs.shape[1] for pairs in found])
    )[order]
    first, second = structure["near"]
    distance = distance[torch.searchsorted(known, first * total + second)]
    return _with(
        example, structure, {"near=i j": torch.nn.functional.one_hot(distance, k + 1).float()}
    )


def triples(example: Example, *, features: bool = False) -> Example:
    """Adds `i j` as `pairs` does, and `i j k` with all triples.

    Features of these: a column of ones. With `features`, whether i j, j k and i k are edges, and whether i = j, j = k and i = k.
    """
    lifted = pairs(example)
    structure = lifting.tuples(lifted.structure, 3)
    i, j, k = structure["i j k"]
    columns = (
        torch.cat(_flags(example, [(i, j), (j, k), (i, k)])[::-1], dim=1)
        if features
        else torch.ones(len(i), 1)
    )
    return _with(lifted, structure, {"i j k": columns})


def space(example: Example, *, cutoff: float = 5.0) -> Example:
    """Adds `contact={i j}`, all pairs within the cutoff, and `angle=i {j k}`, a node with two of its neighbours by edges.

    Features of a contact: Gaussians of its length, smoothly 0 at the cutoff, and its inverse. Of an angle: its cosine, and the product of
    the lengths of its sides. The length of an edge is added to its features. None of them changes when the points are turned, mirrored or
    shifted together.

    Args:
        example: With coordinates `pos=i` and edges `{i j}`; one, or a batch.
        cutoff: In the units of the coordinates.

    Raises:
        IncidenceError: There are no coordinates, or all of an example are the same, or there are no edges.
    """
    features = example.features
    if "pos=i" not in features:
        raise IncidenceError("the lift 'space' needs coordinates: features of `pos=i`.")
    if Pattern(_EDGES) not in example.structure.patterns:
        raise IncidenceError(
            "the lift 'space' reads edges `{i j}`, and there are none: give bonds, or find them by distance."
        )
    points, edges = features["pos=i"].double(), example.structure[_EDGES]
    _assert_in_space(points, example.structure)
    lengths = _lengths(points, edges)[:, None]
    contacts, angles = _contacts(points, example.structure, cutoff), _angles(edges)
    structure = attach(
        example.structure, {"contact={i j}": (contacts,), "angle=i {j k}": (angles,)}
    )
    contacts, angles = structure["contact={i j}"], structure["angle=i {j k}"]
    near, far = (points[angles[k]] - points[angles[0]] for k in (1, 2))
    sides = near.norm(dim=1) * far.norm(dim=1)
    cosines = (near * far).sum(1) / sides.clamp(min=1e-9)
    new = {
        "{i j}": torch.cat([features.get("{i j}", lengths[:, :0]).double(), lengths], dim=1),
        "contact={i j}": _waves(_lengths(points, contacts), cutoff),
        "angle=i {j k}": torch.stack([cosines, sides], dim=1),
    }
    return example.replace(
        structure=structure, features={**features, **{key: x.float() for key, x in new.items()}}
    )


def _assert_in_space(points: Tensor, structure: Structure) -> None:
    sizes = structure.node_ptr("node").diff()
    first = torch.repeat_interleave(structure.node_ptr("node")[:-1], sizes)
    differs = torch.zeros(len(sizes), dtype=torch.bool)
    differs[structure.batch("i")[(points != points[first]).any(1)]] = True
    if bool(((sizes > 1) & ~differs).any()):
        raise IncidenceError(
            "the lift 'space' needs coordinates, and all nodes of an example are at one place, as when it was read from SMILES: give "
            "files with coordinates, or another model."
        )
    is_drawing = points.shape[1] == 2 or not bool(points[:, 2:].any())
    if is_drawing and len(sizes) > 1 and int(sizes.max()) > 3:  # one alone may well be flat
        warnings.warn(
            "all coordinates lie in the plane z = 0: drawings of molecules say nothing about distances in space.",
            stacklevel=3,
        )


def _lengths(points: Tensor, pairs: Tensor) -> Tensor:
    return (points[pairs[0]] - points[pairs[1]]).square().sum(1).sqrt()


def _waves(lengths: Tensor, cutoff: float) -> Tensor:
    centres = torch.linspace(0.5, cutoff, _NUM_WAVES, dtype=lengths.dtype)
    bumps = torch.exp(-(((lengths[:, None] - centres) / (centres[1] - centres[0])) ** 2))
    fade = (1 + torch.cos(torch.pi * lengths / cutoff)) / 2
    return torch.cat([bumps * fade[:, None], 1 / lengths.clamp(min=0.5)[:, None]], dim=1)


def _contacts(points: Tensor, structure: Structure, cutoff: float) -> Tensor:
    """All pairs of nodes of one structure that are near each other."""
    found = []
    for start, stop in structure.node_ptr("node").unfold(0, 2, 1).tolist():
        pairs = torch.triu_indices(stop - start, stop - start, 1) + start
        found.append(pairs[:, _lengths(points, pairs) <= cutoff])
    return torch.cat(found, dim=1)


def _angles(edges: Tensor) -> Tensor:
    """Every node with every two of its neighbours: rows i, j, k with j < k."""
    centre, other = torch.cat([edges, edges.flip(0)], dim=1)
    one, two = pairs_of_equal(centre, centre)
    is_kept = other[one] < other[two]
    return torch.stack([centre[one], other[one], other[two]])[:, is_kept]


LIFTS: dict[str, Callable[..., Example]] = {
    "none": lambda example: example,
    "rings": rings,
    "cliques": cliques,
    "matrix": matrix,
    "pairs": pairs,
    "hops": hops,
    "triples": triples,
    "space": space,
}
"""From a name to a function of an example, or a batch, with `i` and `{i j}`, and options."""


LIFT_OPTIONS = {key for lift in LIFTS.values() for key in list(signature(lift).parameters)[1:]}
"""The options of all lifts: `max_size`, `limit`, `k`, `features`, `cutoff`."""


def lift_all(examples: Sequence[Example], name: str, **options: Any) -> list[Example]:
    """Lifts every example; many small ones at once, which is much faster than one after the other.

    Args:
        examples: Graphs, each with edges `{i j}`.
        name: A lift, or several, one after the other: `rings+pairs`.
        options: Of these lifts.

    Raises:
        IncidenceError: There is no such lift, it has no such option, or an example has no edges `{i j}`.
        TooLargeError: More entries would be added than `limit` says.

    Example:
        >>> triangle = Example(Structure(3, {"{i j}": [[0, 0, 1], [1, 2, 2]]}), {"i": torch.ones(3, 1)})
        >>> [lifted] = lift_all([triangle], "rings")
        >>> lifted.structure, lifted.features["ring={i ...}"]
        (Structure(num_nodes=3, '{i j}': 3 entries, 'ring={i ...}': 1 entry), tensor([[1., 0., 0., 0.]]))
    """
    names = name.split("+")
    options_of = {one: list(signature(_lift(one)).parameters)[1:] for one in names}
    unknown = next(
        (key for key in options if not any(key in known for known in options_of.values())), None
    )
    if unknown is not None:
        known = [key for keys in options_of.values() for key in keys]
        takes = f"takes {', '.join(known)}" if known else "takes no options"
        raise IncidenceError(f"the lift {name!r} has no option {unknown!r}: it {takes}.")
    lifted = list(examples)
    for one in names:
        own = {key: value for key, value in options.items() if key in options_of[one]}
        lifted = (
            lifted
            if one == "none"
            else [
                e for part in _chunks(lifted) for e in uncollate(LIFTS[one](collate(part), **own))
            ]
        )
    return lifted


def _lift(name: str) -> Callable[..., Example]:
    if name not in LIFTS:
        raise IncidenceError(
            f"no lift {name!r}; there are: {', '.join(LIFTS)}, or several, one after the other, as in 'rings+pairs'."
        )
    return LIFTS[name]


def _chunks(examples: Sequence[Example]) -> Iterator[list[Example]]:
    part: list[Example] = []
    size = 0
    for example in examples:
        num_triples = example.structure.total_nodes**3
        if part and size + num_triples > _TOGETHER:
            yield part
            part, size = [], 0
        part.append(example)
        size += num_triples
    if part:
        yield part


def _with(example: Example, structure: Structure, features: dict[str, Tensor]) -> Example:
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
    """The rows of `{i j}` between nodes, -1 where there is none; unlike `Structure.locate` it may be asked about a node and itself."""
    edges, total = structure[_EDGES], max(structure.total_nodes, 1)
    known, asked = (
        torch.minimum(*ends) * total + torch.maximum(*ends)
        for ends in ((edges[0], edges[1]), (first, second))
    )
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
    return next(
        (x for key, x in example.features.items() if example.structure.resolve(key) == wanted),
        empty,
    )


def _flags(example: Example, sides: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Columns of 0 and 1 for pairs of nodes: whether they are equal, and whether an edge joins them."""
    equal, joined = (
        [u == v for u, v in sides],
        [edge_rows(example.structure, u, v) >= 0 for u, v in sides],
    )
    return torch.stack(equal, dim=1).float(), torch.stack(joined, dim=1).float()
