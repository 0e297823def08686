"""Runs on several processes, and what they have written."""

from __future__ import annotations

import csv
import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import incidence as inc
from tests.train.small_runs import ended, started

# In double precision (metrics are logged in single): where the loss is flat, Adam follows the
# rounding of a gradient that should be 0.
SMALL: dict[str, Any] = {
    "model": "i, {i j}",
    "epochs": 3,
    "batch_size": 9,
    "hidden": 4,
    "depth": 1,
    "dropout": 0.0,
    "validation": 0.2,
}


SMALL["precision"] = "64-true"


def _free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


def two(
    work: Callable[[], object],
    has_store: bool = False,
    environment: Mapping[str, str] | None = None,
) -> list[int]:
    """Runs something in two processes that know of each other as those of torchrun do; gives what
    they ended with.

    Args:
        work: What both do.
        has_store: Whether they have a store before they begin, as torchrun makes one.
        environment: Variables that they have besides, or in place of those.
    """
    port = _free_port()
    store: Any = None
    if has_store:
        distributed: Any = dist
        store = distributed.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)

    def joined(rank: int) -> None:
        known = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": 2,
            "LOCAL_WORLD_SIZE": 2,
            "GROUP_RANK": 0,
            "MASTER_PORT": port,
            "TORCHELASTIC_USE_AGENT_STORE": store is not None,
        }
        os.environ.update({key: str(value) for key, value in known.items()})
        os.environ.update(
            MASTER_ADDR="127.0.0.1", TORCHELASTIC_RUN_ID="test", GLOO_SOCKET_IFNAME="lo"
        )
        os.environ.update(environment or {})
        work()

    children = [started(partial(joined, rank)) for rank in range(2)]
    return [ended(child) for child in children]


def history(path: Path) -> list[list[float]]:
    return [
        [float(v) for v in row.values()]
        for row in csv.DictReader((path / "history.csv").read_text().splitlines())
    ]


def labelled_nodes(tensor: str) -> inc.Example:
    draw = torch.Generator().manual_seed(0)
    edges = torch.unique(torch.randint(40, (2, 90), generator=draw).sort(dim=0)[0], dim=1)
    edges = edges[:, edges[0] != edges[1]]
    x, y = torch.randn(40, 3, generator=draw), torch.arange(40) % 2
    return inc.Example(inc.Structure(40, {tensor: edges}), {"i": x}, {"i": y})
