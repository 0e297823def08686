"""`IncidenceNet`: residual blocks of complete layers between any tensors of any structure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.choice import Choice, carried
from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, PatternError
from incidence.models.asked import AskedHead, nodes_of
from incidence.models.entries import PerTensor, Pick, RowScale
from incidence.models.reach import reach_of
from incidence.models.terms import (
    AttentionTerm,
    NeighbourTerm,
    PooledTerm,
    ProductTerm,
    Sum,
    as_texts,
)
from incidence.nn import (
    Activation,
    BatchNorm,
    Diffusion,
    Dropout,
    Gate,
    LayerNorm,
    Linear,
    Readout,
    Residual,
    Sequential,
)
from incidence.nn.batch_norm import RowRms
from incidence.nn.linear import as_channels
from incidence.nn.modules import plan_modules
from incidence.nn.tensors import Values, as_side, key_of, per_tensor, taken_apart
from incidence.notebook import html_of
from incidence.structure import Example, Structure

__all__ = ["ACTIVATIONS", "NORMS", "IncidenceNet"]

Aggr = str | Sequence[str]

ACTIVATIONS: dict[str, Callable[[int], Callable[[Tensor], Tensor]]] = {
    "elu": lambda channels: nn.functional.elu,
    "gate": Gate,
    "gelu": lambda channels: nn.functional.gelu,
    "none": lambda channels: nn.Identity(),
    "relu": lambda channels: torch.relu,
    "silu": lambda channels: nn.functional.silu,
    "sin": lambda channels: torch.sin,
    "softshrink": lambda channels: nn.functional.softshrink,
    "tanh": lambda channels: torch.tanh,
}
"""Functions of values, for so many channels. Those of oriented faces take `tanh`, `softshrink`, `sin` or `gate`."""

NORMS: dict[str, Callable[[str, int], list[nn.Module]]] = {
    "batch": lambda text, channels: [BatchNorm(text, channels)],
    "layer": lambda text, channels: [LayerNorm(text, channels)],
    "none": lambda text, channels: [],
}


class IncidenceNet(nn.Module):
    r"""A network from some tensors of a structure to others: complete layers, residual blocks, and a head for each output.

    Every hidden layer is the complete equivariant map between the hidden tensors, so nodes, edges and faces all talk to each other in
    every block:

        encoder     complete layer from the inputs to the hidden tensors, norm, activation
        block       complete layer, products, attention and neighbours, norm, activation, a linear map of every entry, norm, activation,
                    dropout; added to its input
        head        for the empty pattern: statistics of all hidden tensors, norm, two linear maps;
                    for any other: complete layer, norm, activation, a linear map of every entry

    Args:
        text: The map, for example `i, {i j} -> ` for one output a structure, `i, {i j} -> i` for one a node.
        in_channels: For all inputs, or by tensor; -1 to take it from the first batch.
        out_channels: For all outputs, or by tensor.
        through: The hidden tensors; by default those of the inputs, with `adjacent` without those that join nodes. Order 3 from a matrix
            is `i j -> ` through `i j k`.
        hidden: Channels of the hidden tensors.
        depth: Number of blocks.
        aggr: How layers pool: `sum`, `mean`, `max`, `min`, `std`, or a list of them.
        whole: How layers pool over the whole structure; `mean` does not grow with it. `aggr` if None.
        norm: `batch`, `layer` or `none`.
        first_norm: Of the encoder; `same` as all others if it does not differ. Batch norm has no use for a column of ones, which edges
            without features have: what it makes of it is rounding.
        activation: `relu`, `gelu`, `silu`, `elu`, `tanh`, `softshrink`, `sin`, `gate`, or `none` (with products, a polynomial of the
            features); for all tensors, or a dict by tensor. If None, `relu`, and `tanh` for oriented tensors, whose activations are odd.
        dropout: In blocks and heads.
        dropout_at: `branch`: of what a block adds; `stream`: of what it starts from, which is all that the blocks before it made. Where
            labels are few, the latter keeps a network from knowing them by heart.
        head_dropout: In heads, if it differs.
        head_depth: Hidden layers in the head of a whole structure; without any, the output is linear in its statistics.
        readout: Statistics for outputs of whole structures.
        max_overlap: With open faces: how many matched nodes may lie in one.
        operations: Which operations layers have, if not all, as for `nn.Linear`: `local`, `boundary` and their kin, or a list of what
            `explain` prints for the map of the hidden tensors to themselves.
        ends: `layer`: the network starts with a complete layer, and so do heads of entries; `entry`: with a linear map of every entry on
            its own, which has a fraction of the weights where there are many features. The hidden tensors are then among those of the
            inputs, and those that are not hidden are pooled into them once, by a complete layer.
            `query`: it starts so, and the entries of the output, which is an input as well, are asked for: no layer reads them, and their
            head has the hidden values of their nodes, the products of these, and the features of the asked entries.
        hops: How often nodes take over the mean of their surroundings before the heads; see `nn.Diffusion`.
        adjacent: Whether blocks add a linear map of the neighbours of every node, which is a way from nodes to nodes without hidden edges:
            see `nn.Neighbours`. What joins nodes is then not hidden, unless `through` names it, or it is an output.
        in_dropout: Of the features.
        scale: `columns`: features come in as they are, or as `Predictor` scales their columns; `rows`: every row is divided by the sum of
            its absolute values, as is the custom for counts of words.
        products: Texts of products of hidden tensors that every block adds to its layer, as `inc.einsum` takes them: with
            `i j, j k -> i k` over all pairs, a network sees what the linear layers cannot. See docs/models.md.
        attention: Along which hidden tensors blocks attend, over which letters: `near=i j over j`.
        heads: Of attention.

    Example:
        >>> s = Structure(3, {"{i j}": [[0, 1], [1, 2]]})
        >>> net = IncidenceNet("i, {i j} -> ", {"i": 4, "{i j}": 1}, out_channels=2, hidden=8, depth=2)
        >>> net({"i": torch.randn(3, 4), "{i j}": torch.ones(2, 1)}, s).shape
        torch.Size([1, 2])
    """

    def __init__(
        self,
        text: str,
        in_channels: int | Mapping[str, int] = -1,
        out_channels: int | Mapping[str, int] = 1,
        *,
        through: str | None = None,
        hidden: int = 48,
        depth: int = 3,
        aggr: Aggr = "sum",
        whole: str | None = "mean",
        norm: str = "batch",
        first_norm: str = "same",
        activation: str | Mapping[str, str] | None = None,
        dropout: float = 0.1,
        dropout_at: str = "branch",
        head_dropout: float | None = None,
        head_depth: int = 1,
        readout: Aggr = ("sum", "mean"),
        max_overlap: int = 1,
        operations: Choice = None,
        products: str | Sequence[str] | None = None,
        attention: str | Sequence[str] | None = None,
        heads: int = 4,
        ends: str = "layer",
        hops: int = 0,
        adjacent: bool = False,
        in_dropout: float = 0.0,
        scale: str = "columns",
    ) -> None:
        super().__init__()
        self.map = EquivariantMap(text, max_overlap)
        if min(depth, head_depth, hops) < 0:
            raise IncidenceError(
                f"depth, head_depth and hops count layers, from 0; got {depth}, {head_depth} and {hops}."
            )
        if not all(0 <= p <= 1 for p in (dropout, head_dropout or 0.0, in_dropout)):
            raise IncidenceError(
                f"dropout is a probability, from 0 to 1; got {dropout}, {head_dropout} and {in_dropout}."
            )
        _assert_among("ends", ends, ("layer", "entry", "query"))
        _assert_among("scale", scale, ("columns", "rows"))
        _assert_among("first_norm", first_norm, ("same", *NORMS))
        _assert_among("dropout_at", dropout_at, ("branch", "stream"))
        self.scale = scale
        self._input_keys = [
            (key_of(p), str(p)) for p in self.map.inputs
        ]  # made here, as tracing cannot make them
        self._output_keys = [key_of(p) for p in self.map.outputs]
        self.in_channels: list[int] = per_tensor(self.map.inputs, in_channels, "in_channels")
        widths = per_tensor(self.map.outputs, out_channels, "out_channels")
        self.out_channels = [as_channels(width, "out_channels", 1) for width in widths]
        self._asked = self._find_asked() if ends == "query" else ()
        self._asked_keys = [key_of(p) for p in self._asked]
        told = [p for p in self.map.inputs if p not in self._asked]
        links = _links(told) if adjacent else []
        self.through = (
            through
            if through is not None
            else side([p for p in told if p not in links or p in self.map.outputs])
        )
        self.operations = operations
        inner = EquivariantMap(f"{self.through} -> {self.through}", max_overlap)
        self.products, self.attention = (
            as_texts(products, "products"),
            as_texts(attention, "attention"),
        )
        self._style = _Style(
            hidden,
            aggr,
            whole,
            norm,
            activation,
            dropout,
            inner,
            operations,
            dropout_at == "stream",
        )
        strange = [p for p in self._style.told if p not in (*inner.inputs, *self.map.outputs)]
        if strange:
            there = ", ".join(f"`{p}`" for p in dict.fromkeys((*inner.inputs, *self.map.outputs)))
            raise IncidenceError(f"activation has `{strange[0]}`, and the network has {there}.")
        before = [
            *([RowScale()] if scale == "rows" else []),
            *([Dropout(in_dropout)] if in_dropout else []),
        ]
        self._hidden_key = key_of(inner.inputs[0])
        first_norm = norm if first_norm == "same" else first_norm
        first = (
            self._entry_maps(told, first_norm)
            if ends != "layer"
            else self._style.layer(f"{side(told)} -> {self.through}", in_channels)
        )
        self.encoder = Sequential(*before, first, *self._style.after(self.through, first_norm))
        blocks = [
            m
            for _ in range(depth)
            for m in self._style.block(self.through, self._terms(hidden, heads, links))
        ]
        self.blocks = Sequential(*blocks, *([Diffusion(self.through, hops)] if hops else []))
        head = readout, head_depth, dropout if head_dropout is None else head_dropout
        outputs = zip(self.map.outputs, self.out_channels, strict=True)
        direct = inner.inputs if ends == "entry" else ()
        self.heads = nn.ModuleList(
            self._asked_head(p, width, head[-1])
            if p in self._asked
            else self._style.head(self.through, p, width, *head, is_direct=p in direct)
            for p, width in outputs
        )

    def _find_asked(self) -> tuple[Pattern, ...]:
        """The outputs whose entries are asked for."""
        strange = next(
            (p for p in self.map.outputs if p not in self.map.inputs or not p.faces), None
        )
        if strange is not None:
            raise IncidenceError(
                f"with ends='query' the outputs are inputs, too, whose entries are asked for; `{strange}` is none."
            )
        return self.map.outputs

    def _entry_maps(self, told: Sequence[Pattern], norm: str) -> nn.Module:
        """Linear maps of every entry of the hidden tensors, which are among the inputs; the others are pooled into them."""
        inner = self._style.inner.inputs
        if not set(inner) <= set(told):
            ends = "query" if self._asked else "entry"
            raise IncidenceError(
                f"with ends={ends!r} the hidden tensors are among the inputs; got `{self.through}` for `{self.map}`."
            )
        width_of = dict(zip(self.map.inputs, self.in_channels, strict=True))
        rest = [p for p in told if p not in inner]
        mine = [p for p in told if p in inner]
        maps = PerTensor(
            side(mine), [width_of[p] for p in mine], self._style.hidden, norm == "none"
        )
        if not rest:
            return maps
        pooled = self._style.layer(
            f"{side(rest)} -> {self.through}", {key_of(p): width_of[p] for p in rest}
        )
        return Sum(maps, [PooledTerm(pooled)])

    def _asked_head(self, asked: Pattern, channels: int, dropout: float) -> AskedHead:
        layer = self._style.layer(f"{side(nodes_of(self.through, asked))} -> {asked}")
        after = Sequential(*self._style.after(side((asked,))))
        return AskedHead(
            layer, after, self.in_channels[self.map.inputs.index(asked)], channels, dropout
        )

    _repr_html_ = html_of

    def _terms(self, hidden: int, heads: int, links: Sequence[Pattern]) -> list[nn.Module]:
        """What a block has beside its layer."""
        tensors = self._style.inner.inputs
        found: list[nn.Module] = [ProductTerm(text, tensors, hidden) for text in self.products]
        found += [AttentionTerm(text, tensors, hidden, heads) for text in self.attention]
        return [*found, NeighbourTerm(tensors, links, hidden)] if links else found

    def forward(
        self, x: Values | Mapping[str, Tensor] | Example, structure: Structure | None = None
    ) -> Any:
        """The outputs: a tensor, or a dict of tensors if the map has several. Features of other tensors are left alone.

        Args:
            x: The features, with their structure; or an example, or a batch of them, which has both.
            structure: That of the features.
        """
        x, structure = taken_apart(x, structure)
        asked: dict[str, Tensor] = {}
        if isinstance(x, Mapping):
            every = dict(zip((key for key, _ in self._input_keys), self.select(x), strict=True))
            asked = {key: every.pop(key) for key in self._asked_keys}
            x = every if len(every) > 1 else next(iter(every.values()))
        hidden = self.blocks(self.encoder(x, structure), structure)
        if asked:
            hidden = {
                **(hidden if isinstance(hidden, dict) else {self._hidden_key: hidden}),
                **asked,
            }
        ys = [head(hidden, structure) for head in self.heads]
        return ys[0] if len(ys) == 1 else dict(zip(self._output_keys, ys, strict=True))

    @property
    def reach(self) -> int | None:
        """Within how many steps of its nodes all lies that an output depends on; None if it depends on the whole structure.

        A step leads to the nodes of all entries that a node lies in: `Structure.sample(nodes, hops=net.reach)` has all that the outputs
        of these nodes need, in a network that is not training.

        Example:
            >>> IncidenceNet("i, {i j} -> i", 4, depth=2, operations="local").reach, IncidenceNet("i, {i j} -> ", 4).reach
            (4, None)
        """
        trunk, heads = (
            [reach_of(part) for part in (self.encoder, self.blocks)],
            [reach_of(head) for head in self.heads],
        )
        if None in (*trunk, *heads):
            return None
        return sum(step or 0 for step in trunk) + max(step or 0 for step in heads)

    def plan(self, structure: Structure | Example) -> IncidenceNet:
        """Makes the index lists of all layers for a structure: needed before tracing, as by `torch.compile`."""
        plan_modules(self, structure.structure if isinstance(structure, Example) else structure)
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Also reads what was saved when a layer was two, one for whole structures and one for the rest."""
        for name, module in self.named_modules():
            if isinstance(module, Linear) and any(
                key.startswith(f"{prefix}{name}.terms.") for key in state_dict
            ):
                _join_saved(state_dict, f"{prefix}{name}.", module)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def select(self, x: Mapping[str, Tensor]) -> list[Tensor]:
        """The features that the network reads, in the order of its map, whatever their spelling.

        Raises:
            IncidenceError: One is missing.
        """
        keys = zip(self._input_keys, self.map.inputs, strict=True)
        return [
            x[key] if key in x else x[text] if text in x else self._find(x, p)
            for (key, text), p in keys
        ]

    @staticmethod
    def _find(x: Mapping[str, Tensor], pattern: Pattern) -> Tensor:
        """The features of a pattern that is spelt in other letters."""
        for key, value in x.items():
            with suppress(PatternError):
                if Pattern(key) == pattern:
                    return value
        given = ", ".join(map(repr, x))
        raise IncidenceError(
            f"the network reads `{pattern}`, which has no features here; there are: {given}. Lift the data first."
        )

    @torch.no_grad()
    def calibrate(
        self, x: Values | Mapping[str, Tensor] | Example, structure: Structure | None = None
    ) -> IncidenceNet:
        """Scales the weights of all layers to a first batch, one layer after the other; see `nn.Linear.calibrate`."""
        hooks = [
            m.register_forward_pre_hook(_calibrate)
            for m in self.modules()
            if isinstance(m, _CALIBRATED)
        ]
        was_training = self.training
        try:
            self.train()(*taken_apart(x, structure))
        finally:
            for hook in hooks:
                hook.remove()
            self.train(was_training)
        for module in self.modules():
            if isinstance(module, (nn.BatchNorm1d, RowRms)):
                module.reset_running_stats()  # they have seen weights that are no more
        return self


