"""What a network needs around its linear layers: each module takes and gives the tensors of one
side, and is equivariant.

The tensors of a side are written as in a map, for example `i, {i j}`. Modules that treat entries
alike take any tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.pattern import Pattern
from incidence.engine.dropout import NUM_CHOICES, keep_masks, traced_keep_mask
from incidence.errors import IncidenceError
from incidence.nn.composition import (
    Side,
    act_on_all,
    follow_all,
    needs_plan,
    new_plan_number,
    plan_modules,
    takes_structure,
    unknown,
)
from incidence.nn.odd import assert_odd
from incidence.nn.steps import (
    CompiledSlot,
    activation_name,
    compiled_forward,
    each,
    write,
    write_dropout,
    writes,
)
from incidence.nn.tensors import Values, key_of, takes_examples
from incidence.notebook import html_of
from incidence.structure import Structure

__all__ = ["Activation", "Dropout", "Residual", "Sequential"]


def _map(x: Values, change: Callable[[Tensor], Tensor]) -> Any:
    return {key: change(value) for key, value in x.items()} if isinstance(x, Mapping) else change(x)


Function = Callable[[Tensor], Tensor]


class Activation(nn.Module):
    """Applies a function to every value; by default ReLU.

    Args:
        function: A function of one tensor, such as `torch.relu` or a module like `nn.GELU()`; or a
            dict of such by tensor. Values of oriented faces take odd functions only: `torch.tanh`,
            `nn.Softshrink()`, `inc.nn.Gate(channels)`.

    Raises:
        IncidenceError: A function that is not odd is given for a tensor with oriented faces. If the
            tensors are not named, `Sequential` refuses such a function.

    Example:
        >>> activation = Activation({"i": torch.relu, "<i j>": torch.tanh})
        >>> edge = Structure(2, {"<i j>": [[0], [1]]})
        >>> y = activation({"i": -torch.ones(2, 1), "<i j>": -torch.ones(1, 1)}, edge)
        >>> y["i"].tolist(), y["<i j>"].item() < 0
        ([[0.0], [0.0]], True)
    """

    def __init__(self, function: Function | Mapping[str, Function] = torch.relu) -> None:
        super().__init__()
        by_tensor = (
            {Pattern(key): one for key, one in function.items()}
            if isinstance(function, Mapping)
            else {}
        )
        self.function = None if isinstance(function, Mapping) else function
        wrong = [one for one in by_tensor.values() or [self.function] if not callable(one)]
        if wrong:
            raise IncidenceError(
                f"an activation is a function of a tensor, such as torch.relu; got {wrong[0]!r}."
            )
        for pattern, one in by_tensor.items():
            assert_odd(one, pattern)
        self.patterns = tuple(by_tensor) or None  # the tensors, if the caller named them
        if by_tensor:
            self.keys = [key_of(pattern) for pattern in by_tensor]
            self.functions = nn.ModuleList(
                one if isinstance(one, nn.Module) else _Pointwise(one) for one in by_tensor.values()
            )

    @takes_examples
    def forward(self, x: Values, structure: Structure) -> Any:
        """Apply the function to every tensor."""
        if self.function is not None:
            return _map(x, self.function)
        if not isinstance(x, Mapping):
            return self.functions[0](x)
        return {
            key: function(x[key]) for key, function in zip(self.keys, self.functions, strict=True)
        }

    def follow(self, side: Side | None) -> Side | None:
        """Return the same tensors; refuses a function that would lose the sign of an oriented
        one.
        """
        if self.function is None:
            return unknown(self.patterns or ())
        return side if side is None else act_on_all(self.function, side)

    def extra_repr(self) -> str:
        """Return the function."""
        return (
            ""
            if self.function is None or isinstance(self.function, nn.Module)
            else _name_of(self.function)
        )


class _Pointwise(nn.Module):
    """A plain function as a module."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)

    def extra_repr(self) -> str:
        return _name_of(self.function)


def _name_of(function: Function) -> str:
    return getattr(function, "__name__", repr(function))


