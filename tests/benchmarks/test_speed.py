"""The benchmarks compare like with like, and say what they found."""

import json
import re
import subprocess
import sys
from time import sleep

import pytest
import torch

import incidence
from benchmarks import bars
from benchmarks.speed import load, steps, structures
from benchmarks.speed.bench import Bench, Work
from benchmarks.speed.composition import Composition
from benchmarks.speed.large import growth
from benchmarks.speed.layers import layer
from benchmarks.speed.load import Load, Time, Watch
from benchmarks.speed.report import Result, as_data, chart, machine, text
from benchmarks.speed.stand_ins import random_molecules
from benchmarks.speed.start import start
from benchmarks.speed.suite import BENCHMARKS
from benchmarks.speed.timing import Figure, Rates, Timer, ratio
from incidence.cli import main
from incidence.errors import IncidenceError
from incidence.nn import Linear

STRUCTURES = {
    "(i j) -> (i j)": lambda: structures.random_graph(60),
    "(i j)  -> (i j)": lambda: structures.half_reciprocal(60),
    " (i j) -> (i j)": lambda: structures.power_law(60),
    "(i j k) -> (i j k)": lambda: structures.random_triples(60),
    "i, {i j}, {i j k} -> i, {i j}, {i j k}": lambda: structures.triangle_mesh(20),
}

SPIN = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.2: pass"]


