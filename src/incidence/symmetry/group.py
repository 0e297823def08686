r"""`Group`: permutations of the nodes of a structure, given by generators.

A group is a product of *direct factors*, which move different nodes. SymPy computes the order of
each factor, and tests whether a permutation lies in it. Orbits are computed with whole arrays:
things that a generator joins get one label.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from functools import cached_property
from math import factorial, prod
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.arguments import as_labels
from incidence.structure.data import Array
from incidence.structure.structure import Structure
from incidence.structure.validate import first_true

__all__ = ["Group", "connect", "direct_factors", "number_orbits"]

# Elements to test: of all permutations of 50 nodes one in nine proves that a factor has all even
# permutations, of 1,000 nodes one in 14.
_TRIES = 200


class Group:
    r"""A group of permutations of nodes, with sorts if there are several; its elements are never
    listed.

    Args:
        nodes: The structure whose nodes are permuted, or the number of nodes; with several sorts, a
            mapping from sort to number.
        generators: Permutations: node v goes to `permutation[v]`. With sorts, mappings from sort to
            permutation; the nodes of other sorts stay.

    Raises:
        IncidenceError: A generator is no permutation of the nodes, or does not keep the entries of
            the structure.

    Example:
        >>> turn = Group(4, [[1, 2, 3, 0]])
        >>> turn.order, [2, 3, 0, 1] in turn, [1, 0, 2, 3] in turn
        (4, True, False)
        >>> turn.orbits("i").tolist()
        [0, 0, 0, 0]
    """

    def __init__(
        self, nodes: Structure | int | Mapping[str, int], generators: Iterable[Any] = ()
    ) -> None:
        self.structure = nodes if isinstance(nodes, Structure) else Structure(nodes)
        if self.structure.num_structures != 1:
            raise IncidenceError(
                "a group permutes the nodes of one structure; got a batch of"
                f" {self.structure.num_structures}."
            )
        rows = [self._as_row(g, f"generator {number}") for number, g in enumerate(generators)]
        shape = len(rows), self.structure.total_nodes
        self._rows: Array = np.array(rows, dtype=np.int64).reshape(shape)
        # The structure that the group consists of *all* automorphisms of, if there is one.
        self._whole: Structure | None = None
        self._moved: dict[Pattern, list[Tensor]] = {}
        for pattern in self.structure.patterns if rows else ():
            self.permutations(pattern)  # raises if a generator does not keep the entries

    @classmethod
    def _of_all(cls, structure: Structure, rows: Array, order: int) -> Group:
        """Return all automorphisms of a structure, from valid generators and their number."""
        group = cls(structure)
        group._rows, group._whole, group.order = rows, structure, order
        return group

    def _on(self, structure: Structure) -> Group:
        """Return the same permutations on the nodes of another structure, unchecked."""
        group = copy(self)
        group.structure, group._moved = structure, {}
        return group

    @classmethod
    def symmetric(cls, nodes: Structure | int | Mapping[str, int]) -> Group:
        """Return the group of all permutations of the nodes that keep their sorts.

        Example:
            >>> Group.symmetric({"user": 3, "movie": 2}).order
            12
        """
        counts = cls(nodes).structure.counts
        generators = []
        for sort, n in counts.items():
            if n > 2:
                generators.append({sort: [*range(1, n), 0]})  # turns all nodes
            if n > 1:
                generators.append({sort: [1, 0, *range(2, n)]})  # swaps two nodes
        group = cls(nodes, generators)
        group._whole, group.order = Structure(counts), prod(map(factorial, counts.values()))
        return group

    @property
    def num_nodes(self) -> int | dict[str, int]:
        """The number of nodes; with several sorts, for each sort."""
        return self.structure.num_nodes

    @property
    def generators(self) -> tuple[Any, ...]:
        """The generators as tensors; with several sorts, as dicts from sort to tensor."""
        by_sort = map(self._by_sort, self._rows)
        has_one_sort = isinstance(self.num_nodes, int)
        return tuple(parts["node"] if has_one_sort else parts for parts in by_sort)

    @cached_property
    def order(self) -> int:
        """The number of elements, exactly."""
        return prod(factor.order for factor in self._factors)

    def __contains__(self, permutation: object) -> bool:
        row = self._as_row(permutation, "the permutation")
        whole = self._whole
        if whole is not None:
            moved = self._by_sort(row)
            rows = (_moved(whole, pattern, moved) for pattern in whole.patterns)
            return all(bool((each >= 0).all()) for each in rows)
        is_fixed = row == np.arange(len(row))
        is_fixed[[v for factor in self._factors for v in factor.nodes]] = True
        return bool(is_fixed.all()) and all(row in factor for factor in self._factors)

    @cached_property
    def _factors(self) -> list[DirectFactor]:
        factors = direct_factors(self._rows)
        return [DirectFactor(nodes, self._rows[numbers]) for nodes, numbers in factors]

    def permutations(self, text: str | Pattern, structure: Structure | None = None) -> list[Tensor]:
        """Return how each generator moves the entries of a tensor: row k goes to `permutation[k]`.

        Raises:
            IncidenceError: A generator takes an entry of the structure to one that is absent.
        """
        if structure is not None and structure is not self.structure:
            if structure.counts != self.structure.counts or structure.num_structures != 1:
                raise IncidenceError(
                    f"the group permutes {self.num_nodes} nodes of one structure; got"
                    f" {structure!r}."
                )
            return self._on(structure).permutations(text)
        pattern = self.structure.resolve(text)
        if pattern not in self._moved:
            moved = [_moved(self.structure, pattern, self._by_sort(row)) for row in self._rows]
            for number, rows in enumerate(moved):
                if (bad := first_true(rows < 0)) is not None:
                    raise IncidenceError(
                        f"generator {number} does not keep the entries of `{pattern}`: it takes"
                        f" entry {bad} to one that is absent. A group of a structure maps every"
                        " entry to an entry."
                    )
            self._moved[pattern] = moved
        return self._moved[pattern]

    def orbits(self, text: str | Pattern, structure: Structure | None = None) -> Tensor:
        """Return the number of the orbit of every entry of a tensor; shape [entries].

        Orbits are numbered by their first entries.

        Args:
            text: The pattern or the name of the tensor.
            structure: Another structure over the same nodes; that of the group, if not given.

        Example:
            >>> path = Structure(3, {"{i j}": torch.tensor([[0, 1], [1, 2]])})
            >>> flip = Group(path, [[2, 1, 0]])
            >>> flip.orbits("i").tolist(), flip.orbits("{i j}").tolist()
            ([0, 1, 0], [0, 0])
        """
        moved, structure = self.permutations(text, structure), structure or self.structure
        return number_orbits(structure.num_entries(text), moved, structure.device)[0]

    def _by_sort(self, row: Array) -> dict[str, Tensor]:
        counts = self.structure.counts
        return {
            sort: torch.from_numpy(row[start : start + counts[sort]] - start)
            for sort, start in self.structure._node_offsets.items()
        }

    def _as_row(self, permutation: object, what: str) -> Array:
        """Return a permutation of all nodes, numbered through all sorts."""
        by_sort = as_labels(self.structure, permutation, what)
        offsets = self.structure._node_offsets
        return np.concatenate(
            [by_sort[sort].cpu().numpy() + start for sort, start in offsets.items()]
        )

    def __repr__(self) -> str:
        count = len(self._rows)
        generators = f"{count} generator{'s' * (count != 1)}"
        return f"Group(num_nodes={self.num_nodes}, {generators}, order={self.order})"


def _moved(structure: Structure, pattern: Pattern, permutation: dict[str, Tensor]) -> Tensor:
    """Return the row to which a permutation takes every entry; -1 if that entry is absent."""
    if not pattern.faces:
        return torch.zeros(1, dtype=torch.long, device=structure.device)
    if pattern not in structure.patterns:  # all nodes of a sort
        [sort] = pattern.sorts.values()
        return permutation[sort].to(structure.device)
    return structure.locate(pattern, structure.relabel(permutation)[pattern])


def direct_factors(generators: Array) -> list[tuple[Array, Array]]:
    """Split a group into a direct product.

    Generators that move common nodes, directly or through others, are in one factor.

    Args:
        generators: Permutations of the nodes, shape (number, nodes).

    Returns:
        For each factor the nodes that it moves, ascending, and the numbers of its generators.

    Example:
        >>> factors = direct_factors(np.array([[1, 0, 2, 3, 4], [0, 1, 2, 4, 3]]))
        >>> [(nodes.tolist(), numbers.tolist()) for nodes, numbers in factors]
        [([0, 1], [0]), ([3, 4], [1])]
    """
    num_nodes = generators.shape[1]
    numbers, nodes = np.nonzero(generators != np.arange(num_nodes))
    _, first, back = np.unique(numbers, return_index=True, return_inverse=True)
    anchors = nodes[first[back]]  # for every moved node, one node that its generator moves
    label = connect(torch.arange(num_nodes), torch.from_numpy(nodes), torch.from_numpy(anchors))
    home = label.numpy()[nodes]
    factors = []
    for one in np.unique(home):
        is_inside = home == one
        factors.append((np.unique(nodes[is_inside]), np.unique(numbers[is_inside])))
    return factors


class DirectFactor:
    """A group that moves some nodes, as a group of SymPy.

    Args:
        nodes: The nodes that it moves, ascending.
        generators: Permutations of all nodes, shape (number, all nodes).
    """

    def __init__(self, nodes: Array, generators: Array) -> None:
        from sympy.combinatorics import Permutation, PermutationGroup

        self.nodes, self._rows = nodes, np.searchsorted(nodes, generators[:, nodes])
        self._permutation = Permutation
        self._group = PermutationGroup([Permutation(row) for row in self._rows.tolist()])

    @property
    def order(self) -> int:
        """The number of elements."""
        if not self._has_all_even:
            return int(self._group.order())
        return factorial(len(self.nodes)) // (2 if self._is_even else 1)

    def __contains__(self, row: Array) -> bool:
        if not np.isin(row[self.nodes], self.nodes).all():
            return False
        permutation = self._permutation(np.searchsorted(self.nodes, row[self.nodes]).tolist())
        if not self._has_all_even:
            return bool(self._group.contains(permutation))
        return bool(permutation.is_even) or not self._is_even

    @cached_property
    def _is_even(self) -> bool:
        return all(g.is_even for g in self._group.generators)

    @cached_property
    def _has_all_even(self) -> bool:
        r"""Whether the group is proved to have all even permutations.

        SymPy takes minutes for the chain of stabilisers of such groups. By Jordan's theorem a
        transitive group has all even permutations if some element has a cycle of prime length p
        with n/2 < p < n - 2. SymPy tests this, too, but with many generators its random elements
        are products of too few.
        """
        from sympy import isprime

        n, random = len(self.nodes), Random(0)
        # Products of more and more generators, and products of these.
        step = element = np.arange(n)
        for _ in range(_TRIES if n > 7 and self._group.is_transitive() else 0):
            for k in random.sample(range(len(self._rows)), len(self._rows)):
                step = self._rows[k][step]
            element = step[element]
            images = element.tolist()
            p, v = 1, images[0]  # the length of the cycle of node 0
            while v:
                p, v = p + 1, images[v]
            if n < 2 * p and p < n - 2 and isprime(p):
                return True
        return False


def connect(label: Tensor, one: Tensor | slice, other: Tensor) -> Tensor:
    """Join pairs of things: the label of a thing is the smallest thing that it is joined to.

    Args:
        label: The labels so far, shape (things,).
        one: The first thing of every pair; a slice for all things.
        other: The second thing of every pair.

    Example:
        >>> connect(torch.arange(5), torch.tensor([0, 3]), torch.tensor([4, 4])).tolist()
        [0, 1, 2, 0, 0]
    """
    while not torch.equal(a := label[one], b := label[other]):
        differs = a != b
        low, high = torch.minimum(a, b)[differs], torch.maximum(a, b)[differs]
        # Every larger root goes to the smallest root that it must join; then paths to roots are
        # shortened.
        parent = torch.arange(len(label), device=label.device).scatter_reduce_(0, high, low, "amin")
        while not torch.equal(shorter := parent[parent], parent):
            parent = shorter
        label = parent[label]
    return label


def number_orbits(
    count: int, permutations: Iterable[Tensor], device: torch.device | None = None
) -> tuple[Tensor, Tensor]:
    """Number the orbits of things by their first members; memory is linear in the things.

    Args:
        count: The number of things.
        permutations: Thing k goes to `permutation[k]`.
        device: The device of the result.

    Returns:
        The number of the orbit of every thing, and the first member of every orbit.

    Example:
        >>> swaps = [torch.tensor([1, 0, 2, 3, 4]), torch.tensor([0, 2, 1, 3, 4])]
        >>> number, first = number_orbits(5, swaps)
        >>> number.tolist(), first.tolist()
        ([0, 0, 0, 1, 2], [0, 3, 4])
    """
    label = torch.arange(count, device=device)
    for permutation in permutations:
        label = connect(label, slice(None), permutation)
    first, number = torch.unique(label, return_inverse=True)
    return number, first
