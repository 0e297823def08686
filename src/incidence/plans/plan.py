r"""Plans: which keys the entries of a structure write to and read from.

Every entry writes to all subsets of its nodes and reads from all subsets of its nodes. A plan lists, for every stack of tensors of a
map, the bags of its rows; and where an orbit meets itself, the partners of its entries. See `docs/engine.md` for an example carried
through by hand.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, combinations, product
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.orbit import Class
from incidence.algebra.overlap import Matrix
from incidence.algebra.pattern import Pattern
from incidence.algebra.words import Level, overlap_of, sign_of, words
from incidence.plans.layout import BagLayout, MapLayout, OrbitRef
from incidence.plans.stack import Partners, StackLists, StackPlan, StackSigns
from incidence.structure.arrange import Arranged
from incidence.structure.data import Array, StructureData, arranged
from incidence.structure.entries import Bucket
from incidence.structure.ragged import are_short, code, no_entries, ranges, rank

__all__ = ["PartnerKey", "Plan", "build_plan", "reads_itself"]

PartnerKey = tuple[OrbitRef, Matrix]
"""An orbit, by the number of its tensor, and an operation that matches all its nodes."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything a layer needs to know of a structure. Prints its cost.

    Attributes:
        layout: The stacks of the map, and the slots of their bags.
        num_keys: How many keys of each level each structure has, shape (levels, structures); on the host.
        num_entries: How many entries of each tensor each structure has, shape (tensors, structures); on the host.
        stacks: The lists of every different stack.
        partners: The entries on one node set that read each other, by orbit and operation.
        on_host: All its numbers, once batches are made of it: see `batches.PlanStore`.
    """

    layout: MapLayout
    num_keys: Array
    num_entries: Array
    stacks: tuple[StackPlan, ...]
    partners: dict[PartnerKey, Partners]
    on_host: dict[Hashable, tuple[Array, Array]] = field(default_factory=dict, repr=False)

    @property
    def inputs(self) -> list[StackPlan]:
        """The lists of the stacks of the inputs."""
        return [self.stacks[number] for number in self.layout.numbers_in]

    @property
    def outputs(self) -> list[StackPlan]:
        """The lists of the stacks of the outputs."""
        return [self.stacks[number] for number in self.layout.numbers_out]

    @property
    def device(self) -> torch.device:
        """Where the lists live."""
        return self.inputs[0].lists.bags_of_rows.device

    def __repr__(self) -> str:
        lines = ["Plan"]
        for pattern, count in zip(
            self.layout.tensors, self.num_entries.sum(1).tolist(), strict=True
        ):
            lines.append(f"  {str(pattern) or '(one value)'}: {count:,} entries")
        for layout, stack in zip(self.layout.stacks, self.stacks, strict=True):
            names = ", ".join(str(p) or "(one value)" for p in layout.patterns)
            cost = f"{len(stack.lists.bags_of_rows):,} reads, {stack.num_bags:,} bags on {len(stack.num_slots)} levels"
            lines.append(f"  {names}: {cost}")
        if self.partners:
            lines.append(
                f"  partners: {sum(int(p.counts.sum()) for p in self.partners.values()):,} reads"
            )
        totals = zip(self.layout.levels, self.num_keys.sum(1).tolist(), strict=True)
        keys = ", ".join(f"{n:,} of size {len(level)}" for level, n in totals)
        return "\n".join(
            [*lines, f"  keys: {keys}", f"  memory: {self.num_bytes / 2**20:,.1f} MiB"]
        )

    @property
    def num_bytes(self) -> int:
        """The memory of the lists."""
        lists = [t for stack in self.stacks for t in stack.tensors]
        lists += [t for pairs in self.partners.values() for t in pairs.lists if t is not None]
        return sum(t.numel() * t.element_size() for t in lists)


_SPARSE_NODES = 4  # nodes for each place in an entry from which on nodes are ranked


def build_plan(layout: MapLayout, structure: StructureData) -> Plan:
    """Finds the lists of a map on a structure."""
    tensors = layout.tensors
    found = [
        _bucket_keys(structure, t, pattern, one)
        for t, pattern in enumerate(tensors)
        for one in arranged(structure, pattern)
    ]
    wanted = _wanted(layout)
    for bucket in found:
        classes = tensors[bucket.ref.tensor].orbits[bucket.ref.orbit].classes
        for level in sorted(wanted[bucket.ref]):
            bucket.keys[level] = _keys(bucket, classes, level, layout.map.max_overlap)
    num_keys = np.stack([_number_keys(structure, level, found) for level in layout.levels])
    num_entries = np.stack([structure.entry_ptr(p).diff().cpu().numpy() for p in tensors])
    stacks = tuple(
        _StackBuilder(stack, layout, structure, num_keys, num_entries).build(found)
        for stack in layout.stacks
    )
    partners: dict[PartnerKey, Partners] = {}
    for ref in layout.partner_orbits:
        pattern, buckets = tensors[ref.tensor], [bucket for bucket in found if bucket.ref == ref]
        listed = _partners(
            buckets,
            pattern.orbits[ref.orbit].classes,
            structure.batch(pattern),
            structure.num_structures,
        )
        partners.update({(ref, overlap): pairs for overlap, pairs in listed})
    return Plan(layout, num_keys, num_entries, stacks, partners)


def _wanted(layout: MapLayout) -> dict[OrbitRef, set[Level]]:
    """The levels of every orbit of every tensor, by the number of the tensor, but for the empty one."""
    wanted: dict[OrbitRef, set[Level]] = {}
    for stack in layout.stacks:
        for pattern, orbits in zip(stack.patterns, stack.levels, strict=True):
            for number, levels in enumerate(orbits):
                wanted.setdefault(OrbitRef(layout.tensors.index(pattern), number), set()).update(
                    set(levels) - {()}
                )
    return wanted


class _Keys(NamedTuple):
    """The keys of one level in every entry: their nodes, ascending, (entries, keys each, nodes); their words (entries, keys each); and
    the signs of keys of the first to last kind, (keys each,), by which an entry in standard orientation counts.
    """

    nodes: Tensor
    words: Tensor
    signs: Tensor


@dataclass(frozen=True)
class _BucketKeys:
    """A bucket while its plan is made.

    Attributes:
        ref: The orbit it is of, by the number of the tensor.
        found: Its entries, and which of them are on one node set.
        home: Their structures, shape (entries,).
        keys: For every level, the keys of its entries.
        numbers: For every level, the numbers of those keys once they are known, shape (entries, keys each).
    """

    ref: OrbitRef
    found: Arranged
    home: Tensor
    keys: dict[Level, _Keys]
    numbers: dict[Level, Tensor]

    @property
    def rows(self) -> Tensor:
        """The rows of its entries, ascending, shape (entries,)."""
        return self.found.bucket.rows


def _bucket_keys(
    structure: StructureData, tensor: int, pattern: Pattern, found: Arranged
) -> _BucketKeys:
    """A bucket before its keys are known."""
    ref = OrbitRef(tensor, found.bucket.orbit)
    return _BucketKeys(ref, found, structure.batch(pattern)[found.bucket.rows], {}, {})


def _keys(bucket: _BucketKeys, classes: Sequence[Class], level: Level, max_overlap: int) -> _Keys:
    """The keys of a level in every entry."""
    nodes, labels = bucket.found.bucket.nodes, bucket.found.bucket.labels
    known = words(tuple(classes), level, max_overlap)
    kinds = {tuple(sorted(word)) for word in known}  # how many nodes of each class a key may have
    subsets = [
        s
        for s in combinations(range(len(labels)), len(level))
        if tuple(labels[p] for p in s) in kinds
    ]
    chosen = torch.tensor(subsets, dtype=torch.long, device=nodes.device).view(-1, len(level))
    keys = nodes[:, chosen]  # (entries, keys each, nodes)
    label = torch.tensor(labels, dtype=torch.long, device=nodes.device)[chosen].expand_as(keys)
    if any(
        len({labels[p] for p in s}) > 1 for s in subsets
    ):  # nodes ascend within a class, not across
        keys, order = keys.sort(dim=2)
        label = label.gather(2, order)
    bases = [len(classes)] * len(level)
    codes = torch.tensor([_number(word, len(classes)) for word in known], device=nodes.device)
    which = (
        torch.searchsorted(codes, code(label.unbind(2), bases)[0].contiguous())
        if len(known) > 1
        else torch.zeros_like(keys[:, :, 0])
    )
    signs = torch.tensor(
        [_sign(bucket.found.bucket.sizes, classes, s) for s in subsets],
        dtype=torch.int8,
        device=nodes.device,
    )
    return _Keys(keys, which, signs)


def _sign(sizes: Sequence[int], classes: Sequence[Class], key: Sequence[int]) -> int:
    """The sign by which an entry in standard orientation counts in a key, told by columns: the node of an odd class that is left out
    is moved to the front of its class.
    """
    columns = zip(classes, accumulate(sizes, initial=0), sizes, strict=False)
    left_out = [
        p - start
        for c, start, size in columns
        if c.is_odd
        for p in range(start, start + size)
        if p not in key
    ]
    return -1 if sum(left_out) % 2 else 1


def _number(word: Sequence[int], base: int) -> int:
    value = 0
    for letter in word:
        value = value * base + letter
    return value


def _number_keys(structure: StructureData, level: Level, found: Sequence[_BucketKeys]) -> Array:
    """Numbers the keys of a level: nodes by their own number, larger sets by rank among all that occur. How many each structure has.

    Where most nodes are in no entry, nodes are ranked too: a thousand edges among a billion nodes are a small structure. Either
    way the keys of a structure follow those of the one before.
    """
    if not level:
        return np.ones(structure.num_structures, dtype=np.int64)
    members = [bucket for bucket in found if level in bucket.keys]
    total = sum(bucket.keys[level].nodes.numel() for bucket in members)
    if len(level) == 1 and structure.counts[level[0]] <= _SPARSE_NODES * total + 1024:
        for bucket in members:
            bucket.numbers[level] = (
                bucket.keys[level].nodes[:, :, 0] - structure._node_offsets[level[0]]
            )
        return _host(structure.node_ptr(level[0]).diff())
    keys = [bucket.keys[level].nodes for bucket in members]
    flat = (
        torch.cat([k.reshape(-1, len(level)) for k in keys])
        if keys
        else no_entries(len(level), structure.device).T
    )
    ranks, count = rank(code(flat.unbind(1), [structure.total_nodes] * len(level))[0])
    for bucket, numbers in zip(
        members, ranks.split([k.shape[0] * k.shape[1] for k in keys]), strict=True
    ):
        bucket.numbers[level] = numbers.view(bucket.keys[level].words.shape)
    if structure.num_structures == 1:
        return np.array([count])
    owner = torch.empty(count, dtype=torch.long, device=structure.device)
    for bucket in members:
        owner[bucket.numbers[level]] = bucket.home[:, None]
    return _host(torch.bincount(owner, minlength=structure.num_structures))


def _host(values: Tensor) -> Array:
    found: Array = values.cpu().numpy()
    return found


def _by_structure(home: Tensor, num_structures: int) -> Array:
    """How many entries each structure has."""
    return (
        np.array([len(home)])
        if num_structures == 1
        else _host(torch.bincount(home, minlength=num_structures))
    )


class _StackBuilder:
    """Makes the lists of one stack."""

    def __init__(
        self,
        stack: BagLayout,
        layout: MapLayout,
        structure: StructureData,
        num_keys: Array,
        num_entries: Array,
    ) -> None:
        self._stack, self._structure = stack, structure
        self._tensors = [layout.tensors.index(p) for p in stack.patterns]
        self._num_rows = num_entries.sum(1)[self._tensors].tolist()
        totals = num_keys.sum(1).tolist()
        num_bags = (
            totals[layout.levels.index(level)] * n
            for level, n in zip(stack.all_levels, stack.num_slots, strict=True)
        )
        self._level_ptr = (0, *accumulate(num_bags))
        self._num_reads = np.zeros(
            (len(self._tensors), len(stack.all_levels), structure.num_structures), dtype=np.int64
        )

    def build(self, found: Sequence[_BucketKeys]) -> StackPlan:
        """The lists, from the keys of all buckets."""
        members = [
            [bucket for bucket in found if bucket.ref.tensor == tensor] for tensor in self._tensors
        ]
        tables = [
            [self._bags(bucket, position) for bucket in buckets]
            for position, buckets in enumerate(members)
        ]  # by tensor and bucket
        num_reads = int(self._num_reads.sum())
        dtype = (
            torch.int32
            if are_short(self._level_ptr[-1], num_reads, sum(self._num_rows))
            else torch.long
        )
        bags, widths = self._by_row(members, tables, dtype)  # (reads,), (rows,)
        bags_ptr = ranges(widths).to(dtype)
        signs = None
        if self._stack.is_signed:
            tables = [
                [self._signs(bucket, position) for bucket in buckets]
                for position, buckets in enumerate(members)
            ]
            signs, _ = self._by_row(members, tables, torch.float32)  # (reads,)
        rows, rows_ptr, signs_of_bags = _transposed(bags, widths, self._level_ptr, signs)
        return StackPlan(
            row_ptr=(0, *accumulate(self._num_rows)),
            num_structures=self._structure.num_structures,
            num_slots=self._stack.num_slots,
            level_ptr=self._level_ptr,
            lists=StackLists(bags, bags_ptr, rows, rows_ptr),
            num_reads=self._num_reads,
            single_nodes=self._stack.single_nodes,
            signs=None
            if signs is None or signs_of_bags is None
            else StackSigns(signs, signs_of_bags),
        )

    def _by_row(
        self,
        members: Sequence[Sequence[_BucketKeys]],
        tables: Sequence[Sequence[Tensor]],
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        """What the rows of all tensors have one after the other, and how much each; from the tables of their buckets."""
        device = self._structure.device
        parts = [
            _by_row(
                [(bucket.rows, table) for bucket, table in zip(buckets, own, strict=True)],
                count,
                dtype,
                device,
            )
            for buckets, own, count in zip(members, tables, self._num_rows, strict=True)
        ]
        values, widths = (torch.cat(lists) for lists in zip(*parts, strict=True))
        return values, widths

    def _signs(self, bucket: _BucketKeys, position: int) -> Tensor:
        """The signs of the entries of a bucket in their bags, shape (entries, bags each)."""
        ref = OrbitRef(position, bucket.ref.orbit)
        levels = [
            level for at, level in enumerate(self._stack.all_levels) if ref in self._stack.slots[at]
        ]
        one = torch.ones(1, dtype=torch.int8, device=bucket.home.device)
        of_keys = torch.cat(
            [one[:0], *(bucket.keys[level].signs if level else one for level in levels)]
        )  # (bags each,), some have none
        own = bucket.found.bucket.signs
        return of_keys.expand(len(bucket.rows), -1) if own is None else own[:, None] * of_keys

    def _bags(self, bucket: _BucketKeys, position: int) -> Tensor:
        """The bags of the entries of a bucket, level by level, shape (entries, bags each); and how many reads these are."""
        ref, columns = (
            OrbitRef(position, bucket.ref.orbit),
            [bucket.home.new_zeros(len(bucket.home), 0)],
        )
        per_structure = _by_structure(bucket.home, self._structure.num_structures)
        for at, level in enumerate(self._stack.all_levels):
            if ref not in self._stack.slots[at]:
                continue
            keys, within = (
                (bucket.numbers[level], bucket.keys[level].words)
                if level
                else (bucket.home[:, None], 0)
            )
            columns.append(
                keys * self._stack.num_slots[at]
                + within
                + (self._level_ptr[at] + self._stack.slots[at][ref].start)
            )
            self._num_reads[position, at] += columns[-1].shape[1] * per_structure
        return torch.cat(columns, dim=1)


def _by_row(
    buckets: Sequence[tuple[Tensor, Tensor]], count: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """The bags of all rows of a tensor one after the other, and how many each has; from the rows and bags of its buckets."""
    if len(buckets) == 1:  # with all rows, in order
        [(_, table)] = buckets
        return table.to(dtype).flatten(), torch.full((count,), table.shape[1], device=device)
    widths = torch.zeros(count, dtype=torch.long, device=device)
    for rows, table in buckets:
        widths[rows] = table.shape[1]
    starts = ranges(widths)
    bags = torch.empty(int(starts[-1]), dtype=dtype, device=device)
    for rows, table in buckets:
        bags[starts[rows, None] + torch.arange(table.shape[1], device=device)] = table.to(dtype)
    return bags, widths


def _transposed(
    bags: Tensor, widths: Tensor, level_ptr: Sequence[int], signs: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The rows of every bag, where those of each start, and their signs."""
    rows = torch.repeat_interleave(
        torch.arange(len(widths), dtype=bags.dtype, device=bags.device), widths
    )
    if signs is not None:
        rows = 2 * rows.long() + (signs < 0)  # goes along as the last bit
    is_other = bags >= level_ptr[1]  # bags of structures come first, and are often in order already
    parts = [_ordered(rows[chosen], bags[chosen]) for chosen in (~is_other, is_other)]
    ordered, ptr = (
        torch.cat(parts),
        ranges(torch.bincount(bags, minlength=level_ptr[-1])).to(bags.dtype),
    )
    if signs is None:
        return ordered, ptr, None
    return (ordered >> 1).to(bags.dtype), ptr, 1.0 - 2 * (ordered & 1)


