"""The encoder, the blocks and the heads of an `IncidenceNet`, as its settings choose them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import nn

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.algebra.selection import carried
from incidence.errors import IncidenceError
from incidence.models.blocks import (
    AttentionTerm,
    Join,
    Jumping,
    NeighbourTerm,
    PerTensor,
    Pick,
    PooledTerm,
    ProductTerm,
    Rescale,
    RowScale,
    TermSum,
)
from incidence.models.query_head import QueryHead, node_tensors
from incidence.models.settings import ACTIVATIONS, NORMS, NetSettings
from incidence.nn import (
    Activation,
    Diffusion,
    Dropout,
    HarmonicRanks,
    HarmonicReadout,
    HarmonicTerm,
    Linear,
    Readout,
    Residual,
    Sequential,
)
from incidence.nn.tensors import as_side, key_of

__all__ = ["NetParts"]


class NetParts:
    """Makes the encoder, the blocks and the heads of a network.

    Attributes:
        queries: The outputs whose entries are queries, which no layer reads.
        visible: The inputs that layers read.
        links: The inputs that join nodes, if blocks add neighbours.
        through: The hidden tensors, as text.
        hidden: The hidden tensors.
    """

    def __init__(self, m: EquivariantMap, in_channels: Sequence[int], settings: NetSettings):
        self.map, self.settings = m, settings
        self.in_channels = dict(zip(m.inputs, in_channels, strict=True))
        self.queries = m.outputs if settings.ends == "query" else ()
        self._assert_queries_are_inputs()
        self.visible = [p for p in m.inputs if p not in self.queries]
        self.links = _links(self.visible) if settings.adjacent else []
        # Links are read by `NeighbourTerm`, so that edges need no hidden values.
        default = [p for p in self.visible if p not in self.links or p in m.outputs]
        self.through = _side(default) if settings.through is None else settings.through
        # Numbers and formulas of operations= refer to this map.
        self.inner = EquivariantMap(f"{self.through} -> {self.through}", m.max_overlap)
        self.hidden = self.inner.inputs
        self._assert_activations_have_tensors()
        # A norm would take a bias away again, and Adam would follow the rounding of its gradient.
        self.has_bias = settings.norm == "none"

    def encoder(self) -> Sequential:
        """Return the first module of the network."""
        settings = self.settings
        before: list[nn.Module] = []
        if settings.scale == "rows":
            before.append(RowScale())
        if settings.in_dropout:
            before.append(Dropout(settings.in_dropout))
        first = self._entry_maps() if settings.ends != "layer" else self._layer_of_inputs()
        return Sequential(*before, first, *self._after(self.through, settings.encoder_norm))

    def _layer_of_inputs(self) -> Linear:
        widths = {key_of(p): self.in_channels[p] for p in self.visible}
        return self._layer(f"{_side(self.visible)} -> {self.through}", widths)

    def _entry_maps(self) -> nn.Module:
        """Linear maps of every entry of the hidden tensors; a layer pools the other inputs."""
        settings = self.settings
        if not set(self.hidden) <= set(self.visible):
            raise IncidenceError(
                f"with `--ends {settings.ends}` the hidden tensors are among the inputs; got"
                f" `{self.through}` for `{self.map}`. Use `--ends layer`, or another --through."
            )
        mapped = [p for p in self.visible if p in self.hidden]
        widths = [self.in_channels[p] for p in mapped]
        has_bias = settings.encoder_norm == "none"
        maps = PerTensor(_side(mapped), widths, settings.hidden, has_bias)
        others = [p for p in self.visible if p not in self.hidden]
        if not others:
            return maps
        other_widths = {key_of(p): self.in_channels[p] for p in others}
        pooled = self._layer(f"{_side(others)} -> {self.through}", other_widths)
        return TermSum(maps, [PooledTerm(pooled)])

    def blocks(self) -> Sequential:
        """Return all blocks, and the averages over neighbours that follow them."""
        blocks = [module for _ in range(self.settings.depth) for module in self._block()]
        if self.settings.jumping == "max" and any(p.is_oriented for p in self.hidden):
            raise IncidenceError(
                "`--jumping max` is not odd, and some hidden tensor is oriented: use"
                " `--jumping mean`."
            )
        if self.settings.jumping != "last" and blocks:
            each = [Sequential(*self._block()) for _ in range(self.settings.depth)]
            blocks = [Jumping(each, self.settings.jumping)]
        hops = self.settings.hops
        return Sequential(*blocks, *([Diffusion(self.through, hops)] if hops else []))

    def _block(self) -> list[nn.Module]:
        text = self.through
        channels = self.settings.hidden
        terms = self._terms()
        layer = self._layer(f"{text} -> {text}")
        each = PerTensor(text, channels, channels, self.has_bias)
        first = TermSum(layer, terms) if terms else layer
        branch = [*self._flows(), first, *self._after(text), each, *self._after(text)]
        drop = Dropout(self.settings.dropout)
        if self.settings.dropout_at == "stream":
            return [drop, Residual(Sequential(*branch))]  # the stream itself is dropped
        return [Residual(Sequential(*branch, drop))]

    def _flows(self) -> list[nn.Module]:
        """What a block does with harmonic parts of oriented tensors."""
        settings = self.settings
        if not settings.harmonic or not any(p.is_oriented for p in self.hidden):
            return []
        return [HarmonicTerm(self.through, settings.hidden, settings.harmonic, is_flow=True)]

    def _terms(self) -> list[nn.Module]:
        """What a block adds to its layer."""
        settings = self.settings
        hidden = self.hidden
        terms: list[nn.Module] = []
        for text in settings.product_texts:
            terms.append(ProductTerm(text, hidden, settings.hidden))
        for text in settings.attention_texts:
            terms.append(AttentionTerm(text, hidden, settings.hidden, settings.heads))
        if self.links:
            terms.append(NeighbourTerm(hidden, self.links, settings.hidden))
        return terms

    def head(self, output: Pattern, channels: int) -> nn.Module:
        """Return the head of one output."""
        if output in self.queries:
            return self._query_head(output, channels)
        if not output.faces:
            return self._structure_head(channels)
        side = _side((output,))
        is_hidden = self.settings.ends == "entry" and output in self.hidden
        before = [Pick(output)] if is_hidden else self._layer_to(side)
        if self.settings.harmonic:
            columns = self.settings.harmonic
            before = [HarmonicTerm(self.through, self.settings.hidden, columns), *before]
        drop = Dropout(self.settings.head_rate)
        return Sequential(*before, drop, PerTensor(side, self.settings.hidden, channels))

    def _layer_to(self, side: str) -> list[nn.Module]:
        return [self._layer(f"{self.through} -> {side}"), *self._after(side)]

    def _query_head(self, query: Pattern, channels: int) -> QueryHead:
        layer = self._layer(f"{_side(node_tensors(self.through, query))} -> {query}")
        after = Sequential(*self._after(_side((query,))))
        rate = self.settings.head_rate
        return QueryHead(layer, after, self.in_channels[query], channels, rate)

    def _structure_head(self, channels: int) -> Sequential:
        settings = self.settings
        statistics = Readout(self.through, settings.statistics)  # one row for each structure
        width = statistics.out_channels(settings.hidden)
        readout: nn.Module = statistics
        if settings.harmonic:
            holes = HarmonicReadout(self.through, settings.hidden, settings.harmonic)
            readout = Join([statistics, holes])
            width += holes.width
        # Sums over structures are large: without a norm, `Rescale` brings them to size.
        norm = NORMS[settings.norm]("", width) or [Rescale(width)]
        if settings.harmonic:
            # Ranks stay 0 and 1: a norm would blow up one that training data has in few places.
            ranks = HarmonicRanks(self.through, settings.harmonic)
            readout, norm = Join([Sequential(readout, *norm), ranks]), []
            width += ranks.width
        steps: list[nn.Module] = []
        for _ in range(settings.head_depth):
            drop = nn.Dropout(settings.head_rate)
            steps += [nn.Linear(width, settings.hidden), self._activation(""), drop]
            width = settings.hidden
        return Sequential(readout, *norm, *steps, nn.Linear(width, channels))

    def _layer(self, text: str, in_channels: Mapping[str, int] | None = None) -> Linear:
        """A layer with the operations of a map that the settings choose."""
        m = EquivariantMap(text, self.map.max_overlap)
        choice = self.settings.operations
        return Linear(
            m,
            self.settings.hidden if in_channels is None else in_channels,
            self.settings.hidden,
            aggr=self.settings.pooling,
            bias=self.has_bias,
            max_overlap=m.max_overlap,
            # in the words of each map
            operations=None if choice is None else carried(choice, self.inner, m),
        )

    def _after(self, text: str, norm: str | None = None) -> list[nn.Module]:
        """The norm and the activation that follow a map."""
        make_norm = NORMS[norm or self.settings.norm]
        return [*make_norm(text, self.settings.hidden), self._activation(text)]

    def _activation(self, text: str) -> Activation:
        names = {str(p): self.settings.activation_of(p) for p in as_side(text)}
        hidden = self.settings.hidden
        return Activation({key: ACTIVATIONS[name](hidden) for key, name in names.items()})

    def _assert_queries_are_inputs(self) -> None:
        for pattern in self.queries:
            if pattern not in self.map.inputs or not pattern.faces:
                raise IncidenceError(
                    "with `--ends query` every output is an input, too, whose entries are the"
                    f" queries; `{pattern}` is none. Add it to the inputs, or use another --ends."
                )

    def _assert_activations_have_tensors(self) -> None:
        tensors = dict.fromkeys((*self.hidden, *self.map.outputs))
        for pattern in self.settings.activation_by_tensor:
            if pattern not in tensors:
                there = ", ".join(f"`{p}`" for p in tensors)
                raise IncidenceError(
                    f"activation has `{pattern}`, and the network has {there}. Choose one of them."
                )


def _side(patterns: Sequence[Pattern]) -> str:
    """The tensors of one side, as they are written in a map."""
    return ", ".join(map(str, patterns))


def _links(patterns: Sequence[Pattern]) -> list[Pattern]:
    """The tensors whose entries join nodes that are tensors, too."""
    joins = [p for p in patterns if p.is_open or len(p.letters) > 1]
    return [p for p in joins if all(Pattern(f"i:{sort}") in patterns for sort in p.sorts.values())]
