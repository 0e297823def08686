"""What nodes take over from others, means and sums, against their definition; equivariant, with
exact gradients.
"""

import pytest
import torch

import incidence as inc
from incidence.engine.diffusion import plain_diffuse, plain_sum_around
from incidence.errors import IncidenceError
from incidence.nn import Diffusion, Neighbours
from incidence.testing import assert_equivariant
from tests.structure.listing import entries_of
from tests.structure.random_structures import random_structure

SORTS = "u:user, m:movie, {u:user v:user}, u:user m:movie"
SIDES = [
    "i, {i j}",
    "i, (i j), {i j k}",
    "i, {i ...}",
    "i, i j",
    "u:user, m:movie, u:user m:movie",
    SORTS,
]


def features(structure, text, channels=3):
    generator = torch.Generator().manual_seed(0)
    return {
        key.strip(): torch.randn(
            structure.num_entries(key.strip()), channels, generator=generator, dtype=torch.float64
        )
        for key in text.split(",")
    }


def around_nodes(x, structure, text):
    """For every node, by the key of its tensor, the means of the other nodes of its entries."""
    keys = [key.strip() for key in text.split(",")]
    nodes = {
        p.sorts[p.letters[0]]: key
        for key in keys
        for p in [inc.Pattern(key)]
        if len(p.letters) == 1 and not p.is_open
    }
    sets = [
        {node for face in entry for node in face}
        for key in keys
        if key not in nodes.values()
        for entry in entries_of(structure, key)
    ]

    def means(sort, number):
        others = [one - {(sort, number)} for one in sets if (sort, number) in one and len(one) > 1]
        return [torch.stack([x[nodes[s]][v] for s, v in one]).mean(0) for one in others]

    return {
        key: [means(sort, number) for number in range(len(x[key]))] for sort, key in nodes.items()
    }


def by_definition(x, structure, text):
    """Half of every node, and half of the mean over its entries of the mean of their other
    nodes.
    """
    found = {
        key: torch.stack(
            [
                (own + torch.stack(means).mean(0)) / 2 if means else own
                for own, means in zip(x[key], lists, strict=True)
            ]
        )
        for key, lists in around_nodes(x, structure, text).items()
    }
    return {**x, **found}


@pytest.mark.parametrize("text", SIDES)
@pytest.mark.parametrize("seed", range(2))
def test_a_step_is_the_mean_over_entries_of_the_mean_of_other_nodes(text, seed):
    structure = random_structure(5, [key.strip() for key in text.split(",")], seed)
    x = features(structure, text)
    once = by_definition(x, structure, text)
    for steps, wanted in ((1, once), (2, by_definition(once, structure, text))):
        found = Diffusion(text, steps)(x, structure)
        assert found.keys() == wanted.keys()
        for key in wanted:
            torch.testing.assert_close(found[key], wanted[key], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("text", SIDES)
@pytest.mark.parametrize("seed", range(2))
def test_neighbours_are_summed_and_divided_by_the_root_of_the_number_of_entries(text, seed):
    structure = random_structure(5, [key.strip() for key in text.split(",")], seed)
    x = features(structure, text)
    lists = around_nodes(x, structure, text)
    module = Neighbours(text)
    found = module({key: x[key] for key in lists} if len(lists) > 1 else x["i"], structure)
    found = found if len(lists) > 1 else {"i": found}
    for key, means in lists.items():
        wanted = torch.stack(
            [
                torch.stack(own).sum(0) / len(own) ** 0.5 if own else torch.zeros(3).double()
                for own in means
            ]
        )
        torch.testing.assert_close(found[key], wanted, rtol=1e-12, atol=1e-12)


def test_an_entry_of_one_node_changes_nothing_in_plain_steps_either():
    structure = inc.Structure(3, {"{i ...}": [[0, 1, 1, 2], [0, 0, 1, 2]]})  # {0 1}, {1}, {2}
    x = torch.tensor([[2.0], [4.0], [8.0]])
    module = Diffusion("i, {i ...}", 1)
    assert module({"i": x, "{i ...}": torch.zeros(3, 1)}, structure)["i"].tolist() == [
        [3.0],
        [3.0],
        [8.0],
    ]
    assert plain_diffuse(x, *module.plan(structure).tensors).tolist() == [[3.0], [3.0], [8.0]]


@pytest.mark.parametrize("text", ["i, {i j}", "i, {i ...}"])
def test_plain_sums_are_those_of_the_module(text):
    structure = random_structure(6, ["i", text.partition(", ")[2]], 2, draws=4)
    x, module = features(structure, text)["i"], Neighbours(text)
    torch.testing.assert_close(
        plain_sum_around(x, *module.plan(structure).tensors),
        module(x, structure),
        rtol=1e-12,
        atol=1e-12,
    )


def test_it_respects_relabelling_and_batches():
    structure = random_structure(5, [key.strip() for key in SORTS.split(",")], 3)
    x = features(structure, SORTS)
    assert_equivariant(Diffusion(SORTS, 2), x, structure)
    assert_equivariant(Neighbours(SORTS), {key: x[key] for key in ("u:user", "m:movie")}, structure)


@pytest.mark.parametrize("text", ["i, {i j}", "i, {i ...}"])
def test_gradients_are_those_of_the_matrix(text):
    structure = random_structure(4, ["i", text.partition(", ")[2]], 1)
    x = features(structure, text, 2)
    links = x.pop(text.partition(", ")[2])
    module = Diffusion(text, 2)

    def step(nodes):
        return module({"i": nodes, text.partition(", ")[2]: links}, structure)["i"]

    sums = Neighbours(text)
    nodes = x["i"].requires_grad_()
    for function in (step, lambda rows: sums(rows, structure)):
        assert torch.autograd.gradcheck(function, [nodes])
        assert torch.autograd.gradgradcheck(function, [nodes])


def test_sorts_that_nothing_joins_are_left_alone():
    structure = inc.Structure({"a": 2, "node": 3, "z": 1}, {"{i j}": [[0], [1]]})
    found = Diffusion("i, {i j}")(
        {"i": torch.tensor([[0.0], [4.0], [8.0]]), "{i j}": torch.ones(1, 1)}, structure
    )
    assert found["i"].flatten().tolist() == [2, 2, 8]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("i", "nothing that joins nodes"),
        ("{i j}", "no nodes of sort `node`"),
        ("u:user, u:user m:movie", "no nodes of sort `movie`"),
    ],
)
def test_what_cannot_diffuse_is_refused(text, problem):
    for module in (Diffusion, Neighbours):
        with pytest.raises(
            IncidenceError,
            match=(
                f"nodes take over what is around them along entries, and `{text}` has {problem}:"
                " add it"
            ),
        ):
            module(text)
