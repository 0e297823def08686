"""From a map and a plan to a program: which operation every pair of words means."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.orbit import Class
from incidence.algebra.overlap import Matrix, overlaps
from incidence.algebra.words import Word, overlap_of, words
from incidence.kernels.engine import Program, Side
from incidence.plans.plan import Plan, is_aligned
from incidence.plans.tables import Table
from incidence.plans.terms import Term, Terms

__all__ = ["Layout", "make_program"]


_MOST_KEPT = 64  # sets of masks that a layer remembers its terms for


class Layout:
    """Where the operations of a map stand in the weights of a layer.

    Attributes:
        map: The map.
        kept: For every pair (source tensor, target tensor), the numbers of the operations that the layer has.
    """

    def __init__(self, equivariant_map: EquivariantMap, kept: dict[tuple[int, int], tuple[int, ...]]) -> None:
        self.map = equivariant_map
        self.kept = kept
        self.pairs = tuple(kept)
        self._rows = {pair: {number: row for row, number in enumerate(numbers)} for pair, numbers in kept.items()}
        self.key = (equivariant_map, tuple(sorted(kept.items())))
        self.terms: dict[Hashable, Terms] = {}  # those made last

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "terms": {}}

    def rows(self, source: tuple[int, int], target: tuple[int, int]) -> dict[Matrix, int]:
        """The row of the weight for every overlap matrix of two orbits."""
        start = next(
            b.start for b in self.map.pairs if (b.source.tensor, b.source.number) == source and (b.target.tensor, b.target.number) == target
        )
        at = self._rows[source[0], target[0]]
        classes = self._classes(source, target)
        listed = enumerate(overlaps(*classes, self.map.max_overlap), start)
        return {matrix: at[number] for number, matrix in listed if number in at}

    def _classes(self, source: tuple[int, int], target: tuple[int, int]) -> tuple[tuple[Class, ...], tuple[Class, ...]]:
        orbits = self.map.inputs[source[0]].orbits[source[1]], self.map.outputs[target[0]].orbits[target[1]]
        return orbits[0].classes, orbits[1].classes


def make_program(layout: Layout, plan: Plan, aggr: tuple[str, ...]) -> Program:
    """The program of a layer on the structure of a plan; kept with the plan."""
    key = (layout.key, aggr)
    if key not in plan.programs:
        plan.programs[key] = _make(layout, plan, aggr)
    program: Program = plan.programs[key]
    return program


def _make(layout: Layout, plan: Plan, aggr: tuple[str, ...]) -> Program:
    m = layout.map
    inputs = tuple(_side(plan, plan.tensors.index(p)) for p in m.inputs)
    outputs = tuple(_side(plan, plan.tensors.index(q)) for q in m.outputs)
    device = inputs[0].orbits[0].read.device
    # The terms depend on the masks that occur and on nothing else of a structure: most batches of a data set have the same.
    key = aggr, device, plan.levels, tuple((lists.levels, lists.masks) for orbits in plan.orbits for lists in orbits)
    if key not in layout.terms:
        while len(layout.terms) >= _MOST_KEPT:
            layout.terms.pop(next(iter(layout.terms)), None)
        terms = [
            _term(layout, plan, inputs, outputs, (s, a), (t, b), device)
            for s, p in enumerate(m.inputs)
            for t, q in enumerate(m.outputs)
            for a in range(len(p.orbits))
            for b in range(len(q.orbits))
        ]
        layout.terms[key] = Terms(terms, aggr)
    return Program(inputs, outputs, layout.terms[key], aggr)


def _side(plan: Plan, t: int) -> Side:
    return Side(plan.orders[t], plan.num_entries[t], plan.orbits[t])


def _term(
    layout: Layout,
    plan: Plan,
    inputs: tuple[Side, ...],
    outputs: tuple[Side, ...],
    source: tuple[int, int],
    target: tuple[int, int],
    device: torch.device,
) -> Term:
    m = layout.map
    rows = layout.rows(source, target)
    classes = layout._classes(source, target)
    one, other = inputs[source[0]].orbits[source[1]], outputs[target[0]].orbits[target[1]]
    found = []
    for i, level in enumerate(one.levels):
        if level not in other.levels or _is_own(plan, m, source, target, level):
            continue
        us, ws = (words(c, plan.levels[level], m.max_overlap) for c in classes)
        table = _table(us, ws, classes, rows)
        if bool((table >= 0).any()):
            found.append((i, other.levels.index(level), Table(table.to(device))))
    blocks = None
    if is_aligned(m.inputs[source[0]], m.outputs[target[0]], source[1], target[1]):
        blocks = tuple(Table(_table(mask, mask, classes, rows).to(device)) for mask in one.masks)
    return Term(source, target, layout.pairs.index((source[0], target[0])), tuple(found), blocks)


def _is_own(plan: Plan, m: EquivariantMap, source: tuple[int, int], target: tuple[int, int], level: int) -> bool:
    """Whether a level is all nodes of an orbit that meets itself: those operations are blocks."""
    p, q = m.inputs[source[0]], m.outputs[target[0]]
    return is_aligned(p, q, source[1], target[1]) and len(plan.levels[level]) == p.orbits[source[1]].size


def _table(
    us: tuple[Word, ...], ws: tuple[Word, ...], classes: tuple[tuple[Class, ...], tuple[Class, ...]], rows: dict[Matrix, int]
) -> Tensor:
    sizes = len(classes[0]), len(classes[1])
    return torch.tensor([[rows.get(overlap_of(u, w, *sizes), -1) for w in ws] for u in us], dtype=torch.long).view(len(us), len(ws))
