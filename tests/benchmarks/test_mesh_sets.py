import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from benchmarks.sets import load
from benchmarks.sets.meshes import edge_areas, numbered_edges, soft_accuracy, soft_labels
from incidence.data import DataSet
from incidence.data.meshes import COLUMNS, features_of
from incidence.errors import IncidenceError
from incidence.geometry import read_mesh
from tests.data.mesh_examples import cube
from tests.data_folder import data_folder

# Corners are listed so that the edges are met in another order than structures have them.
TETRAHEDRON = "v 1 1 1\nv 1 -1 -1\nv -1 1 -1\nv -1 -1 1\nf 4 3 2\nf 1 3 4\nf 4 2 1\nf 1 2 3\n"
MET = [(3, 2), (2, 1), (3, 1), (0, 2), (0, 3), (0, 1)]  # by hand, numbered from 0
HARD = [1, 2, 3, 4, 1, 2]
SQUARE = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3 4\n"


def write_zip(path: Path, files: Mapping[str, str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path.parent


def shrec_files() -> dict[str, str]:
    return {
        f"shrec_16/{c}/{p}/T{k}.obj": TETRAHEDRON
        for c in ("cat", "ant")
        for p, n in (("train", 9), ("test", 3))
        for k in range(n)
    }


def coseg_files(**changes: str) -> dict[str, str]:
    soft = "".join(" ".join(str(float(k + 1 == label)) for k in range(4)) + "\n" for label in HARD)
    files = {"train/1.obj": TETRAHEDRON, "test/2.obj": TETRAHEDRON}
    for k in (1, 2):
        files |= {f"seg/{k}.eseg": "\n".join(map(str, HARD)), f"sseg/{k}.seseg": soft}
    return {f"coseg_vases/{name}": text for name, text in {**files, **changes}.items() if text}


def mean_counts(data: DataSet) -> dict[str, set[int]]:
    return {key: {e.structure.num_entries(key) for e in data.examples} for key in COLUMNS}


# ---- small files of the same form


def test_classes_and_parts_come_from_the_folders_of_the_archive(tmp_path: Path) -> None:
    data = load("shrec11", write_zip(tmp_path / "shrec_16.zip", shrec_files()))
    assert data.task.names == ("ant", "cat")
    assert [len(part) for part in data.splits[0]] == [18, 0, 6]
    train, _, test = data.parts()
    assert [int(e.target) for e in test] == [0] * 3 + [1] * 3
    assert len(train) == 18
    assert data.reader == "mesh"


def test_the_data_is_found_in_the_folder_or_the_one_above(tmp_path: Path) -> None:
    inside = write_zip(tmp_path / "shrec11_meshes" / "shrec_16.zip", shrec_files())
    assert (
        len(load("shrec11", inside).examples) == len(load("shrec11", inside.parent).examples) == 24
    )


def test_split_10_draws_ten_of_every_class_by_the_seed(tmp_path: Path) -> None:
    folder = write_zip(tmp_path / "shrec_16.zip", shrec_files())
    one, again, other = (load("shrec11", folder, split="10", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.splits[0].train, again.splits[0].train)
    assert not torch.equal(one.splits[0].train, other.splits[0].train)
    train, _, test = one.parts()
    assert [int(e.target) for e in train] == [0] * 10 + [1] * 10
    assert len(test) == 4
    assert sorted(torch.cat([*one.splits[0]]).tolist()) == list(range(24))


def test_another_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        IncidenceError,
        match="the option split of the data set 'shrec11' is one of 16, 10; got '12'",
    ):
        load("shrec11", tmp_path, split="12")


def test_labels_number_the_edges_as_they_are_met(tmp_path: Path) -> None:
    path = tmp_path / "t.obj"
    path.write_text(TETRAHEDRON)
    mesh = read_mesh(path)
    rows = numbered_edges(mesh)
    assert [tuple(pair) for pair in mesh.structure["{i j}"][:, rows].T.tolist()] == [
        tuple(sorted(pair)) for pair in MET
    ]
    data = load("coseg-vases", write_zip(tmp_path / "coseg_vases.zip", coseg_files()))
    assert data.task.at == "{i j}"
    assert data.task.out_channels == 4
    target = data.examples[0].target
    assert isinstance(target, dict)
    assert target["{i j}"][rows].tolist() == [label - 1 for label in HARD]


def test_soft_labels_stand_in_the_order_of_the_edges(tmp_path: Path) -> None:
    folder = write_zip(tmp_path / "coseg_vases.zip", coseg_files())
    data, soft = load("coseg-vases", folder), soft_labels("coseg-vases", folder)
    for example, own in zip(data.examples, soft, strict=True):
        assert isinstance(example.target, dict)
        assert torch.equal(own.argmax(1), example.target["{i j}"])


def test_soft_accuracy_counts_the_area_of_edges_with_a_positive_weight() -> None:
    mesh = features_of(cube())
    shares = edge_areas(mesh)
    # a third of two faces each, as all other edges have
    diagonal = mesh.features["{i j}"][:, 0] > 0.5
    assert float(shares.sum()) == pytest.approx(1)
    soft = torch.zeros(18, 2)
    soft[:, 0] = diagonal.float() / 4
    soft[:, 1] = 0.75
    assert soft_accuracy([torch.zeros(18, dtype=torch.long)], [mesh], [soft]) == pytest.approx(
        float(shares[diagonal].sum())
    )
    assert soft_accuracy(
        [torch.ones(18, dtype=torch.long)] * 2, [mesh] * 2, [soft] * 2
    ) == pytest.approx(1)


# ---- what is refused


def test_no_folder_is_refused_with_what_to_give() -> None:
    with pytest.raises(
        IncidenceError, match="give the folder that holds `shrec11_meshes` with `folder`"
    ):
        load("shrec11")


def test_a_folder_without_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        IncidenceError, match=r"needs the file .*coseg_aliens\.zip, which is not there"
    ):
        load("coseg-aliens", tmp_path)


def test_a_file_that_is_no_zip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shrec_16.zip").write_bytes(b"PK nothing")
    with pytest.raises(IncidenceError, match=r"shrec_16\.zip is damaged"):
        load("shrec11", tmp_path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        pytest.param({"readme.txt": "x"}, r"has no files \*\.obj", id="no meshes"),
        pytest.param(
            {"cat/T1.obj": TETRAHEDRON}, r"meshes belong into \.\.\./train", id="no class"
        ),
        pytest.param({"s/cat/train/T1.obj": SQUARE}, "faces other than triangles", id="squares"),
        pytest.param(
            {"s/cat/train/T1.obj": "v 0 0\n"},
            r"T1\.obj.*The file is cut off or damaged",
            id="cut off",
        ),
    ],
)
def test_a_damaged_archive_is_refused(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(IncidenceError, match=message):
        load("shrec11", write_zip(tmp_path / "shrec_16.zip", files))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"seg/2.eseg": ""}, r"lacks coseg_vases/seg/2\.eseg", id="missing"),
        pytest.param(
            {"seg/2.eseg": "1 2 3"},
            r"seg/2\.eseg has 3 numbers, and its mesh needs 6",
            id="too few",
        ),
        pytest.param(
            {"seg/2.eseg": "1 2 3 4 x 2"},
            r"seg/2\.eseg has something other than numbers",
            id="a letter",
        ),
        pytest.param({"seg/2.eseg": "1 2 3 4 5 2"}, "are not all from 1 to 4", id="a fifth part"),
        pytest.param({"seg/2.eseg": "1 2 3 4 nan 2"}, "has 6 numbers, not all finite", id="nan"),
    ],
)
def test_damaged_labels_are_refused(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(IncidenceError, match=message):
        load("coseg-vases", write_zip(tmp_path / "coseg_vases.zip", coseg_files(**changes)))


# ---- the published files


def test_shrec11_has_the_published_counts() -> None:
    data = load("shrec11", data_folder("shrec11_meshes"))
    counts = mean_counts(data)
    assert (counts["{i j}"], counts["{i j k}"]) == ({750}, {500})
    assert counts["i"] <= {250, 251, 252}
    assert data.task.out_channels == 30
    labels = torch.stack([e.target for e in data.examples if isinstance(e.target, torch.Tensor)])
    assert labels.bincount().tolist() == [20] * 30
    assert labels[data.splits[0].train].bincount().tolist() == [16] * 30
    tables = {key: torch.cat([e.features[key] for e in data.examples]) for key in COLUMNS}
    assert all(x.isfinite().all() for x in tables.values())
    assert int(tables["{i j}"][:, 2:4].sum()) == 0  # every edge is in two faces
    defects = torch.stack([e.features["i"][:, 0].double().sum() for e in data.examples]) / (
        2 * torch.pi
    )
    # Euler characteristics 0 and 2
    assert defects.round().long().bincount().tolist() == [12, 0, 588]
    torch.testing.assert_close(defects, defects.round(), atol=1e-4, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes", "edges", "labels"),
    [
        ("coseg-aliens", [169, 0, 29], (2250, 2260), [121419, 106196, 133233, 84686]),
        ("coseg-vases", [252, 0, 45], (1500, 1500), [74179, 76448, 241807, 53066]),
    ],
)
def test_coseg_has_the_published_counts(
    name: str, sizes: list[int], edges: tuple[int, int], labels: list[int]
) -> None:
    folder = data_folder("coseg_meshes")
    data, soft = load(name, folder), soft_labels(name, folder)
    assert [len(part) for part in data.splits[0]] == sizes
    counts = mean_counts(data)["{i j}"]
    assert (min(counts), max(counts)) == edges
    hard = [e.target["{i j}"] for e in data.examples if isinstance(e.target, dict)]
    assert torch.cat(hard).bincount().tolist() == labels
    assert all(x.isfinite().all() for e in data.examples for x in e.features.values())
    # a wrong numbering of edges would break this
    assert soft_accuracy(hard, data.examples, soft) > 0.999
