"""For models of PyG: a convolution with all equivariant operations between nodes and edges."""

from incidence.pyg.conv import IncidenceConv

__all__ = ["IncidenceConv"]
