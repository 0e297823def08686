"""`ExportedGraph`: a network in a file for other programs, with what it reads and predicts; made by `incidence.train.export`."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from incidence.errors import IncidenceError, need
from incidence.models import IncidenceNet, Predictor
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
        outline: The network without weights, which tells the lists that it needs.
        run: Takes all inputs by name; gives numbers in their units, or probabilities of classes, shape (rows, numbers or classes).
    """

    path: Path
    spec: ModelSpec
    outline: Predictor
    run: Run

    def inputs(self, features: Mapping[str, Tensor], structure: Structure) -> dict[str, NDArray[Any]]:
        """All inputs by name, as arrays."""
        net = self.outline.net
        xs = dict(zip(features_of(net).values(), (x.float() for x in net.select(features)), strict=True))
        tensors = {**xs, **plain_inputs(self.outline, structure).tensors}
        return {name: np.ascontiguousarray(tensor.detach().cpu().numpy()) for name, tensor in tensors.items()}

    def predict(self, features: Mapping[str, Tensor], structure: Structure) -> Tensor:
        """Numbers in their units, or probabilities of classes."""
        return self.run(self.inputs(features, structure))


def load_exported(path: Path) -> ExportedGraph:
    """A network that was exported.

    Raises:
        IncidenceError: It is no file that `incidence export` wrote, or it is damaged.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise IncidenceError(f"{path} cannot be read: {error}.") from error
    about, run = runner(content, path.suffix, str(path))
    spec = ModelSpec.from_json(json.dumps(about["model"]), str(path))
    return ExportedGraph(path, spec, spec.outline().eval(), run)


def runner(content: bytes, suffix: str, where: str) -> tuple[dict[str, Any], Run]:
    """The description in a file, and a function that runs its graph.

    Raises:
        IncidenceError: It is no such file.
    """
    try:
        about, run = (_onnx_runner if suffix == ".onnx" else _torch_runner)(content)
        told = json.loads(about)
        assert isinstance(told, dict)
        assert "model" in told
    except IncidenceError:
        raise
    except Exception as error:  # of libraries that read what may be anything
        raise IncidenceError(f"{where} is no model that `incidence export` wrote, or it is damaged: {short(error)}.") from error
    return told, run


def _onnx_runner(content: bytes) -> tuple[str, Run]:
    runtime = need("onnxruntime", "running an ONNX file", "export")
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # what it optimises is of no use to the person who predicts
    session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]

    def run(inputs: Mapping[str, NDArray[Any]]) -> Tensor:
        return torch.from_numpy(session.run(None, {name: inputs[name] for name in names})[0])

    return session.get_modelmeta().custom_metadata_map[ABOUT], run


def _torch_runner(content: bytes) -> tuple[str, Run]:
    if not zipfile.is_zipfile(BytesIO(content)):
        raise ValueError("it is no archive")
    extra = {f"{ABOUT}.json": ""}
    program = torch.export.load(BytesIO(content), extra_files=extra)
    module, names = program.module(), list(json.loads(extra[f"{ABOUT}.json"])["inputs"])

    def run(inputs: Mapping[str, NDArray[Any]]) -> Tensor:
        with torch.no_grad():
            found: Tensor = module(*(torch.from_numpy(inputs[name]) for name in names))
        return found

    return extra[f"{ABOUT}.json"], run
