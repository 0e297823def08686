"""Diffusion: means over the other nodes of every entry, against their definition; equivariant, with exact gradients."""

import pytest
import torch

import incidence as inc
from incidence.errors import IncidenceError
from incidence.nn import Diffusion
from incidence.testing import assert_equivariant
from tests.structure.listing import entries_of
from tests.structure.random_structures import random_structure

SORTS = "u:user, m:movie, {u:user v:user}, u:user m:movie"
SIDES = ["i, {i j}", "i, (i j), {i j k}", "i, {i ...}", "i, i j", "u:user, m:movie, u:user m:movie", SORTS]


def features(structure, text, channels=3):
    generator = torch.Generator().manual_seed(0)
    return {
        key.strip(): torch.randn(structure.num_entries(key.strip()), channels, generator=generator, dtype=torch.float64)
        for key in text.split(",")
    }


def by_definition(x, structure, text):
    """Half of every node, and half of the mean over its entries of the mean of their other nodes."""
    keys = [key.strip() for key in text.split(",")]
    nodes = {p.sorts[p.letters[0]]: key for key in keys for p in [inc.Pattern(key)] if len(p.letters) == 1 and not p.is_open}
    sets = [{node for face in entry for node in face} for key in keys if key not in nodes.values() for entry in entries_of(structure, key)]
    result = dict(x)
    for sort, key in nodes.items():
        rows = []
        for number, own in enumerate(x[key]):
            others = [one - {(sort, number)} for one in sets if (sort, number) in one and len(one) > 1]
            around = [torch.stack([x[nodes[s]][v] for s, v in one]).mean(0) for one in others]
            rows.append((own + torch.stack(around).mean(0)) / 2 if around else own)
        result[key] = torch.stack(rows)
    return result


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


def test_it_respects_relabelling_and_batches():
    text = SORTS
    structure = random_structure(5, [key.strip() for key in text.split(",")], 3)
    assert_equivariant(Diffusion(text, 2), features(structure, text), structure)


@pytest.mark.parametrize("text", ["i, {i j}", "i, {i ...}"])
def test_gradients_are_those_of_the_matrix(text):
    structure = random_structure(4, ["i", text.partition(", ")[2]], 1)
    x = features(structure, text, 2)
    links = x.pop(text.partition(", ")[2])
    module = Diffusion(text, 2)

    def step(nodes):
        return module({"i": nodes, text.partition(", ")[2]: links}, structure)["i"]

    nodes = x["i"].requires_grad_()
    assert torch.autograd.gradcheck(step, [nodes])
    assert torch.autograd.gradgradcheck(step, [nodes])


def test_sorts_that_nothing_joins_are_left_alone():
    structure = inc.Structure({"a": 2, "node": 3, "z": 1}, {"{i j}": [[0], [1]]})
    found = Diffusion("i, {i j}")({"i": torch.tensor([[0.0], [4.0], [8.0]]), "{i j}": torch.ones(1, 1)}, structure)
    assert found["i"].flatten().tolist() == [2, 2, 8]


@pytest.mark.parametrize(
    ("text", "problem"),
    [("i", "nothing that joins nodes"), ("{i j}", "no nodes of sort `node`"), ("u:user, u:user m:movie", "no nodes of sort `movie`")],
)
def test_what_cannot_diffuse_is_refused(text, problem):
    with pytest.raises(IncidenceError, match=f"diffusion is along entries between nodes, and `{text}` has {problem}: add it"):
        Diffusion(text)
