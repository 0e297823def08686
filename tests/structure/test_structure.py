"""Structures as one meets them: letters and spellings, sizes, entries compared by meaning, complete
ones, plans, copies, large numbers.
"""

import copy
import io
import pickle
from itertools import permutations
from random import Random

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

import incidence as inc
from incidence.algebra import EquivariantMap, Pattern
from incidence.engine.plan import plan_of
from incidence.structure import Structure
from incidence.structure.arrange import orbit_rows
from tests.algebra import brute_force
from tests.cases import some
from tests.nn.sparse_maps import ALL, IDS, features_for, layer_for, outputs, structure_for
from tests.structure.listing import class_sets, entries_of
from tests.structure.random_structures import random_structure

EDGES = torch.tensor([[2, 0, 1], [3, 1, 2]])
HYPER = torch.tensor([[0, 1, 2, 3, 2, 0], [0, 0, 0, 1, 1, 2]])  # {0 1 2}, {2 3}, {0}


# ---- letters, spellings and names


def test_rows_come_in_the_letter_order_of_the_text_asked():
    s = Structure(4, {"(i j) (j k)": torch.tensor([[0], [1], [2]])})
    assert s["(i j) (j k)"].tolist() == [[0], [1], [2]]
    assert s["(a b) (b c)"].tolist() == [[0], [1], [2]]
    assert s["(k i) (i j)"].tolist() == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("given", "asked", "column"),
    [
        ("{i j} {i k}", "{a b} {b c}", [1, 0, 2]),
        ("{i j} {i k}", "{a b} {c b}", [1, 0, 2]),
        ("i {j i}", "x {x y}", [0, 1]),
        ("i {i j k}", "x {y x z}", [0, 1, 2]),
        ("{j i} i", "{i j} i", [1, 0]),
        ("{j i} i", "{i j} j", [0, 1]),
        ("(i j) {j k}", "(a b) {c b}", [0, 1, 2]),
        ("u:a m:b", "m:a u:b", [0, 1]),
        ("i", "{x}", [0]),
    ],
)
def test_another_spelling_gives_the_same_entries_in_its_own_letters(given, asked, column):
    num_nodes = {"a": 4, "b": 4} if ":" in given else 4
    s = Structure(num_nodes, {given: torch.tensor([[0], [1], [2]][: len(Pattern(given).letters)])})
    assert s[asked][:, 0].tolist() == column
    assert entries_of(s, asked) == entries_of(s, given)


def test_asking_for_a_spelling_does_not_change_what_is_kept():
    s = Structure(3, {"{j i} i": torch.tensor([[0], [1]])})
    assert s["{i j} i"].tolist() == [[1], [0]]
    assert [str(p) for p in s.patterns] == ["{j i} i"]
    assert s["{j i} i"].tolist() == [[0], [1]]


def test_a_pattern_serves_as_well_as_its_text():
    s = Structure(4, {Pattern("(i j)"): EDGES, "hull={i j k}": [[0], [1], [2]]})
    assert s[Pattern("(a b)")].equal(EDGES)
    assert s[Pattern("hull={a b c}")].tolist() == [[0], [1], [2]]
    assert s.num_entries(Pattern("(a b)")) == 3


@pytest.mark.parametrize("text", ["bond", " bond ", "bond={i j}", "bond = {b a}"])
def test_a_named_tensor_is_found_by_name_and_by_text(text):
    s = Structure(4, {"bond={i j}": EDGES, "contact={i j}": EDGES[:, :1], "{i j}": EDGES[:, 1:]})
    assert s[text].equal(EDGES)
    assert s.num_entries(text) == 3


def test_named_tensors_of_one_pattern_are_different_tensors():
    s = Structure(4, {"bond={i j}": EDGES, "contact={i j}": EDGES[:, :1], "{i j}": EDGES[:, 1:]})
    assert [s.num_entries(t) for t in ("bond", "contact", "{i j}")] == [3, 1, 2]


@pytest.mark.parametrize("kind", ["list", "numpy", "int32", "uint8", "not contiguous"])
def test_an_index_may_be_any_array_of_integers(kind):
    index = {
        "list": EDGES.tolist(),
        "numpy": EDGES.numpy(),
        "int32": EDGES.int(),
        "uint8": EDGES.to(torch.uint8),
        "not contiguous": EDGES.T.contiguous().T,
    }[kind]
    s = Structure(4, {"(i j)": index})
    assert s["(i j)"].equal(EDGES)
    assert s["(i j)"].dtype == torch.int64


