"""The errors of the library: each is an `IncidenceError`, and its message says what to do."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
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
    "optional",
    "shown",
]

_COMMAND = re.compile(
    r"(?<![\w./-])incidence"
    r" ((?:bench|compare|evaluate|explain|export|predict|sweep|train|welcome)\b)"
)
# The packages that install modules of another name.
_PACKAGES = {"torchmetrics": "lightning", "yaml": "pyyaml"}
_LONGEST = 2000  # characters of a message
_WINDOW = 72  # characters of the text shown around the place of an error


def command() -> str:
    """Return how the user types the command: `incidence`, or the script that calls it."""
    return os.environ.get("INCIDENCE_COMMAND", "incidence")


def as_called(text: str) -> str:
    """Return a text with every command in it as the user types it.

    Example:
        >>> as_called("go on with: incidence train --resume runs/x")
        'go on with: incidence train --resume runs/x'
    """
    return _COMMAND.sub(lambda match: f"{command()} {match[1]}", text)


class IncidenceError(ValueError):
    """Invalid input. The message says what must hold, what came, where, and what to do.

    A long message loses its middle, because it may quote input of any length.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(_cut(one) if isinstance(one, str) else one for one in arguments))


def _cut(text: str) -> str:
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]} ... {text[-half:]}"


class TooLargeError(IncidenceError):
    """A request whose answer would be too long to list or too slow to count."""


class MissingExtraError(IncidenceError, ImportError):
    """An optional library that is not installed."""


def need(module: str, purpose: str, extra: str) -> Any:
    """Import an optional library where it is used.

    Args:
        module: The name of the module.
        purpose: What needs it, for the message.
        extra: The extra that installs it, for the message.

    Raises:
        MissingExtraError: The library is not installed; the message says how to install it.
    """
    with optional(purpose, extra):
        return import_module(module)


@contextmanager
def optional(purpose: str, extra: str) -> Iterator[None]:
    """Import modules that need optional libraries, inside of the block.

    Args:
        purpose: What needs the libraries.
        extra: The extra of this package that installs them.

    Raises:
        MissingExtraError: A library is not installed; the message says how to get it.
    """
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        missing = error.name or "a library"
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
        if x.bit_length() < 8 * _WINDOW:
            return super().repr_int(x, level)
        digits = x.bit_length() * 30103 // 100000  # log10(2) = 0.30103
        return f"a number of about {digits:,} digits"


def shown(value: object) -> str:
    """Return a value as a message shows it: on one line, whatever its size.

    Example:
        >>> print(shown([7, "text", 10**5000]))
        [7, 'text', a number of about 5,000 digits]
    """
    return _Short().repr(value)


class PatternError(IncidenceError):
    """A pattern or a map that does not parse. The message points at the place in the text.

    Attributes:
        text: The text of the caller.
        position: The place of the error in the text, from 0.
        problem: The error.
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
