r"""The closed formulas of the paper, and where they equal the exact numbers (docs/math.md section
14).

- Stirling numbers of the second kind: `stirling`; Bell numbers: `bell`
- $\tau^{M \to M'}$ for directed faces: `tau`; $\tau_{symm}$ for undirected ones: `tau_symm`
- the multiplicities $\kappa_m$ of the decomposition theorem: `kappa`
- products of several tensors (docs/math.md section 17): `count_products`
- the total count $\sum \kappa_m \kappa'_{m'} \tau^{m \to m'}$: `total_tau`, `total_tau_symm`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, product
from math import comb, factorial
from typing import Any

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
    """Return the number of partitions of n things into m non-empty sets.

    Example:
        >>> [stirling(3, m) for m in (1, 2, 3)]
        [1, 3, 1]
    """
    _assert_counts(n=n, m=m)
    # Inclusion and exclusion over the sets that stay empty.
    signed: int = sum((-1 if (m - j) % 2 else 1) * comb(m, j) * j**n for j in range(m + 1))
    return signed // factorial(m)


def bell(n: int) -> int:
    """Return the number of partitions of n things.

    Example:
        >>> [bell(2 * order) for order in (1, 2, 3, 4)]
        [2, 15, 203, 4140]
    """
    _assert_counts(n=n)
    row = [1]  # of the Bell triangle
    for _ in range(n):
        # each row starts with the last number of the one before
        row = [*accumulate(row, initial=row[-1])]
    return row[0]


def tau(source_size: int, target_size: int) -> int:
    r"""Return $\tau^{M \to M'} = \sum_m \binom{M}{m} \binom{M'}{m} m!$.

    So many operations go from vectors of directed faces of size M to those of size M'.

    Example:
        >>> tau(1, 1), tau(1, 2), tau(2, 2), tau(2, 3), tau(3, 3)
        (2, 3, 7, 13, 34)
    """
    _assert_counts(source_size=source_size, target_size=target_size)
    sizes = range(min(source_size, target_size) + 1)
    return sum(comb(source_size, m) * comb(target_size, m) * factorial(m) for m in sizes)


def tau_symm(source_size: int, target_size: int) -> int:
    r"""Return $\tau_{symm}^{M \to M'} = \min(M, M') + 1$.

    So many operations go from vectors of undirected faces of size M to those of size M'.
    """
    _assert_counts(source_size=source_size, target_size=target_size)
    return min(source_size, target_size) + 1


def symmetric_total(order: int) -> int:
    """Return (2 D^3 + 9 D^2 + D) / 6: the number of maps between undirected faces of sizes 1 to D.

    The paper gives it for symmetric tensors of order D, which have more maps from D = 3 on (2, 9,
    31, 109).

    Example:
        >>> [symmetric_total(order) for order in (1, 2, 3, 4)]
        [2, 9, 23, 46]
    """
    _assert_counts(order=order)
    return (2 * order**3 + 9 * order**2 + order) // 6


def kappa(pattern: Pattern | str) -> dict[int, int]:
    r"""Return the multiplicities $\kappa_m$ of the decomposition theorem, by the number of nodes m.

    $\kappa_m$ counts partitions of the letters into m nodes. With undirected faces several
    partitions may be one orbit; `Pattern.orbits` lists the orbits.

    Example:
        >>> kappa("i j k"), kappa("{i j} {k l}")
        ({1: 1, 2: 3, 3: 1}, {2: 2, 3: 4, 4: 1})
    """
    pattern = Pattern(pattern)
    if pattern.is_open:
        raise IncidenceError(f"`{pattern}` has an open face, which the paper does not treat.")
    return num_partitions(pattern)


def total_tau(equivariant_map: EquivariantMap | str) -> int:
    r"""Return the total count of the paper, $\sum_{m,m'} \kappa_m \kappa'_{m'} \tau^{m \to m'}$.

    With several tensors it is summed over the pairs of an input and an output.

    Example:
        >>> total_tau("i j -> i j k"), total_tau("{i j} {k l} -> {i j} {k l}")
        (52, 1657)
    """
    return _total(equivariant_map, tau)


def total_tau_symm(equivariant_map: EquivariantMap | str) -> int | None:
    r"""Return the total count of the paper with $\tau_{symm}$, or None if a face is directed."""
    m = as_map(equivariant_map)
    # A single node is ordered, but has no bracket.
    kinds = {kind for pattern in m.inputs + m.outputs for kind, _ in pattern.kinds}
    has_directed = any(kind.is_ordered and kind.opening for kind in kinds)
    return None if has_directed else _total(m, tau_symm)


def _total(equivariant_map: EquivariantMap | str, count: Callable[[int, int], int]) -> int:
    equivariant_map = as_map(equivariant_map)
    total = 0
    for p, q in product(equivariant_map.inputs, equivariant_map.outputs):
        for (m, n), (m_too, n_too) in product(kappa(p).items(), kappa(q).items()):
            total += n * n_too * count(m, m_too)
    return total


@dataclass(frozen=True)
class PaperCount:
    """The counts that the formulas of the paper give for a map. It prints as a sentence.

    Attributes:
        exact: The exact number of operations for many nodes.
        tau: The total count; None if the paper does not treat such a map.
        tau_symm: The total count for undirected faces; None if it does not apply.
        reasons: Why `tau` is not exact; empty if it is.
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
        """Whether one of the counts of the paper equals the exact number."""
        return self.tau_is_exact or self.tau_symm_is_exact

    def __str__(self) -> str:
        if self.tau is None:
            return f"No formula of the paper to compare with: {self.reasons[0]}."
        if self.tau_is_exact:
            return f"The paper's formula gives {self.tau:,} too."
        if self.tau_symm_is_exact:
            return (
                f"The paper's formula for undirected faces gives {self.tau_symm:,} too (the general"
                f" one {self.tau:,})."
            )
        undirected = "" if self.tau_symm is None else f" (for undirected faces {self.tau_symm:,})"
        reasons = "; ".join(self.reasons)
        return f"The paper's formula gives {self.tau:,}{undirected}, not exact here: {reasons}."

    def data(self) -> dict[str, Any]:
        """Return the counts as plain data, for JSON."""
        return {
            "tau": self.tau,
            "tau_symm": self.tau_symm,
            "tau_is_exact": self.tau_is_exact,
            "tau_symm_is_exact": self.tau_symm_is_exact,
            "reasons": list(self.reasons),
        }


def paper_count(equivariant_map: EquivariantMap | str) -> PaperCount:
    """Compare the paper's count of operations with the exact one, and say why they differ.

    Example:
        >>> paper_count("i j -> i j").is_exact
        True
        >>> paper_count("i {j k} -> i {j k}").reasons
        ('reordering identifies several partitions in one orbit', 'some orbit has a non-trivial
        symmetry H')
    """
    m = as_map(equivariant_map)
    if m.is_open:
        return _not_treated(m, "the paper does not treat open faces")
    if m.is_oriented:
        return _not_treated(m, "the paper does not treat oriented faces")
    if len(m.sorts) > 1:
        return _not_treated(m, "the paper's formulas are for one sort of nodes")
    patterns = m.inputs + m.outputs
    count, reasons = total_tau(m), []
    # Reasons are looked for only if the numbers differ: listing orbits takes time.
    if count != m.dimension:
        if any(sum(kappa(p).values()) > len(p.orbits) for p in patterns):
            reasons.append("reordering identifies several partitions in one orbit")
        if any(orbit.symmetry > 1 for p in patterns for orbit in p.orbits):
            reasons.append("some orbit has a non-trivial symmetry H")
    return PaperCount(m.dimension, count, total_tau_symm(m), tuple(reasons))


def _not_treated(m: EquivariantMap, reason: str) -> PaperCount:
    return PaperCount(m.dimension, None, None, (reason,))


@dataclass(frozen=True)
class ProductCount:
    """The numbers of products of a multilinear map.

    Attributes:
        products: All products: the dimension of the space of equivariant multilinear maps if there
            are enough nodes.
        beyond_entrywise: The products that sum over a node that two operands share. The others
            multiply pooled operands on the entries of the output.
        joins: The products that need a join: more than pooling, copying and multiplying entry by
            entry.
    """

    products: int
    beyond_entrywise: int
    joins: int


def count_products(text: MultilinearMap | str) -> ProductCount:
    """Count the products of a multilinear map.

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
