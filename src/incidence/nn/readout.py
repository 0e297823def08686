"""`Readout`: statistics of whole structures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.engine.aggregate import as_aggregations
from incidence.engine.layout import layout_of
from incidence.engine.plain import level_pairs, level_tensors, pairs_of_level, pool_level, refused
from incidence.engine.plan import plan_of
from incidence.engine.readout import pool_structures
from incidence.errors import IncidenceError
from incidence.nn.composition import Planned, Side, unknown
from incidence.nn.initial import as_aggr
from incidence.nn.steps import writes
from incidence.nn.tensors import Values, as_list, as_side, key_of, per_tensor, takes_examples
from incidence.structure import Structure
from incidence.structure.data import cache_of
from incidence.structure.pytree import Recorded, recorded, traced

__all__ = ["Readout"]


def _as_even(pattern: Pattern, number: int) -> Pattern:
    """Return a tensor of sizes on the entries of an oriented tensor, under a name of its own; other
    tensors as they are.
    """
    return (
        Pattern(f"even{number}={pattern.unnamed().unoriented()}")
        if pattern.is_oriented
        else pattern
    )


def _with_even(
    structure: Structure, patterns: Sequence[Pattern], plain: Sequence[Pattern]
) -> Structure:
    """Return the structure with further tensors, of the same entries as those of some patterns."""
    index, entry_ptr = dict(structure._index), dict(structure._entry_ptr)
    for pattern, other in zip(patterns, plain, strict=True):
        if pattern.is_oriented:
            own = structure._as_spelt(pattern)
            # in the letters of the index
            spelt = Pattern(f"{other.name}={own.unnamed().unoriented()}")
            index[spelt], entry_ptr[spelt] = structure._stored(own), structure.entry_ptr(own)
    return structure.with_same_entries(index, entry_ptr)


class Readout(Planned):
    """Invariants of every structure: the statistics of every orbit of every tensor, side by side.

    Of oriented tensors they are the statistics of sizes, $|x|$, as those of the values would change
    with orientations.

    Args:
        text: The tensors, for example `i, {i j}`.
        aggr: One aggregation or a list.
        even: What is taken of values of oriented faces: `abs` or `square`.

    Shape:
        Output: (structures, aggregations x orbits x channels, added up over the tensors).
    """

    def __init__(
        self, text: str, aggr: str | list[str] | tuple[str, ...] = "sum", even: str = "abs"
    ) -> None:
        super().__init__()
        if even not in ("abs", "square"):
            raise IncidenceError(
                "even= is `abs` or `square`, what a readout takes of values with a sign; got"
                f" {even!r}."
            )
        self.patterns, self.even = as_side(text), even
        self.aggr = as_aggr(aggr)
        self._aggregations = as_aggregations(self.aggr)
        self._plain = [_as_even(p, number) for number, p in enumerate(self.patterns)]
        self._map = EquivariantMap.between(self._plain, [Pattern("")])
        self._layout = layout_of(self._map)
        # of features, and of what is kept
        self._keys, self._key = [key_of(p) for p in self.patterns], f"readout {self._map!r}"
        self._num_orbits = [len(p.orbits) for p in self.patterns]

    def out_channels(self, channels: int | Mapping[str, int]) -> int:
        """Return the number of output channels for given numbers of input channels."""
        widths: list[int] = per_tensor(self.patterns, channels, "channels")
        return len(self.aggr) * sum(
            len(p.orbits) * width for p, width in zip(self.patterns, widths, strict=True)
        )

    @takes_examples
    def forward(self, x: Values, structure: Structure) -> Tensor:
        """Return the statistics of every structure."""
        if torch.compiler.is_compiling():
            xs = [x] if isinstance(x, Tensor) else [x[key] for key in self._keys]
        else:
            xs = as_list(self.patterns, x, structure, [None] * len(self.patterns))
        xs = [
            # sizes have no sign, so they may be pooled
            getattr(value, self.even)() if p.is_oriented else value
            for p, value in zip(self.patterns, xs, strict=True)
        ]
        parts = [self._pooled(value, structure, number) for number, value in enumerate(xs)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def _pooled(self, x: Tensor, structure: Structure, number: int) -> Tensor:
        """Return the statistics of a tensor, (structures, orbits x aggregations x channels)."""
        if torch.compiler.is_compiling():
            by_aggregation = self._traced(x, structure, number)
        else:
            bags = plan_of(self._on(structure), self._layout).inputs[number]
            by_aggregation = pool_structures(x, self._aggregations, bags)
        if len(by_aggregation) == 1:
            return by_aggregation[0]
        # (structures, orbits, channels)
        orbits = [one.view(one.shape[0], -1, x.shape[1]) for one in by_aggregation]
        # (structures, orbits x aggregations x channels)
        return torch.stack(orbits, dim=2).flatten(1)

    def _traced(self, x: Tensor, structure: Structure, number: int) -> Sequence[Tensor]:
        """Return one statistic after the other, from what `plan` left on the structure."""
        lists = traced(structure, f"{self._key} {number}")
        if lists is None:
            columns = self._num_orbits[number] * x.shape[1]
            return [refused(None, x, structure.num_structures, columns) for _ in self._aggregations]
        own = pairs_of_level(lists.tensors)
        return [pool_level(x, own, aggregation.name) for aggregation in self._aggregations]

    def plan(self, structure: Structure) -> None:
        """Make the index lists for a structure; tracing needs them."""
        entries, plan = recorded(structure), plan_of(self._on(structure), self._layout)
        for number, bags in enumerate(plan.inputs):
            if f"{self._key} {number}" not in entries:
                [pairs] = level_pairs(bags)
                entries[f"{self._key} {number}"] = Recorded([*level_tensors(pairs).values()])

    def _on(self, structure: Structure) -> Structure:
        """Return the structure with the entries of oriented tensors as entries without orientation
        too; kept.
        """
        if not any(p.is_oriented for p in self.patterns):
            return structure
        kept = cache_of(structure, Structure)
        if self._key not in kept:
            kept[self._key] = _with_even(structure, self.patterns, self._plain)
        return kept[self._key]

    def follow(self, side: Side | None) -> Side | None:
        """Return one row for each structure, without a sign."""
        return unknown([Pattern("")])

    def extra_repr(self) -> str:
        """Return the tensors and the aggregations."""
        return f"{', '.join(map(str, self.patterns))!r}, aggr={list(self.aggr)}"


@writes(Readout)
def _write_readout(program: Any, readout: Readout, x: Any) -> Any:
    values = [x[key] for key in readout._keys] if isinstance(x, dict) else [x]
    layout = readout._layout
    use = program.plan(layout, readout._on, readout._key)
    layouts = list(zip(layout.input_numbers, layout.inputs, strict=True))
    for k, pattern in enumerate(readout.patterns):
        if pattern.is_oriented:
            values[k] = program.activation(values[k], readout.even)
    return program.readout(use, values, layouts, readout.aggr)
