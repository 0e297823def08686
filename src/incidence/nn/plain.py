"""What a network needs of a structure when it runs elsewhere: named lists, which are the inputs of what is exported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.pattern import Pattern
from incidence.algebra.products import ProductText, parse_product
from incidence.errors import IncidenceError
from incidence.kernels.plain import (
    LevelLists,
    PartnerLists,
    assert_plain,
    level_lists,
    partner_lists,
)
from incidence.kernels.plain_joins import GroupLists, StepLists, group_lists, step_lists
from incidence.kernels.traced import PlainFlat, layer_text, prepare_plain, readout_text
from incidence.kernels.traced_joins import product_text
from incidence.nn.attention import Attention
from incidence.nn.functional import product_key, softmax_key
from incidence.nn.incident import Incident
from incidence.nn.linear import Linear
from incidence.nn.modules import _Norm
from incidence.nn.multilinear import Multilinear
from incidence.nn.planned import Planned
from incidence.nn.product import Product
from incidence.nn.readout import Readout
from incidence.plans import Plan, plan_of
from incidence.plans.join_plan import JoinPlan
from incidence.plans.joining import MAX_JOINED
from incidence.plans.layout import BagLayout, by_width, layout_of
from incidence.plans.products import groups_of, join_plan_of
from incidence.plans.program import compile_map
from incidence.plans.stack import StackPlan
from incidence.structure import Structure
from incidence.structure.data import cache_of, orbit_rows
from incidence.structure.pytree import Flat

__all__ = ["PlainInputs", "plain_inputs", "planned_structure", "prepare_layers"]


@dataclass
class PlainInputs:
    """The lists of a network on a structure.

    Attributes:
        tensors: By name.
        about: What each of them is, in words.
        parts: For every part of the network, by its key, the names of the lists that it reads and the text that says what it is.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)
    parts: dict[str, tuple[list[str], str]] = field(default_factory=dict)
    _stacks: dict[Any, list[str]] = field(default_factory=dict, repr=False)

    def _add(self, name: str, tensor: Tensor, about: str) -> str:
        self.tensors[name], self.about[name] = tensor, about
        return name

    def _count(self, kind: str) -> int:
        """How many groups of lists there are whose names begin with a word."""
        return len(
            {tuple(name.split("_")[:2]) for name in self.tensors if name.startswith(f"{kind}_")}
        )

    def _entries(self, structure: Structure, pattern: Pattern) -> list[str]:
        key = "entries", pattern
        if key not in self._stacks:
            name = f"entries_{self._count('entries')}"
            what = (
                f"the structure of every entry of `{pattern}`"
                if pattern.faces
                else "the number of every structure"
            )
            self._stacks[key] = [self._add(name, structure.batch(pattern), what)]
        return self._stacks[key]

    def _stack(self, layout: BagLayout, stack: StackPlan, plan: Plan) -> list[str]:
        """The lists of a stack. Keys of up to one node have numbers of their own; others are counted by the plan of a map."""
        is_general = all(len(level) < 2 for level in layout.all_levels)
        key = "stack", layout, None if is_general else plan.layout
        if key not in self._stacks:
            number = self._count("stack")
            self._stacks[key] = [
                self._add(
                    f"stack_{number}_{'_'.join(level) or 'whole'}_{what}",
                    tensor,
                    _about_level(layout, level, what),
                )
                for level, lists in zip(layout.all_levels, level_lists(stack), strict=True)
                for what, tensor in zip(LevelLists._fields, lists, strict=True)
                if tensor is not None
            ]
        return self._stacks[key]

    def _partners(self, key: Any, lists: PartnerLists, about: str) -> list[str]:
        if key not in self._stacks:
            number = self._count("pairs")
            named = zip(PartnerLists._fields, lists, strict=True)
            self._stacks[key] = [
                self._add(f"pairs_{number}_{what}", t, f"{what} of {about}")
                for what, t in named
                if t is not None
            ]
        return self._stacks[key]

    def _layer(self, layer: Linear, structure: Structure) -> None:
        assert_plain(layer._aggregations)
        plan = plan_of(structure, layer._together)
        program = compile_map(layer._weight_layout, plan, layer._aggregations)
        layout, names = program.products.layout, list[str]()
        for pattern in layout.map.outputs:
            names += self._entries(structure, pattern)
        for stack, lists in zip(layout.stacks, plan.stacks, strict=True):
            names += self._stack(stack, lists, plan)
        is_signed = any(stack.is_signed for stack in layout.stacks)
        for p in program.products.of_partners:
            pattern = layout.map.inputs[p.source]
            found = partner_lists(
                plan.partners.get(p.key),
                structure.num_entries(pattern),
                is_signed,
                structure.device,
            )
            about = f"pairs of entries of `{pattern}` on the same nodes, with overlap {p.key[1]}"
            names += self._partners(
                ("partners", pattern, p.key[0].orbit, p.key[1], is_signed), found, about
            )
        self.parts[layer._key] = names, layer_text(program)

    def _readout(self, readout: Readout, structure: Structure) -> None:
        assert_plain(readout._aggregations)
        stacks = by_width([1] * len(readout.patterns))  # hidden tensors have as many channels
        plan = plan_of(readout._on(structure), layout_of(readout._map, stacks))
        names = [
            name
            for layout, stack in zip(plan.layout.inputs, plan.inputs, strict=True)
            for name in self._stack(layout, stack, plan)
        ]
        self.parts[f"{readout._key} {stacks}"] = names, readout_text(plan)

    def _norm(self, norm: _Norm, structure: Structure) -> None:
        for pattern, key in zip(norm.patterns, norm._keys, strict=True):
            if len(pattern.orbits) > 1:
                named = [
                    self._add(f"orbit_{key}_{k}", rows, f"the rows of `{pattern}` of orbit {k}")
                    for k, rows in enumerate(orbit_rows(structure, pattern))
                ]
                self.parts[f"rows {key}"] = named, ""

    def _incident(self, module: Incident, structure: Structure) -> None:
        if module._key not in self.parts:
            told = module.told()
            while next(iter(told)) in self.tensors:  # of other tensors
                told = {f"further_{name}": about for name, about in told.items()}
            named = zip(told.items(), module.plan(structure).tensors, strict=True)
            self.parts[module._key] = (
                [self._add(name, tensor, about) for (name, about), tensor in named],
                "",
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
            lists = zip(
                GroupLists._fields, group_lists(groups_of(structure, pattern, over)), strict=True
            )
            words = {"groups": "group of each entry", "sizes": "entries of each group"}
            self.parts[key] = (
                [
                    self._add(f"softmax_{number}_{what}", t, f"{words[what]}: {about}")
                    for what, t in lists
                ],
                "",
            )

    def _joins(self, product: ProductText, structure: Structure, limit: int = MAX_JOINED) -> None:
        """The lists of all steps of a product, by a plan whose steps are those of every other structure."""
        key = product_key(product.text)
        if key not in self.parts:
            plan = join_plan_of(structure, product, limit, is_fixed=True)
            named = [
                self._step(plan, number, lists) for number, lists in enumerate(step_lists(plan))
            ]
            self.parts[key] = [name for names in named for name in names], product_text(plan)

    def _step(self, plan: JoinPlan, step: int, lists: StepLists) -> list[str]:
        number, about = self._count("join"), f"{plan.formulas[step]} of `{plan.text}`"
        factors = [plan.names[source] for source in plan.steps[step].sources]
        named = [
            ("targets", lists.targets, "target of each joined row"),
            ("sizes", lists.sizes, "joined rows of each target"),
        ]
        for k, (rows, factor) in enumerate(zip(lists.rows, factors, strict=True)):
            named.append((f"rows_{k}", rows, f"row of {factor} of each joined row"))
        if lists.signs is not None:
            named.append(("signs", lists.signs, "sign of each joined row"))
        return [
            self._add(f"join_{number}_{what}", tensor, f"{words}: {about}")
            for what, tensor, words in named
        ]


def _about_level(layout: BagLayout, level: tuple[str, ...], what: str) -> str:
    where = (
        "the whole structure"
        if not level
        else f"every {level[0]}"
        if len(level) == 1
        else f"every set of {' and '.join(level)}"
    )
    words = {
        "rows": "row of each pair",
        "bags": "bag of each pair",
        "sizes": "rows of each bag",
        "signs": "sign of each pair",
    }
    slots = layout.num_slots[layout.all_levels.index(level)]
    return f"{words[what]}: {', '.join(map(str, layout.patterns))} at {where}, {slots} {'bag' if slots == 1 else 'bags'} each"


def plain_inputs(net: nn.Module, structure: Structure) -> PlainInputs:
    """The lists that a network needs of a structure, by name.

    Args:
        net: The network.
        structure: The structure, or a batch.

    Raises:
        IncidenceError: A part of the network is not made of plain steps.
    """
    found = PlainInputs()
    for module in net.modules():
        collect = next(
            (collect for kind, collect in _PARTS.items() if isinstance(module, kind)), None
        )
        if collect is not None:
            collect(found, module, structure)
        elif isinstance(module, Planned):
            raise IncidenceError(
                f"a network with {type(module).__name__} cannot be exported, as it is none of this library's modules, whose steps other "
                f"programs know: leave it out, or make it of inc.nn.Linear, Product, Multilinear and Attention."
            )
    return found


_PARTS: dict[type[nn.Module], Callable[[PlainInputs, Any, Structure], None]] = {
    Linear: PlainInputs._layer,
    Readout: PlainInputs._readout,
    _Norm: PlainInputs._norm,
    Incident: PlainInputs._incident,
    Product: PlainInputs._product,
    Multilinear: PlainInputs._multilinear,
    Attention: PlainInputs._attention,
}


def prepare_layers(net: nn.Module, found: PlainInputs) -> None:
    """Finds out what cannot be found out while a graph is recorded."""
    for layer in net.modules():
        if isinstance(layer, Linear):
            prepare_plain(found.parts[layer._key][1], layer._padded_weights(layer._weights()))


def planned_structure(
    parts: dict[str, tuple[list[str], str]], tensors: dict[str, Tensor]
) -> Structure:
    """A structure that has nothing but lists for plain steps: what a network gets while it is exported."""
    structure = Structure._of({"node": torch.zeros(2, dtype=torch.long)}, {}, {})
    flats: dict[Any, Flat] = cache_of(structure, Flat)
    flats.update(
        {
            key: PlainFlat([tensors[name] for name in names], text)
            for key, (names, text) in parts.items()
        }
    )
    return structure
