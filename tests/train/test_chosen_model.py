"""Which model data gets by default, what it reads, and what the run says about that."""

from pathlib import Path

import pytest
import torch

import incidence as inc

SMALL = {"epochs": 1, "hidden": 4, "depth": 1}
FACES = [[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4], [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]]
POINTS = [[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]]


def meshes(count: int = 12) -> list[inc.Example]:
    """Octahedra with corners at random distances; labels of edges."""
    random = torch.Generator().manual_seed(0)
    mesh = inc.geometry.read_mesh((POINTS, FACES))
    found = []
    for _ in range(count):
        points = mesh.points.float() * (1 + 0.3 * torch.rand(6, 1, generator=random))
        labels = (torch.rand(12, generator=random) > 0.5).long()
        found.append(inc.Example(mesh.structure, {"pos=i": points}, {"{i j}": labels}))
    return found


def test_predictions_for_meshes_do_not_change_when_they_are_turned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = inc.train.train({**SMALL, "out": str(tmp_path)}, meshes(), is_shown=True)
    assert run is not None
    assert run.experiment.config.model == "mesh"
    said = capsys.readouterr().err
    assert "model: mesh (triangle meshes: vertices, edges and faces), which reads `i`, " in said
    assert "not the coordinates `pos=i`, which change with every rotation" in said
    turn = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(1)))[0]
    new = meshes(3)
    turned = [one.replace(features={"pos=i": one.features["pos=i"] @ turn}) for one in new]
    model = inc.load(run.folder.path)
    torch.testing.assert_close(
        model.predict(new).values, model.predict(turned).values, atol=1e-4, rtol=1e-4
    )


def test_features_that_a_given_model_does_not_read_are_named(tmp_path: Path) -> None:
    example = meshes(1)[0]
    numbers = [
        inc.Example(example.structure, {"i": torch.rand(6, 2), "{i j}": torch.rand(12, 1),
                                        "{i j k}": torch.rand(8, 1)}, torch.rand(()))
        for _ in range(12)
    ]  # fmt: skip
    experiment = inc.train.prepare.prepare(inc.train.Config(model="graph"), inc.data.load(numbers))
    assert "which reads `i`, `{i j}`, and not `{i j k}`" in experiment.describe()
    chosen = inc.train.prepare.prepare(inc.train.Config(), inc.data.load(numbers))
    assert chosen.config.model == "triangles"
