"""Networks permute features once on the way in and once on the way out, and no layer permutes them in between."""

import gc
import weakref

import pytest
import torch

from incidence.kernels import engine
from incidence.models import IncidenceNet
from incidence.plans.ordered import Ordered, ordered
from incidence.structure import Structure, collate, pack
from tests.nn.sparse_maps import features_for, structure_for

MAPS = ["i j -> i j", "(i j), i -> (i j)", "{i ...}, i -> {i ...}, ", "i {j k} -> i", "(i j k) -> i j"]


def network(text: str, **options: object) -> IncidenceNet:
    torch.manual_seed(0)
    return IncidenceNet(text, 2, 3, hidden=4, depth=2, dropout=0.0, **options).double()


def batches(net: IncidenceNet) -> list[Structure]:
    alone = [structure_for(net.map, n, seed=n) for n in (4, 0, 5, 3)]
    return [collate(alone), collate(pack(alone)[::-1]), alone[0]]


def run(net: IncidenceNet, structure: Structure) -> list[torch.Tensor]:
    torch.manual_seed(1)
    x = {key: value.requires_grad_() for key, value in features_for(net.map, structure).items()}
    y = net(x, structure)
    ys = list(y.values()) if isinstance(y, dict) else [y]
    sum((y * torch.randn_like(y)).sum() for y in ys).backward()
    found = [*ys, *(value.grad for value in x.values()), *(p.grad for p in net.parameters())]
    net.zero_grad()
    return found


@pytest.mark.parametrize("norm", ["batch", "layer"])
@pytest.mark.parametrize("text", MAPS)
def test_values_and_gradients_do_not_depend_on_it(text, norm, monkeypatch):
    net = network(text, norm=norm)
    for structure in batches(net):
        ours = run(net, structure)
        with monkeypatch.context() as patch:
            patch.setattr(IncidenceNet, "_ordered", lambda _, structure: structure)
            for one, other in zip(ours, run(net, structure), strict=True):
                torch.testing.assert_close(one, other)


@pytest.mark.parametrize("text", MAPS)
def test_no_layer_permutes(text, monkeypatch):
    net = network(text)
    structure = batches(net)[0]
    sides: list[engine.Side] = []
    arrange = engine._arrange
    monkeypatch.setattr(engine, "_arrange", lambda x, side: sides.append(side) or arrange(x, side))
    run(net, structure)
    assert isinstance(structure.in_order, Ordered)
    assert sides
    assert all(side.order is None for side in sides)


def test_a_plan_that_was_made_in_another_way_is_permuted_by_the_rest():
    net = network("i j -> i j")
    structure = batches(net)[0]
    inner = ordered(structure, net.map)
    rows = inner.order(net.map.inputs[0])
    assert rows is not None
    inner._orders[net.map.inputs[0]] = None  # as if the first plan had found the rows in order
    inner._plans.clear()
    torch.testing.assert_close(inner.plan(net.map).orders[0], rows)


def test_a_structure_in_order_is_taken_as_it_is():
    net = network("i, {i j} -> ")
    structure = collate([structure_for(net.map, n, seed=n) for n in (4, 3)]).canonical()[0]
    run(net, structure)
    assert structure.in_order is None


def test_batches_are_freed_at_once():
    net = network("i j -> i j")
    structure = batches(net)[0]
    run(net, structure)
    gone = weakref.ref(structure)
    gc.disable()
    try:
        del structure
        assert gone() is None
    finally:
        gc.enable()
