"""Pictures in pages: words for those who cannot see them, and colours that follow the theme."""

import incidence as inc
from docs.extensions.pictures import dark_colours, inlined, style_sheet
from incidence.plot.theme import DARK, LIGHT


def test_a_picture_has_words_and_keeps_its_shapes():
    svg = inc.plot.structure(inc.geometry.named("cycle-5")).svg()
    page = inlined(svg, 'a "ring"')
    assert 'aria-label="a &#34;ring&#34;"' in page
    assert page.count("<circle") == svg.count("<circle") == 5
    assert page.count('role="img"') == 1


def test_every_colour_of_the_light_theme_has_its_own_in_the_dark_one():
    pairs = dark_colours()
    for name in ("paper", "ink", "faint", "line", "pale", "face"):
        assert pairs[getattr(LIGHT, name)[1:]] == getattr(DARK, name)[1:]
    assert [pairs[c[1:]] for c in LIGHT.palette] == [c[1:] for c in DARK.palette]
    assert pairs[LIGHT.sequence[0][1:]] == DARK.sequence[0][1:]


def test_a_colour_of_the_page_is_the_one_of_the_picture_unless_the_theme_is_dark():
    page = inlined(f'<svg viewBox="0 0 1 1" width="9pt"><path fill="{LIGHT.ink}"/><path fill="#123456"/></svg>', "a line")
    assert f'fill="var(--c{LIGHT.ink[1:]},{LIGHT.ink})"' in page
    assert 'fill="#123456"' in page
    assert f"--c{LIGHT.ink[1:]}:{DARK.ink};" in style_sheet()
