"""Networks: composition of layers, each on one screen."""

from incidence.models.net import IncidenceNet
from incidence.models.predictor import Predictor
from incidence.models.presets import (
    PRESETS,
    Preset,
    assert_has,
    find_preset,
    make,
    preset_for,
    read_channels,
    register_preset,
    settings_of,
)
from incidence.models.settings import NetSettings

__all__ = [
    "PRESETS",
    "IncidenceNet",
    "NetSettings",
    "Predictor",
    "Preset",
    "assert_has",
    "find_preset",
    "make",
    "preset_for",
    "read_channels",
    "register_preset",
    "settings_of",
]
