"""How far the outputs of a network see: within how many steps of their nodes all lies that they depend on."""

from __future__ import annotations

from torch import nn

from incidence.algebra.choice import word_for
from incidence.models.terms import AttentionTerm, ProductTerm
from incidence.nn import Diffusion, Linear, Readout

__all__ = ["reach_of"]


def reach_of(modules: nn.Module) -> int | None:
    """The steps of modules that follow each other, a step leading to the nodes of entries that meet; None if there is no bound.

    An operation that matches a node leads one step far, and not at all where it matches all nodes of both entries. What pools over whole
    structures has no bound, and for products and attention none is claimed.
    """
    steps = [_steps(module) for module in modules.modules()]
    return None if None in steps else sum(step for step in steps if step is not None)


def _steps(module: nn.Module) -> int | None:
    if isinstance(module, (Readout, ProductTerm, AttentionTerm)):
        return None
    if isinstance(module, Diffusion):
        return module.steps
    if not isinstance(module, Linear):
        return 0
    words = {word_for(o) for s in range(len(module.map.inputs)) for t in range(len(module.map.outputs)) for o in module.operations_of(s, t)}
    return None if "global" in words else int(bool(words - {"self"}))
