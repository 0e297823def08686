"""Ratings: numbers for pairs of nodes, the means that predict them, and ranks of items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from incidence.data.columns import choose_targets, read_targets
from incidence.data.completion import KNOWN, QUERY, ROWS, Completion
from incidence.data.tables import TextTable
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = ["DAMPING", "Means", "Ratings", "damped_means"]

DAMPING, _SWEEPS = 5.0, 4
TOP = 10
"""How many of the best items of a user count."""
_MOST_CANDIDATES = 1 << 22  # pairs that are scored for ranks
_FEW_CANDIDATES = 1 << 18  # pairs that are scored in every evaluation: a few epochs take as long
_MOST_TOGETHER = 1 << 16  # pairs that are scored at once


def _table_of(pairs: Tensor, users: Tensor, num_items: int) -> Tensor:
    """Return which pairs there are of some users, (users, items)."""
    is_theirs = torch.isin(pairs[0], users)
    rows = torch.searchsorted(users, pairs[0][is_theirs])  # users ascend
    table = torch.zeros(len(users), num_items, dtype=torch.bool)
    table[rows, pairs[1][is_theirs]] = True
    return table


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
        # The last letter first: items have more numbers than users, so their means are the surer
        # ones.
        for k in reversed(range(len(sizes))):
            others = sum(biases[j][index[j]] for j in range(len(sizes)) if j != k)  # (entries,)
            left = torch.zeros_like(counts[k]).index_add_(0, index[k], values - mean - others)
            # A node without numbers has 0 / damping, or 0 / 1e-9 without damping: no bias either
            # way.
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

    @property
    def ranked(self) -> tuple[str, ...]:
        """The metrics of `rank`."""
        return (f"ndcg@{TOP}", f"recall@{TOP}") if len(self.keys) == 2 else ()

    @property
    def is_cheap_to_rank(self) -> bool:
        """Whether there are few pairs of a user and an item."""
        counts = self.rows.counts
        return prod(counts[sort] for sort in self.sorts_of(2)) <= _FEW_CANDIDATES

    def rank(
        self, known: Tensor, rows: Tensor, score: Callable[[Example], Tensor]
    ) -> dict[str, float]:
        """Return how well the best items of every user agree with those that the user liked.

        Liked are the rows to rank with at least the mean number of all known rows. Candidates are
        all items without a known number. The result is the mean over users who liked some, and NaN
        without any.

        Args:
            known: The rows that are known.
            rows: The rows to rank.
            score: Returns a score for every queried entry of an example.
        """
        values = self.target[:, 0]
        known = known[self.is_fact[known]]
        liked = rows[values[rows] >= values[known].mean()]
        index = self.rows[ROWS]
        users = index[0, liked].unique()
        num_items = self.rows.counts[self.sorts_of(2)[1]]
        # Of too many users, every k-th: the same ones in each evaluation.
        users = users[:: max(1, -(-len(users) * num_items // _MOST_CANDIDATES))]
        step = max(1, _MOST_TOGETHER // max(num_items, 1))
        sums, count = torch.zeros(2, dtype=torch.float64), 0  # of NDCG and recall
        for some in users.split(step):
            is_known = _table_of(index[:, known], some, num_items)  # (users, items)
            is_liked = _table_of(index[:, liked], some, num_items)
            users_of, items = (~is_known).nonzero().T
            query = self.store(self.rows, self.pattern, torch.stack([some[users_of], items]))
            # What a user has rated is no candidate: it comes last, and hits nothing.
            scores = torch.full(is_known.shape, -torch.inf)
            scores[users_of, items] = score(self.example_of(known, query)).float()
            best = scores.topk(min(TOP, num_items), dim=1).indices
            hits = is_liked.gather(1, best).double()  # (users, best)
            weights = 1 / torch.arange(2, hits.shape[1] + 2).double().log2()  # (best,)
            sizes = is_liked.sum(1)
            # As if the first items were all liked ones: what the gain is divided by.
            ideal = weights.cumsum(0)[sizes.clamp(max=hits.shape[1]) - 1]
            sums += torch.stack([(hits @ weights / ideal).sum(), (hits.sum(1) / sizes).sum()])
            count += len(some)
        return dict(zip(self.ranked, (sums / count).tolist(), strict=True))

    def targets_of(self, table: TextTable) -> Tensor:
        """Return the numbers of a table: of the only column that is no key, or has a usual name.

        Raises:
            IncidenceError: It is not clear which column has them.
        """
        used = [name for name in table.columns if name.strip().lower() in map(str.lower, self.keys)]
        [name] = choose_targets(table, (), used)
        return read_targets(table.source, {name: table[name]}, "regression")[1]

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
