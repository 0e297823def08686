"""The compiled engine for small structures: the values and gradients of the engine in torch, for every map; and what happens without it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from incidence.algebra import Operation
from incidence.kernels import native
from incidence.kernels.aggregate import AGGREGATIONS, Mean, register_aggregation
from incidence.nn import Linear
from incidence.structure import Structure, collate
from tests.nn.sparse_maps import (
    ALL,
    IDS,
    features_for,
    gradients,
    outputs,
    parts_for,
    structure_for,
)

needs_compiler = pytest.mark.skipif(
    native.library() is None, reason="there is no C compiler here, so nothing is compiled"
)


def far_by_mean(operation: Operation) -> str:
    return "sum" if any(map(any, operation.overlap)) else "mean"


BY_NAME = {"sum": "sum", "mean": "mean", "by operation": far_by_mean}


def run(layer: Linear, structure: Structure) -> list[torch.Tensor]:
    x = {
        key: v.float().requires_grad_()
        for key, v in features_for(layer.map, structure, channels=3).items()
    }
    ys = outputs(layer(x, structure))
    return [*ys, *gradients(ys, [*x.values(), *layer.parameters()])]


def made(text: str, max_overlap: int, aggr: object, bias: bool, out: int = 35) -> Linear:
    """More channels than are added up at once, and not a multiple of them."""
    torch.manual_seed(0)
    layer = Linear(text, 3, out, aggr=aggr, max_overlap=max_overlap, bias=bias)
    for parameter in layer.parameters():
        parameter.data.normal_()
    return layer


@needs_compiler
@pytest.mark.parametrize("aggr", BY_NAME)
@pytest.mark.parametrize(
    ("text", "max_overlap"), [*ALL, ("{i j} {k l} -> {i j} {k l}", 1)], ids=[*IDS, "{i j} {k l}"]
)
def test_the_compiled_engine_gives_what_the_engine_in_torch_gives(
    text, max_overlap, aggr, monkeypatch
):
    layer = made(text, max_overlap, BY_NAME[aggr], bias=aggr != "mean")
    structures = [
        lambda: structure_for(layer.map, 5, seed=2, draws=20),
        lambda: collate(parts_for(layer.map)),
        lambda: structure_for(layer.map, 0),
    ]
    found = [run(layer, make()) for make in structures]
    [program] = [layer._program(s) for s in [structures[1]()]]
    assert native.native_layer(program, [torch.zeros(1, 3)], layer._weights()) is not None
    monkeypatch.setattr(native, "library", lambda: None)
    for ours, make in zip(found, structures, strict=True):
        for one, other in zip(ours, run(layer, make()), strict=True):
            torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-4)


@needs_compiler
@pytest.mark.parametrize("text", ["(i j) -> (i j)", "{i j} {k l} -> {i j} {k l}"])
def test_complete_structures_where_every_entry_has_partners_too(text, monkeypatch):
    layer = made(text, 1, "sum", bias=True)
    found = run(layer, Structure.complete(5, [text.split(" -> ")[0]]))
    monkeypatch.setattr(native, "library", lambda: None)
    for one, other in zip(
        found, run(layer, Structure.complete(5, [text.split(" -> ")[0]])), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-4)


@needs_compiler
def test_inputs_that_need_no_gradient_and_views_of_features_are_fine():
    layer = made("i, (i j) -> (i j), i", 1, "sum", bias=True, out=4)
    structure = structure_for(layer.map, 6, draws=20)
    x = {key: v.float() for key, v in features_for(layer.map, structure, channels=3).items()}
    expected = outputs(layer(x, structure))
    wide = {
        key: torch.cat([v, v], 1)[:, :3] for key, v in x.items()
    }  # rows that are not one after the other
    for one, other in zip(outputs(layer(wide, structure)), expected, strict=True):
        assert torch.equal(one, other)
    grads = gradients(expected, list(layer.parameters()))
    again = gradients(
        outputs(layer({key: v.requires_grad_() for key, v in x.items()}, structure)),
        list(layer.parameters()),
    )
    for one, other in zip(grads, again, strict=True):
        torch.testing.assert_close(one, other)


@needs_compiler
def test_outputs_may_be_changed_in_place_and_do_not_change_each_other():
    layer = made("i, (i j) -> i, (i j)", 1, "sum", bias=True, out=4)
    structure = structure_for(layer.map, 6, draws=20)
    y = layer(
        {key: v.float() for key, v in features_for(layer.map, structure, channels=3).items()},
        structure,
    )
    before = y["(i j)"].clone()
    y["i"].relu_()
    assert torch.equal(y["(i j)"], before)
    y["i"].sum().backward()
    assert layer.bias_0.grad.isfinite().all()


@needs_compiler
def test_second_derivatives_are_those_of_torch(monkeypatch):
    layer, structure = (
        made("(i j) -> i", 1, "sum", bias=True, out=2),
        Structure(4, {"(i j)": [[0, 1, 2, 1], [1, 0, 3, 3]]}),
    )

    def second() -> torch.Tensor:
        x = torch.linspace(-1, 1, 12).view(4, 3).requires_grad_()
        [grad] = torch.autograd.grad(layer(x, structure).square().sum(), x, create_graph=True)
        [found] = torch.autograd.grad(grad.square().sum(), x)
        return found

    found = second()
    monkeypatch.setattr(native, "library", lambda: None)
    structure = Structure(4, {"(i j)": structure["(i j)"]})
    torch.testing.assert_close(found, second())


@needs_compiler
@pytest.mark.parametrize(
    ("text", "keeps"),
    [
        ("i, {i j} -> i", lambda o: o.source.tensor == 1),
        ("i, {i j} -> i, {i j}", lambda o: (o.source.tensor, o.target.tensor) != (0, 0)),
        (" , i -> i", lambda o: any(map(any, o.overlap))),
    ],
    ids=["nothing from nodes", "not from nodes to nodes", "no pooling over structures"],
)
def test_a_weight_without_operations_leaves_the_gradients_of_the_others_right(
    text, keeps, monkeypatch
):
    torch.manual_seed(0)
    layer = Linear(text, 3, 4, operations=keeps)
    assert any(weight.numel() == 0 for weight in layer._weights())
    found = run(layer, structure_for(layer.map, 5, seed=2, draws=20))
    monkeypatch.setattr(native, "library", lambda: None)
    for one, other in zip(
        found, run(layer, structure_for(layer.map, 5, seed=2, draws=20)), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-4)


@needs_compiler
def test_sums_over_many_rows_keep_their_digits():
    layer = Linear("i -> ", 1, 1, aggr="mean", bias=False)
    layer.weight.data.fill_(1.0)
    for count in (8_000, 200_000, 600_000):  # by the compiled engine, and by torch
        assert layer(torch.full((count, 1), 0.1), Structure(count)).item() == pytest.approx(
            0.1, rel=1e-5 if count > 8_000 else 1e-4
        )


@needs_compiler
def test_two_means_are_left_to_torch():
    register_aggregation("another_mean", Mean())
    try:
        layer, structure = (
            Linear("{i j} -> i", 2, 2, aggr=["mean", "another_mean"]),
            Structure(3, {"{i j}": [[0, 1], [1, 2]]}),
        )
        assert (
            native.native_layer(layer._program(structure), [torch.zeros(2, 2)], layer._weights())
            is None
        )
    finally:
        del AGGREGATIONS["another_mean"]


@needs_compiler
def test_large_structures_other_types_and_other_statistics_are_left_to_torch():
    structure = Structure(4)

    def takes(layer: Linear, x: torch.Tensor, s: Structure) -> bool:
        return native.native_layer(layer._program(s), [x], layer._weights()) is not None

    assert takes(Linear("i -> i", 2, 2), torch.zeros(4, 2), structure)
    assert not takes(
        Linear("i -> i", 2, 2, dtype=torch.float64),
        torch.zeros(4, 2, dtype=torch.float64),
        structure,
    )
    assert not takes(Linear("i -> i", 2, 2, aggr="max"), torch.zeros(4, 2), structure)
    assert not takes(Linear("i -> i", 2, 2, aggr=["sum", "mean"]), torch.zeros(4, 2), structure)
    assert not takes(Linear("i -> i", 2, 2), torch.zeros(1 << 19, 2), Structure(1 << 19))


SCRIPT = """
import torch, incidence as inc
from incidence.kernels import native
from incidence.kernels.aggregate import AGGREGATIONS, Mean, register_aggregation
layer = inc.nn.Linear("i -> i", 2, 2)
y = layer(torch.ones(3, 2), inc.Structure(3))
print(native.library() is not None, y.isfinite().all().item())
"""


def told(**environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr
    return done.stdout.strip()


@needs_compiler
def test_it_is_compiled_once_into_the_cache_and_can_be_switched_off(tmp_path: Path):
    assert told(XDG_CACHE_HOME=str(tmp_path)) == "True True"
    [made_once] = (tmp_path / "incidence").iterdir()
    before = made_once.stat().st_mtime_ns
    assert told(XDG_CACHE_HOME=str(tmp_path)) == "True True"
    assert made_once.stat().st_mtime_ns == before
    assert told(XDG_CACHE_HOME=str(tmp_path), INCIDENCE_NATIVE="0") == "False True"


def test_without_a_compiler_or_a_folder_to_write_to_torch_does_it(tmp_path: Path):
    assert told(PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path)) == "False True"
    file = tmp_path / "file"
    file.write_text("")
    assert told(XDG_CACHE_HOME=str(file)) == "False True"


def test_without_a_home_folder_torch_does_it(monkeypatch):
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    assert native.library.__wrapped__() is None
