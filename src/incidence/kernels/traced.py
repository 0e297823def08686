r"""The engine as an operator that tracing treats as one step: `torch.compile` and `torch.export` see tensors and a text.

A program is flattened into a list of tensors, whose number and ranks depend on the layer alone, and a text that says what the layer is.
Whatever depends on the data, sizes included, is in the tensors, so that one traced graph serves structures of any size.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap
from incidence.errors import IncidenceError
from incidence.kernels.aggregate import Aggregation, known_aggregation
from incidence.kernels.big import Big
from incidence.kernels.engine import Program, run_backward, run_forward
from incidence.kernels.native import is_native, most_kept
from incidence.kernels.plain import LevelLists, PartnerLists, plain_layer, pool_level
from incidence.plans.layout import BagLayout, MapLayout, Stacks, layout_of
from incidence.plans.plan import PartnerKey, Plan
from incidence.plans.program import Products, Stack, WeightLayout, num_rows
from incidence.plans.stack import Partners, StackLists, StackPlan, StackSigns
from incidence.structure.pytree import NO_PLAN, Flat

__all__ = [
    "PlainFlat",
    "flatten",
    "flatten_readout",
    "layer_text",
    "prepare_plain",
    "readout_text",
    "traced_apply",
    "traced_readout",
    "unplanned",
]


_VERSION = 3  # of what the operators take and give: torch keeps compiled graphs on disk, which know them by name


class PlainFlat(Flat):
    """Lists for a graph of plain steps, which is what is exported: see `kernels.plain`.

    Of a layer: a tensor of a size for every output, its number of entries; for every stack and level rows, bags, sizes, and signs if it has
    any; for every product of partners targets, sources, and signs. Of a readout: those of its stacks, which have one level. Of a product
    and of a softmax: see `kernels.plain_joins`.
    """


class _Static(NamedTuple):
    """What a text says: the layout of the map, the products of the layer, its aggregations, and the partners that it reads."""

    layout: MapLayout
    products: Products
    aggregations: tuple[Aggregation, ...]
    partners: tuple[PartnerKey, ...]


def layer_text(program: Program) -> str:
    """What the layer is, as a text."""
    layout, weights = program.products.layout, program.products.weights
    return json.dumps(
        {
            "map": str(layout.map),
            "max_overlap": layout.map.max_overlap,
            "stacks": [layout.input_stacks, layout.output_stacks],
            "kept": [[*pair, numbers] for pair, numbers in weights.kept.items()],
            "aggr": [
                (aggregation.name, aggregation.version) for aggregation in program.aggregations
            ],
            "aggr_of": None if weights.aggr_of is None else list(weights.aggr_of.items()),
        }
    )


@lru_cache(maxsize=256)
def _static(spec: str) -> _Static:
    """What a text says; it is read once."""
    said = json.loads(spec)
    inputs, outputs = (tuple(map(tuple, stacks)) for stacks in said["stacks"])
    layout = layout_of(EquivariantMap(said["map"], said["max_overlap"]), inputs, outputs)
    kept = {(s, t): tuple(numbers) for s, t, numbers in said["kept"]}
    aggr_of = (
        None
        if said["aggr_of"] is None
        else {number: tuple(aggr) for number, aggr in said["aggr_of"]}
    )
    weights = WeightLayout(layout.map, kept, len(said["aggr"]), aggr_of)
    aggregations = tuple(known_aggregation(name, version) for name, version in said["aggr"])
    products = weights.products(layout, aggregations)
    return _Static(layout, products, aggregations, _partner_keys(products))


def _partner_keys(products: Products) -> tuple[PartnerKey, ...]:
    return tuple(dict.fromkeys(key for p in products.of_partners for key in (p.key, p.adjoint)))


_OF_PARTNERS = 3  # lists: targets, sources and signs
_PAD = 2  # tracing takes sizes 0 and 1 for constants, and some lists are empty in some structures


def flatten(program: Program) -> Flat:
    """Splits a program into tensors and a text: sizes; a tensor of shape (entries, 0) for every output, which takes no memory and tells
    its size while tracing; the lists of every stack; and those of partners.
    """
    stacks = _different(program)
    partners = [program.partners.get(key) for key in _partner_keys(program.products)]
    sizes = [size for stack in stacks for size in _sizes(stack)]
    for found in partners:
        sizes += [
            found is not None,
            *(found is not None and listed is not None for listed in _lists(found)),
        ]
    tensors = [_known_by(torch.tensor(sizes, dtype=torch.long), program)]
    tensors += [torch.zeros(count, 0, device=program.device) for count in num_rows(program.outputs)]
    tensors += [t for stack in stacks for t in stack.tensors]
    nothing = torch.zeros(_PAD, dtype=torch.int32, device=program.device)
    for found in partners:
        for listed in _lists(found):
            tensors.append(
                nothing if listed is None else torch.cat([nothing.to(listed.dtype), listed])
            )
    return Flat(tensors, layer_text(program))


def _lists(partners: Partners | None) -> tuple[Tensor | None, ...]:
    return (None,) * _OF_PARTNERS if partners is None else partners.lists


def _known_by(sizes: Tensor, what: Any) -> Tensor:
    """Notes with the sizes what they are the sizes of, so that it need not be put together again where that tensor itself comes back."""
    sizes._incidence = what  # type: ignore[attr-defined]
    return sizes


def _program(tensors: Sequence[Tensor], spec: str) -> Program:
    program: Program | None = getattr(tensors[0], "_incidence", None)
    return _restore(tensors, spec) if program is None else program


def _sizes(stack: StackPlan) -> list[int]:
    return [
        stack.num_structures,
        *stack.row_ptr,
        *stack.level_ptr,
        *stack.num_reads.sum(axis=2).ravel().tolist(),
    ]


def _different(program: Program) -> list[StackPlan]:
    """The lists of the different stacks, in the order of the layout."""
    layout = program.products.layout
    known = {stack.layout: stack.plan for stack in program.inputs + program.outputs}
    return [known[stack] for stack in layout.stacks]


def _restore(tensors: Sequence[Tensor], spec: str) -> Program:
    layout, products, aggregations, keys = _static(spec)
    flat = iter(tensors)
    sizes = iter(next(flat).tolist())
    for _ in layout.map.outputs:
        next(flat)
    plans = {stack: _restore_stack(stack, sizes, flat) for stack in layout.stacks}
    partners = {key: found for key in keys if (found := _restore_partners(sizes, flat)) is not None}

    def side(tensors_of: Stacks, stacks: Sequence[BagLayout]) -> tuple[Stack, ...]:
        return tuple(
            Stack(members, stack, plans[stack])
            for members, stack in zip(tensors_of, stacks, strict=True)
        )

    inputs, outputs = (
        side(layout.input_stacks, layout.inputs),
        side(layout.output_stacks, layout.outputs),
    )
    return Program(inputs, outputs, products, partners, aggregations)


def _num_tensors(stack: BagLayout) -> int:
    """How many tensors the lists of a stack are."""
    return len(StackLists._fields) + len(StackSigns._fields) * stack.is_signed


def _restore_stack(stack: BagLayout, sizes: Iterator[int], flat: Iterator[Tensor]) -> StackPlan:
    num_structures, num_tensors, num_levels = (
        next(sizes),
        len(stack.patterns),
        len(stack.all_levels),
    )
    row_ptr, level_ptr = (
        tuple(next(sizes) for _ in range(count + 1)) for count in (num_tensors, num_levels)
    )
    num_reads = np.array([next(sizes) for _ in range(num_tensors * num_levels)]).reshape(
        num_tensors, num_levels, 1
    )
    lists = StackLists(*(next(flat) for _ in StackLists._fields))
    signs = StackSigns(*(next(flat) for _ in StackSigns._fields)) if stack.is_signed else None
    return StackPlan(
        row_ptr,
        num_structures,
        stack.num_slots,
        level_ptr,
        lists,
        num_reads,
        stack.single_nodes,
        signs,
    )


def _restore_partners(sizes: Iterator[int], flat: Iterator[Tensor]) -> Partners | None:
    is_there, *has = (next(sizes) for _ in range(1 + _OF_PARTNERS))
    lists = [next(flat)[_PAD:] for _ in range(_OF_PARTNERS)]
    targets, sources, signs = (
        listed if has_it else None for listed, has_it in zip(lists, has, strict=True)
    )
    return Partners(targets, sources, np.zeros(0, dtype=np.int64), signs) if is_there else None


@torch.library.custom_op(
    f"incidence::layer_{_VERSION}",
    mutates_args=(),
    schema="(Tensor[] xs, Tensor[] weights, Tensor[] biases, Tensor[] tensors, str spec) -> Tensor[]",
)
def _layer(
    xs: list[Tensor], weights: list[Tensor], biases: list[Tensor], tensors: list[Tensor], spec: str
) -> list[Tensor]:
    program = _program(tensors, spec)
    for x, count in zip(xs, program.num_rows, strict=True):
        if x.ndim != 2 or x.shape[0] != count:
            raise IncidenceError(
                f"features must have shape [{count}, channels], a row for each entry; got {list(x.shape)}."
            )
    kept = xs[0].new_empty(_num_kept(xs, weights, tensors, spec))
    return [
        *_apart(
            run_forward(program, xs, weights, [b if b.numel() else None for b in biases], kept)
        ),
        kept,
    ]


def _num_kept(
    xs: Sequence[Tensor], weights: Sequence[Tensor], tensors: Sequence[Tensor], spec: str
) -> int:
    """How many floats the compiled library keeps for the way back, at most; none where it is not used."""
    layout, products, aggregations, _ = _static(spec)
    if not is_native(products, aggregations, xs[0]):
        return 0
    before = layout.stacks[: layout.numbers_in[0]]
    at = (
        1 + len(layout.map.outputs) + sum(map(_num_tensors, before))
    )  # where the lists of the inputs are
    rows_ptr = StackLists(*tensors[at : at + len(StackLists._fields)]).rows_ptr
    return most_kept(products, rows_ptr.shape[0] - 1, xs[0].shape[1], weights[0].shape[-1])


def _apart(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The same, none of which shares memory with another: the outputs of an operator must not."""
    seen: set[int] = set()
    found = []
    for tensor in tensors:
        memory = tensor.untyped_storage().data_ptr()
        found.append(tensor.clone() if memory in seen else tensor)
        seen.add(memory)
    return found


