"""Other data for a model: read as its own was, with its classes; what is for another task is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from incidence.data.dataset import DataSet, Task
from incidence.data.node_tables import READER as GRAPH_TABLES
from incidence.data.tables import has_tables
from incidence.errors import IncidenceError
from incidence.train.folder import ModelSpec

__all__ = ["for_model", "options_for"]


def options_for(spec: ModelSpec, what: Any) -> dict[str, Any]:
    """Options of `inc.data.load` with which tables of another graph are read as those of the model were."""
    return {"columns": spec.reader_options.get("columns", {})} if spec.reader == GRAPH_TABLES and has_tables(what) else {}


def for_model(data: DataSet, spec: ModelSpec) -> DataSet:
    """The data with classes numbered as the model has them; some of them may be missing.

    Raises:
        IncidenceError: It is for another task.
    """
    is_part = data.task.kind == "classification" and data.completion is None and set(data.task.names) <= set(spec.task.names)
    if is_part and _asks(replace(data.task, names=spec.task.names)) == _asks(spec.task):
        number = torch.tensor([*map(spec.task.names.index, data.task.names), -1])  # the last is for -1, where there is no class
        rows = [number[data.task.rows(example)] for example in data.examples]
        targets = [{data.task.at: row} if data.task.at else row for row in rows]
        examples = [example.replace(target=target) for example, target in zip(data.examples, targets, strict=True)]
        data = replace(data, examples=examples, task=replace(data.task, names=spec.task.names))
    if _asks(data.task) != _asks(spec.task):
        raise IncidenceError(f"the model was trained for {_said(spec.task)}, and the data has {_said(data.task)}.")
    return data


def _asks(task: Task) -> tuple[object, ...]:
    """What a network must fit: names of numbers and units are only words."""
    return task.kind, task.at, len(task.names) if task.kind == "regression" else task.names


def _said(task: Task) -> str:
    words = {"regression": f"{len(task.names)} {'number' if len(task.names) == 1 else 'numbers'}"}
    what = words.get(task.kind, f"the {'classes' if task.kind == 'classification' else 'labels'} {', '.join(task.names)}")
    return f"{what} for {f'every entry of `{task.at}`' if task.at else 'the whole structure'}"
