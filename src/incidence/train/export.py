"""Networks for other programs: an ONNX file or a program of `torch.export`, written and read.

The outputs of a file are compared with those of the network before anything is written.
"""

from __future__ import annotations

import io
import json
import logging
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, need, shown
from incidence.files import regular_file
from incidence.limits import assert_size, assert_unzipped, parse_json, read_text
from incidence.models import IncidenceNet, Predictor
from incidence.nn import Multilinear, Product
from incidence.nn.plain import PlainInputs, plain_inputs, planned_structure, prepare_layers
from incidence.nn.tensors import key_of
from incidence.structure import Example, Structure, collate
from incidence.structure.data import StructureData
from incidence.testing import random_structure
from incidence.train.model_spec import ModelSpec, in_one_line
from incidence.train.run_folder import write

__all__ = [
    "ABOUT",
    "SUFFIXES",
    "TOLERANCE",
    "Exported",
    "ExportedGraph",
    "export",
    "features_of",
    "load_exported",
    "runner",
]

TOLERANCE = 1e-4
"""The largest difference of outputs, on the scale of the network."""
_FORMAT = 1
# numbers of structures in a batch and of nodes of each; the first batch is traced
_SIZES = ((3, 6), (1, 0), (1, 1), (1, 2), (2, 9), (5, 14))
_MOST_ENTRIES = 3000  # of a tensor in a random structure


@dataclass(frozen=True)
class Exported:
    """A file that was written.

    Attributes:
        path: The file.
        num_inputs: How many inputs it has.
        num_bytes: Its size.
        error: The largest difference of its outputs from those of the network.
        num_structures: The number of random structures that were compared.
    """

    path: Path
    num_inputs: int
    num_bytes: int
    error: float
    num_structures: int

    def __str__(self) -> str:
        size = f"{self.num_bytes / 1e3:.0f} kB"
        if self.num_bytes >= 1e5:
            size = f"{self.num_bytes / 1e6:.1f} MB"
        return (
            f"{self.path}: {size}, {self.num_inputs} inputs; on {self.num_structures} random"
            f" structures it differs from the network by at most {self.error:.1e}"
        )


def export(
    predictor: Predictor, spec: ModelSpec, path: Path, tolerance: float = TOLERANCE
) -> Exported:
    """Write a network for other programs, if it has the same outputs there.

    Args:
        predictor: The network with its scales.
        spec: What it is.
        path: A file that ends with `.onnx`, or with `.pt2` for a program of `torch.export`.
        tolerance: The largest difference of outputs, on the scale of the network; relative to
            outputs that are larger than 1.

    Raises:
        IncidenceError: The suffix is another, a part of the network cannot be exported, or a
            difference is larger. Nothing is written then.
    """
    if path.suffix not in SUFFIXES:
        raise IncidenceError(
            f"a model is exported to a file that ends with {' or '.join(SUFFIXES)}; got"
            f" {str(path)!r}."
        )
    if spec.is_completion:
        raise IncidenceError(
            "a model of ratings or links cannot be exported: it reads everything that it knows,"
            " which a file for other programs does not have."
        )
    if not tolerance > 0:
        raise IncidenceError(f"the tolerance is a number above 0; got {tolerance}.")
    if path.suffix == ".onnx":
        for name in ("onnx", "onnxscript", "onnxruntime"):
            need(name, "exporting to ONNX", "export")
    # without a path of this machine
    predictor, spec = predictor.cpu().float().eval(), replace(spec, data=Path(spec.data).name)
    tried = [_random_batch(predictor.net, spec, *size) for size in _SIZES]
    lists = plain_inputs(predictor, tried[0].structure)
    about = _about(predictor.net, spec, lists)
    program = _program(predictor, tried[0], lists)
    as_bytes = _onnx_bytes if path.suffix == ".onnx" else _torch_bytes
    content = as_bytes(program, about)
    model = ExportedGraph(path, spec, predictor, runner(content, path.suffix))
    differences = [_difference(predictor, model, batch) for batch in tried]
    error = float(torch.tensor(differences).max())  # NaN if one is NaN
    if not error <= tolerance:
        raise IncidenceError(
            f"{path} was not written: its outputs differ from those of the network by {error:.2g}"
            f" on random structures, and the tolerance is {tolerance:g}. Raise --tolerance if that"
            " is good enough."
        )
    write(path, content)
    return Exported(
        path, len(about["inputs"]), len(content), error, sum(count for count, _ in _SIZES)
    )


class _Plain(nn.Module):
    """A predictor that takes features and lists as arguments, one after the other."""

    def __init__(self, predictor: Predictor, lists: PlainInputs) -> None:
        super().__init__()
        self.predictor, self.parts = predictor, lists.parts
        self.features = features_of(predictor.net)
        self.names = [*self.features.values(), *lists.tensors]

    def forward(self, *tensors: Tensor) -> Tensor:
        """Return numbers in their units, or probabilities of classes."""
        named = dict(zip(self.names, tensors, strict=True))
        x = {key: named[name] for key, name in self.features.items()}
        y: Tensor = self.predictor(x, planned_structure(self.parts, named))
        return self.predictor.in_units(y)


