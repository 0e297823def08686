"""Plans of products: what they cost, what is counted before it is made, and how batches are put
together.
"""

import pytest
import torch

from incidence.algebra.products import ProductText
from incidence.engine.products import contract
from incidence.engine.products.contract import build_join_plan, join_plan_of
from incidence.engine.products.dense import DenseStep
from incidence.engine.products.plan import JoinPlan
from incidence.engine.products.softmax import groups_of
from incidence.nn.functional import einsum, plan_einsum
from incidence.structure import Structure, collate, pack
from tests.cases import some
from tests.nn.product_definition import product_by_definition
from tests.nn.product_texts import TEXTS, structure_for
from tests.structure.random_structures import random_structure


@pytest.fixture(autouse=True)
def _by_joins(monkeypatch):
    """No product by arrays, which would be taken where most entries are there."""
    monkeypatch.setattr(contract, "_FASTER", 0)


def star(num_leaves: int) -> Structure:
    """A centre with arrows to and from all leaves: Σ in(j) out(j) is about the square of the number
    of leaves.
    """
    leaves = torch.arange(1, num_leaves + 1)
    centre = torch.zeros_like(leaves)
    return Structure(
        num_leaves + 1,
        {"(i j)": torch.stack([torch.cat([centre, leaves]), torch.cat([leaves, centre])])},
    )


LINEAR = [
    "(i j), j -> i",
    "i, j -> (i j)",
    "(i j), (j k) -> i",
    "(i j), (j k), (k l) -> i",
    "(i j), (j k) -> ",
    "i, (i j), j -> ",
]


@pytest.mark.parametrize("text", LINEAR)
def test_a_text_whose_tables_form_a_tree_costs_linear_time(text):
    costs = [join_plan_of(star(n), ProductText(text)).num_joined / n for n in (10, 100, 1000)]
    assert max(costs) <= 12
    assert costs[2] <= costs[0]


def test_a_product_of_sparse_matrices_is_joined_with_at_most_its_entries_to_the_power_of_1_5():
    for n in (10, 100, 1000):
        num_entries = 2 * n
        plan = build_join_plan(
            ProductText("(i j), (j k) -> (i k)"), star(n), limit=int(num_entries**1.5)
        )
        assert plan.num_joined == 0  # no triangle; there are n^2 pairs of arrows that meet
    with pytest.raises(Exception, match=r"joins too many rows here: 2,000 combinations"):
        build_join_plan(ProductText("(i j), (j k) -> (i k)"), star(1000), limit=1999)


def test_letters_that_nothing_else_needs_are_summed_at_once():
    plan = join_plan_of(Structure.complete(6, "i j"), ProductText("i j, j k, k l, l i -> "))
    assert [(len(step.sources), step.num_rows[0]) for step in plan.steps] == [
        (2, 36),
        (2, 36),
        (2, 1),
    ]
    assert plan.num_joined == 2 * 6**3 + 6**2  # not 6^4


def test_sums_that_are_read_once_are_added_up_where_they_are_read():
    s = Structure.complete(5, "i j")
    for text in ("i j, j k -> i k", "i j -> i", "i j, j -> i", "{a b}, {b c} -> {a c}"):
        s = s.with_index({"{i j}": torch.combinations(torch.arange(5)).T})
        assert len(join_plan_of(s, ProductText(text)).steps) == 1


def test_factors_on_the_same_nodes_are_multiplied_before_rows_become_many_and_not_after():
    s = random_structure(12, ["(i j)"], seed=0, draws=60)
    [(first, _), (second, _)] = join_plan_of(s, ProductText("(i j), (i j), (j k) -> (i k)")).program
    assert (first, second) == ((0, 1), (2, 3))
    (first, _), *_ = join_plan_of(
        s, ProductText("(i j), (j k), (i k), (i l), (j l), (k l) -> (i j)")
    ).program
    assert len(first) == 4  # three of them joined, and one more at the joined rows


def test_a_plan_prints_its_cost():
    plan = plan_einsum("i j, j k, k l -> i l", Structure.complete(4, "i j"))
    lines = repr(plan).splitlines()
    assert lines[0] == "JoinPlan `i j, j k, k l -> i l`"
    assert lines[1:-1] == [
        "  z0 = sum x0 * x1: 64 joined rows into 16",
        "  y = sum x2 * z0: 64 joined rows into 16",
    ]
    assert lines[-1].startswith("  memory: ")


def test_the_memory_of_a_step_is_that_of_all_its_lists():
    s = random_structure(6, ["<i j>", "(i j)"], seed=1, draws=20)
    [step] = join_plan_of(s, ProductText("<i j>, (j k) -> (i k)")).steps
    assert step.sign is not None
    held = [step.ptr, *step.rows, step.sign]
    assert {t.data_ptr() for t in step.tensors} == {t.data_ptr() for t in held}
    for role in (0, 2, 1, 2):
        for lists in step.lists(role):
            held += lists
        held += [step.order(role)[0]] if role else []
        assert {t.data_ptr() for t in step.tensors} == {t.data_ptr() for t in held}


