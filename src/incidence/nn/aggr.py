"""What `aggr=` may be: one aggregation, a list of them, or one or a list for every operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from incidence.algebra.maps import EquivariantMap, Operation
from incidence.engine.aggregate import AGGREGATIONS
from incidence.errors import IncidenceError

__all__ = ["Aggr", "as_aggr", "by_operation"]

Aggr = (
    str
    | Sequence[str]
    | Callable[[Operation], str | Sequence[str]]
    | Mapping[int, str | Sequence[str]]
)
"""One aggregation, a list of them, or one for every operation."""


def by_operation(
    aggr: Any, m: EquivariantMap, kept: dict[tuple[int, int], tuple[int, ...]]
) -> tuple[tuple[str, ...], dict[int, tuple[int, ...]]]:
    """The aggregations that operations have, and for every operation that is kept, which ones."""
    if isinstance(aggr, Mapping):
        for number in aggr:
            if (
                isinstance(number, bool)
                or not isinstance(number, int)
                or not 0 <= number < m.dimension
            ):
                raise IncidenceError(
                    f"aggr= maps numbers of operations, 0 to {m.dimension - 1}, to aggregations;"
                    f" got {number!r}."
                )
    numbers = sorted(number for listed in kept.values() for number in listed)
    chosen = {
        n: as_aggr(aggr.get(n, "sum") if isinstance(aggr, Mapping) else aggr(m.operations[n]))
        for n in numbers
    }
    names = tuple(dict.fromkeys(name for listed in chosen.values() for name in listed))
    return names, {number: tuple(map(names.index, listed)) for number, listed in chosen.items()}


def as_aggr(aggr: Any) -> tuple[str, ...]:
    """The names of aggregations, checked."""
    if not isinstance(aggr, (str, list, tuple)):
        raise IncidenceError(
            f"aggr is one of {', '.join(AGGREGATIONS)}, or a list of them; got {aggr!r}."
        )
    names = (aggr,) if isinstance(aggr, str) else tuple(aggr)
    for name in names:
        if not isinstance(name, str) or name not in AGGREGATIONS:
            raise IncidenceError(f"no aggregation {name!r}; there are: {', '.join(AGGREGATIONS)}.")
    if not names or len(set(names)) < len(names):
        raise IncidenceError(
            f"aggr is one aggregation or a list of different ones; got {list(names)}."
        )
    return names
