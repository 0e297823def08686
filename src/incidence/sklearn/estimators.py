"""The estimators: options as in `incidence train`, and results as scikit-learn wants them."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from incidence.data.completion import Completion
from incidence.data.dataset import DataSet, Split
from incidence.data.dataset_builder import from_examples
from incidence.data.loading import load_whole
from incidence.errors import IncidenceError
from incidence.models import Predictor
from incidence.sklearn.examples import as_frame, graph_examples, molecule_examples
from incidence.structure.example import Example
from incidence.train.conformal import Calibration
from incidence.train.inputs import queries_of
from incidence.train.model_spec import ModelSpec
from incidence.train.prediction import Predictions, predict_records
from incidence.train.run import train

__all__ = [
    "GraphClassifier",
    "GraphRegressor",
    "MoleculeClassifier",
    "MoleculeRegressor",
    "TableRegressor",
]

_OPTIONS = (
    *("model", "hidden", "depth", "dropout", "epochs", "batch_size", "lr", "weight_decay"),
    *("validation", "ensemble", "seed"),
)
_NUMBER = "number"  # the column of the target


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """What all estimators share: the options, training in a folder, and how they are pickled."""

    def __init__(
        self,
        *,
        model: str | None = None,
        hidden: int | None = None,
        depth: int | None = None,
        dropout: float | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        weight_decay: float | None = None,
        validation: float = 0.0,
        ensemble: int = 1,
        seed: int = 0,
        options: Mapping[str, Any] | None = None,
        out: str | None = None,
        is_shown: bool = False,
    ) -> None:
        self.model = model
        self.hidden = hidden
        self.depth = depth
        self.dropout = dropout
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.validation = validation
        self.ensemble = ensemble
        self.seed = seed
        self.options = options
        self.out = out
        self.is_shown = is_shown

    def _train(self, data: DataSet) -> Any:
        """Train on a data set; the folder of the run stays only if `out` names one."""
        given = {name: getattr(self, name) for name in _OPTIONS}
        options = {name: value for name, value in given.items() if value is not None}
        with TemporaryDirectory(prefix="incidence-") as temporary:
            out = self.out or str(Path(temporary) / "run")
            run = train({**options, **(self.options or {}), "out": out}, data, self.is_shown)
            self.calibration_: Calibration | None = None
            if run is not None and run.folder.calibration.is_file():
                self.calibration_ = Calibration.read(run.folder.calibration)
        if run is None:  # on processes that only help
            raise IncidenceError("estimators train in one process; use inc.train.train in several.")
        self.predictor_: Predictor = run.predictor
        self.spec_: ModelSpec = run.experiment.spec
        self.history_: list[dict[str, float]] = run.history
        return run

    def __sklearn_tags__(self) -> Any:
        """Return that X is no array of numbers."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        tags.no_validation = True  # checks of scikit-learn want numbers
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle: the network as the bytes of its tensors."""
        state = dict(super().__getstate__())
        predictor = state.pop("predictor_", None)
        if predictor is not None:
            # Tensors alone: a pickled module would break with the next change of its classes.
            buffer = io.BytesIO()
            torch.save(predictor.state(), buffer)
            state["weights_"] = buffer.getvalue()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make the network again from its description and its tensors."""
        weights = state.pop("weights_", None)
        super().__setstate__(state)
        if weights is not None:
            tensors = torch.load(io.BytesIO(weights), weights_only=True)
            self.predictor_ = self.spec_.with_weights(tensors, "the state", "the pickle").eval()


class _ExampleEstimator(_Estimator):
    """An estimator for structures with one target each."""

    reader: ClassVar[str]
    """The reader of the data, whose recipe fills open options."""

    def _read(self, X: Any) -> list[Example]:
        """Return the examples of X."""
        raise NotImplementedError

    def _fit(self, X: Any, targets: Any, task: str) -> None:
        """Train on examples and their targets."""
        examples = self._read(X)
        check_consistent_length(examples, targets)
        pairs = zip(examples, targets, strict=True)
        labelled = [example.replace(target=target) for example, target in pairs]
        data = from_examples(labelled, name=type(self).__name__, task=task)
        nothing = torch.zeros(0, dtype=torch.long)
        # All rows are for training: scikit-learn has taken the test rows away, and `validation`
        # draws its part.
        split = Split(torch.arange(len(examples)), nothing, nothing)
        self._train(replace(data, reader=self.reader, splits=(split,)))

    def _values(self, X: Any) -> Any:
        """Return numbers or probabilities, a row for each item."""
        return self._predictions(X).values.double().numpy()

    def _predictions(self, X: Any) -> Predictions:
        check_is_fitted(self, "spec_")
        errors: list[IncidenceError] = []
        examples = self._read(X)
        predictions = predict_records(self.predictor_, self.spec_, examples, errors)
        if errors:
            raise errors[0]
        return Predictions(self.spec_.task, predictions)


