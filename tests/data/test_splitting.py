"""Parts that are drawn: folds that test every row once, classes that are spread, and groups that
stay together.
"""

import numpy as np
import pandas
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import incidence as inc
from incidence.data import DataSet, Split, Task, load
from incidence.data.molecule_files import scaffolds
from incidence.data.splitting import cross_validation, held_out, random_split
from incidence.errors import IncidenceError


def made(count: int = 40) -> DataSet:
    """Every fourth is of class 1."""
    one = inc.Structure(1, {})
    examples = [
        inc.Example(one, {"i": torch.full((1, 1), float(k))}, torch.tensor(int(k % 4 == 0)))
        for k in range(count)
    ]
    return DataSet("mine", examples, Task("classification", ("a", "b")), (), "example")


@settings(max_examples=50, deadline=None)
@given(st.integers(4, 60), st.integers(2, 4), st.integers(1, 12), st.integers(0, 99))
def test_folds_test_every_row_once_and_keep_groups_together(count, folds, kinds, seed):
    groups = torch.randint(kinds + folds, (count,), generator=torch.Generator().manual_seed(seed))
    groups[:folds] = torch.arange(folds)  # at least as many groups as folds
    rows = torch.randperm(count, generator=torch.Generator().manual_seed(seed))[
        : max(folds, count - 3)
    ]
    for own in (None, groups if len(groups[rows].unique()) >= folds else None):
        splits = cross_validation(rows, folds, torch.zeros(count, dtype=torch.long), seed, own)
        assert (
            torch.cat([split.test for split in splits]).sort().values.tolist()
            == rows.sort().values.tolist()
        )
        for split in splits:
            assert (
                sorted([*split.train.tolist(), *split.test.tolist()]) == rows.sort().values.tolist()
            )
            assert own is None or not set(own[split.train].tolist()) & set(own[split.test].tolist())
        sizes = [len(split.test) for split in splits]
        assert max(sizes) - min(sizes) <= (
            1 if own is None else int(torch.bincount(groups[rows]).max())
        )


@settings(max_examples=50, deadline=None)
@given(st.integers(10, 80), st.integers(4, 40), st.booleans(), st.integers(0, 99))
def test_groups_stay_in_one_part(count, kinds, has_validation, seed):
    groups = torch.randint(kinds, (count,), generator=torch.Generator().manual_seed(seed))
    groups[:4] = torch.arange(4)
    split = random_split(torch.arange(count), seed, has_validation, groups)
    assert torch.cat(list(split)).sort().values.tolist() == list(range(count))
    own = [set(groups[part].tolist()) for part in split]
    assert sum(map(len, own)) == len(set.union(*own))
    assert all(len(part) for part in (split.train, split.test))
    assert bool(len(split.validation)) == has_validation
    held = (
        held_out(
            Split(split.train, split.train[:0], split.test), torch.zeros(count), 0.2, seed, groups
        )
        if len(own[0]) > 1
        else split
    )
    assert not set(groups[held.train].tolist()) & set(groups[held.validation].tolist())


def test_large_groups_stay_for_training():
    groups = torch.tensor([0] * 80 + list(range(1, 21)))
    for seed in range(5):
        split = random_split(torch.arange(100), seed, True, groups)
        assert set(range(80)) <= set(split.train.tolist())
        assert (len(split.validation), len(split.test)) == (10, 10)


def test_classes_are_spread_over_the_folds():
    data = made().with_parts(cv=5, validation=0)
    assert len(data.splits) == 5
    assert [sum(k % 4 == 0 for k in split.test.tolist()) for split in data.splits] == [2] * 5
    assert all(len(split.validation) == 0 for split in data.splits)
    # a tenth of the others
    assert [len(split.validation) for split in made().with_parts(cv=5).splits] == [3] * 5
    assert [len(split.validation) for split in made().with_parts(0.5, cv=5).splits] == [16] * 5
    other = made().with_parts(cv=5, validation=0, seed=1)
    assert other.splits[0].test.tolist() != data.splits[0].test.tolist()