@_layer.register_fake
def _(
    xs: list[Tensor], weights: list[Tensor], biases: list[Tensor], tensors: list[Tensor], spec: str
) -> list[Tensor]:
    layout, products, _, _ = _static(spec)
    ys = [
        xs[0].new_empty(
            entries.shape[0],
            weights[products.stack_pairs[0, layout.place_out(t).stack].weights[0]].shape[-1],
        )
        for t, entries in enumerate(tensors[1 : 1 + len(layout.map.outputs)])
    ]
    return [*ys, xs[0].new_empty(_num_kept(xs, weights, tensors, spec))]


@torch.library.custom_op(
    f"incidence::layer_backward_{_VERSION}",
    mutates_args=(),
    schema="(Tensor[] grads, Tensor[] xs, Tensor[] weights, Tensor[] biases, Tensor[] tensors, Tensor kept, str spec) -> Tensor[]",
)
def _layer_backward(
    grads: list[Tensor],
    xs: list[Tensor],
    weights: list[Tensor],
    biases: list[Tensor],
    tensors: list[Tensor],
    kept: Tensor,
    spec: str,
) -> list[Tensor]:
    has_bias = [b.numel() > 0 for b in biases]
    d_xs, d_weights, d_biases = run_backward(
        _program(tensors, spec), xs, weights, grads, has_bias, kept
    )
    found = [*(d for d in d_xs if d is not None), *d_weights]
    return _apart(
        [
            *found,
            *(
                torch.empty_like(b) if d is None else d
                for b, d in zip(biases, d_biases, strict=True)
            ),
        ]
    )