class _ExampleRegressor(RegressorMixin, _ExampleEstimator):  # type: ignore[misc]
    """Predicts numbers of structures."""

    def fit(self, X: Any, y: Any) -> Any:
        """Train on X and the numbers y, (rows,) or (rows, numbers); NaN is a missing number."""
        numbers = np.asarray(y, dtype=np.float32)  # (rows,) or (rows, numbers)
        self.is_flat_ = numbers.ndim == 1
        self._fit(X, list(torch.as_tensor(numbers.reshape(len(numbers), -1))), "regression")
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return a number for each item, or a row of numbers.

        With `return_std`, an estimator with `ensemble=5` also returns by how much its networks
        deviate from each other.
        """
        predictions = self._predictions(X)
        if not return_std:
            return self._shaped(predictions.values)
        return self._shaped(predictions.values), self._shaped(predictions.deviations)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Return intervals that cover a share of the true numbers.

        Their shape is (rows, 2), or (rows, numbers, 2) for several numbers.

        They are calibrated on the validation part: fit with `validation=0.2`.

        Raises:
            IncidenceError: There was no validation part, or it was too small for the coverage.
        """
        values = self._values(X)
        if self.calibration_ is None:
            raise IncidenceError(
                "intervals are calibrated on validation data: make the estimator with"
                " validation=0.2."
            )
        names = self.spec_.task.names
        radii = np.array([self.calibration_.radius(name, coverage) for name in names])
        intervals = np.stack([values - radii, values + radii], -1)  # (rows, numbers, 2)
        return intervals[:, 0] if self.is_flat_ else intervals

    def _shaped(self, values: torch.Tensor) -> Any:
        numbers = values.double().numpy()
        return numbers[:, 0] if self.is_flat_ else numbers


class _ExampleClassifier(ClassifierMixin, _ExampleEstimator):  # type: ignore[misc]
    """Predicts classes of structures, or several labels of each."""

    def fit(self, X: Any, y: Any) -> Any:
        """Train on X and the classes y, (rows,), of any type; or on labels, (rows, labels).

        Labels are 0 and 1. NaN is a missing label.
        """
        labels = np.asarray(y)
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        self.is_multilabel_ = labels.ndim == 2
        if self.is_multilabel_:
            return self._fit_labels(X, labels)
        if labels.ndim != 1:
            raise IncidenceError(
                "y has a class for each row, (rows,), or labels of 0 and 1, (rows, labels); got an"
                f" array of shape {labels.shape}."
            )
        # sorted, as scikit-learn has them
        self.classes_: Any
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            only = f"y has one class only, '{self.classes_[0]}'"
            raise IncidenceError(f"{only}: there is nothing to learn.")
        self._fit(X, [torch.tensor(int(number)) for number in numbers], "classification")
        return self

    def _fit_labels(self, X: Any, labels: Any) -> Any:
        """Train on several labels of 0 and 1 for each item."""
        is_known = labels == labels  # False for NaN, whatever the type of the array is
        others = set(np.unique(labels[is_known].astype(str))) - {"0", "1", "0.0", "1.0"}
        others -= {"False", "True"}
        if others:
            raise IncidenceError(
                f"y with several columns has labels of 0 and 1; got '{sorted(others)[0]}'. Make"
                " them with sklearn.preprocessing.MultiLabelBinarizer, or give one column of"
                " classes."
            )
        # as in forests of scikit-learn, whose scorers know labels by it
        self.classes_ = [np.array([0, 1])] * labels.shape[1]
        self._fit(X, list(torch.as_tensor(labels.astype(np.float32))), "multilabel")
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of all classes, in the order of `classes_`; or of all labels."""
        values = self._values(X)
        return values if self.is_multilabel_ else values / values.sum(1, keepdims=True)

    def predict(self, X: Any) -> Any:
        """Return the most probable class of every item; or labels of 0 and 1."""
        values = self._values(X)
        if self.is_multilabel_:
            return (values > 0.5).astype(np.int64)
        return self.classes_[values.argmax(1)]

    def __sklearn_tags__(self) -> Any:
        """Return that y may have several labels."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags


