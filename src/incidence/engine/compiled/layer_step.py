"""The step of a layer: its tensors, products, partners and matrices as words of the code.

`network.c` reads the words in the order of its enums: tensors by `T_...`, factors by `F_...`,
products by `P_...`, partners by `N_...`, and groups of matrices by `G_...`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from incidence.engine.aggregate import Aggregation, LinearAggregation
from incidence.engine.compiled.values import NONE, CannotCompileError, PlanUse, Value
from incidence.engine.layout import TensorLayout
from incidence.engine.weights import PartnerProduct, Products

if TYPE_CHECKING:
    from incidence.engine.compiled.program import Program

__all__ = ["write_layer"]

_MOST_TENSORS, _MOST_GROUPS = 64, 8  # as arrays of network.c have room

Places = dict[int, int]
"""Of every matrix of a layer, the number of its group and its first row there, in one integer."""


def write_layer(
    program: Program,
    products: Products,
    aggregations: Sequence[Aggregation],
    module: nn.Module,
    names: Sequence[str],
    bias_names: Sequence[str],
    xs: Sequence[Value],
    num_out: Sequence[int],
) -> list[Value]:
    """Write a layer, and return its outputs; see `engine/layer.py`.

    Args:
        program: Where it is written.
        products: All operations of the layer as products.
        aggregations: By number; sums and means.
        module: Whose parameters they are.
        names: The names of the weights.
        bias_names: The names of the biases, one for each output.
        xs: The inputs.
        num_out: The channels of every output.

    Raises:
        CannotCompileError: It pools by something else, or has too many tensors.
    """
    if not all(isinstance(aggregation, LinearAggregation) for aggregation in aggregations):
        raise CannotCompileError("an aggregation that is no sum or mean")
    layout = products.layout
    if max(len(layout.inputs), len(layout.outputs)) > _MOST_TENSORS:
        raise CannotCompileError("too many tensors")
    program.close(xs)
    use = program.plan(layout)
    num_in = [x.width for x in xs]
    groups, places = _matrices(program, products, num_in, num_out, module, names)
    if len(groups) > _MOST_GROUPS:
        raise CannotCompileError("too many widths")
    no_bias = NONE, NONE
    sources = [
        _tensor(program, use, number, tensor, x, no_bias)
        for number, tensor, x in zip(layout.input_numbers, layout.inputs, xs, strict=True)
    ]
    numbers = layout.output_numbers
    ys = [
        program.value(use.rows[number], width)
        for number, width in zip(numbers, num_out, strict=True)
    ]
    targets = [
        _tensor(program, use, number, tensor, y, program.parameter(module, name))
        for number, tensor, y, name in zip(numbers, layout.outputs, ys, bias_names, strict=True)
    ]
    factors, factor_numbers = _factors(program, use, products, aggregations, xs)
    of_levels = [
        [factor_numbers[p[:3]], p.target, p.target_level, places[p.matrix]]
        for p in products.of_levels
    ]
    partners = [_partners(program, use, p, places) for p in products.of_partners]
    tables = sources, targets, factors, of_levels, partners, groups
    words = [word for table in tables for part in table for word in part]
    program.write("layer", [*map(len, tables), *words])
    for p in products.of_levels:
        rows = layout.inputs[p.source].num_slots[p.source_level] * num_in[p.source]
        columns = layout.outputs[p.target].num_slots[p.target_level] * num_out[p.target]
        program.need_packed(rows, columns)
    for q in products.of_partners:
        program.need_packed(num_in[q.source], num_out[q.target])
    return ys


def _tensor(
    program: Program,
    use: PlanUse,
    number: int,
    tensor: TensorLayout,
    x: Value,
    bias: tuple[int, int],
) -> list[int]:
    """Return the words of an input or an output."""
    slots = program.address_of(np.array(tensor.num_slots, dtype=np.int64))
    bags = program.value(use.bags[number], x.width).number
    levels = len(tensor.levels)
    return [use.numbers[number], use.lists[number], levels, slots, x.number, x.width, bags, *bias]


def _factors(
    program: Program,
    use: PlanUse,
    products: Products,
    aggregations: Sequence[Aggregation],
    xs: Sequence[Value],
) -> tuple[list[list[int]], dict[tuple[int, int, int], int]]:
    """Return what products start from, and the number of each.

    Where a level is pooled by sums and by means, the means have a value of their own; else they
    replace the sums.
    """
    is_mean = [isinstance(a, LinearAggregation) and a.is_mean for a in aggregations]
    by_level: dict[tuple[int, int], list[int]] = {}
    for aggr, s, level in products.out_of:
        by_level.setdefault((s, level), []).append(aggr)
    factors: list[list[int]] = []
    numbers: dict[tuple[int, int, int], int] = {}
    for (s, level), aggrs in by_level.items():
        ordered = sorted(aggrs, key=lambda aggr: is_mean[aggr])  # sums first
        for k, aggr in enumerate(ordered):
            value = NONE
            if k:
                bags = use.bags[products.layout.input_numbers[s]]
                value = program.value(bags, xs[s].width).number
            numbers[aggr, s, level] = len(factors)
            factors.append([s, level, int(is_mean[aggr]), int(k > 0), value])
    return factors, numbers


def _partners(program: Program, use: PlanUse, product: PartnerProduct, places: Places) -> list[int]:
    """Return the words of a product that partners read."""
    if len(product.matrices) > 1:
        raise CannotCompileError("several aggregations that give a lone entry back")
    for key in (product.key, product.adjoint):
        if key not in use.partners:
            use.partners[key] = program.new_numbers(2), program.new_addresses(3)
    (number, lists), (back_number, back_lists) = (
        use.partners[key] for key in (product.key, product.adjoint)
    )
    matrix = places[product.matrices[0]]
    return [0, product.source, product.target, matrix, lists, number, back_lists, back_number]


def _matrices(
    program: Program,
    products: Products,
    num_in: Sequence[int],
    num_out: Sequence[int],
    module: nn.Module,
    names: Sequence[str],
) -> tuple[list[list[int]], Places]:
    """Return how matrices are gathered from weights, for every number of channels of outputs; and
    where each matrix is.
    """
    gathering = products.matrices(num_in, num_out, torch.device("cpu"))
    pairs, num_rows = products.weights.pairs, products.weights.num_rows
    slots = [program.parameter(module, name) for name in names]
    groups: list[list[int]] = []
    places: Places = {}
    for number, blocks in enumerate(gathering):
        row, weights = 0, blocks.weights
        for matrix, length in zip(blocks.numbers, blocks.lengths, strict=True):
            places[matrix] = (number << 32) + row
            row += length
        counts = [num_rows(pairs[w]) * num_in[pairs[w][0]] for w in weights]
        ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        rows = blocks.weight_rows.numpy()  # (rows of blocks,)
        weight = np.searchsorted(ends, rows, side="right") - 1
        source = np.column_stack([weight, rows - ends[weight]])  # (rows of blocks, 2)
        source[rows >= ends[-1]] = NONE  # a row of zeros
        first = program.new_addresses(2 * len(weights))
        program.groups.append((first, [slots[w] for w in weights]))
        width = num_out[pairs[weights[0]][1]]
        value = program.value(program.count("fixed", blocks.num_rows), width)
        lists = source.astype(np.int32), _host(blocks.row_signs)
        back = _host(blocks.members), _host(blocks.ptr), _host(blocks.member_signs), ends
        words = [blocks.num_rows, width, value.number, *map(program.address_of, lists)]
        words += [first, first + len(weights), len(weights), *map(program.address_of, back)]
        groups.append(words)
    return groups, places


def _host(tensor: Tensor | None) -> Any:
    return None if tensor is None else np.ascontiguousarray(tensor.numpy())
