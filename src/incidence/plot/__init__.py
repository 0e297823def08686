"""Pictures of data, training and predictions."""

from incidence.plot.figures import confusion, curves, parity, save
from incidence.plot.text import plain, scatter

__all__ = ["confusion", "curves", "parity", "plain", "save", "scatter"]
