"""Tables of text: files with names of columns or none, divided by whatever, and data frames; which
column is the target.
"""

import gzip
from pathlib import Path
from time import perf_counter

import pytest

from incidence.data.columns import choose_targets, is_missing, read_parts, read_targets
from incidence.data.tables import (
    TextTable,
    _column_names,
    is_frame,
    join_parts,
    read_table,
    table_of,
)
from incidence.errors import IncidenceError, TooLargeError
from tests.little_memory import little_memory


def write(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_a_table_is_divided_by_what_its_first_line_has_most_of(tmp_path, name, mark):
    text = f'\ufeffname{mark}y\r\n\r\n"a{mark} b"{mark} 1.5 \r\nc{mark}\r\n'
    table = read_table(write(tmp_path / name, text))
    assert table.columns == {"name": [f"a{mark} b", "c"], "y": ["1.5", ""]}
    assert table.places == ["line 3", "line 4"]
    assert table.row(0) == {"name": f"a{mark} b", "y": "1.5"}
    assert table.only([1]).columns == {"name": ["c"], "y": [""]}
    assert len(table) == 2


def test_columns_without_names_are_numbered(tmp_path):
    table = read_table(
        write(tmp_path / "a.csv", "1,2\n3,4\n"),
        lambda first, others: first != ["1", "2"] or others != [["3", "4"]],
    )
    assert table.columns == {"column 1": ["1", "3"], "column 2": ["2", "4"]}
    assert table["2"] == ["2", "4"]
    assert read_table(write(tmp_path / "b.csv", ",y\n7,4\n")).columns == {
        "column 1": ["7"],
        "y": ["4"],
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "a.csv has no rows"),
        ("a,b\n", "a.csv has no rows"),
        ("a,b\n1,2\n\n1\n", "a.csv, line 4: there are 1 values for 2 columns"),
        ("a,a\n1,2\n", "two columns are called `a`"),
        ("a,b\n1,\0\n", "a.csv cannot be read .it has bytes that are 0.: get the file again"),
    ],
)
def test_tables_that_are_none_are_refused(tmp_path, text, problem):
    with pytest.raises(IncidenceError, match=problem):
        read_table(write(tmp_path / "a.csv", text))


def test_a_column_that_is_not_there_is_refused_with_one_that_is_meant(tmp_path):
    table = read_table(write(tmp_path / "a.csv", "rating,user\n1,2\n"))
    with pytest.raises(
        IncidenceError,
        match=r"has no column `ratings`; it has: rating, user\. Did you mean `rating`",
    ):
        table["ratings"]


def test_parts_of_a_table_are_joined():
    parts = {
        "train": TextTable("a", {"x": ["1", "2"]}, ["line 2", "line 3"]),
        "test": TextTable("b", {"x": ["3"]}, ["line 2"]),
    }
    whole = join_parts(parts)
    assert whole.columns == {"x": ["1", "2", "3"], "split": ["train", "train", "test"]}
    assert whole.places == ["line 2 of a", "line 3 of a", "line 2 of b"]
    with pytest.raises(IncidenceError, match="the same columns; `train` has x and `test` has y"):
        join_parts({**parts, "test": TextTable("b", {"y": ["3"]}, ["line 2"])})


def test_a_data_frame_is_a_table():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"id": [1, None, 3], "name": ["a ", None, "c"], 5: [0.25, float("nan"), 1e300]},
        index=["p", "q", "r"],
    )
    frame["flag"] = pandas.array([True, None, False], dtype="boolean")
    table = table_of(frame)
    assert is_frame(frame)
    assert not is_frame({"columns": 1})
    assert table.columns == {
        "id": ["1", "", "3"],
        "name": ["a", "", "c"],
        "5": ["0.25", "", str(int(1e300))],
        "flag": ["True", "", "False"],
    }
    assert table.places == ["row p", "row q", "row r"]
    with pytest.raises(IncidenceError, match="the DataFrame has no rows"):
        table_of(frame[:0])
    with pytest.raises(IncidenceError, match="the DataFrame has two columns `id`: rename one"):
        table_of(pandas.concat([frame[["id"]], frame[["id"]]], axis=1))


