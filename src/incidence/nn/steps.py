"""Modules as steps of a compiled network, where `engine/compiled` is there.

A module that can be a part of one has a writer: it takes the values that come in, and writes the
steps of the module into a program. Whatever has no writer is computed by modules, and so is
everything while somebody hooks into a module, differentiates twice, or uses another device or type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.pattern import Pattern
from incidence.engine.dropout import NUM_CHOICES
from incidence.structure import Structure

try:
    from incidence.engine.compiled.node import Network, is_available
    from incidence.engine.compiled.program import CannotCompileError, Program, Value
except ModuleNotFoundError:  # the folder may be deleted
    CannotCompileError = Exception  # type: ignore[assignment,misc]
    Network = Program = Value = None  # type: ignore[assignment,misc]

    def is_available() -> bool:
        """Return that nothing can be compiled."""
        return False


__all__ = [
    "CannotCompileError",
    "CompiledSlot",
    "activation_name",
    "compiled_forward",
    "each",
    "write",
    "write_dropout",
    "writes",
]

Values = Any
"""A value of a program, or a dict of values by the key of their tensor."""

_WRITERS: dict[type[nn.Module], Callable[[Any, Any, Values], Values]] = {}


def writes(kind: type[nn.Module]) -> Callable[[Any], Any]:
    """Make a function the writer of a kind of modules: `writer(program, module, values)`."""

    def register(writer: Any) -> Any:
        _WRITERS[kind] = writer
        return writer

    return register


def write(program: Any, module: nn.Module, x: Values) -> Values:
    """Write the steps of a module, and return its values.

    Raises:
        CannotCompileError: It has no writer, or is not as its writer expects it.
    """
    writer = _WRITERS.get(type(module))
    if writer is None:
        raise CannotCompileError(f"a {type(module).__name__}")
    return writer(program, module, x)


class CompiledSlot:
    """Where a module keeps its compiled network. Copies of a module start without one.

    Attributes:
        network: The compiled network; None if there is none.
        is_tried: Whether it was tried to make one.
        output_keys: The keys of the outputs; None if the output is a lone tensor.
    """

    def __init__(self) -> None:
        self.network: Any = None
        self.is_tried = False
        self.output_keys: list[str] | None = None

    def outputs(self, ys: Sequence[Tensor]) -> Any:
        """Return outputs as the module does."""
        return ys[0] if self.output_keys is None else dict(zip(self.output_keys, ys, strict=True))

    def __deepcopy__(self, memo: Any) -> CompiledSlot:
        return CompiledSlot()

    def __reduce__(self) -> tuple[type[CompiledSlot], tuple[()]]:
        return CompiledSlot, ()


def compiled_forward(
    slot: CompiledSlot,
    module: nn.Module,
    patterns: Mapping[str, Pattern],
    xs: Sequence[Tensor],
    structure: Structure,
) -> Sequence[Tensor] | None:
    """Return the outputs of a module by its compiled network; None where modules compute them.

    Args:
        slot: Where the module keeps it.
        module: The module.
        patterns: The tensors that it reads, by the keys of their features.
        xs: The features, in that order.
        structure: The structure.
    """
    if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return None
    if structure.world is not None:  # steps between processes are not compiled
        return None
    if not slot.is_tried:
        if not is_available():  # a network that is there looks itself whether it may run
            return None
        slot.network = _compiled(slot, module, patterns, xs)
        slot.is_tried = slot.network is not None or not _is_lazy(module)
    if slot.network is None or slot.network.is_spread:
        return None
    outputs: Sequence[Tensor] | None = slot.network.run(xs, structure)
    return outputs


def _is_lazy(module: nn.Module) -> bool:
    """Return whether some parameter has no shape yet."""
    return any(isinstance(p, nn.UninitializedParameter) for p in module.parameters())


def _compiled(
    slot: CompiledSlot,
    module: nn.Module,
    patterns: Mapping[str, Pattern],
    xs: Sequence[Tensor],
) -> Any:
    """Return the compiled network of a module; None if some part of it has no writer."""
    if _is_lazy(module) or any(x.ndim != 2 for x in xs):
        return None
    program, keys = Program(), list(patterns)
    values = {
        key: program.input(program.count("entries", pattern), x.shape[1])
        for (key, pattern), x in zip(patterns.items(), xs, strict=True)
    }
    try:
        made = write(program, module, _lone(values))
    except CannotCompileError:
        return None
    outputs = list(made.values()) if isinstance(made, dict) else [made]
    if any(y in program.inputs for y in outputs) or len({*outputs}) < len(outputs):
        return None
    program.outputs = outputs
    slot.output_keys = list(made) if isinstance(made, dict) else None

    def replay(again: Sequence[Tensor], structure: Structure) -> list[Tensor]:
        y = module(_lone(dict(zip(keys, again, strict=True))), structure)
        return list(y.values()) if isinstance(y, dict) else [y]

    return Network(module, program, replay)


def _lone(values: dict[str, Any]) -> Any:
    return values if len(values) > 1 else next(iter(values.values()))


def each(x: Values, change: Callable[[Any], Any]) -> Values:
    """Return what a change makes of every value."""
    if isinstance(x, dict):
        return {key: change(value) for key, value in x.items()}
    return change(x)


@writes(nn.Linear)
def _linear(program: Any, module: nn.Linear, x: Values) -> Values:
    return each(x, lambda value: program.dense(value, module))


@writes(nn.Identity)
def _identity(program: Any, module: nn.Identity, x: Values) -> Values:
    return x


@writes(nn.Dropout)
def _dropout(program: Any, module: nn.Dropout, x: Values) -> Values:
    if isinstance(x, dict):
        raise CannotCompileError("dropout of several tensors at once")
    num_dropped = 1 if module.p else 0  # a mask says which
    if module.p == 1:
        num_dropped = NUM_CHOICES
    return program.dropout([x], module, num_dropped, is_bits=False)[0]


def write_dropout(program: Any, module: Any, x: Values) -> Values:
    """Write our own dropout, which draws the masks of all tensors at once."""
    num_dropped = round(module.p * NUM_CHOICES)
    values = list(x.values()) if isinstance(x, dict) else [x]
    kept = program.dropout(values, module, num_dropped, is_bits=True)
    return dict(zip(x, kept, strict=True)) if isinstance(x, dict) else kept[0]


ACTIVATIONS: dict[Any, str] = {
    torch.relu: "relu",
    torch.tanh: "tanh",
    torch.sin: "sin",
    nn.functional.relu: "relu",
    nn.functional.gelu: "gelu",
    nn.functional.silu: "silu",
    nn.functional.elu: "elu",
    nn.functional.softshrink: "softshrink",
    nn.Identity: "none",
    nn.ReLU: "relu",
    nn.Tanh: "tanh",
    nn.SiLU: "silu",
}
"""Functions and modules that the compiled network knows, by name."""


def activation_name(function: Any) -> str:
    """Return the name of an activation.

    Raises:
        CannotCompileError: The compiled network does not know it.
    """
    known = ACTIVATIONS.get(type(function)) or ACTIVATIONS.get(function)
    if known is None:
        raise CannotCompileError(f"the activation {function!r}")
    return known
