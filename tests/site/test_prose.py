"""The pages are plain English: short sentences, short cells, no words that say nothing.

`docs/math.md` is left out, because it follows the proofs.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEFT_OUT = {"math.md", "changes.md", "contributing.md"}
PAGES = [
    ROOT / "README.md",
    ROOT / "llms.txt",
    ROOT / "benchmarks" / "NOTES.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name not in LEFT_OUT),
]
MOST_WORDS = 25
MOST_CHARACTERS = 80  # of a cell
WIDTH = 100
VAGUE = re.compile(r"\b(told(?! apart)|asked for|found out)\b")
_FENCED = re.compile(r"^```.*?^```", flags=re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s+")
_END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[A-Z*0-9(])")


def plain(text: str) -> str:
    """Text with links replaced by their words, and code and formulas by one word."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]+`", "Code", text)
    return re.sub(r"\$[^$]+\$", "Formula", text)


def paragraphs(page: str) -> Iterator[str]:
    """The paragraphs and list items outside code, tables and headings."""
    lines: list[str] = []
    for line in [*_FENCED.sub("", page).split("\n"), ""]:
        is_item = _ITEM.match(line) is not None
        is_other = not line.strip() or line.startswith(("#", "|", "    ", "<", ":::", "> "))
        if (is_item or is_other) and lines:
            yield " ".join(lines)
            lines = []
        if is_item or not is_other:
            lines.append(_ITEM.sub("", line, count=1) if is_item else line.strip())


def cells(page: str) -> Iterator[str]:
    """The cells of all tables; those that are code alone may be long."""
    for line in page.split("\n"):
        if line.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", line)[1:-1]:
                if re.sub(r"`[^`]*`|[,; ]", "", cell):
                    yield re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", cell.strip())


def faults(page: str) -> list[str]:
    long_lines = [
        line
        for line in _FENCED.sub("", page).split("\n")
        if len(line) > WIDTH and not line.startswith(("|", "<")) and not re.search(r"\]\(|`.", line)
    ]
    long_cells = [cell for cell in cells(page) if len(cell) > MOST_CHARACTERS]
    sentences = [s for part in paragraphs(page) for s in _END.split(plain(part))]
    long_sentences = [s for s in sentences if len(s.split()) > MOST_WORDS]
    vague = [text for text in [*sentences, *cells(page)] if VAGUE.search(text)]
    return [*long_lines, *long_cells, *long_sentences, *vague]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_has_short_sentences_cells_and_lines_and_plain_words(path):
    assert faults(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "fault",
    [
        "A first sentence.\n" + "a word\n" * 13 + "end.",
        "- A first item.\n- " + "a\n" * 26,
        "| a | " + "b" * 81 + " |",
        "x" * 101,
        "This is what was asked for.",
    ],
)
def test_a_fault_of_each_kind_is_found(fault):
    assert len(faults(f"# A page\n\n{fault}\n\nShort.\n")) == 1


def test_code_links_and_long_code_in_cells_are_no_faults():
    code = "`" + "x" * 120 + "`"
    link = f"[a link](page.md#{'x' * 100})"
    fence = "```\n" + "word " * 40 + "\n```"
    assert faults(f"# A page\n\nSee {link}.\n\n| {code} |\n\n{fence}\n") == []