@pytest.mark.parametrize("at", ["entries", "keys"])
@pytest.mark.parametrize(("pattern", "make"), STRUCTURES.items())
def test_the_composition_computes_the_same_map(pattern, make, at):
    work = Work(pattern, structures.shuffled(make()), 3)
    for parameter in work.layer.parameters():
        torch.nn.init.normal_(parameter)
    for one, other in zip(work.composition(work.xs, at), work.forward(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("pattern", "make"), STRUCTURES.items())
def test_the_structures_to_measure_on_are_in_canonical_order(pattern, make):
    structure = make()
    assert structure.canonical()[0] == structure


@pytest.mark.parametrize(("pattern", "make"), STRUCTURES.items())
def test_the_users_order_has_the_same_entries_in_no_order(pattern, make):
    structure = make()
    shuffled = structures.shuffled(structure)
    assert shuffled != structure
    assert shuffled.canonical()[0] == structure


def test_the_users_order_is_the_same_in_every_run():
    assert structures.shuffled(structures.ring(9)) == structures.shuffled(structures.ring(9))


def test_half_of_the_edges_have_a_reverse():
    edges = {tuple(pair) for pair in structures.half_reciprocal(4000)["(i j)"].T.tolist()}
    share = sum((j, i) in edges for i, j in edges) / len(edges)
    assert 0.4 < share < 0.6


def test_flops_are_those_of_the_operations_that_are_needed():
    graph = structures.random_graph(200)
    work = Work("(i j) -> (i j)", graph, 8)
    entries, nodes = graph.num_entries("(i j)"), graph.num_nodes
    # Identity and transpose for every entry, four operations at every node, one for the whole.
    assert work.composition.flops == 2 * (2 * entries + 4 * nodes + 1)


def test_only_edges_with_a_reverse_need_flops_for_it():
    graph = structures.half_reciprocal(200)
    edges = graph["(i j)"]
    both = int((graph.locate("(i j)", edges.flip(0)) >= 0).sum())
    assert 0 < both < edges.shape[1]
    assert Composition(Linear("(i j) -> (i j)", 2, 2), graph).flops == 2 * (
        edges.shape[1] + both + 4 * graph.num_nodes + 1
    )


def test_the_lower_bound_adds_flops_and_traffic(monkeypatch):
    monkeypatch.setattr(
        "benchmarks.speed.bench.rates",
        lambda channels: Rates(cached=10.0, cold=5.0, bandwidth=100.0),
    )
    work = Work("(i j) -> i", structures.random_graph(60), 3)
    num_in, num_out = 3 * work.structure.num_entries("(i j)"), 3 * work.structure.num_nodes
    products, traffic = 3 * 9 * work.composition.flops, 4 * (3 * num_in + 2 * num_out) / 100
    assert work.bounds() == pytest.approx((products / 10 + traffic, products / 5 + traffic))


def test_a_row_meets_its_bar_by_its_median():
    assert Figure("a", [1.0, 5.0, 2.0], bar=2.0).is_met
    assert not Figure("a", [1.0, 5.0, 2.0], bar=2.5, is_least=True).is_met
    assert Figure("a", [1.0]).is_met is None


def test_variants_take_turns_and_ratios_go_repeat_by_repeat():
    turns: list[str] = []
    times = Timer(rounds=2, repeats=2).run(
        {"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}
    )
    assert turns == ["a", "a", "b", "b", *["a", "b"] * 4]
    assert len(ratio(times, "a", "b")) == 2


def test_times_are_of_one_call_by_the_clock_and_of_the_busiest_thread():
    kept: list[Time] = []
    numbers = torch.randn(300, 300)
    times = Timer(rounds=3, repeats=2, calls=4, keep=kept.append).run(
        {"sleep": lambda: sleep(0.02), "work": lambda: numbers @ numbers}
    )
    asleep, awake = kept
    assert (asleep.name, awake.name) == ("sleep", "work")
    assert 0.02 <= asleep.wall == min(times["sleep"])
    assert asleep.busiest < 0.01
    assert awake.busiest > 0


def test_processes_that_were_waited_for_count_as_a_thread():
    kept: list[Time] = []
    Timer(rounds=1, repeats=1, keep=kept.append).run(
        {"child": lambda: subprocess.run(SPIN, check=True)}
    )
    assert kept[0].busiest > 0.15


def test_the_start_is_measured_with_every_import_in_a_process_of_its_own(monkeypatch):
    typed = []
    monkeypatch.setattr(
        "benchmarks.speed.start.subprocess.run",
        lambda words, check, env: typed.append((words[-1], env)),
    )
    monkeypatch.setattr("benchmarks.speed.start._first_layer", lambda bench: [])
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert [figure.bar for figure in start(Bench(is_quick=True))] == [1.05, 1.15]
    # in turns
    ours, from_source, theirs = typed[-3:]
    assert [ours[0], from_source[0], theirs[0]] == [*["import incidence.nn"] * 2, "import torch"]
    # compiled modules are kept, but for a copy that is read from source
    assert "PYTHONDONTWRITEBYTECODE" not in ours[1]
    assert "PYTHONDONTWRITEBYTECODE" in from_source[1]
    assert from_source[1]["PYTHONPATH"] != ours[1].get("PYTHONPATH")


def test_the_first_layer_of_a_process_is_measured_beside_the_tenth(monkeypatch):
    monkeypatch.setattr("benchmarks.speed.start._importing", lambda *names: lambda: None)
    _, _, first, tenth = start(Bench(is_quick=True))
    assert (first.unit, tenth.unit) == ("ms", "ms")
    # whatever is found out once for a text is found out by the first
    assert first.values[0] > tenth.values[0] > 0


def test_a_bench_keeps_the_times_of_its_timers():
    bench = Bench(is_quick=True)
    bench.timer("K = 3").run({"ours": lambda: None})
    assert [time.name for time in bench.times] == ["K = 3: ours"]


def test_bars_measures_what_a_file_lacks_and_shows_what_has_a_goal(tmp_path, monkeypatch, capsys):
    measured = []

    def measure(name, arguments):
        measured.append(name)
        if name == "loop" and len(measured) == 4:
            raise IncidenceError("interrupted")
        figures = [{"name": "a", "values": [2.0, 1.0, 4.0], "unit": "x", "bar": 1.5}]
        return {"results": {name: [{**figures[0], "is_least": name == "steps"}]}}

    monkeypatch.setattr(bars, "_measured", measure)
    file = tmp_path / "bars.json"
    with pytest.raises(IncidenceError, match="interrupted"):
        bars.main([str(file)])
    assert measured == ["steps", "epochs", "versions", "loop"]
    bars.main([str(file)])
    assert measured[4:6] == ["loop", "complete"]
    assert len(measured) == len(set(measured)) + 1
    rows = capsys.readouterr().out.splitlines()
    assert "| a: at least 1.5 | 2 (1 to 4) | `bench steps` |" in rows
    assert "| a: at most 1.5 | 2 (1 to 4): NOT MET | `bench epochs` |" in rows
    bars.main([str(file), "--again", "start"])
    assert measured[-1] == "start"


def test_a_benchmark_that_fails_stops_bars(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "benchmarks.bars.subprocess.run", lambda *_, **__: subprocess.CompletedProcess([], 1)
    )
    with pytest.raises(IncidenceError, match="the benchmark 'steps' stopped"):
        bars.main([str(tmp_path / "bars.json")])


def test_a_peer_of_as_many_parameters_is_the_narrowest():
    pytest.importorskip("torch_geometric")
    graph = steps.graph_of(random_molecules(1)[0], has_edges=True)
    settings = {"hidden": 4, "depth": 1, "dropout": 0.0}
    twin = steps.Peer(graph, {**settings, "hidden": 9})
    assert steps.hidden_for(graph, settings, twin) == 9


def test_figures_are_charted_by_how_far_they_are_over_the_bar():
    least, most = Figure("speed", [4.0], bar=2.0, is_least=True), Figure("time", [4.0], bar=2.0)
    assert (least.over_bar(4.0), most.over_bar(4.0)) == (2.0, 0.5)
    _, _, *lines = chart(
        {"a": Result([least, Figure("without", [1.0])]), "b": Result([most])}, width=4
    ).split("\n")
    assert [line.split(maxsplit=2) for line in lines] == [
        ["a:", "speed", "====|==== 2.00"],
        ["b:", "time", "==  | 0.50"],
    ]
    assert chart({"a": Result([Figure("without", [1.0])])}) == ""


def test_figures_become_a_table_and_data():
    times = [Time("K = 3: ours", 0.002, 0.001)]
    result = Result(
        [Figure("one", [1.0, 3.0, 2.0], bar=2.5), Figure("two", [5.0], "us")], times, ["a note"]
    )
    told = text("layer", result)
    assert "\n  a note\n" in told
    assert "2 x    (1 to 3)  bar <= 2.5: met" in told
    assert told.split()[-4:] == ["3:", "ours", "2", "1"]
    data = json.loads(json.dumps(as_data({"layer": result})))
    assert (data["results"]["layer"][0]["median"], data["results"]["layer"][0]["is_met"]) == (
        2.0,
        True,
    )
    assert data["notes"]["layer"] == ["a note"]
    assert data["times"]["layer"] == [{"name": "K = 3: ours", "wall": 0.002, "busiest": 0.001}]
    assert "malloc" in data["machine"]


def test_the_command_line_lists_the_benchmarks_that_there_are(capsys):
    assert tuple(BENCHMARKS) == (
        "limits",
        "pool",
        "broadcast",
        "layer",
        "triangles",
        "mesh",
        "batch",
        "growth",
        "memory",
        "steps",
        "epochs",
        "versions",
        "compiled",
        "loop",
        "threads",
        "peers",
        "hypergraph",
        "products",
        "complete",
        "topomodelx",
        "start",
    )
    assert main(["bench", "speed"]) == 2
    assert "no benchmark 'speed'; there are: limits, pool" in capsys.readouterr().err


def test_the_help_says_what_every_benchmark_measures_in_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit, match="0"):
        main(["bench", "--help"])
    told = capsys.readouterr().out
    for name, measure in BENCHMARKS.items():
        assert re.search(rf"^  {name} +\S+", told, re.MULTILINE), measure.__doc__
    assert [line for line in told.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--threads", "0"], "--threads is 1 to"),
        (["--threads", "100000"], "--threads is 1 to"),
        (
            ["--plot", "no folder/x.png"],
            "--plot writes to a folder that is there; 'no folder' is not",
        ),
        (["--plot", "x.foo"], "--plot writes .png, .svg or .pdf; got 'x.foo'"),
    ],
)
def test_bad_options_are_refused_before_anything_is_measured(words, told, capsys, monkeypatch):
    monkeypatch.setitem(BENCHMARKS, "limits", lambda bench: pytest.fail("it was measured"))
    assert main(["bench", "limits", *words]) == 2
    assert told in capsys.readouterr().err


