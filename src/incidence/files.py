"""Files: only what is there and ends is read, and what is written is written at once or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os.path import exists, isdir, isfile
from pathlib import Path
from typing import IO, Any

from incidence.errors import IncidenceError, shown

__all__ = ["as_path", "disk_trouble", "regular_file", "whole_file"]

_LONGEST = 50  # characters of a name that a half-written file has in its own: the whole may be as long as names can be


def as_path(path: Any) -> Path:
    """A path that was given as a text, or as an object of any library of paths.

    Raises:
        IncidenceError: It is something else.
    """
    try:
        return Path(path)
    except TypeError:
        raise IncidenceError(
            f"a file is given by its path, as a text; got {shown(path)}."
        ) from None


def regular_file(path: Any, what: str = "a file") -> Path:
    """The path of a file that is there; folders are refused, and pipes and devices, which may never end.

    Args:
        path: As it was given.
        what: What the file should be.

    Raises:
        IncidenceError: It is no such file.
    """
    found = as_path(path)
    if isfile(found):  # which has no trouble with names that no disk can have
        return found
    if isdir(found):
        raise IncidenceError(f"{found} is a folder, not a file: give the path of {what}.")
    if exists(found):
        raise IncidenceError(
            f"{found} is not a regular file, and may never end: give the path of {what}."
        )
    raise IncidenceError(f"there is no file {shown(str(found))}.")


@contextmanager
def whole_file(path: Any) -> Iterator[IO[bytes]]:
    """A file to write to that takes the place of what is at the path only when it is complete.

    Raises:
        IncidenceError: It cannot be written; what was there before is whole.
    """
    path = as_path(path)
    if not isdir(path.parent):
        raise IncidenceError(f"there is no folder {path.parent} to save to: make it first.")
    if "\0" in path.name:
        raise IncidenceError(f"{shown(str(path))} cannot be written: no name of a file has a NUL.")
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:_LONGEST]}.")
    except OSError as error:
        raise IncidenceError(disk_trouble(path, error)) from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(
            name, 0o666 & ~umask
        )  # temporary files are private; this one is to be as any other
        os.replace(name, path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise IncidenceError(disk_trouble(path, error)) from error
        raise


def disk_trouble(path: Path, error: OSError) -> str:
    """What to tell when a file cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"the disk is full: {path} was not written, and what was there before is whole. Make room; a run goes on with --resume."
    return f"{path} cannot be written: {error.strerror or error}."
