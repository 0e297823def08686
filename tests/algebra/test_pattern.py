"""Patterns: what they mean, how they print, and how bad ones are refused."""

import copy
import pickle

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from incidence.algebra import EquivariantMap, Pattern
from incidence.algebra.grammar import KINDS
from incidence.errors import IncidenceError, PatternError
from tests.algebra import brute_force
from tests.algebra.random_patterns import raw_patterns


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("{a b}", "{i j}"),
        ("{i j} {j k}", "{i j} {i k}"),
        ("i", "(i)"),
        ("i", "{i}"),
        ("i", "[x9]"),
        ("i:node", "i"),
        ("{j i}", "{i j}"),
        ("[i j] [j k]", "[a b] [a c]"),
        ("{i ...}", "{q ...}"),
        ("{i j ...} {i ...}", "{i j ...} {j ...}"),
        ("  i   {i j}", "i{i j}"),
        ("u:user m:movie", "x:user y:movie"),
        ("bond={i j}", "bond = {a b}"),
        ("", "   "),
    ],
)
def test_patterns_are_equal_by_meaning(one, other):
    assert Pattern(one) == Pattern(other)
    assert hash(Pattern(one)) == hash(Pattern(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("{i j}", "(i j)"),
        ("{i j}", "[i j]"),
        ("i j", "(i j)"),
        ("i i", "i j"),
        ("i {i j}", "{i j} i"),
        ("(i j) (j k)", "(i j) (i k)"),
        ("{i j}", "{i ...}"),
        ("{i ...}", "{i j ...}"),
        ("{i ...} {i ...}", "{i ...} {j ...}"),
        ("i:a", "i:b"),
        ("{i j}", "bond={i j}"),
        ("bond={i j}", "contact={i j}"),
        ("state=", ""),
    ],
)
def test_patterns_of_different_meaning_differ(one, other):
    assert Pattern(one) != Pattern(other)


@given(raw_patterns("abc"))
def test_the_text_of_a_pattern_parses_back_to_an_equal_pattern(raw):
    pattern = Pattern(brute_force.write(*raw))
    assert Pattern(str(pattern)) == pattern
    assert str(Pattern(str(pattern))) == str(pattern)


@given(raw_patterns("abc"), st.permutations("pqrstuvw"))
def test_the_names_of_letters_do_not_matter(raw, names):
    pattern = Pattern(brute_force.write(*raw))
    renamed = pattern.rename(dict(zip(pattern.letters, names, strict=False)))
    assert renamed == pattern
    assert renamed.orbits == pattern.orbits


def test_letters_keep_the_order_of_the_text():
    pattern = Pattern("{j i} k (k j)")
    assert pattern.letters == ("j", "i", "k")
    assert pattern.fixed_letters == ("j", "i", "k")
    assert str(pattern) == "{j i} k (k j)"
    assert pattern.order == 3


def test_letters_of_open_faces_alone_are_not_fixed():
    assert Pattern("i {i j ...}").fixed_letters == ("i",)


def test_patterns_are_immutable_values():
    pattern = Pattern("bond=i {i j:node}")
    assert (
        pickle.loads(pickle.dumps(pattern)) == copy.deepcopy(pattern) == pattern == Pattern(pattern)
    )
    assert repr(pattern) == "Pattern('bond=i {i j}')"
    assert pattern.unnamed() == Pattern("i {i j}")
    assert pattern != "bond=i {i j}"
    with pytest.raises(AttributeError, match="cannot be changed"):
        pattern.name = "other"
    with pytest.raises(AttributeError, match="cannot be changed"):
        del pattern.faces
    with pytest.raises(TypeError, match="does not support item assignment"):
        pattern.sorts["i"] = "other"


def test_sorts_and_signatures_are_those_of_the_text():
    pattern = Pattern("u:user {u:user v:user} (v:user m:movie)")
    assert pattern.sorts == {"u": "user", "v": "user", "m": "movie"}
    assert pattern.signatures == {"u": ((0, 0), (1, -1)), "v": ((1, -1), (2, 0)), "m": ((2, 1),)}


def test_kinds_of_faces_are_one_table():
    assert {
        k: (kind.is_ordered, kind.is_distinct, kind.is_oriented) for k, kind in KINDS.items()
    } == {
        "": (True, True, False),
        "(": (True, True, False),
        "{": (False, True, False),
        "[": (False, False, False),
        "<": (False, True, True),
    }


