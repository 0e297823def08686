"""What a network needs of a structure when it runs elsewhere: named lists, which are the inputs of what is exported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.kernels.plain import LevelLists, PartnerLists, assert_plain, level_lists, partner_lists
from incidence.kernels.traced import PlainFlat, layer_text, prepare_plain, readout_text
from incidence.nn.diffusion import Diffusion
from incidence.nn.linear import Linear
from incidence.nn.modules import _Norm
from incidence.nn.planned import Planned
from incidence.nn.readout import Readout
from incidence.plans import Plan, plan_of
from incidence.plans.layout import BagLayout, by_width, layout_of
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

    def _entries(self, structure: Structure, pattern: Pattern) -> list[str]:
        key = "entries", pattern
        if key not in self._stacks:
            name = f"entries_{sum(known[0] == 'entries' for known in self._stacks)}"
            what = f"the structure of every entry of `{pattern}`" if pattern.faces else "the number of every structure"
            self._stacks[key] = [self._add(name, structure.batch(pattern), what)]
        return self._stacks[key]

    def _stack(self, layout: BagLayout, stack: StackPlan, plan: Plan) -> list[str]:
        """The lists of a stack. Keys of up to one node have numbers of their own; others are counted by the plan of a map."""
        is_general = all(len(level) < 2 for level in layout.all_levels)
        key = "stack", layout, None if is_general else plan.layout
        if key not in self._stacks:
            number = sum(known[0] == "stack" for known in self._stacks)
            self._stacks[key] = [
                self._add(f"stack_{number}_{'_'.join(level) or 'whole'}_{what}", tensor, _about_level(layout, level, what))
                for level, lists in zip(layout.all_levels, level_lists(stack), strict=True)
                for what, tensor in zip(LevelLists._fields, lists, strict=True)
                if tensor is not None
            ]
        return self._stacks[key]

    def _partners(self, key: Any, lists: PartnerLists, about: str) -> list[str]:
        if key not in self._stacks:
            number = sum(known[0] == "partners" for known in self._stacks)
            named = zip(PartnerLists._fields, lists, strict=True)
            self._stacks[key] = [self._add(f"pairs_{number}_{what}", t, f"{what} of {about}") for what, t in named if t is not None]
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
            found = partner_lists(plan.partners.get(p.key), structure.num_entries(pattern), is_signed, structure.device)
            about = f"pairs of entries of `{pattern}` on the same nodes, with overlap {p.key[1]}"
            names += self._partners(("partners", pattern, p.key[0].orbit, p.key[1], is_signed), found, about)
        self.parts[layer._key] = names, layer_text(program)

    def _readout(self, readout: Readout, structure: Structure) -> None:
        assert_plain(readout._aggregations)
        stacks = by_width([1] * len(readout.patterns))  # hidden tensors have as many channels
        plan = plan_of(readout._on(structure), layout_of(readout._map, stacks))
        names = [name for layout, stack in zip(plan.layout.inputs, plan.inputs, strict=True) for name in self._stack(layout, stack, plan)]
        self.parts[f"{readout._key} {stacks}"] = names, readout_text(plan)

    def _norm(self, norm: _Norm, structure: Structure) -> None:
        for pattern, key in zip(norm.patterns, norm._keys, strict=True):
            if len(pattern.orbits) > 1:
                named = [
                    self._add(f"orbit_{key}_{k}", rows, f"the rows of `{pattern}` of orbit {k}")
                    for k, rows in enumerate(orbit_rows(structure, pattern))
                ]
                self.parts[f"rows {key}"] = named, ""

    def _diffusion(self, module: Diffusion, structure: Structure) -> None:
        about = ("node of each pair", "entry of each pair", "nodes of each entry")
        flat, links = module.plan(structure), ", ".join(map(str, module.links))
        named = zip(("nodes", "entries", "sizes"), flat.tensors, about, strict=True)
        names = [
            self._add(f"neighbours_{what}", tensor, f"{words}: pairs of a node and an entry of {links}") for what, tensor, words in named
        ]
        self.parts[module._key] = names, ""


def _about_level(layout: BagLayout, level: tuple[str, ...], what: str) -> str:
    where = "the whole structure" if not level else f"every {level[0]}" if len(level) == 1 else f"every set of {' and '.join(level)}"
    words = {"rows": "row of each pair", "bags": "bag of each pair", "sizes": "rows of each bag", "signs": "sign of each pair"}
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
        if isinstance(module, Linear):
            found._layer(module, structure)
        elif isinstance(module, Readout):
            found._readout(module, structure)
        elif isinstance(module, _Norm):
            found._norm(module, structure)
        elif isinstance(module, Diffusion):
            found._diffusion(module, structure)
        elif isinstance(module, Planned):
            what = f"a network with products or attention ({type(module).__name__}) cannot be exported"
            raise IncidenceError(f"{what}: train one with another --model, such as graph or rings.")
    return found


def prepare_layers(net: nn.Module, found: PlainInputs) -> None:
    """Finds out what cannot be found out while a graph is recorded."""
    for layer in net.modules():
        if isinstance(layer, Linear):
            prepare_plain(found.parts[layer._key][1], layer._padded_weights(layer._weights()))


def planned_structure(parts: dict[str, tuple[list[str], str]], tensors: dict[str, Tensor]) -> Structure:
    """A structure that has nothing but lists for plain steps: what a network gets while it is exported."""
    structure = Structure._of({"node": torch.zeros(2, dtype=torch.long)}, {}, {})
    flats: dict[Any, Flat] = cache_of(structure, Flat)
    flats.update({key: PlainFlat([tensors[name] for name in names], text) for key, (names, text) in parts.items()})
    return structure
