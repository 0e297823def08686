"""The explorer in a browser: what one types, clicks, points at and links to; and that it says what
the library says.
"""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlencode, urlparse

import pytest

import incidence as inc
from incidence.algebra.composition import pool_to_orbit
from incidence.errors import PatternError
from incidence.plot.explorer import PAGE, reply
from incidence.plot.theme import DARK, LIGHT
from incidence.plot.weights import Sharing

pytestmark = pytest.mark.browser

MAPS = [
    *(
        "i -> i",
        "i -> ",
        " -> i",
        "i j -> i j",
        "i j -> i",
        "i j -> ",
        "i -> i j",
        "i j -> i j k",
        "i j k -> i j",
        "i j k -> i j k",
    ),
    *(
        "(i j) -> i",
        "(i j) -> (i j)",
        "{i j} -> {i j}",
        "{i j} -> i",
        "[i j] -> [i j]",
        "i [i j] -> i",
        "i {i j} -> i {i j}",
    ),
    *(
        "{i j} {i k} -> {i j} {i k}",
        "(i j) (j k) -> (i k)",
        "{i j k} -> {i j}",
        "{i j k} -> {i j k}",
        "(i j k) -> (i j k)",
    ),
    *(
        "i, {i j} -> i, {i j}",
        "i, {i j}, {i j k} -> i, {i j}, {i j k}",
        "bond={i j}, contact={i j} -> i",
        "old={i j} -> new={i j}",
    ),
    *(
        "i, (i j) -> ",
        "{i j} i -> i j",
        "(i j) {j k} -> i",
        "<i j> -> i",
        "<i j> -> <i j>",
        "<i j k> -> <i j>",
        "i -> <i j>",
    ),
    *(
        "<i j> -> i, <i j>, <i j k>",
        "<i j> -> {i j}",
        "(i j) -> <i j>",
        "i <i j> -> <i j>",
        "u:user m:movie -> u:user m:movie",
    ),
    *(
        "u:user m:movie -> u:user",
        "u:user v:user m:movie -> m:movie",
        "v e:edge -> v",
        "{i:a j:a} k:b -> k:b",
        "{i ...} -> i",
    ),
    *(
        "{i ...} -> {i ...}",
        "i {i ...} -> {i ...}",
        "i, {i ...} -> i, {i ...}",
        "i * i -> i",
        "{i j} * i -> i",
    ),
    *("(i j) * (i j) -> (i j)", "<i j> * i -> i", "u:user m:movie * m:movie -> u:user"),
]
THOUSAND = "i j k, i j -> i j k l"


