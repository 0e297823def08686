"""Aggregations: all forms of one agree with its `reduce`, and one more is one class."""

import pickle

import pytest
import torch
from torch import Tensor

import incidence as inc
from incidence.engine.aggregate import AGGREGATIONS, Aggregation
from incidence.engine.plan import plan_of
from incidence.errors import IncidenceError
from incidence.nn import Linear, Readout, register_aggregation
from incidence.structure import Structure, collate
from tests.nn.sparse_maps import EVERY

GRAPH = Structure(5, {"(i j)": [[0, 1, 1, 2, 0, 3], [1, 0, 2, 3, 3, 0]]})


def test_the_battery_has_every_aggregation_and_one_of_a_users_own():
    assert {"sum", "mean", "max", "min", "std", "range"} <= set(EVERY)
    assert type(AGGREGATIONS["range"]).__module__.startswith("tests.")


class ByReduce(Aggregation):
    """An aggregation that has nothing but the `reduce` of another one."""

    def __init__(self, other: Aggregation) -> None:
        self.reduce = other.reduce


@pytest.mark.parametrize("name", EVERY)
def test_the_own_ways_of_an_aggregation_give_what_reduce_alone_gives(name):
    """Pooling and its adjoint as the class has them, and as they follow from `reduce`; where
    entries are equal, too.
    """
    own = AGGREGATIONS[name]
    by_reduce = ByReduce(own)
    [stack] = plan_of(GRAPH, inc.EquivariantMap("(i j) -> i")).inputs
    for x in (torch.randn(6, 3, dtype=torch.float64), torch.randint(0, 2, (6, 3)).double()):
        ours, plain = own.pool(x, stack), by_reduce.pool(x, stack)
        torch.testing.assert_close(ours[0], plain[0])
        grad = torch.randn(stack.num_bags, 3, dtype=torch.float64)
        found, expected = torch.zeros_like(x), torch.zeros_like(x)
        own.add_adjoint(found, grad, x, ours, stack)
        if name != "std":  # torch has no gradient for the root of 0
            by_reduce.add_adjoint(expected, grad, x, plain, stack)
            torch.testing.assert_close(found, expected)
        assert found.isfinite().all()
        more = torch.full_like(x, 2)
        own.add_adjoint(more, grad, x, ours, stack)
        torch.testing.assert_close(more, found + 2)  # it is added to what is there


@pytest.mark.parametrize(
    ("name", "keeps"),
    [("sum", True), ("mean", True), ("max", True), ("min", True), ("std", False), ("range", False)],
)
def test_it_is_found_out_whether_a_bag_of_one_entry_gives_that_entry(name, keeps):
    assert AGGREGATIONS[name].keeps_entry is keeps


class Product(Aggregation):
    def reduce(self, entries: Tensor) -> Tensor:
        return entries.prod(1)


class Square(Aggregation):
    def reduce(self, entries: Tensor) -> Tensor:
        return entries.square().sum(1)


class First(Aggregation):
    def reduce(self, entries: Tensor) -> Tensor:
        return entries[:, 0]


class Narrow(Aggregation):
    def reduce(self, entries: Tensor) -> Tensor:
        return entries.sum(1).float()


class Whole(Aggregation):
    def reduce(self, entries: Tensor) -> Tensor:
        return entries.sum(1) - entries.mean((0, 1)) + entries.mean(1)


class Flat(Aggregation):
    def reduce(self, entries: Tensor) -> Tensor:
        return entries.sum((0, 1))


@pytest.fixture
def product():
    register_aggregation("product", Product())
    yield "product"
    del AGGREGATIONS["product"]


