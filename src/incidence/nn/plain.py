"""What a network needs of a structure when it runs elsewhere: named lists, which are the inputs of
what is exported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.pattern import Pattern
from incidence.algebra.products import ProductText, parse_product
from incidence.engine.bags import Bags
from incidence.engine.layout import TensorLayout
from incidence.engine.partners import PartnerKey
from incidence.engine.plain import (
    assert_plain,
    level_pairs,
    level_tensors,
    listed_keys,
    partner_pairs,
    partner_tensors,
)
from incidence.engine.plan import Plan, plan_of
from incidence.engine.products.contract import MAX_JOINED, join_plan_of
from incidence.engine.products.plain import group_lists, product_program, step_pairs
from incidence.engine.products.plan import JoinPlan, JoinStep
from incidence.engine.products.softmax import groups_of
from incidence.errors import IncidenceError
from incidence.nn.attention import Attention
from incidence.nn.composition import Planned
from incidence.nn.diffusion import Incident
from incidence.nn.functional import product_key, softmax_key
from incidence.nn.harmonic import Harmonic
from incidence.nn.linear import Linear
from incidence.nn.norms import Norm
from incidence.nn.products import Multilinear, Product
from incidence.nn.readout import Readout
from incidence.nn.topology import OfHoles
from incidence.structure import Structure
from incidence.structure.arrange import orbit_rows
from incidence.structure.pytree import Recorded, recorded

__all__ = ["PlainInputs", "plain_inputs", "planned_structure", "prepare_layers"]


@dataclass
class PlainInputs:
    """The lists of a network on a structure.

    Attributes:
        tensors: By name.
        about: What each of them is, in words.
        parts: For every part of the network, by its key, the names of the lists that it reads and
            the text that says what it is.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)
    parts: dict[str, tuple[list[str], str]] = field(default_factory=dict)
    _names: dict[Any, list[str]] = field(default_factory=dict, repr=False)

    def _add(self, name: str, tensor: Tensor, about: str) -> str:
        self.tensors[name], self.about[name] = tensor, about
        return name

    def _count(self, kind: str) -> int:
        """Return how many groups of lists there are whose names begin with a word."""
        return len(
            {tuple(name.split("_")[:2]) for name in self.tensors if name.startswith(f"{kind}_")}
        )

    def _entries(self, structure: Structure, pattern: Pattern) -> list[str]:
        key = "entries", pattern
        if key not in self._names:
            name = f"entries_{self._count('entries')}"
            what = (
                f"the structure of every entry of `{pattern}`"
                if pattern.faces
                else "the number of every structure"
            )
            self._names[key] = [self._add(name, structure.batch(pattern), what)]
        return self._names[key]

    def _tensor(
        self, layout: TensorLayout, bags: Bags, plan: Plan, spelled: Mapping[Pattern, Pattern]
    ) -> list[str]:
        """Return the names of the lists of a tensor, described in the letters of the module.

        Keys of up to one node have numbers of their own. Others are numbered by the plan of a map.
        """
        # Keys of one node are the nodes themselves, so that all maps may share their lists.
        is_general = all(len(level) < 2 for level in layout.levels)
        key = "tensor", layout, None if is_general else plan.layout
        if key not in self._names:
            number = self._count("tensor")
            self._names[key] = [
                self._add(
                    f"tensor_{number}_{'_'.join(level) or 'whole'}_{what}",
                    tensor,
                    _about_level(layout, spelled[layout.pattern], level, what),
                )
                for level, pairs in zip(layout.levels, level_pairs(bags), strict=True)
                for what, tensor in level_tensors(pairs).items()
            ]
        return self._names[key]

    def _partners(
        self, key: PartnerKey, plan: Plan, spelled: Mapping[Pattern, Pattern]
    ) -> list[str]:
        pattern = spelled[plan.layout.patterns[key[0].tensor]]
        own = "partners", pattern, key[0].number, key[1]
        if own not in self._names:
            number = self._count("pairs")
            about = f"pairs of entries of `{pattern}` on the same nodes, with overlap {key[1]}"
            pairs = partner_pairs(plan.partners[key], pattern.is_oriented, plan.device)
            self._names[own] = [
                self._add(f"pairs_{number}_{what}", tensor, f"{what} of {about}")
                for what, tensor in partner_tensors(pairs).items()
            ]
        return self._names[own]

    def _layer(self, layer: Linear, structure: Structure) -> None:
        assert_plain(layer._aggregations)
        products = layer._products
        layout, names = products.layout, list[str]()
        plan = plan_of(structure, layout)
        # maps of one meaning share a layout, whose letters are those of the first of them
        spelled = {pattern: pattern for pattern in layer.map.inputs + layer.map.outputs}
        for pattern in layer.map.outputs:
            names += self._entries(structure, pattern)
        for tensor, bags in zip(layout.tensors, plan.bags, strict=True):
            names += self._tensor(tensor, bags, plan, spelled)
        for key in listed_keys(products):
            names += self._partners(key, plan, spelled)
        self.parts[layer._key] = names, ""

    def _readout(self, readout: Readout, structure: Structure) -> None:
        assert_plain(readout._aggregations)
        plan = plan_of(readout._on(structure), readout._layout)
        spelled = {pattern: pattern for pattern in readout._map.inputs}
        for number, layout in enumerate(plan.layout.inputs):
            names = self._tensor(layout, plan.inputs[number], plan, spelled)
            self.parts[f"{readout._key} {number}"] = names, ""

    def _of_holes(self, module: OfHoles, structure: Structure) -> None:
        raise IncidenceError(
            "a network that reads holes cannot be exported, because other programs do not know how"
            " to find them. Train one with `--harmonic 0`, or predict with the network itself."
        )

    def _norm(self, norm: Norm, structure: Structure) -> None:
        for pattern, key in zip(norm.patterns, norm._keys, strict=True):
            if len(pattern.orbits) > 1:
                named = [
                    self._add(f"orbit_{key}_{k}", rows, f"the rows of `{pattern}` of orbit {k}")
                    for k, rows in enumerate(orbit_rows(structure, pattern))
                ]
                self.parts[f"rows {key}"] = named, ""

    def _incident(self, module: Incident, structure: Structure) -> None:
        if module._key not in self.parts:
            about = module.list_names()
            while next(iter(about)) in self.tensors:  # of other tensors
                about = {f"further_{name}": words for name, words in about.items()}
            named = zip(about.items(), module.plan(structure).tensors, strict=True)
            self.parts[module._key] = (
                [self._add(name, tensor, words) for (name, words), tensor in named],
                "",
            )

    def _harmonic(self, module: Harmonic, structure: Structure) -> None:
        raise IncidenceError(
            "a network with Harmonic cannot be exported: every structure needs a basis of harmonic"
            " tensors, which other programs cannot make. Use the network in Python; torch.compile"
            " takes it after net.plan(structure)."
        )

    def _product(self, module: Product, structure: Structure) -> None:
        self._joins(module.product, structure, module.limit)

    def _multilinear(self, module: Multilinear, structure: Structure) -> None:
        for product in module.products:
            self._joins(product, structure)

    def _attention(self, module: Attention, structure: Structure) -> None:
        for text in module._texts:
            self._joins(parse_product(text), structure)
        pattern, over = str(module.pattern), module.over
        key = softmax_key(pattern, over)
        if key not in self.parts:
            number, about = self._count("softmax"), f"the softmax of `{pattern}` over {over}"
            words = {"groups": "group of each entry", "sizes": "entries of each group"}
            lists = zip(words, group_lists(groups_of(structure, pattern, over)), strict=True)
            self.parts[key] = (
                [
                    self._add(f"softmax_{number}_{what}", t, f"{words[what]}: {about}")
                    for what, t in lists
                ],
                "",
            )

    def _joins(self, product: ProductText, structure: Structure, limit: int = MAX_JOINED) -> None:
        """Return the lists of all steps of a product, by a plan whose steps are those of every
        other structure.
        """
        key = product_key(product.text)
        if key not in self.parts:
            plan = join_plan_of(structure, product, limit, is_fixed=True)
            named = [
                self._step(plan, number, step)
                for number, step in enumerate(plan.steps)
                if isinstance(step, JoinStep)  # a fixed plan has no others
            ]
            self.parts[key] = [name for names in named for name in names], product_program(plan)

    def _step(self, plan: JoinPlan, place: int, step: JoinStep) -> list[str]:
        number, about = self._count("join"), f"{plan.formulas[place]} of `{plan.text}`"
        factors = [plan.names[source] for source in step.sources]
        pairs = step_pairs(step)
        named = [
            ("targets", pairs[0].targets, "target of each joined row"),
            ("sizes", pairs[0].sizes, "joined rows of each target"),
        ]
        for k, (own, factor) in enumerate(zip(pairs, factors, strict=True)):
            named.append((f"rows_{k}", own.sources, f"row of {factor} of each joined row"))
        named.append(("signs", pairs[0].signs, "sign of each joined row"))
        return [
            self._add(f"join_{number}_{what}", tensor, f"{words}: {about}")
            for what, tensor, words in named
            if tensor is not None
        ]


