"""With blocks, no bit depends on the number of processes."""

from __future__ import annotations

import hashlib
from copy import deepcopy
from typing import Any

import pytest
import torch

import incidence as inc
from incidence.distributed import gather, rows, run_blocks, split, sum_gradients
from incidence.structure.world import World
from tests.distributed.cases import STRUCTURES, features
from tests.distributed.processes import run_processes
from tests.distributed.thread_world import run_threads

_BLOCKS = 6


def _layer() -> inc.nn.Linear:
    torch.manual_seed(0)
    return inc.nn.Linear("i, (i j) -> i, (i j)", 2, 2, aggr={0: "mean", 1: "max"})


def _bits(processes: World | None, layer: inc.nn.Linear) -> set[str]:
    """The hashes of outputs, gradients and weights after two steps, of every block here."""
    structure = STRUCTURES["graph"]()
    xs = {key: x.float() for key, x in features(structure, layer.map.inputs).items()}

    def work(world: World) -> str:
        own, part = deepcopy(layer), split(structure, world=world)
        here = {key: x[rows(part, key)].requires_grad_() for key, x in xs.items()}
        for _ in range(2):
            own.zero_grad()
            y: Any = own(here, part)
            torch.stack([v.square().sum() for v in y.values()]).sum().backward()
            sum_gradients(own, world)
            with torch.no_grad():
                for p in own.parameters():
                    p -= 0.01 * p.grad
        kept = [gather(y[key], part, key) for key in ("i", "(i j)")]
        kept += [gather(here[key].grad, part, key) for key in ("i", "(i j)")]  # type: ignore[arg-type]
        kept += [p.detach() for p in own.parameters()]
        return hashlib.sha256(b"".join(v.numpy().tobytes() for v in kept)).hexdigest()

    return set(run_blocks(work, blocks=_BLOCKS, world=processes))


def print_bits() -> None:
    """What the processes of a test do."""
    from incidence.distributed.processes import as_world

    torch.set_num_threads(1)
    print(_bits(as_world(None), _layer()))


def test_the_bits_are_those_of_one_process_for_any_number_of_processes() -> None:
    layer = _layer()
    one = _bits(None, layer)
    assert len(one) == 1
    for size in (2, 3, 4, 6):
        assert run_threads(size, lambda world: _bits(world, layer)) == [one] * size


@pytest.mark.exhaustive
def test_the_bits_do_not_depend_on_the_number_of_real_processes() -> None:
    hashes = set()
    for size in (1, 2, 3, 4):
        hashes |= set(run_processes(size, "tests.distributed.test_blocks:print_bits"))
    assert len(hashes) == 1


def test_fewer_blocks_than_processes_are_refused() -> None:
    def work(world: World) -> None:
        with pytest.raises(inc.IncidenceError, match="from the number of processes, 2; got 1"):
            run_blocks(lambda _: None, blocks=1, world=world)

    run_threads(2, work)


def test_an_error_of_one_block_is_an_error_of_all() -> None:
    def work(world: World) -> None:
        if world.rank == 1:
            raise RuntimeError("no more")
        world.reduce(torch.zeros(1))

    with pytest.raises(RuntimeError, match="no more"):
        run_threads(3, work)
