"""Polynomials in the numbers of nodes, with exact coefficients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import factorial, prod
from types import MappingProxyType

from incidence.errors import IncidenceError

__all__ = ["Polynomial"]


@dataclass(frozen=True)
class Polynomial:
    """A polynomial in one variable for each sort of nodes, written `N` where there is one sort.

    Attributes:
        sorts: The names of the variables.
        coefficients: From exponents, one for each sort, to coefficients; zeros are left out.

    Example:
        >>> p = Polynomial.binomial(("node",), "node", shift=-1, k=2)  # C(N - 1, 2)
        >>> print(p, p(5), sep="; ")
        1/2 N^2 - 3/2 N + 1; 6
    """

    sorts: tuple[str, ...]
    coefficients: Mapping[tuple[int, ...], Fraction]

    @classmethod
    def constant(cls, sorts: tuple[str, ...], value: int | Fraction) -> Polynomial:
        """The constant polynomial."""
        return cls._clean(sorts, {(0,) * len(sorts): Fraction(value)})

    @classmethod
    def binomial(cls, sorts: tuple[str, ...], sort: str, shift: int, k: int) -> Polynomial:
        r"""$\binom{N_s + \mathrm{shift}}{k}$ as a polynomial in the number $N_s$ of nodes of one sort."""
        variable = tuple(int(s == sort) for s in sorts)
        result = cls.constant(sorts, Fraction(1, factorial(k)))
        for i in range(k):
            factor = cls._clean(
                sorts, {variable: Fraction(1), (0,) * len(sorts): Fraction(shift - i)}
            )
            result = result * factor
        return result

    @classmethod
    def _clean(
        cls, sorts: tuple[str, ...], coefficients: Mapping[tuple[int, ...], Fraction]
    ) -> Polynomial:
        return cls(
            sorts,
            MappingProxyType({e: c for e, c in sorted(coefficients.items(), reverse=True) if c}),
        )

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
        """The value at a number of nodes, of every sort or for each sort."""
        counts = dict.fromkeys(self.sorts, num_nodes) if isinstance(num_nodes, int) else num_nodes
        missing = [sort for sort in self.sorts if sort not in counts]
        if missing:
            raise IncidenceError(
                f"no number of nodes for the sort `{missing[0]}` of `{self}`: give one for each sort."
            )
        values = [counts[sort] for sort in self.sorts]
        total = sum(
            (c * prod(map(pow, values, e)) for e, c in self.coefficients.items()), Fraction(0)
        )
        return total.numerator if total.denominator == 1 else total

    def __str__(self) -> str:
        names = ["N"] if len(self.sorts) == 1 else [f"N_{sort}" for sort in self.sorts]
        text = ""
        for exponents, c in self.coefficients.items():
            powers = [
                n if e == 1 else f"{n}^{e}" for n, e in zip(names, exponents, strict=True) if e
            ]
            size = [] if abs(c) == 1 and powers else [str(abs(c))]
            sign = (" - " if c < 0 else " + ") if text else "-" * (c < 0)
            text += sign + " ".join(size + powers)
        return text or "0"

    def __repr__(self) -> str:
        return f"<{self}>"
