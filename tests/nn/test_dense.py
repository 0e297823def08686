"""The dense twin: on complete structures the sparse and the dense path agree in values and
gradients.

The two share no code; nor does the dense layout made here, which comes from entries listed one by
one.
"""

from itertools import product
from math import prod

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from incidence.algebra import EquivariantMap, Pattern
from incidence.errors import IncidenceError
from incidence.nn import Linear
from incidence.structure import Structure, collate
from tests.algebra.brute_force import sign
from tests.cases import some
from tests.nn.small_patterns import ALL_KINDS, WITH_SORTS, patterns_of_order
from tests.nn.sparse_maps import EVERY, allowed
from tests.structure.listing import entries_of, entry_of, letters_of, oriented_faces


class Layout:
    """Where the entries of a tensor stand in its dense array: the row of every position, -1 at
    positions that are no assignment; and the sign by which its orientation there differs from the
    reference.
    """

    def __init__(self, pattern: Pattern, structure: Structure) -> None:
        row_of = {entry: row for row, entry in enumerate(entries_of(structure, str(pattern)))}
        self.shape = [structure.counts[sort] for sort in pattern.sorts.values()]
        rows, signs = [], []
        columns = letters_of(structure, str(pattern)) if pattern.faces else []
        for nodes in product(*map(range, self.shape)):
            at = dict(zip(pattern.letters, nodes, strict=True))
            distinct = (face.letters for face in pattern.faces if face.kind.is_distinct)
            is_fine = all(
                len({(x.sort, at[x.name]) for x in letters}) == len(letters) for letters in distinct
            )
            rows.append(row_of[entry_of(pattern, list(nodes))] if is_fine else -1)
            faces = (
                zip(
                    *(oriented_faces(pattern, letters) for letters in (columns[rows[-1]], nodes)),
                    strict=True,
                )
                if is_fine and columns
                else ()
            )
            signs.append(prod(sign([one.index(node) for node in other]) for one, other in faces))
        self.rows, self.signs = (
            torch.tensor(rows).view(self.shape),
            torch.tensor(signs, dtype=torch.float64).view(*self.shape, 1),
        )

    def dense(self, x: Tensor, garbage: float) -> Tensor:
        """[batch, entries, channels] as [batch, *nodes, channels], with garbage where no entry
        stands.
        """
        # row -1 is the garbage
        return (
            torch.cat([x, x.new_full((len(x), 1, x.shape[2]), garbage)], dim=1)[:, self.rows]
            * self.signs
        )


def complete(m: EquivariantMap, num_nodes: int) -> Structure:
    counts = dict.fromkeys(m.sorts or ("node",), num_nodes)
    return Structure.complete(counts, [p for p in dict.fromkeys(m.inputs + m.outputs) if p.faces])


def make_layer(text: str, aggr: str | list[str], channels: tuple[int, int] = (2, 2)) -> Linear:
    torch.manual_seed(0)
    layer = Linear(text, *channels, aggr=allowed(text, aggr), dtype=torch.float64)
    for parameter in layer.parameters():
        parameter.data.normal_()
    return layer


def assert_twins_agree(text: str, aggr: str | list[str], num_nodes: int, batch: int = 1) -> None:
    layer = make_layer(text, aggr)
    m, structure = layer.map, complete(layer.map, num_nodes)
    layouts = [[Layout(p, structure) for p in side] for side in (m.inputs, m.outputs)]
    keys = [[p.name or str(p) for p in side] for side in (m.inputs, m.outputs)]
    xs = [
        torch.randn(batch, structure.num_entries(p), 2, dtype=torch.float64, requires_grad=True)
        for p in m.inputs
    ]
    sparse = layer(
        dict(zip(keys[0], (x.flatten(0, 1) for x in xs), strict=True)), collate([structure] * batch)
    )
    wide = {
        key: layout.dense(x, float("nan"))
        for key, layout, x in zip(keys[0], layouts[0], xs, strict=True)
    }
    dense = layer.dense(wide, dict.fromkeys(m.sorts, num_nodes))
    sparse, dense = (list(y.values()) if isinstance(y, dict) else [y] for y in (sparse, dense))
    expected = [
        layout.dense(y.view(batch, -1, y.shape[1]), 0.0)
        for y, layout in zip(sparse, layouts[1], strict=True)
    ]
    for found, wanted in zip(dense, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)
    pulls = [torch.randn_like(y) for y in dense]
    parameters = [*xs, *layer.parameters()]
    gradients = []
    for ys in (dense, expected):
        loss = sum((y * pull).sum() for y, pull in zip(ys, pulls, strict=True))
        gradients.append(
            torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        )
    for found, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "text", some([p for order in (0, 1, 2) for p in patterns_of_order(order)] + list(WITH_SORTS))
)
def test_twins_agree_for_every_pattern_of_order_up_to_two_as_input_and_as_output(text):
    sort = next(iter(Pattern(text).sorts.values()), "node")
    suffix = "" if sort == "node" else f":{sort}"
    map_ = f"{text} -> {{i{suffix} j{suffix}}}"
    assert_twins_agree(map_ if EquivariantMap(map_).dimension else f"{text} -> (i j k)", EVERY, 3)
    assert_twins_agree(f"i{suffix} j{suffix} -> {text}", ["sum", "max"], 3)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(st.deferred(lambda: st.sampled_from(patterns_of_order(3))))  # there are thousands
def test_twins_agree_for_patterns_of_order_three(text):
    assert_twins_agree(f"{text} -> {{i j}}, (i j k)", ["sum", "max"], 3)
    assert_twins_agree(f"(i j) -> {text}", ["mean", "std"], 3)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(16))
