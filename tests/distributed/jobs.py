"""What the processes of the tests do."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

import incidence as inc
from incidence.distributed import TorchWorld, rows, run_blocks, split
from incidence.distributed.processes import as_world
from tests.distributed.cases import (
    MAPS,
    NETWORKS,
    STRUCTURES,
    assert_equal_on_parts,
    features,
    outputs_of,
)


def every_case() -> None:
    """Compare layers and modules; all of them, or a few of each kind."""
    torch.set_num_threads(1)
    world = as_world(None)
    step = int(os.environ.get("INCIDENCE_STEP", "1"))
    for name, text, aggr in MAPS[::step]:
        structure = STRUCTURES[name]()
        torch.manual_seed(0)
        layer = inc.nn.Linear(text, 2, 3, aggr=aggr).double()
        xs, outputs = features(structure, layer.map.inputs), [str(p) for p in layer.map.outputs]
        assert_equal_on_parts(layer, xs, structure, outputs, world)
    for name, (of_structure, inputs, make) in NETWORKS.items():
        structure = STRUCTURES[of_structure]()
        torch.manual_seed(0)
        module: Any = make().double()
        texts = [text.strip() for text in inputs.split(",")]
        xs = features(structure, [structure.resolve(text) for text in texts])
        outputs = outputs_of(name, texts)
        assert_equal_on_parts(module, xs, structure, outputs, world)
    print("done")


def _part(timeout: float = 5.0) -> Any:
    torch.set_num_threads(1)
    structure = STRUCTURES["graph"]()
    part = split(structure, timeout=timeout)
    layer = inc.nn.Linear("{i j} -> {i j}", 1, 1)
    return layer, torch.ones(part.num_entries("{i j}"), 1), part


def _say(error: Exception) -> None:
    print(f"{type(error).__name__}: {error}", flush=True)
    os._exit(3)  # no waiting for the others


def one_layer_more() -> None:
    """Call a layer once more on process 1 than on the others."""
    layer, x, part = _part()
    try:
        for _ in range(2 + dist.get_rank()):
            layer(x, part)
        part.world.reduce(torch.ones(1))
    except inc.IncidenceError as error:
        _say(error)


def killed() -> None:
    """Process 1 ends without a word."""
    layer, x, part = _part(timeout=20.0)
    layer(x, part)
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        layer(x, part)
    except inc.IncidenceError as error:
        _say(error)


def asleep() -> None:
    """Process 1 does not answer in time."""
    layer, x, part = _part(timeout=3.0)
    if dist.get_rank() == 1:
        import time

        time.sleep(8)
        sys.exit(0)
    try:
        layer(x, part)
    except inc.IncidenceError as error:
        _say(error)


def different_data() -> None:
    """The processes have different structures."""
    try:
        edges = torch.tensor([[0], [1 + dist.get_rank()]])
        split(inc.Structure(4, {"{i j}": edges}), timeout=5.0)
    except inc.IncidenceError as error:
        _say(error)


def refusals() -> None:
    """Every process refuses what does not fit, and goes on with the same world."""
    structure = STRUCTURES["graph"]()
    rank, size = dist.get_rank(), dist.get_world_size()
    folder = os.environ["INCIDENCE_FOLDER"]

    def refused(message: str, run: Callable[[], object]) -> None:
        with pytest.raises(inc.IncidenceError, match=message):
            run()

    refused("of processes, from 0 to", lambda: split(structure, torch.full((24,), size)))
    refused("process 1: ", lambda: split(structure, torch.zeros(24 + rank, dtype=torch.long)))
    refused("parts= must be the same", lambda: split(structure, torch.full((24,), rank)))
    refused(r"is missing", lambda: inc.distributed.load(folder))
    refused("number of processes", lambda: run_blocks(lambda world: None, blocks=size - 1))
    index = {"{i j}": torch.tensor([[0], [9 * rank]])}
    refused("process 0: ", lambda: inc.distributed.assemble(5, index))
    version = inc.__version__
    inc.__version__ = f"{version}+{rank}"
    refused("different versions of incidence", lambda: split(structure))
    inc.__version__ = version
    layer = inc.nn.Linear("i, {i j} -> i", 1, 1)
    part = split(inc.Structure(1, {"{i j}": torch.zeros(2, 0).long()}))  # the others hold nothing
    x = {key: torch.ones(part.num_entries(key), 1) for key in ("i", "{i j}")}
    layer(x, part).sum().backward()
    inc.distributed.sum_gradients(layer)
    print("done")


def bytes_sent() -> None:
    """The plan says what is sent."""
    world = as_world(None)
    assert isinstance(world, TorchWorld)
    structure = STRUCTURES["graph"]()
    part = split(structure)
    layer = inc.nn.Linear("i, (i j) -> (i j)", 3, 5)
    plan = layer.plan(part)
    xs = {key: torch.ones(len(rows(part, key)), 3, requires_grad=True) for key in ("i", "(i j)")}
    before = world.sent
    layer(xs, part).sum().backward()
    assert world.sent - before == plan.bytes_sent > 0
