"""What a network needs around its linear layers: each module takes and gives the tensors of one side, and is equivariant.

The tensors of a side are written as in a map, for example `i, {i j}`. Modules that treat entries alike take any tensors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.kernels.aggregate import as_aggregations
from incidence.kernels.dropout import NUM_CHOICES, keep_masks, traced_keep_mask
from incidence.kernels.readout import pool_structures
from incidence.kernels.traced import flatten_readout, traced_readout
from incidence.nn.aggr import as_aggr
from incidence.nn.batch_norm import RowNorm
from incidence.nn.linear import Linear, as_channels
from incidence.nn.planned import Planned
from incidence.nn.tensors import Values, as_list, assert_distinct, assert_structure, key_of, per_tensor
from incidence.notebook import html_of
from incidence.plans import plan_of
from incidence.plans.layout import Stacks, by_width, layout_of
from incidence.structure import Structure
from incidence.structure.data import cache_of, orbit_rows, row_counts
from incidence.structure.pytree import Flat, flat_of

__all__ = ["Activation", "BatchNorm", "Dropout", "LayerNorm", "Readout", "Residual", "Sequential", "plan_modules"]


def _map(x: Values, change: Callable[[Tensor], Tensor]) -> Any:
    return {key: change(value) for key, value in x.items()} if isinstance(x, Mapping) else change(x)


class Activation(nn.Module):
    """Applies a function to every value; by default ReLU.

    Args:
        function: A function of one tensor, such as `torch.relu` or a module like `nn.GELU()`.
    """

    def __init__(self, function: Callable[[Tensor], Tensor] = torch.relu) -> None:
        super().__init__()
        if not callable(function):
            raise IncidenceError(f"an activation is a function of a tensor, such as torch.relu; got {function!r}.")
        self.function = function

    def forward(self, x: Values, structure: Structure) -> Any:
        """Applies the function to every tensor."""
        return _map(x, self.function)

    def extra_repr(self) -> str:
        """The function."""
        return "" if isinstance(self.function, nn.Module) else getattr(self.function, "__name__", repr(self.function))


class Dropout(nn.Module):
    """Sets values to 0 with a given probability while training, each on its own, and scales the rest.

    A value is kept or not by sixteen random bits, which are drawn four values at a time: several times faster than torch's own on a CPU.
    So the probability is rounded to a multiple of 2^-16, and values are scaled by what it is then.

    Args:
        p: The probability.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p <= 1:
            raise IncidenceError(f"dropout is a probability, from 0 to 1; got {p!r}.")
        self.p = p

    def forward(self, x: Values, structure: Structure) -> Any:
        """Applies dropout to every tensor."""
        num_dropped = round(self.p * NUM_CHOICES)
        if not self.training or not num_dropped:
            return x
        if num_dropped == NUM_CHOICES:
            return _map(x, lambda value: value * torch.zeros_like(value))
        if torch.compiler.is_compiling():
            return _map(x, lambda value: value * traced_keep_mask(value, num_dropped))
        values = list(x.values()) if isinstance(x, Mapping) else [x]
        masks = keep_masks([value.shape for value in values], num_dropped, values[0])
        kept = [value * mask for value, mask in zip(values, masks, strict=True)]
        return dict(zip(x, kept, strict=True)) if isinstance(x, Mapping) else kept[0]

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


def _side(text: str) -> tuple[Pattern, ...]:
    patterns = EquivariantMap(f"{text} -> ").inputs
    assert_distinct(patterns, text)
    return patterns