@_layer_backward.register_fake
def _(
    grads: list[Tensor],
    xs: list[Tensor],
    weights: list[Tensor],
    biases: list[Tensor],
    tensors: list[Tensor],
    kept: Tensor,
    spec: str,
) -> list[Tensor]:
    return [
        torch.empty_like(t, memory_format=torch.contiguous_format) for t in (*xs, *weights, *biases)
    ]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    xs, weights, biases, tensors, spec = inputs
    ctx.sizes, ctx.spec = (len(xs), len(weights), len(biases), len(tensors)), spec
    ctx.save_for_backward(*xs, *weights, *biases, *tensors, output[-1])


def _adjoint(ctx: Any, grads: list[Tensor]) -> tuple[Any, ...]:
    saved = iter(ctx.saved_tensors)
    xs, weights, biases, tensors = (list(islice(saved, size)) for size in ctx.sizes)
    found = _layer_backward(
        [g.contiguous() for g in grads[:-1]], xs, weights, biases, tensors, next(saved), ctx.spec
    )
    split = len(xs), len(xs) + len(weights)
    return (
        found[: split[0]],
        found[split[0] : split[1]],
        found[split[1] :],
        [None] * len(tensors),
        None,
    )


_layer.register_autograd(_adjoint, setup_context=_setup)