def _ordered(values: Tensor, by: Tensor) -> Tensor:
    """Values by ascending keys; as they are where keys ascend already."""
    return values if bool((by[1:] >= by[:-1]).all()) else values[by.sort(stable=True)[1]]


def _partners(
    buckets: Sequence[_BucketKeys], classes: Sequence[Class], home: Tensor, num_structures: int
) -> Iterator[tuple[Matrix, Partners]]:
    """The entries of an orbit that read each other, by operation: all pairs on one node set. `home` has the structure of every row."""
    found: dict[Matrix, list[tuple[Tensor, ...]]] = {}
    for bucket in buckets:
        order = (
            torch.arange(len(bucket.rows), device=home.device)
            if bucket.found.is_single
            else bucket.found.order
        )
        start = 0
        for mask, count in zip(bucket.found.masks, bucket.found.num_sets, strict=True):
            sets = (
                order[start : start + count * len(mask)].view(count, len(mask)).unbind(1)
            )  # (sets,) for every word
            start += count * len(mask)
            for (source, u), (target, w) in product(zip(sets, mask, strict=True), repeat=2):
                if sign_of(classes, classes, u, w):
                    overlap = overlap_of(u, w, len(classes), len(classes))
                    signs = (
                        ()
                        if reads_itself(overlap)
                        else _pair_signs(bucket.found.bucket, classes, source, target)
                    )
                    found.setdefault(overlap, []).append(
                        (bucket.rows[target], bucket.rows[source], *signs)
                    )
    for overlap, pairs in found.items():
        targets, sources, *signed = (torch.cat(part) for part in zip(*pairs, strict=True))
        order = _ascending(targets, len(home))
        targets, sources = targets[order], sources[order]
        is_full = len(targets) == len(home) and bool(
            (targets == torch.arange(len(home), device=home.device)).all()
        )
        counts = _by_structure(home if is_full else home[targets], num_structures)
        dtype = torch.int32 if are_short(len(home)) else torch.long
        yield (
            overlap,
            Partners(
                None if is_full else targets.to(dtype),
                None if reads_itself(overlap) else sources.to(dtype),
                counts,
                signed[0][order] if signed else None,
            ),
        )


