"""What the page of colours is told about two graphs."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from incidence.plot.explorer import reply
from incidence.plot.theme import DARK, LIGHT

NODES = "i, {i j} -> i, {i j}"


def ask(text: str, one: str, other: str):
    return json.loads(reply(json.dumps(["colours", text, 1, one, other])))


@pytest.mark.parametrize(
    ("text", "one", "other", "first", "sentence"),
    [
        (
            NODES,
            "0-1-2-3-4-5-0",
            "0-1-2-0 3-4-5-3",
            None,
            "Not told apart: every colour is as frequent in both graphs, and the first layer"
            " changes nothing. No network",
        ),
        (
            NODES,
            "0-1-2-3",
            "0-1-2-3",
            None,
            "Not told apart: every colour is as frequent in both graphs, and after 1 layer nothing"
            " changes. No network",
        ),
        (
            "i, {i j}, {i j k} -> i",
            "0-1-2-3-4-5-0",
            "0-1-2-0 3-4-5-3",
            0,
            "Told apart before the first layer: colour 3 of `{i j k}` occurs 0 times in the first"
            " graph, and 2 in the second. Some network",
        ),
        (
            "i, {i j} -> i",
            "0-1-2-3-4",
            "1-0-2 0-3 0-4",
            1,
            "Told apart after 1 layer: colour 4 of `i` occurs 0 times in the first graph, and 1 in"
            " the second. Some network",
        ),
    ],
)
def test_the_sentence_says_when_and_why(text, one, other, first, sentence):
    answer = ask(text, one, other)
    assert answer["first"] == first
    assert answer["sentence"].startswith(sentence)


@pytest.mark.parametrize("text", [NODES, "i j -> i j", ", i -> ", "i {i j}, [i j] -> i {i j}"])
def test_counts_and_colours_fit_the_entries(text):
    answer = ask(text, "0-1-2-0-3", "0-1-2-3-0")
    for state, counts in zip(answer["states"], answer["counts"], strict=True):
        assert len(state) == len(answer["tensors"])
        expected = []
        for t, (own, tensor) in enumerate(zip(state, answer["tensors"], strict=True)):
            assert [len(one) for one in own] == [len(one) for one in tensor["entries"]]
            one, other = map(Counter, own)
            expected += [[t, c, one[c], other[c]] for c in sorted({*one, *other})]
        assert counts == expected
        assert max(colour for _, colour, _, _ in counts) < len(answer["palette"])
    assert answer["palette"][0] == [LIGHT.palette[0], DARK.palette[0]]


def test_tensors_say_how_their_entries_are_drawn():
    text = "i, {i j}, (i j), {i j k}, i j, [i j], i {i j},  -> i"
    looks = {tensor["text"]: tensor["look"] for tensor in ask(text, "0-1", "0-1")["tensors"]}
    assert list(looks.values()) == [
        *("node", "line", "arrow", "region", "cell", "both", "none", "none")
    ]


def test_products_are_refused():
    message = ask("i j * i j -> i j", "0-1", "0-1")["error"]
    assert "inc.expressivity takes products, too" in message
