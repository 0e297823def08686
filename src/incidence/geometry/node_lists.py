"""Many node sets at once, in the order that structures prefer: by size, then by ascending nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import index as index_of
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure import Structure
from incidence.structure.entries import count_entries
from incidence.structure.ragged import code, group, ranges

__all__ = ["NodeLists", "as_array", "as_node_lists", "sides", "structure_of"]


_MAX_NODES = 2**61


@dataclass(frozen=True)
class NodeLists:
    """Node lists of mixed size: set k is `nodes[ptr[k]:ptr[k + 1]]`.

    Attributes:
        ptr: Where each set starts, and the end; shape [sets + 1].
        nodes: The nodes of all sets, one after the other; shape [incidences].

    Example:
        >>> sets = NodeLists.of_lists([[0, 1, 2], [3, 4]])
        >>> len(sets), sets[1]
        (2, tensor([3, 4]))
    """

    ptr: Tensor
    nodes: Tensor

    @staticmethod
    def of_lists(lists: list[list[int]]) -> NodeLists:
        """Node sets from lists."""
        return NodeLists(
            ranges(torch.tensor([len(own) for own in lists], dtype=torch.long)),
            torch.tensor([v for own in lists for v in own], dtype=torch.long),
        )

    @staticmethod
    def of_rows(rows: Tensor) -> NodeLists:
        """Node sets of one size from a matrix, shape [sets, size]."""
        return NodeLists(torch.arange(len(rows) + 1) * rows.shape[1], rows.reshape(-1))

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def __getitem__(self, number: int) -> Tensor:
        start, stop = self.ptr[range(len(self))[number] :][:2].tolist()
        return self.nodes[start:stop]

    @property
    def sizes(self) -> Tensor:
        """The number of nodes of every set."""
        return self.ptr.diff()

    @property
    def numbers(self) -> Tensor:
        """The number of the set of every incidence."""
        return torch.repeat_interleave(torch.arange(len(self)), self.sizes, output_size=len(self.nodes))

    @property
    def index(self) -> Tensor:
        """Rows (node, set number), as a structure keeps a lone open face; shape [2, incidences]."""
        return torch.stack([self.nodes, self.numbers])

    def take(self, rows: Tensor) -> NodeLists:
        """The sets of given numbers, in that order."""
        sizes = self.sizes[rows]
        ptr = ranges(sizes)
        shift = torch.repeat_interleave(self.ptr[rows] - ptr[:-1], sizes)
        return NodeLists(ptr, self.nodes[torch.arange(len(shift)) + shift])

    def arranged(self, num_nodes: int) -> tuple[NodeLists, Tensor, Tensor]:
        """The sets in canonical order with ascending nodes, which set each was, and whether it equals the one before it."""
        parts, orders, again = [], [], []
        for size, rows in group(self.sizes):
            matrix = self._matrix(size, rows).sort(dim=1).values
            key, order = code(matrix.unbind(1), [num_nodes] * size)[0].sort(stable=True)
            parts.append(NodeLists.of_rows(matrix[order]))
            orders.append(rows[order])
            again.append(torch.cat([torch.zeros(1, dtype=torch.bool), key[1:] == key[:-1]]))
        if not parts:
            return self, self.ptr[:0], torch.zeros(0, dtype=torch.bool)
        sizes = torch.cat([part.sizes for part in parts])
        return NodeLists(ranges(sizes), torch.cat([part.nodes for part in parts])), torch.cat(orders), torch.cat(again)

    def repeats(self) -> Tensor:
        """Whether a node stands twice in a set, for every set."""
        found = torch.zeros(len(self), dtype=torch.bool)
        for size, rows in group(self.sizes):
            matrix = self._matrix(size, rows).sort(dim=1).values
            found[rows] = (matrix[:, 1:] == matrix[:, :-1]).any(1)
        return found

    def _matrix(self, size: int, rows: Tensor) -> Tensor:
        if len(rows) == len(self):
            return self.nodes.view(-1, size)
        return self.nodes[self.ptr[rows][:, None] + torch.arange(size)]


def as_array(values: Any) -> NDArray[Any]:
    """A tensor, an array or lists as an array of its own; what numpy cannot take raises what numpy raises."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = (values.float() if values.dtype in (torch.bfloat16, torch.float16) else values).numpy()
    return np.array(values)


def as_node_lists(value: Any, what: str) -> NodeLists:
    """Node sets from a matrix of integers, one set a row, or from lists of integers.

    Raises:
        IncidenceError: They are neither; the message calls a set `what`.
    """
    if isinstance(value, NodeLists):
        return value
    if hasattr(value, "__array__") and getattr(value, "ndim", 0) == 2:
        rows = as_array(value)
        if rows.dtype.kind not in "iu":
            raise IncidenceError(f"a {what} is a list of node numbers, which are integers; got {rows.dtype}.")
        return NodeLists.of_rows(torch.from_numpy(rows.astype(np.int64)))
    lists: list[list[int]] = []
    try:
        lists.extend([index_of(v) for v in own] for own in value)
    except (TypeError, ValueError, RuntimeError):
        raise IncidenceError(f"a {what} is a list of node numbers, which are integers; {what} {len(lists)} is not.") from None
    far = next((k for k, own in enumerate(lists) if own and max(max(own), -min(own)) >= _MAX_NODES), None)
    if far is not None:
        raise IncidenceError(f"{what} {far} is {lists[far]}: nodes are numbered from 0 to less than 2^61.")
    return NodeLists.of_lists(lists)


def sides(polygons: NodeLists, num_nodes: int) -> Tensor:
    """The edges of polygons, consecutive nodes of each, every one once and in canonical order; shape [2, edges]."""
    following = torch.arange(1, len(polygons.nodes) + 1)
    following[polygons.ptr[1:] - 1] = polygons.ptr[:-1]  # the last node of a polygon meets its first
    other = polygons.nodes[following]
    low, high = torch.minimum(polygons.nodes, other), torch.maximum(polygons.nodes, other)
    keys = torch.unique(low * max(num_nodes, 1) + high)
    return torch.stack([keys // max(num_nodes, 1), keys % max(num_nodes, 1)])


def structure_of(num_nodes: int, index: Mapping[str, Tensor]) -> Structure:
    """A structure from lone faces that are known to be right and in canonical order."""
    tensors = {_pattern(text): value for text, value in index.items()}
    bare = torch.zeros(0, 0, dtype=torch.long)  # the letters of a lone open face
    parts: dict[Pattern, tuple[Tensor, ...]] = {p: (bare, value) if p.is_open else (value,) for p, value in tensors.items()}
    entry_ptr = {p: torch.tensor([0, count_entries(p, own)]) for p, own in parts.items()}
    return Structure._of({"node": torch.tensor([0, num_nodes])}, parts, entry_ptr)


@lru_cache(maxsize=256)
def _pattern(text: str) -> Pattern:
    return Pattern(text)
