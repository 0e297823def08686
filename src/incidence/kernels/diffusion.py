"""One step of diffusion over the entries that nodes have in common; linear, with its transpose as its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from incidence.kernels.bags import bag_sum
from incidence.structure.incidences import Incidences

__all__ = ["Neighbourhoods", "diffuse"]


@dataclass(frozen=True)
class Neighbourhoods:
    r"""Incidences with the weights of their means.

    Attributes:
        lists: The incidences.
        share: For every entry of m nodes 1 / (m - 1), and 0 if it has one node only: the weight of another node, shape (entries, 1).
        own: For every node the sum of the shares of its entries, shape (nodes, 1).
        inverse: For every node 1 / the number of its entries that have other nodes, 0 if there is none, shape (nodes, 1).
    """

    lists: Incidences
    share: Tensor
    own: Tensor
    inverse: Tensor

    @staticmethod
    def of(lists: Incidences, dtype: torch.dtype) -> Neighbourhoods:
        """The weights of some incidences."""
        others = (lists.entry_ptr.diff() - 1).to(dtype)[:, None]
        share = torch.where(others > 0, 1 / others.clamp(min=1), 0)
        own = bag_sum(share, lists.entries, lists.node_ptr)
        count = bag_sum((share > 0).to(dtype), lists.entries, lists.node_ptr)
        return Neighbourhoods(lists, share, own, torch.where(count > 0, 1 / count.clamp(min=1), 0))

    def others(self, x: Tensor) -> Tensor:
        """For every node the sum over its entries of the mean of their other nodes; symmetric, (nodes, channels) to the same."""
        of_entries = bag_sum(x, self.lists.nodes, self.lists.entry_ptr) * self.share  # (entries, channels)
        return bag_sum(of_entries, self.lists.entries, self.lists.node_ptr) - self.own * x


def diffuse(x: Tensor, around: Neighbourhoods) -> Tensor:
    r"""Half of every node's row, and half of the mean over its entries of the mean of their other nodes; a node without any keeps its row.

    $y_i = \frac12 x_i + \frac1{2 d_i} \sum_{e \ni i} \frac1{|e| - 1} \sum_{j \in e, j \ne i} x_j$ with $d_i$ the number of entries.
    """
    y: Tensor = _Diffuse.apply(x, around, False)  # type: ignore[no-untyped-call]
    return y


class _Diffuse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, around: Neighbourhoods, is_transposed: bool) -> Tensor:
        ctx.around, ctx.is_transposed = around, is_transposed
        kept = x * torch.where(around.inverse > 0, 0.5, 1.0).to(x.dtype)
        half = (0.5 * around.inverse).to(x.dtype)
        return kept + (around.others(x * half) if is_transposed else around.others(x) * half)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return _Diffuse.apply(grads[0], ctx.around, not ctx.is_transposed), None, None  # type: ignore[no-untyped-call]
