r"""`Structure`: nodes and the entries of tensors over them; index data only, validated once, never
changed.

This module makes structures, moves them and saves them. The other methods are in the base classes:
`data.py` (look up tensors), `edit.py` (change), `faces.py` (find entries), `sampling.py` (take
surroundings) and `batch.py` (take structures out of a batch).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from incidence.algebra.orbit import Orbit, placements
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, TooLargeError
from incidence.notebook import html_of
from incidence.structure.arguments import as_num_nodes, node_ptr_of
from incidence.structure.arrange import arranged
from incidence.structure.batch import Batches
from incidence.structure.data import Origin
from incidence.structure.faces import FaceSearch
from incidence.structure.sampling import Sampling
from incidence.structure.storage import arrays_of, parts_from, read_arrays, write_arrays
from incidence.structure.validate import as_tensors, assert_entries, entry_ptr_from_nodes

__all__ = ["Structure"]

_FORMAT = 1  # number of the file format
_MAX_TUPLES = 2**28  # of nodes, in a complete structure


class Structure(Batches, FaceSearch, Sampling):
    r"""A set of nodes with the entries of one or several tensors over it; or a batch of such
    structures, side by side.

    Args:
        num_nodes: The number of nodes; with several sorts, a mapping from sort to number.
        index: From patterns, with or without a name, to the nodes of their entries: shape [letters,
            entries], letters in order of appearance. A lone open face takes [2, incidences], rows
            (node, entry number); other patterns with open faces take (letters, *members). A lone
            node pattern and the empty pattern need no index.
        device: The device of the index; if not given, that of the tensors.
        batch: For several structures at once, the structure of every node, ascending, as in PyG;
            with several sorts, a mapping from sort. The entries are sorted by structure, and none
            has nodes of two. Structures without nodes at the end cannot be given this way; use
            `collate`.

    Raises:
        IncidenceError: The index does not fit the pattern or the nodes; the message names the first
            bad entry.

    Example:
        >>> s = Structure(num_nodes=3, index={"(i j)": torch.tensor([[0, 1], [1, 2]])})
        >>> s
        Structure(num_nodes=3, '(i j)': 2 entries)
        >>> s["(a b)"]
        tensor([[0, 1],
                [1, 2]])
        >>> Structure(5, {"{i j}": [[0, 1, 3], [1, 2, 4]]}, batch=[0, 0, 0, 1, 1]).batch("{i j}")
        tensor([0, 0, 1])
    """

    def __init__(
        self,
        num_nodes: int | Mapping[str, int],
        index: Mapping[str, object] | None = None,
        *,
        device: torch.device | str | None = None,
        batch: object = None,
    ) -> None:
        tensors = as_tensors(index, None if device is None else torch.device(device))
        counts = as_num_nodes(num_nodes, list(tensors))
        places = [tensor.device for parts in tensors.values() for tensor in parts]
        place = places[0] if places else torch.device(device or "cpu")
        self._set_checked(counts, node_ptr_of(counts, batch, place), tensors)

    def _set_checked(
        self,
        counts: dict[str, int],
        node_ptr: dict[str, Tensor],
        tensors: dict[Pattern, tuple[Tensor, ...]],
    ) -> None:
        entry_ptr = {}
        for pattern, parts in tensors.items():
            assert_entries(pattern, parts, counts)
            entry_ptr[pattern] = entry_ptr_from_nodes(pattern, parts, node_ptr)
        super().__init__(node_ptr, tensors, entry_ptr)
        for pattern in tensors:
            # Finding duplicates takes a sort. Plans need this sort anyway, and it is cached.
            arranged(self, pattern)

    @classmethod
    def complete(
        cls, num_nodes: int | Mapping[str, int], patterns: Sequence[str] | str, device: Any = None
    ) -> Structure:
        """Return the structure with all entries of the patterns, in the preferred order.

        Example:
            >>> Structure.complete(4, ["i j", "{i j k}"])
            Structure(num_nodes=4, 'i j': 16 entries, '{i j k}': 4 entries)
        """
        if not isinstance(patterns, (str, list, tuple)):
            raise IncidenceError(f"complete takes a pattern, or a list of them; got {patterns!r}.")
        texts = [patterns] if isinstance(patterns, str) else patterns
        wanted = [Pattern(text) for text in texts]
        counts = as_num_nodes(num_nodes, wanted)
        index = {str(p): _all_entries(p, counts) for p in wanted if p.faces}
        return cls(counts, index, device=device).canonical()[0]

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Structure:
        """Return the structure on another device, without its plans."""
        if torch.device(device) == self.device:
            return self
        return self._map(lambda t: t.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Structure:
        """Return the structure in page-locked memory, for faster copies to a GPU."""
        return self._map(lambda t: t.pin_memory())

    def save(self, path: Any) -> None:
        """Write the structure to a file, completely or not at all, without pickle."""
        write_arrays(path, {"format": np.array(_FORMAT), **arrays_of(self)})

    @classmethod
    def load(cls, path: Any) -> Structure:
        """Read a structure that `save` wrote, and check it as a new one; no code is executed."""
        what = "a structure written by `Structure.save`"
        return read_arrays(path, what, _FORMAT, cls._from_arrays)

    @classmethod
    def _from_arrays(cls, arrays: Mapping[str, Any]) -> Structure:
        node_ptr, index, entry_ptr = parts_from(arrays)
        tensors = as_tensors(index, None)
        given = {sort: int(ptr[-1]) for sort, ptr in node_ptr.items()}
        self = cls.__new__(cls)
        self._set_checked(as_num_nodes(given, list(tensors)), node_ptr, tensors)
        for pattern, ptr in self._entry_ptr.items():
            if not torch.equal(ptr, entry_ptr[str(pattern)]):
                raise IncidenceError("its structures do not add up.")
        return self

    def dynamic_shapes(self) -> list[list[Any]]:
        """Return the `dynamic_shapes` of a structure whose sizes may vary, for `torch.export`.

        Pass them on as `dynamic_shapes=(..., s.dynamic_shapes())`.
        """
        dim = torch.export.Dim
        return [
            [dim.AUTO if size > 1 else dim.STATIC for size in leaf.shape]
            for leaf in tree_leaves(self)
        ]

    def __repr__(self) -> str:
        many = f"num_structures={self.num_structures}, " if self.num_structures != 1 else ""
        entries = ""
        for pattern in self._index:
            count = self.num_entries(pattern)
            entries += f", '{pattern}': {count:,} {'entry' if count == 1 else 'entries'}"
        return f"Structure({many}num_nodes={self.num_nodes}{entries})"

    _repr_html_ = html_of

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        data = self._node_ptr, self._index, self._entry_ptr
        if self._origin is None or self._origin.stored is None:
            return Structure._of, data
        return _with_stored_plans, (*data, self._origin.stored)


def _with_stored_plans(
    node_ptr: dict[str, Tensor], index: Any, entry_ptr: dict[Pattern, Tensor], stored: Any
) -> Structure:
    """Return a structure whose plans are in files, unless these are gone."""
    origin = None if stored is None else Origin([], stored=stored)
    return Structure._of(node_ptr, index, entry_ptr, origin)


def _all_entries(pattern: Pattern, counts: Mapping[str, int]) -> Tensor:
    """Return one assignment for every entry of a pattern, shape (letters, entries)."""
    if pattern.is_open:
        raise IncidenceError(
            f"`{pattern}` has open faces: there is no complete structure for it. List the faces"
            " instead."
        )
    return torch.cat([_entries_of_orbit(pattern, orbit, counts) for orbit in pattern.orbits], dim=1)


def _entries_of_orbit(pattern: Pattern, orbit: Orbit, counts: Mapping[str, int]) -> Tensor:
    """List all disjoint class sets of an orbit, and turn them into letters."""
    labels = [label for label, c in enumerate(orbit.classes) for _ in range(c.size or 0)]
    sorts = [orbit.classes[label].sort for label in labels]
    if prod(max(counts[sort], 1) for sort in sorts) > _MAX_TUPLES:
        raise TooLargeError(
            f"`{pattern}` on {dict(counts)} nodes has too many entries to list: more than"
            f" {_MAX_TUPLES:,} tuples of nodes."
        )
    nodes = torch.zeros(1, 0, dtype=torch.long)  # (entries, nodes so far)
    for place, sort in enumerate(sorts):
        # Every entry so far, with every node as its next one.
        count = counts[sort]
        more = torch.arange(count).repeat(len(nodes))[:, None]
        nodes = torch.cat([nodes.repeat_interleave(count, dim=0), more], dim=1)
        others = [other for other in range(place) if sorts[other] == sort]
        # Nodes of one sort differ, whatever their class.
        is_new = (nodes[:, others] != nodes[:, -1:]).all(1)
        if place and labels[place] == labels[place - 1]:  # nodes of one class ascend
            is_new &= nodes[:, -2] < nodes[:, -1]
        nodes = nodes[is_new]
    return nodes[:, next(placements(pattern, orbit))].T.contiguous()
