"""Predictions of a finished run, for files of the user and whatever else it reads."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Protocol, overload

import torch
from torch import Tensor

from incidence.data import Record, Task
from incidence.data.columnar import COLUMNAR, columnar_bytes
from incidence.data.mesh_labels import write_coloured
from incidence.data.node_tables import READER as GRAPH_TABLES
from incidence.data.table_kinds import NODE_TABLES
from incidence.data.tables import RowError, TextTable, is_frame, table_of
from incidence.errors import IncidenceError, need, only_options
from incidence.models import Predictor
from incidence.models.ensemble import Ensemble
from incidence.structure.collate import collate
from incidence.structure.example import Example
from incidence.structure.structure import Structure
from incidence.train.conformal import Calibration
from incidence.train.export import SUFFIXES, ExportedGraph, load_exported
from incidence.train.inputs import queries_of, records_of, with_facts
from incidence.train.model_spec import ModelSpec
from incidence.train.run_folder import RunFolder, csv_text, unlike, write

__all__ = [
    "PREDICT_OPTIONS",
    "TOP",
    "Prediction",
    "Predictions",
    "as_json",
    "as_predictions",
    "assert_no_facts",
    "assert_writable",
    "content_for",
    "predict",
    "predict_queries",
    "predict_records",
    "table",
    "with_intervals",
    "write_mesh",
]

TOP = 10
"""How many of the best candidates a row gets that leaves one column open."""
PREDICT_OPTIONS = "nodes", "known", "top", "coverage", "out", "resume"
"""What messages to those who predict may name."""
_TOGETHER = 64  # examples in a batch
# For exported files with products, which make arrays of all joined rows: 42,875 for all pairs of 35
# nodes.
_TOGETHER_WITH_JOINS = 8
_MOST_SHOWN = 10
_AS_CSV = (".csv", ".txt", "")  # suffixes


def write_mesh(
    run: Path, files: Sequence[Path | str], predictions: Sequence[Prediction], path: Path
) -> None:
    """Write the mesh of a file with the colours of its predictions, as PLY.

    Args:
        run: The folder of the run.
        files: What was predicted: one mesh.
        predictions: Its prediction.
        path: The file to write.

    Raises:
        IncidenceError: There are several predictions, or it is no mesh.
    """
    if len(predictions) != 1:
        raise IncidenceError(
            f"a coloured mesh shows one prediction; got {len(predictions)}. Predict for one mesh at"
            " a time, or write a table: `--out predicted.csv`."
        )
    spec = RunFolder.open(run).load()[1]
    [record] = list(records_of(list(files), spec, []))
    is_class = spec.task.kind == "classification"
    write_coloured(record, spec.task.at, predictions[0].rows, is_class, path)


class Prediction(NamedTuple):
    """What a model predicts for one example.

    Attributes:
        name: The name of the example.
        rows: A row of numbers, or of probabilities, for each entry of the output.
        nodes: The nodes of each entry.
        properties: What else the file has about the example, by column.
        columns: What else the file has about each node, by column, if the entries are nodes.
        has_names: Whether tables call a row by its node, as for a graph from tables.
        row: The number of the example in the table that it comes from, if it comes from one.
        deviations: For an ensemble, how far its members disagree about each number.
        radii: How far the calibrated interval of each number reaches; empty if none is given.
    """

    name: str
    rows: list[list[float]]
    nodes: list[str]
    properties: Mapping[str, str] = {}
    columns: Mapping[str, Sequence[str]] = {}
    has_names: bool = False
    row: int | None = None
    deviations: Sequence[Sequence[float]] = ()
    radii: Sequence[float] = ()

    def __repr__(self) -> str:
        """Return a line, however many entries there are."""
        first = self.rows[0] if self.rows else []
        values = ", ".join(f"{value:.4g}" for value in first[:_MOST_SHOWN])
        more = ", ..." if len(first) > _MOST_SHOWN else ""
        count = f"{len(self.rows):,} rows, the first " if len(self.rows) != 1 else ""
        return f"Prediction({self.name!r}: {count}[{values}{more}])"


class Predictions(Sequence[Prediction]):
    """What a model predicts, one prediction for each example, in order.

    Attributes:
        task: What is predicted.
        passed_over: Why other examples were skipped.
    """

    def __init__(
        self,
        task: Task,
        predictions: Sequence[Prediction],
        passed_over: Sequence[IncidenceError] = (),
        frame: Any = None,
        nodes: Any = None,
    ) -> None:
        self.task = task
        self._predictions, self.passed_over = list(predictions), list(passed_over)
        # the data frame that was given, or the list or series of SMILES, if it was one
        self._frame = frame
        self._nodes = nodes  # the data frame of the nodes of one graph, if there was one

    def __len__(self) -> int:
        return len(self._predictions)

    @overload
    def __getitem__(self, item: int) -> Prediction: ...
    @overload
    def __getitem__(self, item: slice) -> Predictions: ...
    def __getitem__(self, item: int | slice) -> Prediction | Predictions:
        if isinstance(item, slice):
            some = self._predictions[item]
            return Predictions(self.task, some, self.passed_over, self._frame, self._nodes)
        return self._predictions[item]

    @property
    def names(self) -> list[str]:
        """The names of the examples."""
        return [one.name for one in self._predictions]

    @property
    def values(self) -> Tensor:
        """Numbers in their units, or probabilities of classes or labels, (rows, columns)."""
        rows = [row for one in self._predictions for row in one.rows]
        return torch.tensor(rows).reshape(-1, self.task.out_channels)

    @property
    def deviations(self) -> Tensor:
        """How far the members of an ensemble disagree: standard deviations, (rows, columns).

        Raises:
            IncidenceError: The model is no ensemble.
        """
        if not all(one.deviations for one in self._predictions):
            raise IncidenceError(
                "only an ensemble has deviations: train with the option ensemble, such as 5."
            )
        rows = [row for one in self._predictions for row in one.deviations]
        return torch.tensor(rows).reshape(-1, self.task.out_channels)

    @property
    def intervals(self) -> Tensor:
        """The least and the largest value of each calibrated interval, (rows, columns, 2).

        Raises:
            IncidenceError: `predict` was called without `coverage`.
        """
        if not all(one.radii for one in self._predictions):
            raise IncidenceError("there are no intervals: call predict(what, coverage=0.9).")
        radius = torch.tensor([one.radii for one in self._predictions for _ in one.rows])
        return torch.stack([self.values - radius, self.values + radius], -1)

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
        """Return names, columns of the data, and predictions as the text of a CSV file."""
        return table(self.task, self._predictions)

    def to_frame(self) -> Any:
        """Return the same table as a data frame of pandas.

        If a data frame, or a list or series of SMILES was given, the result has its index and all
        of its rows. For a graph with a data frame of nodes, it has the index of that. Where a row
        could not be used, the prediction is missing, and the column `reason` says why.
        """
        pandas = need("pandas", "a data frame", "pandas")
        if self._frame is None:
            table_of_nodes = pandas.read_csv(io.StringIO(self.csv()))
            if len(self) == 1 and _has_nodes(self._nodes, self[0].nodes):
                table_of_nodes.index = self._nodes.index
            return table_of_nodes
        reasons = self._reasons()
        every = sorted([*self._predictions, *self._skipped(reasons)], key=_row_of)
        table_of_all = pandas.read_csv(io.StringIO(table(self.task, every)))
        rows = [_row_of(one) for one in every for _ in one.rows]
        [reason] = unlike(["reason"], list(table_of_all.columns))
        table_of_all[reason] = [reasons.get(row) for row in rows]
        table_of_all.index = _labels(self._frame, rows)
        return table_of_all

    def _reasons(self) -> dict[int, str]:
        """Return why rows of the data frame have no prediction, by row."""
        return {error.row: str(error) for error in self.passed_over if isinstance(error, RowError)}

    def _skipped(self, rows: Iterable[int]) -> list[Prediction]:
        """Return a prediction of missing values for every row that has none."""
        texts = _texts_of(self._frame)
        missing = [[math.nan] * self.task.out_channels]
        return [
            Prediction(texts.places[row], missing, [""], texts.row(row), row=row) for row in rows
        ]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the table to a file, atomically: CSV, or TSV, JSON, Parquet or Arrow by suffix."""
        path = Path(path)
        write(path, content_for(path, self.task, self._predictions, self.passed_over))

    def __repr__(self) -> str:
        """Return the first few as a table."""
        some = [
            one._replace(rows=one.rows[:_MOST_SHOWN], nodes=one.nodes[:_MOST_SHOWN])
            for one in self._predictions[:_MOST_SHOWN]
        ]
        lines = table(self.task, some).splitlines()[: 1 + _MOST_SHOWN]
        more = sum(len(one.rows) for one in self._predictions) - _MOST_SHOWN
        if more > 0:
            lines.append(f"... {more:,} more")
        if self.passed_over:
            lines.append(f"{len(self.passed_over)} skipped, the first: {self.passed_over[0]}")
        return "\n".join(lines)


