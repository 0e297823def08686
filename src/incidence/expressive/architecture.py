"""Architectures as lists of rounds: a text, a layer, or every layer of a network in its order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from torch import nn

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.expressive.readers import (
    AttentionReader,
    ColourReader,
    LinearReader,
    NeighbourReader,
    ProductReader,
    ReadoutReader,
)
from incidence.models.blocks import (
    AttentionTerm,
    Join,
    NeighbourTerm,
    PerTensor,
    Pick,
    PooledTerm,
    ProductTerm,
    Rescale,
    RowScale,
    TermSum,
)
from incidence.models.net import IncidenceNet
from incidence.models.predictor import Predictor
from incidence.nn import (
    Activation,
    Attention,
    BatchNorm,
    Diffusion,
    Dropout,
    Gate,
    LayerNorm,
    Linear,
    Multilinear,
    Neighbours,
    Product,
    Readout,
    Residual,
    Sequential,
)
from incidence.nn.topology import OfHoles
from incidence.structure import Structure

__all__ = ["LAYERS", "Architecture", "Head", "Round", "of_layer", "of_network"]

LAYERS = Linear, Product, Multilinear, Attention, Neighbours
"""Modules that are one layer: networks of any number of them are meant."""


@dataclass(frozen=True)
class Round:
    """One layer, and what is kept beside what it reads.

    Attributes:
        readers: What the entries read.
        keeps: How many rounds back the colours are from that stay known; 1 is the round before.
        only: The tensors that are left; None for all.
        has_orbits: Whether entries of different orbits differ, even if all that they read is 0.
        is_layer: Whether this counts as a layer.
    """

    readers: tuple[ColourReader, ...] = ()
    keeps: tuple[int, ...] = ()
    only: tuple[Pattern, ...] | None = None
    has_orbits: bool = True
    is_layer: bool = True


Rounds = list[Round]


@dataclass(frozen=True)
class Head:
    """One output of a network: its tensor, and the rounds after those that all outputs share."""

    output: Pattern
    rounds: tuple[Round, ...]


@dataclass(frozen=True)
class Architecture:
    """What networks of one kind do.

    Attributes:
        about: The architecture in words.
        rounds: Its layers.
        heads: Its outputs; none if all tensors are.
        is_repeated: Whether networks of any depth are meant: the rounds are repeated.
        tensors: The tensors that have colours from the start.
    """

    about: str
    rounds: tuple[Round, ...]
    heads: tuple[Head, ...] = ()
    is_repeated: bool = False
    tensors: tuple[Pattern, ...] = ()

    @property
    def readers(self) -> list[ColourReader]:
        """Everything that reads."""
        rounds = [*self.rounds, *(r for head in self.heads for r in head.rounds)]
        return [reader for one in rounds for reader in one.readers]

    @property
    def is_exact(self) -> bool:
        """Whether some weights tell apart whatever has different colours."""
        return all(reader.is_exact for reader in self.readers)


def of_layer(
    layers: Sequence[nn.Module], about: str, structure: Structure, tensors: Iterable[Pattern] = ()
) -> Architecture:
    """Return the architecture of networks with any number of some layers."""
    readers = tuple(reader for layer in layers for reader in _readers(layer, structure))
    return repeated(readers, about, tensors)


def repeated(
    readers: Sequence[ColourReader], about: str, tensors: Iterable[Pattern] = ()
) -> Architecture:
    """Return the architecture of networks of any depth with some readers in each layer."""
    known = dict.fromkeys(tensors)
    for reader in readers:
        known |= dict.fromkeys([*reader.inputs, *reader.outputs])
    return Architecture(about, (Round(tuple(readers), (1,)),), (), True, tuple(known))


def of_network(net: nn.Module, structure: Structure) -> Architecture:
    """Return the layers of a network.

    Raises:
        IncidenceError: A module is unknown, or cannot be followed.
    """
    compiler = _Compiler(structure)
    about = type(net).__name__
    while isinstance(net, Predictor):
        net = net.net
    if isinstance(net, IncidenceNet):
        trunk = [*compiler.rounds(net.encoder), *compiler.rounds(net.blocks)]
        outputs = zip(net.map.outputs, net.heads, strict=True)
        heads = tuple(Head(output, tuple(compiler.rounds(head))) for output, head in outputs)
        return Architecture(f"{about} {net.map}", tuple(trunk), heads, tensors=net.map.inputs)
    rounds = tuple(compiler.rounds(net))
    if not any(one.readers for one in rounds):
        raise IncidenceError(
            f"{about} has no layer of incidence: its entries never read each other. Give a network"
            " with an inc.nn.Linear, or the text of a map."
        )
    # of the first layer
    readers = rounds[0].readers or next(one.readers for one in rounds if one.readers)
    tensors = dict.fromkeys(p for reader in readers for p in reader.inputs)
    return Architecture(about, rounds, tensors=tuple(tensors))


M = TypeVar("M", bound=nn.Module)


def _readers(layer: nn.Module, structure: Structure) -> list[ColourReader]:
    """Return what one layer reads."""
    if isinstance(layer, Linear):
        return [LinearReader(layer, structure)]
    if isinstance(layer, Product):
        maps = [LinearReader(m, structure) for m in layer.maps if isinstance(m, Linear)]
        return [*maps, ProductReader(layer.product, structure, layer.limit)]
    if isinstance(layer, Multilinear):
        return [ProductReader(product, structure) for product in layer.products]
    if isinstance(layer, Attention):
        return [AttentionReader(layer, structure)]
    assert isinstance(layer, (Neighbours, Diffusion))
    return [NeighbourReader(layer, structure)]


class _Compiler:
    """Finds the rounds of modules on a structure."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self._known: dict[object, tuple[ColourReader, ...]] = {}

    def rounds(self, module: nn.Module) -> Rounds:
        """Return the rounds of a module.

        Raises:
            IncidenceError: The module is unknown.
        """
        # Subclasses of users follow the rule of the class that they extend.
        for kind in type(module).__mro__:
            if kind in _RULES:
                return _RULES[kind](self, module)
        raise IncidenceError(
            f"expressivity cannot follow {type(module).__name__}: it knows the layers and blocks of"
            " incidence, and the entrywise modules of torch. Give the text of the map, or the"
            " layers alone."
        )

    def readers(self, layer: nn.Module) -> tuple[ColourReader, ...]:
        """Return what a layer reads; blocks with equal layers share the lists."""
        key: object = layer
        if isinstance(layer, Linear):
            weights = layer._weight_layout
            kept = tuple(weights.kept.items())
            key = str(layer.map), layer.map.max_overlap, kept, layer.aggr, str(weights.aggr_of)
        if isinstance(layer, Product):
            key = str(layer.product), *map(str, layer.maps)
        # Index lists of a layer take long to make, and blocks repeat their layers.
        if key not in self._known:
            self._known[key] = tuple(_readers(layer, self.structure))
        return self._known[key]

    def chain(self, modules: Iterable[nn.Module]) -> Rounds:
        """Return the rounds of modules that follow each other."""
        rounds: Rounds = []
        for module in modules:
            if isinstance(module, (LayerNorm, BatchNorm)):
                # their shifts differ from orbit to orbit
                if rounds:
                    rounds[-1] = replace(rounds[-1], has_orbits=True)
                continue
            rounds += self.rounds(module)
        return rounds


