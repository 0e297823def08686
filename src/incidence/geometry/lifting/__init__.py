"""Liftings: more faces from those there are. Each is linear in what it finds, has a limit, and
takes batches like single structures.
"""

from incidence.geometry.lifting.adjacency import LIMIT
from incidence.geometry.lifting.cliques import alpha, cliques, vietoris_rips
from incidence.geometry.lifting.rings import rings
from incidence.geometry.lifting.transform import as_transform
from incidence.geometry.lifting.walks import khop, line_graph, neighbourhoods, paths, tuples

__all__ = [
    "LIMIT",
    "alpha",
    "as_transform",
    "cliques",
    "khop",
    "line_graph",
    "neighbourhoods",
    "paths",
    "rings",
    "tuples",
    "vietoris_rips",
]
