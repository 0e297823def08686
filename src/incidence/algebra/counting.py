r"""The paper's closed formulas, and where they agree with the exact numbers (docs/math.md section 14).

- Stirling numbers of the second kind: `stirling`; Bell numbers: `bell`
- $\tau^{M \to M'}$ for directed faces: `tau`; $\tau_{symm}$ for undirected ones: `tau_symm`
- the multiplicities $\kappa_m$ of the decomposition theorem: `kappa`
- products of several tensors (docs/math.md section 17): `count_products`
- the total count $\sum \kappa_m \kappa'_{m'} \tau^{m \to m'}$: `total_tau`, `total_tau_symm`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import comb, factorial

from incidence.algebra.maps import EquivariantMap, as_map
from incidence.algebra.multilinear import MultilinearMap
from incidence.algebra.orbit import num_partitions
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, TooLargeError

__all__ = [
    "PaperCount",
    "ProductCount",
    "bell",
    "count_products",
    "kappa",
    "paper_count",
    "stirling",
    "symmetric_total",
    "tau",
    "tau_symm",
    "total_tau",
    "total_tau_symm",
]

_MAX_ARGUMENT = 2000


def stirling(n: int, m: int) -> int:
    """The number of partitions of n things into m non-empty sets.

    Example:
        >>> [stirling(3, m) for m in (1, 2, 3)]
        [1, 3, 1]
    """
    _assert_counts(n=n, m=m)
    signed: int = sum((-1 if (m - j) % 2 else 1) * comb(m, j) * j**n for j in range(m + 1))
    return signed // factorial(m)


def bell(n: int) -> int:
    """The number of partitions of n things.

    Example:
        >>> [bell(2 * order) for order in (1, 2, 3, 4)]
        [2, 15, 203, 4140]
    """
    _assert_counts(n=n)
    row = [1]  # of the Bell triangle
    for _ in range(n):
        step = [row[-1]]
        for value in row:
            step.append(step[-1] + value)
        row = step
    return row[0]


def tau(source_size: int, target_size: int) -> int:
    r"""$\tau^{M \to M'} = \sum_m \binom{M}{m} \binom{M'}{m} m!$: the operations between vectors of directed faces.

    Example:
        >>> tau(1, 1), tau(1, 2), tau(2, 2), tau(2, 3), tau(3, 3)
        (2, 3, 7, 13, 34)
    """
    _assert_counts(source_size=source_size, target_size=target_size)
    sizes = range(min(source_size, target_size) + 1)
    return sum(comb(source_size, m) * comb(target_size, m) * factorial(m) for m in sizes)


def tau_symm(source_size: int, target_size: int) -> int:
    r"""$\tau_{symm}^{M \to M'} = \min(M, M') + 1$: the operations between vectors of undirected faces."""
    _assert_counts(source_size=source_size, target_size=target_size)
    return min(source_size, target_size) + 1


def symmetric_total(order: int) -> int:
    """(2 D^3 + 9 D^2 + D) / 6: the maps of the collection of undirected faces of sizes 1 to D to itself.

    The paper gives it for symmetric tensors of order D, which have more from D = 3 on (2, 9, 31, 109).

    Example:
        >>> [symmetric_total(order) for order in (1, 2, 3, 4)]
        [2, 9, 23, 46]
    """
    _assert_counts(order=order)
    return (2 * order**3 + 9 * order**2 + order) // 6


def kappa(pattern: Pattern | str) -> dict[int, int]:
    r"""The multiplicities $\kappa_m$ of the decomposition theorem: partitions of the letters into m nodes.

    With undirected faces several partitions may be one orbit; `Pattern.orbits` has the orbits.

    Example:
        >>> kappa("i j k"), kappa("{i j} {k l}")
        ({1: 1, 2: 3, 3: 1}, {2: 2, 3: 4, 4: 1})
    """
    pattern = Pattern(pattern)
    if pattern.is_open:
        raise IncidenceError(f"`{pattern}` has an open face, which the paper does not treat.")
    return num_partitions(pattern)


def total_tau(equivariant_map: EquivariantMap | str) -> int:
    r"""The paper's total count $\sum_{m,m'} \kappa_m \kappa'_{m'} \tau^{m \to m'}$, summed over pairs of tensors.

    Example:
        >>> total_tau("i j -> i j k"), total_tau("{i j} {k l} -> {i j} {k l}")
        (52, 1657)
    """
    return _total(equivariant_map, tau)


def total_tau_symm(equivariant_map: EquivariantMap | str) -> int | None:
    r"""The paper's total count with $\tau_{symm}$; None where some face is directed, as it is not meant for those."""
    equivariant_map = as_map(equivariant_map)
    ordered = (
        k.is_ordered
        for p in equivariant_map.inputs + equivariant_map.outputs
        for k, _ in p.kinds
        if k.opening
    )
    return None if any(ordered) else _total(equivariant_map, tau_symm)


def _total(equivariant_map: EquivariantMap | str, count: Callable[[int, int], int]) -> int:
    equivariant_map = as_map(equivariant_map)
    return sum(
        n * n_too * count(m, m_too)
        for p, q in product(equivariant_map.inputs, equivariant_map.outputs)
        for (m, n), (m_too, n_too) in product(kappa(p).items(), kappa(q).items())
    )


@dataclass(frozen=True)
class PaperCount:
    """What the paper's formulas say of a map.

    Attributes:
        exact: The exact number of operations for many nodes.
        tau: The total count; None where the paper does not treat the map.
        tau_symm: The total count for undirected faces; None where it does not apply.
        reasons: Why `tau` is not exact; empty where it is.
    """

    exact: int
    tau: int | None
    tau_symm: int | None
    reasons: tuple[str, ...]

    @property
    def tau_is_exact(self) -> bool:
        """Whether the total count equals the exact number."""
        return self.tau == self.exact

    @property
    def tau_symm_is_exact(self) -> bool:
        """Whether the total count for undirected faces equals the exact number."""
        return self.tau_symm == self.exact

    @property
    def is_exact(self) -> bool:
        """Whether one of the paper's counts equals the exact number."""
        return self.tau_is_exact or self.tau_symm_is_exact


def paper_count(equivariant_map: EquivariantMap | str) -> PaperCount:
    """Compares the paper's count of operations with the exact one, and says why they differ.

    Example:
        >>> paper_count("i j -> i j").is_exact
        True
        >>> paper_count("i {j k} -> i {j k}").reasons
        ('reordering identifies several partitions in one orbit', 'some orbit has a non-trivial symmetry H')
    """
    equivariant_map = as_map(equivariant_map)
    for is_so, reason in (
        (equivariant_map.is_open, "the paper does not treat open faces"),
        (equivariant_map.is_oriented, "the paper does not treat oriented faces"),
        (len(equivariant_map.sorts) > 1, "the paper's formulas are for one sort of nodes"),
    ):
        if is_so:
            return PaperCount(equivariant_map.dimension, None, None, (reason,))
    patterns = equivariant_map.inputs + equivariant_map.outputs
    merged = any(sum(kappa(p).values()) > len(p.orbits) for p in patterns)
    symmetric = any(orbit.symmetry > 1 for p in patterns for orbit in p.orbits)
    reasons = (
        *["reordering identifies several partitions in one orbit"] * merged,
        *["some orbit has a non-trivial symmetry H"] * symmetric,
    )
    count = total_tau(equivariant_map)
    differs = count != equivariant_map.dimension
    return PaperCount(
        equivariant_map.dimension,
        count,
        total_tau_symm(equivariant_map),
        reasons if differs else (),
    )


@dataclass(frozen=True)
class ProductCount:
    """How many products a multilinear map has.

    Attributes:
        products: All of them: the dimension of the space of equivariant multilinear maps when there are enough nodes.
        beyond_entrywise: Those that sum over a node that two operands share; the others multiply, on the output's entries, pooled operands.
        joins: Those that need a join: more than pooling, copying and one product entry by entry.
    """

    products: int
    beyond_entrywise: int
    joins: int


def count_products(text: MultilinearMap | str) -> ProductCount:
    """Counts the products of a multilinear map.

    Example:
        >>> count_products("i j * i j -> i j")
        ProductCount(products=203, beyond_entrywise=78, joins=8)
    """
    m = text if isinstance(text, MultilinearMap) else MultilinearMap(text)
    return ProductCount(m.dimension, m.num_beyond_entrywise, m.num_joins)


def _assert_counts(**counts: int) -> None:
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise IncidenceError(f"{name} must be an integer of at least 0; got {value!r}.")
        if value > _MAX_ARGUMENT:
            raise TooLargeError(
                f"{name} is {value:,}; numbers up to {_MAX_ARGUMENT:,} are counted."
            )