def test_what_cannot_be_drawn_is_refused():
    told = DataSet(**{**vars(made()), "splits": (Split(*(torch.tensor([k]) for k in range(3))),)})
    with pytest.raises(
        IncidenceError, match="'mine' defines its parts, so none are drawn: leave out `cv`"
    ):
        told.with_parts(cv=3)
    with pytest.raises(IncidenceError, match="leave out `groups`"):
        told.with_parts(groups=range(40))
    with pytest.raises(IncidenceError, match="groups have a name for each of 40 rows; got 3"):
        made().with_parts(groups=["a", "b", "c"])
    with pytest.raises(
        IncidenceError, match="a cross validation of 40 rows has 2 to 40 folds; got 41"
    ):
        made().with_parts(cv=41)
    with pytest.raises(
        IncidenceError, match="a cross validation of 2 groups of rows has 2 to 2 folds; got 3"
    ):
        made().with_parts(cv=3, groups=[k % 2 for k in range(40)])
    with pytest.raises(IncidenceError, match="there are 1 groups of rows, too few for a part each"):
        made().with_parts(groups=torch.zeros(40))


def table(count: int = 24) -> pandas.DataFrame:
    rings = ("c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CCNCC1", "c1ccoc1", "")
    smiles = ["C" * (1 + k // 6) + rings[k % 6] for k in range(count)]
    return pandas.DataFrame(
        {
            "smiles": smiles,
            "batch": [f"b{k % 8}" for k in range(count)],
            "y": [0.5 * k for k in range(count)],
        }
    )


def test_scaffolds_are_found_without_a_word_of_rdkit(capfd):
    assert scaffolds(["[H]", "C1CC", "c1ccccc1C"]) == ["", "", "c1ccccc1"]
    assert "".join(capfd.readouterr()) == ""


def test_molecules_are_kept_together_by_their_scaffolds_or_by_a_column():
    data = load(table(), "y", groups="scaffold", seed=3)
    own = [
        {scaffolds([data.columns["smiles"][k]])[0] for k in part.tolist()} for part in data.split()
    ]
    assert sum(map(len, own)) == len(set.union(*own))
    data = load(table(), "y", groups="batch", cv=4)
    for split in data.splits:
        assert not {data.columns["batch"][k] for k in split.test.tolist()} & {
            data.columns["batch"][k] for k in split.train.tolist()
        }
    assert (
        load(table().rename(columns={"smiles": "mol"}), "y", smiles="mol", groups="scaffold")
        .split()
        .test.tolist()
    )


def test_groups_that_are_nothing_are_refused(tmp_path):
    with pytest.raises(
        IncidenceError,
        match=r"groups='lab' is no column beside the target \(columns: smiles, batch\)",
    ):
        load(table(), "y", groups="lab")
    with pytest.raises(
        IncidenceError, match=r"is no column beside the target \(there are no columns\)"
    ):
        load(
            [
                inc.Example(inc.Structure(1, {}), {"i": torch.ones(1, 1)}, torch.tensor([k / 2]))
                for k in range(9)
            ],
            groups="scaffold",
        )
    from rdkit import Chem

    from incidence.geometry.convert import Molecule, write_sdf

    write_sdf(
        [Molecule(f"m{k}", Chem.MolFromSmiles("C" * (k + 1)), {"y": f"{k}.5"}) for k in range(6)],
        tmp_path / "a.sdf",
    )
    with pytest.raises(
        IncidenceError,
        match="a: scaffolds are computed from SMILES, and the data has no column of them",
    ):
        load(tmp_path / "a.sdf", "y", groups="scaffold")


def test_splits_of_train_and_test_alone_have_an_empty_part_for_validation():
    examples = made(8).examples
    rows = np.arange(8)
    for train, test in (([0, 1, 2, 3], [4, 5]), (rows[:4], rows[4:6])):
        data = load(examples, splits=[(train, test)])
        assert [part.tolist() for part in data.split()] == [[0, 1, 2, 3], [], [4, 5]]
    data = load(examples, splits=[([0, 1], [2], [3]), ([4], [5])])
    assert [len(split.validation) for split in data.splits] == [1, 0]
    assert "2 splits, the first train 2, validation 1, test 1" in repr(data)


@pytest.mark.parametrize("splits", [[[0, 1, 2]], [([0],)], [([0], [1], [2], [3])], [0, 1]])
def test_a_split_of_neither_two_nor_three_parts_is_refused(splits):
    with pytest.raises(IncidenceError, match=r"split 0 has the rows for training and for testing"):
        load(made(8).examples, splits=splits)


def test_parts_that_were_drawn_are_not_drawn_again():
    structure = inc.Structure(2, {"{i j}": [[0], [1]]})
    data = inc.data.load([inc.Example(structure, {}, torch.tensor([float(k)])) for k in range(8)])
    with pytest.raises(
        IncidenceError, match=r"load` has drawn the parts of 'examples'.* `cv`, or give what was"
    ):
        inc.data.load(data, cv=2)
