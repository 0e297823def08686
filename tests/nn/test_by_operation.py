"""An aggregation for every operation: one layer computes what several layers, each with some of the
operations, give together.
"""

import pickle

import pytest
import torch
from torch import Tensor

import incidence as inc
from incidence.algebra import EquivariantMap, Operation
from incidence.errors import IncidenceError
from incidence.nn import Linear
from incidence.structure import Structure, collate
from tests.cases import some
from tests.nn.sparse_maps import (
    ALL,
    IDS,
    features_for,
    gradients,
    outputs,
    parts_for,
    structure_for,
)

NAMES = ("sum", "mean", "max", "std")


def matched(operation: Operation) -> int:
    return sum(map(sum, operation.overlap))


def by_matched(operation: Operation) -> str:
    is_oriented = any(kind.is_oriented for kind, _ in operation.source.orbit.kinds)
    return NAMES[matched(operation) % (2 if is_oriented else len(NAMES))]


def drawn(layer: Linear) -> Linear:
    torch.manual_seed(0)
    for parameter in layer.parameters():
        parameter.data.normal_()
    return layer


def apart(layer: Linear, x: dict[str, Tensor], structure: Structure) -> list[Tensor]:
    """The same by one layer for every aggregation, with the weights of the first."""
    ys: list[Tensor] = []
    for name in NAMES:
        try:
            options = {"max_overlap": layer.map.max_overlap, "dtype": torch.float64, "bias": not ys}
            part = Linear(
                layer.map,
                2,
                2,
                aggr=name,
                operations=lambda o, name=name: by_matched(o) == name,
                **options,
            )
        except IncidenceError:  # it has no such operation
            continue
        for pair in layer._weight_layout.pairs:
            rows = [
                row for row, o in enumerate(layer.operations_of(*pair)) if by_matched(o) == name
            ]
            part._weights()[part._weight_layout.pairs.index(pair)].data = layer._weights()[
                layer._weight_layout.pairs.index(pair)
            ].data[rows]
        if not ys:
            for bias, own in zip(part._biases(), layer._biases(), strict=True):
                bias.data = own.data
        found = outputs(part(x, structure))
        ys = [y + other for y, other in zip(ys, found, strict=True)] if ys else found
    return ys


@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_one_layer_gives_what_a_layer_for_each_aggregation_gives(text, max_overlap):
    layer = drawn(Linear(text, 2, 2, aggr=by_matched, max_overlap=max_overlap, dtype=torch.float64))
    for structure in (structure_for(layer.map, 5, draws=20), collate(parts_for(layer.map))):
        x = {key: v.requires_grad_() for key, v in features_for(layer.map, structure).items()}
        found, expected = outputs(layer(x, structure)), apart(layer, x, structure)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
        for one, other in zip(
            gradients(found, list(x.values())), gradients(expected, list(x.values())), strict=True
        ):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("text", ["i j -> i j", "i, {i j} -> i, {i j}", "(i j) -> {i j}"])
def test_the_dense_layer_has_the_same_aggregations(text):
    layer = drawn(Linear(text, 2, 2, aggr=by_matched, dtype=torch.float64))
    structure = Structure.complete(
        4, [str(p) for p in layer.map.inputs + layer.map.outputs if len(p.letters) > 1]
    )
    x = features_for(layer.map, structure)
    dense = {
        p: torch.zeros(1, *[4] * len(p.letters), 2, dtype=torch.float64) for p in layer.map.inputs
    }
    for p, array in dense.items():
        for row, nodes in enumerate(structure[str(p)].T.tolist()):
            for placed in (
                {tuple(nodes), tuple(reversed(nodes))} if "{" in str(p) else {tuple(nodes)}
            ):
                array[(0, *placed)] = x[str(p)][row]
    found, expected = (
        layer.dense({str(p): array for p, array in dense.items()}),
        outputs(layer(x, structure)),
    )
    for q, one, other in zip(layer.map.outputs, outputs(found), expected, strict=True):
        torch.testing.assert_close(one[(0, *structure[str(q)].unbind())], other)


