"""Finer complexes of the same shape: subdivisions of graphs, surfaces and other complexes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.assembly import assemble, assert_structure, attach, face_text
from incidence.geometry.complexes import close_downwards
from incidence.geometry.node_lists import as_integer
from incidence.harmonic.boundaries import is_lone_face
from incidence.structure import Structure
from incidence.structure.ragged import ranges

__all__ = ["subdivide"]

_Cut = tuple[list[Tensor], list[Tensor]]
"""The nodes of new faces, (faces, size) for each size; and of every new node the nodes of the face
that it lies in, in the order of their numbers.
"""


def subdivide(structure: Structure, how: str = "barycentric", rounds: int = 1) -> Structure:
    r"""Return a finer complex of the same shape, with the same tensors.

    Old nodes keep their numbers, new nodes follow. Holes, orientability and the kind of a surface
    stay what they are.

    Args:
        structure: A complex, or a batch: its tensors are faces such as `{i j}`, `{i j k}` or
            `<i j k>`. Sides of faces that are not listed are added.
        how: `barycentric`: a new node in every face of two nodes or more. The new faces are the
            chains of old faces, each inside the next, so a triangle becomes six.
            `stellar`: a new node in every face of the largest size, joined to its sides, so a
            triangle becomes three.
            `edge`: a new node in every edge, so an edge becomes two, and a triangle four.
        rounds: How often it is subdivided.

    Raises:
        IncidenceError: The structure is no complex, there is no such way, or `edge` meets a face of
            more than three nodes.
        TooLargeError: There are too many faces to list.

    Example:
        >>> from incidence.geometry import simplicial_complex
        >>> sphere = simplicial_complex([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]])
        >>> subdivide(sphere)
        Structure(num_nodes=14, '{i j}': 36 entries, '{i j k}': 24 entries)
        >>> subdivide(sphere, "edge", rounds=2)
        Structure(num_nodes=34, '{i j}': 96 entries, '{i j k}': 64 entries)
    """
    assert_structure("subdivide", structure)
    if how not in _CUTS:
        raise IncidenceError(f"subdivide: how is one of {', '.join(_CUTS)}; got {how!r}.")
    _assert_complex(structure)
    for _ in range(as_integer("subdivide", "rounds", rounds, 0)):
        structure = _subdivided(structure, _CUTS[how])
    return structure


def _assert_complex(structure: Structure) -> None:
    for pattern in structure.patterns:
        if not is_lone_face(pattern):
            raise IncidenceError(
                f"subdivide takes complexes, whose tensors are sets of nodes such as `{{i j}}` or"
                f" `<i j k>`; `{pattern}` is none. Leave it out."
            )
    if len(structure.counts) > 1:
        raise IncidenceError(
            f"subdivide takes complexes of one sort of nodes; got {', '.join(structure.counts)}."
        )


def _subdivided(structure: Structure, cut: Callable[[Structure], _Cut]) -> Structure:
    [sort] = structure.counts
    total = structure.total_nodes
    top = max((len(p.letters) for p in structure.patterns), default=1)
    given: dict[int, list[Tensor]] = {}
    for pattern in structure.patterns:
        nodes = structure[pattern].T.sort(dim=1)[0]  # (faces, size)
        given.setdefault(nodes.shape[1], []).append(nodes)
    listed = [nodes.flatten() for nodes in given.pop(1, [])]  # as entries of `i`
    faces = close_downwards({size: torch.cat(some) for size, some in given.items()}, top, total)
    index = {face_text(size): nodes.T.contiguous() for size, nodes in faces.items()}
    new_faces, carriers = cut(assemble(total, index))
    # nodes of one structure have numbers in a row, the old ones first
    old_home = structure.only([]).batch(f"i:{sort}")  # of all nodes, even if `i` lists some
    # A new node is in the structure of any node of its face.
    home = torch.cat([old_home, *(old_home[nodes[:, 0]] for nodes in carriers)])
    order = home.sort(stable=True)[1]
    number = torch.empty_like(order)
    number[order] = torch.arange(len(order), device=order.device)  # the new number of every node
    by_size = {nodes.shape[1]: number[nodes].sort(dim=1)[0] for nodes in new_faces}
    finer = close_downwards(by_size, top, len(order))
    # nodes of a tensor `i`: the listed ones, and all that lie in faces
    ends = [*(number[nodes] for nodes in listed), *(nodes.flatten() for nodes in by_size.values())]
    if listed:
        finer[1] = torch.cat(ends).unique()[:, None]
    node_ptr = ranges(torch.bincount(home, minlength=structure.num_structures))
    nodes_alone = Structure._of({sort: node_ptr}, {}, {})
    return attach(nodes_alone, {str(p): _entries(finer, p) for p in structure.patterns})


def _entries(faces: dict[int, Tensor], pattern: Pattern) -> Tensor:
    return faces[len(pattern.letters)].T.contiguous()


def _by_size(whole: Structure) -> list[Tensor]:
    """The faces of a complex by size, from two nodes on, (faces, size) each."""
    return [whole[pattern].T for pattern in whole.patterns]


def _barycentric(whole: Structure) -> _Cut:
    faces = _by_size(whole)
    first = [0, whole.total_nodes]  # the first number of the nodes in faces of each size
    for nodes in faces[:-1]:
        first.append(first[-1] + len(nodes))
    chains = []
    for nodes in faces:
        size = nodes.shape[1]
        # A chain of faces adds the nodes of the largest one by one, in some order.
        for places in permutations(range(size)):
            columns = [nodes[:, places[0]]]
            for length in range(2, size + 1):
                inner = nodes[:, sorted(places[:length])].T
                columns.append(first[length - 1] + whole.locate(face_text(length), inner))
            chains.append(torch.stack(columns, dim=1))
    return _joined(chains), faces


def _stellar(whole: Structure) -> _Cut:
    *smaller, largest = _by_size(whole) or [torch.zeros(0, 2, dtype=torch.long)]
    size = largest.shape[1]
    centre = torch.arange(len(largest), device=largest.device)[:, None] + whole.total_nodes
    cones = [
        torch.cat([largest[:, list(side)], centre], dim=1)
        for side in combinations(range(size), size - 1)
    ]
    return _joined([*smaller, *cones]), [largest]


def _edge(whole: Structure) -> _Cut:
    edges, triangles, *larger = [*_by_size(whole), *_NO_FACES][:3]
    if larger and len(larger[0]) and larger[0].shape[1] > 3:
        raise IncidenceError(
            "subdivide: `edge` cuts edges and triangles, and there are faces of"
            f" {larger[0].shape[1]} nodes: use 'barycentric' or 'stellar'."
        )
    middles = torch.arange(len(edges), device=edges.device) + whole.total_nodes
    halves = [torch.stack([edges[:, end], middles], dim=1) for end in range(2)]
    if not len(triangles):
        return _joined(halves), [edges]
    # the middle of each side, named by the corner that the side lacks
    without = [[1, 2], [0, 2], [0, 1]]
    middle = [
        whole.total_nodes + whole.locate(face_text(2), triangles[:, ends].T) for ends in without
    ]
    corners = [
        torch.stack([triangles[:, k], *(middle[other] for other in ends)], dim=1)
        for k, ends in enumerate(without)
    ]
    return _joined([*halves, *corners, torch.stack(middle, dim=1)]), [edges]


_NO_FACES = [torch.zeros(0, size, dtype=torch.long) for size in (2, 3)]

_CUTS: dict[str, Callable[[Structure], _Cut]] = {
    "barycentric": _barycentric,
    "stellar": _stellar,
    "edge": _edge,
}
"""The ways to subdivide."""


def _joined(faces: list[Tensor]) -> list[Tensor]:
    """Faces of one size in one tensor each."""
    sizes = dict.fromkeys(nodes.shape[1] for nodes in faces)
    return [torch.cat([one for one in faces if one.shape[1] == size]) for size in sizes]
