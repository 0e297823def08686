"""The layer as one meets it: parameters and their names, ways to pass tensors, kinds of numbers,
copies and files.
"""

import copy
import io
import pickle
from math import sqrt
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import incidence as inc
from incidence.algebra import EquivariantMap
from incidence.errors import IncidenceError
from incidence.nn import Linear
from incidence.structure import Structure, collate
from incidence.structure.arrange import orbit_rows
from tests.cases import some
from tests.nn.definition import choices
from tests.nn.sparse_maps import ALL, EVERY, IDS, features_for, layer_for, outputs, structure_for

PATH = torch.tensor([[0, 1, 2], [1, 2, 3]])


@pytest.fixture
def path() -> Structure:
    return Structure(5, {"(i j)": PATH, "{i j}": PATH})


# ---- parameters


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("i -> i", {"weight": (2, 3, 4), "bias": (1, 4)}),
        ("i j -> i j", {"weight": (15, 3, 4), "bias": (2, 4)}),
        ("i j -> i j k", {"weight": (52, 3, 4), "bias": (5, 4)}),
        ("i j -> ", {"weight": (2, 3, 4), "bias": (1, 4)}),
        (" -> i j", {"weight": (2, 3, 4), "bias": (2, 4)}),
        ("i, {i j} -> i", {"weight_0_0": (2, 3, 4), "weight_1_0": (2, 3, 4), "bias_0": (1, 4)}),
        (
            "i -> i, i j",
            {"weight_0_0": (2, 3, 4), "weight_0_1": (5, 3, 4), "bias_0": (1, 4), "bias_1": (2, 4)},
        ),
    ],
)
def test_parameters_have_a_row_for_each_operation_and_each_output_orbit(text, shapes):
    layer = Linear(text, 3, 4)
    assert {name: tuple(p.shape) for name, p in layer.named_parameters()} == shapes


def test_channels_may_differ_by_tensor():
    layer = Linear("i, (i j) -> i, {i j}", {"i": 8, "(i j)": 4}, {"{i j}": 2, "i": 1})
    assert layer.weight_0_0.shape[1:] == (8, 1)
    assert layer.weight_1_0.shape[1:] == (4, 1)
    assert layer.weight_0_1.shape[1:] == (8, 2)
    assert layer.weight_1_1.shape[1:] == (4, 2)
    assert layer.bias_1.shape == (1, 2)


def test_a_list_of_aggregations_has_a_weight_for_each():
    assert Linear("i j -> i j", 3, 4, aggr=["sum", "max"]).weight.shape == (2, 15, 3, 4)
    assert Linear("i j -> i j", 3, 4, aggr=["sum"]).weight.shape == (1, 15, 3, 4)
    assert Linear("i, i j -> i", 3, 4, aggr=("std", "mean", "sum")).weight_1_0.shape == (3, 5, 3, 4)


def test_a_layer_without_bias_has_none():
    layer = Linear("i -> i", 3, 4, bias=False)
    assert layer.bias is None
    assert list(dict(layer.named_parameters())) == ["weight"]


def test_the_rows_of_a_weight_are_the_operations_in_their_order():
    layer = Linear("i, {i j} -> i, {i j}", 1, 1)
    m = layer.map
    assert [o for s in (0, 1) for t in (0, 1) for o in layer.operations_of(s, t)] == list(
        m.operations
    )


def test_a_map_may_be_given_as_an_object(path):
    m = EquivariantMap("{i ...} -> i", max_overlap=0)
    assert Linear(m, 1, 1).weight.shape == (1, 1, 1)
    assert Linear("{i ...} -> i", 1, 1, max_overlap=0).map == m


def test_a_predicate_keeps_some_operations(path):
    layer = Linear(
        "i, (i j) -> i",
        2,
        2,
        operations=lambda o: any(map(any, o.overlap)),
        bias=False,
        dtype=torch.float64,
    )
    assert {name: len(p) for name, p in layer.named_parameters()} == {
        "weight_0_0": 1,
        "weight_1_0": 2,
    }
    whole = Linear("i, (i j) -> i", 2, 2, bias=False, dtype=torch.float64)
    for name, p in whole.named_parameters():
        p.data[0] = 0  # the global term
        p.data[1:] = dict(layer.named_parameters())[name].data
    x = features_for(layer.map, path)
    torch.testing.assert_close(layer(x, path), whole(x, path))


