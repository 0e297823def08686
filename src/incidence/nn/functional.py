"""Products and softmax on structures, as functions of tensors (docs/math.md section 17)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from incidence.algebra.products import ProductText, parse_product
from incidence.engine.plain import misfit, refused
from incidence.engine.products.contract import MAX_JOINED, join_plan_of
from incidence.engine.products.join import join
from incidence.engine.products.plain import (
    group_lists,
    plain_product,
    plain_softmax,
    product_lists,
    product_program,
)
from incidence.engine.products.plan import JoinPlan, JoinStep
from incidence.engine.products.softmax import groups_of, softmax_of_groups
from incidence.errors import IncidenceError
from incidence.nn.tensors import assert_rows, assert_structure
from incidence.structure import Structure
from incidence.structure.pytree import Recorded, constant_while_tracing, recorded, traced

__all__ = [
    "as_limit",
    "assert_operands",
    "einsum",
    "linked",
    "plan_einsum",
    "plan_softmax",
    "product_key",
    "softmax",
    "softmax_key",
]


def einsum(
    text: str,
    *operands_and_structure: Any,
    structure: Structure | None = None,
    limit: int = MAX_JOINED,
) -> Tensor:
    r"""Return the product of tensors on a structure, summed over letters that the output lacks.

    Letters *link* the tensors, as in einsum: a letter is one node throughout the text. In a *map*,
    as `nn.Linear` takes it, letters of different tensors are unrelated.

    $$y(r) = \sum_a \prod_k x_k(a(P_k))$$

    The sum runs over the assignments a of nodes to all letters for which every entry is present and
    a(R) is r. Assignments that differ by exchanging letters that the text cannot tell apart count
    once (docs/math.md section 17).

    Args:
        text: `P_1, ..., P_n -> R`, for example `i j, j k -> i k`: the operands and one output. A
            letter that the output lacks is summed over; one that only the output has is copied
            along. Tensors are named as everywhere; `i i` reads the diagonal of `i j`.
        *operands_and_structure: The values of the operands, then the structure: `einsum("i j, j ->
            i", x, y, s)`.
        structure: The structure, for those who prefer to name it.
        limit: The largest number of rows that a step may join, rows that the output does not need
            included. More are refused before they are made. A plan that is cached on the structure
            is used, whatever its size.

    Shape:
        operands: (entries, channels) each, with as many channels, or 1; the output likewise, in the
            order of the structure.

    Raises:
        PatternError: The text is not one of a product.
        IncidenceError: The values do not fit the structure; the product is always 0.
        TooLargeError: More than `limit` rows would be looked at.

    Example:
        >>> import torch
        >>> s = Structure(3, {"{i j}": [[0, 1, 0], [1, 2, 2]]})
        >>> edges = torch.ones(3, 1)
        >>> twice_the_triangles = einsum("{i j}, {j k}, {i k} -> i", edges, edges, edges, s)
        >>> twice_the_triangles.flatten()
        tensor([2., 2., 2.])
    """
    *xs, structure = (
        (*operands_and_structure, structure)
        if structure is not None
        else operands_and_structure or (None,)
    )
    if torch.compiler.is_compiling():
        return linked(text, xs, structure)
    product = parse_product(text)
    assert_structure(structure, "the last argument", 'einsum("i j, j k -> i k", x, y, structure)')
    plan = _product_plan(product, structure, limit)
    _assert_operands(product, xs, plan, structure)
    return _run(plan, _in_one_dtype(xs))


def linked(
    text: str, xs: Sequence[Tensor], structure: Structure, shape: Sequence[int] | None = None
) -> Tensor:
    """Return a product without checks, of factors (entries, *shape of a row) that can be broadcast;
    summed to `shape`, if given.
    """
    if torch.compiler.is_compiling():
        lists = traced(structure, product_key(text))
        why = None if lists is None else misfit(xs, lists.counts)
        if lists is None or why is not None:
            return _refused(why, text, xs, shape)
        return plain_product(lists.program, lists.tensors, _in_one_dtype(xs), shape)
    return _run(join_plan_of(structure, parse_product(text)), _in_one_dtype(xs), shape)


def _refused(
    why: str | None, text: str, xs: Sequence[Tensor], shape: Sequence[int] | None
) -> Tensor:
    """Return a recorded step that says what is wrong, with as many rows as are known."""
    operands, _, output = text.partition("->")
    rows = {operand.strip(): x.shape[0] for operand, x in zip(operands.split(","), xs, strict=True)}
    # the shape of a row
    inner = torch.broadcast_shapes(*(x.shape[1:] for x in xs)) if shape is None else shape
    return refused(why, xs[0], rows.get(output.strip(), 2), *inner)


def _run(plan: JoinPlan, xs: Sequence[Tensor], shape: Sequence[int] | None = None) -> Tensor:
    values = list(xs)  # operands, then the results of the steps
    last = plan.steps[-1]
    for step in plan.steps:
        factors = [values[source] for source in step.sources]
        values.append(join(step, factors, shape if step is last else None))
    return values[-1]


def _product_plan(product: ProductText, structure: Structure, limit: int) -> JoinPlan:
    return join_plan_of(structure, product, as_limit(limit))


def as_limit(limit: Any) -> int:
    """Return a bound on joined rows, once it is checked."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise IncidenceError(
            f"limit= is a number of joined rows, an integer from 0; got {limit!r}."
        )
    return limit


