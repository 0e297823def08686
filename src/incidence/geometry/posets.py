r"""Graded posets as structures: minimal elements are the nodes, and every other element is the set
of nodes below it.

A structure knows faces by their nodes only. So an order can be read back from it iff it is
*containment of atoms*: x <= y iff all minimal elements below x are below y. Posets for which this
fails are refused, with the two elements that show it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, overload

import torch

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.assembly import assemble, assemble_ranks
from incidence.geometry.node_lists import NodeLists
from incidence.geometry.ranks import RankedFaces, contained
from incidence.structure import Structure
from incidence.structure.ragged import MAX_ENTRIES, is_among, pairs

__all__ = ["poset"]

Element = Hashable
Below = dict[Element, list[Element]]  # for every element those below it by some relation
# for every element the numbers of the minimal elements below it
Atoms = dict[Element, tuple[int, ...]]


@overload
def poset(
    relations: Iterable[Any], elements: Iterable[Any] = (), return_elements: Literal[False] = False
) -> Structure: ...
@overload
def poset(
    relations: Iterable[Any], elements: Iterable[Any] = (), *, return_elements: Literal[True]
) -> tuple[Structure, dict[str, list[Any]]]: ...
def poset(
    relations: Iterable[Any], elements: Iterable[Any] = (), return_elements: bool = False
) -> Structure | tuple[Structure, dict[str, list[Any]]]:
    r"""Build a graded poset: the tensors `{i j}`, `rank2={i ...}`, `rank3={i ...}`, ... over its
    minimal elements.

    Where an element of rank 1 has other than two atoms, the first tensor is `rank1={i ...}`. A
    least element is the empty face, and left out; a greatest one is a face like others. Nodes are
    numbered by ascending element, or by appearance where elements do not compare.

    Args:
        relations: Pairs (lower, upper) of elements, which may be anything hashable: the covers of
            the poset, or more of its order.
        elements: Elements that are in no relation.
        return_elements: Whether to return the elements as well: for every tensor (`"i"`, `"{i j}"`,
            `"rank2"`, ...) the list of its elements in the order of its rows.

    Raises:
        IncidenceError: The relations have a cycle, are not graded, or do not follow from atoms; the
            message names the elements.

    Example:
        >>> sides = ["ab", "bc", "cd", "ad"]
        >>> relations = [(v, e) for e in sides for v in e] + [(e, "face") for e in sides]
        >>> s, elements = poset(relations, return_elements=True)
        >>> s
        Structure(num_nodes=4, '{i j}': 4 entries, 'rank2={i ...}': 1 entry)
        >>> elements["{i j}"]
        ['ab', 'ad', 'bc', 'cd']
    """
    lower = _read_order(relations, elements)
    rank = _ranks_of(lower)
    _assert_graded(lower, rank)
    by_rank: list[list[Element]] = [[] for _ in range(max(rank.values()) + 1)]
    for x in lower:
        by_rank[rank[x]].append(x)
    with suppress(TypeError):
        by_rank[0] = sorted(by_rank[0])  # type: ignore[type-var]
    atoms: Atoms = {x: (number,) for number, x in enumerate(by_rank[0])}
    for level in by_rank[1:]:
        # Ranks ascend, so that the atoms of all elements below are known.
        atoms |= {x: tuple(sorted({v for y in lower[x] for v in atoms[y]})) for x in level}
    order = [sorted(level, key=lambda x: (len(atoms[x]), atoms[x])) for level in by_rank]
    _assert_atomistic(order, lower, atoms)
    structure = assemble_ranks(
        len(order[0]), [NodeLists.of_lists([atoms[x] for x in level]) for level in order[1:]]
    )
    names = ["i", *(pattern.name or str(pattern) for pattern in structure.patterns)]
    return (structure, dict(zip(names, order, strict=True))) if return_elements else structure


def _assert_atomistic(order: list[list[Element]], lower: Below, atoms: Atoms) -> None:
    """Check that elements differ in their atoms, and that x is below y if its atoms are among those
    of y.
    """
    owner: dict[tuple[int, ...], Element] = {}  # the first element with these atoms
    for x in (x for level in order for x in level):
        other = owner.setdefault(atoms[x], x)
        if other != x:
            raise IncidenceError(
                f"{other!r} and {x!r} have the same minimal elements below them. A face is the set"
                " of its nodes, so they would be one: add what tells them apart, or use tensors of"
                " sorts of their own."
            )
    elements = [x for level in order[1:] for x in level]
    if not elements:
        return
    number = {x: k for k, x in enumerate(elements)}
    lists = NodeLists.of_lists([atoms[x] for x in elements])
    faces = RankedFaces(assemble(len(order[0]), {"{i ...}": lists.index}), Pattern("{i ...}"))
    inside = contained(faces, faces)
    inside = inside[:, inside[0] != inside[1]]  # (2, pairs) of different elements
    rows = [(number[y], number[x]) for x in elements for y in lower[x] if y in number]
    relations = torch.tensor(rows, dtype=torch.long).view(-1, 2).T  # (2, relations)
    # A pair (x, y) must be a relation, or (x, z) is such a pair and z < y a relation. If that holds
    # for all pairs, all follow from relations: the first that does not, by the rank of y, could not
    # come from a lower (x, z).
    spot, step = pairs(inside[1], relations[0], MAX_ENTRIES, "the poset has too many chains")
    known = torch.cat([relations, torch.stack([inside[0, spot], relations[1, step]])], dim=1)
    count = len(elements)
    is_known = is_among(inside[0] * count + inside[1], known[0] * count + known[1])
    unknown = inside[:, ~is_known]
    if unknown.numel():
        one, other = (elements[k] for k in unknown[:, 0].tolist())
        raise IncidenceError(
            f"{one!r} is not below {other!r}, but all minimal elements below it are. A face"
            " contains another iff its nodes do, so it would be below: add the relation, or use"
            " tensors of sorts of their own."
        )


def _read_order(relations: Iterable[Any], elements: Iterable[Any]) -> Below:
    """The order of the relations, without its least element."""
    lower: Below = {}
    try:
        for x in elements:
            lower.setdefault(x, [])
        for number, pair in enumerate(relations):
            if isinstance(pair, (str, bytes)) or len(pair) != 2 or pair[0] == pair[1]:
                raise IncidenceError(
                    f"relations[{number}] must be a pair (lower, upper) of two different elements;"
                    f" got {pair!r}."
                )
            lower.setdefault(pair[0], [])
            lower.setdefault(pair[1], []).append(pair[0])
    except TypeError:
        raise IncidenceError(
            "relations must be a list of pairs (lower, upper) of hashable elements."
        ) from None
    if not lower:
        raise IncidenceError("the poset is empty: give relations, or elements.")
    minimal = [x for x, below in lower.items() if not below]
    least = minimal if len(minimal) == 1 and len(lower) > 1 else []  # the empty face
    return {
        x: [y for y in dict.fromkeys(below) if y not in least]
        for x, below in lower.items()
        if x not in least
    }


def _ranks_of(lower: Below) -> dict[Element, int]:
    """The length of the longest chain below every element."""
    rank: dict[Element, int] = {}
    try:
        for x in TopologicalSorter(lower).static_order():
            rank[x] = 1 + max((rank[y] for y in lower[x]), default=-1)  # minimal elements have 0
    except CycleError as error:
        raise IncidenceError(
            f"the relations have a cycle: {_chain(error.args[1])}. An order has none: remove one of"
            " them."
        ) from None
    return rank


def _chain(elements: Iterable[Element]) -> str:
    return " < ".join(map(repr, elements))


def _assert_graded(lower: Below, rank: dict[Element, int]) -> None:
    """Check that relations over more than one rank follow from others."""
    for x, below in lower.items():
        far = [y for y in below if rank[y] < rank[x] - 1]
        if not far:
            continue
        known = set()
        stack = [z for y in below for z in lower[y]]
        while stack:
            y = stack.pop()
            if y not in known:
                known.add(y)
                stack.extend(lower[y])
        bad = next((y for y in far if y not in known), None)
        if bad is not None:
            one = [*_longest(lower, rank, bad), x]
            other = _longest(lower, rank, x)
            raise IncidenceError(
                f"the poset is not graded: {x!r} is reached by chains of different length,"
                f" {_chain(one)} and {_chain(other)}. Add the elements in between, or remove a"
                " relation."
            )


def _longest(lower: Below, rank: dict[Element, int], x: Element) -> list[Element]:
    chain = [x]
    while lower[chain[-1]]:
        chain.append(max(lower[chain[-1]], key=lambda y: rank[y]))
    return chain[::-1]
