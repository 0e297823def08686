r"""The product of two maps on the complete structure, with exact constants: polynomials in the number of nodes (docs/math.md section 13).

In the pool-broadcast basis $B_B B_A$ counts triples of a middle entry y and sets $V_{ij} \subseteq X_i \cap Y_j$,
$W_{jl} \subseteq Y_j \cap Z_l$ of sizes $a_{ij}$, $b_{jl}$. Given V and W, the number of y depends on
$s_{jj'} = |V_{\cdot j} \cap W_{j' \cdot}|$ alone: it is 0 unless $s_{jj'} = 0$ for $j \ne j'$, and else a multinomial in N. Written as
$\sum_k \prod \binom{s_{jj'}}{k_{jj'}} g(k)$, it becomes a sum over sets $K_{ijj'l} \subseteq V_{ij} \cap W_{j'l}$, which lie in
$X_i \cap Z_l$: so the coefficient of $B_C$ collects the arrays of sizes $\kappa_{ijj'l}$ with $\sum_{jj'} \kappa = C$. They are the
overlap matrices between the cells of A and the cells of B.

Sorts do not meet, so several sorts multiply. With oriented faces, operations are sums of operations without signs, and so are products
(`alternating.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import comb, factorial, prod
from typing import TYPE_CHECKING

from incidence.algebra.alternating import gather, split, spread
from incidence.algebra.orbit import Class
from incidence.algebra.overlap import Matrix, overlap_matrices
from incidence.algebra.polynomial import Polynomial
from incidence.errors import IncidenceError

if TYPE_CHECKING:
    from incidence.algebra.maps import EquivariantMap

__all__ = ["Product"]


class Product:
    r"""The product of two maps: `first`, then `second`, on the complete structure.

    Indexing with the numbers of two operations gives their product as a combination of the operations of `map`, with
    coefficients that are polynomials in the numbers of nodes, valid at every number of nodes.

    Attributes:
        first, second: The two maps.
        map: The map from the inputs of the first to the outputs of the second.

    Example:
        >>> from incidence.algebra import EquivariantMap
        >>> edges = EquivariantMap("{i j} -> {i j}")
        >>> edges.compose(edges)[1, 1]
        {0: <4>, 1: <N - 2>}
    """

    def __init__(self, first: EquivariantMap, second: EquivariantMap) -> None:
        if first.outputs != second.inputs:
            hint = "The outputs of the first must be the inputs of the second."
            if second.outputs == first.inputs:
                hint = "Swap them: `a.compose(b)` does a first."
            raise IncidenceError(f"`{first}` followed by `{second}` does not fit. {hint}")
        if first.is_open or second.is_open:
            raise IncidenceError(
                f"`{first}` followed by `{second}` has open faces: there is no complete structure to multiply on."
            )
        self.first, self.second = first, second
        self.map = first.between(first.inputs, second.outputs)
        self._sorts = tuple(dict.fromkeys(first.sorts + second.sorts))

    def __getitem__(self, numbers: tuple[int, int]) -> dict[int, Polynomial]:
        """The product of two operations in the pool-broadcast basis; operations that do not meet give nothing."""
        if not isinstance(numbers, tuple) or len(numbers) != 2:
            raise IncidenceError(
                f"a product is indexed by two numbers, of an operation of each map; got {numbers!r}."
            )
        a, b = self.first.operations[numbers[0]], self.second.operations[numbers[1]]
        if a.target[:2] != b.source[:2]:
            return {}
        x, y, z = a.source.orbit.classes, a.target.orbit.classes, b.target.orbit.classes
        terms = _product(self._sorts, x, y, z, a.overlap, b.overlap)
        start = next(
            k.start
            for k in self.map.pairs
            if (k.source[:2], k.target[:2]) == (a.source[:2], b.target[:2])
        )
        return {start + k: terms[c] for k, c in enumerate(overlap_matrices(x, z)) if c in terms}


def _product(
    sorts: tuple[str, ...],
    x: tuple[Class, ...],
    y: tuple[Class, ...],
    z: tuple[Class, ...],
    a: Matrix,
    b: Matrix,
) -> dict[Matrix, Polynomial]:
    """The coefficients of the product of two operations: of the products of all their summands."""
    zero = Polynomial.constant(sorts, 0)
    total: dict[Matrix, Polynomial] = {}
    for (one, sign), (other, its_sign) in product(spread(x, y, a), spread(y, z, b)):
        for matrix, value in _pool_product(sorts, split(x), split(y), split(z), one, other).items():
            c, ordered = gather(x, z, matrix)
            total[c] = total.get(c, zero) + value * (sign * its_sign * ordered)
    return {matrix: value for matrix, value in total.items() if value}


def _pool_product(
    sorts: tuple[str, ...],
    x: tuple[Class, ...],
    y: tuple[Class, ...],
    z: tuple[Class, ...],
    a: Matrix,
    b: Matrix,
) -> dict[Matrix, Polynomial]:
    """The coefficients of the product of two pool-broadcast operations: a sum over the sizes of the sets K."""
    from_a = [(i, j) for i in range(len(x)) for j in range(len(y)) if a[i][j]]
    from_b = [(j, k) for j in range(len(y)) for k in range(len(z)) if b[j][k]]
    rows = tuple(Class((), x[i].sort, a[i][j]) for i, j in from_a)
    cols = tuple(Class((), z[k].sort, b[j][k]) for j, k in from_b)
    total: dict[Matrix, Polynomial] = {}
    for sizes in overlap_matrices(rows, cols):
        # The overlap matrix C that the sizes of the sets K add up to, and their number with the number of middle entries.
        c = [[0] * len(z) for _ in x]
        kept, ways = [0] * len(y), 1
        parts: dict[tuple[int, int], list[int]] = {}
        for (row, (i, j)), (col, (other, k)) in product(enumerate(from_a), enumerate(from_b)):
            size = sizes[row][col]
            c[i][k] += size
            parts.setdefault((i, k), []).append(size)
            if j == other:
                kept[j] += size
            elif size % 2:
                ways = -ways
        for (i, k), pieces in parts.items():
            ways *= _multinomial(c[i][k], pieces)
        for i, cx in enumerate(x):
            left = [a[i][j] - sum(sizes[row]) for row, (p, j) in enumerate(from_a) if p == i]
            ways *= _multinomial((cx.size or 0) - sum(c[i]), left)
        for k, cz in enumerate(z):
            left = [
                b[j][k] - sum(line[col] for line in sizes)
                for col, (j, q) in enumerate(from_b)
                if q == k
            ]
            ways *= _multinomial((cz.size or 0) - sum(line[k] for line in c), left)
        if ways:
            matrix, term = tuple(map(tuple, c)), _middle_entries(sorts, y, a, b, kept) * ways
            total[matrix] = total[matrix] + term if matrix in total else term
    return {matrix: value for matrix, value in total.items() if value}


def _middle_entries(
    sorts: tuple[str, ...], y: tuple[Class, ...], a: Matrix, b: Matrix, kept: list[int]
) -> Polynomial:
    r"""g(k) for $k_{jj}$ = `kept`: signed multinomials in the numbers of nodes."""
    taken = [sum(row[j] for row in a) + sum(b[j]) for j in range(len(y))]
    total = Polynomial.constant(sorts, 0)
    for t in product(*(range(n + 1) for n in kept)):
        sign = prod((-1 if u % 2 else 1) * comb(n, u) for n, u in zip(kept, t, strict=True))
        left = [(c.size or 0) - m + n - u for c, m, n, u in zip(y, taken, kept, t, strict=True)]
        if min(left, default=0) < 0:
            continue
        free = {
            s: sum(n - u - m for c, m, n, u in zip(y, taken, kept, t, strict=True) if c.sort == s)
            for s in sorts
        }
        term = Polynomial.constant(sorts, sign)
        for c, n in zip(y, left, strict=True):
            term = term * Polynomial.binomial(sorts, c.sort, free[c.sort], n)
            free[c.sort] -= n
        total = total + term
    return total


def _multinomial(n: int, parts: Sequence[int]) -> int:
    """The number of ways to choose disjoint sets of the given sizes from n; the rest stays unchosen."""
    rest = n - sum(parts)
    if rest < 0 or min(parts, default=0) < 0:
        return 0
    ways = factorial(n) // factorial(rest)
    for part in parts:
        ways //= factorial(part)
    return ways
