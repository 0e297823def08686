r"""`Structure`: nodes and the entries of tensors over them; index data only, validated once, never changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.plans.batches import join_plans
from incidence.plans.orbit_plan import Array
from incidence.plans.plan import Plan, build, tensors_of
from incidence.structure.arrange import Arranged, DuplicateError, arrange
from incidence.structure.entries import buckets, count_entries
from incidence.structure.ragged import MAX_ENTRIES
from incidence.structure.tensors import Tensors, parsed
from incidence.structure.validate import as_index, as_num_nodes, assert_entries

__all__ = ["Structure"]


class Structure(Tensors):
    r"""A set of nodes with the entries of one or several tensors over it; or a batch of such structures, side by side.

    Args:
        num_nodes: The number of nodes; with several sorts, a mapping from sort to number.
        index: From patterns, named or not, to the nodes of their entries: shape [letters, entries], letters in order of
            appearance. A lone open face is told by [2, incidences], rows (node, entry number); other patterns with open faces by
            (letters, *members). A lone node pattern and the empty pattern need no index.
        device: Where the index lives; where it is, if not given.

    Raises:
        IncidenceError: The index does not fit the pattern or the nodes; the message names the first bad entry.

    Example:
        >>> s = Structure(num_nodes=3, index={"(i j)": torch.tensor([[0, 1], [1, 2]])})
        >>> s
        Structure(num_nodes=3, '(i j)': 2 entries)
        >>> s["(a b)"]
        tensor([[0, 1],
                [1, 2]])
    """

    def __init__(
        self,
        num_nodes: int | Mapping[str, int],
        index: Mapping[str, object] | None = None,
        *,
        device: torch.device | str | None = None,
    ) -> None:
        if index is not None and not isinstance(index, Mapping):
            raise IncidenceError(f"index must map patterns to integer tensors, as in {{'(i j)': edges}}; got {type(index).__name__}.")
        given = {_as_pattern(text): value for text, value in (index or {}).items()}
        if len(given) < len(index or {}):
            raise IncidenceError(f"two patterns of the index mean the same: {', '.join(map(repr, index or {}))}. Name one of them.")
        counts = as_num_nodes(num_nodes, list(given))
        target = torch.device(device) if device is not None else None
        tensors: dict[Pattern, tuple[Tensor, ...]] = {}
        for pattern, value in given.items():
            if not pattern.faces:
                raise IncidenceError("the empty pattern has one entry for each structure and takes no index. Leave it out.")
            tensors[pattern] = as_index(pattern, value, target)
        _assert_one_device(tensors)
        if any(part.is_meta for parts in tensors.values() for part in parts):
            raise IncidenceError("the index is on the meta device, where tensors have no values: make the structure first, then move it.")
        for pattern, parts in tensors.items():
            assert_entries(pattern, parts, counts)
        names = [pattern.name for pattern in tensors if pattern.name]
        if len(set(names)) < len(names):
            raise IncidenceError(f"a name means one tensor; `{max(names, key=names.count)}` is given twice. Use another name.")
        at = next((t.device for parts in tensors.values() for t in parts), target or torch.device("cpu"))
        ptr = {sort: torch.tensor([0, counts[sort]], device=at) for sort in sorted(counts)}
        entry_ptr = {p: torch.tensor([0, count_entries(p, parts)], device=at) for p, parts in tensors.items()}
        self._set(ptr, tensors, entry_ptr)
        for pattern in tensors:
            self.arranged(pattern)  # finds duplicates, with the sort that plans need anyway

    @classmethod
    def _of(
        cls,
        node_ptr: dict[str, Tensor],
        index: Mapping[Pattern, tuple[Tensor, ...]],
        entry_ptr: dict[Pattern, Tensor],
        parts: Sequence[Structure] = (),
        packed: tuple[Structure, range | Array] | None = None,
    ) -> Structure:
        """A structure from parts that are known to be right.

        Args:
            node_ptr: For every sort, where the nodes of each structure start, and the end.
            index: For every pattern, its index.
            entry_ptr: For every pattern, where the entries of each structure start, and the end.
            parts: The structures or batches this one is made of, which may have plans already.
            packed: Or the store, which makes plans for all structures in it, and the numbers of these there.
        """
        self = cls.__new__(cls)
        self._set(node_ptr, index, entry_ptr)
        self._parts, self.packed = parts, packed
        return self

    def _set(self, node_ptr: dict[str, Tensor], index: Mapping[Pattern, tuple[Tensor, ...]], entry_ptr: dict[Pattern, Tensor]) -> None:
        Tensors.__init__(self, node_ptr, index, entry_ptr)
        self._parts: Sequence[Structure] = ()
        self.packed: tuple[Structure, range | Array] | None = None
        self._arranged: dict[Pattern, list[Arranged]] = {}
        self._plans: dict[EquivariantMap, Plan] = {}
        self.flat: dict[str, Any] = {}  # plans as plain tensors, for tracing
        self.ready: dict[str, Any] = {}  # layers prepared for this structure
        self.in_order: Structure | None = None  # the same in the order of its plans, see `ordered`

    # ---- structures of a batch

    def __getitem__(self, item: str | Pattern | int | slice | Tensor | Sequence[int]) -> Any:
        """The index of a tensor by text or name; or structures of a batch by number, slice, mask or list."""
        if isinstance(item, (str, Pattern)):
            parts = self.index(item)
            pattern = self.resolve(item)
            if not pattern.is_open:
                return parts[0]
            return parts[1] if len(parts) == 2 and not pattern.fixed_letters else parts
        from incidence.structure.batch import take

        return take(self, item)

    def __len__(self) -> int:
        return self.num_structures

    def __iter__(self) -> Iterator[Structure]:
        return (self[k] for k in range(self.num_structures))

    # ---- canonical form and plans

    # What is found out about a structure is kept and used in training later, so it is never made of inference tensors.
    @torch.inference_mode(False)
    def arranged(self, text: str | Pattern) -> list[Arranged]:
        """The entries of a tensor by orbit and class sizes, in canonical order."""
        pattern = self.resolve(text)
        if pattern not in self._arranged:
            kept = next((p for p in self._index if p == pattern), pattern)
            found = buckets(kept, self._stored(kept), self.node_offsets, max(self.total_nodes, 1))
            try:
                self._arranged[pattern] = [arrange(bucket, max(self.total_nodes, 1)) for bucket in found]
            except DuplicateError as error:
                one, other = error.rows
                raise IncidenceError(
                    f"index['{kept}']: columns {one} and {other} denote one entry. Keep one of them (add up their features first); "
                    f"parallel edges are nodes of a sort of their own, as in `(i j) e:edge`."
                ) from None
        return self._arranged[pattern]

    @torch.inference_mode(False)
    def orbit_rows(self, text: str | Pattern) -> list[Tensor]:
        """The rows of every orbit of a tensor, in the order of `Pattern.orbits`."""
        pattern = self.resolve(text)
        rows: list[list[Tensor]] = [[self.empty_index(1)[0]] for _ in pattern.orbits]
        for found in self.arranged(pattern):
            rows[found.bucket.orbit].append(found.bucket.rows)
        return [torch.cat(parts) for parts in rows]

    def plan(self, equivariant_map: EquivariantMap) -> Plan:
        """The plan of a map on this structure: built once, kept, and shared by all layers with that map."""
        known = self._plans.get(equivariant_map)
        return self._make_plan(equivariant_map) if known is None else known

    @torch.inference_mode(False)
    def _make_plan(self, equivariant_map: EquivariantMap) -> Plan:
        plan = self._plans[equivariant_map] = self._joined(equivariant_map) or self._built(equivariant_map)
        return plan

    def _built(self, equivariant_map: EquivariantMap) -> Plan:
        if self.device.type == "meta":
            raise IncidenceError("a structure on the meta device has no entries to plan with: move it to another device.")
        for pattern in tensors_of(equivariant_map):
            self.resolve(pattern)
        return build(equivariant_map, self)

    def _joined(self, equivariant_map: EquivariantMap) -> Plan | None:
        """The plan from those of the structures that this batch was made of, if they have it."""
        if self.packed is not None:
            store, numbers = self.packed
            return join_plans([store.plan(equivariant_map)], np.asarray(numbers))
        if self._parts and all(s._has_plan(equivariant_map) for s in self._parts):
            return join_plans([s.plan(equivariant_map) for s in self._parts])
        return None

    def _has_plan(self, equivariant_map: EquivariantMap) -> bool:
        parts = self._parts
        return (
            equivariant_map in self._plans
            or self.packed is not None
            or (len(parts) > 0 and all(s._has_plan(equivariant_map) for s in parts))
        )

    def canonical(self) -> tuple[Structure, dict[str, Tensor]]:
        """The same structure in the preferred order of entries, and for each tensor the rows to permute features with.

        Features go there by `x[rows]`; they come back by `y.new_empty(y.shape).index_copy(0, rows, y)`. In a batch the entries of every
        structure stay together.
        """
        orders = {p: self._canonical_rows(p) for p in self._index}
        moved = {p: _permute_entries(p, parts, orders[p]) for p, parts in self._index.items()}
        return Structure._of(self._node_ptr, moved, self._entry_ptr), {p.name or str(p): rows for p, rows in orders.items()}

    def _canonical_rows(self, pattern: Pattern) -> Tensor:
        rows = torch.cat([found.bucket.rows for found in self.arranged(pattern)] or [self.empty_index(1)[0]])
        if self.num_structures == 1:
            return rows
        return rows[self.batch(pattern)[rows].sort(stable=True)[1]]

    # ---- small things people reach for

    def locate(self, text: str | Pattern, query: object) -> Tensor:
        """The rows of given entries, told like an index of the pattern; -1 where an entry is absent."""
        from incidence.structure.edit import locate

        return locate(self, text, query)

    def with_index(self, index: Mapping[str, object]) -> Structure:
        """The same nodes with further tensors, or other entries for those given."""
        from incidence.structure.edit import with_index

        return with_index(self, index)

    def with_pattern(self, text: str | Pattern, faces: Mapping[Any, str] | None = None, limit: int = MAX_ENTRIES) -> Structure:
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
        from incidence.structure.entries_from_faces import with_pattern

        return with_pattern(self, text, faces, limit)

    def relabel(self, permutation: object) -> Structure:
        """The same structure with node v called permutation[v]; with sorts, a mapping from sort to permutation."""
        from incidence.structure.edit import relabel

        return relabel(self, permutation)

    def induced(self, nodes: object) -> Structure:
        """The entries all of whose nodes are kept, over those nodes numbered anew, in the given order."""
        from incidence.structure.edit import induced

        return induced(self, nodes)

    def select(self, text: str | Pattern, which: object) -> Structure:
        """The same structure with only some entries of one tensor: a mask or row numbers."""
        from incidence.structure.edit import select

        return select(self, text, which)

    def masked(self, text: str | Pattern, keep: object, name: str | None = None) -> Structure:
        """The same structure with only the entries of one tensor that a mask keeps, such as one that depends on features.

        Args:
            text: The tensor; a lone node pattern may be masked too.
            keep: True for every entry to keep, shape [entries].
            name: If given, the tensor stays as it is, and the kept entries are a further tensor of that name: the output of a layer.
        """
        from incidence.structure.edit import masked

        return masked(self, text, keep, name)

    # ---- moving and keeping

    def dynamic_shapes(self) -> list[list[Any]]:
        """What `torch.export` wants to hear of a structure whose sizes may vary: `dynamic_shapes=(..., s.dynamic_shapes())`."""
        dim = torch.export.Dim
        return [[dim.AUTO if size > 1 else dim.STATIC for size in leaf.shape] for leaf in tree_leaves(self)]

    def _map(self, change: Any) -> Structure:
        moved = Structure._of(
            {sort: change(ptr) for sort, ptr in self._node_ptr.items()},
            {p: tuple(change(t) for t in parts) for p, parts in self._index.items()},
            {p: change(ptr) for p, ptr in self._entry_ptr.items()},
        )
        moved._counts = self.counts
        return moved

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Structure:
        """The structure on another device; its plans are made anew there."""
        if torch.device(device) == self.device:
            return self
        return self._map(lambda t: t.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Structure:
        """The structure in page-locked memory, for faster copies to a GPU."""
        return self._map(lambda t: t.pin_memory())

    def save(self, path: Any) -> None:
        """Writes the structure to a file, at once or not at all. No pickle: `load` executes nothing."""
        from incidence.structure.storage import save

        save(self, path)

    @staticmethod
    def load(path: Any) -> Structure:
        """Reads a structure that `save` wrote, and checks it."""
        from incidence.structure.storage import load

        return load(path)

    @staticmethod
    def complete(num_nodes: int | Mapping[str, int], patterns: Sequence[str] | str, device: Any = None) -> Structure:
        """The structure in which every entry of the patterns is present, in the preferred order.

        Example:
            >>> Structure.complete(4, ["i j", "{i j k}"])
            Structure(num_nodes=4, 'i j': 16 entries, '{i j k}': 4 entries)
        """
        from incidence.structure.complete import complete

        if not isinstance(patterns, (str, list, tuple)):
            raise IncidenceError(f"complete takes a pattern, or a list of them; got {patterns!r}.")
        return complete(num_nodes, [patterns] if isinstance(patterns, str) else list(patterns), device)

    def __eq__(self, other: object) -> bool:
        """Whether sizes, tensors and entries agree, entries in order."""
        from incidence.structure.edit import is_equal

        return is_equal(self, other) if isinstance(other, Structure) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        many = f"num_structures={self.num_structures}, " if self.num_structures != 1 else ""
        entries = "".join(f", '{p}': {self.num_entries(p):,} {'entry' if self.num_entries(p) == 1 else 'entries'}" for p in self._index)
        return f"Structure({many}num_nodes={self.num_nodes}{entries})"

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Structure._of, (self._node_ptr, self._index, self._entry_ptr)


def _as_pattern(text: str | Pattern) -> Pattern:
    if not isinstance(text, (str, Pattern)):
        raise IncidenceError(f"the keys of an index are patterns, written as text; got {text!r}.")
    return parsed(text) if isinstance(text, str) else text


def _assert_one_device(tensors: Mapping[Pattern, tuple[Tensor, ...]]) -> None:
    places = {t.device: p for p, parts in tensors.items() for t in parts}
    if len(places) > 1:
        where = "; ".join(f"`{p}` on {device}" for device, p in places.items())
        raise IncidenceError(f"all index tensors must be on one device: {where}. Move them, or give `device=`.")


def _permute_entries(pattern: Pattern, parts: tuple[Tensor, ...], order: Tensor) -> tuple[Tensor, ...]:
    """Takes entries in another order, or some of them."""
    new = torch.full((count_entries(pattern, parts),), -1, dtype=torch.long, device=order.device)
    new[order] = torch.arange(len(order), device=order.device)
    letters = parts[0][:, order] if pattern.fixed_letters or not pattern.is_open else parts[0]
    return letters, *(_renumber(members, new) for members in parts[1:])


def _renumber(members: Tensor, new: Tensor) -> Tensor:
    number = new[members[1]]
    kept = number >= 0
    moved = torch.stack([members[0], number])[:, kept]
    return moved[:, moved[1].sort(stable=True)[1]]
