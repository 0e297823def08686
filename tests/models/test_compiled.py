"""A whole network under `torch.compile`: one graph for batches of all sizes, which trains as the
network does.
"""

import copy
from collections.abc import Iterator
from itertools import product

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

import incidence as inc
from incidence.errors import IncidenceError
from incidence.models import IncidenceNet, make, read_channels
from tests.cases import some
from tests.models.small import WIDTHS, for_preset, graph


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def batches(count: int) -> list[inc.Example]:
    """Batches of all sizes, from a packed data set."""
    generator = torch.Generator().manual_seed(0)
    examples = []
    for k in range(24):
        n = 3 + k % 7
        edges = torch.triu_indices(n, n, 1)
        edges = edges[:, torch.rand(edges.shape[1], generator=generator) < 0.6]
        counts = {"i": n, "{i j}": edges.shape[1]}
        features = {
            key: torch.randn(count, WIDTHS[key], generator=generator)
            for key, count in counts.items()
        }
        examples.append(
            inc.Example(inc.Structure(n, {"{i j}": edges}), features, torch.tensor([float(n)]))
        )
    packed = inc.pack(examples)
    return [
        inc.collate([packed[(k * step + step) % 24] for k in range(4 + 3 * step)])
        for step in range(count)
    ]


def widths(x: dict[str, Tensor]) -> dict[str, int]:
    return {key: value.shape[1] for key, value in x.items()}


def train(net: nn.Module, call: nn.Module, seen: list[inc.Example]) -> list[float]:
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    losses = []
    for example in seen:
        net.plan(example.structure)
        y: Tensor = call(example.features, example.structure)
        loss = (y - example.target.view_as(y)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def test_a_network_compiles_once_for_batches_of_all_sizes_and_trains_to_the_same_loss():
    settings = {"hidden": 8, "depth": 2, "dropout": 0.0}
    torch.manual_seed(0)
    net, twin = (IncidenceNet("i, {i j} -> ", WIDTHS, **settings) for _ in range(2))
    twin.load_state_dict(net.state_dict())
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(net, fullgraph=True, backend=counter)
    seen = batches(3)
    losses = train(net, compiled, seen)
    after_three = counter.frame_count
    losses += train(net, compiled, batches(8)[3:])
    assert counter.frame_count == after_three <= 2
    assert losses == pytest.approx(
        train(twin, twin, seen) + train(twin, twin, batches(8)[3:]), rel=1e-3
    )


@pytest.mark.parametrize(
    "name",
    [
        "rings",
        *(
            pytest.param(name, marks=pytest.mark.exhaustive)
            for name in ("graph", "matrix", "ppgn", "local-fgnn", "subgraph", "transformer")
        ),
    ],
)
def test_presets_compile_as_they_come(name):
    example = for_preset(name)
    x = {key: value.float() for key, value in example.features.items()}
    net = make(name, read_channels(name, widths(x)), 2, hidden=4, depth=1).float().eval()
    expected = net(x, example.structure)
    net.plan(example.structure)
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, example.structure), expected)


def test_structures_without_plans_compile_once_more_for_a_second_size_and_never_again():
    def own_sizes() -> Iterator[tuple[dict[str, Tensor], inc.Structure]]:
        for n in range(3, 8):
            ring = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
            x = {"i": torch.ones(n, 3), "{i j}": torch.ones(n, 2)}
            yield x, inc.geometry.graph(ring, num_nodes=n)

    net = IncidenceNet("i, {i j} -> ", WIDTHS, hidden=4, depth=1)
    layers = inc.nn.Sequential(
        inc.nn.Linear("i, {i j} -> i, {i j}", WIDTHS, 4),
        inc.nn.Activation(),
        inc.nn.Linear("i, {i j} -> i", 4, 4),
    )
    for module in (net.eval(), layers):
        torch._dynamo.reset()
        counter = CompileCounterWithBackend("eager")
        compiled, counts = torch.compile(module, backend=counter), []
        for x, structure in own_sizes():
            torch.testing.assert_close(compiled(x, structure), module(x, structure))
            counts.append(counter.frame_count)
        assert counts == [1, 2, 2, 2, 2]


@pytest.mark.exhaustive
def test_a_copy_of_a_network_that_never_ran_compiles():
    example = graph()
    net = copy.deepcopy(IncidenceNet("i, {i j} -> , i", WIDTHS, hidden=4, depth=1)).float().eval()
    net.plan(example.structure)
    x = {key: value.float() for key, value in example.features.items()}
    found = torch.compile(net, fullgraph=True, backend="aot_eager")(x, example.structure)
    for key, y in net(x, example.structure).items():
        torch.testing.assert_close(found[key], y)


@pytest.mark.exhaustive
def test_dropout_is_traced_too():
    example = graph()
    net = IncidenceNet("i, {i j} -> i", WIDTHS, hidden=4, depth=1, dropout=0.5).float()
    net.plan(example.structure)
    x = {key: value.float() for key, value in example.features.items()}
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    assert compiled(x, example.structure).isfinite().all()


@pytest.mark.parametrize(
    ("name", "backend"), some(product(["graph", "matrix", "rings"], ["eager", "aot_eager"]))
)
def test_a_network_without_its_lists_says_what_to_call(name, backend):
    example = for_preset(name)
    x = {key: value.float() for key, value in example.features.items()}
    net = make(name, read_channels(name, widths(x)), 2, hidden=4, depth=1).float()
    compiled = torch.compile(net, fullgraph=True, backend=backend)
    with pytest.raises(
        IncidenceError,
        match=r"^call layer\.plan\(structure\), or net\.plan\(structure\), before tracing",
    ):
        compiled(x, example.structure)


def test_only_a_structure_has_lists():
    with pytest.raises(IncidenceError, match="is a Structure; got list"):
        IncidenceNet("i, {i j} -> ", WIDTHS, hidden=4, depth=1).plan([1, 2])
