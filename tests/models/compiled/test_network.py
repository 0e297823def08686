"""The compiled network gives what modules give: values, gradients, masks and running statistics."""

import copy
import gc
import os
import pickle
import shutil
import subprocess
import sys
import threading
from itertools import product
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import incidence as inc
from incidence.engine import layer
from incidence.engine.compiled import node
from incidence.engine.compiled.node import by_modules
from incidence.models import IncidenceNet, make, read_channels
from tests.cases import some
from tests.models.compiled.networks import (
    assert_as_modules,
    distance,
    is_compiled,
    needs_compiler,
    one_pass,
)
from tests.models.small import for_preset

pytestmark = needs_compiler

PRESETS = ["graph", "matrix", "triangles", "rings", "molecule", "molecule-rings", "mesh", "flows"]
PRESETS += ["hypergraph", "relational", "order3", "ppgn", "local-fgnn", "subgraph", "transformer"]


def preset_case(name: str, **options):
    """A network of a preset, features and a structure: three copies as a batch."""
    example = for_preset(name)
    single = inc.Example(
        example.structure, {key: value.float() for key, value in example.features.items()}
    )
    batch = inc.collate([single] * 3)
    widths = {key: value.shape[1] for key, value in single.features.items()}
    widths = read_channels(name, widths)
    torch.manual_seed(0)
    net = make(name, widths, 2, **{"hidden": 8, "depth": 2, **options})
    with torch.no_grad():
        for parameter in net.parameters():  # none of which is 0 or 1
            parameter.add_(0.1 * torch.randn_like(parameter))
    return net, dict(batch.features), batch.structure


@pytest.mark.parametrize("is_training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("name", PRESETS)
def test_presets_give_what_their_modules_give(name, is_training):
    net, x, structure = preset_case(name)
    assert_as_modules(net.train(is_training), x, structure)


TEXTS = [
    "i, {i j}",
    "(i j)",
    "i, (i j)",
    "i j",
    "i, {i j}, {i j k}",
    "i, {i ...}",
    "<i j>, i",
    "{i j}",
]


def random_batch(
    text: str, sizes: list[int], seed: int, share: float
) -> tuple[dict[str, torch.Tensor], inc.Structure, dict[str, int]]:
    """Return features, structures with a share of all entries, and the channels of each tensor.

    One structure alone is no batch.
    """
    generator = torch.Generator().manual_seed(seed)
    patterns = inc.EquivariantMap(f"{text} -> ").inputs
    texts = [str(p) for p in patterns if str(p) != "i"]
    parts = [inc.testing.random_structure(n, texts, share, generator) for n in sizes]
    structure = inc.collate(parts) if len(parts) > 1 else parts[0]
    widths = {str(p): 1 + (seed + 3 * k) % 18 for k, p in enumerate(patterns)}
    x = {
        key: torch.randn(structure.num_entries(key), width, generator=generator)
        for key, width in widths.items()
    }
    return x, structure, widths


@st.composite
def networks(draw) -> tuple[IncidenceNet, dict[str, torch.Tensor], inc.Structure]:
    """Draw a network, features and a structure: of its own, or a batch; parts may be empty."""
    text, seed = draw(st.sampled_from(TEXTS)), draw(st.integers(0, 100))
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=5))
    x, structure, widths = random_batch(text, sizes, seed, draw(st.sampled_from([0.0, 0.5, 1.0])))
    output = draw(st.sampled_from(["", next(iter(x))]))
    terms = {}
    if "(i j)" in text:
        terms["products"] = draw(st.sampled_from([(), "(i j), (j k) -> (i k)"]))
    if text == "i, (i j)":
        terms["attention"] = draw(st.sampled_from([(), "(i j) over j"]))
    norm = draw(st.sampled_from(["batch", "layer", "none"]))
    statistics = ["sum", "mean", "max", "min", "std"] if norm != "none" else "sum"
    torch.manual_seed(seed)
    net = IncidenceNet(
        f"{text} -> {output}",
        widths,
        2,
        hidden=draw(st.sampled_from([1, 3, 8, 16, 17, 33])),
        depth=draw(st.integers(0, 3)),
        norm=norm,
        activation=draw(st.sampled_from([None, "tanh", "sin", "softshrink"])),
        dropout=draw(st.sampled_from([0.0, 0.3, 1.0])),
        dropout_at=draw(st.sampled_from(["branch", "stream"])),
        aggr=draw(st.sampled_from(["sum", "mean"])),
        whole=draw(st.sampled_from(["sum", "mean"])),
        readout=statistics,
        heads=1,
        **terms,
    )
    return net.train(draw(st.booleans())), x, structure


