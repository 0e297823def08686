"""The jobs that break things on purpose: mutants are what they say, mangled files are told from sound ones, kills are counted."""

from pathlib import Path
from random import Random

import pytest

from attacks.fuzz import mangle, verdict
from attacks.journal import Journal
from attacks.kill import same_bits
from attacks.mutants import mutants_of
from attacks.mutate import all_mutants, equivalents, stages
from attacks.properties import PROPERTIES
from attacks.samples import SUFFIXES, samples

ROOT = Path(__file__).parents[2]

SOURCE = b'''"""A docstring, with 1 number."""
__all__ = ["f"]
def f(x: int = 0, y: "1" = None) -> int:
    """Another."""
    if x < 3 and not y:
        raise ValueError("at least 3")
    x += 1
    print(x)
    return x * y if y else -x
'''


def test_every_small_change_of_code_is_a_mutant_and_none_of_words():
    changes = {(m.old, m.new) for m in mutants_of("a.py", SOURCE)}
    assert changes == {
        ("0", "1"),
        ("x < 3", "(x <= 3)"),
        ("x < 3 and not y", "(x < 3 or not y)"),
        ("3", "4"),
        ("not y", "(y)"),
        ("x += 1", "x = 1"),
        ("1", "2"),
        ("print(x)", "pass"),
        ("x * y", "(x + y)"),
        ("x * y if y else -x", "(-x if y else x * y)"),
        ("-x", "(x)"),
    }


def test_a_mutant_differs_from_its_source_where_it_says():
    for mutant in mutants_of("a.py", SOURCE):
        assert mutant.applied(SOURCE) == SOURCE[: mutant.start] + mutant.new.encode() + SOURCE[mutant.stop :] != SOURCE
        compile(mutant.applied(SOURCE), "a.py", "exec")


def test_every_mutant_of_the_code_compiles_and_has_a_name_of_its_own():
    found = all_mutants()
    assert len({mutant.key for mutant in found}) == len(found) > 3000
    for mutant in Random(0).sample([m for m in found if m.path.endswith(".py")], 200):
        compile(mutant.applied((ROOT / mutant.path).read_bytes()), mutant.path, "exec")


def test_operators_and_numbers_of_c_are_mutants_and_comments_are_not():
    source = b"/* a + b */\n#define N 1\nint f(int a) { return a + 1; } // 1 + 1\n"
    assert [(m.old, m.new, m.line) for m in mutants_of("a.c", source)] == [("+", "-", 3), ("1", "2", 3)]


def test_tests_named_after_a_module_are_asked_first_and_all_are_asked():
    nearest, *others = stages("src/incidence/algebra/orbit.py")
    assert nearest == ["src/incidence/algebra/orbit.py", "tests/algebra/test_orbit.py"]
    asked = {test for stage in (nearest, *others) for test in stage}
    assert asked >= {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}


def test_every_mutant_without_a_difference_has_a_reason_below_it(tmp_path):
    (tmp_path / "e.txt").write_text("# words\n\na.py f: 1 -> 2\n    it is never read\n")
    assert equivalents(tmp_path / "e.txt") == {"a.py f: 1 -> 2": "it is never read"}
    assert all(reason for reason in equivalents().values())


def test_a_journal_goes_on_after_half_a_line(tmp_path):
    journal = Journal(tmp_path / "j.jsonl")
    journal.add("a", {"n": 1})
    journal.add("a", {"n": 2})
    with journal.path.open("a") as file:
        file.write('{"key": "b", "n"')
    again = Journal(journal.path)
    assert (len(again), again["a"], "b" in again) == (1, {"n": 2}, False)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_sound_file_is_read_and_mangled_ones_are_read_or_refused_in_a_sentence(suffix, tmp_path):
    sound = samples()[suffix]
    path = tmp_path / f"a{suffix}"
    path.write_bytes(sound)
    assert verdict(path) is None
    for number in range(8):
        path.write_bytes(mangle(sound, Random(number)))
        assert verdict(path) is None


FOUND = sorted((Path(__file__).parent / "found").iterdir())


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name)
def test_files_that_once_broke_the_rule_keep_it(path):
    assert verdict(path) is None


def test_an_error_that_is_no_refusal_is_told(tmp_path, monkeypatch):
    def fail(path: Path) -> None:
        raise KeyError("x")

    monkeypatch.setattr("attacks.fuzz.read", fail)
    assert verdict(tmp_path) == "KeyError: 'x'"


@pytest.mark.parametrize("name", PROPERTIES)
def test_properties_hold(name):
    for number in range(5):
        PROPERTIES[name](Random(number))
    assert PROPERTIES[name].__doc__


def test_runs_are_the_same_if_all_their_files_are(tmp_path):
    for run in ("a", "b"):
        (tmp_path / run).mkdir()
        for name in ("model.safetensors", "history.csv", "predictions.csv"):
            (tmp_path / run / name).write_text(name)
    assert same_bits(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b" / "history.csv").write_text("other")
    assert not same_bits(tmp_path / "a", tmp_path / "b")
