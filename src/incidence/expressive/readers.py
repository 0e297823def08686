"""What the entries of a structure read of the colours of others: layer by layer, operation by
operation.

A reader belongs to one layer and one structure. Its index lists are made once; every round calls
`readings` with the colours of that round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.algebra.maps import Operation
from incidence.algebra.pattern import Pattern
from incidence.algebra.products import ProductText, parse_product
from incidence.engine.bags import Bags, bag_numbers
from incidence.engine.layout import layout_of
from incidence.engine.plan import Plan, plan_of
from incidence.engine.products.contract import MAX_JOINED, join_plan_of
from incidence.engine.products.plan import JoinStep
from incidence.engine.weights import LevelProduct, PartnerProduct, Products
from incidence.expressive.sums import (
    Sums,
    Terms,
    as_atoms,
    as_sets,
    atoms,
    combine,
    proportions,
    terms_of,
)
from incidence.nn.attention import Attention
from incidence.nn.diffusion import Diffusion, Neighbours
from incidence.nn.linear import Linear
from incidence.nn.readout import Readout
from incidence.structure import Structure
from incidence.structure.data import support_of
from incidence.structure.incidences import incidences
from incidence.structure.ragged import expand, rank_rows

__all__ = [
    "AttentionReader",
    "ColourReader",
    "Colours",
    "LinearReader",
    "NeighbourReader",
    "ProductReader",
    "Reading",
    "ReadoutReader",
    "whole_terms",
]


class Colours(NamedTuple):
    """The colours of the entries of a tensor.

    Attributes:
        of_rows: The colour of every entry, from 0.
        number: The number of colours.
    """

    of_rows: Tensor
    number: int


State = Mapping[Pattern, Colours]
"""The colours of all tensors."""


class Reading(NamedTuple):
    """What the entries of one tensor read by one operation.

    Attributes:
        target: The tensor.
        label: The operation, or the product, in words.
        sums: What every entry reads.
    """

    target: Pattern
    label: str
    sums: Sums


class ColourReader:
    """What one layer reads on one structure.

    Attributes:
        is_exact: Whether some weights tell apart whatever differs here. If not, equal readings are
            still equal for all weights.
        inputs, outputs: The tensors.
    """

    is_exact = True
    inputs: Sequence[Pattern] = ()
    outputs: Sequence[Pattern] = ()

    def readings(self, state: State) -> Iterator[Reading]:
        """Yield what all outputs read of the colours of a round."""
        raise NotImplementedError


# ---- linear layers


def _counts(bags: Sums) -> Sums:
    return as_atoms(bags)


def _shares(bags: Sums) -> Sums:
    return as_atoms(proportions(bags))


def _sets(bags: Sums) -> Sums:
    return as_atoms(as_sets(bags))


def _all(bags: Sums) -> Sums:
    return bags


_POOLS: dict[str, tuple[Callable[[Sums], Sums], bool]] = {
    "sum": (_all, True),
    "mean": (proportions, True),
    "max": (_sets, True),
    "min": (_sets, True),
    "std": (_shares, False),
}
"""What an aggregation sees of a bag, and whether it can tell apart whatever differs there.

