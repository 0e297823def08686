"""Training: one typed config, Lightning's loop, and a folder for every run that survives a kill.

Its names are loaded on first use: the command line knows its options without waiting for torch.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from incidence.errors import need
from incidence.lazy import front_door

if TYPE_CHECKING:
    from incidence.train.config import Config
    from incidence.train.cross_validation import CrossValidation, cross_validate
    from incidence.train.dask_shards import prepare_with_dask
    from incidence.train.evaluate import evaluate_run
    from incidence.train.model import ExportedModel, Model, load
    from incidence.train.prediction import Predictions, predict
    from incidence.train.run import Interrupted, Run, resume, train
    from incidence.train.run_folder import RunFolder

_HOMES = {
    "Config": "incidence.train.config",
    "CrossValidation": "incidence.train.cross_validation",
    "ExportedModel": "incidence.train.model",
    "Interrupted": "incidence.train.run",
    "Model": "incidence.train.model",
    "Predictions": "incidence.train.prediction",
    "Run": "incidence.train.run",
    "RunFolder": "incidence.train.run_folder",
    "cross_validate": "incidence.train.cross_validation",
    "evaluate_run": "incidence.train.evaluate",
    "load": "incidence.train.model",
    "predict": "incidence.train.prediction",
    "prepare_with_dask": "incidence.train.dask_shards",
    "resume": "incidence.train.run",
    "train": "incidence.train.run",
}

__all__ = ["Config", "CrossValidation", "ExportedModel", "Interrupted", "Model", "Predictions"]
__all__ += ["Run", "RunFolder", "cross_validate", "evaluate_run", "load", "predict"]
__all__ += ["prepare_with_dask", "resume", "train"]

__getattr__, __dir__ = front_door(
    __name__, _HOMES, partial(need, purpose="training", extra="train")
)