def _row_of(prediction: Prediction) -> int:
    assert prediction.row is not None  # predictions for a data frame have rows
    return prediction.row


def _has_nodes(frame: Any, nodes: Sequence[str]) -> bool:
    """Return whether a data frame has a row for each node, in the same order."""
    if not is_frame(frame) or not hasattr(frame, "index") or len(frame) != len(nodes):
        return False
    return any(list(texts) == list(nodes) for texts in table_of(frame).columns.values())


def _texts_of(what: Any) -> TextTable:
    """Return a data frame as a table, or a list or series of SMILES, whose rows they name."""
    if is_frame(what):
        return table_of(what)
    smiles = [str(text) for text in what]
    return TextTable("the SMILES", {"smiles": smiles}, smiles)


def _labels(what: Any, rows: Sequence[int]) -> Any:
    """Return the labels of rows of a data frame or series; numbers for lists and for polars."""
    index: Any = getattr(what, "index", None)
    return index.take(rows) if hasattr(index, "take") else rows


@only_options(*PREDICT_OPTIONS)
def predict(
    run: Path,
    files: Iterable[Path | str],
    errors: list[IncidenceError],
    nodes: Any = None,
    known: Any = None,
    top: int = TOP,
    coverage: float | None = None,
) -> tuple[Task, list[Prediction]]:
    """Return the task, and predictions for all examples in some files, in order.

    Args:
        run: The folder of a finished run, which may have moved; or a file that `incidence export`
            wrote.
        files: Files, folders of them, or whatever else `Model.predict` takes.
        errors: Collects the errors of what cannot be read or does not fit the model.
        nodes: A table of nodes beside a table of edges, for models of nodes.
        known: Tables of further ratings or links that are known.
        top: How many of the best candidates a row gets that leaves one column open.
        coverage: The share of true values that intervals are to cover; None for no intervals.

    Raises:
        IncidenceError: The run has no model, or known is given to a model of another kind.
    """
    if run.suffix in SUFFIXES:
        if coverage is not None:
            raise IncidenceError(
                f"{run} has no calibrated intervals: give the folder of the run that it is of."
            )
        graph = load_exported(run)
        return graph.spec.task, predict_records(graph, graph.spec, list(files), errors, nodes)
    folder = RunFolder.open(run)
    predictor, spec = folder.load()
    if spec.is_completion:
        what = list(files)
        found = predict_queries(predictor, folder, what, errors, known, top)
        task = replace(spec.task, at="")
    else:
        assert_no_facts(known)
        found, task = predict_records(predictor, spec, list(files), errors, nodes), spec.task
    return task, with_intervals(task, found, folder, coverage)


