"""The engine for small structures as one compiled call each way; the same values, up to rounding, as the engine in torch.

On small batches most of the time of a layer goes into calling torch some dozens of times. `native.c` does the same in one call. It is
compiled on first use where there is a C compiler, in about a second, and kept in the user's cache; without one, or with
`INCIDENCE_NATIVE=0` in the environment, everything is computed by torch. Products of matrices are those of torch's own BLAS.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from incidence.kernels.aggregate import Aggregation, Mean, Sum
from incidence.plans.program import Products, Program
from incidence.plans.stack import Partners, StackPlan
from incidence.structure.data import Array

__all__ = ["NativeLayer", "is_native", "library", "most_kept", "native_layer"]

_MOST = (
    1 << 19
)  # floats of the rows of a side: with more, the calls do not count, and torch has several threads
_MOST_LEVELS = 64


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "incidence"


def _machine() -> str:
    """What compiled code depends on: the kind of processor, and what it can do."""
    try:
        flags = next(
            line
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("flags")
        )
    except (OSError, StopIteration):
        flags = platform.processor()
    return f"{platform.system()} {platform.machine()} {flags}"


def _compiled(compiler: str) -> Path:
    """The library, compiled if it is not there; written whole or not at all."""
    source = Path(__file__).with_name("native.c").read_text()
    path = (
        _cache_folder()
        / f"native-{hashlib.sha256(f'{source} {_machine()}'.encode()).hexdigest()[:16]}.so"
    )
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            code, made = Path(folder, "native.c"), Path(folder, "native.so")
            code.write_text(source)
            command = [
                compiler,
                "-O3",
                "-march=native",
                "-shared",
                "-fPIC",
                str(code),
                "-o",
                str(made),
            ]
            subprocess.run(command, check=True, capture_output=True, timeout=60)
            made.replace(path)
    return path


@lru_cache(maxsize=1)
def library() -> Any:
    """The compiled library; None where there can be none."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if (
        os.environ.get("INCIDENCE_NATIVE", "").lower() in ("0", "false", "no", "off")
        or compiler is None
    ):
        return None
    try:
        found = ctypes.CDLL(str(_compiled(compiler)))
        blas = ctypes.CDLL(str(next(Path(torch.__file__).parent.glob("lib/libtorch_cpu.*"))))
        found.set_gemm(ctypes.cast(blas.sgemm_, ctypes.c_void_p))
    except (
        OSError,
        RuntimeError,
        subprocess.SubprocessError,
        StopIteration,
        AttributeError,
    ):  # RuntimeError: no home folder
        return None  # all of it can be done without
    found.layer_forward.argtypes = [ctypes.c_void_p] * 12 + [ctypes.c_int64, ctypes.c_void_p]
    found.layer_backward.argtypes = (
        [ctypes.c_void_p] * 13 + [ctypes.c_int64] + [ctypes.c_void_p] * 4
    )
    found.join_rows.argtypes = [ctypes.c_void_p] * 7 + [ctypes.c_int64] * 2 + [ctypes.c_void_p]
    found.layer_forward.restype = found.layer_backward.restype = found.join_rows.restype = None
    return found


class _Tables(NamedTuple):
    """What depends on a layer alone; `native.c` says what the tables hold. Arrays are kept so that their addresses stay good.

    Attributes:
        sizes: How many products, partners, rows of all matrices, and weights.
        products, partners: A row for each.
        mean_levels: The levels of which means are taken, in the order of the products.
        places: For every row of the matrices its weight, its row there, and its sign.
        block_rows, block_ptr, weight_ptr: The rows of the matrices for every row of every weight, and where the weights start.
        block_signs: The signs of these rows; None if there are none.
    """

    sizes: Array
    products: Array
    partners: Array
    mean_levels: tuple[int, ...]
    places: NDArray[np.int32]
    block_rows: Tensor
    block_ptr: Tensor
    block_signs: Tensor | None
    weight_ptr: Array