def test_an_operation_may_have_several_aggregations_each_with_a_row_of_the_weight():
    layer = Linear(
        "i -> i", 1, 1, aggr=lambda o: "sum" if matched(o) else ["mean", "max"], bias=False
    )
    assert layer.weight.shape == (3, 1, 1)
    assert [matched(o) for o in layer.operations_of()] == [0, 0, 1]
    layer.weight.data = torch.tensor([1.0, 10.0, 100.0]).view(3, 1, 1)
    y = layer(torch.tensor([[1.0], [3.0]]), Structure(2))
    assert y.flatten().tolist() == [2 + 10 * 3 + 100 * 1, 2 + 10 * 3 + 100 * 3]


def test_a_dict_names_the_aggregation_of_some_operations_by_number_and_the_others_are_sums():
    one = Linear("(i j) -> i", 2, 2, aggr={0: "mean"})
    other = Linear("(i j) -> i", 2, 2, aggr=lambda o: "sum" if matched(o) else "mean")
    other.load_state_dict(one.state_dict())
    structure, x = Structure(3, {"(i j)": [[0, 1, 1], [1, 2, 0]]}), torch.randn(3, 2)
    assert torch.equal(one(x, structure), other(x, structure))
    assert one.aggr == ("mean", "sum")
    assert "aggr='mean or sum'" in repr(one)
    assert "mean, sum" in str(inc.explain(one))


def test_layers_that_share_a_structure_do_not_share_their_aggregations():
    structure, x = Structure(3), torch.tensor([[1.0], [2.0], [6.0]])
    layers = [Linear("i -> i", 1, 1, aggr={0: name}, bias=False) for name in ("sum", "mean", "max")]
    for layer in layers:
        layer.weight.data = torch.tensor([1.0, 0.0]).view(2, 1, 1)
    assert [layer(x, structure)[0].item() for layer in layers] == [9.0, 3.0, 6.0]


def test_such_a_layer_is_equivariant_calibrates_and_is_pickled():
    layer = drawn(Linear("i, (i j) -> i, (i j)", 2, 2, aggr=by_matched, dtype=torch.float64))
    structure = structure_for(layer.map, 6, draws=20)
    x = features_for(layer.map, structure)
    layer.calibrate(x, structure)
    inc.testing.assert_equivariant(layer, x, structure)
    again = pickle.loads(pickle.dumps(layer))
    for one, other in zip(outputs(again(x, structure)), outputs(layer(x, structure)), strict=True):
        assert torch.equal(one, other)


def test_such_a_layer_is_traced():
    torch._dynamo.reset()
    layer = drawn(Linear("i, (i j) -> i, (i j)", 2, 2, aggr=by_matched, dtype=torch.float64))
    structure = structure_for(layer.map, 6, draws=20)
    x = features_for(layer.map, structure)
    layer.plan(structure)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for one, other in zip(
        outputs(compiled(x, structure)), outputs(layer(x, structure)), strict=True
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("aggr", "sentence"),
    [
        ({7: "mean"}, r"aggr= maps numbers of operations, 0 to 1, to aggregations; got 7"),
        ({"0": "mean"}, r"got '0'"),
        ({0: "median"}, r"no aggregation 'median'"),
        (lambda o: None, r"aggr is one of sum, mean, max, min, std.*got None"),
        (lambda o: "median", r"no aggregation 'median'"),
        (lambda o: ["sum", "sum"], r"a list of different ones"),
    ],
    ids=[
        "a number that is none",
        "a text",
        "a name in a dict",
        "nothing",
        "a name",
        "twice the same",
    ],
)
def test_what_is_no_aggregation_of_an_operation_is_refused(aggr, sentence):
    with pytest.raises(IncidenceError, match=sentence):
        Linear(EquivariantMap("i -> i"), 1, 1, aggr=aggr)


def test_weights_are_carried_between_groups_only_if_all_operations_are_sums():
    layer = Linear("i -> i", 1, 1, aggr={0: "mean"})
    with pytest.raises(IncidenceError, match="that take sums"):
        layer.restrict_to("symmetric")
