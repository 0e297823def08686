"""Export: a network as an ONNX file or a program of `torch.export`.

Its outputs are compared with those of the network before anything is written.
"""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, need
from incidence.models import IncidenceNet, Predictor
from incidence.nn.plain import PlainInputs, plain_inputs, planned_structure, prepare_layers
from incidence.structure import Example, collate
from incidence.structure.data import StructureData
from incidence.testing import random_structure
from incidence.train.exported import ABOUT, SUFFIXES, ExportedGraph, features_of, runner
from incidence.train.model_spec import ModelSpec
from incidence.train.run_folder import write

__all__ = ["TOLERANCE", "Exported", "export"]

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
