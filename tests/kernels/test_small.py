"""The small path gives the values and gradients of the engine."""

import pytest
import torch

import incidence as inc
from incidence.kernels import small

SIDES = ["i", "i j", "i, (i j), {i j k}", "{i ...}, i", "i {j k}, [i j]", "(i j k)", ", i", "u:a v:b, u:a"]


def run(side: str, aggr: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    monkeypatch.setattr(small, "MAX_SIZE", limit)
    generator = torch.Generator().manual_seed(0)
    patterns = [p.strip() for p in side.split(",")]
    num_nodes = {"a": 3, "b": 2} if ":" in side else 3
    listed = [p for p in patterns if p not in ("", "i", "u:a")]
    s = inc.testing.random_structure(num_nodes, listed, 0.6, generator)
    x = inc.testing.random_features(side, s, 3, generator=generator)
    xs = [v.requires_grad_() for v in (x.values() if isinstance(x, dict) else [x])]
    torch.manual_seed(0)
    layer = inc.nn.Linear(f"{side} -> {side}", 3, 4, aggr=aggr, dtype=torch.float64)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    y = layer(x, s)
    assert (s.ready[layer._key].small[torch.float64] is not None) == (limit > 0)
    ys = list(y.values()) if isinstance(y, dict) else [y]
    grads = torch.autograd.grad(sum(v.square().sum() for v in ys), [*xs, *layer.parameters()])
    return [*ys, *grads]


@pytest.mark.parametrize("aggr", ["sum", "mean"])
@pytest.mark.parametrize("side", SIDES)
def test_the_small_path_equals_the_engine_in_values_and_gradients(side, aggr, monkeypatch):
    for one, other in zip(run(side, aggr, 1 << 17, monkeypatch), run(side, aggr, 0, monkeypatch), strict=True):
        torch.testing.assert_close(one, other)


def test_aggregations_that_are_not_linear_have_no_small_path(monkeypatch):
    monkeypatch.setattr(small, "MAX_SIZE", 1 << 17)
    s = inc.Structure.complete(3, ["i j"])
    layer = inc.nn.Linear("i j -> i j", 1, 1, aggr="max")
    layer(torch.ones(9, 1), s)
    assert s.ready[layer._key].small == {torch.float32: None}


def test_the_path_depends_on_the_size_alone(monkeypatch):
    monkeypatch.setattr(small, "MAX_SIZE", 9 * 9 * 15)
    layer = inc.nn.Linear("i j -> i j", 1, 1)
    for nodes, is_small in ((3, True), (4, False)):
        s = inc.Structure.complete(nodes, ["i j"])
        layer(torch.ones(nodes * nodes, 1), s)
        assert (s.ready[layer._key].small[torch.float32] is not None) == is_small
