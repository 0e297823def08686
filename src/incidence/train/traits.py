"""`Traits`: what a data set is like, measured on its training part: sizes, degrees, targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data import DataSet, Split
from incidence.models.presets import is_position
from incidence.nn.functional import einsum
from incidence.structure.collate import collate
from incidence.structure.example import Example

__all__ = ["Traits", "measure_traits"]

_MOST_LOOKED_AT = 1000  # examples, which tell shares to a few per cent
_MOST_COUNTED = 100  # examples whose triangles are counted
_MOST_PAIRS = 10_000_000  # pairs of neighbours of a node, in these
_EDGES = "{i j}"
_WITH_RINGS = {Pattern("i"), Pattern(_EDGES), Pattern("ring={i ...}")}


@dataclass(frozen=True)
class Traits:
    """What a data set of whole structures is like.

    Attributes:
        kind: The kind of the task.
        tensors: The tensors that have features, without coordinates.
        num_examples: Examples to train on.
        mean_nodes: Mean number of nodes.
        mean_degree: Mean number of edges at a node; 0 without edges.
        most_degree: Largest number of edges at a node.
        has_kinds: Whether nodes or edges have columns of zeros and ones that differ, as kinds of
            atoms and bonds have.
        follows_triangles: Correlation of the targets with the number of triangles; 0 if targets are
            no counts.
        are_counts: Whether all targets are whole numbers from 0, with many different values.
    """

    kind: str
    tensors: tuple[str, ...]
    num_examples: int
    mean_nodes: float
    mean_degree: float = 0.0
    most_degree: int = 0
    has_kinds: bool = False
    follows_triangles: float = 0.0
    are_counts: bool = False

    @property
    def are_graphs(self) -> bool:
        """Whether there are nodes and edges, and nothing else."""
        return set(map(Pattern, self.tensors)) == {Pattern("i"), Pattern(_EDGES)}

    @property
    def have_rings(self) -> bool:
        """Whether there are nodes, edges and rings, as readers of molecules make them."""
        return set(map(Pattern, self.tensors)) == _WITH_RINGS

    @property
    def are_sparse_as_molecules(self) -> bool:
        """Whether nodes have few edges, and nodes or edges have kinds, as in molecules."""
        return self.has_kinds and self.most_degree <= 8 and (1.5 < self.mean_degree < 2.6)


def measure_traits(data: DataSet, split: Split) -> Traits:
    """Return the traits of a data set of whole structures, by its training part.

    Args:
        data: The data set.
        split: The split, whose training part is looked at, up to 1,000 examples of it.
    """
    rows = split.train if len(split.train) else torch.arange(len(data.examples))
    step = max(1, len(rows) // _MOST_LOOKED_AT)
    examples = [data.examples[row] for row in rows[::step].tolist()]
    tensors = tuple(key for key in data.examples[0].features if not is_position(key))
    num_nodes = sum(one.structure.total_nodes for one in examples)
    traits = Traits(data.task.kind, tensors, len(rows), num_nodes / max(len(examples), 1))
    if not (traits.are_graphs or traits.have_rings):
        return traits
    batch = collate(examples)
    degrees = torch.bincount(batch.structure[_EDGES].flatten(), minlength=max(num_nodes, 1))
    are_counts = _are_counts(data, examples)
    return replace(
        traits,
        mean_degree=float(degrees.double().mean()),
        most_degree=int(degrees.max()),
        has_kinds=any(map(_has_kinds, batch.features.values())),
        follows_triangles=_follows_triangles(data, examples) if are_counts else 0.0,
        are_counts=are_counts,
    )


def _has_kinds(x: Tensor) -> bool:
    """Return whether at least two columns of features have zeros and ones, and both."""
    is_binary = ((x == 0) | (x == 1)).all(0)
    varies = (x != x[:1]).any(0)
    return int((is_binary & varies).sum()) >= 2


def _follows_triangles(data: DataSet, examples: Sequence[Example]) -> float:
    """Return the correlation of the targets with the number of triangles, the largest of columns.

    It is 0 if hubs have so many pairs of neighbours that products of edges would be slow.
    """
    batch = collate(examples[:: max(1, len(examples) // _MOST_COUNTED)])
    structure = batch.structure
    degrees = torch.bincount(structure[_EDGES].flatten())
    if int(degrees.square().sum()) > _MOST_PAIRS:
        return 0.0
    ones = torch.ones(structure.num_entries(_EDGES), 1)
    num_triangles = einsum("{i j}, {j k}, {i k} -> ", ones, ones, ones, structure)
    targets = data.task.rows(batch).reshape(len(num_triangles), -1)
    known = ~targets.isnan().any(1)
    columns = torch.cat([num_triangles, targets], dim=1)[known].double().T
    correlations = torch.corrcoef(columns)[0, 1:]  # (targets,)
    return float(correlations.nan_to_num().amax())


def _are_counts(data: DataSet, examples: Sequence[Example]) -> bool:
    """Return whether targets of whole structures are whole numbers from 0, and many."""
    if data.task.kind != "regression" or data.task.at:
        return False
    targets = torch.stack([data.task.rows(one).flatten() for one in examples])
    known = targets[~targets.isnan()]
    are_whole = bool((known == known.round()).all()) and bool((known >= 0).all())
    return are_whole and len(known.unique()) >= 10
