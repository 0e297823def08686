"""Small data to train on, and processes that are killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence

import torch

import incidence as inc
from incidence.errors import IncidenceError
from incidence.train.evaluation import Score, Scored


def graphs(count: int, is_classes: bool = False) -> list[inc.Example]:
    """Cycles with a few chords; the target is how many edges there are, or whether there
    are many.
    """
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(count):
        n = int(torch.randint(5, 9, (1,), generator=generator))
        ring = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
        chords = (
            torch.tensor([[0], [2]])
            if torch.rand(1, generator=generator) < 0.5
            else torch.zeros(2, 0, dtype=torch.long)
        )
        edges = torch.cat([ring, chords], 1)
        target = (
            torch.tensor(int(edges.shape[1] > 7))
            if is_classes
            else torch.tensor([float(edges.shape[1])])
        )
        features = {
            "i": torch.randn(n, 3, generator=generator),
            "{i j}": torch.ones(edges.shape[1], 1),
        }
        found.append(inc.Example(inc.Structure(n, {"{i j}": edges}), features, target).canonical())
    return found


def as_scored(
    predicted: torch.Tensor,
    target: torch.Tensor,
    metrics: Mapping[str, float],
    baseline: Mapping[str, float],
    places: Sequence[tuple[int, int]],
    by_target: Mapping[str, tuple[dict[str, float], dict[str, float]]] | None = None,
) -> Scored:
    """Predictions of a part with given metrics."""
    each = {name: Score(*both) for name, both in (by_target or {}).items()}
    score = Score(dict(metrics), dict(baseline))
    return Scored(predicted, target, score, list(places), each)


def in_child(work: Callable[[], object]) -> int:
    """Runs something in a process of its own; gives what it ended with: 0, 2 for a refusal, or
    minus the signal that killed it.
    """
    return ended(started(work))


def started(work: Callable[[], object]) -> int:
    """A new process that does the work; its number."""
    child = os.fork()
    if not child:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            work()
            os._exit(0)
        except IncidenceError:
            os._exit(2)
        except BaseException:
            os._exit(1)
    return child


def ended(child: int) -> int:
    """What a process ended with."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die() -> None:
    """What `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)
