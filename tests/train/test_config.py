"""Options: typed, the same in files, on the command line and in Python; recipes fill only what was
left open.
"""

from __future__ import annotations

import os
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from incidence.cli import _parse
from incidence.data import READERS
from incidence.errors import IncidenceError
from incidence.train.commands import _flags
from incidence.train.config import (
    RECIPES,
    SECTIONS,
    Config,
    option_type,
    read_config,
    read_options,
    read_yaml,
)
from incidence.train.prepare import prepare

NAMES = [f.name for f in fields(Config)]
BUILT_IN = frozenset(READERS)  # pages of the docs register more


def other_value(name: str) -> Any:
    """A value that an option may have and that is not its default."""
    field = next(f for f in fields(Config) if f.name == name)
    kind, among = option_type(get_type_hints(Config)[name]), field.metadata["among"]
    if among:
        return next(word for word in among if word != field.default)
    if kind is str:
        return "some text"
    if kind is int:
        return 7
    if kind is float:
        return 0.25
    return True if kind is bool else ("sum", "max")


@pytest.mark.parametrize("name", NAMES)
def test_every_option_goes_through_a_file_unchanged(name, tmp_path):
    config = Config(**{name: other_value(name)})
    (tmp_path / "c.yaml").write_text(config.to_yaml())
    wanted = config if name != "out" else Config()  # a folder may move
    assert read_config(tmp_path / "c.yaml", {}) == wanted


@pytest.mark.parametrize("name", NAMES)
def test_every_option_has_a_flag_that_gives_the_same_value(name):
    value, flag = other_value(name), f"--{name.replace('_', '-')}"
    words = (
        [flag]
        if value is True
        else [flag, *value]
        if isinstance(value, tuple)
        else [flag, str(value)]
    )
    words = ["train", *words]
    assert Config(**_flags(_parse(words))) == Config(**{name: value})


def test_a_config_prints_as_what_makes_it_again():
    # 50 is the default
    assert repr(Config(hidden=8, epochs=50, aggr="sum")) == "Config(hidden=8, aggr=('sum',))"
    assert repr(Config()) == "Config()"


def test_no_flag_means_no_option():
    assert _flags(_parse(["train"])) == {}


def test_every_option_is_in_a_section_and_says_what_it_is():
    assert {f.metadata["section"] for f in fields(Config)} == set(SECTIONS)
    assert all(f.metadata["about"] for f in fields(Config))


@pytest.mark.parametrize("name", NAMES)
def test_a_value_of_the_wrong_type_is_refused(name):
    hint = get_type_hints(Config)[name]
    wrong = [{"a": 1}, 1.5 if option_type(hint) is int else [1]]
    wrong += [] if type(None) in get_args(hint) else [None]
    wrong += [True] if option_type(hint) in (int, float) else []
    wrong += (
        ["3"]
        if option_type(hint) in (int, bool)
        else ["three"]
        if option_type(hint) is float
        else [3]
    )
    for value in wrong:
        with pytest.raises(IncidenceError, match=f"the option `{name}` is "):
            Config(**{name: value})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "the option `epochs` is at least 1; got 0"),
        ({"lr": -1}, "the option `lr` is at least 0; got -1.0"),
        ({"lr": float("nan")}, "the option `lr` is a finite number; got nan"),
        ({"dropout": 1.5}, "the option `dropout` is at most 1; got 1.5"),
        ({"head_dropout": 2}, "the option `head_dropout` is at most 1; got 2.0"),
        ({"label_smoothing": 1.1}, "the option `label_smoothing` is at most 1; got 1.1"),
        ({"warmup": 3}, "the option `warmup` is at most 1; got 3.0"),
        ({"seed": 2**64}, "the option `seed` is at most"),
        ({"data_seed": 2**64}, "the option `data_seed` is at most"),
        (
            {"precision": "bf16-true"},
            (
                "the option `precision` is one of 32-true, 64-true, 16-mixed, bf16-mixed; got"
                " 'bf16-true'"
            ),
        ),
        ({"keep": "first"}, "the option `keep` is one of last, best; got 'first'"),
        ({"aggr": []}, r"the option `aggr` is a text or a list of texts; got \[\]"),
        ({"aggr": ["sum", 3]}, "the option `aggr` is a text or a list of texts"),
    ],
)
def test_values_out_of_bounds_are_refused(options, message):
    with pytest.raises(IncidenceError, match=message):
        Config(**options)


