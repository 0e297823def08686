"""Explanations: right, readable at 80 columns, and bounded."""

import json
import re
from importlib import import_module

import pytest

from incidence.algebra import EquivariantMap, explain, read
from incidence.errors import IncidenceError

MODULE = import_module("incidence.algebra.explain")  # whose name is that of the function too


def formulas(text: str) -> list[str]:
    return [read(operation).formula for operation in EquivariantMap(text).operations]


def test_the_fifteen_operations_on_a_matrix_read_as_sums_and_copies():
    assert formulas("i j -> i j") == [
        "y[a a] = sum_i x[i i]",
        "y[i i] = x[i i]",
        "y[a b] = sum_i x[i i]",
        "y[a i] = x[i i]",
        "y[i a] = x[i i]",
        "y[a a] = sum_i,j x[i j]",
        "y[j j] = sum_i x[i j]",
        "y[i i] = sum_j x[i j]",
        "y[a b] = sum_i,j x[i j]",
        "y[a j] = sum_i x[i j]",
        "y[j a] = sum_i x[i j]",
        "y[a i] = sum_j x[i j]",
        "y[j i] = x[i j]",
        "y[i a] = sum_j x[i j]",
        "y[i j] = x[i j]",
    ]


def test_words_say_what_is_summed_matched_copied_and_chosen():
    assert [read(o).words for o in EquivariantMap("{i j} -> {i j k}").operations] == [
        "sum over all i, j; copy along a, b, c",
        "sum over j; match i; copy along a, b; add up the three choices of i",
        "match i, j; copy along a; add up the three choices of i, j",
    ]
    assert [read(o).words for o in EquivariantMap(" -> ").operations] == ["take the value"]


def test_an_operation_prints_as_its_formula_and_words():
    operation = EquivariantMap("{i j} -> {i j k}").operations[1]
    assert (
        str(operation)
        == "y[{i a b}] = sum_j x[{i j}]: sum over j; match i; copy along a, b; add up the three"
        " choices of i"
    )
    assert repr(operation) == f"<Operation {operation}>"


@pytest.mark.parametrize(
    "text",
    ["i j -> i j k", "u {u w ...} -> {u ...}", "{i j} {i k} -> [i j k]", "i i {i j} -> (i j) i"],
)
def test_formulas_name_matched_nodes_alike_and_tell_operations_apart(text):
    m = EquivariantMap(text, max_overlap=2)
    shown = [(o.source.orbit, o.target.orbit, read(o).formula) for o in m.operations]
    assert len({(str(s), str(t), f) for s, t, f in shown}) == m.dimension
    for operation in m.operations:
        left, right = read(operation).formula.split(" = ")
        nodes = [set(re.findall(r"[a-z]\d*", side[side.index("[") :])) for side in (left, right)]
        assert len(nodes[0] & nodes[1]) == sum(map(sum, operation.overlap))


@pytest.mark.parametrize(
    "text",
    [
        "i j k l -> i j k l",
        "alpha={i j k l m}, beta=(i j k l m) -> gamma={i j} {j k} {k l} {l m}",
        "{user_one:customer movie_2:customer} -> ".replace("user_one", "u").replace("movie_2", "v"),
        ", ".join(f"tensor_number_{n}={{i j k}}" for n in range(20)) + " -> i",
        pytest.param(
            "{a b c d e f g h} {i j k l m n o p} -> (" + " ".join(f"i{n}" for n in range(30)) + ")",
            marks=pytest.mark.exhaustive,  # it takes seconds
        ),
        "{i j k l m n o p ...} {q r ...} -> {i ...}",
    ],
)
@pytest.mark.parametrize("show_all", [False, True])
def test_explanations_fit_80_columns(text, show_all):
    lines = explain(text).text(show_all=show_all).split("\n")
    assert max(map(len, lines)) <= 80


def test_long_lists_are_cut_with_a_count_unless_all_is_asked_for():
    explanation = explain("i j k -> i j k")
    assert "... and 143 operations more (text(show_all=True) shows them)." in str(explanation)
    assert "  202  " in explanation.text(show_all=True)
    assert "more" not in explanation.text(show_all=True).split("\n")[-1]


def test_a_map_too_large_to_list_is_counted_and_says_so():
    text = str(explain("a b c d e f g h -> a b c d e f g h"))
    assert "10,480,142,147 operations and 4,140 biases" in text
    assert "   59  y[" in text
    assert "... and 10,480,142,087 operations more (too many to list)." in text


def test_totals_biases_and_the_papers_count_are_given():
    text = str(explain("i j -> i j k", nodes=[3, 4]))
    assert "52 operations and 5 biases, for 5 nodes or more." in text
    assert "The paper's formula gives 52 too." in text
    assert "Exact dimension: 41 at 3 nodes; 51 at 4 nodes." in text
    assert "not exact here: reordering identifies" in " ".join(
        str(explain("{i j} {k l} -> i")).split()
    )


def test_one_node_is_no_bound_and_columns_are_as_wide_as_their_words():
    assert str(explain("i -> ")).splitlines()[1] == "1 operation and 1 bias."
    assert str(explain("i -> i")).splitlines()[4:6] == [
        "from  to  operations",
        "i     i            2",
    ]


def test_data_is_complete_and_plain():
    data = json.loads(
        json.dumps(explain("i:a {i:a j:a}, bond={i:a j:a} -> i:a", nodes=[{"a": 2}]).data())
    )
    assert data["dimension"] == sum(len(b["operations"]) for b in data["blocks"]) == 5
    assert data["inputs"][1] == {
        "pattern": "{i:a j:a}",
        "name": "bond",
        "num_orbits": 1,
        "orbits": [
            {
                "text": "{i j}",
                "size": 2,
                "symmetry": 2,
                "classes": [{"sort": "a", "size": 2, "faces": [[0, -1]], "is_odd": False}],
            }
        ],
    }
    assert data["dimension_at"] == [{"num_nodes": {"a": 2}, "dimension": 3}]
    assert data["is_complete"]
    assert not explain("i j k -> i j k").data(show_all=False)["is_complete"]