def test_a_predicate_may_leave_a_pair_of_tensors_without_operations(path):
    layer = Linear(
        "i, (i j) -> i, (i j)", 2, 2, operations=lambda o: o.source.tensor == o.target.tensor
    )
    assert layer.weight_0_1.shape == (0, 2, 2)
    x = {key: v.float() for key, v in features_for(layer.map, path).items()}
    y = layer(x, path)
    alone = Linear("i -> i", 2, 2)
    alone.load_state_dict({"weight": layer.weight_0_0, "bias": layer.bias_0})
    torch.testing.assert_close(y["i"], alone(x["i"], path))


@pytest.mark.parametrize(
    "text", ["i j -> i j", "{i j} -> {i j}", "i {j k} -> {i j}", "i, {i j k} -> {i j k}"]
)
def test_weights_are_drawn_with_the_variance_of_the_keys_read(text):
    torch.manual_seed(0)
    widths = [40 + 20 * k for k in range(len(EquivariantMap(text).inputs))]
    m = EquivariantMap(text)
    layer = Linear(text, {str(p): w for p, w in zip(m.inputs, widths, strict=True)}, 60)
    reads: dict[int, list[int]] = {}
    for o in m.operations:
        sets = tuple(
            frozenset((c.sort, 10 * j + v) for v in range(c.size))
            for j, c in enumerate(o.target.orbit.classes)
        )
        reads.setdefault(o.target.number, []).append(
            widths[o.source.tensor] * len(list(choices(sets, o.overlap)))
        )
    for s in range(len(m.inputs)):
        weight = layer.weight if len(m.inputs) == 1 else getattr(layer, f"weight_{s}_0")
        for row, o in zip(weight, layer.operations_of(s, 0), strict=True):
            assert float(row.detach().std()) == pytest.approx(
                1 / sqrt(sum(reads[o.target.number])), rel=0.08
            )
            assert abs(float(row.detach().mean())) < 0.1 * float(row.detach().std())


def test_the_output_has_unit_scale_when_every_pool_has_one_entry():
    torch.manual_seed(0)
    layer = Linear("{i j} -> {i j}", 100, 400)
    y = layer(torch.randn(1, 100), Structure(2, {"{i j}": torch.tensor([[0], [1]])}))
    # 1, 2 and 1 keys that all hold the one entry: sqrt(6 / 4)
    assert float(y.detach().std()) == pytest.approx(1.2, rel=0.2)


def test_biases_start_at_zero_and_resetting_draws_anew():
    layer = Linear("i, i j -> i j", 3, 4)
    before = layer.weight_0_0.detach().clone()
    layer.bias_0.data.fill_(1.0)
    layer.reset_parameters()
    assert not torch.equal(before, layer.weight_0_0)
    assert (layer.bias_0 == 0).all()


def test_the_same_seed_draws_the_same_weights():
    layers = []
    for _ in range(2):
        torch.manual_seed(3)
        layers.append(Linear("i, i j -> i j", 3, 4))
    assert all(
        torch.equal(a, b) for a, b in zip(*(layer.parameters() for layer in layers), strict=True)
    )


# ---- lazy layers


def test_a_lazy_layer_takes_its_channels_from_the_first_input(path):
    layer = Linear("i, (i j) -> i", -1, 4)
    y = layer({"i": torch.randn(5, 3), "(i j)": torch.randn(3, 2)}, path)
    assert y.shape == (5, 4)
    assert (layer.weight_0_0.shape, layer.weight_1_0.shape) == ((2, 3, 4), (3, 2, 4))
    assert layer.in_channels == [3, 2]


def test_one_tensor_may_be_lazy_and_another_not(path):
    layer = Linear("i, (i j) -> i", {"i": -1, "(i j)": 2}, 4)
    layer({"i": torch.randn(5, 3), "(i j)": torch.randn(3, 2)}, path)
    assert layer.in_channels == [3, 2]
    with pytest.raises(inc.IncidenceError, match="must have 2 channels"):
        Linear("i, (i j) -> i", {"i": -1, "(i j)": 2}, 4)(
            {"i": torch.randn(5, 3), "(i j)": torch.randn(3, 5)}, path
        )


