"""Layers and networks in words. Whatever has the methods of a torch module will do: the algebra does without torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from html import escape
from textwrap import wrap
from typing import Any

from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.multilinear import MultilinearMap
from incidence.algebra.pattern import Pattern

__all__ = ["MAPS", "Layer", "Network", "is_layer", "is_module", "lines"]

MAPS = EquivariantMap, MultilinearMap
"""What a layer may have as its map."""

lines = partial(wrap, width=80, break_long_words=False)
"""A text as lines of at most 80 columns."""


def is_module(value: object) -> bool:
    """Whether this is a module of torch, as far as one can tell without torch."""
    return (
        hasattr(value, "named_modules")
        and hasattr(value, "parameters")
        and not isinstance(value, type)
    )


def is_layer(value: object) -> bool:
    """Whether a module is the complete layer of a map, or of some of its operations."""
    return isinstance(getattr(value, "map", None), EquivariantMap) and hasattr(
        value, "operations_of"
    )


def _has_map(value: object) -> bool:
    return isinstance(getattr(value, "map", None), MAPS)


def _is_innermost(module: Any) -> bool:
    """Whether a module has a map, none inside of it has one, and it can say what it is."""
    return (
        _has_map(module) and sum(map(_has_map, module.modules())) == 1 and bool(module.extra_repr())
    )


@dataclass(frozen=True)
class Layer:
    """A layer as `explain` shows it.

    Attributes:
        module: The layer.
        name: Where it stands in its network.
    """

    module: Any
    name: str = ""

    @property
    def map(self) -> Any:
        """The map of the layer."""
        return self.module.map

    @property
    def kind(self) -> str:
        """The name of its class."""
        return type(self.module).__name__

    @cached_property
    def kept(self) -> frozenset[Operation]:
        """The operations that it has, each with a weight of its own; none of a module that combines them in another way."""
        if not is_layer(self.module):
            return frozenset()
        pairs = ((s, t) for s in range(len(self.map.inputs)) for t in range(len(self.map.outputs)))
        return frozenset(
            operation for pair in pairs for operation in self.module.operations_of(*pair)
        )

    @cached_property
    def num_parameters(self) -> int | None:
        """How many numbers it learns; None before the first input told it the channels."""
        return _num_parameters(self.module.parameters())

    def sentence(self) -> str:
        """What is to say of it besides its map."""
        if not is_layer(self.module):
            return str(self.module.extra_repr())
        some = (
            f"{len(self.kept):,} of"
            if len(self.kept) < self.map.dimension
            else "all"
            if self.map.dimension > 1
            else "the"
        )
        operations = f"{some} {self.map.dimension:,} operation{'s' * (self.map.dimension != 1)}"
        bias = (
            ""
            if any(name.startswith("bias") for name, _ in self.module.named_parameters())
            else ", no bias"
        )
        sides = (
            (self.map.inputs, self.module.in_channels),
            (self.map.outputs, self.module.out_channels),
        )
        channels = " -> ".join(_channels(patterns, counts) for patterns, counts in sides)
        return f"{operations}{bias}; pools by {', '.join(self.module.aggr)}; channels {channels}; {_parameters(self.num_parameters)}"

    def data(self) -> dict[str, Any]:
        """The same as plain data, for JSON."""
        told = {
            "name": self.name,
            "kind": self.kind,
            "map": str(self.map),
            "num_parameters": self.num_parameters,
        }
        if not is_layer(self.module):
            return told
        channels = {
            "in_channels": list(self.module.in_channels),
            "out_channels": list(self.module.out_channels),
        }
        return {
            **told,
            **channels,
            "aggr": list(self.module.aggr),
            "num_operations": len(self.kept),
            "dimension": self.map.dimension,
        }


@dataclass(frozen=True)
class Network:
    """What `explain` returns for a network: `print` it, show it in a notebook, or take `data`; `explain(layer)` says more of one layer.

    Attributes:
        module: The network.
    """

    module: Any

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """Its equivariant layers, in the order of its modules: the innermost that have a map, and what is the complete layer of one."""
        return tuple(
            Layer(module, name)
            for name, module in self.module.named_modules()
            if is_layer(module) or _is_innermost(module)
        )

    @cached_property
    def others(self) -> dict[str, int]:
        """How many parameters the other modules have, by their classes."""
        inside = {id(p) for layer in self.layers for p in layer.module.parameters()}
        counts: Counter[str] = Counter()
        for module in self.module.modules():
            for parameter in module.parameters(recurse=False):
                if id(parameter) not in inside:
                    inside.add(id(parameter))
                    counts[type(module).__name__] += _num_parameters([parameter]) or 0
        return dict(counts)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _head(self) -> str:
        known = getattr(self.module, "map", None)
        text = f" {known}" if _has_map(self.module) else ""
        count = f"{len(self.layers)} equivariant layer{'s' * (len(self.layers) != 1)}"
        return f"{type(self.module).__name__}{text}: {count}, {_parameters(_num_parameters(self.module.parameters()))}."

    def _rest(self) -> str:
        return (
            "Besides: "
            + ", ".join(f"{kind} {_parameters(n)}" for kind, n in self.others.items())
            + "."
            if self.others
            else ""
        )

    def _lines(self) -> Iterator[str]:
        yield from lines(self._head())
        for layer in self.layers:
            yield from (
                "",
                *lines(f"{layer.name or layer.kind}: {layer.map}", subsequent_indent="    "),
            )
            yield from lines(
                f"{layer.kind}, {layer.sentence()}.", initial_indent="  ", subsequent_indent="  "
            )
        if self.others:
            yield from ("", *lines(self._rest()))

    def data(self) -> dict[str, Any]:
        """The explanation as plain data, for JSON."""
        total = _num_parameters(self.module.parameters())
        layers = [layer.data() for layer in self.layers]
        return {
            "kind": type(self.module).__name__,
            "num_parameters": total,
            "layers": layers,
            "others": self.others,
        }

    def _repr_html_(self) -> str:
        cells = (
            (layer.name, str(layer.map), f"{layer.kind}, {layer.sentence()}")
            for layer in self.layers
        )
        rows = "".join(
            f"<tr><td>{escape(a)}</td><td><code>{escape(b)}</code></td><td>{escape(c)}</td></tr>"
            for a, b, c in cells
        )
        return f"<div><p>{escape(self._head())}</p><table>{rows}</table><p>{escape(self._rest())}</p></div>"


def _num_parameters(parameters: Any) -> int | None:
    found = list(parameters)
    if any(
        hasattr(p, "materialize") for p in found
    ):  # a lazy parameter of torch, which has no size yet
        return None
    return int(sum(p.numel() for p in found))


def _parameters(count: int | None) -> str:
    if count is None:
        return "parameters not known before the first input"
    return f"{count:,} parameter{'s' * (count != 1)}"


def _channels(patterns: Sequence[Pattern], counts: Sequence[int]) -> str:
    shown = ["as the input" if count < 0 else str(count) for count in counts]
    if len(set(shown)) <= 1:
        return shown[0] if shown else "none"
    return ", ".join(f"{p.name or p}: {count}" for p, count in zip(patterns, shown, strict=True))
