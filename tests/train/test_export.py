"""Models out: files for other programs give what the model gives, on structures of any size, or are not written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import incidence as inc
from incidence.cli import main
from incidence.errors import IncidenceError
from incidence.models import PRESETS, Predictor, make
from incidence.train.export import export
from incidence.train.folder import ModelSpec
from tests.models.small import for_preset, graph
from tests.train.small_runs import graphs

pytest.importorskip("onnxscript")

SMALL: dict[str, Any] = {"epochs": 1, "batch_size": 16, "hidden": 4, "depth": 1}
CANNOT = {"ppgn", "local-fgnn", "subgraph", "transformer"}


@pytest.fixture(scope="module")
def run(numbers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    inc.train.train({**SMALL, "data": str(numbers), "model": "i, {i j}", "out": str(folder)})
    return folder


@pytest.fixture(scope="module")
def onnx_file(run: Path) -> Path:
    inc.load(run).export(run / "model.onnx")
    return run / "model.onnx"


@pytest.mark.slow
def test_an_onnx_file_predicts_what_the_model_predicts(run, onnx_file):
    model, exported = inc.load(run), inc.load(onnx_file)
    for examples in (graphs(1), graphs(7)):
        torch.testing.assert_close(exported.predict(examples).values, model.predict(examples).values, rtol=1e-4, atol=1e-4)
    assert "regression of target; i, {i j} network" in repr(exported)


@pytest.mark.slow
def test_the_inputs_of_a_file_are_arrays_that_the_file_describes(onnx_file):
    exported = inc.load(onnx_file)
    inputs = exported.inputs(inc.collate(graphs(3)))
    import onnxruntime

    session = onnxruntime.InferenceSession(onnx_file)
    about = json.loads(session.get_modelmeta().custom_metadata_map["incidence"])
    assert list(about["inputs"]) == list(inputs) == [each.name for each in session.get_inputs()]
    assert all(str(array.dtype) == about["inputs"][name]["type"] for name, array in inputs.items())
    assert about["output"] == {"name": "values", "columns": ["target"], "rows": "a row for each structure", "unit": ""}
    assert about["model"]["data"] == "numbers.npz"  # no path of the machine
    assert inputs["entries_0"].tolist() == np.repeat(np.arange(3), [e.structure.num_nodes for e in graphs(3)]).tolist()
    with pytest.raises(IncidenceError, match="inputs are made of an Example, or a batch of them; got list"):
        exported.inputs(graphs(3))


@pytest.mark.slow
def test_the_command_predicts_with_a_file(onnx_file, tmp_path, capsys):
    inc.collate(graphs(2)).save(tmp_path / "new.npz")
    assert main(["predict", str(onnx_file), str(tmp_path / "new.npz")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.slow
def test_outputs_that_are_too_far_off_are_not_written(run, onnx_file, tmp_path, monkeypatch):
    monkeypatch.setattr("incidence.train.export._onnx_bytes", lambda program, about: onnx_file.read_bytes())
    model = inc.load(run)
    model.predictor.target_shift += 1  # a file of another model
    with pytest.raises(IncidenceError, match=r"was not written: its outputs differ from those of the network by .* Raise --tolerance"):
        model.export(tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "say what to write: --onnx model.onnx, --torch-export model.pt2, or both"),
        (["--onnx", "model.pt2"], "--onnx writes a file that ends with .onnx, and --torch-export one that ends with .pt2; got 'model.pt2'"),
        (["--onnx", "model.onnx", "--tolerance", "-1"], "the tolerance is a number above 0; got -1.0"),
        (["--onyx", "model.onnx"], "no option --onyx. Did you mean --onnx?"),
    ],
)
def test_bad_options_are_answered(run, words, message, capsys):
    try:
        assert main(["export", str(run), *words]) == 2
    except SystemExit as stop:
        assert stop.code == 2
    assert message in capsys.readouterr().err


def test_a_file_that_is_no_exported_model_is_refused(tmp_path, run):
    with pytest.raises(IncidenceError, match=r"ends with \.onnx or \.pt2; got"):
        inc.load(run).export(tmp_path / "model.pth")
    for name in ("bad.onnx", "bad.pt2"):
        (tmp_path / name).write_bytes(b"no model")
        with pytest.raises(IncidenceError, match=r"is no model that `incidence export` wrote, or it is damaged"):
            inc.load(tmp_path / name)
    with pytest.raises(IncidenceError, match="cannot be read"):
        inc.load(tmp_path / "missing.onnx")


def spec_of(name: str, widths: dict[str, int], at: str, kind: str = "regression") -> ModelSpec:
    task = inc.data.Task(kind, ("a", "b"), at)
    return ModelSpec(
        data="/home/me/x", model=name, settings={"hidden": 4, "depth": 1}, in_channels=widths, task=task, metric="rmse", reader="graph",
        reader_options={}, lift="none", lift_options={}, fingerprint="",
    )  # fmt: skip


def calibrated(spec: ModelSpec, example: inc.Example) -> Predictor:
    torch.manual_seed(0)
    predictor = spec.build()
    return predictor.calibrate({key: x.float() for key, x in example.features.items()}, example.structure).eval()


def test_a_model_that_completes_what_it_knows_is_not_exported(tmp_path):
    spec = replace(spec_of("graph", {"i": 1, "{i j}": 1}, ""), reader="links")
    with pytest.raises(IncidenceError, match="a model of ratings or links looks at all that it knows"):
        export(Predictor(make("graph", {"i": 1, "{i j}": 1})), spec, tmp_path / "model.onnx")


def test_a_preset_that_cannot_be_exported_is_refused_in_a_sentence(tmp_path):
    example = for_preset("ppgn")
    spec = spec_of("ppgn", {key: x.shape[1] for key, x in example.features.items()}, "")
    with pytest.raises(IncidenceError, match=r"a network with products or attention \(Product\) cannot be exported"):
        export(calibrated(spec, example), spec, tmp_path / "model.onnx")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PRESETS if name not in CANNOT])
def test_presets_are_exported_both_ways_and_are_the_same_on_random_structures(name, tmp_path):
    example = graph() if name in ("nodes", "diffusion") else for_preset(name)
    features = {key: x for key, x in example.features.items() if not key.startswith("pos")}
    at = "i" if name in ("nodes", "diffusion", "hypergraph") else "u:user m:movie" if name == "relational" else ""
    spec = spec_of(name, {key: x.shape[1] for key, x in features.items()}, at, "classification" if name == "mesh" else "regression")
    predictor = calibrated(spec, example.replace(features=features))
    for suffix in (".onnx", ".pt2"):
        done = export(predictor, spec, tmp_path / f"model{suffix}")
        assert done.error < 1e-5
        assert (tmp_path / f"model{suffix}").stat().st_size == done.num_bytes
    assert make(name, spec.in_channels, 2, at).map == predictor.net.map