def test_a_lazy_layer_is_drawn_like_one_that_knew_its_channels():
    torch.manual_seed(0)
    layer = Linear("i -> i", -1, 100, dtype=torch.float64)
    layer(torch.randn(3, 100, dtype=torch.float64), Structure(3))
    assert layer.weight.dtype == torch.float64
    assert float(layer.weight.detach().std()) == pytest.approx(1 / sqrt(2 * 100), rel=0.05)


def test_a_lazy_layer_keeps_its_channels_after_the_first_input():
    layer = Linear("i -> i", -1, 2)
    layer(torch.randn(3, 4), Structure(3))
    with pytest.raises(inc.IncidenceError, match="must have 4 channels"):
        layer(torch.randn(3, 5), Structure(3))


@pytest.mark.parametrize("aggr", ["sum", ["sum", "max"]])
def test_a_state_loads_into_a_lazy_layer(path, aggr):
    known = Linear("i, (i j) -> i", {"i": 3, "(i j)": 2}, 4, aggr=aggr)
    lazy = Linear("i, (i j) -> i", -1, 4, aggr=aggr)
    lazy.load_state_dict(known.state_dict())
    x = {"i": torch.randn(5, 3), "(i j)": torch.randn(3, 2)}
    assert torch.equal(lazy(x, path), known(x, path))
    assert lazy.in_channels == [3, 2]


@pytest.mark.parametrize(
    "clone",
    [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))],
    ids=["deepcopy", "pickle"],
)
def test_a_lazy_layer_can_be_copied_before_its_first_input(clone):
    assert clone(Linear("i -> i", -1, 2))(torch.randn(3, 4), Structure(3)).shape == (3, 2)


# ---- passing tensors


def test_one_tensor_to_one_takes_and_gives_tensors_or_takes_a_dict():
    layer = Linear("i -> i", 2, 3)
    x = torch.randn(4, 2)
    y = layer(x, Structure(4))
    assert isinstance(y, Tensor)
    assert torch.equal(y, layer({"i": x}, Structure(4)))


def test_a_side_with_several_tensors_is_a_dict_keyed_by_the_text_used_in_the_map():
    layer = Linear("a, {b c}  -> {b c}, a, ", 2, 3)
    structure = Structure(4, {"{i j}": PATH})
    y = layer({"a": torch.randn(4, 2), "{b c}": torch.randn(3, 2)}, structure)
    assert {key: tuple(v.shape) for key, v in y.items()} == {
        "{b c}": (3, 3),
        "a": (4, 3),
        "": (1, 3),
    }


def test_named_tensors_are_keyed_by_their_names():
    layer = Linear("bond={i j}, contact={i j}, state= -> bond={i j}, state=", 2, 3)
    structure = Structure(4, {"bond={i j}": PATH, "contact={i j}": PATH[:, :2]})
    y = layer(
        {"contact": torch.randn(2, 2), "state": torch.randn(1, 2), "bond": torch.randn(3, 2)},
        structure,
    )
    assert {key: tuple(v.shape) for key, v in y.items()} == {"bond": (3, 3), "state": (1, 3)}


@pytest.mark.parametrize(
    "key", ["{i j} {i k}", "{x y} {y z}", "  {a b}{b c} ", inc.Pattern("{i j} {i k}")], ids=str
)
def test_any_spelling_of_a_tensor_is_accepted_as_its_key(key):
    layer = Linear("{i j} {j k}, i -> i", 1, 1)
    structure = Structure(3, {"{p q} {r p}": torch.tensor([[1], [0], [2]])})
    x = torch.randn(1, 1)
    expected = layer({"{i j} {j k}": x, "i": torch.ones(3, 1)}, structure)
    assert torch.equal(layer({key: x, "n": torch.ones(3, 1)}, structure), expected)


