"""Equivariant learning on incidence structures: write the index pattern, get every linear map that
respects relabelling.

This package loads its names on first use, so that `import incidence.algebra` needs neither torch
nor numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from incidence.lazy import front_door

__version__ = "0.1.0"

if TYPE_CHECKING:
    from incidence import (
        data,
        distributed,
        geometry,
        models,
        nn,
        plot,
        pyg,
        testing,
        theorems,
        train,
    )
    from incidence.algebra import EquivariantMap, Pattern, counting, explain
    from incidence.engine.memory import keep_memory
    from incidence.errors import IncidenceError, PatternError, TooLargeError
    from incidence.expressive import expressivity
    from incidence.geometry.convert.batching import collate
    from incidence.nn.basis import basis
    from incidence.nn.functional import einsum, softmax
    from incidence.structure import (
        Example,
        Structure,
        carry,
        from_faces,
        ones,
        pack,
        to_faces,
        uncollate,
    )
    from incidence.symmetry import Group
    from incidence.train import load

_HOMES = {
    "algebra": "incidence.algebra",
    "errors": "incidence.errors",
    "structure": "incidence.structure",
    "EquivariantMap": "incidence.algebra",
    "Example": "incidence.structure",
    "Group": "incidence.symmetry",
    "IncidenceError": "incidence.errors",
    "Pattern": "incidence.algebra",
    "PatternError": "incidence.errors",
    "Structure": "incidence.structure",
    "TooLargeError": "incidence.errors",
    "basis": "incidence.nn.basis",
    "carry": "incidence.structure",
    "collate": "incidence.geometry.convert.batching",
    "counting": "incidence.algebra",
    "explain": "incidence.algebra",
    "expressivity": "incidence.expressive",
    "distributed": "incidence.distributed",
    "einsum": "incidence.nn.functional",
    "from_faces": "incidence.structure",
    "geometry": "incidence.geometry",
    "keep_memory": "incidence.engine.memory",
    "data": "incidence.data",
    "load": "incidence.train",
    "models": "incidence.models",
    "nn": "incidence.nn",
    "ones": "incidence.structure",
    "pack": "incidence.structure",
    "plot": "incidence.plot",
    "pyg": "incidence.pyg",
    "softmax": "incidence.nn.functional",
    "testing": "incidence.testing",
    "theorems": "incidence.theorems",
    "to_faces": "incidence.structure",
    "train": "incidence.train",
    "uncollate": "incidence.structure",
}

__all__ = [
    "EquivariantMap",
    "Example",
    "Group",
    "IncidenceError",
    "Pattern",
    "PatternError",
    "Structure",
    "TooLargeError",
    "basis",
    "carry",
    "collate",
    "counting",
    "data",
    "distributed",
    "einsum",
    "explain",
    "expressivity",
    "from_faces",
    "geometry",
    "keep_memory",
    "load",
    "models",
    "nn",
    "ones",
    "pack",
    "plot",
    "pyg",
    "softmax",
    "testing",
    "theorems",
    "to_faces",
    "train",
    "uncollate",
]


__getattr__, __dir__ = front_door(__name__, _HOMES)
