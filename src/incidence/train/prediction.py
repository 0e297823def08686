"""Predictions of a finished run for files of the user, and whatever else it reads."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Protocol, overload

import torch
from torch import Tensor

from incidence.data import Read, Task
from incidence.data.node_tables import READER as GRAPH_TABLES
from incidence.errors import IncidenceError, need
from incidence.models import Predictor
from incidence.structure.example import Example
from incidence.structure.examples import collate
from incidence.structure.structure import Structure
from incidence.train.asking import answers
from incidence.train.exported import SUFFIXES, ExportedGraph, load_exported
from incidence.train.folder import ModelSpec, RunFolder, apart, csv_text, write
from incidence.train.sources import reads_of

__all__ = [
    "Prediction",
    "Predictions",
    "answered",
    "as_json",
    "predict",
    "predict_asked",
    "predict_reads",
    "predict_with",
    "table",
]

_TOGETHER = 64
_JOINED_TOGETHER = 8  # by a file with products, which makes arrays of all joined rows: 42,875 for the pairs of 35 nodes
_SHOWN = 10


class Prediction(NamedTuple):
    """What a model says about one example: a row of numbers, or of probabilities, for each entry of its output, and its nodes.

    What else the file says about the example, by column, is in `properties`, and about each of its nodes, if these are the entries, in
    `columns`. With `has_names`, tables call a row by its node, as `predictions.csv` does for a graph from tables.
    """

    name: str
    rows: list[list[float]]
    nodes: list[str]
    properties: Mapping[str, str] = {}
    columns: Mapping[str, Sequence[str]] = {}
    has_names: bool = False

    def __repr__(self) -> str:
        """A line, however many entries there are."""
        values = ", ".join(f"{value:.4g}" for value in self.rows[0][:_SHOWN]) if self.rows else ""
        more = ", ..." if self.rows and len(self.rows[0]) > _SHOWN else ""
        count = f"{len(self.rows):,} rows, the first " if len(self.rows) != 1 else ""
        return f"Prediction({self.name!r}: {count}[{values}{more}])"


class Predictions(Sequence[Prediction]):
    """What a model says, one prediction for each example, in order.

    Attributes:
        task: What is predicted.
        passed_over: What could not be read or does not fit the model.
    """

    def __init__(
        self, task: Task, found: Sequence[Prediction], passed_over: Sequence[IncidenceError] = ()
    ) -> None:
        self.task, self._found, self.passed_over = task, list(found), list(passed_over)

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, item: int) -> Prediction: ...
    @overload
    def __getitem__(self, item: slice) -> Predictions: ...
    def __getitem__(self, item: int | slice) -> Prediction | Predictions:
        return (
            Predictions(self.task, self._found[item], self.passed_over)
            if isinstance(item, slice)
            else self._found[item]
        )

    @property
    def names(self) -> list[str]:
        """What the examples are called."""
        return [one.name for one in self._found]

    @property
    def values(self) -> Tensor:
        """Numbers in their units, or probabilities of classes or labels; shape (rows, numbers, classes or labels)."""
        return torch.tensor([row for one in self._found for row in one.rows]).reshape(
            -1, self.task.out_channels
        )

    @property
    def classes(self) -> list[str]:
        """The most probable class of every row.

        Raises:
            IncidenceError: Numbers or labels are predicted.
        """
        if self.task.kind != "classification":
            what = "numbers" if self.task.kind == "regression" else "probabilities of labels"
            raise IncidenceError(
                f"this model predicts {what} ({', '.join(self.task.names)}): they are in `.values`."
            )
        return [self.task.names[k] for k in self.values.argmax(1).tolist()]

    def csv(self) -> str:
        """Names, what the data says, and the predictions, as the text of a CSV file."""
        return table(self.task, self._found)

    def to_frame(self) -> Any:
        """The same table as a data frame of pandas."""
        pandas = need("pandas", "a data frame", "pandas")
        return pandas.read_csv(io.StringIO(self.csv()))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the table to a CSV file, at once or not at all."""
        write(Path(path), self.csv())

    def __repr__(self) -> str:
        """The first few, as a table."""
        some = [
            one._replace(rows=one.rows[:_SHOWN], nodes=one.nodes[:_SHOWN])
            for one in self._found[:_SHOWN]
        ]
        lines = table(self.task, some).splitlines()[: 1 + _SHOWN]
        count = sum(len(one.rows) for one in self._found) - _SHOWN
        more = [f"... {count:,} more"] if count > 0 else []
        left = (
            [f"{len(self.passed_over)} passed over, the first: {self.passed_over[0]}"]
            if self.passed_over
            else []
        )
        return "\n".join([*lines, *more, *left])


def predict(
    run: Path, files: Iterable[Path | str], errors: list[IncidenceError], nodes: Any = None
) -> tuple[Task, list[Prediction]]:
    """Predictions for all examples in some files, in order.

    Args:
        run: The folder of a finished run; it may have moved. Or a file that `incidence export` wrote.
        files: What to predict: files, folders of them, or whatever else `Model.predict` takes.
        errors: Takes what could not be read or does not fit the model; the rest goes on.
        nodes: A table of nodes beside a table of edges, for models of nodes.

    Raises:
        IncidenceError: The run has no model.
    """
    if run.suffix in SUFFIXES:
        graph = load_exported(run)
        return graph.spec.task, predict_reads(graph, graph.spec, list(files), errors, nodes)
    folder = RunFolder.open(run)
    predictor, spec = folder.load()
    if spec.is_completion:
        return replace(spec.task, at=""), predict_asked(predictor, folder, list(files), errors)
    return spec.task, predict_reads(predictor, spec, list(files), errors, nodes)


