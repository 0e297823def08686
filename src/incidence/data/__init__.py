"""Data sets, and readers of files: examples with features, a task and splits."""

from incidence.data.dataset import DataSet, Parts, Split, Task
from incidence.data.loader import DataLoader
from incidence.data.loading import DATA_SETS, Source, load, register
from incidence.data.neighbours import NeighbourLoader
from incidence.data.readers import READERS, Read, Reader, reader

__all__ = [
    "DATA_SETS",
    "READERS",
    "DataLoader",
    "DataSet",
    "NeighbourLoader",
    "Parts",
    "Read",
    "Reader",
    "Source",
    "Split",
    "Task",
]
__all__ += ["load", "reader", "register"]
