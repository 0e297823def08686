"""The suite itself: every test asserts something, and test modules do not lean on each other."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
MODULES = sorted(TESTS.rglob("*.py"))


def assertions(tree: ast.AST) -> bool:
    """Whether a piece of code asserts something: `assert`, `raises`, `warns`, `gradcheck`, or a call of `assert_...`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            called = (
                node.func.attr
                if isinstance(node.func, ast.Attribute)
                else node.func.id
                if isinstance(node.func, ast.Name)
                else ""
            )
            if called in ("raises", "warns", "gradcheck", "gradgradcheck") or called.startswith(
                "assert_"
            ):
                return True
    return False


def without_assertion(text: str) -> list[str]:
    """The tests of a module that assert nothing, neither themselves nor in a function of the module that they call."""
    functions = {
        node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)
    }
    asserting = {name for name, node in functions.items() if assertions(node)}

    def calls(node: ast.FunctionDef) -> set[str]:
        return {
            n.func.id
            for n in ast.walk(node)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }

    while more := {
        name
        for name, node in functions.items()
        if name not in asserting and calls(node) & asserting
    }:
        asserting |= more
    return [name for name in functions if name.startswith("test_") and name not in asserting]


@pytest.mark.parametrize(
    "path",
    [p for p in MODULES if p.name.startswith("test_")],
    ids=lambda p: str(p.relative_to(TESTS)),
)
def test_every_test_asserts_something(path):
    assert without_assertion(path.read_text(encoding="utf-8")) == []


def test_a_test_that_asserts_nothing_is_found():
    lines = [
        "def helper(x): assert x",
        "def test_a(): helper(1)",
        "def test_b(): print(1)",
        "def test_c(): assert_close(1, 1)",
    ]
    assert without_assertion("\n".join(lines)) == ["test_b"]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(TESTS)))
def test_nothing_is_imported_from_a_test_module_or_a_conftest(path):
    imported = [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
    ]
    names = [
        f"{node.module}.{alias.name}"
        for node in imported
        for alias in node.names
        if (node.module or "").startswith("tests")
    ]
    assert [
        name
        for name in names
        if any(part.startswith("test_") or part == "conftest" for part in name.split("."))
    ] == []


UPPER = ("models", "data", "train", "plot")
ABOVE = {
    *UPPER,
    "site",
    "browser",
    "attacks",
    "benchmarks",
    "test_cli_training.py",
}  # what `./run leaner` deletes
BELOW = [p for p in MODULES if p.relative_to(TESTS).parts[0] not in ABOVE]


def upper_packages(text: str) -> list[str]:
    """The packages on top of the core that a module names: `import incidence.data`, `from incidence import data`, `inc.data`."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
    packages = {
        f"{root}.{upper}" for root in ("inc", "incidence") for upper in (*UPPER, "load")
    }  # which is `train.load`
    return sorted(packages & {".".join(name.split(".")[:2]) for name in found})


@pytest.mark.parametrize("path", BELOW, ids=lambda p: str(p.relative_to(TESTS)))
def test_tests_of_the_core_name_nothing_that_is_built_on_it(path):
    assert upper_packages(path.read_text(encoding="utf-8")) == []


def test_a_name_of_an_upper_package_is_found():
    lines = [
        "import incidence.train",
        "from incidence import nn, plot",
        "from incidence.data import load",
        "inc.models.make",
        "x.data",
        "inc.load",
    ]
    assert upper_packages("\n".join(lines)) == [
        "inc.load",
        "inc.models",
        "incidence.data",
        "incidence.plot",
        "incidence.train",
    ]