def predict_asked(
    predictor: Predictor, folder: RunFolder, what: Any, errors: list[IncidenceError]
) -> list[Prediction]:
    """Predictions for pairs or sets that are asked for by name, a row each, by a model that completes what it knows."""
    found = answers(predictor, folder.load_known(), what, errors)
    return [Prediction(answer.name, [answer.row], [""], answer.properties) for answer in found]


class Predicts(Protocol):
    """What gives values for features and their structure: a network here, or one that was exported."""

    def predict(self, features: Any, structure: Structure) -> Tensor:
        """Numbers in their units, or probabilities of classes or labels; shape (rows, numbers, classes or labels)."""


def predict_with(predictor: Predicts, spec: ModelSpec, what: Any, nodes: Any = None) -> Predictions:
    """Predictions for anything that a model reads.

    Raises:
        IncidenceError: There is nothing that it can predict for.
    """
    errors: list[IncidenceError] = []
    found = predict_reads(predictor, spec, what, errors, nodes)
    return answered(spec.task, found, errors)


def answered(
    task: Task, found: Sequence[Prediction], errors: Sequence[IncidenceError]
) -> Predictions:
    """Predictions, if there are any; what could not be read is raised if there are none."""
    if not found:
        raise errors[0] if errors else IncidenceError("there is nothing to predict for.")
    return Predictions(task, found, errors)


def predict_reads(
    predictor: Predicts, spec: ModelSpec, what: Any, errors: list[IncidenceError], nodes: Any = None
) -> list[Prediction]:
    """Predictions for whatever a model reads; what does not fit is one of the errors."""
    reads, found = (
        reads_of(what, spec, errors, nodes) if not isinstance(what, list) or what else iter(()),
        list[Prediction](),
    )
    most = (
        _JOINED_TOGETHER
        if isinstance(predictor, ExportedGraph) and predictor.has_joins
        else _TOGETHER
    )
    while some := list(islice(reads, most)):
        found += _predict(predictor, spec, some, errors)
    return found


def _predict(
    predictor: Predicts, spec: ModelSpec, some: Sequence[Read], errors: list[IncidenceError]
) -> list[Prediction]:
    """Predictions of a batch; if an example does not fit, of every one on its own, so that the others are not lost."""
    task = spec.task
    try:
        batch = collate([Example(r.example.structure, r.example.features) for r in some])
        rows = predictor.predict(batch.features, batch.structure)
    except IncidenceError as error:
        if len(some) > 1:
            return [p for one in some for p in _predict(predictor, spec, [one], errors)]
        errors.append(IncidenceError(f"{some[0].name}: {error}"))
        return []
    sizes = batch.structure.entry_ptr(task.at).diff().tolist() if task.at else [1] * len(some)
    return [
        Prediction(
            r.name,
            part.tolist(),
            _nodes(r, task.at),
            r.properties,
            r.columns if task.at == "i" else {},
            spec.reader == GRAPH_TABLES,
        )
        for r, part in zip(some, rows.split(sizes), strict=True)
    ]


def _nodes(read: Read, at: str) -> list[str]:
    """The nodes of every entry of a tensor, as the file calls them; nothing for the whole structure."""
    if not at:
        return [""]
    fixed, *members = read.example.structure.index(at)
    entries: list[list[int]] = fixed.T.tolist() or [
        [] for _ in range(read.example.structure.num_entries(at))
    ]
    for nodes, owners in (part.tolist() for part in members):
        for node, owner in zip(nodes, owners, strict=True):
            entries[owner].append(node)
    return [
        " ".join(str(node) if read.nodes is None else read.nodes[node] for node in entry)
        for entry in entries
    ]


def table(task: Task, found: Sequence[Prediction]) -> str:
    """Predictions as the text of a CSV file, beside what the files say; columns are called as in `predictions.csv`."""
    head, *rows = _rows(task, found)
    return csv_text(
        [
            head,
            *([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows),
        ]
    )


def as_json(task: Task, found: Sequence[Prediction], passed_over: Sequence[IncidenceError]) -> str:
    """The same as one JSON object: a list of rows, and what was passed over."""
    head, *rows = _rows(task, found)
    told = {
        "predictions": [dict(zip(map(str, head), row, strict=True)) for row in rows],
        "passed_over": list(map(str, passed_over)),
    }
    return json.dumps(told, indent=1)


def _rows(task: Task, found: Sequence[Prediction]) -> list[list[object]]:
    """The names of the columns, then a row for each prediction."""
    is_class, has_names = task.kind == "classification", any(one.has_names for one in found)
    first = (
        (["name", "file"] if len(found) > 1 else ["name"])
        if has_names
        else ["name", "entry", "nodes"]
        if task.at
        else ["name"]
    )
    own = list(dict.fromkeys(key for one in found for key in (*one.properties, *one.columns)))
    made = [
        f"predicted {name}" if task.kind == "regression" else f"p({name})" for name in task.names
    ]
    made = ["predicted", *made] if is_class else made  # as in predictions.csv
    rows: list[list[object]] = [[*first, *apart(own, [*first, *made]), *made]]
    for name, predicted, nodes, properties, columns, _ in found:
        for number, (row, entry_nodes) in enumerate(zip(predicted, nodes, strict=True)):
            called = [entry_nodes, name] if has_names else [name, number, entry_nodes]
            told = [
                columns[key][number] if key in columns else properties.get(key, "") for key in own
            ]
            best = [task.names[row.index(max(row))]] if is_class else []
            rows.append([*called[: len(first)], *told, *best, *row])
    return rows
