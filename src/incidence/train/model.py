"""`Model`: a trained network with all that belongs to it, as `inc.load` gives it."""

from __future__ import annotations

import csv
from copy import deepcopy
from dataclasses import replace
from os import PathLike
from os.path import expanduser
from pathlib import Path
from typing import Any

from incidence.data import DATA_SETS, DataSet
from incidence.data.loading import load_whole
from incidence.data.pyg import PREFIX
from incidence.errors import IncidenceError, need
from incidence.files import as_path
from incidence.models import IncidenceNet, Predictor
from incidence.notebook import html_of
from incidence.structure.example import Example
from incidence.train.config import Config
from incidence.train.evaluate import Evaluation
from incidence.train.exported import SUFFIXES, ExportedGraph, load_exported
from incidence.train.fitting import for_other, has_columns
from incidence.train.folder import ModelSpec, RunFolder, read_json, told_score
from incidence.train.measuring import OF_OWN, evaluate_other, evaluate_run
from incidence.train.prediction import Predictions, answered, predict_asked, predict_with
from incidence.train.prepare import loaded

__all__ = ["ExportedModel", "Model", "load"]


def load(run: str | PathLike[str]) -> Any:
    """The trained model of a run, ready to predict: a `Model`; or an `ExportedModel`, for a file that `incidence export` wrote.

    Args:
        run: The folder of a finished run, which may have moved; or a file that ends with `.onnx` or `.pt2`.

    Raises:
        IncidenceError: It is no folder of a run, or the run is not finished, or its files are damaged.
    """
    path = Path(expanduser(as_path(run)))
    return (
        ExportedModel(load_exported(path))
        if path.suffix in SUFFIXES
        else Model(RunFolder.open(path))
    )


def _hub() -> Any:
    return need("incidence.train.hub", "the Hugging Face Hub", "hub")


