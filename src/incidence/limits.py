"""How much memory a small file or option may ask for: sizes are looked at before there is room for them."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

from incidence.errors import IncidenceError, TooLargeError

__all__ = [
    "MAX_GB",
    "assert_size",
    "assert_unpacked",
    "assert_unzipped",
    "max_bytes",
    "parse_json",
    "read_text",
    "reason",
]

MAX_GB = "INCIDENCE_MAX_GB"
"""The variable of the environment that raises the limit."""

_DEFAULT = 2.0  # gigabytes
_BYTES = 1 << 30  # of a gigabyte
_DENSEST = 1032  # bytes that gzip packs into one, at most
_CHUNK = 1 << 16  # bytes that are unpacked at once to be counted
_TEXT = (
    16 << 20
)  # bytes of text that a packed file may always have: as objects of Python they take up to eighty times as many
_RATIO = 100  # how many times its own size a packed text may have beyond that; ordinary tables have 3 to 20


def max_bytes() -> int:
    """The most that an archive may unpack to, or the weights of a network may take: 2 GB, or what `INCIDENCE_MAX_GB` says.

    Raises:
        IncidenceError: The variable is no number of gigabytes.

    Example:
        >>> max_bytes() // 2**30
        2
    """
    text = os.environ.get(MAX_GB, str(_DEFAULT))
    try:
        most = float(text)
    except ValueError:
        most = -1.0
    if not most > 0:
        raise IncidenceError(
            f"the variable {MAX_GB} is a number of gigabytes, such as 8; got {text!r}."
        )
    return int(min(most, 1e9) * _BYTES)


def assert_size(size: int, what: str) -> None:
    """Refuses what would take more bytes than are allowed.

    Raises:
        TooLargeError: It would; the message says how to allow it.
    """
    most = max_bytes()
    if size > most:
        wanted = f"{size / _BYTES:,.3g}" if size < 10**30 else "1e+21"
        allowed = f"{most / _BYTES:.3g}"
        raise TooLargeError(
            f"{what} would take at least {wanted} GB, and {allowed} GB are allowed. If that is meant, set {MAX_GB} to more."
        )


def _assert_text(size: int, packed: int, what: str) -> None:
    """Refuses a text of more bytes than are allowed, or that was packed so well that hardly anything but repetition is in it.

    Bytes bound the memory of arrays, not that of objects, of which a text of a few letters may make one each.
    """
    assert_size(size, f"{what}, unpacked,")
    if size > max(_TEXT, _RATIO * packed) and max_bytes() <= _DEFAULT * _BYTES:
        raise TooLargeError(
            f"{what} is text that unpacks to more than {_RATIO} times its size, and to more than {_TEXT >> 20} MB. If that is meant, "
            f"unpack it first, or set {MAX_GB} to more than {_DEFAULT:g}."
        )


def assert_unpacked(path: Path) -> None:
    """Refuses a text that gzip unpacks to more bytes than are allowed; they are counted, and nothing is kept.

    Raises:
        TooLargeError: It does, or it has more than 16 MB and 100 times the bytes that it was packed into.
        OSError, EOFError, zlib.error: It is damaged.
    """
    packed = path.stat().st_size
    if packed * _DENSEST <= min(max_bytes(), _TEXT):
        return
    size = 0
    with gzip.open(path) as file:
        while part := file.read(_CHUNK):
            size += len(part)
            _assert_text(size, packed, str(path))


def assert_unzipped(archive: ZipFile, path: Path) -> None:
    """Refuses an archive whose members take more bytes than are allowed, unless the file is as large itself.

    Raises:
        TooLargeError: They do.
    """
    size = sum(
        member.file_size for member in archive.infolist()
    )  # no more than that is ever unpacked
    if size > path.stat().st_size:
        assert_size(size, f"{path}, unpacked,")


def read_text(archive: ZipFile, member: str | ZipInfo, path: Path) -> bytes:
    """A text in an archive, whose size is looked at as that of a text that gzip packed.

    Raises:
        TooLargeError: It is too large.
    """
    info = archive.getinfo(member) if isinstance(member, str) else member
    _assert_text(info.file_size, info.compress_size, f"{info.filename} in {path}")
    return archive.read(info)


def reason(error: ValueError) -> str:
    """What is wrong with a text; Python's advice to take numbers of any length is left out.

    Example:
        >>> try:
        ...     int("9" * 5000)
        ... except ValueError as error:
        ...     reason(error)
        'a number has thousands of digits'
    """
    return (
        "a number has thousands of digits" if "set_int_max_str_digits" in str(error) else str(error)
    )


def parse_json(text: str | bytes, name: str, what: str = "JSON") -> Any:
    """What a JSON text says; messages name the file and what it should be.

    Raises:
        IncidenceError: It is no JSON, or its lists and objects lie too deep in each other.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise IncidenceError(f"{name} is no {what}: {reason(error)}.") from None
    except RecursionError:
        raise IncidenceError(
            f"{name} is no {what}: its lists or objects lie too deep in each other."
        ) from None
