"""Liftings: more faces from those there are. Each is linear in what it finds, has a limit, and takes batches like single structures."""

from incidence.geometry.lifting.cliques import cliques
from incidence.geometry.lifting.hops import khop, neighbourhoods
from incidence.geometry.lifting.paths import line_graph, paths, tuples
from incidence.geometry.lifting.points import alpha, vietoris_rips
from incidence.geometry.lifting.rings import rings
from incidence.geometry.lifting.transform import as_transform

__all__ = [
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