Values that are added up are sums of colours; of all others only the multiset of bags is known.
"""


@dataclass(frozen=True)
class _OperationTerms:
    """The terms of one operation: which bags, or partners, every row of the output reads.

    Attributes:
        target: The number of the output.
        source: The number of the input.
        aggr: The aggregation; None where rows are read and not bags.
        label: The operation in words.
        terms: What is read.
    """

    target: int
    source: int
    aggr: str | None
    label: str
    terms: Terms


class LinearReader(ColourReader):
    """What a complete linear layer reads."""

    def __init__(self, layer: Linear, structure: Structure) -> None:
        products: Products = layer._products
        self._map = layer.map
        plan = plan_of(structure, products.layout)
        self.inputs, self.outputs = layer.map.inputs, layer.map.outputs
        self._bags = [_bag_terms(bags) for bags in plan.inputs]
        self._slots: dict[tuple[int, int], _Slots] = {}
        names = layer.aggr
        self.is_exact = all(_POOLS.get(name, (_counts, False))[1] for name in names)
        self._reads: list[_OperationTerms] = []
        for p in products.of_levels:
            self._reads += self._of_level(p, products, plan, names[p.aggr])
        self._reads += [self._of_partners(p, products, plan) for p in products.of_partners]

    def readings(self, state: State) -> Iterator[Reading]:
        """Yield what every operation reads."""
        rows = [atoms(*state[p], label=p) for p in self.inputs]
        pooled: dict[int, Sums] = {}
        seen: dict[tuple[int, str], Sums] = {}
        for read in self._reads:
            source = rows[read.source]  # the colours of single entries
            if read.aggr is not None:
                key = read.source, read.aggr
                # Bags are pooled once for all operations that read them.
                if read.source not in pooled:
                    pooled[read.source] = combine(self._bags[read.source], source)
                if key not in seen:
                    pool, _ = _POOLS.get(read.aggr, (_counts, False))
                    seen[key] = pool(pooled[read.source])
                source = seen[key]
            yield Reading(self.outputs[read.target], read.label, combine(read.terms, source))

    def _of_level(
        self, p: LevelProduct, products: Products, plan: Plan, name: str
    ) -> Iterator[_OperationTerms]:
        """Yield the operations of one product of a level."""
        table = products.tables[p.matrix]
        slots = self._slots.setdefault(
            (p.target, p.target_level), _slots_of(plan.outputs[p.target], p.target_level)
        )
        source = plan.inputs[p.source]
        first, each = source.level_ptr[p.source_level], source.num_slots[p.source_level]
        listed = products.weights.terms((p.source, p.target))
        for row in sorted(set(table.rows[table.rows >= 0].tolist())):
            targets, bags = [], []  # a pair for every read
            for u, w in zip(*(table.rows == row).nonzero(), strict=True):
                rows, keys = slots.of_slot(int(w))
                targets.append(rows)
                bags.append(first + keys * each + int(u))  # slots of a key stand side by side
            number, _ = listed[row]
            num_rows = plan.outputs[p.target].num_rows
            terms = terms_of(torch.cat(targets), [torch.cat(bags)], num_rows)
            yield _OperationTerms(p.target, p.source, name, self._label(number, name), terms)

    def _of_partners(self, p: PartnerProduct, products: Products, plan: Plan) -> _OperationTerms:
        """Return the operation that reads entries on the same nodes."""
        partners = plan.partners[p.key]
        num_rows = plan.outputs[p.target].num_rows
        numbers = torch.arange(num_rows)  # partners of all rows, in order
        targets = numbers if partners.targets is None else partners.targets.long()
        sources = targets if partners.sources is None else partners.sources.long()
        table = products.tables[p.matrices[0]]
        number, _ = products.weights.terms((p.source, p.target))[int(table.rows[0, 0])]
        terms = terms_of(targets, [sources], num_rows)
        return _OperationTerms(p.target, p.source, None, self._label(number, "sum"), terms)

    def _label(self, number: int, aggr: str) -> str:
        operation: Operation = self._map.operations[number]
        formula = str(operation).partition(": ")[0]
        return formula if aggr == "sum" else f"{aggr}: {formula}"


def _bag_terms(bags: Bags) -> Terms:
    # On the CPU, in int64: codes of lists are products of large numbers.
    return Terms(bags.of_bags.ptr.cpu().long(), (bags.of_bags.members.cpu().long(),))


@dataclass(frozen=True)
class _Slots:
    """The pairs of a row and a key of one level: rows, keys and slots."""

    rows: Tensor
    keys: Tensor
    slots: Tensor

    def of_slot(self, slot: int) -> tuple[Tensor, Tensor]:
        """Return the rows and keys of one slot."""
        chosen = self.slots == slot
        return self.rows[chosen], self.keys[chosen]


def _slots_of(bags: Bags, level: int) -> _Slots:
    members, ptr = bags.of_rows.members.cpu().long(), bags.of_rows.ptr.cpu().long()
    rows = bag_numbers(ptr, len(members))
    start, stop = bags.level_ptr[level : level + 2]
    chosen = (members >= start) & (members < stop)
    within = members[chosen] - start
    each = max(bags.num_slots[level], 1)
    return _Slots(rows[chosen], within // each, within % each)


# ---- products


class ProductReader(ColourReader):
    """What a product reads: for every entry of the output, the tuples of colours that meet."""

    def __init__(
        self, text: str | ProductText, structure: Structure, limit: int = MAX_JOINED
    ) -> None:
        self.text = text if isinstance(text, ProductText) else parse_product(text)
        *operands, output = [support_of(structure, p) for p in self.text.tensors]
        self.inputs, self.outputs = operands, [output]
        plan = join_plan_of(structure, self.text, limit, is_fixed=True)
        self._steps: list[tuple[tuple[int, ...], Terms]] = []
        for step in plan.steps:
            assert isinstance(step, JoinStep)  # fixed plans have no other steps
            rows = tuple(column.cpu().long() for column in step.rows)
            self._steps.append((step.sources, Terms(step.ptr.cpu().long(), rows)))

    def readings(self, state: State) -> Iterator[Reading]:
        """Yield what the output reads."""
        sums = self._sums([state[p] for p in self.inputs], self.inputs)
        yield Reading(self.outputs[0], str(self.text), sums)

    def _sums(self, colours: Sequence[Colours], labels: Sequence[object]) -> Sums:
        values = [
            # factors of their own: x y and y x must not look alike
            atoms(*own, label=label, seed=number)
            for number, (own, label) in enumerate(zip(colours, labels, strict=True))
        ]
        for sources, terms in self._steps:
            # later steps read earlier ones
            values.append(combine(terms, *(values[source] for source in sources)))
        return values[-1]


class AttentionReader(ColourReader):
    """What attention reads: the multiset of what it looks at. The weights of a softmax add up to 1,
    so this is an upper bound.
    """

    is_exact = False

    def __init__(self, layer: Attention, structure: Structure) -> None:
        self._scores, self._values = (ProductReader(text, structure) for text in layer._texts)
        self._layer = layer
        self.inputs = [support_of(structure, p) for p in layer.in_channels]
        self._ends = [support_of(structure, p) for p in (layer.queries, layer.values)]
        self._along = support_of(structure, layer.pattern)
        self.outputs = self._ends[:1]

    def readings(self, state: State) -> Iterator[Reading]:
        """Yield what the queries read."""
        layer = self._layer
        ends = [state[p] for p in self._ends]
        scores = self._scores._sums(ends, self._ends)
        columns, bounds = [scores.classes], [scores.num_classes]
        if layer.edge is not None:
            columns.append(state[self._along].of_rows)
            bounds.append(state[self._along].number)
        looked_at = Colours(*rank_rows(columns, bounds))
        sums = self._values._sums([looked_at, ends[1]], [self._along, self._ends[1]])
        label = f"attention along {layer.pattern} over {layer.over}"
        yield Reading(self.outputs[0], label, sums)


# ---- nodes and whole structures


class NeighbourReader(ColourReader):
    """What nodes read of the other nodes of their entries: the mean of every entry.

    The root of the number of neighbours, by which `Neighbours` divides, can be read off the sum of
    all numbers, so the sums are exact. `Diffusion` mixes them with the node itself, and learns
    nothing: an upper bound.
    """

    def __init__(self, layer: Neighbours | Diffusion, structure: Structure) -> None:
        self.is_exact = isinstance(layer, Neighbours)
        lists = incidences(structure, layer.links)
        self.inputs = self.outputs = [
            p for p in layer.patterns if (p.name or str(p)) in layer.nodes.values()
        ]
        self._steps = layer.steps
        sorts = [next(iter(p.sorts.values())) for p in self.inputs]
        self._starts = [structure._node_offsets[sort] for sort in sorts]
        self._lengths = [structure.counts[sort] for sort in sorts]
        self._num_nodes = structure.total_nodes
        self._others, self._around = _around(
            lists.nodes.cpu(), lists.entry_ptr.cpu(), self._num_nodes
        )

    def readings(self, state: State) -> Iterator[Reading]:
        """Yield what the nodes of every sort read."""
        nodes, count = torch.zeros(self._num_nodes, dtype=torch.long), 1
        for pattern, start, length in zip(self.inputs, self._starts, self._lengths, strict=True):
            # nodes of two sorts have no colour in common
            nodes[start : start + length] = state[pattern].of_rows + count
            count += state[pattern].number
        for _ in range(self._steps):
            means = proportions(combine(self._others, atoms(nodes, count, label="node")))
            sums = combine(self._around, means)
            # the node itself, and what it reads
            nodes, count = rank_rows([nodes, sums.classes], [count, sums.num_classes])
        if self._steps > 1 or not self.is_exact:
            sums = atoms(nodes, count, label="node")
        for pattern, start, length in zip(self.outputs, self._starts, self._lengths, strict=True):
            own = Sums(sums.classes[start : start + length], sums.table)
            yield Reading(pattern, "the other nodes of its entries", own)


def _around(nodes: Tensor, entry_ptr: Tensor, num_nodes: int) -> tuple[Terms, Terms]:
    """Return the other nodes of every pair of a node and an entry, and the pairs of every node."""
    sizes = entry_ptr.diff()
    entry = torch.arange(len(sizes)).repeat_interleave(sizes)  # (incidences,)
    pair, place = expand(entry_ptr[entry], sizes[entry])
    is_other = pair != place
    others = terms_of(pair[is_other], [nodes[place[is_other]]], len(nodes))
    return others, terms_of(nodes, [torch.arange(len(nodes))], num_nodes)


class ReadoutReader(ColourReader):
    """What a readout reads of every structure: statistics of all orbits."""

    def __init__(self, layer: Readout, structure: Structure) -> None:
        self.inputs, self.outputs = layer.patterns, [Pattern("")]
        self._aggr = layer.aggr
        self.is_exact = all(_POOLS.get(name, (_counts, False))[1] for name in layer.aggr)
        plan = plan_of(structure, layout_of(layer._map))
        self._bags = [(bags.num_slots[0], _bag_terms(bags)) for bags in plan.inputs]

    def readings(self, state: State) -> Iterator[Reading]:
        """Yield the statistics of every orbit of every tensor."""
        for pattern, (num_orbits, terms) in zip(self.inputs, self._bags, strict=True):
            bags = combine(terms, atoms(*state[pattern], label=pattern))
            for name in self._aggr:
                pool, _ = _POOLS.get(name, (_counts, False))
                sums = pool(bags)
                for orbit in range(num_orbits):
                    own = Sums(sums.classes[orbit::num_orbits], sums.table)
                    yield Reading(self.outputs[0], f"{name} of {pattern}", own)


def whole_terms(structure: Structure, pattern: Pattern) -> Terms:
    """Return the entries of every structure."""
    ptr = structure.entry_ptr(pattern).cpu().long()
    return Terms(ptr, (torch.arange(int(ptr[-1])),))