@pytest.mark.parametrize(
    "num_nodes", [4, torch.tensor(4), np.int64(4), {"node": 4}, {"node": np.int32(4)}]
)
def test_the_number_of_nodes_may_be_any_integer(num_nodes):
    s = Structure(num_nodes, {"(i j)": EDGES})
    assert s.num_nodes == 4
    assert type(s.num_nodes) is int


# ---- sizes


def test_the_number_of_nodes_comes_back_as_it_was_given():
    assert Structure(3).num_nodes == 3
    assert Structure({"node": 3}).num_nodes == 3
    assert Structure({"user": 3}).num_nodes == {"user": 3}
    assert Structure({"user": 3, "movie": 0}).num_nodes == {"user": 3, "movie": 0}


def test_a_structure_knows_its_sizes():
    s = Structure({"b": 3, "a": 2}, {"u:a m:b": torch.tensor([[0, 1], [2, 2]])})
    assert s.total_nodes == 5
    assert s.num_structures == len(s) == 1
    assert s.node_ptr("a").tolist() == [0, 2]
    assert s.entry_ptr("u:a m:b").tolist() == [0, 2]
    assert s.batch("u:a m:b").tolist() == [0, 0]
    assert s.patterns == (Pattern("u:a m:b"),)


@pytest.mark.parametrize("num_nodes", [0, 1, 5])
def test_nodes_and_the_scalar_need_no_index(num_nodes):
    s = Structure(num_nodes)
    for text in ("i", "(x)", "{x}", "[x]"):
        assert s[text].tolist() == [list(range(num_nodes))]
        assert s.num_entries(text) == num_nodes
    for text in ("", "  ", "state="):
        assert s[text].shape == (0, 1)
        assert s.num_entries(text) == 1
    assert s.patterns == ()


def test_nodes_with_an_index_are_only_those():
    s = Structure(5, {"i": [4, 0]})
    assert s["i"].tolist() == [[4, 0]]
    assert s.num_entries("x") == 2


def test_every_sort_has_nodes_of_its_own():
    s = Structure({"user": 3, "movie": 2}, {"u:user m:movie": torch.tensor([[2, 0], [1, 1]])})
    assert s["a:user"].tolist() == [[0, 1, 2]]
    assert s["m:movie"].tolist() == [[0, 1]]
    assert s["x:user y:movie"].tolist() == [[2, 0], [1, 1]]


def test_letters_of_different_sorts_in_one_face_may_have_one_number():
    s = Structure(
        {"a": 2, "b": 2},
        {"{i:a k:b}": torch.tensor([[0, 1], [0, 1]]), "(i:a k:b)": torch.tensor([[1], [1]])},
    )
    assert s.num_entries("{k:b i:a}") == 2
    assert s["{k:b i:a}"].tolist() == [[0, 1], [0, 1]]


@pytest.mark.parametrize(
    "text",
    ["(i j)", "{i j}", "i j", "[i j k]", "i {i j}", "{i ...}", "i {i ...}", "{i ...} {i ...}", "i"],
)
@pytest.mark.parametrize("num_nodes", [0, 3])
def test_a_tensor_may_have_no_entries(text, num_nodes):
    pattern = Pattern(text)
    letters = torch.zeros(len(pattern.fixed_letters), 0, dtype=torch.long)
    members = [torch.zeros(2, 0, dtype=torch.long) for face in pattern.faces if face.is_open]
    s = Structure(num_nodes, {text: (letters, *members) if members else letters})
    assert s.num_entries(text) == 0
    assert entries_of(s, text) == []
    assert [len(rows) for rows in orbit_rows(s, text)] == [0] * len(pattern.orbits)
    layer = layer_for(f"i, {text} -> {text}" if text != "i" else "i -> i")
    assert outputs(layer(features_for(layer.map, s), s))[0].shape == (0, 2)


@pytest.mark.parametrize(
    "empty",
    [[], [[], []], torch.zeros(0), torch.zeros(2, 0)],
    ids=["list", "lists", "float vector", "float matrix"],
)
def test_an_empty_index_may_be_of_any_type(empty):
    s = Structure(3, {"(i j)": empty, "{i ...}": empty})
    assert s["(i j)"].shape == (2, 0)
    assert s["{i ...}"].shape == (2, 0)
    assert s["(i j)"].dtype == s["{i ...}"].dtype == torch.int64


