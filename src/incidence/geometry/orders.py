"""Finite orders, told by some of their relations: ranks, cycles, and chains of different length."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Any

from incidence.errors import IncidenceError

__all__ = ["Below", "Element", "assert_graded", "ranks_of", "read_order"]

Element = Hashable
Below = dict[Element, list[Element]]  # for every element those that are told to be below it


def read_order(relations: Iterable[Any], elements: Iterable[Any]) -> Below:
    """The order that relations tell, without its least element.

    Raises:
        IncidenceError: They are no pairs of hashable elements, or there is none.
    """
    lower: Below = {}
    try:
        for x in elements:
            lower.setdefault(x, [])
        for number, pair in enumerate(relations):
            if isinstance(pair, (str, bytes)) or len(pair) != 2 or pair[0] == pair[1]:
                raise IncidenceError(f"relations[{number}] must be a pair (lower, upper) of two different elements; got {pair!r}.")
            lower.setdefault(pair[0], [])
            lower.setdefault(pair[1], []).append(pair[0])
    except TypeError:
        raise IncidenceError("relations must be a list of pairs (lower, upper) of hashable elements.") from None
    if not lower:
        raise IncidenceError("the poset is empty: give relations, or elements.")
    return _without_least({x: list(dict.fromkeys(below)) for x, below in lower.items()})


def _without_least(lower: Below) -> Below:
    minimal = [x for x, below in lower.items() if not below]
    if len(minimal) != 1 or len(lower) == 1:
        return lower
    return {x: [y for y in below if y != minimal[0]] for x, below in lower.items() if x != minimal[0]}


def ranks_of(lower: Below) -> dict[Element, int]:
    """The length of the longest chain below every element.

    Raises:
        IncidenceError: There is a cycle.
    """
    upper: Below = {x: [] for x in lower}
    for x, below in lower.items():
        for y in below:
            upper[y].append(x)
    left = {x: len(below) for x, below in lower.items()}
    rank = {x: 0 for x, count in left.items() if not count}
    ready = deque(rank)
    while ready:
        y = ready.popleft()
        for x in upper[y]:
            left[x] -= 1
            if not left[x]:
                rank[x] = 1 + max(rank[z] for z in lower[x])
                ready.append(x)
    if len(rank) < len(lower):
        raise IncidenceError(f"the relations have a cycle: {_chain(_cycle(lower, rank))}. An order has none: remove one of them.")
    return rank


def _cycle(lower: Below, rank: dict[Element, int]) -> list[Element]:
    """Going down among elements without a rank, one comes back."""
    path = [next(x for x in lower if x not in rank)]
    while path[-1] not in path[:-1]:
        path.append(next(y for y in lower[path[-1]] if y not in rank))
    return path[path.index(path[-1]) :][::-1]


def _chain(elements: Iterable[Element]) -> str:
    return " < ".join(map(repr, elements))


def assert_graded(lower: Below, rank: dict[Element, int]) -> None:
    """Refuses relations over more than one rank that do not follow from others."""
    for x, below in lower.items():
        far = [y for y in below if rank[y] < rank[x] - 1]
        if not far:
            continue
        known, stack = set(), [z for y in below for z in lower[y]]
        while stack:
            y = stack.pop()
            if y not in known:
                known.add(y)
                stack.extend(lower[y])
        bad = next((y for y in far if y not in known), None)
        if bad is not None:
            one, other = [*_longest(lower, rank, bad), x], _longest(lower, rank, x)
            raise IncidenceError(
                f"the poset is not graded: {x!r} is reached by chains of different length, {_chain(one)} and {_chain(other)}. "
                f"Add the elements in between, or remove a relation."
            )


def _longest(lower: Below, rank: dict[Element, int], x: Element) -> list[Element]:
    chain = [x]
    while lower[chain[-1]]:
        chain.append(max(lower[chain[-1]], key=lambda y: rank[y]))
    return chain[::-1]
