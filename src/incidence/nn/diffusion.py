"""`Diffusion`: nodes take over the mean of their surroundings, without a weight."""

from __future__ import annotations

from typing import Any

import torch

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.kernels.diffusion import Neighbourhoods, diffuse, plain_diffuse
from incidence.kernels.traced import unplanned
from incidence.nn.composition import Side
from incidence.nn.planned import Planned
from incidence.nn.tensors import Values, as_list, as_side, key_of
from incidence.structure import Structure
from incidence.structure.data import cache_of
from incidence.structure.incidences import incidences
from incidence.structure.pytree import Flat, flat_of

__all__ = ["Diffusion"]


class Diffusion(Planned):
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
        self._key = f"diffusion {text}"  # of what is kept for tracing
        self.links = [p for p in self.patterns if p.is_open or len(p.letters) > 1]
        sorts = {sort for p in self.links for sort in p.sorts.values()}
        self.nodes = {sort: key_of(p) for p in self.patterns for sort in sorts if p == Pattern(f"i:{sort}")}
        missing = next((sort for sort in sorted(sorts) if sort not in self.nodes), None)
        if missing is not None or not self.links:
            what = f"no nodes of sort `{missing}`" if self.links else "nothing that joins nodes"
            raise IncidenceError(f"diffusion is along entries between nodes, and `{text}` has {what}: add it, as in `i, {{i j}}`.")

    def forward(self, x: Values, structure: Structure) -> Any:
        """The same tensors, nodes averaged with their surroundings."""
        if torch.compiler.is_compiling():
            return self._traced(x, structure)
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

    def plan(self, structure: Structure) -> Flat:
        """Makes the lists for a structure, which tracing needs: pairs of a node and an entry, and how many nodes entries have."""
        flats = cache_of(structure, Flat)
        if self._key not in flats:
            lists, sorts = incidences(structure, self.links), sorted(self.nodes)
            starts = torch.tensor([structure._node_offsets[sort] for sort in sorts], device=structure.device)
            counts = torch.tensor([structure.counts[sort] for sort in sorts], device=structure.device)
            shift = counts.cumsum(0) - counts - starts  # nodes are numbered through these sorts alone
            nodes = lists.nodes + shift[torch.searchsorted(starts, lists.nodes, right=True) - 1]
            sizes = lists.entry_ptr.diff()
            flats[self._key] = Flat([nodes, torch.arange(len(sizes), device=nodes.device).repeat_interleave(sizes), sizes], "")
        return flats[self._key]

    def _traced(self, x: Any, structure: Structure) -> Any:
        sorts, flat = sorted(self.nodes), flat_of(structure, self._key)
        rows = [x[self.nodes[sort]] for sort in sorts]
        stacked = torch.cat(rows) if len(rows) > 1 else rows[0]  # (nodes of all sorts, channels)
        for _ in range(self.steps):
            stacked = unplanned(stacked, *stacked.shape) if flat is None else plain_diffuse(stacked, *flat.tensors)
        parts = stacked.split([one.shape[0] for one in rows]) if len(rows) > 1 else [stacked]
        return {**x, **{self.nodes[sort]: part for sort, part in zip(sorts, parts, strict=True)}}

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