def test_isolated_nodes_are_nodes():
    layer = layer_for("i, (i j) -> i")
    s = Structure(6, {"(i j)": EDGES})
    x = features_for(layer.map, s)
    y = layer(x, s)
    assert y.shape == (6, 2)
    without = {"i": x["i"], "(i j)": torch.zeros(3, 2, dtype=torch.float64)}
    is_local = [any(map(any, o.overlap)) for o in layer.operations_of(1, 0)]
    layer.weight_1_0.data[[not local for local in is_local]] = 0  # no global pooling of edges
    torch.testing.assert_close(layer(x, s)[4:], layer(without, s)[4:])


# ---- open faces


def test_a_lone_open_face_is_told_by_nodes_and_entry_numbers():
    s = Structure(4, {"{i ...}": HYPER})
    assert s["{i ...}"].equal(HYPER)
    assert s.num_entries("{q ...}") == 3
    assert entries_of(s, "{i ...}") == [
        ((("node", 0), ("node", 1), ("node", 2)),),
        ((("node", 2), ("node", 3)),),
        ((("node", 0),),),
    ]


def test_a_lone_open_face_may_come_with_its_empty_letters():
    assert Structure(4, {"{i ...}": (torch.zeros(0, 3), HYPER)}) == Structure(4, {"{i ...}": HYPER})
    assert Structure(4, {"{i ...}": HYPER.tolist()}) == Structure(4, {"{i ...}": HYPER})


def test_the_incidences_of_an_open_face_come_in_any_order():
    order = torch.tensor([4, 0, 5, 3, 2, 1])
    s = Structure(4, {"{i ...}": HYPER[:, order]})
    assert s == Structure(4, {"{i ...}": HYPER})
    assert s["{i ...}"].equal(HYPER[:, order])


def test_open_faces_with_letters_are_told_by_letters_and_members():
    letters = torch.tensor([[1, 3, 0, 0]])
    members = torch.tensor([[0, 1, 2, 3, 2, 0, 0, 1], [0, 0, 0, 1, 1, 2, 3, 3]])
    s = Structure(4, {"i {i ...}": (letters, members)})
    got = s["x {x ...}"]
    assert isinstance(got, tuple)
    assert [t.tolist() for t in got] == [letters.tolist(), members.tolist()]
    assert s.num_entries("i {i ...}") == 4


def test_letters_of_open_faces_come_in_the_order_of_the_text():
    members = torch.tensor([[0, 1, 3], [0, 0, 0]])
    s = Structure(4, {"{i j} {i ...}": (torch.tensor([[0], [2]]), members)})
    letters, got = s["{b a} {a ...}"]
    assert letters.tolist() == [[2], [0]]
    assert got.equal(members)


def test_two_open_faces_have_members_each_and_no_letters():
    one = torch.tensor([[0, 1, 2], [0, 0, 1]])
    two = torch.tensor([[1, 2, 3], [0, 1, 1]])
    s = Structure(4, {"{i ...} {i ...}": (torch.zeros(0, 2), one, two)})
    letters, *members = s["{a ...} {a ...}"]
    assert letters.shape[0] == 0
    assert [m.tolist() for m in members] == [one.tolist(), two.tolist()]
    assert s.num_entries("{i ...} {i ...}") == 2


def test_a_letter_may_be_in_very_many_faces_beside_an_open_one():
    text = " ".join(["i"] * 45) + " {j ...}"
    s = Structure(4, {text: (torch.tensor([[1, 3]]), torch.tensor([[0, 1, 2], [0, 0, 1]]))})
    # the letter is not in the open face, or is
    assert [rows.tolist() for rows in orbit_rows(s, text)] == [[1], [0]]


def test_open_faces_of_one_set_are_one_entry_and_of_different_sets_two():
    assert (
        Structure(3, {"{i ...}": torch.tensor([[0, 1, 0], [0, 0, 1]])}).num_entries("{i ...}") == 2
    )
    with pytest.raises(inc.IncidenceError, match="columns 0 and 1 denote one entry"):
        Structure(3, {"{i ...}": torch.tensor([[0, 1, 1, 0], [0, 0, 1, 1]])})


