"""Many lists of nodes at once: made from arguments, checked with the place of the first bad one,
sorted as structures prefer.
"""

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
from incidence.structure.arguments import as_num_nodes
from incidence.structure.ragged import code, distinct, expand, group, ranges

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
        """Build node lists from lists."""
        sizes = torch.tensor([len(nodes) for nodes in lists], dtype=torch.long)
        nodes = torch.tensor([v for nodes in lists for v in nodes], dtype=torch.long)
        return NodeLists(ranges(sizes), nodes)

    @staticmethod
    def of_rows(rows: Tensor, *more: Tensor) -> NodeLists:
        """Build node lists from matrices, shape [lists, size], each of one size."""
        matrices = (rows, *more)
        # (lists,) each
        sizes = [torch.full((len(m),), m.shape[1], device=m.device) for m in matrices]
        return NodeLists(ranges(torch.cat(sizes)), torch.cat([m.flatten() for m in matrices]))

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
        """Rows (node, list number), the index of a lone open face; shape [2, incidences]."""
        return torch.stack([self.nodes, self.numbers])

    def take(self, rows: Tensor) -> NodeLists:
        """Return the lists of given numbers, in that order."""
        sizes = self.sizes[rows]
        return NodeLists(ranges(sizes), self.nodes[expand(self.ptr[rows], sizes)[1]])

    def by_size(self) -> list[tuple[Tensor, Tensor]]:
        """Return for every size, ascending: the numbers of the lists of that size, and their nodes,
        shape [lists, size].
        """
        spots = (
            (rows, self.ptr[rows, None] + torch.arange(size, device=rows.device))
            for size, rows in group(self.sizes)
        )
        return [(rows, self.nodes[spot]) for rows, spot in spots]

    def arranged(self, num_nodes: int) -> tuple[NodeLists, Tensor, Tensor]:
        """Return the lists in canonical order (by size, then nodes, which ascend), the number that
        each had, and whether it equals the one before.
        """
        nothing = self.nodes[:0]
        parts = [nothing]
        orders = [nothing]
        again = [nothing.bool()]
        for rows, nodes in self.by_size():
            nodes = nodes.sort(dim=1)[0]  # (lists, size)
            # (lists,), a number for each set
            codes, _ = code(nodes.unbind(1), [max(num_nodes, 1)] * nodes.shape[1])
            key, order = codes.sort(stable=True)
            parts.append(nodes[order].flatten())
            orders.append(rows[order])
            # the first of a size equals none before
            again += [again[0].new_zeros(1), key[1:] == key[:-1]]
        order = torch.cat(orders)
        return NodeLists(ranges(self.sizes[order]), torch.cat(parts)), order, torch.cat(again)

    def repeats(self) -> Tensor:
        """Return for every list whether a node stands twice in it."""
        repeats = torch.zeros(len(self), dtype=torch.bool, device=self.nodes.device)
        for rows, nodes in self.by_size():
            ordered = nodes.sort(dim=1)[0]
            repeats[rows] = (ordered[:, 1:] == ordered[:, :-1]).any(1)
        return repeats


def different(nodes: Tensor, num_nodes: int) -> Tensor:
    """Return where every different row stands first, rows in lexicographic order."""
    return distinct(code(nodes.unbind(1), [num_nodes] * nodes.shape[1])[0])


def sides(polygons: NodeLists, num_nodes: int) -> Tensor:
    """Return the edges of polygons, consecutive nodes of each, every one once and in canonical
    order; shape [2, edges].
    """
    following = torch.arange(1, len(polygons.nodes) + 1)  # the next corner of each corner
    # the last node of a polygon meets its first
    following[polygons.ptr[1:] - 1] = polygons.ptr[:-1]
    # (sides, 2)
    pairs = torch.stack([polygons.nodes, polygons.nodes[following]], dim=1).sort(dim=1)[0]
    return pairs[different(pairs, max(num_nodes, 1))].T.contiguous()


def as_count(num_nodes: object) -> int:
    """Return a number of nodes, and check that it is one."""
    return as_num_nodes({"node": num_nodes}, [])["node"]  # type: ignore[dict-item]


def as_integer(who: str, name: str, value: object, least: int, most: int | None = None) -> int:
    """Return an integer argument, and check its bounds."""
    try:
        number = least - 1 if isinstance(value, bool) else index_of(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if number < least or (most is not None and number > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise IncidenceError(f"{who}: {name} is an integer {bounds}; got {value!r}.")
    return number


def as_array(values: Any) -> NDArray[Any]:
    """Return a tensor, an array or lists as a new array; what numpy cannot take raises what numpy
    raises.
    """
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        if values.dtype in (torch.bfloat16, torch.float16):  # numpy has no bfloat16
            values = values.float()
        values = values.numpy()
    return np.array(values)


def read_node_lists(name: str, value: Any) -> NodeLists:
    """Read lists (tuples, sets, tensors) of node numbers, or a matrix with one list a row."""
    if isinstance(value, NodeLists):
        return value
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise IncidenceError(
            f"{name} must be a list of lists of nodes; got {type(value).__name__}."
        )
    is_matrix = hasattr(value, "__array__") and getattr(value, "ndim", 0) == 2
    if is_matrix and as_array(value).dtype.kind in "iu":
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
    if not isinstance(item, Iterable) or isinstance(item, (str, bytes)):
        return False
    if not hasattr(item, "__len__"):
        return False
    return all(hasattr(node, "__index__") and abs(index_of(node)) < 2**63 for node in item)


def assert_nodes(lists: NodeLists, num_nodes: int, place: Callable[[int], str]) -> None:
    """Check that lists are not empty, and nodes in range and different in each list."""
    is_empty = lists.sizes == 0
    if is_empty.any():
        raise IncidenceError(
            f"{place(int(is_empty.nonzero()[0]))} is empty: a face has at least one node."
            " Remove it."
        )
    is_bad = (lists.nodes < 0) | (lists.nodes >= num_nodes)
    if is_bad.any():
        bad = int(is_bad.nonzero()[0])
        node = int(lists.nodes[bad])
        where = place(int(lists.numbers[bad]))
        if node < 0:
            raise IncidenceError(
                f"{where} has the negative node {node}: nodes are numbered from 0. Correct it."
            )
        allowed = f"0 to {num_nodes - 1}" if num_nodes else "from 0, and there are none"
        raise IncidenceError(
            f"{where} has the node {node}: nodes are numbered {allowed} (num_nodes is {num_nodes})."
            " Correct it, or raise num_nodes."
        )
    repeats = lists.repeats()
    if repeats.any():
        bad = int(repeats.nonzero()[0])
        nodes = lists[bad].tolist()
        raise IncidenceError(
            f"{place(bad)} is {tuple(nodes)}: the node {max(nodes, key=nodes.count)} stands twice,"
            " and the nodes of a face are distinct. Remove the repeated node, or the face."
        )
