"""Modules of products and attention as recorded graphs of plain steps: one graph serves structures
of any size.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from incidence.errors import IncidenceError
from incidence.nn import Attention, Multilinear, Product
from incidence.nn.composition import Planned
from incidence.nn.plain import plain_inputs, planned_structure, prepare_layers
from incidence.structure import Structure, collate
from tests.structure.random_structures import random_structure

MODULES: dict[str, Callable[[], nn.Module]] = {
    "product": lambda: Product("(i j), (j k) -> (i k)", 2, 3),
    "product of complete layers": lambda: Product(
        "i j, j k, k l, l i -> i l", 2, 3, norm="batch", is_complete=True
    ),
    "signed product": lambda: Product("<i j>, <j k> -> <i k>", 2, 3, norm=None),
    "multilinear": lambda: Multilinear("i * i -> i", 2, 3),
    "multilinear of low rank": lambda: Multilinear("{i j} * i -> i", 2, 3, rank=2),
    "attention": lambda: Attention("(i j)", "j", 2, 4, heads=2, edge_channels=2),
    "attention of hyperedges": lambda: Attention("v e:edge", "v", 2, 4),
}


class Plain(nn.Module):
    """A module that takes the features of its tensors and its lists one after the other."""

    def __init__(self, module: nn.Module, structure: Structure) -> None:
        super().__init__()
        lists = plain_inputs(module, structure)
        prepare_layers(module)
        self.module, self.parts, self.names, self.keys = (
            module,
            lists.parts,
            list(lists.tensors),
            keys_of(module),
        )

    def forward(self, *tensors: Tensor) -> Tensor:
        x, lists = dict(zip(self.keys, tensors, strict=False)), tensors[len(self.keys) :]
        structure = planned_structure(self.parts, dict(zip(self.names, lists, strict=True)))
        y: Tensor = self.module(x if len(x) > 1 else next(iter(x.values())), structure)
        return y


def keys_of(module) -> list[str]:
    return list(
        dict.fromkeys(
            str(p)
            for p in (module.map.operands if isinstance(module, Multilinear) else module.map.inputs)
        )
    )


def example(module, *sizes: int) -> tuple[dict[str, Tensor], Structure]:
    output = [module.map.output] if isinstance(module, Multilinear) else module.map.outputs
    texts = [
        *keys_of(module),
        *map(str, output),
        *([str(module.pattern)] if isinstance(module, Attention) else []),
    ]
    structure = collate([random_structure(n, texts, seed=n, draws=40) for n in sizes])
    generator = torch.Generator().manual_seed(0)
    return {
        key: torch.randn(structure.num_entries(key), 2, generator=generator, dtype=torch.float64)
        for key in keys_of(module)
    }, structure


SLOW = ("product of complete layers", "multilinear of low rank", "attention of hyperedges")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in MODULES],
)
def test_a_recorded_module_gives_what_the_module_gives_for_structures_of_any_size(name):
    torch.manual_seed(0)
    module = MODULES[name]().double().eval()
    x, structure = example(module, 6, 5)
    tensors = (*x.values(), *plain_inputs(module, structure).tensors.values())
    shapes = tuple({0: torch.export.Dim.AUTO} for _ in tensors)
    with torch.no_grad():
        program = torch.export.export(
            Plain(module, structure), tensors, dynamic_shapes=(shapes,), strict=False
        ).module()
        for sizes in ((6, 5), (1,), (0,), (3, 0, 8, 1)):
            x, structure = example(module, *sizes)
            found = program(*x.values(), *plain_inputs(module, structure).tensors.values())
            torch.testing.assert_close(
                found, module(x if len(x) > 1 else next(iter(x.values())), structure)
            )


def test_lists_of_products_and_attention_are_named_and_told_in_words():
    module = nn.ModuleList(
        [
            Product("i j, j k, k l -> i l", 2, 2, norm=None),
            Attention("i j", "j", 2, 2),
            Attention("i j", "j", 2, 2),
        ]
    )
    found = plain_inputs(module, Structure.complete(2, "i j"))
    # two of the product, and two for both attentions
    steps = [["targets", "sizes", "rows_0", "rows_1"]] * 4
    assert list(found.tensors) == [
        *(f"join_{number}_{what}" for number, lists in enumerate(steps) for what in lists),
        "softmax_0_groups",
        "softmax_0_sizes",
    ]
    assert (
        found.about["join_0_targets"]
        == "target of each joined row: z0 = sum x0 * x1 of `i j, j k, k l -> i l`"
    )
    assert (
        found.about["join_1_rows_1"]
        == "row of z0 of each joined row: y = sum x2 * z0 of `i j, j k, k l -> i l`"
    )
    assert (
        found.about["join_1_sizes"]
        == "joined rows of each target: y = sum x2 * z0 of `i j, j k, k l -> i l`"
    )
    assert found.about["softmax_0_groups"] == "group of each entry: the softmax of `i j` over j"
    signed = plain_inputs(Product("<i j>, j -> i", 2, 2), Structure.complete(3, "<i j>"))
    assert (
        signed.about["join_0_signs"]
        == "sign of each joined row: y = sum x0 * x1 of `<i j>, j -> i`"
    )


def test_a_module_of_the_users_own_is_refused():
    class Mine(Planned):
        pass

    with pytest.raises(
        IncidenceError,
        match=r"^a network with Mine cannot be exported, as it is none of this library's modules",
    ):
        plain_inputs(nn.Sequential(nn.Linear(1, 1), Mine()), Structure(1))