def test_a_statistic_that_counts_every_entry_once_agrees_with_its_dense_form(product):
    """Range, max and std do not notice entries that stand twice, a product does; and in the dense
    layout a set stands in all orders.
    """
    layer = Linear("{i j k} -> i, {i j}", 2, 2, aggr=product, dtype=torch.float64)
    structure = Structure.complete(4, ["{i j k}", "{i j}"])
    x = torch.randn(4, 2, dtype=torch.float64)
    dense = torch.full((1, 4, 4, 4, 2), float("nan"), dtype=torch.float64)
    for row, (i, j, k) in enumerate(structure["{i j k}"].T.tolist()):
        for a, b, c in ((i, j, k), (i, k, j), (j, i, k), (j, k, i), (k, i, j), (k, j, i)):
            dense[0, a, b, c] = x[row]
    sparse, found = layer(x, structure), layer.dense(dense)
    torch.testing.assert_close(found["i"][0], sparse["i"])
    i, j = structure["{i j}"]
    torch.testing.assert_close(found["{i j}"][0, i, j], sparse["{i j}"])


def test_registering_again_replaces_as_when_a_notebook_is_run_again(product):
    structure, x = Structure(2), torch.tensor([[2.0], [3.0]])

    def run() -> list[float]:
        layer = Linear("i -> i", 1, 1, aggr=product, bias=False)
        layer.weight.data.fill_(1.0)
        return layer(x, structure)[:, 0].tolist()

    assert run() == [8.0, 9.0]
    before, readout = Linear("i -> i", 1, 1, aggr=product, bias=False), Readout("i", product)
    before.weight.data.fill_(1.0)
    register_aggregation(
        product,
        type("Largest", (Aggregation,), {"reduce": lambda self, entries: entries.amax(1)})(),
    )
    assert run() == [5.0, 6.0]  # on the same structure, which has kept what the first layer made
    # a layer that was made before keeps what it was made with
    for known in (structure, Structure(2)):
        assert before(x, known)[:, 0].tolist() == [8.0, 9.0]
    assert readout(x, structure).item() == 6.0


def test_a_layer_takes_its_aggregation_along(product):
    layer = pickle.loads(pickle.dumps(Linear("i -> ", 1, 1, aggr=product)))
    layer.weight.data.fill_(1.0)
    assert layer(torch.tensor([[2.0], [3.0]]), Structure(2)).item() == 6.0


def test_a_registered_aggregation_works_in_batches_and_readouts(product):
    batch = collate([Structure(2), Structure(0), Structure(1)])
    assert Readout("i", product)(torch.tensor([[2.0], [3.0], [5.0]]), batch).tolist() == [
        [6.0],
        [0.0],
        [5.0],
    ]


REFUSED = {
    "a name of the library": (
        lambda: register_aggregation("sum", Product()),
        "'sum' comes with the library",
    ),
    "no identifier": (lambda: register_aggregation("my sum", Product()), "is an identifier"),
    "no text": (lambda: register_aggregation(3, Product()), "is an identifier"),
    "a class": (
        lambda: register_aggregation("other", Product),
        "an instance of a subclass of inc.nn.Aggregation",
    ),
    "a function": (
        lambda: register_aggregation("other", torch.sum),
        "an instance of a subclass of inc.nn.Aggregation",
    ),
    "no reduce": (lambda: register_aggregation("other", Aggregation()), "must define reduce"),
    "another shape": (
        lambda: register_aggregation("other", Flat()),
        r"of \[1, 1, 2\] it must make \[1, 2\] of torch.float64, and made \[2\]",
    ),
    "another type": (
        lambda: register_aggregation("other", Narrow()),
        r"and made \[1, 2\] of torch.float32",
    ),
    "all bags at once": (
        lambda: register_aggregation("other", Whole()),
        "every bag is reduced on its own; 'other' makes one of all",
    ),
    "no entry of a single one": (
        lambda: register_aggregation("other", Square()),
        r"makes \[\[9.0, 4.0\]\] of \[\[3.0, -2.0\]\]",
    ),
    "an order of entries": (
        lambda: register_aggregation("other", First()),
        "'other' depends on the order of the entries",
    ),
    "not registered": (
        lambda: Linear("i -> i", 1, 1, aggr="other"),
        r"no aggregation 'other'; there are: sum, mean, max, min, std, .*range",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_aggregation_is_refused_and_leaves_nothing_behind(call, message):
    with pytest.raises(IncidenceError, match=message):
        call()
    assert "other" not in AGGREGATIONS
