r"""Graded posets as structures: minimal elements are the nodes, and every other element is the set of nodes below it.

A structure knows faces by their nodes only. So an order can be read back from it iff it is *containment of atoms*: x <= y iff all minimal
elements below x are below y. Posets for which this fails are refused, with the two elements that show it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, overload

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.assemble import assemble
from incidence.geometry.containment import Level, contained
from incidence.geometry.orders import Below, Element, assert_graded, ranks_of, read_order
from incidence.structure import Structure
from incidence.structure.ragged import MAX_ENTRIES, is_among, pairs

__all__ = ["poset"]


@overload
def poset(relations: Iterable[Any], elements: Iterable[Any] = (), return_elements: Literal[False] = False) -> Structure: ...
@overload
def poset(
    relations: Iterable[Any], elements: Iterable[Any] = (), *, return_elements: Literal[True]
) -> tuple[Structure, dict[str, list[Any]]]: ...
def poset(
    relations: Iterable[Any], elements: Iterable[Any] = (), return_elements: bool = False
) -> Structure | tuple[Structure, dict[str, list[Any]]]:
    r"""A graded poset: the tensors `{i j}`, `rank2={i ...}`, `rank3={i ...}`, ... over its minimal elements.

    Where an element of rank 1 has other than two atoms, the first tensor is `rank1={i ...}`. A least element is the empty face, and left
    out; a greatest one is a face like others. Nodes are numbered by ascending element, or by appearance where elements do not compare.

    Args:
        relations: Pairs (lower, upper) of elements, which may be anything hashable: the covers of the poset, or more of its order.
        elements: Further elements, for those that are in no relation.
        return_elements: Whether to return the elements as well: for every tensor (`"i"`, `"{i j}"`, `"rank2"`, ...) the list of its
            elements in the order of its rows.

    Raises:
        IncidenceError: The relations have a cycle, are not graded, or do not follow from atoms; the message names the elements.

    Example:
        >>> square = [(v, e) for e in ("ab", "bc", "cd", "ad") for v in e] + [(e, "face") for e in ("ab", "bc", "cd", "ad")]
        >>> s, elements = poset(square, return_elements=True)
        >>> s
        Structure(num_nodes=4, '{i j}': 4 entries, 'rank2={i ...}': 1 entry)
        >>> elements["{i j}"]
        ['ab', 'ad', 'bc', 'cd']
    """
    lower = read_order(relations, elements)
    rank = ranks_of(lower)
    assert_graded(lower, rank)
    by_rank: list[list[Element]] = [[] for _ in range(max(rank.values()) + 1)]
    for x in lower:
        by_rank[rank[x]].append(x)
    atoms = _atoms(lower, rank, _ascending(by_rank[0]))
    order = [sorted(level, key=lambda x: (len(atoms[x]), atoms[x])) for level in by_rank]
    _assert_atomistic([x for level in order[1:] for x in level], lower, rank, atoms, len(order[0]))
    index: dict[Pattern, tuple[Tensor, ...]] = {}
    rows = {"i": order[0]}
    for number, level in enumerate(order[1:], 1):
        is_edges = number == 1 and all(len(atoms[x]) == 2 for x in level)
        pattern = Pattern("{i j}") if is_edges else Pattern(f"rank{number}={{i ...}}")
        index[pattern] = (_columns(level, atoms),) if is_edges else (torch.zeros(0, 0, dtype=torch.long), _members(level, atoms))
        rows[pattern.name or str(pattern)] = level
    structure = assemble(len(order[0]), index, is_preferred=True)
    return (structure, rows) if return_elements else structure


def _ascending(elements: list[Element]) -> list[Element]:
    try:
        return sorted(elements)  # type: ignore[type-var]
    except TypeError:
        return elements


def _atoms(lower: Below, rank: dict[Element, int], nodes: list[Element]) -> dict[Element, tuple[int, ...]]:
    """The numbers of the minimal elements below every element."""
    atoms: dict[Element, tuple[int, ...]] = {x: (number,) for number, x in enumerate(nodes)}
    for x in sorted(lower, key=lambda x: rank[x]):
        if rank[x]:
            atoms[x] = tuple(sorted({v for y in lower[x] for v in atoms[y]}))
    return atoms


def _columns(level: list[Element], atoms: dict[Element, tuple[int, ...]]) -> Tensor:
    return torch.tensor([atoms[x] for x in level]).T.contiguous()


def _members(level: list[Element], atoms: dict[Element, tuple[int, ...]]) -> Tensor:
    return torch.tensor([(v, number) for number, x in enumerate(level) for v in atoms[x]]).T.contiguous()


def _assert_atomistic(
    elements: list[Element], lower: Below, rank: dict[Element, int], atoms: dict[Element, tuple[int, ...]], num_nodes: int
) -> None:
    """Elements differ in their atoms, and x is below y whenever its atoms are among those of y."""
    owner: dict[tuple[int, ...], Element] = {atoms[x]: x for x in lower if not rank[x]}
    for x in elements:
        other = owner.setdefault(atoms[x], x)
        if other != x:
            raise IncidenceError(
                f"{other!r} and {x!r} have the same minimal elements below them. A face is the set of its nodes, so they would be one: "
                f"add what tells them apart, or use tensors of sorts of their own."
            )
    if not elements:
        return
    number = {x: k for k, x in enumerate(elements)}
    members = (torch.zeros(0, 0, dtype=torch.long), _members(elements, atoms))
    level = Level(assemble(num_nodes, {_FACES: members}, is_preferred=True), _FACES)
    inside = contained(level, level)
    inside = inside[:, inside[0] != inside[1]]
    told = torch.tensor([(number[y], number[x]) for x in elements for y in lower[x] if rank[y]], dtype=torch.long).view(-1, 2).T
    unknown = inside[:, ~_follows(inside, told, len(elements))]
    if unknown.numel():
        one, other = (elements[k] for k in unknown[:, 0].tolist())
        raise IncidenceError(
            f"{one!r} is not below {other!r}, but all minimal elements below it are. A face contains another iff its nodes do, so it "
            f"would be below: add the relation, or use tensors of sorts of their own."
        )


_FACES = Pattern("{i ...}")


def _follows(inside: Tensor, told: Tensor, count: int) -> Tensor:
    """Whether pairs (x, y), the atoms of x among those of y, are relations told, or (x, z) is such a pair and z < y is told.

    If all are, all are relations of the poset: the first that is none, by the rank of y, could not come from a lower (x, z).
    """
    spot, step = pairs(inside[1], told[0], MAX_ENTRIES, "the poset has too many chains")
    known = torch.cat([told, torch.stack([inside[0, spot], told[1, step]])], dim=1)
    return is_among(inside[0] * count + inside[1], known[0] * count + known[1])
