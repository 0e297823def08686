"""What a network needs around its layers: every module is equivariant, and does what it says to
every orbit.
"""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from incidence.nn import (
    Activation,
    BatchNorm,
    Dropout,
    LayerNorm,
    Linear,
    Readout,
    Residual,
    Sequential,
)
from incidence.structure import Structure, collate
from incidence.structure.arrange import orbit_rows
from incidence.structure.pytree import recorded
from incidence.testing import assert_equivariant
from tests.nn.sparse_maps import EVERY
from tests.structure.random_structures import random_structure

SIDES = [
    "i",
    "i j",
    "i, (i j)",
    "{i ...}, i",
    "[i j], i {j k}",
    "u:a m:b, u:a",
    "i, ",
    "one={i j}, two={i j}",
]
PATH = torch.tensor([[0, 1, 2], [1, 2, 3]])


def structure_of(side: str, sizes: tuple[int, ...] = (4, 0, 5)) -> Structure:
    return collate(
        [random_structure(n, [p.strip() for p in side.split(",")], seed=n) for n in sizes]
    )


def features_of(
    side: str, structure: Structure, channels: int = 3, seed: int = 0
) -> Tensor | dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    keys = [p.strip() for p in side.split(",")]
    xs = {
        key.split("=")[0]: torch.randn(
            structure.num_entries(key), channels, generator=generator, dtype=torch.float64
        )
        for key in keys
    }
    return xs if len(keys) > 1 else xs[keys[0]]


def as_dict(x: Any) -> dict[str, Tensor]:
    return x if isinstance(x, dict) else {"": x}


def modules(side: str) -> dict[str, nn.Module]:
    return {
        "activation": Activation(),
        "dropout": Dropout(0.5).eval(),
        "batch norm": BatchNorm(side, 3),
        "batch norm, evaluating": BatchNorm(side, 3).eval(),
        "layer norm": LayerNorm(side, 3),
        "residual": Residual(LayerNorm(side, 3)),
        "readout": Readout(side, EVERY),
        "sequence": Sequential(
            BatchNorm(side, 3),
            nn.Tanh(),
            Linear(f"{side} -> {side}", 3, 3),
            Activation(),
            Readout(side),
        ),
    }


@pytest.mark.parametrize("name", modules("i"))
@pytest.mark.parametrize("side", SIDES)
def test_every_module_is_equivariant(side, name):
    torch.manual_seed(0)
    module = modules(side)[name].double()
    for parameter in module.parameters():
        nn.init.normal_(parameter)  # scales and shifts differ from orbit to orbit
    structure = structure_of(side)
    outputs = "" if name in ("readout", "sequence") else None
    inputs = None if "," in side else side
    assert_equivariant(
        module,
        features_of(side, structure),
        structure,
        inputs=inputs,
        outputs=outputs,
        rtol=1e-8,
        atol=1e-8,
    )


# ---- activation


def test_an_activation_is_relu_unless_told_otherwise():
    x = torch.tensor([[-1.0, 2.0]])
    assert Activation()(x, Structure(1)).tolist() == [[0.0, 2.0]]
    assert Activation(torch.abs)(x, Structure(1)).tolist() == [[1.0, 2.0]]
    assert Activation(nn.LeakyReLU(0.5))(x, Structure(1)).tolist() == [[-0.5, 2.0]]


def test_an_activation_acts_on_every_tensor_of_a_dict():
    y = Activation()({"i": -torch.ones(2, 1), "": torch.ones(1, 1)}, Structure(2))
    assert {key: v.tolist() for key, v in y.items()} == {"i": [[0.0], [0.0]], "": [[1.0]]}


def test_an_activation_with_parameters_has_them():
    assert len(list(Activation(nn.PReLU()).parameters())) == 1


def test_an_activation_prints_its_function():
    assert repr(Activation()) == "Activation(relu)"
    assert "GELU" in repr(Activation(nn.GELU()))


# ---- dropout


