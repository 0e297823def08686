"""Layouts of maps."""

from incidence.algebra.maps import EquivariantMap
from incidence.engine.layout import layout_of


def test_a_layout_has_the_letters_of_its_map_whatever_was_laid_out_before():
    for text in ("a, {a b} -> a", "i, {i j} -> i", "a, {a b} -> a"):
        m = EquivariantMap(text)
        assert [str(layout.pattern) for layout in layout_of(m).inputs] == [*map(str, m.inputs)]
        assert layout_of(EquivariantMap(text)) is layout_of(m)