def test_a_step_prints_what_it_is_made_of_and_not_what_is_made_of_it():
    [step] = join_plan_of(star(3), ProductText("(i j), j -> i")).steps
    step.lists(1)
    assert repr(step).startswith("JoinStep(sources=(0, 1), num_rows=(4, 6, 4), ptr=")
    assert "RoleOrder" not in repr(step)
    assert "Lists" not in repr(step)


def test_a_plan_is_made_once_for_all_texts_that_mean_the_same():
    s = Structure.complete(3, "i j")
    assert join_plan_of(s, ProductText("i j, j k -> i k")) is join_plan_of(
        s, ProductText("a b, b c -> a c")
    )


def has_matrices(plan: JoinPlan) -> bool:
    """Whether some step multiplies matrices."""
    return any(isinstance(step, DenseStep) for step in plan.steps)


def same(one: JoinPlan, other: JoinPlan) -> bool:
    """Whether two plans are the same, list by list; the order of joined rows of one target is free,
    signs apart.
    """
    if one.program != other.program or not (one.num_entries == other.num_entries).all():
        return False
    return all(
        a.num_rows == b.num_rows
        and torch.equal(a.ptr, b.ptr)
        and (a.num_joined == b.num_joined).all()
        and (a.num_targets == b.num_targets).all()
        and all(
            torch.equal(a.order(role)[1], b.order(role)[1]) for role in range(1, 1 + len(a.sources))
        )
        for a, b in zip(one.steps, other.steps, strict=True)
    )


@pytest.mark.parametrize(
    "text", some(text for text in TEXTS if "=" not in text and "i i" not in text)
)
def test_the_plan_of_a_batch_is_put_together_from_those_of_its_structures(text):
    product = ProductText(text)
    texts = [str(p) for p in product.tensors]

    def parts() -> list[Structure]:
        return [random_structure(n, texts, seed=n) for n in (4, 0, 3, 5)]

    known = parts()
    for part in known:
        join_plan_of(part, product)
    packed = pack(parts())
    whole = build_join_plan(product, collate(parts()))
    for found in (join_plan_of(collate(known), product), join_plan_of(collate(packed), product)):
        assert found.program != whole.program or same(found, whole)
    chosen = [2, 0, 3]
    some = build_join_plan(product, collate([parts()[k] for k in chosen]))
    taken = join_plan_of(collate([packed[k] for k in chosen]), product)
    assert taken.program != some.program or same(taken, some)


def test_batches_of_a_packed_data_set_look_nothing_up(monkeypatch):
    product = ProductText("(i j), (j k) -> (i k)")
    packed = pack([random_structure(n, ["(i j)"], seed=n) for n in (4, 5, 6)])
    join_plan_of(collate(packed), product)
    monkeypatch.setattr(contract, "build_join_plan", None)
    plan = join_plan_of(collate([packed[2], packed[0]]), product)
    assert plan.num_entries.shape == (3, 2)


def test_a_data_set_with_too_many_joined_rows_is_planned_batch_by_batch(monkeypatch):
    monkeypatch.setattr(contract, "_MOST_STORED", 10)
    packed = pack([Structure.complete(n, "i j") for n in (3, 4)])
    s = collate(packed)
    x = torch.ones(25, 1)
    assert einsum("i j, j k -> i k", x, x, s).unique().tolist() == [3.0, 4.0]


def test_structures_whose_smallest_joins_differ_make_a_batch_with_a_plan_of_its_own():
    text = "one=(i j), two=(j k), three=(k l), four=(l i) -> "

    def part(*small: str) -> Structure:
        full = Structure.complete(4, "(i j)")["(i j)"]
        return Structure(
            4,
            {
                f"{name}=(i j)": full[:, :3] if name in small else full
                for name in ("one", "two", "three", "four")
            },
        )

    parts = [part("one", "two"), part("two", "three")]
    assert len({join_plan_of(s, ProductText(text)).program for s in parts}) == 2
    names = text.split(" ->")[0].split(", ")
    each = [
        [torch.rand(s.num_entries(name), 1, dtype=torch.float64) for name in names] for s in parts
    ]
    expected = torch.cat([einsum(text, *xs, s) for xs, s in zip(each, parts, strict=True)])
    torch.testing.assert_close(
        einsum(text, *map(torch.cat, zip(*each, strict=True)), collate(parts)), expected
    )


@pytest.mark.parametrize(
    "text", some([*TEXTS, "one=(i j), two=(j k), three=(k l), four=(l i) -> "])
)
def test_a_fixed_plan_has_one_program_for_structures_of_all_sizes_and_none_by_arrays(
    text, monkeypatch
):
    monkeypatch.setattr(contract, "_FASTER", 10**9)  # arrays wherever they can be
    monkeypatch.setattr(contract, "_MOST_ABSENT", 10**9)
    structures = [
        structure_for(text, n, seed, draws)
        for seed, (n, draws) in enumerate([(0, 1), (1, 1), (3, 2), (4, 60), (9, 5)])
    ]
    plans = [
        join_plan_of(s, ProductText(text), is_fixed=True)
        for s in (*structures, collate(structures))
    ]
    assert len({plan.program for plan in plans}) == 1
    assert not any(has_matrices(plan) for plan in plans)


