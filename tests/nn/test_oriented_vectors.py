"""Every operation, mean and bias of the worked examples of oriented faces, exactly."""

import json
from functools import cache
from typing import Any, NamedTuple

import pytest
import torch

from incidence.algebra import Pattern
from incidence.nn import Linear
from incidence.structure import Structure, collate
from tests.cases import some
from tests.exact_numbers import VECTORS, with_sorts
from tests.nn.one_operation import only

CASES = {
    case["id"]: case
    for case in json.loads((VECTORS / "oriented.json").read_text(encoding="utf-8"))["sparse"]
}
SIDES = (("input", "S"), ("output", "T"))


class Worked(NamedTuple):
    """An example as a map and a structure, and for every tensor of either side the order in which
    the structure has its rows.
    """

    case: dict[str, Any]
    map: str
    structure: Structure
    orders: dict[str, list[list[int]]]
    features: dict[str, torch.Tensor]


@cache
def worked(name: str, is_shared: bool) -> Worked:
    """Input and output are the same tensors where their supports agree, if `is_shared`; else each
    is named and has its own.
    """
    case = CASES[name]
    texts = {
        side: [text_of(case, side, k, is_shared) for k in range(len(case[side]))]
        for side, _ in SIDES
    }
    supports = {
        text: entries
        for side, key in SIDES
        for text, entries in zip(texts[side], case[key], strict=True)
    }
    structure = collate([part(case, supports, g) for g in range(len(case["num_nodes"]))])
    orders = {
        side: [sorted(range(len(s)), key=lambda row: s[row]["g"]) for s in case[key]]
        for side, key in SIDES
    }
    xs = [
        torch.tensor(x, dtype=torch.float64)[order, None]
        for x, order in zip(case["x"], orders["input"], strict=True)
    ]
    text = " -> ".join(", ".join(texts[side]) for side, _ in SIDES)
    return Worked(case, text, structure, orders, dict(zip(texts["input"], xs, strict=True)))


def text_of(case: dict[str, Any], side: str, k: int, is_shared: bool) -> str:
    text = with_sorts(case[side][k], case["sorts"])
    return text if is_shared or not text else f"{side}_{k}={text}"


def part(case: dict[str, Any], supports: dict[str, list[dict[str, Any]]], g: int) -> Structure:
    index = {}
    for text, entries in supports.items():
        columns = [
            [int(str(v).rpartition(":")[2]) for v in entry["a"]]
            for entry in entries
            if entry["g"] == g
        ]
        if Pattern(text).letters:
            index[text] = (
                torch.tensor(columns, dtype=torch.long).view(-1, len(Pattern(text).letters)).T
            )
    return Structure(case["num_nodes"][g], index)


def is_shareable(case: dict[str, Any]) -> bool:
    supports = {}
    given = [
        (Pattern(text_of(case, side, k, True)), case[key][k])
        for side, key in SIDES
        for k in range(len(case[side]))
    ]
    return all(supports.setdefault(pattern, entries) == entries for pattern, entries in given)


OPERATIONS = [
    pytest.param(
        name, k, is_shared, id=f"{name}-{case['title']}-{k}-{'shared' if is_shared else 'own'}"
    )
    for name, case in CASES.items()
    for is_shared in ([False, True] if is_shareable(case) else [False])
    for k in range(len(case["ops"]))
]


@pytest.mark.parametrize(("name", "k", "is_shared"), some(OPERATIONS))
def test_the_matrix_of_every_operation_is_the_one_listed(name, k, is_shared):
    found = worked(name, is_shared)
    op = found.case["ops"][k]
    matrix = torch.tensor(op["matrix"], dtype=torch.float64).view(
        -1, len(found.case["x"][op["pattern_in"]])
    )
    rows, cols = found.orders["output"][op["pattern_out"]], found.orders["input"][op["pattern_in"]]
    assert torch.equal(
        Linear(found.map, 1, 1).operator(k, found.structure).to_dense(), matrix[rows][:, cols]
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["double", "single"])
@pytest.mark.parametrize("aggr", ["sum", "mean"])
@pytest.mark.parametrize(("name", "k", "is_shared"), some(OPERATIONS))
def test_every_operation_gives_the_listed_output(name, k, is_shared, aggr, dtype):
    found = worked(name, is_shared)
    op = found.case["ops"][k]
    layer = only(Linear(found.map, 1, 1, aggr=aggr, bias=False, dtype=dtype), k)
    y = layer({key: x.to(dtype) for key, x in found.features.items()}, found.structure)
    y = y if isinstance(y, torch.Tensor) else list(y.values())[op["pattern_out"]]
    expected = torch.tensor(op[aggr], dtype=torch.float64)[
        found.orders["output"][op["pattern_out"]]
    ]
    assert torch.allclose(
        y[:, 0].double(), expected, rtol=0, atol=1e-9 if dtype == torch.float64 else 1e-5
    )


@pytest.mark.parametrize("name", CASES)
def test_every_bias_has_the_listed_values_and_there_are_no_others(name):
    found = worked(name, False)
    layer = Linear(found.map, 1, 1, dtype=torch.float64)
    biases = [layer._biases()[t] for t in range(len(found.case["output"]))]
    assert [len(bias) for bias in biases] == [
        sum(b["pattern_out"] == t for b in found.case["biases"]) for t in range(len(biases))
    ]
    row = dict.fromkeys(range(len(biases)), 0)
    for listed in found.case["biases"]:
        for parameter in layer.parameters():
            parameter.data.zero_()
        t = listed["pattern_out"]
        biases[t].data[row[t]] = 1.0
        row[t] += 1
        y = layer(found.features, found.structure)
        y = y if isinstance(y, torch.Tensor) else list(y.values())[t]
        assert y[:, 0].tolist() == [listed["values"][k] for k in found.orders["output"][t]]


def test_there_are_batches_signs_and_shared_supports_among_the_examples():
    assert {len(case["num_nodes"]) for case in CASES.values()} == {1, 2}
    assert sum(param.values[2] for param in OPERATIONS) > 20
    assert any(min(map(min, op["matrix"])) < 0 for case in CASES.values() for op in case["ops"])
