"""`Readout`: statistics of whole structures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.kernels.aggregate import as_aggregations
from incidence.kernels.readout import pool_structures
from incidence.kernels.traced import flatten_readout, traced_readout, unplanned
from incidence.nn.aggr import as_aggr
from incidence.nn.composition import Side, unknown
from incidence.nn.tensors import Values, as_list, as_side, key_of, per_tensor
from incidence.plans import plan_of
from incidence.plans.layout import Stacks, by_width, layout_of
from incidence.structure import Structure
from incidence.structure.data import cache_of
from incidence.structure.pytree import Flat, flat_of

__all__ = ["Readout"]


def _as_even(pattern: Pattern, number: int) -> Pattern:
    """A tensor of sizes on the entries of an oriented tensor, under a name of its own; other tensors as they are."""
    return (
        Pattern(f"even{number}={pattern.unnamed().unoriented()}")
        if pattern.is_oriented
        else pattern
    )


def _with_even(
    structure: Structure, patterns: Sequence[Pattern], plain: Sequence[Pattern]
) -> Structure:
    """The structure with further tensors, of the same entries as those of some patterns."""
    index, entry_ptr = dict(structure._index), dict(structure._entry_ptr)
    for pattern, other in zip(patterns, plain, strict=True):
        if pattern.is_oriented:
            own = structure._as_spelt(pattern)
            spelt = Pattern(
                f"{other.name}={own.unnamed().unoriented()}"
            )  # in the letters of the index
            index[spelt], entry_ptr[spelt] = structure._stored(own), structure.entry_ptr(own)
    return Structure._of(structure._node_ptr, index, entry_ptr)


class Readout(nn.Module):
    """Invariants of every structure: the statistics of every orbit of every tensor, side by side.

    Of oriented tensors they are the statistics of sizes, $|x|$, as those of the values would change with orientations.

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
                f"even= is `abs` or `square`, what a readout takes of values with a sign; got {even!r}."
            )
        self.patterns, self.even = as_side(text), even
        self.aggr = as_aggr(aggr)
        self._aggregations = as_aggregations(self.aggr)
        self._plain = [_as_even(p, number) for number, p in enumerate(self.patterns)]
        self._map = EquivariantMap.between(self._plain, [Pattern("")])
        self._keys, self._key = (
            [key_of(p) for p in self.patterns],
            f"readout {self._map!r}",
        )  # of features, and of what is kept
        self._num_orbits = [len(p.orbits) for p in self.patterns]

    def out_channels(self, channels: int | Mapping[str, int]) -> int:
        """The number of output channels for given numbers of input channels."""
        widths: list[int] = per_tensor(self.patterns, channels, "channels")
        return len(self.aggr) * sum(
            len(p.orbits) * width for p, width in zip(self.patterns, widths, strict=True)
        )

    def forward(self, x: Values, structure: Structure) -> Tensor:
        """The statistics of every structure."""
        if torch.compiler.is_compiling():
            xs = [x] if isinstance(x, Tensor) else [x[key] for key in self._keys]
        else:
            xs = as_list(self.patterns, x, structure, [None] * len(self.patterns))
        xs = [
            getattr(value, self.even)() if p.is_oriented else value
            for p, value in zip(self.patterns, xs, strict=True)
        ]
        stacks = by_width([value.shape[1] for value in xs])
        parts: dict[int, Tensor] = {}
        for number, members in enumerate(stacks):
            stacked = (
                xs[members[0]] if len(members) == 1 else torch.cat([xs[k] for k in members])
            )  # (rows, channels)
            pooled = self._pool(
                stacked, structure, stacks, number
            )  # for each aggregation (structures, orbits x channels)
            by_orbit = torch.stack(
                [one.view(one.shape[0], -1, stacked.shape[1]) for one in pooled], dim=2
            )
            counts = [self._num_orbits[k] for k in members]
            parts.update(
                zip(
                    members,
                    (part.flatten(1) for part in by_orbit.split_with_sizes(counts, dim=1)),
                    strict=True,
                )
            )
        return torch.cat([parts[k] for k in range(len(xs))], dim=1)

    def _pool(
        self, stacked: Tensor, structure: Structure, stacks: Stacks, number: int
    ) -> Sequence[Tensor]:
        """The statistics of one stack: while tracing, by what `plan` left on the structure."""
        if torch.compiler.is_compiling():
            flat = flat_of(structure, f"{self._key} {stacks}")
            if flat is None:
                columns = sum(self._num_orbits[k] for k in stacks[number]) * stacked.shape[1]
                return [
                    unplanned(stacked, structure.num_structures, columns)
                    for _ in self._aggregations
                ]
            return [
                traced_readout(flat, stacked, number, aggregation)
                for aggregation in self._aggregations
            ]
        return pool_structures(
            stacked,
            self._aggregations,
            plan_of(self._on(structure), layout_of(self._map, stacks)).inputs[number],
        )

    def plan(self, structure: Structure, channels: int | Mapping[str, int] = 1) -> None:
        """Makes the index lists for a structure, which tracing needs; tensors with as many channels share theirs."""
        stacks, flats = (
            by_width(per_tensor(self.patterns, channels, "channels")),
            cache_of(structure, Flat),
        )
        if f"{self._key} {stacks}" not in flats:
            flats[f"{self._key} {stacks}"] = flatten_readout(
                plan_of(self._on(structure), layout_of(self._map, stacks))
            )

    def _on(self, structure: Structure) -> Structure:
        """The structure with the entries of oriented tensors as entries without orientation too; kept."""
        if not any(p.is_oriented for p in self.patterns):
            return structure
        kept = cache_of(structure, Structure)
        if self._key not in kept:
            kept[self._key] = _with_even(structure, self.patterns, self._plain)
        return kept[self._key]

    def follow(self, side: Side | None) -> Side | None:
        """One row for each structure, without a sign."""
        return unknown([Pattern("")])

    def extra_repr(self) -> str:
        """The tensors and the aggregations."""
        return f"{', '.join(map(str, self.patterns))!r}, aggr={list(self.aggr)}"
