"""Structures as trees of tensors, so that tracing can take them apart and put them together."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.structure import Structure

__all__ = [
    "NO_PLAN",
    "Recorded",
    "constant_while_tracing",
    "has_recorded",
    "may_split",
    "recorded",
    "traced",
]

F = TypeVar("F", bound=Callable[..., Any])

NO_PLAN = (
    "call layer.plan(structure), or net.plan(structure), before tracing: the lists cannot be made"
    " while a graph is recorded. For products and softmax outside of layers there is"
    " incidence.nn.functional.plan_einsum(text, structure), and plan_softmax."
)


@dataclass(frozen=True)
class Recorded:
    """What a module needs of a structure while a graph is recorded.

    Attributes:
        tensors: Index lists.
        program: What is static about them, where the module alone does not decide it.
        counts: For each tensor of features one of shape (entries, 0), which tells how many entries
            there are; none where nothing is checked.
    """

    tensors: list[Tensor]
    program: str = ""
    counts: tuple[Tensor, ...] = ()


def recorded(structure: Structure) -> dict[str, Recorded]:
    """Return what modules left on a structure for tracing, by the key of each."""
    if structure.world is not None:  # steps between processes are not traced
        return {}
    return structure._recorded


def traced(structure: Structure, key: str) -> Recorded | None:
    """Return what a module left on a structure before tracing.

    None if it left nothing and `torch.compile` records a graph: an error raised now would be one of
    the compiler, in its words. The module then records a step that raises it.

    Raises:
        IncidenceError: It left nothing.
    """
    entry: Recorded | None = structure._recorded.get(key)
    if entry is None and (_is_exporting() or not torch.compiler.is_dynamo_compiling()):
        raise IncidenceError(NO_PLAN)
    return entry


def has_recorded(structure: Structure, key: str) -> bool:
    """Return whether a module left something on a structure; tracing can look through this."""
    return key in structure._recorded


_is_exporting: Any = getattr(torch.compiler, "is_exporting", lambda: False)  # since torch 2.7


def constant_while_tracing(function: F) -> F:
    """Make `torch.compile` call a function of texts while it records, and keep the result.

    `torch.compiler.assume_constant_result` sets the same attribute. It loads the compiler first,
    which takes as long as loading torch. If a version of torch ignores the attribute, the compiler
    looks into the function, and `fullgraph=True` fails at our parser: a test compares the two.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def may_split() -> bool:
    """Return whether `torch.compile` records a graph, and may split it."""
    return torch.compiler.is_dynamo_compiling() and _is_splittable()


@constant_while_tracing
def _is_splittable() -> bool:
    """Return whether the graph that is recorded may be split.

    It may not for `fullgraph=True` and for `torch.export`. Nothing public says so. If a version of
    torch says it elsewhere, `fullgraph=True` without a plan ends in torch's words, not in ours.
    """
    translator = sys.modules.get("torch._dynamo.symbolic_convert")
    if translator is None:
        return False
    try:
        return not translator.InstructionTranslator.current_tx().one_graph
    except AttributeError:
        return True


def _flatten(structure: Structure) -> tuple[list[Any], Any]:
    sorts = tuple(structure._node_ptr)
    patterns = tuple((str(p), len(parts)) for p, parts in structure._index.items())
    entries = sorted(recorded(structure).items())
    tensors = [
        *structure._node_ptr.values(),
        *(part for parts in structure._index.values() for part in parts),
        *structure._entry_ptr.values(),
        *(tensor for _, entry in entries for tensor in (*entry.tensors, *entry.counts)),
    ]
    lists = tuple(
        (key, entry.program, len(entry.tensors), len(entry.counts)) for key, entry in entries
    )
    return tensors, (sorts, patterns, lists)


def _unflatten(tensors: Any, context: Any) -> Structure:
    sorts, patterns, lists = context
    rest = iter(tensors)
    node_ptr = {sort: next(rest) for sort in sorts}
    index = {Pattern(text): tuple(next(rest) for _ in range(count)) for text, count in patterns}
    entry_ptr = {pattern: next(rest) for pattern in index}
    structure = Structure._of(node_ptr, index, entry_ptr)
    for key, program, *numbers in lists:
        own, counts = ([next(rest) for _ in range(number)] for number in numbers)
        recorded(structure)[key] = Recorded(own, program, tuple(counts))
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
