"""C code that is compiled on first use, where there is a C compiler.

`CC` names the compiler; else it is `cc`, `gcc` or `clang`. The result is kept in the user's cache
folder, and a line says so once. Without a compiler, or with `INCIDENCE_NATIVE=0` in the
environment, everything is computed by torch, only slower.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

__all__ = ["compiled_library"]

_OFF = ("0", "false", "no", "off")
_FLAGS = ("-O3", "-march=native", "-shared", "-fPIC")
_MOST_SECONDS = 60  # that a compiler may take


@lru_cache(maxsize=8)
def compiled_library(source: Path) -> ctypes.CDLL | None:
    """Return the library of a C file; None where there can be none."""
    compiler = _compiler()
    is_off = os.environ.get("INCIDENCE_NATIVE", "").lower() in _OFF
    if is_off or compiler is None:
        return None
    try:
        return ctypes.CDLL(str(_compiled(source, compiler)))
    except (OSError, RuntimeError, subprocess.SubprocessError):  # RuntimeError: no home folder
        return None


def _compiler() -> str | None:
    """Return the compiler that `CC` names; without `CC` one that is there, or None."""
    chosen = os.environ.get("CC", "").split()
    names = chosen[:1] or ["cc", "gcc", "clang"]
    return next(filter(None, map(shutil.which, names)), None)


def _compiled(source: Path, compiler: str) -> Path:
    """Return the compiled file. It is written whole or not at all."""
    code = source.read_text(encoding="utf-8")
    digest = hashlib.sha256(f"{code} {_FLAGS} {_machine()}".encode()).hexdigest()[:16]
    path = _cache_folder() / f"{source.stem}-{digest}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder, path.name)
            command = [compiler, *_FLAGS, str(source), "-o", str(made), "-lm"]
            subprocess.run(command, check=True, capture_output=True, timeout=_MOST_SECONDS)
            made.replace(path)
        note = f"incidence: compiled {source.name} for this machine, once, in {path.parent}"
        print(note, file=sys.stderr, flush=True)
    return path


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "incidence"


def _machine() -> str:
    """Return what compiled code depends on: the kind of processor, and what it can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        flags = next(line for line in lines if line.startswith("flags"))
    except (OSError, StopIteration):
        flags = platform.processor()
    return f"{platform.system()} {platform.machine()} {flags}"
