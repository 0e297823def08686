"""The jobs that break things on purpose: mutants are what they say, mangled files are told from
sound ones, kills are counted.
"""

import json
from pathlib import Path
from random import Random

import pytest

from attacks.calls import Call, Calls, chosen, watch
from attacks.fuzz import mangle, verdict
from attacks.journal import Journal
from attacks.kill import same_bits
from attacks.mutants import mutants_of
from attacks.mutate import all_mutants, draw, equivalents, files_of_tests, stages
from attacks.properties import PROPERTIES
from attacks.samples import SUFFIXES, samples
from attacks.warm import WarmTests

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
        assert (
            mutant.applied(SOURCE)
            == SOURCE[: mutant.start] + mutant.new.encode() + SOURCE[mutant.stop :]
            != SOURCE
        )
        compile(mutant.applied(SOURCE), "a.py", "exec")


def test_every_mutant_of_the_code_compiles_and_has_a_name_of_its_own():
    found = all_mutants()
    assert len({mutant.key for mutant in found}) == len(found) > 3000
    for mutant in Random(0).sample([m for m in found if m.path.endswith(".py")], 200):
        compile(mutant.applied((ROOT / mutant.path).read_bytes()), mutant.path, "exec")


def test_operators_and_numbers_of_c_are_mutants_and_comments_are_not():
    source = b"/* a + b */\n#define N 1\nint f(int a) { return a + 1; } // 1 + 1\n"
    assert [(m.old, m.new, m.line) for m in mutants_of("a.c", source)] == [
        ("+", "-", 3),
        ("1", "2", 3),
    ]


ORBIT, JOIN = "src/incidence/algebra/orbit.py", "src/incidence/engine/products/join.py"
NODE = "src/incidence/engine/compiled/node.py"
CALLED = [
    ("tests/nn/test_linear.py::far", 0.1, {ORBIT: [1, 3]}),
    ("tests/algebra/test_maps.py::near", 0.3, {ORBIT: [3]}),
    ("tests/algebra/test_orbit.py::slow", 20, {ORBIT: [3]}),
    ("tests/algebra/test_orbit.py::own", 0.2, {ORBIT: [3]}),
    ("tests/algebra/test_orbit.py::other", 0.1, {ORBIT: [1]}),
    ("tests/engine/products/test_join.py::compiled", 1, {JOIN: [7]}),
    ("tests/models/test_net.py::any", 0.5, {NODE: [7]}),
    ("tests/models/compiled/test_network.py::own", 1, {NODE: [7]}),
]


@pytest.fixture
def calls(tmp_path):
    records = [
        *({"test": test, "seconds": time, "lines": lines} for test, time, lines in CALLED),
        {"watched": {"tests/nn/test_linear.py": "abc"}},
    ]
    (tmp_path / "calls.jsonl").write_text("\n".join(map(json.dumps, records)))
    return Calls(tmp_path / "calls.jsonl")


def test_stages_are_tests_named_after_the_module_then_other_callers_then_tests_of_the_file(calls):
    source = b"def f():\n    pass\ndef g():\n    return 1\n"
    [mutant] = [m for m in mutants_of("src/incidence/algebra/orbit.py", source) if m.line == 4]
    assert [
        [call.test.partition("::")[2] for call in stage] for stage in stages(mutant, calls, source)
    ] == [
        ["own"],
        ["slow", "near", "far"],
        ["other"],
    ]


def test_code_outside_of_functions_is_shown_to_all_tests_of_the_file_and_c_to_its_callers(calls):
    assert len(calls.of("src/incidence/algebra/orbit.py", b"x = 1\ndef f():\n    pass\n", 1)) == 5
    by_file = {
        "products/join.c": ["tests/engine/products/test_join.py::compiled"],
        "compiled/network.c": [
            "tests/models/test_net.py::any",
            "tests/models/compiled/test_network.py::own",
        ],
    }
    for path, tests in by_file.items():
        found = calls.of(f"src/incidence/engine/{path}", b"", 1)
        assert [call.test for call in found] == tests
    assert calls.watched == {"tests/nn/test_linear.py": "abc"}


