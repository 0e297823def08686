r"""Representation and expressiveness: what is left of small faces when they are carried on large ones."""

from __future__ import annotations

import torch
from torch import Tensor

from incidence.nn.linear import Linear
from incidence.structure import Structure, carry
from incidence.theorems.spans import rank

__all__ = ["carry_rank", "recovered"]


def _carried(structure: Structure, source: str, target: str) -> Tensor:
    """The matrix of carrying, (entries of the target, entries of the source)."""
    return carry(structure, source, target, torch.eye(structure.num_entries(source), dtype=torch.float64))


def carry_rank(structure: Structure, source: str, target: str) -> int:
    """The rank of carrying: less than the number of small faces where their features cannot be read back.

    Example:
        >>> square = Structure(4, {"{i j}": torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])})
        >>> carry_rank(square, "i", "{i j}")  # n_i + n_j on a bipartite graph
        3
    """
    return rank(_carried(structure, source, target).T)


def recovered(structure: Structure, source: str, target: str, carrier: str) -> int:
    r"""How many of the maps between two small faces a layer on the faces that carry both has.

    The dimension of the common part of $\{C_b M\}$ and $\{W C_a\}$, where M are the operators from source to target, W those of the carrier
    to itself, and C carries the source (a) and the target (b).

    Example:
        >>> recovered(Structure.complete(4, ["(i j)"]), "i", "i", "(i j)")
        2
    """
    on_source, on_target = _carried(structure, source, carrier), _carried(structure, target, carrier)
    wanted = torch.stack([(on_target @ m).flatten() for m in _operators(structure, source, target)])
    there = torch.stack([(w @ on_source).flatten() for w in _operators(structure, carrier, carrier)])
    return rank(wanted) + rank(there) - rank(torch.cat([wanted, there]))


def _operators(structure: Structure, source: str, target: str) -> list[Tensor]:
    layer = Linear(f"{source} -> {target}", 1, 1)
    return [layer.operator(number, structure).to_dense() for number in range(layer.map.dimension)]