def _pair_signs(
    bucket: Bucket, classes: Sequence[Class], sources: Tensor, targets: Tensor
) -> tuple[Tensor, ...]:
    """The signs by which entries on the same nodes read each other, told by their places in the bucket; nothing without oriented faces.

    That of `words.sign_of` for the words along the ascending nodes, times the signs of both entries.
    """
    if bucket.signs is None:
        return ()
    labels = torch.tensor(bucket.labels, device=sources.device)
    odd = torch.tensor([c.is_odd for c in classes], device=sources.device)
    u, w = (
        labels[bucket.nodes[entries].argsort(dim=1)] for entries in (sources, targets)
    )  # (pairs, nodes)
    is_reversed = bucket.signs[sources] != bucket.signs[targets]
    for q, r in combinations(range(u.shape[1]), 2):
        for one, other in ((u, w), (w, u)):
            is_reversed ^= (one[:, q] == one[:, r]) & odd[one[:, q]] & (other[:, q] > other[:, r])
    return (1.0 - 2 * is_reversed.float(),)


def reads_itself(overlap: Matrix) -> bool:
    """Whether an operation that matches all nodes of an orbit takes every node to its own class: the only partner is the entry itself."""
    return all(n == 0 for i, row in enumerate(overlap) for j, n in enumerate(row) if i != j)


def _ascending(values: Tensor, bound: int) -> Tensor:
    """The order in which values ascend; without a sort where all differ."""
    place = torch.full((bound,), -1, device=values.device).index_copy_(
        0, values, torch.arange(len(values), device=values.device)
    )
    order = place[place >= 0]
    return order if len(order) == len(values) else values.sort(stable=True)[1]