class _Style:
    """How every part of one network is made."""

    def __init__(
        self,
        hidden: int,
        aggr: Aggr,
        whole: str | None,
        norm: str,
        activation: str | Mapping[str, str] | None,
        dropout: float,
        inner: EquivariantMap,
        choice: Choice,
        drops_stream: bool = False,
    ) -> None:
        if norm not in NORMS:
            raise IncidenceError(f"norm is one of {', '.join(NORMS)}; got {norm!r}.")
        self.told = (
            {Pattern(key): name for key, name in activation.items()}
            if isinstance(activation, Mapping)
            else {}
        )
        self.activation = None if isinstance(activation, Mapping) else activation
        wrong = [
            name
            for name in (self.activation, *self.told.values())
            if name is not None and name not in ACTIVATIONS
        ]
        if wrong:
            raise IncidenceError(
                f"activation is one of {', '.join(ACTIVATIONS)}; got {wrong[0]!r}."
            )
        self.hidden, self.aggr, self.norm, self.dropout, self.drops_stream = (
            hidden,
            aggr,
            norm,
            dropout,
            drops_stream,
        )
        self.inner, self.choice = (
            inner,
            choice,
        )  # the map of the hidden tensors, to which numbers and formulas refer
        self.whole = aggr if whole is None else whole
        self.bias = (
            norm == "none"
        )  # a norm would take it away again, and Adam would follow the rounding of its gradient

    def layer(self, text: str, in_channels: int | Mapping[str, int] | None = None) -> Linear:
        """A complete layer; pooling over whole structures may differ from pooling around nodes."""
        m = EquivariantMap(text, self.inner.max_overlap)
        kept = None if self.choice is None else carried(self.choice, self.inner, m)
        return Linear(
            m,
            self.hidden if in_channels is None else in_channels,
            self.hidden,
            self.pooling,
            self.bias,
            m.max_overlap,
            kept,
        )

    def pooling(self, operation: Operation) -> Aggr:
        """How an operation pools: one that matches no node pools over whole structures."""
        is_far = not any(map(any, operation.overlap))
        return self.whole if is_far else self.aggr

    def after(self, text: str, norm: str | None = None) -> list[nn.Module]:
        return [*NORMS[norm or self.norm](text, self.hidden), self.activate(text)]

    def activate(self, text: str) -> Activation:
        """The activation of every tensor of a side; refuses one that is not odd for oriented tensors."""
        return Activation(
            {str(p): ACTIVATIONS[self._function(p)](self.hidden) for p in as_side(text)}
        )

    def _function(self, pattern: Pattern) -> str:
        """The name of the activation of a tensor: as told, or what is allowed."""
        return self.told.get(pattern, self.activation) or (
            "tanh" if pattern.is_oriented else "relu"
        )

    def block(self, text: str, terms: Sequence[nn.Module]) -> list[nn.Module]:
        layer, each, drop = (
            self.layer(f"{text} -> {text}"),
            PerTensor(text, self.hidden, self.hidden, self.bias),
            Dropout(self.dropout),
        )
        parts = [Sum(layer, terms) if terms else layer, *self.after(text), each, *self.after(text)]
        return (
            [drop, Residual(Sequential(*parts))]
            if self.drops_stream
            else [Residual(Sequential(*parts, drop))]
        )

    def head(
        self,
        text: str,
        output: Pattern,
        channels: int,
        readout: Aggr,
        depth: int,
        dropout: float,
        is_direct: bool = False,
    ) -> nn.Module:
        if is_direct:
            return Sequential(
                Pick(output), Dropout(dropout), PerTensor(side((output,)), self.hidden, channels)
            )
        if output.faces:
            to = side((output,))
            return Sequential(
                self.layer(f"{text} -> {to}"),
                *self.after(to),
                Dropout(dropout),
                PerTensor(to, self.hidden, channels),
            )
        statistics = Readout(text, list(readout) if not isinstance(readout, str) else readout)
        width = statistics.out_channels(self.hidden)
        norm = NORMS[self.norm]("", width) or [Rescale(width)]
        widths = [width, *[self.hidden] * depth]
        steps = (
            [nn.Linear(width, self.hidden), self.activate(""), nn.Dropout(dropout)]
            for width in widths[:-1]
        )
        return Sequential(
            statistics,
            *norm,
            *(module for step in steps for module in step),
            nn.Linear(widths[-1], channels),
        )


