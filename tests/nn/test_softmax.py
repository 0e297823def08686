"""The softmax over letters: the vectors, the definition, gradients, batches, and what is
refused.
"""

from fractions import Fraction

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from incidence.errors import IncidenceError
from incidence.nn.functional import softmax
from incidence.structure import Structure, collate
from tests.exact_numbers import load_vectors
from tests.nn.product_definition import softmax_by_definition
from tests.structure.random_structures import random_structure

VECTORS = load_vectors("products.json")
CASES = [case for case in VECTORS["cases"] if case["kind"] == "softmax"]

GROUPED = [
    ("i", "i"),
    ("i j", "j"),
    ("i j", "i j"),
    ("(i j)", "i"),
    ("{i j}", "i j"),
    ("i {i j}", "j"),
    ("i {i j}", "i"),
    ("{i j} k", "k"),
    ("i {j k}", "j k"),
    ("(i j k)", "k j"),
    ("{u:a v:a m:b}", "m"),
    ("named=(i j)", "j"),
]


@pytest.mark.parametrize(
    "case", CASES, ids=[f"{case['pattern']} over {case['over']}" for case in CASES]
)
def test_the_vectors_are_met(case):
    structure = collate(
        [Structure(part["num_nodes"], part["index"]) for part in case["structures"]]
    )
    y = softmax(
        torch.tensor(case["w"], dtype=torch.float64).log(), case["pattern"], case["over"], structure
    )
    expected = [[float(Fraction(*value)) for value in row] for row in case["y"]]
    torch.testing.assert_close(y, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize(("pattern", "over"), GROUPED, ids=[f"{p} over {o}" for p, o in GROUPED])
def test_a_softmax_shares_among_the_entries_with_one_key(pattern, over):
    parts = [random_structure(n, [pattern], seed=n, draws=9) for n in (5, 0, 4)]
    xs = [torch.randn(part.num_entries(pattern), 2, dtype=torch.float64) for part in parts]
    expected = torch.cat(
        [softmax_by_definition(x, pattern, over, part) for x, part in zip(xs, parts, strict=True)]
    )
    torch.testing.assert_close(softmax(torch.cat(xs), pattern, over, collate(parts)), expected)
    for part, x in zip(parts, xs, strict=True):
        softmax(x, pattern, over, part)  # leaves plans, which the next batch is made of
    torch.testing.assert_close(softmax(torch.cat(xs), pattern, over, collate(parts)), expected)


@pytest.mark.parametrize(("pattern", "over"), [("(i j)", "j"), ("i", "i")])
def test_gradients_of_first_and_second_order_are_right(pattern, over):
    structure = random_structure(4, [pattern], seed=1)
    x = torch.randn(structure.num_entries(pattern), 2, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda values: softmax(values, pattern, over, structure), x)
    assert gradgradcheck(lambda values: softmax(values, pattern, over, structure), x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16], ids=str)
def test_large_values_do_not_overflow(dtype):
    s = Structure(2, {"(i j)": [[0, 1], [1, 0]]})
    x = torch.tensor([[6e4], [-6e4]], dtype=dtype)
    assert softmax(x, "(i j)", "i j", s).tolist() == [[1.0], [0.0]]
    assert softmax(x, "(i j)", "i j", s).dtype == dtype


def test_nothing_has_no_shares():
    s = Structure(2, {"(i j)": torch.zeros(2, 0, dtype=torch.long)})
    x = torch.zeros(0, 3, requires_grad=True)
    y = softmax(x, "(i j)", "j", s)
    y.sum().backward()
    assert (y.shape, x.grad.shape) == ((0, 3), (0, 3))


@pytest.mark.parametrize(
    "case",
    [r for r in VECTORS["refused"] if r["kind"] == "softmax"],
    ids=lambda case: f"{case['pattern']}, {case['over']}",
)
def test_the_refused_vectors_are_refused(case):
    structure = Structure(**VECTORS["refused_on"])
    with pytest.raises(IncidenceError):
        softmax(
            torch.ones(structure.num_entries(case["pattern"]), 1),
            case["pattern"],
            case["over"],
            structure,
        )


S = Structure(3, {"(i j)": [[0, 1], [1, 2]]})


@pytest.mark.parametrize(
    ("x", "pattern", "structure", "message"),
    [
        (torch.ones(2, 1), "(i j)", "s", "structure= is a Structure; got str"),
        (torch.ones(3, 1), "(i j)", S, "must have 2 rows"),
        (torch.ones(2), "(i j)", S, "For one channel use x"),
        (torch.ones(2, 1).long(), "(i j)", S, "must be of a floating type"),
        (torch.ones(2, 1), "(i j k)", S, "no index for `.i j k.` here"),
        (torch.ones(2, 1), 3, S, "a pattern is written as text, not as int"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(x, pattern, structure, message):
    with pytest.raises(IncidenceError, match=message):
        softmax(x, pattern, over="j", structure=structure)


def test_letters_are_told_as_text():
    with pytest.raises(
        IncidenceError,
        match="over= is the letters to sum over as text, such as 'j' or 'i j'; got 3",
    ):
        softmax(torch.ones(2, 1), "(i j)", 3, S)
