"""Structures in files: a zip of plain arrays, written at once or not at all, read without executing anything."""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.structure import Structure

__all__ = ["load", "save"]

_FORMAT = 1


def save(structure: Structure, path: Any) -> None:
    """Writes a structure; a file that is there already is replaced only when the new one is complete."""
    path = Path(path)
    arrays: dict[str, Any] = {"format": np.array(_FORMAT)}
    for sort, ptr in structure._node_ptr.items():
        arrays[f"nodes/{sort}"] = ptr.cpu().numpy()
    for number, (pattern, parts) in enumerate(structure._index.items()):
        arrays[f"tensor/{number}/pattern"] = np.array(str(pattern))
        arrays[f"tensor/{number}/ptr"] = structure._entry_ptr[pattern].cpu().numpy()
        for place, part in enumerate(parts):
            arrays[f"tensor/{number}/{place}"] = part.cpu().numpy()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load(path: Any) -> Structure:
    """Reads a structure and checks it as if it were given anew."""
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        version = int(arrays["format"])
    except FileNotFoundError:
        raise IncidenceError(f"there is no file {path}.") from None
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise IncidenceError(f"{path} is not a structure written by `Structure.save`, or it is damaged: {error}.") from None
    if version != _FORMAT:
        raise IncidenceError(f"{path} has format {version}; this version reads format {_FORMAT}. Update the library.")
    try:
        return _read(arrays)
    except KeyError as error:
        raise IncidenceError(f"{path} is damaged: {error} is missing.") from None


def _read(arrays: dict[str, Any]) -> Structure:
    node_ptr = {key.removeprefix("nodes/"): torch.from_numpy(a).long() for key, a in arrays.items() if key.startswith("nodes/")}
    numbers = sorted({int(key.split("/")[1]) for key in arrays if key.startswith("tensor/")})
    index, entry_ptr = {}, {}
    for number in numbers:
        text = str(arrays[f"tensor/{number}/pattern"])
        parts = sorted((k for k in arrays if k.startswith(f"tensor/{number}/") and k[-1].isdigit()), key=lambda k: int(k.split("/")[2]))
        tensors = tuple(torch.from_numpy(arrays[key]) for key in parts)
        index[text] = tensors if Pattern(text).is_open else tensors[0]
        entry_ptr[Pattern(text)] = torch.from_numpy(arrays[f"tensor/{number}/ptr"]).long()
    checked = Structure({sort: int(ptr[-1]) for sort, ptr in node_ptr.items()}, index)
    for ptr, total in [(entry_ptr[p], checked.num_entries(p)) for p in entry_ptr] + [(p, int(p[-1])) for p in node_ptr.values()]:
        if len(ptr) != len(next(iter(node_ptr.values()))) or int(ptr[0]) or int(ptr[-1]) != total or bool((ptr.diff() < 0).any()):
            raise IncidenceError("the file is damaged: its structures do not add up.")
    loaded = Structure._of(node_ptr, checked._index, entry_ptr)
    loaded._arranged = checked._arranged
    return loaded
