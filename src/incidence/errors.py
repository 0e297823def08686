"""The errors of the library: each is an `IncidenceError`, and its message says what to do."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from reprlib import Repr
from typing import Any

__all__ = [
    "IncidenceError",
    "MissingExtraError",
    "PatternError",
    "TooLargeError",
    "as_called",
    "by_door",
    "command",
    "need",
    "only_options",
    "optional",
    "options_as",
    "shown",
    "spelled",
]

_COMMAND = re.compile(
    r"(?<![\w./-])incidence"
    r" ((?:bench|compare|evaluate|explain|export|predict|sweep|train|welcome)\b)"
)
# `--name value` in backticks, or --name alone; a value has no backtick
_OPTION = re.compile(r"`--([a-z][a-z-]*)(?: ([^`]*))?`|(?<![\w./`-])--([a-z][a-z-]*)")
_RESUME = re.compile(r"`?incidence train --resume ((?:[^\s`]*[^\s`.])?)`?")
_FREE = "data-options"  # the option whose values are options themselves, such as labels=7
_SENTENCES = re.compile(r"(?<=\.) (?=[A-Z])")
_DOOR: ContextVar[str] = ContextVar("door", default="python")
_OFFERED: ContextVar[frozenset[str] | None] = ContextVar("offered", default=None)
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


@contextmanager
def options_as(door: str) -> Iterator[None]:
    """Let messages write options for whoever reads them; it also decorates functions.

    Args:
        door: `command` for the command line, which is stronger than the others; `config` for the
            options of a run in Python; `python`, the default, for arguments.
    """
    token = _DOOR.set(door if _DOOR.get() != "command" else "command")
    try:
        yield
    finally:
        _DOOR.reset(token)


@contextmanager
def only_options(*names: str) -> Iterator[None]:
    """Let messages leave out remedies by options that a command or method lacks."""
    token = _OFFERED.set(frozenset(names))
    try:
        yield
    finally:
        _OFFERED.reset(token)


def by_door(flag: str, argument: str) -> str:
    """Return how an option is typed on the command line, or else how it is in Python."""
    return flag if _DOOR.get() == "command" else argument


def spelled(text: str) -> str:
    """Return a text with its options as the caller types them: as flags, or as arguments.

    An option with a value stands in backticks.

    Example:
        >>> spelled("add `--validation 0.1` and `--keys user movie`; leave out --augment")
        "add `validation=0.1` and `keys=['user', 'movie']`; leave out `augment`"
        >>> with options_as("command"):
        ...     spelled("add `--validation 0.1`; leave out --augment")
        'add --validation 0.1; leave out --augment'
    """
    offered = _OFFERED.get()
    if offered is not None:
        text = _without_others(text, offered)
    if _DOOR.get() == "command":
        return _OPTION.sub(lambda match: match[0].strip("`"), text)
    return _OPTION.sub(_as_argument, _RESUME.sub(_as_call, text))


def _without_others(text: str, offered: frozenset[str]) -> str:
    """Return a text without the sentences about other options; of the first one its beginning."""
    first, *others = _SENTENCES.split(text)
    lacking = next((m for m in _OPTION.finditer(first) if (m[1] or m[3]) not in offered), None)
    if lacking is not None:
        problem, colon, _ = first[: lacking.start()].rpartition(": ")
        first = f"{problem}." if colon else first
    useful = [one for one in others if {m[1] or m[3] for m in _OPTION.finditer(one)} <= offered]
    return " ".join([first, *useful])


def _as_call(match: re.Match[str]) -> str:
    return f"`incidence.train.resume({match[1]!r})`"


def _as_argument(match: re.Match[str]) -> str:
    """Return an option of the command line as an argument in Python."""
    flag, value = match[1] or match[3], match[2]
    is_free = flag == _FREE and _DOOR.get() == "python"
    if is_free and not value:
        return "further options"
    if not value:
        return f"`{flag.replace('-', '_')}`"
    if is_free and value:
        name, _, value = value.strip("'").partition("=")
        return f"`{name}={_as_literal(value)}`"
    return f"`{flag.replace('-', '_')}={_as_literal(value)}`"


def _as_literal(text: str) -> str:
    """Return the value of an option as it is written in Python: 0.1, True, 'a' or ['a', 'b']."""
    words = shlex.split(text) if text.count("'") % 2 == 0 else [text]
    if len(words) > 1:
        return repr(words)
    [word] = words or [text]
    if word in ("true", "false", "...") or re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", word):
        return word.title()
    return repr(word)


class IncidenceError(ValueError):
    """Invalid input. The message says what must hold, what came, where, and what to do.

    A long message loses its middle, because it may quote input of any length. Options are spelled
    for whoever reads it.
    """

    def __init__(self, *arguments: object) -> None:
        texts = (_cut(spelled(one)) if isinstance(one, str) else one for one in arguments)
        super().__init__(*texts)


def _cut(text: str) -> str:
    half = _LONGEST // 2  # the beginning says what is wrong, and the end what to do
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
        lead = "… " if start > 0 else ""
        tail = " …" if stop < len(self.text) else ""
        shown = "".join(c if c.isprintable() else " " for c in self.text[start:stop])
        caret = " " * (len(lead) + self.position - start) + "^ "
        hint = f"\nHint: {self.hint}" if self.hint else ""
        return f"\n{lead}{shown}{tail}\n{caret}{self.problem}{hint}"

    def __reduce__(self) -> tuple[type[PatternError], tuple[str, int, str, str]]:
        return PatternError, (self.text, self.position, self.problem, self.hint)