def test_the_order_of_a_dict_does_not_matter(path):
    layer = layer_for("i, (i j) -> i, (i j)")
    x = features_for(layer.map, path)
    one, other = layer(x, path), layer(dict(reversed(x.items())), path)
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_the_letters_of_a_map_need_not_be_those_of_the_structure():
    structure = Structure(4, {"{i j} k": torch.tensor([[0, 1], [1, 2], [3, 1]])})
    layers = [Linear(text, 1, 1, bias=False) for text in ("{i j} k -> k", "{b a} c -> x")]
    layers[1].load_state_dict(layers[0].state_dict())
    x = torch.randn(2, 1)
    assert torch.equal(layers[0](x, structure), layers[1](x, structure))


def test_input_and_output_supports_of_one_pattern_may_differ_by_name():
    layer = Linear("old={i j} -> new={i j}", 1, 1, bias=False)
    layer.weight.data[:, 0, 0] = torch.tensor([0.0, 0.0, 1.0])  # the edges that are in both
    structure = Structure(4, {"old={i j}": PATH, "new={i j}": torch.tensor([[2, 3, 0], [1, 0, 1]])})
    y = layer(torch.tensor([[1.0], [2.0], [4.0]]), structure)
    assert y[:, 0].tolist() == [2.0, 0.0, 1.0]


# ---- numbers


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
)
@pytest.mark.parametrize("aggr", [*EVERY, EVERY], ids=[*EVERY, "list"])
def test_every_floating_type_is_kept_forward_and_backward(path, dtype, aggr):
    layer = layer_for("i, (i j) -> i, (i j)", 1, aggr)
    exact = features_for(layer.map, path)
    expected = layer(exact, path)
    layer = layer.to(dtype)
    x = {key: v.to(dtype).requires_grad_() for key, v in exact.items()}
    y = layer(x, path)
    sum(v.sum() for v in y.values()).backward()
    assert {
        v.dtype
        for v in (*y.values(), *(v.grad for v in x.values()), *(p.grad for p in layer.parameters()))
    } == {dtype}
    precision = {
        torch.float16: 2e-2,
        torch.bfloat16: 2e-1,
        torch.float32: 1e-4,
        torch.float64: 1e-12,
    }[dtype]
    for key in y:
        torch.testing.assert_close(y[key].double(), expected[key], rtol=precision, atol=precision)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_computes_in_its_type_and_gives_gradients_in_that_of_the_parameters(path, dtype):
    layer = layer_for("i, (i j) -> i", 1, EVERY).float()
    x = {key: v.float().requires_grad_() for key, v in features_for(layer.map, path).items()}
    expected = layer(x, path)
    with torch.autocast("cpu", dtype):
        y = layer(x, path)
    assert y.dtype == dtype
    y.sum().backward()
    assert {v.grad.dtype for v in (*x.values(), *layer.parameters())} == {torch.float32}
    torch.testing.assert_close(y.float(), expected, rtol=2e-1, atol=2e-1)


def test_autocast_mixes_types_that_would_be_refused_without_it(path):
    layer = Linear("i, (i j) -> i", 2, 2)
    with torch.autocast("cpu", torch.bfloat16):
        y = layer({"i": torch.randn(5, 2), "(i j)": torch.randn(3, 2, dtype=torch.bfloat16)}, path)
    assert y.dtype == torch.bfloat16


def test_autocast_leaves_double_precision_alone_as_torch_does():
    layer = Linear("i -> i", 2, 2, dtype=torch.float64)
    x = torch.randn(3, 2, dtype=torch.float64)
    with torch.autocast("cpu", torch.bfloat16):
        assert (x @ layer.weight[0]).dtype == torch.float64
        assert layer(x, Structure(3)).dtype == torch.float64


def test_the_type_of_the_parameters_can_be_given():
    layer = Linear("i, i j -> i", 2, 2, dtype=torch.float64, device="cpu")
    assert {p.dtype for p in layer.parameters()} == {torch.float64}


def test_features_need_not_be_contiguous(path):
    layer = layer_for("i, (i j) -> i, (i j)")
    x = {key: v.requires_grad_() for key, v in features_for(layer.map, path).items()}
    strided = {key: v.t().contiguous().t() for key, v in x.items()}
    one, other = layer(x, path), layer(strided, path)
    assert all(torch.equal(one[key], other[key]) for key in one)
    (one["i"].expand(2, 5, 2).sum() + other["(i j)"].t().sum()).backward()
    assert x["i"].grad.isfinite().all()