@pytest.mark.parametrize(
    ("columns", "chosen"),
    [
        ({"y": ["1", "2"]}, "y"),
        ({"kind": ["a", "a"]}, "kind"),
        ({"id": ["0", "1", "2"], "value": ["5", "5", "7"]}, "value"),
        ({"id": ["x", "y", "z"], "value": ["5", "", "7"]}, "value"),
        ({"note": ["x", "x", "z"], "value": ["5", "nan", "7"]}, "value"),
        ({"one": ["5", "6", "8"], "Label": ["5", "5", "7"]}, "Label"),
        ({"one": ["5", "6", "8"], "split": ["train", "test", "test"]}, "one"),
    ],
    ids=[
        "the only one",
        "text, too",
        "not a count",
        "not names",
        "the only numbers",
        "called so",
        "not the split",
    ],
)
def test_the_target_is_found_where_it_is_clear(columns, chosen):
    table = TextTable(
        "a.csv",
        {"used": ["1", "5", "1"][: len(next(iter(columns.values())))], **columns},
        ["line 2"] * 3,
    )
    assert choose_targets(table, (), ["used"]) == (chosen,)


SOURCES = {"source": ["a", "b", "a", "b"], "expt": ["1.5", "2", "3", "1"]}


def test_numbers_beside_words_are_the_target_of_molecules_but_may_be_features_of_nodes():
    table = TextTable("a.csv", SOURCES, [""] * 4)
    assert choose_targets(table, ()) == ("expt",)
    with pytest.raises(IncidenceError, match="could be any of: source, expt"):
        choose_targets(table, (), prefers_numbers=False)


@pytest.mark.parametrize("calc", [["1.5", "2.5", "3", "1"], ["0", "1", "0", "1"]])
def test_one_column_of_words_beside_several_of_numbers_is_not_taken_for_the_target(calc):
    with pytest.raises(IncidenceError, match="could be any of: source, expt, calc"):
        choose_targets(TextTable("a.csv", {**SOURCES, "calc": calc}, [""] * 4), ())


def test_numbers_of_rows_with_gaps_and_names_some_of_which_come_again_are_no_targets():
    numbers = [k for k in range(1, 62) if k != 17]
    names = [f"molecule {max(k, 3)}" for k in numbers]
    columns = {
        "num": [str(k) for k in numbers],
        "name": names,
        "p_np": [str(k % 2) for k in numbers],
    }
    assert choose_targets(TextTable("a.csv", columns, [""] * 60), ()) == ("p_np",)


@pytest.mark.parametrize(
    ("task", "prefix", "told"),
    [
        (None, "x", "they begin with 'x0.000'"),
        ("classification", "", "numbers are predicted as they are"),
    ],
)
def test_values_that_nearly_all_differ_are_no_classes(task, prefix, told):
    texts = [f"{prefix}{k / 7:.3f}" for k in range(50)]
    with pytest.raises(
        IncidenceError,
        match=f"the target `y` has 50 different values in 50 rows, too many to be classes; {told}",
    ):
        read_targets("a.csv", {"y": texts}, task)
    assert len(read_targets("a.csv", {"y": [*texts[:20], texts[0]]}, task)[0].names) == 20


@pytest.mark.parametrize(
    "texts",
    [
        [f"{k}%" for k in range(8)],
        [f"{k}.5 mM" for k in range(12)],
        [f"1.{k}00,5" for k in range(9)],
    ],
    ids=str,
)
def test_text_of_which_no_two_agree_is_no_class_unless_it_is_asked_for(texts):
    with pytest.raises(
        IncidenceError,
        match=(
            f"{len(texts)} different values in {len(texts)} rows, too many to be classes; they"
            " begin"
        ),
    ):
        read_targets("a.csv", {"y": texts})
    assert len(read_targets("a.csv", {"y": texts}, "classification")[0].names) == len(texts)
    assert len(read_targets("a.csv", {"y": texts[:7]})[0].names) == 7


