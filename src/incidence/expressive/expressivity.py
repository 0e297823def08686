"""`expressivity`: what networks of one kind can tell apart, decided exactly, without training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.multilinear import MultilinearMap
from incidence.algebra.pattern import Pattern
from incidence.algebra.selection import Choice
from incidence.errors import IncidenceError
from incidence.expressive.architecture import LAYERS, Architecture, of_layer, of_network, repeated
from incidence.expressive.explaining import explained
from incidence.expressive.larger import LARGER, is_graph, map_of
from incidence.expressive.readers import ColourReader, LinearReader, ProductReader
from incidence.expressive.refine import Refinement, classes_of, refine
from incidence.expressive.witness import Witness, witness_of
from incidence.nn import Linear
from incidence.nn.initial import Aggr
from incidence.nn.tensors import key_of
from incidence.structure import Example, Structure
from incidence.structure.collate import collate
from incidence.structure.data import support_of

__all__ = ["Expressivity", "expressivity"]


class TensorColours(Mapping[str, Tensor]):
    """The colours of the entries of every tensor, by its text in any spelling, or its name."""

    def __init__(self, by_pattern: Mapping[Pattern, Tensor]) -> None:
        self._by_pattern = by_pattern

    def __getitem__(self, key: str) -> Tensor:
        for pattern, colours in self._by_pattern.items():
            if key == pattern.name:  # a name wins over a pattern of the same text
                return colours
        pattern = Pattern(key)
        if pattern not in self._by_pattern:
            raise IncidenceError(
                f"no colours of `{key}`; there are those of {', '.join(map(repr, self))}."
            )
        return self._by_pattern[pattern]

    def __iter__(self) -> Iterator[str]:
        return map(key_of, self._by_pattern)

    def __len__(self) -> int:
        return len(self._by_pattern)


@dataclass(frozen=True, eq=False)
class Expressivity:
    """What networks of one kind tell apart. `print(e)` says it in a line, `e.explain()` in words.

    Attributes:
        structure: The structures, as one batch.
        architecture: The kind of networks.
        refinement: The colours of all rounds.
        features: The features that the colours started from.
    """

    structure: Structure
    architecture: Architecture
    refinement: Refinement
    features: Mapping[Pattern, Tensor] = field(default_factory=dict)

    @cached_property
    def classes(self) -> tuple[int, ...]:
        """For every structure a number. No network of this kind tells equal numbers apart."""
        return tuple(classes_of(self.structure, self._final).tolist())

    @property
    def _final(self) -> list[tuple[Pattern, Any]]:
        """The colours from which networks compute values of whole structures."""
        return list(self.refinement.outputs or self.refinement.states[-1].items())

    def separates(self, one: int, other: int) -> bool:
        """Return whether some network of this kind gives two structures different values.

        If the result is no exact one (`is_exact`), True means only that this is not excluded.
        """
        return self.classes[self._number(one)] != self.classes[self._number(other)]

    def _number(self, number: int) -> int:
        count = len(self.classes)
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < count:
            raise IncidenceError(f"structures are numbered 0 to {count - 1} here; got {number!r}.")
        return number

    @cached_property
    def colours(self) -> Mapping[str, Tensor]:
        """For every tensor the colours of its entries.

        No network of this kind gives entries of one colour different values.
        """
        final = dict(self.refinement.states[-1]) | dict(self.refinement.outputs)
        device = self.structure.device
        return TensorColours({p: own.of_rows.to(device) for p, own in final.items()})

    @property
    def rounds(self) -> int:
        """The number of layers after which nothing more is told apart; of a network, the number of
        its layers.
        """
        return self.refinement.num_layers

    @property
    def is_exact(self) -> bool:
        """Whether some network of this kind separates whatever has different classes.

        With `std`, attention, or an aggregation of your own it is not known: then structures of one
        class are still equal for all networks, and the classes are an upper bound.
        """
        return self.architecture.is_exact

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The structures that cannot be told apart from each other, two or more at a time."""
        members: dict[int, list[int]] = {}
        for number, own in enumerate(self.classes):
            members.setdefault(own, []).append(number)  # numbers ascend
        return tuple(tuple(group) for group in members.values() if len(group) > 1)

    @property
    def num_equal_pairs(self) -> int:
        """The number of pairs of structures that cannot be told apart."""
        return sum(len(group) * (len(group) - 1) // 2 for group in self.groups)

    def witness(self, one: int, other: int) -> Witness | None:
        """Return a colour that two structures have different numbers of, unfolded into words; None
        if they are not told apart.
        """
        pair = self._number(one), self._number(other)
        if not self.separates(*pair):
            return None
        trunk, heads = self.refinement.states, self.architecture.heads
        if not heads:
            own = self.refinement.rounds
            return witness_of(self.structure, trunk, own, pair, self.features)
        for head, states in zip(heads, self.refinement.head_states, strict=True):
            # from the start to one output
            chain, rounds = [*trunk, *states], [*self.refinement.rounds, *head.rounds]
            last = classes_of(self.structure, [(head.output, chain[-1][head.output])])
            if last[pair[0]] != last[pair[1]]:
                return witness_of(self.structure, chain, rounds, pair, self.features)
        return None

    def larger(self, one: int, other: int) -> dict[str, bool | None]:
        """Return which architectures that read more tell two structures apart.

        Layers read edges, and further tensors: cliques, rings of growing size, all pairs with
        products, and all triples. Rings stop at the first size that is enough. None means that the
        tensor would be too large. Structures without edges `{i j}` have no such lifts.
        """
        pair = [self._number(one), self._number(other)]
        structure = self.structure[pair]
        results: dict[str, bool | None] = {}
        enough = set()  # kinds of which a smaller one tells the two apart
        if not is_graph(structure):
            return results
        features = self._features_of(pair)
        for architecture in LARGER:
            if architecture.kind in enough:  # larger ones tell them apart, too
                continue
            lifted = architecture.lifted(structure)
            results[architecture.about] = None
            if lifted is not None:
                m = map_of(architecture, self.architecture.tensors)
                products = architecture.products
                e = expressivity(m, lifted, features, products=products)
                results[architecture.about] = e.separates(0, 1)
                if e.separates(0, 1):
                    enough.add(architecture.kind)
        return results

    def _features_of(self, pair: Sequence[int]) -> dict[str, Tensor]:
        """The features of two of the structures."""
        features = {}
        for pattern, x in self.features.items():
            home = self.structure.batch(pattern).cpu()  # the structure of every entry
            features[key_of(pattern)] = torch.cat([x[home == number] for number in pair])
        return features

    def explain(self, one: int | None = None, other: int | None = None) -> str:
        """Say in words what was decided, and why.

        A pair that is told apart gets a witness: a colour with different counts, unfolded into what
        its entries read. A pair that is not gets a list of larger architectures.

        Args:
            one: A structure. Default: a pair is chosen.
            other: Another one.
        """
        return explained(self, one, other)

    def __str__(self) -> str:
        count, classes = len(self.classes), len(set(self.classes))
        colours = sum(own.number for _, own in self._final)
        bound = "" if self.is_exact else " (an upper bound)"
        return (
            f"`{self.architecture.about}`: {_count(count, 'structure')} in"
            f" {_count(classes, 'class', 'es')}{bound}, {_count(colours, 'colour')} after"
            f" {_count(self.rounds, 'layer')}"
        )

    def __repr__(self) -> str:
        return f"<Expressivity {self}>"


def _count(number: int, word: str, plural: str = "s") -> str:
    return f"{number:,} {word}{plural * (number != 1)}"


def expressivity(
    what: str | EquivariantMap | nn.Module,
    structures: Structure | Example | Sequence[Structure] | Sequence[Example],
    features: Mapping[str, Tensor] | None = None,
    aggr: Aggr | None = None,
    products: str | Sequence[str] = (),
    operations: Choice = None,
    max_overlap: int | None = None,
) -> Expressivity:
    """Decide which structures, and which entries, networks of one kind can tell apart.

    Two structures get one class if and only if every network of this kind gives them equal values,
    for all weights, widths, and functions of single entries. Nothing is trained, and no number is
    rounded: colours of entries are refined until nothing changes (docs/math.md section 20).

    Args:
        what: The text of a map, such as `i, {i j} -> i, {i j}`, for networks of any depth with its
            complete layers; with `*`, for all products of a multilinear map. A layer, for networks
            of any number of such layers. Or a network, for networks with its layers alone.
        structures: Structures or examples, or one batch. Features of examples are the first
            colours.
        features: From texts or names of tensors to features, for a batch: a row for each entry.
            Rows are compared exactly.
        aggr: How layers pool, as in `inc.nn.Linear` (default `sum`).
        products: Products that every layer adds, as in `inc.einsum`: `i j, j k -> i k`.
        operations: Which operations layers have, as in `inc.nn.Linear`. Default: all.
        max_overlap: With open faces: how many matched nodes may lie in one face (default 1).

    Raises:
        IncidenceError: The structures lack a tensor, a tensor is oriented, or a module of the
            network is unknown.

    Example:
        >>> import incidence as inc
        >>> hexagon = inc.Structure(6, {"{i j}": [[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]})
        >>> triangles = inc.Structure(6, {"{i j}": [[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]]})
        >>> expressivity("i, {i j} -> i, {i j}", [hexagon, triangles]).separates(0, 1)
        False
    """
    example = _as_example(structures)
    batch = example.structure
    choices = {"aggr": aggr, "operations": operations, "max_overlap": max_overlap}
    given = [name for name, value in choices.items() if value is not None]
    if products:
        given.append("products")
    if isinstance(what, nn.Module):
        if given:
            raise IncidenceError(
                f"{given[0]}= is for the text of a map; {type(what).__name__} has its own. Leave it"
                " out."
            )
        architecture = _of_module(what, batch)
    elif isinstance(what, str) and "*" in what:
        if given:
            raise IncidenceError(f"{given[0]}= is for linear maps, and `{what}` is multilinear.")
        texts = [str(product) for product in MultilinearMap(what).products]
        architecture = repeated([ProductReader(text, batch) for text in texts], what)
    elif isinstance(what, (str, EquivariantMap)):
        layer = _linear(what, aggr, operations, max_overlap)
        _assert_plain(layer.map.inputs + layer.map.outputs)
        texts = [products] if isinstance(products, str) else list(products)
        readers: list[ColourReader] = [LinearReader(layer, batch)]
        readers += [ProductReader(text, batch) for text in texts]
        architecture = repeated(readers, _about(layer.map, texts))
    else:
        raise IncidenceError(
            "expressivity takes the text of a map, a layer or a network; got"
            f" {type(what).__name__}. Of a trained model, give model.network."
        )
    for reader in architecture.readers:
        _assert_plain([*reader.inputs, *reader.outputs])
    chosen = _features(architecture, batch, example.features, features)
    return Expressivity(batch, architecture, refine(architecture, batch, chosen), chosen)


def _about(m: EquivariantMap, products: Sequence[str]) -> str:
    return " and ".join([str(m), *products])


def _linear(
    what: str | EquivariantMap, aggr: Aggr | None, operations: Choice, max_overlap: int | None
) -> Linear:
    """Return the layer of a text; its weights play no role."""
    if isinstance(what, str):
        what = EquivariantMap(what, 1 if max_overlap is None else max_overlap)
    chosen = "sum" if aggr is None else aggr
    _assert_plain(what.inputs + what.outputs)
    most = what.max_overlap if max_overlap is None else max_overlap
    # one channel is enough
    return Linear(what, 1, 1, aggr=chosen, operations=operations, max_overlap=most)


def _of_module(module: nn.Module, batch: Structure) -> Architecture:
    if isinstance(module, LAYERS):
        about = f"{type(module).__name__} {getattr(module, 'map', '')}".strip()
        patterns = _patterns(module)
        _assert_plain(patterns)
        return of_layer([module], about, batch)
    for inner in module.modules():
        _assert_plain(_patterns(inner))
    return of_network(module, batch)


def _patterns(module: nn.Module) -> Sequence[Pattern]:
    own = getattr(module, "map", None)
    if isinstance(own, MultilinearMap):
        return (*own.operands, own.output)
    return own.inputs + own.outputs if isinstance(own, EquivariantMap) else ()


def _assert_plain(patterns: Sequence[Pattern]) -> None:
    for pattern in patterns:
        if pattern.is_oriented:
            raise IncidenceError(
                f"expressivity is for values without a sign; got `{pattern}`. Colours of oriented"
                f" faces would need signs. Write `{pattern.unoriented()}` to see what the entries"
                " alone tell apart."
            )


def _as_example(structures: Any) -> Example:
    """Return all structures as one batch with its features."""
    if not isinstance(structures, (Structure, Example)):
        items = list(structures) if isinstance(structures, (Sequence, Iterator)) else []
        if not items or not all(isinstance(item, (Structure, Example)) for item in items):
            came = type(items[0] if items else structures).__name__
            raise IncidenceError(
                "expressivity compares structures or examples, in a list or as a batch; got"
                f" {'a list of ' if items else ''}{came}. inc.geometry.convert makes structures of"
                " graphs of other libraries."
            )
        structures = collate(items)
    return structures if isinstance(structures, Example) else Example(structures)


def _features(
    architecture: Architecture,
    batch: Structure,
    own: Mapping[str, Tensor],
    given: Mapping[str, Tensor] | None,
) -> dict[Pattern, Tensor]:
    """Return the features of the tensors that start with some."""
    tensors = architecture.tensors
    features = {batch.resolve(key): value for key, value in own.items()}
    chosen = {pattern: x.cpu() for pattern, x in features.items() if pattern in tensors}
    for key, x in (given or {}).items():
        pattern = support_of(batch, batch.resolve(key))
        if pattern not in tensors:
            known = ", ".join(f"`{p}`" for p in tensors)
            raise IncidenceError(
                f"features= has {key!r}, and `{architecture.about}` starts from {known}."
            )
        if not isinstance(x, Tensor) or x.ndim not in (1, 2) or x.is_complex():
            raise IncidenceError(
                f"features[{key!r}] must be a tensor of numbers with a row for each entry; got"
                f" {list(x.shape) if isinstance(x, Tensor) else type(x).__name__}."
            )
        if len(x) != batch.num_entries(pattern):
            raise IncidenceError(
                f"features[{key!r}] must have {batch.num_entries(pattern)} rows, one for each entry"
                f" of the batch; got {len(x)}."
            )
        chosen[pattern] = (x[:, None] if x.ndim == 1 else x).detach().cpu()
    for pattern, x in chosen.items():
        if x.is_floating_point() and bool(x.isnan().any()):
            raise IncidenceError(
                f"the features of `{pattern}` have missing numbers (nan), which equal nothing."
                " Replace them."
            )
    return chosen
