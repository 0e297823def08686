"""The page of colours in a browser: two graphs and a map, typed, clicked and linked to."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlencode, urlparse

import pytest

import incidence as inc
from incidence.plot.explorer import reply

pytestmark = pytest.mark.browser

NODES = "i, {i j} -> i, {i j}"
PATH_AND_STAR = {"map": NODES, "one": "0-1-2-3-4", "other": "1-0-2 0-3 0-4"}


def colours_of(address: str) -> str:
    return address.replace("index.html", "colours.html")


def opened_page(browser, address: str, **options):
    opened = browser.new_page(**{"viewport": {"width": 1280, "height": 900}, **options})
    opened.problems = []
    opened.on("pageerror", lambda error: opened.problems.append(str(error)))
    opened.on(
        "console", lambda message: message.type == "error" and opened.problems.append(message.text)
    )
    opened.goto(colours_of(address))
    opened.wait_for_selector("#answer:not([hidden])")
    return opened


@pytest.fixture(scope="module")
def page(browser, address):
    """A page with Python in it: loading that takes seconds, so the tests share it."""
    opened = opened_page(browser, address)
    opened.wait_for_selector("html[data-engine=ready]", timeout=120_000)
    yield opened
    assert opened.problems == []
    opened.close()


def shown(page, texts: dict[str, str]) -> None:
    wanted = " | ".join(texts[name] for name in ("map", "one", "other"))
    page.wait_for_selector(f"html[data-shown={json.dumps(wanted)}] #answer:not(.stale)")


def types(page, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        page.fill(f"#{name}", text)
    shown(page, texts)


def answer_to(texts: dict[str, str]) -> dict:
    return json.loads(reply(json.dumps(["colours", texts["map"], 1, texts["one"], texts["other"]])))


def rows(page) -> list[list[str]]:
    """The table, without its mark for what differs."""
    return page.locator("#counts tr").evaluate_all(
        "all => all.map(row => [...row.cells].map(cell => cell.innerText.trim()))"
    )


def painted(page, number: int) -> list[int]:
    """The colours of the nodes of a picture."""
    return (
        page.locator("#pair figure")
        .nth(number)
        .locator(".node")
        .evaluate_all("all => all.map(one => Number(one.dataset.colour))")
    )


def test_what_is_typed_is_decided_as_in_the_library_with_the_colours_of_every_layer(page):
    types(page, PATH_AND_STAR)
    answer = answer_to(PATH_AND_STAR)
    assert page.inner_text("#sentence") == answer["sentence"].replace("`", "")
    assert page.inner_text("#sentence").startswith("Told apart after 1 layer")
    page.click("#before")
    assert page.inner_text("#layer") == "at the start"
    for layer, state in enumerate(answer["states"]):
        assert [painted(page, number) for number in (0, 1)] == state[0]
        counts = [
            [str(colour + 1), answer["tensors"][t]["text"], str(one), str(other)]
            for t, colour, one, other in answer["counts"][layer]
        ]
        assert rows(page) == counts
        if layer < len(answer["states"]) - 1:
            page.click("#after")
    assert page.is_disabled("#after")


def test_the_hexagon_and_two_triangles_are_equal_without_triangles_and_not_with_them(page):
    for number, is_apart in ((0, False), (1, True)):
        page.click(f"[data-number='{number}']")
        page.wait_for_selector(f"#answer:not(.stale){'.apart' if is_apart else ':not(.apart)'}")
        texts = {name: page.input_value(f"#{name}") for name in ("map", "one", "other")}
        shown(page, texts)
        hexagon = inc.geometry.graph([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]], num_nodes=6)
        triangles = inc.geometry.graph([[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]], num_nodes=6)
        if number == 0:
            assert not inc.expressivity(texts["map"], [hexagon, triangles]).separates(0, 1)
    assert page.locator("#pair figure >> nth=1 >> .face").count() == 2
    page.go_back()
    page.wait_for_selector("#answer:not(.stale):not(.apart)")


def test_the_browser_answers_as_python_does(page):
    ask = "async (request) => (await import('./state.js')).answers.ask(...request)"
    for text in ("i j -> i j", "(i j) -> i", "[i j], i -> i, [i j]", "i {i j} -> i", "{i j k} -> "):
        request = ["colours", text, 1, "0-1-2-3-0-2", "0-1-2-0-3"]
        assert page.evaluate(ask, request) == json.loads(reply(json.dumps(request)))


def test_matrices_are_drawn_with_a_cell_for_every_pair(page):
    texts = {"map": "i j -> i j", "one": "0-1-2", "other": "0-1 2"}
    types(page, texts)
    cells = page.locator("#pair figure >> nth=0 >> .cell")
    drawn = cells.evaluate_all("all => all.map(one => Number(one.dataset.colour))")
    answer = answer_to(texts)
    assert drawn == answer["states"][answer["first"]][0][0]
    assert len(drawn) == 9


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("one", "0--1", "is no edge"),
        ("other", "0-0", "joins two different nodes"),
        ("map", "<i j> -> i", "colours have no sign"),
        ("map", "i {i j", "a map needs an arrow"),
        ("map", "i j * i -> i", "are of linear maps"),
    ],
)
def test_what_is_refused_is_said(page, name, text, message):
    types(page, PATH_AND_STAR)
    page.fill(f"#{name}", text)
    page.wait_for_selector("#problem:not([hidden])")
    assert message in page.inner_text("#problem")
    types(page, PATH_AND_STAR)
    assert page.is_hidden("#problem")


def test_a_link_leads_to_the_same_graphs_map_and_layer(browser, page, address):
    page.goto(f"{colours_of(address)}#{urlencode({**PATH_AND_STAR, 'layer': 0})}")
    shown(page, PATH_AND_STAR)
    assert page.inner_text("#layer") == "at the start"
    page.click("#after")
    state = parse_qs(urlparse(page.url).fragment)
    assert {name: [text] for name, text in PATH_AND_STAR.items()} | {"layer": ["1"]} == state
    other = opened_page(browser, address)
    other.goto(page.url)
    other.reload()
    shown(other, PATH_AND_STAR)
    assert other.inner_text("#layer").startswith("after layer 1")
    assert rows(other) == rows(page)
    other.close()


def test_arrow_keys_go_from_layer_to_layer_but_not_while_typing(page):
    types(page, PATH_AND_STAR)
    page.focus("#link")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#layer") == "at the start"
    page.focus("#map")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#layer") == "at the start"
    page.focus("#link")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#layer").startswith("after layer 1")


def test_all_that_can_be_used_has_a_name(page):
    unnamed = page.locator("button, input, textarea").evaluate_all(
        "all => all.filter(one => !one.textContent.trim() && !one.ariaLabel &&"
        " !one.labels?.length).map(one => one.id)"
    )
    assert unnamed == []


def test_without_python_the_examples_are_there(browser, bare_address):
    page = opened_page(browser, bare_address)
    for number in range(page.locator(".example").count()):
        page.click(f"[data-number='{number}']")
        page.wait_for_selector(f"[data-number='{number}'][aria-pressed=true]")
        page.wait_for_selector("#answer:not(.stale)")
        assert page.is_hidden("#problem")
    page.fill("#one", "0-1")
    page.wait_for_selector("#problem:not([hidden])")
    assert "Python is not part of this copy" in page.inner_text("#problem")
    page.close()


def test_a_phone_shows_everything_without_scrolling_sideways(browser, bare_address):
    page = opened_page(browser, bare_address, viewport={"width": 360, "height": 740})
    for number in range(page.locator(".example").count()):
        page.click(f"[data-number='{number}']")
        page.wait_for_selector(f"[data-number='{number}'][aria-pressed=true]")
        page.wait_for_selector("#answer:not(.stale)")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()


def test_dark_colours_are_those_of_the_dark_theme(browser, bare_address):
    page = opened_page(browser, bare_address, color_scheme="dark")
    one = page.locator("#pair .node >> nth=0")
    wanted = (
        "e => getComputedStyle(e).getPropertyValue('--own').trim() ==="
        " e.style.getPropertyValue('--dark')"
    )
    assert one.evaluate(wanted)
    page.click("#theme")
    assert not one.evaluate(wanted)
    page.close()
