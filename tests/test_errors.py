"""Messages name options as whoever reads them types them."""

import pytest

from incidence.errors import IncidenceError, by_door, only_options, options_as, spelled

_TEXT = (
    "add `--validation 0.1`, `--keys user movie` or `--data-options hyperedges=true`; leave out"
    " --batch-size, or continue with: incidence train --resume runs/a."
)


@pytest.mark.parametrize(
    ("door", "expected"),
    [
        (
            "python",
            "add `validation=0.1`, `keys=['user', 'movie']` or `hyperedges=True`; leave out"
            " `batch_size`, or continue with: `incidence.train.resume('runs/a')`.",
        ),
        (
            "config",
            "add `validation=0.1`, `keys=['user', 'movie']` or `data_options='hyperedges=true'`;"
            " leave out `batch_size`, or continue with: `incidence.train.resume('runs/a')`.",
        ),
        (
            "command",
            "add --validation 0.1, --keys user movie or --data-options hyperedges=true; leave out"
            " --batch-size, or continue with: incidence train --resume runs/a.",
        ),
    ],
)
def test_options_are_spelled_for_the_door(door, expected):
    with options_as(door):
        assert str(IncidenceError(_TEXT)) == spelled(_TEXT) == expected
        assert str(IncidenceError(expected)) == expected  # an error that quotes another one


def test_a_command_that_calls_python_stays_a_command():
    with options_as("command"), options_as("config"):
        assert spelled("leave out --augment") == "leave out --augment"
        assert by_door("--all", "show_all=True") == "--all"
    assert by_door("--all", "show_all=True") == "show_all=True"


def test_remedies_by_options_that_a_caller_lacks_are_left_out():
    text = "a.x has no reader: give --reader. Give --nodes for a table. Say `--task links`."
    with only_options("nodes"), options_as("command"):
        assert spelled(text) == "a.x has no reader. Give --nodes for a table."
