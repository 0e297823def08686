"""How far the outputs of a network see: within how many steps of their nodes all lies that they depend on."""

from __future__ import annotations

from torch import nn

from incidence.algebra.choice import word_for
from incidence.models.terms import AttentionTerm, ProductTerm, Sum
from incidence.nn import Linear, Readout
from incidence.nn.diffusion import Surroundings

__all__ = ["reach_of"]


def reach_of(modules: nn.Module) -> int | None:
    """The steps of modules that follow each other, a step leading to the nodes of entries that meet; None if there is no bound.

    An operation that matches a node leads one step far, and not at all where it matches all nodes of both entries. What pools over whole
    structures has no bound, and for products and attention none is claimed. Of terms that are added up the farthest counts.
    """
    own, parts = _steps(modules), [reach_of(part) for part in modules.children()]
    if own is None or None in parts:
        return None
    steps = [part for part in parts if part is not None]
    return own + (
        max(steps, default=0) if isinstance(modules, (Sum, nn.ModuleList)) else sum(steps)
    )


def _steps(module: nn.Module) -> int | None:
    if isinstance(module, (Readout, ProductTerm, AttentionTerm)):
        return None
    if isinstance(module, Surroundings):
        return module.steps
    if not isinstance(module, Linear):
        return 0
    words = {
        word_for(o)
        for s in range(len(module.map.inputs))
        for t in range(len(module.map.outputs))
        for o in module.operations_of(s, t)
    }
    return None if "global" in words else int(bool(words - {"self"}))
