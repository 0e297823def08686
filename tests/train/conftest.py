"""Files of small data to train on."""

from pathlib import Path

import pytest

import incidence as inc
from tests.train.small_runs import graphs


@pytest.fixture(scope="session")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of graphs, with a number to predict for each."""
    path = tmp_path_factory.mktemp("data") / "numbers.npz"
    inc.collate(graphs(40)).save(path)
    return path


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of graphs of two classes."""
    path = tmp_path_factory.mktemp("data") / "classes.npz"
    inc.collate(graphs(40, is_classes=True)).save(path)
    return path
