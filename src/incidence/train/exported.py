"""`ExportedGraph`: a network in a file for other programs; `incidence.train.export` writes it."""

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
from incidence.train.model_spec import ModelSpec, in_one_line

__all__ = ["ABOUT", "SUFFIXES", "ExportedGraph", "features_of", "load_exported", "runner"]

ABOUT = "incidence"
"""The name under which a file has the description of its model."""
SUFFIXES = (".onnx", ".pt2")
Run = Callable[[Mapping[str, NDArray[Any]]], Tensor]


def features_of(net: IncidenceNet) -> dict[str, str]:
    """Return the name of the features of every tensor among the inputs of an exported graph."""
    return {key_of(pattern): f"features_{number}" for number, pattern in enumerate(net.map.inputs)}


@dataclass(frozen=True)
class ExportedGraph:
    """A network in an ONNX file or a program of `torch.export`.

    Attributes:
        path: The file.
        spec: What the model is, what it predicts, and how files are read for it.
        network: The network, which makes the lists that the graph needs; without weights if the
            graph has them.
        run: Takes all inputs by name; returns numbers in their units, or probabilities of classes,
            (rows, columns). None if the network itself predicts.
    """

    path: Path
    spec: ModelSpec
    network: Predictor
    run: Run | None = None

    @property
    def has_joins(self) -> bool:
        """Whether it makes arrays of joined rows, which may be many more than entries."""
        return self.run is not None and any(
            isinstance(module, (Product, Multilinear)) for module in self.network.modules()
        )

    def inputs(
        self, features: Mapping[str, Tensor], structure: Structure
    ) -> dict[str, NDArray[Any]]:
        """Return all inputs by name, as arrays."""
        net = self.network.net
        xs = (x.float() for x in net.select(features))
        tensors = dict(zip(features_of(net).values(), xs, strict=True))
        tensors |= plain_inputs(self.network, structure).tensors
        return {
            name: np.ascontiguousarray(tensor.detach().cpu().numpy())
            for name, tensor in tensors.items()
        }

    def predict(self, features: Mapping[str, Tensor], structure: Structure) -> Tensor:
        """Return numbers in their units, or probabilities of classes."""
        if self.run is None:
            return self.network.predict(features, structure)
        return self.run(self.inputs(features, structure))