def test_one_aggregation_is_a_list_of_one():
    assert Config(aggr="sum").aggr == Config(aggr=["sum"]).aggr == ("sum",)


def test_an_unknown_option_comes_with_a_guess(tmp_path):
    (tmp_path / "c.yaml").write_text("epoch: 3\n")
    with pytest.raises(
        IncidenceError, match=r"c\.yaml: no option `epoch`\. Did you mean `epochs`\?"
    ):
        read_yaml(tmp_path / "c.yaml")
    with pytest.raises(IncidenceError, match=r"no option `xyzzy`\. There are: data, folder"):
        Config(xyzzy=3)
    with pytest.raises(IncidenceError, match=r"no option `hiden`\. Did you mean `hidden`\?"):
        Config().replace(hiden=3)


@pytest.mark.parametrize("text", ["- 1\n- 2\n", "just words\n", "3\n"])
def test_a_file_that_is_no_list_of_options_is_refused(text, tmp_path):
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(IncidenceError, match="has lines like `epochs: 50`"):
        read_yaml(tmp_path / "c.yaml")


@pytest.mark.parametrize("content", [b"a: [1", b"\xff\xfe\x00", b"epochs: 1\n\tlr: 2\n", None])
def test_a_file_that_cannot_be_read_is_named(content, tmp_path):
    if content is not None:
        (tmp_path / "c.yaml").write_bytes(content)
    with pytest.raises(IncidenceError, match=r"the config '.*c\.yaml' cannot be read"):
        read_yaml(tmp_path / "c.yaml")


LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{after}: &{after} [{f'*{before}, ' * 10}]\n" for before, after in pairwise("abcdefghi")
)
ODD = {
    "5,000 digits": (
        "epochs: " + "9" * 5000,
        r"the config '.*c\.yaml' cannot be read: a number has thousands of digits",
    ),
    "4,000 digits": (
        "epochs: " + "9" * 4000,
        "the option `epochs` is at most 9223372036854775807; got a number of about 4,000 digits",
    ),
    "20,000 open brackets": (
        "aggr: " + "[" * 20_000,
        r"c\.yaml' cannot be read: its lists lie too deep in each other",
    ),
    "400 zeros": (
        "lr: 1" + "0" * 400,
        "the option `lr` is a finite number; got a number of about 400 digits",
    ),
    "an infinite number": ("lr: .inf", "the option `lr` is a finite number; got inf"),
    "billions of aliases": (LAUGHS, r"c\.yaml' cannot be read: it has an alias"),
    "many channels": (
        "hidden: 1000000000",
        "the option `hidden` is at most 1048576; got 1000000000",
    ),
    "many layers": ("depth: 1000000000", "the option `depth` is at most 1000; got 1000000000"),
    "a long key": ("x" * 1000 + ": 1", r"no option `'xxx.*\.\.\..*xxx'`\. There are"),
    "a time for a number": (
        "lr: 1" + ":00" * 300 + ".5",
        "the option `lr` is a finite number; got '1:00",
    ),
    "a tag of truth": ("augment: !!bool maybe", r"c\.yaml' cannot be read: it has a tag \(!\)"),
    "a tag of no number": ('epochs: !!int ""', r"c\.yaml' cannot be read: it has a tag \(!\)"),
    "a tag of no time": ("data: !!timestamp foo", r"c\.yaml' cannot be read: it has a tag \(!\)"),
    "a tag of no type": ("data: ! foo", r"c\.yaml' cannot be read: it has a tag \(!\)"),
    "a list for a key": ("[1]: 2", r"c\.yaml' cannot be read: .*unhashable"),
}


@pytest.mark.parametrize(("text", "message"), ODD.values(), ids=ODD)
def test_what_is_beyond_all_bounds_is_refused_in_a_sentence(text, message, tmp_path):
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(IncidenceError, match=message) as caught:
        read_config(tmp_path / "c.yaml", {})
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("text", ["2020-13-45", "2020-10-10"])
def test_what_looks_like_a_date_is_the_name_of_data(text, tmp_path):
    (tmp_path / "c.yaml").write_text(f"data: {text}")
    assert read_config(tmp_path / "c.yaml", {}).data == text


@pytest.mark.parametrize(
    "value", ["!!bool maybe", '!!int "_"', '!!float ""', "!!timestamp foo", "9" * 5000]
)
def test_options_of_data_are_plain_values(value):
    with pytest.raises(IncidenceError, match="an option of the data is written as in `labels=7`"):
        read_options([f"labels={value}"])
    assert read_options(["at=1:30", "size=12"]) == {"at": "1:30", "size": 12}


