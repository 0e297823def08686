"""The mean product of every two nodes of an entry, in linear time; with its gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from incidence.engine.bags import bag_sum
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
    y: Tensor = _PairProducts.apply(x, lists)  # type: ignore[no-untyped-call]
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


class _PairProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, lists: Incidences) -> Tensor:
        sizes = lists.entry_ptr.diff().to(x.dtype)[:, None]
        share = torch.where(sizes > 1, 1 / (sizes * (sizes - 1)).clamp(min=1), 0)  # (entries, 1)
        total = bag_sum(x, lists.nodes, lists.entry_ptr)  # (entries, channels)
        ctx.lists = lists
        ctx.save_for_backward(x, total, share)
        return (total.square() - bag_sum(x.square(), lists.nodes, lists.entry_ptr)) * share

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        x, total, share = ctx.saved_tensors
        lists, of_entries = ctx.lists, 2 * share * grads[0]
        back = bag_sum(of_entries * total, lists.entries, lists.node_ptr)  # (nodes, channels)
        return back - x * bag_sum(of_entries, lists.entries, lists.node_ptr), None
