"""Models out: files for other programs give what the model gives, on structures of any size, or are
not written.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import incidence as inc
from incidence.cli import main
from incidence.errors import IncidenceError, MissingExtraError, TooLargeError
from incidence.models import PRESETS, Predictor, make
from incidence.nn.composition import Planned
from incidence.train.export import ExportedGraph, _assert_shapes, export, runner
from incidence.train.model_spec import ModelSpec
from incidence.train.prediction import predict_records
from tests.little_memory import little_memory
from tests.models.small import for_preset, graph
from tests.train.small_runs import graphs

pytest.importorskip("onnxscript")

SMALL: dict[str, Any] = {"epochs": 1, "batch_size": 16, "hidden": 4, "depth": 1}


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
        torch.testing.assert_close(
            exported.predict(examples).values, model.predict(examples).values, rtol=1e-4, atol=1e-4
        )
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
    assert about["output"] == {
        "name": "values",
        "columns": ["target"],
        "rows": "a row for each structure",
        "unit": "",
    }
    assert about["model"]["data"] == "numbers.npz"  # no path of the machine
    assert (
        inputs["entries_0"].tolist()
        == np.repeat(np.arange(3), [e.structure.num_nodes for e in graphs(3)]).tolist()
    )
    with pytest.raises(
        IncidenceError, match="inputs are made of an Example, or a batch of them; got list"
    ):
        exported.inputs(graphs(3))


@pytest.mark.slow
def test_the_command_predicts_with_a_file(onnx_file, tmp_path, capsys):
    inc.collate(graphs(2)).save(tmp_path / "new.npz")
    assert main(["predict", str(onnx_file), str(tmp_path / "new.npz")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.slow
def test_outputs_that_are_too_far_off_are_not_written(run, onnx_file, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "incidence.train.export._onnx_bytes", lambda program, about: onnx_file.read_bytes()
    )
    model = inc.load(run)
    model.predictor.target_shift += 1  # a file of another model
    with pytest.raises(
        IncidenceError,
        match=(
            r"was not written: its outputs differ from those of the network by .* Raise `tolerance`"
        ),
    ):
        model.export(tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing to write: give --onnx model.onnx, --torch-export model.pt2, or both"),
        (
            ["--onnx", "model.pt2"],
            (
                "--onnx writes a file that ends with .onnx, and --torch-export one that ends with"
                " .pt2; got 'model.pt2'"
            ),
        ),
        (
            ["--onnx", "model.onnx", "--tolerance", "-1"],
            "the tolerance is a number above 0; got -1.0",
        ),
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
        with pytest.raises(
            IncidenceError, match=r"is no model that `incidence export` wrote, or it is damaged"
        ):
            inc.load(tmp_path / name)
    with pytest.raises(IncidenceError, match=r"there is no file .*missing\.onnx"):
        inc.load(tmp_path / "missing.onnx")


def spec_of(
    name: str, widths: dict[str, int], at: str, kind: str = "regression", **settings: Any
) -> ModelSpec:
    task = inc.data.Task(kind, ("a", "b"), at)
    return ModelSpec(
        data="/home/me/x",
        model=name,
        settings={"hidden": 4, "depth": 1, **settings},
        in_channels=widths,
        task=task,
        metric="rmse",
        reader="graph",
        reader_options={},
        lift="none",
        lift_options={},
        fingerprint="",
    )


def calibrated(spec: ModelSpec, example: inc.Example) -> Predictor:
    torch.manual_seed(0)
    predictor = spec.build()
    for parameter in predictor.parameters():
        if not parameter.any():  # biases, and the head of asked entries
            torch.nn.init.normal_(parameter, std=0.5)
    return predictor.calibrate(
        {key: x.float() for key, x in example.features.items()}, example.structure
    ).eval()


def made(name: str, kind: str = "regression", **settings: Any) -> tuple[Predictor, ModelSpec]:
    """A network by name with random weights, and what it is."""
    example = graph() if name in ("nodes", "diffusion", "completion") else for_preset(name)
    features = {key: x for key, x in example.features.items() if not key.startswith("pos")}
    ats = {"relational": "u:user m:movie", "completion": "{i j}"} | dict.fromkeys(
        ("nodes", "diffusion", "hypergraph"), "i"
    )
    spec = spec_of(
        name, {key: x.shape[1] for key, x in features.items()}, ats.get(name, ""), kind, **settings
    )
    return calibrated(spec, example.replace(features=features)), spec


def test_a_model_that_completes_what_it_knows_is_not_exported(tmp_path):
    spec = replace(spec_of("graph", {"i": 1, "{i j}": 1}, ""), reader="links")
    with pytest.raises(IncidenceError, match="a model of ratings or links cannot be exported"):
        export(Predictor(make("graph", {"i": 1, "{i j}": 1})), spec, tmp_path / "model.onnx")


def test_a_network_with_a_module_of_the_users_own_is_refused_and_nothing_is_written(tmp_path):
    class Mine(Planned):
        pass

    predictor, spec = made("graph")
    predictor.net.mine = Mine()
    with pytest.raises(
        IncidenceError,
        match="a network with Mine cannot be exported, as it is none of this library's modules",
    ):
        export(predictor, spec, tmp_path / "model.pt2")
    assert not (tmp_path / "model.pt2").exists()


def assert_exported(predictor: Predictor, spec: ModelSpec, path: Path) -> None:
    done = export(predictor, spec, path)
    assert done.error < 1e-5
    assert path.stat().st_size == done.num_bytes
    assert done.num_structures == 13


# What these presets have of their own, and little else: recording a graph takes as long as it is.
SMALL_PRESETS: dict[str, dict[str, Any]] = {
    "ppgn": {"operations": "self", "readout": "sum", "head_depth": 0, "norm": "none"},
    "transformer": {
        "operations": "self",
        "readout": "sum",
        "head_depth": 0,
        "through": "i, near=i j",
        "attention": "near=i j over j",
    },
}


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("ppgn", ".onnx"),
        ("transformer", ".pt2"),
        pytest.param("ppgn", ".pt2", marks=pytest.mark.exhaustive),
        pytest.param("transformer", ".onnx", marks=pytest.mark.exhaustive),
    ],
)
def test_small_networks_with_products_and_attention_are_exported_and_have_the_same_outputs(
    name, suffix, tmp_path
):
    assert_exported(*made(name, **SMALL_PRESETS[name]), tmp_path / f"model{suffix}")


@pytest.mark.parametrize(
    ("how", "suffix"),
    [
        ("max", ".pt2"),
        pytest.param("mean", ".pt2", marks=pytest.mark.exhaustive),
        pytest.param("mean", ".onnx", marks=pytest.mark.exhaustive),
        pytest.param("max", ".onnx", marks=pytest.mark.exhaustive),
    ],
)
def test_jumping_knowledge_is_exported_and_has_the_same_outputs(how, suffix, tmp_path):
    settings = {"operations": "self", "readout": "sum", "head_depth": 0, "norm": "none"}
    predictor, spec = made("graph", **settings, depth=2, jumping=how)
    assert_exported(predictor, spec, tmp_path / f"model{suffix}")


def test_a_network_that_reads_holes_is_refused(tmp_path):
    with pytest.raises(IncidenceError, match="a network that reads holes cannot be exported"):
        export(*made("topology"), tmp_path / "model.onnx")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PRESETS if name != "topology"])
def test_presets_are_exported_both_ways_and_are_the_same_on_random_structures(name, tmp_path):
    predictor, spec = made(name, "classification" if name == "mesh" else "regression")
    for suffix in (".onnx", ".pt2"):
        assert_exported(predictor, spec, tmp_path / f"model{suffix}")
    assert make(name, spec.in_channels, 2, spec.task.at).map == predictor.net.map


PRODUCTS = {
    "none to join in most structures": ("graph", ["{i j}, {i k}, {i l}, {j k}, {j l}, {k l} -> i"]),
    "in several steps": (
        "graph",
        ["{i j}, {j k}, {k l}, {l i} -> i", "i, j -> {i j}", "i, j -> i"],
    ),
    "with signs": ("flows", ["<i j>, <j k> -> <i k>", "<i j k>, <j k> -> i"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", PRODUCTS)
def test_products_of_every_kind_are_exported_both_ways_and_are_the_same_on_random_structures(
    case, tmp_path
):
    name, products = PRODUCTS[case]
    predictor, spec = made(name, products=products)
    for suffix in (".onnx", ".pt2"):
        assert_exported(predictor, spec, tmp_path / f"model{suffix}")


@pytest.mark.parametrize(
    ("name", "expected"), [("graph", [9]), ("ppgn", [8, 1]), ("transformer", [9])]
)
def test_a_file_with_products_is_asked_for_a_few_structures_at_a_time(name, expected):
    predictor, spec = made(name)
    asked = []

    def run(inputs):
        asked.append(int(inputs["entries_0"].max()) + 1)
        return torch.zeros(asked[-1], 2)

    graph = ExportedGraph(Path("model.onnx"), spec, predictor, run)
    predict_records(graph, spec, [for_preset(name)] * 9, [])
    assert asked == expected


def test_outputs_that_are_no_numbers_are_not_written(tmp_path, monkeypatch):
    predictor, spec = made("graph")
    differences = iter([0.0, torch.nan, *[0.0] * 9])
    for name, function in {
        "_program": lambda *given: None,
        "_torch_bytes": lambda *given: b"",
        "runner": lambda *given: ({}, None),
        "_difference": lambda *given: next(differences),
    }.items():
        monkeypatch.setattr(f"incidence.train.export.{name}", function)
    with pytest.raises(
        IncidenceError,
        match="its outputs differ from those of the network by nan on random structures",
    ):
        export(predictor, spec, tmp_path / "model.pt2")


# ---- a program from somebody else


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network as a program of `torch.export`."""
    path = tmp_path_factory.mktemp("program") / "model.pt2"
    predictor, spec = made("graph", operations="self", readout="sum", head_depth=0, norm="none")
    export(predictor, spec, path)
    return path


