"""Networks on batches, however they were made, and what is left of them."""

import gc
import weakref

import pytest
import torch

from incidence.models import IncidenceNet
from incidence.structure import collate, pack
from tests.nn.sparse_maps import EVERY, features_for, outputs, structure_for


@pytest.mark.parametrize("norm", ["batch", "layer"])
@pytest.mark.parametrize(
    "text", ["i j -> i j", "(i j), i -> (i j)", "{i ...}, i -> {i ...}, ", "i {j k} -> i"]
)
def test_a_network_gives_a_batch_what_it_gives_however_the_batch_was_made(text, norm):
    torch.manual_seed(0)
    net = IncidenceNet(text, 2, 3, hidden=4, depth=2, dropout=0.0, norm=norm).double()
    alone = [structure_for(net.map, n, seed=n) for n in (4, 0, 5, 3)]
    batches = [
        collate(alone),
        collate(pack(alone)),
        collate([collate(alone[:2]), collate(alone[2:])]),
    ]
    x = features_for(net.map, batches[0])
    expected = outputs(net(x, batches[0]))
    for batch in batches[1:]:
        for one, other in zip(outputs(net(x, batch)), expected, strict=True):
            torch.testing.assert_close(one, other)


def test_a_batch_is_freed_at_once():
    """Nothing that is kept with a structure points back at it: batches would wait for the garbage
    collector otherwise.
    """
    torch.manual_seed(0)
    net = IncidenceNet("i j -> i j", 2, 3, hidden=4, depth=2, aggr=EVERY)
    structure = collate([structure_for(net.map, n, seed=n) for n in (4, 3)])
    x = {key: value.float() for key, value in features_for(net.map, structure).items()}
    outputs(net(x, structure))[0].sum().backward()
    gone = weakref.ref(structure)
    gc.disable()
    try:
        del structure
        assert gone() is None
    finally:
        gc.enable()
