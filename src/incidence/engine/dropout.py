"""Which values dropout keeps: by sixteen random bits each, drawn four values at a time, several
times faster than torch's own on a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["NUM_CHOICES", "keep_masks", "traced_keep_mask"]

_BITS = 16
NUM_CHOICES = 2**_BITS
"""Of which some drop a value: a probability is rounded to a multiple of the inverse."""


def keep_masks(shapes: Sequence[torch.Size], num_dropped: int, like: Tensor) -> list[Tensor]:
    """For arrays of given shapes 0 where a value is dropped, with probability num_dropped / 2^16,
    and else the inverse of the rest.
    """
    counts = [shape.numel() for shape in shapes]
    words = torch.empty((sum(counts) + 3) // 4, dtype=torch.int64, device=like.device).random_(
        -(2**63), None
    )
    bits = words.view(torch.int16)[: sum(counts)]  # from -2^15 to 2^15 - 1
    # faster than by way of bool
    keep = torch.ge(
        bits, num_dropped - NUM_CHOICES // 2, out=torch.empty_like(bits, dtype=like.dtype)
    )
    keep.mul_(NUM_CHOICES / (NUM_CHOICES - num_dropped))
    return [
        part.view(shape) for part, shape in zip(keep.split_with_sizes(counts), shapes, strict=True)
    ]


def _keep_mask(x: Tensor, num_dropped: int) -> Tensor:
    return keep_masks([x.shape], num_dropped, x)[0]


def _shape_of_keep_mask(x: Tensor, num_dropped: int) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


# A kernel for meta tensors, and no `register_fake`, for the reason that `plain.py` has.
_LIBRARY = torch.library.Library("incidence", "FRAGMENT")
_LIBRARY.define(
    "keep_mask(Tensor x, int num_dropped) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,)
)
_LIBRARY.impl("keep_mask", _keep_mask, "CompositeExplicitAutograd")
_LIBRARY.impl("keep_mask", _shape_of_keep_mask, "Meta")


def traced_keep_mask(x: Tensor, num_dropped: int) -> Tensor:
    """The mask of one array as one operator: what compilers make of their own random numbers is
    slow on a CPU.
    """
    found: Tensor = torch.ops.incidence.keep_mask(x.detach(), num_dropped)
    return found