def load_exported(path: Path) -> ExportedGraph:
    """Load an exported network.

    The ONNX runtime runs a graph of ONNX. A program of `torch.export` is not run, as reading one
    would execute whatever its author has put into it. The network is made of its description and
    its weights, which are plain numbers.

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
    except Exception as error:  # a damaged file makes libraries raise anything
        raise IncidenceError(
            f"{path} is no model that `incidence export` wrote, or it is damaged:"
            f" {in_one_line(error)}."
        ) from error


def _spec(about: str | bytes, path: Path) -> ModelSpec:
    description = parse_json(about, str(path), "description of a model")
    return ModelSpec.from_json(json.dumps(description["model"]), str(path))


def runner(content: bytes, suffix: str) -> Run:
    """Return what runs a graph that was exported just now, for comparison."""
    return _onnx_runner(content)[1] if suffix == ".onnx" else _torch_runner(content)


def _rebuilt(path: Path) -> ExportedGraph:
    """Return the network of a program of `torch.export`; only plain values of it are read."""
    with zipfile.ZipFile(path) as archive:
        assert_unzipped(archive, path)
        # all members are below one folder
        parts = {name.partition("/")[2]: name for name in archive.namelist()}
        spec = _spec(read_text(archive, parts[f"extra/{ABOUT}.json"], path), path)
        listed = parse_json(
            read_text(archive, parts["data/weights/model_weights_config.json"], path), str(path)
        )["config"]
        described = {name.removeprefix("predictor."): about for name, about in listed.items()}
        _assert_shapes(described, spec.outline(), path)
        state = {name: _weight(about, archive, parts) for name, about in described.items()}
    return ExportedGraph(path, spec, spec.with_weights(state, str(path), str(path)))


def _assert_shapes(
    described: Mapping[str, Mapping[str, Any]], outline: Predictor, path: Path
) -> None:
    """Check the shapes of weights, and their size in all, before memory is allocated.

    Several weights may be parts of one member of the archive, whose size does not limit theirs.

    Raises:
        IncidenceError: A weight has another shape than in the network, or all are too large.
    """
    shapes = {name: list(weight.shape) for name, weight in outline.state_dict().items()}
    for name, about in described.items():
        sizes = _sizes(about, "sizes")
        if sizes != shapes.get(name):
            expected = "unknown to the network"
            if name in shapes:
                expected = f"{shown(shapes[name])} in the network"
            raise IncidenceError(
                f"{path} is damaged: the weight {shown(name)} has the shape {shown(sizes)}, and is"
                f" {expected}."
            )
    size = sum(8 * prod(shape) for shape in shapes.values())
    if size > path.stat().st_size:
        assert_size(size, f"{path}, unpacked,")


def _sizes(about: Mapping[str, Any], key: str) -> list[int]:
    return [int(one["as_int"]) for one in about["tensor_meta"][key]]


_DTYPES: dict[int, Any] = {5: np.int64, 7: np.float32}
"""The types by the numbers that `torch.export` gives them."""


def _weight(about: Mapping[str, Any], archive: zipfile.ZipFile, parts: Mapping[str, str]) -> Tensor:
    """Return one weight, as it is described."""
    sizes, strides = _sizes(about, "sizes"), _sizes(about, "strides")
    start = int(about["tensor_meta"]["storage_offset"]["as_int"])
    content = archive.read(parts[f"data/weights/{about['path_name']}"])
    numbers = np.frombuffer(content, _DTYPES[about["tensor_meta"]["dtype"]])
    last = start + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if (
        about["use_pickle"]
        or min([start, *sizes, *strides]) < 0
        or max(last, prod(sizes) - 1) >= len(numbers)
    ):
        raise ValueError(f"the weight {about['path_name']!r} is not as it is described")
    return torch.from_numpy(numbers.copy()).as_strided(sizes, strides, start).clone()


def _assert_whole(content: bytes, path: Path) -> None:
    """Refuse a graph with numbers in other files: its runtime would open any file."""
    onnx = need("onnx", "reading an ONNX file", "export")
    for part in _messages(onnx.ModelProto.FromString(content)):
        if isinstance(part, onnx.TensorProto) and (
            part.external_data or part.data_location == onnx.TensorProto.EXTERNAL
        ):
            raise IncidenceError(
                f"{path} has numbers in other files, which are not read: what `incidence export`"
                " writes is one file."
            )


def _messages(message: Any) -> Iterator[Any]:
    """Yield a message of protobuf, and all messages in it."""
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
    options.log_severity_level = 3  # without notes on what it optimises
    # without a fallback, which would print a warning
    session = runtime.InferenceSession(
        content, options, providers=["CPUExecutionProvider"], enable_fallback=0
    )
    names = [each.name for each in session.get_inputs()]

    def run(inputs: Mapping[str, NDArray[Any]]) -> Tensor:
        return torch.from_numpy(session.run(None, {name: inputs[name] for name in names})[0])

    return session.get_modelmeta().custom_metadata_map[ABOUT], run


def _torch_runner(content: bytes) -> Run:
    """Return what runs a program of `torch.export`.

    Reading it executes what is in it, so it must be one that was exported just now.
    """
    extra = {f"{ABOUT}.json": ""}
    module = torch.export.load(BytesIO(content), extra_files=extra).module()
    names = list(json.loads(extra[f"{ABOUT}.json"])["inputs"])

    def run(inputs: Mapping[str, NDArray[Any]]) -> Tensor:
        with torch.no_grad():
            y: Tensor = module(*(torch.from_numpy(inputs[name]) for name in names))
        return y

    return run