def test_nothing_is_said_of_bars_when_quick():
    assert "bar" not in text("layer", Result([Figure("one", [1.0], bar=2.0)]), is_quick=True)


def test_no_verdict_is_given_where_the_machine_is_busy():
    result = Result([Figure("one", [1.0], bar=2.0)], load=Load(others=1.0))
    assert "busy: other processes used 1.0 cores" in text("layer", result)
    assert "bar <= 2: busy: no verdict" in text("layer", result)
    assert as_data({"layer": result})["results"]["layer"][0]["is_met"] is None
    assert chart({"layer": result}) == ""


def test_the_machine_is_busy_if_others_use_it_or_threads_wait():
    assert not Load(others=0.1, waiting=1.1).reason
    assert "other processes used 0.3 cores" in Load(others=0.3).reason
    assert not Load(others=0.3, spare=1).reason
    assert "the clock showed 1.5 times" in Load(waiting=1.5).reason


def test_the_load_compares_the_clock_with_the_busiest_threads():
    assert Load.of(0.0, [Time("a", 2.0, 1.0), Time("b", 2.0, 1.0)], threads=1).waiting == 2.0
    assert Load.of(0.0, [], threads=1).waiting == 1.0
    assert Load.of(0.0, [], threads=10**6).spare == 0


def test_other_processes_are_seen_and_own_ones_are_not(monkeypatch):
    clocks = iter([(10.0, 100.0, 5.0), (12.0, 103.0, 6.0)])
    monkeypatch.setattr(load, "_clocks", lambda: next(clocks))
    assert Watch().others() == 1.0  # in 2 seconds 3 were used, 1 of them by this process


