"""Features for data that has none."""

from __future__ import annotations

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.structure import Structure

__all__ = ["ones"]


def ones(
    structure: Structure, text: str | Pattern, channels: int = 1, dtype: torch.dtype | None = None
) -> Tensor:
    """A feature 1 for every entry of a tensor: what to feed a layer when presence is all there is; shape [entries, channels].

    Raises:
        IncidenceError: The tensor has oriented faces, where 1 means something else in each orientation.
    """
    if not isinstance(channels, int) or channels < 1:
        raise IncidenceError(f"channels is a number of at least 1; got {channels!r}.")
    pattern = structure.resolve(text)
    if pattern.is_oriented:
        raise IncidenceError(
            f"the value 1 of `{pattern}` depends on the orientation of its entry, so presence is no feature there. Give ones to "
            f"`{pattern.unoriented()}`, which s.with_index({{'{pattern.unoriented()}': s['{pattern.name or pattern}']}}) adds."
        )
    return torch.ones(structure.num_entries(text), channels, dtype=dtype, device=structure.device)
