"""How many variables a layer needs: as many as an entry has nodes, or a contraction has letters."""

import pytest

from incidence import EquivariantMap, explain
from incidence.algebra.products import ProductText
from incidence.algebra.variables import bound_in_words, num_variables


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (" -> ", 0),
        ("i -> ", 1),
        ("i, {i j} -> i", 2),
        ("i j -> i j", 2),
        ("{i j} {i k} -> i", 3),
        ("(i j k) -> i j", 3),
        ("u:user m:movie -> u:user", 2),
        ("{i ...} -> i", None),
    ],
)
def test_a_map_needs_as_many_as_its_largest_entries_have_nodes(text, number):
    assert num_variables(EquivariantMap(text)) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("i j, j k -> i k", 3),
        ("i j, j k, k l -> i l", 3),
        ("{i j}, {j k}, {k l}, {l i} -> i", 3),
        ("i j, i k, i l, j k, j l, k l -> i", 4),
        ("i, j -> ", 1),
        ("i, j -> i j", 2),
        ("{i a}, {i b}, {i c}, {i d}, {i e}, {i f}, {i g} -> i", 2),
    ],
)
def test_a_product_needs_as_many_as_its_best_contraction_has_letters_at_once(text, number):
    assert num_variables(ProductText(text)) == number


def test_the_bound_names_the_test_of_that_many_variables():
    assert bound_in_words(None) == bound_in_words(0) == ""
    assert "equal features" in bound_in_words(1)
    assert "colour refinement (1-WL)" in bound_in_words(2)
    assert "folklore 2-WL" in bound_in_words(3)


def test_an_explanation_ends_with_the_bound():
    map_of_edges, products = explain("i, {i j} -> i"), explain("i j * i j -> i j")
    assert "colour\nrefinement (1-WL)" in str(map_of_edges).split("\n\n")[-1]
    assert map_of_edges.data()["num_variables"] == 2
    assert "folklore\n2-WL" in str(products).split("\n\n")[-1]
    assert products.data()["num_variables"] == 3
    assert "variables" not in str(explain("{i ...} -> i"))
