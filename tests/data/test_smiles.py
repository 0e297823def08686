"""Molecules with targets from tables, lines of SMILES and data frames: which columns they are, and
what is passed over.
"""

import gzip
import warnings

import pytest
import torch

from incidence.data import Task, load
from incidence.data.molecule_files import find_smiles, smiles_column
from incidence.data.molecules import features_of
from incidence.data.tables import TextTable
from incidence.errors import IncidenceError, options_as

pytest.importorskip("rdkit.Chem")

SMILES = ["CCO", "c1ccccc1", "CC(=O)O", "CCN", "CCCC"]
VALUES = ["-0.5", "1.5", "", "0.25", "2"]


def rows(*columns, mark=","):
    return "".join(mark.join(row) + "\n" for row in zip(*columns, strict=True))


NAMES = ["ethanol", "benzene", "acid", "amine", "butane"]
FILES = {
    "a table": ("a.csv", "smiles,expt\n" + rows(SMILES, VALUES)),
    "a compressed table": ("a.csv.gz", "smiles,expt\n" + rows(SMILES, VALUES)),
    "other names and columns": (
        "a.tsv",
        "iupac\tSMILES\texpt\n" + rows(NAMES, SMILES, VALUES, mark="\t"),
    ),
    "a name that says nothing": ("a.csv", "what,expt\n" + rows(SMILES, VALUES)),
    "no names": ("a.csv", rows(SMILES, VALUES)),
    "lines with a header": (
        "a.smi",
        "smiles name expt\n" + rows(SMILES, NAMES, [v or "nan" for v in VALUES], mark=" "),
    ),
    "lines with none": ("a.smi", rows(SMILES, NAMES, [v or "nan" for v in VALUES], mark=" ")),
    "lines with tabs": ("a.smi", rows(SMILES, VALUES, mark="\t")),
}


