"""What nodes take over from their surroundings, without a weight: `Diffusion`, steps of averaging,
and `Neighbours`, sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.engine.diffusion import (
    Neighbourhoods,
    diffuse,
    plain_diffuse,
    plain_sum_around,
    sum_around,
)
from incidence.engine.plain import refused
from incidence.engine.shared import SharedKeys, shared_keys
from incidence.errors import IncidenceError
from incidence.nn.composition import Planned, Side, unknown
from incidence.nn.tensors import Values, as_list, as_side, key_of, takes_examples
from incidence.structure import Structure
from incidence.structure.data import cache_of
from incidence.structure.incidences import incidences
from incidence.structure.pytree import Recorded, recorded, traced

__all__ = ["Diffusion", "Incident", "Neighbours", "Surroundings", "shared_nodes"]


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
        """Make the lists for a structure, which tracing needs: pairs of a node and an entry, and
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
            shift = counts.cumsum(0) - counts - starts  # (sorts,)
            nodes = lists.nodes + shift[torch.searchsorted(starts, lists.nodes, right=True) - 1]
            sizes = lists.entry_ptr.diff()  # (entries,)
            numbers = torch.arange(len(sizes), device=nodes.device)
            entries[self._key] = Recorded([nodes, numbers.repeat_interleave(sizes), sizes])
        return entries[self._key]

    def list_names(self) -> dict[str, str]:
        """Return the names of the lists, and what they are in words."""
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
        """Return the features of nodes, by sort, as the lists number them."""
        return [x[self.nodes[sort]] for sort in sorted(self.nodes)]

    def _all_rows(self, x: Mapping[str, Tensor], structure: Structure) -> list[Tensor]:
        """Return the same for all sorts of a structure, as `incidences` numbers nodes; those that
        nothing joins stand there as zeros.
        """
        some = next(x[key] for key in self.nodes.values())
        counts = structure.counts
        return [
            (
                _at_nodes(x[self.nodes[sort]], sort, structure)
                if sort in self.nodes
                else some.new_zeros(counts[sort], some.shape[1])
            )
            for sort in sorted(counts)
        ]


def _at_nodes(x: Tensor, sort: str, structure: Structure) -> Tensor:
    """Return rows of the nodes of a sort; on a part, 0 for those whose rows are elsewhere."""
    if structure.world is None:
        return x
    [held] = structure.index(Pattern(f"i:{sort}"))
    return x.new_zeros(structure.counts[sort], x.shape[1]).index_copy(0, held[0], x)


def _held(x: Tensor, sort: str, structure: Structure) -> Tensor:
    """Return the rows of the nodes whose features are here, which are all but on a part."""
    if structure.world is None:
        return x
    [held] = structure.index(Pattern(f"i:{sort}"))
    return x.index_select(0, held[0])


@torch.inference_mode(False)
def shared_nodes(structure: Structure) -> SharedKeys | None:
    """Return which nodes of a part of a structure others have too, cached; None for a whole one."""
    if structure.world is None:
        return None
    cache: dict[str, SharedKeys] = cache_of(structure, "shared nodes")
    if "all sorts" not in cache:
        nodes = structure.whole_nodes(torch.arange(structure.total_nodes))
        cache["all sorts"] = shared_keys(nodes[:, None], structure.world)
    return cache["all sorts"]


class Surroundings(Incident):
    """A linear map of nodes along the entries that join them, `steps` times; which one, `_step`
    says, and `_plain_step` while tracing.
    """

    _step = staticmethod(diffuse)
    _plain_step = staticmethod(plain_diffuse)

    def __init__(self, text: str, steps: int = 1) -> None:
        patterns = as_side(text)
        links = [p for p in patterns if p.is_open or len(p.letters) > 1]
        sorts = {sort for p in links for sort in p.sorts.values()}
        super().__init__(
            "neighbours",
            links,
            {sort: key_of(p) for p in patterns for sort in sorts if p == Pattern(f"i:{sort}")},
        )
        self.text, self.steps, self.patterns = text, steps, patterns
        missing = next((sort for sort in sorted(sorts) if sort not in self.nodes), None)
        if missing is not None or not links:
            what = f"no nodes of sort `{missing}`" if links else "nothing that joins nodes"
            raise IncidenceError(
                f"nodes take over what is around them along entries, and `{text}` has {what}: add"
                " it, as in `i, {i j}`."
            )

    def of_nodes(self, values: Mapping[str, Tensor], structure: Structure) -> dict[str, Tensor]:
        """Return the map of the rows of nodes, by the key of their tensor; other tensors are left
        out.
        """
        if torch.compiler.is_compiling():
            return self._traced(values, structure)
        counts = {sort: structure.counts[sort] for sort in sorted(structure.counts)}
        stacked = torch.cat(self._all_rows(values, structure))  # (nodes of all sorts, channels)
        around = self._around(structure, stacked.dtype)
        stacked = around.complete(stacked)
        for _ in range(self.steps):
            stacked = self._step(stacked, around)
        parts = dict(zip(counts, stacked.split(list(counts.values())), strict=True))
        return {key: _held(parts[sort], sort, structure) for sort, key in self.nodes.items()}

    def _traced(self, values: Mapping[str, Tensor], structure: Structure) -> dict[str, Tensor]:
        rows, lists = self._rows(values), traced(structure, self._key)
        stacked = torch.cat(rows) if len(rows) > 1 else rows[0]  # (nodes of all sorts, channels)
        for _ in range(self.steps):
            stacked = (
                refused(None, stacked, *stacked.shape)
                if lists is None
                else self._plain_step(stacked, *lists.tensors)
            )
        parts = stacked.split([one.shape[0] for one in rows]) if len(rows) > 1 else [stacked]
        return {
            self.nodes[sort]: part for sort, part in zip(sorted(self.nodes), parts, strict=True)
        }

    @torch.inference_mode(False)
    def _around(self, structure: Structure, dtype: torch.dtype) -> Neighbourhoods:
        cache, key = cache_of(structure, Neighbourhoods), (tuple(self.links), dtype)
        if key not in cache:
            lists = incidences(structure, self.links)
            cache[key] = Neighbourhoods.of(lists, dtype, shared_nodes(structure))
        return cache[key]


