"""The user's own data: every layout, and what is said about data that does not fit."""

import pytest
import torch

import incidence as inc
from incidence.data import READERS, Reader, Record, load, reader
from incidence.errors import IncidenceError
from incidence.geometry.convert.sdf import Molecule, read_sdf, write_sdf


def edges(folder, name, n):
    """A path of n nodes."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{k} {k + 1}\n" for k in range(n - 1)))
    return path


def table(folder, text, count=4):
    for k in range(count):
        edges(folder, f"g{k}.edges", k + 2)
    (folder / "targets.csv").write_text(text)
    return folder


def read_molecules(path, errors):
    """A small reader of SDF files, in place of the one for molecules."""
    for number, molecule in enumerate(read_sdf(path, errors)):
        example = molecule.example()
        features = {key: example.features[key].float() for key in ("i", "{i j}")}
        yield Record(
            f"{path.name} {number}",
            inc.Example(example.structure, features),
            properties=molecule.properties,
        )


SDF = Reader((".sdf", ".sdf.gz"), read_molecules)


@pytest.fixture
def sdf_reader(monkeypatch):
    for key in [key for key in READERS if ".sdf" in reader(key).suffixes]:
        monkeypatch.delitem(READERS, key)
    monkeypatch.setitem(READERS, "small", SDF)


def molecules(path, values, name="SOL"):
    chem = pytest.importorskip("rdkit.Chem")

    def one(k, value):
        properties = {"other": str(k), **({} if value is None else {name: value})}
        return Molecule(f"m{k}", chem.MolFromSmiles("CC"), properties)

    path.parent.mkdir(parents=True, exist_ok=True)
    write_sdf([one(k, value) for k, value in enumerate(values)], path)
    return path


# ---- tables


def test_a_table_of_numbers_is_regression(tmp_path):
    data = load(table(tmp_path, "file,y\ng0.edges,1.5\ng1.edges,\ng2.edges,nan\ng3.edges,-2\n"))
    assert (data.task.kind, data.task.names, data.reader, data.metric) == (
        "regression",
        ("y",),
        "graph",
        "rmse",
    )
    assert [example.structure.num_nodes for example in data.examples] == [2, 3, 4, 5]
    targets = torch.stack([example.target for example in data.examples])
    assert torch.equal(targets[[0, 3]], torch.tensor([[1.5], [-2.0]]))
    assert bool(targets[1:3].isnan().all())
    assert data.name == tmp_path.name


def test_several_columns_are_several_numbers_and_one_may_be_chosen(tmp_path):
    table(tmp_path, "file,a,b\ng0.edges,1,10\ng1.edges,2,20\n")
    assert load(tmp_path).examples[1].target.tolist() == [2, 20]
    assert load(tmp_path, target="b").examples[1].target.tolist() == [20]
    assert load(tmp_path, target=["b", "a"]).examples[1].target.tolist() == [20, 2]


def test_text_is_classes_and_so_are_numbers_if_asked(tmp_path):
    table(tmp_path, "file,kind,n\ng0.edges,ring,10\ng1.edges,chain,9\ng2.edges,,10\n")
    data = load(tmp_path, target="kind")
    assert (data.task.kind, data.task.names, data.metric) == (
        "classification",
        ("chain", "ring"),
        "accuracy",
    )
    assert [int(example.target) for example in data.examples] == [1, 0, -1]
    data = load(tmp_path, target="n", task="classification")
    assert data.task.names == ("9", "10")
    assert [int(example.target) for example in data.examples] == [1, 0, 1]


def test_the_split_column_is_kept(tmp_path):
    table(
        tmp_path,
        "file,y,split\ng0.edges,1,train\ng1.edges,2,Test\ng2.edges,3,val\ng3.edges,4,train\n",
    )
    assert [part.tolist() for part in load(tmp_path).splits[0]] == [[0, 3], [2], [1]]


def test_validation_is_taken_from_training_if_asked(tmp_path):
    rows = "".join(f"g{k}.edges,{k},{'test' if k > 7 else 'train'}\n" for k in range(10))
    split = load(table(tmp_path, f"file,y,split\n{rows}", 10), validation=0.25).splits[0]
    assert [len(part) for part in split] == [6, 2, 2]
    assert split.test.tolist() == [8, 9]


def test_a_share_for_validation_is_honoured_where_the_split_is_by_chance(tmp_path):
    table(tmp_path, "file,y\n" + "".join(f"g{k}.edges,{k}\n" for k in range(20)), 20)
    assert [len(part) for part in load(tmp_path, validation=0.5).splits[0]] == [9, 9, 2]
    assert [len(part) for part in load(tmp_path, validation=0.0).splits[0]] == [18, 0, 2]
    path = saved(tmp_path / "a.npz", [0, 1] * 10)
    assert [len(part) for part in load(path, validation=0.5).splits[0]] == [9, 9, 2]


def test_a_share_for_validation_is_refused_where_that_part_is_told(tmp_path):
    table(
        tmp_path,
        "file,y,split\ng0.edges,1,train\ng1.edges,2,test\ng2.edges,3,val\ng3.edges,4,train\n",
    )
    with pytest.raises(
        IncidenceError,
        match="has a validation part, so none is drawn: leave out `validation`",
    ):
        load(tmp_path, validation=0.5)


def test_several_targets_are_divided_by_commas(tmp_path):
    table(tmp_path, "file,a,b,c\ng0.edges,1,2,3\ng1.edges,2,3,4\ng2.edges,3,4,5\n")
    assert load(tmp_path, target="a, c").task.names == ("a", "c")


@pytest.mark.parametrize("name", ["file", "split"])
def test_columns_that_are_no_targets_are_refused_as_such(tmp_path, name):
    table(tmp_path, "file,y,split\ng0.edges,1,train\ng1.edges,2,test\n")
    with pytest.raises(
        IncidenceError, match=f"has no column `{name}` of targets; it has: file, y, split"
    ):
        load(tmp_path, target=name)


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ({"target": "y"}, "`target`"),
        ({"reader": "graph"}, "`reader`"),
        ({"a": 1}, "further options"),
    ],
)
def test_saved_examples_take_no_options_of_other_files(tmp_path, options, flag):
    with pytest.raises(IncidenceError, match=f"has targets and features already: leave out {flag}"):
        load(saved(tmp_path / "a.npz", [0, 1]), **options)


def test_options_that_a_reader_does_not_take_are_refused(tmp_path):
    table(tmp_path, "file,y\ng0.edges,1\ng1.edges,2\n")
    with pytest.raises(
        IncidenceError, match="the reader 'graph' has no option `label`: it takes labels, degrees"
    ):
        load(tmp_path, label=3)
    with pytest.raises(
        IncidenceError,
        match=("the option `labels` of the reader 'graph' is a whole number or a list; got 'many'"),
    ):
        load(tmp_path, labels="many")


def test_without_a_split_it_is_by_chance_and_seeded(tmp_path):
    table(tmp_path, "file,y\n" + "".join(f"g{k}.edges,{k}\n" for k in range(20)), 20)
    one, again, other = (load(tmp_path, seed=seed).splits[0] for seed in (0, 0, 1))
    assert [len(part) for part in one] == [16, 2, 2]
    assert torch.equal(torch.cat(list(one)).sort().values, torch.arange(20))
    assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True))
    assert not torch.equal(one.train, other.train)


def test_options_go_to_the_reader(tmp_path):
    table(tmp_path, "file,y\ng0.edges,1\ng1.edges,2\n")
    data = load(tmp_path, reader="graph", degrees=False)
    assert data.examples[0].features["i"].tolist() == [[1], [1]]
    assert data.reader_options == {"degrees": False}


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        ("file,y\n", {}, "has no rows"),
        ("name,y\ng0.edges,1\n", {}, "no column `file`; it has: name, y"),
        ("file\ng0.edges\n", {}, "no column `target`; it has: file"),
        ("file,y\ng0.edges,1\n", {"target": "z"}, "no column `z`; it has: file, y"),
        ("file,y\ng0.edges,1,2\n", {}, "targets.csv, line 2: there are 3 values for 2 columns"),
        ("file,y\ng0.edges,1\nh.edges,2\n", {}, r"lists .*h.edges', and there is no such file"),
        ('file,y\n"a\nb.edges",1\n', {}, r"lists .*a\\nb.edges', and there is no such file"),
        ("file,y\ng0.edges,\ng1.edges,NaN\n", {}, "all values of the target `y` are missing"),
        (
            "file,y\ng0.edges,1\ng1.edges,low\n",
            {},
            "the target `y` has numbers and text, such as 'low'",
        ),
        (
            "file,y\ng0.edges,1\ng1.edges,low\n",
            {"task": "regression"},
            "finite number for regression; got 'low'",
        ),
        ("file,y\ng0.edges,inf\n", {}, "finite number for regression; got 'inf'"),
        (
            "file,y\ng0.edges,1\n",
            {"task": "ranking"},
            "the task is classification, multilabel, regression or links; got 'ranking'",
        ),
        ("file,a,b\ng0.edges,1,low\n", {}, "the target `b` has classes, which are predicted alone"),
        ("file,y,split\ng0.edges,1,holdout\n", {}, "train, validation or test; got 'holdout'"),
        ("file,y,split\ng0.edges,1,test\n", {}, "no example is for training"),
        ("file,y\ntargets.csv,1\n", {"reader": "nothing"}, "no reader 'nothing'"),
        (
            "file,y\nREADME,1\n",
            {},
            r"no reader reads .*README. Readers by suffix: .*graph \(\.edges",
        ),
        ("file,y\nmany.g6,1\n", {}, "many.g6 has 2 examples, and a row of targets.csv is for one"),
        ("file,y\nmany.g6,1\nsaved.npz,2\n", {}, "the files need different readers. Give `reader`"),
        ("file,y\nbad.g6,1\n", {}, r"bad.g6, line 1"),
        ("file,y\nempty.g6,1\n", {}, r"empty.g6 has no example"),
        (
            "file,y\ng0.edges,1\nw.edges,1\n",
            {},
            r"for `\{i j\}`, g0.edges has 1 features and w.edges has 2 features",
        ),
    ],
)
def test_tables_that_do_not_fit_are_refused(tmp_path, text, options, problem):
    table(tmp_path, text)
    for name, content in {
        "README": "",
        "many.g6": "Bw\nA_\n",
        "bad.g6": "B\n",
        "empty.g6": "",
        "saved.npz": "",
        "w.edges": "0 1 2 3\n",
    }.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(IncidenceError, match=problem):
        load(tmp_path, **options)


OUTSIDE = {
    "a folder above": "../g.edges",
    "a full path": "{}/g.edges",
    "a link": "link.edges",
    "a loop": "loop.edges",
}


@pytest.mark.parametrize("name", OUTSIDE.values(), ids=OUTSIDE)
def test_files_outside_the_folder_of_their_table_need_leave(tmp_path, name):
    outside, folder = edges(tmp_path, "g.edges", 3), tmp_path / "inner"
    folder.mkdir()
    (folder / "link.edges").symlink_to(outside)
    (folder / "loop.edges").symlink_to(folder / "loop.edges")
    (folder / "targets.csv").write_text(f"file,y\n{name.format(tmp_path)},1\n")
    told = r"which is not below its folder\. If that is meant, give `outside=True`"
    # by the version of Python
    with pytest.raises(
        IncidenceError, match=told if "loop" not in name else f"{told}|there is no such file"
    ):
        load(folder)
    if "loop" not in name:
        assert load(folder, outside=True).examples[0].structure.num_nodes == 3


def test_a_file_with_a_name_too_long_for_the_disk_is_not_there(tmp_path):
    (tmp_path / "targets.csv").write_text(f"file,y\n{'x' * 300},1\n")
    with pytest.raises(IncidenceError, match="there is no such file"):
        load(tmp_path)


def test_a_file_of_nodes_that_is_a_link_out_of_the_folder_is_not_followed(tmp_path):
    (tmp_path / "secret").write_text("0 7\n1 8\n2 9\n")
    edges(tmp_path, "data/g.edges", 3)
    (tmp_path / "data" / "g.nodes").symlink_to(tmp_path / "secret")
    (tmp_path / "data" / "targets.csv").write_text("file,y\ng.edges,1\n")
    with pytest.raises(IncidenceError, match=r"lists .*g\.nodes', which is not below its folder"):
        load(tmp_path / "data")
    assert load(tmp_path / "data", outside=True).examples[0].features["i"].shape[1] == 3


def test_files_in_folders_below_that_of_their_table_need_no_leave(tmp_path):
    edges(tmp_path, "inner/g.edges", 3)
    (tmp_path / "targets.csv").write_text("file,y\ninner/g.edges,1\n")
    data = load(tmp_path, outside=False)
    assert len(data.examples) == 1
    assert data.reader_options == {}


@pytest.mark.parametrize("name", ["x" * 300, "a/" * 3000, "~nobody/at/all", "a\0b"])
def test_no_name_however_odd_is_more_than_no_data(name):
    with pytest.raises(IncidenceError, match="is no data set and no file or folder"):
        load(name)


def test_a_table_that_is_no_text_is_named(tmp_path):
    (tmp_path / "targets.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(
        IncidenceError,
        match=r"targets.csv cannot be read .it has bytes that are 0.: get the file again",
    ):
        load(tmp_path)


def test_two_readers_of_one_suffix_are_asked_about(tmp_path, monkeypatch):
    monkeypatch.setitem(READERS, "again", READERS["graph"])
    with pytest.raises(
        IncidenceError, match=r"the readers graph, again all read such files\. Give `reader`"
    ):
        load(table(tmp_path, "file,y\ng0.edges,1\n"))


# ---- folders of classes


def test_a_folder_is_a_class(tmp_path):
    for k in range(6):
        edges(tmp_path, f"{'short' if k < 3 else 'long'}/g{k}.edges", k + 2)
    (tmp_path / "short" / "README.md").write_text("not an example")
    (tmp_path / "short" / "g0.nodes").write_text("0\n1\n5\n")
    data = load(tmp_path)
    assert data.task.names == ("long", "short")
    assert [int(example.target) for example in data.examples] == [0, 0, 0, 1, 1, 1]
    assert [example.structure.num_nodes for example in data.examples] == [5, 6, 7, 3, 3, 4]
    assert [len(part) for part in data.splits[0]] == [4, 1, 1]


def test_train_and_test_folders_are_the_split(tmp_path):
    for label in "ab":
        for part in ("train", "test"):
            for k in range(2):
                edges(tmp_path, f"{label}/{part}/g{k}.edges", k + 2)
    data = load(tmp_path)
    assert [int(example.target) for example in data.examples] == [0] * 4 + [1] * 4
    assert [part.tolist() for part in data.splits[0]] == [[2, 3, 6, 7], [], [0, 1, 4, 5]]
    assert [len(part) for part in load(tmp_path, validation=0.5).splits[0]] == [2, 2, 4]
    edges(tmp_path, "b/g.edges", 2)
    with pytest.raises(IncidenceError, match=r"others have files without a part. Use one way"):
        load(tmp_path)


def test_folders_without_files_are_refused(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(
        IncidenceError, match=r"have no files to read; suffixes that can be read are .*\.edges"
    ):
        load(tmp_path)


def test_an_unknown_layout_is_refused(tmp_path):
    with pytest.raises(IncidenceError, match=r"is no data set. Expected targets.csv"):
        load(tmp_path)
    with pytest.raises(IncidenceError, match=r"nothing' is no data set and no file or folder"):
        load(tmp_path / "nothing")


# ---- SDF files


def test_a_property_of_an_sdf_file_is_the_target(tmp_path, sdf_reader):
    path = molecules(tmp_path / "all.sdf", ["1.5", "2.5", None, "3"])
    for given in (path, tmp_path):
        data = load(given, target="SOL")
        assert (data.reader, data.task.names) == ("small", ("SOL",))
        targets = torch.cat([example.target for example in data.examples])
        assert targets[[0, 1, 3]].tolist() == [1.5, 2.5, 3]
        assert bool(targets[2].isnan())
    assert load(path, target="SOL").name == "all"


def test_train_and_test_files_are_the_split(tmp_path, sdf_reader):
    molecules(tmp_path / "train.sdf", ["low", "high", "low"])
    molecules(tmp_path / "test.sdf", ["high"])
    data = load(tmp_path, target="SOL")
    assert data.task.names == ("high", "low")
    assert [part.tolist() for part in data.splits[0]] == [[1, 2, 3], [], [0]]


def test_sdf_files_that_do_not_fit_are_refused(tmp_path, sdf_reader):
    path = molecules(tmp_path / "all.sdf", ["2", "1"])
    with pytest.raises(IncidenceError, match="has no property `LOG`; it has: other, SOL"):
        load(path, target="LOG")
    molecules(tmp_path / "more.sdf", ["1"])
    with pytest.raises(
        IncidenceError,
        match=r"several files of molecules: name one of them, or call them train.sdf and test.sdf",
    ):
        load(tmp_path, target="SOL")


# ---- saved examples


def saved(path, targets, **features):
    structure = inc.Structure(3, {"{i j}": [[1, 0], [2, 1]]})
    examples = [
        inc.Example(structure, {"i": torch.ones(3, 2, dtype=torch.long), **features}, target=target)
        for target in targets
    ]
    inc.collate(examples).save(path)
    return path


def test_saved_examples_with_whole_numbers_are_classes(tmp_path):
    saved(tmp_path / "examples.npz", [0, 2, 1, -1])
    data = load(tmp_path)
    assert (data.task.kind, data.task.names, data.reader) == (
        "classification",
        ("class 0", "class 1", "class 2"),
        "example",
    )
    assert [int(example.target) for example in data.examples] == [0, 2, 1, -1]
    assert data.examples[0].features["i"].dtype == torch.float32
    assert data.examples[0].structure["{i j}"].T.tolist() == [[0, 1], [1, 2]]
    assert data.name == tmp_path.name
    assert load(tmp_path, task="regression").examples[1].target.tolist() == [2.0]


def test_saved_examples_with_other_numbers_are_regression(tmp_path):
    path = saved(tmp_path / "mine.npz", [0.5, 1.5, 2.5])
    data = load(path)
    assert (data.name, data.task.kind, data.task.names) == ("mine", "regression", ("target",))
    assert [example.target.tolist() for example in data.examples] == [[0.5], [1.5], [2.5]]
    data = load(saved(tmp_path / "two.npz", [torch.tensor([1.0, 2.0])] * 3))
    assert data.task.names == ("target 0", "target 1")


def test_targets_of_entries_are_kept_and_one_structure_is_learned_within(tmp_path):
    data = load(saved(tmp_path / "a.npz", [{"i": torch.tensor([0, 1, 1])}] * 4))
    assert (data.task.at, data.is_transductive, data.task.kind) == ("i", False, "classification")
    data = load(saved(tmp_path / "b.npz", [{"{i j}": torch.tensor([0.5, 1.5])}]))
    assert (data.task.at, data.is_transductive) == ("{i j}", True)
    assert data.examples[0].target["{i j}"].tolist() == [[1.5], [0.5]]  # in the preferred order


def test_the_reader_of_saved_examples_gives_each_of_a_batch(tmp_path):
    path = saved(tmp_path / "a.npz", [0, 1])
    assert [read.name for read in reader("example").read(path, [])] == ["a.npz 0", "a.npz 1"]
    one = inc.Example(inc.Structure(2), {"i": torch.ones(2, 1)})
    one.save(tmp_path / "one.npz")
    assert list(reader("example").read(tmp_path / "one.npz", [])) == [Record("one.npz", one)]


@pytest.mark.parametrize(
    ("targets", "options", "problem"),
    [
        ([None, None], {}, "example 0 has no target"),
        (
            [{"i": torch.zeros(3), "{i j}": torch.zeros(2)}],
            {},
            r"belong to one pattern; these belong to 'i', '\{i j\}'",
        ),
        ([0.5, 1.5], {"task": "classification"}, "classes are the integers 0, 1"),
        ([-1, -1], {}, "classes are the integers"),
        ([float("nan"), float("nan")], {}, "all targets are missing"),
        ([float("inf"), 1.0], {}, "example 0: the target is infinite"),
        (
            [torch.zeros(2, 2), torch.zeros(2, 2)],
            {},
            r"example 0: the target has the shape \[2\], for target 0, target 1; got \[2, 2\]",
        ),
        (
            [torch.tensor([0, 2])] * 2,
            {},
            r"example 0: a class is an integer; got torch.int64 of shape \[2\]",
        ),
        (
            [1, 2],
            {"task": "other"},
            "the task is classification, multilabel, regression or links; got 'other'",
        ),
    ],
)
def test_saved_targets_that_do_not_fit_are_refused(tmp_path, targets, options, problem):
    with pytest.raises(IncidenceError, match=problem):
        load(saved(tmp_path / "a.npz", targets), **options)


def test_features_that_are_no_numbers_are_refused(tmp_path):
    path = saved(tmp_path / "a.npz", [0, 1], **{"{i j}": torch.full((2, 1), torch.nan)})
    with pytest.raises(
        IncidenceError,
        match=r"a.npz 0: the features of `\{i j\}` have values that are no finite numbers",
    ):
        load(path)


def test_a_file_that_is_no_saved_example_is_named(tmp_path):
    (tmp_path / "examples.npz").write_bytes(b"no zip")
    with pytest.raises(IncidenceError, match=r"examples.npz is not an example"):
        load(tmp_path)


@pytest.mark.parametrize("target", [2.5, True, ["SOL", None]], ids=str)
def test_a_target_of_files_is_a_name(tmp_path, target):
    with pytest.raises(
        IncidenceError,
        match=(
            r"the target of files is the name of a column or property, or a list of names; got"
            r" .*target='SOL'"
        ),
    ):
        load(table(tmp_path, "file,a\ng0.edges,1\n"), target=target)


def test_columns_of_frames_may_be_called_by_numbers():
    pandas = pytest.importorskip("pandas")
    data = load(
        pandas.DataFrame({0: ["CCO", "CCC", "CCN"], 7: [1.5, 2.5, 0.5], 8: [1.0, 2.0, 0.0]}),
        target=7,
    )
    assert (data.task.names, [float(one.target) for one in data.examples]) == (
        ("7",),
        [1.5, 2.5, 0.5],
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"seed": "x"}, "the seed is a whole number; got 'x'"),
        (
            {"tables": 5},
            "`tables` are paths of tables or data frames, one or several, or a dict of them; got 5",
        ),
        ({"tables": [5]}, "`tables` are paths of tables"),
    ],
    ids=str,
)
def test_options_of_tables_that_are_something_else_are_refused(tmp_path, options, problem):
    (tmp_path / "r.csv").write_text("user,movie,rating\na,x,1\nb,y,2\na,y,3\n")
    with pytest.raises(IncidenceError, match=problem):
        load(tmp_path / "r.csv", **options)


def test_a_table_of_files_under_another_name_is_told_its_name(tmp_path):
    for k in range(2):
        (tmp_path / f"g{k}.edges").write_text("0 1\n1 2\n")
    (tmp_path / "labels.csv").write_text("file,y\ng0.edges,0\ng1.edges,1\n")
    with pytest.raises(IncidenceError, match=r"targets of files beside it, call the table targets"):
        load(tmp_path)
    (tmp_path / "labels.csv").rename(tmp_path / "targets.csv")
    assert len(load(tmp_path).examples) == 2


def test_ratings_divided_by_double_colons_are_read(tmp_path):
    (tmp_path / "ratings.dat").write_text(
        "1::10::5::978300760\n1::20::3::978302109\n2::10::4::978301968\n"
    )
    data = load(tmp_path / "ratings.dat", target="3", keys=["1", "2"])
    assert {sort: len(names) for sort, names in data.completion.names.items()} == {
        "column_1": 2,
        "column_2": 2,
    }
    with pytest.raises(
        IncidenceError,
        match=r"two ID columns and a number \(ratings\): name the number with `target`",
    ):
        load(tmp_path / "ratings.dat", target="3")


def test_masks_of_a_table_of_nodes_are_its_parts_and_no_features(tmp_path):
    (tmp_path / "edges.csv").write_text(
        "source,target\n" + "".join(f"{k},{(k + 1) % 9}\n" for k in range(9))
    )
    rows = "".join(f"{k},{k / 2},{k % 3},{k < 4},{4 <= k < 6},{k >= 6}\n" for k in range(9))
    (tmp_path / "nodes.csv").write_text("id,age,label,train_mask,val_mask,test_mask\n" + rows)
    data = load(tmp_path, target="label")
    assert [part.tolist() for part in data.splits[0]] == [[0, 1, 2, 3], [4, 5], [6, 7, 8]]
    assert data.task.names == ("0", "1", "2")
    assert data.examples[0].features["i"].tolist() == [[k / 2] for k in range(9)]


def test_nodes_that_are_numbers_of_thousands_of_digits_are_names(tmp_path):
    (tmp_path / "e.csv").write_text(f"source,target\n1,2\n2,3\n{'9' * 5000},3\n")
    assert load(tmp_path / "e.csv", task="links").completion.names["node"] == [
        "1",
        "2",
        "3",
        "9" * 5000,
    ]


def test_edges_whose_columns_differ_by_direction_say_how_tables_are_read_as_directed(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target,weight\na,b,1\nb,a,2\nb,c,3\n")
    (tmp_path / "nodes.csv").write_text("id,label\na,x\nb,y\nc,x\n")
    with pytest.raises(
        IncidenceError,
        match=(
            r"the row of features of the edge \(0, 1\) differs .* For tables, that is"
            r" `directed=True`"
        ),
    ):
        load(tmp_path, target="label")
    assert sorted(
        load(tmp_path, target="label", directed=True).examples[0].features["(i j)"].tolist()
    ) == [[1.0], [2.0], [3.0]]


def test_complex_features_are_refused(tmp_path):
    pair = inc.Structure(2, {"{i j}": [[0], [1]]})
    inc.Example(pair, {"i": torch.ones(2, 1, dtype=torch.complex64)}, torch.tensor(1)).save(
        tmp_path / "a.npz"
    )
    with pytest.raises(
        IncidenceError,
        match="the features of `i` are complex: give their real and imaginary parts as two columns",
    ):
        load(tmp_path / "a.npz")


def read_lines(path, errors, width: int = 1):
    """Yield a path of as many nodes as a line has words, whose first word is its target."""
    for number, line in enumerate(path.read_text().splitlines()):
        target, *words = line.split()
        if not words:
            errors.append(IncidenceError(f"{path} line {number + 1}: no word."))
            continue
        features = {"i": torch.ones(len(words), width)}
        name = f"{path.name} {number}"
        example = inc.Example(inc.Structure(len(words)), features)
        yield Record(name, example, properties={"y": target})


def test_a_file_of_a_registered_reader_is_a_data_set_if_its_records_have_targets(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(READERS, "words", Reader((".words",), read_lines))
    path = tmp_path / "mine.words"
    path.write_text("0.5 a b\n1.5 c\n2.5\n3.5 d e f\n")
    with pytest.warns(UserWarning, match="line 3: no word"):
        data = load(path, target="y", width=2)
    assert data.reader == "words"
    assert [float(example.target) for example in data.examples] == [0.5, 1.5, 3.5]
    assert [example.features["i"].shape for example in data.examples] == [(2, 2), (1, 2), (3, 2)]