def test_html_escapes_what_it_shows():
    html = explain("i j k -> i j k")._repr_html_()
    assert html.count("<tr>") == html.count("</tr>")
    assert "203 operations" in html
    assert "143 operations more" in html
    assert "each once" in html


def test_html_keeps_names_and_scalars_apart():
    html = explain("bond={i j}, contact={i j}, state= -> i")._repr_html_()
    for pair in ("bond={i j} -&gt; i", "contact={i j} -&gt; i", "state=(one value) -&gt; i"):
        assert pair in html


def test_a_map_or_a_text_explains_alike():
    assert str(explain(EquivariantMap("i -> i"), nodes=3)) == str(explain("i -> i", nodes=[3]))


def test_max_overlap_belongs_to_the_map():
    with pytest.raises(IncidenceError, match="max_overlap belongs to the map"):
        explain(EquivariantMap("{i ...} -> i"), max_overlap=2)


def test_words_for_open_faces_say_what_is_summed_and_where_it_goes():
    assert [read(o).words for o in EquivariantMap("i {i ...} -> i").operations] == [
        "sum over all i and all faces; copy along a",
        "sum over i and all faces that contain u; match u",
        "sum over all faces that contain i",
    ]
    assert [read(o).words for o in EquivariantMap("i -> {i ...}").operations] == [
        "sum over all i; copy to all faces",
        "match i; copy to all faces that contain i; add up all choices of i in the face",
    ]
    assert [read(o).words for o in EquivariantMap(" -> {i ...}").operations] == [
        "copy to all faces"
    ]


def test_the_formula_of_the_paper_that_is_exact_is_named():
    assert "for undirected faces gives 3 too (the general one 13)" in " ".join(
        str(explain("{i j k} -> {i j}")).split()
    )


def test_no_letter_of_the_user_is_taken_for_a_fresh_one():
    assert formulas("a b -> c") == [
        "y[b] = sum_a x[a a]",
        "y[a] = x[a a]",
        "y[c] = sum_a,b x[a b]",
        "y[b] = sum_a x[a b]",
        "y[a] = sum_b x[a b]",
    ]
    assert formulas("{u ...} u -> u")[1] == "y[u] = sum x[{u ...} u]"


def test_one_matched_node_in_open_faces_is_the_default_and_more_are_asked_for():
    assert explain("{i ...} -> {i ...}").data()["max_overlap"] == 1
    assert str(explain("{i ...} -> {i ...}")) == str(
        explain(EquivariantMap("{i ...} -> {i ...}", 1))
    )
    assert explain("{i ...} -> {i ...}", max_overlap=0).data()["dimension"] == 1
    assert explain("{i ...} -> {i ...}", max_overlap=2).data()["dimension"] == 3
    assert "at most 2 matched in open faces" in str(explain("{i ...} -> {i ...}", max_overlap=2))


def test_text_is_cut_and_data_is_whole_unless_the_other_is_asked_for():
    explanation = explain("i j k -> i j k")
    assert (
        explanation.text()
        == str(explanation)
        == explanation.text(show_all=False)
        != explanation.text(show_all=True)
    )
    assert explanation.data() == explanation.data(show_all=True) != explanation.data(show_all=False)
    assert [
        sum(len(b["operations"]) for b in explanation.data(show_all=everything)["blocks"])
        for everything in (True, False)
    ] == [203, 60]


@pytest.mark.parametrize("limit", [0, 1, 14, 15, 16])
def test_as_many_operations_are_shown_as_the_limit_says_and_the_rest_is_counted(limit, monkeypatch):
    monkeypatch.setattr(MODULE, "_MAX_SHOWN", limit)
    explanation, shown = explain("i j -> i j"), min(limit, 15)
    numbered = re.findall(r"(?m)^ +(\d+)  y\[", str(explanation))
    assert numbered == [str(n) for n in range(shown)]
    assert explanation.data(show_all=False)["is_complete"] is (limit >= 15)
    assert [
        o["number"] for b in explanation.data(show_all=False)["blocks"] for o in b["operations"]
    ] == list(range(shown))
    for told in (str(explanation), explanation._repr_html_()):
        more = re.findall(r"and (\d+) operations? more", told)
        assert more == ([str(15 - shown)] if shown < 15 else [])


@pytest.mark.parametrize("limit", [1, 3, 4, 5])
def test_as_many_pairs_of_orbits_are_shown_as_the_limit_says_and_the_rest_is_counted(
    limit, monkeypatch
):
    monkeypatch.setattr(MODULE, "_MAX_BLOCKS", limit)
    explanation, shown = explain("i j -> i j"), min(limit, 4)
    assert len(explanation.data(show_all=False)["blocks"]) == shown
    assert re.findall(r"and (\d+) pairs? of orbits more", str(explanation)) == (
        [str(4 - shown)] if shown < 4 else []
    )
    assert explanation.data(show_all=False)["is_complete"] is (limit >= 4)


@pytest.mark.parametrize(
    ("most", "told"), [(14, "too many to list"), (15, "text(show_all=True) shows them")]
)
def test_what_is_left_out_can_be_shown_up_to_what_can_be_listed(most, told, monkeypatch):
    monkeypatch.setattr(MODULE, "_MAX_SHOWN", 5)
    monkeypatch.setattr(MODULE, "MAX_LISTED", most)
    assert f"... and 10 operations more ({told})." in str(explain("i j -> i j"))
