"""Pictures of data, training and predictions."""

from incidence.plot.figures import confusion, curves, parity, save
from incidence.plot.text import scatter

__all__ = ["confusion", "curves", "parity", "save", "scatter"]
