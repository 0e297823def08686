"""`torch.compile` and `torch.export`: one graph serves structures of any size, and gives what the
layer gives.
"""

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from incidence.errors import IncidenceError
from incidence.nn import Activation, Linear, Residual, Sequential
from incidence.structure import Structure, collate
from incidence.structure.pytree import constant_while_tracing
from tests.nn.sparse_maps import features_for, gradients, layer_for, outputs, structure_for

# inductor imports torch.jit
TORCH_ITSELF = "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"

MAPS = [
    ("i, (i j) -> i, (i j)", 1, "sum"),
    ("{i j} {i k} -> {i j}", 1, ["sum", "max", "std"]),
    ("{i ...} -> {i ...}, i", 2, "mean"),
    ("u:a m:b, u:a -> m:b", 1, "min"),
    ("i -> ", 1, "sum"),
    (" -> i j", 1, "sum"),
]


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def example(
    layer: Linear, num_nodes: int, num_structures: int = 1
) -> tuple[Tensor | dict[str, Tensor], Structure]:
    parts = [
        structure_for(layer.map, num_nodes + k, seed=num_nodes + k, draws=5 * num_nodes)
        for k in range(num_structures)
    ]
    structure = collate(parts) if num_structures > 1 else parts[0]
    layer.plan(structure)
    x = {key: v.requires_grad_() for key, v in features_for(layer.map, structure).items()}
    return x if len(x) > 1 else next(iter(x.values())), structure


def leaves(layer: torch.nn.Module, x: Tensor | dict[str, Tensor]) -> list[Tensor]:
    return [*(x.values() if isinstance(x, dict) else [x]), *layer.parameters()]


def assert_same(
    traced: torch.nn.Module,
    layer: torch.nn.Module,
    x: Tensor | dict[str, Tensor],
    structure: Structure,
) -> None:
    found, expected = outputs(traced(x, structure)), outputs(layer(x, structure))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    for one, other in zip(
        gradients(found, leaves(layer, x)), gradients(expected, leaves(layer, x)), strict=True
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.filterwarnings(TORCH_ITSELF)
def test_a_compiled_layer_gives_values_and_gradients_of_the_layer():
    layer = layer_for("i, (i j) -> i, (i j)")
    compiled = torch.compile(layer, fullgraph=True)
    for num_nodes in (5, 8, 20):
        assert_same(compiled, layer, *example(layer, num_nodes))


@pytest.mark.parametrize(("text", "max_overlap", "aggr"), MAPS, ids=[text for text, _, _ in MAPS])
def test_every_kind_of_map_compiles_to_one_graph(text, max_overlap, aggr):
    layer = layer_for(text, max_overlap, aggr, bias=aggr != "min")
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for num_nodes in (5, 8):
        assert_same(compiled, layer, *example(layer, num_nodes))


def test_sizes_that_change_do_not_compile_again_and_again():
    counter = CompileCounterWithBackend("aot_eager")
    layer = layer_for("i, (i j) -> i, (i j)")
    compiled = torch.compile(layer, fullgraph=True, backend=counter)
    for num_nodes in (5, 8, 12, 17, 23):
        assert_same(compiled, layer, *example(layer, num_nodes))
    assert counter.frame_count <= 2  # the first, and one for any size


@pytest.mark.parametrize("num_nodes", [0, 1, 2])
def test_small_structures_compile_too(num_nodes):
    layer = layer_for("i, (i j) -> i, (i j)")
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert_same(compiled, layer, *example(layer, num_nodes))


def test_batches_compile_too():
    layer = layer_for("i, (i j) -> i, ", 1, ["sum", "mean"])
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for num_nodes, num_structures in [(4, 3), (6, 2)]:
        assert_same(compiled, layer, *example(layer, num_nodes, num_structures))


def test_a_compiled_layer_takes_a_dict_of_one_tensor_as_the_layer_does():
    layer = layer_for("i -> i")
    x, structure = example(layer, 4)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled({"i": x}, structure), layer({"i": x}, structure))


def test_a_compiled_layer_takes_other_spellings_of_a_tensor_as_the_layer_does():
    layer = layer_for("i, (i j) -> i")
    x, structure = example(layer, 4)
    spelt = {"a": x["i"], "(a b)": x["(i j)"]}
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(spelt, structure), layer(spelt, structure))


def test_constants_have_the_mark_that_torch_sets():
    ours = constant_while_tracing(lambda: 1)
    theirs = torch.compiler.assume_constant_result(lambda: 1)
    assert vars(ours) == vars(theirs)


