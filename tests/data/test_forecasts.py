"""Databases: keys found by name, columns by kind, and examples that read nothing later."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing

import pytest
import torch

import incidence as inc
from incidence.data.database import Database, find_keys, tables_from
from incidence.data.row_encoding import Encoding, encoding_of
from incidence.data.tables import TextTable
from incidence.errors import IncidenceError

DAYS = [f"2020-{1 + k // 28:02}-{1 + k % 28:02}" for k in range(84)]


def write(folder, name, header, rows):
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


@pytest.fixture
def shop(tmp_path):
    """Customers, products and shops; orders join all three; the task is about customers."""
    folder = tmp_path / "shop"
    folder.mkdir()
    write(folder, "customers", "id,city", [(k, ("Rome", "Bonn")[k % 2]) for k in range(6)])
    write(folder, "products", "product_id,price", [(f"p{k}", 1.5 * k) for k in range(4)])
    write(folder, "shops", "shopId,name", [(k, f"shop {k}") for k in range(3)])
    orders = [
        (k, k % 6, f"p{k * k % 4}", k % 3, DAYS[k], k % 7, ("cash", "card")[k % 2])
        for k in range(84)
    ]
    write(folder, "orders", "order_id,customer_id,product_id,shopId,date,amount,paid", orders)
    write(
        folder,
        "visits",
        "customer_id,shopId,date,minutes",
        [(k % 6, k % 3, DAYS[k], k) for k in range(0, 84, 2)],
    )
    task = [(k % 6, DAYS[k], int(k % 7 > 3)) for k in range(20, 84)]
    write(tmp_path, "task", "customer_id,when,buys", task)
    return tmp_path


def loaded(folder, **options):
    return inc.data.load(folder / "shop", task_table=folder / "task.csv", **options)


def test_keys_follow_from_names_and_values(shop):
    base = find_keys("shop", tables_from(shop / "shop"))
    assert {name: one.primary for name, one in base.tables.items()} == {
        "customers": "id",
        "products": "product_id",
        "shops": "shopId",
        "orders": "order_id",
        "visits": "",
    }
    assert base.tables["orders"].foreign == {
        "customer_id": "customers",
        "product_id": "products",
        "shopId": "shops",
    }
    assert base.tables["orders"].time == base.tables["visits"].time == "date"
    assert "orders: 84 rows, key order_id, customer_id -> customers" in repr(base)
    assert isinstance(base, Database)


def test_keys_and_times_may_be_given(shop):
    (shop / "shop" / "visits.csv").write_text("who,place,on\n1,2,2020-01-05\n2,0,2020-01-07\n")
    keys = ["visits.who=customers", "visits.place=shops"]
    base = find_keys("shop", tables_from(shop / "shop"), keys, {"visits": "on"})
    assert base.tables["visits"].foreign == {"who": "customers", "place": "shops"}
    assert base.tables["visits"].time == "on"
    with pytest.raises(IncidenceError, match=r"given as in orders\.customer=customers"):
        find_keys("shop", tables_from(shop / "shop"), ["visits.whom=customers"])


def test_a_table_with_three_foreign_keys_has_faces_of_three_sorts(shop):
    data = loaded(shop)
    patterns = [str(p) for p in data.examples[-1].structure.patterns]
    assert "orders=a:customers b:products c:shops" in patterns
    assert "visits=a:customers c:shops" in patterns
    assert data.metric == "auc"
    assert data.columns["when"][0] == DAYS[20]
    assert len({tuple(one.features) for one in data.examples}) == 1


def test_no_row_later_than_its_time_is_ever_read(shop):
    """Everything after a time is poisoned: no example up to that time changes."""
    before = loaded(shop)
    cut = DAYS[50]
    for name in ("orders", "visits"):
        path = shop / "shop" / f"{name}.csv"
        head, *lines = path.read_text().splitlines()
        place = head.split(",").index("date")
        kept = [line for line in lines if line.split(",")[place] <= cut]
        later = [line for line in lines if line.split(",")[place] > cut]
        poison = [
            ",".join(
                ["9999" if w.isdecimal() and k > 4 else w for k, w in enumerate(line.split(","))]
            )
            for line in later
        ]
        poison = [line.replace("cash", "gold").replace("card", "gold") for line in poison]
        extra = [line.replace("2020-", "2021-") for line in later]
        numbered = [f"9{line}" if name == "orders" else line for line in extra]
        path.write_text("\n".join([head, *kept, *poison[::2], *numbered]) + "\n")
    rows = [k for k, when in enumerate(before.columns["when"]) if when <= cut]
    train = torch.tensor(rows[:20])
    assert len(rows) > 25
    split = ["train" if k in train.tolist() else "test" for k in range(len(before.examples))]
    task = (shop / "task.csv").read_text().splitlines()
    write(
        shop,
        "parted",
        f"{task[0]},split",
        [(*line.split(","), part) for line, part in zip(task[1:], split, strict=True)],
    )
    poisoned = inc.data.load(shop / "shop", task_table=shop / "parted.csv")
    # the clean tables, with the same parts
    for name, text in clean_texts(shop).items():
        (shop / "shop" / f"{name}.csv").write_text(text)
    clean = inc.data.load(shop / "shop", task_table=shop / "parted.csv")
    assert clean.reader_options["encodings"] == poisoned.reader_options["encodings"]
    for row in rows:
        ours, theirs = clean.examples[row], poisoned.examples[row]
        assert ours.structure == theirs.structure
        for key, x in ours.features.items():
            assert torch.equal(x, theirs.features[key]), key
    late = [k for k in range(len(before.examples)) if k not in rows]
    differ = [not same(clean.examples[k], poisoned.examples[k]) for k in late]
    assert any(differ)  # the poison is there


def same(one, other):
    if one.structure != other.structure:
        return False
    return all(torch.equal(x, other.features[key]) for key, x in one.features.items())


def clean_texts(folder):
    orders = [
        (k, k % 6, f"p{k * k % 4}", k % 3, DAYS[k], k % 7, ("cash", "card")[k % 2])
        for k in range(84)
    ]
    visits = [(k % 6, k % 3, DAYS[k], k) for k in range(0, 84, 2)]
    heads = {
        "orders": ("order_id,customer_id,product_id,shopId,date,amount,paid", orders),
        "visits": ("customer_id,shopId,date,minutes", visits),
    }
    return {
        name: "\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n"
        for name, (head, rows) in heads.items()
    }


def test_rows_at_the_time_itself_are_read_and_later_ones_are_not(shop):
    write(
        shop,
        "task",
        "customer_id,when,buys",
        [(0, DAYS[11], 0), (0, DAYS[12], 1), (1, DAYS[30], 0), (2, DAYS[40], 1)],
    )
    data = loaded(shop, latest=50)
    counts = [one.structure.num_entries("orders") for one in data.examples[:2]]
    sizes = [
        float(x.features["orders=a:customers b:products c:shops"][:, -1].expm1().sum())
        for x in data.examples[:2]
    ]
    assert sizes == pytest.approx([2.0, 3.0])  # orders 0 and 6; and 12
    assert counts[0] <= counts[1]


def test_nothing_after_until_is_read_whatever_the_time(shop):
    limited = loaded(shop, until=DAYS[30])
    last = limited.examples[-1].features["orders=a:customers b:products c:shops"]
    earlier = loaded(shop).examples[12].features["orders=a:customers b:products c:shops"]
    assert len(last) <= len(earlier) + 2
    with pytest.raises(IncidenceError, match="`until` is a date such as 2010-01-01; got 'soon'"):
        loaded(shop, until="soon")


def test_sqlite_frames_and_folders_give_the_same_examples(shop):
    pandas = pytest.importorskip("pandas")
    folder = loaded(shop)
    frames = {path.stem: pandas.read_csv(path) for path in (shop / "shop").iterdir()}
    with closing(sqlite3.connect(shop / "shop.sqlite")) as base:
        for name, frame in frames.items():
            frame.to_sql(name, base, index=False)
        base.commit()
    task = pandas.read_csv(shop / "task.csv")
    for what in (shop / "shop.sqlite", frames):
        data = inc.data.load(what, task_table=task)
        assert all(map(same, folder.examples, data.examples))
    (shop / "bad.sqlite").write_bytes(b"SQLite format 3 nothing else")
    with pytest.raises(IncidenceError, match="cannot be read as a SQLite database"):
        inc.data.load(shop / "bad.sqlite", task_table=task)
    with pytest.raises(IncidenceError, match=r"task_table='task\.csv'"):
        inc.data.load(shop / "shop.sqlite")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the pinned DuckDB needs Python 3.11")
def test_a_duckdb_file_gives_the_examples_of_the_folder(shop):
    """Dates, numbers and texts have types there, and rows come in any order of tables."""
    import duckdb

    with closing(duckdb.connect(str(shop / "shop.duckdb"))) as base:
        for path in sorted((shop / "shop").iterdir(), reverse=True):
            base.execute(f"create table {path.stem} as select * from read_csv('{path}')")
        types = dict(base.execute("select column_name, data_type from duckdb_columns()").fetchall())
        assert (types["date"], types["amount"]) == ("DATE", "BIGINT")
    data = inc.data.load(shop / "shop.duckdb", task_table=shop / "task.csv")
    folder = loaded(shop)
    assert data.columns == folder.columns
    assert len(data.examples) == len(folder.examples)
    assert all(map(same, folder.examples, data.examples))
    (shop / "bad.duckdb").write_bytes(b"no database at all")
    with pytest.raises(IncidenceError, match="cannot be read as a DuckDB database"):
        inc.data.load(shop / "bad.duckdb", task_table=shop / "task.csv")


def test_a_duckdb_file_names_the_extra_that_reads_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    (tmp_path / "shop.duckdb").write_bytes(b"")
    with pytest.raises(IncidenceError, match=r"pip install 'incidence\[duckdb\]'"):
        tables_from(tmp_path / "shop.duckdb")


def test_columns_are_encoded_by_kind():
    assert encoding_of("status_id", ["1", "2", "1", "3"]).kind == "category"
    assert encoding_of("x", ["1.5", "", "3"]).kind == "number"
    assert encoding_of("born", ["1985-01-07", "1990-02-03", ""]).kind == "date"
    words = [f"{k} green bottles" for k in range(300)]
    assert encoding_of("note", words).kind == "text"
    assert encoding_of("same", ["a", "a", ""]) is None
    number = encoding_of("x", ["1", "3", ""])
    assert number.features(["3", "", "1e9"]).tolist() == [[1.0, 0.0], [0.0, 1.0], [10.0, 0.0]]
    colour = encoding_of("c", ["red", "red", "blue"])
    assert colour.features(["blue", "green"]).tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    text = encoding_of("note", words)
    assert text.features(["a a b"]).shape == (1, text.width)
    assert Encoding.from_plain(text.plain()) == text
    with pytest.raises(IncidenceError, match="columns of a database is damaged"):
        Encoding.from_plain({"name": "x"})


@pytest.mark.parametrize(
    ("header", "row", "problem"),
    [
        ("customer_id,buys", "1,0", "a task table has one column with the key of an entity"),
        ("who,when,buys", "1,2020-01-05,0", "a task table has one column with the key"),
        ("customer_id,when,buys", "1,,0", "the time is missing"),
    ],
)
def test_task_tables_that_do_not_fit_are_refused(header, row, problem, shop):
    rows = [row, *(f"{k},2020-01-{10 + k},{k % 2}" for k in range(2, 6))]
    if header.count(",") == 1:
        rows = [",".join(one.split(",")[::2]) for one in rows[1:]]
    (shop / "task.csv").write_text("\n".join([header, *rows]) + "\n")
    with pytest.raises(IncidenceError, match=problem):
        loaded(shop)


def test_options_and_tables_that_do_not_fit_are_refused(shop, tmp_path):
    with pytest.raises(IncidenceError, match=r"no option `folds`: it takes task_table"):
        loaded(shop, folds=3)
    with pytest.raises(IncidenceError, match="there is no task table"):
        inc.data.load(shop / "shop", task_table=shop / "tasks.csv")
    with pytest.raises(IncidenceError, match=r"names of their parts, as dnf\.train\.csv"):
        inc.data.load(shop / "shop", task_table=[shop / "task.csv", shop / "task.csv"])
    alone = {"a": TextTable("a", {"x": ["1"]}, ["line 2"])}
    with pytest.raises(IncidenceError, match=r"keys='orders\.customer=customers'"):
        find_keys("a", alone)
    (tmp_path / "none").mkdir()
    with pytest.raises(IncidenceError, match="has no tables"):
        tables_from(tmp_path / "none")


def test_a_model_predicts_for_new_rows_of_entities_and_times(shop, tmp_path):
    options = {"epochs": 1, "hidden": 4, "out": str(tmp_path / "run")}
    data = loaded(shop)
    inc.train.train(options, data)
    write(tmp_path, "new", "customer_id,when", [(1, DAYS[60]), (77, DAYS[60])])
    model = inc.load(tmp_path / "run")
    path = tmp_path / "new.csv"
    with pytest.warns(UserWarning, match=r"1 of `customer_id` are no rows of .*`customers` \(77\)"):
        found = model.predict(path)
    assert found.names == [f"{path} 1 {DAYS[60]}", f"{path} 77 {DAYS[60]}"]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"customer_id": [1], "when": [DAYS[60]]}, index=["x"])
    table = model.predict(frame).to_frame()
    assert table.index.tolist() == ["x"]
    torch.testing.assert_close(model.predict(frame).values, found.values[:1])
    unknown = pandas.DataFrame({"customer_id": ["c1", "c2"], "when": [DAYS[60]] * 2})
    with pytest.raises(IncidenceError, match="no `customer_id` is a row of the table `customers`"):
        model.predict(unknown)
    (shop / "shop").rename(shop / "moved")
    with pytest.raises(IncidenceError, match="is not there: predictions read the latest rows"):
        model.predict(frame)


def test_a_row_that_an_earlier_row_refers_to_is_not_read_before_its_time(tmp_path):
    """A ticket is bought before its show is announced: what the show is stays unknown."""
    base = tmp_path / "base"
    base.mkdir()
    write(base, "people", "id,city", [(k, "ab"[k % 2]) for k in range(4)])
    write(base, "halls", "hall_id,seats", [(k, 100 * k) for k in range(3)])
    write(base, "tickets", "person_id,show_id,date", [(k % 4, k, DAYS[k]) for k in range(40)])
    task = [(k % 4, DAYS[k], k % 2) for k in range(10, 40)]
    write(tmp_path, "task", "person_id,date,comes", task)
    found = []
    for fame in (1, 1000):
        shows = [(k, (k * fame) % 3, DAYS[k + 1], k * fame) for k in range(40)]
        write(base, "shows", "show_id,hall_id,date,fame", shows)
        keys = ["tickets.person_id=people"]
        options = {"task_table": tmp_path / "task.csv", "keys": keys, "latest": 1}
        found.append(inc.data.load(base, **options))
    for one, other in zip(*(data.examples for data in found), strict=True):
        [shows] = [key for key in one.features if key.endswith(":shows") and "=" not in key]
        assert one.features[shows].abs().sum() == 0
        assert torch.equal(one.features[shows], other.features[shows])
        joined = [str(p) for p in one.structure.patterns if str(p).startswith("shows=")]
        assert [one.structure.num_entries(key) for key in joined] == [0]
