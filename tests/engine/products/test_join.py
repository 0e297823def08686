"""The one sum behind products: shapes of rows, roles, blocks, and the compiled library beside
torch.
"""

import pytest
import torch
from torch import Tensor

from incidence.algebra.products import ProductText
from incidence.engine.bags import Lists
from incidence.engine.products import contract
from incidence.engine.products import join as joins
from incidence.engine.products.contract import join_plan_of
from incidence.engine.products.join import join, run_join
from incidence.engine.products.plan import JoinStep
from incidence.structure import Structure
from tests.cases import some
from tests.structure.random_structures import random_structure

needs_compiler = pytest.mark.skipif(
    joins._library() is None, reason="there is no C compiler here, so nothing is compiled"
)

SHAPES = [
    ((5,), (5,), (5,)),
    ((37,), (37,), (37,)),
    ((37,), (37,), (1,)),
    ((1,), (5,), (5,)),
    ((5,), (1,), (1,)),
    ((1,), (1,), (1,)),
    ((3, 20), (3, 20), (3, 20)),
    ((3, 20), (3, 20), (3, 1)),
    ((3, 1), (3, 20), (3, 20)),
    ((3, 20), (1, 20), (3, 20)),
    ((1, 20), (3, 20), (1, 20)),
    ((3, 1), (1, 20), (3, 20)),
    ((3, 1), (3, 1), (3, 1)),
    ((3, 20), (3, 1), (3, 1)),
    ((3, 1), (1, 20), (1, 1)),
]


@pytest.fixture(autouse=True)
def _by_joins(monkeypatch):
    """No product by arrays, which would be taken where most entries are there."""
    monkeypatch.setattr(contract, "_FASTER", 0)


def step_for(text: str, texts: list[str]) -> JoinStep:
    [step] = join_plan_of(random_structure(6, texts, seed=1, draws=20), ProductText(text)).steps
    return step


def by_hand(step: JoinStep, xs: list[Tensor], role: int, shape: tuple[int, ...]) -> Tensor:
    """The sum, joined row by joined row."""
    one, other = step.lists(role)
    ptr, columns, sign = one.ptr, (one.members, other.members), one.signs
    out = torch.zeros(len(ptr) - 1, *shape, dtype=xs[0].dtype)
    for t in range(len(ptr) - 1):
        for p in range(int(ptr[t]), int(ptr[t + 1])):
            value = xs[0][columns[0][p]] * xs[1][columns[1][p]] * (1 if sign is None else sign[p])
            out[t] += value.sum_to_size(shape)
    return out


@pytest.mark.parametrize("role", [0, 1, 2])
@pytest.mark.parametrize("shapes", some((shape,) for shape in SHAPES), ids=str)
@pytest.mark.parametrize("way", ["compiled", "torch", "blocks"])
def test_every_shape_of_rows_is_summed_in_every_role(shapes, role, way, monkeypatch):
    step = step_for("<i j>, (j k) -> (i k)", ["<i j>", "(i j)"])
    if way != "compiled":
        monkeypatch.setattr(joins, "_library", lambda: None)
    if way == "blocks":
        monkeypatch.setattr(joins, "_BLOCK", 50)
    counts = [count for k, count in enumerate(step.num_rows) if k != role]
    generator = torch.Generator().manual_seed(0)
    xs = [
        torch.randint(-3, 4, (n, *shape), generator=generator).float()
        for n, shape in zip(counts, shapes, strict=False)
    ]
    assert torch.equal(
        run_join(step.lists(role), xs, shapes[2]), by_hand(step, xs, role, shapes[2])
    )


@needs_compiler
def test_the_compiled_library_is_used_for_two_factors_in_single_precision():
    step = step_for("(i j), (j k) -> (i k)", ["(i j)"])
    x = torch.ones(step.num_rows[1], 4)
    assert joins._compiled_join(step.lists(0), [x, x], (4,)) is not None
    assert joins._compiled_join(step.lists(0), [x.double(), x.double()], (4,)) is None
    assert joins._compiled_join(step.lists(0), [x], (4,)) is None
    assert (
        joins._compiled_join(step.lists(0), [x.view(-1, 2, 2, 1), x.view(-1, 2, 1, 2)], (2, 2, 2))
        is None
    )


@needs_compiler
def test_threads_share_targets_and_change_no_bit(monkeypatch):
    s = Structure.complete(9, "i j")
    [step] = join_plan_of(s, ProductText("i j, j k -> i k")).steps
    x = torch.randn(81, 6)
    alone = joins._compiled_join(step.lists(0), [x, x], (6,))
    monkeypatch.setattr(joins, "_LEAST_SHARED", 1)
    for threads in (2, 3, 500):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert torch.equal(joins._compiled_join(step.lists(0), [x, x], (6,)), alone)


def lists_of(sizes: list[int]) -> Lists:
    """Targets with so many joined rows each."""
    ptr = torch.tensor([0, *sizes]).cumsum(0).int()
    return Lists(torch.zeros(sum(sizes), dtype=torch.int32), ptr)


@pytest.mark.parametrize(
    ("sizes", "threads", "expected"),
    [
        ([2] * 12, 3, [0, 4, 8, 12]),
        ([2] * 12, 4, [0, 3, 6, 9, 12]),
        ([9, 1, 1, 1, 3, 3], 2, [0, 1, 6]),
        ([6, 2, 2, 2], 2, [0, 1, 4]),
        ([0, 4, 0, 4], 2, [0, 2, 4]),
    ],
    ids=str,
)
def test_every_thread_has_targets_with_as_many_joined_rows(sizes, threads, expected, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert joins._shares(lists_of(sizes), joins._LEAST_SHARED) == expected


def test_less_work_than_is_worth_a_second_thread_is_left_to_one(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    lists, least = lists_of([1] * 6), joins._LEAST_SHARED
    assert [joins._shares(lists, work) for work in (0, least - 1, least)] == [
        [0, 6],
        [0, 6],
        [0, 2, 4, 6],
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_one_factor_alone_can_be_summed_over_its_channels(dtype):
    step = step_for("<i j> -> i", ["<i j>"])
    x = torch.arange(2.0 * step.num_rows[1]).to(dtype).view(-1, 2)
    lists = step.lists(0)
    torch.testing.assert_close(
        run_join(lists, [x], (1,)), run_join(lists, [x], (2,)).sum(1, keepdim=True)
    )


@pytest.mark.parametrize(
    "make",
    [lambda x: x.T.contiguous().T, lambda x: x.repeat(1, 2)[:, :4]],
    ids=["transposed", "sliced"],
)
def test_rows_may_lie_anyhow_in_memory(make):
    step = step_for("(i j), (j k) -> (i k)", ["(i j)"])
    x = torch.randn(step.num_rows[1], 4)
    torch.testing.assert_close(join(step, [make(x), make(x)]), join(step, [x, x]))


def test_gradients_sum_over_what_was_shared():
    step = step_for("(i j), (j k) -> (i k)", ["(i j)"])
    n = step.num_rows[1]
    x, y = (
        torch.randn(n, 3, 1, dtype=torch.float64, requires_grad=True),
        torch.randn(n, 3, 4, dtype=torch.float64, requires_grad=True),
    )
    assert torch.autograd.gradcheck(lambda a, b: join(step, [a, b]), (x, y))
    assert torch.autograd.gradgradcheck(lambda a, b: join(step, [a, b], (3, 1)), (x, y))
