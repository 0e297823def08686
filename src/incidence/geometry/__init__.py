"""Structures from real data: builders, named objects, liftings, converters, and what is known of
their faces.

Like the front door, it loads what it names on first use: each outside library is needed only by
what uses it.
"""

from __future__ import annotations

from incidence.lazy import front_door

_HOMES = {
    "align": "incidence.geometry.alignment",
    "automorphisms": "incidence.symmetry.automorphisms",
    "convert": "incidence.geometry.convert",
    "coordinates": "incidence.geometry.catalogue",
    "corners": "incidence.geometry.polytopes",
    "densify": "incidence.geometry.complexes",
    "directed_complex": "incidence.geometry.complexes",
    "faces": "incidence.geometry.ranks",
    "graph": "incidence.geometry.complexes",
    "hodge": "incidence.geometry.hodge_theory",
    "hypergraph": "incidence.geometry.complexes",
    "lifting": "incidence.geometry.lifting",
    "mesh": "incidence.geometry.meshes",
    "named": "incidence.geometry.catalogue",
    "names": "incidence.geometry.catalogue",
    "point_cloud": "incidence.geometry.point_clouds",
    "polytope": "incidence.geometry.polytopes",
    "polytope_from_facets": "incidence.geometry.polytopes",
    "poset": "incidence.geometry.posets",
    "read_mesh": "incidence.geometry.meshes",
    "simplicial_complex": "incidence.geometry.complexes",
    "subdivide": "incidence.geometry.subdivision",
    "table": "incidence.geometry.tables",
    "with_adjacency": "incidence.geometry.ranks",
}

__all__ = sorted(_HOMES)

__getattr__, __dir__ = front_door(__name__, _HOMES)
