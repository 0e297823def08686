"""`IncidenceNet`: residual blocks of complete layers between any tensors of any structure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.algebra.selection import word_for
from incidence.errors import IncidenceError, PatternError
from incidence.models.blocks import (
    AttentionTerm,
    NeighbourTerm,
    ProductTerm,
    Rescale,
    TermSum,
)
from incidence.models.net_parts import NetParts
from incidence.models.settings import NetSettings
from incidence.nn import (
    Harmonic,
    HarmonicRanks,
    HarmonicReadout,
    HarmonicTerm,
    Linear,
    Readout,
)
from incidence.nn.composition import needs_plan, new_plan_number, plan_modules
from incidence.nn.diffusion import Surroundings
from incidence.nn.norms import RowRms
from incidence.nn.steps import CompiledSlot, compiled_forward, write, writes
from incidence.nn.tensors import Values, as_channels, key_of, per_tensor, taken_apart
from incidence.notebook import html_of
from incidence.structure import Example, Structure

__all__ = ["IncidenceNet"]


class IncidenceNet(nn.Module):
    r"""A network from some tensors of a structure to others: complete layers, residual blocks, and
    a head for each output.

    Every hidden layer is the complete equivariant map between the hidden tensors, so nodes, edges
    and faces all talk to each other in every block:

        encoder     complete layer from the inputs to the hidden tensors, norm, activation
        block       complete layer, products, attention and neighbours, norm, activation, a linear
                    map of every entry, norm, activation, dropout; added to its input
        head        for the empty pattern: statistics of all hidden tensors, norm, two linear maps;
                    for any other: complete layer, norm, activation, a linear map of every entry

    Args:
        text: The map, for example `i, {i j} -> ` for one output a structure, `i, {i j} -> i` for
            one a node.
        in_channels: For all inputs, or by tensor; -1 to take it from the first batch.
        out_channels: For all outputs, or by tensor.
        settings: The settings of the network.
        keywords: Settings by name, in place of those of `settings`; `NetSettings` lists them.

    Example:
        >>> s = Structure(3, {"{i j}": [[0, 1], [1, 2]]})
        >>> net = IncidenceNet("i, {i j} -> ", {"i": 4, "{i j}": 1}, out_channels=2, hidden=8)
        >>> net({"i": torch.randn(3, 4), "{i j}": torch.ones(2, 1)}, s).shape
        torch.Size([1, 2])
        >>> net.settings
        NetSettings(hidden=8)
    """

    def __init__(
        self,
        text: str,
        in_channels: int | Mapping[str, int] = -1,
        out_channels: int | Mapping[str, int] = 1,
        settings: NetSettings | None = None,
        **keywords: Any,
    ) -> None:
        super().__init__()
        self.settings = (settings or NetSettings()).replace(**keywords)
        self.map = EquivariantMap(text, self.settings.max_overlap)
        self.in_channels: list[int] = per_tensor(self.map.inputs, in_channels, "in_channels")
        widths = per_tensor(self.map.outputs, out_channels, "out_channels")
        self.out_channels = [as_channels(width, "out_channels", 1) for width in widths]
        parts = NetParts(self.map, self.in_channels, self.settings)
        self.through = parts.through
        # Keys are made here, as tracing cannot make them.
        self._input_keys = [(key_of(p), str(p)) for p in self.map.inputs]
        self._output_keys = [key_of(p) for p in self.map.outputs]
        self._query_keys = [key_of(p) for p in parts.queries]
        self._first_hidden_key = key_of(parts.hidden[0])
        self.encoder = parts.encoder()
        self.blocks = parts.blocks()
        outputs = zip(self.map.outputs, self.out_channels, strict=True)
        self.heads = nn.ModuleList(parts.head(p, width) for p, width in outputs)
        self._slot = CompiledSlot()
        self.plan_number = new_plan_number()

    _repr_html_ = html_of

    def forward(
        self, x: Values | Mapping[str, Tensor] | Example, structure: Structure | None = None
    ) -> Any:
        """Return the outputs: a tensor, or a dict of tensors if the map has several.

        Args:
            x: The features; or an example, or a batch of examples, with features and structure.
                Features of tensors that are no inputs are ignored.
            structure: The structure of the features.
        """
        x, structure = taken_apart(x, structure)
        if torch.compiler.is_compiling() and needs_plan(self, structure):
            from incidence.nn import untraced

            untraced.plan(self, structure)
        ys = self._compiled(x, structure)
        if ys is not None:
            return ys[0] if len(ys) == 1 else dict(zip(self._output_keys, ys, strict=True))
        queries: dict[str, Tensor] = {}
        if isinstance(x, Mapping):
            inputs = dict(zip((key for key, _ in self._input_keys), self.select(x), strict=True))
            queries = {key: inputs.pop(key) for key in self._query_keys}
            x = inputs if len(inputs) > 1 else next(iter(inputs.values()))
        hidden = self.blocks(self.encoder(x, structure), structure)
        if queries:
            by_key = hidden if isinstance(hidden, dict) else {self._first_hidden_key: hidden}
            hidden = {**by_key, **queries}
        ys = [head(hidden, structure) for head in self.heads]
        return ys[0] if len(ys) == 1 else dict(zip(self._output_keys, ys, strict=True))

    def _compiled(self, x: Any, structure: Structure) -> Sequence[Tensor] | None:
        """Return the outputs by the compiled network; None where modules compute them."""
        if self._query_keys or not isinstance(structure, Structure):
            return None
        keys = [key for key, _ in self._input_keys]
        if isinstance(x, Mapping):
            values = self.select(x)
        else:
            # Anything else is wrong input, of which the modules say what is wrong.
            values = [x] if len(keys) == 1 and isinstance(x, Tensor) else []
        if len(values) != len(keys):
            return None
        patterns = dict(zip(keys, self.map.inputs, strict=True))
        return compiled_forward(self._slot, self, patterns, values, structure)

    def select(self, x: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the features of the inputs, in the order of the map, however keys are spelt.

        Raises:
            IncidenceError: One is missing.
        """
        selected = []
        for (key, text), pattern in zip(self._input_keys, self.map.inputs, strict=True):
            # The usual spellings are looked up; all others are parsed, which takes longer.
            spelling = key if key in x else text
            selected.append(x[spelling] if spelling in x else _in_other_letters(x, pattern))
        return selected

    @property
    def reach(self) -> int | None:
        """How many steps from its nodes an output depends on; None if it depends on the whole
        structure.

        A step leads from a node to the nodes of all its entries. For a network in evaluation mode,
        `Structure.sample(nodes, hops=net.reach)` has everything that the outputs of these nodes
        depend on.

        Example:
            >>> IncidenceNet("i, {i j} -> i", 4, depth=2, operations="local").reach
            4
            >>> IncidenceNet("i, {i j} -> ", 4).reach is None
            True
        """
        # Parts that follow each other: their steps add up.
        steps = [_reach(part) for part in (self.encoder, self.blocks, self.heads)]
        return _total(steps)

    def plan(self, structure: Structure | Example) -> IncidenceNet:
        """Build the index lists of all layers for a structure. Call it before you trace the
        network, for example with `torch.compile`.
        """
        plan_modules(self, structure.structure if isinstance(structure, Example) else structure)
        return self

    @torch.no_grad()
    def calibrate(
        self, x: Values | Mapping[str, Tensor] | Example, structure: Structure | None = None
    ) -> IncidenceNet:
        """Scale the weights of all layers to a first batch, one layer after the other.

        See `nn.Linear.calibrate`.
        """
        hooks = [
            m.register_forward_pre_hook(_calibrate)
            for m in self.modules()
            if isinstance(m, _CALIBRATED)
        ]
        was_training = self.training
        try:
            self.train()(*taken_apart(x, structure))
        finally:
            # Hooks that stay would scale the weights in every later call.
            for hook in hooks:
                hook.remove()
            self.train(was_training)
        # Running statistics are those of weights that were replaced.
        for module in self.modules():
            if isinstance(module, (nn.BatchNorm1d, RowRms)):
                module.reset_running_stats()
        return self


