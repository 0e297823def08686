"""`Diffusion`: nodes take over the mean of their surroundings, without a weight."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.kernels.diffusion import Neighbourhoods, diffuse
from incidence.nn.composition import Side
from incidence.nn.tensors import Values, as_list, as_side, key_of
from incidence.structure import Structure
from incidence.structure.data import cache_of
from incidence.structure.incidences import incidences

__all__ = ["Diffusion"]


class Diffusion(nn.Module):
    r"""Every node keeps half of its row and takes half from its surroundings, so often as there are steps; nothing is learned.

    One step is $y_i = \frac12 x_i + \frac1{2 d_i} \sum_{e \ni i} \frac1{|e| - 1} \sum_{j \in e, j \ne i} x_j$, half of the mean over the
    $d_i$ entries that node i lies in of the mean of their other nodes, be they edges, hyperedges, faces or rows of a table; a node in no
    entry keeps its row. Where few labels are known and neighbours are alike, it does what a network would have to learn.

    Args:
        text: The tensors, such as `i, {i j}`: nodes, which change, and those that join them, which do not.
        steps: How often.

    Raises:
        IncidenceError: The nodes of a sort are missing, or nothing joins nodes.

    Example:
        >>> s = Structure(3, {"{i j}": [[0, 1], [1, 2]]})
        >>> Diffusion("i, {i j}")({"i": torch.tensor([[0.0], [4.0], [8.0]]), "{i j}": torch.ones(2, 1)}, s)["i"].flatten()
        tensor([2., 4., 6.])
    """

    def __init__(self, text: str, steps: int = 1) -> None:
        super().__init__()
        self.text, self.steps = text, steps
        self.patterns = as_side(text)
        self.map = EquivariantMap.between(self.patterns, self.patterns)
        self._keys = [key_of(p) for p in self.patterns]
        self.links = [p for p in self.patterns if p.is_open or len(p.letters) > 1]
        sorts = {sort for p in self.links for sort in p.sorts.values()}
        self.nodes = {sort: key_of(p) for p in self.patterns for sort in sorts if p == Pattern(f"i:{sort}")}
        missing = next((sort for sort in sorted(sorts) if sort not in self.nodes), None)
        if missing is not None or not self.links:
            what = f"no nodes of sort `{missing}`" if self.links else "nothing that joins nodes"
            raise IncidenceError(f"diffusion is along entries between nodes, and `{text}` has {what}: add it, as in `i, {{i j}}`.")

    def forward(self, x: Values, structure: Structure) -> Any:
        """The same tensors, nodes averaged with their surroundings."""
        values = dict(zip(self._keys, as_list(self.patterns, x, structure, [None] * len(self.patterns)), strict=True))
        some, counts = values[next(iter(self.nodes.values()))], {sort: structure.counts[sort] for sort in sorted(structure.counts)}
        # Nodes are numbered through all sorts; those that nothing joins stand there as zeros.
        rows = [values[self.nodes[sort]] if sort in self.nodes else some.new_zeros(n, some.shape[1]) for sort, n in counts.items()]
        stacked = torch.cat(rows)  # (nodes of all sorts, channels)
        around = self._around(structure, stacked.dtype)
        for _ in range(self.steps):
            stacked = diffuse(stacked, around)
        parts = dict(zip(counts, stacked.split(list(counts.values())), strict=True))
        return {**values, **{key: parts[sort] for sort, key in self.nodes.items()}}

    @torch.inference_mode(False)
    def _around(self, structure: Structure, dtype: torch.dtype) -> Neighbourhoods:
        cache, key = cache_of(structure, Neighbourhoods), (tuple(self.links), dtype)
        if key not in cache:
            cache[key] = Neighbourhoods.of(incidences(structure, self.links), dtype)
        return cache[key]

    def follow(self, side: Side | None) -> Side | None:
        """The same tensors."""
        return side

    def extra_repr(self) -> str:
        """The tensors and the number of steps."""
        return f"{self.text!r}, steps={self.steps}"