def assert_no_facts(known: Any) -> None:
    """Refuse facts for a model that knows none.

    Raises:
        IncidenceError: There are some.
    """
    if known is not None:
        raise IncidenceError(
            "only models of ratings, links and triples know facts, and this is none: leave out"
            " `known`."
        )


def predict_queries(
    predictor: Predictor,
    folder: RunFolder,
    what: Any,
    errors: list[IncidenceError],
    known: Any = None,
    top: int = TOP,
) -> list[Prediction]:
    """Return a prediction for each row of tables, by a model of ratings, links or triples.

    A row that leaves one of the keys open gets its best candidates, without those that are known.

    Args:
        predictor: The network.
        folder: The folder of its run.
        what: Paths of tables, or data frames.
        errors: Collects the errors of what cannot be read.
        known: Tables with further facts, such as the ratings of a new user.
        top: How many of the best candidates.
    """
    completion = with_facts(folder.load_known(), known, errors)
    predictions: list[Prediction] = []
    for queries in queries_of(what, completion, errors):
        table, entries, numbers, _ = queries
        rows: list[list[float]] = [[] for _ in entries]
        for places, example in completion.ask(entries):
            values = predictor.predict(example.features, example.structure).tolist()
            for same, value in zip(places, values, strict=True):
                for place in same:
                    rows[place] = value
        name = "" if is_frame(what) else f"{Path(table.source).name} "
        predicted = [
            Prediction(f"{name}{place}", [row], [""], table.row(k), row=numbers[k])
            for k, (place, row) in enumerate(zip(table.places, rows, strict=True))
        ]
        predictions += _best_candidates(predicted, top) if queries.are_candidates else predicted
    return predictions


def _best_candidates(predictions: Sequence[Prediction], top: int) -> list[Prediction]:
    """Return the best predictions of every row of the table, with their ranks."""
    best: list[Prediction] = []
    for _, some in groupby(predictions, key=_row_of):
        ordered = sorted(some, key=lambda one: -one.rows[0][-1])[:top]
        for rank, one in enumerate(ordered, 1):
            best.append(one._replace(properties={**one.properties, "rank": str(rank)}))
    return best


