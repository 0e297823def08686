"""The site in a browser: every page fits a phone, and none asks anybody else for anything."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser

PROJECT = Path(__file__).parents[2]
PHONE = {"width": 400, "height": 850}

# What sticks out of the page to the right, or can be scrolled to the right inside of it.
TOO_WIDE = """() => {
  const found = document.documentElement.scrollWidth > innerWidth ? ["the page"] : [];
  for (const element of document.querySelectorAll("article *:not(svg *):not(math *)")) {
    const style = getComputedStyle(element);
    const mayScroll = ["auto", "scroll", "hidden"].includes(style.overflowX);
    const scrolls = mayScroll && element.scrollWidth > element.clientWidth + 1;
    const box = element.getBoundingClientRect();
    if (box.width && (box.right > innerWidth + 1 || (scrolls && element.clientWidth > 0)))
      found.push(`${element.tagName} ${element.textContent.slice(0, 40)}`);
  }
  return found;
}"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built."""
    folder = tmp_path_factory.mktemp("site")
    pytest.importorskip(
        "furo", reason="the site is built by Sphinx and furo: ./run test installs them"
    )
    subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-b", "html", PROJECT / "docs", folder], check=True
    )
    return folder


def opened(browser: Any, **settings: Any) -> Iterator[Any]:
    """A page whose requests are noted."""
    context = browser.new_context(**settings)
    page = context.new_page()
    page.asked = []
    page.on("request", lambda request: page.asked.append(request.url))
    yield page
    context.close()


@pytest.fixture
def phone(browser: Any) -> Iterator[Any]:
    yield from opened(browser, viewport=PHONE)


@pytest.fixture
def dark(browser: Any) -> Iterator[Any]:
    yield from opened(browser, color_scheme="dark")


def test_no_page_scrolls_sideways_on_a_phone(site: Path, phone: Any) -> None:
    too_wide = {}
    for path in sorted(site.rglob("*.html")):
        phone.goto(path.as_uri())
        too_wide[str(path.relative_to(site))] = phone.evaluate(TOO_WIDE)
    assert len(too_wide) > 40
    assert {name: found[:3] for name, found in too_wide.items() if found} == {}


def test_no_page_asks_for_anything_outside_of_the_site(site: Path, phone: Any) -> None:
    for name in ("index", "paper", "gallery", "reference/nn", "search"):
        phone.goto((site / f"{name}.html").as_uri())
    assert phone.asked
    assert [url for url in phone.asked if not url.startswith((site.as_uri(), "data:"))] == []


def test_formulas_are_drawn_by_the_browser(site: Path, phone: Any) -> None:
    phone.goto((site / "reference" / "nn.html").as_uri())
    sizes = phone.evaluate(
        "[...document.querySelectorAll('math')].map(m => m.getBoundingClientRect().height)"
    )
    assert len(sizes) > 10
    assert min(sizes) > 5


def test_heads_of_tables_are_seen_and_those_of_wide_ones_are_beside_the_cells_on_a_phone(
    site: Path, phone: Any, dark: Any
) -> None:
    seen = "selector => document.querySelector(selector).getBoundingClientRect().height > 5"
    for page, head, beside in ((dark, True, False), (phone, False, True)):
        page.goto((site / "learning.html").as_uri())
        assert page.evaluate(seen, "table.wide th") is head
        assert page.evaluate(seen, "table.wide .cell-head") is beside
    phone.goto((site / "language.html").as_uri())
    assert phone.evaluate(seen, "table th")


def test_pictures_follow_the_dark_theme(site: Path, dark: Any) -> None:
    dark.goto((site / "index.html").as_uri())
    paper = dark.evaluate("getComputedStyle(document.querySelector('.picture svg > rect')).fill")
    assert paper == "rgb(19, 23, 29)"
