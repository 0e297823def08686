"""Plans where sets of nodes have some of their entries only: collated or built, in any order, in
any process, the layer is the same.
"""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import incidence as inc
from incidence.algebra import EquivariantMap
from incidence.engine.layout import layout_of
from incidence.engine.partners import Partners
from incidence.engine.plan import build_plan, plan_of
from incidence.structure import Structure
from tests.engine.comparing import assert_same_plan
from tests.nn.sparse_maps import features_for, layer_for, outputs
from tests.structure.random_structures import random_structure

MAPS = [
    ("(i j) -> (i j)", 1),  # partly reciprocal edges
    ("(i j k) -> (i j k)", 1),  # up to six entries on three nodes
    ("(i j k) -> {i j}", 1),
    ("i j -> i j", 1),  # two orbits
    ("[i j k] -> [i j k]", 1),
    ("{i j} {i k} -> {i j} {i k}", 1),
    ("{i j} {k l} -> {i j} {k l}", 1),  # several partners for one operation
    ("i, (i j) -> (i j), {i j}", 1),  # other levels on either side
    ("(u:a v:a) m:b -> (u:a v:a) m:b", 1),
    ("i {i ...} -> i {i ...}", 2),
    ("{i ...} {i ...} -> {i ...} {i ...}", 2),
    ("i, (i j), {i j k} -> i, (i j), {i j k}", 1),
]
maps = pytest.mark.parametrize(
    ("text", "max_overlap"), MAPS, ids=[f"{text}, {k}" for text, k in MAPS]
)


def structures(
    m: EquivariantMap, sizes: tuple[int, ...] = (4, 0, 3, 5), draws: int = 40
) -> list[Structure]:
    return [
        random_structure(n, [str(p) for p in m.inputs + m.outputs], seed=n, draws=draws)
        for n in sizes
    ]


def assert_close(one: object, other: object) -> None:
    for a, b in zip(outputs(one), outputs(other), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("text", "num_operations"), [("(i j)", 2), ("(i j k)", 6), ("{i j} {k l}", 3)]
)
def test_in_these_structures_some_entries_have_a_partner_and_some_have_none(text, num_operations):
    """Of every operation that matches all nodes but itself."""
    m = EquivariantMap(f"{text} -> {text}")
    plan = plan_of(inc.collate(structures(m)), m)
    counts = [int(partners.counts.sum()) for partners in plan.partners.values()]
    assert len(counts) == num_operations
    assert 0 < min(counts) < max(counts) <= plan.num_entries.sum()


def test_every_entry_is_read_by_the_entries_on_its_nodes_that_an_operation_says():
    """{0 1} {2 3} shares one node of each edge with four others, which all read it; math.md section
    5.
    """
    m = EquivariantMap("{i j} {k l} -> {i j} {k l}")
    s = Structure.complete(4, ["{i j} {k l}"])
    plan = plan_of(s, m)
    [four] = [
        partners for (_, overlap), partners in plan.partners.items() if overlap == ((1, 1), (1, 1))
    ]
    entries = [
        tuple(map(frozenset, (entry[:2], entry[2:]))) for entry in s["{i j} {k l}"].T.tolist()
    ]
    assert int(four.counts.sum()) == 6 * 4
    for target, source in zip(four.targets.tolist(), four.sources.tolist(), strict=True):
        assert all(len(one & other) == 1 for one in entries[target] for other in entries[source])


def test_partners_are_listed_for_all_rows_where_most_read_one():
    """Rows 0 and 2 read each other, and row 1 reads none; then row 1 reads both."""
    targets, sources = torch.tensor([0, 2]), torch.tensor([2, 0])
    lists = Partners(3, np.array([2]), targets, sources, torch.tensor([1.0, -1.0])).by_row
    assert [part.tolist() for part in lists] == [[2, 0], [0, 1, 1, 2], [1.0, -1.0]]
    itself = Partners(4, np.array([2]), targets, None).by_row
    assert [part.tolist() for part in itself[:2]] == [[0, 2], [0, 1, 1, 2, 2]]
    assert Partners(5, np.array([2]), targets, None).by_row is None
    both = Partners(3, np.array([2]), torch.tensor([1, 1]), torch.tensor([0, 2])).by_row
    assert [part.tolist() for part in both[:2]] == [[0, 2], [0, 0, 2, 2]]