def test_a_config_that_is_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "c.yaml")
    with pytest.raises(IncidenceError, match=r"cannot be read: .*c\.yaml is not a regular file"):
        read_yaml(tmp_path / "c.yaml")


def test_nothing_in_a_file_is_executed(tmp_path):
    touched = tmp_path / "touched"
    (tmp_path / "c.yaml").write_text(
        "data: !!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path"
        f" ['{touched}']]\n"
    )
    with pytest.raises(IncidenceError, match="cannot be read"):
        read_yaml(tmp_path / "c.yaml")
    (tmp_path / "c.yaml").write_text(f"data: !!python/object/apply:os.system ['touch {touched}']\n")
    with pytest.raises(IncidenceError, match="cannot be read"):
        read_yaml(tmp_path / "c.yaml")
    assert not touched.exists()


def test_an_empty_file_gives_no_options(tmp_path):
    (tmp_path / "c.yaml").write_text("# nothing yet\n")
    assert read_yaml(tmp_path / "c.yaml") == {}


# ---- options of data


def test_options_are_plain_values():
    found = read_options(
        ["labels=7", "family=sr251256", "subtract_atoms=true", "cutoff=4.5", "labels=[1, 6]"]
    )
    assert found == {"labels": [1, 6], "family": "sr251256", "subtract_atoms": True, "cutoff": 4.5}


@pytest.mark.parametrize(
    "text", ["labels", "=3", "labels=[1", "labels=" + "9" * 5000, "labels=" + "[" * 20_000]
)
def test_options_in_another_form_are_refused(text):
    with pytest.raises(IncidenceError, match="an option of the data is written as in `labels=7`"):
        read_options([text])


# ---- recipes


@pytest.mark.parametrize("reader", RECIPES)
def test_every_recipe_is_made_of_options(reader):
    config = Config().with_recipe(RECIPES[reader])
    assert all(getattr(config, key) == value for key, value in RECIPES[reader].items())


def test_there_is_a_recipe_for_every_reader():
    assert RECIPES.keys() == BUILT_IN


def test_a_recipe_fills_only_what_was_not_given():
    # the default, but the user said so
    config = Config(lr=0.5, epochs=Config().epochs).with_recipe(RECIPES["mesh"])
    assert (config.lr, config.epochs) == (0.5, Config().epochs)
    assert config.batch_size == RECIPES["mesh"]["batch_size"]
    assert config.model == "mesh"


def test_options_of_one_model_are_not_given_to_another():
    recipe = {"model": "rings", "max_size": 8, "hidden": 5, "epochs": 7}
    assert (
        Config().with_recipe(recipe).max_size,
        Config(model="rings").with_recipe(recipe).hidden,
    ) == (8, 5)
    other = Config(model="matrix").with_recipe(recipe)
    assert (other.max_size, other.hidden, other.epochs) == (None, None, 7)


def test_a_recipe_may_tell_the_options_of_its_lift(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RECIPES, "graph", {"model": "local-fgnn", "data_options": ("k=3",)})  # type: ignore[misc]
    assert prepare(Config(data=str(numbers))).lift.options == {"k": 3}
    assert prepare(Config(data=str(numbers), model="graph")).lift.options == {}


def test_no_recipe_changes_a_run_that_has_begun():
    assert Config(epochs=3).all_given().with_recipe(RECIPES["mesh"]) == Config(epochs=3)


def test_flags_win_over_the_file(tmp_path: Path):
    (tmp_path / "c.yaml").write_text("epochs: 3\nhidden: 9\n")
    assert read_config(tmp_path / "c.yaml", {"hidden": 4}).given() == {"epochs": 3, "hidden": 4}
    assert read_config(None, {}) == Config()


def test_yaml_takes_numbers_with_an_exponent_for_texts_and_we_do_not(tmp_path):
    (tmp_path / "c.yaml").write_text("lr: 1e-3\n")
    assert read_config(tmp_path / "c.yaml", {}).lr == 1e-3


def test_what_was_given_is_given_even_at_its_default():
    default = Config().epochs
    assert Config(epochs=default).given() == {"epochs": default}
    assert Config(epochs=default).replace(hidden=3).given() == {"hidden": 3, "epochs": default}