def test_a_fixed_plan_is_kept_beside_the_usual_one():
    s, product = Structure.complete(4, "i j"), ProductText("i j, j k -> i k")
    fixed = join_plan_of(s, product, is_fixed=True)
    assert join_plan_of(s, product) is not fixed
    assert join_plan_of(s, product, is_fixed=True) is fixed


def test_a_fixed_plan_takes_no_more_joined_rows_than_the_limit():
    with pytest.raises(Exception, match=r"joins too many rows here: 64 combinations"):
        build_join_plan(
            ProductText("i j, j k -> i k"), Structure.complete(4, "i j"), limit=63, is_fixed=True
        )
    assert (
        build_join_plan(
            ProductText("i j, j k -> i k"), Structure.complete(4, "i j"), limit=64, is_fixed=True
        ).num_joined
        == 64
    )


@pytest.mark.parametrize(("pattern", "over"), [("(i j)", "j"), ("i", "i"), ("{i j}", "i j")])
def test_groups_of_a_batch_are_those_of_its_structures(pattern, over):
    def parts() -> list[Structure]:
        return [random_structure(n, [pattern], seed=n) for n in (4, 0, 5)]

    known = parts()
    for part in known:
        groups_of(part, pattern, over)
    fresh = groups_of(collate(parts()), pattern, over)
    assert same(groups_of(collate(known), pattern, over), fresh)
    assert same(groups_of(collate(pack(parts())), pattern, over), fresh)


def test_numbers_stay_right_where_nodes_are_too_many_for_one_integer():
    n = 3_000_000_000
    s = Structure(n, {"(i j k)": [[0, n - 3], [n - 1, n - 2], [n - 2, n - 1]]})
    x = torch.tensor([[2.0], [3.0]])
    assert einsum("(i j k), (i j k) -> (i j k)", x, x, s).flatten().tolist() == [4.0, 9.0]
    assert einsum("(i j k), (i k j) -> ", x, x, s).flatten().tolist() == [0.0]


DENSE = [
    "i j, j k -> i k",
    "(i j), (j k) -> (i k)",
    "i j, j k, k l, l i -> ",
    "i j, j k, i k -> i j",
    "{i j}, {j k} -> {i k}",
]


@pytest.mark.parametrize("text", DENSE)
def test_where_all_entries_are_there_arrays_are_multiplied(text, monkeypatch):
    monkeypatch.undo()
    patterns = list(dict.fromkeys(ProductText(text).tensors))
    s = collate([Structure.complete(n, [str(p) for p in patterns if p.faces]) for n in (4, 5)])
    plan = join_plan_of(s, ProductText(text))
    assert has_matrices(plan)
    assert "products of matrices" in repr(plan)
    xs = [torch.randn(s.num_entries(p), 2, dtype=torch.float64) for p in ProductText(text).operands]
    found = einsum(text, *xs, s)
    monkeypatch.setattr(contract, "_FASTER", 0)
    sparse = collate(list(s))
    assert not has_matrices(join_plan_of(sparse, ProductText(text)))
    torch.testing.assert_close(einsum(text, *xs, sparse), found)


def test_an_array_is_added_up_where_an_entry_of_the_output_reads_it_twice(monkeypatch):
    monkeypatch.undo()
    # equal edges are read twice, disjoint ones never: as many reads as entries
    text = "i k m, k l m -> {i k} {k l}"
    s = Structure.complete(4, ["i j k", "{i j} {k l}"])
    assert has_matrices(join_plan_of(s, ProductText(text)))
    xs = [torch.randn(64, 2, dtype=torch.float64) for _ in range(2)]
    torch.testing.assert_close(einsum(text, *xs, s), product_by_definition(text, xs, s))


def test_few_entries_and_structures_of_very_different_size_are_joined(monkeypatch):
    monkeypatch.undo()
    product = ProductText("(i j), (j k) -> (i k)")
    assert not has_matrices(join_plan_of(star(50), product))
    unequal, alike = (
        collate([Structure.complete(n, "(i j)") for n in sizes])
        for sizes in ((30, 3, 3, 3), (30, 28))
    )
    assert not has_matrices(join_plan_of(unequal, product))
    assert has_matrices(join_plan_of(alike, product))


@pytest.mark.parametrize("text", DENSE)
def test_plans_by_matrices_make_the_plans_of_batches(text, monkeypatch):
    monkeypatch.undo()
    product = ProductText(text)
    patterns = [str(p) for p in dict.fromkeys(product.tensors) if p.faces]
    packed = pack([Structure.complete(n, patterns) for n in (4, 5, 3)])
    s = collate([packed[2], packed[0]])
    xs = [torch.randn(s.num_entries(p), 2) for p in product.operands]
    join_plan_of(collate(packed), product)
    monkeypatch.setattr(contract, "build_join_plan", None)
    assert has_matrices(join_plan_of(s, product))
    found = einsum(text, *xs, s)
    monkeypatch.undo()
    monkeypatch.setattr(contract, "_FASTER", 0)
    torch.testing.assert_close(found, einsum(text, *xs, collate(list(s))))
