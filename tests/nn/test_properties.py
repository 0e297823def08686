"""What must hold of every layer on every structure."""

import subprocess
import sys
from math import comb
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import incidence as inc
from incidence.algebra import EquivariantMap, Pattern
from incidence.nn import Linear
from incidence.structure import Structure, collate
from incidence.testing.rewriting import reoriented, rewritten
from tests.cases import some
from tests.nn.definition import STATISTICS
from tests.nn.sparse_maps import (
    ALL,
    EVERY,
    FIXED,
    IDS,
    features_for,
    gradients,
    layer_for,
    outputs,
    structure_for,
)
from tests.structure.listing import assignment_of, entries_of, orientation_signs

maps = st.sampled_from(ALL)
aggregations = st.sampled_from(EVERY)
seeds = st.integers(0, 10**6)
numbers_of_nodes = st.integers(0, 6)
modest = settings(deadline=None, max_examples=50, derandomize=True)


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def is_implicit(pattern: Pattern, structure: Structure) -> bool:
    return bool(pattern.faces) and pattern not in structure.patterns


# ---- relabelling, by hand: nodes are renamed in the index, and a new structure is made of it


def renamed(structure: Structure, labels: dict[str, Tensor]) -> Structure:
    index: dict[str, Any] = {}
    for p in structure.patterns:
        letters, *members = structure.index(p)
        rows = [labels[p.sorts[name]][letters[row]] for row, name in enumerate(p.fixed_letters)]
        sorts = [face.letters[0].sort for face in p.faces if face.is_open]
        moved = [
            torch.stack([labels[sort][m[0]], m[1]]) for sort, m in zip(sorts, members, strict=True)
        ]
        index[str(p)] = (
            torch.stack(rows) if not moved else (torch.stack(rows) if rows else letters, *moved)
        )
    return Structure(structure.counts, index)


