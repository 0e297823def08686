r"""`Group`: permutations of the nodes of a structure, given by generators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from functools import cached_property
from math import factorial, prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.data import Array
from incidence.structure.edit import as_labels
from incidence.structure.structure import Structure
from incidence.structure.validate import first_true
from incidence.symmetry.factor import Factor, direct_factors
from incidence.symmetry.orbits import number_orbits

__all__ = ["Group"]


class Group:
    r"""A group of permutations of nodes, with sorts if there are several; its elements are never listed.

    Args:
        nodes: The structure whose nodes are permuted, or the number of nodes; with several sorts, a mapping from sort to number.
        generators: Permutations: node v goes to `permutation[v]`. With sorts, mappings from sort to permutation; a sort that is left
            out stays as it is.

    Raises:
        IncidenceError: A generator is no permutation of the nodes, or does not keep the entries of the structure.

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
                f"a group permutes the nodes of one structure; got a batch of {self.structure.num_structures}."
            )
        rows = [self._as_row(g, f"generator {number}") for number, g in enumerate(generators)]
        self._rows: Array = np.array(rows, dtype=np.int64).reshape(
            len(rows), sum(self.structure.counts.values())
        )
        self._kept: Structure | None = (
            None  # where these are *all* permutations that keep a structure: that structure
        )
        self._moved: dict[Pattern, list[Tensor]] = {}
        for pattern in self.structure.patterns if rows else ():
            self.permutations(pattern)  # refuses generators that do not keep the entries

    @classmethod
    def _of_all(cls, structure: Structure, rows: Array, order: int) -> Group:
        """All automorphisms of a structure, from generators that are known to be right."""
        group = cls(structure)
        group._rows, group._kept, group.order = rows, structure, order
        return group

    def _on(self, structure: Structure) -> Group:
        """The same permutations on the nodes of another structure, some tensors of which they may not keep."""
        group = copy(self)
        group.structure, group._moved = structure, {}
        return group

    @classmethod
    def symmetric(cls, nodes: Structure | int | Mapping[str, int]) -> Group:
        """All permutations of the nodes that keep their sorts.

        Example:
            >>> Group.symmetric({"user": 3, "movie": 2}).order
            12
        """
        counts = cls(nodes).structure.counts
        turns = [{sort: [*range(1, n), 0]} for sort, n in counts.items() if n > 2]
        swaps = [{sort: [1, 0, *range(2, n)]} for sort, n in counts.items() if n > 1]
        group = cls(nodes, [*turns, *swaps])
        group._kept, group.order = Structure(counts), prod(map(factorial, counts.values()))
        return group

    @property
    def num_nodes(self) -> int | dict[str, int]:
        """The number of nodes; with several sorts, for each sort."""
        return self.structure.num_nodes

    @property
    def generators(self) -> tuple[Any, ...]:
        """The generators as tensors; with several sorts, as dicts from sort to tensor."""
        by_sort = map(self._by_sort, self._rows)
        return tuple(
            parts["node"] if isinstance(self.num_nodes, int) else parts for parts in by_sort
        )

    @cached_property
    def order(self) -> int:
        """The number of elements, exactly."""
        return prod(factor.order for factor in self._factors)

    def __contains__(self, permutation: object) -> bool:
        row = self._as_row(permutation, "the permutation")
        if self._kept is not None:
            moved = self._by_sort(row)
            return all(
                bool((_moved_entries(self._kept, p, moved) >= 0).all()) for p in self._kept.patterns
            )
        is_still = row == np.arange(len(row))
        is_still[[v for factor in self._factors for v in factor.nodes]] = True
        return bool(is_still.all()) and all(row in factor for factor in self._factors)

    @cached_property
    def _factors(self) -> list[Factor]:
        return [Factor(nodes, self._rows[numbers]) for nodes, numbers in direct_factors(self._rows)]

    def permutations(self, text: str | Pattern, structure: Structure | None = None) -> list[Tensor]:
        """How each generator moves the entries of a tensor: row k goes to row `permutation[k]`.

        Raises:
            IncidenceError: A generator takes an entry of the structure to one that is absent.
        """
        if structure is not None and structure is not self.structure:
            if structure.counts != self.structure.counts or structure.num_structures != 1:
                raise IncidenceError(
                    f"the group permutes {self.num_nodes} nodes of one structure; got {structure!r}."
                )
            return self._on(structure).permutations(text)
        pattern = self.structure.resolve(text)
        if pattern not in self._moved:
            moved = [
                _moved_entries(self.structure, pattern, self._by_sort(row)) for row in self._rows
            ]
            for number, rows in enumerate(moved):
                if (bad := first_true(rows < 0)) is not None:
                    raise IncidenceError(
                        f"generator {number} does not keep the entries of `{pattern}`: it takes entry {bad} to one that is absent. "
                        f"A group of a structure maps every entry to an entry."
                    )
            self._moved[pattern] = moved
        return self._moved[pattern]

    def orbits(self, text: str | Pattern, structure: Structure | None = None) -> Tensor:
        """The number of the orbit of every entry of a tensor, in order of first entries; shape [entries].

        Args:
            text: The pattern or the name of the tensor.
            structure: Another structure over the same nodes; the group's own if not given.

        Example:
            >>> path = Structure(3, {"{i j}": torch.tensor([[0, 1], [1, 2]])})
            >>> flip = Group(path, [[2, 1, 0]])
            >>> flip.orbits("i").tolist(), flip.orbits("{i j}").tolist()
            ([0, 1, 0], [0, 0])
        """
        moved, structure = self.permutations(text, structure), structure or self.structure
        return number_orbits(structure.num_entries(text), moved, structure.device)[0]

    def _by_sort(self, row: Array) -> dict[str, Tensor]:
        offsets, counts = self.structure._node_offsets, self.structure.counts
        return {
            sort: torch.from_numpy(row[start : start + counts[sort]] - start)
            for sort, start in offsets.items()
        }

    def _as_row(self, permutation: object, what: str) -> Array:
        """A permutation of all nodes, which are numbered through."""
        by_sort = as_labels(self.structure, permutation, what)
        return np.concatenate(
            [
                by_sort[sort].cpu().numpy() + start
                for sort, start in self.structure._node_offsets.items()
            ]
        )

    def __repr__(self) -> str:
        return f"Group(num_nodes={self.num_nodes}, {len(self._rows)} generator{'s' * (len(self._rows) != 1)}, order={self.order})"


def _moved_entries(
    structure: Structure, pattern: Pattern, permutation: dict[str, Tensor]
) -> Tensor:
    """The row of what a permutation makes of every entry of a tensor; -1 where that is absent."""
    if not pattern.faces:
        return torch.zeros(1, dtype=torch.long, device=structure.device)
    if pattern not in structure.patterns:  # all nodes of a sort
        return permutation[next(iter(pattern.sorts.values()))].to(structure.device)
    return structure.locate(pattern, structure.relabel(permutation)[pattern])
