"""The check of the site finds what it is there to find."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECK = runpy.run_path(str(ROOT / "scripts" / "check_site.py"))


def faults(folder: Path, body: str) -> list[str]:
    (folder / "other.html").write_text('<p id="here">x</p>')
    (folder / "page.html").write_text(f"<body>{body}</body>")
    return list(CHECK["faults_of"](folder))


@pytest.mark.parametrize(
    "body",
    [
        '<a href="other.html#here">there</a>',
        '<a href="https://example.org/">elsewhere, if one clicks</a>',
        '<a href="explorer/index.html">built apart</a>',
        "<code>$HOME</code> and <math><mi>$</mi></math>",
        '<table><tr><th>a</th><th>b</th></tr><tr><td colspan="2">c</td></tr></table>',
        '<img src="data:image/png;base64,AA" alt="a dot">',
    ],
)
def test_a_good_page_passes(tmp_path, body):
    assert faults(tmp_path, body) == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('<a href="gone.html">x</a>', "the link gone.html leads nowhere"),
        ('<a href="other.html#gone">x</a>', "the link other.html#gone leads nowhere"),
        ('<a href="#gone">x</a>', "the link #gone leads nowhere"),
        ('<script src="https://cdn.example.org/a.js"></script>', "from elsewhere"),
        ('<link rel="stylesheet" href="//fonts.example.org/a.css">', "from elsewhere"),
        ('<img src="https://example.org/a.png" alt="a">', "from elsewhere"),
        ('<img src="gone.png" alt="a">', "gone.png, which is not there"),
        ('<img src="data:image/png;base64,AA">', "no words"),
        ('<svg role="img"></svg>', "no words"),
        ("<p>costs $x^2$</p>", "a formula was not rendered"),
        ("<table><tr><th>a</th><th>b</th></tr><tr><td>c</td></tr></table>", "a table has rows of"),
    ],
)
def test_a_fault_of_a_page_is_found(tmp_path, body, said):
    [fault] = faults(tmp_path, body)
    assert fault.startswith("page.html: ")
    assert said in fault


def test_a_style_sheet_that_loads_from_elsewhere_is_found(tmp_path):
    (tmp_path / "a.css").write_text(
        "@font-face { src: url('https://example.org/a.woff'); } p { background: url(data:x); }"
    )
    [fault] = faults(tmp_path, "<p>x</p>")
    assert "a.css: loads" in fault


def test_links_into_what_is_built_apart_are_followed_once_it_is_there(tmp_path):
    (tmp_path / "explorer").mkdir()
    [fault] = faults(tmp_path, '<a href="explorer/index.html">x</a>')
    assert "leads nowhere" in fault


def test_a_row_with_too_many_or_too_few_cells_is_found():
    table = (
        "| a | b |\n|---|---|\n| c | d |\n| `x | y` | z |\n| e |\n\n| f | g | h |\n|---|---|---|\n|"
        " `x \\| y` | z | w |\n"
    )
    assert list(CHECK["cut_rows"](table)) == [4, 5]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: path.stem)
def test_no_table_of_the_pages_is_cut(page):
    assert list(CHECK["cut_rows"](page.read_text(encoding="utf-8"))) == []


def test_a_public_name_without_an_entry_is_found(tmp_path):
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "nn.html").write_text(
        '<dt id="incidence.nn.Linear"></dt><span id="module-incidence.nn"></span>'
    )
    assert CHECK["missing_names"](
        tmp_path, ["incidence.nn.Linear", "incidence.nn", "incidence.nn.Gate"]
    ) == ["incidence.nn.Gate"]
