"""Files that are written at once or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from incidence.errors import IncidenceError

__all__ = ["whole_file"]


@contextmanager
def whole_file(path: Any) -> Iterator[IO[bytes]]:
    """A file to write to that takes the place of what is at the path only when it is complete."""
    path = Path(path)
    if not path.parent.is_dir():
        raise IncidenceError(f"there is no folder {path.parent} to save to: make it first.")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)  # temporary files are private; this one is to be as any other
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