def _tables(products: Products, is_mean: Sequence[bool], num_in: int, num_out: int) -> _Tables:
    """The tables of a layer with one stack on either side."""
    pair = products.stack_pairs[0, 0]
    index = pair.index(num_in, num_out, torch.device("cpu"))
    starts = [num_out * start for start in (0, *accumulate(index.lengths))]
    listed = [
        (is_mean[p.aggr], p.source_level, p.target_level, starts[p.matrix.number])
        for p in products.of_levels
    ]
    place_in, place_out = (
        {tensor: place for stack in stacks for place, tensor in enumerate(stack)}
        for stacks in (products.layout.input_stacks, products.layout.output_stacks)
    )
    partners = [
        (place_in[p.source], place_out[p.target], starts[p.matrices[0].number])
        for p in products.of_partners
    ]
    weight_ptr = np.array(
        [
            0,
            *accumulate(
                len(products.weights.terms(products.weights.pairs[w])) * num_in
                for w in pair.weights
            ),
        ]
    )
    rows = index.weight_rows.numpy()
    weight = np.searchsorted(weight_ptr, rows, side="right") - 1
    signs = np.ones_like(rows) if index.row_signs is None else index.row_signs.numpy()
    places = np.column_stack([weight, rows - weight_ptr[weight], signs]).astype(np.int32)
    places[rows >= weight_ptr[-1]] = -1
    return _Tables(
        sizes=np.array([len(listed), len(partners), len(rows), len(pair.weights)]),
        products=np.array(listed, dtype=np.int64).reshape(len(listed), 4),
        partners=np.array(partners, dtype=np.int64).reshape(len(partners), 3),
        mean_levels=tuple(level for mean, level, _, _ in listed if mean),
        places=places,
        block_rows=index.block_rows,
        block_ptr=index.block_ptr,
        block_signs=index.block_signs,
        weight_ptr=weight_ptr,
    )


class NativeLayer:
    """A program as the compiled library takes it."""

    def __init__(
        self, program: Program[Aggregation], tables: _Tables, num_in: int, num_out: int
    ) -> None:
        self._program, self._tables, self._channels = program, tables, (num_in, num_out)
        self._in, self._out = program.inputs[0].plan, program.outputs[0].plan
        self._stacks = [
            _stack_array(stack, width)
            for stack, width in zip((self._in, self._out), self._channels, strict=True)
        ]
        pairs = [
            (program.partners.get(p.key), program.partners.get(p.adjoint))
            for p in program.products.of_partners
        ]
        self._pairs = np.array(
            [value for ways in pairs for way in ways for value in _pair_row(way)], dtype=np.int64
        )
        self._num_means = sum(self._in.num_bags_at[level] for level in tables.mean_levels) * num_in
        self._weights = program.products.stack_pairs[0, 0].weights
        listed = [
            len(way.targets)
            for ways in pairs
            for way in ways
            if way is not None and way.targets is not None
        ]
        most = max([1, *self._in.num_rows_of, *self._out.num_rows_of, *listed])
        self._room = most * (num_in + num_out + max(num_in, num_out))
        arrays = *self._stacks, tables.sizes, tables.products, tables.partners, self._pairs
        self._addresses = tuple(array.ctypes.data for array in arrays)

    def forward(
        self,
        xs: Sequence[Tensor],
        weights: Sequence[Tensor],
        biases: Sequence[Tensor | None],
        kept: Tensor | None = None,
    ) -> tuple[list[Tensor], Tensor]:
        """The outputs by tensor, and what backward needs, which is written to `kept` if that is given: see `most_kept`."""
        (num_in, num_out), stack = self._channels, self._program.outputs[0]
        found = [xs[0].new_empty(count, num_out) for count in self._out.num_rows_of]
        if kept is None:
            kept = xs[0].new_empty(
                self._in.num_bags * num_in + self._num_means + int(self._tables.sizes[2]) * num_out
            )
        room = xs[0].new_empty(self._out.num_bags * num_out + self._room)
        given = [b.detach().reshape(-1) for t in stack.tensors if (b := biases[t]) is not None]
        bias = torch.cat(given) if given else None
        library().layer_forward(
            *self._addresses,
            self._tables.places.ctypes.data,
            _pointers([xs[k] for k in self._program.inputs[0].tensors]),
            _pointers([weights[w] for w in self._weights]),
            None if bias is None else bias.data_ptr(),
            _pointers(found),
            kept.data_ptr(),
            self._num_means,
            room.data_ptr(),
        )
        return _in_order(found, stack.tensors), kept

    def backward(
        self,
        xs: Sequence[Tensor],
        shapes: Sequence[tuple[int, ...]],
        grads: Sequence[Tensor],
        kept: Tensor,
        needs_x: bool,
        has_bias: Sequence[bool],
    ) -> tuple[list[Tensor | None], list[Tensor], list[Tensor | None]]:
        """The gradients of inputs, weights and biases."""
        (num_in, num_out), tables = self._channels, self._tables
        inputs, outputs = self._program.inputs[0], self._program.outputs[0]
        d_xs = [kept.new_empty(count, num_in) for count in self._in.num_rows_of] if needs_x else []
        d_weights = [kept.new_empty(shapes[w]) for w in self._weights]
        d_bias = kept.new_empty(self._out.num_slots[0], num_out) if any(has_bias) else None
        sizes = (
            self._out.num_bags * num_out,
            int(tables.sizes[2]) * num_out,
            self._in.num_bags * num_in,
            self._room,
        )
        room = kept.new_empty(sum(sizes))
        library().layer_backward(
            *self._addresses,
            tables.block_rows.data_ptr(),
            tables.block_ptr.data_ptr(),
            _address(tables.block_signs),
            tables.weight_ptr.ctypes.data,
            _pointers([xs[k] for k in inputs.tensors]),
            _pointers([grads[t] for t in outputs.tensors]),
            kept.data_ptr(),
            self._num_means,
            _pointers(d_xs) if needs_x else None,
            _pointers(d_weights),
            None if d_bias is None else d_bias.data_ptr(),
            room.data_ptr(),
        )
        by_tensor = (
            [None] * len(grads)
            if d_bias is None
            else d_bias.unsafe_split_with_sizes(outputs.num_biases)
        )
        d_biases = zip(_in_order(by_tensor, outputs.tensors), has_bias, strict=True)
        return (
            _in_order(d_xs, inputs.tensors) if needs_x else [None] * len(xs),
            _in_order(d_weights, self._weights),
            [d if has else None for d, has in d_biases],
        )