class MoleculeRegressor(_ExampleRegressor):
    """Predicts numbers of molecules from SMILES.

    X is a sequence of SMILES: a list, an array, a series of pandas, or a table of one column.

    Args:
        model: The network: a preset by name, or the tensors it reads. Default: by the data.
        hidden: Channels of the hidden tensors.
        depth: Number of blocks.
        dropout: Dropout probability.
        epochs: Number of passes over the data.
        batch_size: Examples in a step.
        lr: Peak learning rate.
        weight_decay: Weight decay of the optimiser.
        validation: Share of the data to validate on.
        ensemble: Number of networks to train; the mean is predicted.
        seed: Seed of weights, order and dropout.
        options: All other options of `incidence train`, by name.
        out: Folder for the run; by default nothing stays on disk.
        is_shown: Whether to print progress.

    Example:
        >>> regressor = MoleculeRegressor(epochs=1, hidden=8, depth=1)
        >>> regressor.fit(["C", "CC", "CCO", "CCC"], [0.1, 0.2, 0.3, 0.4]).predict(["O"]).shape
        (1,)
    """

    reader = "molecule"

    def _read(self, X: Any) -> list[Example]:
        return molecule_examples(X)


class MoleculeClassifier(_ExampleClassifier):
    """Predicts classes or labels of molecules from SMILES.

    y is a class of any type for each row, or a row of labels of 0 and 1. Arguments are those of
    `MoleculeRegressor`.

    Example:
        >>> classifier = MoleculeClassifier(epochs=1, hidden=8, depth=1)
        >>> labels = [[0, 1], [0, 0], [1, 1], [1, 0]]  # toxic, soluble
        >>> classifier.fit(["C", "CC", "CCO", "CCC"], labels).predict_proba(["O"]).shape
        (1, 2)
    """

    reader = "molecule"

    def _read(self, X: Any) -> list[Example]:
        return molecule_examples(X)


class GraphRegressor(_ExampleRegressor):
    """Predicts numbers of graphs. Arguments are those of `MoleculeRegressor`.

    X is a sequence of examples, structures, graphs of PyG or of networkx.
    """

    reader = "example"

    def _read(self, X: Any) -> list[Example]:
        return graph_examples(X)


class GraphClassifier(_ExampleClassifier):
    """Predicts classes or labels of graphs. X is that of `GraphRegressor`."""

    reader = "example"

    def _read(self, X: Any) -> list[Example]:
        return graph_examples(X)


class TableRegressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """Predicts a number for pairs of IDs, such as the rating of a movie by a user.

    X is a data frame or an array whose first two columns are IDs. All rows of `fit` are known when
    others are predicted. An ID that was never seen gets what the other ID says. Arguments are those
    of `MoleculeRegressor`.
    """

    def fit(self, X: Any, y: Any) -> Any:
        """Train on pairs X and their numbers y."""
        frame, numbers = as_frame(X), np.asarray(y, dtype=np.float64)
        check_consistent_length(frame, numbers)
        keys = list(frame.columns[:2])
        # a column `split`, so that no parts are drawn
        table = frame[keys].assign(**{_NUMBER: numbers, "split": "train"})
        run = self._train(load_whole(table, _NUMBER, keys=keys))
        self.completion_: Completion = run.experiment.data.completion
        return self

    def predict(self, X: Any) -> Any:
        """Return a number for each pair."""
        check_is_fitted(self, "spec_")
        frame, errors = as_frame(X), list[IncidenceError]()
        keys = list(self.completion_.keys)
        if not set(keys) <= set(frame.columns):
            frame = frame.iloc[:, :2].set_axis(keys, axis=1)
        values = np.empty(len(frame))
        for queries in queries_of(frame[keys], self.completion_, errors):
            for places, example in self.completion_.ask(queries.entries):
                rows = self.predictor_.predict(example.features, example.structure)
                for same, row in zip(places, rows.tolist(), strict=True):
                    values[same] = row[0]  # a pair may come several times
        if errors:
            raise errors[0]
        return values