def test_a_network_compiles_with_the_modules_around_its_layers():
    text = "i, (i j) -> i, (i j)"
    first, second = layer_for(text), layer_for(text)
    network = Sequential(Residual(first, Activation()), second)
    x, structure = example(first, 6)
    second.plan(structure)
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    for one, other in zip(
        outputs(compiled(x, structure)), outputs(network(x, structure)), strict=True
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("text", "max_overlap", "aggr"), MAPS[:5], ids=[text for text, _, _ in MAPS[:5]]
)
def test_a_layer_exports_with_dynamic_sizes(text, max_overlap, aggr):
    layer = layer_for(text, max_overlap, aggr, bias=aggr != "min")
    x, structure = example(layer, 6)
    rows = [torch.export.Dim.AUTO, torch.export.Dim.STATIC]
    shapes = (dict.fromkeys(x, rows) if isinstance(x, dict) else rows, structure.dynamic_shapes())
    exported = torch.export.export(layer, (x, structure), dynamic_shapes=shapes)
    for num_nodes in (6, 9, 30):
        x, structure = example(layer, num_nodes)
        for one, other in zip(
            outputs(exported.module()(x, structure)), outputs(layer(x, structure)), strict=True
        ):
            torch.testing.assert_close(one, other)


def unplanned(layer: Linear, num_nodes: int) -> tuple[Tensor | dict[str, Tensor], Structure]:
    x, structure = example(layer, num_nodes)
    index = {str(pattern): structure[str(pattern)] for pattern in structure.patterns}
    return x, Structure(structure.num_nodes, index)


def test_the_first_call_of_a_compiled_layer_makes_the_plan_and_later_ones_are_a_graph():
    counter = CompileCounterWithBackend("eager")
    layer = layer_for("i, (i j) -> i, (i j)")
    compiled = torch.compile(layer, backend=counter)
    x, structure = unplanned(layer, 6)
    assert_same(compiled, layer, x, structure)
    assert counter.frame_count == 0  # the layer ran between two graphs, without any steps
    assert_same(compiled, layer, x, structure)
    assert counter.frame_count == 1


def test_containers_plan_at_the_first_call_and_do_not_compile_after_the_second_size():
    counter = CompileCounterWithBackend("eager")
    text = "i, (i j) -> i, (i j)"
    layer = layer_for(text)
    network = Sequential(Residual(layer, Activation()), layer_for(text))
    compiled = torch.compile(network, backend=counter)
    for num_nodes in (5, 8, 12, 17):
        x, structure = unplanned(layer, num_nodes)
        assert_same(compiled, network, x, structure)
        # a module that nothing has called before; graphs must not depend on that
        kind = type("New", (torch.nn.Module,), {"forward": lambda _, x, structure: x})
        assert Sequential(kind())(x, structure) is x
    assert counter.frame_count == 2


def test_graphs_do_not_depend_on_what_else_a_structure_caches():
    counter = CompileCounterWithBackend("eager")
    layer = layer_for("i, (i j) -> i, (i j)")
    compiled = torch.compile(layer, backend=counter)
    x, structure = example(layer, 6)
    assert_same(compiled, layer, x, structure)
    layer_for("(i j) -> i j").plan(structure.with_index({"i j": structure["(i j)"]}))
    layer_for("(i j) -> ").plan(structure)
    assert_same(compiled, layer, x, structure)
    assert counter.frame_count == 1


def test_tracing_without_a_plan_says_so():
    layer = layer_for("i, (i j) -> i, (i j)")
    (x, structure), (_, planned) = example(layer, 4), example(layer, 4)
    structure = Structure(structure.num_nodes, {"(i j)": structure["(i j)"]})
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    with pytest.raises(
        IncidenceError,
        match=r"^call layer\.plan\(structure\), or net\.plan\(structure\), before tracing",
    ):
        compiled(x, structure)
    assert_same(compiled, layer, x, planned)  # the same layer on a structure that has one
    with pytest.raises(IncidenceError, match=r"^call layer\.plan\(structure\)"):
        torch.export.export(layer, (x, structure))


def test_inputs_in_another_order_than_that_of_the_map_are_told_apart_while_compiling():
    # a text that nothing has understood before
    layer = Linear("x2, {x2 y2} -> x2, {x2 y2}", 3, 5)
    structure = Structure(4, {"{x2 y2}": [[0, 1, 2], [1, 2, 3]]})
    layer.plan(structure)
    x = {"{x2 y2}": torch.randn(3, 3), "x2": torch.randn(4, 3)}
    found = torch.compile(layer, fullgraph=True, backend="eager")(x, structure)
    expected = layer({"x2": x["x2"], "{x2 y2}": x["{x2 y2}"]}, structure)
    for key, y in expected.items():
        torch.testing.assert_close(found[key], y)