def test_twins_agree_for_every_pattern_of_order_three(part):
    for text in patterns_of_order(3)[part::16]:
        assert_twins_agree(f"{text} -> {{i j}}, (i j k)", ["sum", "max"], 3)
        assert_twins_agree(f"(i j) -> {text}", ["mean", "std"], 3)


@pytest.mark.parametrize("aggr", ["sum", EVERY], ids=["sum", "list"])
@pytest.mark.parametrize(
    "text",
    some(
        p for p in ALL_KINDS if EquivariantMap.between([Pattern(p)], [Pattern(p)]).dimension <= 70
    ),
)
def test_twins_agree_from_every_kind_of_pattern_to_itself(text, aggr):
    assert_twins_agree(f"{text} -> {text}", aggr, 3)


@pytest.mark.parametrize("aggr", EVERY)
@pytest.mark.parametrize(
    "text", ["i j -> i j", "{i j k} -> i {i j}", "[i j] -> (i j)", "i:a j:b -> i:a"]
)
def test_twins_agree_for_every_aggregation_on_its_own(text, aggr):
    assert_twins_agree(text, aggr, 4)


@pytest.mark.parametrize("num_nodes", [1, 2, 4, 5])
@pytest.mark.parametrize(
    "text",
    [
        "i j -> i j",
        "{i j k} -> (i j)",
        "[i j] -> i {i j}",
        "i:a {j:b k:b} -> i:a j:b",
        "i -> ",
        " -> i i",
    ],
)
def test_twins_agree_for_few_and_for_many_nodes(text, num_nodes):
    assert_twins_agree(text, EVERY, num_nodes)


@pytest.mark.parametrize(
    "text",
    [
        "i, {i j} -> i, {i j}",
        "i, (i j), [i j] -> {i j}, ",
        "one=i, two=i -> one=i, other={i j}",
        ", i -> , i",
        "state=, i:a j:b -> state=, i:a",
    ],
)
def test_twins_agree_for_collections_and_batches(text):
    assert_twins_agree(text, "sum", 3, batch=2)
    assert_twins_agree(text, EVERY, 3, batch=2)


def test_no_mask_is_applied_to_plain_letters_and_zeros_stand_where_no_entry_is():
    layer = make_layer("i j -> (i j)", "sum")
    y = layer.dense(torch.randn(1, 3, 3, 2, dtype=torch.float64))
    assert (y.diagonal(dim1=1, dim2=2) == 0).all()
    assert (y[:, ~torch.eye(3, dtype=torch.bool)] != 0).all()


@pytest.mark.parametrize("aggr", [*EVERY, EVERY])
def test_values_where_no_entry_stands_are_ignored(aggr):
    layer = make_layer("{i j} -> i", aggr)
    upper = torch.randn(1, 4, 4, 2, dtype=torch.float64)
    x = upper + upper.transpose(1, 2)
    garbage = x.clone()
    garbage[:, range(4), range(4)] = float("nan")
    assert torch.equal(layer.dense(x), layer.dense(garbage))


def test_one_assignment_of_an_entry_is_as_good_as_another():
    layer = make_layer("{i j} {i k} -> {i j} {i k}", "sum")
    # of 3 nodes: 3 edges, each with itself and with 2 others
    x = torch.randn(9, 2, dtype=torch.float64)
    layout = Layout(layer.map.inputs[0], complete(layer.map, 3))
    wide = layer.dense(layout.dense(x[None], 0.0))
    places = [
        [tuple(place) for place in (layout.rows == row).nonzero().tolist()] for row in range(9)
    ]
    assert {len(p) for p in places} == {1, 2}
    assert all(torch.equal(wide[0][p[0]], wide[0][p[-1]]) for p in places)


@pytest.mark.parametrize(("text", "axes"), [(" -> i", 1), ("i:a -> j:b", 1), (" -> {i j}", 2)])
def test_the_number_of_nodes_is_needed_where_the_inputs_do_not_tell_it(text, axes):
    layer = make_layer(text, "sum")
    x = torch.randn(3, *[2] * len(layer.map.inputs[0].letters), 2, dtype=torch.float64)
    with pytest.raises(
        IncidenceError, match=r"tells the number of nodes of sort `[a-z]+`: give num_nodes"
    ):
        layer.dense(x)
    sorts = dict.fromkeys(layer.map.outputs[0].sorts.values(), 4)
    assert layer.dense(x, sorts).shape == (3, *[4] * axes, 2)


def test_the_scalar_has_no_axes_of_nodes():
    assert make_layer("i j -> ", "sum").dense(
        torch.randn(5, 3, 3, 2, dtype=torch.float64)
    ).shape == (5, 2)


def test_a_lazy_layer_takes_its_channels_from_a_dense_input():
    layer = Linear("i j -> i", -1, 2)
    assert layer.dense(torch.randn(1, 3, 3, 4)).shape == (1, 3, 2)
    assert layer.weight.shape == (5, 4, 2)


def test_the_dense_path_keeps_the_operations_that_were_chosen():
    layer = Linear(
        "i j -> i j",
        2,
        2,
        operations=lambda operation: any(map(any, operation.overlap)),
        dtype=torch.float64,
    )
    x = torch.randn(1, 9, 2, dtype=torch.float64)
    structure = complete(layer.map, 3)
    layout = Layout(layer.map.inputs[0], structure)
    torch.testing.assert_close(
        layer.dense(layout.dense(x, 0.0)), layout.dense(layer(x[0], structure)[None], 0.0)
    )
