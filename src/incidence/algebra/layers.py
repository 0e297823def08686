"""Layers and networks in words.

Everything here works on objects with the methods of a torch module, because the algebra does not
import torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from textwrap import wrap
from typing import Any

from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.multilinear import MultilinearMap
from incidence.algebra.pattern import Pattern
from incidence.algebra.variables import bound_in_words, num_variables
from incidence.notebook import escaped

__all__ = ["MAPS", "Layer", "NetworkExplanation", "is_layer", "is_module", "lines"]

MAPS = EquivariantMap, MultilinearMap
"""The types that the `map` of a layer may have."""

lines = partial(wrap, width=80, break_long_words=False)
"""Wrap a text into lines of at most 80 columns."""


def is_module(value: object) -> bool:
    """Return whether an object looks like a torch module."""
    is_class = isinstance(value, type)
    return hasattr(value, "named_modules") and hasattr(value, "parameters") and not is_class


def is_layer(value: object) -> bool:
    """Return whether a module is the complete layer of a map, or of some of its operations."""
    # a torch module may have any `map`
    has_map = isinstance(getattr(value, "map", None), EquivariantMap)
    return has_map and hasattr(value, "operations_of")


def _has_map(value: object) -> bool:
    return isinstance(getattr(value, "map", None), MAPS)


def _is_innermost(module: Any) -> bool:
    """Return whether a module has a map and a description, and no module inside it has a map."""
    # `modules()` includes the module itself.
    is_alone = _has_map(module) and sum(map(_has_map, module.modules())) == 1
    return is_alone and bool(module.extra_repr())


@dataclass(frozen=True)
class Layer:
    """A layer as `explain` shows it.

    Attributes:
        module: The layer.
        name: Its name in the network.
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
        """The operations of the map that have weights in the layer.

        Empty for a module that combines operations in another way.
        """
        if not is_layer(self.module):
            return frozenset()
        pairs = ((s, t) for s in range(len(self.map.inputs)) for t in range(len(self.map.outputs)))
        return frozenset(
            operation for pair in pairs for operation in self.module.operations_of(*pair)
        )

    @cached_property
    def num_parameters(self) -> int | None:
        """The number of learned values; None before the first input sets the channels."""
        return _num_parameters(self.module.parameters())

    @property
    def num_variables(self) -> int | None:
        """The number of variables that its formulas need; None if that is not known."""
        module = self.module
        if is_layer(module):
            return num_variables(self.map)
        if isinstance(self.map, MultilinearMap):
            texts = list(module.products)
        elif hasattr(module, "product"):
            texts = [module.product, self.map]
        else:
            return None
        counts = [num_variables(text) for text in texts]
        known = [count for count in counts if count is not None]
        return max(known) if len(known) == len(counts) else None

    def sentence(self) -> str:
        """Describe operations, aggregations, channels and parameters of the layer."""
        module, m = self.module, self.map
        if not is_layer(module):
            return str(module.extra_repr())
        if len(self.kept) < m.dimension:
            some = f"{len(self.kept):,} of"
        else:
            some = "all" if m.dimension > 1 else "the"
        operations = f"{some} {m.dimension:,} operation{'s' * (m.dimension != 1)}"
        has_bias = any(name.startswith("bias") for name, _ in module.named_parameters())
        inside = _channels(m.inputs, module.in_channels)
        outside = _channels(m.outputs, module.out_channels)
        return (
            f"{operations}{'' if has_bias else ', no bias'}; pools by {', '.join(module.aggr)};"
            f" channels {inside} -> {outside}; {_parameters(self.num_parameters)}"
        )

    def data(self) -> dict[str, Any]:
        """Return the description as plain data, for JSON."""
        data: dict[str, Any] = {
            "name": self.name,
            "kind": self.kind,
            "map": str(self.map),
            "num_parameters": self.num_parameters,
        }
        if is_layer(self.module):
            data |= {
                "in_channels": list(self.module.in_channels),
                "out_channels": list(self.module.out_channels),
                "aggr": list(self.module.aggr),
                "num_operations": len(self.kept),
                "dimension": self.map.dimension,
            }
        return data


