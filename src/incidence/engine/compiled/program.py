r"""A network written down as steps: what `network.c` runs.

A `Program` is made once for a network. Modules write their steps (`nn/steps.py`): each takes values
and returns values, which are matrices of floats that do not exist yet. What a structure adds, such
as index lists and numbers of rows, is looked up for every batch (`binding.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np
from torch import nn

from incidence.algebra.pattern import Pattern
from incidence.algebra.products import ProductText
from incidence.engine.compiled.layer_step import write_layer
from incidence.engine.compiled.values import (
    NONE,
    CannotCompileError,
    Drop,
    JoinUse,
    PlanUse,
    Value,
)
from incidence.engine.layout import MapLayout, TensorLayout
from incidence.engine.products.contract import join_plan_of
from incidence.engine.products.join import join_functions, role_sizes
from incidence.engine.products.softmax import groups_of
from incidence.structure.data import Array

__all__ = ["CannotCompileError", "Program", "Value"]

_STEPS = ("layer", "dense", "point", "readout", "add", "product", "softmax")
_ACTIVATIONS = ("none", "relu", "tanh", "gelu", "silu", "elu", "softshrink", "sin", "abs", "square")
_NORMS = ("none", "batch", "layer", "square", "scale")
_STATISTICS = ("sum", "mean", "max", "min", "std")
_MOST_STATISTICS = 8
_STAT_ROWS = 4  # of a batch norm: see the enum S_MEAN in network.c

# how far a step that changes values one by one has come: what follows may be a part of it
_NORM, _ACTIVATION, _DROP, _ALL = range(4)


class Program:
    """The steps of a network.

    Attributes:
        inputs, outputs: The values that go in and come out.
        counts: What counts of rows there are, each once: `entries` of a pattern, `bags` of a tensor
            of a plan, `structures`, or a `fixed` number.
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
        self.counts: dict[tuple[str, Any], int] = {("structures", None): 0}
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

    def new_numbers(self, count: int) -> int:
        self.num_numbers += count
        return self.num_numbers - count

    def new_addresses(self, count: int) -> int:
        self.num_addresses += count
        return self.num_addresses - count

    def count(self, kind: str, of: Any = None) -> int:
        """Return the number of a count of rows."""
        return self.counts.setdefault((kind, of), len(self.counts))

    def value(self, rows: int, width: int) -> Value:
        """Return a new value."""
        self.values.append(Value(len(self.values), rows, width))
        return self.values[-1]

    def input(self, rows: int, width: int) -> Value:
        """Return a value that the caller gives."""
        self.inputs.append(self.value(rows, width))
        return self.inputs[-1]

    def parameter(self, module: nn.Module, name: str) -> tuple[int, int]:
        """Return where the addresses of a parameter and of its gradient are; -1 if it is None."""
        if module._parameters.get(name) is None:
            return NONE, NONE
        key = id(module), name, "parameter"
        if key not in self._slots:
            self.parameters.append((module, name))
            self._slots[key] = self.new_addresses(2)
        return self._slots[key], self._slots[key] + 1

    def buffer(self, module: nn.Module, name: str) -> int:
        """Return where the address of a buffer is."""
        key = id(module), name, "buffer"
        if key not in self._slots:
            self.buffers.append((module, name))
            self._slots[key] = self.new_addresses(1)
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
                use.numbers.append(self.new_numbers(3 + len(tensor.levels)))
                use.lists.append(self.new_addresses(6))
                use.rows.append(self.count("entries", tensor.pattern))
                use.bags.append(self.count("bags", (number, k)))
        return self.plans[key]

    def address_of(self, array: Array | None) -> int:
        """Return the address of an array, which is kept."""
        if array is None:
            return 0
        self._kept.append(array)
        return int(array.ctypes.data)

    def write(self, name: str, fields: Sequence[int]) -> int:
        start = len(self._code)
        self._starts.append(start)
        self._code += [_STEPS.index(name), *fields]
        return start

    @cached_property
    def rows_of_values(self) -> tuple[list[tuple[str, Any]], Array, Array]:
        """What the counts of rows are; and for every value the number of its count, and its width.

        To be read once the program is finished.
        """
        rows = np.array([v.rows for v in self.values], dtype=np.int64)
        widths = np.array([v.width for v in self.values], dtype=np.int64)
        return list(self.counts), rows, widths

    def finished(self) -> tuple[Array, Array]:
        """Return the code, and where its steps start."""
        return np.array(self._code, dtype=np.int64), np.array(self._starts, dtype=np.int64)

    # ---- steps: `layer_step.py` writes layers

    def layer(self, *parts: Any) -> list[Value]:
        """Write a layer; see `write_layer`."""
        return write_layer(self, *parts)

    def need_packed(self, rows: int, columns: int) -> None:
        """Note that a matrix is packed, as it is and transposed, or held as its gradient."""
        most = (max(rows, columns) + 16) * (max(rows, columns) + 32)
        self.scratch = max(self.scratch, most)

    def dense(self, x: Value, linear: nn.Module) -> Value:
        """Write a linear map of every row."""
        weight: Any = linear._parameters["weight"]
        out, width = weight.shape
        if width != x.width:
            raise CannotCompileError("channels that do not fit")
        self.close([x])
        y = self.value(x.rows, out)
        (w, d_w), (b, d_b) = self.parameter(linear, "weight"), self.parameter(linear, "bias")
        self.write("dense", [x.number, y.number, width, out, w, b, d_w, d_b])
        self.need_packed(width, out)
        self.scratch = max(self.scratch, 3 * (width + 16) * (out + 32))
        return y

    def norm(self, x: Value, kind: str, modules: Sequence[nn.Module], pattern: Any) -> Value:
        """Write a norm, with a module for each orbit of a pattern; None where rows have none."""
        parts = []
        rows = [(NONE, NONE)] if len(modules) == 1 else self._orbit_rows(pattern, len(modules))
        if kind == "layer":  # the mean and the inverse root of every row
            stats = self.value(x.rows, 2)
        else:
            stats = self.value(self.count("fixed", _STAT_ROWS * len(modules)), x.width)
        for number, (module, (address, count)) in enumerate(zip(modules, rows, strict=True)):
            weight, bias = self.parameter(module, "weight"), self.parameter(module, "bias")
            mean = square = tracked = trains = NONE
            momentum = 0.0
            if kind in ("batch", "square"):
                trains = self.new_numbers(1)
                self.flags.append((trains, module))
                momentum = float(getattr(module, "momentum", 0.0) or 0.0)
            if kind == "batch":
                mean = self.buffer(module, "running_mean")
                square = self.buffer(module, "running_var")
                tracked = self.buffer(module, "num_batches_tracked")
            elif kind == "square":
                square = self.buffer(module, "running_square")
            words = [_NORMS.index(kind), address, count, weight[0], bias[0], mean, square, tracked]
            eps: Any = module.eps
            words += [trains, weight[1], bias[1], _bits(eps), _bits(momentum), _STAT_ROWS * number]
            parts.append(words)
        return self._point(x, parts, stats)

    def rescale(self, x: Value, module: nn.Module) -> Value:
        """Write a shift and a scale of every channel by buffers of a module."""
        shift, scale = self.buffer(module, "shift"), self.buffer(module, "scale")
        words = [_NORMS.index("scale"), NONE, NONE, NONE, NONE, shift, scale, NONE, NONE]
        return self._point(x, [[*words, NONE, NONE, _bits(0.0), _bits(0.0), 0]], None)

    def _orbit_rows(self, pattern: Pattern, count: int) -> list[tuple[int, int]]:
        if pattern not in self.orbits:
            self.orbits[pattern] = [
                (self.new_addresses(1), self.new_numbers(1)) for _ in range(count)
            ]
        return self.orbits[pattern]

    def _point(self, x: Value, parts: Sequence[Sequence[int]], stats: Value | None) -> Value:
        """Write a step that changes values one by one. Its later stages are still open."""
        self.close([x])
        y = self.value(x.rows, x.width)
        head = [x.number, y.number, NONE, x.width, 0, 0, NONE, 0]
        head += [NONE if stats is None else stats.number, len(parts)]
        start = self.write("point", [*head, *(word for part in parts for word in part)])
        self._open[y.number] = start + 1, _NORM
        return y

    def close(self, xs: Sequence[Value]) -> None:
        """Note that values are read: their steps must not change any more."""
        for x in xs:
            self._open.pop(x.number, None)

    def _at_stage(self, x: Value, stage: int) -> tuple[Value, int]:
        """Return a value whose step can do more, and where the words of the step start."""
        words, done = self._open.pop(x.number, (NONE, _ALL))
        if done >= stage:
            nothing = [0, *[NONE] * 10, _bits(0.0), _bits(0.0), 0]
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
        places, values = list[int](), list[Value]()
        for x in xs:
            y, words = self._at_stage(x, _DROP)
            place = self.new_addresses(1)
            written = [_DROPS.index(kind), place, num_dropped]
            self._code[words + _DROP_WORD : words + _DROP_WORD + len(written)] = written
            places.append(place)
            values.append(y)
        self.drops.append((module, kind, places, values))
        return values

    def add(self, x: Value, y: Value) -> Value:
        """Write a sum. The second value is read nowhere else."""
        if (x.rows, x.width) != (y.rows, y.width):
            raise CannotCompileError("a sum of unequal shapes")
        self.close([x])
        words, done = self._open.pop(y.number, (NONE, _ALL))
        if done < _ALL:
            self._code[words + _RESIDUAL_WORD] = x.number
            return y
        total = self.value(y.rows, y.width)
        self.write("add", [x.number, y.number, total.number])
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
            slots = tensor.num_slots[0]
            words = [x.number, x.width, use.numbers[number], use.lists[number], slots]
            words += [len(statistics), column]
            parts.append([*words, *kinds])
            column += slots * len(statistics) * x.width
        y = self.value(self.count("structures"), column)
        self.write("readout", [y.number, len(parts), *(word for part in parts for word in part)])
        return y

    def product(
        self,
        text: ProductText,
        xs: Sequence[Value],
        shapes: Sequence[tuple[int, int]],
        rows: int,
        scale: float = 1.0,
    ) -> Value:
        """Write a product of two values, times a number; see `engine/products/join.py`.

        Args:
            text: The product.
            xs: The factors.
            shapes: The shapes of a row of both factors and of the result: groups and channels, 1
                where values are shared or summed.
            rows: The count of the rows of the result.
            scale: The number.
        """
        functions = join_functions()
        if len(xs) != 2 or functions is None:
            raise CannotCompileError("a product of other than two tensors")
        self.close(xs)
        if (text.key, rows) not in self.joins:
            plan = partial(join_plan_of, text=text)
            self.joins[text.key, rows] = (
                plan,
                self.new_addresses(12),
                self.new_numbers(5),
                rows,
                True,
            )
        _, lists, numbers, *_ = self.joins[text.key, rows]
        first, second, result = shapes
        y = self.value(rows, prod(result))
        wide = tuple(max(pair) for pair in zip(first, second, strict=True))
        by_role = (first, second, result), (result, second, first), (result, first, second)
        sizes = np.concatenate([role_sizes(wide, *role) for role in by_role])
        words = [*(x.number for x in xs), y.number, lists, numbers, _bits(scale)]
        self.write("product", [*words, self.address_of(sizes), *functions])
        return y

    def softmax(self, x: Value, text: str, over: str) -> Value:
        """Write the softmax over groups of entries of a tensor; see `nn.functional.softmax`."""
        self.close([x])
        key = text, over, x.rows
        if key not in self.joins:
            plan = partial(groups_of, text=text, over=over)
            self.joins[key] = plan, self.new_addresses(2), self.new_numbers(1), x.rows, False
        _, lists, numbers, *_ = self.joins[key]
        y = self.value(x.rows, x.width)
        self.write("softmax", [x.number, y.number, lists, numbers])
        return y


_RESIDUAL_WORD, _ACTIVATION_WORD, _DROP_WORD = 2, 4, 5
_DROPS = ("none", "bits", "floats", "all")


def _bits(x: float) -> int:
    """Return the bits of a number in double precision as an integer."""
    number: int = struct.unpack("<q", struct.pack("<d", x))[0]
    return number
