r"""A network written down as steps: what `network.c` runs.

A `Program` is made once for a network. Modules write their steps (`nn/steps.py`): each takes values
and returns values, which are matrices of floats that do not exist yet. What a structure adds, such
as index lists and numbers of rows, is looked up for every batch (`binding.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from incidence.algebra.pattern import Pattern
from incidence.algebra.products import ProductText
from incidence.engine.aggregate import Aggregation, LinearAggregation
from incidence.engine.layout import MapLayout, TensorLayout
from incidence.engine.products.contract import join_plan_of
from incidence.engine.products.join import join_functions, role_sizes
from incidence.engine.products.plan import JoinPlan
from incidence.engine.products.softmax import groups_of
from incidence.engine.weights import Products
from incidence.structure.data import Array, StructureData

__all__ = ["CannotCompileError", "Program", "Value"]

_STEPS = ("layer", "dense", "point", "readout", "add", "product", "softmax")
_ACTIVATIONS = ("none", "relu", "tanh", "gelu", "silu", "elu", "softshrink", "sin", "abs", "square")
_NORMS = ("none", "batch", "layer", "square", "scale")
_STATISTICS = ("sum", "mean", "max", "min", "std")
_MOST_STATISTICS, _MOST_TENSORS, _MOST_GROUPS = 8, 64, 8
_STAT_ROWS = 4  # of a batch norm: see the enum S_MEAN in network.c
_NONE = -1

# how far a step that changes values one by one has come: what follows may be a part of it
_NORM, _ACTIVATION, _DROP, _ALL = range(4)


class CannotCompileError(Exception):
    """A module is not made of steps that the compiled network has."""


class Rows(NamedTuple):
    """How many rows a value has: a number that a structure tells.

    Attributes:
        kind: `entries` of a pattern, `bags` of a tensor of a plan, `structures`, or `fixed`.
        of: The pattern, the tensor (plan, number), or the number of rows.
    """

    kind: str
    of: Any = None


class Value(NamedTuple):
    """A matrix that a step makes: its number, its rows, and its channels."""

    number: int
    rows: Rows
    width: int


class Tensors(NamedTuple):
    """The bags of a tensor of a plan, as steps refer to them.

    Attributes:
        numbers: Where its numbers start: rows, bags, and the first bag of every level.
        lists: Where the addresses of its lists start.
        rows, bags: How many rows, and bags, it has.
    """

    numbers: int
    lists: int
    rows: Rows
    bags: Rows


class Drop(NamedTuple):
    """The masks that one module of dropout draws at once.

    Attributes:
        module: The module, which says whether it trains.
        kind: How they are made: `bits`, `floats`, or `all`, where everything is dropped.
        places: Where the address of each mask is.
        values: The values that they are for.
    """

    module: nn.Module
    kind: str
    places: list[int]
    values: list[Value]


@dataclass
class PlanUse:
    """A plan that steps read.

    Attributes:
        layout: The map that it is of.
        view: Changes the structure before it is planned; None to take it as it is.
        tensors: Its tensors, by number.
        partners: For every operation between partners: where its number and its lists are.
    """

    layout: MapLayout
    view: Any
    tensors: list[Tensors] = field(default_factory=list)
    partners: dict[Any, tuple[int, int]] = field(default_factory=dict)


@dataclass
class JoinUse:
    """A plan of a product, or of groups, that steps read.

    Attributes:
        plan: Returns it for a structure.
        lists: Where the addresses of its lists start.
        numbers: Where its numbers start.
        rows: The rows of the result.
        has_factors: Whether its step multiplies two factors; else it adds up groups of rows.
    """

    plan: Callable[[StructureData], JoinPlan]
    lists: int
    numbers: int
    rows: Rows
    has_factors: bool


class Program:
    """The steps of a network.

    Attributes:
        inputs, outputs: The values that go in and come out.
        plans: The plans that steps read.
        parameters: For every parameter its module, and its name there.
        flags: For every number that says whether a module trains, the module.
        drops: The masks of dropout.
        groups: For every group of weights: where their addresses start, and the slots of each.
        joins: The plans of products and of groups of rows that steps read.
    """

    def __init__(self) -> None:
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.values: list[Value] = []
        self.plans: dict[Any, PlanUse] = {}
        self.orbits: dict[Pattern, list[tuple[int, int]]] = {}
        self.parameters: list[tuple[nn.Module, str]] = []
        self.buffers: list[tuple[nn.Module, str]] = []
        self.flags: list[tuple[int, nn.Module]] = []
        self.drops: list[Drop] = []
        self.groups: list[tuple[int, list[tuple[int, int]]]] = []
        self.joins: dict[Any, JoinUse] = {}
        self.scratch = 0  # floats that every batch needs for packed matrices
        self._code: list[int] = []
        self._starts: list[int] = []
        # of a value that what follows may still change: the words of its step, and its stage
        self._open: dict[int, tuple[int, int]] = {}
        self._kept: list[Any] = []  # arrays whose addresses are in the code
        self.num_numbers = self.num_addresses = 0
        self._slots: dict[tuple[int, str, str], int] = {}

    # ---- tables

    def _numbers(self, count: int) -> int:
        self.num_numbers += count
        return self.num_numbers - count

    def _addresses(self, count: int) -> int:
        self.num_addresses += count
        return self.num_addresses - count

    def value(self, rows: Rows, width: int) -> Value:
        """Return a new value."""
        self.values.append(Value(len(self.values), rows, width))
        return self.values[-1]

    def input(self, rows: Rows, width: int) -> Value:
        """Return a value that the caller gives."""
        self.inputs.append(self.value(rows, width))
        return self.inputs[-1]

    def _parameter(self, module: nn.Module, name: str) -> tuple[int, int]:
        """Return where the addresses of a parameter and of its gradient are; -1 if it is None."""
        if module._parameters.get(name) is None:
            return _NONE, _NONE
        key = id(module), name, "parameter"
        if key not in self._slots:
            self.parameters.append((module, name))
            self._slots[key] = self._addresses(2)
        return self._slots[key], self._slots[key] + 1

    def _buffer(self, module: nn.Module, name: str) -> int:
        """Return where the address of a buffer is."""
        key = id(module), name, "buffer"
        if key not in self._slots:
            self.buffers.append((module, name))
            self._slots[key] = self._addresses(1)
        return self._slots[key]

    def parameter_slots(self) -> list[int]:
        """Return where the addresses of all parameters are; those of gradients follow them."""
        return [self._slots[id(module), name, "parameter"] for module, name in self.parameters]

    def buffer_slots(self) -> list[int]:
        """Return where the addresses of all buffers are."""
        return [self._slots[id(module), name, "buffer"] for module, name in self.buffers]

    def plan(self, layout: MapLayout, view: Any = None, key: Any = None) -> PlanUse:
        """Return a plan, which all steps with that map share."""
        key = layout, key
        if key not in self.plans:
            use = self.plans[key] = PlanUse(layout, view)
            number = len(self.plans) - 1
            for k, tensor in enumerate(layout.tensors):
                use.tensors.append(
                    Tensors(
                        self._numbers(3 + len(tensor.levels)),
                        self._addresses(6),
                        Rows("entries", tensor.pattern),
                        Rows("bags", (number, k)),
                    )
                )
        return self.plans[key]

    def _address(self, array: Array | None) -> int:
        """Return the address of an array, which is kept."""
        if array is None:
            return 0
        self._kept.append(array)
        return int(array.ctypes.data)

    def _step(self, name: str, fields: Sequence[int]) -> int:
        start = len(self._code)
        self._starts.append(start)
        self._code += [_STEPS.index(name), *fields]
        return start

    def finished(self) -> tuple[Array, Array]:
        """Return the code, and where its steps start."""
        return np.array(self._code, dtype=np.int64), np.array(self._starts, dtype=np.int64)

    # ---- steps

    def layer(
        self,
        products: Products,
        aggregations: Sequence[Aggregation],
        module: nn.Module,
        names: Sequence[str],
        bias_names: Sequence[str],
        xs: Sequence[Value],
        num_out: Sequence[int],
    ) -> list[Value]:
        """Write a layer; see `engine/layer.py`.

        Args:
            products: All operations of the layer as products.
            aggregations: By number; sums and means.
            module: Whose parameters they are.
            names: The names of the weights.
            bias_names: The names of the biases, one for each output.
            xs: The inputs.
            num_out: The channels of every output.
        """
        if not all(isinstance(aggregation, LinearAggregation) for aggregation in aggregations):
            raise CannotCompileError("an aggregation that is no sum or mean")
        layout = products.layout
        if max(len(layout.inputs), len(layout.outputs)) > _MOST_TENSORS:
            raise CannotCompileError("too many tensors")
        self.close(xs)
        use = self.plan(layout)
        num_in = [x.width for x in xs]
        groups = _Groups(self, products, num_in, num_out, module, names)
        sources = []
        for s, x in enumerate(xs):
            tensor, number = layout.inputs[s], layout.input_numbers[s]
            sources.append(self._tensor(use, number, tensor, x, x.width, (_NONE, _NONE)))
        ys, targets = [], []
        for t, width in enumerate(num_out):
            tensor, number = layout.outputs[t], layout.output_numbers[t]
            y = self.value(use.tensors[number].rows, width)
            bias = self._parameter(module, bias_names[t])
            targets.append(self._tensor(use, number, tensor, y, width, bias))
            ys.append(y)
        factors, factor_numbers = self._factors(use, products, aggregations, xs)
        product_words = [
            [factor_numbers[p[:3]], p.target, p.target_level, groups.packed(p.matrix)]
            for p in products.of_levels
        ]
        partners = [self._partners(use, p, groups) for p in products.of_partners]
        if len(groups.words) > _MOST_GROUPS:
            raise CannotCompileError("too many widths")
        tables = sources, targets, factors, product_words, partners, groups.words
        words = [word for table in tables for part in table for word in part]
        self._step("layer", [*map(len, tables), *words])
        for p in products.of_levels:
            rows = layout.inputs[p.source].num_slots[p.source_level] * num_in[p.source]
            columns = layout.outputs[p.target].num_slots[p.target_level] * num_out[p.target]
            self._need_packed(rows, columns)
        for q in products.of_partners:
            self._need_packed(num_in[q.source], num_out[q.target])
        return ys

    def _need_packed(self, rows: int, columns: int) -> None:
        """Note that a matrix is packed, as it is and transposed, or held as its gradient."""
        most = (max(rows, columns) + 16) * (max(rows, columns) + 32)
        self.scratch = max(self.scratch, most)

    def _tensor(
        self,
        use: PlanUse,
        number: int,
        tensor: TensorLayout,
        x: Value,
        width: int,
        bias: tuple[int, int],
    ) -> list[int]:
        slots = self._address(np.array(tensor.num_slots, dtype=np.int64))
        own = use.tensors[number]
        bags = self.value(own.bags, width).number
        levels = len(tensor.levels)
        return [own.numbers, own.lists, levels, slots, x.number, width, bags, *bias]

    def _factors(
        self,
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
                value = _NONE
                if k:
                    bags = use.tensors[products.layout.input_numbers[s]].bags
                    value = self.value(bags, xs[s].width).number
                numbers[aggr, s, level] = len(factors)
                factors.append([s, level, int(is_mean[aggr]), int(k > 0), value])
        return factors, numbers

    def _partners(self, use: PlanUse, product: Any, groups: _Groups) -> list[int]:
        places = []
        for key in (product.key, product.adjoint):
            if key not in use.partners:
                use.partners[key] = self._numbers(2), self._addresses(3)
            number, lists = use.partners[key]
            places.append((lists, number))
        (lists, number), (back_lists, back_number) = places
        if len(product.matrices) > 1:
            raise CannotCompileError("several aggregations that give a lone entry back")
        matrix = groups.packed(product.matrices[0])
        return [0, product.source, product.target, matrix, lists, number, back_lists, back_number]

    def dense(self, x: Value, linear: nn.Module) -> Value:
        """Write a linear map of every row."""
        weight: Any = linear._parameters["weight"]
        out, width = weight.shape
        if width != x.width:
            raise CannotCompileError("channels that do not fit")
        self.close([x])
        y = self.value(x.rows, out)
        (w, d_w), (b, d_b) = self._parameter(linear, "weight"), self._parameter(linear, "bias")
        self._step("dense", [x.number, y.number, width, out, w, b, d_w, d_b])
        self._need_packed(width, out)
        self.scratch = max(self.scratch, 3 * (width + 16) * (out + 32))
        return y

    def norm(self, x: Value, kind: str, modules: Sequence[nn.Module], pattern: Any) -> Value:
        """Write a norm, with a module for each orbit of a pattern; None where rows have none."""
        parts = []
        rows = [(_NONE, _NONE)] if len(modules) == 1 else self._orbit_rows(pattern, len(modules))
        if kind == "layer":  # the mean and the inverse root of every row
            stats = self.value(x.rows, 2)
        else:
            stats = self.value(Rows("fixed", _STAT_ROWS * len(modules)), x.width)
        for number, (module, (address, count)) in enumerate(zip(modules, rows, strict=True)):
            weight, bias = self._parameter(module, "weight"), self._parameter(module, "bias")
            mean = square = tracked = trains = _NONE
            momentum = 0.0
            if kind in ("batch", "square"):
                trains = self._numbers(1)
                self.flags.append((trains, module))
                momentum = float(getattr(module, "momentum", 0.0) or 0.0)
            if kind == "batch":
                mean = self._buffer(module, "running_mean")
                square = self._buffer(module, "running_var")
                tracked = self._buffer(module, "num_batches_tracked")
            elif kind == "square":
                square = self._buffer(module, "running_square")
            words = [_NORMS.index(kind), address, count, weight[0], bias[0], mean, square, tracked]
            eps: Any = module.eps
            words += [trains, weight[1], bias[1], _bits(eps), _bits(momentum), _STAT_ROWS * number]
            parts.append(words)
        return self._point(x, parts, stats)

    def rescale(self, x: Value, module: nn.Module) -> Value:
        """Write a shift and a scale of every channel by buffers of a module."""
        shift, scale = self._buffer(module, "shift"), self._buffer(module, "scale")
        words = [_NORMS.index("scale"), _NONE, _NONE, _NONE, _NONE, shift, scale, _NONE, _NONE]
        return self._point(x, [[*words, _NONE, _NONE, _bits(0.0), _bits(0.0), 0]], None)

    def _orbit_rows(self, pattern: Pattern, count: int) -> list[tuple[int, int]]:
        if pattern not in self.orbits:
            self.orbits[pattern] = [(self._addresses(1), self._numbers(1)) for _ in range(count)]
        return self.orbits[pattern]

    def _point(self, x: Value, parts: Sequence[Sequence[int]], stats: Value | None) -> Value:
        """Write a step that changes values one by one. Its later stages are still open."""
        self.close([x])
        y = self.value(x.rows, x.width)
        head = [x.number, y.number, _NONE, x.width, 0, 0, _NONE, 0]
        head += [_NONE if stats is None else stats.number, len(parts)]
        start = self._step("point", [*head, *(word for part in parts for word in part)])
        self._open[y.number] = start + 1, _NORM
        return y

    def close(self, xs: Sequence[Value]) -> None:
        """Note that values are read: their steps must not change any more."""
        for x in xs:
            self._open.pop(x.number, None)

    def _at_stage(self, x: Value, stage: int) -> tuple[Value, int]:
        """Return a value whose step can do more, and where the words of the step start."""
        words, done = self._open.pop(x.number, (_NONE, _ALL))
        if done >= stage:
            nothing = [0, *[_NONE] * 10, _bits(0.0), _bits(0.0), 0]
            x = self._point(x, [nothing], None)
            words, _ = self._open.pop(x.number)
        self._open[x.number] = words, stage
        return x, words

    def activation(self, x: Value, name: str) -> Value:
        """Write an activation of every value."""
        if name not in _ACTIVATIONS:
            raise CannotCompileError(f"the activation {name!r}")
        if name == "none":
            return x
        x, words = self._at_stage(x, _ACTIVATION)
        self._code[words + _ACTIVATION_WORD] = _ACTIVATIONS.index(name)
        return x

    def dropout(
        self, xs: Sequence[Value], module: nn.Module, num_dropped: int, is_bits: bool
    ) -> list[Value]:
        """Write dropout of every value.

        Args:
            xs: The values, in the order in which masks are drawn.
            module: The module, which says whether it trains.
            num_dropped: Of 2^16 choices, how many drop a value.
            is_bits: Whether sixteen random bits decide, or a mask of floats.
        """
        if not num_dropped:
            return list(xs)
        kind = "all" if num_dropped == 1 << 16 else "bits" if is_bits else "floats"
        drop = Drop(module, kind, [], [])
        for x in xs:
            y, words = self._at_stage(x, _DROP)
            place = self._addresses(1)
            written = [_DROPS.index(kind), place, num_dropped]
            self._code[words + _DROP_WORD : words + _DROP_WORD + len(written)] = written
            drop.places.append(place)
            drop.values.append(y)
        self.drops.append(drop)
        return drop.values

    def add(self, x: Value, y: Value) -> Value:
        """Write a sum. The second value is read nowhere else."""
        if (x.rows, x.width) != (y.rows, y.width):
            raise CannotCompileError("a sum of unequal shapes")
        self.close([x])
        words, done = self._open.pop(y.number, (_NONE, _ALL))
        if done < _ALL:
            self._code[words + _RESIDUAL_WORD] = x.number
            return y
        total = self.value(y.rows, y.width)
        self._step("add", [x.number, y.number, total.number])
        return total

    def readout(
        self,
        use: PlanUse,
        xs: Sequence[Value],
        layouts: Sequence[tuple[int, TensorLayout]],
        statistics: Sequence[str],
    ) -> Value:
        """Write statistics of whole structures, side by side.

        Args:
            use: The plan of the readout.
            xs: The values.
            layouts: For each the number of its tensor in the plan, and its layout.
            statistics: By name.
        """
        if len(statistics) > _MOST_STATISTICS or not set(statistics) <= set(_STATISTICS):
            raise CannotCompileError("statistics of the user's own")
        self.close(xs)
        column, parts = 0, []
        kinds = [_STATISTICS.index(name) for name in statistics]
        kinds += [0] * (_MOST_STATISTICS - len(kinds))
        for x, (number, tensor) in zip(xs, layouts, strict=True):
            own = use.tensors[number]
            slots = tensor.num_slots[0]
            words = [x.number, x.width, own.numbers, own.lists, slots, len(statistics), column]
            parts.append([*words, *kinds])
            column += slots * len(statistics) * x.width
        y = self.value(Rows("structures"), column)
        self._step("readout", [y.number, len(parts), *(word for part in parts for word in part)])
        return y

    def product(
        self,
        text: ProductText,
        xs: Sequence[Value],
        shapes: Sequence[tuple[int, int]],
        rows: Rows,
        scale: float = 1.0,
    ) -> Value:
        """Write a product of two values, times a number; see `engine/products/join.py`.

        Args:
            text: The product.
            xs: The factors.
            shapes: The shapes of a row of both factors and of the result: groups and channels, 1
                where values are shared or summed.
            rows: The rows of the result.
            scale: The number.
        """
        functions = join_functions()
        if len(xs) != 2 or functions is None:
            raise CannotCompileError("a product of other than two tensors")
        self.close(xs)
        if (text.key, rows) not in self.joins:
            plan = partial(join_plan_of, text=text)
            use = JoinUse(plan, self._addresses(12), self._numbers(5), rows, has_factors=True)
            self.joins[text.key, rows] = use
        use = self.joins[text.key, rows]
        first, second, result = shapes
        y = self.value(rows, prod(result))
        wide = tuple(max(pair) for pair in zip(first, second, strict=True))
        by_role = (first, second, result), (result, second, first), (result, first, second)
        sizes = np.concatenate([role_sizes(wide, *role) for role in by_role])
        words = [*(x.number for x in xs), y.number, use.lists, use.numbers, _bits(scale)]
        self._step("product", [*words, self._address(sizes), *functions])
        return y

    def softmax(self, x: Value, text: str, over: str) -> Value:
        """Write the softmax over groups of entries of a tensor; see `nn.functional.softmax`."""
        self.close([x])
        key = text, over, x.rows
        if key not in self.joins:
            plan = partial(groups_of, text=text, over=over)
            use = JoinUse(plan, self._addresses(2), self._numbers(1), x.rows, has_factors=False)
            self.joins[key] = use
        use, y = self.joins[key], self.value(x.rows, x.width)
        self._step("softmax", [x.number, y.number, use.lists, use.numbers])
        return y


_RESIDUAL_WORD, _ACTIVATION_WORD, _DROP_WORD = 2, 4, 5
_DROPS = ("none", "bits", "floats", "all")


class _Groups:
    """The matrices of a layer, by the channels of outputs: how they are gathered from weights.

    Attributes:
        words: What the code says of each group.
    """

    def __init__(
        self,
        program: Program,
        products: Products,
        num_in: Sequence[int],
        num_out: Sequence[int],
        module: nn.Module,
        names: Sequence[str],
    ) -> None:
        gathering = products.matrices(num_in, num_out, torch.device("cpu"))
        self.words: list[list[int]] = []
        self._first: dict[int, tuple[int, int]] = {}  # of every matrix: its group, and first row
        slots = [program._parameter(module, name) for name in names]
        pairs = products.weights.pairs
        for number, (weights, matrices, blocks) in enumerate(gathering.groups):
            row = 0
            for matrix, length in zip(matrices, blocks.lengths, strict=True):
                self._first[matrix] = number, row
                row += length
            width = num_out[pairs[weights[0]][1]]
            counts = [products.weights.num_rows(pairs[w]) * num_in[pairs[w][0]] for w in weights]
            ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            rows = blocks.weight_rows.numpy()
            weight = np.searchsorted(ends, rows, side="right") - 1
            source = np.column_stack([weight, rows - ends[weight]])
            source[rows >= ends[-1]] = _NONE
            first = program._addresses(2 * len(weights))
            program.groups.append((first, [slots[w] for w in weights]))
            value = program.value(Rows("fixed", blocks.num_rows), width)
            lists = [source.astype(np.int32), _host(blocks.row_signs)]
            back = [_host(blocks.members), _host(blocks.ptr), _host(blocks.member_signs), ends]
            self.words.append(
                [
                    blocks.num_rows,
                    width,
                    value.number,
                    *map(program._address, lists),
                    first,
                    first + len(weights),
                    len(weights),
                    *map(program._address, back),
                ]
            )

    def packed(self, matrix: int) -> int:
        """Return a matrix as the code names it: its group, and its first row there."""
        group, row = self._first[matrix]
        return (group << 32) + row


def _host(tensor: Tensor | None) -> Any:
    return None if tensor is None else np.ascontiguousarray(tensor.numpy())


def _bits(x: float) -> int:
    """Return the bits of a number in double precision as an integer."""
    number: int = struct.unpack("<q", struct.pack("<d", x))[0]
    return number