@pytest.mark.parametrize("name", ["label", "Class", "category"])
def test_a_few_whole_numbers_are_classes_in_a_column_that_is_called_so(name):
    texts = [str(k % 4) for k in range(12)]
    assert read_targets("a.csv", {name: texts})[0].names == ("0", "1", "2", "3")
    assert read_targets("a.csv", {name: texts}, "regression")[0].kind == "regression"
    for other, values in (
        ("size", texts),
        (name, [*texts, "2.5"]),
        (name, [str(k) for k in range(12)]),
    ):
        assert read_targets("a.csv", {other: values})[0].kind == "regression"


def test_names_with_underscores_are_no_numbers():
    assert read_targets("a.csv", {"group": ["0_0", "1_1", "0_0", "1_1"]})[0].names == ("0_0", "1_1")


def test_masks_tell_the_parts_and_are_no_targets():
    columns = {
        "id": list("abcd"),
        "y": ["1", "2", "3", "4"],
        "train_mask": ["True", "1", "0", "false"],
        "Test_mask": ["", "no", "yes", "0"],
    }
    table = TextTable("a.csv", columns, [f"line {k}" for k in range(2, 6)])
    assert read_parts(table) == [0, 0, 2, -1]
    assert choose_targets(table, (), ["id"]) == ("y",)
    columns["Test_mask"] = ["", "no", "yes", "perhaps"]
    with pytest.raises(
        IncidenceError,
        match=r"a.csv, line 5: `Test_mask` says yes or no \(1 or 0, True or False\); got 'perhaps'",
    ):
        read_parts(table)
    columns["Test_mask"] = ["1", "0", "0", "0"]
    with pytest.raises(
        IncidenceError, match=r"a\.csv, line 2: the row is in two parts, by train_mask, Test_mask"
    ):
        read_parts(table)


def test_a_column_that_has_numbers_but_for_some_cells_is_named():
    columns = {"smiles": list("abcdef"), "logp": ["1.5", "2.5", ">2.5", "0.5", "3.5", "4.5"]}
    with pytest.raises(
        IncidenceError, match=r"\(`logp` has numbers, and text such as '>2.5'\)\. Say which column"
    ):
        choose_targets(TextTable("a.csv", columns, [""] * 6), (), ["smiles"])


@pytest.mark.parametrize("mark", [";", "\t"])
def test_decimal_commas_are_points_in_tables_that_are_not_divided_by_them(mark, tmp_path):
    rows = [
        ["name", "y", "z", "code"],
        ["a", "-1,5", "2", "1,2,3"],
        ["b", ",25", "1e-3", "4"],
        ["c", "", "7", "5"],
    ]
    path = write(tmp_path / "a.csv", "\n".join(map(mark.join, rows)))
    found = read_table(path)
    assert (list(found["y"]), list(found["z"]), list(found["code"])) == (
        ["-1.5", ".25", ""],
        ["2", "1e-3", "7"],
        ["1,2,3", "4", "5"],
    )


def test_several_targets_are_named_by_a_text_or_a_list():
    table = TextTable("a.csv", {"a": ["1"], "b": ["2"], "a,b": ["3"], "used": ["4"]}, ["line 2"])
    assert choose_targets(table, ("b, a",)) == ("b", "a")
    assert choose_targets(table, ("a,b",)) == ("a,b",)
    assert choose_targets(table, ("a", "a,b")) == ("a", "a,b")
    with pytest.raises(
        IncidenceError, match="the column `used` is no target, as it has another use"
    ):
        choose_targets(table, ("used",), ["used"])


def test_a_target_that_is_not_clear_is_asked_for():
    table = TextTable("a.csv", {"a": ["1", "3"], "b": ["2", "5"]}, ["line 2", "line 3"])
    with pytest.raises(
        IncidenceError,
        match=r"could be any of: a, b\. Say which column with `target`, or several: `target='a,b'",
    ):
        choose_targets(table, ())
    with pytest.raises(IncidenceError, match="what is to be predicted is none of: a, b"):
        choose_targets(table, (), ["a", "b"])


