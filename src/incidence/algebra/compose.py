r"""The product of two maps on the complete structure, with its exact constants.

In the orbit basis $O_B O_A = \sum_C n_C O_C$, where $n_C$ counts the middle entries y that have overlap A with x and B with z
when x and z overlap in C. With $t_{ijl} = |X_i \cap Y_j \cap Z_l|$ it is a sum over t of products of multinomials, a
polynomial in the number of nodes; sorts do not meet, so several sorts multiply. The product in the pool-broadcast basis follows
by the change of basis.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import factorial

from incidence.algebra.basis import block_matrices, change_coefficient
from incidence.algebra.maps import EquivariantMap, Operation, Place
from incidence.algebra.orbit import Class
from incidence.algebra.overlap import Matrix
from incidence.algebra.polynomial import Polynomial
from incidence.errors import IncidenceError

__all__ = ["Product"]


class Product:
    r"""The product of two maps: `first`, then `second`, on the complete structure.

    Indexing with the numbers of two operations gives their product as a combination of the operations of `map`, with
    coefficients that are polynomials in the numbers of nodes, valid at every number of nodes.

    Attributes:
        first, second: The two maps.
        map: The map from the inputs of the first to the outputs of the second.

    Example:
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
            raise IncidenceError(f"`{first}` followed by `{second}` has open faces: there is no complete structure to multiply on.")
        self.first, self.second = first, second
        self.map = EquivariantMap.between(first.inputs, second.outputs)
        self._sorts = tuple(dict.fromkeys(first.sorts + second.sorts)) or ("node",)

    def __getitem__(self, numbers: tuple[int, int]) -> dict[int, Polynomial]:
        """The product of two operations in the pool-broadcast basis; operations that do not meet give nothing."""
        a, b = self._operations(numbers)
        if a.target[:2] != b.source[:2]:
            return {}
        indicators = _sum_terms(
            (c, value * (_coefficient(a, in_a) * _coefficient(b, in_b)))
            for in_a, in_b in product(_above(a), _above(b))
            for c, value in self._indicators(a, b, in_a, in_b).items()
        )
        matrices = block_matrices(a.source.orbit.classes, b.target.orbit.classes)
        pooled = _sum_terms(
            (wider, value * change_coefficient(c, wider, is_signed=True))
            for c, value in indicators.items()
            for wider in matrices
            if change_coefficient(c, wider, is_signed=True)
        )
        return self._numbered(a, b, pooled)

    def of_indicators(self, a: int, b: int) -> dict[int, Polynomial]:
        """The product of two orbit indicators in the orbit basis: the structure constants $n_C$."""
        first, second = self._operations((a, b))
        if first.target[:2] != second.source[:2]:
            return {}
        return self._numbered(first, second, self._indicators(first, second, first.overlap, second.overlap))

    def _operations(self, numbers: tuple[int, int]) -> tuple[Operation, Operation]:
        return self.first.operations[numbers[0]], self.second.operations[numbers[1]]

    def _indicators(self, a: Operation, b: Operation, in_a: Matrix, in_b: Matrix) -> dict[Matrix, Polynomial]:
        x, y, z = a.source.orbit.classes, a.target.orbit.classes, b.target.orbit.classes
        return _indicator_product(self._sorts, x, y, z, in_a, in_b)

    def _numbered(self, a: Operation, b: Operation, terms: dict[Matrix, Polynomial]) -> dict[int, Polynomial]:
        def place(p: Place) -> tuple[int, int]:
            return p.tensor, p.number

        wanted = place(a.source), place(b.target)
        start = next(k.start for k in self.map.blocks if (place(k.source), place(k.target)) == wanted)
        matrices = block_matrices(a.source.orbit.classes, b.target.orbit.classes)
        return {start + k: terms[c] for k, c in enumerate(matrices) if c in terms}


def _above(operation: Operation) -> list[Matrix]:
    matrices = block_matrices(operation.source.orbit.classes, operation.target.orbit.classes)
    return [c for c in matrices if _coefficient(operation, c)]