_CALIBRATED = (Linear, ProductTerm, NeighbourTerm, Rescale)
"""The modules whose weights a first batch scales."""


def _calibrate(layer: nn.Module, arguments: tuple[Any, ...]) -> None:
    layer.calibrate(*arguments)  # type: ignore[operator]


def _in_other_letters(x: Mapping[str, Tensor], pattern: Pattern) -> Tensor:
    """The features of a pattern that `x` spells in other letters."""
    for key, value in x.items():
        with suppress(PatternError):
            if Pattern(key) == pattern:
                return value
    given = ", ".join(map(repr, x))
    raise IncidenceError(
        f"the network reads `{pattern}`, which has no features here; there are: {given}. Give"
        " it features, add it by a lift, or make a network for what there is, as in"
        f" inc.models.make({', '.join(x)!r}, ...)."
    )


@writes(IncidenceNet)
def _write_net(program: Any, net: IncidenceNet, x: Any) -> Any:
    hidden = write(program, net.blocks, write(program, net.encoder, x))
    program.close(hidden.values() if isinstance(hidden, dict) else [hidden])
    ys = [write(program, head, hidden) for head in net.heads]
    return ys[0] if len(ys) == 1 else dict(zip(net._output_keys, ys, strict=True))


_UNBOUNDED = (
    *(Readout, ProductTerm, AttentionTerm),
    *(Harmonic, HarmonicRanks, HarmonicReadout, HarmonicTerm),
)


def _reach(module: nn.Module) -> int | None:
    """How many steps the output of a module depends on; None if there is no bound.

    An operation that matches all nodes of both entries takes no step; any other that matches a
    node takes one. Pooling over whole structures has no bound, and for products and attention none
    is claimed. Of parts that are added up, or stand side by side, the farthest counts.
    """
    if isinstance(module, _UNBOUNDED):
        return None
    if isinstance(module, Surroundings):
        return module.steps
    if isinstance(module, Linear):
        # such as `self` and `local`
        words = {word_for(operation) for operation in _operations(module)}
        return None if "global" in words else int(bool(words - {"self"}))
    reaches = [_reach(part) for part in module.children()]
    if not isinstance(module, (TermSum, nn.ModuleList)):
        return _total(reaches)
    return None if None in reaches else max((r or 0 for r in reaches), default=0)


def _total(reaches: Sequence[int | None]) -> int | None:
    """The steps of modules that follow each other."""
    return None if None in reaches else sum(r or 0 for r in reaches)


def _operations(layer: Linear) -> list[Any]:
    sources = range(len(layer.map.inputs))
    targets = range(len(layer.map.outputs))
    return [o for s in sources for t in targets for o in layer.operations_of(s, t)]
