"""The lift `space`: contacts and angles between points, with their features."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.assembly import attach
from incidence.structure.example import Example
from incidence.structure.ragged import pairs as pairs_of_equal
from incidence.structure.structure import Structure

__all__ = ["space"]

_EDGES = "{i j}"
_NUM_WAVES = 12  # Gaussians of the length of a contact


def space(example: Example, *, cutoff: float = 5.0) -> Example:
    """Add `contact={i j}`, all pairs within the cutoff, and `angle=i {j k}`.

    An angle is a node with two of its neighbours by edges. Features of a contact are Gaussians of
    its length, smoothly 0 at the cutoff, and its inverse. Features of an angle are its cosine, and
    the product of the lengths of its sides. Edges get their length as a further feature. No feature
    changes when the points are turned, mirrored or shifted together.

    Args:
        example: With coordinates `pos=i` and edges `{i j}`; one, or a batch.
        cutoff: In the units of the coordinates.

    Raises:
        IncidenceError: There are no coordinates, or all of an example are the same, or there are no
            edges.
    """
    features = example.features
    if "pos=i" not in features:
        raise IncidenceError("the lift 'space' needs coordinates: features of `pos=i`.")
    if Pattern(_EDGES) not in example.structure.patterns:
        raise IncidenceError(
            "the lift 'space' reads edges `{i j}`, and there are none: give bonds, or find them by"
            " distance."
        )
    points, edges = features["pos=i"].double(), example.structure[_EDGES]
    _assert_in_space(points, example.structure)
    index = {
        "contact={i j}": (_contacts(points, example.structure, cutoff),),
        "angle=i {j k}": (_angles(edges),),
    }
    structure = attach(example.structure, index)
    contacts, angles = structure["contact={i j}"], structure["angle=i {j k}"]
    near, far = (points[angles[k]] - points[angles[0]] for k in (1, 2))  # (angles, 3) each
    sides = near.norm(dim=1) * far.norm(dim=1)
    cosines = (near * far).sum(1) / sides.clamp(min=1e-9)
    lengths = _lengths(points, edges)[:, None]  # (edges, 1)
    of_edges = features.get("{i j}", lengths[:, :0]).double()
    new = {
        "{i j}": torch.cat([of_edges, lengths], dim=1),
        "contact={i j}": _waves(_lengths(points, contacts), cutoff),
        "angle=i {j k}": torch.stack([cosines, sides], dim=1),
    }
    both = {**features, **{key: x.float() for key, x in new.items()}}
    return example.replace(structure=structure, features=both)


def _assert_in_space(points: Tensor, structure: Structure) -> None:
    sizes = structure.node_ptr("node").diff()
    # the first node of its example, by node
    first = torch.repeat_interleave(structure.node_ptr("node")[:-1], sizes)
    differs = torch.zeros(len(sizes), dtype=torch.bool)
    differs[structure.batch("i")[(points != points[first]).any(1)]] = True
    if bool(((sizes > 1) & ~differs).any()):
        raise IncidenceError(
            "the lift 'space' needs coordinates, and all nodes of an example are at one place, as"
            " when it was read from SMILES: give files with coordinates, or another model."
        )
    is_flat = points.shape[1] == 2 or not bool(points[:, 2:].any())
    if is_flat and len(sizes) > 1 and int(sizes.max()) > 3:  # a single molecule may be flat
        warnings.warn(
            "all coordinates lie in the plane z = 0: drawings of molecules say nothing about"
            " distances in space.",
            stacklevel=3,
        )


def _lengths(points: Tensor, pairs: Tensor) -> Tensor:
    return (points[pairs[0]] - points[pairs[1]]).square().sum(1).sqrt()


def _waves(lengths: Tensor, cutoff: float) -> Tensor:
    """Return Gaussians of lengths, smoothly 0 at the cutoff, and inverse lengths."""
    centres = torch.linspace(0.5, cutoff, _NUM_WAVES, dtype=lengths.dtype)
    width = centres[1] - centres[0]
    bumps = torch.exp(-(((lengths[:, None] - centres) / width) ** 2))  # (contacts, waves)
    # A contact at the cutoff appears without a jump when points move.
    fade = (1 + torch.cos(torch.pi * lengths / cutoff)) / 2
    return torch.cat([bumps * fade[:, None], 1 / lengths.clamp(min=0.5)[:, None]], dim=1)


def _contacts(points: Tensor, structure: Structure, cutoff: float) -> Tensor:
    """Return all pairs of nodes of one structure that are near each other, [2, contacts]."""
    contacts = []
    for start, stop in structure.node_ptr("node").unfold(0, 2, 1).tolist():
        pairs = torch.triu_indices(stop - start, stop - start, 1) + start  # (2, pairs)
        contacts.append(pairs[:, _lengths(points, pairs) <= cutoff])
    return torch.cat(contacts, dim=1)


def _angles(edges: Tensor) -> Tensor:
    """Return every node i with every two of its neighbours j < k, [3, angles]."""
    centre, other = torch.cat([edges, edges.flip(0)], dim=1)  # (2 edges,) each
    one, two = pairs_of_equal(centre, centre)
    is_first = other[one] < other[two]  # each pair comes both ways round
    return torch.stack([centre[one], other[one], other[two]])[:, is_first]
