"""Multilinear maps: the table of docs/math.md section 17, texts, words, and what is refused."""

import json
import pickle
import re
from itertools import permutations, product
from pathlib import Path

import pytest

from incidence.algebra import MultilinearMap, Pattern, explain
from incidence.algebra.counting import ProductCount, bell, count_products
from incidence.algebra.describe import read_product
from incidence.algebra.explain import ProductExplanation
from incidence.algebra.multilinear import is_entrywise
from incidence.algebra.products import ProductText, needs_join
from incidence.cli import main
from incidence.errors import IncidenceError, PatternError

MATH = (Path(__file__).parents[2] / "docs" / "math.md").read_text(encoding="utf-8")
TABLE = re.findall(
    r"^\| (`.*`) → (`.*`) \| (\d+) \| (\d+).* \| (\d+).* \|$",
    MATH[MATH.index("## 17.") :],
    flags=re.MULTILINE,
)


@pytest.mark.parametrize("row", TABLE, ids=[f"{row[0]} -> {row[1]}" for row in TABLE])
def test_the_numbers_of_products_are_those_of_the_page(row):
    operands, output, *counts = row
    text = f"{operands.replace(', ', ' * ')} -> {output}".replace("`", "")
    assert count_products(text) == ProductCount(*map(int, counts))
    assert len(MultilinearMap(text).products) == int(counts[0])


def test_the_table_of_the_page_is_found():
    assert len(TABLE) == 9


def entries(pattern: str, n: int) -> list[tuple]:
    """All entries of a pattern of plain letters, or of one face, on n nodes."""
    p = Pattern(pattern)
    if all(len(face.letters) == 1 for face in p.faces):
        return list(product(range(n), repeat=len(p.letters)))
    [face] = p.faces
    tuples = permutations(range(n), len(face.letters))
    return (
        list(tuples) if face.kind.is_ordered else sorted({frozenset(t) for t in tuples}, key=sorted)
    )


@pytest.mark.parametrize(
    "text",
    ["i * i -> i", "i j * i -> i", "(i j) * i -> (i j)", "{i j} * {i j} -> i", "{i j} * (i j) -> "],
)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_there_are_as_many_products_as_orbits_of_tuples_of_entries(text, n):
    m = MultilinearMap(text)
    moves = list(permutations(range(n)))

    def moved(entry: tuple | frozenset, g: tuple[int, ...]) -> tuple[int, ...]:
        nodes = tuple(g[v] for v in entry)
        return tuple(sorted(nodes)) if isinstance(entry, frozenset) else nodes

    orbits = {
        min(tuple(moved(e, g) for e in tuples) for g in moves)
        for tuples in product(
            *(entries(str(p), n) if p.faces else [()] for p in (*m.operands, m.output))
        )
    }
    assert m.dimension_at(n) == len(orbits)


def test_products_of_matrices_are_counted_by_bell_numbers():
    assert [MultilinearMap(" * ".join(["i j"] * n) + " -> i j").dimension for n in (1, 2, 3)] == [
        bell(4),
        bell(6),
        bell(8),
    ]


def test_the_eight_products_that_need_a_join_are_those_of_matrices_and_transposes():
    found = [p for p in MultilinearMap("i j * i j -> i j").products if needs_join(p)]
    assert len(found) == 8
    assert set(found) == {
        ProductText(f"{x}, {y} -> {z}")
        for x in ("i j", "j i")
        for y in ("j k", "k j")
        for z in ("i k", "k i")
    }
    assert all(not is_entrywise(p) and len(p.letters) == 3 and len(p.summed) == 1 for p in found)


def test_commas_do_as_well_and_letters_of_different_tensors_are_unrelated():
    assert (
        MultilinearMap("i j, a b -> c c2")
        == MultilinearMap("i j * i j -> i j")
        == pickle.loads(pickle.dumps(MultilinearMap("i j*i j->i j")))
    )
    assert MultilinearMap("i j * i j -> i j") != MultilinearMap("i j * i j -> (i j)")
    assert len({MultilinearMap("i * j -> k"), MultilinearMap("i * i -> i")}) == 1
    assert repr(MultilinearMap("i*i->")) == "MultilinearMap('i * i -> ')"
    assert MultilinearMap("i -> i").dimension == 2


