"""Layers: the complete linear layer, and what a network needs around it."""

from incidence.nn.around import Activation, BatchNorm, Dropout, LayerNorm, Readout, Residual, Sequential
from incidence.nn.linear import Linear

__all__ = ["Activation", "BatchNorm", "Dropout", "LayerNorm", "Linear", "Readout", "Residual", "Sequential"]