@given(networks())
@settings(max_examples=25, deadline=None)
def test_random_networks_give_what_their_modules_give(case):
    assert_as_modules(*case, times=50.0)


FEW_ROWS = ["i, {i ...}", "{i j k}, i", "i, <i j k>, <i j>"]


@pytest.mark.parametrize("cost", [0, 10**9], ids=["at the fewer rows", "at the keys"])
@pytest.mark.parametrize(
    ("text", "aggr"),
    [*product(FEW_ROWS, ["sum", "mean"]), ("i, {i ...}", ["sum", "mean"])],
    ids=str,
)
def test_products_at_either_side_give_what_modules_give(text, aggr, cost, monkeypatch):
    monkeypatch.setattr(layer, "READ_COST", cost)
    generator = torch.Generator().manual_seed(0)
    texts = text.replace("i, ", "").replace(", i", "").split(", ")
    # a handful of entries on many nodes: fewer rows than keys
    parts = [inc.testing.random_structure(n, texts, 12 / n**3, generator) for n in (18, 1, 14)]
    structure = inc.collate(parts)
    widths = {str(p): 5 + 14 * k for k, p in enumerate(inc.EquivariantMap(f"{text} -> ").inputs)}
    assert any(0 < structure.num_entries(t) < structure.total_nodes for t in texts)
    net = inc.nn.Linear(f"{text} -> {text}", widths, 17, aggr=aggr)
    x = {key: torch.randn(structure.num_entries(key), width) for key, width in widths.items()}
    assert_as_modules(net, x, structure)


@pytest.mark.exhaustive
@given(networks())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_two_hundred_random_networks_give_what_their_modules_give(case):
    assert_as_modules(*case, times=50.0)


@pytest.mark.parametrize(
    "name", ["relu", "tanh", "gelu", "silu", "elu", "softshrink", "sin", "none"]
)
def test_every_activation_of_settings_is_compiled(name):
    net, x, structure = preset_case("graph", activation=name)
    assert_as_modules(net, x, structure)


@pytest.mark.parametrize("share", [0.3, 1.0], ids=["some pairs", "all pairs"])
@pytest.mark.parametrize("attention", ["(i j) over j", "(i j) over i j", "i over i"])
@pytest.mark.parametrize("product", ["(i j), (j k) -> (i k)", "(i j), i -> j", "<u v>, u -> v"])
def test_products_and_attention_give_what_their_modules_give(product, attention, share):
    x, structure, widths = random_batch("i, (i j), <i j>, ", [5, 1, 0, 4], 3, share)
    net = IncidenceNet(
        "i, (i j), <i j> -> ",
        {key: widths[key] for key in ("i", "(i j)", "<i j>")},
        2,
        hidden=8,
        depth=2,
        through="i, (i j), <i j>, ",
        products=product,
        attention=attention,
        heads=2,
        activation="tanh",
    )
    inputs = {key: x[key] for key in ("i", "(i j)", "<i j>")}
    assert_as_modules(net, inputs, structure, times=50.0)