# ---- calibration


def terms(
    layer: Linear, x: dict[str, Tensor], structure: Structure
) -> list[tuple[tuple[str, int], float]]:
    """For every operation the place of its weight, and the root mean square of its term on the
    entries of its output orbit.
    """
    m, found = layer.map, []
    rows: dict[str, int] = {}
    for k, o in enumerate(m.operations):
        name = (
            "weight"
            if len(m.inputs) == len(m.outputs) == 1
            else f"weight_{o.source.tensor}_{o.target.tensor}"
        )
        term = layer.operator(k, structure).to_dense() @ list(x.values())[o.source.tensor]
        at = orbit_rows(structure, m.outputs[o.target.tensor])[o.target.number]
        found.append(
            ((name, rows.get(name, 0)), float(term[at].square().mean().sqrt()) if len(at) else 0.0)
        )
        rows[name] = rows.get(name, 0) + 1
    return found


@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_calibrating_gives_every_term_unit_scale(text, max_overlap):
    layer = layer_for(text, max_overlap)
    structure = collate([structure_for(layer.map, n, seed=n) for n in (4, 5)])
    x = features_for(layer.map, structure)
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    assert layer.calibrate(x, structure) is layer
    after = dict(layer.named_parameters())
    for (name, row), scale in terms(layer, x, structure):
        # the weight that is left is the one that was drawn, for a term of unit scale
        torch.testing.assert_close(after[name][row] * (scale or 1.0), before[name][row])
    assert all(torch.equal(after[name], before[name]) for name in before if name.startswith("bias"))


def test_calibrating_scales_every_aggregation_on_its_own():
    layer = layer_for("{i j} -> ", 1, EVERY)
    structure = Structure(4, {"{i j}": torch.tensor([[0, 0, 0, 1], [1, 2, 3, 2]])})
    x = torch.tensor([[1.0, 2.0], [-3.0, 4.0], [5.0, -6.0], [0.0, 1.0]], dtype=torch.float64)
    before = layer.weight.detach().clone()
    layer.calibrate(x, structure)
    pooled = [x.sum(0), x.mean(0), x.amax(0), x.amin(0), x.std(0, correction=0)]
    for a, value in enumerate(pooled):
        torch.testing.assert_close(layer.weight[a] * value.square().mean().sqrt(), before[a])


def test_calibrating_divides_every_weight_by_the_root_mean_square_of_its_operator_on_the_features(
    path,
):
    layer = layer_for("(i j) -> (i j)")
    x = features_for(layer.map, path)
    x = next(iter(x.values())) if isinstance(x, dict) else x
    before = layer.weight.detach().clone()
    layer.calibrate(x, path)
    for k in range(layer.map.dimension):
        size = (layer.operator(k, path).to_dense() @ x).square().mean().sqrt()
        torch.testing.assert_close(
            layer.weight[k].detach(), before[k] / size if size > 0 else before[k]
        )


def test_calibrating_leaves_terms_that_are_zero_alone():
    layer = layer_for("i, {i j} -> i")
    structure = Structure(3, {"{i j}": torch.zeros(2, 0, dtype=torch.long)})
    before = layer.weight_1_0.detach().clone()
    layer.calibrate(
        {
            "i": torch.randn(3, 2, dtype=torch.float64),
            "{i j}": torch.zeros(0, 2, dtype=torch.float64),
        },
        structure,
    )
    assert torch.equal(layer.weight_1_0, before)
    assert layer.weight_0_0.isfinite().all()


def test_calibrating_a_lazy_layer_gives_it_its_channels():
    layer = Linear("i -> i", -1, 2).calibrate(torch.randn(3, 4), Structure(3))
    assert layer.weight.shape == (2, 4, 2)


def test_a_calibrated_layer_keeps_its_scale_on_large_sums():
    torch.manual_seed(0)
    layer = Linear("i -> i", 16, 16)
    x, structure = torch.rand(10_000, 16), Structure(10_000)
    assert float(layer(x, structure).detach().square().mean().sqrt()) > 100
    assert float(layer.calibrate(x, structure)(x, structure).detach().square().mean().sqrt()) < 3


