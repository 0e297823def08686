"""Every operator of every sparse example of the vectors, in the given normalisation."""

from functools import cache
from typing import Any

import pytest
import torch

from incidence.algebra import Pattern
from incidence.nn import Linear
from incidence.structure import Structure, collate
from tests.cases import some
from tests.exact_numbers import load_cases, with_sorts
from tests.nn.one_operation import only
from tests.structure.listing import Entry, assignment_of

CASES = load_cases("sparse_examples.json")


class Example:
    """A case as a map and a structure.

    Input and output are the same tensors where their supports agree, if `is_shared`; else each is
    named and has its own.
    """

    def __init__(self, number: int, is_shared: bool) -> None:
        self.case = CASES[number]
        self.is_shared = is_shared
        self.texts = {
            side: [self.text(side, k) for k in range(len(self.case[side]))]
            for side in ("input", "output")
        }
        self.map = " -> ".join(", ".join(texts) for texts in self.texts.values())
        xs = [torch.tensor(x, dtype=torch.float64)[:, None] for x in self.case["x"]]
        self.features = dict(zip(self.texts["input"], xs, strict=True))

    def text(self, side: str, k: int) -> str:
        text = with_sorts(self.case[side][k], self.case["sorts"])
        return text if self.is_shared else f"{side[:-3]}_{k}={text}"

    @property
    def structure(self) -> Structure:
        sides = (("input", "S"),) if self.is_shared else (("input", "S"), ("output", "T"))
        supports = {
            text: support
            for side, key in sides
            for text, support in zip(self.texts[side], self.case[key], strict=True)
        }
        listed = [
            (text, given["g"], as_entry(given["e"]))
            for text, support in supports.items()
            for given in support
        ]
        return collate([self.part(listed, g) for g in range(max(g for _, g, _ in listed) + 1)])

    def part(self, listed: list[tuple[str, int, Entry]], g: int) -> Structure:
        counts = dict.fromkeys(self.case["sorts"].values() or ["node"], 0)
        for sort, v in (
            node for _, h, entry in listed if h == g for face in entry for node in face
        ):
            counts[sort] = max(counts[sort], v + 1)
        index = {}
        for text in dict.fromkeys(text for text, _, _ in listed):
            pattern = Pattern(text)
            columns = [
                assignment_of(entry, pattern)
                for other, h, entry in listed
                if (other, h) == (text, g)
            ]
            index[text] = torch.tensor(columns, dtype=torch.long).view(-1, len(pattern.letters)).T
        return Structure(counts, index)


def as_entry(faces: list[list[Any]]) -> Entry:
    def node(v: Any) -> tuple[str, int]:
        sort, _, number = str(v).rpartition(":")
        return sort or "node", int(number)

    return tuple(tuple(map(node, face)) for face in faces)


@cache
def example(number: int, is_shared: bool) -> tuple[Example, Structure]:
    found = Example(number, is_shared)
    return found, found.structure


OPERATIONS = [
    pytest.param(
        number,
        k,
        is_shared,
        id=f"{case['id']}-{k}-{'shared' if is_shared else 'own'} supports".replace(" ", "_"),
    )
    for number, case in enumerate(CASES)
    for is_shared in [False, True][
        : 1 + ((case["input"], case["S"]) == (case["output"], case["T"]))
    ]
    for k in range(len(case["ops"]))
]


def meaning(operation: Any) -> tuple[Any, ...]:
    """What an operation is, told by the classes themselves and not by their order."""
    source, target = (
        [(c.sort, c.faces, c.size) for c in place.orbit.classes]
        for place in (operation.source, operation.target)
    )
    cells = {(i, j): n for i, row in enumerate(operation.overlap) for j, n in enumerate(row) if n}
    matched = {(source[i][:2], target[j][:2]): n for (i, j), n in cells.items()}
    return operation.source.tensor, operation.target.tensor, sorted(source), sorted(target), matched


def meaning_in_case(case: dict[str, Any], op: dict[str, Any]) -> tuple[Any, ...]:
    orbits = (
        case["orbits_in"][op["pattern_in"]][op["orbit_in"]],
        case["orbits_out"][op["pattern_out"]][op["orbit_out"]],
    )
    source, target = (
        [(c["sort"], tuple(sorted(map(tuple, c["faces"]))), c["size"]) for c in o["classes"]]
        for o in orbits
    )
    matched = {(source[i][:2], target[j][:2]): n for i, j, n in op["overlap"]}
    return op["pattern_in"], op["pattern_out"], sorted(source), sorted(target), matched


def number_of(layer: Linear, case: dict[str, Any], op: dict[str, Any]) -> int:
    wanted = meaning_in_case(case, op)
    [number] = [
        n for n, operation in enumerate(layer.map.operations) if meaning(operation) == wanted
    ]
    return number


@pytest.mark.parametrize("aggr", ["sum", "mean", "max"])
@pytest.mark.parametrize(("number", "k", "is_shared"), some(OPERATIONS))
def test_every_operator_gives_the_listed_output(number, k, is_shared, aggr):
    found, structure = example(number, is_shared)
    op = found.case["ops"][k]
    layer = Linear(found.map, 1, 1, aggr=aggr, bias=False, dtype=torch.float64)
    y = only(layer, number_of(layer, found.case, op))(found.features, structure)
    y = y if isinstance(y, torch.Tensor) else list(y.values())[op["pattern_out"]]
    assert [round(v, 10) for v in y[:, 0].tolist()] == op[aggr]  # the vectors have ten digits


@pytest.mark.parametrize(("number", "k", "is_shared"), some(OPERATIONS))
def test_the_matrix_of_every_operator_gives_the_listed_sums(number, k, is_shared):
    found, structure = example(number, is_shared)
    op = found.case["ops"][k]
    layer = Linear(found.map, 1, 1)
    matrix = layer.operator(number_of(layer, found.case, op), structure)
    x = found.features[found.texts["input"][op["pattern_in"]]]
    assert (matrix.to_dense() @ x)[:, 0].tolist() == op["sum"]


def test_all_examples_are_there_with_a_batch_among_them():
    assert sum(len(case["ops"]) for case in CASES) == 45
    assert sorted({example(number, False)[1].num_structures for number in range(len(CASES))}) == [
        1,
        2,
    ]
    assert sum(param.values[2] for param in OPERATIONS) == 35