# ---- entries are compared by meaning


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        ("{i j}", [0, 1], [1, 0]),
        ("[i j]", [2, 0], [0, 2]),
        ("[i j k]", [0, 0, 1], [0, 1, 0]),
        ("{i j k}", [2, 0, 1], [1, 2, 0]),
        ("{i j} {i k}", [0, 1, 1], [1, 0, 0]),  # the two edges are one, so either node may be `i`
        ("{i j} {k l}", [0, 1, 2, 3], [1, 0, 3, 2]),
        ("{i j} {i j}", [0, 1], [1, 0]),
        ("i {i j k}", [0, 1, 2], [0, 2, 1]),
        ("[i j] [i k]", [0, 1, 1], [1, 0, 0]),
    ],
)
def test_two_assignments_may_denote_one_entry(text, one, other):
    a, b = (Structure(4, {text: torch.tensor(v)[:, None]}) for v in (one, other))
    assert a == b
    assert entries_of(a, text) == entries_of(b, text)
    assert a.locate(text, torch.tensor(other)[:, None]).tolist() == [0]
    with pytest.raises(inc.IncidenceError, match="columns 0 and 1 denote one entry"):
        Structure(4, {text: torch.tensor([one, other]).T})


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        ("(i j)", [0, 1], [1, 0]),
        ("i j", [0, 1], [1, 0]),
        ("{i j} {i k}", [0, 1, 2], [0, 2, 1]),
        ("{i j} {k l}", [0, 1, 2, 3], [2, 3, 0, 1]),
        ("[i j k]", [0, 0, 1], [0, 1, 1]),
        ("i {i j k}", [0, 1, 2], [1, 0, 2]),
        ("i i j", [0, 1], [1, 0]),
    ],
)
def test_entries_that_differ_are_kept_apart(text, one, other):
    s = Structure(4, {text: torch.tensor([one, other]).T})
    assert s.num_entries(text) == 2
    assert len(set(entries_of(s, text))) == 2
    assert s.locate(text, torch.tensor([other, one]).T).tolist() == [1, 0]


@pytest.mark.parametrize(
    "text", ["{i j} {i k}", "[i j k]", "i {j k}", "{i j} {j k} k", "[i j] {j k}"]
)
@pytest.mark.parametrize("seed", range(3))
def test_every_assignment_of_an_entry_locates_it(text, seed):
    pattern = Pattern(text)
    s = random_structure(4, [text], seed)
    known = {entry: row for row, entry in enumerate(entries_of(s, text))}
    complete = Structure.complete(4, text)
    random = Random(seed)
    for column in complete[text].T.tolist():
        for nodes in random.sample(list(permutations(column)), 2):
            query = torch.tensor(nodes)[:, None]
            try:
                [entry] = entries_of(Structure(4, {text: query}), text)
            except inc.IncidenceError:
                continue  # a face would have a node twice
            assert s.locate(pattern, query).tolist() == [known.get(entry, -1)]


@pytest.mark.parametrize(
    "text",
    [
        "i j",
        "i j k",
        "[i j k]",
        "{i j} {i k}",
        "(i j) (k l)",
        "i {j k}",
        "i:a j:a k:b",
        "i {i ...}",
        "i {j ...}",
    ],
)
def test_orbit_rows_have_every_row_once_in_the_orbit_of_its_entry(text):
    pattern = Pattern(text)
    s = random_structure({"a": 3, "b": 2} if ":" in text else 4, [text], seed=1, draws=30)
    entries = entries_of(s, text)
    rows = orbit_rows(s, text)
    assert len(rows) == len(pattern.orbits)
    assert sorted(torch.cat(rows).tolist()) == list(range(len(entries)))
    for orbit, own in zip(pattern.orbits, rows, strict=True):
        fixed = {(c.sort, c.faces): c.size for c in orbit.classes if not c.is_open}
        opened = {(c.sort, c.faces) for c in orbit.classes if c.is_open}
        for row in own.tolist():
            sizes = {key: len(nodes) for key, nodes in class_sets(entries[row], pattern).items()}
            assert {key: n for key, n in sizes.items() if key not in opened} == fixed


def test_orbit_rows_of_nodes_and_the_scalar_are_all_rows():
    s = Structure(3)
    assert [rows.tolist() for rows in orbit_rows(s, "i")] == [[0, 1, 2]]
    assert [rows.tolist() for rows in orbit_rows(s, "")] == [[0]]


# ---- complete structures

