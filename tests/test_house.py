"""Rules of the code itself: one name for one class, and imports that tools can see."""

import ast
import re
import runpy
from pathlib import Path

import incidence

ROOT = Path(__file__).parents[1]
PACKAGE = Path(incidence.__file__).parent
CORE = ("algebra", "structure", "engine", "harmonic", "nn", "symmetry", "testing", "theorems")

MODULE = re.compile(r"incidence(\.[a-z_]\w*)+")


def module_names(text: str) -> list[str]:
    """Return the texts in a module that name one of our modules, as `import_module` takes them."""
    return [
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and MODULE.fullmatch(node.value)
    ]


def test_every_class_name_has_one_definition():
    yardsticks = runpy.run_path(str(ROOT / "scripts" / "yardsticks.py"))
    assert yardsticks["repeated_classes"](PACKAGE) == {}


def test_a_class_name_with_two_definitions_is_noticed(tmp_path):
    for name in ("one.py", "other.py"):
        (tmp_path / name).write_text("class _Join: ...", encoding="utf-8")
    yardsticks = runpy.run_path(str(ROOT / "scripts" / "yardsticks.py"))
    assert yardsticks["repeated_classes"](tmp_path) == {"_Join": 2}


def test_no_module_of_the_core_is_imported_by_a_text():
    paths = [path for package in CORE for path in (PACKAGE / package).rglob("*.py")]
    named = {str(path): module_names(path.read_text(encoding="utf-8")) for path in paths}
    assert paths
    assert {path: texts for path, texts in named.items() if texts} == {}


def test_only_one_file_touches_the_inside_of_the_compiler_of_torch():
    texts = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    touching = {path.relative_to(PACKAGE).as_posix() for path in texts if "_dynamo" in texts[path]}
    assert touching == {"structure/pytree.py"}


def methods_set_from_outside(text: str) -> list[str]:
    """Return assignments to attributes of classes that a module imports, such as `Linear.f = f`."""
    tree = ast.parse(text)
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    targets = [
        target
        for node in ast.walk(tree)
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return [
        ast.unparse(target)
        for target in targets
        if isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id in imported
        and target.value.id[0].isupper()
    ]


def test_no_module_sets_methods_of_classes_of_other_modules():
    texts = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert texts
    assert {str(path): methods_set_from_outside(text) for path, text in texts.items()} == {
        str(path): [] for path in texts
    }


def test_a_method_that_is_set_from_outside_is_noticed():
    text = "from incidence.nn.linear import Linear\nLinear.widen = lambda self: self\nx.y = 1"
    assert methods_set_from_outside(text) == ["Linear.widen"]


def test_a_module_that_is_named_in_a_text_is_noticed():
    assert module_names('need("incidence.plot.text", "x", "plot")') == ["incidence.plot.text"]
    assert module_names('"""Docs of `incidence.plot`."""; "incidence bench"; "incidence."') == []