def is_native(products: Products, aggregations: Sequence[Aggregation], x: Tensor) -> bool:
    """Whether the compiled library may be used for a layer, if a structure is small; without a look at any structure."""
    is_single = len(products.layout.inputs) == len(products.layout.outputs) == 1
    is_plain = _is_plain(aggregations)
    return (
        is_single
        and is_plain
        and x.dtype == torch.float32
        and x.device.type == "cpu"
        and library() is not None
    )


def _is_plain(aggregations: Sequence[Aggregation]) -> bool:
    """Whether there is a sum, a mean, or one of each."""
    kinds = [type(aggregation) for aggregation in aggregations]
    return set(kinds) <= {Sum, Mean} and len(set(kinds)) == len(kinds)


def most_kept(products: Products, num_bags: int, num_in: int, num_out: int) -> int:
    """How many floats backward needs at most: pooled rows and means of all bags, and the matrices."""
    return (
        2 * num_bags * num_in
        + sum(table.size for table in products.stack_pairs[0, 0].tables) * num_in * num_out
    )


def _in_order(values: Sequence[Any], positions: Sequence[int]) -> list[Any]:
    by_position = dict(zip(positions, values, strict=True))
    return [by_position[k] for k in range(len(values))]


def _pointers(tensors: Sequence[Tensor]) -> Any:
    """The addresses of tensors."""
    return (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))


def _stack_array(stack: StackPlan, channels: int) -> Array:
    lists = map(_address, (*stack.lists, *(stack.signs or (None, None))))
    sizes = len(stack.row_ptr) - 1, len(stack.num_slots), channels
    return np.array([*sizes, *stack.row_ptr, *stack.level_ptr, *stack.num_slots, *lists])


def _address(tensor: Tensor | None) -> int:
    """Where a tensor is; 0 if there is none."""
    return 0 if tensor is None else tensor.data_ptr()


def _pair_row(partners: Partners | None) -> tuple[int, ...]:
    """How many pairs, -1 for all rows, and where the targets, the sources, 0 for the row itself, and the signs are."""
    if partners is None:
        return 0, 0, 0, 0
    return -1 if partners.targets is None else len(partners.targets), *map(_address, partners.lists)


def native_layer(
    program: Program[Aggregation], xs: Sequence[Tensor], weights: Sequence[Tensor]
) -> NativeLayer | None:
    """The program for the compiled library; None if it cannot do it, or if it would not be faster."""
    if (
        xs[0].dtype != torch.float32
        or program.device.type != "cpu"
        or len(program.inputs) > 1
        or len(program.outputs) > 1
    ):
        return None
    num_in, num_out = weights[0].shape[-2:]
    if (num_in, num_out) not in program.native:
        program.native[num_in, num_out] = _make(program, num_in, num_out)
    found: NativeLayer | None = program.native[num_in, num_out]
    return found


def _make(program: Program[Aggregation], num_in: int, num_out: int) -> NativeLayer | None:
    inputs, outputs, products = program.inputs[0].plan, program.outputs[0].plan, program.products
    most = max(
        inputs.num_rows * num_in,
        inputs.num_bags * num_in,
        outputs.num_rows * num_out,
        outputs.num_bags * num_out,
    )
    lists = [t for stack in (inputs, outputs) for t in stack.lists]
    lists += [
        t for partners in program.partners.values() for t in partners.lists[:2] if t is not None
    ]
    is_plain = (
        _is_plain(program.aggregations)
        and all(t.dtype == torch.int32 and t.is_contiguous() for t in lists)
        and len(outputs.num_slots) <= _MOST_LEVELS
    )
    if (
        most > _MOST
        or not is_plain
        or any(len(p.matrices) > 1 for p in products.of_partners)
        or library() is None
    ):
        return None
    key = num_in, num_out
    if key not in products.native:
        products.native[key] = _tables(
            products, [type(a) is Mean for a in program.aggregations], *key
        )
    return NativeLayer(program, products.native[key], *key)
