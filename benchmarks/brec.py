"""BREC by the protocol of its authors (Wang and Zhang, 2024): a network is trained for each pair,
and a statistical test decides.

For every pair of graphs there are 32 relabelled copies of each. A network with 16 outputs is
trained to make the outputs of the two point in opposite directions: cosine loss, Adam, rate 1e-4 (a
tenth of it after 10 epochs without a lower loss), at most 20 epochs, batches of 16 graphs, until
the mean loss is below 0.2. Then T^2 is Hotelling's statistic of the differences of outputs. A pair
is told apart if T^2 exceeds 72.34, and it counts only if the same statistic for 32 relabelled
copies of *one* of its graphs, against 32 others, does not: the check of reliability. (The authors
count pairs that fail this check apart.)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import incidence as inc
from benchmarks.separate import Contestant, batch_of, relabelled
from benchmarks.sets import load

_COPIES, _OUTPUTS, _THRESHOLD = 32, 16, 72.34
_EPOCHS, _BATCH, _RATE, _DECAY, _ENOUGH = 20, 16, 1e-4, 1e-4, 0.2


def copies(one: inc.Example, other: inc.Example, generator: torch.Generator) -> list[inc.Example]:
    """Relabelled copies of two graphs in turns, 32 of each."""
    return [relabelled(e, generator) for _ in range(_COPIES) for e in (one, other)]


def t_squared(y: Tensor) -> float:
    """Hotelling's statistic of the differences of even and odd rows, as the authors compute it;
    shape of y (64, 16).
    """
    differences = (y[0::2] - y[1::2]).double()
    mean = differences.mean(0)
    return float(mean @ torch.linalg.pinv(torch.cov(differences.T)) @ mean)


def trained(
    contestant: Contestant, examples: Sequence[inc.Example], seed: int
) -> inc.models.IncidenceNet:
    """A network for one pair, whose copies come in turns."""
    torch.manual_seed(seed)
    batches = [batch_of(examples[k : k + _BATCH]) for k in range(0, len(examples), _BATCH)]
    net = contestant.network(batches[0], _OUTPUTS).train()
    optimizer = torch.optim.Adam(net.parameters(), _RATE, weight_decay=_DECAY)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    for _ in range(_EPOCHS):
        total = 0.0
        for batch in batches:
            y = net(batch)
            loss = torch.nn.functional.cosine_embedding_loss(
                y[0::2], y[1::2], -torch.ones(len(y) // 2)
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) / len(batches)
        if total < _ENOUGH:
            break
        scheduler.step(total)
    return net.eval()


def judge(contestant: Contestant, pair: Sequence[inc.Example], seed: int) -> tuple[float, float]:
    """The statistic of a pair, and that of one of its graphs against itself, by a network trained
    for the pair.
    """
    generator = torch.Generator().manual_seed(seed)
    both = contestant.lifted(copies(pair[0], pair[1], generator))
    alone = contestant.lifted(copies(pair[0], pair[0], generator))
    net = trained(contestant, both, seed)
    with torch.no_grad():
        found, control = (
            t_squared(torch.cat([net(batch_of(part)) for part in (own[:32], own[32:])]))
            for own in (both, alone)
        )
    return found, control


def separate_by_training(
    folder: Path | None,
    contestants: Mapping[str, tuple[str, Contestant]],
    most_nodes: int,
    every: int = 1,
    seed: int = 2023,
) -> dict[str, Any]:
    """How many pairs of some groups are told apart by training.

    Args:
        folder: The data.
        contestants: The name, and the network and its lifts, for each group.
        most_nodes: Pairs with more are not run, and count as not told apart.
        every: Every so many pairs are run.
        seed: Of weights and copies.
    """
    found: dict[str, dict[str, Any]] = {}
    start = time.process_time()
    for group, (name, contestant) in contestants.items():
        examples = load("brec", folder=folder, group=group).examples
        pairs = [examples[k : k + 2] for k in range(0, len(examples), 2 * every)]
        run = [pair for pair in pairs if pair[0].structure.total_nodes <= most_nodes]
        judged = [judge(contestant, pair, seed) for pair in run]
        unreliable = sum(control > _THRESHOLD for _, control in judged)
        apart = sum(
            statistic > _THRESHOLD and control <= _THRESHOLD for statistic, control in judged
        )
        found[group] = {
            "network": name,
            "apart": apart,
            "unreliable": unreliable,
            "run": len(run),
            "pairs": len(examples) // 2,
        }
        print(
            f"  {group}: {found[group]}, {time.process_time() - start:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    return {"apart": sum(group["apart"] for group in found.values()), "groups": found}