class Predicts(Protocol):
    """Something that predicts: a network, or an exported one."""

    def predict(self, features: Any, structure: Structure) -> Tensor:
        """Return numbers in their units, or probabilities of classes or labels, (rows, columns)."""


def as_predictions(
    task: Task,
    predictions: Sequence[Prediction],
    errors: Sequence[IncidenceError],
    what: Any,
    has_smiles: bool = False,
    nodes: Any = None,
) -> Predictions:
    """Return predictions, if there are any.

    Args:
        task: What is predicted.
        predictions: The predictions.
        errors: Why other examples were skipped.
        what: What they are for: if it is a data frame, or SMILES, tables have its index.

        has_smiles: Whether it is a list or series of SMILES.
        nodes: A table of nodes that was given beside it.

    Raises:
        IncidenceError: There are none.
    """
    if not predictions:
        raise errors[0] if errors else IncidenceError("there is nothing to predict for.")
    has_rows = (is_frame(what) or has_smiles) and all(one.row is not None for one in predictions)
    frames = what if isinstance(what, Mapping) else {}
    of_nodes = [one for name, one in frames.items() if str(name).lower() in NODE_TABLES]
    beside = next((one for one in (nodes, *of_nodes) if is_frame(one)), None)
    return Predictions(task, predictions, errors, what if has_rows else None, beside)


def predict_records(
    predictor: Predicts, spec: ModelSpec, what: Any, errors: list[IncidenceError], nodes: Any = None
) -> list[Prediction]:
    """Return predictions for whatever a model reads.

    Args:
        predictor: The network.
        spec: What it is.
        what: As for `Model.predict`.
        errors: Collects the errors of what cannot be read or does not fit the model.
        nodes: A table of nodes beside a table of edges.
    """
    if isinstance(what, list) and not what:
        return []
    has_joins = isinstance(predictor, ExportedGraph) and predictor.has_joins
    most = _TOGETHER_WITH_JOINS if has_joins else _TOGETHER
    records = records_of(what, spec, errors, nodes)
    predictions: list[Prediction] = []
    while some := list(islice(records, most)):
        predictions += _predict_batch(predictor, spec, some, errors)
    return predictions


def _predict_batch(
    predictor: Predicts, spec: ModelSpec, some: Sequence[Record], errors: list[IncidenceError]
) -> list[Prediction]:
    """Return the predictions of a batch; one by one if an example does not fit."""
    try:
        batch = collate([Example(one.example.structure, one.example.features) for one in some])
        rows, deviations = _outputs(predictor, batch)
    except IncidenceError as error:
        if len(some) > 1:
            return [p for one in some for p in _predict_batch(predictor, spec, [one], errors)]
        problem, number = f"{some[0].name}: {error}", some[0].row
        errors.append(IncidenceError(problem) if number is None else RowError(problem, number))
        return []
    at = spec.task.at
    sizes = batch.structure.entry_ptr(at).diff().tolist() if at else [1] * len(some)
    return [
        Prediction(
            record.name,
            part.tolist(),
            _nodes(record, at),
            record.properties,
            record.columns if at == "i" else {},
            has_names=spec.reader == GRAPH_TABLES,
            row=record.row,
            deviations=deviation.tolist() if deviation.shape[1] else (),
        )
        for record, part, deviation in zip(
            some, rows.split(sizes), deviations.split(sizes), strict=True
        )
    ]


def _outputs(predictor: Predicts, batch: Example) -> tuple[Tensor, Tensor]:
    """Return predictions, and how far the members of an ensemble disagree: else no columns."""
    if isinstance(predictor, Ensemble):
        return predictor.predict_with_deviation(batch.features, batch.structure)
    rows = predictor.predict(batch.features, batch.structure)
    return rows, rows[:, :0]


def with_intervals(
    task: Task, predictions: list[Prediction], folder: RunFolder, coverage: float | None
) -> list[Prediction]:
    """Return predictions with intervals that cover a share of the true values; None for none.

    Raises:
        IncidenceError: The run has no calibration, or the share cannot be covered.
    """
    if coverage is None:
        return predictions
    calibration = Calibration.read(folder.calibration)
    radii = [calibration.radius(name, coverage) for name in task.names]
    return [one._replace(radii=radii) for one in predictions]


