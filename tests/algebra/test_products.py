"""Texts of products: letters that link tensors, what is refused, which letters may be exchanged,
and what needs a join.
"""

import pickle

import pytest

from incidence.algebra import Pattern
from incidence.algebra.products import (
    OUTPUT,
    MultiplyInto,
    ProductText,
    SumAway,
    fits,
    key_faces,
    needs_join,
    next_step,
)
from incidence.errors import IncidenceError, PatternError


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("i, j -> ", ()),
        ("(i j) -> ", ()),
        ("{i j} -> ", (("i", "j"),)),
        ("{i j}, {j k} -> {i k}", ()),
        ("{i j k}, {i j} -> ", (("i", "j"),)),
        ("{i j k}, {i j l} -> {k l}", (("i", "j"),)),
        ("{i j}, (i j) -> ", ()),
        ("{i j}, {i j} -> {i j}", (("i", "j"),)),
        ("{u:a v:a m:b} -> ", (("u", "v"),)),
        ("{u:a m:b} -> ", ()),
        ("[i j], {i j} -> ", (("i", "j"),)),
        ("{i j k l}, {i j}, {k l} -> ", (("i", "j"), ("k", "l"))),
        ("<i j>, <i j> -> ", (("i", "j"),)),
    ],
)
def test_letters_are_exchangeable_iff_they_share_all_faces_and_these_are_unordered(text, groups):
    assert ProductText(text).exchangeable == groups


def test_letters_of_the_output_alone_are_copied_and_those_it_lacks_are_summed():
    product = ProductText("i j, j k -> i l")
    assert (product.letters, product.summed, product.copied) == (
        ("i", "j", "k", "l"),
        ("j", "k"),
        ("l",),
    )


def test_products_are_equal_where_letters_alone_differ():
    product = ProductText("i j, j k -> i k")
    assert product == ProductText("a b,  b c2 -> a c2") != ProductText("i j, k j -> i k")
    assert len({product, ProductText("a b, b c -> a c")}) == 1
    assert pickle.loads(pickle.dumps(product)) == product
    assert (str(product), repr(product)) == ("i j, j k -> i k", "ProductText('i j, j k -> i k')")
    assert product != "i j, j k -> i k"


REFUSED = [
    (7, "a product is written as text, not as int"),
    ("i, j", "a product needs an arrow"),
    ("", "a product needs an arrow"),
    ("i j, j k = i k", "a product needs an arrow"),
    ("i -> j -> k", "a second `->`"),
    ("i, j -> i, j", "a second output"),
    ("i ->, i", "a second output"),
    ("{i ...}, i -> i", "an open face in a product"),
    ("i -> {i ...}", "make the hyperedge a node of its own sort"),
    ("i:a, i -> ", "written with the sort `a` in one place and without in another"),
    ("i:a, i:b -> ", "has the sort `a` elsewhere and `b` here"),
    ("i j, j k -> ik", "`ik` is not a letter"),
    ("ij,jk->ik", "`ij` is not a letter"),
    ("{i j -> i", "this `{` is never closed"),
    ("i j} -> i", "this `}` closes nothing"),
    ("{i i} -> i", "`i` twice in one face"),
    ("{i, j} -> i", "a comma inside brackets"),
    ("() -> i", "empty brackets"),
    ("i j; j k -> i k", "a stray `;`"),
    ("i * j -> i", "commas separate the operands of a product"),
    ("i={i j}, j -> i", "`i` cannot be a name"),
    ("1 -> i", "`1` is not a letter"),
    ("i → j", "needs an arrow"),
    ("i: -> i", "a `:` without a sort"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[str(text) for text, _ in REFUSED])
def test_a_text_that_is_no_product_is_refused_at_its_place(text, message):
    with pytest.raises(PatternError, match=message):
        ProductText(text)


@pytest.mark.parametrize(
    "text",
    [
        "<i j> -> ",
        "{i j} -> <i j>",
        "<i j>, {i j} -> ",
        "<i j>, <i j>, <i j> -> {i j}",
        "<i j k> -> i",
    ],
)
def test_a_product_that_is_always_zero_is_refused(text):
    with pytest.raises(
        IncidenceError, match=r"is always 0: exchanging . and . changes nothing but its sign"
    ):
        ProductText(text)


@pytest.mark.parametrize(
    ("text", "stored", "is_read"),
    [
        ("i i", "i j", True),
        ("i j", "i i", False),
        ("i j", "(i j)", False),
        ("{i j} {i j}", "{i j} {i k}", True),
        ("{i j} {j k}", "{i j} {k l}", True),
        ("{i j} {k l}", "{i j} {j k}", False),
        ("i {i j}", "i {j k}", True),
        ("i <j i>", "i <i j>", True),
        ("i j", "i j k", False),
        ("{i j}", "{i j k}", False),
        ("i:a j:b", "i:a j:a", False),
        ("{u:a m:b} u:a", "{m:b u:a} v:a", True),
        ("{i j} {i j} {k l}", "{i j} {i k} {k l}", False),
        ("{i j} i", "{i ...} i", False),
        ("(i j) {i j}", "(i j) {i j}", True),
        ("(i j) {j k}", "(i j) {i j}", False),
    ],
)
def test_a_text_reads_what_has_its_faces_and_whose_equalities_hold_in_it(text, stored, is_read):
    assert fits(Pattern(text), Pattern(stored)) is is_read


def test_a_large_face_is_matched_without_trying_all_orders():
    letters = " ".join(f"a{k}" for k in range(40))
    assert fits(Pattern(f"{{{letters}}}"), Pattern(f"{{{letters}}}"))


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("i j, j k -> i k", True),
        ("i j, k j -> k i", True),
        ("i j, j k, k i -> ", True),
        ("i j, j k -> i", False),
        ("i, j -> i j", False),
        ("i j, j k, k l -> i", False),
        ("i j, j k, k l -> i l", True),
        ("{i j}, {j k} -> ", False),
        ("i j k, j k -> i", False),
        ("i j, j k, i k -> i j k", False),
    ],
)
def test_a_product_needs_a_join_iff_its_tables_and_the_output_make_no_tree(text, needs):
    assert needs_join(ProductText(text)) is needs


