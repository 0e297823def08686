"""Whole epochs with their loaders: beside PyTorch Geometric, and beside another version of this
library.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, cast

import torch
from torch import nn

from benchmarks.speed import epoch_worker
from benchmarks.speed.bench import ROOT, Bench, one_thread
from benchmarks.speed.stand_ins import random_molecules
from benchmarks.speed.steps import GINE, Peer, graph_of, hidden_for
from benchmarks.speed.timing import Figure, ratio
from incidence.data import DataLoader
from incidence.errors import IncidenceError, need
from incidence.models import Predictor, make, read_channels, settings_of
from incidence.structure import Example, collate

__all__ = ["epochs", "versions"]

_BATCH, _GRAPHS, _OF_VERSIONS = 64, 4000, 640
_BEFORE = {"rings": 1.5, "molecule": 1.3, "transformer": 1.5, "local-fgnn": 1.5, "graph": None}
"""Presets, and how many times as fast as before an epoch should be."""


def epochs(bench: Bench) -> list[Figure]:
    """An epoch of 4,000 molecules with its loader: the preset `graph` beside PyG's GIN and GINE of
    the same width, and a GINE of as many parameters; on one thread.
    """
    need("torch_geometric.nn", "the benchmark `epochs`", "peers")
    torch.manual_seed(0)
    examples = _molecules(bench, bench.size(_GRAPHS))
    widths = {key: x.shape[1] for key, x in examples[0].features.items()}
    net = Predictor(make("graph", read_channels("graph", widths), 1), "regression")
    first = collate(examples[:_BATCH])
    net.calibrate(first.features, first.structure)
    settings = settings_of("graph", {})
    variants = {"ours": _ours(net, examples)}
    wide = hidden_for(graph_of(examples[0], has_edges=True), settings, net)
    for name, has_edges, hidden in (
        ("GIN", False, settings["hidden"]),
        (GINE, True, settings["hidden"]),
        ("GINE, equal parameters", True, wide),
    ):
        graphs = [graph_of(example, has_edges) for example in examples]
        peer = Peer(graphs[0], {**settings, "hidden": hidden}, num_out=1)
        variants[name] = _theirs(peer, graphs)
    with one_thread():
        times = bench.timer("an epoch", 3).run(variants)
    bars = {"GIN": 0.95}
    return [
        Figure(
            f"epochs of {len(examples):,} graphs, preset `graph` over {name}",
            ratio(times, name, "ours"),
            bar=bars.get(name),
            is_least=True,
        )
        for name in list(variants)[1:]
    ]


def _molecules(bench: Bench, count: int) -> list[Example]:
    path = _zinc(bench)
    if path is not None:
        return epoch_worker.molecules(str(path), count)
    bench.notes.append("on random molecules: there is no zinc12k/zinc12k.npz in --folder")
    examples = random_molecules(count)
    return [Example(e.structure, e.features, torch.rand(())) for e in examples]


def _zinc(bench: Bench) -> Path | None:
    path = None if bench.folder is None else bench.folder / "zinc12k" / "zinc12k.npz"
    return path if path is not None and path.exists() else None


def _ours(net: Predictor, examples: list[Example]) -> Callable[[], None]:
    loader = DataLoader(examples, batch_size=_BATCH, shuffle=True)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)

    def epoch() -> None:
        for batch in loader:
            y = net(batch.features, batch.structure)
            _step(optimizer, nn.functional.l1_loss(y[:, 0], batch.target))

    return epoch


def _theirs(net: Peer, graphs: list[object]) -> Callable[[], None]:
    kind = import_module("torch_geometric.loader").DataLoader
    loader = kind(graphs, batch_size=_BATCH, shuffle=True)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)

    def epoch() -> None:
        for batch in loader:
            _step(optimizer, nn.functional.l1_loss(net(batch)[:, 0], batch.y))

    return epoch


def _step(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def versions(bench: Bench) -> list[Figure]:
    """Epochs of presets on ZINC beside another version of this library, whose source is in
    `--before FOLDER`; the versions take turns in processes of their own, on one thread.
    """
    path = _zinc(bench)
    if bench.before is None or path is None:
        bench.notes.append("not measured: needs --before SRC of another version, and ZINC-12k")
        return []
    sources = {"before": bench.before, "now": ROOT / "src"}
    figures = []
    for preset, bar in _BEFORE.items():
        bench.report(preset)
        words = [str(path), preset, str(bench.size(_OF_VERSIONS)), str(_BATCH)]
        with _worker(sources["before"], words) as before, _worker(sources["now"], words) as now:
            times = bench.timer(f"an epoch of {preset}", 3).run({"before": before, "now": now})
        name = f"epochs of `{preset}`: time of the version before over now"
        figures.append(Figure(name, ratio(times, "before", "now"), bar=bar, is_least=True))
    return figures


@contextmanager
def _worker(source: Path, words: list[str]) -> Iterator[Callable[[], None]]:
    """Start a process that trains for an epoch whenever the function is called.

    Raises:
        IncidenceError: The process ended.
    """
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, str(Path(epoch_worker.__file__)), *words]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        given, answers = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)

        def answer() -> None:
            if not answers.readline():
                raise IncidenceError(f"the version in {source} cannot train {words[1]!r}.")

        def epoch() -> None:
            given.write("\n")
            given.flush()
            answer()

        try:
            answer()
            yield epoch
        finally:
            given.close()
