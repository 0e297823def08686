r"""Two bases of the equivariant maps, and products of maps on the complete structure (docs/math.md
section 5, docs/math.md section 13).

The *orbit basis* $O_A$ is 1 where the overlap is exactly A and 0 elsewhere. The *pool-broadcast
basis* $B_A$, which layers use, counts the ways of finding A in the overlap. For overlap matrices C
of the same two orbits,

$$B_A = \sum_C \prod_{ij} \binom{c_{ij}}{a_{ij}} O_C,$$

$$O_A = \sum_C (-1)^{|C|-|A|} \prod_{ij} \binom{c_{ij}}{a_{ij}} B_C.$$

Only C >= A entrywise contribute, with 1 at C = A: the change of basis is unitriangular, at every
number of nodes. With oriented faces every term has the sign s(C, A) of section 16.

The product $B_B B_A$ counts triples of a middle entry y and sets $V_{ij} \subseteq X_i \cap Y_j$,
$W_{jl} \subseteq Y_j \cap Z_l$ of sizes $a_{ij}$, $b_{jl}$. Given V and W, the number of y depends
on $s_{jj'} = |V_{\cdot j} \cap W_{j' \cdot}|$ alone: it is 0 unless $s_{jj'} = 0$ for $j \ne j'$,
and else a multinomial in N. Written as $\sum_k \prod \binom{s_{jj'}}{k_{jj'}} g(k)$, it becomes a
sum over sets $K_{ijj'l} \subseteq V_{ij} \cap W_{j'l}$, which lie in $X_i \cap Z_l$. So the
coefficient of $B_C$ collects the arrays of sizes $\kappa_{ijj'l}$ with $\sum_{jj'} \kappa = C$.
They are the overlap matrices between the cells of A and the cells of B.

Different sorts never share nodes, so their factors multiply. With oriented faces, operations are
sums of operations without signs (`signs.py`), and so are products.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, product
from math import comb, factorial, prod
from types import MappingProxyType

from incidence.algebra.maps import EquivariantMap, Operation, as_map
from incidence.algebra.orbit import Class
from incidence.algebra.overlap import Matrix, overlap_matrices
from incidence.algebra.signs import gather, split, spread
from incidence.errors import IncidenceError

__all__ = ["Composition", "Polynomial", "Product", "orbit_to_pool", "pool_to_orbit"]


def pool_to_orbit(equivariant_map: EquivariantMap | str, operation: int) -> dict[int, int]:
    """Return a pool-broadcast operation in the orbit basis: from numbers of operations to integers.

    Example:
        >>> pool_to_orbit("{i j} -> {i j}", 1)  # |x ∩ y| = 1 counts once, |x ∩ y| = 2 twice
        {1: 1, 2: 2}
    """
    return _change_basis(as_map(equivariant_map), operation, is_inverse=False)


def orbit_to_pool(equivariant_map: EquivariantMap | str, operation: int) -> dict[int, int]:
    """Return an orbit indicator in the pool-broadcast basis: from numbers to integers.

    Example:
        >>> orbit_to_pool("{i j} -> {i j}", 1)
        {1: 1, 2: -2}
    """
    return _change_basis(as_map(equivariant_map), operation, is_inverse=True)


def _change_basis(m: EquivariantMap, number: int, is_inverse: bool) -> dict[int, int]:
    number = range(m.dimension)[number]
    operation = m.operations[number]
    source, target = operation.source.orbit, operation.target.orbit
    if source.is_open or target.is_open:
        raise IncidenceError(
            f"operation {number} of `{m}` has an open class: its orbit basis is infinite."
        )
    # Only C >= A has ways; the order of the listing is that of the operations.
    a = operation.overlap
    terms = {}
    for k, c in _numbered_matrices(m, operation, operation):
        grown = chain(*c)
        ways = prod(comb(y, x) for x, y in zip(chain(*a), grown, strict=True))
        sign = _growth_sign(source.classes, target.classes, a, c)
        if is_inverse and (_total(c) - _total(a)) % 2:
            sign = -sign
        if ways:
            terms[k] = sign * ways
    return terms


def _numbered_matrices(
    m: EquivariantMap, first: Operation, last: Operation
) -> Iterator[tuple[int, Matrix]]:
    """Yield the operations of a map from the source of one operation to the target of another."""
    ends = first.source[:2], last.target[:2]
    pair = next(p for p in m.pairs if (p.source[:2], p.target[:2]) == ends)
    classes = first.source.orbit.classes, last.target.orbit.classes
    yield from enumerate(overlap_matrices(*classes), pair.start)


def _total(a: Matrix) -> int:
    return sum(map(sum, a))


def _growth_sign(source: Sequence[Class], target: Sequence[Class], a: Matrix, c: Matrix) -> int:
    """Return s(C, A): each newly matched node moves from the front of its odd classes to the end of
    its cell.
    """
    moves = 0
    for i, j in product(range(len(source)), range(len(target))):
        if c[i][j] == a[i][j] + 1:
            moves += source[i].is_odd * sum(a[i][:j])
            moves += target[j].is_odd * sum(row[j] for row in a[:i])
    return -1 if moves % 2 else 1


@dataclass(frozen=True)
class Polynomial:
    """A polynomial with exact coefficients in the numbers of nodes, one variable for each sort.

    Attributes:
        sorts: The names of the variables; a single one is written `N`.
        coefficients: From exponents, one for each sort, to coefficients other than zero.

    Example:
        >>> p = Polynomial.binomial(("node",), "node", shift=-1, k=2)  # C(N - 1, 2)
        >>> print(p, p(5), sep="; ")
        1/2 N^2 - 3/2 N + 1; 6
    """

    sorts: tuple[str, ...]
    coefficients: Mapping[tuple[int, ...], Fraction]

    @classmethod
    def constant(cls, sorts: tuple[str, ...], value: int | Fraction) -> Polynomial:
        """Return a constant polynomial."""
        return cls._clean(sorts, {(0,) * len(sorts): Fraction(value)})

    @classmethod
    def binomial(cls, sorts: tuple[str, ...], sort: str, shift: int, k: int) -> Polynomial:
        r"""Return $\binom{N_s + \mathrm{shift}}{k}$, with the number $N_s$ of nodes of one sort."""
        variable, one = tuple(int(s == sort) for s in sorts), (0,) * len(sorts)
        result = cls.constant(sorts, Fraction(1, factorial(k)))
        for i in range(k):
            # N + shift - i, one factor of the falling factorial.
            factor = {variable: Fraction(1), one: Fraction(shift - i)}
            result = result * cls._clean(sorts, factor)
        return result

    @classmethod
    def _clean(
        cls, sorts: tuple[str, ...], coefficients: Mapping[tuple[int, ...], Fraction]
    ) -> Polynomial:
        listed = sorted(coefficients.items(), reverse=True)
        return cls(sorts, MappingProxyType({e: c for e, c in listed if c}))

    def __bool__(self) -> bool:
        return bool(self.coefficients)

    def __hash__(self) -> int:
        return hash((self.sorts, tuple(self.coefficients.items())))

    def __add__(self, other: Polynomial) -> Polynomial:
        total = dict(self.coefficients)
        for exponents, c in other.coefficients.items():
            total[exponents] = total.get(exponents, Fraction(0)) + c
        return self._clean(self.sorts, total)

    def __mul__(self, other: Polynomial | int) -> Polynomial:
        if isinstance(other, int):
            other = self.constant(self.sorts, other)
        total: dict[tuple[int, ...], Fraction] = {}
        for (e, c), (f, d) in product(self.coefficients.items(), other.coefficients.items()):
            exponents = tuple(x + y for x, y in zip(e, f, strict=True))
            total[exponents] = total.get(exponents, Fraction(0)) + c * d
        return self._clean(self.sorts, total)

    def __call__(self, num_nodes: int | Mapping[str, int]) -> int | Fraction:
        """Return the value at a number of nodes, given for every sort at once or for each."""
        counts = dict.fromkeys(self.sorts, num_nodes) if isinstance(num_nodes, int) else num_nodes
        missing = [sort for sort in self.sorts if sort not in counts]
        if missing:
            raise IncidenceError(
                f"`{self}` needs a number of nodes for the sort `{missing[0]}`: give one for each"
                " sort."
            )
        values = [counts[sort] for sort in self.sorts]
        terms = (c * prod(map(pow, values, e)) for e, c in self.coefficients.items())
        total = sum(terms, Fraction(0))
        return total.numerator if total.denominator == 1 else total

    def __str__(self) -> str:
        names = ["N"] if len(self.sorts) == 1 else [f"N_{sort}" for sort in self.sorts]
        text = ""
        for exponents, c in self.coefficients.items():
            factors = [
                name if e == 1 else f"{name}^{e}"
                for name, e in zip(names, exponents, strict=True)
                if e
            ]
            # A coefficient of 1 is written only if it stands alone.
            if abs(c) != 1 or not factors:
                factors.insert(0, str(abs(c)))
            minus, plus = (" - ", " + ") if text else ("-", "")
            text += (minus if c < 0 else plus) + " ".join(factors)
        return text or "0"

    def __repr__(self) -> str:
        return f"<{self}>"


class Composition:
    r"""The product of two maps, `first` and then `second`, on the complete structure.

    Index it with the numbers of two operations to get their product as a combination of the
    operations of `map`. The coefficients are polynomials in the numbers of nodes, and are right for
    every number of nodes.

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
            raise IncidenceError(
                f"`{first}` followed by `{second}` has open faces: there is no complete structure"
                " to multiply on."
            )
        self.first, self.second = first, second
        self.map = first.between(first.inputs, second.outputs)
        self._sorts = tuple(dict.fromkeys(first.sorts + second.sorts))

    def __getitem__(self, numbers: tuple[int, int]) -> dict[int, Polynomial]:
        """Return the product of two operations; it is empty if they do not share an orbit."""
        if not isinstance(numbers, tuple) or len(numbers) != 2:
            raise IncidenceError(
                "a product is indexed by two numbers, of an operation of each map; got"
                f" {numbers!r}."
            )
        a, b = self.first.operations[numbers[0]], self.second.operations[numbers[1]]
        # Operations through different middle orbits do not meet.
        if a.target[:2] != b.source[:2]:
            return {}
        x, y, z = a.source.orbit.classes, a.target.orbit.classes, b.target.orbit.classes
        terms = _multiply(self._sorts, x, y, z, a.overlap, b.overlap)
        return {k: terms[c] for k, c in _numbered_matrices(self.map, a, b) if c in terms}


