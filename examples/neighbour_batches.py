"""Train on one graph of a million edges, all at once or in batches of nodes with their neighbours.
Print the peak of memory.

    python examples/neighbour_batches.py whole [edges]
    python examples/neighbour_batches.py neighbours [edges]

Nodes lie on a ring, edges are short, and the label of a node is which half of the sines around it
is larger: no node knows it alone. With `edges`, edges have hidden features too.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator

import torch
from torch.nn.functional import cross_entropy

import incidence as inc

NODES, EDGES, WIDTH, TRAIN = 200_000, 1_000_000, 16, 20_000


def ring_of_sines() -> inc.Example:
    """Return a graph with noisy features of nodes, and labels of nodes."""
    generator = torch.Generator().manual_seed(0)
    tail = torch.randint(NODES, (2 * EDGES,), generator=generator)
    head = (tail + torch.randint(1, 30, (2 * EDGES,), generator=generator)) % NODES
    pairs = torch.stack([torch.minimum(tail, head), torch.maximum(tail, head)]).unique(dim=1)
    edges = pairs[:, torch.randperm(pairs.shape[1], generator=generator)[:EDGES].sort().values]
    wave = torch.sin(torch.arange(NODES) * (2 * torch.pi / 500))
    x = torch.randn(NODES, WIDTH, generator=generator)
    x[:, 0] += wave
    return inc.Example(
        inc.Structure(NODES, {"{i j}": edges}),
        {"i": x, "{i j}": torch.ones(EDGES, 1)},
        {"i": (wave > 0).long()},
    )


def batches(
    example: inc.Example, train: torch.Tensor, way: str
) -> Iterator[tuple[inc.Example, torch.Tensor]]:
    """Yield the batch of every step, and the rows that count."""
    if way == "whole":
        yield example, train
    else:
        for batch in inc.data.NeighbourLoader(
            example, sizes=[10, 10], batch_size=512, shuffle=True, nodes=train
        ):
            yield batch, batch.seeds


def main(way: str, through: str | None = None) -> None:
    """Train, then measure on unseen nodes, again by batches."""
    torch.manual_seed(0)
    example = ring_of_sines()
    order = torch.randperm(NODES)
    train, test = order[:TRAIN], order[TRAIN : TRAIN + 5000]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    net = inc.models.make("nodes", {"i": WIDTH, "{i j}": 1}, 2, at="i", depth=2, through=through)
    optimizer, begun, steps = torch.optim.Adam(net.parameters(), lr=3e-3), time.monotonic(), 0
    for _ in range(4 if way == "whole" else 1):
        for batch, rows in batches(example, train, way):
            loss = cross_entropy(net(batch)[rows], batch.target["i"][rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
    seconds, peak = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    net.eval()
    with torch.no_grad():
        near = inc.data.NeighbourLoader(
            example, [None] * (net.reach or 0), batch_size=500, nodes=test
        )
        right = [net(b)[b.seeds].argmax(1) == b.target["i"][b.seeds] for b in near]
    print(
        f"{way}: {steps} steps of {1000 * seconds / steps:.0f} ms; memory {before >> 10} MB before,"
        f" {(peak - before) >> 10} MB more"
    )
    print(
        f"accuracy on {len(test)} other nodes, with all their neighbours:"
        f" {100 * float(torch.cat(right).float().mean()):.1f} %"
    )


if __name__ == "__main__":
    if sys.argv[1:2] not in (["whole"], ["neighbours"]) or sys.argv[2:] not in ([], ["edges"]):
        sys.exit("usage: python examples/neighbour_batches.py whole|neighbours [edges]")
    main(sys.argv[1], "i, {i j}" if sys.argv[2:] else None)
