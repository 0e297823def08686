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
    page = inlined(
        f'<svg viewBox="0 0 1 1" width="9pt"><path fill="{LIGHT.ink}"/><path'
        ' fill="#123456"/></svg>',
        "a line",
    )
    assert f'fill="var(--c{LIGHT.ink[1:]},{LIGHT.ink})"' in page
    assert 'fill="#123456"' in page
    assert f"--c{LIGHT.ink[1:]}:{DARK.ink};" in style_sheet()


def test_a_shaded_picture_keeps_its_colours_but_those_of_paper_and_ink():
    cube = inlined(
        inc.plot.structure(
            inc.geometry.named("cube"), layout=inc.geometry.coordinates("cube")
        ).svg(),
        "a cube",
    )
    assert f"var(--c{LIGHT.paper[1:]}," in cube
    assert f'"{LIGHT.palette[0]}"' in cube


def test_a_colour_between_two_places_of_a_scale_is_taken_for_the_nearest():
    page = inlined('<svg viewBox="0 0 1 1"><path fill="#440155"/></svg>', "a line")
    assert "var(--c440154,#440155)" in page


def test_a_picture_without_paper_of_its_own_stands_on_white():
    assert 'class="picture on-white"' in inlined(
        '<svg viewBox="0 0 80 1"><path fill="#123456"/></svg>', "a line"
    )
    assert "max-width:60pt" in inlined('<svg viewBox="0 0 80 1"></svg>', "nothing")
