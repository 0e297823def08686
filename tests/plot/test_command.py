"""`incidence plot`: what can be named is drawn, and a file comes out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import incidence as inc
from incidence.cli import main

SQUARE = "OFF\n4 1 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n4 0 1 2 3\n"


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def drawn(capsys, *words: str) -> dict[str, int]:
    """What the command says it has drawn."""
    assert main(["plot", *words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert Path(told["file"]).read_bytes()
    return told["drawn"]


def test_a_named_object_is_drawn_with_its_coordinates(capsys):
    assert drawn(capsys, "cube", "--out", "a.png") == {"node": 8, "{i j}": 12, "rank2": 6}
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")


def test_the_file_is_called_after_what_it_shows(capsys):
    assert main(["plot", "soccer ball", "--values", "size"]) == 0
    assert capsys.readouterr().out == "wrote soccer-ball.svg (32 rank2, 90 {i j}, 60 node)\n"
    assert Path("soccer-ball.svg").read_text().count("<circle") == 60


@pytest.mark.parametrize(
    ("words", "part", "count"),
    [
        (["i j -> i j", "--as", "sharing", "--nodes", "3"], "weight", 81),
        (["{i j} -> {i j}", "--as", "plan", "--on", "cycle-5"], "input", 5),
        (["i {i j} -> i", "--as", "plan", "--on", "cycle-3"], "input", 6),
        (["i {i j} -> i {i j}", "--as", "sharing", "--on", "with.npz", "--nested"], "field", 6),
        (["cube", "--as", "poset"], "face", 26),
        (["square.off"], "{i j}", 4),
        (["example.npz", "--values", "i"], "node", 3),
        (["structure.npz"], "node", 3),
        (["edges.csv", "--reader", "graph"], "{i j}", 2),
        (["smiles:c1ccccc1O"], "ring", 1),
        (["solubility", "--rows", "0", "1"], "node", 10),
        (["cycle-4", "--lift", "rings"], "ring", 1),
        (["24-cell", "--layout", "shadow", "--tensors", "{i j}"], "{i j}", 96),
        (["Petersen graph", "--layout", "circle"], "node", 10),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else None,
)
def test_what_is_named_is_drawn(words, part, count, capsys):
    triangle = inc.Structure(3, {"{i j}": torch.tensor([[0, 0, 1], [1, 2, 2]])})
    triangle.save("structure.npz")
    triangle.with_pattern("i {i j}").save("with.npz")
    inc.Example(triangle, {"i": torch.tensor([[1.0], [2.0], [3.0]])}).save("example.npz")
    Path("square.off").write_text(SQUARE)
    Path("edges.csv").write_text("source,target\n0,1\n1,2\n")
    assert drawn(capsys, *words, "--out", "a.svg")[part] == count


def test_a_text_with_a_star_is_drawn_by_its_products(capsys):
    assert main(["plot", "(i j) * i -> i"]) == 0
    # a sparse matrix times a vector
    assert "3  y[i] = Σj x1[(i j)] x2[j]" in Path("products.svg").read_text()


@pytest.mark.parametrize(
    ("words", "shown"), [([], 5), (["--operations", "3", "4"], 2), (["--most", "1"], 1)]
)
def test_a_map_is_drawn_by_its_operations(words, shown, capsys):
    assert main(["plot", "i j -> i", *words]) == 0
    assert (
        capsys.readouterr().out
        == f"wrote map.svg ({'' if shown == 5 else f'{shown} of '}5 operations)\n"
    )
    assert Path("map.svg").read_text().count(" = ") == shown


def test_what_is_drawn_of_operations_and_orbits_is_told(capsys):
    assert drawn(capsys, "i j -> i j") == {"operation": 15}
    assert drawn(capsys, "i j k") == {"orbit": 5}
    assert main(["plot", "i j * i -> i", "--most", "4"]) == 0
    assert capsys.readouterr().out == "wrote products.svg (4 of 15 products)\n"


def test_a_pattern_is_drawn_by_its_orbits(capsys):
    assert main(["plot", "{i j} {i k}", "--theme", "dark", "--transparent"]) == 0
    assert "<title>orbits of {i j} {i k}</title>" in Path("pattern.svg").read_text()
    assert "<rect" not in Path("pattern.svg").read_text()


def test_a_map_is_drawn_without_torch():
    code = (
        "import sys; sys.modules['torch'] = sys.modules['numpy'] = None; from incidence.cli import"
        " main; sys.exit(main(['plot', 'i -> i']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "wrote map.svg (2 operations)\n"), done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["petersn graf"],
            (
                "'petersn graf' is no map or pattern, no named object, no file, no data set and no"
                " folder of a run. Did you mean petersen"
            ),
        ),
        (["somewhere"], "Named objects: geometry.names(); data sets: incidence train --list"),
        (["{i j"], "this `{` is never closed"),
        (
            ["cube", "--out", "a.jpg"],
            "a picture is a file .svg, .pdf or .png; got 'a.jpg'. Give --out one of these endings",
        ),
        (["cube", "--out", "missing/a.svg"], "there is no folder missing to save to"),
        (
            ["cube", "--as", "network"],
            "--as 'network': of a structure one can draw structure, poset",
        ),
        (["i -> i", "--as", "plan"], "a plan belongs to a structure: add --on"),
        (
            ["i -> i", "--as", "plan", "--on", "i -> i"],
            "--on 'i -> i': that is a map; give a named object or a file",
        ),
        (["cycle-4", "--values", "size"], "--values size: there are no faces of different sizes"),
        (["."], "is a folder, but not of a run"),
        (
            ["solubility", "--rows", "5000"],
            "solubility has 1,282 examples; there is no number 5000",
        ),
        (["simplex-3", "--layout", "spiral"], "a layout is one of 'force'"),
        (["Petersen graph", "--layout", "shadow"], "a shadow is one of coordinates"),
        (["prism-0"], "must be at least 3"),
        (
            ["cube", "--rows", "3"],
            "--rows chooses among the examples of a file or data set; 'cube' is none",
        ),
        (["cube", "--nodes", "4"], "--nodes is for pictures of sharing; this is one of structure"),
        (
            ["i -> i", "--values", "size"],
            "--values is for pictures of structure; this is one of operations",
        ),
        (["cube", "--opacity", "7"], "`opacity` is a number from 0 to 1; got 7.0"),
        (["cube", "--size", "0"], "`size` is a number of points above 0; got 0.0"),
        (["cube", "--columns", "0"], "`columns` is a number from 1 on; got 0"),
        (["i -> i", "--most", "0"], "`most` is a number from 1 on; got 0"),
        (["i j", "--columns", "0"], "`columns` is a number from 1 on; got 0"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_drawn_is_refused_with_what_to_do(words, said, capsys):
    assert main(["plot", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_shadow_of_something_rigid_is_refused():
    path = inc.Structure(4, {"{i j}": torch.tensor([[0, 1, 2, 1], [1, 2, 3, 3]])}).with_index(
        {"(i j)": torch.tensor([[0], [3]])}
    )
    with pytest.raises(
        inc.IncidenceError, match="no symmetry of this structure rotates its coordinates"
    ):
        inc.plot.shadow(path, torch.eye(4))


def test_a_run_is_drawn_by_its_network_and_its_curves():
    pytest.importorskip("lightning")
    path = inc.Structure(3, {"{i j}": torch.tensor([[0, 1], [1, 2]])})
    data = [
        inc.Example(
            path, {"i": torch.full((3, 1), k), "{i j}": torch.ones(2, 1)}, torch.tensor([k])
        )
        for k in torch.rand(12).tolist()
    ]
    run = inc.train.train(
        {"epochs": 2, "hidden": 4, "depth": 1, "out": "run", "model": "graph"}, inc.data.load(data)
    )
    assert run is not None
    assert main(["plot", "run"]) == 0
    assert "encoder.0" in Path("run.svg").read_text()
    assert main(["plot", "run", "--as", "curves", "--out", "curves.png"]) == 0
    assert Path("curves.png").read_bytes().startswith(b"\x89PNG")
    for shown in (run._repr_html_(), inc.load("run")._repr_html_()):
        assert shown.count("<svg") == 2  # the curves and the network
        assert "encoder.0" in shown
        assert "<th>rmse</th>" in shown