def test_processes_that_this_one_started_are_its_own():
    _, machine_before, before = load._clocks()
    subprocess.run(SPIN, check=True)
    _, machine_after, after = load._clocks()
    assert after - before > 0.15
    assert machine_after - machine_before > 0.1


def test_the_report_says_on_which_kind_of_machine(monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    told = machine(is_kept=True)
    for part in (
        "torch",
        "cores",
        "threads",
        "family",
        "AVX",
        "malloc set by the environment, memory kept between steps",
    ):
        assert part in told


def test_the_composition_has_one_product_for_each_operation():
    work = Work("(i j k) -> (i j k)", structures.random_triples(60), 3)
    composition = work.composition
    with torch.profiler.profile() as profile:
        composition(work.xs)
    products = [event for event in profile.events() if event.name == "aten::mm"]
    assert len(products) == work.layer.map.dimension == 34


def test_growth_is_measured_with_memory_kept_too(monkeypatch):
    monkeypatch.setattr(
        "benchmarks.speed.large._fourfold",
        lambda bench, n: [Figure(f"time, n = {n}", [4.0], bar=4.3)],
    )
    monkeypatch.setattr(
        Bench, "in_fresh_process", lambda bench, *words: [Figure(" ".join(words), [4.0], bar=4.3)]
    )
    *_, last = growth(Bench(is_quick=True))
    assert (last.name, last.bar) == ("growth --keep-memory, memory kept", None)


def test_memory_is_kept_only_where_it_can_be(monkeypatch, capsys):
    monkeypatch.setitem(
        BENCHMARKS, "limits", lambda bench: [Figure("kept" if bench.is_kept else "stock", [1.0])]
    )
    monkeypatch.setattr(incidence, "keep_memory", lambda: False, raising=False)
    assert main(["bench", "limits", "--quick", "--keep-memory"]) == 2
    assert (
        "--keep-memory needs a system on which `incidence.keep_memory` works"
        in capsys.readouterr().err
    )
    monkeypatch.setattr(incidence, "keep_memory", lambda: True)
    assert (
        main(
            ["bench", "limits", "--quick", "--keep-memory", f"--threads={torch.get_num_threads()}"]
        )
        == 0
    )
    assert "memory kept between steps" in capsys.readouterr().out


def test_figures_of_another_process_are_taken_over():
    bench = Bench(is_quick=True)
    figures = bench.in_fresh_process("pool")
    assert [(figure.unit, len(figure.values)) for figure in figures] == [("x", 1)] * 3
    assert len(bench.times) == 6


def test_what_another_process_refuses_is_said_in_its_words():
    with pytest.raises(IncidenceError, match=r"^no benchmark 'nothing'; there are: limits"):
        Bench(is_quick=True).in_fresh_process("nothing")


def test_large_layers_are_measured_in_the_order_of_the_user(monkeypatch):
    seen = []

    class Seen(Work):
        def __init__(self, text, structure, *rest):
            super().__init__(text, structure, *rest)
            seen.append(structure.canonical()[0] == structure)

    monkeypatch.setattr("benchmarks.speed.layers.Work", Seen)
    monkeypatch.setattr(Bench, "size", lambda bench, number: 60)
    names = [figure.name for figure in layer(Bench(is_quick=True))]
    assert seen.count(True) == 2  # canonical order, to compare with, for two numbers of channels
    assert seen.count(False) == 7
    assert "user's order over canonical order, time, K = 64" in names
    assert "over the lower bound, K = 64, products at the rate from memory" in names


def test_the_command_line_prints_one_json_object(capsys, monkeypatch):
    monkeypatch.setitem(
        BENCHMARKS, "limits", lambda bench: [Figure("quick" if bench.is_quick else "slow", [1.0])]
    )
    threads = torch.get_num_threads()
    try:
        assert main(["bench", "limits", "--quick", "--json", "--threads", "1"]) == 0
    finally:
        torch.set_num_threads(threads)
    assert json.loads(capsys.readouterr().out)["results"]["limits"][0]["name"] == "quick"


def test_sizes_are_cut_and_rounds_are_few_when_quick():
    assert Bench(is_quick=True).size(1000) == 100
    assert Bench(is_quick=True).timer("").repeats == 1
    assert Bench().timer("").repeats == 3