@pytest.fixture(scope="module")
def page(browser, address):
    """A page with Python in it: loading that takes seconds, so the tests share it."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.problems = []
    opened.asked = []
    opened.on("pageerror", lambda error: opened.problems.append(str(error)))
    opened.on(
        "console", lambda message: message.type == "error" and opened.problems.append(message.text)
    )
    opened.context.on("request", lambda request: opened.asked.append(request.url))
    opened.goto(address)
    opened.wait_for_selector("html[data-engine=ready]", timeout=120_000)
    yield opened
    opened.close()


def shown(page, text: str) -> None:
    page.wait_for_selector(f"html[data-shown={json.dumps(text)}] #answer:not(.stale)")


def types(page, text: str) -> None:
    page.fill("#map", text)
    shown(page, text)


def opens(page, address: str, text: str, **state: int) -> None:
    page.goto(f"{address}#{urlencode({'map': text, **state})}")
    shown(page, text)


def formulas(page) -> dict[int, str]:
    """The formulas on the page, by number, nearly as the library writes them."""
    pairs = page.locator(".operation").evaluate_all(
        "all => all.map(one => [one.dataset.number, one.querySelector('.formula').innerText])"
    )
    return {int(number): " ".join(text.split()) for number, text in pairs}


def as_shown(formula: str) -> str:
    return formula.replace("sum_", "Σ").replace("sum ", "Σ ")


def lit(page) -> set[int]:
    return {
        int(n)
        for n in page.locator("svg.matrix.lit .weight.on").evaluate_all(
            "all => all.map(one => one.dataset.weight)"
        )
    }


def strong(page, part: str) -> set[int]:
    return {
        int(n)
        for n in page.locator(f"#structure .strong.{part}").evaluate_all(
            "all => all.map(one => one.dataset.entry)"
        )
    }


def test_the_maps_of_these_tests_are_fifty():
    assert len(set(MAPS)) >= 50


def test_typing_a_map_shows_its_dimension_orbits_operations_and_code(page):
    types(page, "{i j} {i k} -> i")
    assert page.inner_text("#count") == "6 operations and 1 bias"
    assert page.locator("#orbits figcaption code").all_inner_texts() == [
        "{i j} {i j}",
        "{i j} {i k}",
        "i",
    ]
    assert (
        page.inner_text("#code-python").splitlines()[-1]
        == 'layer = inc.nn.Linear("{i j} {i k} -> i", in_channels=8, out_channels=16)'
    )
    assert page.inner_text("#code-shell") == 'incidence explain "{i j} {i k} -> i"'


def test_clicking_an_example_shows_it_and_back_returns(page, address):
    opens(page, address, "i -> i")
    page.click("button[data-map='{i j} -> {i j}']")
    shown(page, "{i j} -> {i j}")
    assert page.input_value("#map") == "{i j} -> {i j}"
    assert page.inner_text("#count") == "3 operations and 1 bias"
    page.go_back()
    shown(page, "i -> i")
    assert page.input_value("#map") == "i -> i"


def test_a_link_leads_to_the_same_map_nodes_operation_and_entry(browser, page, address):
    opens(page, address, "i j -> i j")
    page.click("#fewer")
    page.wait_for_selector("#nodes:text('3 nodes')")
    page.click("[data-number='13']")
    page.wait_for_selector("#structure .strong.writes", state="attached")
    page.click("#after")
    wanted = page.inner_text("#row"), strong(page, "reads"), lit(page)
    state = parse_qs(urlparse(page.url).fragment)
    assert (state["map"], state["nodes"], state["op"]) == (["i j -> i j"], ["3"], ["13"])
    other = browser.new_page()
    other.goto(page.url)
    shown(other, "i j -> i j")
    other.wait_for_selector("#structure .strong.writes", state="attached")
    other.wait_for_selector("svg.matrix.lit")
    assert (other.inner_text("#row"), strong(other, "reads"), lit(other)) == wanted
    assert other.get_attribute("[data-number='13']", "aria-pressed") == "true"
    other.close()


@pytest.mark.parametrize(
    "text", ["i {i j -> i", "i j", "i ij -> i", "{i i} -> i", "i j * i, j -> i", "u:user -> u"]
)
def test_a_text_that_is_refused_shows_the_message_with_its_caret(page, address, text):
    opens(page, address, "i -> i")
    page.fill("#map", text)
    page.wait_for_selector("#problem:not([hidden])")
    with pytest.raises(PatternError) as refused:
        inc.explain(text)
    assert page.inner_text("#problem").rstrip() == str(refused.value).strip("\n")
    types(page, "i -> i j")
    assert page.is_hidden("#problem")


def test_fifty_maps_have_the_dimension_and_the_formulas_of_the_library(page, address):
    opens(page, address, "i -> i")
    for text in MAPS:
        types(page, text)
        told = inc.explain(text).data()
        biases = (
            f" and {told['num_biases']} bias{'es' * (told['num_biases'] != 1)}"
            if "num_biases" in told
            else ""
        )
        kind = "operation" if biases else "product"
        assert (
            page.inner_text("#count")
            == f"{told['dimension']} {kind}{'s' * (told['dimension'] != 1)}{biases}"
        ), text
        listed = (
            told["products"]
            if "products" in told
            else [o for block in told["blocks"] for o in block["operations"]]
        )
        found = formulas(page)
        assert 0 in found, text  # of long lists those near the window are on the page
        assert found == {number: as_shown(listed[number]["formula"]) for number in found}, text


def test_fifty_maps_have_the_same_answers_in_the_browser_as_in_the_library(page, address):
    """Letter for letter, drawings included: what is said of the map, its first operations and its
    last ones.
    """
    opens(page, address, "i -> i")
    ask = "async (request) => (await import('./state.js')).answers.ask(...request)"
    for text in MAPS:
        last = (inc.explain(text).map.dimension - 1) // PAGE
        for request in (
            ["summary", text, 1],
            ["operations", text, 1, 0],
            ["operations", text, 1, last],
        ):
            assert page.evaluate(ask, request) == json.loads(reply(json.dumps(request))), request


@pytest.mark.parametrize(
    "text",
    ["i j -> i j", "<i j> -> i, <i j>, <i j k>", "u:user m:movie -> u:user", "{i j} * i -> i"],
)
def test_at_few_nodes_the_dimension_is_the_exact_one(page, address, text):
    opens(page, address, text)
    m = inc.explain(text).map
    columns = page.locator("#small .column").all_inner_texts()
    assert columns == [f"{m.dimension_at(n)}\nN={n}" for n in range(1, len(columns) + 1)]
    assert len(columns) == max(m.enough_nodes.values())


def test_pointing_at_a_place_lights_up_its_weight_everywhere(page, address):
    opens(page, address, "(i j) -> i j")
    page.wait_for_selector("svg.matrix")
    sharing = Sharing.of(inc.EquivariantMap("(i j) -> i j"), 4)
    page.focus("svg.matrix")
    for row, column, key in [
        (0, 0, None),
        (1, 0, "ArrowDown"),
        (1, 1, "ArrowRight"),
        (2, 1, "ArrowDown"),
    ]:
        if key is not None:
            page.keyboard.press(key)
        assert lit(page) == {sharing.at(row, column).number}
    page.hover("svg.matrix .weight >> nth=2", position={"x": 4, "y": 4}, force=True)
    assert len(lit(page)) == 1


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("i j -> i j", 9),
        ("{i j} -> {i j}", 1),
        ("<i j> -> i, <i j>, <i j k>", 1),
        ("i, {i j} -> i", 2),
    ],
)
def test_an_operation_lights_up_the_places_it_reaches_and_the_entries_it_reads(
    page, address, text, number
):
    opens(page, address, text, op=number)
    page.wait_for_selector("svg.matrix.lit")
    m = inc.EquivariantMap(text)
    factors = pool_to_orbit(m, number)
    sharing = Sharing.of(m, 4)
    weights = [
        [sharing.at(r, c) for c in range(len(sharing.columns))] for r in range(len(sharing.rows))
    ]
    assert lit(page) == set(factors) & {w.number for row in weights for w in row if w}
    [row] = strong(page, "writes")
    assert strong(page, "reads") == {
        c for c, weight in enumerate(weights[row]) if weight and weight.number in factors
    }


def test_a_product_lights_up_the_entries_of_its_operands(page, address):
    text = "(i j) * i -> i"
    m = inc.explain(text).map
    number = [str(product) for product in m.products].index("(i j), j -> i")
    opens(page, address, text, op=number)
    page.wait_for_selector("#structure .strong.reads", state="attached")
    graphs = page.locator("#structure figure")
    assert graphs.locator("figcaption").all_inner_texts() == ["x1[(i j)]", "x2[i]", "y[i]"]
    # node 0 has three others
    assert [graphs.nth(k).locator(".strong").count() for k in range(3)] == [3, 3, 1]
    assert page.is_hidden("#matrix-panel")
    page.click("#fewer")
    page.wait_for_selector("#structure .node text:text-is('3')", state="detached")
    assert [graphs.nth(k).locator(".strong").count() for k in range(3)] == [2, 2, 1]


def test_a_thousand_operations_are_there_and_few_of_them_are_on_the_page(page, address, capsys):
    opens(page, address, "i -> i")
    types(page, "i j k -> i j k")  # the engine is warm
    page.evaluate(
        "() => { const gaps = (window.gaps = []); let before = performance.now(); const look ="
        " (now) => { gaps.push(now - before); before = now; requestAnimationFrame(look); };"
        " requestAnimationFrame(look); }"
    )
    types(page, THOUSAND)
    took = float(page.get_attribute("html", "data-took"))
    dimension = inc.EquivariantMap(THOUSAND).dimension
    assert page.inner_text("#count").startswith(f"{dimension:,} operations")
    page.focus("[data-number='0']")
    page.keyboard.press("End")
    last = page.locator(f"[data-number='{dimension - 1}']")
    last.wait_for()
    told = inc.explain(THOUSAND).data()["blocks"][-1]["operations"][-1]
    assert formulas(page)[dimension - 1] == as_shown(told["formula"])
    assert page.locator(".operation").count() < 300
    with capsys.disabled():
        worst = page.evaluate("Math.max(...window.gaps)")
        print(
            f"\n{dimension:,} operations: from typing to result {took:.0f} ms; longest pause of the"
            f" page {worst:.0f} ms"
        )


def test_typing_on_while_python_thinks_shows_what_was_typed_last(page, address):
    opens(page, address, "i -> i")
    page.wait_for_selector("html[data-engine=ready]", timeout=120_000)  # nothing else is computed
    page.fill("#map", "a b c d e f g h i -> j k l m n o p q r")  # takes ten seconds or more
    page.wait_for_selector("html[data-engine=busy]")
    for text in ("i j k l -> i j k l", "i j k -> i j", "(i j) -> (i j) j"):
        page.fill("#map", text)
    # whether the first worker is left behind depends on how fast the machine is
    page.wait_for_selector("html[data-engine=ready]", timeout=120_000)
    shown(page, "(i j) -> (i j) j")
    assert page.inner_text("#count").startswith(
        f"{inc.EquivariantMap('(i j) -> (i j) j').dimension} operations"
    )


def test_open_faces_have_a_bound_that_can_be_set(page, address):
    opens(page, address, "{i ...} -> {i ...}")
    page.fill("#overlap", "2")
    m = inc.EquivariantMap("{i ...} -> {i ...}", max_overlap=2)
    page.wait_for_selector(f"#count:has-text('{m.dimension} operations')")
    assert page.inner_text("#code-shell").endswith("--max-overlap 2")
    assert parse_qs(urlparse(page.url).fragment)["overlap"] == ["2"]
    assert page.is_hidden("#structure-panel")


def test_all_that_can_be_used_can_be_reached_by_tab_and_has_a_name(page, address):
    opens(page, address, "i -> i")
    page.wait_for_selector("svg.matrix")
    page.focus("#map")
    met = []
    for _ in range(60):
        page.keyboard.press("Tab")
        met.append(
            page.evaluate(
                "(() => { const one = document.activeElement; return one.id || one.classList[0] ||"
                " one.tagName })()"
            )
        )
        if met[-1] == "BODY":
            break
    for wanted in ("link", "example", "fewer", "more", "matrix", "operation"):
        assert wanted in met, met
    assert met.count("operation") == 1  # arrows lead to the others
    unnamed = page.locator("button, input").evaluate_all(
        "all => all.filter(one => !one.textContent.trim() && !one.ariaLabel &&"
        " !one.labels?.length).map(one => one.id)"
    )
    assert unnamed == []


def test_arrow_keys_go_from_operation_to_operation(page, address):
    opens(page, address, "i j -> i j")
    page.focus("[data-number='0']")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.number") == "3"
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-number='3'][aria-pressed=true]")
    assert parse_qs(urlparse(page.url).fragment)["op"] == ["3"]


@pytest.mark.parametrize(
    "text",
    [
        "i j -> i j",
        "i, {i j}, {i j k} -> i, {i j}, {i j k}",
        "i j * i j -> i j",
        "u:user m:movie -> u:user m:movie",
    ],
)
def test_nothing_is_wider_than_a_phone(browser, bare_address, text):
    phone = browser.new_page(viewport={"width": 400, "height": 800}, has_touch=True, is_mobile=True)
    opens(phone, bare_address, text, op=3)
    phone.wait_for_selector("#structure .strong.writes", state="attached")
    phone.click("#help")
    wide = phone.locator("body *").evaluate_all(
        "all => all.filter(one => one.getBoundingClientRect().right > 401).map(one =>"
        " one.outerHTML.slice(0, 80))"
    )
    assert wide == []
    assert phone.evaluate("document.documentElement.scrollWidth") <= 400
    phone.close()


@pytest.mark.parametrize(
    ("scheme", "theme", "other"), [("light", LIGHT, DARK), ("dark", DARK, LIGHT)]
)
def test_the_colours_follow_the_system_and_the_switch(browser, bare_address, scheme, theme, other):
    context = browser.new_context(color_scheme=scheme)
    opened = context.new_page()
    opened.goto(bare_address)
    shown(opened, "i j -> i j")
    paper = "getComputedStyle(document.documentElement).getPropertyValue('--paper').trim()"
    assert opened.evaluate(paper) == theme.paper
    opened.click("#theme")
    assert opened.evaluate(paper) == other.paper
    opened.reload()
    shown(opened, "i j -> i j")
    assert opened.evaluate(paper) == other.paper  # it is remembered
    context.close()


def test_without_python_the_examples_are_shown_and_a_line_says_so(browser, bare_address):
    opened = browser.new_page()
    opened.goto(bare_address)
    shown(opened, "i j -> i j")
    assert "Built without Python" in opened.inner_text("#engine")
    for text in opened.locator(".example").evaluate_all("all => all.map(one => one.dataset.map)"):
        opened.click(f".example[data-map='{text}']")
        shown(opened, text)
        assert opened.locator(".operation").count() > 0
    opened.fill("#map", "i -> i j k")
    opened.wait_for_selector("#problem:not([hidden])")
    assert "Python is not part of this copy" in opened.inner_text("#problem")
    opened.close()


def test_nothing_comes_from_another_address_and_nothing_went_wrong(page, address):
    opens(page, address, "i -> i")
    home = address.removesuffix("index.html")
    assert any(url.endswith("pyodide.asm.wasm") for url in page.asked)
    assert [url for url in page.asked if not url.startswith(home)] == []
    assert page.problems == []