def _about_level(layout: TensorLayout, pattern: Pattern, level: tuple[str, ...], what: str) -> str:
    where = f"every set of {' and '.join(level)}"
    if len(level) == 1:
        where = f"every {level[0]}"
    if not level:
        where = "the whole structure"
    words = {
        "rows": "row of each pair",
        "bags": "bag of each pair",
        "sizes": "rows of each bag",
        "signs": "sign of each pair",
    }
    slots = layout.num_slots[layout.levels.index(level)]
    return f"{words[what]}: {pattern} at {where}, {slots} {'bag' if slots == 1 else 'bags'} each"


def plain_inputs(net: nn.Module, structure: Structure) -> PlainInputs:
    """Return the lists that a network needs of a structure, by name.

    Args:
        net: The network.
        structure: The structure, or a batch.

    Raises:
        IncidenceError: A part of the network is not made of plain steps.
    """
    found = PlainInputs()
    for module in net.modules():
        # The first kind that fits: subclasses are exported as the class that they extend.
        collect = next(
            (collect for kind, collect in _PARTS.items() if isinstance(module, kind)), None
        )
        if collect is not None:
            collect(found, module, structure)
        elif isinstance(module, Planned):
            raise IncidenceError(
                f"a network with {type(module).__name__} cannot be exported, as it is none of this"
                " library's modules, whose steps other programs know: leave it out, or make it of"
                " inc.nn.Linear, Product, Multilinear and Attention."
            )
    return found


_PARTS: dict[type[nn.Module], Callable[[PlainInputs, Any, Structure], None]] = {
    Linear: PlainInputs._layer,
    Readout: PlainInputs._readout,
    Norm: PlainInputs._norm,
    Incident: PlainInputs._incident,
    Harmonic: PlainInputs._harmonic,
    OfHoles: PlainInputs._of_holes,
    Product: PlainInputs._product,
    Multilinear: PlainInputs._multilinear,
    Attention: PlainInputs._attention,
}


def prepare_layers(net: nn.Module) -> None:
    """Make what cannot be made while a graph is recorded: how layers gather their matrices."""
    for layer in net.modules():
        if isinstance(layer, Linear):
            device = next(layer.parameters()).device
            layer._products.matrices(layer.in_channels, layer.out_channels, device)


def planned_structure(
    parts: dict[str, tuple[list[str], str]], tensors: dict[str, Tensor]
) -> Structure:
    """Return a structure that has nothing but lists for plain steps.

    A network gets it while it is exported.
    """
    # one structure without nodes
    structure = Structure._of({"node": torch.zeros(2, dtype=torch.long)}, {}, {})
    for key, (names, program) in parts.items():
        recorded(structure)[key] = Recorded([tensors[name] for name in names], program)
    return structure
