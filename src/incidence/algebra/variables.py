"""How many variables the formulas of a layer need, which bounds what its networks tell apart.

A layer between entries of at most m nodes is a sum over formulas in m variables. A product needs as
many as its contraction has letters at once. With k variables, networks are bounded by folklore
(k - 1)-WL on the structure with its tensors as relations (docs/math.md section 20).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.products import ProductText

__all__ = ["bound_in_words", "num_variables"]

_MOST_ORDERED = 6  # letters that are summed, up to which all orders are tried


def num_variables(what: EquivariantMap | ProductText) -> int | None:
    """Return the number of variables of a map or a product; None with faces of any size.

    Example:
        >>> num_variables(EquivariantMap("i, {i j} -> i")), num_variables(EquivariantMap("i -> i"))
        (2, 1)
        >>> num_variables(ProductText("i j, j k -> i k"))
        3
        >>> num_variables(ProductText("i j, j k, k l -> i l"))  # one letter after the other
        3
    """
    if isinstance(what, ProductText):
        return _letters_at_once(what)
    patterns = [*what.inputs, *what.outputs]
    if any(pattern.is_open for pattern in patterns):
        return None
    return max((len(pattern.letters) for pattern in patterns), default=0)


def bound_in_words(number: int | None) -> str:
    """Return what a number of variables says of networks; empty if it says nothing."""
    if not number:
        return ""
    if number == 1:
        return "Networks of such layers see how many nodes have equal features, and nothing more."
    test = "colour refinement (1-WL)" if number == 2 else f"folklore {number - 1}-WL"
    return (
        f"Networks of such layers need {number} variables. They tell apart at most what {test} does"
        " on structures with these tensors as relations."
    )


def _letters_at_once(product: ProductText) -> int:
    """The largest number of letters of a step, in the order of steps in which it is smallest."""
    tables = [frozenset(pattern.letters) for pattern in product.tensors]
    least = max(map(len, tables), default=0)
    summed = product.summed
    if len(summed) > _MOST_ORDERED:
        return max(least, _width(tables, sorted(summed, key=lambda a: sum(a in t for t in tables))))
    return max(least, min(_width(tables, order) for order in permutations(summed)))


def _width(tables: Sequence[frozenset[str]], order: Sequence[str]) -> int:
    *operands, output = tables
    width = 0
    for letter in order:
        joined = frozenset[str]().union(*(one for one in operands if letter in one))
        width = max(width, len(joined))
        operands = [one for one in operands if letter not in one] + [joined - {letter}]
    return max(width, len(output.union(*operands)))