def test_dropout_drops_values_each_on_its_own_and_scales_the_rest():
    torch.manual_seed(0)
    y = Dropout(0.25)({"i": torch.ones(100, 40)}, Structure(100))["i"]
    assert sorted(y.unique().tolist()) == pytest.approx([0.0, 4 / 3])
    assert float((y == 0).float().mean()) == pytest.approx(0.25, abs=0.03)
    assert float((y == 0).all(1).float().mean()) == 0  # no entry is dropped as a whole


def test_dropout_of_many_values_has_its_probability_and_keeps_the_mean():
    torch.manual_seed(0)
    y = Dropout(0.1)({"i": torch.ones(1000, 400), "{i j}": torch.ones(3, 1)}, Structure(1000))["i"]
    assert float((y == 0).float().mean()) == pytest.approx(0.1, abs=3e-3)
    assert float(y.mean()) == pytest.approx(1.0, abs=3e-3)
    by_lane = (y == 0).float().view(-1, 4).mean(0)  # four values have their bits in one word
    assert by_lane.tolist() == pytest.approx([0.1] * 4, abs=5e-3)
    pairs = ((y[:, ::2] == 0) & (y[:, 1::2] == 0)).float().mean()
    assert float(pairs) == pytest.approx(0.01, abs=2e-3)  # neighbours are dropped on their own


def test_dropout_is_repeated_by_a_seed_and_passes_gradients_where_it_keeps():
    x = torch.ones(5, 7, requires_grad=True)
    torch.manual_seed(3)
    one = Dropout(0.5)(x, Structure(5))
    torch.manual_seed(3)
    assert torch.equal(Dropout(0.5)(x, Structure(5)), one)
    one.sum().backward()
    assert torch.equal(x.grad, one.detach())


@pytest.mark.parametrize(("p", "values"), [(0.0, [1.0]), (1.0, [0.0]), (0, [1.0])])
def test_dropout_of_nothing_and_of_everything(p, values):
    assert Dropout(p)(torch.ones(4, 3), Structure(4)).unique().tolist() == values


def test_dropout_does_nothing_when_evaluating():
    x = torch.randn(3, 2)
    assert torch.equal(Dropout(0.9).eval()(x, Structure(3)), x)


def test_dropout_of_no_probability_is_refused():
    with pytest.raises(ValueError, match="a probability, from 0 to 1"):
        Dropout(2.0)


# ---- norms


@pytest.mark.parametrize("side", SIDES)
def test_batch_norm_gives_every_orbit_of_every_tensor_mean_zero_and_unit_spread(side):
    structure = collate(
        [
            random_structure(n, [p.strip() for p in side.split(",")], seed=n, draws=30)
            for n in (6, 7)
        ]
    )
    norm = BatchNorm(side, 3, eps=1e-14).double()
    y = as_dict(norm(features_of(side, structure), structure))
    for pattern, value in zip(norm.patterns, y.values(), strict=True):
        for rows in orbit_rows(structure, pattern):
            if len(rows) > 1:
                torch.testing.assert_close(
                    value[rows].mean(0), torch.zeros(3, dtype=torch.float64), atol=1e-9, rtol=0
                )
                torch.testing.assert_close(
                    value[rows].std(0, correction=0), torch.ones(3, dtype=torch.float64)
                )


def test_batch_norm_of_nodes_is_that_of_torch():
    x, structure = torch.randn(5, 3), Structure(5)
    ours, theirs = BatchNorm("i", 3), nn.BatchNorm1d(3, momentum=None)
    for _ in range(3):
        torch.testing.assert_close(ours(x, structure), theirs(x))
    torch.testing.assert_close(ours.eval()(x, structure), theirs.eval()(x))


def test_batch_norm_keeps_statistics_for_every_orbit():
    structure = Structure.complete(3, ["i j"])
    diagonal, rest = orbit_rows(structure, "i j")
    x = torch.zeros(9, 1)
    x[diagonal], x[rest] = torch.tensor([[9.0], [10.0], [11.0]]), torch.arange(6.0)[:, None]
    norm = BatchNorm("i j", 1, momentum=1.0)
    norm(x, structure)
    means = [
        buffer.item() for name, buffer in norm.named_buffers() if name.endswith("running_mean")
    ]
    assert means == [10.0, 2.5]
    norm.eval()
    assert norm(x, structure)[diagonal].flatten().tolist() == pytest.approx([-1, 0, 1], abs=1e-5)


