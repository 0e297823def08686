"""Predictions of a finished run: for files of the user, or for the parts of a data set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from incidence.data import READERS, Read, Reader, Task, reader
from incidence.data.lifts import lift_all
from incidence.data.readers import assert_alike, legible
from incidence.errors import IncidenceError
from incidence.models import Predictor
from incidence.structure.example import Example
from incidence.structure.examples import collate
from incidence.train.evaluate import Evaluation, evaluate
from incidence.train.folder import ModelSpec, RunFolder, apart, csv_text
from incidence.train.prepare import prepare

__all__ = ["Prediction", "evaluate_run", "predict", "table"]

_TOGETHER = 64
_PARTING = {"split": 0, "data_seed": 0, "validation": None, "data_options": None}
"""Options that say what the parts of the data are; those of a run do not count for other data."""
_TROUBLE = (OSError, EOFError, ValueError, LookupError, ArithmeticError, RuntimeError)


class Prediction(NamedTuple):
    """What a model says about one example: a row of numbers, or of probabilities, for each entry of its output, and its nodes.

    What else the file says about the example, by column, is in `properties`.
    """

    name: str
    rows: list[list[float]]
    nodes: list[str]
    properties: Mapping[str, str] = {}


def predict(run: Path, files: Iterable[Path], errors: list[IncidenceError]) -> tuple[Task, list[Prediction]]:
    """Predictions for all examples in some files, in order.

    Args:
        run: The folder of a finished run; it may have moved.
        files: What to predict.
        errors: Takes what could not be read or does not fit the model; the rest goes on.

    Raises:
        IncidenceError: The run has no model.
    """
    predictor, spec = RunFolder.open(run).load()
    reads = _reads(files, spec, errors)
    found: list[Prediction] = []
    while some := list(islice(reads, _TOGETHER)):
        found += _predict(predictor, spec.task, some, errors)
    return spec.task, found


def _reads(files: Iterable[Path], spec: ModelSpec, errors: list[IncidenceError]) -> Iterator[Read]:
    """All examples that can be read, with the tensors that the lift of the model adds."""
    for path in files:
        try:
            found, options = _reader(path, spec)
            for one in found.read(path, errors, **options):
                name = legible(f"{path}{one.name.removeprefix(path.name)}")
                try:
                    assert_alike([(name, one.example)])  # its features are finite
                    yield one._replace(name=name, example=lift_all([one.example], spec.lift, **spec.lift_options)[0])
                except IncidenceError as error:
                    errors.append(error if name in str(error) else IncidenceError(f"{name}: {error}"))
        except IncidenceError as error:
            errors.append(error if str(path) in str(error) else IncidenceError(f"{path}: {error}"))
        except _TROUBLE as error:  # of a file that no reader foresaw: the others are not lost for it
            errors.append(IncidenceError(f"{path} cannot be read: {error}."))


def _reader(path: Path, spec: ModelSpec) -> tuple[Reader, Mapping[str, Any]]:
    """The reader of the model with its options; examples that the library saved are read as they are."""
    if not path.is_file():
        raise IncidenceError(f"there is no file {path}.")
    if path.suffix == ".npz":
        return reader("example"), {}
    found = reader(spec.reader)
    if not found.reads(path):
        others = [other for other in READERS if reader(other).reads(path)]
        hint = f" A file like that is for a model of kind {others[0]!r}." if others else ""
        raise IncidenceError(f"{path} is none of the files this model reads: {', '.join(found.suffixes)}, .npz.{hint}")
    return found, spec.reader_options


def _predict(predictor: Predictor, task: Task, some: Sequence[Read], errors: list[IncidenceError]) -> list[Prediction]:
    """Predictions of a batch; if an example does not fit, of every one on its own, so that the others are not lost."""
    try:
        batch = collate([Example(r.example.structure, r.example.features) for r in some])
        rows = predictor.predict(batch.features, batch.structure)
    except IncidenceError as error:
        if len(some) > 1:
            return [p for one in some for p in _predict(predictor, task, [one], errors)]
        errors.append(IncidenceError(f"{some[0].name}: {error}"))
        return []
    sizes = batch.structure.entry_ptr(task.at).diff().tolist() if task.at else [1] * len(some)
    return [Prediction(r.name, part.tolist(), _nodes(r, task.at), r.properties) for r, part in zip(some, rows.split(sizes), strict=True)]


def _nodes(read: Read, at: str) -> list[str]:
    """The nodes of every entry of a tensor, as the file calls them; nothing for the whole structure."""
    if not at:
        return [""]
    fixed, *members = read.example.structure.index(at)
    entries: list[list[int]] = fixed.T.tolist() or [[] for _ in range(read.example.structure.num_entries(at))]
    for nodes, owners in (part.tolist() for part in members):
        for node, owner in zip(nodes, owners, strict=True):
            entries[owner].append(node)
    return [" ".join(str(node) if read.nodes is None else read.nodes[node] for node in entry) for entry in entries]


def table(task: Task, found: Sequence[Prediction]) -> str:
    """Predictions as the text of a CSV file, beside what the files say: a column that has the name of a prediction is that of the file."""
    is_class, entry = task.kind == "classification", ["entry", "nodes"] if task.at else []
    own = list(dict.fromkeys(key for one in found for key in one.properties))
    values = ["class", *(f"p({name})" for name in task.names)] if is_class else list(task.names)
    made = [f"predicted {name}" if name in own else name for name in values]
    rows: list[list[object]] = [["name", *entry, *apart(own, ["name", *entry, *made]), *made]]
    for name, predicted, nodes, properties in found:
        told = [properties.get(key, "") for key in own]
        for number, (row, entry_nodes) in enumerate(zip(predicted, nodes, strict=True)):
            best = [task.names[row.index(max(row))]] if is_class else []
            rows.append([name, *([number, entry_nodes] if task.at else []), *told, *best, *(f"{value:.6g}" for value in row)])
    return csv_text(rows)


def evaluate_run(run: Path, changes: dict[str, Any]) -> tuple[Evaluation, str]:
    """The metrics of a finished run on its own data, or on the parts of other data; and the metric that counts.

    Args:
        run: The folder of the run.
        changes: Options about data in place of those of the run, such as `data` and `target`.

    Raises:
        IncidenceError: The data is for another task, or it is that of the run, and other parts are asked for.
    """
    folder = RunFolder.open(run)
    predictor, spec = folder.load()
    trained = folder.read_config()
    asked, known = (Path(data).expanduser().resolve() for data in (changes.get("data", trained.data), trained.data))
    drawn = next((name for name in _PARTING if name in changes and changes[name] != getattr(trained, name)), None)
    if drawn is not None and asked == known:
        raise IncidenceError(
            f"leave out --{drawn.replace('_', '-')}: in other parts of its own data there are rows that the run was trained on. "
            "Give other data with --data."
        )
    config = trained.replace(**{**(_PARTING if asked != known else {}), **changes})
    prepared = prepare(config)
    data = prepared.data
    if _asks(data.task) != _asks(spec.task):
        raise IncidenceError(f"the model was trained for {_said(spec.task)}, and the data has {_said(data.task)}.")
    return evaluate(predictor, data, data.split(config.split), prepared.parts, config.batch_size), data.metric


def _asks(task: Task) -> tuple[object, ...]:
    """What a network must fit: names of numbers and units are only words."""
    return task.kind, task.at, task.names if task.kind == "classification" else len(task.names)


def _said(task: Task) -> str:
    count = len(task.names)
    what = f"{count} {'number' if count == 1 else 'numbers'}" if task.kind == "regression" else f"the classes {', '.join(task.names)}"
    return f"{what} for {f'every entry of `{task.at}`' if task.at else 'the whole structure'}"