COMPLETE = [
    "i",
    "i i",
    "i j",
    "(i j)",
    "{i j}",
    "[i j]",
    "i {i j}",
    "i {j k}",
    "i (j i)",
    "{i j} {i j}",
    "{i j} {i k}",
    "{i j} {k l}",
    "(i j) (j k)",
    "(i j) [j k]",
    "i j k",
    "(i j k)",
    "{i j k}",
    "[i j k]",
    "{i j k} {i j l}",
    "[i j] {j k}",
    "{i j k l}",
    "[i j k l]",
    "[i j] [i k]",
    "<i j k>",
    "i <j i>",
    "<i j> <j k>",
    "<i j> {k l}",
]
COMPLETE_WITH_SORTS = [
    "u:a m:b",
    "{i:a j:a k:b}",
    "(i:a k:b) j:a",
    "{i:a j:a} {j:a k:b}",
    "[i:a j:a k:b l:b]",
]


@pytest.mark.parametrize("num_nodes", range(5))
@pytest.mark.parametrize("text", some(COMPLETE))
def test_a_complete_structure_has_every_entry_once(text, num_nodes):
    s = Structure.complete(num_nodes, [text])
    raw, sorts = brute_force.read(text)
    expected = brute_force.entries(raw, sorts, {"node": num_nodes})
    found = entries_of(s, text)
    assert len(found) == len(expected)
    assert set(found) == expected
    assert s == Structure(num_nodes, {text: s[text]})  # which checks it


@pytest.mark.parametrize("num_nodes", [(0, 2), (1, 1), (2, 3), (3, 0)], ids=str)
@pytest.mark.parametrize("text", COMPLETE_WITH_SORTS)
def test_a_complete_structure_with_sorts_has_every_entry_once(text, num_nodes):
    counts = dict(zip("ab", num_nodes, strict=True))
    s = Structure.complete(counts, text)
    raw, sorts = brute_force.read(text)
    found = entries_of(s, text)
    assert set(found) == brute_force.entries(raw, sorts, counts)
    assert len(found) == len(set(found))


def test_a_complete_structure_may_have_several_tensors_names_and_the_scalar():
    s = Structure.complete(4, ["", "i j", "bond={i j}", "{i j}", "i"])
    assert [str(p) for p in s.patterns] == ["i j", "bond={i j}", "{i j}", "i"]
    assert [s.num_entries(t) for t in ("", "i j", "bond", "{i j}", "i")] == [1, 16, 6, 6, 4]


@pytest.mark.parametrize("text", some(COMPLETE))
def test_a_complete_structure_is_in_canonical_order(text):
    s = Structure.complete(4, text)
    ordered, rows = s.canonical()
    assert ordered == s
    assert all(torch.equal(moved, torch.arange(len(moved))) for moved in rows.values())


# ---- canonical order


@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
@pytest.mark.parametrize("seed", range(2))
def test_the_canonical_order_is_recognised_and_gives_the_same_layer(text, max_overlap, seed):
    layer = layer_for(text, max_overlap)
    counts = {
        sort: 5 for p in layer.map.inputs + layer.map.outputs for sort in p.sorts.values()
    } or {"node": 5}
    s = structure_for(layer.map, counts, seed, draws=12)
    x = features_for(layer.map, s)
    ordered, rows = s.canonical()
    assert list(rows) == [p.name or str(p) for p in s.patterns]
    assert ordered.canonical()[0] == ordered
    moved = {key: value[rows[key]] if key in rows else value for key, value in x.items()}
    every = {p: rows.get(p.name or str(p), slice(None)) for p in layer.map.outputs}
    for p, one, other in zip(
        layer.map.outputs, outputs(layer(x, s)), outputs(layer(moved, ordered)), strict=True
    ):
        torch.testing.assert_close(other, one[every[p]])


@pytest.mark.parametrize("text", ["(i j)", "{i j} {i k}", "i {i ...}", "{i ...}", "i j"])
def test_the_canonical_structure_has_the_same_entries_moved_by_the_rows(text):
    s = random_structure(4, [text], seed=3, draws=12)
    ordered, rows = s.canonical()
    entries = entries_of(s, text)
    assert entries_of(ordered, text) == [entries[row] for row in rows[text].tolist()]
    again, kept = ordered.canonical()
    assert again == ordered
    assert kept[text].tolist() == list(range(len(entries)))


def test_features_come_back_from_the_canonical_order_as_documented():
    s = random_structure(4, ["(i j)"], seed=3)
    rows = s.canonical()[1]["(i j)"]
    x = torch.randn(s.num_entries("(i j)"), 2)
    y = x[rows]
    assert y.new_empty(y.shape).index_copy(0, rows, y).equal(x)


# ---- plans


