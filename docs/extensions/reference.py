"""Add the directive `.. public:: incidence.nn`: an entry for every name in its `__all__`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from inspect import getdoc
from itertools import takewhile
from typing import ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.errors import PycodeError
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

from docs.extensions.docstrings import to_rst
from docs.extensions.public import PublicName, names_of

__all__ = ["Public", "entry", "setup"]


def entry(name: PublicName) -> list[str]:
    """Return what documents a name, in reStructuredText."""
    if name.kind == "data":
        package, _, attribute = name.documented.rpartition(".")
        return [
            f".. py:data:: {attribute}",
            f"   :module: {package}",
            "",
            *(f"   {line}" for line in to_rst(_words_about(name.documented))),
            "",
        ]
    return [f".. auto{name.kind}:: {name.documented}", *_members(name), ""]


def _members(name: PublicName) -> list[str]:
    """Return options that list methods and properties; a named tuple's docstring has its fields."""
    if name.kind not in ("class", "exception"):
        return []
    package, _, attribute = name.documented.rpartition(".")
    documented = getattr(import_module(package), attribute)
    fields = getattr(documented, "_fields", ())
    # what scikit-learn adds to every estimator is documented there
    added = [k for k, v in vars(documented).items() if type(v).__module__.startswith("sklearn.")]
    return ["   :members:", f"   :exclude-members: {', '.join(['extra_repr', *fields, *added])}"]


def _words_about(path: str) -> list[str]:
    """Return the string below a constant, from the module that defines it."""
    package, _, attribute = path.rpartition(".")
    value = getattr(import_module(package), attribute)
    for module_name, module in sorted(sys.modules.items()):
        if (
            module_name.startswith(package)
            and getattr(module, "__dict__", {}).get(attribute) is value
        ):
            found = _attribute_docs(module_name).get(("", attribute))
            if found:
                return found
    raise ValueError(
        f"{path} is public and nothing says what it is: put a string below its definition."
    )


def _attribute_docs(module_name: str) -> dict[tuple[str, str], list[str]]:
    try:
        return ModuleAnalyzer.for_module(module_name).find_attr_docs()
    except PycodeError:
        return {}


class Public(SphinxDirective):
    """Write the entries of one package, and links to names that are documented elsewhere."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, object]] = {}

    def run(self) -> list[nodes.Node]:
        """Parse what `entry` writes."""
        package = self.arguments[0]
        node = nodes.container()
        self.state.nested_parse(
            StringList(list(self._lines(package)), source=package), self.content_offset, node
        )
        return node.children

    def _lines(self, package: str) -> Iterator[str]:
        names = names_of(package)
        here = [name for name in names if name.kind != "module" and name.path == name.documented]
        elsewhere = [
            name for name in names if name.path != name.documented and name.kind != "module"
        ]
        modules = [name for name in names if name.kind == "module"]
        yield from [f".. py:module:: {package}", ""]
        if modules:
            yield from [
                "Packages: " + ", ".join(f":py:mod:`{name.documented}`" for name in modules) + ".",
                "",
            ]
        if elsewhere:
            yield from [
                "Also here: "
                + ", ".join(f":py:obj:`{name.documented}`" for name in elsewhere)
                + ".",
                "",
            ]
        yield from _table(here)
        for name in here:
            yield from entry(name)


def _table(names: Sequence[PublicName]) -> Iterator[str]:
    """Yield a table of all names, with the first sentence about each."""
    yield from [".. list-table::", "   :widths: auto", "   :class: names", ""]
    for name in names:
        sentence = to_rst([_first_sentence(name)])[0]
        yield from [
            f"   * - :py:obj:`{name.documented.rpartition('.')[2]} <{name.documented}>`",
            f"     - {sentence}",
        ]
    yield ""


def _first_sentence(name: PublicName) -> str:
    package, _, attribute = name.documented.rpartition(".")
    words = (
        _words_about(name.documented)
        if name.kind == "data"
        else (getdoc(getattr(import_module(package), attribute)) or "").split("\n")
    )
    paragraph = " ".join(takewhile(str.strip, words))
    return re.split(r"(?<=\.)\s+(?=[A-Z`])", paragraph, maxsplit=1)[0].rstrip(":")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("public", Public)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