class Model:
    """A trained network: it reads what `inc.data.load` reads, and gives values in their units.

    Args:
        folder: The folder of a finished run.

    Attributes:
        folder: Where it comes from.
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
        """What the run measured in the end, as in `metrics.json`; nothing if the file is gone."""
        return read_json(self.folder.metrics)

    @property
    def history(self) -> list[dict[str, float]]:
        """A row of metrics for every epoch of the run, as in `history.csv`; nothing if the file is gone."""
        try:
            rows = list(
                csv.DictReader(self.folder.history.read_text(encoding="utf-8").splitlines())
            )
            return [{key: float(value) for key, value in row.items() if value} for row in rows]
        except (
            OSError,
            ValueError,
            TypeError,
            csv.Error,
        ):  # a row with more cells than there are columns has a list for them
            return []

    def predict(self, what: Any, nodes: Any = None) -> Predictions:
        """Predictions for anything that `inc.data.load` takes, with targets or without.

        Args:
            what: The name of a data set; a file, a folder of files, or a list of them; for models of molecules also SMILES; a data frame;
                graphs of PyG; an `Example` or a list of them; a `DataSet`. A model of ratings or links takes tables of the pairs that
                are asked for, and one of labels of nodes the tables of another graph: a folder with `edges.csv` and `nodes.csv`, data
                frames by these names, or a table of edges.
            nodes: A table of nodes, as a path or a data frame, beside a table of edges.

        Returns:
            A prediction for each example, and what was passed over because it could not be read or does not fit the model.

        Raises:
            IncidenceError: There is nothing that it can predict for.
        """
        if not self.spec.is_completion:
            return predict_with(self.predictor, self.spec, what, nodes)
        errors: list[IncidenceError] = []
        found = predict_asked(self.predictor, self.folder, what, errors)
        return answered(replace(self.spec.task, at=""), found, errors)

    def evaluate(self, data: Any = None, **options: Any) -> Evaluation:
        """The metrics on every part of its own data, or of other data; where that tells no parts, all of it is for testing.

        Data with the fingerprint of the run is its own, wherever it is: the parts are then those of the run. Targets are told by their
        names; of files and data frames those of the model are taken, unless `target` says others.

        Args:
            data: Anything that `inc.data.load` takes; by default what the run was trained on.
            options: Of `inc.data.load`, such as `target`.

        Raises:
            IncidenceError: The data is for another task, or its own has changed, or is not at hand.
        """
        if data is None:
            own = self.config.data
            if (
                "data" not in options
                and own not in DATA_SETS
                and not own.startswith(PREFIX)
                and not Path(own).is_absolute()
            ):
                raise IncidenceError(
                    f"the data of this run, {own!r}, is not at hand, or was given in Python: say evaluate(data)."
                )
            return evaluate_run(self.folder.path, options)[0]
        config = self.config.replace(**OF_OWN)

        def read(target: Any) -> DataSet:
            given = {**options, "target": target}
            return (
                loaded(config, data, self.spec, **given)
                if has_columns(data)
                else load_whole(data, **given)
            )

        found = replace(
            for_other(read, data, self.spec, options.get("target")), metric=self.spec.metric
        )
        return evaluate_other(self.predictor, self.spec, self.config, found)

    def export(self, path: str | PathLike[str], tolerance: float | None = None) -> Any:
        """Writes the network for other programs: an ONNX file, or a program of `torch.export`; see docs/export.md.

        Args:
            path: It ends with `.onnx` or `.pt2`. `inc.load` reads both.
            tolerance: How far its outputs may be off on random structures; nothing is written if they are further off.

        Returns:
            What was written; printing it says how far outputs are off.

        Raises:
            IncidenceError: A part of the network cannot be exported, or outputs are further off.
        """
        making = need("incidence.train.export", "exporting", "export")
        return making.export(
            deepcopy(self.predictor),
            self.spec,
            Path(path),
            making.TOLERANCE if tolerance is None else tolerance,
        )

    _repr_html_ = html_of

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        """Writes the model alone to a folder, which `inc.load` and `from_pretrained` read: no data, no path of this machine."""
        _hub().HubModel(self.folder).save_pretrained(folder)

    def push_to_hub(self, name: str, **options: Any) -> Any:
        """Sends the model to the Hugging Face Hub.

        Args:
            name: The repository, as in `user/solubility`.
            options: Those of `huggingface_hub.ModelHubMixin.push_to_hub`, such as `private` and `token`.
        """
        return _hub().HubModel(self.folder).push_to_hub(name, **options)

    @staticmethod
    def from_pretrained(name: str | PathLike[str], **options: Any) -> Model:
        """A model from a folder or from the Hugging Face Hub.

        Args:
            name: The folder, or the repository, as in `user/solubility`.
            options: Those of `huggingface_hub.ModelHubMixin.from_pretrained`, such as `revision` and `token`.

        Raises:
            IncidenceError: It is no model of this library, or `huggingface_hub` is missing.
        """
        found: Model = _hub().HubModel.from_pretrained(name, **options)
        return found

    def __repr__(self) -> str:
        """What it is, what it was trained on, and how well it does."""
        spec = self.spec
        count = sum(p.numel() for p in self.predictor.parameters())
        score = told_score(self.metrics, self.spec.metric)
        told = f"; {score}" if score else ""
        return f"Model({str(self.folder.path)!r}: {spec.what}; {spec.model} network, {count:,} parameters; trained on {spec.data}{told})"


def _lacks(path: Path, name: str) -> str:
    return f"{path} is an exported model, which only predicts: `{name}` is for the folder of a run, as in inc.load('runs/solubility-1')."


class ExportedModel:
    """A network in an ONNX file or a program of `torch.export`: it predicts what the model says that it was made from.

    Args:
        graph: What was read from the file.

    Attributes:
        spec: What the model is, what it predicts, and how files are read for it.
    """

    def __init__(self, graph: ExportedGraph) -> None:
        self.graph: ExportedGraph = graph
        self.spec: ModelSpec = graph.spec

    def predict(self, what: Any, nodes: Any = None) -> Predictions:
        """Predictions for anything that `Model.predict` takes.

        Raises:
            IncidenceError: There is nothing that it can predict for.
        """
        return predict_with(self.graph, self.spec, what, nodes)

    def evaluate(self, data: Any = None, **options: Any) -> Evaluation:
        """Is for runs, whose parts are known.

        Raises:
            IncidenceError: Always; it says what to do.
        """
        raise IncidenceError(_lacks(self.graph.path, "evaluate"))

    def __getattr__(self, name: str) -> Any:
        """What a `Model` has, and this has not, is told as such."""
        if name.startswith("_") or not (
            hasattr(Model, name) or name in ("config", "folder", "predictor")
        ):
            raise AttributeError(f"an exported model has no attribute {name!r}.")
        raise AttributeError(_lacks(self.graph.path, name))

    def inputs(self, what: Any) -> dict[str, Any]:
        """All inputs of the graph by name, as arrays: what a program in any language has to make for an example, or a batch of them."""
        if not isinstance(what, Example):
            raise IncidenceError(
                f"inputs are made of an Example, or a batch of them; got {type(what).__name__}."
            )
        return dict(self.graph.inputs(what.features, what.structure))

    def __repr__(self) -> str:
        """What it is."""
        return (
            f"ExportedModel({str(self.graph.path)!r}: {self.spec.what}; {self.spec.model} network)"
        )
