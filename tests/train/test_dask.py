"""Shards that the workers of a Dask cluster prepare are those of one process."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import incidence as inc
from incidence.errors import IncidenceError, MissingExtraError
from incidence.train import prepare_with_dask
from incidence.train.config import Config
from incidence.train.shards import prepare_shards


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    distributed = pytest.importorskip(
        "distributed", reason="Dask is not installed: pip install 'incidence[dask]'"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Dask, about ports and event loops
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        )
        with cluster, distributed.Client(cluster) as client:
            yield client


@pytest.mark.filterwarnings("ignore")
def test_workers_of_a_cluster_write_the_shards_of_one_process(client, numbers, tmp_path):
    path = prepare_with_dask(client, str(numbers), tmp_path / "dask", 3, model="rings")
    prepare_shards(Config(data=str(numbers), model="rings"), tmp_path / "alone", 3)
    ours, theirs = inc.data.load(path), inc.data.load(tmp_path / "alone")
    assert list(ours.examples) == list(theirs.examples)
    for file in sorted((tmp_path / "alone").glob("*.npz")):
        assert (path / file.name).stat().st_size == file.stat().st_size


@pytest.mark.filterwarnings("ignore")
def test_a_shard_that_cannot_be_prepared_is_an_error_of_the_caller(client, tmp_path):
    with pytest.raises(IncidenceError, match="is no data set and no file or folder"):
        prepare_with_dask(client, "nothing.csv", tmp_path / "out", 2)
    with pytest.raises(IncidenceError, match="there is at least one shard; got 0"):
        prepare_with_dask(client, "nothing.csv", tmp_path / "out", 0)
    with pytest.raises(IncidenceError, match=r"is a distributed\.Client; got str"):
        prepare_with_dask("tcp://host:8786", "nothing.csv", tmp_path / "out", 2)


def test_without_dask_the_message_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'incidence\[dask\]'"):
        prepare_with_dask(None, "nothing.csv", tmp_path / "out", 2)
