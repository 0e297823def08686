"""Predict ratings with relaxed symmetry: users and movies are two sets, permuted separately.

    ./run python examples/exchangeable_ratings.py --data ../shared/data/monti_ratings --figure
    docs/ratings.svg

The model sees some ratings and predicts others. It is inductive: no user and no movie has its own
parameters. It has `nn.Exchangeable` layers on the table of known ratings, and their means are
features of users and movies. If there is a graph on users or movies, features go along its edges
once. The output is added to the damped biases of users and movies, a baseline that is hard to beat.

Every setting was chosen on validation ratings, which are a tenth of the training ratings
(`--validate` shows them). The test ratings are used once, by models that were trained on all
training ratings.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import incidence as inc

SETS = {"flixster": "Flixster", "douban": "Douban", "yahoo_music": "YahooMusic"}
PUBLISHED = {
    "flixster": {"GC-MC": 0.917, "IGMC": 0.872},
    "douban": {"GC-MC": 0.734, "IGMC": 0.721},
    "yahoo_music": {"GC-MC": 20.5, "IGMC": 19.1},
}
GRAPHS = {
    "W_users": "{u:user v:user}",
    "W_movies": "{m:movie n:movie}",
    "W_tracks": "{m:movie n:movie}",
}
SEEN, ASKED = "seen=u:user m:movie", "asked=u:user m:movie"
DAMPING, FOLDS = 5.0, 10


@dataclass(frozen=True)
class Ratings:
    """Pairs (user, movie), shape [2, ratings], and their values."""

    pairs: Tensor
    values: Tensor

    def __getitem__(self, rows: Tensor) -> "Ratings":
        return Ratings(self.pairs[:, rows], self.values[rows])


@dataclass(frozen=True)
class Problem:
    """A set of ratings with the graphs on its users and movies."""

    name: str
    counts: dict[str, int]
    train: Ratings
    test: Ratings
    graphs: dict[str, Tensor]


def load(folder: Path, name: str) -> Problem:
    data = np.load(folder / f"{name}.npz")
    parts = [
        Ratings(
            torch.from_numpy(data[p].astype(np.int64)).T,
            torch.from_numpy(data[f"{p}_rating"]).float(),
        )
        for p in ("train", "test")
    ]
    edges = {
        text: torch.from_numpy(data[key].astype(np.int64)).T
        for key, text in GRAPHS.items()
        if key in data.files
    }
    users, movies = map(int, data["shape"])
    return Problem(
        name,
        {"user": users, "movie": movies},
        *parts,
        {text: e[:, e[0] < e[1]] for text, e in edges.items()},
    )


@dataclass(frozen=True)
class Task:
    """Return known ratings and pairs to predict as a structure with features, in units of the
    training ratings.
    """

    structure: inc.Structure
    seen: Tensor
    asked: Tensor
    base: Tensor


def damped_biases(
    pairs: Tensor, values: Tensor, counts: dict[str, int], rounds: int = 4
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the biases of users and movies, and how many ratings they have. Each bias in turn is
    the damped mean of the residual of the other.
    """
    num_user, num_movie = (
        torch.bincount(row, minlength=n).float()
        for row, n in zip(pairs, counts.values(), strict=True)
    )
    user, movie = torch.zeros_like(num_user), torch.zeros_like(num_movie)
    for _ in range(rounds):
        movie = torch.zeros_like(num_movie).index_add_(0, pairs[1], values - user[pairs[0]]) / (
            num_movie + DAMPING
        )
        user = torch.zeros_like(num_user).index_add_(0, pairs[0], values - movie[pairs[1]]) / (
            num_user + DAMPING
        )
    return user, movie, num_user, num_movie


def make_task(problem: Problem, seen: Ratings, asked: Tensor) -> Task:
    user, movie, num_user, num_movie = damped_biases(seen.pairs, seen.values, problem.counts)

    def known(pairs: Tensor) -> Tensor:
        u, m = pairs
        return torch.stack(
            [user[u], movie[m], num_user[u].log1p() / 3, num_movie[m].log1p() / 3], dim=1
        )

    base = user[asked[0]] + movie[asked[1]]
    rest = seen.values - user[seen.pairs[0]] - movie[seen.pairs[1]]
    features = torch.cat([torch.stack([seen.values, rest], dim=1), known(seen.pairs)], dim=1)
    structure = inc.Structure(problem.counts, {SEEN: seen.pairs, ASKED: asked, **problem.graphs})
    return Task(structure, features, known(asked), base)


