r"""`Linear`: the complete equivariant linear layer of a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb, sqrt
from operator import index as index_of
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.maps import EquivariantMap, Operation, num_orbits
from incidence.algebra.selection import Choice, Predicate, predicate
from incidence.engine.aggregate import LinearAggregation, as_aggregations
from incidence.engine.layer import Operator, apply
from incidence.engine.plain import assert_plain, layer_lists, misfit, plain_layer, refused
from incidence.engine.plan import Plan, plan_of
from incidence.engine.weights import Products, WeightLayout
from incidence.errors import IncidenceError
from incidence.nn.aggr import Aggr, as_aggr, by_operation
from incidence.nn.calibrate import calibrate
from incidence.nn.dense import dense_layer
from incidence.nn.operator import operator_matrix
from incidence.nn.steps import CannotCompileError, CompiledSlot, compiled_forward, writes
from incidence.nn.tensors import (
    Values,
    as_list,
    assert_distinct,
    assert_structure,
    key_of,
    keys_in_order,
    per_tensor,
)
from incidence.nn.transferable import Transferable
from incidence.notebook import html_of
from incidence.structure import Structure
from incidence.structure.data import row_counts
from incidence.structure.pytree import Recorded, recorded, traced

__all__ = ["Linear", "as_channels", "num_reads"]


class Linear(Transferable, nn.Module):
    r"""The complete linear layer of a map: every operation that respects relabelling, each with a
    matrix of its own.

    For an output entry y of an orbit,

    $$y = b + \sum_A \sum_V \mathrm{pool}(x)(U_V)\, W_A,$$

    where A runs over the operations into that orbit, V over the ways to find the matched nodes in
    the entry, and pool is the sum (or another statistic) of x over the present entries that contain
    those nodes. Time is linear in the number of entries.

    Args:
        text: The map, for example `i, {i j} -> i, {i j}`.
        in_channels: For all inputs, or a dict by tensor; -1 to take it from the first input.
        out_channels: For all outputs, or a dict by tensor.
        aggr: `sum`, `mean`, `max`, `min`, `std`; a list of them, each with weights of its own; or
            one for every operation (or a list): a function of the operation, or a dict by the
            number of the operation, where all others are sums.
        bias: Whether to add a bias for each output orbit that has one: all but those with two nodes
            whose exchange changes the sign.
        max_overlap: With open faces: how many matched nodes may lie in an open class.
        operations: Which operations it has, if not all: a word, such as `local` (no pooling over
            whole structures), `boundary` (between entries one of which lies in the other),
            `adjacency`, `global` or `self`; a number or a formula that `explain` prints; a list of
            these; or a function of the operation.
        device, dtype: Of the parameters.

    Shape:
        x: (entries, in_channels) in the order of the structure, or a dict of such; likewise the
            output.

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
                f"the map has max_overlap={self.map.max_overlap}, and {max_overlap} is given: give"
                " it to the map."
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
        # these, whatever is registered under their names later
        self._aggregations = as_aggregations(self.aggr)
        self._assert_signs()
        keeps_entry = [aggregation.keeps_entry for aggregation in self._aggregations]
        self._products = Products(self._weight_layout, keeps_entry)
        self._key = self._text_of_lists()
        self._slot = CompiledSlot()
        self._input_keys, self._output_keys = (
            [key_of(p) for p in side] for side in (self.map.inputs, self.map.outputs)
        )
        self._patterns = dict(zip(self._input_keys, self.map.inputs, strict=True))
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
        """Refuses to pool values that change sign with their orientation by what does not change
        sign with them.
        """
        for pair in self._weight_layout.pairs:
            pattern = self.map.inputs[pair[0]]
            used = (
                {aggr for _, aggr in self._weight_layout.terms(pair)} if pattern.is_oriented else ()
            )
            for aggregation in (self._aggregations[aggr] for aggr in used):
                if not isinstance(aggregation, LinearAggregation):
                    raise IncidenceError(
                        f"aggr={aggregation.name!r} of `{pattern}`: values of an oriented face"
                        " change sign with their orientation, and of what pools them only 'sum'"
                        " and 'mean' do too. Use these for it (aggr= may be a function of the"
                        " operation)."
                    )

    def _text_of_lists(self) -> str:
        """Return the key of the lists that tracing needs of a structure."""
        keys = [p.key for p in self._products.of_partners]
        return f"{self.map!r} {sorted(set(keys))}"

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
        # asking it first is faster than asking the module, which knows parametrised ones too
        known = self._parameters
        return [known[name] if name in known else getattr(self, name) for name in names]

    def operations_of(self, source: int = 0, target: int = 0) -> list[Operation]:
        """The operations of one weight, in the order of its rows; each once for every aggregation
        that is given for it alone.
        """
        layout = self._weight_layout
        numbers = (
            layout.kept[source, target]
            if layout.aggr_of is None
            else [number for number, _ in layout.terms((source, target))]
        )
        return [self.map.operations[number] for number in numbers]

    def reset_parameters(self) -> None:
        """Draws the weights anew, with variance 1 / (in x keys read per output entry, over all
        operations into the orbit).
        """
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
                # torch would load much to do nothing
                if isinstance(weight, nn.UninitializedParameter) or weight.is_meta:
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
        self.reset_parameters()

    def _save_to_state_dict(self, *args: Any, **kwargs: Any) -> None:
        if -1 in self.in_channels:
            raise IncidenceError(
                f"the layer `{self.map}` has no weights yet: run it once, so that it knows its"
                " in_channels, then save it."
            )
        super()._save_to_state_dict(*args, **kwargs)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *args: Any
    ) -> None:
        version = local_metadata.get("version") or 1
        if version > self._version:
            args[-1].append(
                f"the state of `{self.map}` has format {version}; this version reads up to"
                f" {self._version}: update"
            )
            return
        for number, pair in enumerate(self._weight_layout.pairs):
            weight = getattr(self, self._weight_name(pair))
            saved = state_dict.get(prefix + self._weight_name(pair))
            if isinstance(weight, nn.UninitializedParameter) and saved is not None:
                self.in_channels[pair[0]] = saved.shape[-2]
                weight.materialize(self._shape(number))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)

    def plan(self, structure: Structure) -> Plan:
        """Return the index lists for a structure. Print them for their cost.

        They are built once and cached on the structure. All layers with this map share them.
        """
        assert_structure(structure)
        plan = plan_of(structure, self._products.layout)
        entries = recorded(structure)
        if self._key not in entries:
            counts = tuple(torch.zeros(own.num_rows, 0, device=plan.device) for own in plan.inputs)
            entries[self._key] = Recorded(layer_lists(self._products, plan), counts=counts)
        if -1 not in self.in_channels:  # cached, as tracing cannot make it
            self._products.matrices(self.in_channels, self.out_channels, structure.device)
        return plan

    def forward(self, x: Values | Mapping[str, Tensor], structure: Structure) -> Any:
        """Apply the layer.

        Raises:
            IncidenceError: The features do not fit the structure or the layer.
        """
        if torch.compiler.is_compiling():
            return self._traced(x, structure)
        xs = self._expected(x, structure)
        if xs is None:
            xs = self._checked(x, structure)
        ys = compiled_forward(self._slot, self, self._patterns, xs, structure)
        if ys is not None:
            return self._as_values(ys)
        plan = plan_of(structure, self._products.layout)
        operator = Operator(self._products, self._aggregations, plan)
        xs, weights, biases = _one_dtype(xs, self._weights(), self._biases())
        return self._as_values(apply(operator, xs, weights, biases))

    def _as_values(self, ys: Sequence[Tensor]) -> Values:
        return ys[0] if len(ys) == 1 else dict(zip(self._output_keys, ys, strict=True))

    def _expected(self, x: Any, structure: Any) -> list[Tensor] | None:
        """Return the inputs if they are just as they should be; None where they need a look."""
        values: list[Any]
        if isinstance(x, dict):
            values = [x.get(key) for key in self._input_keys]
        elif isinstance(x, Tensor):
            values = [x]
        else:
            return None
        if not isinstance(structure, Structure):
            return None
        counts = row_counts(structure, self.map.inputs)
        if len(values) != len(counts) or (len(values) > 1 and len(x) > len(values)):
            return None
        weight = self._weights()[0]
        dtype, device = weight.dtype, weight.device
        if device != structure.device:
            return None
        for value, rows, width in zip(values, counts, self.in_channels, strict=True):
            is_fine = (
                isinstance(value, Tensor)
                and value.shape == (rows, width)
                and value.dtype == dtype
                and value.device == device
                and value.layout == torch.strided
            )
            if not is_fine:
                return None
        return values

    def _checked(self, x: Any, structure: Structure) -> list[Tensor]:
        """The inputs after a look at everything; refuses what does not fit, and takes in_channels
        from the first.
        """
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
        """Apply the layer while a graph is recorded: on the lists that `plan` left, no checks."""
        xs = [x]
        if not isinstance(x, Tensor):
            xs = [x[key] for key in keys_in_order(self.map.text, tuple(x))]
        xs, weights, biases = _one_dtype(xs, self._weights(), self._biases())
        lists = traced(structure, self._key)
        why = None if lists is None else misfit(xs, lists.counts)
        if lists is None or why is not None:
            return self._as_values(self._refused(why, xs, structure))
        assert_plain(self._aggregations)
        gathering = self._products.matrices(self.in_channels, self.out_channels, xs[0].device)
        ys = plain_layer(self._products, gathering, self.aggr, lists.tensors, xs, weights, biases)
        return self._as_values(ys)

    def _refused(self, why: str | None, xs: Sequence[Tensor], structure: Structure) -> list[Tensor]:
        """Return recorded steps that say what is wrong, with as many rows as can be told."""
        rows = {"": structure.num_structures}
        rows |= {key: x.shape[0] for key, x in zip(self._input_keys, xs, strict=True)}
        return [
            refused(why, xs[0], rows.get(key, 2), columns)
            for key, columns in zip(self._output_keys, self.out_channels, strict=True)
        ]

    def calibrate(self, x: Values | Mapping[str, Tensor], structure: Structure) -> Linear:
        """Divides the weight of every operation by the root mean square of its term on this batch,
        before the weight.

        Sums grow with the data, and their sizes are unknown when the layer is made; afterwards
        every term has unit scale. Call it once, on the first batch.
        """
        calibrate(self, x, structure)
        return self

    def operator(self, number: int, structure: Structure) -> Tensor:
        """The matrix of one operation on a structure, (output entries, input entries), as a sparse
        tensor in float64.
        """
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
        """The layer on the complete structure, on dense tensors of shape [batch, an axis for each
        letter, channels].

        Args:
            x: The dense inputs. All assignments of an entry hold its value; other positions are
                ignored.
            num_nodes: Needed where a sort of an output is absent from the inputs.

        Returns:
            The dense outputs, 0 at positions that are no assignment.
        """
        return dense_layer(self, x, num_nodes)

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
        return (
            f"{str(self.map)!r}, {shown[0]}, {shown[1]}, aggr={aggr!r}, bias={has_bias},"
            f" operations={count}"
        )