@torch.library.custom_op(
    f"incidence::unplanned_{_VERSION}",
    mutates_args=(),
    schema="(Tensor like, SymInt[] shape) -> Tensor",
)
def _unplanned(like: Tensor, shape: Sequence[int]) -> Tensor:
    raise IncidenceError(NO_PLAN)


@_unplanned.register_fake
def _(like: Tensor, shape: Sequence[int]) -> Tensor:
    return like.new_empty(shape)


_unplanned.register_autograd(lambda ctx, grad: (None, None))  # which is recorded, and never reached


def unplanned(like: Tensor, *shape: int) -> Tensor:
    """A step in place of a layer without a plan, with the shape of its result, which says what to call when the graph runs."""
    found: Tensor = _unplanned(like, shape)
    return found


def traced_apply(
    flat: Flat, xs: list[Tensor], weights: list[Tensor], biases: Sequence[Tensor | None]
) -> list[Tensor]:
    """`engine.apply` as one operator; a missing bias is an empty tensor. From plain lists it is plain steps."""
    if isinstance(flat, PlainFlat):
        return _plain_apply(flat, xs, weights, biases)
    ys: list[Tensor] = _layer(
        xs,
        weights,
        [xs[0].new_zeros(0) if b is None else b for b in biases],
        flat.tensors,
        flat.spec,
    )
    return ys[:-1]


def _plain_apply(
    flat: Flat, xs: list[Tensor], weights: list[Tensor], biases: Sequence[Tensor | None]
) -> list[Tensor]:
    layout, products, aggregations, _ = _static(flat.spec)
    tensors = iter(flat.tensors)
    num_entries = [next(tensors).shape[0] for _ in layout.map.outputs]
    stacks = {
        stack: [_next_level(tensors, stack) for _ in stack.all_levels] for stack in layout.stacks
    }
    is_signed = any(stack.is_signed for stack in layout.stacks)
    partners = [
        PartnerLists(next(tensors), next(tensors), next(tensors) if is_signed else None)
        for _ in products.of_partners
    ]
    return plain_layer(products, aggregations, stacks, partners, num_entries, xs, weights, biases)


def prepare_plain(text: str, weights: Sequence[Tensor]) -> None:
    """Finds out how the matrices of a layer are gathered from its weights, which cannot be done while a graph is recorded; it is kept."""
    Big.of(_static(text).products, weights)


def _next_level(tensors: Iterator[Tensor], stack: BagLayout) -> LevelLists:
    return LevelLists(
        next(tensors), next(tensors), next(tensors), next(tensors) if stack.is_signed else None
    )


