"""What nodes take over from the other nodes of their entries, linear, with transposes as gradients:
steps of diffusion, and sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from incidence.engine.bags import bag_sum
from incidence.engine.gradient import linear_map
from incidence.engine.shared import SharedKeys
from incidence.structure.incidences import Incidences

__all__ = ["Neighbourhoods", "diffuse", "plain_diffuse", "plain_sum_around", "sum_around"]


@dataclass(frozen=True)
class Neighbourhoods:
    r"""Incidences with the weights of their means.

    Attributes:
        lists: The incidences.
        share: For every entry of m nodes 1 / (m - 1), and 0 if it has one node only: the weight of
            another node, shape (entries, 1).
        own: For every node the sum of the shares of its entries, shape (nodes, 1).
        inverse: For every node 1 / the number of its entries that have other nodes, 0 if there is
            none, shape (nodes, 1).
        shared: On a part of a structure, which nodes other processes have too; else None. Then
            `own` is of the entries of this process.
    """

    lists: Incidences
    share: Tensor
    own: Tensor
    inverse: Tensor
    shared: SharedKeys | None = None

    @staticmethod
    def of(
        lists: Incidences, dtype: torch.dtype, shared: SharedKeys | None = None
    ) -> Neighbourhoods:
        """The weights of some incidences."""
        others = (lists.entry_ptr.diff() - 1).to(dtype)[:, None]
        share = torch.where(others > 0, 1 / others.clamp(min=1), 0)
        own = bag_sum(share, lists.entries, lists.node_ptr)  # (nodes, 1)
        count = bag_sum((share > 0).to(dtype), lists.entries, lists.node_ptr)  # (nodes, 1)
        if shared is not None:
            count = shared.total(count)
        inverse = torch.where(count > 0, 1 / count.clamp(min=1), 0)
        return Neighbourhoods(lists, share, own, inverse, shared)

    def others(self, x: Tensor) -> Tensor:
        """For every node the sum over its entries of the mean of their other nodes, (nodes,
        channels) to the same.
        """
        here = self._here(x)
        return here if self.shared is None else self.shared.total(here)

    def adjoint(self, grad: Tensor) -> Tensor:
        """The adjoint of `others`: the same, as sums and exchanges are symmetric."""
        return self._here(grad if self.shared is None else self.shared.total(grad))

    def complete(self, x: Tensor) -> Tensor:
        """On a part of a structure, give nodes that are 0 here the rows of other processes."""
        return x if self.shared is None else self.shared.complete(x)

    def _here(self, x: Tensor) -> Tensor:
        """The same over the entries of this process."""
        # (entries, channels)
        of_entries = bag_sum(x, self.lists.nodes, self.lists.entry_ptr) * self.share
        # without the node itself
        return bag_sum(of_entries, self.lists.entries, self.lists.node_ptr) - self.own * x


def diffuse(x: Tensor, around: Neighbourhoods) -> Tensor:
    r"""Half of every node's row, and half of the mean over its entries of the mean of their other
    nodes; a node without any keeps its row.

    $y_i = \frac12 x_i + \frac1{2 d_i} \sum_{e \ni i} \frac1{|e| - 1} \sum_{j \in e, j \ne i} x_j$
    with $d_i$ the number of entries.
    """
    half = (0.5 * around.inverse).to(x.dtype)  # (nodes, 1)
    kept = torch.where(around.inverse > 0, 0.5, 1.0).to(x.dtype)  # (nodes, 1)

    def forward(x: Tensor) -> Tensor:
        return x * kept + around.others(x) * half

    def adjoint(x: Tensor) -> Tensor:
        return x * kept + around.adjoint(x * half)

    return linear_map(x, forward, adjoint)


def sum_around(x: Tensor, around: Neighbourhoods) -> Tensor:
    r"""For every node the sum over its entries of the mean of their other nodes, divided by the
    root of the number of these entries.

    $y_i = \frac1{\sqrt{d_i}} \sum_{e \ni i} \frac1{|e| - 1} \sum_{j \in e, j \ne i} x_j$ with $d_i$
    the number of entries; 0 without any.
    """
    root = around.inverse.sqrt().to(x.dtype)  # (nodes, 1)
    return linear_map(x, lambda x: around.others(x) * root, lambda x: around.adjoint(x * root))


def plain_diffuse(x: Tensor, nodes: Tensor, entries: Tensor, sizes: Tensor) -> Tensor:
    """`diffuse` in plain steps, for graphs that are recorded.

    Args:
        x: A row for each node.
        nodes: The node of every pair of a node and an entry that it lies in, shape (pairs,).
        entries: The entry of every pair, shape (pairs,).
        sizes: The number of nodes of every entry, shape (entries,).
    """
    total, count = _plain_others(x, nodes, entries, sizes)
    return torch.where(count > 0, 0.5 * (x + total / count.clamp(min=1)), x)


def plain_sum_around(x: Tensor, nodes: Tensor, entries: Tensor, sizes: Tensor) -> Tensor:
    """`sum_around` in plain steps, for graphs that are recorded; the arguments are those of
    `plain_diffuse`.
    """
    total, count = _plain_others(x, nodes, entries, sizes)
    return total / count.clamp(min=1).sqrt()


def _plain_others(
    x: Tensor, nodes: Tensor, entries: Tensor, sizes: Tensor
) -> tuple[Tensor, Tensor]:
    """`Neighbourhoods.others`, (nodes, channels), and the number of entries of every node that have
    other nodes, (nodes, 1).
    """
    others = (sizes[:, None] - 1).to(x.dtype)
    share = (others > 0).to(x.dtype) / others.clamp(min=1)  # (entries, 1)

    def at_nodes(values: Tensor) -> Tensor:
        return x.new_zeros(x.shape[0], values.shape[1]).index_add(
            0, nodes, values.index_select(0, entries)
        )

    of_entries = (
        x.new_zeros(sizes.shape[0], x.shape[1]).index_add(0, entries, x.index_select(0, nodes))
        * share
    )
    return at_nodes(of_entries) - at_nodes(share) * x, at_nodes((share > 0).to(x.dtype))