def _program(predictor: Predictor, example: Example, lists: PlainInputs) -> Any:
    """Return the network as a graph of plain steps, for structures of any size."""
    prepare_layers(predictor)
    plain = _Plain(predictor, lists)
    features = (x.float() for x in predictor.net.select(example.features))
    tensors = tuple(map(_recordable, (*features, *lists.tensors.values())))
    shapes = tuple({0: torch.export.Dim.AUTO} for _ in tensors)
    with torch.no_grad(), _quiet():
        return torch.export.export(plain, tensors, dynamic_shapes=(shapes,), strict=False)


def _recordable(tensor: Tensor) -> Tensor:
    """Return a tensor with at least two rows, as the tracer takes fewer for a constant.

    The rows that are added do no harm: the tracer records shapes alone.
    """
    return torch.cat([tensor, tensor.new_zeros(max(0, 2 - tensor.shape[0]), *tensor.shape[1:])])


def _onnx_bytes(program: Any, about: dict[str, Any]) -> bytes:
    with _quiet():
        made: Any = torch.onnx.export(
            program,
            dynamo=True,
            verbose=False,
            input_names=list(about["inputs"]),
            output_names=[about["output"]["name"]],
        )
    made.model.metadata_props[ABOUT] = json.dumps(about)
    content: bytes = made.model_proto.SerializeToString()
    return content


def _torch_bytes(program: Any, about: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    with _quiet():
        torch.export.save(program, stream, extra_files={f"{ABOUT}.json": json.dumps(about)})
    return stream.getvalue()


def _about(net: IncidenceNet, spec: ModelSpec, lists: PlainInputs) -> dict[str, Any]:
    """Return what a file says about itself: the model, and what every input and the output is."""
    inputs: dict[str, Any] = {}
    for (key, name), width in zip(features_of(net).items(), net.in_channels, strict=True):
        inputs[name] = {
            "about": f"features of `{key}`, a row for each entry",
            "shape": [None, width],
            "type": "float32",
        }
    for name, tensor in lists.tensors.items():
        inputs[name] = {
            "about": lists.about[name],
            "shape": [None, *tensor.shape[1:]],
            "type": str(tensor.dtype).removeprefix("torch."),
        }
    task = spec.task
    rows = f"a row for each entry of `{task.at}`" if task.at else "a row for each structure"
    has_probabilities = task.kind != "regression"
    output = {
        "name": "probabilities" if has_probabilities else "values",
        "columns": list(task.names),
        "rows": rows,
        "unit": task.unit,
    }
    return {"format": _FORMAT, "model": spec.plain(), "inputs": inputs, "output": output}


def _random_batch(net: IncidenceNet, spec: ModelSpec, count: int, num_nodes: int) -> Example:
    """Return structures with the tensors of a network and random features, always the same."""
    generator = torch.Generator().manual_seed(1000 * count + num_nodes)
    patterns = _indexed(net)
    sorts = {
        sort for p in (*patterns, *net.map.inputs, *net.map.outputs) for sort in p.sorts.values()
    } or {"node"}
    structures = []
    for k in range(count):
        nodes = min([num_nodes + k % 3, *map(_most_nodes, patterns)])
        counts = dict.fromkeys(sorts, nodes)
        structures.append(random_structure(counts, list(map(str, patterns)), 0.4, generator))
    batch = collate(structures)
    widths = zip(net.map.inputs, net.in_channels, strict=True)
    features = {
        str(p): torch.randn(batch.num_entries(p), width, generator=generator) for p, width in widths
    }
    return Example(batch, features)


def _indexed(net: IncidenceNet) -> list[Pattern]:
    """Return the tensors of a network that have an index."""
    hidden = EquivariantMap(f"{net.through} -> ").inputs
    return [
        p
        for p in dict.fromkeys((*net.map.inputs, *hidden, *net.map.outputs))
        if not StructureData._is_implicit(p) or p.name
    ]


def _most_nodes(pattern: Pattern) -> int:
    return max(2, int(_MOST_ENTRIES ** (1 / max(1, len(pattern.letters)))))


def _difference(predictor: Predictor, model: ExportedGraph, batch: Example) -> float:
    """Return the largest difference of outputs, on the scale of the network.

    It is relative to outputs that are larger than 1.
    """
    with torch.no_grad():
        ours, theirs = predictor.predict(batch), model.predict(batch.features, batch.structure)
    if ours.shape != theirs.shape:
        raise IncidenceError(
            f"{model.path} was not written: its outputs have the shape {list(theirs.shape)}, and"
            f" those of the network {list(ours.shape)}."
        )
    if predictor.kind == "regression":
        ours, theirs = predictor.scaled(ours), predictor.scaled(theirs)
    difference = (ours - theirs).abs() / ours.abs().clamp(min=1)
    return float(difference.max()) if difference.numel() else 0.0


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence exporters, which print much that is of no use to the person who exports."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


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
