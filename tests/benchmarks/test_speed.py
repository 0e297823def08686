"""The benchmarks compare like with like, and say what they found."""

import json
from time import sleep

import pytest
import torch

from benchmarks.speed import structures
from benchmarks.speed.composition import Composition
from benchmarks.speed.peers import _stack
from benchmarks.speed.report import as_data, chart, text
from benchmarks.speed.suite import BENCHMARKS, Bench, Work
from benchmarks.speed.timing import Figure, Rates, Time, Timer, ratio
from incidence.cli import main
from incidence.nn import Linear

STRUCTURES = {
    "(i j) -> (i j)": lambda: structures.random_graph(60),
    "(i j)  -> (i j)": lambda: structures.half_reciprocal(60),
    " (i j) -> (i j)": lambda: structures.power_law(60),
    "(i j k) -> (i j k)": lambda: structures.random_triples(60),
    "i, {i j}, {i j k} -> i, {i j}, {i j k}": lambda: structures.triangle_mesh(20),
}


@pytest.mark.parametrize("at", ["entries", "keys"])
@pytest.mark.parametrize(("pattern", "make"), STRUCTURES.items())
def test_the_composition_computes_the_same_map(pattern, make, at):
    work = Work(pattern, make(), 3)
    for parameter in work.layer.parameters():
        torch.nn.init.normal_(parameter)
    for one, other in zip(work.composition(work.xs, at), work._forward(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("pattern", "make"), STRUCTURES.items())
def test_the_structures_to_measure_on_are_in_canonical_order(pattern, make):
    structure = make()
    assert structure.canonical()[0] == structure


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
    assert Composition(Linear("(i j) -> (i j)", 2, 2), graph).flops == 2 * (edges.shape[1] + both + 4 * graph.num_nodes + 1)


def test_the_fifteen_features_span_what_the_layer_does():
    x = torch.randn(1, 5, 5, 1, dtype=torch.float64)
    assert _stack(x).shape == (15, 1, 5, 5, 1)
    eye = torch.eye(25, dtype=torch.float64).view(25, 5, 5, 1)
    assert torch.linalg.matrix_rank(_stack(eye).reshape(15, -1)) == 15


def test_the_lower_bound_adds_flops_and_traffic(monkeypatch):
    monkeypatch.setattr("benchmarks.speed.suite.rates", lambda channels: Rates(flops=10.0, bandwidth=100.0))
    work = Work("(i j) -> i", structures.random_graph(60), 3)
    num_in, num_out = 3 * work.structure.num_entries("(i j)"), 3 * work.structure.num_nodes
    assert work.bound() == pytest.approx(3 * 9 * work.composition.flops / 10 + 4 * (3 * num_in + 2 * num_out) / 100)


def test_a_row_meets_its_bar_by_its_median():
    assert Figure("a", [1.0, 5.0, 2.0], bar=2.0).is_met
    assert not Figure("a", [1.0, 5.0, 2.0], bar=2.5, is_least=True).is_met
    assert Figure("a", [1.0]).is_met is None


def test_variants_take_turns_and_ratios_go_repeat_by_repeat():
    turns: list[str] = []
    times = Timer(rounds=2, repeats=2).run({"a": lambda: turns.append("a"), "b": lambda: turns.append("b")})
    assert turns == ["a", "a", "b", "b", *["a", "b"] * 4]
    assert len(ratio(times, "a", "b")) == 2


def test_times_are_of_one_call_by_the_clock_and_of_the_busiest_thread():
    kept: list[Time] = []
    numbers = torch.randn(300, 300)
    times = Timer(rounds=3, repeats=2, calls=4, keep=kept.append).run({"sleep": lambda: sleep(0.02), "work": lambda: numbers @ numbers})
    asleep, awake = kept
    assert (asleep.name, awake.name) == ("sleep", "work")
    assert 0.02 <= asleep.wall == min(times["sleep"])
    assert asleep.busiest < 0.01
    assert awake.busiest > 0


def test_a_bench_keeps_the_times_of_its_timers():
    bench = Bench(is_quick=True)
    bench.timer("K = 3").run({"ours": lambda: None})
    assert [time.name for time in bench.times] == ["K = 3: ours"]


def test_figures_are_charted_by_how_far_they_are_over_the_bar():
    least, most = Figure("speed", [4.0], bar=2.0, is_least=True), Figure("time", [4.0], bar=2.0)
    assert (least.over_bar(4.0), most.over_bar(4.0)) == (2.0, 0.5)
    _, _, *lines = chart({"a": [least, Figure("without", [1.0])], "b": [most]}, width=4).split("\n")
    assert [line.split(maxsplit=2) for line in lines] == [["a:", "speed", "====|==== 2.00"], ["b:", "time", "==  | 0.50"]]
    assert chart({"a": [Figure("without", [1.0])]}) == ""


def test_figures_become_a_table_and_data():
    results = {"layer": [Figure("one", [1.0, 3.0, 2.0], bar=2.5), Figure("two", [5.0], "us")]}
    assert "2 x    (1 to 3)  bar <= 2.5: met" in text("layer", results["layer"])
    times = [Time("K = 3: ours", 0.002, 0.001)]
    assert text("layer", results["layer"], times).split()[-4:] == ["3:", "ours", "2", "1"]
    data = json.loads(json.dumps(as_data(results, {"layer": times})))
    assert data["results"]["layer"][0]["median"] == 2.0
    assert data["times"]["layer"] == [{"name": "K = 3: ours", "wall": 0.002, "busiest": 0.001}]
    assert "malloc" in data["machine"]


def test_the_command_line_lists_the_benchmarks_that_there_are(capsys):
    assert tuple(BENCHMARKS) == (
        "limits", "pool", "broadcast", "layer", "triangles", "mesh", "batch", "growth", "memory", "peers"
    )  # fmt: skip
    assert main(["bench", "speed"]) == 2
    assert "no benchmark 'speed'; there are: limits, pool" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--threads", "0"], "--threads is 1 to"),
        (["--threads", "100000"], "--threads is 1 to"),
        (["--plot", "no folder/x.png"], "--plot writes to a folder that is there; 'no folder' is not"),
        (["--plot", "x.foo"], "--plot writes .png, .svg or .pdf; got 'x.foo'"),
    ],
)
def test_bad_options_are_refused_before_anything_is_measured(words, told, capsys, monkeypatch):
    monkeypatch.setitem(BENCHMARKS, "limits", lambda bench: pytest.fail("it was measured"))
    assert main(["bench", "limits", *words]) == 2
    assert told in capsys.readouterr().err


def test_nothing_is_said_of_bars_when_quick():
    assert "bar" not in text("layer", [Figure("one", [1.0], bar=2.0)], is_quick=True)


def test_the_composition_has_one_product_for_each_operation():
    work = Work("(i j k) -> (i j k)", structures.random_triples(60), 3)
    composition = work.composition
    with torch.profiler.profile() as profile:
        composition(work.xs)
    products = [event for event in profile.events() if event.name == "aten::mm"]
    assert len(products) == work.layer.map.dimension == 34


def test_the_command_line_prints_one_json_object(capsys, monkeypatch):
    monkeypatch.setitem(BENCHMARKS, "limits", lambda bench: [Figure("quick" if bench.is_quick else "slow", [1.0])])
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
