"""Limits of memory: sizes are checked before memory is reserved for them, so that a small file or
option cannot take all of it.
"""

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
"""The environment variable that raises the limit."""

_DEFAULT = 2.0  # gigabytes
_BYTES = 1 << 30  # of a gigabyte
_DENSEST = 1032  # bytes that gzip packs into one, at most
_CHUNK = 1 << 16  # bytes to unpack at once
# Bytes of text that any packed file may have; as Python objects they take up to eighty times more.
_TEXT = 16 << 20
# A larger packed text may have so many times the size of its file; ordinary tables have 3 to 20.
_RATIO = 100


def max_bytes() -> int:
    """Return how many bytes an unpacked archive, or the weights of a network, may take.

    The default is 2 GB; set `INCIDENCE_MAX_GB` to change it.

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
    """Raise if something would take more bytes than are allowed.

    Args:
        size: The number of bytes.
        what: What takes them, for the message.

    Raises:
        TooLargeError: There are too many; the message says how to raise the limit.
    """
    most = max_bytes()
    if size > most:
        wanted = f"{size / _BYTES:,.3g}" if size < 10**30 else "1e+21"
        allowed = f"{most / _BYTES:.3g}"
        raise TooLargeError(
            f"{what} would take at least {wanted} GB, and {allowed} GB are allowed. If that is"
            f" meant, set {MAX_GB} to more."
        )


def _assert_text(size: int, packed: int, what: str) -> None:
    """Raise if an unpacked text is too large, or hardly anything but repetition.

    Its bytes do not bound the memory of the objects in it: every few letters may become one.
    """
    assert_size(size, f"{what}, unpacked,")
    if size > max(_TEXT, _RATIO * packed) and max_bytes() <= _DEFAULT * _BYTES:
        raise TooLargeError(
            f"{what} is text that unpacks to more than {_RATIO} times its size, and to more than"
            f" {_TEXT >> 20} MB. If that is meant, unpack it first, or set {MAX_GB} to more than"
            f" {_DEFAULT:g}."
        )


def assert_unpacked(path: Path) -> None:
    """Raise if gzip would unpack a text to more bytes than are allowed.

    The bytes are counted, and not stored.

    Raises:
        TooLargeError: The text is too large, or has more than 16 MB and 100 times the bytes of its
            file.
        OSError, EOFError, zlib.error: The file is damaged.
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
    """Raise if the members of an archive take more bytes than are allowed.

    An archive that is not smaller than its members may have any size.

    Raises:
        TooLargeError: They take too many bytes.
    """
    size = sum(member.file_size for member in archive.infolist())
    if size > path.stat().st_size:
        assert_size(size, f"{path}, unpacked,")


def read_text(archive: ZipFile, member: str | ZipInfo, path: Path) -> bytes:
    """Return a text in an archive, with the same limits as a text packed by gzip.

    Raises:
        TooLargeError: The text is too large.
    """
    info = archive.getinfo(member) if isinstance(member, str) else member
    _assert_text(info.file_size, info.compress_size, f"{info.filename} in {path}")
    return archive.read(info)


def reason(error: ValueError) -> str:
    """Return what is wrong with a text, without Python's advice to allow numbers of any length.

    Example:
        >>> try:
        ...     int("9" * 5000)
        ... except ValueError as error:
        ...     reason(error)
        'a number has thousands of digits'
    """
    text = str(error)
    return "a number has thousands of digits" if "set_int_max_str_digits" in text else text


def parse_json(text: str | bytes, name: str, what: str = "JSON") -> Any:
    """Return the value of a JSON text.

    Args:
        text: The text.
        name: The name of the file, for messages.
        what: What the file should be, for messages.

    Raises:
        IncidenceError: The text is no JSON, or its lists and objects are nested too deeply.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise IncidenceError(f"{name} is no {what}: {reason(error)}.") from None
    except RecursionError:
        raise IncidenceError(
            f"{name} is no {what}: its lists or objects lie too deep in each other."
        ) from None
