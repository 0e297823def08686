r"""`Structure`: nodes and the entries of tensors over them; index data only, validated once, never changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, overload

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.notebook import html_of
from incidence.structure import batch as batches
from incidence.structure import edit, storage
from incidence.structure.complete import complete_index
from incidence.structure.data import StructureData, arranged
from incidence.structure.entries_from_faces import with_pattern
from incidence.structure.ragged import MAX_ENTRIES
from incidence.structure.sampling import Sample, sample
from incidence.structure.validate import (
    as_num_nodes,
    as_tensors,
    assert_entries,
    entry_ptr_from_nodes,
    node_ptr_of,
)

__all__ = ["Structure"]


class Structure(StructureData):
    r"""A set of nodes with the entries of one or several tensors over it; or a batch of such structures, side by side.

    Args:
        num_nodes: The number of nodes; with several sorts, a mapping from sort to number.
        index: From patterns, named or not, to the nodes of their entries: shape [letters, entries], letters in order of
            appearance. A lone open face is told by [2, incidences], rows (node, entry number); other patterns with open faces by
            (letters, *members). A lone node pattern and the empty pattern need no index.
        device: Where the index lives; where it is, if not given.
        batch: For several structures at once: the structure of every node, ascending, as PyG's batches have it; with several sorts, a
            mapping from sort. Entries stand by structure, and none has nodes of two. Structures without nodes at the end cannot be told
            this way: `collate` those.

    Raises:
        IncidenceError: The index does not fit the pattern or the nodes; the message names the first bad entry.

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
        at = next(
            (t.device for parts in tensors.values() for t in parts), torch.device(device or "cpu")
        )
        self._set_checked(counts, node_ptr_of(counts, batch, at), tensors)

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
            arranged(self, pattern)  # finds duplicates, with the sort that plans need anyway

    def __getitem__(self, item: str | Pattern | int | slice | Tensor | Sequence[int]) -> Any:
        """The index of a tensor by text or name; or structures of a batch by number, slice, mask or list."""
        if not isinstance(item, (str, Pattern)):
            return batches.take(self, item)
        parts, pattern = self.index(item), self.resolve(item)
        if not pattern.is_open:
            return parts[0]
        return parts[1] if len(parts) == 2 and not pattern.fixed_letters else parts

    def __len__(self) -> int:
        return self.num_structures

    def __iter__(self) -> Iterator[Structure]:
        return (self[k] for k in range(self.num_structures))

    def canonical(self) -> tuple[Structure, dict[str, Tensor]]:
        """The same structure in the preferred order of entries, and for each tensor the rows to permute features with.

        Features go there by `x[rows]`; they come back by `y.new_empty(y.shape).index_copy(0, rows, y)`. In a batch the entries of every
        structure stay together.
        """
        return edit.canonical(self)

    @overload
    def locate(
        self, text: str | Pattern, query: object, *, with_sign: Literal[False] = ...
    ) -> Tensor: ...
    @overload
    def locate(
        self, text: str | Pattern, query: object, *, with_sign: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...
    def locate(
        self, text: str | Pattern, query: object, *, with_sign: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """The rows of given entries, told like an index of the pattern; -1 where an entry is absent.

        Oriented faces are found whatever their orientation. `with_sign=True` also tells whether the entry has the orientation of the
        query (1), the opposite (-1), or is absent (0): the value for the query is the sign times the value at the row.

        Example:
            >>> s = Structure(3, {"<i j>": [[0, 2], [1, 1]]})
            >>> s.locate("<i j>", [[0, 1, 0], [1, 2, 2]], with_sign=True)
            (tensor([ 0,  1, -1]), tensor([ 1, -1,  0]))
        """
        rows, signs = edit.locate(self, text, query)
        return (rows, signs) if with_sign else rows

    def reverse(self, text: str | Pattern, which: object = None) -> tuple[Structure, Tensor]:
        """The same structure with the reference orientation of some entries reversed, and for each entry the sign of that.

        Features go there by `signs[:, None] * x`.

        Args:
            text: The tensor, with an oriented face whose orientation the text leaves open, as in `<i j>`; in `i <i j>` it does not.
            which: A mask or row numbers; all entries, if not given.

        Example:
            >>> s = Structure(3, {"<i j>": [[0, 2], [1, 1]]})
            >>> reversed_structure, signs = s.reverse("<i j>", [1])
            >>> reversed_structure["<i j>"].tolist(), signs.tolist()
            ([[0, 1], [1, 2]], [1, -1])
        """
        return edit.reverse(self, text, which)

    def with_index(self, index: Mapping[str, object]) -> Structure:
        """The same nodes with further tensors, or other entries for those given."""
        return edit.with_index(self, index)

    def with_pattern(
        self, text: str | Pattern, faces: Mapping[Any, str] | None = None, limit: int = MAX_ENTRIES
    ) -> Structure:
        """The same structure with the entries of one more pattern, found from the faces present; in the preferred order.

        An entry is present iff each of its faces is an entry of the tensor that lists such faces: `{i j} {i j k}` needs `{i j}` and
        `{i j k}`, and `i {i ...}` needs `{i ...}`; all nodes are present. Entries never cross the structures of a batch.

        Args:
            text: The pattern. With a name, as in `meets={i j} {i k}`, the new tensor has that name.
            faces: Which tensor lists a face, where several could or another is meant: from the text or the number of the face.
            limit: More combinations of faces than this are refused before they are listed.

        Raises:
            IncidenceError: No tensor, or more than one, lists faces that the pattern has.
            TooLargeError: There are more combinations than `limit`.

        Example:
            >>> path = Structure(4, {"{i j}": torch.tensor([[0, 1, 2], [1, 2, 3]])})
            >>> path.with_pattern("i {i j}").num_entries("i {i j}")
            6
            >>> path.with_pattern("{i j} {i k}")["{i j} {i k}"].shape[1]  # three equal pairs, four that meet in a node
            7
        """
        return with_pattern(self, text, faces, limit)

    def relabel(self, permutation: object) -> Structure:
        """The same structure with node v called permutation[v]; with sorts, a mapping from sort to permutation."""
        return edit.relabel(self, permutation)

    def induced(self, nodes: object) -> Structure:
        """The entries all of whose nodes are kept, over those nodes numbered anew, in the given order."""
        return edit.induced(self, nodes)[0]

    def sample(
        self,
        nodes: object,
        hops: int | None = None,
        sizes: object = None,
        generator: torch.Generator | None = None,
    ) -> Sample[Structure]:
        """The surroundings of some nodes, the seeds: the entries inside of what is reached from them, with all old numbers.

        Nodes are neighbours if they have an entry in common. With all neighbours of as many hops as a network without global operations
        has layers (`net.reach`), its outputs for the seeds are those on the whole structure.

        Args:
            nodes: Numbers or a mask; by sort, if there are several.
            hops: How many steps to go.
            sizes: How many neighbours of each node to draw, for all steps or for every one of them; None or -1 for all.
            generator: Of the random choice.

        Raises:
            IncidenceError: This is a batch, there are no such nodes, or hops and sizes do not say how far to go.

        Example:
            >>> star = Structure(6, {"{i j}": [[0, 0, 0, 0, 4], [1, 2, 3, 4, 5]]})
            >>> star.sample([0], hops=1).structure.num_nodes, star.sample([0], sizes=[2, None]).structure.num_nodes <= 4
            (5, True)
        """
        return sample(self, nodes, hops, sizes, generator)

    def select(self, text: str | Pattern, which: object) -> Structure:
        """The same structure with only some entries of one tensor: a mask or row numbers."""
        return edit.select(self, text, which)[0]

    def masked(self, text: str | Pattern, keep: object, name: str | None = None) -> Structure:
        """The same structure with only the entries of one tensor that a mask keeps, such as one that depends on features.

        Args:
            text: The tensor; a lone node pattern may be masked too.
            keep: True for every entry to keep, shape [entries].
            name: If given, the tensor stays as it is, and the kept entries are a further tensor of that name: the output of a layer.
        """
        return edit.masked(self, text, keep, name)

    @classmethod
    def complete(
        cls, num_nodes: int | Mapping[str, int], patterns: Sequence[str] | str, device: Any = None
    ) -> Structure:
        """The structure in which every entry of the patterns is present, in the preferred order.

        Example:
            >>> Structure.complete(4, ["i j", "{i j k}"])
            Structure(num_nodes=4, 'i j': 16 entries, '{i j k}': 4 entries)
        """
        if not isinstance(patterns, (str, list, tuple)):
            raise IncidenceError(f"complete takes a pattern, or a list of them; got {patterns!r}.")
        counts, index = complete_index(
            num_nodes, [patterns] if isinstance(patterns, str) else list(patterns)
        )
        return cls(counts, index, device=device).canonical()[0]

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Structure:
        """The structure on another device; its plans are made anew there."""
        return (
            self
            if torch.device(device) == self.device
            else self._map(lambda t: t.to(device, non_blocking=non_blocking))
        )

    def pin_memory(self) -> Structure:
        """The structure in page-locked memory, for faster copies to a GPU."""
        return self._map(lambda t: t.pin_memory())

    def save(self, path: Any) -> None:
        """Writes the structure to a file, at once or not at all. No pickle: `load` executes nothing."""
        storage.save(self, path)

    @classmethod
    def load(cls, path: Any) -> Structure:
        """Reads a structure that `save` wrote, and checks it."""
        return storage.load(path, cls._from_arrays)

    @classmethod
    def _from_arrays(cls, arrays: Mapping[str, Any]) -> Structure:
        """The structure that was written as these arrays, checked."""
        node_ptr, index, entry_ptr = storage.parts_from(arrays)
        tensors = as_tensors(index, None)
        self = cls.__new__(cls)
        self._set_checked(
            as_num_nodes({sort: int(ptr[-1]) for sort, ptr in node_ptr.items()}, list(tensors)),
            node_ptr,
            tensors,
        )
        if any(
            not torch.equal(ptr, entry_ptr[str(pattern)])
            for pattern, ptr in self._entry_ptr.items()
        ):
            raise IncidenceError("its structures do not add up.")
        return self

    def dynamic_shapes(self) -> list[list[Any]]:
        """What `torch.export` wants to hear of a structure whose sizes may vary: `dynamic_shapes=(..., s.dynamic_shapes())`."""
        dim = torch.export.Dim
        return [
            [dim.AUTO if size > 1 else dim.STATIC for size in leaf.shape]
            for leaf in tree_leaves(self)
        ]

    def __eq__(self, other: object) -> bool:
        """Whether sizes, tensors and entries agree, entries in order."""
        return edit.is_equal(self, other) if isinstance(other, Structure) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        many = f"num_structures={self.num_structures}, " if self.num_structures != 1 else ""
        entries = "".join(
            f", '{p}': {self.num_entries(p):,} {'entry' if self.num_entries(p) == 1 else 'entries'}"
            for p in self._index
        )
        return f"Structure({many}num_nodes={self.num_nodes}{entries})"

    _repr_html_ = html_of

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Structure._of, (self._node_ptr, self._index, self._entry_ptr)
