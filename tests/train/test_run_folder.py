"""Tables of a run, as programs that open them see them."""

import csv
import io
import re
from pathlib import Path

import pytest

import incidence
from incidence.train.run_folder import csv_text


@pytest.mark.parametrize(
    "cell", ["=1+1", "+A1", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", " =1", '=HYPERLINK("a","b")']
)
def test_no_cell_of_a_table_is_a_formula(cell):
    [[name, value]] = csv.reader(io.StringIO(csv_text([[cell, "2"]]), newline=""))
    assert (name, value) == (f"'{cell}", "2")


@pytest.mark.parametrize("cell", ["-1.5", "+2", "-1e-07", "-inf", "C=O", "a-b", "", "nan", "[O-]C"])
def test_numbers_and_other_texts_stand_in_a_table_as_they_are(cell):
    assert csv_text([[cell, 3]]) == f"{cell},3\n"


def test_a_cell_with_a_carriage_return_stays_one_cell():
    assert list(csv.reader(io.StringIO(csv_text([["a\r=1", "\r=1"]]), newline=""))) == [
        ["a =1", "' =1"]
    ]


def test_every_table_of_the_package_is_written_in_that_way():
    package = Path(incidence.__file__).parent
    writers = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"csv\.(Dict)?[wW]riter|to_csv", path.read_text())
    }
    assert writers == {"train/run_folder.py"}


def test_control_characters_do_not_reach_tables():
    assert (
        csv_text([["2\x92-PCB", "a\x07b\x7fc", 3]])
        == "2\N{RIGHT SINGLE QUOTATION MARK}-PCB,a b c,3\n"
    )