def test_tests_in_a_file_named_after_the_module_come_first_in_whatever_folder(calls):
    path, source = "src/incidence/engine/compiled/network.c", b"int f(int a) { return a + 1; }\n"
    mutant = mutants_of(path, source)[0]
    assert [
        call.test.partition("::")[2] for stage in stages(mutant, calls, source) for call in stage
    ] == ["own", "any"]


def test_tests_are_chosen_up_to_a_time_and_one_in_any_case():
    some = [Call(str(n), 1.0, {}) for n in range(5)]
    assert [len(chosen(some, seconds)) for seconds in (0.5, 1, 3, 100)] == [1, 1, 3, 5]
    assert chosen([], 5) == []


@pytest.mark.slow
def test_what_a_test_calls_is_written_down_while_it_runs(tmp_path):
    for name, text in {
        "src/own/__init__.py": "def f():\n    return 1\n\n\ndef g():\n    return 2\n",
        "test_a.py": (
            "import own\n\ndef test_f():\n    assert own.f() == 1\n\ndef test_none():\n    assert"
            " True\n"
        ),
        "pyproject.toml": "[tool.pytest.ini_options]\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    path = tmp_path / "calls.jsonl"
    with WarmTests(tmp_path, INCIDENCE_CALLS=str(path)) as tests:
        watch(path, ["test_a.py"], tmp_path, tests)
        written = path.read_bytes()
        watch(path, ["test_a.py"], tmp_path, tests)
        assert path.read_bytes() == written  # nothing has changed, so nothing is run again
        (tmp_path / "test_b.py").write_text("def test_no():\n    assert False\n")
        with pytest.raises(
            SystemExit, match=r"tests fail before anything is broken \(FAILED test_b\.py::test_no\)"
        ):
            watch(path, ["test_b.py"], tmp_path, tests)
    found = Calls(path)
    assert [
        call.test
        for call in found.of(
            "src/own/__init__.py", b"def f():\n    return 1\n\n\ndef g():\n    return 2\n", 2
        )
    ] == ["test_a.py::test_f"]
    assert len(found) == 3


@pytest.mark.slow
def test_tests_without_end_are_ended_and_a_server_that_is_killed_is_started_again(tmp_path):
    (tmp_path / "test_a.py").write_text(
        "def test_one():\n    assert True\n\ndef test_two():\n    assert False\n"
    )
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    with WarmTests(tmp_path) as tests:
        assert tests.run(["test_a.py::test_one"], 60) == (False, "exit code 0")
        (tmp_path / "test_b.py").write_text("def test_on():\n    while True:\n        pass\n")
        assert tests.run(["test_b.py"], 2) == (True, "no end")
        tests._server.kill()
        assert tests.run(["test_a.py"], 60) == (True, "FAILED test_a.py::test_two")


def test_the_tests_of_a_package_and_of_layers_are_asked_about_it():
    assert {
        "src/incidence/engine/plan.py",
        "tests/engine/test_plan.py",
        "tests/nn/test_linear.py",
    } <= set(found := files_of_tests("engine", ROOT))
    assert not any(name.startswith("tests/algebra") for name in found)
    assert all((ROOT / name).is_file() for name in found)


def test_mutants_stay_drawn_when_code_changes_elsewhere():
    source = b"def f(x):\n    return [x + 1, x - 2, x * 3, x < 4]\n"
    before = mutants_of("a.py", source)
    after = mutants_of("a.py", b"y = 7\n\n" + source)
    kept = [mutant.key for mutant in draw(before, 4, 0)]
    assert [
        mutant.key for mutant in draw(after, 5, 0) if "y" not in mutant.old and mutant.key in kept
    ] == kept
    assert kept != [mutant.key for mutant in draw(before, 4, 1)]


def test_every_mutant_without_a_difference_has_a_reason_below_it(tmp_path):
    (tmp_path / "e.txt").write_text("# words\n\na.py f: 1 -> 2\n    it is never read\n")
    assert equivalents(tmp_path / "e.txt") == {"a.py f: 1 -> 2": "it is never read"}
    assert all(reason for reason in equivalents().values())
    # or the code is another
    assert set(equivalents()) <= {mutant.key for mutant in all_mutants()}


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