@pytest.mark.parametrize("product", ["(i j), (j k), (i k) -> (i j)", "(i j), (j k) -> i"])
def test_products_of_three_tensors_or_in_several_steps_are_left_to_modules(product):
    x, structure, widths = random_batch("i, (i j)", [5, 4], 3, 0.5)
    net = IncidenceNet("i, (i j) -> ", widths, 2, hidden=4, depth=1, products=product)
    y = net(x, structure)
    assert not is_compiled(y)
    y.sum().backward()
    assert all(p.grad is not None for p in net.parameters())


def test_an_activation_that_it_does_not_know_is_left_to_modules():
    net, x, structure = preset_case("flows", activation={"<i j>": "gate"})
    assert not is_compiled(net(x, structure))


@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
def test_dropout_draws_the_masks_of_its_modules(rate):
    net, x, structure = preset_case("graph", dropout=rate)
    twin = copy.deepcopy(net)
    ours, _ = one_pass(net, x, structure, seed=3)
    after = torch.rand(1)
    with by_modules():
        theirs, _ = one_pass(twin, x, structure, seed=3)
    assert torch.equal(torch.rand(1), after)  # as many numbers were drawn
    assert distance(ours.outputs, theirs.outputs) < 1e-4


def test_a_step_changes_what_the_next_call_computes():
    net, x, structure = preset_case("graph")
    twin = copy.deepcopy(net)
    optimizers = [torch.optim.SGD(n.parameters(), lr=0.05) for n in (net, twin)]
    for step in range(3):
        ours, was_compiled = one_pass(net, x, structure, seed=step)
        assert was_compiled
        with by_modules():
            theirs, _ = one_pass(twin, x, structure, seed=step)
        assert distance(ours.outputs, theirs.outputs) < 1e-3
        for n, optimizer, outcome in zip((net, twin), optimizers, (ours, theirs), strict=True):
            for parameter, gradient in zip(
                n.parameters(), outcome.gradients[len(x) :], strict=True
            ):
                parameter.grad = gradient
            optimizer.step()
    net.heads[0][-1].weight.data = torch.zeros_like(net.heads[0][-1].weight)
    net.heads[0][-1].bias.data = torch.ones_like(net.heads[0][-1].bias)
    assert torch.equal(net(x, structure), torch.ones(3, 2))


def test_parameters_that_need_no_gradient_get_none():
    net, x, structure = preset_case("graph")
    for parameter in net.encoder.parameters():
        parameter.requires_grad_(False)
    y = net(x, structure)
    assert is_compiled(y)
    y.sum().backward()
    assert all(p.grad is None for p in net.encoder.parameters())
    assert all(p.grad is not None for p in net.blocks.parameters())


def test_without_gradients_nothing_is_kept():
    net, x, structure = preset_case("graph")
    expected = net.eval()(x, structure)
    with torch.no_grad():
        y = net(x, structure)
    assert not y.requires_grad
    assert torch.equal(y, expected)
    network = net._slot.network
    del expected
    assert len(network.free) == 2  # one was held by the first output


def test_copies_and_pickles_compile_on_their_own():
    net, x, structure = preset_case("graph")
    expected = net.eval()(x, structure)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other._slot.network is None
        assert torch.equal(other(x, structure), expected)
        assert other._slot.network is not net._slot.network
    assert "_slot" not in str(net.state_dict().keys())


def test_two_passes_of_two_networks_do_not_disturb_each_other():
    cases = [preset_case("graph"), preset_case("rings")]
    expected = [one_pass(copy.deepcopy(net).eval(), x, s)[0] for net, x, s in cases]
    leaves = [{k: v.clone().requires_grad_() for k, v in x.items()} for _, x, _ in cases]
    nets = [net.eval() for net, _, _ in cases]
    first = [n(x, s) for n, x, (_, _, s) in zip(nets, leaves, cases, strict=True)]
    second = [n(x, s) for n, x, (_, _, s) in zip(nets, leaves, cases, strict=True)]
    for ys in (first, second):
        for y, x, wanted in zip(ys, leaves, expected, strict=True):
            grads = torch.randn(
                y.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64
            )
            found = torch.autograd.grad(
                y, list(x.values()), grads.float(), allow_unused=True, materialize_grads=True
            )
            assert distance(list(found), wanted.gradients[: len(x)]) < 1e-6


