"""Modules that walk between nodes and the entries that they lie in, which tracing has as plain
lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.nn.planned import Planned
from incidence.structure import Structure
from incidence.structure.incidences import incidences
from incidence.structure.pytree import Recorded, recorded

__all__ = ["Incident"]


class Incident(Planned):
    """A module on pairs of a node and an entry that it lies in.

    Args:
        word: What names of its lists begin with.
        links: The tensors whose entries have the nodes.
        nodes: The key of the features of the nodes of every sort.
    """

    def __init__(self, word: str, links: Sequence[Pattern], nodes: Mapping[str, str]) -> None:
        super().__init__()
        self.word, self.links, self.nodes = word, list(links), dict(nodes)
        # of what is kept for tracing
        self._key = f"{word} {', '.join(map(str, links))} of {', '.join(sorted(nodes))}"

    def plan(self, structure: Structure) -> Recorded:
        """Makes the lists for a structure, which tracing needs: pairs of a node and an entry, and
        how many nodes entries have.
        """
        entries = recorded(structure)
        if self._key not in entries:
            lists, sorts = incidences(structure, self.links), sorted(self.nodes)
            starts = torch.tensor(
                [structure._node_offsets[sort] for sort in sorts], device=structure.device
            )
            counts = torch.tensor(
                [structure.counts[sort] for sort in sorts], device=structure.device
            )
            # nodes are numbered through these sorts alone
            shift = counts.cumsum(0) - counts - starts
            nodes = lists.nodes + shift[torch.searchsorted(starts, lists.nodes, right=True) - 1]
            sizes = lists.entry_ptr.diff()
            numbers = torch.arange(len(sizes), device=nodes.device)
            entries[self._key] = Recorded([nodes, numbers.repeat_interleave(sizes), sizes])
        return entries[self._key]

    def told(self) -> dict[str, str]:
        """The names of the lists, and what they are in words."""
        words = {
            "nodes": "node of each pair",
            "entries": "entry of each pair",
            "sizes": "nodes of each entry",
        }
        links = ", ".join(map(str, self.links))
        return {
            f"{self.word}_{what}": f"{about}: pairs of a node and an entry of {links}"
            for what, about in words.items()
        }

    def _rows(self, x: Mapping[str, Tensor]) -> list[Tensor]:
        """The features of nodes, by sort, as the lists number them."""
        return [x[self.nodes[sort]] for sort in sorted(self.nodes)]

    def _all_rows(self, x: Mapping[str, Tensor], structure: Structure) -> list[Tensor]:
        """The same for all sorts of a structure, as `incidences` numbers nodes; those that nothing
        joins stand there as zeros.
        """
        some = next(x[key] for key in self.nodes.values())
        counts = structure.counts
        return [
            (
                x[self.nodes[sort]]
                if sort in self.nodes
                else some.new_zeros(counts[sort], some.shape[1])
            )
            for sort in sorted(counts)
        ]