class Spread(nn.Module):
    """Add to every node the values of its neighbours in a graph."""

    def __init__(self, node: str, edge: str, width: int) -> None:
        super().__init__()
        self.out = inc.nn.Linear(f"{node} -> {edge}", width, width, aggr="mean")
        self.back = inc.nn.Linear(f"{edge} -> {node}", width, width, aggr="mean")

    def forward(self, x: Tensor, structure: inc.Structure) -> Tensor:
        return x + self.back(torch.relu(self.out(x, structure)), structure)


class RatingModel(nn.Module):
    """Exchangeable layers on the known ratings, their means at users and movies, and a head for
    every pair to predict.
    """

    def __init__(
        self, graphs: dict[str, Tensor], width: int, dropout: float, depth: int = 2
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for k in range(depth):
            layer = inc.nn.Exchangeable(f"{SEEN} -> {SEEN}", width if k else 6, width, aggr="mean")
            layers += [
                layer,
                inc.nn.LayerNorm(SEEN, width),
                inc.nn.Activation(),
                inc.nn.Dropout(dropout),
            ]
        self.encoder = inc.nn.Sequential(*layers)
        self.nodes = inc.nn.Exchangeable(f"{SEEN} -> u:user, m:movie", width, width, aggr="mean")
        self.spread = nn.ModuleDict(
            {
                text[1]: Spread("u:user" if text[1] == "u" else "m:movie", text, width)
                for text in graphs
            }
        )
        self.user, self.movie, self.known = (
            nn.Linear(width, width),
            nn.Linear(width, width),
            nn.Linear(4, width),
        )
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Sequential(
            nn.Linear(2 * width, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 1)
        )
        nn.init.zeros_(self.head[-1].weight)  # training starts at the baseline
        nn.init.zeros_(self.head[-1].bias)

    def forward(self, task: Task) -> Tensor:
        s = task.structure
        nodes = self.nodes(self.encoder(task.seen, s), s)
        parts = []
        for key, row in (("u:user", 0), ("m:movie", 1)):
            x = nodes[key]
            x = self.spread[key[0]](x, s) if key[0] in self.spread else x
            parts.append(self.dropout(torch.relu(x))[s["asked"][row]])
        u, m = parts
        mixed = torch.relu(self.user(u) + self.movie(m) + self.known(task.asked))
        return task.base + self.head(torch.cat([mixed, u * m], dim=1))[:, 0]


class Run:
    """One training run: it fits the values of some ratings, and predicts others."""

    def __init__(
        self, problem: Problem, train: Ratings, options: argparse.Namespace, seed: int
    ) -> None:
        self.problem, self.options, self.seed = problem, options, seed
        self.low, self.high = float(train.values.min()), float(train.values.max())
        self.mean, self.scale = float(train.values.mean()), float(train.values.std())
        self.train = Ratings(train.pairs, (train.values - self.mean) / self.scale)

    def predict(self, asked: Ratings, label: str) -> tuple[Tensor, Tensor]:
        """Train on folds of the ratings, each predicted from the others. Return the predictions and
        the baseline for other ratings.
        """
        options, generator = self.options, torch.Generator().manual_seed(self.seed)
        torch.manual_seed(self.seed)
        fold = torch.randint(FOLDS, (len(self.train.values),), generator=generator)
        tasks = [
            make_task(self.problem, self.train[fold != k], self.train.pairs[:, fold == k])
            for k in range(FOLDS)
        ]
        targets = [self.train.values[fold == k] for k in range(FOLDS)]
        model = RatingModel(self.problem.graphs, options.width, options.dropout)
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=options.rate, weight_decay=options.decay
        )
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, options.rate, total_steps=options.epochs * FOLDS, pct_start=0.15
        )
        start = time.perf_counter()
        for epoch in range(options.epochs):
            losses = []
            for k in torch.randperm(FOLDS, generator=generator).tolist():
                loss = nn.functional.mse_loss(model(tasks[k]), targets[k])
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                losses.append(float(loss.detach()))
            train, seconds = self.scale * np.mean(losses) ** 0.5, time.perf_counter() - start
            show(f"{label}: epoch {epoch + 1}/{options.epochs}, train {train:.4f}, {seconds:.0f} s")
        task = make_task(self.problem, self.train, asked.pairs)
        with torch.no_grad():
            return self.unscaled(model.eval()(task)), self.unscaled(task.base)

    def unscaled(self, values: Tensor) -> Tensor:
        return (values * self.scale + self.mean).clamp(self.low, self.high)