def test_letters_of_one_table_are_summed_first_then_small_tables_go_into_larger_ones():
    tables = {0: frozenset("ij"), 1: frozenset("jk"), OUTPUT: frozenset("i")}
    assert next_step(tables) == SumAway(1, frozenset("j"))
    assert next_step(tables | {1: frozenset("j")}) == MultiplyInto(1, 0)
    assert next_step({0: frozenset("i"), OUTPUT: frozenset("i")}) == MultiplyInto(0, OUTPUT)
    assert next_step({0: frozenset("ij"), 1: frozenset("jk"), OUTPUT: frozenset("ik")}) is None
    assert next_step({OUTPUT: frozenset("ik")}) is None


@pytest.mark.parametrize(
    ("pattern", "over", "key"),
    [
        ("(i j)", "j", ["i"]),
        ("(i j)", "i", ["j"]),
        ("(i j)", "i j", []),
        ("{i j}", "i j", []),
        ("{i j}", "j i", []),
        ("i {i j}", "j", ["i", "i"]),
        ("i {i j}", "i", ["j"]),
        ("i j k", "j", ["i", "k"]),
        ("{i j} k", "k", ["i j"]),
        ("u:user m:movie", "m", ["u"]),
        ("bond=(i j)", "j", ["i"]),
        ("{u:a v:a m:b}", "m", ["u v"]),
    ],
)
def test_the_key_of_an_entry_is_what_is_left_without_the_letters(pattern, over, key):
    assert [
        " ".join(letter.name for letter in face.letters) for face in key_faces(pattern, over)
    ] == key


@pytest.mark.parametrize(
    ("pattern", "over", "message"),
    [
        ("{i j}", "i", r"the entry `{i j}` has 2 keys"),
        ("{i j} {i k}", "j k", r"the entry `{i j} {i j}` has 2 keys"),
        ("{i j k}", "i j", "has 3 keys"),
        ("[i j]", "j", r"the entry `\[i j\]` has 2 keys"),
        ("<i j>", "j", "change their sign means nothing"),
        ("{i ...}", "i", "members of an open face are no letters"),
        ("(i j)", "k", "`k` is not in `\\(i j\\)`, which has: i, j"),
        ("(i j)", "", "names the letters that a softmax sums over"),
        ("(i j)", "  ", "names the letters that a softmax sums over"),
        ("", "i", "`i` is not in ``, which has: none"),
        ("(i j", "j", "never closed"),
    ],
)
def test_an_over_that_makes_no_keys_is_refused(pattern, over, message):
    with pytest.raises(IncidenceError, match=message):
        key_faces(pattern, over)
