"""Numbers for pairs, such as ratings of movies by users, given others: damped means, and what a network sees beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.data.completion import KNOWN, QUERY, Completion
from incidence.structure.structure import Structure

__all__ = ["DAMPING", "Means", "Ratings", "damped_means"]

DAMPING, _SWEEPS = 5.0, 4


class Means(NamedTuple):
    """What is expected of numbers that belong to nodes.

    Attributes:
        mean: Of all numbers.
        biases: For the nodes of every letter, by how much their numbers are above what the other nodes let expect.
        counts: How many numbers these nodes have.
    """

    mean: Tensor
    biases: list[Tensor]
    counts: list[Tensor]

    def expected(self, index: Tensor) -> Tensor:
        """The mean and the biases of the nodes of every entry, added up; shape (entries,)."""
        return self.mean + sum(bias[nodes] for bias, nodes in zip(self.biases, index, strict=True))

    def told(self, index: Tensor) -> Tensor:
        """The biases of the nodes of every entry, and the logarithms of their counts; shape (entries, 2 letters)."""
        columns = [bias[nodes] for bias, nodes in zip(self.biases, index, strict=True)]
        return torch.stack(
            [
                *columns,
                *(count.log1p()[nodes] for count, nodes in zip(self.counts, index, strict=True)),
            ],
            dim=1,
        )


def damped_means(
    index: Tensor, values: Tensor, sizes: Sequence[int], damping: float = DAMPING
) -> Means:
    r"""A mean and a bias for every node, each in turn the damped mean of what all others leave: $b_u = \frac{\sum r}{n_u + \lambda}$.

    Args:
        index: The nodes of every entry, shape [letters, entries].
        values: Of the entries, shape (entries,).
        sizes: How many nodes there are, by letter.
        damping: As if every node had so many more numbers that are as expected.

    Example:
        >>> means = damped_means(torch.tensor([[0, 0, 1], [0, 1, 1]]), torch.tensor([5.0, 3.0, 1.0]), (2, 2), damping=0.0)
        >>> means.expected(torch.tensor([[1], [0]]))  # ann has 2 more for the first movie: so would bob, nearly
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
            others = sum(
                bias[nodes]
                for j, (bias, nodes) in enumerate(zip(biases, index, strict=True))
                if j != k
            )
            biases[k] = torch.zeros_like(counts[k]).index_add_(
                0, index[k], values - mean - others
            ) / (counts[k] + damping).clamp(min=1e-9)
    return Means(mean, biases, counts)


@dataclass(frozen=True, kw_only=True, repr=False)
class Ratings(Completion):
    """Numbers for pairs (or triples, ...) of nodes of different sorts.

    The first feature of an asked pair is what is expected of it; a network adds to that.
    """

    @property
    def baselines(self) -> Mapping[str, int]:
        """What damped means expect."""
        return {f"the damped means of {' and '.join(self.keys)}": 0}

    def features(self, structure: Structure, known: Tensor) -> dict[str, Tensor]:
        """Biases and counts of nodes; numbers and what they are above expectation; what is expected of asked entries, and why."""
        values, pairs, asked = self.target[known][:, 0], structure[KNOWN], structure[QUERY]
        sorts = structure.resolve(KNOWN).sorts
        means = damped_means(pairs, values, [structure.counts[sort] for sort in sorts.values()])
        nodes = zip(sorts.items(), means.biases, means.counts, strict=True)
        return {
            **{
                f"{x}:{sort}": torch.stack([bias, count.log1p()], dim=1)
                for (x, sort), bias, count in nodes
            },
            f"{KNOWN}={self.pattern}": torch.cat(
                [values[:, None], (values - means.expected(pairs))[:, None], means.told(pairs)],
                dim=1,
            ),
            self.query: torch.cat([means.expected(asked)[:, None], means.told(asked)], dim=1),
        }