def test_batch_norm_has_a_scale_and_a_shift_for_every_orbit():
    assert sum(p.numel() for p in BatchNorm("i, i j, {i j}", 5).parameters()) == 2 * 5 * (1 + 2 + 1)
    assert sum(p.numel() for p in LayerNorm("i, i j", {"i": 2, "i j": 3}).parameters()) == 2 * (
        2 + 2 * 3
    )


@pytest.mark.parametrize("count", [0, 1])
def test_batch_norm_uses_the_running_statistics_for_fewer_than_two_entries(count):
    norm = BatchNorm("(i j)", 2)
    structure = Structure(4, {"(i j)": PATH[:, :count]})
    x = torch.full((count, 2), 3.0, requires_grad=True)
    y = norm(x, structure)
    torch.testing.assert_close(y, x / (1 + 1e-5) ** 0.5)
    y.sum().backward()
    assert x.grad.isfinite().all()
    assert [b.tolist() for name, b in norm.named_buffers() if "running" in name] == [
        [0.0, 0.0],
        [1.0, 1.0],
    ]


def test_batch_norm_of_an_orbit_without_entries_works_beside_one_with_entries():
    structure = Structure(4, {"i j": PATH})  # no diagonal
    assert BatchNorm("i j", 2)(torch.randn(3, 2), structure).isfinite().all()


def test_layer_norm_gives_every_entry_mean_zero_and_unit_spread():
    structure = structure_of("i, i j")
    y = LayerNorm("i, i j", 3, eps=0.0).double()(features_of("i, i j", structure), structure)
    for value in y.values():
        torch.testing.assert_close(
            value.mean(1), torch.zeros(len(value), dtype=torch.float64), atol=1e-9, rtol=0
        )
        torch.testing.assert_close(
            value.std(1, correction=0), torch.ones(len(value), dtype=torch.float64)
        )


def test_layer_norm_does_not_depend_on_batch_mates():
    structure = structure_of("i j", (4, 5))
    x = features_of("i j", structure)
    norm = LayerNorm("i j", 3).double()
    count = structure[0].num_entries("i j")
    assert torch.equal(norm(x, structure)[:count], norm(x[:count], structure[0]))


def test_norms_shift_the_orbits_apart():
    structure = Structure.complete(3, ["i j"])
    norm = LayerNorm("i j", 2)
    for number, orbit in enumerate(norm.norms[0]):
        nn.init.zeros_(orbit.weight)
        nn.init.constant_(orbit.bias, float(number))
    y = norm(torch.randn(9, 2), structure)
    diagonal, rest = orbit_rows(structure, "i j")
    assert (y[diagonal] == 0).all()
    assert (y[rest] == 1).all()


def test_norms_take_dicts_by_any_spelling_and_give_the_keys_of_their_text():
    structure = Structure(4, {"{i j}": PATH})
    y = LayerNorm("i, {a b}", 2)({"{i j}": torch.randn(3, 2), "k": torch.randn(4, 2)}, structure)
    assert list(y) == ["i", "{a b}"]


def test_norms_plan_the_orbits_of_tensors_that_have_several():
    structure = Structure.complete(3, ["i j", "(i j)"])
    LayerNorm("i, i j, (i j)", 2).plan(structure)
    planned = recorded(structure)
    assert list(planned) == ["rows i j"]
    assert [rows.tolist() for rows in planned["rows i j"].tensors] == [
        rows.tolist() for rows in orbit_rows(structure, "i j")
    ]


def test_norms_print_their_tensors():
    assert "'i, {i j}'" in repr(BatchNorm("i, {i j}", 2))


# ---- residual


def test_a_residual_adds_the_input_to_the_output():
    structure, x = Structure(3), torch.randn(3, 2)
    layer = Linear("i -> i", 2, 2)
    assert torch.equal(Residual(layer)(x, structure), x + layer(x, structure))
    assert torch.equal(Residual(nn.ReLU())(x, structure), x + x.relu())