# text, where the caret stands, what is said of the place, what is advised
BAD_PATTERNS = [
    ("i {i j", 2, "this `{` is never closed", "add `}`"),
    ("(i j", 0, "this `(` is never closed", "add `)`"),
    ("i j)", 3, "this `)` closes nothing", "open it with `(`"),
    ("i j>", 3, "this `>` closes nothing", "open it with `<`, or remove it; the arrow is `->`"),
    (
        "<i ...>",
        3,
        "`...` in an oriented face",
        "write a tensor for each size, `i, <i j>, <i j k>`",
    ),
    ("[<i j>]", 1, "brackets inside brackets", "there is no oriented face with repeats"),
    ("<[i j]>", 1, "brackets inside brackets", "there is no oriented face with repeats"),
    ("<{i j}>", 1, "brackets inside brackets", "side by side"),
    ("⟨i j⟩", 0, "unexpected character `⟨`", "did you mean the plain `<`?"),
    ("{i j]", 4, "`]` does not close the `{`", "close it with `}`"),
    ("{i (j k)}", 3, "brackets inside brackets", "close the `{` first"),
    ("((i j))", 1, "brackets inside brackets", "side by side"),
    ("{}", 0, "empty brackets", "at least one letter"),
    ("i ( )", 2, "empty brackets", "the empty pattern has no face"),
    ("{i j i}", 5, "`i` twice in one face", "a letter stands once in a face"),
    ("[i i]", 3, "`i` twice in one face", "a letter stands once in a face"),
    ("i:a {i:b j}", 5, "`i` has the sort `a` elsewhere and `b` here", "use another letter"),
    (
        "i:a {i j:a}",
        5,
        "`i` is written with the sort `a` in one place and without",
        "write `i:a` in every place",
    ),
    ("i ...", 2, "a stray `...`", "`{i ...}`"),
    ("{...}", 1, "`...` without a letter", "starts with a letter"),
    ("{i ... j}", 7, "`j` after `...`", "stands last"),
    ("{i ... ...}", 7, "`...` after `...`", "stands last"),
    ("(i ...)", 3, "`...` in a directed face", "only `{ }` takes `...`"),
    ("[i ...]", 3, "`...` in a symmetric face", "only `{ }` takes `...`"),
    ("{i:a j:b ...}", 9, "an open face with 2 sorts: a, b", "one open face for each sort"),
    ("{i ..}", 3, "a stray `.`", "write `...`"),
    (": i", 0, "a stray `:`", "`u:user`"),
    ("i:", 1, "a `:` without a sort", "`u:user`"),
    ("i:{j}", 1, "a `:` without a sort", "`u:user`"),
    ("i = j", 0, "`i` cannot be a name", "names must differ from letters"),
    ("= i", 0, "a stray `=`", "`bond={i j}`"),
    ("{={i j}", 0, "`{` is not a name", "write `name=pattern`"),
    ("{i}={j}", 3, "a stray `=`", "once"),
    ("bond=contact=i", 5, "`contact` is not a letter", "a name takes `=`"),
    ("ij", 0, "`ij` is not a letter", "separated by spaces: `i j`"),
    ("i_j", 0, "`i_j` is not a letter", "separated by spaces"),
    ("i 2", 2, "`2` is not a letter", "start with a-z"),
    ("i, j", 1, "a pattern is one tensor", "comma"),
    ("i -> j", 2, "a pattern has no arrow", "EquivariantMap"),
    ("i - j", 2, "a stray `-`", "`->`"),
    ("i → j", 2, "unexpected character `→`", "did you mean the plain `->`?"),
    ("{i …}", 3, "unexpected character `…`", "did you mean the plain `...`?"),
    ("{ｉ j}", 1, "unexpected character `ｉ`", "did you mean the plain `i`?"),  # noqa: RUF001
    (
        "{\u0456 j}",
        1,
        "unexpected character `\u0456`",
        "CYRILLIC SMALL LETTER BYELORUSSIAN-UKRAINIAN I",
    ),
    ("i\x00j", 1, "unexpected character `'\\x00'`", "letters are a-z"),
    ("i * j", 2, "unexpected character `*`", "letters are a-z"),
    ("i" + " i" * 6000, 10_000, "the text has 12,001 characters", "at most 10,000"),
    (
        "(" + " ".join(f"i{n}" for n in range(80)) + ")",
        0,
        "80 letters in one pattern",
        "at most 64",
    ),
    ("{" * 5000, 1, "brackets inside brackets", "close the `{` first"),
]

