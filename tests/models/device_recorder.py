"""What a GPU would mind: tensors made without a device, and steps that wait for the device.

Run as a script, it prints both for all presets, as JSON: `python -m tests.models.device_recorder`.
It runs without the compiled networks, which are for CPUs alone.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import incidence as inc
from incidence.data.lifts import lift_all
from incidence.models import PRESETS, Predictor, make
from incidence.nn import norms

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


def batches() -> Iterator[tuple[str, inc.Example, Predictor]]:
    """Yield each preset that reads graphs, with a batch for it."""
    structure = inc.Structure(6, {"{i j}": [[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 5, 2]]})
    features = {"i": torch.randn(6, 3), "{i j}": torch.randn(6, 2)}
    for name, preset in PRESETS.items():
        lift = "none" if preset.lift == "space" else preset.lift
        [lifted] = lift_all([inc.Example(structure, features)], lift)
        read = [key for key in lifted.features if preset.inputs is None or key in preset.inputs]
        channels = {key: lifted.features[key].shape[1] for key in read}
        try:
            net = make(name, channels, 2)
            batch = inc.collate([lifted, lifted])
            net(batch)
        except inc.IncidenceError:  # for data of another kind
            continue
        yield name, batch, Predictor(net, "classification")


def step(predictor: Predictor, batch: inc.Example) -> None:
    """Do a training step."""
    optimizer = torch.optim.AdamW(predictor.parameters())
    loss = torch.nn.functional.cross_entropy(
        predictor(batch.features, batch.structure),
        torch.zeros(batch.num_structures, dtype=torch.long, device=batch.structure.device),
    )
    loss.backward()
    optimizer.step()


def record() -> dict[str, Any]:
    """Return what was recorded, by preset."""
    norms._can_ask = lambda x: False  # on a CPU, norms look at values
    made: dict[str, list[str]] = {}
    waits: dict[str, list[str]] = {}
    for name, batch, predictor in batches():
        fresh = inc.collate([batch[k] for k in range(batch.num_structures)])
        with Factories() as factories:
            step(predictor, fresh)
        with Reads() as reads, Waits() as steps:
            step(predictor, fresh)
        made[name] = sorted(filter(None, factories.places))
        waits[name] = sorted(filter(None, reads.places | steps.places))
    made["layers and loaders"] = layers_and_loaders()
    return {"made": made, "waits": waits}


def layers_and_loaders() -> list[str]:
    """Return where a loader, layers, a product and a softmax make tensors without a device."""
    index = {"{i j}": [[0, 1, 2], [1, 2, 3]], "(i j)": [[0, 1], [1, 0]]}
    examples = [
        inc.Example(inc.Structure(5, index), {"i": torch.randn(5, 2), "{i j}": torch.randn(3, 2)})
        for _ in range(4)
    ]
    layer = inc.nn.Linear("i -> {i j}, i, ", 2, 3)  # weights are made as those of torch are
    others = inc.nn.BatchNorm("i", 3), inc.nn.LayerNorm("i", 3), inc.nn.Readout("i", "sum")
    with Factories() as factories:
        [batch] = inc.data.DataLoader(examples, batch_size=4)
        x, edges, structure = batch.features["i"], batch.features["{i j}"], batch.structure
        ys = layer(x, structure)
        inc.einsum("i, {i j} -> j", x, edges, structure)
        inc.softmax(edges, "{i j}", over="i j", structure=structure)
        for other in others:
            other(ys["i"], structure)
    return sorted(filter(None, factories.places))


if __name__ == "__main__":
    json.dump(record(), sys.stdout)