def test_a_table_that_unpacks_to_more_than_is_allowed_is_refused_before_it_does(
    tmp_path, monkeypatch
):
    path = write(tmp_path / "a.csv.gz", "a,b\n" + "1,2\n" * (1 << 22))
    monkeypatch.setenv("INCIDENCE_MAX_GB", "0.01")
    with (
        little_memory(),
        pytest.raises(TooLargeError, match=r"a\.csv\.gz, unpacked, would take at least 0\.01 GB"),
    ):
        read_table(path)


@pytest.mark.parametrize(
    ("texts", "mark", "expected"),
    [
        (["300", '"1,200"', '"12,500.5"'], ",", ["300", "1200", "12500.5"]),
        (["0", '"1,200"', '"-1,500"'], ",", ["0", "1200", "-1500"]),
        (["7", "1,200,000", "2,000"], ";", ["7", "1200000", "2000"]),
        (["300", "1,200", "1,500"], ";", ["300", "1.200", "1.500"]),
        (["0", '"0,125"', '"1,200"'], ",", ["0", "0.125", "1.200"]),
        (["a", '"1,200"', "b"], ",", ["a", "1,200", "b"]),
    ],
    ids=str,
)
def test_commas_in_numbers_make_thousands_where_they_can_mean_nothing_else_or_divide_columns(
    texts, mark, expected, tmp_path
):
    rows = ["\n".join(f"x{mark}{text}" for text in ("y", *texts))]
    assert list(read_table(write(tmp_path / "a.csv", rows[0]))["y"]) == expected


def test_an_index_that_pandas_wrote_is_left_out(tmp_path):
    assert read_table(write(tmp_path / "a.csv", ",u,v\n0,a,b\n1,b,c\n2,c,a\n")).columns == {
        "u": ["a", "b", "c"],
        "v": ["b", "c", "a"],
    }


def test_comments_are_left_out_of_what_is_no_table_by_its_name(tmp_path):
    text = "# Directed graph\n# a\tb\n% sym\n0\t1\n1\t2 # back\n"
    found = read_table(write(tmp_path / "a.txt", text), lambda first, others: False)
    assert (found.columns, found.places) == (
        {"column 1": ["0", "1"], "column 2": ["1", "2"]},
        ["line 4", "line 5"],
    )
    blanks = read_table(
        write(tmp_path / "b.edges", "# x\na b\nb c # d e\n"), lambda first, others: False
    )
    assert blanks.columns == {"column 1": ["a", "b"], "column 2": ["b", "c"]}
    assert list(read_table(write(tmp_path / "a.csv", "x,y\n#1,2\n%2,3\n"))["x"]) == ["#1", "%2"]


def test_double_colons_divide_lines(tmp_path):
    found = read_table(
        write(tmp_path / "ratings.dat", "1::10::5::99\n2::10::3::98\n"), lambda first, others: False
    )
    assert found.columns == {
        "column 1": ["1", "2"],
        "column 2": ["10", "10"],
        "column 3": ["5", "3"],
        "column 4": ["99", "98"],
    }


@pytest.mark.parametrize("text", ["N/A", "#N/A", "<NA>", "-", "?", "null", "NaN", ""])
def test_what_stands_for_nothing_is_missing(text):
    assert is_missing(text)


def test_the_names_of_many_columns_are_compared_in_no_time():
    class Wide:
        columns = tuple(range(50_000))

        def __len__(self) -> int:
            return 0

    began = perf_counter()
    assert len(_column_names(Path("a.csv"), list(map(str, Wide.columns)))) == 50_000
    with pytest.raises(IncidenceError, match="the DataFrame has no rows"):
        table_of(Wide())
    assert perf_counter() - began < 2


def test_quotes_that_windows_wrote_are_no_control_characters(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"name,smiles,y\n2\x92-PCB,C,1\n\xe9t\xe9,CC,2\n")
    (tmp_path / "b.csv").write_text("name,smiles,y\n2\x92-PCB,C,1\nété,CC,2\n")
    for name in ("a.csv", "b.csv"):
        assert read_table(tmp_path / name)["name"] == [
            "2\N{RIGHT SINGLE QUOTATION MARK}-PCB",
            "été",
        ]
