"""Bad layers and bad features: each is refused with a sentence that says what must hold and what to
do.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import incidence as inc
from incidence.errors import IncidenceError, PatternError, TooLargeError
from incidence.nn import Activation, BatchNorm, LayerNorm, Linear, Readout, Residual, Sequential
from incidence.structure import Structure
from incidence.structure.ragged import code

EDGES = torch.tensor([[0, 1], [1, 2]])
PLAIN, BOTH = "i -> i", "i, (i j) -> i"


def graph() -> Structure:
    return Structure(4, {"(i j)": EDGES})


def x(rows: int = 4, channels: int = 2, **options: Any) -> torch.Tensor:
    return torch.zeros(rows, channels, **options)


def both(**other: Any) -> dict[str, Any]:
    return {"i": x(4), "(i j)": x(2), **other}


# what is wrong: what was called, and what is said
MAKING: dict[str, tuple[Callable[[], Any], str]] = {
    "a map that does not parse": (
        lambda: Linear("i ->", 1, 1) and Linear("i {j -> i", 1, 1),
        "this `{` is never closed",
    ),
    "a map that is no text": (
        lambda: Linear(None, 1, 1),
        "a map is written as text, not as NoneType",
    ),
    "no arrow": (lambda: Linear("i", 1, 1), "->"),
    "one tensor twice on a side": (
        lambda: Linear("i, {i j}, {a b} -> i", 1, 1),
        (
            "`{i j}` stands twice on one side of `i, {i j}, {a b} -> i`: name them, as in `one={i"
            " j}, two={i j}`"
        ),
    ),
    "the scalar twice on a side": (
        lambda: Linear("i -> ,", 1, 1),
        "`(empty)` stands twice on one side",
    ),
    "an unknown aggregation": (
        lambda: Linear(PLAIN, 1, 1, aggr="median"),
        "no aggregation 'median'; there are: sum, mean, max, min, std",
    ),
    "an unknown aggregation in a list": (
        lambda: Linear(PLAIN, 1, 1, aggr=["sum", "avg"]),
        "no aggregation 'avg'",
    ),
    "one aggregation twice": (
        lambda: Linear(PLAIN, 1, 1, aggr=["sum", "sum"]),
        "aggr is one aggregation or a list of different ones; got ['sum', 'sum']",
    ),
    "no aggregation": (
        lambda: Linear(PLAIN, 1, 1, aggr=[]),
        "aggr is one aggregation or a list of different ones; got []",
    ),
    "nothing for an aggregation": (lambda: Linear(PLAIN, 1, 1, aggr=None), "aggr"),
    "a number for an aggregation": (lambda: Linear(PLAIN, 1, 1, aggr=5), "aggr"),
    "a list in the list of aggregations": (lambda: Linear(PLAIN, 1, 1, aggr=[["sum"]]), "aggr"),
    "no channels in": (
        lambda: Linear(PLAIN, 0, 1),
        (
            "in_channels is a number of channels, at least 1, or -1 to take it from the first"
            " input; got 0"
        ),
    ),
    "negative channels in": (lambda: Linear(PLAIN, -2, 1), "in_channels is a number of channels"),
    "half a channel": (
        lambda: Linear(PLAIN, 1.5, 1),
        (
            "in_channels is a number of channels, at least 1, or -1 to take it from the first"
            " input; got 1.5"
        ),
    ),
    "no channels out": (
        lambda: Linear(PLAIN, 1, 0),
        "out_channels is a number of channels, at least 1; got 0",
    ),
    "lazy channels out": (
        lambda: Linear(PLAIN, 1, -1),
        "out_channels is a number of channels, at least 1; got -1",
    ),
    "a truth value for channels": (
        lambda: Linear(PLAIN, 1, True),
        "out_channels is a number of channels, at least 1; got True",
    ),
    "channels for a tensor that is not there": (
        lambda: Linear(PLAIN, {"i": 1, "j k": 1}, 1),
        "in_channels has no tensor 'j k'; there are: 'i'",
    ),
    "channels for a misspelt name": (
        lambda: Linear("bond={i j} -> i", {"bnod": 1}, 1),
        "in_channels has no tensor 'bnod'; there are: 'bond'. Did you mean 'bond'?",
    ),
    "a tensor without channels": (
        lambda: Linear(BOTH, {"i": 1}, 1),
        "in_channels has no value for '(i j)': give one for each tensor, or one number for all",
    ),
    "an output without channels": (
        lambda: Linear("i -> i, (i j)", 1, {"i": 1}),
        "out_channels has no value for '(i j)'",
    ),
    "a predicate that keeps nothing": (
        lambda: Linear(PLAIN, 1, 1, operations=lambda o: False),
        "operations= keeps none of the 2 operations of `i -> i`: the layer would be constant",
    ),
    "operations that rings have where they may share two nodes": (
        lambda: Linear("{i j} -> {i ...}", 1, 1, operations="boundary"),
        "It keeps some with `max_overlap=2`, which matches entries that share 2 nodes",
    ),
    "a predicate that is none": (lambda: Linear(PLAIN, 1, 1, operations=3), "operations"),
    "a negative overlap": (
        lambda: Linear("{i ...} -> i", 1, 1, max_overlap=-1),
        "max_overlap is a number of matched nodes, 0 to 64; got -1",
    ),
    "operations without end": (
        lambda: Linear("a b c d e f g h -> a b c d e f g h", 1, 1),
        "operations, more than",
    ),
}

CALLING: dict[str, tuple[Callable[[], Any], str]] = {
    "no structure": (
        lambda: Linear(PLAIN, 2, 2)(x(), None),
        "the second argument is a Structure; got NoneType. Call layer(x, structure)",
    ),
    "structure and features exchanged": (
        lambda: Linear(PLAIN, 2, 2)(graph(), x()),
        "the second argument is a Structure; got Tensor",
    ),
    "one tensor where there are two": (
        lambda: Linear(BOTH, 2, 2)(x(), graph()),
        "the input has 2 tensors: pass a dict with the keys 'i', '(i j)'; got Tensor",
    ),
    "a list where there are two": (
        lambda: Linear(BOTH, 2, 2)([x(), x(2)], graph()),
        "pass a dict with the keys 'i', '(i j)'; got list",
    ),
    "a tensor that is missing": (
        lambda: Linear(BOTH, 2, 2)({"i": x()}, graph()),
        "the input has no value for '(i j)'",
    ),
    "a tensor too many": (
        lambda: Linear(BOTH, 2, 2)(both(**{"{i j}": x()}), graph()),
        "the input has no tensor '{i j}'; there are: 'i', '(i j)'",
    ),
    "a misspelt key": (
        lambda: Linear(BOTH, 2, 2)({"i": x(), "(i j": x(2)}, graph()),
        "the input has no tensor '(i j'; there are: 'i', '(i j)'. Did you mean '(i j)'?",
    ),
    "one tensor in two spellings": (lambda: Linear(BOTH, 2, 2)(both(k=x()), graph()), "'i'"),
    "a name where there is none": (
        lambda: Linear(BOTH, 2, 2)({"i": x(), "edge=(i j)": x(2)}, graph()),
        "the input has no tensor 'edge=(i j)'",
    ),
    "an array of numpy": (
        lambda: Linear(PLAIN, 2, 2)(np.zeros((4, 2)), graph()),
        "the features of `i` must be a tensor; got ndarray",
    ),
    "a list of numbers": (
        lambda: Linear(PLAIN, 2, 2)([[0.0, 0.0]] * 4, graph()),
        "the features of `i` must be a tensor; got list",
    ),
    "integers": (
        lambda: Linear(PLAIN, 2, 2)(x(dtype=torch.long), graph()),
        "the features of `i` must be of a floating type; got int64. Convert them with `.float()`",
    ),
    "truth values": (
        lambda: Linear(PLAIN, 2, 2)(x(dtype=torch.bool), graph()),
        "must be of a floating type; got bool",
    ),
    "complex numbers": (
        lambda: Linear(PLAIN, 2, 2)(x(dtype=torch.complex64), graph()),
        "must be of a floating type; got complex64",
    ),
    "one axis": (
        lambda: Linear(PLAIN, 1, 2)(torch.zeros(4), graph()),
        (
            "the features of `i` must have shape [entries, channels]; got [4]. For one channel use"
            " x[:, None]"
        ),
    ),
    "three axes": (
        lambda: Linear(PLAIN, 2, 2)(torch.zeros(1, 4, 2), graph()),
        "must have shape [entries, channels]; got [1, 4, 2]. Batches are structures side by side",
    ),
    "a row too few": (
        lambda: Linear(PLAIN, 2, 2)(x(3), graph()),
        "the features of `i` must have 4 rows, one for each entry of the structure; got 3",
    ),
    "a row too many": (
        lambda: Linear(BOTH, 2, 2)(both(**{"(i j)": x(3)}), graph()),
        "the features of `(i j)` must have 2 rows",
    ),
    "a channel too many": (
        lambda: Linear(PLAIN, 2, 2)(x(4, 3), graph()),
        "the features of `i` must have 2 channels, as the layer was made for; got 3",
    ),
    "another device": (
        lambda: Linear(PLAIN, 2, 2)(x(device="meta"), graph()),
        "the features of `i` are on meta and the structure is on cpu: move one with `.to(device)`",
    ),
    "another type": (
        lambda: Linear(PLAIN, 2, 2)(x(dtype=torch.float64), graph()),
        (
            "the features are torch.float64 and the layer is torch.float32: convert one, for"
            " example with layer.to(torch.float64)"
        ),
    ),
    "two types": (
        lambda: Linear(BOTH, 2, 2)(both(i=x(dtype=torch.float16)), graph()),
        "the features are torch.float16 and the layer is torch.float32",
    ),
    "an input pattern without index": (
        lambda: Linear("{i j} -> i", 2, 2)(x(), graph()),
        "no index for `{i j}` here; there are: `(i j)`. Add it with `with_index`",
    ),
    "an output pattern without index": (
        lambda: Linear("i -> {i j}", 2, 2)(x(), graph()),
        "no index for `{i j}` here",
    ),
    "a name that the structure does not know": (
        lambda: Linear("edge=(i j) -> i", 2, 2)(x(2), graph()),
        "There is `(i j)`, but a name means one tensor",
    ),
    "an input sort that is missing": (
        lambda: Linear("u:user -> u:user", 2, 2)(x(), graph()),
        "`u:user` needs nodes of sort `user`; this structure has `node`",
    ),
    "an output sort that is missing": (
        lambda: Linear("i -> u:user", 2, 2)(x(), graph()),
        "needs nodes of sort `user`",
    ),
    "a plan without index": (
        lambda: Linear("i -> {i j}", 2, 2).plan(graph()),
        "no index for `{i j}` here",
    ),
    "an operator without index": (
        lambda: Linear("i -> {i j}", 2, 2).operator(0, graph()),
        "no index for `{i j}` here",
    ),
    "calibrating on bad features": (
        lambda: Linear(PLAIN, 2, 2).calibrate(x(3), graph()),
        "must have 4 rows",
    ),
}

DENSE: dict[str, tuple[Callable[[], Any], str]] = {
    "open faces": (
        lambda: Linear("{i ...} -> i", 1, 1).dense(x()),
        (
            "`{i ...} -> i` has open faces: there is no dense layout for them. Use the layer on a"
            " structure"
        ),
    ),
    "one tensor where there are two": (
        lambda: Linear("i, i j -> i", 1, 1).dense(torch.zeros(1, 3, 1)),
        "the input has 2 tensors: pass a dict with the keys 'i', 'i j'",
    ),
    "an axis too few": (
        lambda: Linear("i j -> i", 1, 1).dense(torch.zeros(3, 3, 1)),
        "the dense tensor of `i j` must have 4 axes, [batch, i, j, channels]; got [3, 3, 1]",
    ),
    "no tensor": (
        lambda: Linear("i j -> i", 1, 1).dense([[0.0]]),
        "must have 4 axes, [batch, i, j, channels]; got list",
    ),
    "a channel too many": (
        lambda: Linear(PLAIN, 1, 1).dense(torch.zeros(1, 3, 2)),
        "the dense tensor of `i` must have 1 channels; got 2",
    ),
    "axes of different length": (
        lambda: Linear("i j -> i", 1, 1).dense(torch.zeros(1, 3, 4, 1)),
        "the dense tensor of `i j` has 4 nodes on the axis of `j`, but there are 3 of sort `node`",
    ),
    "another number of nodes": (
        lambda: Linear(PLAIN, 1, 1).dense(torch.zeros(1, 3, 1), 4),
        "has 3 nodes on the axis of `i`, but there are 4 of sort `node`",
    ),
    "a number of nodes that is needed": (
        lambda: Linear(" -> i", 1, 1).dense(torch.zeros(1, 1)),
        "no input of ` -> i` tells the number of nodes of sort `node`: give num_nodes",
    ),
    "a negative number of nodes": (
        lambda: Linear(" -> i", 1, 1).dense(torch.zeros(1, 1), -1),
        "num_nodes",
    ),
    "half a node": (lambda: Linear(" -> i", 1, 1).dense(torch.zeros(1, 1), 2.5), "num_nodes"),
    "batches of different length": (
        lambda: Linear("i, i j -> i", 1, 1).dense(
            {"i": torch.zeros(2, 3, 1), "i j": torch.zeros(1, 3, 3, 1)}
        ),
        "batch",
    ),
    "another type": (
        lambda: Linear(PLAIN, 1, 1).dense(torch.zeros(1, 3, 1, dtype=torch.float64)),
        "torch.float64",
    ),
    "integers": (
        lambda: Linear(PLAIN, 1, 1).dense(torch.zeros(1, 3, 1, dtype=torch.long)),
        "floating type",
    ),
}

AROUND: dict[str, tuple[Callable[[], Any], str]] = {
    "an activation that is no function": (
        lambda: Activation(3),
        "an activation is a function of a tensor, such as torch.relu; got 3",
    ),
    "a norm of no channels": (
        lambda: BatchNorm("i", 0),
        "channels is a number of channels, at least 1; got 0",
    ),
    "a norm of a tensor without channels": (
        lambda: LayerNorm("i, (i j)", {"i": 2}),
        "channels has no value for '(i j)'",
    ),
    "a norm of one tensor twice": (
        lambda: BatchNorm("i, j", 2),
        "`i` stands twice on one side of `i, j`",
    ),
    "a norm of a map": (lambda: LayerNorm("i -> i", 2), "a second `->`"),
    "a norm of rows that do not fit": (
        lambda: BatchNorm("i", 2)(x(3), graph()),
        "must have 4 rows",
    ),
    "a norm of channels that do not fit": (
        lambda: LayerNorm("i", 2)(x(4, 3), graph()),
        "must have 2 channels",
    ),
    "a norm of one tensor where there are two": (
        lambda: LayerNorm("i, (i j)", 2)(x(), graph()),
        "the input has 2 tensors",
    ),
    "a readout of an unknown aggregation": (
        lambda: Readout("i", "median"),
        "no aggregation 'median'",
    ),
    "a readout of rows that do not fit": (lambda: Readout("i")(x(3), graph()), "must have 4 rows"),
    "a readout of unknown channels": (
        lambda: Readout("i, (i j)").out_channels({"i": 2}),
        "channels has no value for '(i j)'",
    ),
    "a residual of another shape": (
        lambda: Residual(Linear(PLAIN, 2, 3))(x(), graph()),
        "a residual needs equal shapes for 'the tensor'; got [4, 2] and [4, 3]",
    ),
    "a residual of another shape in a dict": (
        lambda: Residual(Linear("i, (i j) -> i, (i j)", 2, {"i": 2, "(i j)": 3}))(both(), graph()),
        "a residual needs equal shapes for '(i j)'; got [2, 2] and [2, 3]",
    ),
    "a residual of a new tensor": (
        lambda: Residual(Linear("i, (i j) -> i, ", 2, 2))(both(), graph()),
        "the module of a residual returns tensors of its input; it returned '', which is no input",
    ),
    "a residual of one tensor to several": (
        lambda: Residual(Linear(BOTH, 2, 2))(both(), graph()),
        "a residual needs equal shapes for 'the tensor'; got dict and [4, 2]",
    ),
    "a sequence that does not fit": (
        lambda: Sequential(Linear(BOTH, 2, 2), Linear(BOTH, 2, 2))(both(), graph()),
        "the input has 2 tensors",
    ),
    "equivariance of a tensor without a pattern": (
        lambda: inc.testing.assert_equivariant(Activation(), x(), graph()),
        (
            "x is a single tensor, and the module does not say its pattern: give inputs='i', for"
            " example"
        ),
    ),
}

ALL = {
    f"{kind}: {name}": case
    for kind, cases in {
        "making": MAKING,
        "calling": CALLING,
        "dense": DENSE,
        "around": AROUND,
    }.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize(("call", "sentence"), ALL.values(), ids=ALL)
def test_what_does_not_fit_is_refused_with_a_sentence(call, sentence):
    with pytest.raises(IncidenceError, match=re.escape(sentence)) as caught:
        call()
    if not isinstance(caught.value, PatternError):
        assert "\n" not in str(caught.value)
        assert str(caught.value).endswith((".", "?"))


def test_operations_without_end_have_an_error_of_their_own():
    with pytest.raises(TooLargeError, match="operations, more than"):
        Linear("a b c d e f g h -> a b c d e f g h", 1, 1)


def test_a_refusal_leaves_the_layer_and_the_structure_as_they_were():
    layer, structure = Linear(PLAIN, -1, 2), graph()
    with pytest.raises(IncidenceError, match="must have 4 rows"):
        layer(x(3), structure)
    assert layer(x(4, 5), structure).shape == (4, 2)
    assert layer.in_channels == [5]


def test_a_code_of_no_columns_is_refused():
    with pytest.raises(ValueError, match="a code needs at least one column"):
        code([], [])


def test_random_structures_have_lone_open_faces_only():
    with pytest.raises(
        IncidenceError,
        match=re.escape(
            "random structures have lone open faces, such as `{i ...}`; `i {i ...}` has more"
        ),
    ):
        inc.testing.random_structure(3, ["i {i ...}"])


@pytest.mark.parametrize("is_known", [False, True], ids=["first call", "later call"])
@pytest.mark.parametrize("aggr", ["sum", "max"])
def test_a_layer_elsewhere_is_refused_and_computes_nothing(aggr, is_known):
    structure, x = Structure(3, {"(i j)": [[0, 1], [1, 2]]}), torch.randn(2, 3)
    layer = Linear("(i j) -> (i j)", 3, 2, aggr=aggr)
    if is_known:
        layer(x, structure)
    with pytest.raises(IncidenceError, match="the layer is on meta and the structure is on cpu"):
        layer.to("meta")(x, structure)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
@pytest.mark.parametrize(
    "change", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr], ids=["coo", "csr"]
)
def test_sparse_features_are_refused_after_a_good_call_too(change):
    structure, x = Structure(3, {"(i j)": [[0, 1], [1, 2]]}), torch.ones(2, 3)
    layer = Linear("(i j) -> (i j)", 3, 2)
    layer(x, structure)
    with pytest.raises(IncidenceError, match="must be a dense tensor"):
        layer(change(x), structure)