def test_a_residual_of_several_modules_is_that_of_their_sequence():
    structure, x = Structure(3), torch.randn(3, 2)
    layer = Linear("i -> i", 2, 2)
    assert torch.equal(
        Residual(layer, Activation(), nn.Tanh())(x, structure),
        x + layer(x, structure).relu().tanh(),
    )


def test_tensors_that_the_module_leaves_out_pass_through():
    structure = Structure(4, {"(i j)": PATH})
    x = {"i": torch.randn(4, 2), "(i j)": torch.randn(3, 2), "extra": torch.ones(1)}

    class OnlyNodes(nn.Module):
        def forward(self, x: dict[str, Tensor], structure: Structure) -> dict[str, Tensor]:
            return {"i": 2 * x["i"]}

    y = Residual(OnlyNodes())(x, structure)
    assert list(y) == ["i", "(i j)", "extra"]
    torch.testing.assert_close(y["i"], 3 * x["i"])
    assert y["(i j)"] is x["(i j)"]


# ---- readout


def statistics(x: Tensor, aggr: str) -> Tensor:
    if not len(x):
        return torch.zeros(x.shape[1], dtype=x.dtype)
    return {
        "sum": x.sum(0),
        "mean": x.mean(0),
        "max": x.amax(0),
        "min": x.amin(0),
        "std": x.std(0, correction=0),
        "range": x.amax(0) - x.amin(0),
    }[aggr]


@pytest.mark.parametrize("aggr", [*EVERY, EVERY], ids=[*EVERY, "list"])
@pytest.mark.parametrize("side", SIDES)
def test_a_readout_has_the_statistics_of_every_orbit_of_every_structure(side, aggr):
    structure = structure_of(side)
    x = features_of(side, structure)
    readout = Readout(side, aggr)
    names = [aggr] if isinstance(aggr, str) else aggr
    expected = []
    for k in range(structure.num_structures):
        row = []
        for pattern, value in zip(readout.patterns, as_dict(x).values(), strict=True):
            inside = structure.batch(pattern) == k
            for rows in orbit_rows(structure, pattern):
                kept = rows[inside[rows]]
                row += [statistics(value[kept], name) for name in names]
        expected.append(torch.cat(row))
    y = readout(x, structure)
    torch.testing.assert_close(y, torch.stack(expected))
    assert y.shape == (3, readout.out_channels(3))


@pytest.mark.parametrize("aggr", ["sum", "mean", "max"])
def test_a_readout_is_a_layer_to_the_scalar_with_the_identity_for_weight(aggr):
    structure = structure_of("{i j}")
    x = features_of("{i j}", structure)
    layer = Linear("{i j} -> ", 3, 3, aggr=aggr, bias=False, dtype=torch.float64)
    layer.weight.data[0] = torch.eye(3)
    torch.testing.assert_close(Readout("{i j}", aggr)(x, structure), layer(x, structure))


@pytest.mark.parametrize("aggr", EVERY)
def test_gradients_of_a_readout_are_those_of_finite_differences(aggr):
    structure = structure_of("i j")
    x = features_of("i j", structure).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: Readout("i j", aggr)(x, structure), (x,), fast_mode=True
    )


@pytest.mark.parametrize("aggr", ["max", "min"])
def test_ties_share_the_gradient_of_a_readout_equally(aggr):
    x = torch.tensor([[1.0], [2.0], [2.0], [1.0]], requires_grad=True)
    Readout("i", aggr)(x, Structure(4)).sum().backward()
    best = 2.0 if aggr == "max" else 1.0
    assert x.grad[:, 0].tolist() == [0.5 if v == best else 0.0 for v in x[:, 0].tolist()]


def test_the_channels_of_a_readout_are_counted():
    readout = Readout("i, i j", ["sum", "max"])
    assert readout.out_channels(4) == 2 * (1 + 2) * 4
    assert readout.out_channels({"i": 3, "i j": 5}) == 2 * (3 + 2 * 5)


