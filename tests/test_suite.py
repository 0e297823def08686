"""The suite itself: every test asserts something, and test modules do not lean on each other."""

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
MODULES = sorted(TESTS.rglob("*.py"))
ASSERTING = ("raises", "warns", "gradcheck", "gradgradcheck")

UPPER = ("models", "expressive", "data", "train", "plot")
# what `./run test-core` deletes
ABOVE = {
    *(*UPPER, "sklearn", "site", "browser", "attacks", "benchmarks"),
    *("test_cli_training.py", "test_cli_expressivity.py", "test_commands_in_docs.py"),
    "test_extensions.py",
}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def complaints(find, paths: list[Path]) -> dict[str, list[str]]:
    """Return what `find` finds in each module, by path, for the modules with a finding."""
    found = {str(path.relative_to(TESTS)): find(tree_of(path)) for path in paths}
    return {path: names for path, names in found.items() if names}


def called(node: ast.Call) -> str:
    """Return the last name of the function of a call."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def assertions(tree: ast.AST) -> bool:
    """Return whether code has an `assert`, `raises`, `warns`, `gradcheck`, or a call of
    `assert_...`.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = called(node)
            if name in ASSERTING or name.startswith("assert_"):
                return True
    return False


def without_assertion(module: ast.Module) -> list[str]:
    """Return the tests of a module that assert nothing, neither themselves nor in a function of the
    module that they call.
    """
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
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


def test_every_test_asserts_something():
    paths = [path for path in MODULES if path.name.startswith("test_")]
    assert complaints(without_assertion, paths) == {}


def test_a_test_that_asserts_nothing_is_found():
    lines = [
        "def helper(x): assert x",
        "def test_a(): helper(1)",
        "def test_b(): print(1)",
        "def test_c(): assert_close(1, 1)",
    ]
    assert without_assertion(ast.parse("\n".join(lines))) == ["test_b"]


def from_tests(module: ast.Module) -> list[str]:
    """Return what a module imports from test modules or a conftest."""
    names = [
        f"{node.module}.{alias.name}"
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests")
        for alias in node.names
    ]
    return [
        name
        for name in names
        if any(part.startswith("test_") or part == "conftest" for part in name.split("."))
    ]


def test_nothing_is_imported_from_a_test_module_or_a_conftest():
    assert complaints(from_tests, MODULES) == {}


def test_an_import_from_a_test_module_is_found():
    lines = ["from tests.nn.test_linear import x", "from tests.cases import some"]
    assert from_tests(ast.parse("\n".join(lines))) == ["tests.nn.test_linear.x"]


def upper_packages(module: ast.Module) -> list[str]:
    """Return the packages on top of the core that a module names: `import incidence.data`,
    `from incidence import data`, `inc.data`.
    """
    found = set()
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
    # `load` is that of `train`
    packages = {f"{root}.{upper}" for root in ("inc", "incidence") for upper in (*UPPER, "load")}
    return sorted(packages & {".".join(name.split(".")[:2]) for name in found})


def test_tests_of_the_core_name_nothing_that_is_built_on_it():
    below = [path for path in MODULES if path.relative_to(TESTS).parts[0] not in ABOVE]
    assert complaints(upper_packages, below) == {}


def test_a_name_of_an_upper_package_is_found():
    lines = [
        "import incidence.train",
        "from incidence import nn, plot",
        "from incidence.data import load",
        "inc.models.make",
        "x.data",
        "inc.load",
    ]
    assert upper_packages(ast.parse("\n".join(lines))) == [
        "inc.load",
        "inc.models",
        "incidence.data",
        "incidence.plot",
        "incidence.train",
    ]
