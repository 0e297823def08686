"""What a GPU would mind: tensors made without a device, and steps that wait for the device.

Run as a script, it prints both for all presets, as JSON: `python -m tests.models.device_recorder`.
It runs without the compiled networks, which are for CPUs alone.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import incidence as inc
from incidence.models import PRESETS, Predictor, make, read_channels
from incidence.nn import norms
from incidence.train.steps import Training
from tests.models.small import for_preset
from tests.train.several_processes import labelled_nodes

FACTORIES = {
    *(torch.zeros, torch.ones, torch.empty, torch.full, torch.arange, torch.eye, torch.tensor),
    *(torch.rand, torch.randn, torch.randint, torch.randperm, torch.linspace, torch.from_numpy),
}
WAITS = {
    *("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::_unique2"),
    *("aten::unique_consecutive", "aten::bincount", "aten::repeat_interleave.Tensor"),
    *("aten::equal", "aten::unique_dim", "aten::is_nonzero"),
}
READS = {Tensor.tolist, Tensor.item, Tensor.numpy, Tensor.cpu, Tensor.__bool__, Tensor.nonzero}
READS |= {Tensor.__int__, Tensor.__float__, Tensor.__index__}


def place() -> str:
    """Return the innermost line of the library in the stack."""
    ours = [one for one in traceback.extract_stack() if "/src/incidence/" in one.filename]
    if not ours:
        return ""
    return f"{ours[-1].filename.split('/src/incidence/')[-1]}: {ours[-1].line}"


class Factories(TorchFunctionMode):
    """Records calls that make a tensor and name no device."""

    def __init__(self) -> None:
        super().__init__()
        self.places: set[str] = set()

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Note the place of a call without a device."""
        kwargs = kwargs or {}
        if function in FACTORIES and kwargs.get("device") is None:
            self.places.add(place())
        return function(*args, **kwargs)


class Reads(TorchFunctionMode):
    """Records calls that read values of a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.places: set[str] = set()

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Note the place of a call that reads."""
        if function in READS:
            self.places.add(place())
        return function(*args, **(kwargs or {}))