def side(patterns: Sequence[Pattern]) -> str:
    """The tensors of one side, as they are written in a map."""
    return ", ".join(map(str, patterns))


def _join_saved(state_dict: dict[str, Any], prefix: str, layer: Linear) -> None:
    """Puts the weights of two layers into one: `terms.0` has the operations that match a node, `terms.1` the others, in order."""
    for pair in layer._weight_layout.pairs:
        name = layer._weight_name(pair)
        near, far = (state_dict.pop(f"{prefix}terms.{k}.{name}") for k in range(2))
        near_rows, far_rows = (
            iter(near.movedim(-3, 0).reshape(-1, *near.shape[-2:])),
            iter(far),
        )  # aggregations of an operation together
        rows = [
            next(near_rows if any(map(any, operation.overlap)) else far_rows)
            for operation in layer.operations_of(*pair)
        ]
        state_dict[prefix + name] = (
            torch.stack(rows) if rows else near.new_zeros(0, *near.shape[-2:])
        )
    for key in [key for key in state_dict if key.startswith(f"{prefix}terms.0.bias")]:
        state_dict[prefix + key.removeprefix(f"{prefix}terms.0.")] = state_dict.pop(key)


def _calibrate(layer: nn.Module, arguments: tuple[Any, ...]) -> None:
    layer.calibrate(*arguments)  # type: ignore[operator]


