r"""The nine operators $W^{m \to m'}_i$ of a graph with node and edge features, and their products.

$W^{m \to m'}_i$ pools faces of size m to all sets of i nodes and broadcasts to faces of size m':
its entries are $\binom{|x \cap y|}{i}$. The paper's operator is $(m - i)!$ times this one.
"""

from __future__ import annotations

from math import comb

from incidence.algebra.composition import Polynomial
from incidence.algebra.maps import EquivariantMap
from incidence.errors import IncidenceError

__all__ = ["multiplication_rule", "nine_operators"]


def nine_operators() -> dict[str, tuple[str, ...]]:
    r"""Return the paper's table of operators for `i, {i j} -> i, {i j}`.

    It has for every pooled feature the operator to nodes and the operator to edges. For partially
    pooled edges on nodes the paper writes $W^{2 \to 2}_1$; $W^{2 \to 1}_1$ is right.

    Example:
        >>> for feature, operators in nine_operators().items():
        ...     print(feature, *operators)
        edges - W(2->2)_2
        nodes W(1->1)_1 W(1->2)_1
        partially pooled edges W(2->1)_1 W(2->2)_1
        pooled nodes W(1->1)_0 W(1->2)_0
        pooled edges W(2->1)_0 W(2->2)_0
    """
    names = {  # by the size of the pooled face and the number of matched nodes
        (2, 2): "edges",
        (1, 1): "nodes",
        (2, 1): "partially pooled edges",
        (1, 0): "pooled nodes",
        (2, 0): "pooled edges",
    }
    table = {name: ["-", "-"] for name in names.values()}
    for operation in EquivariantMap("i, {i j} -> i, {i j}").operations:
        m, n = operation.source.orbit.size, operation.target.orbit.size
        [[matched]] = operation.overlap  # one class on either side
        table[names[m, matched]][n - 1] = f"W({m}->{n})_{matched}"
    return {feature: tuple(row) for feature, row in table.items()}


def multiplication_rule(
    source: int, middle: int, target: int, first: int, second: int
) -> dict[int, Polynomial]:
    r"""Return the product of two operators as a sum of operators: the paper's multiplication rule.

    $$W^{m' \to m''}_j W^{m \to m'}_i = \sum_k c_k W^{m \to m''}_k$$

    $$c_k = \binom{N-i-j}{m'-i-j+k} \binom{m-k}{i-k} \binom{m''-k}{j-k}$$

    Args:
        source: m, the size of the input faces.
        middle: m', the size of the faces between.
        target: m'', the size of the output faces.
        first: i, the number of matched nodes of the operator that is applied first.
        second: j, the number of matched nodes of the other operator.

    Returns:
        From k to its coefficient, a polynomial in the number N of nodes; k runs from max(0, i + j -
        m') to min(i, j).

    Example:
        >>> multiplication_rule(2, 2, 2, 1, 1)
        {0: <4>, 1: <N - 2>}
    """
    given = m, mid, n, i, j = source, middle, target, first, second
    if not all(isinstance(v, int) and not isinstance(v, bool) for v in given):
        raise IncidenceError(
            "multiplication_rule takes five whole numbers: the sizes of the faces and the numbers"
            f" of matched nodes; got {given}."
        )
    if min(given) < 0 or i > min(m, mid) or j > min(mid, n):
        raise IncidenceError(
            f"W^({m}->{mid})_{i} followed by W^({mid}->{n})_{j}: an operator matches at most as"
            " many nodes as its faces have."
        )
    terms = {}
    for k in range(max(0, i + j - mid), min(i, j) + 1):
        constant = comb(m - k, i - k) * comb(n - k, j - k)
        # in N
        terms[k] = Polynomial.binomial(("node",), "node", -i - j, mid - i - j + k) * constant
    return {k: value for k, value in terms.items() if value}
