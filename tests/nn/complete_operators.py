"""The operators of a layer on a complete structure, written out."""

from functools import cache

import torch

from incidence.algebra import EquivariantMap
from incidence.nn import Linear
from incidence.structure import Structure

__all__ = ["operators"]


@cache
def operators(
    text: str, sizes: tuple[tuple[str, int], ...]
) -> tuple[EquivariantMap, Structure, list[torch.Tensor]]:
    """Return the map, the structure with some nodes of each sort, and a matrix by operation."""
    layer = Linear(text, 1, 1)
    patterns = [p for p in dict.fromkeys(layer.map.inputs + layer.map.outputs) if p.faces]
    structure = Structure.complete(dict(sizes), patterns)
    return (
        layer.map,
        structure,
        [layer.operator(k, structure).to_dense() for k in range(len(layer.map.operations))],
    )
