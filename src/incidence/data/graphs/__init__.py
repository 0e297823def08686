"""Data sets of graphs: those that the literature reports, and the readers of graph files."""