BAD_MAPS = [
    ("i j", 3, "a map needs an arrow", "`tensors -> tensors`"),
    ("", 0, "a map needs an arrow", "`tensors -> tensors`"),
    ("i -> j -> k", 7, "a second `->`", "compose"),
    (
        "bond={i j}, bond={i j} -> i",
        12,
        "the name `bond` is used twice on this side",
        "another one",
    ),
    (
        "bond={i j} -> bond=i",
        14,
        "the name `bond` means `{i j}` left of the arrow",
        "one support throughout",
    ),
    (
        "u:user -> u",
        10,
        "`u` is written with the sort `user` in one place and without",
        "write `u:user`",
    ),
    ("i:a -> i:b", 7, "`i` has the sort `a` elsewhere and `b` here", "throughout a map"),
    ("i, {i j -> i", 3, "this `{` is never closed", "add `}`"),
    ("i > j", 2, "this `>` closes nothing", "the arrow is `->`"),
    ("i => j", 3, "this `>` closes nothing", "the arrow is `->`"),
    ("<i j> > i", 6, "this `>` closes nothing", "the arrow is `->`"),
    ("<i j -> i", 0, "this `<` is never closed", "add `>`"),
    ("{i, j -> i", 0, "this `{` is never closed", "add `}`"),
    ("<i, j> -> i", 2, "a comma inside brackets", "separated by spaces"),
    ("{i, j} -> i", 2, "a comma inside brackets", "separated by spaces"),
    ("(i,j) -> i", 2, "a comma inside brackets", "separated by spaces"),
    ("i:user-id -> i", 6, "a stray `-`", "names and sorts take `_`"),
    ("node -> i", 0, "`node` is not a letter", "a name takes `=`: `node={i j}`"),
    ("i; j -> i", 1, "a stray `;`", "tensors are separated by commas"),
    ("i:3 -> i", 2, "`3` is not a letter", "sorts start with a-z"),
    ("," * 300 + "->", 255, "too many tensors", "at most 256"),
]


def assert_points_at(
    error: PatternError, text: str, position: int, problem: str, hint: str
) -> None:
    assert problem in error.problem
    assert hint in error.hint
    assert error.position == position
    shown, caret, *_ = str(error).removeprefix("\n").split("\n")
    column = len(caret) - len(caret.lstrip())
    if position < len(text) and text[position].isprintable():
        assert shown[column] == text[position]
    assert len(shown) <= 80
    assert caret[column:].startswith(f"^ {error.problem}")
    assert "Hint: " in str(error)


@pytest.mark.parametrize(
    ("text", "position", "problem", "hint"),
    BAD_PATTERNS,
    ids=[repr(b[0][:24]) for b in BAD_PATTERNS],
)
def test_a_bad_pattern_gets_a_caret_under_the_place_and_a_hint(text, position, problem, hint):
    with pytest.raises(PatternError, match=r"\^ ") as caught:
        Pattern(text)
    assert_points_at(caught.value, text, position, problem, hint)


@pytest.mark.parametrize(
    ("text", "position", "problem", "hint"), BAD_MAPS, ids=[repr(b[0][:24]) for b in BAD_MAPS]
)
def test_a_bad_map_gets_a_caret_under_the_place_and_a_hint(text, position, problem, hint):
    with pytest.raises(PatternError, match=r"\^ ") as caught:
        EquivariantMap(text)
    assert_points_at(caught.value, text, position, problem, hint)


@pytest.mark.parametrize("value", [None, 3, b"i j", ["i"]])
def test_a_pattern_is_text(value):
    with pytest.raises(PatternError, match="is written as text, not as"):
        Pattern(value)


@given(st.text(alphabet="ij:u=,->(){}[]<. …i2_\n", max_size=40))
@example("{" * 3000)
@settings(max_examples=300)
def test_any_text_either_parses_and_round_trips_or_is_refused_with_a_place(text):
    for kind in (Pattern, EquivariantMap):
        try:
            value = kind(text)
        except PatternError as error:
            assert 0 <= error.position <= len(text)
            assert "^" in str(error)
        else:
            assert kind(str(value)) == value


def test_errors_survive_pickling_and_are_value_errors():
    with pytest.raises(PatternError, match="never closed") as caught:
        Pattern("{i")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert isinstance(again, IncidenceError)
    assert isinstance(again, ValueError)