Classes = tuple[Class, ...]
Terms = dict[Matrix, Polynomial]


def _multiply(
    sorts: tuple[str, ...], x: Classes, y: Classes, z: Classes, a: Matrix, b: Matrix
) -> Terms:
    """Return the product of two operations, which is the sum of the products of their summands."""
    total: Terms = {}
    split_classes = split(x), split(y), split(z)
    for (one, sign), (other, its_sign) in product(spread(x, y, a), spread(y, z, b)):
        for matrix, value in _multiply_unsigned(sorts, *split_classes, one, other).items():
            c, ordered = gather(x, z, matrix)
            _add(total, c, value * (sign * its_sign * ordered))
    return {matrix: value for matrix, value in total.items() if value}


def _add(total: Terms, matrix: Matrix, value: Polynomial) -> None:
    total[matrix] = total[matrix] + value if matrix in total else value


def _multiply_unsigned(
    sorts: tuple[str, ...], x: Classes, y: Classes, z: Classes, a: Matrix, b: Matrix
) -> Terms:
    """Return the product of two operations without signs: a sum over the sizes of the sets K."""
    from_a = [(i, j) for i in range(len(x)) for j in range(len(y)) if a[i][j]]
    from_b = [(j, k) for j in range(len(y)) for k in range(len(z)) if b[j][k]]
    # The cells of A and B, as classes whose overlap matrices are the sizes of the sets K.
    rows = tuple(Class((), x[i].sort, a[i][j]) for i, j in from_a)
    cols = tuple(Class((), z[k].sort, b[j][k]) for j, k in from_b)
    total: Terms = {}
    for sizes in overlap_matrices(rows, cols):
        # The sets K add up to the overlap matrix C. `ways` counts the choices of K, of the rest of
        # V and of the rest of W; `shared` counts the nodes of K in each class of the middle entry.
        c = [[0] * len(z) for _ in x]
        shared, ways = [0] * len(y), 1
        parts: dict[tuple[int, int], list[int]] = {}
        for (row, (i, j)), (col, (other, k)) in product(enumerate(from_a), enumerate(from_b)):
            size = sizes[row][col]
            c[i][k] += size
            parts.setdefault((i, k), []).append(size)
            if j == other:
                shared[j] += size
            # A node of K that lies in two classes of the middle entry: inclusion and exclusion.
            elif size % 2:
                ways = -ways
        # Split the set that the outer entries share into the sets K.
        for (i, k), pieces in parts.items():
            ways *= _multinomial(c[i][k], pieces)
        # Choose the rest of V in the input entry, outside of the shared set.
        for i, cx in enumerate(x):
            left = [a[i][j] - sum(sizes[row]) for row, (p, j) in enumerate(from_a) if p == i]
            ways *= _multinomial((cx.size or 0) - sum(c[i]), left)
        # And the rest of W in the output entry.
        for k, cz in enumerate(z):
            left = [
                b[j][k] - sum(line[col] for line in sizes)
                for col, (j, q) in enumerate(from_b)
                if q == k
            ]
            ways *= _multinomial((cz.size or 0) - sum(line[k] for line in c), left)
        if ways:
            _add(total, tuple(map(tuple, c)), _middle_entries(sorts, y, a, b, shared) * ways)
    return {matrix: value for matrix, value in total.items() if value}


