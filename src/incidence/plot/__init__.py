"""Pictures: structures, operations, maps, networks; data, training and predictions.

Like the front door, it loads what it names on first use: pictures of the algebra need neither torch
nor matplotlib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from incidence.lazy import front_door

if TYPE_CHECKING:
    from incidence.plot.diagrams import operation, operations
    from incidence.plot.figures import (
        Compared,
        comparison,
        confusion,
        curves,
        parity,
        residuals,
        roc,
        save,
    )
    from incidence.plot.networks import network
    from incidence.plot.orbit_pictures import orbits
    from incidence.plot.picture import Picture, grid
    from incidence.plot.plan_pictures import plan
    from incidence.plot.polytope_shadow import shadow
    from incidence.plot.posets import poset
    from incidence.plot.sharing_matrix import sharing
    from incidence.plot.stable_colours import colours
    from incidence.plot.structures import structure
    from incidence.plot.text import plain, scatter

_HOMES = {
    "Compared": "incidence.plot.figures",
    "Picture": "incidence.plot.picture",
    "colours": "incidence.plot.stable_colours",
    "comparison": "incidence.plot.figures",
    "confusion": "incidence.plot.figures",
    "curves": "incidence.plot.figures",
    "grid": "incidence.plot.picture",
    "network": "incidence.plot.networks",
    "operation": "incidence.plot.diagrams",
    "operations": "incidence.plot.diagrams",
    "orbits": "incidence.plot.orbit_pictures",
    "parity": "incidence.plot.figures",
    "plain": "incidence.plot.text",
    "plan": "incidence.plot.plan_pictures",
    "poset": "incidence.plot.posets",
    "residuals": "incidence.plot.figures",
    "roc": "incidence.plot.figures",
    "save": "incidence.plot.figures",
    "scatter": "incidence.plot.text",
    "shadow": "incidence.plot.polytope_shadow",
    "sharing": "incidence.plot.sharing_matrix",
    "structure": "incidence.plot.structures",
}

__all__ = [
    "Compared",
    "Picture",
    "colours",
    "comparison",
    "confusion",
    "curves",
    "grid",
    "network",
    "operation",
    "operations",
    "orbits",
    "parity",
    "plain",
    "plan",
    "poset",
    "residuals",
    "roc",
    "save",
    "scatter",
    "shadow",
    "sharing",
    "structure",
]

__getattr__, __dir__ = front_door(__name__, _HOMES)
