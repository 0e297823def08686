"""The mean product of every two nodes of an entry, in linear time; with its gradient."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from incidence.engine.bags import bag_sum
from incidence.engine.gradient import with_gradient
from incidence.structure.incidences import Incidences

__all__ = ["pair_products", "plain_pair_products"]


def pair_products(x: Tensor, lists: Incidences) -> Tensor:
    r"""For every entry the mean over its pairs of different nodes of the products of their rows; 0
    for an entry of one node.

    $y_e = \frac1{m (m - 1)} \sum_{i \ne j \in e} x_i x_j = \frac1{m (m - 1)} \bigl((\sum_i x_i)^2 -
    \sum_i x_i^2\bigr)$ for m nodes.

    Shape:
        x: (nodes of all sorts, channels); the result: (entries, channels).
    """
    nodes, entries = (lists.nodes, lists.entry_ptr), (lists.entries, lists.node_ptr)

    def run(x: Tensor) -> tuple[tuple[Tensor], tuple[Tensor, ...]]:
        sizes = lists.entry_ptr.diff().to(x.dtype)[:, None]
        share = torch.where(sizes > 1, 1 / (sizes * (sizes - 1)).clamp(min=1), 0)  # (entries, 1)
        total = bag_sum(x, *nodes)  # (entries, channels)
        y = (total.square() - bag_sum(x.square(), *nodes)) * share
        return (y,), (x, total, share)

    def gradient(
        saved: Sequence[Tensor], grads: Sequence[Tensor], needs: Sequence[bool]
    ) -> tuple[Tensor]:
        x, total, share = saved
        of_entries = 2 * share * grads[0]
        back = bag_sum(of_entries * total, *entries)  # (nodes, channels)
        return (back - x * bag_sum(of_entries, *entries),)

    [y] = with_gradient(run, gradient, x)
    return y


def plain_pair_products(x: Tensor, nodes: Tensor, entries: Tensor, sizes: Tensor) -> Tensor:
    """`pair_products` in plain steps, for graphs that are recorded.

    Args:
        x: A row for each node.
        nodes: The node of every pair of a node and an entry that it lies in, shape (pairs,).
        entries: The entry of every pair, shape (pairs,).
        sizes: The number of nodes of every entry, shape (entries,).
    """
    # (pairs, channels), (entries, 1)
    taken, count = x.index_select(0, nodes), sizes[:, None].to(x.dtype)

    def at_entries(values: Tensor) -> Tensor:
        return x.new_zeros(sizes.shape[0], x.shape[1]).index_add(0, entries, values)

    return (at_entries(taken).square() - at_entries(taken.square())) / (count * (count - 1)).clamp(
        min=1
    )
