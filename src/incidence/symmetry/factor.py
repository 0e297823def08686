r"""The direct factors of a group of permutations: SymPy knows the order of each, and whether a permutation is in it."""

from __future__ import annotations

from functools import cached_property
from math import factorial
from random import Random

import numpy as np
import torch

from incidence.structure.data import Array
from incidence.symmetry.orbits import connect

__all__ = ["Factor", "direct_factors"]

_TRIES = 200  # elements that are looked at: of all permutations of 50 nodes one in nine shows what is looked for, of 1,000 one in 14


def direct_factors(generators: Array) -> list[tuple[Array, Array]]:
    """A group as a direct product: the nodes that each factor moves, ascending, and the numbers of its generators.

    Generators that move common nodes, directly or by others, are in one factor.

    Example:
        >>> [(nodes.tolist(), numbers.tolist()) for nodes, numbers in direct_factors(np.array([[1, 0, 2, 3, 4], [0, 1, 2, 4, 3]]))]
        [([0, 1], [0]), ([3, 4], [1])]
    """
    numbers, nodes = np.nonzero(generators != np.arange(generators.shape[1]))
    _, first, back = np.unique(numbers, return_index=True, return_inverse=True)
    anchors = nodes[first[back]]  # one node for each generator
    home = connect(
        torch.arange(generators.shape[1]), torch.from_numpy(nodes), torch.from_numpy(anchors)
    ).numpy()[nodes]
    return [(np.unique(nodes[home == h]), np.unique(numbers[home == h])) for h in np.unique(home)]


class Factor:
    """A group that moves some nodes, as one of SymPy's.

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
        return (
            factorial(len(self.nodes)) // (2 if self._is_even else 1)
            if self._has_all_even
            else int(self._group.order())
        )

    def __contains__(self, row: Array) -> bool:
        if not np.isin(row[self.nodes], self.nodes).all():
            return False
        permutation = self._permutation(np.searchsorted(self.nodes, row[self.nodes]).tolist())
        return (
            bool(permutation.is_even) or not self._is_even
            if self._has_all_even
            else bool(self._group.contains(permutation))
        )

    @cached_property
    def _is_even(self) -> bool:
        return all(g.is_even for g in self._group.generators)

    @cached_property
    def _has_all_even(self) -> bool:
        r"""Whether the group is found to have all even permutations: the chain of stabilisers for these takes SymPy minutes.

        By Jordan's theorem a transitive group has, if some element has a cycle of prime length p with n/2 < p < n - 2. SymPy looks for
        one too, but its random elements are products of too few where there are many generators.
        """
        from sympy import isprime

        n, random = len(self.nodes), Random(0)
        step = element = np.arange(n)  # products of more and more generators, and products of these
        for _ in range(_TRIES if n > 7 and self._group.is_transitive() else 0):
            for k in random.sample(range(len(self._rows)), len(self._rows)):
                step = self._rows[k][step]
            element = step[element]
            images = element.tolist()
            p, v = 1, images[0]
            while v:
                p, v = p + 1, images[v]
            if n < 2 * p and p < n - 2 and isprime(p):
                return True
        return False
