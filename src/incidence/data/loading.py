"""Data by name or by path, with the options that a user gave as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from incidence.data.dataset import DataSet
from incidence.data.folders import load_folder
from incidence.data.pyg import PREFIX, load_pyg
from incidence.data.registry import DATA_SETS, call, loader, options_of
from incidence.data.splits import held_out
from incidence.errors import IncidenceError, need

__all__ = ["load_data", "read_options"]


def load_data(
    source: str,
    folder: Path | None = None,
    *,
    seed: int = 0,
    validation: float | None = None,
    task: str | None = None,
    target: str | None = None,
    reader: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataSet:
    """The data set of a name, of PyG, or of a file or folder of the user's.

    Args:
        source: The name or the path.
        folder: Where the files of a named data set are.
        seed: Of splits that are drawn.
        validation: Which part of the training data is kept apart for validation.
        task: `regression` or `classification`, for the user's own data.
        target: What to predict, if there are several things; of the user's own data several, divided by commas.
        reader: The name of the reader of the user's own files.
        options: Others of the loader, or of the reader of the user's own files.

    Raises:
        IncidenceError: There is no such data, or it does not take an option.
    """
    path = Path(source).expanduser()
    is_own = source not in DATA_SETS and not source.startswith(PREFIX)
    if is_own and not path.exists():
        have = f"{', '.join(sorted(DATA_SETS))}, and `{PREFIX}CLASS/NAME` for those of PyG"
        raise IncidenceError(f"{source!r} is no data set and no file or folder. Data sets: {have}.")
    if is_own:
        return load_folder(path, reader=reader, target=target, task=task, seed=seed, validation=validation, reader_options=options)
    load = loader(source) if source in DATA_SETS else load_pyg
    taken = options_of(load)
    if target is not None and "target" not in taken:
        raise IncidenceError(f"the data set {source!r} has one target: leave out --target.")
    if reader is not None:
        raise IncidenceError(f"the data set {source!r} has a reader of its own: leave out --reader.")
    known = {"seed": seed, "task": task, "validation": validation, "target": target}
    data = call(load, source, (source, folder), {**{k: v for k, v in known.items() if k in taken and v is not None}, **(options or {})})
    return data if "validation" in taken else held_out(data, validation, seed)


def read_options(texts: Sequence[str]) -> dict[str, Any]:
    """Options as people write them, `labels=7`, with plain values.

    Raises:
        IncidenceError: A text is not of that form.

    Example:
        >>> read_options(["labels=[1, 6, 8]", "family=sr251256"])
        {'labels': [1, 6, 8], 'family': 'sr251256'}
    """
    yaml = need("yaml", "reading options", "train")
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        try:
            found[key.strip()] = yaml.safe_load(value)
        except yaml.YAMLError:
            equals = ""
        if not equals or not key.strip():
            raise IncidenceError(f"an option of the data is written as in --data-options labels=7; got {text!r}.")
    return found
