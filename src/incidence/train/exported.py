"""`ExportedGraph`: a network in a file for other programs, with what it reads and predicts; made by `incidence.train.export`."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from incidence.errors import IncidenceError, need, shown
from incidence.files import regular_file
from incidence.limits import assert_size, assert_unzipped, parse_json, read_text
from incidence.models import IncidenceNet, Predictor
from incidence.nn import Multilinear, Product
from incidence.nn.plain import plain_inputs
from incidence.nn.tensors import key_of
from incidence.structure import Structure
from incidence.train.folder import ModelSpec, short

__all__ = ["ABOUT", "SUFFIXES", "ExportedGraph", "features_of", "load_exported", "runner"]

ABOUT = "incidence"
"""Under which name a file has the description of its model."""
SUFFIXES = (".onnx", ".pt2")
Run = Callable[[Mapping[str, NDArray[Any]]], Tensor]


def features_of(net: IncidenceNet) -> dict[str, str]:
    """For every tensor that a network reads, the name of its features among the inputs of what is exported."""
    return {key_of(pattern): f"features_{number}" for number, pattern in enumerate(net.map.inputs)}


@dataclass(frozen=True)
class ExportedGraph:
    """A network in an ONNX file or a program of `torch.export`.

    Attributes:
        path: The file.
        spec: What the model is, what it predicts, and how files are read for it.
        network: The network, which tells the lists that the graph needs; without weights, if the graph has them.
        run: Takes all inputs by name; gives numbers in their units, or probabilities of classes, shape (rows, numbers or classes). None
            where the network itself predicts.
    """

    path: Path
    spec: ModelSpec
    network: Predictor
    run: Run | None = None

    @property
    def has_joins(self) -> bool:
        """Whether it makes arrays of joined rows, of which there may be many more than entries."""
        return self.run is not None and any(
            isinstance(module, (Product, Multilinear)) for module in self.network.modules()
        )

    def inputs(
        self, features: Mapping[str, Tensor], structure: Structure
    ) -> dict[str, NDArray[Any]]:
        """All inputs by name, as arrays."""
        net = self.network.net
        xs = dict(
            zip(features_of(net).values(), (x.float() for x in net.select(features)), strict=True)
        )
        tensors = {**xs, **plain_inputs(self.network, structure).tensors}
        return {
            name: np.ascontiguousarray(tensor.detach().cpu().numpy())
            for name, tensor in tensors.items()
        }

    def predict(self, features: Mapping[str, Tensor], structure: Structure) -> Tensor:
        """Numbers in their units, or probabilities of classes."""
        return (
            self.network.predict(features, structure)
            if self.run is None
            else self.run(self.inputs(features, structure))
        )


def load_exported(path: Path) -> ExportedGraph:
    """A network that was exported.

    A graph of ONNX is run by its runtime. A program of `torch.export` is not, as reading one would execute what its author has put into
    it: the network is made anew of its description and its weights, which are plain numbers.

    Raises:
        IncidenceError: It is no file that `incidence export` wrote, or it is damaged.
    """
    regular_file(path, "a model that `incidence export` wrote")
    try:
        if path.suffix == ".pt2":
            return _rebuilt(path)
        content = path.read_bytes()
        _assert_whole(content, path)
        about, run = _onnx_runner(content)
        spec = _spec(about, path)
        return ExportedGraph(path, spec, spec.outline().eval(), run)
    except IncidenceError:
        raise
    except OSError as error:
        raise IncidenceError(f"{path} cannot be read: {error}.") from error
    except Exception as error:  # of libraries that read what may be anything
        raise IncidenceError(
            f"{path} is no model that `incidence export` wrote, or it is damaged: {short(error)}."
        ) from error


def _spec(about: str | bytes, path: Path) -> ModelSpec:
    told = parse_json(about, str(path), "description of a model")
    return ModelSpec.from_json(json.dumps(told["model"]), str(path))


def runner(content: bytes, suffix: str) -> Run:
    """What runs a graph that was made here, for comparison."""
    return _onnx_runner(content)[1] if suffix == ".onnx" else _torch_runner(content)


def _rebuilt(path: Path) -> ExportedGraph:
    """The network of a program of `torch.export`, of which only texts and plain numbers are read."""
    with zipfile.ZipFile(path) as archive:
        assert_unzipped(archive, path)
        parts = {
            name.partition("/")[2]: name for name in archive.namelist()
        }  # all below one folder
        spec = _spec(read_text(archive, parts[f"extra/{ABOUT}.json"], path), path)
        listed = parse_json(
            read_text(archive, parts["data/weights/model_weights_config.json"], path), str(path)
        )["config"]
        described = {name.removeprefix("predictor."): told for name, told in listed.items()}
        _assert_shapes(described, spec.outline(), path)
        state = {name: _weight(told, archive, parts) for name, told in described.items()}
    return ExportedGraph(path, spec, spec.with_weights(state, str(path), str(path)))


def _assert_shapes(
    described: Mapping[str, Mapping[str, Any]], outline: Predictor, path: Path
) -> None:
    """Refuses weights of other shapes than those of the network, before there is memory for any; and more than is allowed in all.

    Several may be parts of one member of the archive: how many they are together, its size does not tell.
    """
    wanted = {name: list(weight.shape) for name, weight in outline.state_dict().items()}
    for name, told in described.items():
        if name not in wanted or _sizes(told, "sizes") != wanted[name]:
            has = (
                f"{shown(wanted[name])} in the network"
                if name in wanted
                else "unknown to the network"
            )
            raise IncidenceError(
                f"{path} is damaged: the weight {shown(name)} has the shape {shown(_sizes(told, 'sizes'))}, and is {has}."
            )
    size = sum(8 * prod(shape) for shape in wanted.values())
    if size > path.stat().st_size:
        assert_size(size, f"{path}, unpacked,")


def _sizes(told: Mapping[str, Any], key: str) -> list[int]:
    return [int(one["as_int"]) for one in told["tensor_meta"][key]]


_DTYPES: dict[int, Any] = {5: np.int64, 7: np.float32}
"""By the numbers that `torch.export` gives to types."""


def _weight(told: Mapping[str, Any], archive: zipfile.ZipFile, parts: Mapping[str, str]) -> Tensor:
    """One weight, as it is described."""
    about, sizes, strides = told["tensor_meta"], _sizes(told, "sizes"), _sizes(told, "strides")
    start = int(about["storage_offset"]["as_int"])
    numbers = np.frombuffer(
        archive.read(parts[f"data/weights/{told['path_name']}"]), _DTYPES[about["dtype"]]
    )
    last = start + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if (
        told["use_pickle"]
        or min([start, *sizes, *strides]) < 0
        or max(last, prod(sizes) - 1) >= len(numbers)
    ):
        raise ValueError(f"the weight {told['path_name']!r} is not what it is said to be")
    return torch.from_numpy(numbers.copy()).as_strided(sizes, strides, start).clone()


def _assert_whole(content: bytes, path: Path) -> None:
    """Refuses a graph with numbers in other files, which its runtime would open, wherever they are."""
    onnx = need("onnx", "reading an ONNX file", "export")
    for part in _messages(onnx.ModelProto.FromString(content)):
        if isinstance(part, onnx.TensorProto) and (
            part.external_data or part.data_location == onnx.TensorProto.EXTERNAL
        ):
            raise IncidenceError(
                f"{path} has numbers in other files, which are not read: what `incidence export` writes is one file."
            )


def _messages(message: Any) -> Iterator[Any]:
    """A message of protobuf, and all those in it."""
    waiting = [message]
    while waiting:
        one = waiting.pop()
        yield one
        for field, value in one.ListFields():
            if field.message_type is not None:
                waiting += [value] if hasattr(value, "ListFields") else value


def _onnx_runner(content: bytes) -> tuple[str, Run]:
    runtime = need("onnxruntime", "running an ONNX file", "export")
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # what it optimises is of no use to the person who predicts
    session = runtime.InferenceSession(
        content, options, providers=["CPUExecutionProvider"], enable_fallback=0
    )  # there is no other
    names = [each.name for each in session.get_inputs()]

    def run(inputs: Mapping[str, NDArray[Any]]) -> Tensor:
        return torch.from_numpy(session.run(None, {name: inputs[name] for name in names})[0])

    return session.get_modelmeta().custom_metadata_map[ABOUT], run


def _torch_runner(content: bytes) -> Run:
    """What runs a program of `torch.export`; reading it executes what is in it, so it must be our own."""
    extra = {f"{ABOUT}.json": ""}
    module = torch.export.load(BytesIO(content), extra_files=extra).module()
    names = list(json.loads(extra[f"{ABOUT}.json"])["inputs"])

    def run(inputs: Mapping[str, NDArray[Any]]) -> Tensor:
        with torch.no_grad():
            found: Tensor = module(*(torch.from_numpy(inputs[name]) for name in names))
        return found

    return run
