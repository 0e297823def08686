"""Data sets, and readers of files: examples with features, a task and splits."""

from incidence.data.dataset import DataSet, Parts, Split, Task
from incidence.data.registry import DATA_SETS, READERS, Read, Reader, Source, load, reader, register

__all__ = ["DATA_SETS", "READERS", "DataSet", "Parts", "Read", "Reader", "Source", "Split", "Task", "load", "reader", "register"]
