"""Structures and maps whose layers are computed on parts and on the whole."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

import incidence as inc
from incidence.distributed import gather, rows, split, sum_gradients
from incidence.structure.world import World

__all__ = ["MAPS", "NETWORKS", "STRUCTURES", "assert_equal_on_parts", "features", "outputs_of"]


def _edges(num_nodes: int, num_edges: int, seed: int) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    pairs = torch.randint(num_nodes, (2, 3 * num_edges), generator=draw)
    pairs = pairs[:, pairs[0] != pairs[1]].sort(dim=0)[0]
    edges = torch.unique(pairs, dim=1)
    return edges[:, torch.randperm(edges.shape[1], generator=draw)[:num_edges]]


def _graph(num_nodes: int = 24, num_edges: int = 40, seed: int = 0) -> inc.Structure:
    edges = _edges(num_nodes, num_edges, seed)
    both = torch.cat([edges, edges.flip(0)[:, ::2]], dim=1)  # some edges have a reverse
    loops = torch.arange(0, num_nodes, 5).repeat(2, 1)
    third = (edges.sum(0) * 7 + 1) % num_nodes
    triangles = torch.cat([edges, third[None]])[:, (edges != third).all(0)].sort(dim=0)[0]
    triangles = torch.unique(triangles, dim=1)
    index = {
        "{i j}": edges,
        "(i j)": both,
        "i j": torch.cat([both, loops], dim=1),
        "flow=<i j>": edges.flip(0),
        "{i j k}": triangles,
        "<i j k>": triangles[:, ::2],
        "(i j k)": triangles[[2, 0, 1]],
    }
    return inc.Structure(num_nodes, index)


def _hypergraph() -> inc.Structure:
    draw = torch.Generator().manual_seed(3)
    nodes = torch.randint(15, (60,), generator=draw)
    faces = torch.randint(20, (60,), generator=draw)
    members = torch.unique(torch.stack([faces, nodes]), dim=1).flip(0)
    by_face = [tuple(members[0, members[1] == k].tolist()) for k in range(20)]
    chosen = [k for k in range(20) if by_face[k] and by_face.index(by_face[k]) == k]
    pairs = [(node, k) for k, face in enumerate(chosen) for node in by_face[face]]
    return inc.Structure(15, {"{i ...}": torch.tensor(pairs).T})


def _sorts() -> inc.Structure:
    draw = torch.Generator().manual_seed(5)
    pairs = torch.unique(torch.randint(12, (2, 40), generator=draw), dim=1)
    tags = torch.stack([pairs[1], pairs[0] % 4]).unique(dim=1)
    counts = {"user": 12, "film": 12, "tag": 4}
    return inc.Structure(counts, {"u:user f:film": pairs, "f:film t:tag": tags})


def _batch() -> inc.Structure:
    return inc.collate([_graph(9, 12, 1), _graph(3, 2, 2), _graph(12, 16, 3)])


STRUCTURES: dict[str, Callable[[], inc.Structure]] = {
    "graph": _graph,
    "batch": _batch,
    "hypergraph": _hypergraph,
    "sorts": _sorts,
    "no entries": lambda: inc.Structure(2, {"{i j}": torch.zeros(2, 0, dtype=torch.long)}),
}

_ALL = ("sum", "mean", "max", "min", "std")
_SIGNED = ("sum", "mean")

MAPS: list[tuple[str, str, str]] = [
    (name, text, aggr)
    for name in ("graph", "batch")
    for text, aggrs in {
        "{i j} -> {i j}": _ALL,
        "i, (i j) -> i, (i j)": _ALL,
        "i j -> i j": _ALL,
        "i, {i j} -> i, {i j}, ": _ALL,
        ", i -> i, ": _ALL,
        "{i j k}, {i j} -> {i j}, i": _ALL,
        "(i j k) -> (i j k)": ("sum", "std"),
        "flow=<i j> -> flow=<i j>": _SIGNED,
        "i, flow=<i j>, <i j k> -> i, flow=<i j>, <i j k>": _SIGNED,
    }.items()
    for aggr in aggrs
]
MAPS += [("hypergraph", "i, {i ...} -> i, {i ...}", aggr) for aggr in _ALL]
MAPS += [("hypergraph", "{i ...} -> {i ...}, ", aggr) for aggr in _ALL]
MAPS += [
    ("sorts", "u:user f:film, f:film t:tag, t:tag -> u:user f:film, f:film", aggr) for aggr in _ALL
]
MAPS += [("no entries", "i, {i j} -> i, {i j}, ", aggr) for aggr in _ALL]


def features(structure: inc.Structure, patterns: Any, channels: int = 2) -> dict[str, Tensor]:
    """Features with a few equal values, so that extrema have ties."""
    draw = torch.Generator().manual_seed(7)
    drawn = {}
    for pattern in patterns:
        shape = structure.num_entries(pattern), channels
        x = torch.randn(shape, generator=draw, dtype=torch.float64)
        drawn[str(pattern)] = torch.where(x.abs() < 0.4, 0.5, x)
    return drawn


NETWORKS: dict[str, tuple[str, str, Callable[[], nn.Module]]] = {
    "BatchNorm": ("graph", "i j, {i j}", lambda: inc.nn.BatchNorm("i j, {i j}", 2)),
    "BatchNorm of flows": ("graph", "flow=<i j>", lambda: inc.nn.BatchNorm("flow=<i j>", 2)),
    "LayerNorm": ("graph", "i j, {i j}", lambda: inc.nn.LayerNorm("i j, {i j}", 2)),
    "Readout": ("batch", "i, i j", lambda: inc.nn.Readout("i, i j", ["sum", "mean", "max", "std"])),
    "Readout of flows": ("graph", "flow=<i j>", lambda: inc.nn.Readout("flow=<i j>", ["mean"])),
    "Diffusion": ("graph", "i, {i j}", lambda: inc.nn.Diffusion("i, {i j}", steps=3)),
    "Neighbours": ("graph", "i", lambda: inc.nn.Neighbours("i, {i j}, (i j)")),
    "Attention": ("graph", "i", lambda: inc.nn.Attention("(i j)", "j", 2, 4, heads=2)),
    "Attention of sorts": (
        "sorts",
        "u:user, f:film",
        lambda: inc.nn.Attention("u:user f:film", "f", 2, 4, heads=2),
    ),
}


def outputs_of(name: str, texts: list[str]) -> list[str]:
    """The tensors that a module gives, from those that it reads."""
    if "Norm" in name or name == "Diffusion":
        return texts
    return [""] if "Readout" in name else [texts[0]]


def _run(module: nn.Module, xs: dict[str, Tensor], structure: inc.Structure) -> tuple[Any, Any]:
    xs = {key: x.clone().requires_grad_() for key, x in xs.items()}
    ys = module(xs if len(xs) > 1 else next(iter(xs.values())), structure)
    return xs, ys if isinstance(ys, dict) else {None: ys}


def assert_equal_on_parts(
    module: nn.Module,
    xs: dict[str, Tensor],
    structure: inc.Structure,
    outputs: list[str],
    world: World,
    tolerance: float = 1e-10,
) -> None:
    """Compare values and all gradients on the part of this process with those on the whole."""
    whole, own = deepcopy(module), deepcopy(module)
    of_whole, wanted = _run(whole, xs, structure)
    draw = torch.Generator().manual_seed(9)
    weights = [torch.randn(y.shape, generator=draw, dtype=y.dtype) for y in wanted.values()]
    pairs = zip(weights, wanted.values(), strict=True)
    torch.stack([(weight * y).sum() for weight, y in pairs]).sum().backward()
    part = split(structure, world=world)
    of_part, ys = _run(own, {key: x[rows(part, key)] for key, x in xs.items()}, part)
    losses = []
    for text, weight, y in zip(outputs, weights, ys.values(), strict=True):
        copies = 1 if text else world.size  # values of whole structures are on all processes
        losses.append((weight[rows(part, text)] * y).sum() / copies)
    torch.stack(losses).sum().backward()
    sum_gradients(own, world)

    def assert_close(came: Tensor, expected: Tensor | None, what: str) -> None:
        assert expected is not None
        torch.testing.assert_close(
            came, expected.detach(), rtol=tolerance, atol=tolerance, msg=lambda m: f"{what}: {m}"
        )

    for text, y, expected in zip(outputs, ys.values(), wanted.values(), strict=True):
        assert_close(gather(y, part, text), expected, f"output `{text}`")
    for key, x in of_part.items():
        grad = torch.zeros_like(x) if x.grad is None else x.grad
        came = gather(grad, part, key) if key else world.reduce(grad)
        assert_close(came, of_whole[key].grad, f"gradient of `{key}`")
    for (name, p), q in zip(whole.named_parameters(), own.parameters(), strict=True):
        if p.grad is not None:
            assert q.grad is not None, name
            assert_close(q.grad, p.grad, f"gradient of {name}")
