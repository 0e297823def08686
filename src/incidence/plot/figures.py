"""Figures of training and predictions, made with matplotlib without a display."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence.errors import need
from incidence.files import whole_file
from incidence.plot.theme import LIGHT

__all__ = [
    "MOST_COUNTED",
    "MOST_CURVES",
    "Compared",
    "comparison",
    "confusion",
    "curves",
    "cut",
    "parity",
    "residuals",
    "roc",
    "save",
]

_INK, _PALE, _THIRD = LIGHT.palette[:3]
_BEHIND = (_INK, _THIRD)  # of the parts below the last: training and validation
_LIGHT_CELL, _DARK_CELL = (
    "#f7fbff",
    "#08306b",
)  # the ends of the map Blues: on dark pages, where black and white are exchanged, they stay
_MANY = 3_000  # points
_IN_A_ROW = 4  # panels
_LEAST_BARS = 4  # for which there is room, so that one alone is no wall
_LONGEST = 24  # letters of a name beside an axis
MOST_CURVES: int = len(LIGHT.palette)
"""So many ROC curves have a legend."""
MOST_COUNTED: int = 12
"""So many classes have their counts in the cells of a confusion."""


def cut(name: str) -> str:
    """A name that is short enough to stand beside an axis.

    Example:
        >>> cut("Neoplasms benign, malignant and unspecified")
        'Neoplasms benign, malig…'
    """
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _figure(width: float, height: float) -> Any:
    return need("matplotlib.figure", "a plot", "plot").Figure(
        figsize=(width, height), layout="constrained"
    )


def parity(parts: Mapping[str, tuple[Tensor, Tensor]], names: Sequence[str], unit: str = "") -> Any:
    """Predicted against true values, a panel for each number that is predicted.

    Args:
        parts: By name, predictions and targets; shape (rows, numbers). The last is drawn on top.
        names: Of the numbers.
        unit: Of the numbers.
    """
    figure, panels = _panels(parts, names, unit)
    for axis, columns in panels:
        for number, (part, predicted, target) in enumerate(columns):
            _dots(
                axis, target.tolist(), predicted.tolist(), part, number, number == len(columns) - 1
            )
        low, high = (
            min(axis.get_xlim()[0], axis.get_ylim()[0]),
            max(axis.get_xlim()[1], axis.get_ylim()[1]),
        )
        axis.plot([low, high], [low, high], color="black", lw=0.8, zorder=0)
        axis.set(xlim=(low, high), ylim=(low, high), aspect="equal", ylabel="predicted")
        axis.legend(frameon=False)
    return figure


def residuals(
    parts: Mapping[str, tuple[Tensor, Tensor]], names: Sequence[str], unit: str = ""
) -> Any:
    """Errors against true values, a panel for each number that is predicted; a band has the root mean square of the last part.

    Args:
        parts: By name, predictions and targets; shape (rows, numbers). The last is drawn on top.
        names: Of the numbers.
        unit: Of the numbers.
    """
    figure, panels = _panels(parts, names, unit)
    for axis, columns in panels:
        for number, (part, predicted, target) in enumerate(columns):
            _dots(
                axis,
                target.tolist(),
                (predicted - target).tolist(),
                part,
                number,
                number == len(columns) - 1,
            )
        spread = float((predicted - target).square().nanmean().sqrt())
        axis.axhspan(-spread, spread, color=_PALE, alpha=0.12, lw=0)
        axis.axhline(0, color="black", lw=0.8, zorder=0)
        axis.set(ylabel="predicted - measured")
    return figure


_Column = tuple[str, Tensor, Tensor]  # part, predicted, measured


def _panels(
    parts: Mapping[str, tuple[Tensor, Tensor]], names: Sequence[str], unit: str
) -> tuple[Any, list[tuple[Any, list[_Column]]]]:
    """A figure with a panel for each number, and what is drawn there of every part."""
    columns_of_panels, rows_of_panels = min(len(names), _IN_A_ROW), -(-len(names) // _IN_A_ROW)
    figure = _figure(4.2 * columns_of_panels, 4.2 * rows_of_panels)
    axes = figure.subplots(rows_of_panels, columns_of_panels, squeeze=False).reshape(-1)
    for axis in axes[len(names) :]:
        axis.remove()
    panels = []
    for number, (axis, name) in enumerate(zip(axes, names, strict=False)):
        axis.set_title(
            cut(name), parse_math=False
        )  # a name is no formula, whatever dollars are in it
        axis.set_xlabel(f"measured{f' ({unit})' if unit else ''}", parse_math=False)
        columns = [
            (part, y[:, number], x.reshape(y.shape)[:, number]) for part, (y, x) in parts.items()
        ]
        panels.append((axis, columns))
    return figure, panels


def _dots(
    axis: Any, x: Sequence[float], y: Sequence[float], label: str, number: int, is_last: bool
) -> None:
    """The points of one part; many of them are one image, as a page of a hundred thousand shapes is slow."""
    look = (
        {"s": 14, "color": _PALE, "alpha": 0.8}
        if is_last
        else {"s": 7, "color": _BEHIND[number % 2], "alpha": 0.25 + 0.25 * number}
    )
    axis.scatter(x, y, label=label, lw=0, rasterized=len(x) > _MANY, **look)


def curves(rows: Sequence[Mapping[str, float]]) -> Any:
    """The metrics of every epoch: the loss on the left, metrics of the validation part on the right if there are any."""
    names = [
        key
        for key in dict.fromkeys(key for row in rows for key in row)
        if key not in ("epoch", "lr")
    ]
    losses, others = [n for n in names if "loss" in n], [n for n in names if "loss" not in n]
    panels = [p for p in (losses, others) if p]
    figure = _figure(4.6 * max(1, len(panels)), 3.4)
    axes = figure.subplots(1, max(1, len(panels)), squeeze=False)[0]
    for axis, panel in zip(axes, panels, strict=False):
        for number, name in enumerate(panel):
            shown = [(row["epoch"], row[name]) for row in rows if name in row]
            look = {
                "color": LIGHT.category(number),
                "marker": "o" if len(shown) == 1 else None,
            }  # one epoch makes no line
            axis.plot(
                [e for e, _ in shown], [v for _, v in shown], label=name.replace("_", " "), **look
            )
        is_log = panel is losses and _spans_much(
            [row[n] for row in rows for n in panel if n in row]
        )
        axis.set(xlabel="epoch", yscale="log" if is_log else "linear")
        axis.xaxis.get_major_locator().set_params(integer=True)
        if is_log:
            axis.yaxis.set(
                major_locator=need("matplotlib.ticker", "a plot", "plot").LogLocator(
                    subs=(1, 2, 5)
                ),
                major_formatter="{x:g}",
            )
            axis.yaxis.set_minor_formatter("")
        axis.legend(frameon=False)
    return figure


def _spans_much(values: Sequence[float]) -> bool:
    """Whether values are above 0 and so different that they are better told by their logarithms."""
    return bool(values) and min(values) > 0 and max(values) > 5 * min(values)


def confusion(predicted: Tensor, target: Tensor, names: Sequence[str]) -> Any:
    """How often each class was taken for each: rows are true classes, colours shares of the row, and numbers counts if classes are few."""
    known = target >= 0
    counts = torch.zeros(len(names), len(names))
    counts.index_put_(
        (target[known], predicted[known].argmax(-1)), torch.ones(int(known.sum())), accumulate=True
    )
    shares = counts / counts.sum(1, keepdim=True).clamp(min=1)
    size = min(9.0, 2.8 + 0.4 * len(names))
    figure = _figure(size, size)
    axis = figure.subplots()
    axis.imshow(shares.tolist(), cmap="Blues", vmin=0, vmax=1)
    shown = [cut(name) for name in names]
    axis.set_xticks(range(len(names)), shown, rotation=90, fontsize=8, parse_math=False)
    axis.set_yticks(range(len(names)), shown, fontsize=8, parse_math=False)
    axis.set(xlabel="predicted", ylabel="true")
    if len(names) <= MOST_COUNTED:
        for row, column in counts.nonzero().tolist():
            color = _LIGHT_CELL if shares[row, column] > 0.5 else _DARK_CELL
            axis.text(
                column,
                row,
                int(counts[row, column]),
                ha="center",
                va="center",
                fontsize=8,
                color=color,
            )
    return figure


def roc(predicted: Tensor, target: Tensor, names: Sequence[str]) -> Any:
    """The ROC curve of every label: how many of those that have it are found, over how many others are taken for it.

    Args:
        predicted: Scores, shape (rows, labels).
        target: 0 or 1, with NaN where it is missing, of the same shape.
        names: What the curves are called; more than eight get no legend.
    """
    figure = _figure(4.2, 4.2)
    axis = figure.subplots()
    for number, (scores, labels) in enumerate(zip(predicted.T, target.T, strict=True)):
        known = ~labels.isnan()
        found, wrong = _shares_above(scores[known], labels[known])
        is_one_of_few = len(names) <= MOST_CURVES
        look = (
            {"color": LIGHT.category(number), "label": names[number]}
            if is_one_of_few
            else {"color": _INK, "alpha": 0.4}
        )
        axis.plot(wrong, found, lw=1.4 if is_one_of_few else 0.8, clip_on=False, **look)
    axis.plot([0, 1], [0, 1], color="black", lw=0.8, ls="--", zorder=0)
    axis.set(
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
        xlabel="of the others, taken for it",
        ylabel="of those that have it, found",
    )
    if len(names) <= MOST_CURVES:
        for text in axis.legend(frameon=False, fontsize=8, loc="lower right").get_texts():
            text.set_parse_math(False)
    return figure


def _shares_above(scores: Tensor, labels: Tensor) -> tuple[list[float], list[float]]:
    """At every score, from the highest to the lowest, the shares of ones and of zeros that score as high."""
    order = scores.argsort(descending=True)
    is_last = torch.cat([scores[order].diff() != 0, torch.ones(1, dtype=torch.bool)])[
        : len(order)
    ]  # of those with the same score
    ones, zeros = (
        of.cumsum(0)[is_last] / of.sum().clamp(min=1) for of in (labels[order], 1 - labels[order])
    )
    return [0.0, *ones.tolist()], [0.0, *zeros.tolist()]


class Compared(NamedTuple):
    """Runs on the same data, by the same metric.

    Attributes:
        title: What the data is called.
        histories: For each run a row of metrics for each epoch.
        values: The metric of each run that counts.
        labels: What each run is called.
        metric: The name of the metric.
        baselines: For each run, the same of a predictor that looks at nothing.
    """

    title: str
    histories: Sequence[Sequence[Mapping[str, float]]]
    values: Sequence[float]
    labels: Sequence[str]
    metric: str
    baselines: Sequence[float]


def comparison(groups: Sequence[Compared]) -> Any:
    """Runs side by side, below each other those on other data, with learning curves on the left, and a bar for each on the right.

    Learning curves are those of the validation part if it was looked at. A line is the baseline, or a mark in each bar if they differ.
    """
    heights = [max(3.4, 1.2 + 0.34 * len(group.values)) for group in groups]
    figure = _figure(10.0, sum(heights))
    for part, group in zip(
        figure.subfigures(len(groups), 1, height_ratios=heights, squeeze=False)[:, 0],
        groups,
        strict=True,
    ):
        part.suptitle(group.title, parse_math=False)
        left, right = part.subplots(1, 2)
        _compared(left, right, group)
    return figure


def _compared(left: Any, right: Any, group: Compared) -> None:
    colors = need("matplotlib", "a plot", "train").colormaps["viridis"]
    watched, count = f"validation_{group.metric}", len(group.values)
    name = (
        watched if any(watched in row for rows in group.histories for row in rows) else "train_loss"
    )
    for k, rows in enumerate(group.histories):
        points = [(row["epoch"], row[name]) for row in rows if name in row]
        look = {"lw": 1.2, "marker": "o" if len(points) == 1 else None}  # one epoch makes no line
        left.plot(
            [e for e, _ in points],
            [v for _, v in points],
            color=colors(k / max(1, count - 1)),
            **look,
        )
    left.set(xlabel="epoch", ylabel=name.replace("_", " "))
    left.xaxis.get_major_locator().set_params(integer=True)
    right.barh(
        range(count), group.values, color=[colors(k / max(1, count - 1)) for k in range(count)]
    )
    right.set_yticks(range(count), group.labels, fontsize=8, parse_math=False)
    right.set_ylim(max(count, _LEAST_BARS) - 0.5, -0.5)
    places = [k for k, value in enumerate(group.baselines) if isfinite(value)]
    mark: dict[str, Any] = {
        "color": _PALE,
        "lw": 1.2,
        "ls": "--",
        "label": "baseline",
    }  # which is seen on every bar
    if len(set(group.baselines)) == 1 and places:
        right.axvline(group.baselines[0], **mark)
    elif places:
        right.vlines(
            [group.baselines[k] for k in places],
            [k - 0.4 for k in places],
            [k + 0.4 for k in places],
            **mark,
        )
    if places:
        right.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
    right.set_xlabel(group.metric)


def save(figure: Any, path: Path) -> Path:
    """Writes a figure in the format that the suffix says, at once or not at all."""
    with whole_file(path) as file:
        figure.savefig(
            file,
            format=path.suffix[1:],
            dpi=150,
            metadata={"Date": None} if path.suffix == ".svg" else None,
        )
    return path
