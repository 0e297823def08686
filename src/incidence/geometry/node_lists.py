"""Many lists of nodes at once: read from what callers give, checked with the place of the first bad one, sorted as structures prefer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import index as index_of
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.structure.ragged import code, distinct, expand, group, ranges
from incidence.structure.validate import as_num_nodes

__all__ = [
    "NodeLists",
    "as_array",
    "as_count",
    "as_integer",
    "assert_nodes",
    "different",
    "read_node_lists",
    "sides",
]


@dataclass(frozen=True)
class NodeLists:
    """Node lists of mixed size: list k is `nodes[ptr[k]:ptr[k + 1]]`.

    Attributes:
        ptr: Where each list starts, and the end; shape [lists + 1].
        nodes: The nodes of all lists, one after the other; shape [incidences].

    Example:
        >>> sets = NodeLists.of_lists([[0, 1, 2], [3, 4]])
        >>> len(sets), sets[1]
        (2, tensor([3, 4]))
    """

    ptr: Tensor
    nodes: Tensor

    @staticmethod
    def of_lists(lists: Sequence[Sequence[int]]) -> NodeLists:
        return NodeLists(
            ranges(torch.tensor([len(own) for own in lists], dtype=torch.long)),
            torch.tensor([v for own in lists for v in own], dtype=torch.long),
        )

    @staticmethod
    def of_rows(rows: Tensor, *more: Tensor) -> NodeLists:
        """Node lists from matrices, shape [lists, size], each of one size."""
        sizes = [torch.full((len(own),), own.shape[1], device=own.device) for own in (rows, *more)]
        return NodeLists(
            ranges(torch.cat(sizes)), torch.cat([own.flatten() for own in (rows, *more)])
        )

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def __getitem__(self, number: int) -> Tensor:
        start, stop = self.ptr[range(len(self))[number] :][:2].tolist()
        return self.nodes[start:stop]

    @property
    def sizes(self) -> Tensor:
        """The number of nodes of every list."""
        return self.ptr.diff()

    @property
    def numbers(self) -> Tensor:
        """The number of the list of every incidence."""
        return expand(self.ptr[:-1], self.sizes)[0]

    @property
    def index(self) -> Tensor:
        """Rows (node, list number), as a structure keeps a lone open face; shape [2, incidences]."""
        return torch.stack([self.nodes, self.numbers])

    def take(self, rows: Tensor) -> NodeLists:
        """The lists of given numbers, in that order."""
        sizes = self.sizes[rows]
        return NodeLists(ranges(sizes), self.nodes[expand(self.ptr[rows], sizes)[1]])

    def by_size(self) -> list[tuple[Tensor, Tensor]]:
        """For every size, ascending: the numbers of the lists of that size, and their nodes, shape [lists, size]."""
        spots = (
            (rows, self.ptr[rows, None] + torch.arange(size, device=rows.device))
            for size, rows in group(self.sizes)
        )
        return [(rows, self.nodes[spot]) for rows, spot in spots]

    def arranged(self, num_nodes: int) -> tuple[NodeLists, Tensor, Tensor]:
        """The lists in canonical order (by size, then nodes, which ascend), which list each was, and whether it equals the one before."""
        parts, orders, again = [self.nodes[:0]], [self.nodes[:0]], [self.nodes[:0].bool()]
        for rows, nodes in self.by_size():
            nodes = nodes.sort(dim=1)[0]
            key, order = code(nodes.unbind(1), [max(num_nodes, 1)] * nodes.shape[1])[0].sort(
                stable=True
            )
            parts.append(nodes[order].flatten())
            orders.append(rows[order])
            again += [again[0].new_zeros(1), key[1:] == key[:-1]]
        order = torch.cat(orders)
        return NodeLists(ranges(self.sizes[order]), torch.cat(parts)), order, torch.cat(again)

    def repeats(self) -> Tensor:
        """Whether a node stands twice in a list, for every list."""
        found = torch.zeros(len(self), dtype=torch.bool, device=self.nodes.device)
        for rows, nodes in self.by_size():
            ordered = nodes.sort(dim=1)[0]
            found[rows] = (ordered[:, 1:] == ordered[:, :-1]).any(1)
        return found


def different(nodes: Tensor, num_nodes: int) -> Tensor:
    """Where every different row stands first, rows in lexicographic order."""
    return distinct(code(nodes.unbind(1), [num_nodes] * nodes.shape[1])[0])


def sides(polygons: NodeLists, num_nodes: int) -> Tensor:
    """The edges of polygons, consecutive nodes of each, every one once and in canonical order; shape [2, edges]."""
    following = torch.arange(1, len(polygons.nodes) + 1)
    following[polygons.ptr[1:] - 1] = polygons.ptr[
        :-1
    ]  # the last node of a polygon meets its first
    pairs = torch.stack([polygons.nodes, polygons.nodes[following]], dim=1).sort(dim=1)[0]
    return pairs[different(pairs, max(num_nodes, 1))].T.contiguous()


def as_count(num_nodes: object) -> int:
    return as_num_nodes({"node": num_nodes}, [])["node"]  # type: ignore[dict-item]


def as_integer(who: str, name: str, value: object, least: int, most: int | None = None) -> int:
    """An integer argument within its bounds."""
    try:
        number = least - 1 if isinstance(value, bool) else index_of(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if number < least or (most is not None and number > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise IncidenceError(f"{who}: {name} is an integer {bounds}; got {value!r}.")
    return number


def as_array(values: Any) -> NDArray[Any]:
    """A tensor, an array or lists as an array of its own; what numpy cannot take raises what numpy raises."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = (
            values.float() if values.dtype in (torch.bfloat16, torch.float16) else values
        ).numpy()
    return np.array(values)


