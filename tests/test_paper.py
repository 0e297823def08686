"""Every row of the table from the paper to the code resolves, and every label of the paper is in
it.
"""

import ast
import re
from pathlib import Path

import incidence
from tests.data_folder import data_folder

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and "|---" not in line
][1:]


class Names(dict[str, object]):
    """What a row may name: everything at the front door."""

    def __missing__(self, name: str) -> object:
        return getattr(incidence, name)


def defined_tests() -> set[str]:
    found = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return found


TESTS = defined_tests()


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_functions_of_every_row_exist():
    for row in ROWS:
        functions = quoted(row[2])
        assert functions, row[0]
        for text in functions:
            assert eval(text, {}, Names()) is not None, (row[0], text)


def test_the_tests_of_every_row_exist():
    for row in ROWS:
        tests = quoted(row[3])
        assert tests, row[0]
        assert set(tests) <= TESTS, row[0]


def test_the_errata_of_every_row_have_an_example():
    for row in ROWS:
        for erratum in re.findall(r"E\d+", row[4] if len(row) > 4 else ""):
            section = re.search(
                rf"^\*\*{erratum}\.\*\*(.*?)(?=^\*\*E\d+\.\*\*|\Z)",
                PAGE,
                flags=re.MULTILINE | re.DOTALL,
            )
            assert section is not None, erratum
            assert "```python" in section[1], erratum


def test_every_erratum_is_referred_to():
    listed = re.findall(r"^\*\*(E\d+)\.\*\*", PAGE, flags=re.MULTILINE)
    assert listed == [f"E{k}" for k in range(1, 12)]
    assert set(listed) == {e for row in ROWS for e in re.findall(r"E\d+", row[-1])}


def test_every_label_of_the_paper_has_a_row():
    source = (data_folder("../paper") / "incidence-networks.tex").read_text(encoding="utf-8")
    labels = set(re.findall(r"\\label\{([^}]*)\}", source))
    listed = {label for row in ROWS for label in quoted(row[0])}
    assert len(labels) > 50
    assert labels - listed == set()
    assert listed - labels == set()


def test_every_definition_theorem_example_and_figure_of_the_paper_has_a_row():
    source = (data_folder("../paper") / "incidence-networks.tex").read_text(encoding="utf-8")
    kinds = {"theorem": 3, "definition": 2, "example": 5, "table": 1}
    for kind, count in kinds.items():
        assert len(re.findall(rf"\\begin\{{{kind}\}}", source)) == count
    first = " ".join(row[0] for row in ROWS)
    for unlabelled in (
        "Theorem A.1",
        "example on simplicial complexes",
        "example on symmetric tensors",
        "`app:pool-broad` and its example",
    ):
        assert unlabelled in first
