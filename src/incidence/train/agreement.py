"""Whether neighbours are alike, as far as the labels of the training part tell."""

from __future__ import annotations

import torch

from incidence.algebra.pattern import Pattern
from incidence.data import DataSet
from incidence.structure.incidences import incidences

__all__ = ["agreement"]

_LEAST_PAIRS = 100
"""So few pairs tell a share to a twentieth; fewer tell nothing."""


def agreement(data: DataSet, rows: torch.Tensor) -> float | None:
    r"""How much more often joined nodes have the same label than by chance: 0 if not at all, 1 if they always have.

    Of all pairs of nodes that have an entry in common, those count whose labels are both among the given ones. With a the share of pairs
    with equal labels, and c the sum of the squares of the shares of the classes among their nodes, it is $(a - c) / (1 - c)$.

    Args:
        data: One structure with classes of its nodes.
        rows: The nodes whose labels may be looked at.

    Returns:
        The agreement; None where fewer than 100 pairs are known, or the targets are no classes of nodes.

    Example:
        >>> from incidence.data import load
        >>> from incidence.structure import Example, Structure
        >>> ring = Structure(200, {"{i j}": torch.stack([torch.arange(200), (torch.arange(200) + 1) % 200])})
        >>> halves = Example(ring, {"i": torch.ones(200, 1), "{i j}": torch.ones(200, 1)}, {"i": (torch.arange(200) < 100).long()})
        >>> round(agreement(load(halves), torch.arange(200)), 2)
        0.98
    """
    example, at = data.examples[0], Pattern(data.task.at)
    links = [p for p in map(Pattern, example.features) if p.is_open or len(p.letters) > 1]
    if (
        data.task.kind != "classification"
        or at.name
        or at.is_open
        or len(at.letters) != 1
        or not links
    ):
        return None
    structure, labels = example.structure, data.task.rows(example)
    lists, first = incidences(structure, links), structure._node_offsets[at.sorts[at.letters[0]]]
    known = torch.zeros(structure.total_nodes, len(data.task.names), dtype=torch.float64)
    known[first + rows] = torch.nn.functional.one_hot(labels[rows], len(data.task.names)).double()
    sizes = lists.entry_ptr.diff()
    owners = torch.arange(len(sizes)).repeat_interleave(sizes)
    classes = known.new_zeros(len(sizes), known.shape[1]).index_add_(
        0, owners, known[lists.nodes]
    )  # how many of each class an entry has
    others = classes.sum(1, keepdim=True) - 1  # (entries, 1)
    pairs, same = (classes * others).sum(), (classes * (classes - 1)).sum()  # both ways
    if pairs < 2 * _LEAST_PAIRS:
        return None
    chance = ((classes * others).sum(0) / pairs).square().sum()
    return float((same / pairs - chance) / (1 - chance)) if chance < 1 else 1.0
