"""Data sets, and readers of files: examples with features, a task and splits."""

from incidence.data.dataset import DataSet, Parts, Reader, Record, Split, Task
from incidence.data.files import READERS, reader, register_reader
from incidence.data.lifts import register_lift
from incidence.data.loaders import DataLoader, NeighbourLoader
from incidence.data.loading import DATA_SETS, Source, load, register
from incidence.data.streams import BatchStream

__all__ = [
    "DATA_SETS",
    "READERS",
    "BatchStream",
    "DataLoader",
    "DataSet",
    "NeighbourLoader",
    "Parts",
    "Reader",
    "Record",
    "Source",
    "Split",
    "Task",
]
__all__ += ["load", "reader", "register", "register_lift", "register_reader"]
