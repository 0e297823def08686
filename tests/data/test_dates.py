"""Times of text, and parts by time."""

from __future__ import annotations

import math

import pytest
import torch

import incidence as inc
from incidence.data.dates import as_days, as_times
from incidence.data.splitting import split_by_time
from incidence.errors import IncidenceError


@pytest.mark.parametrize(
    "text", ["2024-05-31", "2024-05-31T00:00:00", "2024/05/31", "31.05.2024", "2024-05-31 00:00:00"]
)
def test_dates_in_usual_formats_are_the_same_day(text):
    assert as_days([text]) == [19874.0]


def test_words_and_plain_numbers_are_no_dates():
    assert as_days(["apple"]) is None
    assert as_days(["20240531"]) is None
    assert as_days(["", ""]) is None


def test_columns_of_times_are_numbers_or_dates_and_nothing_else():
    assert as_times("a.csv", "t", ["3", "", "1.5"])[[0, 2]].tolist() == [3.0, 1.5]
    assert math.isnan(as_times("a.csv", "t", ["2024-01-01", ""])[1])
    with pytest.raises(IncidenceError, match=r"column of times `t` has numbers or dates.*apple"):
        as_times("a.csv", "t", ["1", "apple"])


def test_no_row_is_as_early_as_one_of_the_part_before():
    generator = torch.Generator().manual_seed(0)
    times = torch.randint(40, (200,), generator=generator).double()
    times[:5] = torch.nan
    split = split_by_time(torch.arange(200), times)
    assert sorted(torch.cat(list(split)).tolist()) == list(range(200))
    earliest = [times[part].min() for part in split[1:]]
    latest = [times[part].nan_to_num(-math.inf).max() for part in split[:2]]
    assert all(one < other for one, other in zip(latest, earliest, strict=True))
    assert 20 <= len(split.test) <= 30
    assert set(range(5)) <= set(split.train.tolist())


def test_rows_of_one_time_cannot_be_split():
    with pytest.raises(IncidenceError, match=r"most rows have the same time"):
        split_by_time(torch.arange(5), torch.ones(5))
    with pytest.raises(IncidenceError, match=r"too few different times"):
        split_by_time(torch.arange(4), torch.tensor([1.0, 2, 2, 2]), validation=0.5)


def test_ratings_are_split_by_a_column_of_dates(tmp_path):
    rows = [f"u{k % 7},m{k % 5},{1 + k % 3},2024-01-{1 + k % 28:02}" for k in range(35)]
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(["user,movie,rating,day", *rows]))
    data = inc.data.load(path, "rating", time="day")
    days = [max(data.columns["day"][k] for k in part.tolist()) for part in data.split()]
    assert days == sorted(days)
    with pytest.raises(IncidenceError, match=r"no column `hour`.*user, movie, day"):
        inc.data.load(path, "rating", time="hour")
    with pytest.raises(IncidenceError, match=r"no folds and no groups"):
        inc.data.load(path, "rating", time="day", cv=3)
    path.write_text("\n".join(["user,movie,rating,day,split", *(f"{row},train" for row in rows)]))
    with pytest.raises(IncidenceError, match=r"leave out `time`"):
        inc.data.load(path, "rating", time="day")
