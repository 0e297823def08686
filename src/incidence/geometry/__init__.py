"""Structures from real data: builders, named objects, liftings, converters, and what is known of their faces.

Like the front door, it loads what it names on first use: each outside library is needed only by what uses it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "align": "incidence.geometry.alignment",
    "automorphisms": "incidence.structure.automorphisms",
    "convert": "incidence.geometry",
    "coordinates": "incidence.geometry.catalogue",
    "corners": "incidence.geometry.polytopes",
    "densify": "incidence.geometry.complexes",
    "directed_complex": "incidence.geometry.complexes",
    "faces": "incidence.geometry.ranks",
    "graph": "incidence.geometry.graphs",
    "hypergraph": "incidence.geometry.graphs",
    "lifting": "incidence.geometry",
    "mesh": "incidence.geometry.meshes",
    "named": "incidence.geometry.catalogue",
    "names": "incidence.geometry.catalogue",
    "point_cloud": "incidence.geometry.clouds",
    "polytope": "incidence.geometry.polytopes",
    "polytope_from_facets": "incidence.geometry.polytopes",
    "poset": "incidence.geometry.posets",
    "read_mesh": "incidence.geometry.meshes",
    "simplicial_complex": "incidence.geometry.complexes",
    "table": "incidence.geometry.tables",
    "with_adjacency": "incidence.geometry.adjacent",
}

_MODULES = ("convert", "lifting")

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'incidence.geometry' has no attribute {name!r}")
    home = _HOMES[name]
    value = import_module(f"{home}.{name}") if name in _MODULES else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
