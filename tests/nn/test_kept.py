"""A structure keeps what layers find out about it, and no layer may see what another left there."""

import pytest
import torch

import incidence as inc
from incidence.engine.plan import plan_of
from incidence.nn import Linear
from incidence.structure import Structure, collate
from tests.cases import some
from tests.nn.definition import by_definition
from tests.nn.sparse_maps import (
    ALL,
    IDS,
    features_for,
    gradients,
    layer_for,
    outputs,
    structure_for,
)


@pytest.mark.parametrize("has_bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("num_nodes", [0, 1, 2])
@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_structures_without_nodes_entries_or_orbits_have_their_rows(
    text, max_overlap, num_nodes, has_bias
):
    layer = layer_for(text, max_overlap, bias=has_bias)
    structure = structure_for(layer.map, num_nodes)
    ys = outputs(layer(features_for(layer.map, structure), structure))
    for y, expected in zip(
        ys, by_definition(layer, features_for(layer.map, structure), structure), strict=True
    ):
        torch.testing.assert_close(y, expected)


@pytest.mark.parametrize("aggr", ["sum", "mean"])
def test_no_operation_reads_a_value_from_another_structure(aggr):
    layer = Linear("i -> i", 1, 1, aggr=aggr)
    batch = collate([Structure(2), Structure(2)])
    y = layer(torch.tensor([[1.0], [2.0], [float("nan")], [3.0]]), batch)
    assert y[:2].isfinite().all()


def test_layers_with_one_aggregation_and_with_a_list_of_one_serve_the_same_structure():
    structure = Structure(3)
    x = torch.randn(3, 1)
    one, other = Linear("i -> i", 1, 1, aggr="sum"), Linear("i -> i", 1, 1, aggr=["sum"])
    other.load_state_dict({"weight": one.weight[None], "bias": one.bias})
    torch.testing.assert_close(one(x, structure), other(x, structure))


@pytest.mark.parametrize("before", [torch.float32, torch.bfloat16], ids=str)
def test_the_bits_do_not_depend_on_what_was_computed_before(before):
    layer = layer_for("i, (i j) -> i, (i j)")
    structure, again = (structure_for(layer.map, 20, draws=60) for _ in range(2))
    x = features_for(layer.map, structure)
    layer.to(before)({key: v.to(before) for key, v in x.items()}, again)
    layer = layer_for("i, (i j) -> i, (i j)")
    one, other = layer(x, structure), layer(x, again)
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_different_operations_do_not_share_their_matrices():
    structure = Structure(3)
    x = torch.randn(3, 1)
    keep = [
        Linear("i -> i", 1, 1, bias=False, operations=lambda o, k=k: sum(map(sum, o.overlap)) == k)
        for k in (0, 1)
    ]
    for layer in keep:
        layer.weight.data.fill_(1.0)
    torch.testing.assert_close(keep[0](x, structure), x.sum(0).expand(3, 1))
    torch.testing.assert_close(keep[1](x, structure), x)


def test_bad_features_are_refused_on_a_structure_that_was_used_before():
    layer = Linear("i, (i j) -> i", 1, 1)
    structure = Structure(3, {"(i j)": torch.tensor([[0], [1]])})
    good = {"i": torch.ones(3, 1), "(i j)": torch.ones(1, 1)}
    layer(good, structure)
    bad = [
        ({**good, "i": torch.ones(2, 1)}, "must have 3 rows"),
        ({**good, "i": torch.ones(3, 2)}, "must have 1 channels"),
        ({**good, "i": torch.ones(3)}, "For one channel use"),
        ({**good, "i": torch.ones(3, 1, dtype=torch.long)}, "floating type"),
        ({**good, "i": torch.ones(3, 1, dtype=torch.float64)}, "the features are torch.float64"),
        ({"i": good["i"]}, "has no value for"),
        ({**good, "j k": torch.ones(3, 1)}, "has no tensor"),
        (good["i"], "pass a dict"),
    ]
    for x, message in bad:
        with pytest.raises(inc.IncidenceError, match=message):
            layer(x, structure)
    assert layer(good, structure).shape == (3, 1)


def test_autocast_is_heeded_after_a_call_without_it():
    layer, structure, x = Linear("i -> i", 2, 2), Structure(3), torch.randn(3, 2)
    assert layer(x, structure).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x, structure).dtype == torch.bfloat16
    assert layer(x, structure).dtype == torch.float32


@pytest.mark.parametrize("aggr", ["sum", "max", "range"])
@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_rows_in_any_order_give_the_same_values_and_gradients(text, max_overlap, aggr):
    """Entries are looked up where they are, whether those on one node set are neighbours or not."""
    layer = layer_for(text, max_overlap, aggr)
    structure = structure_for(layer.map, 5, seed=2, draws=20)
    generator = torch.Generator().manual_seed(0)
    rows = {
        p: torch.randperm(structure.num_entries(p), generator=generator) for p in structure.patterns
    }
    shuffled = structure
    for p, order in rows.items():
        shuffled = shuffled.select(p, order)

    by_key = {p.name or str(p): order for p, order in rows.items()}

    def moved(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {key: x[by_key[key]] if key in by_key else x for key, x in tensors.items()}

    x = {key: v.requires_grad_() for key, v in features_for(layer.map, structure).items()}
    names = [p.name or str(p) for p in layer.map.outputs]
    expected = outputs(moved(dict(zip(names, outputs(layer(x, structure)), strict=True))))
    found = outputs(layer(moved(x), shuffled))
    leaves = [*x.values(), *layer.parameters()]
    pairs = [
        *zip(found, expected, strict=True),
        *zip(gradients(found, leaves), gradients(expected, leaves), strict=True),
    ]
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_the_engine_meets_partners_of_every_kind():
    """All rows read themselves or another, and so do some; some read several. With oriented faces,
    those that read another have signs.
    """
    unsigned, signed = set(), set()
    maps = [inc.EquivariantMap(text, max_overlap) for text, max_overlap in ALL]
    plans = [plan_of(structure_for(m, 5, seed=2, draws=20), m) for m in maps]
    for text in ("(i j)", "{i j} {k l}", "i <i j>", "<i j> {k l}"):
        plans.append(
            plan_of(Structure.complete(4, [text]), inc.EquivariantMap(f"{text} -> {text}"))
        )
    for plan in plans:
        for partners in plan.partners.values():
            targets, sources = partners.targets, partners.sources
            is_single = targets is None or len(targets.unique()) == len(targets)
            (unsigned if partners.signs is None else signed).add(
                (targets is None, sources is None, is_single)
            )
    assert unsigned == {
        (True, True, True),
        (True, False, True),
        (False, True, True),
        (False, False, True),
        (False, False, False),
    }
    assert signed == {(True, False, True), (False, False, True), (False, False, False)}
