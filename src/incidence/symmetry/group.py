r"""`Group`: permutations of the nodes of a structure, given by generators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from math import factorial, log, prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.edit import rename
from incidence.structure.structure import Structure
from incidence.structure.validate import as_num_nodes, as_rows
from incidence.symmetry.chain import Chain
from incidence.symmetry.orbits import connect, number_orbits, orbit_labels

__all__ = ["Group"]

Ints = NDArray[np.int64]


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

    def __init__(self, nodes: Structure | int | Mapping[str, int], generators: Iterable[Any] = ()) -> None:
        structure = nodes if isinstance(nodes, Structure) else Structure(as_num_nodes(nodes, []))
        self._set(structure, np.zeros((0, structure.total_nodes), dtype=np.int64))
        rows = [self._as_row(g, f"generator {number}") for number, g in enumerate(generators)]
        self._rows: Ints = np.array(rows, dtype=np.int64).reshape(len(rows), structure.total_nodes)
        for pattern in structure.patterns:
            self.permutations(pattern)  # refuses generators that do not keep the entries

    def _set(self, structure: Structure, rows: Ints, log_order: float | None = None) -> None:
        if structure.num_structures != 1:
            raise IncidenceError(f"a group permutes the nodes of one structure; got a batch of {structure.num_structures}.")
        self.structure, self._log_order = structure, log_order
        self._rows = rows
        self._moved_rows: dict[Pattern, list[Tensor]] = {}

    @classmethod
    def _of(cls, structure: Structure, rows: Ints, order: int | None, log_order: float | None) -> Group:
        """A group from generators that are known to keep a structure, and what is known of its order."""
        self = cls.__new__(cls)
        self._set(structure, rows, log(order) if order is not None else log_order)
        if order is not None:
            self.__dict__["order"] = order
        return self

    @classmethod
    def symmetric(cls, nodes: Structure | int | Mapping[str, int]) -> Group:
        """All permutations of the nodes that keep their sorts.

        Example:
            >>> Group.symmetric({"user": 3, "movie": 2}).order
            12
        """
        counts = nodes.counts if isinstance(nodes, Structure) else as_num_nodes(nodes, [])
        turns = [{sort: [*range(1, n), 0]} for sort, n in counts.items() if n > 2]
        swaps = [{sort: [1, 0, *range(2, n)]} for sort, n in counts.items() if n > 1]
        return cls(nodes, [*turns, *swaps])

    # ---- what it is

    @property
    def num_nodes(self) -> int | dict[str, int]:
        """The number of nodes; with several sorts, for each sort."""
        return self.structure.num_nodes

    @property
    def generators(self) -> tuple[Any, ...]:
        """The generators as tensors; with several sorts, as dicts from sort to tensor."""
        return tuple(self._as_given(torch.from_numpy(row)) for row in self._rows)

    @cached_property
    def order(self) -> int:
        """The number of elements, exactly."""
        return prod(chain.order for _, chain in self._factors)

    @property
    def is_symmetric(self) -> bool:
        """Whether these are all permutations of the nodes that keep their sorts."""
        return self.order == prod(map(factorial, self.structure.counts.values()))

    def __contains__(self, permutation: object) -> bool:
        row = self._as_row(permutation, "the permutation")
        moved = np.flatnonzero(row != np.arange(len(row)))
        covered = 0
        for support, chain in self._factors:
            images = np.searchsorted(support, row[support])
            if not np.array_equal(support[images.clip(max=len(support) - 1)], row[support]) or not chain.contains(images):
                return False
            covered += int(np.isin(moved, support).sum())
        return covered == len(moved)

    @cached_property
    def _factors(self) -> list[tuple[Ints, Chain]]:
        """The group as a direct product: generators that move common nodes, directly or by others, are in one factor."""
        found = self._supports()
        known = self._log_order if len(found) == 1 else None
        return [(support, Chain(np.searchsorted(support, self._rows[np.ix_(numbers, support)]), known)) for support, numbers in found]

    def _supports(self) -> list[tuple[Ints, Ints]]:
        """For every factor the nodes it moves, ascending, and the numbers of its generators."""
        numbers, nodes = np.nonzero(self._rows != np.arange(self._rows.shape[1]))
        _, first, back = np.unique(numbers, return_index=True, return_inverse=True)
        anchors = nodes[first[back]]  # one node for each generator
        label = connect(torch.arange(self._rows.shape[1]), torch.from_numpy(nodes), torch.from_numpy(anchors)).numpy()
        home = label[nodes]
        return [(np.unique(nodes[home == h]), np.unique(numbers[home == h])) for h in np.unique(home)]

    # ---- what it does

    def permutations(self, text: str | Pattern, structure: Structure | None = None) -> list[Tensor]:
        """How each generator moves the entries of a tensor: row k goes to row `permutation[k]`.

        Raises:
            IncidenceError: A generator takes an entry of the structure to one that is absent.
        """
        structure = self._on(structure)
        pattern = structure.resolve(text)
        if structure is not self.structure:
            return self._move_rows(pattern, structure)
        if pattern not in self._moved_rows:
            self._moved_rows[pattern] = self._move_rows(pattern, structure)
        return self._moved_rows[pattern]

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
        moved = self.permutations(text, structure)
        label = orbit_labels(self._on(structure).num_entries(text), lambda: moved, self._on(structure).device)
        return number_orbits(label)[0]

    def _on(self, structure: Structure | None) -> Structure:
        if structure is None:
            return self.structure
        if structure.counts != self.structure.counts or structure.num_structures != 1:
            raise IncidenceError(f"the group permutes {self.num_nodes} nodes of one structure; got {structure!r}.")
        return structure

    def _move_rows(self, pattern: Pattern, structure: Structure) -> list[Tensor]:
        kept = next((p for p in structure.patterns if p == pattern), pattern)
        if not kept.faces:
            return [torch.zeros(1, dtype=torch.long, device=structure.device) for _ in self._rows]
        parts, found = structure._stored(kept), []
        for number, generator in enumerate(self._rows):
            maps = {sort: part.to(structure.device) for sort, part in self._by_sort(torch.from_numpy(generator)).items()}
            moved = rename(kept, parts, maps)
            rows = structure.locate(kept, moved if kept.is_open else moved[0])
            if bool((rows < 0).any()):
                lost = int((rows < 0).nonzero()[0])
                raise IncidenceError(
                    f"generator {number} does not keep the entries of `{kept}`: it takes entry {lost} to one that is absent. "
                    f"A group of a structure maps every entry to an entry."
                )
            found.append(rows)
        return found

    # ---- permutations in and out

    def _by_sort(self, row: Tensor) -> dict[str, Tensor]:
        offsets, counts = self.structure.node_offsets, self.structure.counts
        return {sort: row[offsets[sort] : offsets[sort] + counts[sort]] - offsets[sort] for sort in counts}

    def _as_given(self, row: Tensor) -> Any:
        return row if isinstance(self.num_nodes, int) else self._by_sort(row)

    def _as_row(self, permutation: object, what: str) -> Ints:
        given = permutation if isinstance(permutation, Mapping) else {"node": permutation}
        offsets, counts = self.structure.node_offsets, self.structure.counts
        unknown = [sort for sort in given if sort not in counts]
        if unknown:
            raise IncidenceError(f"{what}: no nodes of sort `{unknown[0]}`; there are: {', '.join(counts)}. Give a mapping from sort.")
        row = np.arange(self.structure.total_nodes)
        for sort, part in given.items():
            new = as_rows(part, torch.device("cpu"))
            if new.is_floating_point() or new.dtype == torch.bool or not torch.equal(new.sort()[0].long(), torch.arange(counts[sort])):
                raise IncidenceError(f"{what} must be a permutation of the {counts[sort]} nodes of sort `{sort}`, each once; got {part!r}.")
            row[offsets[sort] : offsets[sort] + counts[sort]] = new.numpy() + offsets[sort]
        return row

    def __repr__(self) -> str:
        return f"Group(num_nodes={self.num_nodes}, {len(self._rows)} generator{'s' * (len(self._rows) != 1)}, order={self.order})"
