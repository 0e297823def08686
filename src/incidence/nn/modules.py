"""What a network needs around its linear layers: each module takes and gives the tensors of one side, and is equivariant.

The tensors of a side are written as in a map, for example `i, {i j}`. Modules that treat entries alike take any tensors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.kernels.aggregate import as_aggregations
from incidence.kernels.readout import pool_structures
from incidence.nn.batch_norm import RowNorm
from incidence.nn.linear import as_aggr, as_channels
from incidence.nn.tensors import Values, as_list, as_values, assert_distinct, per_tensor
from incidence.plans import plan_of
from incidence.structure import Structure
from incidence.structure.data import orbit_rows

__all__ = ["Activation", "BatchNorm", "Dropout", "LayerNorm", "Readout", "Residual", "Sequential"]


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
    """Sets values to 0 with a given probability while training, each on its own, and scales the rest."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.drop = nn.Dropout(p)

    def forward(self, x: Values, structure: Structure) -> Any:
        """Applies dropout to every tensor."""
        return _map(x, self.drop)


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

    def forward(self, x: Values, structure: Structure) -> Any:
        """Normalises every orbit of every tensor."""
        xs = as_list(self.patterns, x, structure, self.channels)
        dtype = next(self.parameters()).dtype
        for value in xs:
            if value.dtype != dtype and not torch.is_autocast_enabled(value.device.type):
                raise IncidenceError(f"the features are {value.dtype} and the norm is {dtype}: convert one, for example with .to({dtype}).")
        ys = [self._one(v, p, norms, structure) for v, p, norms in zip(xs, self.patterns, self.norms, strict=True)]
        return as_values(self.patterns, ys)

    def _one(self, x: Tensor, pattern: Pattern, norms: Any, structure: Structure) -> Tensor:
        if len(norms) == 1:
            y: Tensor = norms[0](x)
            return y
        rows = orbit_rows(structure, pattern)
        parts = [norm(x[r]) for norm, r in zip(norms, rows, strict=True)]
        return torch.cat(parts)[torch.cat(rows).argsort()]

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


class Sequential(nn.Sequential):
    """Modules one after the other: those that take a structure are called with it, others act on every tensor."""

    def __init__(self, *modules: Any) -> None:
        super().__init__(*modules)
        for module in self:
            if type(module) is nn.Sequential and any(map(takes_structure, module)):
                raise IncidenceError("a torch Sequential passes no structure along: use inc.nn.Sequential inside as well.")

    def forward(self, x: Values, structure: Structure) -> Any:  # type: ignore[override]
        """Applies the modules in turn."""
        for module in self:
            x = module(x, structure) if takes_structure(module) else _map(x, module)
        return x


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
        self._maps = [EquivariantMap.between([p], [Pattern("")]) for p in self.patterns]

    def out_channels(self, channels: int | Mapping[str, int]) -> int:
        """The number of output channels for given numbers of input channels."""
        widths: list[int] = per_tensor(self.patterns, channels, "channels")
        return len(self.aggr) * sum(len(p.orbits) * width for p, width in zip(self.patterns, widths, strict=True))

    def forward(self, x: Values, structure: Structure) -> Tensor:
        """The statistics of every structure."""
        xs = as_list(self.patterns, x, structure, [None] * len(self.patterns))
        return torch.cat(list(self._parts(xs, structure)), dim=1)

    def _parts(self, xs: list[Tensor], structure: Structure) -> Iterator[Tensor]:
        for value, m in zip(xs, self._maps, strict=True):
            for orbit in plan_of(structure, m).orbits[0]:
                for aggregation in self._aggregations:
                    yield pool_structures(value, aggregation, orbit)

    def extra_repr(self) -> str:
        """The tensors and the aggregations."""
        return f"{', '.join(map(str, self.patterns))!r}, aggr={list(self.aggr)}"
