"""The table of presets: the documentation shows it, and every row makes a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from incidence.data.lifts import LIFTS
from incidence.models import PRESETS, NetSettings
from incidence.models.presets import preset_table

DOCS = Path(__file__).parents[2] / "docs" / "models.md"


def test_the_documentation_shows_the_table_of_presets():
    assert preset_table() in DOCS.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_settings_and_a_lift_that_exist(name):
    preset = PRESETS[name]
    assert NetSettings(**preset.settings) != NetSettings() or not preset.settings
    lifts = set(preset.lift.split("+")) - {"none"}
    assert lifts <= set(LIFTS)
