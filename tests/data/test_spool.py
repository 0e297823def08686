"""Reading for shards holds few examples at a time, and writes the shards of all of them at once."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import incidence as inc
from incidence.data.columnar import columnar_pieces
from incidence.data.molecules import as_mol
from incidence.data.spool import PackedTexts, RecordSpool, spooling
from incidence.data.tables import read_table
from incidence.errors import IncidenceError
from incidence.structure import Example
from incidence.train.config import Config
from incidence.train.shards import prepare_shards

SMILES = ["CCO", "c1ccccc1", "CC(=O)O", "CCN", "C1CC1C", "COC", "CC=CC", "Cc1ccccc1", "OCC(C)C"]


def lines(count: int) -> list[tuple[str, str]]:
    return [(SMILES[k % len(SMILES)], f"{k % 13 / 4}") for k in range(count)]


def table(path: Path, count: int = 50) -> Path:
    rows = "".join(f"{smiles},{y},molecule {k}\n" for k, (smiles, y) in enumerate(lines(count)))
    path.write_text("smiles,y,note\n" + rows.replace("CCN,", "not one,", 1))
    return path


def list_of_smiles(path: Path) -> Path:
    path.write_text("smiles\ty\n" + "".join(f"{smiles}\t{y}\n" for smiles, y in lines(50)))
    return path


def sdf(path: Path) -> Path:
    chem = pytest.importorskip("rdkit.Chem")
    with chem.SDWriter(str(path)) as writer:
        for number, (smiles, y) in enumerate(lines(50)):
            mol = chem.MolFromSmiles(smiles)
            mol.SetProp("y", y)
            if number > 20:  # others lack it
                mol.SetProp("note", f"molecule {number}")
            writer.write(mol)
    return path


def parquet(path: Path) -> Path:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.read_csv(table(path.with_suffix(".csv")))
    frame.loc[3, "note"] = None
    (frame.to_parquet if path.suffix == ".parquet" else frame.to_feather)(path)
    return path


@pytest.mark.filterwarnings("ignore:.*skipped 1 of 50 records")
@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("m.csv", table),
        ("m.smi", list_of_smiles),
        ("m.sdf", sdf),
        ("m.parquet", parquet),
        ("m.arrow", parquet),
    ],
)
def test_shards_are_those_of_all_examples_at_once(name, write, tmp_path, monkeypatch):
    monkeypatch.setattr("incidence.data.spool._PIECE", 7)
    monkeypatch.setattr("incidence.data.columnar._TOGETHER", 8)
    config = Config(data=str(write(tmp_path / name)), target="y")
    prepare_shards(config, tmp_path / "pieces", 3)
    monkeypatch.setattr("incidence.train.shards.spooling", nullcontext)
    prepare_shards(config, tmp_path / "at once", 3)
    files = sorted((tmp_path / "at once").iterdir())
    assert len(files) == 7
    for file in files:
        if file.suffix == ".json":  # with the checksums of the shards
            assert (tmp_path / "pieces" / file.name).read_text() == file.read_text()


def number_alive() -> int:
    return sum(type(one) is Example for one in gc.get_objects())


@pytest.mark.filterwarnings("ignore:.*skipped 1 of 200 records")
def test_few_examples_are_in_memory_while_shards_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr("incidence.data.spool._PIECE", 10)
    monkeypatch.setattr("incidence.data.molecule_files._TOGETHER", 10)
    own, alive = inc.data.lifts.lift_all, []

    def watched(examples: Any, *arguments: Any, **options: Any) -> Any:
        alive.append(number_alive())
        return own(examples, *arguments, **options)

    before = number_alive()
    monkeypatch.setattr("incidence.data.prepared.lift_all", watched)
    made = prepare_shards(Config(data=str(table(tmp_path / "m.csv", 200))), tmp_path / "out", 10)
    assert made.num_examples == 199
    assert max(alive) - before <= 2 * 20


def test_few_rows_of_parquet_are_values_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("incidence.data.columnar._TOGETHER", 8)
    lengths = []

    def watched(path: Path, is_whole: bool) -> Any:
        for piece in columnar_pieces(path, is_whole):
            lengths.append(len(piece["smiles"]))
            yield piece

    monkeypatch.setattr("incidence.data.tables.columnar_pieces", watched)
    with spooling():
        read = read_table(parquet(tmp_path / "m.parquet"))
    assert isinstance(read["smiles"], PackedTexts)
    assert (sum(lengths), max(lengths)) == (50, 8)


def test_empty_parquet_is_refused_while_spooling(tmp_path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"smiles": []}).to_parquet(tmp_path / "m.parquet")
    with spooling(), pytest.raises(IncidenceError, match="has no rows"):
        read_table(tmp_path / "m.parquet")


@pytest.mark.parametrize("is_listed", [True, False])
def test_files_of_a_folder_are_read_one_by_one(tmp_path, monkeypatch, is_listed):
    monkeypatch.setattr("incidence.data.spool._PIECE", 10)
    own, alive = inc.data.lifts.lift_all, []

    def watched(examples: Any, *arguments: Any, **options: Any) -> Any:
        alive.append(number_alive())
        return own(examples, *arguments, **options)

    data = tmp_path / "data"
    for k in range(60):
        folder = data / ("files" if is_listed else f"class{k % 2}")
        folder.mkdir(parents=True, exist_ok=True)
        points = "".join(f"{x} {k % 5} 0\n" for x in range(4))
        text = f"OFF\n4 2 0\n{points}3 0 1 2\n3 1 2 3\n"
        (folder / f"{k}.off").write_text(text.replace(f"3 {k % 5} 0", f"3 {k % 5} 1"))
    if is_listed:
        rows = "".join(f"files/{k}.off,{k % 7}\n" for k in range(60))
        (data / "targets.csv").write_text("file,y\n" + rows)
    before = number_alive()
    monkeypatch.setattr("incidence.data.prepared.lift_all", watched)
    made = prepare_shards(Config(data=str(data)), tmp_path / "out", 6)
    assert made.num_examples == 60
    assert max(alive) - before <= 2 * 20


@pytest.mark.filterwarnings("ignore:.*skipped 1 of ")
@pytest.mark.parametrize(("name", "write"), [("m.csv", table), ("m.parquet", parquet)])
def test_later_shards_make_no_molecule_of_others(name, write, tmp_path, monkeypatch):
    config = Config(data=str(write(tmp_path / name)), target="y")
    prepare_shards(config, tmp_path / "whole", 4)
    made = []

    def counted(molecule: Any) -> Any:
        made.append(molecule)
        return as_mol(molecule)

    monkeypatch.setattr("incidence.data.molecule_files.as_mol", counted)
    counts = []
    for number in (3, 1, 2, 4):
        made.clear()
        prepare_shards(config, tmp_path / "each", 4, number)
        counts.append(len(made))
    assert counts == [50, 12, 12, 13]
    for file in sorted((tmp_path / "whole").glob("*.json")):  # with the checksums of the shards
        assert (tmp_path / "each" / file.name).read_text() == file.read_text()
    # other options, or another table, are read whole, and refused
    with pytest.raises(IncidenceError, match="was begun with another"):
        prepare_shards(config.replace(lift="cliques"), tmp_path / "each", 4, 2)
    other = table(tmp_path / "other.csv", 49)
    with pytest.raises(IncidenceError, match="was begun with another"):
        prepare_shards(config.replace(data=str(other)), tmp_path / "each", 4, 2)
    (tmp_path / "each" / "rows.npz").write_text("damaged")
    made.clear()
    prepare_shards(config, tmp_path / "each", 4, 2)
    assert len(made) == 50


def test_shards_have_a_bounded_number_of_examples_by_default(tmp_path, monkeypatch):
    monkeypatch.setattr("incidence.train.shards._IN_A_SHARD", 15)
    made = prepare_shards(Config(data=str(list_of_smiles(tmp_path / "m.smi"))), tmp_path / "out")
    assert made.folder.num_shards == 4
    assert len(inc.data.load(tmp_path / "out").examples) == 50


def test_packed_texts_are_those_of_a_list():
    texts = ["one", "", "zwölf", "\udc80 half a character", "last"]
    packed = PackedTexts(texts)
    assert list(packed) == texts
    assert packed[1:4] == texts[1:4]
    assert packed[-1] == "last"
    assert len(packed) == 5
    with pytest.raises(IndexError):
        packed[5]


def test_a_property_that_some_records_lack_is_empty_there(tmp_path):
    structure = inc.Structure(2, {"{i j}": [[0], [1]]})
    properties = [{"a": "1"}, {"b": "2"}, {"a": "3", "b": "4"}]
    records = [inc.data.Record("", Example(structure), properties=each) for each in properties]
    spool = RecordSpool(tmp_path, records)
    columns = {key: list(texts) for key, texts in spool.columns.items()}
    assert columns == {"a": ["1", "", "3"], "b": ["", "2", "4"]}
    assert len(spool.examples) == len(spool) == 3
