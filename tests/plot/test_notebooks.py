"""Our objects in a notebook: a picture and a table, and text where nothing draws."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import incidence as inc

PATH = inc.Structure(3, {"{i j}": [[0, 1], [1, 2]]})


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (inc.Pattern("i {j k}"), ["orbits of i {j k}", "<td>i {i j}</td><td>2</td><td>1</td>"]),
        (inc.EquivariantMap("i j -> i"), ["5 operations, 1 biases", "operations of i j -&gt; i"]),
        (inc.EquivariantMap("i -> i").operations[1], ["match i"]),
        (PATH, ["<td>nodes</td><td>3</td>", "<td>{i j}</td><td>2</td>"]),
        (inc.collate([PATH, PATH]), ["2 structures", "<td>nodes</td><td>6</td>"]),
        (
            inc.Example(PATH, {"i": torch.ones(3, 2)}, target=1.0),
            ["<td>i</td><td>[3, 2]</td>", "<td>target</td><td>[]</td>"],
        ),
        (inc.nn.Linear("i -> i", 2, 3), ["3 channels", "all 2 operations"]),
        (inc.nn.Exchangeable("i {i j}", 1, 1), ["Exchangeable"]),
        (inc.models.IncidenceNet("i, {i j} -> ", 2, hidden=4), ["encoder.0", "3 times"]),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, list) else "",
)
def test_a_notebook_shows_a_picture_and_a_table(value, said):
    html = value._repr_html_()
    assert "<svg" in html
    assert [text for text in said if text not in html] == []


def test_what_is_too_large_to_draw_has_a_table():
    html = inc.Structure.complete(9, ["i j k"])._repr_html_()
    assert "<svg" not in html
    assert "<td>i j k</td><td>729</td>" in html
    html = inc.Pattern("i j k l m")._repr_html_()
    assert "<svg" not in html
    assert "and 28 more orbits" in html


def test_a_module_without_layers_is_text():
    assert inc.nn.Sequential(torch.nn.ReLU())._repr_html_().startswith("<div><pre>Sequential")


def test_texts_are_escaped():
    assert "<i j>" not in inc.Structure(3, {"<i j>": [[0], [1]]})._repr_html_()


def test_pictures_in_notebooks_do_not_load_matplotlib():
    code = (
        "import sys; sys.modules['matplotlib'] = None; import incidence as inc,"
        " incidence.plot.figures\nprint('<svg' in inc.geometry.named('cube')._repr_html_(), '<svg'"
        " in inc.Pattern('i j')._repr_html_())"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["True", "True"]


def test_without_the_plot_package_the_text_is_shown():
    code = (
        "import sys; sys.modules['incidence.plot'] = None; import incidence as inc;"
        " print(inc.Pattern('<i j>')._repr_html_())"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "<pre>Pattern(&#x27;&lt;i j&gt;&#x27;)</pre>"
