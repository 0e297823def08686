"""Numbers for pairs, such as ratings of movies by users: what a network sees, and the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from incidence.data.completion import KNOWN, QUERY, Completion
from incidence.structure.structure import Structure

__all__ = ["DAMPING", "Means", "Ratings", "damped_means"]

DAMPING, _SWEEPS = 5.0, 4


class Means(NamedTuple):
    """A prediction of numbers that belong to several nodes each.

    Attributes:
        mean: The mean of all numbers.
        biases: By letter, how far the numbers of each node are above what the other nodes predict.
        counts: By letter, how many numbers each node has.
    """

    mean: Tensor
    biases: list[Tensor]
    counts: list[Tensor]

    def expected(self, index: Tensor) -> Tensor:
        """Return the mean and the biases of the nodes of every entry, added up, (entries,)."""
        return self.mean + sum(bias[nodes] for bias, nodes in zip(self.biases, index, strict=True))

    def features(self, index: Tensor) -> Tensor:
        """Return the biases of the nodes of every entry, then the logarithms of their counts.

        The shape is (entries, 2 letters).
        """
        biases = [bias[nodes] for bias, nodes in zip(self.biases, index, strict=True)]
        counts = [count.log1p()[nodes] for count, nodes in zip(self.counts, index, strict=True)]
        return torch.stack([*biases, *counts], dim=1)


def damped_means(
    index: Tensor, values: Tensor, sizes: Sequence[int], damping: float = DAMPING
) -> Means:
    r"""Return a mean, and for every node a bias $b_u = \frac{\sum r}{n_u + \lambda}$.

    The sum is over what the mean and the biases of the other nodes leave of the numbers $r$ of the
    node, and $n_u$ is their count. The biases of one letter after the other are computed anew.

    Args:
        index: The nodes of every entry, [letters, entries].
        values: The number of every entry, (entries,).
        sizes: How many nodes there are, by letter.
        damping: $\lambda$, as if every node had so many more numbers that are as predicted.

    Example:
        >>> pairs = torch.tensor([[0, 0, 1], [0, 1, 1]])
        >>> means = damped_means(pairs, torch.tensor([5.0, 3.0, 1.0]), (2, 2), damping=0.0)
        >>> means.expected(torch.tensor([[1], [0]]))  # user 1 likes movie 0 as user 0 does
        tensor([3.0156])
    """
    mean = values.mean() if len(values) else values.new_zeros(())
    counts = [
        torch.bincount(nodes, minlength=size).to(values)
        for nodes, size in zip(index, sizes, strict=True)
    ]
    biases = [torch.zeros_like(count) for count in counts]
    for _ in range(_SWEEPS):
        for k in reversed(range(len(sizes))):
            others = sum(biases[j][index[j]] for j in range(len(sizes)) if j != k)
            left = torch.zeros_like(counts[k]).index_add_(0, index[k], values - mean - others)
            biases[k] = left / (counts[k] + damping).clamp(min=1e-9)
    return Means(mean, biases, counts)


@dataclass(frozen=True, kw_only=True, repr=False)
class Ratings(Completion):
    """Numbers for pairs (or triples, ...) of nodes of different sorts.

    The first feature of a queried pair is the prediction of damped means; a network adds to it.
    """

    kind: ClassVar[str] = "ratings"

    @property
    def baselines(self) -> Mapping[str, int]:
        """The prediction of damped means."""
        return {f"the damped means of {' and '.join(self.keys)}": 0}

    def features(self, structure: Structure, known: Tensor) -> dict[str, Tensor]:
        """Return biases and counts of nodes, and the prediction of damped means with its terms.

        Known entries also have their numbers, and how far these are above the prediction.
        """
        values, pairs, query = self.target[known][:, 0], structure[KNOWN], structure[QUERY]
        sorts = structure.resolve(KNOWN).sorts
        means = damped_means(pairs, values, [structure.counts[sort] for sort in sorts.values()])
        features = {
            f"{letter}:{sort}": torch.stack([bias, count.log1p()], dim=1)
            for (letter, sort), bias, count in zip(
                sorts.items(), means.biases, means.counts, strict=True
            )
        }
        above = (values - means.expected(pairs))[:, None]  # (entries, 1)
        features[f"{KNOWN}={self.pattern}"] = torch.cat(
            [values[:, None], above, means.features(pairs)], dim=1
        )
        features[self.query] = torch.cat(
            [means.expected(query)[:, None], means.features(query)], dim=1
        )
        return features
