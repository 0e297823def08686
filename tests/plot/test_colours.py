"""Pictures of what networks tell apart: one colour on paper for each colour of entries."""

import pytest

import incidence as inc
from tests.expressive.graphs import as_edges, as_matrix, cycle

EDGES = "i, {i j} -> i, {i j}"
PATH = [{1}, {0, 2}, {1, 3}, {2, 4}, {3}]


def fills(picture):
    return [mark.style.fill for mark in picture.scene.of("node")]


def same(values):
    return [values.index(value) for value in values]


def test_nodes_of_one_colour_are_drawn_in_one_colour():
    e = inc.expressivity(EDGES, [as_edges(PATH), as_edges(cycle(3))])
    assert same(fills(inc.plot.colours(e))) == same(e.colours["i"].tolist())


def test_the_colours_after_a_layer_are_drawn():
    e = inc.expressivity(EDGES, as_edges(PATH))
    assert len(set(fills(inc.plot.colours(e, layer=0)))) == 1
    assert len(set(fills(inc.plot.colours(e, layer=1)))) == 2
    assert "after 1 layers" in inc.plot.colours(e, layer=1)._repr_svg_()


def test_layers_that_are_not_there_are_refused():
    e = inc.expressivity(EDGES, as_edges(PATH))
    with pytest.raises(inc.IncidenceError, match=f"after 0 to {e.rounds} layers; got 9"):
        inc.plot.colours(e, layer=9)


def test_tensors_that_are_not_drawn_are_refused():
    e = inc.expressivity("i j -> i j", as_matrix(cycle(3)))
    with pytest.raises(inc.IncidenceError, match=r"has colours of `i j`"):
        inc.plot.colours(e)
