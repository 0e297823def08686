"""Layers: the complete linear layer, and what a network needs around it."""

from incidence.nn.linear import Linear

__all__ = ["Linear"]
