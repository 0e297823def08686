"""The errors a caller may meet: every one is an `IncidenceError`, and every one says what to do."""

from __future__ import annotations

import os
import re
from importlib import import_module
from reprlib import Repr
from typing import Any

__all__ = [
    "IncidenceError",
    "MissingExtraError",
    "PatternError",
    "TooLargeError",
    "as_called",
    "command",
    "need",
    "shown",
]

_COMMAND = re.compile(
    r"(?<![\w./-])incidence ((?:bench|compare|evaluate|explain|export|predict|sweep|train|welcome)\b)"
)
_PACKAGES = {
    "torchmetrics": "lightning",
    "yaml": "pyyaml",
}  # what brings a module that has another name
_LONGEST = 2000  # characters of a message
_WINDOW = 72  # characters of the text shown around the place of an error


def command() -> str:
    """How the command line was called: `incidence`, or what is typed where a script stands in front of it."""
    return os.environ.get("INCIDENCE_COMMAND", "incidence")


def as_called(text: str) -> str:
    """A text with every command in it as the user would type it.

    Example:
        >>> as_called("go on with: incidence train --resume runs/x")
        'go on with: incidence train --resume runs/x'
    """
    return _COMMAND.sub(lambda match: f"{command()} {match[1]}", text)


class IncidenceError(ValueError):
    """Input that the library refuses; the message says what must hold, what came, where, and what to do.

    What a message quotes may be of any length, and the message is not: the middle of a long one is left out.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(_cut(one) if isinstance(one, str) else one for one in arguments))


def _cut(text: str) -> str:
    return (
        text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
    )


class TooLargeError(IncidenceError):
    """A request whose answer would be too long to list or too slow to count."""


class MissingExtraError(IncidenceError, ImportError):
    """An optional library that is not installed."""


def need(module: str, purpose: str, extra: str) -> Any:
    """Imports an optional library where it is used.

    Raises:
        MissingExtraError: It is not installed; the message says how to get it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        missing = error.name or module
        name = missing if missing.startswith("incidence.") else missing.partition(".")[0]
        name = _PACKAGES.get(name, name)
        raise MissingExtraError(
            f"{purpose} needs {name}, which is not installed: pip install 'incidence[{extra}]'."
        ) from error


class _Short(Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother, self.maxlong = 2, _WINDOW, _WINDOW, _WINDOW

    def repr_int(self, x: int, level: int) -> str:
        return (
            super().repr_int(x, level)
            if x.bit_length() < 8 * _WINDOW
            else f"a number of about {x.bit_length() * 30103 // 100000:,} digits"
        )


def shown(value: object) -> str:
    """A value as a message shows it: in a line, whatever its size.

    Example:
        >>> print(shown([7, "text", 10**5000]))
        [7, 'text', a number of about 5,000 digits]
    """
    return _Short().repr(value)


class PatternError(IncidenceError):
    """A pattern or a map that does not parse: shows the text, a caret under the place, and a hint.

    Attributes:
        text: The text as it was given.
        position: Where in the text the error is, counted from 0.
        problem: What is wrong there.
        hint: What to do about it.
    """

    def __init__(self, text: str, position: int, problem: str, hint: str = "") -> None:
        self.text, self.position, self.problem, self.hint = text, position, problem, hint
        super().__init__(self._render())

    def _render(self) -> str:
        start = max(0, self.position - _WINDOW // 2)
        stop = start + _WINDOW
        lead, tail = "… " * (start > 0), " …" * (stop < len(self.text))
        shown = "".join(c if c.isprintable() else " " for c in self.text[start:stop])
        caret = " " * (len(lead) + self.position - start) + "^ "
        hint = f"\nHint: {self.hint}" if self.hint else ""
        return f"\n{lead}{shown}{tail}\n{caret}{self.problem}{hint}"

    def __reduce__(self) -> tuple[type[PatternError], tuple[str, int, str, str]]:
        return PatternError, (self.text, self.position, self.problem, self.hint)
