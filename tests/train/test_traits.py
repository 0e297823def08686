"""Traits of data decide options, and a run says which trait did."""

from dataclasses import replace

import pytest
import torch

import incidence as inc
from incidence.data import Split
from incidence.train import Config
from incidence.train.prepare import prepare
from incidence.train.recipes import recipe_by_traits
from incidence.train.traits import measure_traits
from tests.train.small_graphs import COUNTED, MOLECULES, cycle, data_of, fan, graph


def test_graphs_with_few_edges_at_a_node_and_kinds_of_nodes_are_sparse_as_molecules():
    traits = measure_traits(MOLECULES, MOLECULES.splits[0])
    assert traits.are_sparse_as_molecules
    assert (traits.num_examples, traits.mean_degree, traits.most_degree) == (50, 2.0, 2)
    plain = data_of([graph(cycle(6), False, k / 7) for k in range(60)])
    assert not measure_traits(plain, plain.splits[0]).are_sparse_as_molecules


def test_whole_numbers_are_counts_and_fractions_or_few_values_are_not():
    assert measure_traits(COUNTED, COUNTED.splits[0]).are_counts
    assert not measure_traits(MOLECULES, MOLECULES.splits[0]).are_counts
    few = data_of([graph(cycle(4, chord=True), False, float(k % 3)) for k in range(60)])
    assert not measure_traits(few, few.splits[0]).are_counts
    below = data_of([graph(cycle(4), False, float(k - 30)) for k in range(60)])
    assert not measure_traits(below, below.splits[0]).are_counts


def test_the_correlation_with_triangles_is_one_for_their_number_and_small_for_others():
    follows = measure_traits(COUNTED, COUNTED.splits[0]).follows_triangles
    assert follows == pytest.approx(1.0)
    others = data_of([graph(fan(1 + k % 20), False, float(7 * k % 17)) for k in range(60)])
    traits = measure_traits(others, others.splits[0])
    assert traits.are_counts
    assert abs(traits.follows_triangles) < 0.4
    assert recipe_by_traits(others, others.splits[0]).options == {}


def test_triangles_are_not_counted_around_hubs_with_too_many_pairs(monkeypatch):
    monkeypatch.setattr("incidence.train.traits._MOST_PAIRS", 10)
    assert measure_traits(COUNTED, COUNTED.splits[0]).follows_triangles == 0.0


def test_counts_of_graphs_are_learned_by_a_polynomial_and_the_run_says_why():
    experiment = prepare(Config(data="graphs"), COUNTED)
    assert experiment.config.activation == "none"
    assert experiment.config.products == ("{i j}, {j k}, {i k} -> {i j}",)
    assert "recipe: targets are whole numbers from 0" in experiment.describe()


def test_sparse_labelled_graphs_get_rings_with_local_operations_and_the_run_says_why():
    experiment = prepare(Config(data="graphs"), MOLECULES)
    assert (experiment.config.model, experiment.config.operations) == ("rings", ("local",))
    assert experiment.lift.name == "rings"
    assert "sparse as molecules are (2.0 edges at a node)" in experiment.describe()


def test_many_sparse_labelled_graphs_get_larger_rings_and_no_dropout():
    many = replace(MOLECULES, examples=[MOLECULES.examples[k % 60] for k in range(5100)])
    rows = torch.arange(5100)
    options = recipe_by_traits(many, Split(rows[:5000], rows[5000:], rows[:0])).options
    assert (options["max_size"], options["dropout"], options["hidden"]) == (18, 0.0, 80)
    assert options["epochs"] == 400
    more = recipe_by_traits(many, Split(torch.arange(40_000) % 5100, rows[:0], rows[:0]))
    assert more.options["epochs"] == 100  # four million examples in all


def test_many_molecules_with_numbers_get_their_rings_and_a_wide_network():
    def with_rings(example):
        structure = inc.geometry.lifting.rings(example.structure, max_length=8)
        ones = torch.ones(structure.num_entries("ring"), 1)
        features = {**example.features, "ring={i ...}": ones}
        return example.replace(structure=structure, features=features)

    ringed = [with_rings(example) for example in MOLECULES.examples]
    many = replace(MOLECULES, examples=[ringed[k % 60] for k in range(5000)])
    rows = torch.arange(5000)
    split = Split(rows, rows[:0], rows[:0])
    recipe = recipe_by_traits(many, split)
    assert (recipe.options["model"], recipe.options["hidden"]) == ("molecule-rings", 80)
    assert "there are 5,000 molecules" in recipe.reason
    few = recipe_by_traits(replace(many, splits=()), Split(rows[:100], rows[:0], rows[:0]))
    assert few.options == {}


def test_the_absolute_metric_has_the_absolute_loss():
    absolute = replace(MOLECULES, metric="mae")
    assert prepare(Config(data="graphs"), absolute).config.loss == "absolute"
    assert prepare(Config(data="graphs"), MOLECULES).config.loss == "squared"


def test_a_model_that_the_user_chooses_has_no_option_of_the_recipe_but_the_best_epoch():
    experiment = prepare(Config(data="graphs", model="graph"), COUNTED)
    assert (experiment.config.lr, experiment.config.products) == (Config().lr, None)
    assert experiment.reason == ""
    assert experiment.config.keep == "best"


def test_the_best_epoch_is_saved_where_the_data_has_a_validation_part_and_the_last_elsewhere():
    assert prepare(Config(data="graphs"), COUNTED).config.keep == "best"
    assert prepare(Config(data="graphs", keep="last"), COUNTED).config.keep == "last"
    rows = torch.arange(60)
    drawn = replace(COUNTED, has_drawn_parts=True)
    assert prepare(Config(data="graphs"), drawn).config.keep == "last"  # of ten examples
    without = replace(COUNTED, splits=(Split(rows, rows[:0], rows[:0]),))
    assert prepare(Config(data="graphs"), without).config.keep == "last"