class Dropout(nn.Module):
    """Sets values to 0 with a given probability while training, each on its own, and scales the
    rest.

    A value is kept or not by sixteen random bits, which are drawn four values at a time: several
    times faster than torch's own on a CPU. So the probability is rounded to a multiple of 2^-16,
    and values are scaled by what it is then.

    Args:
        p: The probability.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p <= 1:
            raise IncidenceError(f"dropout is a probability, from 0 to 1; got {p!r}.")
        self.p = p

    @takes_examples
    def forward(self, x: Values, structure: Structure) -> Any:
        """Apply dropout to every tensor."""
        num_dropped = round(self.p * NUM_CHOICES)
        if not self.training or not num_dropped:
            return x
        if num_dropped == NUM_CHOICES:
            # keeps NaN, as torch does
            return _map(x, lambda value: value * torch.zeros_like(value))
        if torch.compiler.is_compiling():
            return _map(x, lambda value: value * traced_keep_mask(value, num_dropped))
        values = list(x.values()) if isinstance(x, Mapping) else [x]
        # one draw for all tensors
        masks = keep_masks([value.shape for value in values], num_dropped, values[0])
        kept = [value * mask for value, mask in zip(values, masks, strict=True)]
        return dict(zip(x, kept, strict=True)) if isinstance(x, Mapping) else kept[0]

    def follow(self, side: Side | None) -> Side | None:
        """Return the same tensors: 0 has no sign."""
        return side

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}"


class Sequential(nn.Sequential):
    """Modules one after the other: those that take a structure are called with it, others act on
    every tensor.

    Raises:
        IncidenceError: A function that is not odd, such as ReLU, would be applied to a tensor with
            oriented faces.
    """

    def __init__(self, *modules: Any) -> None:
        super().__init__(*modules)
        self.plan_number = new_plan_number()
        for module in self:
            # Exactly torch's class: ours is one of its subclasses, and passes the structure on.
            if type(module) is nn.Sequential and any(map(takes_structure, module)):
                raise IncidenceError(
                    "a torch Sequential passes no structure along: use inc.nn.Sequential inside as"
                    " well."
                )
        self._slot = CompiledSlot()
        self.follow(None)

    @property
    def parts(self) -> list[nn.Module]:
        """The modules."""
        return list(self)

    def follow(self, side: Side | None) -> Side | None:
        """Return the tensors that come out; refuses modules that would lose the sign of oriented
        ones.
        """
        return follow_all(self, side)

    def append(self, module: nn.Module) -> Sequential:
        """Add a module at the end."""
        super().append(module)
        self.follow(None)
        return self

    def insert(self, index: int, module: nn.Module) -> Sequential:
        """Add a module before another."""
        super().insert(index, module)
        self.follow(None)
        return self

    def __setitem__(self, index: Any, module: nn.Module) -> None:
        """Put a module in the place of another."""
        super().__setitem__(index, module)
        self.follow(None)

    _repr_html_ = html_of

    @takes_examples
    def forward(self, x: Values, structure: Structure) -> Any:
        """Apply the modules in turn."""
        if torch.compiler.is_compiling() and needs_plan(self, structure):
            from incidence.nn import untraced

            untraced.plan(self, structure)
        ys = self._compiled(x, structure)
        if ys is not None:
            return self._slot.outputs(ys)
        for module in self:
            x = module(x, structure) if takes_structure(module) else _map(x, module)
        return x

    def _compiled(self, x: Values, structure: Structure) -> Sequence[Tensor] | None:
        """Return the outputs by a compiled network, which must start with a layer that names its
        inputs; None where modules compute them.
        """
        patterns = getattr(self[0], "_patterns", None) if len(self) > 1 else None
        if not isinstance(patterns, dict) or not isinstance(structure, Structure):
            return None
        # a lone tensor has no key
        by_key = x if isinstance(x, dict) else dict.fromkeys(patterns, x)
        xs = [by_key[key] for key in patterns if key in by_key]
        # modules say what is missing
        if len(xs) < len(patterns) or (isinstance(x, Tensor) and len(patterns) > 1):
            return None
        return compiled_forward(self._slot, self, patterns, xs, structure)

    def plan(self, structure: Structure) -> None:
        """Make the index lists of all modules for a structure: needed before tracing."""
        plan_modules(self, structure)


class Residual(nn.Module):
    """Adds the input of a module to its output; tensors that the module leaves out pass through."""

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        wrong = [m for m in modules if not isinstance(m, nn.Module)]
        if wrong or not modules:
            raise IncidenceError(
                f"a residual is made of modules; got {wrong[0]!r}."
                if wrong
                else "a residual needs a module."
            )
        self.inner = modules[0] if len(modules) == 1 else Sequential(*modules)
        self.follow(None)

    @property
    def parts(self) -> list[nn.Module]:
        """The module inside."""
        return [self.inner]

    def follow(self, side: Side | None) -> Side | None:
        """Return the tensors that went in; refuses what the module inside must not do to them."""
        follow_all([self.inner], side)
        return side

    @takes_examples
    def forward(self, x: Values, structure: Structure) -> Any:
        """Return the input plus what the module makes of it."""
        y = self.inner(x, structure) if takes_structure(self.inner) else _map(x, self.inner)
        if not isinstance(y, Mapping) or not isinstance(x, Mapping):
            return self._add(x, y, "the tensor")
        extra = [key for key in y if key not in x]
        if extra:
            raise IncidenceError(
                f"the module of a residual returns tensors of its input; it returned {extra[0]!r},"
                " which is no input."
            )
        return {
            key: self._add(value, y[key], key) if key in y else value for key, value in x.items()
        }

    @staticmethod
    def _add(x: Any, y: Any, key: str) -> Tensor:
        if not isinstance(x, Tensor) or not isinstance(y, Tensor) or x.shape != y.shape:
            shapes = [list(v.shape) if isinstance(v, Tensor) else type(v).__name__ for v in (x, y)]
            raise IncidenceError(
                f"a residual needs equal shapes for {key!r}; got {shapes[0]} and {shapes[1]}."
            )
        return x + y


# ---- steps of a compiled network


@writes(Dropout)
def _write_dropout(program: Any, module: Dropout, x: Any) -> Any:
    return write_dropout(program, module, x)


@writes(Activation)
def _write_activation(program: Any, module: Activation, x: Any) -> Any:
    if module.function is not None:
        name = activation_name(module.function)
        return each(x, lambda value: program.activation(value, name))
    functions = [f.function if type(f) is _Pointwise else f for f in module.functions]
    names = dict(zip(module.keys, map(activation_name, functions), strict=True))
    if not isinstance(x, dict):
        return program.activation(x, names[module.keys[0]])
    return {key: program.activation(x[key], name) for key, name in names.items()}


@writes(Sequential)
def _write_sequential(program: Any, module: Sequential, x: Any) -> Any:
    for part in module:
        x = write(program, part, x)
    return x


@writes(Residual)
def _write_residual(program: Any, module: Residual, x: Any) -> Any:
    # The input is read again at the end, so that its last step must stay as it is.
    program.close(x.values() if isinstance(x, dict) else [x])
    y = write(program, module.inner, x)
    if not isinstance(x, dict) or not isinstance(y, dict):
        return program.add(x, y)
    return {key: program.add(value, y[key]) if key in y else value for key, value in x.items()}