@maps
@pytest.mark.parametrize("aggr", ["sum", "max"])
def test_collated_plans_of_many_partners_give_what_built_ones_give(
    text, max_overlap, aggr, monkeypatch
):
    layer = layer_for(text, max_overlap, aggr)
    planned, bare = structures(layer.map), structures(layer.map)
    for s in planned:
        plan_of(s, layer.map)
    x = features_for(layer.map, inc.collate(bare))
    expected = layer(x, inc.collate(bare))
    assert_close(layer(x, inc.collate(planned)), expected)
    monkeypatch.setattr(
        "incidence.engine.plan.build_plan", lambda *args: pytest.fail("the plan was built again")
    )
    nested = inc.collate([inc.collate(planned[:3]), planned[3]])
    assert_close(layer(x, nested), expected)


@maps
def test_the_plan_of_structures_that_have_none_is_built_at_once(text, max_overlap, monkeypatch):
    m, built = EquivariantMap(text, max_overlap), []
    monkeypatch.setattr(
        "incidence.engine.plan.build_plan",
        lambda layout, structure: built.append(structure) or build_plan(layout, structure),
    )
    parts = structures(m)
    batch = inc.collate(parts)
    plan_of(batch, m)
    assert len(built) == 1
    assert built[0] is batch
    plan_of(parts[0], m)
    assert (
        plan_of(inc.collate(parts), m).num_entries.tolist()
        == plan_of(batch, m).num_entries.tolist()
    )
    # as the others have no plan
    assert [structure.num_structures for structure in built] == [4, 1, 4]


@maps
def test_plans_of_packed_structures_are_taken_from_the_one_of_their_store(
    text, max_overlap, monkeypatch
):
    m, built = EquivariantMap(text, max_overlap), []
    monkeypatch.setattr(
        "incidence.engine.plan.build_plan",
        lambda layout, structure: built.append(structure) or build_plan(layout, structure),
    )
    packed = inc.pack(structures(m))
    chosen = [[2, 0], [3, 3, 1], [1]]
    found = [plan_of(inc.collate([packed[k] for k in numbers]), m) for numbers in chosen]
    assert [structure.num_structures for structure in built] == [4]
    for plan, numbers in zip(found, chosen, strict=True):
        assert_same_plan(
            plan, build_plan(layout_of(m), inc.collate([structures(m)[k] for k in numbers]))
        )


@maps
def test_a_batch_of_many_partners_gives_what_its_structures_give(text, max_overlap):
    layer = layer_for(text, max_overlap)
    parts = structures(layer.map)
    batch = inc.collate(parts)
    x = features_for(layer.map, batch)
    ys = outputs(layer(x, batch))
    for k, s in enumerate(parts):
        own = {p.name or str(p): x[p.name or str(p)][batch.batch(p) == k] for p in layer.map.inputs}
        for p, one, whole in zip(layer.map.outputs, outputs(layer(own, s)), ys, strict=True):
            torch.testing.assert_close(one, whole[batch.batch(p) == k], rtol=1e-12, atol=1e-12)


@maps
def test_collated_and_built_plans_are_the_same(text, max_overlap):
    m = EquivariantMap(text, max_overlap)
    planned = structures(m)
    for s in planned:
        plan_of(s, m)
    assert_same_plan(plan_of(inc.collate(planned), m), plan_of(inc.collate(structures(m)), m))


