"""Every example of the README and the docs runs and gives what it says."""

import re
from pathlib import Path

import pytest

import incidence
from incidence.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [
    "README.md",
    "docs/structures.md",
    "docs/layers.md",
    "docs/geometry.md",
    "docs/solids.md",
    "docs/liftings.md",
    "docs/convert.md",
    "docs/paper.md",
    "docs/symmetry.md",
    "docs/models.md",
    "docs/training.md",
    "docs/datasets.md",
    "docs/molecules.md",
    "docs/meshes.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_the_python_examples_give_the_values_in_their_comments(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    checked = 0
    for block in re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        names: dict[str, object] = {}
        exec(block, names)
        for line in block.splitlines():
            code, _, comment = line.partition("  # ")
            expected = re.match(r"(torch.Size)?[(\[{].*?[)\]}](?=:|$)", comment.strip())
            if expected and not re.match(r"\w+ = ", code):
                assert repr(eval(code, names)) == expected[0], line
                checked += 1
    assert checked >= 1


def test_the_command_prints_the_text_below_it(capsys):
    shown = re.search(r"`./run incidence explain \"(.*?)\"` prints\n\n```\n(.*?)```", README, flags=re.DOTALL)
    assert shown is not None
    main(["explain", shown[1]])
    assert capsys.readouterr().out == shown[2]


def test_the_version_has_one_source():
    cff = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {incidence.__version__}\n" in cff
