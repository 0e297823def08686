"""Reading for shards holds few examples at a time, and writes the shards of all of them at once."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import incidence as inc
from incidence.data.spool import PackedTexts, RecordSpool
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


@pytest.mark.filterwarnings("ignore:.*skipped 1 of 50 records")
@pytest.mark.parametrize(
    ("name", "write"), [("m.csv", table), ("m.smi", list_of_smiles), ("m.sdf", sdf)], ids=str
)
def test_shards_are_those_of_all_examples_at_once(name, write, tmp_path, monkeypatch):
    monkeypatch.setattr("incidence.data.spool._PIECE", 7)
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
