"""Training steps as users write them: networks by name, beside those of PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.speed.bench import Bench, one_thread
from benchmarks.speed.stand_ins import molecules
from benchmarks.speed.timing import Figure, ratio
from incidence.data.lifts import lift_all
from incidence.errors import need
from incidence.models import Predictor, make, read_channels, settings_of
from incidence.structure import Example, collate, pack

__all__ = ["GINE", "Peer", "compiled", "graph_of", "hidden_for", "steps"]

_BATCH, _STEPS = 64, 20
# with what is added to the graphs before
_PRESETS = {"graph": "none", "rings": "rings", "matrix": "matrix"}
GINE = "GINE"
_BARS = {"GIN": 0.95, GINE: 1.0}
_EQUAL = "of as many parameters"

Forward = Callable[[list[int]], tuple[Tensor, Tensor]]
"""From the numbers of examples to outputs and targets."""


def steps(bench: Bench) -> list[Figure]:
    """Training steps on MUTAG (collate, forward, backward, AdamW) of presets as they are, beside
    PyG's GIN and GINE; on one thread.

    The peers have the number of layers, the dropout and the head of the preset `graph`, and its
    width, or as many parameters.
    """
    need("torch_geometric.nn", "the benchmark `steps`", "peers")
    torch.manual_seed(0)
    examples = molecules(bench)
    batches = [torch.randperm(len(examples))[:_BATCH].tolist() for _ in range(bench.size(_STEPS))]
    nets = {name: _net(lift_all(examples, lift), name) for name, lift in _PRESETS.items()}
    variants = {
        name: _ours(lift_all(examples, lift), nets[name], batches)
        for name, lift in _PRESETS.items()
    }
    settings = settings_of("graph", {})
    for peer in _BARS:
        graphs = [graph_of(example, peer == GINE) for example in examples]
        wide = hidden_for(graphs[0], settings, nets["graph"])
        variants[peer] = _theirs(graphs, settings, batches)
        variants[f"{peer} {_EQUAL}"] = _theirs(graphs, {**settings, "hidden": wide}, batches)
        bench.notes.append(f"{peer} {_EQUAL} as `graph` has width {wide}")
    with one_thread():
        # every batch once in each round
        times = bench.timer("a step", 3, calls=len(batches)).run(variants)
    figures = [_speed(times, name, peer) for name in _PRESETS for peer in _BARS]
    return figures + [_speed(times, "graph", f"{peer} {_EQUAL}") for peer in _BARS]


def compiled(bench: Bench) -> list[Figure]:
    """The same step of the preset `graph` with its network under `torch.compile`, over that
    without; compiling takes a minute.
    """
    torch.manual_seed(0)
    examples = molecules(bench)
    # of all sizes
    batches = [
        torch.randperm(len(examples))[: _BATCH - k].tolist() for k in range(bench.size(_STEPS))
    ]
    with one_thread():
        variants = {
            name: _ours(examples, _net(examples, "graph"), batches, name == "compiled")
            for name in ("eager", "compiled")
        }
        times = bench.timer("a step", 3, calls=len(batches)).run(variants)
    return [
        Figure(
            "a step of the preset `graph` under torch.compile over eager",
            ratio(times, "compiled", "eager"),
            bar=1.0,
        )
    ]


def _speed(times: dict[str, list[float]], name: str, peer: str) -> Figure:
    bar = _BARS.get(peer) if name == "graph" else None
    return Figure(
        f"steps a second of the preset `{name}` over those of {peer}",
        ratio(times, peer, name),
        bar=bar,
        is_least=True,
    )


def _net(examples: list[Example], name: str) -> Predictor:
    """A preset with all that it has by default."""
    widths = read_channels(name, {key: x.shape[1] for key, x in examples[0].features.items()})
    net = Predictor(make(name, widths, 2), "classification")
    first = collate(examples[:_BATCH])
    net.calibrate(first.features, first.structure)
    return net


def _ours(
    examples: list[Example],
    net: Predictor,
    batches: Sequence[list[int]],
    is_compiled: bool = False,
) -> Callable[[], None]:
    examples = pack(examples)
    inner = net.net
    if is_compiled:
        net.net = torch.compile(inner, fullgraph=True)  # type: ignore[assignment]

    def forward(numbers: list[int]) -> tuple[Tensor, Tensor]:
        chosen = collate([examples[k] for k in numbers])
        if is_compiled:
            inner.plan(chosen.structure)
        assert isinstance(chosen.target, Tensor)
        return net(chosen.features, chosen.structure), chosen.target

    return _step(net, forward, batches)


def _theirs(
    graphs: Sequence[Any], settings: dict[str, Any], batches: Sequence[list[int]]
) -> Callable[[], None]:
    """The same on graphs of PyG, with features of edges where the convolution has a use for
    them.
    """
    batch = import_module("torch_geometric.data").Batch
    net = Peer(graphs[0], settings)

    def forward(numbers: list[int]) -> tuple[Tensor, Tensor]:
        chosen = batch.from_data_list([graphs[k] for k in numbers])
        return net(chosen), chosen.y

    return _step(net, forward, batches)


def hidden_for(graph: Any, settings: dict[str, Any], net: nn.Module) -> int:
    """The width at which a peer has at least as many parameters as a network."""
    wanted, hidden = _num_parameters(net), int(settings["hidden"])
    while _num_parameters(Peer(graph, {**settings, "hidden": hidden})) < wanted:
        hidden += 1
    return hidden


def _num_parameters(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def graph_of(example: Example, has_edges: bool) -> Any:
    """A graph as users of PyG have it: every edge in both directions."""
    data = import_module("torch_geometric.data").Data
    edges, bonds = example.structure["{i j}"], example.features["{i j}"]
    both = {"edge_attr": torch.cat([bonds, bonds])} if has_edges else {}
    return data(
        x=example.features["i"],
        edge_index=torch.cat([edges, edges.flip(0)], dim=1),
        y=example.target,
        **both,
    )


class Peer(nn.Module):
    """GIN, or GINE where edges have features: as many convolutions as a preset has layers, its
    dropout, its readout and its head.

    Args:
        graph: One of the graphs.
        settings: Of the preset.
        num_out: The number of outputs.
    """

    def __init__(self, graph: Any, settings: dict[str, Any], num_out: int = 2) -> None:
        super().__init__()
        self.layers = import_module("torch_geometric.nn")
        hidden, dropout = settings["hidden"], settings["dropout"]
        width = None if graph.edge_attr is None else graph.edge_attr.shape[1]
        # The encoder of a preset has no dropout, its blocks have.
        shapes = [(graph.x.shape[1], 0.0), *[(hidden, dropout)] * settings["depth"]]
        self.convolutions = nn.ModuleList(
            self._convolution(own, hidden, p, width) for own, p in shapes
        )
        self.head = nn.Sequential(
            nn.BatchNorm1d(2 * hidden),
            nn.Linear(2 * hidden, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, num_out),
        )

    def _convolution(self, own: int, hidden: int, dropout: float, width: int | None) -> nn.Module:
        first = [nn.Linear(own, hidden), nn.BatchNorm1d(hidden), nn.ReLU()]
        inner = nn.Sequential(
            *first,
            nn.Linear(hidden, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            *[nn.Dropout(dropout)] * (dropout > 0),
        )
        made: nn.Module = (
            self.layers.GINConv(inner)
            if width is None
            else self.layers.GINEConv(inner, edge_dim=width)
        )
        return made

    def forward(self, data: Any) -> Tensor:
        """Scores of the classes, for each graph of a batch."""
        x, features = data.x, [] if data.edge_attr is None else [data.edge_attr]
        for convolution in self.convolutions:
            x = convolution(x, data.edge_index, *features)
        pooled = (
            self.layers.global_add_pool(x, data.batch),
            self.layers.global_mean_pool(x, data.batch),
        )
        scores: Tensor = self.head(torch.cat(pooled, 1))
        return scores


def _step(net: nn.Module, forward: Forward, batches: Sequence[list[int]]) -> Callable[[], None]:
    """One step of training after the other, over the batches again and again."""
    optimizer, turns = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True), cycle(batches)

    def step() -> None:
        y, target = forward(next(turns))
        loss = nn.functional.cross_entropy(y, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step
