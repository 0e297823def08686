"""Data sets, and readers of files: examples with features, a task and splits."""

from incidence.data.dataset import DataSet, Parts, Split, Task
from incidence.data.loading import DATA_SETS, Source, load, register
from incidence.data.readers import READERS, Read, Reader, reader

__all__ = ["DATA_SETS", "READERS", "DataSet", "Parts", "Read", "Reader", "Source", "Split", "Task", "load", "reader", "register"]