class Diffusion(Surroundings):
    r"""Every node keeps half of its row and takes half from its surroundings, so often as there are
    steps; nothing is learned.

    One step is $y_i = \frac12 x_i + \frac1{2 d_i} \sum_{e \ni i} \frac1{|e| - 1} \sum_{j \in e, j
    \ne i} x_j$, half of the mean over the $d_i$ entries that node i lies in of the mean of their
    other nodes, be they edges, hyperedges, faces or rows of a table; a node in no entry keeps its
    row. Where few labels are known and neighbours are alike, it does what a network would have to
    learn.

    Args:
        text: The tensors, such as `i, {i j}`: nodes, which change, and those that join them, which
            do not.
        steps: How often.

    Raises:
        IncidenceError: The nodes of a sort are missing, or nothing joins nodes.

    Example:
        >>> s = Structure(3, {"{i j}": [[0, 1], [1, 2]]})
        >>> x = {"i": torch.tensor([[0.0], [4.0], [8.0]]), "{i j}": torch.ones(2, 1)}
        >>> Diffusion("i, {i j}")(x, s)["i"].flatten()
        tensor([2., 4., 6.])
    """

    def __init__(self, text: str, steps: int = 1) -> None:
        super().__init__(text, steps)
        self.map = EquivariantMap.between(self.patterns, self.patterns)
        self._keys = [key_of(p) for p in self.patterns]

    @takes_examples
    def forward(self, x: Values, structure: Structure) -> Any:
        """Return the same tensors, nodes averaged with their surroundings."""
        if torch.compiler.is_compiling():
            return {**x, **self.of_nodes(x, structure)}  # type: ignore[dict-item, arg-type]
        values = dict(
            zip(
                self._keys,
                as_list(self.patterns, x, structure, [None] * len(self.patterns)),
                strict=True,
            )
        )
        return {**values, **self.of_nodes(values, structure)}

    def follow(self, side: Side | None) -> Side | None:
        """Return the same tensors."""
        return side

    def extra_repr(self) -> str:
        """Return the tensors and the number of steps."""
        return f"{self.text!r}, steps={self.steps}"


class Neighbours(Surroundings):
    r"""For every node the sum over its neighbours, divided by the root of their number; nothing is
    learned.

    $y_i = \frac1{\sqrt{d_i}} \sum_{e \ni i} \frac1{|e| - 1} \sum_{j \in e, j \ne i} x_j$, over the
    $d_i$ entries that node i lies in, of the mean of their other nodes; 0 for a node in no entry. A
    mean would forget how many neighbours there are, and a sum would be large where there are many:
    independent neighbours of variance 1 have a y of variance 1.

    Args:
        text: Nodes, and what joins them, such as `i, {i j}`. Only nodes have values.

    Raises:
        IncidenceError: The nodes of a sort are missing, or nothing joins nodes.

    Shape:
        x: (nodes, channels), or a dict of such where nodes have several sorts; the output likewise.

    Example:
        >>> s = Structure(5, {"{i j}": [[0, 0, 0, 0], [1, 2, 3, 4]]})
        >>> Neighbours("i, {i j}")(torch.tensor([[5.0], [1.0], [2.0], [3.0], [4.0]]), s).flatten()
        tensor([5., 5., 5., 5., 5.])
    """

    _step = staticmethod(sum_around)
    _plain_step = staticmethod(plain_sum_around)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.sides = tuple(p for p in self.patterns if key_of(p) in self.nodes.values())
        self.map = EquivariantMap.between(self.sides, self.sides)
        self._keys = [key_of(p) for p in self.sides]

    @takes_examples
    def forward(self, x: Values, structure: Structure) -> Any:
        """Return the sums around nodes."""
        if torch.compiler.is_compiling():
            values = [x] if isinstance(x, Tensor) else [x[key] for key in self._keys]
        else:
            values = as_list(self.sides, x, structure, [None] * len(self.sides))
        found = self.of_nodes(dict(zip(self._keys, values, strict=True)), structure)
        return found[self._keys[0]] if isinstance(x, Tensor) else found

    def follow(self, side: Side | None) -> Side:
        """Return the nodes."""
        return unknown(self.sides)

    def extra_repr(self) -> str:
        """Return the tensors."""
        return repr(self.text)