def num_reads(operation: Operation) -> int:
    """How many keys an operation reads for each output entry; open classes count as if they held
    just the matched nodes.
    """
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
            f"`{m}` has no operation: whatever reaches an output is cancelled by its own opposite."
            " inc.nn.Readout pools absolute values or squares of oriented faces; or go by way of"
            " another tensor, as in `<i j> -> i` and `i -> `."
        )
    if not any(kept.values()):
        raise IncidenceError(
            f"operations= keeps none of the {m.dimension} operations of `{m}`: the layer would be"
            " constant."
        )
    return {pair: tuple(numbers) for pair, numbers in kept.items()}


def _one_dtype(
    xs: list[Any], weights: list[Any], biases: list[Any], cast: bool = True
) -> tuple[list[Tensor], list[Tensor], list[Any]]:
    """Casts to the type of autocast, where it is on; else all must agree already."""
    kind = xs[0].device.type
    # like torch, which leaves double precision alone
    if torch.is_autocast_enabled(kind) and xs[0].dtype != torch.float64:
        if not cast:
            return xs, weights, biases
        dtype = torch.get_autocast_dtype(kind)
        xs, weights = [x.to(dtype) for x in xs], [w.to(dtype) for w in weights]
        return xs, weights, [None if b is None else b.to(dtype) for b in biases]
    for x in xs:
        if x.dtype != weights[0].dtype:
            raise IncidenceError(
                f"the features are {x.dtype} and the layer is {weights[0].dtype}: convert one, for"
                f" example with layer.to({x.dtype})."
            )
    return xs, weights, biases


@writes(Linear)
def _write_layer(program: Any, layer: Linear, x: Any) -> Any:
    keys = layer._input_keys
    values = [x[key] for key in keys] if isinstance(x, dict) else [x]
    if [value.width for value in values] != layer.in_channels:
        raise CannotCompileError("channels that do not fit")
    ys = program.layer(
        layer._products,
        layer._aggregations,
        layer,
        layer._weight_names,
        layer._bias_names,
        values,
        layer.out_channels,
    )
    return ys[0] if len(ys) == 1 else dict(zip(layer._output_keys, ys, strict=True))
