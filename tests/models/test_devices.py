"""What can be checked of GPUs without one: every tensor is made on a named device, and a step on a
structure with plans waits for nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from incidence.models import PRESETS
from tests.models.device_recorder import SETTINGS, Factories, Reads, Waits

KNOWN_WAITS = {
    # one list of blocks for each product of several factors with channels
    "engine/products/join.py: rows = (torch.searchsorted(",
    # the loss, once a step
    "train/steps.py: if not torch.isfinite(sums[0]):",
    # whether a checkpoint is due, right after the loss, which was waited for
    "train/steps.py: self._is_due = bool(sums[2])",
}


@pytest.fixture(scope="module")
def recorded():
    """What a script records for all presets, without what is compiled for CPUs."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.models.device_recorder"],
        env={**os.environ, "INCIDENCE_NATIVE": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_presets_layers_and_loaders_name_the_device_of_every_tensor_that_they_make(recorded):
    assert set(recorded["made"]) > {*PRESETS, *SETTINGS, "training"}
    assert {name: places for name, places in recorded["made"].items() if places} == {}


def test_a_second_training_step_waits_for_no_value(recorded):
    assert recorded["waits"].keys() == recorded["made"].keys() - {"layers and loaders"}
    waits = {place for places in recorded["waits"].values() for place in places}
    assert {one for one in waits if not any(map(one.startswith, KNOWN_WAITS))} == set()


def test_the_recorders_see_what_they_look_for():
    import incidence.models.net as module  # any module of the library

    code = "import torch\nx = torch.zeros(3)\nbool(x[0] > 1)\nx[x > 0]\n"
    with Factories() as factories, Reads() as reads, Waits() as waits:
        exec(compile(code, module.__file__, "exec"), {})
    assert all(one.places for one in (factories, reads, waits))