def test_a_second_backward_pass_is_the_first_even_when_its_values_are_gone():
    net, x, structure = preset_case("graph", dropout=0.3)
    y = net(x, structure)
    parameters = list(net.parameters())
    first = torch.autograd.grad(y.sum(), parameters, retain_graph=True)
    again = torch.autograd.grad(y.sum(), parameters, retain_graph=True)
    assert all(map(torch.equal, first, again))
    statistics = [b.clone() for b in net.buffers()]
    with torch.random.fork_rng():
        net(x, structure)  # takes the memory
    for buffer, value in zip(net.buffers(), statistics, strict=True):
        buffer.copy_(value)
    third = torch.autograd.grad(y.sum(), parameters)
    assert distance(list(third), list(first)) < 1e-3
    assert all(map(torch.equal, net.buffers(), statistics))


def test_backward_twice_without_keeping_the_graph_is_an_error():
    net, x, structure = preset_case("graph")
    y = net(x, structure).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_a_parameter_that_changed_before_the_way_back_is_an_error():
    net, x, structure = preset_case("graph")
    y = net(x, structure).sum()
    with torch.no_grad():
        net.heads[0][-1].weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_second_derivatives_are_those_of_modules():
    net, x, structure = preset_case("graph", activation="tanh", dropout=0.2)
    twin = copy.deepcopy(net)

    def penalty(n: nn.Module) -> list[torch.Tensor]:
        leaves = {key: value.clone().requires_grad_() for key, value in x.items()}
        torch.manual_seed(0)
        y = n(leaves, structure)
        read = [leaves[key] for key in ("i", "{i j}")]
        slopes = torch.autograd.grad(y.sum(), read, create_graph=True)
        total = sum(slope.square().sum() for slope in slopes)
        return list(
            torch.autograd.grad(
                total, list(n.parameters()), allow_unused=True, materialize_grads=True
            )
        )

    ours = penalty(net)
    with by_modules():
        theirs = penalty(twin)
    assert distance(ours, theirs) < 1e-3


def test_hooks_see_what_modules_make():
    net, x, structure = preset_case("graph")
    seen = []
    handle = net.blocks[0].register_forward_hook(lambda m, given, made: seen.append(made))
    assert not is_compiled(net(x, structure))
    assert len(seen) == 1
    handle.remove()
    assert is_compiled(net(x, structure))


def test_a_part_that_was_replaced_is_what_computes():
    net, x, structure = preset_case("graph")
    net.eval()(x, structure)
    net.heads[0][-1] = nn.Linear(8, 5)
    assert net(x, structure).shape == (3, 5)


def test_a_part_that_was_appended_is_what_computes():
    net, x, structure = preset_case("graph")
    before = net.eval()(x, structure)
    net.heads[0].append(nn.Linear(2, 5))
    after = net(x, structure)
    torch.testing.assert_close(after, net.heads[0][-1](before))


@pytest.mark.parametrize("side", ["i", "i, (i j)"])
def test_a_sequence_of_modules_gives_what_its_modules_give(side):
    x, structure, widths = random_batch("i, (i j)", [5, 1, 4], 3, 0.5)
    layers = inc.nn.Sequential(
        inc.nn.Linear(f"i, (i j) -> {side}", widths, 8),
        inc.nn.BatchNorm(side, 8),
        inc.nn.Activation(torch.tanh),
        inc.nn.Linear(f"{side} -> {side}", 8, 3),
        inc.nn.Dropout(0.3),
    )
    assert_as_modules(layers, x, structure)
    twin = copy.deepcopy(layers).eval()
    ours = twin(x, structure)
    with by_modules():
        theirs = twin(x, structure)
    assert list(ours) == list(theirs) if isinstance(ours, dict) else ours.shape == theirs.shape


