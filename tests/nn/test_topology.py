"""What networks read of holes: ranks are Betti numbers, whatever the triangulation; features where
the holes are do not depend on the numbering or the draw.
"""

from __future__ import annotations

import itertools

import pytest
import torch

import incidence as inc
from incidence.errors import IncidenceError
from incidence.geometry import subdivide
from incidence.harmonic.spans import _noise, harmonic_span
from incidence.nn import Harmonic, HarmonicRanks, HarmonicReadout, HarmonicTerm
from incidence.structure import Structure, collate
from incidence.testing import assert_equivariant
from tests.nn.complexes import random_complexes, torus

SETS = "i, {i j}, {i j k}"
FLOWS = "i, <i j>, <i j k>"


def plain(s: Structure) -> Structure:
    """The same faces without orientation."""
    return Structure(s.num_nodes, {"{i j}": s["<i j>"], "{i j k}": s["<i j k>"]})


def features(s: Structure, text: str, channels: int = 3, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    keys = [key.strip() for key in text.split(",")]
    return {
        key: torch.randn(s.num_entries(key), channels, generator=generator, dtype=torch.double)
        for key in keys
    }


def ranks(s: Structure, columns: int = 12) -> list[int]:
    flags = HarmonicRanks(SETS, columns)(features(s, SETS), s)
    return flags.view(-1, 3, columns).sum(2).long().tolist()[0]


def betti(s: Structure) -> list[int]:
    return [inc.geometry.hodge(s, rank).betti for rank in range(3)]


def test_ranks_are_betti_numbers_of_random_complexes():
    for s in map(plain, random_complexes()):
        expected = [min(12, number) for number in betti(s)]
        assert ranks(s) == expected


KINDS = {"sphere": (1, 0, 1), "torus": (1, 2, 1), "klein": (1, 1, 0), "projective": (1, 0, 0)}


def surface(name: str) -> Structure:
    if name == "torus":
        return plain(torus(3, 4))
    if name == "sphere":
        facets = list(itertools.combinations(range(4), 3))
    elif name == "projective":
        facets = [
            *((0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5), (0, 1, 5)),
            *((1, 2, 4), (2, 3, 5), (1, 3, 4), (2, 4, 5), (1, 3, 5)),
        ]
    else:  # squares cut in two, with one pair of sides glued the other way round

        def node(row, column):
            column, turns = column % 4, column // 4
            return (-row if turns % 2 else row) % 4 * 4 + column

        facets = []
        for row, column in itertools.product(range(4), range(4)):
            corner = node(row + 1, column), node(row, column + 1)
            facets += [(node(row, column), *corner), (node(row + 1, column + 1), *corner)]
    return inc.geometry.simplicial_complex([list(f) for f in facets], max_size=3)


@pytest.mark.parametrize("how", ["barycentric", "stellar", "edge"])
@pytest.mark.parametrize("name", KINDS)
def test_ranks_of_a_surface_stay_when_it_is_refined(name, how):
    s = surface(name)
    assert ranks(s) == list(KINDS[name])
    for _ in range(2):
        s = subdivide(s, how)
        assert ranks(s) == list(KINDS[name])


def test_ranks_of_a_batch_are_those_of_its_structures_bit_by_bit():
    structures = [surface(name) for name in KINDS] + list(map(plain, random_complexes()[:8]))
    batch = collate(structures)
    span = harmonic_span(batch, inc.Pattern("{i j}"), 12, 0)
    alone = [harmonic_span(s, inc.Pattern("{i j}"), 12, 0) for s in structures]
    assert torch.equal(span.ranks, torch.cat([one.ranks for one in alone]))
    torch.testing.assert_close(span.mass, torch.cat([one.mass for one in alone]))
    noise = torch.cat([_noise(s, inc.Pattern("{i j}"), 12, 0) for s in structures])
    assert torch.equal(_noise(batch, inc.Pattern("{i j}"), 12, 0), noise)


def test_the_mass_is_the_diagonal_of_the_projection_whatever_the_draw():
    for s in (torus(3, 4), *random_complexes()[:10]):
        eye = torch.eye(s.num_entries("<i j>"), dtype=torch.double)
        diagonal = Harmonic("<i j>")(eye, s).diagonal()
        for seed in (0, 1):
            span = harmonic_span(plain(s), inc.Pattern("{i j}"), 40, seed)
            torch.testing.assert_close(span.mass, diagonal, rtol=0, atol=1e-9)


def test_more_holes_than_columns_count_as_so_many():
    s = Structure(9, {"{i j}": [[0, 0, 1, 3, 3, 4, 6, 6, 7], [1, 2, 2, 4, 5, 5, 7, 8, 8]]})
    flags = HarmonicRanks("i, {i j}", 2)({}, s)
    assert flags.tolist() == [[1, 1, 1, 1]]
    span = harmonic_span(s, inc.Pattern("{i j}"), 2, 0)
    assert float(span.mass.sum()) == pytest.approx(2)


@pytest.mark.parametrize("text", [SETS, FLOWS])
def test_readouts_and_terms_respect_relabelling_and_reversal(text):
    structures = [torus(3, 4), *random_complexes()[:3]]
    batch = collate([plain(s) if text == SETS else s for s in structures])
    x = features(batch, text)
    assert_equivariant(HarmonicReadout(text, 3, 40).double(), x, batch, outputs="")
    assert_equivariant(HarmonicRanks(text, 40), x, batch, outputs="")
    assert_equivariant(HarmonicTerm(text, 3, 40).double(), x, batch, outputs=text)


def test_means_over_holes_are_those_with_the_weights_of_the_definition():
    s = torus(3, 4)
    x = features(plain(s), SETS)
    readout = HarmonicReadout(SETS, 3, 12, products=0).double()
    y = readout(x, plain(s))[0].view(3, 3)
    for row, (key, text) in zip(
        y, [("i", "i"), ("{i j}", "<i j>"), ("{i j k}", "<i j k>")], strict=True
    ):
        count = len(x[key])
        mass = Harmonic(text)(torch.eye(count, dtype=torch.double), s).diagonal()
        torch.testing.assert_close(row, (mass / mass.sum()) @ x[key])


def test_shares_of_products_are_those_of_the_definition():
    s = torus(3, 4)
    readout = HarmonicReadout("i, <i j>, <i j k>", 3, 12, products=2).double()
    x = features(s, FLOWS)
    y = readout(x, s)[0, -4:]
    for number, text in enumerate(("<i j>", "<i j k>")):
        size = len(inc.Pattern(text).letters)
        own = readout.maps[number](x["i"]).view(-1, 2, size)
        matrix = own[s[text].T].transpose(1, 2)  # (faces, products, nodes, size)
        product = torch.linalg.det(matrix)
        part = Harmonic(text)(product, s)
        expected = part.square().sum(0) / product.square().sum(0)
        torch.testing.assert_close(y[2 * number : 2 * number + 2], expected)


def test_shares_of_flows_are_between_none_and_all():
    s = torus(3, 4)
    flow = features(s, FLOWS)
    harmonic = Harmonic("<i j>")(flow["<i j>"], s)
    readout = HarmonicReadout("<i j>", 3, 12)
    torch.testing.assert_close(readout(harmonic, s), torch.ones(1, 3, dtype=torch.double))
    rest = flow["<i j>"] - harmonic
    torch.testing.assert_close(readout(rest, s), torch.zeros(1, 3, dtype=torch.double))
    assert not readout(torch.zeros_like(rest), s).any()


@pytest.mark.parametrize("text", [SETS, FLOWS])
def test_gradients_are_exact(text):
    s = torus(3, 3) if text == FLOWS else plain(torus(3, 3))
    values = tuple(x.requires_grad_() for x in features(s, text, 2).values())
    readout = HarmonicReadout(text, 2, 4).double()
    term = HarmonicTerm(text, 2, 4).double()
    keys = text.split(", ")

    def applied(*own):
        x = dict(zip(keys, own, strict=True))
        return readout(x, s), *term(x, s).values()

    assert torch.autograd.gradcheck(applied, values)


def test_constant_features_of_a_surface_give_the_same_when_it_is_refined():
    readout = HarmonicReadout(SETS, 1, 12).double()
    s = surface("torus")
    fine = subdivide(s, "barycentric")
    one, other = (
        readout({k: torch.ones(t.num_entries(k), 1).double() for k in SETS.split(", ")}, t)
        for t in (s, fine)
    )
    torch.testing.assert_close(one, other)


def test_a_term_adds_to_oriented_tensors_alone_if_it_is_for_flows():
    s = torus(3, 4)
    x = features(s, FLOWS)
    y = HarmonicTerm(FLOWS, 3, 4, is_flow=True).double()(x, s)
    assert y["i"] is x["i"]
    assert not torch.equal(y["<i j>"], x["<i j>"])


def test_what_has_no_holes_is_refused():
    with pytest.raises(IncidenceError, match=r"such as `{i j}`; got `i j`"):
        HarmonicRanks("i j", 4)
    with pytest.raises(IncidenceError, match="at least 1; got 0"):
        HarmonicRanks("{i j}", 0)
    triangles = Structure(4, {"{i j k}": [[0, 0], [1, 2], [2, 3]]})
    with pytest.raises(IncidenceError, match=r"needs its sides, the tensor `<i j>`"):
        HarmonicRanks("{i j k}", 4).plan(triangles)
    with pytest.raises(IncidenceError, match=r"needs its sides"):
        HarmonicTerm("{i j k}", 2, 4).plan(triangles)


@pytest.mark.parametrize(
    "make",
    [
        lambda: HarmonicRanks(SETS, 4),
        lambda: HarmonicReadout(SETS, 2, 4),
        lambda: HarmonicTerm(SETS, 2, 4),
    ],
)
def test_graphs_that_are_recorded_say_that_holes_cannot_be(make):
    s = plain(torus(3, 3))
    layer = make()
    x = {key: value.float() for key, value in features(s, SETS, 2).items()}
    compiled = torch.compile(lambda v, t: layer(v, t), backend="eager")
    with pytest.raises(IncidenceError, match=r"call the network outside of torch\.compile"):
        compiled(x, s)


def test_layers_print_their_tensors():
    assert repr(HarmonicRanks(SETS, 4)) == "HarmonicRanks('i, {i j}, {i j k}', columns=4)"


@pytest.mark.parametrize("name", KINDS)
def test_ranks_of_large_surfaces_whose_degrees_differ_much_are_betti_numbers(name):
    # every round doubles the degrees of all old nodes
    s = subdivide(surface(name), "stellar", 4)
    assert s.num_entries("{i j}") > 256
    assert ranks(s) == list(KINDS[name])