def test_equal_maps_share_one_plan():
    s = Structure(4, {"(i j)": EDGES, "{i j} {i k}": torch.tensor([[0], [1], [2]])})
    assert plan_of(s, EquivariantMap("(i j) -> i")) is plan_of(s, EquivariantMap("(a b) -> c"))
    assert plan_of(s, EquivariantMap("{i j} {i k} -> i")) is plan_of(
        s, EquivariantMap("{a b} {b c} -> x")
    )
    assert plan_of(s, EquivariantMap("(i j) -> i")) is not plan_of(s, EquivariantMap("i -> (i j)"))


def test_maps_of_different_overlap_have_plans_of_their_own():
    s = Structure(4, {"{i ...}": HYPER})
    one, two = (plan_of(s, EquivariantMap("{i ...} -> {i ...}", max_overlap=k)) for k in (1, 2))
    assert one is not two
    assert len(one.layout.levels) == 2
    assert len(two.layout.levels) == 3


def test_a_plan_prints_what_it_costs():
    s = Structure(4, {"(i j)": EDGES, "i j": EDGES})
    shown = repr(plan_of(s, EquivariantMap("(i j), i j, -> i")))
    assert shown.startswith(
        "Plan\n  (i j): 3 entries\n  i j: 3 entries\n  (one value): 1 entries\n  i: 4 entries\n"
    )
    # the structure and two nodes for each edge; a slot for each end
    assert "  (i j): 9 reads, 9 bags on 2 levels\n" in shown
    assert "  i j: 9 reads, 14 bags on 2 levels\n" in shown  # slots for two orbits, and their ends
    assert "  (one value): 1 reads, 1 bags on 1 levels\n" in shown
    assert "  i: 8 reads, 5 bags on 2 levels\n" in shown
    assert "keys: 1 of size 0, 4 of size 1" in shown
    assert shown.splitlines()[-1].startswith("  memory: ")


# ---- printing, copying, moving


