r"""Translate docstrings as they are written here into what Sphinx reads. Backticks are code,
dollars are formulas, and lists need no blank line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from sphinx.application import Sphinx

__all__ = ["setup", "to_rst"]

_BLOCK = re.compile(r"^(?P<indent>[ ]*)\$\$(?P<latex>.+?)\$\$[ ]*$", flags=re.MULTILINE | re.DOTALL)
_MARKED = re.compile(
    r"(?P<ticks>``?)(?P<code>[^`]+)(?P=ticks)|\$(?P<latex>[^$]+)\$|(?P<stressed>(?<!\w)(?P<stars>\*{1,2})[^*\s](?:[^*]*[^*\s])?(?P=stars)(?!\w))|\*"
)
_ITEM = re.compile(r"\s*- ")


def to_rst(lines: Iterable[str]) -> list[str]:
    r"""Return the lines of a docstring in reStructuredText; examples and indented text stay.

    Example:
        >>> to_rst(["The `rank` is $2^n$."])
        ['The ``rank`` is :math:`2^n`.']
    """
    done: list[str] = []
    for is_kept, part in groupby(_marked(list(lines)), key=lambda pair: pair[0]):
        text = "\n".join(line for _, line in part)
        done += text.split("\n") if is_kept else _prose(text).split("\n")
    return done


def _marked(lines: list[str]) -> Iterator[tuple[bool, str]]:
    """Yield every line, and whether it stays as it is. Lines stay from `>>>` to an empty line, and
    if they are indented after a colon and an empty line.
    """
    is_example, margin = False, -1
    for line, after, later in zip(lines, [*lines[1:], ""], [*lines[2:], "", ""], strict=False):
        if line.strip() and _indent(line) <= margin:
            margin = -1
        is_example = line.lstrip().startswith(">>>") or (is_example and bool(line.strip()))
        is_kept = is_example or margin >= 0
        if (
            not is_kept
            and line.endswith(":")
            and not after.strip()
            and _indent(later) > _indent(line)
        ):
            margin, line = _indent(line), f"{line}:"
        yield is_kept, line


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _prose(text: str) -> str:
    text = _BLOCK.sub(_as_block, text)
    return "\n".join(
        _with_gaps(
            "\n\n".join(_MARKED.sub(_as_role, part) for part in text.split("\n\n")).split("\n")
        )
    )


def _as_block(found: re.Match[str]) -> str:
    latex = " ".join(found["latex"].split())
    return f"{found['indent']}.. math:: {latex}"


def _as_role(found: re.Match[str]) -> str:
    """Return the same as a role of Sphinx. If a letter follows at once, an empty escape separates
    them.
    """
    after = found.string[found.end() : found.end() + 1]
    before = found.string[: found.start()][-1:]
    if found[0] == "*":
        return "\\*"
    if before == ":" or found["stressed"]:  # a role of Sphinx, or the same in both
        return found[0]
    inner = " ".join((found["code"] or found["latex"]).split())
    role = f"``{inner}``" if found["code"] else f":math:`{inner}`"
    return ("\\ " if before.isalnum() else "") + role + ("\\ " if after.isalnum() else "")


def _with_gaps(lines: list[str]) -> Iterator[str]:
    """Yield the lines, with an empty line before the first item of a list."""
    is_list = False
    for before, line in zip(["", *lines], lines, strict=False):
        if _ITEM.match(line) and before.strip() and not is_list:
            yield ""
        is_list = bool(_ITEM.match(line)) or (is_list and bool(line.strip()))
        yield line


def _process(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    lines[:] = to_rst(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect before the reader of Google's sections."""
    app.connect("autodoc-process-docstring", _process, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
