"""Parquet and Arrow files are read wherever CSV is read."""

from __future__ import annotations

import datetime

import pytest

import incidence as inc
from incidence.data.tables import read_table, table_of
from incidence.errors import IncidenceError

arrow = pytest.importorskip("pyarrow")
SUFFIXES = (".parquet", ".pq", ".feather", ".arrow")


def write(path, columns):
    import pyarrow.feather
    import pyarrow.parquet

    table = arrow.table(columns)
    if path.suffix in (".parquet", ".pq"):
        pyarrow.parquet.write_table(table, path)
    else:
        pyarrow.feather.write_feather(table, str(path))
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_has_the_same_texts_as_its_frame(suffix, tmp_path):
    pandas = pytest.importorskip("pandas")
    columns = {
        "n": [1, None, 3],
        "x": [0.5, 2.0, None],
        "s": ["a", None, " b "],
        "d": [datetime.date(2024, 5, 31), None, datetime.date(2024, 6, 1)],
        "b": [True, False, None],
    }
    found = read_table(write(tmp_path / f"t{suffix}", columns))
    assert found.columns == table_of(pandas.DataFrame(columns, dtype=object)).columns
    assert found.columns["d"] == ["2024-05-31", "", "2024-06-01"]
    assert found.has_names


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_molecules_ratings_links_and_triples_are_read(suffix, tmp_path):
    smiles = ["C" * k + "O" for k in range(1, 9)]
    mols = write(tmp_path / f"m{suffix}", {"smiles": smiles, "y": [float(k) for k in range(8)]})
    assert inc.data.load(mols).reader == "molecule"
    pairs = {
        "user": [f"u{k % 5}" for k in range(20)],
        "movie": [f"m{k // 5}" for k in range(20)],
    }
    rated = write(tmp_path / f"r{suffix}", {**pairs, "rating": [k % 5 for k in range(20)]})
    assert inc.data.load(rated).reader == "ratings"
    edges = write(tmp_path / f"e{suffix}", {"source": list("abcd"), "target": list("bcde")})
    assert inc.data.load(edges, task="links").reader == "links"
    facts = {"head": list("abcd"), "relation": list("xxyy"), "tail": list("bcda")}
    triples = write(tmp_path / f"f{suffix}", facts)
    assert inc.data.load(triples, task="links").reader == "triples"


def test_damaged_and_nested_files_are_refused(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(IncidenceError, match=r"a\.parquet cannot be read as Parquet or Arrow"):
        read_table(tmp_path / "a.parquet")
    nested = write(tmp_path / "b.parquet", {"x": [[1], [2, 3]]})
    with pytest.raises(IncidenceError, match=r"column `x` has lists or structs"):
        read_table(nested)
    with pytest.raises(IncidenceError, match=r"has no rows"):
        read_table(write(tmp_path / "c.parquet", {"x": []}))