def read_node_lists(name: str, value: Any) -> NodeLists:
    """Reads lists (tuples, sets, tensors) of node numbers, or a matrix of them with one list a row."""
    if isinstance(value, NodeLists):
        return value
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise IncidenceError(
            f"{name} must be a list of lists of nodes; got {type(value).__name__}."
        )
    if (
        hasattr(value, "__array__")
        and getattr(value, "ndim", 0) == 2
        and as_array(value).dtype.kind in "iu"
    ):
        return NodeLists.of_rows(torch.from_numpy(as_array(value).astype(np.int64)))
    items: list[Any] = [item.tolist() if hasattr(item, "tolist") else item for item in value]
    try:
        sizes = [len(item) for item in items]
        nodes = np.fromiter(
            map(index_of, chain.from_iterable(items)), dtype=np.int64, count=sum(sizes)
        )
    except (TypeError, ValueError, OverflowError):
        bad, item = next((k, item) for k, item in enumerate(items) if not _is_list(item))
        raise IncidenceError(
            f"{name}[{bad}] must be a list of nodes, which are integers; got {item!r}."
        ) from None
    return NodeLists(ranges(torch.tensor(sizes, dtype=torch.long)), torch.from_numpy(nodes))


def _is_list(item: object) -> bool:
    if (
        isinstance(item, (str, bytes))
        or not isinstance(item, Iterable)
        or not hasattr(item, "__len__")
    ):
        return False
    return all(hasattr(node, "__index__") and abs(index_of(node)) < 2**63 for node in item)


def assert_nodes(lists: NodeLists, num_nodes: int, place: Callable[[int], str]) -> None:
    """Refuses empty lists, nodes out of range, and nodes that stand twice in a list; `place` is how messages call a list."""
    is_empty = lists.sizes == 0
    if is_empty.any():
        raise IncidenceError(
            f"{place(int(is_empty.nonzero()[0]))} is empty: a face has at least one node. Remove it."
        )
    is_bad = (lists.nodes < 0) | (lists.nodes >= num_nodes)
    if is_bad.any():
        bad = int(is_bad.nonzero()[0])
        node, where = int(lists.nodes[bad]), place(int(lists.numbers[bad]))
        range_ = f"0 to {num_nodes - 1}" if num_nodes else "from 0, and there are none"
        raise IncidenceError(
            f"{where} has the node {node}: nodes are numbered {range_} (num_nodes is {num_nodes}). Correct it, or raise num_nodes."
            if node >= 0
            else f"{where} has the negative node {node}: nodes are numbered from 0. Correct it."
        )
    repeats = lists.repeats()
    if repeats.any():
        bad = int(repeats.nonzero()[0])
        nodes = lists[bad].tolist()
        raise IncidenceError(
            f"{place(bad)} is {tuple(nodes)}: the node {max(nodes, key=nodes.count)} stands twice, and the nodes of a face are distinct. "
            f"Remove the repeated node, or the face."
        )