def _nodes(record: Record, at: str) -> list[str]:
    """Return the nodes of every entry of a tensor, by their names in the file."""
    if not at:
        return [""]
    structure = record.example.structure
    fixed, *members = structure.index(at)
    entries: list[list[int]] = fixed.T.tolist() or [[] for _ in range(structure.num_entries(at))]
    for nodes, owners in (part.tolist() for part in members):
        for node, owner in zip(nodes, owners, strict=True):
            entries[owner].append(node)
    if record.nodes is None:
        return [" ".join(map(str, entry)) for entry in entries]
    names = record.nodes
    first = [structure._node_offsets[sort] for sort in structure.resolve(at).sorts.values()]
    if len(first) == 1:  # sets of any size, too
        return [" ".join(names[first[0] + node] for node in entry) for entry in entries]
    return [
        " ".join(names[start + node] for start, node in zip(first, entry, strict=True))
        for entry in entries
    ]


def table(task: Task, predictions: Sequence[Prediction], separator: str = ",") -> str:
    """Return predictions beside the columns of the files, as the text of a CSV file."""
    rows = [
        [f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row]
        for row in _rows(task, predictions)
    ]
    return csv_text(rows, separator)


def assert_writable(path: Path) -> None:
    """Check that the name of a file says a format in which predictions are written.

    Raises:
        IncidenceError: It says another one.
    """
    known = (*_AS_CSV, ".tsv", ".json", *COLUMNAR, ".ply")
    if path.suffix.lower() not in known:
        raise IncidenceError(
            f"predictions are written as {', '.join(filter(None, known))} (a coloured mesh); got"
            f" {path.name!r}. Choose one of these suffixes."
        )


def content_for(
    path: Path,
    task: Task,
    predictions: Sequence[Prediction],
    passed_over: Sequence[IncidenceError] = (),
) -> str | bytes:
    """Return the table of predictions in the format that the name of a file says.

    Raises:
        IncidenceError: It says another one.
    """
    assert_writable(path)
    suffix = path.suffix.lower()
    if suffix == ".json":
        return as_json(task, predictions, passed_over)
    if suffix in COLUMNAR:
        head, *rows = _rows(task, predictions)
        columns = zip(*rows, strict=True)
        return columnar_bytes(dict(zip(map(str, head), map(list, columns), strict=True)), suffix)
    return table(task, predictions, "\t" if suffix == ".tsv" else ",")


def as_json(
    task: Task, predictions: Sequence[Prediction], passed_over: Sequence[IncidenceError]
) -> str:
    """Return the same as one JSON object, with why other examples were skipped."""
    head, *rows = _rows(task, predictions)
    content = {
        "predictions": [dict(zip(map(str, head), row, strict=True)) for row in rows],
        "passed_over": list(map(str, passed_over)),
    }
    return json.dumps(content, indent=1)


def _rows(task: Task, predictions: Sequence[Prediction]) -> list[list[object]]:
    """Return the names of the columns, as in `predictions.csv`, then a row for each prediction."""
    is_class = task.kind == "classification"
    first = _first_columns(task, predictions)
    columns = list(dict.fromkeys(key for p in predictions for key in (*p.properties, *p.columns)))
    word = "predicted {}" if task.kind == "regression" else "p({})"
    last = [*(["predicted"] if is_class else []), *(word.format(name) for name in task.names)]
    has_deviations = any(len(row) for one in predictions for row in one.deviations)
    if has_deviations:
        last += [f"deviation {name}" for name in task.names]
    if any(one.radii for one in predictions):
        last += [f"{end} {name}" for name in task.names for end in ("lower", "upper")]
    rows: list[list[object]] = [[*first, *unlike(columns, [*first, *last]), *last]]
    for one in predictions:
        for number, (row, nodes) in enumerate(zip(one.rows, one.nodes, strict=True)):
            label = [nodes, one.name] if one.has_names else [one.name, number, nodes]
            texts = [
                one.columns[key][number] if key in one.columns else one.properties.get(key, "")
                for key in columns
            ]
            best = [_best(task, row)] if is_class else []
            more = list(one.deviations[number]) if one.deviations else []
            if has_deviations and not more:  # a row that was skipped
                more = [math.nan] * len(task.names)
            for value, radius in zip(row, one.radii, strict=False):
                more += [value - radius, value + radius]
            rows.append([*label[: len(first)], *texts, *best, *row, *more])
    return rows


def _best(task: Task, row: Sequence[float]) -> str:
    """Return the most probable class; nothing where the row is missing."""
    return "" if math.isnan(row[0]) else task.names[row.index(max(row))]


def _first_columns(task: Task, predictions: Sequence[Prediction]) -> list[str]:
    if any(one.has_names for one in predictions):
        return ["name", "file"] if len(predictions) > 1 else ["name"]
    return ["name", "entry", "nodes"] if task.at else ["name"]
