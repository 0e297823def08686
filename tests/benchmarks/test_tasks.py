"""Tasks measure what their rows say: the error of the challenge, GIN beside ours, sums of pairs."""

from dataclasses import replace

import pytest
import torch

import incidence as inc
from benchmarks.record import Result
from benchmarks.sets.graphs import FAMILIES
from benchmarks.tasks import TASKS, communities, power
from benchmarks.tasks.bench import Bench
from benchmarks.tasks.peers import GIN, train_gin
from incidence.structure.collate import collate
from tests.train.small_graphs import MOLECULES

SMALL = {"model": "graph", "epochs": 2, "hidden": 8, "depth": 1, "threads": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    bench = Bench("small", None, tmp_path_factory.mktemp("runs"))
    data = replace(MOLECULES, splits=(MOLECULES.splits[0]._replace(test=torch.arange(5)),))
    return bench.train(data, "seed 0", **SMALL)


def test_gin_is_trained_beside_ours_on_the_same_parts_with_about_as_many_weights(run, tmp_path):
    evaluation = train_gin(run, tmp_path / "gin")
    assert {*evaluation.parts} == {"train", "validation", "test"}
    for name, scored in evaluation.parts.items():
        assert torch.equal(scored.target, run.evaluation.parts[name].target)
        assert scored.metrics["rmse"] != run.evaluation.parts[name].metrics["rmse"]
    assert len((tmp_path / "gin" / "history.csv").read_text().splitlines()) == 1 + 2


def test_gin_does_not_depend_on_the_order_of_nodes_or_of_graphs():
    torch.manual_seed(0)
    net = GIN((3, 1), 2, 16, 3, 0.0).eval()
    first, second = MOLECULES.examples[0], MOLECULES.examples[3]
    batch = collate([first, second])
    whole = net(batch.features, batch.structure)
    alone = torch.cat([net(e.features, e.structure) for e in (first, second)])
    torch.testing.assert_close(whole, alone)
    edge = inc.Structure(2, {"{i j}": torch.tensor([[0], [1]])})
    x, ones = torch.randn(2, 3), torch.ones(1, 1)
    one_way, other_way = (net({"i": own, "{i j}": ones}, edge) for own in (x, x.flip(0)))
    torch.testing.assert_close(one_way, other_way)


def test_the_error_of_the_challenge_is_the_squared_error_by_the_number_of_triangles(run):
    target = torch.arange(5.0)  # the triangles of the five test graphs
    examples = [
        own.replace(target=count[None])
        for own, count in zip(MOLECULES.examples[:5], target, strict=True)
    ]
    data = replace(MOLECULES, examples=examples, splits=run.experiment.data.splits)
    tests = collate([data.examples[k] for k in range(5)])
    predicted = run.predictor.eval().predict(tests.features, tests.structure)[:, 0]
    expected = float((predicted - target).square().mean() / target.sum())
    assert communities._triangle_error(run, data) == pytest.approx(expected, rel=1e-5)


def test_every_run_of_a_task_has_a_row():
    for name, task in TASKS.items():
        for number in range(task.runs):
            assert task.names_of(number), f"run {number} of {name} has no result"


def test_families_of_the_challenge_come_before_its_seeds():
    task = TASKS["tdl-triangles"]
    assert task.runs == 3 * len(communities.SETTINGS)
    assert len(set(communities.SETTINGS)) == 12


def test_cycles_of_each_length_have_their_own_run():
    task = TASKS["cycles"]
    assert [task.names_of(number) for number in range(4)] == [[f"cycle{k}"] for k in (3, 4, 5, 6)]
    assert TASKS["sr"].runs == len(FAMILIES)


def test_pairs_of_groups_add_up():
    parts = [Result("brec", "", f"group {k}", "pairs", 10.0 * k, "brec", "") for k in (1, 2)]
    assert power.total(parts)[::2] == (30.0, 2)