@dataclass(frozen=True)
class NetworkExplanation:
    """The explanation of a network: print it, show it in a notebook, or take its `data`.

    `explain(layer)` says more about a single layer.

    Attributes:
        module: The network.
    """

    module: Any

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The equivariant layers in the order of the modules.

        These are the complete layers of maps, and the innermost other modules that have a map.
        """
        return tuple(
            Layer(module, name)
            for name, module in self.module.named_modules()
            if is_layer(module) or _is_innermost(module)
        )

    @cached_property
    def others(self) -> dict[str, int]:
        """The number of parameters outside of these layers, by the class of their module."""
        # Parameters may be shared by modules; each counts once.
        seen = {id(p) for layer in self.layers for p in layer.module.parameters()}
        counts: Counter[str] = Counter()
        for module in self.module.modules():
            for parameter in module.parameters(recurse=False):
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    counts[type(module).__name__] += _num_parameters([parameter]) or 0
        return dict(counts)

    @property
    def num_variables(self) -> int | None:
        """The largest number of variables of a layer.

        None if one of them is not known, or if a module reads holes, which no formula tells.
        """
        counts = [layer.num_variables for layer in self.layers]
        known = [count for count in counts if count is not None]
        reads_holes = any(hasattr(module, "reads_holes") for module in self.module.modules())
        if len(known) < len(counts) or reads_holes:
            return None
        return max(known, default=None)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _head(self) -> str:
        text = f" {self.module.map}" if _has_map(self.module) else ""
        count = f"{len(self.layers)} equivariant layer{'s' * (len(self.layers) != 1)}"
        parameters = _parameters(_num_parameters(self.module.parameters()))
        return f"{type(self.module).__name__}{text}: {count}, {parameters}."

    def _rest(self) -> str:
        counts = (f"{kind} {_parameters(n)}" for kind, n in self.others.items())
        return f"Besides: {', '.join(counts)}." if self.others else ""

    def _lines(self) -> Iterator[str]:
        yield from lines(self._head())
        for layer in self.layers:
            title, sentence = f"{layer.name or layer.kind}: {layer.map}", layer.sentence()
            yield ""
            yield from lines(title, subsequent_indent="    ")
            yield from lines(
                f"{layer.kind}, {sentence}.", initial_indent="  ", subsequent_indent="  "
            )
        if self.others:
            yield from ("", *lines(self._rest()))
        bound = bound_in_words(self.num_variables)
        if bound:
            yield from ("", *lines(bound))

    def data(self) -> dict[str, Any]:
        """Return the explanation as plain data, for JSON."""
        return {
            "kind": type(self.module).__name__,
            "num_parameters": _num_parameters(self.module.parameters()),
            "layers": [layer.data() for layer in self.layers],
            "others": self.others,
            "num_variables": self.num_variables,
        }

    def _repr_html_(self) -> str:
        rows = []
        for layer in self.layers:
            name, text = escaped(layer.name), escaped(str(layer.map))
            words = escaped(f"{layer.kind}, {layer.sentence()}")
            rows.append(f"<tr><td>{name}</td><td><code>{text}</code></td><td>{words}</td></tr>")
        table = f"<table>{''.join(rows)}</table>"
        return f"<div><p>{escaped(self._head())}</p>{table}<p>{escaped(self._rest())}</p></div>"


def _num_parameters(parameters: Iterable[Any]) -> int | None:
    listed = list(parameters)
    # A lazy parameter of torch has no size yet.
    if any(hasattr(parameter, "materialize") for parameter in listed):
        return None
    return int(sum(parameter.numel() for parameter in listed))


def _parameters(count: int | None) -> str:
    if count is None:
        return "parameters not known before the first input"
    return f"{count:,} parameter{'s' * (count != 1)}"


def _channels(patterns: Sequence[Pattern], counts: Sequence[int]) -> str:
    # Channels of -1 are set by the first input.
    texts = ["as the input" if count < 0 else str(count) for count in counts]
    if len(set(texts)) <= 1:
        return texts[0] if texts else "none"
    return ", ".join(f"{p.name or p}: {text}" for p, text in zip(patterns, texts, strict=True))
