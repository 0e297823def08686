"""On sparse structures a layer gives what its definition says, entry by entry: values and
gradients, ties included.
"""

import pytest
import torch

from tests.nn.definition import by_definition
from tests.nn.sparse_maps import (
    ALL,
    EVERY,
    IDS,
    features_for,
    gradients,
    layer_for,
    outputs,
    structure_for,
)


def assert_as_defined(
    text: str,
    max_overlap: int,
    aggr: str | list[str],
    num_nodes: int,
    seed: int,
    is_whole: bool = False,
) -> None:
    layer = layer_for(text, max_overlap, aggr)
    structure = structure_for(layer.map, num_nodes, seed, draws=3 * num_nodes)
    x = {
        key: value.requires_grad_()
        for key, value in features_for(layer.map, structure, seed, is_whole=is_whole).items()
    }
    found, expected = outputs(layer(x, structure)), by_definition(layer, x, structure)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    leaves = [*x.values(), *layer.parameters()]
    for one, other in zip(gradients(found, leaves), gradients(expected, leaves), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("text", "max_overlap"), ALL, ids=IDS)
@pytest.mark.parametrize("num_nodes", [1, 5])
def test_a_layer_is_what_its_definition_says(text, max_overlap, num_nodes):
    assert_as_defined(text, max_overlap, EVERY, num_nodes, seed=num_nodes)


@pytest.mark.parametrize("aggr", EVERY)
@pytest.mark.parametrize(
    ("text", "max_overlap"),
    [ALL[k] for k in (1, 5, 10, 15, 20, 31)],
    ids=[IDS[k] for k in (1, 5, 10, 15, 20, 31)],
)
def test_every_aggregation_on_its_own_is_what_its_definition_says(text, max_overlap, aggr):
    assert_as_defined(text, max_overlap, aggr, 4, seed=7)


@pytest.mark.parametrize(("text", "max_overlap"), ALL, ids=IDS)
def test_values_and_gradients_at_ties_are_what_the_definition_says(text, max_overlap):
    """Ties of max and min share the gradient equally; the spread of equal values has gradient 0."""
    assert_as_defined(text, max_overlap, ["max", "min", "std"], 4, seed=3, is_whole=True)


@pytest.mark.parametrize(
    "text",
    ["(i j) -> (i j)", "(i j k) -> (i j k)", "i {i j} -> i {i j}", "(i j) (j k) -> (i j) (j k)"],
)
@pytest.mark.parametrize("seed", range(4))
def test_supports_need_not_be_closed_under_reordering_of_nodes(text, seed):
    layer = layer_for(text)
    # some pairs and triples with all their orders, some not
    structure = structure_for(layer.map, 4, seed, draws=12)
    x = features_for(layer.map, structure)
    torch.testing.assert_close(
        layer(x, structure), by_definition(layer, x, structure)[0], rtol=1e-10, atol=1e-10
    )
