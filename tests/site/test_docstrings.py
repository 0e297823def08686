"""Docstrings reach the reference as they are meant: code as code, formulas as formulas, examples
untouched.
"""

import pytest

from docs.extensions.docstrings import to_rst
from docs.extensions.mathml import to_mathml


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("A `rank`, or `i {i j}`.", "A ``rank``, or ``i {i j}``."),
        ("All `Structure`s of it.", "All ``Structure``\\ s of it."),
        ("The sum $\\sum_k f_k$ of it.", "The sum :math:`\\sum_k f_k` of it."),
        ("See :py:obj:`incidence.nn`.", "See :py:obj:`incidence.nn`."),
        ("A *pattern* and a **map**.", "A *pattern* and a **map**."),
        (
            "Called as loader(**options) or f(*members).",
            "Called as loader(\\*\\*options) or f(\\*members).",
        ),
        ("``code`` stays.", "``code`` stays."),
    ],
)
def test_a_line_says_the_same_in_the_words_of_sphinx(written, read):
    assert to_rst([written]) == [read]


def test_code_and_formulas_go_on_over_the_end_of_a_line():
    assert to_rst(["A `map with", "two lines` and $a", "+ b$."]) == [
        "A ``map with two lines`` and :math:`a + b`."
    ]


def test_a_formula_of_its_own_is_a_block():
    assert to_rst(["As", "", "$$y = x$$", "", "says."]) == [
        "As",
        "",
        ".. math:: y = x",
        "",
        "says.",
    ]


def test_examples_stay_as_they_are():
    example = ["Example:", "    >>> print('`a` * $b$')", "    `a` * $b$", "", "Then `c`."]
    assert to_rst(example) == [*example[:4], "Then ``c``."]


def test_a_list_begins_after_an_empty_line():
    assert to_rst(["Some:", "- one", "- two"]) == ["Some:", "", "- one", "- two"]


def test_indented_text_after_a_colon_stays_as_it_is():
    assert to_rst(["It is", "so:", "", "    a * b  `c`", "", "And `d`."]) == [
        "It is",
        "so::",
        "",
        "    a * b  `c`",
        "",
        "And ``d``.",
    ]


@pytest.mark.parametrize(
    "latex",
    [
        "\\binom{n}{k}",
        "\\mathrm{Aut}(X) \\le S_N",
        "\\sum_A \\big(x\\big)\\, W_A",
        "\\sqrt{\\overline{x^2}}",
    ],
)
def test_formulas_become_mathml_without_a_rest_of_latex(latex):
    drawn = to_mathml(latex)
    assert drawn.startswith("<math")
    assert "\\" not in drawn