def _links(patterns: Sequence[Pattern]) -> list[Pattern]:
    """Those that join nodes which are there, too."""
    joins = [p for p in patterns if p.is_open or len(p.letters) > 1]
    return [p for p in joins if all(Pattern(f"i:{sort}") in patterns for sort in p.sorts.values())]


def _assert_among(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise IncidenceError(f"{name} is one of {', '.join(known)}; got {value!r}.")


class Rescale(nn.Module):
    """Shifts and scales every channel by numbers that are taken from a first batch, and then stay.

    Sums over whole structures can be large; where there is no norm, nothing else would bring them to a scale that a network learns on.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(channels))
        self.register_buffer("scale", torch.ones(channels))

    shift: Tensor
    scale: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """The scaled rows."""
        return (x - self.shift) / self.scale

    @torch.no_grad()
    def calibrate(self, x: Tensor) -> Rescale:
        """Takes the mean and the deviation of a batch; a channel that is constant there is only shifted."""
        deviation = x.std(0, unbiased=False) if len(x) > 1 else torch.ones_like(self.scale)
        self.shift.copy_(x.mean(0))
        self.scale.copy_(torch.where(deviation > 1e-6 * x.abs().amax(0), deviation, 1.0))
        return self


_CALIBRATED = (Linear, ProductTerm, NeighbourTerm, Rescale)
"""What has weights that a first batch scales."""