# ---- looking


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (
            lambda: Linear("i j -> i j", 2, 3),
            "Linear('i j -> i j', 2, 3, aggr='sum', bias=True, operations=15)",
        ),
        (
            lambda: Linear(
                "i, edge={i j} -> i", {"i": 2, "edge": 3}, 4, aggr=["sum", "max"], bias=False
            ),
            (
                "Linear('i, edge={i j} -> i', {'i': 2, 'edge': 3}, 4, aggr=['sum', 'max'],"
                " bias=False, operations=4)"
            ),
        ),
        (
            lambda: Linear("i -> i", -1, 3),
            "Linear('i -> i', -1, 3, aggr='sum', bias=True, operations=2)",
        ),
        (
            lambda: Linear("i -> i", 1, 3, operations=lambda o: any(map(any, o.overlap))),
            "Linear('i -> i', 1, 3, aggr='sum', bias=True, operations=1)",
        ),
    ],
    ids=["plain", "collection", "lazy", "predicate"],
)
def test_a_layer_prints_what_it_is(layer, text):
    assert repr(layer()) == text


def test_the_matrix_of_an_operation_is_a_sparse_tensor_of_outputs_by_inputs(path):
    matrix = Linear("(i j) -> i", 1, 1).operator(2, path)
    assert matrix.is_sparse
    assert matrix.shape == (5, 3)
    assert matrix.dtype == torch.float64
    assert matrix.to_dense().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("number", [True, False, 5, -6, 10**30, 1.0, "0", None], ids=repr)
def test_the_matrix_of_what_is_no_number_of_an_operation_is_refused(path, number):
    with pytest.raises(IncidenceError, match=r"operations are numbered 0 to 4; got"):
        Linear("i, (i j) -> i", 1, 1).operator(number, path)


@pytest.mark.parametrize("number", [-5, -1, 0, 4])
def test_operations_may_be_counted_from_the_end(path, number):
    layer = Linear("i, (i j) -> i", 1, 1)
    assert torch.equal(
        layer.operator(number, path).to_dense(), layer.operator(number % 5, path).to_dense()
    )


def test_layers_of_the_same_map_share_one_plan(path):
    layers = [
        Linear("i, (i j) -> i", 2, 3),
        Linear("x, (a b) -> x", 4, 5, aggr="max"),
        Linear("i, (i j) -> i", 1, 1, bias=False),
    ]
    plans = [layer.plan(path) for layer in layers]
    assert plans[0] is plans[1] is plans[2]
    layers[0]({"i": torch.randn(5, 2), "(i j)": torch.randn(3, 2)}, path)
    assert layers[0].plan(path) is plans[0]


def test_a_plan_prints_its_cost(path):
    shown = str(Linear("i, (i j) -> i, (i j)", 2, 3).plan(path))
    for part in (
        "Plan",
        "i: 5 entries",
        "(i j): 3 entries",
        "reads",
        "bags",
        "keys: 1 of size 0, 5 of size 1",
        "memory: ",
        "MiB",
    ):
        assert part in shown


def test_a_plan_knows_its_memory(path):
    plan = Linear("i, (i j) -> i, (i j)", 2, 3).plan(path)
    assert 100 < plan.num_bytes < 10_000


def test_a_plan_says_what_it_costs():
    # 0 -> 1 and 1 -> 0 are partners
    structure = Structure(4, {"(i j)": torch.tensor([[0, 2, 1, 3], [1, 3, 0, 0]])})
    shown = str(Linear("(i j) -> (i j)", 2, 3).plan(structure))
    assert "(i j): 4 entries" in shown
    assert "12 reads, 9 bags on 2 levels" in shown
    assert "partners: 6 reads" in shown  # every edge itself, and two each other
    assert "keys: 1 of size 0, 4 of size 1" in shown


# ---- copies and files


def clones(layer: Linear) -> list[Linear]:
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    return [
        copy.deepcopy(layer),
        pickle.loads(pickle.dumps(layer)),
        torch.load(file, weights_only=False),
    ]