_Rule = Callable[[_Compiler, Any], Rounds]
_RULES: dict[type, _Rule] = {}


def _rule(*kinds: type) -> Callable[[_Rule], _Rule]:
    def register(rule: _Rule) -> _Rule:
        _RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return register


@_rule(
    Activation,
    BatchNorm,
    Dropout,
    Gate,
    LayerNorm,
    Rescale,
    RowScale,
    nn.BatchNorm1d,
    nn.Dropout,
    nn.ELU,
    nn.GELU,
    nn.Identity,
    nn.LayerNorm,
    nn.LeakyReLU,
    nn.Linear,
    nn.ReLU,
    nn.Sigmoid,
    nn.SiLU,
    nn.Softplus,
    nn.Tanh,
)
def _entrywise(compiler: _Compiler, module: nn.Module) -> Rounds:
    return []


@_rule(PerTensor)
def _per_tensor(compiler: _Compiler, module: PerTensor) -> Rounds:
    return [Round(keeps=(1,), only=module.patterns, is_layer=False)]


@_rule(Pick)
def _pick(compiler: _Compiler, module: Pick) -> Rounds:
    return [Round(keeps=(1,), only=(module.output,), is_layer=False)]


@_rule(Linear)
def _linear(compiler: _Compiler, module: Linear) -> Rounds:
    has_bias = any(bias is not None for bias in module._biases())
    return [Round(compiler.readers(module), has_orbits=has_bias)]