class Doubling(nn.Module):
    """A module of the user's own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


def test_modules_of_the_users_own_other_types_and_autocast_are_left_to_modules():
    net, x, structure = preset_case("graph")
    net.heads[0].append(Doubling())
    assert not is_compiled(net(x, structure))
    plain, x, structure = preset_case("graph")
    with torch.autocast("cpu", torch.bfloat16):
        assert not is_compiled(plain(x, structure))
    wide = {key: value.double() for key, value in x.items()}
    assert not is_compiled(plain.double()(wide, structure))


def test_features_that_do_not_fit_are_refused_as_before():
    net, x, structure = preset_case("graph")
    net(x, structure)
    with pytest.raises(inc.IncidenceError, match="must have 18 rows"):
        net({**x, "i": torch.ones(5, x["i"].shape[1])}, structure)
    with pytest.raises(inc.IncidenceError, match="must have 3 channels"):
        net({**x, "i": torch.ones(18, 9)}, structure)


def test_threads_do_not_disturb_each_other():
    net, x, structure = preset_case("graph")
    net.eval()
    expected = one_pass(copy.deepcopy(net), x, structure)[0]
    wrong = []

    def work() -> None:
        for _ in range(30):
            leaves = {key: value.clone().requires_grad_() for key, value in x.items()}
            y = net(leaves, structure)
            grads = torch.randn(
                y.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64
            )
            found = torch.autograd.grad(
                y, list(leaves.values()), grads.float(), allow_unused=True, materialize_grads=True
            )
            if distance(list(found), expected.gradients[: len(x)]) > 1e-6:
                wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


# Other threads of torch would use time of the process that is none of this thread. With 100
# channels a network has enough parameters for them.
ONE_THREAD = """
import sys, time, torch
import incidence as inc
from incidence import collate
from incidence.models import make, read_channels
from tests.models.small import for_preset
torch.set_num_threads(1)
one = for_preset("graph").to(torch.float32)
batch = collate([one] * 20)
net = make("graph", read_channels("graph", {k: v.shape[1] for k, v in one.features.items()}), 2,
           hidden=100)
def of_network():
    net(batch.features, batch.structure).backward(torch.ones(20, 2))
    for p in net.parameters():
        p.grad = None
large = inc.Structure(4000, {"{i j}": torch.arange(4000).view(2, 2000)})
layer = inc.nn.Linear("i, {i j} -> i, {i j}", 64, 64)
x = {"i": torch.ones(4000, 64, requires_grad=True),
     "{i j}": torch.ones(2000, 64, requires_grad=True)}
ones = [torch.ones_like(v) for v in x.values()]
def of_layer():
    y = layer(x, large)
    torch.autograd.backward(list(y.values()), ones)
    for p in [*layer.parameters(), *x.values()]:
        p.grad = None
step = {"network": of_network, "layer": of_layer}[sys.argv[1]]
step()
torch.set_num_threads(2)
process, thread = time.process_time(), time.thread_time()
for _ in range(20):
    step()
