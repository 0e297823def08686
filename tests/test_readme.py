"""Every example of the README and the docs runs and gives what it says; `page_checker` has the
rule.
"""

import re
from pathlib import Path

import pytest

import incidence
from incidence.cli import main
from tests.page_checker import WrongPageError, check_page

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FILES = [
    ROOT / "README.md",
    ROOT / "llms.txt",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "src").rglob("*.md")),
]
PAGES = [
    str(path.relative_to(ROOT))
    for path in FILES
    if "```python\n" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("page", PAGES)
def test_the_python_examples_give_the_values_in_their_comments(page):
    assert check_page((ROOT / page).read_text(encoding="utf-8"), page) >= 1


def test_the_pages_with_examples_are_found():
    assert {"README.md", "docs/layers.md", "docs/paper.md", "docs/symmetry.md"} <= set(PAGES)


def test_the_page_for_language_models_has_five_programs():
    text = (ROOT / "llms.txt").read_text(encoding="utf-8")
    assert text.count("## Program ") == text.count("```python\n") == 5


@pytest.mark.parametrize("name", ["README.md", "llms.txt"])
def test_links_lead_to_files_and_their_headings(name):
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / name).read_text(encoding="utf-8"))
    assert len(links) > 10
    for link in links:
        path, _, anchor = link.partition("#")
        assert (ROOT / path).is_file()
        if anchor:
            text = (ROOT / path).read_text(encoding="utf-8")
            headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
            assert anchor in [heading.lower().replace(" ", "-") for heading in headings]


def page(*lines: str) -> str:
    return "\n".join(["# A page", "", "```python", *lines, "```", ""])


@pytest.mark.parametrize(
    "line",
    [
        "1 + 1  # 2",
        "1 + 1  # 2: a sum",
        "1 + 1  # 2, a sum",
        "-1.5  # -1.5",
        "'a'  # 'a'",
        "1, [2]  # (1, [2]): a pair",
        "{'a': 1}  # {'a': 1}",
        "ValueError(1)  # ValueError(1)",
        "1 > 2  # False",
        "None  # None",
        "[\n    1,\n]  # [1]",
        "x = 1 + 1  # 2",
        "x, y = 1, 2  # (1, 2)",
        "float('nan')  # nan",
        "float('inf')  # inf, without a bound",
        "-float('inf')  # -inf",
        "b'a b'  # b'a b'",
        "import torch; torch.float32  # torch.float32: the default",
        "import torch; torch.tensor(3)  # tensor(3)",
        "3; 4  # 4",
        "[\n    1,\n]; 4  # 4",
        "1 + 1\n# 2: a sum, below",
        "[\n    1,\n]\n# [1]",
    ],
)
def test_a_right_value_is_compared(line):
    assert check_page(page(line), "page.md") == 1


@pytest.mark.parametrize(
    "line",
    [
        "1 + 1  # a sum of 2 numbers",
        "x = 1  # one",
        "x = 1  # one, or 2",
        "x = 1  # i -> j",
        "x = 1  # infinite, or nothing: Nonesuch",
        "x = 1  # a-z",
        "x = 1  # Euler's number",
        "x = 1  #",
        "3; 4  # three and 4",
        "for k in range(2):  # both\n    k",
        "# about 3 things",
    ],
)
def test_prose_states_no_value(line):
    assert check_page(page(line), "page.md") == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("60 * 2  # 121", "the comment says `121`, and the value is `120`"),
        ("60 * 2  # 12, as text begins alike", "the value is `120`"),
        ("60 * 2  # 121: the order", "the value is `120`"),
        ("1, 2  # (1, 3)", r"the value is `\(1, 2\)`"),
        ("'a'  # 'b'", "the value is `'a'`"),
        ("1 > 2  # True", "the value is `False`"),
        ("ValueError(1)  # ValueError(2)", "the value is `ValueError"),
        ("0.5  # -0.5", "the value is `0.5`"),
        ("x = 60 * 2  # 7 nodes", "the comment says `7 nodes`, and the value is `120`"),
        ("{1: 2}  # {1: 3}: a dict", r"the value is `\{1: 2\}`"),
        ("3  # .5", "the comment says `.5`, and the value is `3`"),
        ("3  # nan", "the comment says `nan`, and the value is `3`"),
        ("3  # inf", "the comment says `inf`, and the value is `3`"),
        ("3  # -inf", "the comment says `-inf`, and the value is `3`"),
        ("4  # ~4", "the comment says `~4`, and the value is `4`"),
        ("4  # = 4", "the comment says `= 4`, and the value is `4`"),
        ("4  # -> 4", "the comment says `-> 4`, and the value is `4`"),
        (
            "import torch; torch.float32  # torch.float64",
            "the comment says `torch.float64`, and the value is `torch.float32`",
        ),
        ("b'a b'  # b'a c'", "the value is `b'a b'`"),
        ("{1}  # frozenset({1})", r"the value is `\{1\}`"),
        ("3; 4  # 3", "the comment says `3`, and the value is `4`"),
        ("3; import re  # 3", "states a value after a line that has none"),
        ("# re.compile('a')", "no statement ends here"),
        ("import re  # 7", "states a value after a line that has none"),
        ("for k in range(2):  # 2 rounds\n    k", "no statement ends here"),
        ("# 120", "no statement ends here"),
        ("60 * 2\n# 121", "the comment says `121`, and the value is `120`"),
        ("1 / 0", "this raises ZeroDivisionError"),
        ("missing", "this raises NameError"),
    ],
)
def test_a_wrong_page_fails_with_its_line(line, said):
    with pytest.raises(WrongPageError, match=rf"^page.md:5: .*{said}"):
        check_page(page("x = 1  # the first line is right", line), "page.md")


def test_values_are_compared_when_the_line_runs():
    assert check_page(page("x = [1]", "x  # [1]", "x.append(2)", "x  # [1, 2]"), "page.md") == 2


def test_the_command_prints_the_text_below_it(capsys):
    page = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    shown = re.search(
        r"`incidence explain \"(.*?)\"` prints\n\n```text\n(.*?)```", page, flags=re.DOTALL
    )
    assert shown is not None
    main(["explain", shown[1]])
    assert capsys.readouterr().out == shown[2]


def test_the_version_has_one_source():
    cff = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {incidence.__version__}\n" in cff


def test_the_readme_is_short_and_fits_in_100_columns():
    lines = README.splitlines()
    assert len(lines) <= 150
    assert len(README.split()) <= 900
    assert [
        line for line in lines if len(line) > 100 and not line.startswith("|") and "](" not in line
    ] == []
