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
# the ends of the map Blues: on dark pages, where black and white are exchanged, they stay
_LIGHT_CELL, _DARK_CELL = "#f7fbff", "#08306b"
_MANY = 3_000  # points
_IN_A_ROW = 4  # panels
_LEAST_BARS = 4  # for which there is room, so that one alone is no wall
_LONGEST = 24  # letters of a name beside an axis
MOST_CURVES: int = len(LIGHT.palette)
"""The largest number of ROC curves with a legend."""
MOST_COUNTED: int = 12
"""The largest number of classes with counts in the cells of a confusion matrix."""


def cut(name: str) -> str:
    """Return a name that is short enough to stand beside an axis.

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
    """Plot predicted against measured values, with a panel for each number that is predicted.

    Args:
        parts: By name, predictions and targets; shape (rows, numbers). The last is drawn on top.
        names: The names of the numbers.
        unit: The unit of the numbers.
    """
    figure, panels = _panels(parts, names, unit)
    for axis, columns in panels:
        _dots(axis, [(part, target, predicted) for part, predicted, target in columns])
        limits = [*axis.get_xlim(), *axis.get_ylim()]
        low = min(limits)
        high = max(limits)
        axis.plot(
            [low, high],
            [low, high],
            color="black",
            lw=0.8,
            zorder=0,
        )
        axis.set(xlim=(low, high), ylim=(low, high), aspect="equal", ylabel="predicted")
        axis.legend(frameon=False)
    return figure


def residuals(
    parts: Mapping[str, tuple[Tensor, Tensor]], names: Sequence[str], unit: str = ""
) -> Any:
    """Plot errors against measured values, with a panel for each number that is predicted.

    The width of the band is the root mean square error of the last part.

    Args:
        parts: By name, predictions and targets; shape (rows, numbers). The last is drawn on top.
        names: The names of the numbers.
        unit: The unit of the numbers.
    """
    figure, panels = _panels(parts, names, unit)
    for axis, columns in panels:
        _dots(axis, [(part, target, predicted - target) for part, predicted, target in columns])
        _, predicted, target = columns[-1]
        spread = float((predicted - target).square().nanmean().sqrt())
        axis.axhspan(-spread, spread, color=_PALE, alpha=0.12, lw=0)
        axis.axhline(0, color="black", lw=0.8, zorder=0)
        axis.set(ylabel="predicted - measured")
    return figure


_Column = tuple[str, Tensor, Tensor]  # a part, and two numbers of every row


def _panels(
    parts: Mapping[str, tuple[Tensor, Tensor]], names: Sequence[str], unit: str
) -> tuple[Any, list[tuple[Any, list[_Column]]]]:
    """A figure with a panel for each number, and what is drawn there of every part."""
    columns_of_panels = min(len(names), _IN_A_ROW)
    rows_of_panels = -(-len(names) // _IN_A_ROW)
    figure = _figure(4.2 * columns_of_panels, 4.2 * rows_of_panels)
    axes = figure.subplots(rows_of_panels, columns_of_panels, squeeze=False).reshape(-1)
    for axis in axes[len(names) :]:
        axis.remove()
    panels = []
    for number, (axis, name) in enumerate(zip(axes, names, strict=False)):
        # a name is no formula, whatever dollars are in it
        axis.set_title(cut(name), parse_math=False)
        axis.set_xlabel(f"measured{f' ({unit})' if unit else ''}", parse_math=False)
        columns = [
            (part, y[:, number], x.reshape(y.shape)[:, number]) for part, (y, x) in parts.items()
        ]
        panels.append((axis, columns))
    return figure, panels


def _dots(axis: Any, columns: Sequence[_Column]) -> None:
    """The points of every part, given by part, x and y.

    Many points are one image: a page with a hundred thousand shapes is slow.
    """
    for number, (part, x, y) in enumerate(columns):
        look = {"s": 7, "color": _BEHIND[number % 2], "alpha": 0.25 + 0.25 * number}
        if number == len(columns) - 1:
            look = {"s": 14, "color": _PALE, "alpha": 0.8}
        is_image = len(x) > _MANY
        axis.scatter(
            x.tolist(),
            y.tolist(),
            label=part,
            lw=0,
            rasterized=is_image,
            **look,
        )


def curves(rows: Sequence[Mapping[str, float]]) -> Any:
    """Plot the metrics of every epoch: the loss on the left, and metrics of the validation part on
    the right if there are any.
    """
    keys = dict.fromkeys(key for row in rows for key in row)
    names = [key for key in keys if key not in ("epoch", "lr")]
    losses = [name for name in names if "loss" in name]
    others = [name for name in names if "loss" not in name]
    panels = [panel for panel in (losses, others) if panel]
    count = max(1, len(panels))
    figure = _figure(4.6 * count, 3.4)
    for axis, panel in zip(figure.subplots(1, count, squeeze=False)[0], panels, strict=False):
        for number, name in enumerate(panel):
            text = name.replace("_", " ")
            _curve(axis, rows, name, color=LIGHT.category(number), label=text)
        values = [row[name] for row in rows for name in panel if name in row]
        is_log = panel is losses and _spans_much(values)
        axis.set(xlabel="epoch", yscale="log" if is_log else "linear")
        axis.xaxis.get_major_locator().set_params(integer=True)
        if is_log:
            locator = need("matplotlib.ticker", "a plot", "plot").LogLocator(subs=(1, 2, 5))
            axis.yaxis.set(major_locator=locator, major_formatter="{x:g}")
            axis.yaxis.set_minor_formatter("")
        axis.legend(frameon=False)
    return figure


def _curve(axis: Any, rows: Sequence[Mapping[str, float]], name: str, **look: Any) -> None:
    """One metric of every epoch that has it."""
    points = [(row["epoch"], row[name]) for row in rows if name in row]
    marker = "o" if len(points) == 1 else None  # one epoch makes no line
    axis.plot([x for x, _ in points], [y for _, y in points], marker=marker, **look)


def _spans_much(values: Sequence[float]) -> bool:
    """Whether values are above 0, and so different that a logarithmic axis suits them."""
    return bool(values) and min(values) > 0 and max(values) > 5 * min(values)


def confusion(predicted: Tensor, target: Tensor, names: Sequence[str]) -> Any:
    """Plot how often each class was predicted as each.

    Rows are true classes. Colours are shares of the row. If classes are few, cells have counts.
    """
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
    axis.set_xticks(
        range(len(names)),
        shown,
        rotation=90,
        fontsize=8,
        parse_math=False,
    )
    axis.set_yticks(range(len(names)), shown, fontsize=8, parse_math=False)
    axis.set(xlabel="predicted", ylabel="true")
    if len(names) <= MOST_COUNTED:
        look = {"ha": "center", "va": "center", "fontsize": 8}
        for row, column in counts.nonzero().tolist():
            color = _LIGHT_CELL if shares[row, column] > 0.5 else _DARK_CELL
            axis.text(
                column,
                row,
                int(counts[row, column]),
                color=color,
                **look,
            )
    return figure


def roc(predicted: Tensor, target: Tensor, names: Sequence[str]) -> Any:
    """Plot the ROC curve of every label: the share of true positives over that of false positives.

    Args:
        predicted: Scores, shape (rows, labels).
        target: 0 or 1, with NaN where it is missing, of the same shape.
        names: The names of the labels; more than eight get no legend.
    """
    figure = _figure(4.2, 4.2)
    axis = figure.subplots()
    has_legend = len(names) <= MOST_CURVES
    for number, (scores, labels) in enumerate(zip(predicted.T, target.T, strict=True)):
        known = ~labels.isnan()
        true_positives, false_positives = _shares_above(scores[known], labels[known])
        look = {"color": _INK, "alpha": 0.4, "lw": 0.8}
        if has_legend:
            look = {"color": LIGHT.category(number), "label": names[number], "lw": 1.4}
        axis.plot(false_positives, true_positives, clip_on=False, **look)
    axis.plot(
        [0, 1],
        [0, 1],
        color="black",
        lw=0.8,
        ls="--",
        zorder=0,
    )
    axis.set(
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
        xlabel="of the others, taken for it",
        ylabel="of those that have it, found",
    )
    if has_legend:
        for text in axis.legend(frameon=False, fontsize=8, loc="lower right").get_texts():
            text.set_parse_math(False)
    return figure


def _shares_above(scores: Tensor, labels: Tensor) -> tuple[list[float], list[float]]:
    """The shares of ones and of zeros that score at least as high, for every score downwards."""
    order = scores.argsort(descending=True)
    labels = labels[order]
    # the last one of those with the same score
    is_last = torch.cat([scores[order].diff() != 0, torch.ones(1, dtype=torch.bool)])[: len(order)]
    ones, zeros = (x.cumsum(0)[is_last] / x.sum().clamp(min=1) for x in (labels, 1 - labels))
    return [0.0, *ones.tolist()], [0.0, *zeros.tolist()]


class Compared(NamedTuple):
    """Runs on the same data, by the same metric.

    Attributes:
        title: The name of the data.
        histories: For each run a row of metrics for each epoch.
        values: The metric of each run.
        labels: The name of each run.
        metric: The name of the metric.
        baselines: For each run, the metric of a predictor without inputs.
    """

    title: str
    histories: Sequence[Sequence[Mapping[str, float]]]
    values: Sequence[float]
    labels: Sequence[str]
    metric: str
    baselines: Sequence[float]


def comparison(groups: Sequence[Compared]) -> Any:
    """Plot groups of runs on the same data: learning curves on the left, a bar for each run on the
    right.

    Learning curves are those of the validation part if there are any. A dashed line is the
    baseline, or a mark in each bar if baselines differ.
    """
    heights = [max(3.4, 1.2 + 0.34 * len(group.values)) for group in groups]
    figure = _figure(10.0, sum(heights))
    parts = figure.subfigures(len(groups), 1, height_ratios=heights, squeeze=False)[:, 0]
    for part, group in zip(parts, groups, strict=True):
        part.suptitle(group.title, parse_math=False)
        left, right = part.subplots(1, 2)
        _compared(left, right, group)
    return figure


def _compared(left: Any, right: Any, group: Compared) -> None:
    viridis = need("matplotlib", "a plot", "train").colormaps["viridis"]
    count = len(group.values)
    colors = [viridis(k / max(1, count - 1)) for k in range(count)]
    validated = f"validation_{group.metric}"
    is_validated = any(validated in row for rows in group.histories for row in rows)
    name = validated if is_validated else "train_loss"
    for rows, color in zip(group.histories, colors, strict=True):
        _curve(left, rows, name, color=color, lw=1.2)
    left.set(xlabel="epoch", ylabel=name.replace("_", " "))
    left.xaxis.get_major_locator().set_params(integer=True)
    right.barh(range(count), group.values, color=colors)
    right.set_yticks(range(count), group.labels, fontsize=8, parse_math=False)
    right.set_ylim(max(count, _LEAST_BARS) - 0.5, -0.5)
    places = [k for k, value in enumerate(group.baselines) if isfinite(value)]
    # seen on every bar
    mark: dict[str, Any] = {"color": _PALE, "lw": 1.2, "ls": "--", "label": "baseline"}
    if len(set(group.baselines)) == 1 and places:
        right.axvline(group.baselines[0], **mark)
    elif places:
        tops = [k - 0.4 for k in places]
        bottoms = [k + 0.4 for k in places]
        right.vlines([group.baselines[k] for k in places], tops, bottoms, **mark)
    if places:
        right.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
    right.set_xlabel(group.metric)


def save(figure: Any, path: Path) -> Path:
    """Write a figure in the format of the suffix, completely or not at all."""
    undated = {"Date": None} if path.suffix == ".svg" else None
    with whole_file(path) as file:
        figure.savefig(file, format=path.suffix[1:], dpi=150, metadata=undated)
    return path