def shuffled_labels(structure: Structure, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {sort: torch.randperm(n, generator=generator) for sort, n in structure.counts.items()}


def carried(
    values: list[Tensor],
    patterns: tuple[Pattern, ...],
    structure: Structure,
    labels: dict[str, Tensor],
) -> list[Tensor]:
    """Features after renaming: entries keep their rows, but the implicit entries of lone nodes move
    with their nodes.
    """
    out = []
    for value, p in zip(values, patterns, strict=True):
        moved = value.clone()
        if is_implicit(p, structure):
            moved[labels[next(iter(p.sorts.values()))]] = value
        out.append(moved)
    return out


@modest
@given(maps, aggregations, numbers_of_nodes, seeds)
def test_renaming_the_nodes_renames_the_output(chosen, aggr, num_nodes, seed):
    layer = layer_for(*chosen, aggr)
    structure = structure_for(layer.map, num_nodes, seed)
    labels = shuffled_labels(structure, seed)
    x = features_for(layer.map, structure, seed)
    before = outputs(layer(x, structure))
    moved = dict(
        zip(x, carried(list(x.values()), layer.map.inputs, structure, labels), strict=True)
    )
    after = outputs(layer(moved, renamed(structure, labels)))
    for one, other in zip(
        carried(before, layer.map.outputs, structure, labels), after, strict=True
    ):
        close(one, other)


@modest
@given(maps, st.sampled_from([*EVERY, "max", "min"]), numbers_of_nodes, seeds)
def test_gradients_are_renamed_too_even_at_ties(chosen, aggr, num_nodes, seed):
    layer = layer_for(*chosen, aggr)
    structure = structure_for(layer.map, num_nodes, seed)
    labels = shuffled_labels(structure, seed)
    x = {
        key: v.requires_grad_()
        for key, v in features_for(layer.map, structure, seed, is_whole=True).items()
    }
    pulls = [torch.randn_like(y) for y in outputs(layer(x, structure))]
    before = pulled(layer, x, structure, pulls)
    moved = dict(
        zip(
            x,
            carried([v.detach() for v in x.values()], layer.map.inputs, structure, labels),
            strict=True,
        )
    )
    moved = {key: v.requires_grad_() for key, v in moved.items()}
    after = pulled(
        layer,
        moved,
        renamed(structure, labels),
        carried(pulls, layer.map.outputs, structure, labels),
    )
    of_x, of_parameters = before[: len(x)], before[len(x) :]
    for one, other in zip(
        [*carried(of_x, layer.map.inputs, structure, labels), *of_parameters], after, strict=True
    ):
        close(one, other)


def pulled(
    layer: Linear, x: dict[str, Tensor], structure: Structure, pulls: list[Tensor]
) -> list[Tensor]:
    loss = sum(
        (y * pull).sum() for y, pull in zip(outputs(layer(x, structure)), pulls, strict=True)
    )
    return list(
        torch.autograd.grad(
            loss, [*x.values(), *layer.parameters()], allow_unused=True, materialize_grads=True
        )
    )


@pytest.mark.parametrize("aggr", ["sum", EVERY], ids=["sum", "list"])
@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_assert_equivariant_agrees(text, max_overlap, aggr):
    layer = layer_for(text, max_overlap, aggr)
    structure = collate([structure_for(layer.map, n, seed=n) for n in (4, 0, 5)])
    inc.testing.assert_equivariant(
        layer, features_for(layer.map, structure), structure, rtol=1e-9, atol=1e-9
    )


# ---- orientations


ORIENTED = [(text, k) for text, k in ALL if "<" in text]


def signs_of(structure: Structure, patterns: tuple[Pattern, ...]) -> list[Tensor]:
    return [
        torch.tensor(orientation_signs(structure, str(p)), dtype=torch.float64).view(-1, 1)
        for p in patterns
    ]


@modest
@given(st.sampled_from(ORIENTED), st.sampled_from(["sum", "mean"]), numbers_of_nodes, seeds)
def test_entries_told_in_another_orientation_have_values_of_that_sign(
    chosen, aggr, num_nodes, seed
):
    layer = layer_for(*chosen, aggr)
    m, structure = layer.map, structure_for(layer.map, num_nodes, seed)
    turned, _ = reoriented(
        rewritten(structure, generator := torch.Generator().manual_seed(seed)), generator
    )
    flips = [
        [
            one * other
            for one, other in zip(signs_of(structure, side), signs_of(turned, side), strict=True)
        ]
        for side in (m.inputs, m.outputs)
    ]
    x = features_for(m, structure, seed)
    given = {key: flip * v for (key, v), flip in zip(x.items(), flips[0], strict=True)}
    for one, other, flip in zip(
        outputs(layer(x, structure)), outputs(layer(given, turned)), flips[1], strict=True
    ):
        close(flip * one, other)


@pytest.mark.parametrize(("text", "max_overlap"), ORIENTED)
def test_reversing_any_entry_reverses_its_value_and_nothing_else(text, max_overlap):
    layer = layer_for(text, max_overlap)
    m, structure = layer.map, structure_for(layer.map, 5, draws=5)
    x = features_for(m, structure)
    before = outputs(layer(x, structure))
    for p in (p for p in structure.patterns if p.odd_pair):
        for row in range(structure.num_entries(p)):
            turned, signs = structure.reverse(p, [row])
            flip = {q: signs[:, None] if q == p else 1 for q in m.inputs + m.outputs}
            after = outputs(
                layer(
                    {key: flip[q] * v for q, (key, v) in zip(m.inputs, x.items(), strict=True)},
                    turned,
                )
            )
            for q, one, other in zip(m.outputs, before, after, strict=True):
                close(flip[q] * one, other)


# ---- how entries are told


@modest
@given(maps, aggregations, numbers_of_nodes, seeds)
def test_the_order_of_entries_is_immaterial(chosen, aggr, num_nodes, seed):
    layer = layer_for(*chosen, aggr)
    structure = structure_for(layer.map, num_nodes, seed)
    generator = torch.Generator().manual_seed(seed)
    index, orders = {}, {}
    for p in structure.patterns:
        order = torch.randperm(structure.num_entries(p), generator=generator)
        letters, *members = structure.index(p)
        moved = [torch.stack([m[0], order.argsort()[m[1]]]) for m in members]
        index[str(p)] = (
            (letters[:, order] if p.fixed_letters else letters, *moved)
            if moved
            else letters[:, order]
        )
        orders[p] = order
    x = features_for(layer.map, structure, seed)
    before = outputs(layer(x, structure))
    after = outputs(layer(taken(x, layer.map.inputs, orders), Structure(structure.counts, index)))
    for one, other in zip(
        taken(dict(enumerate(before)), layer.map.outputs, orders).values(), after, strict=True
    ):
        close(one, other)


def taken(
    x: dict[Any, Tensor], patterns: tuple[Pattern, ...], orders: dict[Pattern, Tensor]
) -> dict[Any, Tensor]:
    return {
        key: v[orders[p]] if p in orders else v
        for (key, v), p in zip(x.items(), patterns, strict=True)
    }


@modest
@given(st.sampled_from(FIXED), st.sampled_from(["sum", "max"]), st.integers(1, 6), seeds)
def test_any_assignment_of_an_entry_is_as_good_as_another(text, aggr, num_nodes, seed):
    layer = layer_for(text, 1, aggr)
    structure = structure_for(layer.map, num_nodes, seed)  # told by random assignments
    index = {}
    for p in structure.patterns:
        # the first of each
        columns = [assignment_of(entry, p) for entry in entries_of(structure, str(p))]
        index[str(p)] = torch.tensor(columns, dtype=torch.long).view(-1, len(p.letters)).T
    x = features_for(layer.map, structure, seed)
    for one, other in zip(
        outputs(layer(x, structure)),
        outputs(layer(x, Structure(structure.counts, index))),
        strict=True,
    ):
        assert torch.equal(one, other)


# ---- batches


def batch_of(
    layer: Linear, sizes: tuple[int, ...], seed: int, is_whole: bool = False
) -> tuple[list[Structure], list[dict[str, Tensor]]]:
    parts = [structure_for(layer.map, n, seed + number) for number, n in enumerate(sizes)]
    return parts, [
        features_for(layer.map, s, seed + number, is_whole=is_whole)
        for number, s in enumerate(parts)
    ]


def joined(xs: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {key: torch.cat([x[key] for x in xs]) for key in xs[0]}


@modest
@given(maps, aggregations, st.lists(numbers_of_nodes, min_size=1, max_size=4), seeds)
def test_batching_equals_looping_to_rounding(chosen, aggr, sizes, seed):
    """To rounding, and not bit for bit: a batch adds the entries of a structure in another order
    than a structure on its own.
    """
    layer = layer_for(*chosen, aggr)
    parts, xs = batch_of(layer, tuple(sizes), seed)
    together = outputs(layer(joined(xs), collate(parts)))
    apart = [outputs(layer(x, s)) for x, s in zip(xs, parts, strict=True)]
    for one, others in zip(together, zip(*apart, strict=True), strict=True):
        close(one, torch.cat(others))


@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_batching_equals_looping_bit_for_bit_where_nothing_is_rounded(text, max_overlap):
    layer = layer_for(text, max_overlap, ["sum", "max", "min"])
    for parameter in layer.parameters():
        parameter.data.round_()
    parts, xs = batch_of(layer, (3, 0, 1, 5), seed=0, is_whole=True)
    together = outputs(layer(joined(xs), collate(parts)))
    apart = [outputs(layer(x, s)) for x, s in zip(xs, parts, strict=True)]
    assert all(
        torch.equal(one, torch.cat(others))
        for one, others in zip(together, zip(*apart, strict=True), strict=True)
    )


@pytest.mark.parametrize("poison", [float("nan"), float("inf")], ids=["nan", "inf"])
@pytest.mark.parametrize("aggr", EVERY)
@pytest.mark.parametrize(
    "text",
    ["i, (i j) -> i, (i j), ", "{i j k} -> {i j}", "i:a j:b, -> i:a, ", "{i ...} -> {i ...}, i"],
)
def test_no_operation_reads_a_value_from_another_structure(text, aggr, poison):
    layer = layer_for(text, 1, aggr)
    parts, xs = batch_of(layer, (4, 3, 5), seed=0)
    for value in xs[1].values():
        value.fill_(poison)
    batch = collate(parts)
    x = {key: v.requires_grad_() for key, v in joined(xs).items()}
    clean = {key: v.detach().nan_to_num(0.0, 0.0, 0.0).requires_grad_() for key, v in x.items()}
    found, expected = outputs(layer(x, batch)), outputs(layer(clean, batch))
    for p, y, other in zip(layer.map.outputs, found, expected, strict=True):
        outside = batch.batch(p) != 1
        assert torch.equal(y[outside], other[outside])
    pairs = zip(
        layer.map.inputs,
        gradients(found, list(x.values())),
        gradients(expected, list(clean.values())),
        strict=True,
    )
    for p, y, other in pairs:
        outside = batch.batch(p) != 1
        assert torch.equal(y[outside], other[outside])


@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_structures_without_entries_change_nothing_in_a_batch(text, max_overlap):
    layer = layer_for(text, max_overlap, EVERY)
    parts, xs = batch_of(layer, (4, 3), seed=0)
    bare = structure_for(layer.map, 2, draws=0)
    none = features_for(layer.map, bare)
    with_bare = outputs(layer(joined([xs[0], none, xs[1]]), collate([parts[0], bare, parts[1]])))
    without = outputs(layer(joined(xs), collate(parts)))
    numbers = [collate([parts[0], bare, parts[1]]).batch(p) != 1 for p in layer.map.outputs]
    for one, other, kept in zip(with_bare, without, numbers, strict=True):
        close(one[kept], other)


# ---- small structures


@pytest.mark.parametrize("num_nodes", [0, 1])
@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_empty_and_one_node_structures_have_their_rows_and_gradients(text, max_overlap, num_nodes):
    layer = layer_for(text, max_overlap, EVERY)
    structure = structure_for(layer.map, num_nodes)
    x = {key: v.requires_grad_() for key, v in features_for(layer.map, structure).items()}
    ys = outputs(layer(x, structure))
    assert [tuple(y.shape) for y in ys] == [
        (structure.num_entries(p), 2) for p in layer.map.outputs
    ]
    assert all(g.isfinite().all() for g in gradients(ys, [*x.values(), *layer.parameters()]))


@pytest.mark.parametrize("aggr", EVERY)
def test_an_isolated_node_gets_the_global_term_and_the_bias_only(aggr):
    layer = layer_for("{i j} -> i", 1, aggr)
    x = torch.randn(2, 2, dtype=torch.float64)
    structure = Structure(5, {"{i j}": torch.tensor([[0, 1], [1, 2]])})
    pooled = STATISTICS[aggr](x)
    close(layer(x, structure)[3], pooled @ layer.weight[0] + layer.bias[0])
    close(layer(x, structure)[3], layer(x, structure)[4])


@pytest.mark.parametrize("aggr", [*EVERY, EVERY], ids=[*EVERY, "list"])
def test_a_key_that_no_entry_contains_reads_zero(aggr):
    layer = Linear(
        "{i j} -> i, {i j k}",
        1,
        1,
        aggr=aggr,
        bias=False,
        operations=lambda o: any(map(any, o.overlap)),
    )
    structure = Structure(
        7, {"{i j}": torch.tensor([[0], [1]]), "{i j k}": torch.tensor([[4, 0], [5, 2], [6, 3]])}
    )
    y = layer(torch.full((1, 1), -3.0), structure)
    assert (y["i"][2:] == 0).all()
    assert (y["{i j k}"][0] == 0).all()


@pytest.mark.parametrize("text", ["i -> i", "{i j} -> i", "i j -> i j", "{i j} -> "])
def test_the_spread_of_one_entry_is_zero_with_gradient_zero(text):
    layer = layer_for(text, 1, "std", bias=False)
    [p] = layer.map.inputs
    nodes = torch.tensor([[0], [1]])[: len(p.letters)]
    structure = Structure(
        len(p.letters), {str(p): nodes, **({"i": torch.tensor([[0]])} if text == "i -> i" else {})}
    )
    x = torch.randn(1, 2, dtype=torch.float64, requires_grad=True)
    y = layer(x, structure)
    y.sum().backward()
    assert (y == 0).all()
    assert (x.grad == 0).all()


def test_the_spread_of_equal_entries_is_zero_with_gradient_zero():
    layer = layer_for("i -> i", 1, "std", bias=False)
    x = torch.full((4, 2), 1 / 3, dtype=torch.float64, requires_grad=True)
    layer(x, Structure(4)).sum().backward()
    assert (x.grad == 0).all()


# ---- linearity


@modest
@given(maps, st.sampled_from(["sum", "mean", ["sum", "mean"]]), numbers_of_nodes, seeds)
def test_sums_and_means_are_linear_in_the_features(chosen, aggr, num_nodes, seed):
    layer = layer_for(*chosen, aggr, bias=False)
    structure = structure_for(layer.map, num_nodes, seed)
    x, z = (features_for(layer.map, structure, seed + k) for k in (0, 1))
    mixed = outputs(layer({key: 2 * x[key] - 3 * z[key] for key in x}, structure))
    for y, of_x, of_z in zip(
        mixed, outputs(layer(x, structure)), outputs(layer(z, structure)), strict=True
    ):
        close(y, 2 * of_x - 3 * of_z)


@pytest.mark.parametrize("aggr", [*EVERY, EVERY], ids=[*EVERY, "list"])
def test_a_layer_is_linear_in_its_parameters(aggr):
    layers = [layer_for("i, {i j} -> i, {i j}", 1, aggr) for _ in range(3)]
    for one, two, three in zip(*(layer.parameters() for layer in layers), strict=True):
        two.data.normal_()
        three.data.copy_(2 * one.data - 3 * two.data)
    structure = structure_for(layers[0].map, 4)
    ys = [outputs(layer(features_for(layer.map, structure), structure)) for layer in layers]
    for one, two, three in zip(*ys, strict=True):
        close(three, 2 * one - 3 * two)


@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_the_sum_layer_is_the_weighted_sum_of_its_operator_matrices(text, max_overlap):
    layer = layer_for(text, max_overlap, bias=False)
    m, structure = layer.map, collate([structure_for(layer.map, n, seed=n) for n in (4, 2)])
    x = features_for(m, structure)
    expected = [torch.zeros(structure.num_entries(p), 2, dtype=torch.float64) for p in m.outputs]
    rows = dict.fromkeys(((s, t) for s in range(len(m.inputs)) for t in range(len(m.outputs))), 0)
    parameters = dict(layer.named_parameters())
    for k, operation in enumerate(m.operations):
        s, t = operation.source.tensor, operation.target.tensor
        weight = parameters.get("weight", parameters.get(f"weight_{s}_{t}"))[rows[s, t]]
        expected[t] += layer.operator(k, structure).to_dense() @ list(x.values())[s] @ weight
        rows[s, t] += 1
    for one, other in zip(outputs(layer(x, structure)), expected, strict=True):
        close(one, other)


# ---- open faces of one size


def by_classes(m: EquivariantMap, k: int) -> tuple[Any, ...]:
    """An operation told by the signatures of its classes, as open and fixed faces have the same."""
    operation = m.operations[k]
    rows, cols = (
        [(c.sort, c.faces) for c in place.orbit.classes]
        for place in (operation.source, operation.target)
    )
    cells = (
        (rows[i], cols[j], n)
        for i, row in enumerate(operation.overlap)
        for j, n in enumerate(row)
        if n
    )
    return operation.source.tensor, operation.target.tensor, frozenset(cells)


@pytest.mark.parametrize(
    ("opened", "fixed", "size"),
    [
        ("{i ...} -> {i ...}", "{i j} -> {i j}", 2),
        ("{i ...} -> {i ...}", "{i j k} -> {i j k}", 3),
        ("{i ...} -> i, (i j)", "{i j k} -> i, (i j)", 3),
        ("i, {i j} -> {i ...}", "i, {i j} -> {i j k}", 3),
        ("i {i ...} -> i {i ...}", "i {i j k} -> i {i j k}", 3),
        ("i {i ...} -> i", "i {i j} -> i", 2),
        ("{i ...} -> ", "{i j k} -> ", 3),
    ],
)
def test_open_faces_of_one_size_have_the_operators_of_fixed_faces_one_by_one(opened, fixed, size):
    one, other = Linear(opened, 1, 1, max_overlap=2 * size), Linear(fixed, 1, 1)
    structure = structure_for(other.map, 5, seed=2, draws=12)
    index = {str(p): structure[str(p)] for p in structure.patterns}
    for p in (p for m in (one.map,) for p in m.inputs + m.outputs if p.is_open):
        [text] = {
            str(q)
            for q in other.map.inputs + other.map.outputs
            if q.order == p.order and len(q.letters) == size
        }
        entries = entries_of(structure, text)
        members = torch.tensor([(v, k) for k, e in enumerate(entries) for _, v in e[-1]]).T
        index[str(p)] = (structure[text][:1], members) if p.fixed_letters else members
    both = Structure(5, index)
    numbers = {by_classes(one.map, k): k for k in range(len(one.map.operations))}
    for k in range(len(other.map.operations)):
        found = one.operator(numbers.pop(by_classes(other.map, k)), both).to_dense()
        assert torch.equal(found, other.operator(k, both).to_dense())
    for k in numbers.values():  # those that match more nodes than there are
        assert not one.operator(k, both).to_dense().any()


def test_the_operators_of_open_faces_are_binomials_of_the_overlap():
    layer = Linear("{i ...} -> {i ...}", 1, 1, max_overlap=3)
    faces = [{0, 1, 2, 3}, {1, 2, 3}, {4}, {3, 4}]
    structure = Structure(
        5, {"{i ...}": torch.tensor([(v, k) for k, face in enumerate(faces) for v in face]).T}
    )
    for a in range(4):
        expected = [[comb(len(one & other), a) for one in faces] for other in faces]
        assert layer.operator(a, structure).to_dense().tolist() == expected


# ---- many nodes: keys past 2^63 are ranked


@pytest.mark.parametrize("text", ["{i j k l} -> {i j k l}", "(i j k l) -> (i j k l)"])
def test_ten_million_nodes_give_what_the_few_that_matter_give(text):
    many, few = 10_000_000, 9
    m = EquivariantMap(text)
    layer = Linear(text, 1, 1, dtype=torch.float64)
    small = structure_for(m, few, seed=1, draws=12)
    places = torch.tensor(
        [0, 1, 2, 4_999_999, 5_000_000, 9_999_996, 9_999_997, 9_999_998, 9_999_999]
    )
    assert many**4 > 2**63
    large = Structure(many, {str(p): places[small[str(p)]] for p in small.patterns})
    x = features_for(m, small, channels=1)
    for k in [*range(4), *range(len(m.operations))[-3:]]:
        assert torch.equal(layer.operator(k, large).to_dense(), layer.operator(k, small).to_dense())
    close(layer(x, large), layer(x, small))


@pytest.mark.parametrize("text", ["{i j k l}", "(i j k l)", "[i j k l]"])
def test_entries_are_found_and_told_apart_among_ten_million_nodes(text):
    index = torch.tensor(
        [[9_999_999, 0, 3], [9_999_998, 9_999_999, 2], [9_999_997, 1, 1], [9_999_996, 2, 0]]
    )
    structure = Structure(10_000_000, {text: index})
    other = index.clone()
    other[3, 1] = 3
    assert structure.locate(text, index[:, [2, 0, 1]]).tolist() == [2, 0, 1]
    assert structure.locate(text, other).tolist() == [0, -1, 2]
    with pytest.raises(inc.IncidenceError, match="columns 1 and 3 denote one entry"):
        Structure(10_000_000, {text: torch.cat([index, index[:, 1:2]], dim=1)})


# ---- the same bits

BITS = """
import torch
torch.set_num_threads(1)
from tests.nn.test_properties import bits
print(bits())
"""


def bits() -> str:
    """The bits of values and gradients in float32, as a number."""
    layer = layer_for("i, (i j) -> i, (i j)", 1, EVERY).float()
    structure = structure_for(layer.map, 30, draws=200)
    x = {key: v.float().requires_grad_() for key, v in features_for(layer.map, structure).items()}
    ys = outputs(layer(x, structure))
    found = [*ys, *gradients(ys, [*x.values(), *layer.parameters()])]
    return " ".join(
        str(
            int(
                v.detach()
                .view(torch.int32)
                .long()
                .mul(torch.arange(v.numel()).view(v.shape) + 1)
                .sum()
            )
        )
        for v in found
    )


def test_the_same_input_gives_the_same_bits_again():
    assert bits() == bits()


def test_the_same_input_gives_the_same_bits_in_another_process():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        here = bits()
    finally:
        torch.set_num_threads(threads)
    root = Path(__file__).parents[2]
    there = subprocess.run(
        [sys.executable, "-c", BITS], cwd=root, capture_output=True, text=True, check=False
    )
    assert there.stderr == ""
    assert there.stdout.strip() == here
