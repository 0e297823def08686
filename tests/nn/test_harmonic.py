"""`Harmonic` against its definition by pseudo-inverses; equivariant, with exact gradients, in
batches and alone.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

import incidence as inc
from incidence.errors import IncidenceError
from incidence.harmonic import least_squares
from incidence.nn import Activation, Gate, Harmonic, Linear, Residual, Sequential
from incidence.structure import Structure, collate
from incidence.structure.collate import pack
from incidence.testing import assert_equivariant
from tests.nn.complexes import random_complexes, torus

TEXTS = ("i", "<i j>", "<i j k>")
WAYS = ("auto", "dense", "gradients")


def matrix_of(s: Structure, text: str, weights: Tensor | None = None) -> Tensor:
    """The projection by pseudo-inverses of dense matrices."""
    ranked = inc.geometry.faces(s)
    rank = len(inc.Pattern(text).letters) - 1
    below = ranked.boundary_matrix(rank).to_dense()
    above = ranked.boundary_matrix(rank + 1).to_dense()
    w = torch.ones(len(above), dtype=torch.float64) if weights is None else weights
    adjoint_below, adjoint_above = below.T / w[:, None], above.T * w
    part = torch.eye(len(w), dtype=torch.float64)
    part = part - adjoint_below @ torch.linalg.pinv(below @ adjoint_below) @ below
    return part - above @ torch.linalg.pinv(adjoint_above @ above) @ adjoint_above


def values(s: Structure, text: str, channels: int = 3, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    size = s.num_entries(text), channels
    return torch.randn(size, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", TEXTS)
def test_it_is_the_projection_by_pseudo_inverses_on_50_random_complexes(text, way):
    layer = Harmonic(text, way)
    for s in random_complexes():
        x = values(s, text)
        torch.testing.assert_close(layer(x, s), matrix_of(s, text) @ x, rtol=0, atol=1e-9)


@pytest.mark.parametrize("text", TEXTS)
def test_with_weights_adjoints_are_those_of_the_inner_product(text):
    for number, s in enumerate(random_complexes()):
        x = values(s, text)
        weights = values(s, text, 1, seed=number).abs()[:, 0] + 0.1
        expected = matrix_of(s, text, weights) @ x
        torch.testing.assert_close(
            Harmonic(text)(x, s, weights=weights), expected, rtol=0, atol=1e-8
        )


def test_with_weights_it_is_orthogonal_for_their_inner_product():
    s = torus(4, 5)
    x, y = values(s, "<i j>"), values(s, "<i j>", seed=1)
    weights = values(s, "<i j>", 1, seed=2).abs() + 0.1
    left = (weights * Harmonic("<i j>")(x, s, weights=weights) * y).sum()
    right = (weights * x * Harmonic("<i j>")(y, s, weights=weights)).sum()
    torch.testing.assert_close(left, right)


@pytest.mark.parametrize("text", TEXTS)
def test_its_trace_is_the_betti_number(text):
    rank = len(inc.Pattern(text).letters) - 1
    for s in random_complexes()[:20]:
        eye = torch.eye(s.num_entries(text), dtype=torch.float64)
        if len(eye):
            trace = float(Harmonic(text)(eye, s).trace())
            assert trace == pytest.approx(inc.geometry.hodge(s, rank).betti, abs=1e-9)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", TEXTS)
def test_a_batch_equals_the_loop_over_its_structures(text, way):
    complexes = [*random_complexes()[:20], torus(12, 11), Structure(0, _none()), torus(3, 4)]
    batch = collate(complexes)
    x = values(batch, text)
    parts = x.split(batch.entry_ptr(text).diff().tolist())
    loop = [Harmonic(text, way)(part, s) for part, s in zip(parts, complexes, strict=True)]
    torch.testing.assert_close(Harmonic(text, way)(x, batch), torch.cat(loop), rtol=0, atol=1e-9)


def _none() -> dict[str, list[list[int]]]:
    return {"<i j>": [[]] * 2, "<i j k>": [[]] * 3, "<i j k l>": [[]] * 4}


def test_a_packed_data_set_gives_the_bases_of_its_batches():
    complexes = [*random_complexes()[:12], torus(3, 4), torus(12, 11)]
    packed = pack(complexes)
    chosen = [packed[k] for k in (3, 12, 0, 7, 13)]
    batch = collate(chosen)
    x = values(batch, "<i j>")
    parts = x.split(batch.entry_ptr("<i j>").diff().tolist())
    loop = [Harmonic("<i j>", "dense")(part, s) for part, s in zip(parts, chosen, strict=True)]
    torch.testing.assert_close(Harmonic("<i j>")(x, batch), torch.cat(loop), rtol=0, atol=1e-9)


@pytest.mark.parametrize("text", TEXTS)
def test_large_structures_with_few_harmonic_tensors_equal_the_dense_way(text):
    s = torus(14, 13)
    x = values(s, text)
    dense = Harmonic(text, "dense")(x, s)
    for way in ("auto", "gradients"):
        torch.testing.assert_close(Harmonic(text, way)(x, s), dense, rtol=0, atol=1e-9)
    assert Harmonic(text).plan(s).widths.tolist() == [{"i": 1, "<i j>": 2, "<i j k>": 1}[text]]


def test_a_large_graph_with_many_cycles_is_solved_in_every_call():
    generator = torch.Generator().manual_seed(1)
    pairs = torch.randint(0, 300, (2, 500), generator=generator)
    pairs = pairs[:, pairs[0] != pairs[1]]
    s = inc.geometry.simplicial_complex(pairs, 300, max_size=3, oriented=True)
    plan = Harmonic("<i j>").plan(s)
    assert "rows to be solved" in repr(plan)
    sides = [[0, 1], [1, 2], [0, 2]]
    both = collate([s, inc.geometry.simplicial_complex(sides, max_size=3, oriented=True)])
    x = values(both, "<i j>")
    torch.testing.assert_close(
        Harmonic("<i j>")(x, both), Harmonic("<i j>", "dense")(x, both), rtol=0, atol=1e-9
    )


def test_a_large_complex_whose_sides_lie_in_many_faces_gets_a_basis_by_its_rank():
    # all triangles on 14 nodes but those at one edge: a ball with a cut
    triples = [t for t in itertools.combinations(range(14), 3) if not {0, 1} <= set(t)]
    s = inc.geometry.simplicial_complex(triples, max_size=4, oriented=True)
    assert s.num_entries("<i j k>") > 256
    for text in ("<i j>", "<i j k>"):
        x = values(s, text)
        dense = Harmonic(text, "dense")(x, s)
        torch.testing.assert_close(Harmonic(text)(x, s), dense, rtol=0, atol=1e-9)


@pytest.mark.parametrize("way", WAYS)
def test_gradients_of_first_and_second_order_are_exact(way):
    s = torus(3, 3)
    layer = Harmonic("<i j>", way)
    x = values(s, "<i j>", 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: layer(v, s), x)
    assert torch.autograd.gradgradcheck(lambda v: layer(v, s) ** 3, x)


def test_gradients_with_weights_are_exact():
    s = random_complexes()[3]
    layer, x = Harmonic("<i j>"), values(s, "<i j>", 2).requires_grad_()
    weights = values(s, "<i j>", 1, seed=1).abs() + 0.1
    assert torch.autograd.gradcheck(lambda v: layer(v, s, weights=weights), x)
    assert torch.autograd.gradgradcheck(lambda v: layer(v, s, weights=weights) ** 3, x)


def test_the_gradient_is_the_same_projection():
    s = torus(4, 5)
    x, upstream = values(s, "<i j>").requires_grad_(), values(s, "<i j>", seed=1)
    Harmonic("<i j>")(x, s).backward(upstream)
    torch.testing.assert_close(x.grad, Harmonic("<i j>")(upstream, s))


@pytest.mark.parametrize("text", TEXTS)
def test_it_is_equivariant_under_relabelling_and_reversal(text):
    for s in (*random_complexes()[:4], torus(3, 4), collate(random_complexes()[:3])):
        if s.num_entries(text):
            assert_equivariant(Harmonic(text), values(s, text), s)


def test_applied_twice_it_changes_nothing_more():
    s = torus(4, 5)
    once = Harmonic("<i j>")(values(s, "<i j>"), s)
    torch.testing.assert_close(Harmonic("<i j>")(once, s), once)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("way", WAYS)
def test_structures_without_nodes_or_faces_are_fine(text, way):
    nodes = Structure(3, _none())
    assert Harmonic(text, way)(values(nodes, text), nodes).shape == (nodes.num_entries(text), 3)
    nothing = Structure(0, _none())
    assert Harmonic(text, way)(values(nothing, text), nothing).shape == (0, 3)
    both = collate([nothing, nodes])
    x = values(both, text)
    torch.testing.assert_close(Harmonic(text, way)(x, both), x)  # lone nodes, if any


def test_a_node_without_edges_keeps_its_value_and_others_get_the_mean_of_their_part():
    s = Structure(4, {"<i j>": [[0], [2]]})
    y = Harmonic("i")(torch.tensor([[1.0], [5.0], [3.0], [7.0]]), s)
    assert y.flatten().tolist() == pytest.approx([2.0, 5.0, 2.0, 7.0])


def test_faces_above_may_be_listed_without_orientation_or_be_absent():
    oriented = inc.geometry.simplicial_complex([[0, 1, 2], [0, 2, 3], [1, 3]], oriented=True)
    x = values(oriented, "<i j>")
    plain = Structure(4, {"<i j>": oriented["<i j>"], "{i j k}": oriented["<i j k>"]})
    torch.testing.assert_close(
        Harmonic("<i j>")(x, plain), Harmonic("<i j>")(x, oriented), rtol=0, atol=1e-12
    )
    graph = Structure(4, {"<i j>": oriented["<i j>"]})
    empty = Structure(4, {"<i j>": oriented["<i j>"], "<i j k>": [[], [], []]})
    torch.testing.assert_close(Harmonic("<i j>")(x, graph), Harmonic("<i j>")(x, empty))


def test_tensors_with_names_and_other_sorts_are_found():
    s = inc.geometry.simplicial_complex([[0, 1, 2], [0, 2, 3], [1, 3]], oriented=True)
    x = values(s, "<i j>")
    index = {"<i:a j:a>": s["<i j>"], "<i:a j:a k:a>": s["<i j k>"]}
    sorted_s = Structure({"a": 4, "b": 2}, index)
    expected = Harmonic("<i j>")(x, s)
    torch.testing.assert_close(Harmonic("<i:a j:a>")(x, sorted_s), expected)
    named = Structure(4, {"flow=<i j>": s["<i j>"], "face={i j k}": s["<i j k>"]})
    torch.testing.assert_close(Harmonic("flow=<i j>")(x, named), expected)


def test_several_tensors_are_a_dict_and_others_pass_through():
    s = torus(3, 4)
    x = {text: values(s, text) for text in TEXTS}
    y = Harmonic("<i j>, <i j k>")(x, s)
    assert list(y) == list(x)
    assert y["i"] is x["i"]
    torch.testing.assert_close(y["<i j>"], Harmonic("<i j>")(x["<i j>"], s))
    other_letters = Harmonic("<i j>")({"<a b>": x["<i j>"]}, s)
    torch.testing.assert_close(other_letters["<a b>"], y["<i j>"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_other_types_stay_and_agree_with_double_precision(dtype):
    batch = collate([torus(3, 4), torus(12, 11)])
    x = values(batch, "<i j>").to(dtype)
    for way in WAYS:
        y = Harmonic("<i j>", way)(x, batch)
        assert y.dtype == dtype
        exact = Harmonic("<i j>")(x.double(), batch)
        tolerance = 10 * torch.finfo(dtype).eps
        torch.testing.assert_close(y.double(), exact, rtol=0, atol=tolerance)


def test_the_stated_residual_is_kept():
    s = torus(14, 13)
    x = values(s, "<i j>")
    boundary = inc.geometry.hodge(s, 1).boundary
    for residual in (1e-3, 1e-6, 1e-9):
        y = Harmonic("<i j>", "gradients", residual)(x, s)
        left = (boundary @ y).norm(dim=0) / x.norm(dim=0)
        assert bool((left <= 1.1 * residual).all())


def test_it_works_between_other_modules():
    s = torus(3, 4)
    net = Sequential(
        Linear("i, <i j> -> i, <i j>", 2, 4),
        Residual(Harmonic("<i j>")),
        Activation({"i": torch.relu, "<i j>": Gate(4)}),
        Linear("i, <i j> -> i", 4, 1),
    )
    x = {"i": torch.randn(12, 2), "<i j>": torch.randn(s.num_entries("<i j>"), 2)}
    net.plan(s)
    net(x, s).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    assert_equivariant(net.double(), {key: v.double() for key, v in x.items()}, s, outputs="i")


def test_a_function_that_is_not_odd_is_refused_after_it():
    with pytest.raises(IncidenceError, match="must be odd"):
        Sequential(Harmonic("<i j>"), torch.nn.ReLU())


def test_it_is_compiled_once_it_is_planned():
    batch = collate([torus(3, 4), torus(3, 3)])
    x = values(batch, "<i j>")
    layer = Harmonic("<i j>")
    expected = layer(x, batch)
    compiled = torch.compile(lambda v, s: layer(v, s), fullgraph=True, backend="eager")
    with pytest.raises(IncidenceError, match="plan"):
        compiled(x, collate([torus(3, 4), torus(3, 3)]))
    layer.plan(batch)
    torch.testing.assert_close(compiled(x, batch), expected)
    torch._dynamo.reset()  # else sizes are symbols now
    with pytest.raises(IncidenceError, match="a row for each entry"):
        compiled(x[:5], batch)


def test_a_plan_says_how_many_harmonic_tensors_there_are():
    plan = Harmonic("<i j>").plan(collate([torus(3, 4), torus(3, 3)]))
    assert repr(plan).startswith("HarmonicPlan(4 harmonic of 63 rows in 2 structures, memory:")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{i j}", "write `<i j>`"),
        ("(i j)", "write one face of one sort"),
        ("i j", "write one face of one sort"),
        ("i <i j>", "write one face of one sort"),
        ("{i ...}", "write one face of one sort"),
        ("<i:a j:b>", "write one face of one sort"),
    ],
)
def test_tensors_that_have_no_harmonic_part_are_refused(text, message):
    with pytest.raises(IncidenceError, match=message):
        Harmonic(text)


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(IncidenceError, match="way is one of auto, dense, gradients; got 'fast'"):
        Harmonic("<i j>", way="fast")
    with pytest.raises(IncidenceError, match="residual is a number between 0 and 1; got 2"):
        Harmonic("<i j>", residual=2)


def test_a_structure_without_the_sides_of_its_faces_is_refused_with_what_to_add():
    triangles = Structure(4, {"<i j k>": [[0, 0], [1, 2], [2, 3]]})
    with pytest.raises(IncidenceError, match=r"needs its sides, the tensor `<i j>`.*with_index"):
        Harmonic("<i j k>")(torch.ones(2, 1), triangles)
    open_ = Structure(3, {"<i j>": [[0, 1], [1, 2]], "<i j k>": [[2], [1], [0]]})
    message = r"face \(0, 1, 2\) of `<i j k>` has the side \(0, 2\), which `<i j>` lacks"
    with pytest.raises(IncidenceError, match=message):
        Harmonic("<i j k>")(torch.ones(1, 1), open_)
    with pytest.raises(IncidenceError, match=message):
        Harmonic("<i j>")(torch.ones(2, 1), open_)


def test_two_named_tensors_of_one_size_are_refused():
    index = {"<i j>": [[0, 1, 0], [1, 2, 2]], "up={i j k}": [[0], [1], [2]]}
    s = Structure(3, {**index, "top={i j k}": [[0], [1], [2]]})
    with pytest.raises(IncidenceError, match=r"`up={i j k}` and `top={i j k}` both list"):
        Harmonic("<i j>")(torch.ones(3, 1), s)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (torch.ones(3), r"one number for each of 27 entries; got \[3\]"),
        ([1.0] * 27, "got list"),
        (-torch.ones(27), "positive and finite"),
        (torch.full((27,), torch.nan), "positive and finite"),
        (torch.ones(27).requires_grad_(), r"no gradient for them. Pass weights.detach\(\)"),
    ],
)
def test_weights_that_are_no_inner_product_are_refused(weights, message):
    s = torus(3, 3)
    with pytest.raises(IncidenceError, match=message):
        Harmonic("<i j>")(torch.ones(27, 1), s, weights=weights)


def test_weights_of_several_tensors_are_a_dict():
    s = torus(3, 3)
    x = {text: values(s, text) for text in ("<i j>", "<i j k>")}
    both = {text: values(s, text, 1).abs() + 1 for text in x}
    y = Harmonic("<i j>, <i j k>")(x, s, weights=both)
    alone = Harmonic("<i j k>")(x["<i j k>"], s, weights=both["<i j k>"])
    torch.testing.assert_close(y["<i j k>"], alone)
    with pytest.raises(IncidenceError, match="are a dict with the keys '<i j>', '<i j k>'"):
        Harmonic("<i j>, <i j k>")(x, s, weights=both["<i j>"])


def test_a_solution_that_is_not_found_is_an_error(monkeypatch):
    monkeypatch.setattr(least_squares, "_MOST_STEPS", 2)
    s = torus(5, 5)
    with pytest.raises(IncidenceError, match="75 values was not found within 2 steps"):
        Harmonic("<i j>", "gradients")(values(s, "<i j>"), s)


def test_features_that_do_not_fit_are_refused():
    s = torus(3, 3)
    with pytest.raises(IncidenceError, match="must have 27 rows"):
        Harmonic("<i j>")(torch.ones(5, 1), s)
    with pytest.raises(IncidenceError, match="floating type"):
        Harmonic("<i j>")(torch.ones(27, 1, dtype=torch.long), s)
    with pytest.raises(IncidenceError, match="no index for `<i j>`"):
        Harmonic("<i j>")(torch.ones(27, 1), Structure(3))