def test_names_and_sorts_are_kept():
    m = MultilinearMap("bond={i j} * bond={i j} * u:user -> u:user")
    assert m.inputs == (Pattern("bond={i j}"), Pattern("u:user"))
    assert str(m.products[0]) == "bond={i j}, bond={i j}, k:user -> k:user"
    assert m.enough_nodes == {"node": 4, "user": 2}
    assert (m.dimension, m.dimension_at({"node": 2, "user": 1})) == (6, 1)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (3, PatternError, "a multilinear map is written as text, not as int"),
        ("i * j", PatternError, "needs an arrow"),
        ("i * i, j -> i", PatternError, r"a comma beside `\*`"),
        ("i * i -> i, i", PatternError, "a second output"),
        ("i * i -> i * i", PatternError, "a second output"),
        ("i * {i j -> i", PatternError, r"i \* {i j -> i\n    \^ this `{` is never closed"),
        ("{i ...} * i -> i", IncidenceError, "an open face, whose members are no letters"),
        ("[i j] * i -> i", IncidenceError, "a symmetric face, in which a node may stand twice"),
    ],
)
def test_what_is_no_multilinear_map_is_refused(text, error, message):
    with pytest.raises(error, match=message):
        MultilinearMap(text)


def test_numbers_of_nodes_are_given_for_every_sort():
    with pytest.raises(
        IncidenceError,
        match=r"give a number of nodes for each sort of .*, which are: a, node; got {'a': 2}",
    ):
        MultilinearMap("i * u:a -> i").dimension_at({"a": 2})


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("i j, j k -> i k", "y[i k] = sum_j x1[i j] x2[j k]: sum over j; by a join"),
        ("i, i -> i", "y[i] = x1[i] x2[i]: entry by entry"),
        ("i -> j", "y[j] = sum_i x1[i]: sum over i; copy along j"),
    ],
)
def test_a_product_reads_as_a_formula_and_words(text, reading):
    assert str(read_product(ProductText(text))) == reading


def test_products_are_explained_at_the_door_and_on_the_command_line(capsys):
    told = explain("i j * i j -> i j", nodes=[2, 6])
    assert str(told).startswith(
        "i j * i j -> i j\n203 products, for 6 nodes or more.\n78 of them sum over a node that two"
        " operands share;"
    )
    assert "1 of them sums over a node" in str(ProductExplanation(MultilinearMap("i * i -> i")))
    assert "8 need a join.\nExact dimension: 32 at 2 nodes; 203 at 6 nodes." in str(told)
    assert "... and 143 more (text(show_all=True) shows them)." in str(told)
    assert "... and" not in told.text(show_all=True)
    assert max(map(len, told.text(show_all=True).splitlines())) <= 80
    assert "<code>y[i i] = x1[i i] x2[i i]</code>" in told._repr_html_()
    assert main(["explain", "i * u:a -> i", "--nodes", "node=3,a=1", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["dimension"], data["dimension_at"], data["is_complete"]) == (
        2,
        [{"num_nodes": {"node": 3, "a": 1}, "dimension": 2}],
        True,
    )
    assert data["products"][0]["formula"] == "y[i] = sum_j x1[i] x2[j:a]"
    assert (
        str(explain(MultilinearMap("i * i -> "))).splitlines()[1]
        == "2 products, for 2 nodes or more."
    )


def test_a_product_that_is_too_long_for_a_line_goes_on_below_its_formula():
    lines = str(explain("{i j k} * {i j k} -> {i j k}")).splitlines()
    place = next(k for k, line in enumerate(lines) if line.startswith("   12  "))
    assert lines[place].endswith("x2[{i j k}]: sum over i, j; copy along")
    assert lines[place + 1] == "         l, m"


@pytest.mark.parametrize(
    ("text", "place"),
    [("i * j -> i, j", 10), ("i * j -> i,", 10), ("i * j -> i*", 10), ("i * j -> i * j, k", 11)],
)
def test_a_second_output_is_shown_where_it_begins(text, place):
    with pytest.raises(PatternError, match="a second output") as caught:
        MultilinearMap(text)
    assert caught.value.position == place