@maps
def test_the_structures_of_a_batch_in_canonical_order_give_the_same(text, max_overlap):
    layer = layer_for(text, max_overlap)
    batch = inc.collate(structures(layer.map))
    x = features_for(layer.map, batch)
    ordered, rows = batch.canonical()
    assert [ordered[k] for k in range(4)] == [s.canonical()[0] for s in batch]
    moved = {key: x[key][rows[key]] if key in rows else x[key] for key in x}
    ys, moved_ys = layer(x, batch), layer(moved, ordered)
    keys = [p.name or str(p) for p in layer.map.outputs]
    for key, one, other in zip(keys, outputs(ys), outputs(moved_ys), strict=True):
        torch.testing.assert_close(
            other, one[rows[key]] if key in rows else one, rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize(
    "clone", [copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))], ids=["deepcopy", "pickle"]
)
def test_copies_of_structures_with_plans_collate(clone):
    layer = layer_for("i, (i j) -> i, (i j)")
    parts = structures(layer.map)
    for s in parts:
        layer.plan(s)
    batch = inc.collate(clone(parts))
    x = features_for(layer.map, batch)
    assert_close(layer(x, batch), layer(x, inc.collate(parts)))


def test_the_number_of_the_structure_is_known_for_nodes_entries_and_scalars():
    batch = inc.collate(
        [
            Structure(2, {"(i j)": [[0], [1]]}),
            Structure(0, {"(i j)": []}),
            Structure(3, {"(i j)": [[2, 1], [0, 0]]}),
        ]
    )
    assert batch.batch("i").tolist() == [0, 0, 2, 2, 2]
    assert batch.batch("(i j)").tolist() == [0, 2, 2]
    assert batch.batch("").tolist() == [0, 1, 2]
    assert batch[""].shape == (0, 3)
    assert batch.num_entries("") == 3


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_data_loader_collates_structures_also_in_workers(num_workers):
    m = EquivariantMap("i, (i j), {i ...} -> i")
    parts = structures(m)
    loader = DataLoader(parts, batch_size=3, num_workers=num_workers, collate_fn=inc.collate)
    assert list(loader) == [inc.collate(parts[:3]), inc.collate(parts[3:])]


@pytest.mark.parametrize("text", ["(i j)", "i {j k}", "{i ...}"])
def test_a_permutation_of_any_integer_type_relabels(text):
    s = random_structure(4, [text], seed=0)
    labels = torch.tensor([2, 0, 3, 1])
    for dtype in (torch.int32, torch.int16, torch.uint8):
        assert s.relabel(labels.to(dtype)) == s.relabel(labels)
    batch = inc.collate([s, s])
    both = torch.cat([labels, labels + 4])
    assert batch.relabel(both.int()) == batch.relabel(both) == inc.collate([s.relabel(labels)] * 2)


def test_structures_without_nodes_can_be_relabelled_and_induced():
    s = Structure(0, {"(i j)": []})
    assert s.relabel([]) == s
    assert s.relabel(torch.zeros(0, dtype=torch.long)) == s
    assert s.induced([]) == s


@pytest.mark.parametrize("text", ["i, (i j) -> ", "{i ...}, i -> ", "u:a m:b, u:a -> "])
def test_what_pools_over_structures_alone_has_the_plan_that_would_be_built(text):
    m = EquivariantMap(text)
    batch = inc.collate(structures(m))
    assert all(tensor.has_range_bags for tensor in layout_of(m).inputs)
    assert_same_plan(plan_of(batch, m), build_plan(layout_of(m), batch))


def test_several_orbits_or_keys_need_the_entries():
    for text in ("i j -> ", "i -> i", "(i j) -> i", "<i j> -> {i j}"):
        m = EquivariantMap(text)
        assert layout_of(m).partners or not layout_of(m).inputs[0].has_range_bags


def test_a_layout_is_kept_by_its_map_as_hashes_differ_from_process_to_process():
    layout = layout_of(EquivariantMap("i, {i j} -> (i j)"))
    small = len(pickle.dumps(layout))
    assert layout.levels
    assert hash(layout)
    assert len(pickle.dumps(layout)) == small
    assert pickle.loads(pickle.dumps(layout)) is copy.deepcopy(layout) is layout