@pytest.mark.parametrize(
    ("structure", "text"),
    [
        (Structure(3), "Structure(num_nodes=3)"),
        (Structure(4, {"(i j)": EDGES}), "Structure(num_nodes=4, '(i j)': 3 entries)"),
        (
            Structure(4, {"bond={i j}": EDGES[:, :1]}),
            "Structure(num_nodes=4, 'bond={i j}': 1 entry)",
        ),
        (Structure(4, {"{i ...}": HYPER}), "Structure(num_nodes=4, '{i ...}': 3 entries)"),
        (
            Structure({"a": 1, "b": 2}, {"x:a y:b": []}),
            "Structure(num_nodes={'a': 1, 'b': 2}, 'x:a y:b': 0 entries)",
        ),
        (Structure.complete(40, "i j"), "Structure(num_nodes=40, 'i j': 1,600 entries)"),
        (inc.collate([Structure(1), Structure(2)]), "Structure(num_structures=2, num_nodes=3)"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_structure_prints_its_sizes(structure, text):
    assert repr(structure) == text


STRUCTURES = {
    "fixed": Structure(5, {"(i j)": EDGES, "{i j} {i k}": torch.tensor([[0, 3], [1, 2], [1, 4]])}),
    "named": Structure(4, {"bond={i j}": EDGES, "{i j}": EDGES[:, :1]}),
    "open": Structure(4, {"{i ...}": HYPER, "i {i ...}": (torch.tensor([[2, 2, 0]]), HYPER)}),
    "sorts": Structure({"b": 3, "a": 2}, {"u:a m:b": torch.tensor([[0, 1], [2, 2]])}),
    "no index": Structure(2),
    "no nodes": Structure(0, {"(i j)": []}),
    "batch": inc.collate(
        [
            Structure(4, {"{i ...}": HYPER}),
            Structure(0, {"{i ...}": [[], []]}),
            Structure(3, {"{i ...}": [[2], [0]]}),
        ]
    ),
}


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("way", ["copy", "deepcopy", "pickle", "torch.save", "pytree"])
def test_copies_are_equal_and_work(name, way):
    s = STRUCTURES[name]
    layer = layer_for(f"{', '.join(map(str, s.patterns)) or 'i'} -> ")
    layer(features_for(layer.map, s), s)  # so that there is a plan
    layer.plan(s)
    if way == "torch.save":
        file = io.BytesIO()
        torch.save(s, file)
        file.seek(0)
        copied = torch.load(file, weights_only=False)
    elif way == "pytree":
        leaves, spec = pytree.tree_flatten(s)
        assert all(isinstance(leaf, torch.Tensor) for leaf in leaves)
        copied = pytree.tree_unflatten(leaves, pytree.treespec_loads(pytree.treespec_dumps(spec)))
    else:
        copied = {
            "copy": copy.copy,
            "deepcopy": copy.deepcopy,
            "pickle": lambda v: pickle.loads(pickle.dumps(v)),
        }[way](s)
    assert copied == s
    assert copied is not s
    assert repr(copied) == repr(s)
    assert copied.patterns == s.patterns
    x = features_for(layer.map, s)
    assert layer(x, copied).equal(layer(x, s))


def test_a_deep_copy_shares_no_memory():
    s = STRUCTURES["open"]
    ours = {leaf.data_ptr() for leaf in pytree.tree_leaves(s) if leaf.numel()}
    assert not ours & {
        leaf.data_ptr() for leaf in pytree.tree_leaves(copy.deepcopy(s)) if leaf.numel()
    }


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_pytree_maps_over_every_tensor_of_a_structure(name):
    s = copy.deepcopy(STRUCTURES[name])
    assert pytree.tree_map(lambda t: t.clone(), s) == s
    assert all(
        p.num_entries(t) == s.num_entries(t)
        for p in [pytree.tree_map(torch.clone, s)]
        for t in s.patterns
    )


def test_a_pytree_keeps_each_ptr_with_its_tensor_after_edits():
    s = (
        Structure(4, {"(i j)": EDGES, "i j": EDGES})
        .with_index({"(i j)": EDGES[:, :1], "{i j}": EDGES[:, :2]})
        .select("i j", [0])
    )
    again = pytree.tree_map(torch.clone, s)
    assert again == s
    assert [again.entry_ptr(p).tolist() for p in again.patterns] == [
        [0, again.num_entries(p)] for p in again.patterns
    ]


def test_structures_are_not_hashable_as_they_compare_by_value():
    with pytest.raises(TypeError, match="unhashable"):
        hash(Structure(1))


def test_the_device_is_where_the_index_is_or_where_it_is_asked():
    assert Structure(4, {"(i j)": EDGES}).device == torch.device("cpu")
    assert Structure(4, {"(i j)": EDGES}, device="cpu").device == torch.device("cpu")
    assert Structure(4, {"(i j)": EDGES.tolist()}, device=torch.device("cpu"))["(i j)"].equal(EDGES)
    assert Structure(4, device="meta").device == torch.device("meta")
    assert Structure.complete(3, "i j", device="cpu").device == torch.device("cpu")


def test_moving_to_the_device_it_is_on_gives_the_structure_itself():
    s = Structure(4, {"(i j)": EDGES})
    assert s.to("cpu") is s
    assert s.to(torch.device("cpu")) is s


@pytest.mark.parametrize("name", STRUCTURES)
def test_moving_to_another_device_moves_every_tensor(name):
    s = STRUCTURES[name]
    moved = s.to("meta")
    assert moved.device == torch.device("meta")
    assert {leaf.device.type for leaf in pytree.tree_leaves(moved)} == {"meta"}
    shapes = [
        [leaf.shape for leaf in pytree.tree_leaves(v)]
        for v in (Structure._of(s._node_ptr, s._index, s._entry_ptr), moved)
    ]
    assert shapes[0] == shapes[1]
    assert s.device == torch.device("cpu")


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_moved_structure_knows_its_number_of_nodes(name):
    s = copy.deepcopy(STRUCTURES[name])
    assert s.to("meta").num_nodes == s.num_nodes


# ---- keys past 2^63

MANY = 10_000_000


def far_apart(num_nodes: int) -> torch.Tensor:
    """Faces of four nodes from both ends of the range, some on one node set; N^4 is far
    past 2^63.
    """
    last = num_nodes - 1
    return torch.tensor(
        [
            [last, 0, last - 1, 5, last, last - 7, 0],
            [last - 1, 1, last - 2, last - 7, 3, 5, last],
            [last - 2, 2, last - 3, 7, 2, 9, 1],
            [last - 3, last, 0, 9, 1, 7, last - 1],
        ]
    )


def compacted(index: torch.Tensor) -> tuple[int, torch.Tensor]:
    used, numbers = torch.unique(index, return_inverse=True)
    return len(used), numbers


@pytest.mark.parametrize("text", ["{i j k l}", "(i j k l)", "i j k l", "[i j k l]", "(i j) {k l}"])
@pytest.mark.parametrize("num_nodes", [100_000, MANY, 2**24, 2**40])
def test_entries_of_many_nodes_are_told_apart_and_located(text, num_nodes):
    index = far_apart(num_nodes)[:, :6] if text == "{i j k l}" else far_apart(num_nodes)
    index = index[:, :5] if text in ("{i j k l}", "[i j k l]") else index
    s = Structure(num_nodes, {text: index})
    count = index.shape[1]
    assert s.num_entries(text) == count
    assert s.locate(text, index.flip(1)).tolist() == list(range(count))[::-1]
    absent = index.clone()
    absent[0] = 11  # the node of the highest place value: 11 * N^3 is lost where numbers wrap
    assert s.locate(text, absent).tolist() == [-1] * count


@pytest.mark.parametrize("text", ["{i j k l}", "(i j k l)"])
@pytest.mark.parametrize("num_nodes", [MANY, 2**24])
def test_duplicates_among_many_nodes_are_found_and_near_ones_are_not(text, num_nodes):
    last = num_nodes - 1
    near = torch.tensor([[0, 1, 2, 3], [5, 5, 5, 5], [6, 6, 6, 6], [last] * 4])
    assert Structure(num_nodes, {text: near}).num_entries(text) == 4
    again = near[:, [0, 1, 2, 3, 2]]
    if text == "{i j k l}":
        again[:, 4] = again[[3, 1, 0, 2], 4]
    with pytest.raises(inc.IncidenceError, match="columns 2 and 4 denote one entry"):
        Structure(num_nodes, {text: again})


@pytest.mark.parametrize(
    ("text", "num_nodes"),
    [
        ("{i j k l} -> {i j k l}", MANY),
        ("{i j k l} -> {i j}", MANY),
        ("(i j k l) -> ", MANY),
        ("(i j k l) -> (i j k l)", 100_000),
        ("(i j k l) -> {i j}", 100_000),
        pytest.param("(i j k l) -> (i j k l)", MANY, marks=pytest.mark.slow),
    ],
)
def test_a_layer_on_many_nodes_is_that_on_the_nodes_in_use(text, num_nodes):
    layer = layer_for(text, channels=(1, 1))
    source = str(layer.map.inputs[0])
    index = far_apart(num_nodes)[:, :5] if source == "{i j k l}" else far_apart(num_nodes)
    count, small = compacted(index)
    large_index, small_index = {source: index}, {source: small}
    if "{i j}" in text.split(" -> ")[1]:
        large_index["{i j}"], small_index["{i j}"] = index[1:3], small[1:3]
    large, compact = Structure(num_nodes, large_index), Structure(count, small_index)
    x = features_for(layer.map, compact, channels=1)
    torch.testing.assert_close(layer(x, large), layer(x, compact))
    one, other = plan_of(large, layer.map), plan_of(compact, layer.map)
    levels = one.layout.levels
    assert [
        n.tolist() for n, level in zip(one.num_keys, levels, strict=True) if len(level) != 1
    ] == [n.tolist() for n, level in zip(other.num_keys, levels, strict=True) if len(level) != 1]
    assert {key: p.counts.tolist() for key, p in one.partners.items()} == {
        key: p.counts.tolist() for key, p in other.partners.items()
    }


def test_the_canonical_order_of_many_nodes_is_that_of_the_nodes_in_use():
    index = far_apart(MANY)
    count, small = compacted(index)
    _, large_rows = Structure(MANY, {"(i j k l)": index}).canonical()
    _, small_rows = Structure(count, {"(i j k l)": small}).canonical()
    assert large_rows["(i j k l)"].equal(small_rows["(i j k l)"])


def test_batches_of_many_nodes_are_told_apart():
    s = Structure(MANY, {"{i j k l}": far_apart(MANY)[:, :5]})
    batch = inc.collate([s, s])
    assert batch.num_nodes == 2 * MANY
    assert batch.locate("{i j k l}", batch["{i j k l}"]).tolist() == list(range(10))
    assert batch[1] == s


def test_open_faces_of_many_nodes_are_told_apart_and_located():
    index = far_apart(MANY)[:, :5]
    members = torch.stack([index.T.flatten(), torch.arange(5).repeat_interleave(4)])
    s = Structure(MANY, {"{i ...}": members})
    assert s.locate("{i ...}", members).tolist() == list(range(5))
    absent = members.clone()
    absent[0, ::4] = 11
    assert s.locate("{i ...}", absent).tolist() == [-1] * 5