thread = time.thread_time() - thread
print((time.process_time() - process - thread) / thread)
"""


@pytest.mark.parametrize("what", ["network", "layer"])
def test_a_step_starts_no_second_thread(what):
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", ONE_THREAD, what],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert float(done.stdout) < 0.01


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.exhaustive)])
def test_memory_stays_bounded_over_batches_of_all_sizes(count):
    net, _, _ = preset_case("graph")
    example = for_preset("graph")
    single = inc.Example(example.structure, {k: v.float() for k, v in example.features.items()})
    packed = inc.pack([single] * 40)
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        size = int(torch.randint(1, 40, (1,), generator=generator))
        batch = inc.collate([packed[k] for k in range(size)])
        net(batch.features, batch.structure).sum().backward()
    gc.collect()
    network = net._slot.network
    assert len(network.free) <= 2
    largest = inc.collate([packed[k] for k in range(39)])
    binding = network.binding(largest.structure)
    most = node._ROOM * (binding.num_values + binding.num_grads)
    held = sum(t.numel() for t in network.free[0]._memory.values())
    assert held <= most + node._ROOM * (binding.num_scratch + network.program.scratch + 10**5)


@pytest.fixture
def garbage(monkeypatch) -> None:
    """Memory is full of NaN when torch hands it out."""
    own = torch.empty

    def filled(*shape, **options):
        made = own(*shape, **options)
        return made.fill_(float("nan")) if made.is_floating_point() else made

    monkeypatch.setattr(torch, "empty", filled)


def test_garbage_in_memory_changes_nothing(request):
    net, x, structure = preset_case("mesh")
    expected, _ = one_pass(copy.deepcopy(net), x, structure)
    request.getfixturevalue("garbage")
    found, was_compiled = one_pass(copy.deepcopy(net), x, structure)
    assert was_compiled
    for one, other in zip(found, expected, strict=True):
        assert all(map(torch.equal, one, other))


@pytest.mark.usefixtures("garbage")
@pytest.mark.parametrize("name", some(PRESETS))
def test_no_step_writes_behind_the_end_of_its_value(name):
    net, x, structure = preset_case(name, hidden=7, heads=1)  # which fills no vector
    _, was_compiled = one_pass(net, x, structure)
    assert was_compiled
    network = net._slot.network
    binding, [arena] = network.binding(structure), network.free
    for kind, places, count in (
        ("values", binding.value_places, binding.num_values),
        ("grads", binding.grad_places, binding.num_grads),
    ):
        memory = arena.tensor(kind, count)
        ends = places + binding.rows * binding.widths
        for place, size, end in zip(places, binding.sizes, ends, strict=True):
            if place >= 0:
                assert memory[end : place + size].isnan().all()


SCRIPT = """
import torch, incidence as inc
s = inc.Structure(3, {"{i j}": [[0, 1], [1, 2]]})
net = inc.models.IncidenceNet("i, {i j} -> ", {"i": 2, "{i j}": 1}, 1, hidden=4)
y = net({"i": torch.ones(3, 2), "{i j}": torch.ones(2, 1)}, s)
y.sum().backward()
print(net._slot.network is not None, bool(y.isfinite().all()))
"""


def run_script(folder: Path, source: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the script in a fresh process, with a cache folder of its own."""
    environment = {**os.environ, "PYTHONPATH": str(source), "XDG_CACHE_HOME": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.parametrize("way", ["switched off", "no compiler", "a compiler that fails", "deleted"])
def test_without_it_everything_works(way, tmp_path):
    source, variables = Path(inc.__file__).parents[1], {}
    if way == "switched off":
        variables["INCIDENCE_NATIVE"] = "0"
    if way == "no compiler":
        variables["CC"] = "/nonexistent"
    if way == "a compiler that fails":
        variables["CC"] = "false"
    if way == "deleted":
        shutil.copytree(source / "incidence", tmp_path / "src" / "incidence")
        shutil.rmtree(tmp_path / "src" / "incidence" / "engine" / "compiled")
        source = tmp_path / "src"
    run = run_script(tmp_path, source, **variables)
    assert run.stdout == "False True\n"
    assert "compiled network.c" not in run.stderr


def test_the_build_says_so_once(tmp_path):
    source = Path(inc.__file__).parents[1]
    first, second = (run_script(tmp_path, source) for _ in range(2))
    assert first.stderr.count("compiled network.c for this machine") == 1
    assert second.stderr == ""
    assert first.stdout == second.stdout == "True True\n"