class Waits(TorchDispatchMode):
    """Records steps whose result has a size that depends on values, masks among them."""

    def __init__(self) -> None:
        super().__init__()
        self.places: set[str] = set()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Note the place of a step that waits."""
        name = function._schema.name
        full = f"{name}.{function._overloadname}"
        has_mask = name in ("aten::index", "aten::index_put_") and any(
            one is not None and one.dtype in (torch.bool, torch.uint8) for one in args[1]
        )
        knows_size = (kwargs or {}).get("output_size") is not None
        if (name in WAITS or full in WAITS or has_mask) and not knows_size:
            self.places.add(place())
        return function(*args, **(kwargs or {}))


# What a preset is called with, beside those that read graphs and have one output.
AT = {
    "completion": "query=u:user m:movie",
    "diffusion": "i",
    "hypergraph": "i",
    "nodes": "i",
    "relational": "u:user m:movie",
}
# Settings that make other modules than the presets do, of the preset `graph`.
SETTINGS: dict[str, dict[str, Any]] = {
    "every aggregation": {"aggr": ("sum", "mean", "max", "min", "std")},
    "layer norm": {"norm": "layer"},
    "no norm": {"norm": "none"},
    "jumping": {"jumping": "max"},
    "rows": {"scale": "rows", "in_dropout": 0.1},
    "local": {"operations": "local"},
    "neighbours": {"adjacent": True},
    "hops": {"hops": 2},
    "holes": {"harmonic": 2},
    "more overlap": {"max_overlap": 2},
}


def completion() -> inc.Example:
    """Ratings, known ones and queries, and their numbers."""
    known, query = [[0, 1, 1], [0, 0, 2]], [[2, 0], [1, 3]]
    index = {"known=u:user m:movie": known, "query=u:user m:movie": query}
    structure = inc.Structure({"user": 3, "movie": 4}, index)
    rows = {"u:user": 3, "m:movie": 4, "known=u:user m:movie": 3, "query=u:user m:movie": 2}
    return inc.Example(structure, {key: torch.randn(count, 2) for key, count in rows.items()})


def cases() -> Iterator[tuple[str, str, inc.Example, dict[str, Any]]]:
    """Yield a title, a preset, an example for it and settings: all presets, and more settings."""
    for name in PRESETS:
        example = for_preset("graph") if name in ("nodes", "diffusion") else None
        if name == "completion":
            example = completion()
        yield name, name, example or for_preset(name), {}
    for title, settings in SETTINGS.items():
        yield title, "graph", for_preset("graph"), settings


def batches() -> Iterator[tuple[str, inc.Example, Predictor]]:
    """Yield the title of each case, with a batch and a network for it."""
    for title, name, example, settings in cases():
        channels = {key: x.shape[1] for key, x in example.features.items()}
        net = make(name, read_channels(name, channels), 2, AT.get(name, ""), **settings)
        yield title, inc.collate([example, example]), Predictor(net.float(), "classification")


def step(predictor: Predictor, batch: inc.Example) -> None:
    """Do a training step."""
    optimizer = torch.optim.AdamW(predictor.parameters())
    scores = predictor(batch.features, batch.structure)
    classes = torch.zeros(len(scores), dtype=torch.long, device=scores.device)
    torch.nn.functional.cross_entropy(scores, classes).backward()
    optimizer.step()


def record() -> dict[str, Any]:
    """Return what was recorded, by case."""
    norms._can_ask = lambda x: False  # on a CPU, norms look at values
    made: dict[str, list[str]] = {}
    waits: dict[str, list[str]] = {}
    for name, batch, predictor in batches():
        predictor.calibrate(batch.features, batch.structure)
        fresh = inc.collate([batch[k] for k in range(batch.num_structures)])
        with Factories() as factories:
            step(predictor, fresh)
        with Reads() as reads, Waits() as steps:
            step(predictor, fresh)
        with Factories() as more, torch.no_grad():
            predictor.eval().predict(fresh.features, fresh.structure)
        made[name] = sorted(filter(None, factories.places | more.places))
        waits[name] = sorted(filter(None, reads.places | steps.places))
    made["layers and loaders"] = layers_and_loaders()
    made["training"], waits["training"] = training()
    return {"made": made, "waits": waits}


def training() -> tuple[list[str], list[str]]:
    """Return what the losses of `inc.train` make without a device, and where they wait.

    Waits count from the third epoch on.
    """
    made, waits = Factories(), [Reads(), Waits()]
    original = Training.batch_loss

    def recorded(module: Training, batch: inc.Example) -> Tensor:
        with ExitStack() as stack:
            stack.enter_context(made)
            if module.current_epoch > 1:
                for one in waits:
                    stack.enter_context(one)
            return original(module, batch)

    Training.batch_loss = recorded  # type: ignore[method-assign]
    for example, task in ((labelled_nodes("{i j}"), "classification"), (_rated(), "regression")):
        data = inc.data.load(example, task=task)
        with TemporaryDirectory() as folder:
            options = {"epochs": 4, "hidden": 4, "depth": 1, "out": f"{folder}/run"}
            inc.train.train(options, data, is_shown=False)
    places = {place for one in waits for place in one.places}
    return sorted(filter(None, made.places)), sorted(filter(None, places))


def _rated() -> inc.Example:
    """A graph with numbers of its nodes, one of which is missing."""
    example = labelled_nodes("{i j}")
    numbers = torch.arange(40.0)
    numbers[3] = torch.nan
    return example.replace(target={"i": numbers})


def layers_and_loaders() -> list[str]:
    """Return where loaders, layers, products and a softmax make tensors without a device.

    Layers are made outside: their weights are made as those of torch are, and moved with `to`.
    """
    edges = torch.tensor([[0, 1, 1, 2], [1, 2, 3, 3]])
    index = {"{i j}": edges, "<i j>": edges, "{i j k}": [[1], [2], [3]]}
    rows = {"i": 5, "{i j}": 4, "<i j>": 4, "": 1}
    features = {key: torch.randn(count, 3) for key, count in rows.items()}
    examples = [inc.Example(inc.Structure(5, index), features) for _ in range(4)]
    table = inc.Structure({"user": 2, "movie": 3}, {"u:user m:movie": [[0, 0, 1], [0, 2, 1]]})
    rated = inc.Example(table, {"u:user m:movie": torch.randn(3, 3)})
    layers = [
        (inc.nn.Linear("i -> {i j}, i, ", 3, 4), "i"),
        (inc.nn.MaskedLinear("{i j} -> {i j}", 3, 4), "{i j}"),
        (inc.nn.Product("i, {i j} -> j", 3, 4), "i", "{i j}"),
        (inc.nn.Multilinear("i, i -> i", 3, 4), "i"),
        (inc.nn.Attention("{i j}", "i j", 3, 4), "", "{i j}"),
        (inc.nn.Diffusion("i, {i j}"), "i", "{i j}"),
        (inc.nn.Neighbours("i, {i j}"), "i"),
        (inc.nn.Harmonic("<i j>"), "<i j>"),
        (inc.nn.HarmonicReadout("i, {i j}", 3, 2), "i", "{i j}"),
        (inc.nn.HarmonicTerm("i, {i j}", 3, 2), "i", "{i j}"),
        (inc.nn.BatchNorm("i, {i j}", 3), "i", "{i j}"),
        (inc.nn.LayerNorm("i, {i j}", 3), "i", "{i j}"),
        (inc.nn.BatchNorm("<i j>", 3), "<i j>"),
        (inc.nn.LayerNorm("<i j>", 3), "<i j>"),
        (inc.nn.Readout("i, {i j}", ["sum", "mean", "max", "min", "std"]), "i", "{i j}"),
        (inc.nn.Dropout(0.5), "i"),
    ]
    pairs = inc.nn.Exchangeable("u:user m:movie", 3, 4)
    with Factories() as factories:
        [batch] = inc.data.DataLoader(examples, batch_size=4)
        next(iter(inc.data.NeighbourLoader(examples[0], sizes=[2], batch_size=2)))
        for layer, *texts in layers:
            _forward_and_backward(layer, texts, batch)
        _forward_and_backward(pairs, ["u:user m:movie"], rated)
        x, on_edges, structure = batch.features["i"], batch.features["{i j}"], batch.structure
        inc.einsum("i, {i j} -> j", x, on_edges, structure)
        inc.softmax(on_edges, "{i j}", over="i j", structure=structure)
    return sorted(filter(None, factories.places))


def _forward_and_backward(layer: torch.nn.Module, texts: list[str], batch: inc.Example) -> None:
    """Call a layer with the features of some tensors, and compute gradients."""
    x = {text: batch.features[text].clone().requires_grad_() for text in texts}
    y = layer(x if len(x) > 1 else x[texts[0]], batch.structure)
    ys = y.values() if isinstance(y, dict) else [y]
    sum(value.square().sum() for value in ys).backward()


if __name__ == "__main__":
    json.dump(record(), sys.stdout)
