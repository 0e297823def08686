r"""A group of permutations as a chain of stabilisers (Schreier and Sims): its order, and whether a permutation is in it.

A *base* is a list of points $b_1, b_2, \dots$ such that only the identity fixes them all. $G^{(i)}$ are the elements that fix the first
i of them, and $|G| = \prod_i |G^{(i)} b_{i+1}|$. The chain is filled with random elements, which finds all of it very quickly, and is
then proved complete: by a bound that it reaches, or by sifting every Schreier generator. Permutations are rows of an array: v goes
to `row[v]`.
"""

from __future__ import annotations

from math import factorial, log, prod

import numpy as np
import torch
from numpy.typing import NDArray

from incidence.errors import TooLargeError
from incidence.symmetry.orbits import orbit_labels

__all__ = ["Chain"]

Ints = NDArray[np.int64]

_MAX_WORK = 4_000_000_000  # numbers moved while a chain is proved complete: about a minute
_IN_A_ROW = 12  # random elements that change nothing, before the proof is tried


class _Level:
    """One base point with its orbit, kept as a tree: the generator that was last on the way to each point."""

    def __init__(self, point: int, degree: int) -> None:
        self.point = point
        self.label = np.full(degree, -1, dtype=np.int64)
        self.orbit = np.array([point], dtype=np.int64)
        self.label[point] = 0  # never walked: every walk ends here

    def grow(self, strong: Ints, numbers: Ints) -> None:
        """Finds the orbit under the given generators, breadth first, so that walks are short."""
        self.label[self.orbit] = -1
        self.label[self.point] = 0
        reached = [np.array([self.point], dtype=np.int64)]
        while len(reached[-1]) and len(numbers):
            images = strong[np.ix_(numbers, reached[-1])]
            points, first = np.unique(images, return_index=True)
            is_new = self.label[points] < 0
            points = points[is_new]
            self.label[points] = numbers[first[is_new] // images.shape[1]]
            reached.append(points)
        self.orbit = np.concatenate(reached)

    def is_kept_by(self, generator: Ints) -> bool:
        """Whether a generator leads to no new point."""
        return bool((self.label[generator[self.orbit]] >= 0).all())


class Chain:
    """The stabiliser chain of a group.

    Args:
        generators: The generators, shape (number, degree).
        log_order: The logarithm of the order, if it is known to six digits; then nothing is left to prove.

    Raises:
        TooLargeError: The proof that the chain is complete would take too long.
    """

    def __init__(self, generators: Ints, log_order: float | None = None) -> None:
        self.degree = generators.shape[1]
        self._goal = log_order if log_order is not None else log(_upper_bound(generators))
        self._levels: list[_Level] = []
        self._strong = self._inverse = np.zeros((0, self.degree), dtype=np.int64)
        self._depth = np.zeros(0, dtype=np.int64)  # how many base points each strong generator fixes
        for generator in generators:
            self._absorb(generator)
        random = _RandomElements(generators)
        self._fill(random)
        while not self._is_full() and (missing := self._missing()) is not None:
            self._absorb(missing)
            self._fill(random)

    @property
    def order(self) -> int:
        """The order of the group."""
        return prod(len(level.orbit) for level in self._levels)

    def contains(self, permutation: Ints) -> bool:
        """Whether a permutation is in the group."""
        return self._residue(permutation) is None

    def _is_full(self) -> bool:
        return abs(log(self.order) - self._goal) < 1e-6

    def _fill(self, random: _RandomElements) -> None:
        in_a_row = 0
        while in_a_row < _IN_A_ROW and not self._is_full():
            in_a_row = 0 if self._absorb(random.next()) else in_a_row + 1

    # ---- sifting

    def _sift(self, rows: Ints, start: int = 0) -> tuple[Ints, Ints]:
        """Divides permutations by elements of the chain, level by level: what is left, and the level at which each got stuck."""
        rows, stuck = rows.copy(), np.full(len(rows), len(self._levels))
        active = np.arange(len(rows))
        for depth in range(start, len(self._levels)):
            level = self._levels[depth]
            is_in = level.label[rows[active, level.point]] >= 0
            stuck[active[~is_in]] = depth
            active = away = active[is_in]
            while len(away := away[rows[away, level.point] != level.point]):
                back = self._inverse[level.label[rows[away, level.point]]]
                rows[away] = np.take_along_axis(back, rows[away], axis=1)
        return rows, stuck

    def _residue(self, permutation: Ints) -> tuple[Ints, int] | None:
        """What the chain does not account for, and where; None for an element of the group."""
        rows, stuck = self._sift(permutation[None])
        return None if (rows[0] == np.arange(self.degree)).all() else (rows[0], int(stuck[0]))

    def _absorb(self, permutation: Ints) -> bool:
        """Makes the chain account for an element of the group; says whether it did not before."""
        residue = self._residue(permutation)
        if residue is None:
            return False
        new, depth = residue
        if depth == len(self._levels):
            self._levels.append(_Level(int((new != np.arange(self.degree)).argmax()), self.degree))
        self._strong = np.concatenate([self._strong, new[None]])
        self._inverse = np.concatenate([self._inverse, np.argsort(new)[None]])
        self._depth = np.append(self._depth, depth)
        for i, level in enumerate(self._levels[: depth + 1]):
            if not level.is_kept_by(new):
                level.grow(self._strong, self._generators_at(i))
        return True

    def _generators_at(self, depth: int) -> Ints:
        return np.flatnonzero(self._depth >= depth)

    # ---- proof

    def _missing(self) -> Ints | None:
        """A Schreier generator that the chain does not account for; None if it is complete."""
        sizes = [len(level.orbit) * len(self._generators_at(i)) for i, level in enumerate(self._levels)]
        if (work := sum(size * (len(sizes) - i) for i, size in enumerate(sizes)) * self.degree) > _MAX_WORK:
            raise TooLargeError(
                f"the order of a group of degree {self.degree} with {len(self._levels)} base points would take about {work:,} steps to "
                f"prove; {_MAX_WORK:,} are done. Give the structure to `automorphisms` instead, which knows the order of what it finds."
            )
        for depth in reversed(range(len(self._levels))):
            cosets = self._cosets(self._levels[depth])
            for number in self._generators_at(depth):
                rows, _ = self._sift(self._strong[number][cosets], depth)
                wrong = np.flatnonzero((rows != np.arange(self.degree)).any(1))
                if len(wrong):
                    missing: Ints = self._strong[number][cosets[wrong[0]]]
                    return missing
        return None

    def _cosets(self, level: _Level) -> Ints:
        """For every point of an orbit an element of the chain that leads to it, shape (orbit, degree)."""
        rows = np.tile(np.arange(self.degree), (len(level.orbit), 1))
        at = level.orbit.copy()
        while len(away := np.flatnonzero(at != level.point)):
            label = level.label[at[away]]
            rows[away] = np.take_along_axis(rows[away], self._strong[label], axis=1)
            at[away] = self._inverse[label, at[away]]
        return rows


class _RandomElements:
    """Elements of a group that are nearly uniform: products in a pool that is stirred at every step."""

    def __init__(self, generators: Ints, size: int = 11) -> None:
        self._random = np.random.default_rng(0)
        degree = generators.shape[1]
        self._pool = list(generators[np.arange(max(size, len(generators))) % len(generators)]) if len(generators) else []
        self._last = np.arange(degree)
        for _ in range(4 * len(self._pool)):
            self.next()

    def next(self) -> Ints:
        """The next element."""
        if not self._pool:
            return self._last
        i, j = self._random.choice(len(self._pool), 2, replace=False)
        other = self._pool[j] if self._random.random() < 0.5 else np.argsort(self._pool[j])
        self._pool[i] = self._pool[i][other] if self._random.random() < 0.5 else other[self._pool[i]]
        self._last = self._last[self._pool[i]]
        return self._last


def _upper_bound(generators: Ints) -> int:
    """No group has more elements than all permutations of its orbits; half of them if every generator is even."""
    label = orbit_labels(generators.shape[1], lambda: map(torch.from_numpy, generators))
    sizes = torch.unique(label, return_counts=True)[1].tolist()
    bound = prod(map(factorial, sizes))
    return bound // 2 if bound > 1 and all(map(_is_even, generators)) else bound


def _is_even(permutation: Ints) -> bool:
    cycles = len(torch.unique(orbit_labels(len(permutation), lambda: [torch.from_numpy(permutation)])))
    return (len(permutation) - cycles) % 2 == 0
