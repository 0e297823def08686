"""Training: one typed config, Lightning's loop, a folder for every run that survives a kill."""

from incidence.train.config import Config
from incidence.train.folder import RunFolder
from incidence.train.predict import evaluate_run, predict
from incidence.train.run import Interrupted, Run, resume, train

__all__ = ["Config", "Interrupted", "Run", "RunFolder", "evaluate_run", "predict", "resume", "train"]