@_rule(Attention, Multilinear, Neighbours)
def _layer(compiler: _Compiler, module: nn.Module) -> Rounds:
    return [Round(compiler.readers(module))]


@_rule(Product)
def _product(compiler: _Compiler, module: Product) -> Rounds:
    *maps, product = compiler.readers(module)  # maps of the operands, then the product
    if not maps:
        return [Round((product,))]
    # without a function in between, a little less than this is told apart
    raise IncidenceError(
        "expressivity cannot follow Product with is_complete=True inside of a network: it is a"
        " linear layer and a product without a function between them. Give the two as text:"
        " expressivity(map, structures, products=...)."
    )


@_rule(Diffusion)
def _diffusion(compiler: _Compiler, module: Diffusion) -> Rounds:
    # nodes are mixed with their surroundings: it is not known that they stay known
    return [Round(compiler.readers(module), keeps=(1,))]


@_rule(Readout)
def _readout(compiler: _Compiler, module: Readout) -> Rounds:
    return [Round((ReadoutReader(module, compiler.structure),))]


@_rule(Sequential, nn.Sequential)
def _sequential(compiler: _Compiler, module: nn.Sequential) -> Rounds:
    return compiler.chain(module)


@_rule(Join, OfHoles)
def _holes(compiler: _Compiler, module: nn.Module) -> Rounds:
    raise IncidenceError(
        "expressivity is decided by colours of entries, and this network also reads the holes of a"
        " structure, which no colours tell. Build it with harmonic=0 to see what its layers tell"
        " apart. inc.nn.HarmonicRanks gives the holes of each structure."
    )


@_rule(Residual)
def _residual(compiler: _Compiler, module: Residual) -> Rounds:
    *rounds, last = compiler.rounds(module.inner) or [Round(keeps=(1,), is_layer=False)]
    back = len(rounds) + 1  # rounds from the input of the block to its output
    keeps = tuple(dict.fromkeys((*last.keeps, back)))
    return [*rounds, replace(last, keeps=keeps, only=None)]


@_rule(ProductTerm)
def _product_term(compiler: _Compiler, module: ProductTerm) -> Rounds:
    return compiler.rounds(module.product)


@_rule(AttentionTerm)
def _attention_term(compiler: _Compiler, module: AttentionTerm) -> Rounds:
    return compiler.rounds(module.attention)


@_rule(NeighbourTerm)
def _neighbour_term(compiler: _Compiler, module: NeighbourTerm) -> Rounds:
    return compiler.rounds(module.neighbours)


@_rule(PooledTerm)
def _pooled_term(compiler: _Compiler, module: PooledTerm) -> Rounds:
    return compiler.rounds(module.layer)


@_rule(TermSum)
def _term_sum(compiler: _Compiler, module: TermSum) -> Rounds:
    first = compiler.rounds(module.layer)
    parts = [first, *(compiler.rounds(term) for term in module.terms)]
    if any(len(part) > 1 for part in parts):
        raise IncidenceError(
            "expressivity cannot follow a sum of terms that have several layers each. Give the"
            " text of the map."
        )
    readers = tuple(reader for part in parts for one in part for reader in one.readers)
    [base] = first or [Round(keeps=(1,))]
    return [replace(base, readers=readers, is_layer=True)]
