"""The members of an ensemble: runs with different seeds in one folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from incidence.errors import IncidenceError
from incidence.models import Predictor
from incidence.models.ensemble import Ensemble
from incidence.train.config import Config
from incidence.train.launch import started_processes
from incidence.train.run_folder import RunFolder, write

__all__ = ["assert_one_process", "train_members"]


def assert_one_process(config: Config) -> None:
    """Refuse ensembles in several processes.

    Raises:
        IncidenceError: There are several.
    """
    if config.devices * config.machines > 1 or started_processes() not in (None, (1, 1)):
        raise IncidenceError(
            "an ensemble is trained in one process: leave out the option `devices`, or train its"
            " members one by one with different seeds."
        )


def train_members(
    folder: RunFolder, config: Config, train: Callable[..., Any], resume: Callable[..., Any]
) -> Ensemble:
    """Return the ensemble of a folder, after all members that are not finished were trained.

    Args:
        folder: The folder of the ensemble.
        config: The options; each member has the seed after that of the one before.
        train: Trains a member with a config.
        resume: Continues the member in a folder.
    """
    members: list[Predictor] = []
    for number in range(config.ensemble):
        member = RunFolder(folder.members / str(number + 1))
        if not member.metrics.is_file():
            if member.config.is_file():
                resume(member.path)
            else:
                seed = config.seed + number
                train(config.replace(ensemble=1, seed=seed, out=str(member.path)))
        members.append(member.load()[0])
    first = RunFolder(folder.members / "1")
    write(folder.history, first.history.read_bytes())
    return Ensemble(members).eval()