class _Norm(nn.Module):
    """A norm for every orbit of every tensor: a diagonal and the rest of a matrix have little to do with each other."""

    def __init__(self, text: str, channels: int | Mapping[str, int], make: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.patterns = _side(text)
        widths = [as_channels(c, "channels", 1) for c in per_tensor(self.patterns, channels, "channels")]
        self.norms = nn.ModuleList(
            nn.ModuleList(make(width) for _ in pattern.orbits) for pattern, width in zip(self.patterns, widths, strict=True)
        )
        self.channels = widths
        self._keys = [key_of(p) for p in self.patterns]

    def forward(self, x: Values, structure: Structure) -> Any:
        """Normalises every orbit of every tensor."""
        if torch.compiler.is_compiling():
            return self._normalised([x] if isinstance(x, Tensor) else [x[key] for key in self._keys], structure)
        xs = self._expected(x, structure) or self._checked(x, structure)
        try:
            return self._normalised(xs, structure)
        except RuntimeError:  # a look at everything takes longer than the norm
            self._checked(x, structure)
            raise

    def _normalised(self, xs: Sequence[Tensor], structure: Structure) -> Any:
        ys = [self._one(v, number, norms, structure) for number, (v, norms) in enumerate(zip(xs, self.norms, strict=True))]
        return ys[0] if len(ys) == 1 else dict(zip(self._keys, ys, strict=True))

    def _expected(self, x: Any, structure: Any) -> list[Tensor] | None:
        """The inputs if they have the shapes that they should have, as most do; None where they need a look."""
        values: list[Any] = [x] if isinstance(x, Tensor) else [x.get(key) for key in self._keys] if isinstance(x, dict) else []
        if not isinstance(structure, Structure) or not all(isinstance(value, Tensor) for value in values):
            return None
        shapes = [(rows, width) for rows, width in zip(row_counts(structure, self.patterns), self.channels, strict=True)]
        return values if [value.shape for value in values] == shapes else None

    def _checked(self, x: Any, structure: Structure) -> list[Tensor]:
        """The inputs after a look at everything; refuses what does not fit."""
        xs = as_list(self.patterns, x, structure, self.channels)
        dtype = next(self.parameters()).dtype
        for value in xs:
            if value.dtype != dtype and not torch.is_autocast_enabled(value.device.type):
                raise IncidenceError(f"the features are {value.dtype} and the norm is {dtype}: convert one, for example with .to({dtype}).")
        return xs

    def _one(self, x: Tensor, number: int, norms: Any, structure: Structure) -> Tensor:
        if len(norms) == 1:
            y: Tensor = norms[0](x)
            return y
        rows = self._rows(number, structure)
        parts = [norm(x[r]) for norm, r in zip(norms, rows, strict=True)]
        return torch.cat(parts)[torch.cat(rows).argsort()]

    def _rows(self, number: int, structure: Structure) -> list[Tensor]:
        """The rows of every orbit of a tensor: while tracing, as `plan` left them on the structure."""
        if torch.compiler.is_compiling():
            return flat_of(structure, f"rows {self._keys[number]}").tensors
        return orbit_rows(structure, self.patterns[number])

    def plan(self, structure: Structure) -> None:
        """Finds the orbits of tensors that have several, which tracing needs."""
        for pattern, key in zip(self.patterns, self._keys, strict=True):
            if len(pattern.orbits) > 1:
                cache_of(structure, Flat)[f"rows {key}"] = Flat(orbit_rows(structure, pattern), "")

    def extra_repr(self) -> str:
        """The tensors."""
        return repr(", ".join(map(str, self.patterns)))


class BatchNorm(_Norm):
    """Batch normalisation of every orbit of every tensor, over all its entries in the batch.

    Args:
        text: The tensors, for example `i, {i j}`.
        channels: For all, or a dict by tensor.
        momentum: Of the running statistics.
        eps: Added to the variance.
    """

    def __init__(self, text: str, channels: int | Mapping[str, int], momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__(text, channels, lambda width: RowNorm(width, eps=eps, momentum=momentum))


class LayerNorm(_Norm):
    """Normalisation of every entry over its channels, with a scale and a shift for every orbit of every tensor."""

    def __init__(self, text: str, channels: int | Mapping[str, int], eps: float = 1e-5) -> None:
        super().__init__(text, channels, lambda width: nn.LayerNorm(width, eps=eps))


def plan_modules(module: nn.Module, structure: Structure) -> None:
    """Makes all index lists that the modules inside of a module need of a structure; tracing needs them."""
    assert_structure(structure, call="plan(structure)")
    for inner in module.modules():
        if isinstance(inner, (Linear, Planned, Readout, _Norm)):
            inner.plan(structure)


class Sequential(nn.Sequential):
    """Modules one after the other: those that take a structure are called with it, others act on every tensor."""

    def __init__(self, *modules: Any) -> None:
        super().__init__(*modules)
        for module in self:
            if type(module) is nn.Sequential and any(map(takes_structure, module)):
                raise IncidenceError("a torch Sequential passes no structure along: use inc.nn.Sequential inside as well.")

    _repr_html_ = html_of

    def forward(self, x: Values, structure: Structure) -> Any:  # type: ignore[override]
        """Applies the modules in turn."""
        for module in self:
            x = module(x, structure) if takes_structure(module) else _map(x, module)
        return x

    def plan(self, structure: Structure) -> None:
        """Makes the index lists of all modules for a structure: needed before tracing."""
        plan_modules(self, structure)


def takes_structure(module: nn.Module) -> bool:
    """Whether a module is called with a structure: whether its `forward` takes a second argument."""
    inner = getattr(module, "_orig_mod", module)  # behind torch.compile
    if "forward" in inner.__dict__:  # someone has put another in its place
        return _num_needed(inner.forward) >= 2
    return _num_needed(type(inner).forward) >= 3  # with `self`


_NEEDED: dict[Callable[..., Any], int] = {}  # a plain dict: torch.compile does not trace through a cache


def _num_needed(function: Callable[..., Any]) -> int:
    """How many arguments a function needs by position; finding out takes longer than many a module."""
    if function not in _NEEDED:
        parameters = inspect.signature(function).parameters.values()
        _NEEDED[function] = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty for p in parameters)
    return _NEEDED[function]


class Residual(nn.Module):
    """Adds the input of a module to its output; tensors that the module leaves out pass through."""

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        wrong = [m for m in modules if not isinstance(m, nn.Module)]
        if wrong or not modules:
            raise IncidenceError(f"a residual is made of modules; got {wrong[0]!r}." if wrong else "a residual needs a module.")
        self.inner = modules[0] if len(modules) == 1 else Sequential(*modules)

    def forward(self, x: Values, structure: Structure) -> Any:
        """The input plus what the module makes of it."""
        y = self.inner(x, structure) if takes_structure(self.inner) else _map(x, self.inner)
        if not isinstance(y, Mapping) or not isinstance(x, Mapping):
            return self._add(x, y, "the tensor")
        extra = [key for key in y if key not in x]
        if extra:
            raise IncidenceError(f"a residual adds to what is there: the module gives {extra[0]!r}, which is no input.")
        return {key: self._add(value, y[key], key) if key in y else value for key, value in x.items()}

    @staticmethod
    def _add(x: Any, y: Any, key: str) -> Tensor:
        if not isinstance(x, Tensor) or not isinstance(y, Tensor) or x.shape != y.shape:
            shapes = [list(v.shape) if isinstance(v, Tensor) else type(v).__name__ for v in (x, y)]
            raise IncidenceError(f"a residual needs equal shapes for {key!r}; got {shapes[0]} and {shapes[1]}.")
        return x + y


class Readout(nn.Module):
    """Invariants of every structure: the statistics of every orbit of every tensor, side by side.

    Args:
        text: The tensors, for example `i, {i j}`.
        aggr: One aggregation or a list.

    Shape:
        Output: (structures, aggregations x orbits x channels, added up over the tensors).
    """

    def __init__(self, text: str, aggr: str | list[str] | tuple[str, ...] = "sum") -> None:
        super().__init__()
        self.patterns = _side(text)
        self.aggr = as_aggr(aggr)
        self._aggregations = as_aggregations(self.aggr)
        self._map = EquivariantMap.between(self.patterns, [Pattern("")])
        self._keys, self._key = [key_of(p) for p in self.patterns], f"readout {self._map!r}"  # of features, and of what is kept
        self._num_orbits = [len(p.orbits) for p in self.patterns]

    def out_channels(self, channels: int | Mapping[str, int]) -> int:
        """The number of output channels for given numbers of input channels."""
        widths: list[int] = per_tensor(self.patterns, channels, "channels")
        return len(self.aggr) * sum(len(p.orbits) * width for p, width in zip(self.patterns, widths, strict=True))

    def forward(self, x: Values, structure: Structure) -> Tensor:
        """The statistics of every structure."""
        if torch.compiler.is_compiling():
            xs = [x] if isinstance(x, Tensor) else [x[key] for key in self._keys]
        else:
            xs = as_list(self.patterns, x, structure, [None] * len(self.patterns))
        stacks = by_width([value.shape[1] for value in xs])
        parts: dict[int, Tensor] = {}
        for number, members in enumerate(stacks):
            stacked = xs[members[0]] if len(members) == 1 else torch.cat([xs[k] for k in members])  # (rows, channels)
            pooled = self._pool(stacked, structure, stacks, number)  # for each aggregation (structures, orbits x channels)
            by_orbit = torch.stack([one.view(one.shape[0], -1, stacked.shape[1]) for one in pooled], dim=2)
            counts = [self._num_orbits[k] for k in members]
            parts.update(zip(members, (part.flatten(1) for part in by_orbit.split_with_sizes(counts, dim=1)), strict=True))
        return torch.cat([parts[k] for k in range(len(xs))], dim=1)

    def _pool(self, stacked: Tensor, structure: Structure, stacks: Stacks, number: int) -> Sequence[Tensor]:
        """The statistics of one stack: while tracing, by what `plan` left on the structure."""
        if torch.compiler.is_compiling():
            flat = flat_of(structure, f"{self._key} {stacks}")
            return [traced_readout(flat, stacked, number, aggregation) for aggregation in self._aggregations]
        return pool_structures(stacked, self._aggregations, plan_of(structure, layout_of(self._map, stacks)).inputs[number])

    def plan(self, structure: Structure, channels: int | Mapping[str, int] = 1) -> None:
        """Makes the index lists for a structure, which tracing needs; tensors with as many channels share theirs."""
        stacks, flats = by_width(per_tensor(self.patterns, channels, "channels")), cache_of(structure, Flat)
        if f"{self._key} {stacks}" not in flats:
            flats[f"{self._key} {stacks}"] = flatten_readout(plan_of(structure, layout_of(self._map, stacks)))

    def extra_repr(self) -> str:
        """The tensors and the aggregations."""
        return f"{', '.join(map(str, self.patterns))!r}, aggr={list(self.aggr)}"
