"""What hangs together: connected components, and signs that agree along edges."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["agreeing_signs", "components"]


def components(num_nodes: int, edges: Tensor) -> Tensor:
    """The smallest node of the component of every node; edges have shape [2, edges].

    Roots hook onto smaller roots across edges, then all paths to roots are halved until they are gone: few rounds in practice.

    Example:
        >>> components(5, torch.tensor([[3, 4], [1, 3]])).tolist()
        [0, 1, 2, 1, 1]
    """
    label = torch.arange(num_nodes, device=edges.device)
    while True:
        ends = label[edges]
        if torch.equal(ends[0], ends[1]):
            return label
        lowest = ends.amin(0)
        label = label.scatter_reduce(0, ends[0], lowest, "amin").scatter_reduce(0, ends[1], lowest, "amin")
        while not torch.equal(label, label[label]):
            label = label[label]


def agreeing_signs(num_nodes: int, edges: Tensor, products: Tensor) -> tuple[Tensor, Tensor]:
    """Signs of nodes whose product along every edge is as told; the smallest node of each component has +1.

    Two copies of every node, one for each sign, are joined where the signs go together. The component of a node has such signs
    iff the two copies of it are apart.

    Args:
        num_nodes: The number of nodes.
        edges: Shape [2, edges].
        products: +1 or -1 for every edge.

    Returns:
        The signs, shape [nodes], and whether each node has one.

    Example:
        >>> path = torch.tensor([[0, 1], [1, 2]])
        >>> agreeing_signs(3, path, torch.tensor([-1, -1]))[0].tolist()
        [1, -1, 1]
        >>> triangle = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> agreeing_signs(3, triangle, torch.tensor([-1, -1, -1]))[1].tolist()
        [False, False, False]
    """
    shift = (products < 0).long() * num_nodes
    straight = torch.stack([edges[0], edges[1] + shift])
    mirrored = torch.stack([edges[0] + num_nodes, edges[1] + num_nodes - shift])
    plus, minus = components(2 * num_nodes, torch.cat([straight, mirrored], dim=1)).view(2, num_nodes)
    return torch.where(plus <= minus, 1, -1), plus != minus
