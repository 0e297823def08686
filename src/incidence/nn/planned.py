"""Modules that need index lists of a structure before they are traced."""

from __future__ import annotations

from torch import nn

from incidence.notebook import html_of
from incidence.structure import Structure

__all__ = ["Planned"]


class Planned(nn.Module):
    """A module with index lists of its own; networks ask all of theirs for a plan at once."""

    _repr_html_ = html_of

    def plan(self, structure: Structure) -> object:
        """Makes the lists for a structure: needed before tracing."""
        raise NotImplementedError
