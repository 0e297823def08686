r"""`Linear`: the complete equivariant linear layer of a map."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import comb, sqrt
from operator import index as index_of
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.choice import Choice, Predicate, predicate
from incidence.algebra.maps import EquivariantMap, Operation, num_orbits
from incidence.errors import IncidenceError
from incidence.kernels.aggregate import Aggregation, LinearAggregation, as_aggregations
from incidence.kernels.engine import apply
from incidence.kernels.traced import flatten, traced_apply, unplanned
from incidence.nn.aggr import Aggr, as_aggr, by_operation
from incidence.nn.calibrate import calibrate
from incidence.nn.dense import dense_layer
from incidence.nn.operator import operator_matrix
from incidence.nn.tensors import (
    Values,
    as_list,
    assert_distinct,
    assert_structure,
    key_of,
    keys_in_order,
    per_tensor,
)
from incidence.notebook import html_of
from incidence.plans import Plan, plan_of
from incidence.plans.layout import MapLayout, by_width, layout_of
from incidence.plans.program import Program, WeightLayout, compile_map
from incidence.structure import Structure
from incidence.structure.data import cache_of, row_counts
from incidence.structure.pytree import Flat, flat_of

__all__ = ["Linear", "as_channels", "num_reads"]


class Linear(nn.Module):
    r"""The complete linear layer of a map: every operation that respects relabelling, each with a matrix of its own.

    For an output entry y of an orbit,

    $$y = b + \sum_A \sum_V \mathrm{pool}(x)(U_V)\, W_A,$$

    where A runs over the operations into that orbit, V over the ways to find the matched nodes in the entry, and pool is the sum
    (or another statistic) of x over the present entries that contain those nodes. Time is linear in the number of entries.

    Args:
        text: The map, for example `i, {i j} -> i, {i j}`.
        in_channels: For all inputs, or a dict by tensor; -1 to take it from the first input.
        out_channels: For all outputs, or a dict by tensor.
        aggr: `sum`, `mean`, `max`, `min`, `std`; a list of them, each with weights of its own; or one for every operation (or a list): a
            function of the operation, or a dict by the number of the operation, where all others are sums.
        bias: Whether to add a bias for each output orbit that has one: all but those with two nodes whose exchange changes the sign.
        max_overlap: With open faces: how many matched nodes may lie in an open class.
        operations: Which operations it has, if not all: a word, such as `local` (no pooling over whole structures), `boundary` (between
            entries one of which lies in the other), `adjacency`, `global` or `self`; a number or a formula that `explain` prints; a list
            of these; or a function of the operation.
        device, dtype: Of the parameters.

    Shape:
        x: (entries, in_channels) in the order of the structure, or a dict of such; likewise the output.

    Example:
        >>> s = Structure(3, {"(i j)": torch.tensor([[0, 1, 2], [1, 2, 0]])})
        >>> layer = Linear("(i j) -> i", 4, 8)
        >>> layer(torch.randn(3, 4), s).shape, layer.weight.shape
        (torch.Size([3, 8]), torch.Size([3, 4, 8]))
    """

    _version = 1  # of the format of the state

    def __init__(
        self,
        text: str | EquivariantMap,
        in_channels: int | Mapping[str, int],
        out_channels: int | Mapping[str, int],
        aggr: Aggr = "sum",
        bias: bool = True,
        max_overlap: int = 1,
        operations: Choice = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.map = text if isinstance(text, EquivariantMap) else EquivariantMap(text, max_overlap)
        if max_overlap not in (1, self.map.max_overlap):
            raise IncidenceError(
                f"the map has max_overlap={self.map.max_overlap}, and {max_overlap} is given: give it to the map."
            )
        if dtype is not None and not dtype.is_floating_point:
            raise IncidenceError(f"a layer has parameters of a floating type; got {dtype}.")
        for side in (self.map.inputs, self.map.outputs):
            assert_distinct(side, self.map.text)
        kept = _kept(self.map, None if operations is None else predicate(operations, self.map))
        self._is_list = isinstance(aggr, (list, tuple))
        is_by_operation = callable(aggr) or isinstance(aggr, Mapping)
        self.aggr, aggr_of = (
            by_operation(aggr, self.map, kept) if is_by_operation else (as_aggr(aggr), None)
        )
        self._weight_layout = WeightLayout(self.map, kept, len(self.aggr), aggr_of)
        self.in_channels = [
            as_channels(c, "in_channels", -1)
            for c in per_tensor(self.map.inputs, in_channels, "in_channels")
        ]
        self.out_channels = [
            as_channels(c, "out_channels", 1)
            for c in per_tensor(self.map.outputs, out_channels, "out_channels")
        ]
        self._aggregations = as_aggregations(
            self.aggr
        )  # these, whatever is registered under their names later
        self._assert_signs()
        self._set_layout()
        self._input_keys, self._output_keys = (
            [key_of(p) for p in side] for side in (self.map.inputs, self.map.outputs)
        )
        self._weight_names = [self._weight_name(pair) for pair in self._weight_layout.pairs]
        self._bias_names = [self._bias_name(t) for t in range(len(self.map.outputs))]
        for number, name in enumerate(self._weight_names):
            self.register_parameter(name, self._new_weight(number, device, dtype))
        for t, (pattern, channels) in enumerate(
            zip(self.map.outputs, self.out_channels, strict=True)
        ):
            value = (
                nn.Parameter(
                    torch.empty(
                        num_orbits(pattern, with_bias=True), channels, device=device, dtype=dtype
                    )
                )
                if bias
                else None
            )
            self.register_parameter(self._bias_name(t), value)
        self.reset_parameters()

    def _assert_signs(self) -> None:
        """Refuses to pool values that change sign with their orientation by what does not change sign with them."""
        for pair in self._weight_layout.pairs:
            pattern = self.map.inputs[pair[0]]
            used = (
                {aggr for _, aggr in self._weight_layout.terms(pair)} if pattern.is_oriented else ()
            )
            for aggregation in (self._aggregations[aggr] for aggr in used):
                if not isinstance(aggregation, LinearAggregation):
                    raise IncidenceError(
                        f"aggr={aggregation.name!r} of `{pattern}`: values of an oriented face change sign with their orientation, and of "
                        f"what pools them only 'sum' and 'mean' do too. Use these for it (aggr= may be a function of the operation)."
                    )

    def _set_layout(self) -> None:
        """How tensors are stacked, and by what the programs that are kept on structures are known: all that they depend on."""
        self._in_widths = _common_widths(self.in_channels)
        self._together = layout_of(self.map, by_width(self._in_widths), by_width(self.out_channels))
        self._apart = layout_of(
            self.map,
            *(
                tuple((k,) for k in range(len(side)))
                for side in (self.map.inputs, self.map.outputs)
            ),
        )
        versions = [(aggregation.name, aggregation.version) for aggregation in self._aggregations]
        weights = (
            sorted(self._weight_layout.kept.items()),
            sorted((self._weight_layout.aggr_of or {}).items()),
        )
        self._key = f"{self.map!r} {self._together.input_stacks} {self._together.output_stacks} {self._is_list} {versions} {weights}"

    def _program_key(self, structure: Structure) -> str:
        """By what the program on a structure is known: the layer, and how its tensors are stacked there."""
        return self._key if self._layout(structure) is self._together else f"{self._key} apart"

    def _layout(self, structure: Structure) -> MapLayout:
        """Tensors with as many channels share their products, unless there are many rows: those would have to be copied."""
        is_large = (
            sum(row_counts(structure, self.map.inputs)) * max(self._in_widths) > _MOST_STACKED
        )
        return self._apart if is_large else self._together

    @property
    def _is_plain(self) -> bool:
        return len(self.map.inputs) == len(self.map.outputs) == 1

    def _weight_name(self, pair: tuple[int, int]) -> str:
        return "weight" if self._is_plain else f"weight_{pair[0]}_{pair[1]}"

    def _bias_name(self, t: int) -> str:
        return "bias" if self._is_plain else f"bias_{t}"

    def _shape(self, number: int) -> tuple[int, ...]:
        s, t = self._weight_layout.pairs[number]
        rows = len(self._weight_layout.terms((s, t)))
        leading = (len(self.aggr), rows // len(self.aggr)) if self._is_list else (rows,)
        return *leading, self.in_channels[s], self.out_channels[t]

    def _new_weight(self, number: int, device: Any, dtype: Any) -> nn.Parameter:
        if self.in_channels[self._weight_layout.pairs[number][0]] < 0:
            lazy: Any = nn.UninitializedParameter
            weight: nn.Parameter = lazy(device=device, dtype=dtype)
            return weight
        return nn.Parameter(torch.empty(self._shape(number), device=device, dtype=dtype))

    def _weights(self) -> list[Any]:
        return self._named(self._weight_names)

    def _biases(self) -> list[Any]:
        return self._named(self._bias_names)

    def _named(self, names: Sequence[str]) -> list[Any]:
        known = (
            self._parameters
        )  # asking it first is faster than asking the module, which knows parametrised ones too
        return [known[name] if name in known else getattr(self, name) for name in names]

    def operations_of(self, source: int = 0, target: int = 0) -> list[Operation]:
        """The operations of one weight, in the order of its rows; each once for every aggregation that is given for it alone."""
        layout = self._weight_layout
        numbers = (
            layout.kept[source, target]
            if layout.aggr_of is None
            else [number for number, _ in layout.terms((source, target))]
        )
        return [self.map.operations[number] for number in numbers]

    def reset_parameters(self) -> None:
        """Draws the weights anew, with variance 1 / (in x keys read per output entry, over all operations into the orbit)."""
        reads: dict[tuple[int, int], float] = {}
        for pair in self._weight_layout.pairs:
            for operation in self.operations_of(*pair):
                into = operation.target.tensor, operation.target.number
                times = len(self.aggr) if self._is_list else 1
                reads[into] = (
                    reads.get(into, 0.0)
                    + num_reads(operation) * abs(self.in_channels[pair[0]]) * times
                )
        with torch.no_grad():
            for pair, weight in zip(self._weight_layout.pairs, self._weights(), strict=True):
                if (
                    isinstance(weight, nn.UninitializedParameter) or weight.is_meta
                ):  # torch would load much to do nothing
                    continue
                operations = self.operations_of(*pair)
                scale = [
                    1 / sqrt(max(reads[o.target.tensor, o.target.number], 1)) for o in operations
                ]
                weight.normal_().mul_(
                    torch.tensor(scale, device=weight.device, dtype=weight.dtype)[:, None, None]
                )
            for bias in self._biases():
                if bias is not None:
                    bias.zero_()

    def _materialize(self, xs: Sequence[Tensor]) -> None:
        """Takes the number of channels from the first input, where it was left open."""
        if -1 not in self.in_channels:
            return
        self.in_channels = [
            x.shape[1] if c < 0 else c for x, c in zip(xs, self.in_channels, strict=True)
        ]
        for number, weight in enumerate(self._weights()):
            if isinstance(weight, nn.UninitializedParameter):
                weight.materialize(self._shape(number))
        self._set_layout()
        self.reset_parameters()

    def _save_to_state_dict(self, *args: Any, **kwargs: Any) -> None:
        if -1 in self.in_channels:
            raise IncidenceError(
                f"the layer `{self.map}` has no weights yet: run it once, so that it knows its in_channels, then save it."
            )
        super()._save_to_state_dict(*args, **kwargs)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *args: Any
    ) -> None:
        version = local_metadata.get("version") or 1
        if version > self._version:
            args[-1].append(
                f"the state of `{self.map}` has format {version}; this version reads up to {self._version}: update"
            )
            return
        for number, pair in enumerate(self._weight_layout.pairs):
            weight = getattr(self, self._weight_name(pair))
            saved = state_dict.get(prefix + self._weight_name(pair))
            if isinstance(weight, nn.UninitializedParameter) and saved is not None:
                self.in_channels[pair[0]] = saved.shape[-2]
                weight.materialize(self._shape(number))
        self._set_layout()
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)

    def plan(self, structure: Structure) -> Plan:
        """The index lists for a structure: built once, kept on it, shared by all layers with this map. Print it for its cost."""
        assert_structure(structure)
        program, flats = self._program(structure), cache_of(structure, Flat)
        if self._key not in flats:
            flats[self._key] = flatten(program)
        return plan_of(structure, self._layout(structure))

    def _program(self, structure: Structure) -> Program[Aggregation]:
        """The layer compiled for a structure; kept on it."""
        kept: dict[Any, Program[Aggregation]] = cache_of(structure, Program)
        key = self._program_key(structure)
        if key not in kept:
            kept[key] = compile_map(
                self._weight_layout, plan_of(structure, self._layout(structure)), self._aggregations
            )
        return kept[key]

    def forward(self, x: Values | Mapping[str, Tensor], structure: Structure) -> Any:
        """Applies the layer.

        Raises:
            IncidenceError: The features do not fit the structure or the layer.
        """
        if torch.compiler.is_compiling():
            return self._traced(x, structure)
        program, xs = self._expected(x, structure)
        if program is None:
            xs = self._checked(x, structure)
            program = self._program(structure)
        xs, weights, biases = _one_dtype(xs, self._weights(), self._biases())
        return self._as_values(
            apply(program, self._padded(xs), self._padded_weights(weights), biases)
        )

    def _padded(self, xs: list[Tensor]) -> list[Tensor]:
        """The inputs with as many channels as their stack has: zeros, which change nothing."""
        widths = zip(self._in_widths, self.in_channels, strict=True)
        return [
            nn.functional.pad(x, (0, more - own)) if more > own else x
            for x, (more, own) in zip(xs, widths, strict=True)
        ]

    def _padded_weights(self, weights: list[Tensor]) -> list[Tensor]:
        missing = [self._in_widths[s] - self.in_channels[s] for s, _ in self._weight_layout.pairs]
        return [
            nn.functional.pad(weight, (0, 0, 0, more)) if more else weight
            for weight, more in zip(weights, missing, strict=True)
        ]

    def _as_values(self, ys: Sequence[Tensor]) -> Values:
        return ys[0] if len(ys) == 1 else dict(zip(self._output_keys, ys, strict=True))

    def _expected(self, x: Any, structure: Any) -> tuple[Program[Aggregation] | None, list[Any]]:
        """The program and the inputs, if they are just as they were when the program was made; None where they need a look."""
        program = (
            cache_of(structure, Program).get(self._program_key(structure))
            if isinstance(structure, Structure)
            else None
        )
        xs = (
            [x]
            if isinstance(x, Tensor)
            else [x.get(key) for key in self._input_keys]
            if isinstance(x, dict)
            else []
        )
        if (
            program is None
            or len(xs) != len(program.num_rows)
            or (len(xs) > 1 and len(x) > len(xs))
        ):
            return None, xs
        dtype, device = self._weights()[0].dtype, self._weights()[0].device
        is_fine = device == program.device and all(
            isinstance(value, Tensor)
            and value.shape == (rows, width)
            and value.dtype == dtype
            and value.device == device
            and value.layout == torch.strided
            for value, rows, width in zip(xs, program.num_rows, self.in_channels, strict=True)
        )
        return (program if is_fine else None), xs

    def _checked(self, x: Any, structure: Structure) -> list[Tensor]:
        """The inputs after a look at everything; refuses what does not fit, and takes in_channels from the first."""
        xs = as_list(
            self.map.inputs, x, structure, [None if c < 0 else c for c in self.in_channels]
        )
        for parameter in self._parameters.values():
            if parameter is not None and parameter.device != structure.device:
                there = (
                    f"the layer is on {parameter.device} and the structure is on {structure.device}"
                )
                raise IncidenceError(
                    f"{there}: move one with `.to(device)`, or make the layer on that device."
                )
        _one_dtype(xs, self._weights(), self._biases(), cast=False)
        self._materialize(xs)
        return xs

    def _traced(self, x: Any, structure: Structure) -> Any:
        """The same while tracing, when there is no time for checks: one operator on the lists that `plan` left on the structure."""
        xs = (
            [x]
            if isinstance(x, Tensor)
            else [x[key] for key in keys_in_order(self.map.text, tuple(x))]
        )
        xs, weights, biases = _one_dtype(xs, self._weights(), self._biases())
        flat = flat_of(structure, self._key)
        if flat is None:
            return self._as_values(self._unplanned(xs, structure))
        return self._as_values(
            traced_apply(flat, self._padded(xs), self._padded_weights(weights), biases)
        )

    def _unplanned(self, xs: Sequence[Tensor], structure: Structure) -> list[Tensor]:
        """Steps that say what to call when they run, with as many rows as can be told without a plan: so the rest can be traced."""
        rows = {
            "": structure.num_structures,
            **{key: x.shape[0] for key, x in zip(self._input_keys, xs, strict=True)},
        }
        return [
            unplanned(xs[0], rows.get(key, 2), columns)
            for key, columns in zip(self._output_keys, self.out_channels, strict=True)
        ]

    def calibrate(self, x: Values | Mapping[str, Tensor], structure: Structure) -> Linear:
        """Divides the weight of every operation by the root mean square of its term on this batch, before the weight.

        Sums grow with the data, and their sizes are unknown when the layer is made; afterwards every term has unit scale. Call it
        once, on the first batch.
        """
        calibrate(self, x, structure)
        return self

    def operator(self, number: int, structure: Structure) -> Tensor:
        """The matrix of one operation on a structure, (output entries, input entries), as a sparse tensor in float64."""
        assert_structure(structure, call="layer.operator(number, structure)")
        if (
            isinstance(number, bool)
            or not isinstance(number, int)
            or not -self.map.dimension <= number < self.map.dimension
        ):
            raise IncidenceError(
                f"operations are numbered 0 to {self.map.dimension - 1}; got {number!r}."
            )
        return operator_matrix(self.map, self.map.operations[number], structure)

    def dense(
        self, x: Values | Mapping[str, Tensor], num_nodes: int | Mapping[str, int] | None = None
    ) -> Any:
        """The layer on the complete structure, on dense tensors of shape [batch, an axis for each letter, channels].

        Args:
            x: The dense inputs. All assignments of an entry hold its value; other positions are ignored.
            num_nodes: Needed where a sort of an output is absent from the inputs.

        Returns:
            The dense outputs, 0 at positions that are no assignment.
        """
        return dense_layer(self, x, num_nodes)

    restrict_to: Callable[..., Any]
    """`nn.transfer.restrict`, set there: the layer of a smaller group, such as the automorphisms of a structure, for the same map."""
    project: Callable[..., Any]
    """`nn.transfer.project`, set there: the layer of a larger group that is nearest on the entries of a structure."""

    _repr_html_ = html_of

    def extra_repr(self) -> str:
        """What the layer is, as it was written."""
        sides = zip(
            (self.map.inputs, self.map.outputs), (self.in_channels, self.out_channels), strict=True
        )
        channels = [{key_of(p): c for p, c in zip(ps, cs, strict=True)} for ps, cs in sides]
        shown = [next(iter(c.values())) if len(set(c.values())) == 1 else c for c in channels]
        aggr = list(self.aggr) if self._is_list else " or ".join(self.aggr)
        has_bias = any(b is not None for b in self._biases())
        count = sum(map(len, self._weight_layout.kept.values()))
        return f"{str(self.map)!r}, {shown[0]}, {shown[1]}, aggr={aggr!r}, bias={has_bias}, operations={count}"


_MOST_STACKED = 1 << 18  # floats of the inputs; more do not fit into the cache
_LINE = 16  # floats of a cache line: rows that are shorter are read no faster


def _common_widths(channels: Sequence[int]) -> list[int]:
    """The channels of every input, so that those that take as many cache lines share one stack; -1, which takes none, is left open."""
    widest: dict[int, int] = {}
    for width in channels:
        widest[-(-width // _LINE)] = max(width, widest.get(-(-width // _LINE), width))
    return [widest[-(-width // _LINE)] for width in channels]


def num_reads(operation: Operation) -> int:
    """How many keys an operation reads for each output entry; open classes count as if they held just the matched nodes."""
    reads = 1
    for j, c in enumerate(operation.target.orbit.classes):
        column = [row[j] for row in operation.overlap]
        left = sum(column) if c.size is None else c.size
        for a in column:
            reads *= comb(left, a)
            left -= a
    return reads


def as_channels(value: Any, name: str, least: int) -> int:
    """A number of channels, checked; -1 where it may be left open."""
    try:
        number = 0 if isinstance(value, bool) else index_of(value)
    except TypeError:
        number = 0
    if number < least or number == 0:
        lazy = ", or -1 to take it from the first input" if least < 0 else ""
        raise IncidenceError(f"{name} is a number of channels, at least 1{lazy}; got {value!r}.")
    return number


def _kept(m: EquivariantMap, is_kept: Predicate | None) -> dict[tuple[int, int], tuple[int, ...]]:
    kept: dict[tuple[int, int], list[int]] = {
        (s, t): [] for s in range(len(m.inputs)) for t in range(len(m.outputs))
    }
    for number, operation in enumerate(m.operations):
        if is_kept is None or is_kept(operation):
            kept[operation.source.tensor, operation.target.tensor].append(number)
    if not m.dimension:
        raise IncidenceError(
            f"`{m}` has no operation: whatever reaches an output is cancelled by its own opposite. inc.nn.Readout pools absolute values or "
            f"squares of oriented faces; or go by way of another tensor, as in `<i j> -> i` and `i -> `."
        )
    if not any(kept.values()):
        raise IncidenceError(
            f"operations= keeps none of the {m.dimension} operations of `{m}`: the layer would be constant."
        )
    return {pair: tuple(numbers) for pair, numbers in kept.items()}


def _one_dtype(
    xs: list[Any], weights: list[Any], biases: list[Any], cast: bool = True
) -> tuple[list[Tensor], list[Tensor], list[Any]]:
    """Casts to the type of autocast, where it is on; else all must agree already."""
    kind = xs[0].device.type
    if (
        torch.is_autocast_enabled(kind) and xs[0].dtype != torch.float64
    ):  # like torch, which leaves double precision alone
        if not cast:
            return xs, weights, biases
        dtype = torch.get_autocast_dtype(kind)
        xs, weights = [x.to(dtype) for x in xs], [w.to(dtype) for w in weights]
        return xs, weights, [None if b is None else b.to(dtype) for b in biases]
    for x in xs:
        if x.dtype != weights[0].dtype:
            raise IncidenceError(
                f"the features are {x.dtype} and the layer is {weights[0].dtype}: convert one, for example with layer.to({x.dtype})."
            )
    return xs, weights, biases