def _middle_entries(
    sorts: tuple[str, ...], y: Classes, a: Matrix, b: Matrix, shared: list[int]
) -> Polynomial:
    r"""Return g(k) for $k_{jj}$ = `shared`: signed multinomials in the numbers of nodes."""
    taken = [sum(row[j] for row in a) + sum(b[j]) for j in range(len(y))]
    total = Polynomial.constant(sorts, 0)
    for t in product(*(range(n + 1) for n in shared)):
        known = [m - n + u for m, n, u in zip(taken, shared, t, strict=True)]
        left = [(c.size or 0) - n for c, n in zip(y, known, strict=True)]
        # A class of the middle entry cannot hold so many known nodes.
        if min(left, default=0) < 0:
            continue
        free = dict.fromkeys(sorts, 0)
        for c, n in zip(y, known, strict=True):
            free[c.sort] -= n
        sign = prod(comb(n, u) * (-1) ** u for n, u in zip(shared, t, strict=True))
        term = Polynomial.constant(sorts, sign)
        for c, n in zip(y, left, strict=True):
            term = term * Polynomial.binomial(sorts, c.sort, free[c.sort], n)
            free[c.sort] -= n
        total = total + term
    return total


def _multinomial(n: int, parts: Sequence[int]) -> int:
    """Return the number of ways to choose disjoint sets of the given sizes out of n."""
    rest = n - sum(parts)
    if rest < 0 or min(parts, default=0) < 0:
        return 0
    ways = factorial(n) // factorial(rest)
    for part in parts:
        ways //= factorial(part)
    return ways


Product = Composition  # its public name in the algebra, which `nn.Product` has, too