def assert_operands(
    product: ProductText,
    xs: Sequence[Any],
    structure: Structure,
    widths: Sequence[int],
    limit: int = MAX_JOINED,
) -> None:
    """Refuse values that do not fit a product, whose layer was made for so many channels of each
    operand.
    """
    assert_structure(structure)
    _assert_rows(product, xs, _product_plan(product, structure, limit), structure)
    for pattern, x, width in zip(product.operands, xs, widths, strict=True):
        if x.shape[1] != width:
            raise IncidenceError(
                f"the features of `{pattern}` must have {width} channels, as the layer was made"
                f" for; got {x.shape[1]}."
            )


def _assert_rows(
    product: ProductText, xs: Sequence[Any], plan: JoinPlan, structure: Structure
) -> None:
    for number, (pattern, x, rows) in enumerate(
        zip(product.operands, xs, plan.num_rows, strict=False)
    ):
        assert_rows(
            f"operand {number} of `{product}`, the features of `{pattern}`,", x, rows, structure
        )


def _assert_operands(
    product: ProductText, xs: Sequence[Any], plan: JoinPlan, structure: Structure
) -> None:
    if len(xs) != len(product.operands):
        count = len(product.operands)
        raise IncidenceError(
            f"`{product}` has {count} operand{'s' * (count != 1)}, and then comes the structure;"
            f" got {len(xs)} before it."
        )
    _assert_rows(product, xs, plan, structure)
    widths = {x.shape[1] for x in xs} - {1}  # one channel goes with any number
    if len(widths) > 1:
        shown = ", ".join(str(x.shape[1]) for x in xs)
        raise IncidenceError(
            f"the operands of `{product}` must have the same number of channels, or one; got"
            f" {shown}."
        )


def _in_one_dtype(xs: Sequence[Tensor]) -> list[Tensor]:
    """Cast to the type of autocast, where it is on; else all must agree already."""
    kind = xs[0].device.type
    # As torch does: autocast leaves double precision alone.
    if torch.is_autocast_enabled(kind) and all(x.dtype != torch.float64 for x in xs):
        return [x.to(torch.get_autocast_dtype(kind)) for x in xs]
    different = sorted({str(x.dtype) for x in xs})
    if len(different) > 1:
        raise IncidenceError(
            f"the operands must be of one type; got {' and '.join(different)}: convert them, for"
            " example with `.float()`."
        )
    return list(xs)


def softmax(x: Tensor, pattern: str, over: str, structure: Structure) -> Tensor:
    r"""Return every value as a share of the values with the same key.

    The *key* is what is left of an entry without the letters of `over`: `(i j)` over `j` gives
    shares for each i.

    $$y(e) = \exp x(e) / \sum_f \exp x(f)$$

    The sum runs over the present entries f of the same structure with the key of e. Each channel
    has shares of its own. Diagonal entries share with all others.

    Args:
        x: The values of the tensor, (entries, channels).
        pattern: The tensor, for example `(i j)`.
        over: The letters to sum over: `j`, or `i j`.
        structure: The structure.

    Raises:
        IncidenceError: The values do not fit; some entry would have two keys; a face is oriented.

    Example:
        >>> import torch
        >>> s = Structure(3, {"(i j)": [[0, 0, 1], [1, 2, 0]]})
        >>> softmax(torch.zeros(3, 1), "(i j)", over="j", structure=s).flatten()
        tensor([0.5000, 0.5000, 1.0000])
    """
    if torch.compiler.is_compiling():
        lists = traced(structure, softmax_key(pattern, over))
        why = None if lists is None else misfit([x], lists.tensors[:1])
        if lists is None or why is not None:
            return refused(why, x, *x.shape)
        return plain_softmax(x, *lists.tensors)
    assert_structure(structure, "structure=", 'softmax(x, "(i j)", over="j", structure=s)')
    plan = groups_of(structure, pattern, over)
    assert_rows(f"the features of `{pattern}`", x, plan.num_rows[0], structure)
    [step] = plan.steps
    return softmax_of_groups(x, cast("JoinStep", step))


def plan_einsum(text: str, structure: Structure, limit: int = MAX_JOINED) -> JoinPlan:
    """Return the index lists of a product for a structure. Print them for their cost.

    They are built once and cached on the structure. Tracing needs them.
    """
    assert_structure(structure, call="plan_einsum(text, structure)")
    plan = _product_plan(parse_product(text), structure, limit)
    lists = recorded(structure)
    if product_key(text) not in lists:
        # rows of every operand, without memory
        counts = (torch.zeros(n, 0, device=plan.device) for n in plan.num_rows[:-1])
        program = product_program(plan)
        lists[product_key(text)] = Recorded(product_lists(plan), program, tuple(counts))
    return plan


def plan_softmax(pattern: str, over: str, structure: Structure) -> JoinPlan:
    """Return the index lists of a softmax for a structure; see `plan_einsum`."""
    assert_structure(structure, "structure", "plan_softmax(pattern, over, structure)")
    plan, lists = groups_of(structure, pattern, over), recorded(structure)
    if softmax_key(pattern, over) not in lists:
        lists[softmax_key(pattern, over)] = Recorded(group_lists(plan))
    return plan


def softmax_key(pattern: str, over: str) -> str:
    """Return the key of the lists of a softmax on structures."""
    return f"softmax {pattern} over {over}"


@constant_while_tracing
def product_key(text: str) -> str:
    """Return the key of the lists of a product on structures."""
    return f"product {parse_product(text).key}"
