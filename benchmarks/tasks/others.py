"""Meshes, small graphs with folds, hypergraphs, labels of nodes, ratings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks import nodes, ratings
from benchmarks.sets.files import find
from benchmarks.sets.hypergraphs import random_halves
from benchmarks.sets.meshes import soft_accuracy, soft_labels
from benchmarks.tasks.bench import Bench
from benchmarks.tasks.molecules import Measure
from benchmarks.tasks.peers import train_gin
from benchmarks.tasks.task import Outcome, Row, Task, at_least, at_most, best_epoch_of_all
from incidence.data import Split

# ---- meshes


def shrec(name: str, **options: object) -> Measure:
    """Return a measure of SHREC11, last epoch."""

    def measure(bench: Bench, seed: int) -> Iterator[Outcome]:
        data = bench.load(name, **({"seed": seed} if name.endswith("10") else {}))
        run = bench.train(data, f"seed {seed}", seed=seed, **options)
        yield Outcome(100 * bench.test(run, "accuracy"), run=run)

    return measure


def coseg(name: str) -> Measure:
    """Return a measure of COSEG by the accuracy that MeshCNN reports, last epoch."""

    def measure(bench: Bench, seed: int) -> Iterator[Outcome]:
        data = bench.load(name)
        run = bench.train(data, f"seed {seed}", seed=seed)
        rows = data.splits[0].test.tolist()
        soft = soft_labels(name, bench.folder)
        scored = run.evaluation.parts["test"]
        examples = [data.examples[row] for row in rows]
        sizes = [one.structure.num_entries("{i j}") for one in examples]
        predicted = scored.predicted.argmax(1).split(sizes)
        value = soft_accuracy(predicted, examples, [soft[row] for row in rows])
        more = {"accuracy of hard labels": 100 * scored.metrics["accuracy"]}
        yield Outcome(100 * value, run=run, more=more)

    return measure


# ---- small graphs with ten folds


def ten_folds(name: str) -> Measure:
    """Return a measure of a fold, by two protocols.

    Nested: the epoch that is best on a tenth of the training data, then the test fold, once; beside
    GIN. Xu et al.: the curve of the test fold, of which the epoch is chosen that is best on average
    over the folds, which is optimistic.
    """

    def measure(bench: Bench, fold: int) -> Iterator[Outcome]:
        data = bench.load(name)
        options = {"split": fold, "seed": fold, "validation": 0.1, "keep": "best"}
        run = bench.train(data, f"fold {fold} nested", **options)
        peer = train_gin(run, bench.path(f"fold {fold} gin"))
        yield Outcome(
            100 * bench.test(run, "accuracy"),
            run=run,
            baselines={"GIN": 100 * peer.parts["test"].metrics["accuracy"]},
            more={"validation": 100 * bench.validation(run, "accuracy")},
        )
        splits = tuple(Split(own.train, own.test, own.test) for own in data.splits)
        watched = replace(data, splits=splits)
        run = bench.train(watched, f"fold {fold}", split=fold, seed=fold, keep="last")
        curve = [100 * row["validation_accuracy"] for row in run.history]
        yield Outcome(curve[-1], "published protocol", run, more={"curve": curve})

    return measure


def _rows_of_folds(name: str, published: str, nested: float | None, other: float) -> dict[str, Row]:
    return {
        "": Row(
            f"{name}, nested",
            "ten folds, best epoch on a tenth of the training data",
            "accuracy, %",
            "",
            None if nested is None else at_least(nested),
            digits=1,
        ),
        "published protocol": Row(
            f"{name}, published protocol",
            "ten folds, best epoch of the average test curve (Xu et al.)",
            "accuracy, %",
            published,
            at_least(other),
            digits=1,
            summary=best_epoch_of_all,
        ),
    }


# ---- hypergraphs


def node_splits(name: str) -> Measure:
    """Return a measure of labels of nodes of a hypergraph, seed k with split k."""

    def measure(bench: Bench, split: int) -> Iterator[Outcome]:
        run = bench.train(bench.load(name), f"split {split}", seed=split, split=split)
        parts = run.evaluation.parts
        more = {}
        if "validation" in parts:
            more["validation"] = 100 * parts["validation"].metrics["accuracy"]
        yield Outcome(100 * bench.test(run, "accuracy"), run=run, more=more)

    return measure


def half_for_training(name: str) -> Measure:
    """Return a measure with random parts of 50, 25 and 25 per cent in place of the published ones,
    as the later papers have it.
    """

    def measure(bench: Bench, number: int) -> Iterator[Outcome]:
        data = bench.load(name)
        data = replace(data, splits=(random_halves(data.num_rows, number),))
        run = bench.train(data, f"split {number}", seed=number)
        more = {"validation": 100 * bench.validation(run, "accuracy")}
        yield Outcome(100 * bench.test(run, "accuracy"), run=run, more=more)

    return measure


def whole_hypergraphs(name: str) -> Measure:
    """Return a measure of a fold; the best epoch by a tenth of the training part."""

    def measure(bench: Bench, fold: int) -> Iterator[Outcome]:
        options = {"split": fold, "seed": fold, "validation": 0.1, "keep": "best"}
        run = bench.train(bench.load(name), f"fold {fold}", **options)
        more = {"validation": 100 * bench.validation(run, "accuracy")}
        yield Outcome(100 * bench.test(run, "accuracy"), run=run, more=more)

    return measure


def _nodes_row(title: str, published: str, goal: float | None) -> dict[str, Row]:
    protocol = "ten random splits of 50, 25 and 25 per cent, best epoch by validation"
    aim = None if goal is None else at_least(goal)
    return {"": Row(title, protocol, "accuracy, %", published, aim, digits=1)}


def _citation_row(title: str, published: str, goal: float | None) -> dict[str, Row]:
    protocol = "ten published splits, about 140 labels, last epoch"
    aim = None if goal is None else at_least(goal)
    return {"": Row(title, protocol, "accuracy, %", published, aim, digits=1)}


def _whole_row(title: str, floor: float) -> dict[str, Row]:
    protocol = "five folds, best epoch on a tenth of the training data"
    published = f"features of hypergraph WL with kernel ridge {floor}"
    return {"": Row(title, protocol, "accuracy, %", published, at_least(floor), digits=1)}


# ---- labels of nodes of one graph, and ratings: by the commands of their own


def node_labels(name: str) -> Measure:
    """Return a measure of `./run bench nodes`, beside GCNs of PyG on the same parts."""

    def measure(bench: Bench, seed: int) -> Iterator[Outcome]:
        assert bench.folder is not None
        loader, called, metric = nodes.SETS[name]
        data = loader(called, bench.folder)
        split = seed % len(data.splits)
        peers = {
            who: 100 * nodes.theirs(data, metric, split, seed, peer)[1]
            for who, peer in nodes.PEERS[name].items()
        }
        run = bench.train(data, f"split {seed}", seed=seed, split=split, metric=metric)
        more = {}
        if "validation" in run.evaluation.parts:
            more["validation"] = 100 * bench.validation(run, metric)
        yield Outcome(100 * bench.test(run, metric), run=run, baselines=peers, more=more)

    return measure


def _rows_of_nodes(title: str, metric: str, published: str, goal: float | None) -> dict[str, Row]:
    aim = None if goal is None else at_least(goal)
    return {"": Row(title, "ten splits, no options", metric, published, aim, digits=1)}


def rated(name: str) -> Measure:
    """Return a measure of `./run bench ratings`: tables as they come, beside damped means."""

    def measure(bench: Bench, seed: int) -> Iterator[Outcome]:
        assert bench.folder is not None
        tables = bench.path("tables")
        table, *others = ratings.write_tables(name, bench.folder, tables)
        options = {"target": "rating", "seed": seed}
        if others:
            options["tables"] = tuple(map(str, others))
        run = bench.train(str(table), f"seed {seed}", **options)
        baselines = {"damped means": run.evaluation.parts["test"].baseline["rmse"]}
        yield Outcome(bench.test(run, "rmse"), run=run, baselines=baselines)

    return measure


def triples(name: str) -> Measure:
    """Return a measure of typed triples as they come, beside the best of three counts."""

    def measure(bench: Bench, seed: int) -> Iterator[Outcome]:
        assert bench.folder is not None
        path = find(name, bench.folder, "relational", f"{name}/train.txt").parent
        run = bench.train(str(path), f"seed {seed}", task="links", seed=seed)
        scored = run.evaluation.parts["test"]
        more = {key: value for key, value in scored.metrics.items() if key != "mrr"}
        baselines = {"best of three counts": scored.baseline["mrr"]}
        yield Outcome(scored.metrics["mrr"], run=run, baselines=baselines, more=more)

    return measure


def _triples_row(title: str, published: str, goal: float) -> dict[str, Row]:
    protocol = "published parts, three seeds, filtered ranks of heads and tails"
    return {"": Row(title, protocol, "mean reciprocal rank", published, at_least(goal))}


def _rating_row(title: str, published: str, goal: float, digits: int) -> dict[str, Row]:
    protocol = "published parts, three seeds, tables alone"
    return {"": Row(title, protocol, "RMSE", published, at_most(goal), digits=digits)}


_ROC = "area under the ROC curve, %"
_MESHES, _SMALL = "Meshes", "Small graphs"
_HYPER, _ONE = "Hypergraphs", "One graph"
_RATINGS, _RELATIONS = "Ratings", "Relations"
TASKS = {
    "shrec11": Task(
        _MESHES,
        shrec("shrec11"),
        {
            "": Row(
                "SHREC11, 16 training meshes a class",
                "published split, three seeds, last epoch",
                "accuracy, %",
                "MeshCNN 98.6, HodgeNet 99.2, PD-MeshNet 99.7",
                at_least(100),
                digits=1,
            )
        },
        runs=3,
    ),
    "shrec11-10": Task(
        _MESHES,
        shrec("shrec11-10"),
        {
            "": Row(
                "SHREC11, 10 training meshes a class",
                "drawn with the seed, three seeds, last epoch",
                "accuracy, %",
                "MeshCNN 91.0, HodgeNet 94.7, PD-MeshNet 99.1",
                at_least(99.7),
                digits=1,
            )
        },
        runs=3,
    ),
    "coseg-aliens": Task(
        _MESHES,
        coseg("coseg-aliens"),
        {
            "": Row(
                "COSEG aliens",
                "published split, three seeds, last epoch; the measure of MeshCNN",
                "accuracy of edges, %",
                "MeshCNN 97.6",
                at_least(97.6),
                digits=1,
            )
        },
        runs=3,
    ),
    "coseg-vases": Task(
        _MESHES,
        coseg("coseg-vases"),
        {
            "": Row(
                "COSEG vases",
                "published split, three seeds, last epoch; the measure of MeshCNN",
                "accuracy of edges, %",
                "MeshCNN 97.3",
                at_least(97.3),
                digits=1,
            )
        },
        runs=3,
    ),
    "mutag": Task(
        _SMALL,
        ten_folds("mutag"),
        _rows_of_folds("MUTAG", "IGN 83.9, GIN 89.4, PPGN 90.6, CIN 92.7", 85, 92),
        10,
        "fold",
    ),
    "ptc": Task(
        _SMALL,
        ten_folds("ptc"),
        _rows_of_folds("PTC", "IGN 58.5, GIN 64.6, PPGN 66.2, CIN 68.2", None, 68.2),
        10,
        "fold",
    ),
    "proteins": Task(
        _SMALL,
        ten_folds("proteins"),
        _rows_of_folds("PROTEINS", "IGN 76.6, GIN 76.2, PPGN 77.2, CIN 77.0", 75, 77.0),
        10,
        "fold",
    ),
    "nci1": Task(
        _SMALL,
        ten_folds("nci1"),
        _rows_of_folds("NCI1", "IGN 74.3, GIN 82.7, PPGN 83.2, CIN 83.6", None, 83.6),
        10,
        "fold",
    ),
    "imdb-b": Task(
        _SMALL,
        ten_folds("imdb-b"),
        _rows_of_folds("IMDB-B", "IGN 72.0, GIN 75.1, PPGN 73.0, CIN 75.6", 71, 75.6),
        10,
        "fold",
    ),
    "imdb-m": Task(
        _SMALL,
        ten_folds("imdb-m"),
        _rows_of_folds("IMDB-M", "IGN 48.7, GIN 52.3, PPGN 50.5, CIN 52.7", None, 52.7),
        10,
        "fold",
    ),
    "cora-cocitation": Task(
        _HYPER,
        node_splits("cora-cocitation"),
        _citation_row("Cora, co-citation", "HyperGCN 67.6", 67.6),
        10,
        "split",
    ),
    "cora-coauthorship": Task(
        _HYPER,
        node_splits("cora-coauthorship"),
        _citation_row("Cora, co-authorship", "HyperGCN 69.9", 69.9),
        10,
        "split",
    ),
    "citeseer-cocitation": Task(
        _HYPER,
        node_splits("citeseer-cocitation"),
        _citation_row("Citeseer, co-citation", "HyperGCN 62.6", 62.6),
        10,
        "split",
    ),
    "citeseer-half": Task(
        _HYPER,
        half_for_training("citeseer-cocitation"),
        _nodes_row("Citeseer, co-citation, half for training", "HealHGNN 75.1", 75.1),
        10,
        "split",
    ),
    "house": Task(
        _HYPER,
        node_splits("house"),
        _nodes_row(
            "House, noisy labels as features",
            "AllSetTransformer 69.3, ED-HNN 72.5, SheafHyperGNN 73.8, HealHGNN 77.2",
            77.2,
        ),
        10,
        "split",
    ),
    "mushroom": Task(
        _HYPER,
        node_splits("mushroom"),
        _nodes_row("Mushroom", "AllSetTransformer 100.0, vote of neighbours 99.96", 100.0),
        10,
        "split",
    ),
    "20news": Task(
        _HYPER,
        node_splits("20news"),
        _nodes_row("20newsW100", "AllSetTransformer 81.4, MLP 81.4", 81.4),
        10,
        "split",
    ),
    "rhg-10": Task(_HYPER, whole_hypergraphs("rhg-10"), _whole_row("RHG-10", 97.0), 5, "fold"),
    "imdb-form": Task(
        _HYPER, whole_hypergraphs("imdb-form"), _whole_row("IMDB, form", 66.4), 5, "fold"
    ),
    "imdb-genre": Task(
        _HYPER, whole_hypergraphs("imdb-genre"), _whole_row("IMDB, genre", 77.7), 5, "fold"
    ),
    "stream-player": Task(
        _HYPER, whole_hypergraphs("stream-player"), _whole_row("stream-player", 55.6), 5, "fold"
    ),
    "minesweeper": Task(
        _ONE,
        node_labels("minesweeper"),
        _rows_of_nodes("Minesweeper", _ROC, "GCN 89.8, GAT-sep 93.9, tuned GCN 97.9", 97.9),
        10,
        "split",
    ),
    "chameleon": Task(
        _ONE,
        node_labels("chameleon"),
        _rows_of_nodes("Chameleon, filtered", "accuracy, %", "GCN 40.9, tuned GCN 46.3", 46.3),
        10,
        "split",
    ),
    "squirrel": Task(
        _ONE,
        node_labels("squirrel"),
        _rows_of_nodes("Squirrel, filtered", "accuracy, %", "GCN 39.5, tuned GCN 45.0", 45.0),
        10,
        "split",
    ),
    "cora": Task(
        _ONE,
        node_labels("cora"),
        _rows_of_nodes("Cora, cliques of co-citation", "accuracy, %", "", None),
        10,
        "split",
    ),
    "cora-authors": Task(
        _ONE,
        node_labels("cora-authors"),
        _rows_of_nodes("Cora, cliques of co-authorship", "accuracy, %", "", None),
        10,
        "split",
    ),
    "flixster": Task(
        _RATINGS, rated("flixster"), _rating_row("Flixster", "GC-MC 0.917, IGMC 0.872", 0.872, 3), 3
    ),
    "douban": Task(
        _RATINGS, rated("douban"), _rating_row("Douban", "GC-MC 0.734, IGMC 0.721", 0.722, 4), 3
    ),
    "yahoo-music": Task(
        _RATINGS,
        rated("yahoo_music"),
        _rating_row("YahooMusic", "GC-MC 20.5, IGMC 19.1", 19.1, 2),
        3,
    ),
    "nations": Task(
        _RELATIONS,
        triples("nations"),
        _triples_row("Nations", "ConvE 0.82, one rule 0.838", 0.82),
        3,
    ),
    "umls": Task(
        _RELATIONS,
        triples("umls"),
        _triples_row("UMLS", "ConvE 0.94, frequencies 0.661", 0.94),
        3,
    ),
}
