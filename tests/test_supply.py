"""What is installed: every package is pinned with hashes, and the pins are those that
pyproject.toml and constraints.txt ask for.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = [
    pin
    for pin in re.split(r"(?m)^(?=[^\s#])", (ROOT / "locked.txt").read_text())
    if not pin.startswith("#")
]
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]


def environment(python: str) -> dict[str, str]:
    return {
        "python_version": python,
        "python_full_version": f"{python}.5",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
    }


def applies(requirement: Requirement, python: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(environment(python))


def pinned(python: str) -> dict[str, str]:
    """The version of every package that is installed for a Python; a package that is pinned twice
    is refused.
    """
    found: dict[str, str] = {}
    for requirement in (Requirement(pin.partition("\\")[0]) for pin in PINS):
        if applies(requirement, python):
            [version] = requirement.specifier
            assert version.operator == "=="
            assert requirement.name not in found
            found[requirement.name] = version.version
    return found


def asked(*extras: str) -> Iterator[Requirement]:
    """What extras ask for, those that they name included, and the library itself."""
    yield from map(Requirement, PROJECT["dependencies"])
    for extra in extras:
        for requirement in map(Requirement, PROJECT["optional-dependencies"][extra]):
            if requirement.name == "incidence":
                yield from asked(*requirement.extras)
            else:
                yield requirement


@pytest.mark.parametrize("python", PYTHONS)
def test_the_pins_are_what_the_extras_ask_for(python):
    pins = pinned(python)
    for requirement in asked("dev"):
        if requirement.name != "torch" and applies(requirement, python):
            assert requirement.specifier.contains(
                pins.get(canonicalize_name(requirement.name), "0.dev0")
            ), f"{requirement}: run ./run lock"


@pytest.mark.parametrize("python", PYTHONS)
def test_the_pins_are_those_of_the_constraints(python):
    pins = pinned(python)
    lines = [
        line
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    wanted = [
        requirement for requirement in map(Requirement, lines) if applies(requirement, python)
    ]
    both = [
        requirement for requirement in wanted if canonicalize_name(requirement.name) in pins
    ]  # others are of extras that ./run leaves out
    assert len(both) > 5
    for requirement in both:
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), (
            f"{requirement}: run ./run lock"
        )


def test_every_pin_has_hashes_and_no_address():
    pattern = re.compile(
        r"[a-z0-9-]+==[\w.]+( ; [^\\\n]+)? \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+"
    )
    assert [pin for pin in PINS if not pattern.fullmatch(pin) or "://" in pin] == []


def test_torch_and_what_its_builds_for_gpus_need_are_left_out_of_the_pins():
    for pin in PINS:
        assert not re.match(r"(torch|triton|nvidia-[\w-]+|cuda-[\w-]+)==", pin)


def test_the_classifiers_name_every_python_that_is_promised():
    lowest = re.fullmatch(r">=(3\.\d+)", PROJECT["requires-python"])
    assert lowest is not None
    named = [
        c.rpartition(" ")[2]
        for c in PROJECT["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", c)
    ]
    assert named == sorted(named, key=Version)
    assert named[0] == lowest[1]
