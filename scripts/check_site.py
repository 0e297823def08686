"""Check the built site: `python scripts/check_site.py build/docs`. `./run docs` does it after every
build.

It finds links that lead nowhere, files loaded from other addresses, formulas that were not
rendered, tables that lost cells, pictures without a description, and public names without an entry
in the reference.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
BUILT_APART = ("explorer",)
"""Folders of the site that another script builds; links to one that is not there are not followed.
"""

_CODE = {"pre", "code", "script", "style", "math", "svg"}
_LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "object": "data",
}
_CELLS = re.compile(r"(?<!\\)\|")
_OUTSIDE = re.compile(r"(?:url\(\s*[\"']?|@import\s+[\"'])(?:https?:)?//[^)\"']+")


@dataclass
class Table:
    """The number of cells of each row of a table."""

    rows: list[int] = field(default_factory=list)


class Page(HTMLParser):
    """The parts of a page that a check needs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.wordless: list[str] = []
        self.prose: list[str] = []
        self.tables: list[Table] = []
        self._code = 0
        self._open: list[Table] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record ids, links and loaded files."""
        given = {key: value or "" for key, value in attrs}
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") not in (
            "canonical",
            "prev",
            "next",
            "index",
            "search",
        ):
            self.loaded.append(given.get("href", ""))
        if given.get(_LOADED.get(tag, "")):
            self.loaded.append(given[_LOADED[tag]])
        if (tag == "img" and not given.get("alt")) or (
            tag == "svg" and given.get("role") == "img" and not given.get("aria-label")
        ):
            self.wordless.append(given.get("src", tag))
        self._code += tag in _CODE
        self._table(tag, int(given.get("colspan") or 1))

    def _table(self, tag: str, width: int) -> None:
        if tag == "table":
            self._open.append(Table())
        elif tag == "tr" and self._open:
            self._open[-1].rows.append(0)
        elif tag in ("td", "th") and self._open:
            self._open[-1].rows[-1] += width

    def handle_endtag(self, tag: str) -> None:
        """Close tables and code."""
        self._code -= tag in _CODE
        if tag == "table" and self._open:
            self.tables.append(self._open.pop())

    def handle_data(self, data: str) -> None:
        """Record text that is neither code nor a formula."""
        if not self._code:
            self.prose.append(data)


def faults_of(folder: Path) -> Iterator[str]:
    """Yield every fault of a built site, as a line."""
    pages = {
        path: Page(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.html"))
        if not _is_apart(folder, path)
    }
    for path, page in pages.items():
        name = path.relative_to(folder)
        yield from (f"{name}: {fault}" for fault in _faults_of_page(folder, path, page, pages))
    for path in sorted(folder.rglob("*.css")):
        yield from (
            f"{path.relative_to(folder)}: loads {found}"
            for found in _OUTSIDE.findall(path.read_text(encoding="utf-8"))
        )


def _is_apart(folder: Path, path: Path) -> bool:
    return path.relative_to(folder).parts[0] in BUILT_APART


def _faults_of_page(folder: Path, path: Path, page: Page, pages: dict[Path, Page]) -> Iterator[str]:
    for link in page.links:
        if not _leads_somewhere(folder, path, link, pages):
            yield f"the link {link} leads nowhere"
    for address in page.loaded:
        if urlsplit(address).netloc:
            yield f"loads {address} from elsewhere"
        elif (
            not address.startswith("data:")
            and not (path.parent / unquote(urlsplit(address).path)).exists()
        ):
            yield f"loads {address}, which is not there"
    yield from (
        f"the picture {picture} has no words for those who cannot see it"
        for picture in page.wordless
    )
    yield from (
        f"a formula was not rendered: {text.strip()[:80]!r}" for text in page.prose if "$" in text
    )
    yield from (
        f"a table has rows of {set(table.rows)} cells"
        for table in page.tables
        if len(set(table.rows)) > 1
    )


def _leads_somewhere(folder: Path, path: Path, link: str, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if (
        target.is_relative_to(folder)
        and _is_apart(folder, target)
        and not (folder / target.relative_to(folder).parts[0]).exists()
    ):
        return True
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return False
    return not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].ids


def cut_rows(text: str) -> Iterator[int]:
    """Yield the lines of a Markdown page where a row has not as many cells as the head of its
    table. Cells that are too many are lost silently.
    """
    width = 0
    for number, line in enumerate(text.split("\n"), 1):
        cells = len(_CELLS.findall(line)) if line.startswith("|") else 0
        if cells and width and cells != width:
            yield number
        width = width or cells if cells else 0


def missing_names(folder: Path, documented: Iterable[str]) -> list[str]:
    """Return the public names without an entry on any page of the reference."""
    ids = set[str]().union(
        *(
            Page(path.read_text(encoding="utf-8")).ids
            for path in (folder / "reference").glob("*.html")
        )
    )
    return sorted({name for name in documented if name not in ids and f"module-{name}" not in ids})


def main(folder: Path) -> int:
    """Print the faults and return their number."""
    sys.path.insert(0, str(ROOT))
    from docs.extensions.public import all_names

    faults = list(faults_of(folder.resolve()))
    for page in sorted((ROOT / "docs").rglob("*.md")):
        faults += [
            f"{page.relative_to(ROOT)}:{number}: this row has not as many cells as its head"
            for number in cut_rows(page.read_text("utf-8"))
        ]
    faults += [
        f"reference: {name} is public and has no entry"
        for name in missing_names(folder, (name.documented for name in all_names()))
    ]
    print(
        "\n".join(faults)
        or f"{folder}: every link leads somewhere, nothing is loaded from elsewhere, every public"
        " name has its entry"
    )
    return len(faults)


if __name__ == "__main__":
    sys.exit(min(main(Path(sys.argv[1])), 1))
