"""Structures as trees of tensors, so that tracing can take them apart and put them together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.data import cache_of
from incidence.structure.structure import Structure

__all__ = ["NO_PLAN", "Flat", "flat_of"]


@dataclass(frozen=True)
class Flat:
    """What a layer needs of a structure, as plain tensors and a text with all that is static."""

    tensors: list[Tensor]
    spec: str


NO_PLAN = (
    "call layer.plan(structure), or net.plan(structure), before tracing: the lists cannot be made while a graph is recorded. For "
    "products and softmax outside of layers there is incidence.nn.functional.plan_einsum(text, structure), and plan_softmax."
)


def flat_of(structure: Structure, key: str) -> Flat | None:
    """What a layer left on a structure before tracing.

    None if it left nothing and `torch.compile` records a graph: an error raised now would be one of the compiler, in its words. The
    layer then records a step that raises it.

    Raises:
        IncidenceError: It left nothing.
    """
    flats = structure._cache.get(Flat, {})  # not `cache_of`, which may write
    found: Flat | None = flats.get(key)
    if found is None and (_is_exporting() or not torch.compiler.is_dynamo_compiling()):
        raise IncidenceError(NO_PLAN)
    return found


_is_exporting: Any = getattr(torch.compiler, "is_exporting", lambda: False)  # since torch 2.7


def _flats(structure: Structure) -> dict[Any, Flat]:
    """What layers left here before tracing, by the layer."""
    return cache_of(structure, Flat)


def _flatten(structure: Structure) -> tuple[list[Any], Any]:
    sorts = tuple(structure._node_ptr)
    patterns = tuple((str(p), len(parts)) for p, parts in structure._index.items())
    flats = tuple(
        (key, flat.spec, len(flat.tensors)) for key, flat in sorted(_flats(structure).items())
    )
    tensors = [
        *structure._node_ptr.values(),
        *(part for parts in structure._index.values() for part in parts),
        *structure._entry_ptr.values(),
        *(tensor for _, flat in sorted(_flats(structure).items()) for tensor in flat.tensors),
    ]
    return tensors, (sorts, patterns, flats)


def _unflatten(tensors: Any, context: Any) -> Structure:
    sorts, patterns, flats = context
    rest = iter(tensors)
    node_ptr = {sort: next(rest) for sort in sorts}
    index = {Pattern(text): tuple(next(rest) for _ in range(count)) for text, count in patterns}
    entry_ptr = {pattern: next(rest) for pattern in index}
    structure = Structure._of(node_ptr, index, entry_ptr)
    _flats(structure).update(
        {key: Flat([next(rest) for _ in range(count)], spec) for key, spec, count in flats}
    )
    return structure


def _flatten_with_keys(structure: Structure) -> Any:
    tensors, context = _flatten(structure)
    return [(pytree.SequenceKey(i), t) for i, t in enumerate(tensors)], context


pytree.register_pytree_node(
    Structure,
    _flatten,
    _unflatten,
    serialized_type_name="incidence.Structure",
    to_dumpable_context=lambda context: context,
    from_dumpable_context=lambda context: tuple(
        tuple(map(tuple, part)) if i else tuple(part) for i, part in enumerate(context)
    ),
    flatten_with_keys_fn=_flatten_with_keys,
)