@pytest.mark.parametrize(
    ("text", "max_overlap"),
    [ALL[k] for k in (1, 16, 18, 23, 31)],
    ids=[IDS[k] for k in (1, 16, 18, 23, 31)],
)
def test_copied_and_pickled_layers_give_the_same_bits(text, max_overlap):
    layer = layer_for(
        text, max_overlap, ["sum", "max"], operations=lambda o: any(map(any, o.overlap))
    )
    structure = structure_for(layer.map, 4)
    x = features_for(layer.map, structure)
    layer.plan(structure)
    expected = outputs(layer(x, structure))
    for clone in clones(layer):
        assert all(
            torch.equal(a, b) for a, b in zip(expected, outputs(clone(x, structure)), strict=True)
        )
        assert all(a is not b for a, b in zip(layer.parameters(), clone.parameters(), strict=True))


@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_a_state_goes_round_and_serves_other_structures(text, max_overlap):
    layer, other = (layer_for(text, max_overlap, channels=(2, 3)) for _ in range(2))
    layer(features_for(layer.map, structure_for(layer.map, 3)), structure_for(layer.map, 3))
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other.reset_parameters()
    other.load_state_dict(torch.load(file, weights_only=True))
    structure = structure_for(layer.map, 5, seed=9)
    x = features_for(layer.map, structure)
    assert all(
        torch.equal(a, b)
        for a, b in zip(outputs(layer(x, structure)), outputs(other(x, structure)), strict=True)
    )


def test_a_state_does_not_depend_on_the_spelling_of_the_map():
    one, other = Linear("{i j} {j k}, i -> (i j)", 2, 3), Linear("{x y} {x z}, a -> (p q)", 2, 3)
    other.load_state_dict(one.state_dict())
    assert list(one.state_dict()) == list(other.state_dict())


def test_a_state_has_a_format_version():
    state = torch.nn.ModuleDict({"layer": Linear("i -> i", 2, 3)}).state_dict()
    assert state._metadata["layer"]["version"] == 1


@pytest.mark.parametrize("strict", [True, False])
def test_a_state_of_a_later_format_is_refused(strict):
    layer = Linear("i -> i", 2, 3)
    state = layer.state_dict()
    state._metadata[""]["version"] = 2
    with pytest.raises(
        RuntimeError, match="the state of `i -> i` has format 2; this version reads up to 1: update"
    ):
        layer.load_state_dict(state, strict=strict)


def test_a_state_of_another_map_is_refused_with_both_shapes():
    with pytest.raises(RuntimeError, match=r"size mismatch for weight"):
        Linear("i j -> i j", 2, 3).load_state_dict(Linear("i -> i", 2, 3).state_dict())


# ---- data loaders


class Graphs(Dataset):
    def __len__(self) -> int:
        return 5

    def __getitem__(self, k: int) -> tuple[Structure, Tensor]:
        structure = Structure(k, {"(i j)": PATH[:, : max(k - 1, 0)] if k < 5 else PATH})
        return structure, torch.full((k, 1), float(k))


def collated(items: list[Any]) -> tuple[Structure, Tensor]:
    structures, xs = zip(*items, strict=True)
    return collate(structures), torch.cat(xs)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_structures_come_through_a_data_loader(num_workers):
    layer = Linear("i -> ", 1, 1, bias=False)
    layer.weight.data.fill_(1.0)
    loader = DataLoader(Graphs(), batch_size=2, num_workers=num_workers, collate_fn=collated)
    batches = list(loader)
    assert [b.num_structures for b, _ in batches] == [2, 2, 1]
    assert [b.num_entries("(i j)") for b, _ in batches] == [0, 3, 3]
    assert torch.cat([layer(x, b) for b, x in batches])[:, 0].tolist() == [0, 1, 4, 9, 16]


@pytest.mark.parametrize("aggr", ["sum", "mean"])
def test_calibration_leaves_alone_what_cancels_but_for_rounding(aggr):
    structure = Structure(60)
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    x = (x - x.mean(0)) / x.std(0)  # sums over the only structure are rounding
    layer = Linear("i -> i", 3, 4, aggr=aggr)
    before = layer.weight.detach().clone()
    layer.calibrate(x, structure)
    torch.testing.assert_close(layer.weight.detach(), before, rtol=0.1, atol=0)
