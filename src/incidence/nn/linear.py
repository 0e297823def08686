r"""`Linear`: the complete equivariant linear layer of a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.maps import EquivariantMap, Operation, num_orbits
from incidence.algebra.selection import Choice
from incidence.engine.aggregate import LinearAggregation, as_aggregations
from incidence.engine.layer import apply
from incidence.engine.plain import assert_plain, layer_lists, misfit, plain_layer, refused
from incidence.engine.plan import Plan, plan_of
from incidence.engine.weights import Products, WeightLayout
from incidence.errors import IncidenceError
from incidence.nn.composition import Planned, Transferable
from incidence.nn.dense import dense_layer, operator_matrix
from incidence.nn.initial import (
    Aggr,
    as_aggr,
    by_operation,
    calibrate,
    draw_weights,
    kept_operations,
)
from incidence.nn.steps import CannotCompileError, CompiledSlot, compiled_forward, writes
from incidence.nn.tensors import (
    Values,
    as_channels,
    as_list,
    assert_distinct,
    assert_structure,
    features_for,
    fitting,
    key_of,
    keys_in_order,
    per_tensor,
    taken_apart,
)
from incidence.structure import Example, Structure
from incidence.structure.pytree import Recorded, has_recorded, may_split, recorded, traced

__all__ = ["Linear"]


class Linear(Transferable, Planned):
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
        kept = kept_operations(self.map, operations)
        self._is_list = isinstance(aggr, (list, tuple))
        if callable(aggr) or isinstance(aggr, Mapping):
            self.aggr, aggr_of = by_operation(aggr, self.map, kept)
        else:
            self.aggr, aggr_of = as_aggr(aggr), None
        self._weight_layout = WeightLayout(self.map, kept, len(self.aggr), aggr_of)
        self.in_channels = [
            as_channels(c, "in_channels", -1)
            for c in per_tensor(self.map.inputs, in_channels, "in_channels")
        ]
        self.out_channels = [
            as_channels(c, "out_channels", 1)
            for c in per_tensor(self.map.outputs, out_channels, "out_channels")
        ]
        # These serve, even if others are registered under their names later.
        self._aggregations = as_aggregations(self.aggr)
        self._assert_signs()
        keeps_entry = [aggregation.keeps_entry for aggregation in self._aggregations]
        self._products = Products(self._weight_layout, keeps_entry)
        self._key = self._text_of_lists()  # layers with the same lists share them
        self._slot = CompiledSlot()
        self._input_keys = [key_of(p) for p in self.map.inputs]
        self._output_keys = [key_of(p) for p in self.map.outputs]
        self._patterns = dict(zip(self._input_keys, self.map.inputs, strict=True))
        self._add_parameters(bias, device, dtype)
        self.reset_parameters()

    def _add_parameters(self, bias: bool, device: Any, dtype: Any) -> None:
        """Register a weight for every input and output, and a bias for every output."""
        is_plain = len(self.map.inputs) == len(self.map.outputs) == 1
        pairs = self._weight_layout.pairs
        self._weight_names = ["weight" if is_plain else f"weight_{s}_{t}" for s, t in pairs]
        self._bias_names = [
            "bias" if is_plain else f"bias_{t}" for t in range(len(self.map.outputs))
        ]
        for number, name in enumerate(self._weight_names):
            self.register_parameter(name, self._new_weight(number, device, dtype))
        outputs = zip(self._bias_names, self.map.outputs, self.out_channels, strict=True)
        for name, pattern, width in outputs:
            rows = num_orbits(pattern, with_bias=True)
            value = torch.empty(rows, width, device=device, dtype=dtype) if bias else None
            self.register_parameter(name, None if value is None else nn.Parameter(value))

    def _assert_signs(self) -> None:
        """Refuse to pool values of oriented faces by what does not change sign with them."""
        for source, target in self._weight_layout.pairs:
            pattern = self.map.inputs[source]
            if not pattern.is_oriented:
                continue
            for _, aggr in self._weight_layout.terms((source, target)):
                aggregation = self._aggregations[aggr]
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

    def _shape(self, number: int) -> tuple[int, ...]:
        s, t = self._weight_layout.pairs[number]
        rows = len(self._weight_layout.terms((s, t)))  # an operation with an aggregation
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
        """Return the operations of one weight, in the order of its rows.

        An operation with aggregations of its own is there once for each of them.
        """
        layout, pair = self._weight_layout, (source, target)
        numbers = layout.kept[pair]
        if layout.aggr_of is not None:
            numbers = tuple(number for number, _ in layout.terms(pair))
        return [self.map.operations[number] for number in numbers]

    def reset_parameters(self) -> None:
        """Draw the weights anew.

        Their variance is 1 / (in_channels times the keys that an output entry reads by all
        operations into its orbit).
        """
        draw_weights(self)

    def _materialize(self, xs: Sequence[Tensor]) -> None:
        """Take the number of channels from the first input, where it was left open."""
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
        named = zip(self._weight_names, self._weight_layout.pairs, strict=True)
        for number, (name, (source, _)) in enumerate(named):
            weight, saved = getattr(self, name), state_dict.get(prefix + name)
            if isinstance(weight, nn.UninitializedParameter) and saved is not None:
                self.in_channels[source] = saved.shape[-2]  # ([aggregations,] operations, in, out)
                weight.materialize(self._shape(number))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)

    def plan(self, structure: Structure) -> Plan:
        """Return the index lists for a structure. Print them for their cost.

        They are built once and cached on the structure. All layers with this map share them.
        """
        assert_structure(structure)
        plan = plan_of(structure, self._products.layout)
        if structure.world is not None:  # between processes nothing is traced
            return plan.with_channels(self.in_channels, self.out_channels, self._weights()[0])
        entries = recorded(structure)
        if self._key not in entries:
            # rows, without memory
            counts = tuple(torch.zeros(own.num_rows, 0, device=plan.device) for own in plan.inputs)
            entries[self._key] = Recorded(layer_lists(self._products, plan), counts=counts)
        if -1 not in self.in_channels:  # cached, as tracing cannot make it
            self._products.matrices(self.in_channels, self.out_channels, structure.device)
        return plan

    def forward(self, x: Values | Mapping[str, Tensor] | Example, structure: Any = None) -> Any:
        """Apply the layer.

        Args:
            x: The features; or an example, or a batch of examples, with features and structure.
                Of an example, features of tensors that are no inputs are ignored.
            structure: The structure of the features.

        Raises:
            IncidenceError: The features do not fit the structure or the layer.
        """
        if isinstance(x, Example) or hasattr(x, "edge_index"):
            x, structure = taken_apart(x, structure)
            x = features_for(self, x)
        if torch.compiler.is_compiling():
            if not has_recorded(structure, self._key) and may_split():
                from incidence.nn import untraced

                return untraced.planned_call(self, x, structure)
            return self._traced(x, structure)
        patterns, like = self._patterns, getattr(self, self._weight_names[0])
        xs = fitting(patterns, x, structure, self.in_channels, like)
        if xs is None:
            xs = self._checked(x, structure)
        # None where it may not run
        ys = compiled_forward(self._slot, self, patterns, xs, structure)
        if ys is not None:
            return self._as_values(ys)
        plan = plan_of(structure, self._products.layout)
        xs, weights, biases = _one_dtype(xs, self._weights(), self._biases())
        ys = apply(self._products, self._aggregations, plan, xs, weights, biases)
        return self._as_values(ys)

    def _as_values(self, ys: Sequence[Tensor]) -> Values:
        return ys[0] if len(ys) == 1 else dict(zip(self._output_keys, ys, strict=True))

    def _checked(self, x: Any, structure: Structure) -> list[Tensor]:
        """Return the inputs after a look at everything, and take open in_channels from them.

        Raises:
            IncidenceError: They do not fit.
        """
        widths = [None if c < 0 else c for c in self.in_channels]
        xs = as_list(self.map.inputs, x, structure, widths)
        for parameter in self._parameters.values():
            if parameter is not None and parameter.device != structure.device:
                raise IncidenceError(
                    f"the layer is on {parameter.device} and the structure is on"
                    f" {structure.device}: move one with `.to(device)`, or make the layer on that"
                    " device."
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
        """Return recorded steps that say what is wrong, with as many rows as are known."""
        rows = {"": structure.num_structures}  # the empty pattern has a row for each structure
        rows |= {key: x.shape[0] for key, x in zip(self._input_keys, xs, strict=True)}
        return [
            refused(why, xs[0], rows.get(key, 2), columns)
            for key, columns in zip(self._output_keys, self.out_channels, strict=True)
        ]

    def calibrate(self, x: Values | Mapping[str, Tensor], structure: Structure) -> Linear:
        """Divide the weight of every operation by the root mean square of its term on a batch.

        Sums grow with the data, and their sizes are unknown when the layer is made; afterwards
        every term has unit scale. Call it once, on the first batch.
        """
        calibrate(self, x, structure)
        return self

    def operator(self, number: int, structure: Structure) -> Tensor:
        """Return the matrix of one operation on a structure, as a sparse tensor in float64.

        Its shape is (output entries, input entries).
        """
        assert_structure(structure, call="layer.operator(number, structure)")
        count = self.map.dimension
        if type(number) is not int or not -count <= number < count:
            raise IncidenceError(f"operations are numbered 0 to {count - 1}; got {number!r}.")
        return operator_matrix(self.map, self.map.operations[number], structure)

    def dense(
        self, x: Values | Mapping[str, Tensor], num_nodes: int | Mapping[str, int] | None = None
    ) -> Any:
        """Apply the layer to dense tensors of the complete structure.

        Their shape is [batch, an axis for each letter, channels].

        Args:
            x: The dense inputs. All assignments of an entry hold its value; other positions are
                ignored.
            num_nodes: Needed where a sort of an output is absent from the inputs.

        Returns:
            The dense outputs, 0 at positions that are no assignment.
        """
        return dense_layer(self, x, num_nodes)

    def extra_repr(self) -> str:
        """Return what the layer is, as it was written."""
        inputs = _shown(self._input_keys, self.in_channels)
        outputs = _shown(self._output_keys, self.out_channels)
        aggr = list(self.aggr) if self._is_list else " or ".join(self.aggr)
        has_bias = any(b is not None for b in self._biases())
        count = sum(map(len, self._weight_layout.kept.values()))
        return (
            f"{str(self.map)!r}, {inputs}, {outputs}, aggr={aggr!r}, bias={has_bias},"
            f" operations={count}"
        )


def _shown(keys: Sequence[str], channels: Sequence[int]) -> int | dict[str, int]:
    """Return the one number of channels of all tensors, or those of each."""
    return channels[0] if len(set(channels)) == 1 else dict(zip(keys, channels, strict=True))


def _one_dtype(
    xs: list[Any], weights: list[Any], biases: list[Any], cast: bool = True
) -> tuple[list[Tensor], list[Tensor], list[Any]]:
    """Cast to the type of autocast where it is on; elsewhere all must agree already."""
    kind = xs[0].device.type
    # torch leaves double precision alone, too
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
