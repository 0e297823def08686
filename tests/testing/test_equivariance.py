"""`assert_equivariant` lets equivariant modules pass, finds broken ones, and says what broke."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import incidence as inc
from incidence.errors import IncidenceError
from incidence.nn import Linear
from incidence.structure import Structure, collate
from incidence.testing import assert_equivariant, random_features

EDGES = torch.tensor([[0, 1, 2, 4, 3], [1, 2, 3, 0, 1]])


def graph() -> Structure:
    return Structure(6, {"(i j)": EDGES})


def batch() -> Structure:
    return collate([graph(), Structure(3, {"(i j)": EDGES[:, :2]}), Structure(0, {"(i j)": []})])


def nodes(structure: Structure) -> Tensor:
    return torch.randn(structure.num_entries("i"), 2, generator=torch.Generator().manual_seed(0))


def edges(structure: Structure) -> Tensor:
    return torch.randn(
        structure.num_entries("(i j)"), 2, generator=torch.Generator().manual_seed(1)
    )


STRUCTURES = pytest.mark.parametrize(
    "structure", [graph(), batch()], ids=["one structure", "batch"]
)


# ---- what passes


@STRUCTURES
@pytest.mark.parametrize(
    "text", ["i -> i", "i -> (i j)", "(i j) -> i", "(i j) -> (i j)", "i -> ", "(i j) -> "]
)
def test_a_layer_passes(text, structure):
    x = nodes(structure) if text.startswith("i") else edges(structure)
    assert_equivariant(Linear(text, 2, 3), x, structure)


@STRUCTURES
def test_a_layer_between_collections_passes(structure):
    assert_equivariant(
        Linear("i, (i j), -> , (i j), i", 2, 3),
        {"i": nodes(structure), "(i j)": edges(structure), "": inc.ones(structure, "", 2)},
        structure,
    )


def test_named_tensors_and_sorts_pass():
    structure = Structure(
        {"user": 3, "movie": 2}, {"rates=u:user m:movie": torch.tensor([[0, 1, 2], [1, 1, 0]])}
    )
    layer = Linear("rates=u:user m:movie, u:user -> rates=u:user m:movie, m:movie", 2, 2)
    assert_equivariant(layer, {"rates": torch.randn(3, 2), "u:user": torch.randn(3, 2)}, structure)


def test_named_nodes_and_scalars_without_index_pass():
    layer = Linear("one=i, two=i, state= -> one=i, state=", 2, 2)
    structure = Structure(4)
    assert_equivariant(
        layer,
        {"one": torch.randn(4, 2), "two": torch.randn(4, 2), "state": torch.randn(1, 2)},
        structure,
    )


def test_nodes_with_an_index_pass():
    structure = Structure(5, {"i": torch.tensor([[4, 1, 2]])})
    assert_equivariant(Linear("i -> i", 2, 2), torch.randn(3, 2), structure)


def test_open_faces_pass():
    structure = Structure(5, {"{i ...}": torch.tensor([[0, 1, 2, 2, 3, 4], [0, 0, 0, 1, 1, 2]])})
    assert_equivariant(
        Linear("{i ...} -> i, {i ...}", 2, 2, max_overlap=2), torch.randn(3, 2), structure
    )


@STRUCTURES
def test_any_function_of_features_and_structure_passes_if_it_is_equivariant(structure):
    def neighbours(x: Tensor, s: Structure) -> Tensor:
        i, j = s["(i j)"]
        return torch.zeros_like(x).index_add(0, j, x[i])

    assert_equivariant(neighbours, nodes(structure), structure, inputs="i")
    assert_equivariant(
        lambda x, s: x[s["(i j)"][0]], nodes(structure), structure, inputs="i", outputs="(i j)"
    )
    assert_equivariant(
        lambda x, s: {"i": x["i"], "(i j)": x["(i j)"] + 1},
        {"i": nodes(structure), "(i j)": edges(structure)},
        structure,
    )


def test_an_output_without_channels_passes():
    assert_equivariant(lambda x, s: x.sum(1), nodes(graph()), graph(), inputs="i")


def test_nan_in_the_same_places_passes():
    x = nodes(graph())
    x[3] = float("nan")
    assert_equivariant(lambda x, s: x, x, graph(), inputs="i")


# ---- what fails


def adds_positions(x: Tensor, s: Structure) -> Tensor:
    return x + torch.arange(len(x))[:, None]


def flattens(x: Tensor, s: Structure) -> Tensor:
    return x.flatten().cumsum(0).view_as(x)


def sorts(x: Tensor, s: Structure) -> Tensor:
    return x.sort(dim=0)[0]


def shifts(x: Tensor, s: Structure) -> Tensor:
    return x.roll(1, 0)


def draws(x: Tensor, s: Structure) -> Tensor:
    return x + torch.randn_like(x)


def has_a_favourite_node(x: Tensor, s: Structure) -> Tensor:
    return x - x[:1]


BROKEN_ON_NODES = [adds_positions, flattens, sorts, shifts, has_a_favourite_node]


def uses_node_numbers(x: Tensor, s: Structure) -> Tensor:
    return x * s["(i j)"][0][:, None]


def uses_the_order_of_entries(x: Tensor, s: Structure) -> Tensor:
    return x.cumsum(0)


def compares_node_numbers(x: Tensor, s: Structure) -> Tensor:
    i, j = s["(i j)"]
    return x * (i < j)[:, None]


BROKEN_ON_EDGES = [
    uses_node_numbers,
    uses_the_order_of_entries,
    compares_node_numbers,
    adds_positions,
]


@STRUCTURES
@pytest.mark.parametrize("broken", BROKEN_ON_NODES)
def test_what_depends_on_the_numbers_of_nodes_is_found(broken, structure):
    with pytest.raises(
        AssertionError,
        match=r"not equivariant \(relabelling \d\): the output `i` differs on \d+ of \d+ entries",
    ):
        assert_equivariant(broken, nodes(structure), structure, inputs="i")


@STRUCTURES
@pytest.mark.parametrize("broken", BROKEN_ON_EDGES)
def test_what_depends_on_the_numbers_or_the_order_of_entries_is_found(broken, structure):
    with pytest.raises(AssertionError, match=r"not equivariant .* the output `\(i j\)` differs"):
        assert_equivariant(broken, edges(structure), structure, inputs="(i j)")


def message(broken: Callable[..., Any], x: Any, **options: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_equivariant(broken, x, graph(), **options)
    return str(caught.value)


def test_the_message_says_how_much_where_and_what_to_look_for():
    def breaks_one_channel(x: Tensor, s: Structure) -> Tensor:
        return torch.stack([x[:, 0], torch.arange(len(x)).float()], dim=1)

    said = message(breaks_one_channel, nodes(graph()), inputs="i")
    place = re.search(r"most at \((\d), (\d)\): (-?\d+) was expected and (-?\d+) came", said)
    assert place is not None
    assert place[2] == "1"
    assert abs(int(place[3]) - int(place[4])) >= 3
    assert place[4] == place[1]  # what came is the position
    for word in ("positions", "sorting", "flattening", "random numbers"):
        assert word in said


def test_the_output_of_a_dict_that_broke_is_named():
    said = message(
        lambda x, s: {"i": x["i"], "(i j)": adds_positions(x["(i j)"], s)},
        {"i": nodes(graph()), "(i j)": edges(graph())},
    )
    assert "the output `(i j)` differs" in said


def test_the_number_of_bad_entries_is_counted():
    said = message(
        lambda x, s: x * torch.tensor([2.0, 1, 1, 1, 1, 1])[:, None], nodes(graph()), inputs="i"
    )
    assert "differs on 2 of 6 entries" in said


def test_an_invariant_that_is_none_is_found():
    said = message(lambda x, s: x[:1], nodes(graph()), inputs="i", outputs="")
    assert "the output differs on 1 of 1 entries" in said


def test_nan_that_moves_is_found():
    def poison(x: Tensor, s: Structure) -> Tensor:
        return x.index_fill(0, torch.tensor([2]), float("nan"))

    assert "not equivariant" in message(poison, nodes(graph()), inputs="i")


def test_infinity_that_moves_is_found():
    def overflow(x: Tensor, s: Structure) -> Tensor:
        return x.index_fill(0, torch.tensor([2]), float("inf"))

    assert "not equivariant" in message(overflow, nodes(graph()), inputs="i")


def test_an_output_whose_shape_changes_is_found():
    with pytest.raises(
        AssertionError,
        match=r"relabelling \d\): the output changes its shape: from \[\d, 2\] to \[\d, 2\]",
    ):
        assert_equivariant(
            lambda x, s: torch.ones(1 + int(s["(i j)"][0, 0]), 2),
            nodes(graph()),
            graph(),
            inputs="i",
            outputs="",
        )


def test_a_layer_with_a_broken_activation_is_found():
    layer = Linear("i -> i", 2, 2)

    class Broken(torch.nn.Module):
        map = layer.map

        def forward(self, x: Tensor, structure: Structure) -> Tensor:
            return adds_positions(layer(x, structure), structure)

    assert "the output `i` differs" in message(Broken(), nodes(graph()))


# ---- the same entries in other letter orders


def sends_the_first_to_the_second(x: Tensor, s: Structure) -> Tensor:
    e = s["{i j}"]
    return torch.zeros_like(x).index_add(0, e[1], x[e[0]])


def sends_the_first_row_of_a_symmetric_matrix(x: Tensor, s: Structure) -> Tensor:
    e = s["[i j]"]
    return torch.zeros_like(x).index_add(0, e[1], x[e[0]])


def sends_edges_to_the_node_called_i(x: Tensor, s: Structure) -> Tensor:
    return torch.zeros(s.num_nodes, x.shape[1]).index_add(0, s["{i j} {i k}"][0], x)


def mixed() -> Structure:
    pairs = [[0, 1, 0, 2, 3], [1, 2, 0, 0, 3]]
    # the second and the third are equal edges
    meetings = [[1, 0, 2, 0], [0, 1, 3, 3], [2, 1, 3, 1]]
    return Structure(4, {"{i j}": [[0, 1, 3], [1, 2, 2]], "[i j]": pairs, "{i j} {i k}": meetings})


@pytest.mark.parametrize(
    "structure", [mixed(), collate([mixed(), mixed()])], ids=["one structure", "batch"]
)
@pytest.mark.parametrize(
    ("broken", "inputs"),
    [
        (sends_the_first_to_the_second, "i"),
        (sends_the_first_row_of_a_symmetric_matrix, "i"),
        (sends_edges_to_the_node_called_i, "{i j} {i k}"),
    ],
)
def test_what_reads_the_letter_order_of_an_unordered_face_is_found(broken, inputs, structure):
    x = torch.randn(structure.num_entries(inputs), 2, generator=torch.Generator().manual_seed(0))
    with pytest.raises(
        AssertionError,
        match=(
            "the same entries written in another letter order give another result: the output `i`"
            " differs"
        ),
    ):
        assert_equivariant(broken, x, structure, inputs=inputs, outputs="i")


@pytest.mark.parametrize(
    "text",
    [
        "i -> i",
        "{i j} -> i",
        "[i j] -> {i j}",
        "{i j} {i k} -> {i j} {i k}",
        "i, {i j} {i k} -> i, [i j]",
    ],
)
def test_layers_give_the_same_in_every_letter_order(text):
    structure = mixed()
    generator = torch.Generator().manual_seed(0)
    x = random_features(text.split(" -> ")[0], structure, 2, generator=generator)
    assert_equivariant(Linear(text, 2, 2, dtype=torch.float64), x, structure)


def test_what_treats_the_letters_alike_passes():
    def both_ways(x: Tensor, s: Structure) -> Tensor:
        return sends_the_first_to_the_second(x, s) + torch.zeros_like(x).index_add(
            0, s["{i j}"][0], x[s["{i j}"][1]]
        )

    x = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    assert_equivariant(both_ways, x, mixed(), inputs="i")


def test_a_single_edge_is_enough_to_find_it():
    structure = Structure(2, {"{i j}": [[0], [1]]})
    with pytest.raises(
        AssertionError, match=r"\(rewriting 0\): the same entries written in another letter order"
    ):
        assert_equivariant(
            sends_the_first_to_the_second,
            torch.tensor([[1.0], [2.0]]),
            structure,
            inputs="i",
            trials=1,
        )


# ---- how it is asked


def test_the_relabellings_are_the_same_for_the_same_seed():
    said = [message(draws_nothing, nodes(graph()), inputs="i", seed=seed) for seed in (3, 3)]
    assert said[0] == said[1]


def draws_nothing(x: Tensor, s: Structure) -> Tensor:
    return x * torch.arange(1.0, len(x) + 1)[:, None]


def test_small_differences_are_let_pass_as_told():
    def rounds(x: Tensor, s: Structure) -> Tensor:
        return x + 1e-4 * torch.arange(len(x))[:, None]

    assert_equivariant(rounds, nodes(graph()), graph(), inputs="i", atol=1e-2)
    assert "not equivariant" in message(rounds, nodes(graph()), inputs="i", atol=1e-6)


def test_a_test_has_at_least_one_trial():
    with pytest.raises(
        IncidenceError, match="trials is a number of relabellings, at least 1; got 0"
    ):
        assert_equivariant(adds_positions, nodes(graph()), graph(), inputs="i", trials=0)


def test_a_random_module_is_told_from_one_that_is_not_equivariant():
    with pytest.raises(AssertionError, match=r"even without relabelling: call \.eval\(\)"):
        assert_equivariant(draws, nodes(graph()), graph(), inputs="i")


def test_infinite_values_that_change_are_found():
    def sometimes(x: Tensor, s: Structure) -> Tensor:
        return torch.where(torch.arange(len(x))[:, None] == 0, float("inf"), x)

    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(sometimes, nodes(graph()), graph(), inputs="i")


def test_an_output_of_other_rows_names_the_patterns_that_have_as_many():
    s = Structure(4, {"{i j}": [[0, 1, 2], [1, 2, 3]]})

    def at_nodes(x: Tensor, s: Structure) -> Tensor:
        one, other = s["{i j}"]
        return torch.zeros(4, 2).index_add(0, one, x).index_add(0, other, x)

    with pytest.raises(IncidenceError, match=r"the output: outputs='i' has 4 rows here, and"):
        assert_equivariant(at_nodes, torch.randn(3, 2), s, inputs="{i j}")
    assert_equivariant(at_nodes, torch.randn(3, 2), s, inputs="{i j}", outputs="i")


def test_an_output_of_other_rows_asks_for_its_pattern():
    with pytest.raises(IncidenceError, match="for one row per structure it is outputs=''"):
        assert_equivariant(lambda x, s: x.sum(0, keepdim=True), nodes(graph()), graph(), inputs="i")
    with pytest.raises(
        IncidenceError, match="a module returns a tensor or a dict of tensors; got tuple"
    ):
        assert_equivariant(lambda x, s: (x, x), nodes(graph()), graph(), inputs="i")
