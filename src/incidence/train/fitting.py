"""Other data for a model: read as its own was, its targets found by name, with its classes; what is for another task is refused."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import torch

from incidence.data.dataset import DataSet, Task
from incidence.data.loading import DATA_SETS
from incidence.data.node_tables import READER as GRAPH_TABLES
from incidence.data.pyg import PREFIX
from incidence.data.tables import are_frames, has_tables, listed
from incidence.errors import IncidenceError
from incidence.train.folder import ModelSpec

__all__ = ["for_model", "for_other", "has_columns", "options_for"]

_NO_NAME = re.compile(r"(target|label)( \d+)?")
"""What targets are called that came without names, as those of PyG."""

_Wanted = str | Sequence[str] | None


def options_for(spec: ModelSpec, what: Any) -> dict[str, Any]:
    """Options of `inc.data.load` with which tables of another graph are read as those of the model were."""
    return (
        {"columns": spec.reader_options.get("columns", {})}
        if spec.reader == GRAPH_TABLES and has_tables(what)
        else {}
    )


def has_columns(what: Any) -> bool:
    """Whether targets are chosen among columns or properties by name: in files and data frames."""
    if isinstance(what, (str, PathLike)):
        return what not in DATA_SETS and not str(what).startswith(PREFIX)
    return are_frames(what)


def for_other(
    read: Callable[[_Wanted], DataSet], what: Any, spec: ModelSpec, target: _Wanted = None
) -> DataSet:
    """Other data for a model, by the targets that somebody names; else by those of the model, if it has them; else by what it finds itself.

    Args:
        read: Loads the data with a target, or with none.
        what: The data, as users name it.
        spec: What the model is.
        target: What is compared with the predictions, if somebody said so.

    Raises:
        IncidenceError: It is for another task, or nobody can know which of its columns the model predicts.
    """
    if target is not None or not has_columns(what):
        return for_model(read(target), spec)
    names, trouble = _names_of(spec.task), ""
    if names:
        try:
            found = read(names)
        except IncidenceError as error:
            trouble = f"{error} "
        else:
            return for_model(found, spec)
    found = read(None)
    theirs = _names_of(found.task)
    if (
        spec.task.kind != "classification"
        and found.task.kind == spec.task.kind
        and names
        and theirs
        and {*names} - {*theirs}
    ):
        raise IncidenceError(
            f"{trouble}The model predicts {listed(names)}: say with --target what that is called here."
        )
    return for_model(found, spec)


def _names_of(task: Task) -> tuple[str, ...]:
    """What the targets are called, if they have names."""
    names = (task.target,) if task.kind == "classification" else task.names
    return () if all(not name or _NO_NAME.fullmatch(name) for name in names) else names


def for_model(data: DataSet, spec: ModelSpec) -> DataSet:
    """The data with targets in the order of the model, by name, and classes numbered as the model has them; some of these may be missing.

    Targets that have no names are taken as they come. One that is called otherwise may be the same in other words: a warning names both.

    Raises:
        IncidenceError: It is for another task, or several targets are called otherwise.
    """
    kind = data.task.kind
    if (kind, data.task.at) == (spec.task.kind, spec.task.at) and data.completion is None:
        data = _with_classes(data, spec) if kind == "classification" else _in_order(data, spec)
    if _asks(data.task) != _asks(spec.task):
        raise IncidenceError(
            f"the model was trained for {_said(spec.task)}, and the data has {_said(data.task)}."
        )
    ours, theirs = _names_of(spec.task), _names_of(data.task)
    if ours and theirs and ours != theirs:
        if len(theirs) > 1:
            raise IncidenceError(
                f"the model predicts {listed(ours)}, and {data.name} has {listed(theirs)}: targets are told by their names. "
                "Say with --target which are meant, or rename them in the data."
            )
        warnings.warn(
            f"the model predicts `{ours[0]}`, and is compared with `{theirs[0]}` of {data.name}.",
            stacklevel=4,
        )
    return data


def _with_classes(data: DataSet, spec: ModelSpec) -> DataSet:
    """The data with classes numbered as the model has them, if it has no others."""
    if not {*data.task.names} <= {*spec.task.names}:
        return data
    number = torch.tensor(
        [*map(spec.task.names.index, data.task.names), -1]
    )  # the last is for -1, where there is no class
    return _with_targets(data, lambda rows: number[rows], spec.task.names)


def _in_order(data: DataSet, spec: ModelSpec) -> DataSet:
    """The data with the targets of the model alone, in its order, if it has them all."""
    if data.task.names == spec.task.names or not {*spec.task.names} <= {*data.task.names}:
        return data
    columns = [*map(data.task.names.index, spec.task.names)]
    return _with_targets(data, lambda rows: rows[..., columns], spec.task.names)


def _with_targets(
    data: DataSet, change: Callable[[torch.Tensor], torch.Tensor], names: tuple[str, ...]
) -> DataSet:
    rows = [change(data.task.rows(example)) for example in data.examples]
    targets = [{data.task.at: row} if data.task.at else row for row in rows]
    examples = [
        example.replace(target=target)
        for example, target in zip(data.examples, targets, strict=True)
    ]
    return replace(data, examples=examples, task=replace(data.task, names=names))


def _asks(task: Task) -> tuple[object, ...]:
    """What a network must fit: names of numbers and labels are told apart from it, and units are only words."""
    return task.kind, task.at, task.names if task.kind == "classification" else len(task.names)


def _said(task: Task) -> str:
    words = {"regression": f"{len(task.names)} {'number' if len(task.names) == 1 else 'numbers'}"}
    what = words.get(
        task.kind,
        f"the {'classes' if task.kind == 'classification' else 'labels'} {', '.join(task.names)}",
    )
    return f"{what} for {f'every entry of `{task.at}`' if task.at else 'the whole structure'}"
