"""What the explorer is told, as far as one can see without a browser."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import incidence as inc
from incidence.plot import explorer
from incidence.plot.theme import DARK, LIGHT

PROJECT = Path(__file__).parents[2]
MAPS = [
    "i j -> i j",
    "i, {i j} -> i, {i j}",
    "<i j> -> i, <i j k>",
    "u:user m:movie -> u:user",
    "i -> ",
    "{i j} {i k} -> i",
]
PRODUCTS = [
    "i j * i j -> i j",
    "(i j) * i -> i",
    "{i j} * {i j} -> {i j}",
    "<i j> * <i j> -> ",
    "u:user m:movie * m:movie -> u:user",
]


def ask(name, text, *more, max_overlap=1):
    return json.loads(explorer.reply(json.dumps([name, text, max_overlap, *more])))


@pytest.mark.parametrize("text", [*MAPS, *PRODUCTS, "{i ...} -> {i ...}"])
def test_the_blocks_of_a_summary_hold_every_operation_once(text):
    summary = ask("summary", text)
    assert summary["dimension"] == summary["listed"] == inc.explain(text).map.dimension
    starts = [block["start"] for block in summary["blocks"]]
    assert starts == [
        sum(block["count"] for block in summary["blocks"][:k]) for k in range(len(starts))
    ]


@pytest.mark.parametrize("text", ["i j -> i j k", "i j * i -> i j"])
def test_pages_hold_the_operations_of_explain_in_order(text):
    told = inc.explain(text).data()
    listed = told.get("products") or [o for block in told["blocks"] for o in block["operations"]]
    pages = [
        operation
        for k in range(-(-len(listed) // explorer.PAGE))
        for operation in ask("operations", text, k)
    ]
    assert [(o["number"], o["formula"], o["words"]) for o in pages] == [
        (o["number"], o["formula"], o["words"]) for o in listed
    ]


@pytest.mark.parametrize("text", MAPS)
def test_an_operation_is_where_its_operator_is_not_zero(text):
    """The factors of its weights, put at their places, are the operator of a layer."""
    m = inc.EquivariantMap(text)
    nodes = dict.fromkeys(m.sorts, 3)
    structure = inc.Structure.complete(
        nodes, list(dict.fromkeys(str(p) for p in m.inputs + m.outputs if p.faces))
    )
    entries = ask("entries", text, 3)
    shape = len(entries["rows"]), len(entries["columns"])
    layer = inc.nn.Linear(m, 1, 1)
    for number, operation in enumerate(m.operations):
        factors = ask("terms", text, number)
        cells = [
            factors.get(str(abs(cell) - 1), 0) * (1 if cell > 0 else -1)
            for cell in entries["cells"]
        ]
        found = torch.tensor(cells).view(shape).double()
        rows, columns = (
            rows_of(entries[side], tensor)
            for side, tensor in (
                ("rows", operation.target.tensor),
                ("columns", operation.source.tensor),
            )
        )
        wanted = layer.operator(number, structure).to_dense().double()
        assert found[rows][:, columns].abs().sum() == found.abs().sum()
        assert sorted(found[rows][:, columns].flatten().tolist()) == sorted(
            wanted.flatten().tolist()
        )


def rows_of(entries, tensor):
    return [k for k, entry in enumerate(entries) if entry["tensor"] == tensor]


@pytest.mark.parametrize("text", PRODUCTS)
def test_a_product_reads_the_entries_that_einsum_multiplies(text):
    """A channel for every pair of entries: the product of their indicators is not 0 in the rows of
    which there is a term.
    """
    m = inc.explain(text).map
    sorts = list(dict.fromkeys(s for p in (*m.operands, m.output) for s in p.sorts.values()))
    tensors = list(dict.fromkeys(str(p) for p in (*m.operands, m.output) if p.faces))
    structure = inc.Structure.complete(dict.fromkeys(sorts, 3), tensors)
    entries = ask("entries", text, 3)
    one, other = (rows_of(entries["columns"], k) for k in (0, 1))
    rows = places(structure, m.output, entries["rows"], 0, sorts)
    first, second = (
        places(structure, p, entries["columns"], k, sorts) for k, p in enumerate(m.operands)
    )
    pairs = [(a, b) for a in one for b in other]
    x = torch.tensor([[a == own for a, _ in pairs] for own in first]).double()  # (entries, pairs)
    y = torch.tensor([[b == own for _, b in pairs] for own in second]).double()
    for number in range(0, m.dimension, 5 if m.dimension < 50 else 23):
        found = inc.einsum(str(m.products[number]), x, y, structure)
        wanted = [[rows[row], *pairs[pair]] for row, pair in found.nonzero().tolist()]
        assert ask("terms", text, number, 3) == sorted(wanted)


def places(structure, pattern, entries, tensor, sorts):
    """Of every entry of a structure its place in the list of the explorer."""
    listed = {
        str(entry["faces"]): k for k, entry in enumerate(entries) if entry["tensor"] == tensor
    }
    if not pattern.faces:
        return [listed["[]"]]
    found = []
    for nodes in structure[str(pattern)].T.tolist():
        at = {
            name: 3 * sorts.index(pattern.sorts[name]) + node
            for name, node in zip(pattern.letters, nodes, strict=True)
        }
        faces = [[at[letter.name] for letter in face.letters] for face in pattern.faces]
        found.append(
            listed[
                str(
                    [
                        own if f.kind.is_ordered else sorted(own)
                        for own, f in zip(faces, pattern.faces, strict=True)
                    ]
                )
            ]
        )
    return found


@pytest.mark.parametrize("text", [*MAPS, *PRODUCTS])
def test_the_python_to_copy_makes_a_layer_of_the_map(text):
    namespace: dict[str, object] = {}
    exec(ask("summary", text)["code"]["python"], namespace)
    assert str(namespace["layer"].map) == text


def test_the_bound_of_open_faces_is_part_of_what_is_copied():
    code = ask("summary", "{i ...} -> i", max_overlap=2)["code"]
    assert "max_overlap=2" in code["python"]
    assert code["shell"] == 'incidence explain "{i ...} -> i" --max-overlap 2'


def test_a_text_that_is_refused_is_answered_with_the_message():
    with pytest.raises(inc.PatternError) as refused:
        inc.EquivariantMap("i {i j -> i")
    assert ask("summary", "i {i j -> i") == {"error": str(refused.value)}


def test_a_matrix_with_too_many_places_is_refused():
    assert "Take fewer" in ask("entries", "i j k -> i j k", 9)["error"]
    assert ask("summary", "i j k -> i j k")["most_nodes"] == 4


def test_of_very_many_operations_the_first_are_listed():
    summary = ask("summary", "i j k l -> i j k l m")
    assert summary["dimension"] == 21147
    assert (
        summary["listed"]
        == explorer.MOST_LISTED
        == sum(block["count"] for block in summary["blocks"])
    )


def test_pictures_have_colours_by_name_which_the_style_sheet_of_both_themes_has():
    [operation] = ask("operations", "{i j} -> i", 0)[:1]
    names = {part.split(")")[0] for part in operation["svg"].split("var(--")[1:]}
    for block, theme in zip(explorer.css().split("}"), (LIGHT, DARK), strict=False):
        assert {f"--{name}: " in block for name in names} == {True}
        assert theme.paper in block
    assert LIGHT.palette[0] not in operation["svg"]


def test_the_modules_of_the_page_need_the_standard_library_alone():
    code = (
        "import sys; sys.path.insert(0, 'scripts'); import build_explorer\nnames ="
        " build_explorer.modules(); print(len(names), sorted(n for n in names if n.split('.')[1:2]"
        " not in (['algebra'], ['plot'])))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=PROJECT
    ).stdout
    outside = (
        "['incidence', 'incidence.errors', 'incidence.files', 'incidence.lazy',"
        " 'incidence.notebook']"
    )
    assert said.partition(" ")[2].strip() == outside


def test_the_page_is_built_without_npm_and_has_all_answers_of_its_examples(tmp_path):
    command = [sys.executable, "scripts/build_explorer.py", str(tmp_path), "--without-python"]
    subprocess.run(command, check=True, capture_output=True, cwd=PROJECT)
    site = json.loads((tmp_path / "site.json").read_text())
    assert site["python"] is None
    for example in site["examples"]:
        answers = json.loads((tmp_path / example["file"]).read_text())
        assert list(answers) == list(explorer.requests(example["text"]))
        assert not any("error" in answer for answer in answers.values())
    told = []
    for pair in site["pairs"]:
        [(request, answer)] = json.loads((tmp_path / pair["file"]).read_text()).items()
        assert json.loads(request) == ["colours", pair["map"], 1, pair["one"], pair["other"]]
        told.append(answer["first"] is not None)
    assert told == [False, True, True, False, True, False, True]


def test_an_archive_that_is_not_pyodide_is_refused(tmp_path):
    (tmp_path / "other.tgz").write_bytes(b"something else")
    code = (
        "import sys, pathlib; sys.path.insert(0, 'scripts'); import build_explorer as b;"
        " b.assert_is_pyodide(pathlib.Path(sys.argv[1]))"
    )
    refused = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "other.tgz"],
        capture_output=True,
        text=True,
        cwd=PROJECT,
    )
    assert refused.returncode == 1
    assert "is not pyodide" in refused.stderr
