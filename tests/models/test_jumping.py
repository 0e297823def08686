"""Jumping knowledge: heads read the mean or the maximum over all blocks."""

import pytest
import torch

import incidence as inc
from incidence.errors import IncidenceError
from incidence.models import IncidenceNet

STRUCTURE = inc.Structure(5, {"{i j}": [[0, 1, 2, 3], [1, 2, 3, 4]]})


@pytest.mark.parametrize("how", ["mean", "max"])
def test_heads_read_the_mean_or_maximum_of_all_blocks(how):
    torch.manual_seed(0)
    x = {"i": torch.randn(5, 3), "{i j}": torch.randn(4, 2)}
    net = IncidenceNet("i, {i j} -> i", {"i": 3, "{i j}": 2}, hidden=4, depth=3, jumping=how)
    net.eval()
    hidden, seen = net.encoder(x, STRUCTURE), []
    for block in net.blocks[0].blocks:
        hidden = block(hidden, STRUCTURE)
        seen.append(hidden)
    joined = {}
    for key in hidden:
        every = torch.stack([one[key] for one in seen])
        joined[key] = every.mean(0) if how == "mean" else every.max(0).values
    torch.testing.assert_close(net(x, STRUCTURE), net.heads[0](joined, STRUCTURE))
    inc.testing.assert_equivariant(net, x, STRUCTURE, atol=1e-4)


def test_the_maximum_of_oriented_tensors_is_refused():
    IncidenceNet("<i j> -> <i j>", 2, hidden=4, jumping="mean")
    with pytest.raises(IncidenceError, match="`jumping='max'` is not odd"):
        IncidenceNet("<i j> -> <i j>", 2, hidden=4, jumping="max")
    with pytest.raises(IncidenceError, match="jumping is one of last, mean, max; got 'cat'"):
        IncidenceNet("i -> i", 2, hidden=4, jumping="cat")