def changed(program: Path, path: Path, changes: dict[str, bytes]) -> Path:
    """The archive with other contents in some files, and some more."""
    with zipfile.ZipFile(program) as old, zipfile.ZipFile(path, "w") as new:
        names = [name for name in old.namelist() if name.partition("/")[2] not in changes]
        for name in names:
            new.writestr(name, old.read(name))
        for part, content in changes.items():
            new.writestr(f"archive/{part}", content)
    return path


class _Deed:
    """What a pickle does when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (self.path,)


def test_nothing_in_a_program_is_executed_when_it_is_read(program, tmp_path):
    evil = io.BytesIO()
    torch.save(_Deed(tmp_path / "done"), evil)
    config = json.loads(
        zipfile.ZipFile(program).read("archive/data/weights/model_weights_config.json")
    )
    first = next(iter(config["config"].values()))
    first["use_pickle"] = True
    weights = {
        "data/weights/model_weights_config.json": json.dumps(config).encode(),
        f"data/weights/{first['path_name']}": evil.getvalue(),
    }
    for changes in (
        {"data/sample_inputs/model.pt": evil.getvalue()},
        {"data/weights/model.pt": evil.getvalue(), "data/constants/model.pt": evil.getvalue()},
        weights,
    ):
        with suppress(IncidenceError):
            inc.load(changed(program, tmp_path / "evil.pt2", changes))
        assert not (tmp_path / "done").exists()
    graph = json.loads(zipfile.ZipFile(program).read("archive/models/model.json"))
    code = f"__import__('pathlib').Path('{tmp_path}/done').touch()"
    assert graph["guards_code"]  # texts that are executed where the program is
    graph["guards_code"] = [code]
    graph["range_constraints"] |= {code: {"min_val": 0, "max_val": 9}}
    inc.load(
        changed(program, tmp_path / "evil.pt2", {"models/model.json": json.dumps(graph).encode()})
    )
    assert not (tmp_path / "done").exists()


def test_a_program_that_was_read_predicts_what_the_network_did(program):
    found = inc.load(program)
    batch = for_preset("graph")
    run = runner(program.read_bytes(), ".pt2")
    torch.testing.assert_close(found.predict([batch]).values, run(found.inputs(batch)))


@pytest.mark.parametrize(
    "change",
    [
        {"sizes": [{"as_int": 1 << 40}]},
        {"storage_offset": {"as_int": -4}},
        {"strides": [{"as_int": 1 << 40}] * 3},
        {"dtype": 8},
        {"sizes": "many"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_weights_that_are_not_what_they_are_said_to_be_are_refused(program, tmp_path, change):
    name = "data/weights/model_weights_config.json"
    config = json.loads(zipfile.ZipFile(program).read(f"archive/{name}"))
    next(iter(config["config"].values()))["tensor_meta"] |= change
    with pytest.raises(
        IncidenceError,
        match=r"is damaged: the weight|is no model that `incidence export` wrote, or it is damaged",
    ):
        inc.load(changed(program, tmp_path / "bad.pt2", {name: json.dumps(config).encode()}))


WEIGHTS = "data/weights/model_weights_config.json"


def listed(program: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zipfile.ZipFile(program).read(f"archive/{WEIGHTS}"))
    return found


def test_shapes_of_a_program_are_compared_before_there_is_memory_for_weights(program, tmp_path):
    config = listed(program)
    about = next(iter(config["config"].values()))["tensor_meta"]
    about["sizes"], about["strides"] = [{"as_int": 10**9}], [{"as_int": 0}]
    path = changed(program, tmp_path / "bad.pt2", {WEIGHTS: json.dumps(config).encode()})
    with (
        little_memory(1 << 23),
        pytest.raises(
            IncidenceError, match=r"the weight \S+ has the shape \[1000000000\], and is \["
        ),
    ):
        inc.load(path)


def test_a_weight_that_the_network_does_not_have_is_refused(program, tmp_path):
    config = listed(program)
    config["config"] |= {
        f"predictor.more{k}": told for k, told in enumerate(config["config"].values())
    }
    with pytest.raises(
        IncidenceError, match=r"the weight 'more0' has the shape .*, and is unknown to the network"
    ):
        inc.load(changed(program, tmp_path / "bad.pt2", {WEIGHTS: json.dumps(config).encode()}))


def test_one_number_does_not_stand_for_a_whole_weight(program, tmp_path):
    config = listed(program)
    about = next(
        told["tensor_meta"]
        for told in config["config"].values()
        if len(told["tensor_meta"]["sizes"]) > 1
    )
    about["strides"] = [{"as_int": 0}] * len(about["sizes"])
    name = next(
        told["path_name"] for told in config["config"].values() if told["tensor_meta"] is about
    )
    changes = {WEIGHTS: json.dumps(config).encode(), f"data/weights/{name}": bytes(4)}
    with pytest.raises(IncidenceError, match="is not as it is described"):
        inc.load(changed(program, tmp_path / "bad.pt2", changes))


def test_weights_are_counted_though_they_may_share_a_member(program, monkeypatch):
    outline = made("graph")[1].outline()
    monkeypatch.setattr(
        Path, "stat", lambda self, **options: SimpleNamespace(st_size=1, st_mode=0o100644)
    )
    monkeypatch.setenv("INCIDENCE_MAX_GB", "1e-7")
    with pytest.raises(TooLargeError, match="unpacked, would take at least"):
        _assert_shapes({}, outline, program)


def test_numbers_of_an_onnx_file_in_other_files_are_not_read(tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    weight = onnx.numpy_helper.from_array(np.ones(4, np.float32), "weight")
    values = onnx.helper.make_tensor_value_info("values", onnx.TensorProto.FLOAT, [4])
    node = onnx.helper.make_node("Identity", ["weight"], ["values"])
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], [values], [weight]))
    onnx.external_data_helper.convert_model_to_external_data(
        model, location="secret.bin", size_threshold=0, convert_attribute=True
    )
    (tmp_path / "there").mkdir()
    onnx.save(model, str(tmp_path / "there" / "bad.onnx"))
    monkeypatch.chdir(tmp_path / "there")
    with pytest.raises(
        IncidenceError, match=r"bad\.onnx has numbers in other files, which are not read"
    ):
        inc.load("bad.onnx")


@pytest.mark.parametrize("library", ["onnx", "onnxscript", "onnxruntime"])
def test_a_library_that_exporting_needs_is_named_with_its_extra(
    library, run, tmp_path, monkeypatch
):
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(
        MissingExtraError,
        match=rf"needs {library}, which is not installed: pip install 'incidence\[export\]'",
    ):
        inc.load(run).export(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_an_exported_model_says_what_it_cannot_do(program, capsys):
    model = inc.load(program)
    with pytest.raises(
        IncidenceError,
        match=r"is an exported model, which only predicts: `evaluate` is for the folder of a run",
    ):
        model.evaluate()
    for name in ("network", "config", "history", "export"):
        with pytest.raises(
            AttributeError,
            match=f"is an exported model, which only predicts: `{name}` is for the folder of a run",
        ):
            getattr(model, name)
    with pytest.raises(AttributeError, match="an exported model has no attribute 'nonsense'"):
        _ = model.nonsense
    assert main(["evaluate", str(program)]) == 2
    assert (
        "is an exported model, which only predicts: give the folder of its run."
        in capsys.readouterr().err
    )
