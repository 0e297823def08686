"""`Model`: a trained network with all that belongs to it, as `inc.load` returns it."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from os import PathLike
from os.path import expanduser
from pathlib import Path
from typing import Any

from incidence.data import DATA_SETS, DataSet
from incidence.data.loading import load_whole
from incidence.data.pyg import PREFIX
from incidence.errors import IncidenceError, only_options, optional
from incidence.files import as_path
from incidence.models import IncidenceNet, Predictor
from incidence.notebook import html_of
from incidence.structure.example import Example
from incidence.train.config import Config
from incidence.train.evaluate import OF_OWN_DATA, evaluate_other, evaluate_run
from incidence.train.evaluation import Evaluation
from incidence.train.export import SUFFIXES, ExportedGraph, load_exported
from incidence.train.inputs import data_for_model, has_named_columns, table_of_smiles
from incidence.train.model_spec import ModelSpec
from incidence.train.prediction import (
    PREDICT_OPTIONS,
    TOP,
    Predictions,
    as_predictions,
    assert_no_facts,
    predict_queries,
    predict_records,
    with_intervals,
)
from incidence.train.prepare import load_for
from incidence.train.run_folder import RunFolder, describe_score, read_history, read_json

__all__ = ["ExportedModel", "Model", "load"]


def load(run: str | PathLike[str]) -> Any:
    """Load the trained model of a run, or an exported model, ready to predict.

    Args:
        run: The folder of a finished run, which may have moved; or a file that ends with `.onnx` or
            `.pt2`, which `incidence export` wrote.

    Returns:
        A `Model`, or an `ExportedModel` for a file.

    Raises:
        IncidenceError: It is no folder of a run, the run is not finished, or its files are damaged.
    """
    path = Path(expanduser(as_path(run)))
    if path.suffix in SUFFIXES:
        return ExportedModel(load_exported(path))
    return Model(RunFolder.open(path))


def _hub_model() -> Any:
    with optional("the Hugging Face Hub", "hub"):
        from incidence.train.hub import HubModel
    return HubModel


class Model:
    """A trained network: it reads what `inc.data.load` reads, and predicts values in their units.

    Args:
        folder: The folder of a finished run.

    Attributes:
        folder: The folder.
        predictor: The network with the scales of its data.
        spec: What it is, what it predicts, and how files are read for it.
        config: The options of the run; none is left open.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder: RunFolder = folder
        self.predictor: Predictor
        self.spec: ModelSpec
        self.predictor, self.spec = folder.load()
        self.config: Config = folder.read_config()

    @property
    def network(self) -> IncidenceNet:
        """The network between standardised features and outputs."""
        return self.predictor.net

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics of the run, as in `metrics.json`; empty if the file is missing."""
        return read_json(self.folder.metrics)

    @property
    def history(self) -> list[dict[str, float]]:
        """A row of metrics for every epoch, as in `history.csv`; empty if the file is missing."""
        return read_history(self.folder.history)

    @only_options(*PREDICT_OPTIONS)
    def predict(
        self,
        what: Any,
        nodes: Any = None,
        *,
        known: Any = None,
        top: int = TOP,
        coverage: float | None = None,
    ) -> Predictions:
        """Predict for anything that `inc.data.load` takes, with targets or without.

        Args:
            what: The name of a data set; a file, a folder of files, or a list of them; for models
                of molecules also SMILES; a data frame; graphs of PyG; an `Example` or a list of
                them; a `DataSet`. A model of ratings or links takes tables of pairs. A model of
                labels of nodes takes the tables of another graph: a folder with `edges.csv` and
                `nodes.csv`, data frames by these names, or a table of edges.
            nodes: A table of nodes, as a path or a data frame, beside a table of edges.
            known: For models of ratings, links or triples, a table of further facts, such as the
                ratings of a new user.
            top: For these models, a table without one of the key columns, as of users alone, gets
                that many of the best candidates for each row. Known ones are left out.
            coverage: The share of true values that intervals are to cover, such as 0.9. The run
                must have had a validation part.

        Returns:
            A prediction for each example, and why other examples were skipped.

        Raises:
            IncidenceError: There is nothing to predict for.
        """
        errors: list[IncidenceError] = []
        smiles = None
        if self.spec.is_completion:
            predictions = predict_queries(self.predictor, self.folder, what, errors, known, top)
            task = replace(self.spec.task, at="")
        else:
            assert_no_facts(known)
            smiles = table_of_smiles(what, self.spec)
            given = what if smiles is None else smiles
            predictions = predict_records(self.predictor, self.spec, given, errors, nodes)
            task = self.spec.task
        predictions = with_intervals(task, predictions, self.folder, coverage)
        has_smiles = smiles is not None
        return as_predictions(task, predictions, errors, what, has_smiles, nodes)

    def evaluate(self, data: Any = None, **options: Any) -> Evaluation:
        """Measure the model on every part of its data, or on other data.

        Data with the fingerprint of the run has the parts of training, wherever it is. Other data
        is one test part, unless it defines its parts. Targets are matched by name: in files and
        data frames those of the model are taken, unless `target` names others.

        Args:
            data: Anything that `inc.data.load` takes; the data of the run by default.
            options: Options of `inc.data.load`, such as `target`.

        Raises:
            IncidenceError: The data is for another task, or the data of the run has changed, or was
                given in Python.
        """
        if data is None:
            self._assert_data_is_there(options)
            return evaluate_run(self.folder.path, options)[0]
        config = self.config.replace(**OF_OWN_DATA)

        def read(target: Any) -> DataSet:
            given = {**options, "target": target}
            if has_named_columns(data):
                return load_for(config, data, self.spec, **given)
            return load_whole(data, **given)

        loaded = data_for_model(read, data, self.spec, options.get("target"))
        loaded = replace(loaded, metric=self.spec.metric)
        return evaluate_other(self.predictor, self.spec, self.config, loaded)

    def _assert_data_is_there(self, options: dict[str, Any]) -> None:
        """Refuse to measure on the data of a run that was given in Python."""
        own = self.config.data
        is_named = own in DATA_SETS or own.startswith(PREFIX) or Path(own).is_absolute()
        if "data" not in options and not is_named:
            raise IncidenceError(
                f"the data of this run, {own!r}, was given in Python, or is missing: give it again"
                " as evaluate(data)."
            )

    def export(self, path: str | PathLike[str], tolerance: float | None = None) -> Any:
        """Export the network for other programs: ONNX, or `torch.export`; see docs/export.md.

        Args:
            path: A file that ends with `.onnx` or `.pt2`; `inc.load` reads both.
            tolerance: The largest difference of outputs on random structures, with which the file
                is written; 0.0001 by default.

        Returns:
            What was written; printing it says how large the differences are.

        Raises:
            IncidenceError: A part of the network cannot be exported, or a difference is larger.
        """
        if self.spec.members > 1:
            members = self.folder.members
            raise IncidenceError(
                f"an ensemble is no one network: export one of its members, as {members / '1'}."
            )
        with optional("exporting", "export"):
            from incidence.train.export import TOLERANCE, export
        if tolerance is None:
            tolerance = TOLERANCE
        return export(deepcopy(self.predictor), self.spec, Path(path), tolerance)

    _repr_html_ = html_of

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        """Write the model to a folder that `inc.load` and `from_pretrained` read.

        The folder has no data, and no path of this machine.
        """
        _hub_model()(self.folder).save_pretrained(folder)

    def push_to_hub(self, name: str, **options: Any) -> Any:
        """Send the model to the Hugging Face Hub.

        Args:
            name: The repository, as in `user/solubility`.
            options: Options of `huggingface_hub.ModelHubMixin.push_to_hub`, such as `private` and
                `token`.
        """
        return _hub_model()(self.folder).push_to_hub(name, **options)

    @staticmethod
    def from_pretrained(name: str | PathLike[str], **options: Any) -> Model:
        """Load a model from a folder or from the Hugging Face Hub.

        Args:
            name: The folder, or the repository, as in `user/solubility`.
            options: Options of `huggingface_hub.ModelHubMixin.from_pretrained`, such as `revision`
                and `token`.

        Raises:
            IncidenceError: It is no model of this library, or `huggingface_hub` is missing.
        """
        model: Model = _hub_model().from_pretrained(name, **options)
        return model

    def __repr__(self) -> str:
        """Return what it is, what it was trained on, and how well it does."""
        spec = self.spec
        count = sum(p.numel() for p in self.predictor.parameters())
        score = describe_score(self.metrics, spec.metric)
        ending = f"; {score}" if score else ""
        return (
            f"Model({str(self.folder.path)!r}: {spec.describe()}; {spec.model} network, {count:,}"
            f" parameters; trained on {spec.data}{ending})"
        )


def _only_predicts(path: Path, name: str) -> str:
    return (
        f"{path} is an exported model, which only predicts: `{name}` is for the folder of a run, as"
        " in inc.load('runs/solubility-1')."
    )


class ExportedModel:
    """A network in an ONNX file or a program of `torch.export`, which only predicts.

    Args:
        graph: What was read from the file.

    Attributes:
        spec: What the model is, what it predicts, and how files are read for it.
    """

    def __init__(self, graph: ExportedGraph) -> None:
        self.graph: ExportedGraph = graph
        self.spec: ModelSpec = graph.spec

    @only_options(*PREDICT_OPTIONS)
    def predict(self, what: Any, nodes: Any = None) -> Predictions:
        """Predict for anything that `Model.predict` takes.

        Raises:
            IncidenceError: There is nothing to predict for.
        """
        errors: list[IncidenceError] = []
        smiles = table_of_smiles(what, self.spec)
        given = what if smiles is None else smiles
        predictions = predict_records(self.graph, self.spec, given, errors, nodes)
        has_smiles = smiles is not None
        return as_predictions(self.spec.task, predictions, errors, what, has_smiles, nodes)

    def evaluate(self, data: Any = None, **options: Any) -> Evaluation:
        """Raise an error: only the folder of a run knows the parts of its data.

        Raises:
            IncidenceError: Always; it says what to do.
        """
        raise IncidenceError(_only_predicts(self.graph.path, "evaluate"))

    def __getattr__(self, name: str) -> Any:
        """Raise an error that says what a `Model` has and this has not."""
        is_of_model = hasattr(Model, name) or name in ("config", "folder", "predictor")
        if name.startswith("_") or not is_of_model:
            raise AttributeError(f"an exported model has no attribute {name!r}.")
        raise AttributeError(_only_predicts(self.graph.path, name))

    def inputs(self, what: Any) -> dict[str, Any]:
        """Return all inputs of the graph by name, as arrays, for an example or a batch.

        A program in another language has to make the same arrays.
        """
        if not isinstance(what, Example):
            raise IncidenceError(
                f"inputs are made of an Example, or a batch of them; got {type(what).__name__}."
            )
        return dict(self.graph.inputs(what.features, what.structure))

    def __repr__(self) -> str:
        """Return what it is."""
        spec = self.spec
        return f"ExportedModel({str(self.graph.path)!r}: {spec.describe()}; {spec.model} network)"