def show(text: str, is_last: bool = False) -> None:
    """Print one line that is overwritten on a terminal; a file gets only the last."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="\n" if is_last else "", file=sys.stderr, flush=True)
    elif is_last:
        print(text, file=sys.stderr, flush=True)


def rmse(predicted: Tensor, values: Tensor) -> float:
    return float((predicted - values).square().mean().sqrt())


def score(problem: Problem, options: argparse.Namespace) -> dict[str, object]:
    """Return the errors of all seeds, and of their mean prediction."""
    errors, bases, total = [], [], None
    for seed in range(options.seeds):
        train, asked = problem.train, problem.test
        if options.validate:
            order = torch.randperm(
                len(train.values), generator=torch.Generator().manual_seed(100 + seed)
            )
            held = len(order) // 10
            train, asked = problem.train[order[held:]], problem.train[order[:held]]
        predicted, base = Run(problem, train, options, seed).predict(
            asked, f"{SETS[problem.name]}, seed {seed}"
        )
        errors.append(rmse(predicted, asked.values))
        bases.append(rmse(base, asked.values))
        total = predicted if total is None else total + predicted
        show(
            f"{SETS[problem.name]}, seed {seed}: RMSE {errors[-1]:.4f}, baseline {bases[-1]:.4f}",
            is_last=True,
        )
    found: dict[str, object] = {
        "rmse": errors,
        "mean": float(np.mean(errors)),
        "std": float(np.std(errors)),
        "baseline": float(np.mean(bases)),
    }
    if not options.validate and total is not None:  # validation ratings differ from seed to seed
        found["ensemble"] = rmse(total / options.seeds, problem.test.values)
    return found


def draw(results: dict[str, dict[str, object]], path: Path) -> None:
    """Draw every method relative to the baseline; below 1 is better."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "incidence"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.2, 2.6))
    styles = {"GC-MC": ("s", "#b0b7c3"), "IGMC": ("D", "#6b7a90")}
    for row, (name, found) in enumerate(results.items()):
        base = float(found["baseline"])  # type: ignore[arg-type]
        for method, value in PUBLISHED[name].items():
            marker, colour = styles[method]
            axes.plot(
                value / base,
                row,
                marker,
                color=colour,
                ms=7,
                label=f"{method} (published)" if row == 0 else None,
            )
        seeds = [value / base for value in found["rmse"]]  # type: ignore[attr-defined]
        axes.plot(
            seeds,
            [row] * len(seeds),
            "o",
            color="#1f4e79",
            alpha=0.35,
            ms=7,
            label="exchangeable, each seed" if row == 0 else None,
        )
        axes.plot(
            float(found["ensemble"]) / base,
            row,
            "o",
            color="#1f4e79",
            ms=8,
            label="their mean" if row == 0 else None,
        )  # type: ignore[arg-type]
    axes.axvline(1, color="#c0392b", lw=1.2)
    axes.set_yticks(range(len(results)), [SETS[name] for name in results])
    axes.invert_yaxis()
    axes.set_xlabel("test RMSE over that of damped user and movie biases")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Path(os.environ.get("INCIDENCE_DATA", "../shared/data")) / "monti_ratings"
    parser.add_argument(
        "--data", type=Path, default=default, help="the folder with the three .npz files"
    )
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--rate", type=float, default=5e-3)
    parser.add_argument("--decay", type=float, default=1e-2)
    parser.add_argument(
        "--validate",
        action="store_true",
        help="score a tenth of the training ratings instead of the test ratings",
    )
    parser.add_argument("--figure", type=Path, help="where to draw the results (SVG)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = {name: score(load(options.data, name), options) for name in options.sets}
    print(json.dumps(results, indent=1))
    if options.figure and not options.validate:
        draw(results, options.figure)
        print(f"wrote {options.figure}", file=sys.stderr)


if __name__ == "__main__":
    main()
