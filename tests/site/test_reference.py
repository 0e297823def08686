"""The reference has an entry for every public name, under one path."""

import re
from importlib import import_module
from inspect import getdoc
from pathlib import Path

import pytest

import incidence as inc
from docs.extensions.public import PACKAGES, all_names, names_of
from docs.extensions.reference import entry

PAGES = Path(__file__).parents[2] / "docs" / "reference"


def test_every_package_has_a_page_with_its_names():
    asked = [
        found
        for page in PAGES.glob("*.md")
        for found in re.findall(r"^\.\. public:: (\S+)$", page.read_text("utf-8"), re.MULTILINE)
    ]
    assert sorted(asked) == sorted(PACKAGES)


def test_every_module_at_the_front_door_is_in_the_reference():
    modules = {name.documented for name in names_of("incidence") if name.kind == "module"}
    assert modules
    assert modules <= set(PACKAGES)


def test_a_name_with_several_paths_is_documented_under_the_first():
    paths = {name.path: name.documented for name in all_names()}
    assert (
        paths["incidence.structure.Structure"]
        == paths["incidence.Structure"]
        == "incidence.Structure"
    )
    assert paths["incidence.nn.Linear"] == "incidence.nn.Linear"


def says_what_it_is(name):
    """Whether a public name has a docstring, or a constant more than five words."""
    package, _, attribute = name.path.rpartition(".")
    if name.kind == "data":
        return len(" ".join(entry(name)).split()) > 5
    return bool(getdoc(getattr(import_module(package), attribute)))


def test_every_public_name_says_what_it_is():
    names = [n for n in all_names() if n.path == n.documented and n.kind != "module"]
    assert len(names) > 200
    assert [name.path for name in names if not says_what_it_is(name)] == []


def test_a_constant_without_words_is_refused(monkeypatch):
    monkeypatch.setattr(inc.models, "NUMBER", 7, raising=False)
    monkeypatch.setattr(inc.models, "__all__", ["NUMBER"])
    [name] = [name for name in all_names() if name.path == "incidence.models.NUMBER"]
    with pytest.raises(
        ValueError, match=r"incidence\.models\.NUMBER is public and nothing says what it is"
    ):
        entry(name)