def _coefficient(operation: Operation, c: Matrix) -> int:
    return change_coefficient(operation.overlap, c, is_signed=False)


def _sum_terms(terms: Iterable[tuple[Matrix, Polynomial]]) -> dict[Matrix, Polynomial]:
    total: dict[Matrix, Polynomial] = {}
    for key, value in terms:
        total[key] = total[key] + value if key in total else value
    return {key: value for key, value in total.items() if value}


@lru_cache(maxsize=65536)
def _indicator_product(
    sorts: tuple[str, ...], x: tuple[Class, ...], y: tuple[Class, ...], z: tuple[Class, ...], a: Matrix, b: Matrix
) -> dict[Matrix, Polynomial]:
    """The numbers of middle entries, for every overlap C of the outer ones."""
    shared = [list(_shared_by(j, y[j], x, z, a, b)) for j in range(len(y))]
    terms = ((c, _num_middle(sorts, x, y, z, a, b, c, t)) for t in product(*shared) for c in block_matrices(x, z) if _fits(c, t))
    return _sum_terms((c, n) for c, n in terms if n)


def _shared_by(j: int, middle: Class, x: Sequence[Class], z: Sequence[Class], a: Matrix, b: Matrix) -> Iterator[Matrix]:
    """The possible (t_ijl) for one middle class j: nodes of it that lie in x and in z."""
    from_x = tuple(Class(c.faces, c.sort, a[i][j]) for i, c in enumerate(x))
    from_z = tuple(Class(c.faces, c.sort, b[j][k]) for k, c in enumerate(z))
    for t in block_matrices(from_x, from_z):
        if _left(j, middle, a, b, t) >= 0:
            yield t


def _left(j: int, middle: Class, a: Matrix, b: Matrix, t: Matrix) -> int:
    """How many nodes of the middle class j lie neither in x nor in z."""
    return (middle.size or 0) - sum(row[j] for row in a) - sum(b[j]) + sum(map(sum, t))


def _fits(c: Matrix, t: Sequence[Matrix]) -> bool:
    return all(c[i][k] >= sum(s[i][k] for s in t) for i in range(len(c)) for k in range(len(c[i])))


def _num_middle(
    sorts: tuple[str, ...],
    x: tuple[Class, ...],
    y: tuple[Class, ...],
    z: tuple[Class, ...],
    a: Matrix,
    b: Matrix,
    c: Matrix,
    t: Sequence[Matrix],
) -> Polynomial:
    """The number of middle entries with given triple overlaps t."""
    ways = 1
    for i, k in product(range(len(x)), range(len(z))):
        ways *= _multinomial(c[i][k], [s[i][k] for s in t])
    for i, cx in enumerate(x):
        ways *= _multinomial((cx.size or 0) - sum(c[i]), [a[i][j] - sum(t[j][i]) for j in range(len(y))])
    for k, cz in enumerate(z):
        column = [row[k] for row in c]
        ways *= _multinomial((cz.size or 0) - sum(column), [b[j][k] - sum(row[k] for row in t[j]) for j in range(len(y))])
    result = Polynomial.constant(sorts, ways)
    if not ways:
        return result
    outside = {s: -sum(cl.size or 0 for cl in x + z if cl.sort == s) for s in sorts}
    for i, row in enumerate(c):
        outside[x[i].sort] += sum(row)
    for j, middle in enumerate(y):
        rest = _left(j, middle, a, b, t[j])
        result = result * Polynomial.binomial(sorts, middle.sort, outside[middle.sort], rest)
        outside[middle.sort] -= rest
    return result


def _multinomial(n: int, parts: Sequence[int]) -> int:
    """The number of ways to choose disjoint sets of the given sizes from n; the rest stays unchosen."""
    rest = n - sum(parts)
    if rest < 0 or min(parts, default=0) < 0:
        return 0
    ways = factorial(n) // factorial(rest)
    for part in parts:
        ways //= factorial(part)
    return ways
