"""Lists of node sets as callers give them: read, checked with the place of the first bad one, and sorted by size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import index as index_of
from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.structure.ragged import code, distinct, ranges
from incidence.structure.validate import as_num_nodes

__all__ = ["NodeSets", "as_count", "different", "read_sets"]


def as_count(num_nodes: object) -> int:
    """A number of nodes, checked."""
    return as_num_nodes({"node": num_nodes}, [])["node"]  # type: ignore[dict-item]


@dataclass(frozen=True)
class NodeSets:
    """Sets, or sequences, of nodes: those of number k are `nodes[ptr[k]:ptr[k + 1]]`.

    Attributes:
        nodes: All nodes, shape [incidences].
        ptr: Where each set starts, and the end; shape [sets + 1].
        place: How messages call set number k, with `{}` for k.
    """

    nodes: Tensor
    ptr: Tensor
    place: str

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def bound(self) -> int:
        """One more than the largest node."""
        return max(int(self.nodes.max()) + 1, 0) if self.nodes.numel() else 0

    def by_size(self) -> list[tuple[Tensor, Tensor]]:
        """For every size, ascending: the numbers of the sets of that size, and their nodes, shape [sets, size]."""
        sizes = self.ptr.diff()
        if len(sizes) and bool((sizes == sizes[0]).all()):
            return [(torch.arange(len(sizes), device=sizes.device), self.nodes.view(len(sizes), -1))]
        found = []
        for size in torch.unique(sizes).tolist():
            rows = (sizes == size).nonzero()[:, 0]
            found.append((rows, self.nodes[self.ptr[rows, None] + torch.arange(size, device=sizes.device)]))
        return found

    def assert_nodes(self, num_nodes: int) -> None:
        """Refuses empty sets, nodes out of range, and nodes that stand twice in a set."""
        is_empty = self.ptr.diff() == 0
        if is_empty.any():
            raise IncidenceError(f"{self._name(is_empty)} is empty: a face has at least one node. Remove it.")
        is_bad = (self.nodes < 0) | (self.nodes >= num_nodes)
        if is_bad.any():
            bad = int(is_bad.nonzero()[0])
            node = int(self.nodes[bad])
            where = self.place.format(int(torch.searchsorted(self.ptr, bad, right=True)) - 1)
            range_ = f"0 to {num_nodes - 1}" if num_nodes else "from 0, and there are none"
            raise IncidenceError(
                f"{where} has the node {node}: nodes are numbered {range_} (num_nodes is {num_nodes}). Correct it, or raise num_nodes."
                if node >= 0
                else f"{where} has the negative node {node}: nodes are numbered from 0. Correct it."
            )
        for rows, nodes in self.by_size():
            ordered = nodes.sort(dim=1)[0]
            again = ordered[:, 1:] == ordered[:, :-1]
            if again.any():
                first, column = again.nonzero()[0].tolist()
                raise IncidenceError(
                    f"{self.place.format(int(rows[first]))} is {tuple(nodes[first].tolist())}: the node {int(ordered[first, column])} "
                    f"stands twice, and the nodes of a face are distinct. Remove the repeated node, or the face."
                )

    def _name(self, is_bad: Tensor) -> str:
        return self.place.format(int(is_bad.nonzero()[0]))


def read_sets(name: str, sets: Iterable[object]) -> NodeSets:
    """Reads a list of lists (tuples, sets, tensors) of node numbers.

    Raises:
        IncidenceError: It is none; the message names the first item that is not a list of integers.
    """
    if isinstance(sets, (str, bytes)) or not isinstance(sets, Iterable):
        raise IncidenceError(f"{name} must be a list of lists of nodes; got {type(sets).__name__}.")
    items: list[Any] = [s.tolist() if hasattr(s, "tolist") else s for s in sets]
    try:
        sizes = [len(s) for s in items]
        nodes = np.fromiter(map(index_of, chain.from_iterable(items)), dtype=np.int64, count=sum(sizes))
    except (TypeError, ValueError, OverflowError):
        bad, item = next((k, s) for k, s in enumerate(items) if not _is_set(s))
        raise IncidenceError(f"{name}[{bad}] must be a list of nodes, which are integers; got {item!r}.") from None
    return NodeSets(torch.from_numpy(nodes), ranges(torch.tensor(sizes, dtype=torch.long)), f"{name}[{{}}]")


def _is_set(item: object) -> bool:
    if isinstance(item, (str, bytes)) or not isinstance(item, Iterable) or not hasattr(item, "__len__"):
        return False
    return all(hasattr(node, "__index__") and abs(index_of(node)) < 2**63 for node in item)


def different(nodes: Tensor, num_nodes: int) -> Tensor:
    """Where every different row stands first, rows in lexicographic order."""
    return distinct(code(nodes.unbind(1), [num_nodes] * nodes.shape[1])[0])


def repeated(groups: Sequence[tuple[Tensor, Tensor]], num_nodes: int) -> tuple[int, int] | None:
    """The numbers of two sets that are equal, if there are; nodes ascend within each row."""
    for rows, nodes in groups:
        kept = different(nodes, num_nodes)
        if len(kept) < len(rows):
            extra = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
            extra[kept] = False
            other = int(extra.nonzero()[0])
            one = int((nodes == nodes[other]).all(1).nonzero()[0])
            return int(rows[one]), int(rows[other])
    return None
