"""Files: reading takes regular files only, and writing is complete or does not happen."""

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

# Characters of a name that go into the name of its temporary file, which must not become too long.
_LONGEST = 50


def as_path(path: Any) -> Path:
    """Return the path that a caller gives as text or as an object of any library of paths.

    Raises:
        IncidenceError: The value is something else.
    """
    try:
        return Path(path)
    except TypeError:
        raise IncidenceError(
            f"a file is given by its path, as a text; got {shown(path)}."
        ) from None


def regular_file(path: Any, what: str = "a file") -> Path:
    """Return the path of an existing regular file.

    Args:
        path: The path of the caller.
        what: What the file should be, for messages.

    Raises:
        IncidenceError: There is no such file; or it is a folder, or a pipe or device, which may
            never end.
    """
    file = as_path(path)
    if isfile(file):  # `Path.is_file` raises for names that no disk can have
        return file
    if isdir(file):
        raise IncidenceError(f"{file} is a folder, not a file: give the path of {what}.")
    if exists(file):
        raise IncidenceError(
            f"{file} is not a regular file, and may never end: give the path of {what}."
        )
    raise IncidenceError(f"there is no file {shown(str(file))}.")


@contextmanager
def whole_file(path: Any) -> Iterator[IO[bytes]]:
    """Open a file to write to, which replaces the file at the path when it is complete.

    Raises:
        IncidenceError: The file cannot be written; the former file is unchanged.
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
        # Temporary files are private; this one gets the rights of any other new file.
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise IncidenceError(disk_trouble(path, error)) from error
        raise


def disk_trouble(path: Path, error: OSError) -> str:
    """Return the message for a file that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"the disk is full: {path} was not written, and what was there before is whole. Make"
            " room; a run goes on with: incidence train --resume RUN"
        )
    return f"{path} cannot be written: {error.strerror or error}."