def test_a_readout_keeps_the_type_of_its_features():
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        assert Readout("i", EVERY)(torch.ones(3, 2, dtype=dtype), Structure(3)).dtype == dtype


def test_a_readout_prints_what_it_is():
    assert repr(Readout("i, {i j}", ["sum", "max"])) == "Readout('i, {i j}', aggr=['sum', 'max'])"


# ---- sequences


class NeedsStructure(nn.Module):
    def forward(self, x: Tensor, structure: Structure) -> Tensor:
        return x * structure.total_nodes


def test_a_sequence_passes_the_structure_to_all_but_the_modules_of_torch():
    structure, x = Structure(3), torch.randn(3, 2)
    layer, linear = Linear("i -> i", 2, 4), nn.Linear(4, 2)
    network = Sequential(layer, nn.ReLU(), linear, NeedsStructure(), Sequential(Activation()))
    torch.testing.assert_close(
        network(x, structure), (linear(layer(x, structure).relu()) * 3).relu()
    )


def test_a_sequence_asks_a_forward_that_was_put_in_the_place_of_another():
    structure, x = Structure(3), torch.ones(3, 1)
    with_structure, without = nn.Identity(), nn.Identity()
    with_structure.forward = lambda x, structure: x * structure.num_nodes
    without.forward = lambda x: x + 1
    assert Sequential(with_structure, without)(x, structure).flatten().tolist() == [4, 4, 4]


def test_a_sequence_applies_modules_of_torch_to_every_tensor():
    structure = Structure(4, {"(i j)": PATH})
    linear = nn.Linear(2, 3)
    x = {"i": torch.randn(4, 2), "(i j)": torch.randn(3, 2)}
    y = Sequential(linear)(x, structure)
    assert all(torch.equal(y[key], linear(x[key])) for key in x)


def test_a_sequence_is_indexed_and_sliced_like_that_of_torch():
    network = Sequential(Activation(), Dropout(), Activation())
    assert isinstance(network[1], Dropout)
    assert isinstance(network[:2], Sequential)
    assert len(network) == 3


def test_an_empty_sequence_is_the_identity():
    x = torch.randn(3, 2)
    assert Sequential()(x, Structure(3)) is x


# ---- a network


def network() -> Sequential:
    torch.manual_seed(0)
    text = "i, {i j}"
    block = Residual(
        Linear(f"{text} -> {text}", 8, 8, aggr="mean"), BatchNorm(text, 8), Activation(torch.tanh)
    )
    return Sequential(
        Linear(f"{text} -> {text}", -1, 8),
        block,
        LayerNorm(text, 8),
        Dropout(0.1),
        Readout(text, ["mean", "max"]),
        nn.Linear(32, 1),
    )


@pytest.mark.parametrize(
    "clone",
    [lambda m: m, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))],
    ids=["itself", "deepcopy", "pickle"],
)
def test_a_network_learns_and_keeps_its_state(clone):
    structures = [random_structure(n, ["{i j}"], seed=n) for n in (4, 5, 6)]
    structure = collate(structures)
    x = {key: v.float() for key, v in features_of("i, {i j}", structure).items()}
    target = torch.tensor([[1.0], [-1.0], [0.5]])
    model = network().eval()
    model(x, structure)  # takes its channels
    model = clone(model).train()
    optimiser = torch.optim.Adam(model.parameters(), 0.02)
    losses = []
    for _ in range(40):
        optimiser.zero_grad()
        loss = (model(x, structure) - target).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert min(losses[-5:]) < 0.2 * losses[0]
    other = network()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.eval()(x, structure), model.eval()(x, structure))


def test_a_network_gives_one_row_for_each_structure_whatever_its_mates():
    model = network().eval().double()
    structure = structure_of("i, {i j}", (4, 5, 6))
    x = features_of("i, {i j}", structure)
    together = model(x, structure)
    starts = {key: structure.entry_ptr(key).tolist() for key in x}
    for k in range(3):
        own = {key: v[starts[key][k] : starts[key][k + 1]] for key, v in x.items()}
        torch.testing.assert_close(model(own, structure[k]), together[k : k + 1])