def flatten_readout(plan: Plan) -> Flat:
    """The stacks of a readout: for each a tensor of shape (structures, 0), sizes, and lists."""
    tensors = []
    for stack in plan.inputs:
        sizes = _known_by(torch.tensor(_sizes(stack)), stack)
        tensors += [torch.zeros(stack.num_structures, 0, device=plan.device), sizes, *stack.lists]
    return Flat(tensors, readout_text(plan))


def readout_text(plan: Plan) -> str:
    """What the readout is, as a text."""
    said = {
        "map": str(plan.layout.map),
        "max_overlap": plan.layout.map.max_overlap,
        "stacks": plan.layout.input_stacks,
    }
    return json.dumps(said)


@lru_cache(maxsize=256)
def _readout_layout(spec: str) -> MapLayout:
    said = json.loads(spec)
    return layout_of(
        EquivariantMap(said["map"], said["max_overlap"]), tuple(map(tuple, said["stacks"]))
    )


def _restore_readout(tensors: Sequence[Tensor], spec: str, number: int) -> StackPlan:
    _, sizes, *lists = tensors
    known: StackPlan | None = getattr(sizes, "_incidence", None)
    return (
        known
        if known is not None
        else _restore_stack(_readout_layout(spec).inputs[number], iter(sizes.tolist()), iter(lists))
    )


@torch.library.custom_op(
    f"incidence::readout_{_VERSION}",
    mutates_args=(),
    schema="(Tensor x, Tensor[] tensors, str spec, int number, str name, int version) -> Tensor",
)
def _readout(
    x: Tensor, tensors: list[Tensor], spec: str, number: int, name: str, version: int
) -> Tensor:
    [rows], _ = known_aggregation(name, version).pool(
        x.contiguous(), _restore_readout(tensors, spec, number)
    )
    return rows.clone()


@_readout.register_fake
def _(x: Tensor, tensors: list[Tensor], spec: str, number: int, name: str, version: int) -> Tensor:
    return x.new_empty(
        tensors[0].shape[0], _readout_layout(spec).inputs[number].num_slots[0] * x.shape[1]
    )


@torch.library.custom_op(
    f"incidence::readout_backward_{_VERSION}",
    mutates_args=(),
    schema="(Tensor grad, Tensor x, Tensor[] tensors, str spec, int number, str name, int version) -> Tensor",
)
def _readout_backward(
    grad: Tensor, x: Tensor, tensors: list[Tensor], spec: str, number: int, name: str, version: int
) -> Tensor:
    stack, aggregation = _restore_readout(tensors, spec, number), known_aggregation(name, version)
    d_x = torch.zeros_like(x, memory_format=torch.contiguous_format)
    aggregation.add_adjoint(
        d_x,
        grad.reshape(-1, x.shape[1]),
        x.contiguous(),
        aggregation.pool(x.contiguous(), stack),
        stack,
    )
    return d_x


@_readout_backward.register_fake
def _(
    grad: Tensor, x: Tensor, tensors: list[Tensor], spec: str, number: int, name: str, version: int
) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _setup_readout(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, tensors, *ctx.static = inputs
    ctx.save_for_backward(x, *tensors)


def _readout_adjoint(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    x, *tensors = ctx.saved_tensors
    return (
        _readout_backward(grad, x, tensors, *ctx.static),
        [None] * len(tensors),
        None,
        None,
        None,
        None,
    )


_readout.register_autograd(_readout_adjoint, setup_context=_setup_readout)

_OF_READOUT = 2 + len(StackLists._fields)
_OF_LEVEL = 3  # plain lists of a level without signs


def traced_readout(flat: Flat, x: Tensor, number: int, aggregation: Aggregation) -> Tensor:
    """`pool_structures` of one stack as one operator; from plain lists, as plain steps."""
    if isinstance(flat, PlainFlat):
        lists = LevelLists(*flat.tensors[number * _OF_LEVEL : (number + 1) * _OF_LEVEL])
        return pool_level(x, lists, aggregation)
    tensors = flat.tensors[number * _OF_READOUT : (number + 1) * _OF_READOUT]
    found: Tensor = _readout(x, tensors, flat.spec, number, aggregation.name, aggregation.version)
    return found
