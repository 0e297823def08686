"""`collate` for graphs of PyG: this module teaches it to read them.

`inc.collate` loads this module. It is the same function as `incidence.structure.collate`, which
cannot read PyG by itself, because `structure` does not import `geometry`.
"""

from __future__ import annotations

from incidence.geometry.convert.pyg_lenient import collate_graphs
from incidence.structure.collate import collate, register_reader

__all__ = ["collate"]


def _is_of_pyg(kind: type) -> bool:
    """Return whether a class is defined in PyG, without loading PyG."""
    return any(base.__module__.startswith("torch_geometric.") for base in kind.__mro__)


register_reader(_is_of_pyg, collate_graphs)