def write(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def assert_read(data, target="expt"):
    assert (data.task.kind, data.task.names, data.reader) == ("regression", (target,), "molecule")
    assert [example.replace(target=None) for example in data.examples] == [
        features_of(text) for text in SMILES
    ]
    values = torch.cat([example.target for example in data.examples])
    assert values.nan_to_num(9).tolist() == [-0.5, 1.5, 9, 0.25, 2]


@pytest.mark.parametrize(("name", "text"), FILES.values(), ids=FILES)
def test_molecules_and_targets_are_found_in_a_file(tmp_path, name, text):
    target = {"no names": "column 2", "lines with none": "column 3", "lines with tabs": "column 2"}
    data = load(write(tmp_path / name, text))
    assert_read(
        data, next((found for key, found in target.items() if FILES[key] == (name, text)), "expt")
    )
    assert data.names[1] == f"{name}:2 c1ccccc1"
    assert data.passed_over == ()


def test_a_data_frame_of_smiles_is_a_data_set():
    pandas = pytest.importorskip("pandas")
    data = load(
        pandas.DataFrame({"smiles": SMILES, "iupac": NAMES, "expt": [-0.5, 1.5, None, 0.25, 2]}),
        validation=0.25,
    )
    assert_read(data)
    assert data.columns == {"smiles": SMILES, "iupac": NAMES}
    assert load({"mine": pandas.DataFrame({"smiles": SMILES, "expt": VALUES})}).task.names == (
        "expt",
    )


def test_columns_may_be_said(tmp_path):
    path = write(tmp_path / "a.csv", "one,two,y,z\n" + rows(SMILES, SMILES[::-1], VALUES, VALUES))
    data = load(path, "y,z", smiles="two")
    assert data.examples[0].replace(target=None) == features_of(SMILES[-1])
    assert data.task.names == ("y", "z")
    assert data.columns == {"one": SMILES, "two": SMILES[::-1]}
    with pytest.raises(
        IncidenceError,
        match=r"SMILES is not clear, it could be any of: one, two\. Say which with `smiles`",
    ):
        load(path, "y")
    with pytest.raises(IncidenceError, match="has no column `three`; it has: one, two, y, z"):
        load(path, "y", smiles="three")


def test_a_column_of_the_right_name_is_preferred():
    table = TextTable("a", {"canonical_smiles": ["C"], "smiles": ["CC"], "x": ["CCC"]}, ["line 2"])
    assert smiles_column(table) == "smiles"
    assert find_smiles(TextTable("a", {"mol": ["C"], "x": ["CCC"]}, ["line 2"])) == ["mol"]
    assert (
        find_smiles(
            TextTable("a", {"user": ["1", "2"], "movie": ["Jaws", "Heat"]}, ["line 2", "line 3"])
        )
        == []
    )


def test_parts_are_read_from_a_column_or_from_names_of_files(tmp_path):
    parts = ["train", "train", "test", "valid", ""]
    data = load(write(tmp_path / "a.csv", "smiles,y,split\n" + rows(SMILES, VALUES, parts)))
    assert [part.tolist() for part in data.split()] == [[0, 1], [3], [2]]
    (tmp_path / "parts").mkdir()
    for name in ("train", "test"):
        write(tmp_path / "parts" / f"{name}.csv", "smiles,y\n" + rows(SMILES, VALUES))
    data = load(tmp_path / "parts")
    assert [len(part) for part in data.split()] == [5, 0, 5]
    assert data.name == "parts"


def test_what_rdkit_cannot_read_is_named_with_its_line_counted_and_passed_over(tmp_path):
    path = write(tmp_path / "a.csv", "smiles,y\n" + rows(["CC", "C(", "CO", "", "CN"], VALUES))
    with pytest.warns(
        UserWarning,
        match=(
            r"(?s)a: skipped 2 of 5 records.*line 3: RDKit cannot read the SMILES 'C\('.*line 5:"
            r" there is no SMILES"
        ),
    ):
        data = load(path)
    assert torch.cat([example.target for example in data.examples]).nan_to_num(9).tolist() == [
        -0.5,
        9,
        2,
    ]
    assert "line 3" in data.passed_over[0]
    assert data.names == ["a.csv:1 CC", "a.csv:3 CO", "a.csv:5 CN"]
    assert data.columns == {"smiles": ["CC", "CO", "CN"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(data)  # is told once


def test_many_that_are_passed_over_are_told_in_a_few_lines(tmp_path):
    path = write(
        tmp_path / "a.csv",
        "smiles,y\n" + rows(["C("] * 7 + ["C"] * 8, [str(k % 3) for k in range(15)]),
    )
    with pytest.warns(
        UserWarning,
        match=r"(?s)skipped 7 of 15 records.*line 6.*and 2 more, all in `data.passed_over`",
    ):
        load(path)


def test_a_file_of_which_most_cannot_be_read_is_refused(tmp_path):
    path = write(
        tmp_path / "a.csv", "smiles,y\n" + rows(["ethanol", "benzene", "C"], ["1", "2", "3"])
    )
    with pytest.raises(
        IncidenceError,
        match=(
            r"2 of 3 records cannot be read, so this is hardly the right file or column. The first:"
            r" .*line 2"
        ),
    ):
        load(path)


def test_yes_and_no_are_classes_and_several_of_them_are_labels(tmp_path):
    path = write(
        tmp_path / "a.csv",
        "smiles,p,q\n" + rows(SMILES, ["1", "0", "", "1", "0"], ["1", "0", "1", "1", "0"]),
    )
    data = load(path, "p")
    assert (data.task.kind, data.task.names, [int(e.target) for e in data.examples]) == (
        "classification",
        ("0", "1"),
        [1, 0, -1, 1, 0],
    )
    assert load(path, "p", task="regression").task.kind == "regression"
    for asked in (None, "classification", "multilabel"):
        several = load(path, ["p", "q"], task=asked)
        assert (several.task, several.metric) == (Task("multilabel", ("p", "q")), "auc")
        assert torch.equal(several.examples[2].target.nan_to_num(-1), torch.tensor([-1.0, 1.0]))
    assert load(path).task == several.task  # what else could they be
    assert load(path, ["p", "q"], task="regression").task.kind == "regression"


@pytest.mark.parametrize(
    "words", [("no", "yes"), ("False", "True"), ("0.0", "1.0"), ("Inactive", "active")]
)
def test_labels_are_said_in_several_ways(tmp_path, words):
    no, yes = words
    path = write(
        tmp_path / "a.csv",
        "smiles,p,q\n" + rows(SMILES, [yes, no, "nan", yes, no], [yes, no, yes, yes, no]),
    )
    assert load(path).task == Task("multilabel", ("p", "q"))
    assert load(path).examples[0].target.tolist() == [1.0, 1.0]


def test_labels_are_zero_or_one(tmp_path):
    path = write(
        tmp_path / "a.csv", "smiles,p,q\n" + rows(SMILES, ["0", "1", "0", "1", "2"], VALUES)
    )
    with pytest.raises(
        IncidenceError, match=r"the target `p` is for labels 0 or 1, or no or yes; got '2'"
    ):
        load(path, "p", task="multilabel")
    with pytest.raises(
        IncidenceError, match=r"classes, which are predicted alone: give `target='p'`"
    ):
        load(path, ["p", "q"], task="classification")
    with (
        options_as("command"),
        pytest.raises(
            IncidenceError, match="classes, which are predicted alone: give --target p or"
        ),
    ):
        load(path, ["p", "q"], task="classification")


def test_names_of_one_or_two_letters_are_no_molecules_unless_they_are_called_so(tmp_path):
    rows = "".join(f"{'BCNOFPSI'[k % 8]},m{k % 5},{k % 4 + 1}\n" for k in range(40))
    (tmp_path / "ratings.csv").write_text("user,movie,rating\n" + rows)
    assert load(tmp_path / "ratings.csv").reader == "ratings"
    (tmp_path / "atoms.csv").write_text("molecule,y\nC,1.5\nCC,2.5\nN,3\nO,5\n")
    assert load(tmp_path / "atoms.csv").reader == "molecule"


def test_the_reader_gets_its_options(tmp_path):
    path = write(tmp_path / "a.csv", "smiles,y\n" + rows(SMILES, VALUES))
    data = load(path, hydrogens="keep")
    assert data.reader_options == {"hydrogens": "keep"}
    with pytest.raises(IncidenceError, match="the reader 'molecule' has no option `hydrogen`"):
        load(path, hydrogen="keep")


def test_rows_without_a_target_are_in_no_part_that_is_drawn(tmp_path):
    path = write(tmp_path / "a.csv", "smiles,y\n" + rows(SMILES * 4, ["1", "2", "", "3", ""] * 4))
    data = load(path)
    assert sorted(torch.cat(list(data.split())).tolist()) == [
        k for k in range(20) if k % 5 not in (2, 4)
    ]
    assert data.others(data.split()).tolist() == [k for k in range(20) if k % 5 in (2, 4)]
    assert len(data.rest(data.split())) == 8


def test_a_column_with_one_value_throughout_is_no_target_if_there_is_another(tmp_path):
    text = "smiles,expt,source\n" + rows(SMILES, VALUES, ["lab"] * 5)
    assert_read(load(write(tmp_path / "a.csv", text)))
    with pytest.raises(
        IncidenceError,
        match=(
            r"could be any of: expt, other\. Say which column with `target`, or several:"
            r" `target='expt,other'`"
        ),
    ):
        load(
            write(
                tmp_path / "b.csv",
                "smiles,expt,other,source\n" + rows(SMILES, VALUES, VALUES, ["lab"] * 5),
            )
        )
