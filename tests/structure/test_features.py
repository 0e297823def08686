"""Features for data that has none."""

import pytest
import torch

import incidence as inc
from incidence.structure import Structure

PATH = torch.tensor([[0, 1, 2], [1, 2, 3]])


@pytest.mark.parametrize(
    ("text", "rows"), [("i", 5), ("(a b)", 3), ("bond", 1), ("", 1), ("{i ...}", 2)]
)
def test_every_entry_gets_a_one(text, rows):
    s = Structure(5, {"(i j)": PATH, "bond={i j}": PATH[:, :1], "{i ...}": [[0, 1, 2], [0, 0, 1]]})
    assert inc.ones(s, text).equal(torch.ones(rows, 1))


def test_the_ones_of_a_batch_are_those_of_all_its_structures():
    batch = inc.collate([Structure(2), Structure(0), Structure(3)])
    assert inc.ones(batch, "i").shape == (5, 1)
    assert inc.ones(batch, "").shape == (3, 1)


def test_channels_and_type_of_ones_can_be_given_and_the_device_is_that_of_the_structure():
    x = inc.ones(Structure(2), "i", channels=3, dtype=torch.float64)
    assert x.equal(torch.ones(2, 3, dtype=torch.float64))
    assert inc.ones(Structure(2, {"(i j)": PATH[:, :1]}).to("meta"), "(i j)").device.type == "meta"


def test_a_layer_on_ones_counts():
    layer = inc.nn.Linear("(i j) -> ", 1, 1, bias=False)
    layer.weight.data.fill_(1.0)
    batch = inc.collate([Structure(4, {"(i j)": PATH[:, :k]}) for k in range(4)])
    assert layer(inc.ones(batch, "(i j)"), batch)[:, 0].tolist() == [0, 1, 2, 3]
