"""Molecules, and other points, in space: distances and angles, which stay when everything moves."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.assembly import attach
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = ["space"]

_CENTRES = 12


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
    if Pattern("{i j}") not in example.structure.patterns:
        raise IncidenceError("the lift 'space' reads edges `{i j}`, and there are none: give bonds, or find them by distance.")
    points, edges = features["pos=i"].double(), example.structure["{i j}"]
    _assert_in_space(points, example.structure)
    lengths = _lengths(points, edges)[:, None]
    contacts, angles = _contacts(points, example.structure, cutoff), _angles(edges, len(points))
    structure = attach(example.structure, {"contact={i j}": (contacts,), "angle=i {j k}": (angles,)})
    contacts, angles = structure["contact={i j}"], structure["angle=i {j k}"]
    near, far = (points[angles[k]] - points[angles[0]] for k in (1, 2))
    sides = near.norm(dim=1) * far.norm(dim=1)
    cosines = (near * far).sum(1) / sides.clamp(min=1e-9)
    new = {
        "{i j}": torch.cat([features.get("{i j}", lengths[:, :0]).double(), lengths], dim=1),
        "contact={i j}": _waves(_lengths(points, contacts), cutoff),
        "angle=i {j k}": torch.stack([cosines, sides], dim=1),
    }
    return example.replace(structure=structure, features={**features, **{key: x.float() for key, x in new.items()}})


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
        warnings.warn("all coordinates lie in the plane z = 0: drawings of molecules say nothing about distances in space.", stacklevel=3)


def _lengths(points: Tensor, pairs: Tensor) -> Tensor:
    return (points[pairs[0]] - points[pairs[1]]).square().sum(1).sqrt()


def _waves(lengths: Tensor, cutoff: float) -> Tensor:
    centres = torch.linspace(0.5, cutoff, _CENTRES, dtype=lengths.dtype)
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


def _angles(edges: Tensor, num_nodes: int) -> Tensor:
    """Every node with every two of its neighbours: rows i, j, k with j < k."""
    centre, other = torch.cat([edges, edges.flip(0)], dim=1)
    order = (centre * num_nodes + other).argsort()
    centre, other = centre[order], other[order]
    degree = torch.bincount(centre, minlength=num_nodes)
    start = degree.cumsum(0) - degree
    later = degree[centre] - 1 - (torch.arange(len(centre)) - start[centre])  # neighbours of the same node that come after
    first = torch.repeat_interleave(torch.arange(len(centre)), later)
    step = torch.arange(len(first)) - torch.repeat_interleave(later.cumsum(0) - later, later) + 1
    return torch.stack([centre[first], other[first], other[first + step]])
