"""The report of a run: a few lines in the terminal, the plots, and one page, `report.html`.

The template `page.html` escapes everything that comes from data (names, labels, texts). Pictures
draw text as shapes, or escape it.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from math import isfinite, nan
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import torch
from markupsafe import Markup

from incidence import __version__, plot
from incidence.algebra.describe import read
from incidence.algebra.layers import Layer, NetworkExplanation
from incidence.algebra.maps import Operation
from incidence.algebra.selection import word_for
from incidence.data.files import READERS
from incidence.data.node_tables import READER as GRAPH_TABLES
from incidence.errors import IncidenceError
from incidence.files import disk_trouble
from incidence.plot.figures import MOST_COUNTED, MOST_CURVES, cut
from incidence.plot.theme import DARK, LIGHT, Theme
from incidence.train.evaluation import PARTS, Evaluation, describe_baseline
from incidence.train.metrics import HIGHER, format_metric, watched_metric
from incidence.train.report.example_gallery import gallery
from incidence.train.run import Run
from incidence.train.run_folder import read_json, write

__all__ = [
    "Headline",
    "figures_of",
    "finish",
    "headline",
    "page_text",
    "saved_weights",
    "summary",
    "themed",
]

_WORDS = ("self", "boundary", "adjacency", "global")
_MOST_LISTED = 60  # operations of a layer
_COLOURS = ("paper", "ink", "faint", "line", "pale", "face")
_IN_UNITS = ("rmse", "mae")
_FILES = {
    "mesh": "mesh.obj",
    "graph": "graph.edges",
    "example": "examples.npz",
    "ratings": "pairs.csv",
    "links": "pairs.csv",
    "triples": "queries.csv",
    "database": "queries.csv",
    "hypergraph": "new.hif.json",
    GRAPH_TABLES: "edges.csv --nodes nodes.csv",
}
"""Examples of files to predict, by reader."""


def finish(run: Run, is_json: bool = False) -> str:
    """Write the report of a run, and return what to print: a few lines, or one JSON object.

    Raises:
        IncidenceError: The disk does not allow it.
    """
    figures = figures_of(run)
    for name, figure in figures.items():
        path = run.folder.plots / f"{name}.png"
        try:
            plot.save(figure, path)
        except OSError as error:
            raise IncidenceError(disk_trouble(path, error)) from error
    write(run.folder.report, page_text(run, figures))
    if is_json:
        metrics = json.loads(run.folder.metrics.read_text(encoding="utf-8"))
        return json.dumps({"folder": str(run.folder.path), **metrics}, indent=1)
    text = summary(run)
    write(run.folder.log, text + "\n")
    return text


def summary(run: Run) -> str:
    """Return the result in a few lines: the main metric, a plot, files, and what to try next."""
    evaluation, scored = run.evaluation, run.evaluation.scored
    lines = [evaluation.line(), *evaluation.cautions(), *evaluation.notes()]
    lines += [text for text in (saved_weights(run),) if text] + [""]
    if evaluation.task.kind == "regression":
        measured = scored.target.reshape(scored.predicted.shape)[:, 0].tolist()
        predicted = scored.predicted[:, 0].tolist()
        lines += [plot.scatter(measured, predicted, x_name="measured", y_name="predicted"), ""]
    lines += [
        f"Results are in {run.folder.path}/: report.html (plots), model.safetensors,"
        " predictions.csv, metrics.json, config.yaml",
        "",
        "Next:  " + "\n       ".join(_next_commands(run)),
    ]
    text, encoding = "\n".join(lines), getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:  # the terminal cannot show the plot
        return plot.plain(text).encode(encoding, "replace").decode(encoding)
    return text


def saved_weights(run: Run) -> str:
    """Return which epoch is the best on the validation part, if its weights are saved."""
    config, data = run.experiment.config, run.experiment.data
    if config.keep != "best" or config.ensemble > 1 or not run.history:
        return ""
    metric = watched_metric(data.task, data.metric)
    row = run.history[run.saved_epoch - 1]
    value = format_metric(row.get(f"validation_{metric}", nan), metric)
    return (
        f"The weights are those of epoch {run.saved_epoch} of {len(run.history)}, which has the"
        f" best {metric} on the validation part: {value}."
    )


def _next_commands(run: Run) -> list[str]:
    """Return commands that work as they stand; the command line shows them as it was called."""
    data, path = run.experiment.data, shlex.quote(str(run.folder.path))
    commands = []
    has_predicted_all = data.is_transductive and data.completion is None
    if has_predicted_all:
        commands.append(
            f"{run.folder.predictions} has a prediction for every entry, also for those without a"
            " target"
        )
    if not has_predicted_all or data.reader == GRAPH_TABLES:
        name = _FILES.get(data.reader) or _name_of_new(data.reader, run.experiment.config.data)
        commands.append(f"incidence predict {path} {name}")
    seed = run.experiment.config.seed + 1
    return [
        *commands,
        f"incidence train --config {shlex.quote(str(run.folder.config))} --seed {seed}",
        "incidence train --help           your own data, other models, several processes",
    ]


def _name_of_new(reader: str, data: str) -> str:
    """Return a name for a file of the kind that a reader reads, the kind of the data if it can."""
    suffixes = READERS[reader].suffixes if reader in READERS else ()
    suffix = next((one for one in suffixes if data.lower().endswith(one)), "")
    if reader == "molecule":
        return f"molecules{suffix or ('.sdf' if Path(data).is_dir() else '.csv')}"
    return f"new{suffix or next(iter(suffixes), '.npz')}"


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "describe": read,
        "duration": _duration,
        "kind": word_for,
        "kinds": _kinds,
        "metric": format_metric,
        "operations": _listed_operations,
        "themed": themed,
    }
    return environment.get_template("page.html")


def page_text(run: Run, figures: Mapping[str, Any]) -> str:
    """Return the whole page.

    Args:
        run: A finished run.
        figures: Figures of matplotlib by name, as `figures_of` returns them.
    """
    folder, data, moment = run.folder, run.experiment.data, datetime.now().astimezone()
    environment, resumed = read_json(folder.environment), read_json(folder.resumed)
    commands = [environment.get("command", []), *resumed.get("commands", [])]
    metrics = {"parameters": 0, "epochs": 0, "seconds": 0.0, **read_json(folder.metrics)}
    network = NetworkExplanation(run.predictor.net)
    worst, best = gallery(data, run.evaluation.scored)
    best_word = "Best" if any(card.is_right for card in best) else "Least wrong"
    drawn = {name: figure for name, figure in figures.items() if name != "curves"}
    return _template().render(
        title=f"{data.name}: {run.experiment.predicted}",
        about=data.about,
        light=_colours(LIGHT),
        dark=_colours(DARK),
        headline=headline(run),
        experiment=run.experiment,
        saved_weights=saved_weights(run),
        evaluation=run.evaluation,
        metrics=metrics,
        command=" && ".join(shlex.join(map(str, words)) for words in commands),
        plots={name: _svg(figure) for name, figure in {**_curves(run), **drawn}.items()},
        captions=_captions(len(data.task.names)),
        galleries={"Worst": worst, best_word: best},
        network=network,
        # layers of one map share the list
        operations={
            f"The {len(layer.kept)} operations of {layer.map}": layer
            for layer in network.layers
            if layer.kept
        },
        most_listed=_MOST_LISTED,
        options=folder.config.read_text(encoding="utf-8"),
        version=__version__,
        date=f"{moment.day} {moment:%B %Y, %H:%M}",
    )


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


def _kinds(layer: Layer) -> str:
    """Return how many operations of each kind a layer has."""
    counts = Counter(map(word_for, layer.kept))
    return ", ".join(f"{counts[word]} {word}" for word in _WORDS if counts[word]) or layer.kind


def _listed_operations(layer: Layer) -> list[Operation]:
    first = layer.map.operations[: 4 * _MOST_LISTED]
    return [operation for operation in first if operation in layer.kept][:_MOST_LISTED]


class Headline(NamedTuple):
    """The number that counts, what it is, and what it means beside the baseline."""

    value: str
    what: str
    meaning: str


def headline(run: Run) -> Headline:
    """Return the main metric in words."""
    evaluation, scored = run.evaluation, run.evaluation.scored
    metric, part = evaluation.data.metric, evaluation.part
    share = _share_of_baseline(evaluation)
    if share is not None:
        return share
    value = scored.metrics[metric]
    unit = f" {evaluation.task.unit}" if evaluation.task.unit and metric in _IN_UNITS else ""
    text = f"{format_metric(value, metric)}{unit}"
    rows = f"{len(scored.target):,} {'rows' if evaluation.task.at else 'examples'}"
    blind = scored.baseline[metric]
    baseline = (
        f"{format_metric(blind, metric)}{unit} for {describe_baseline(evaluation.data, metric)}"
    )
    if metric in HIGHER:
        meaning = f"On {rows} of the {part} part, against {baseline}."
        if metric == "accuracy":
            meaning += f" {round(value * len(scored.target)):,} of them are right."
    else:
        meaning = f"A prediction is off by about {text} on {rows} of the {part} part, against"
        meaning += f" {baseline}"
        if isfinite(blind) and 0 < value < blind:
            meaning += f": {100 * (1 - value / blind):.0f} % less"
        meaning += "."
    meaning = " ".join([meaning, *evaluation.cautions()])
    return Headline(text, f"{metric} on the {part} part", meaning)


def _share_of_baseline(evaluation: Evaluation) -> Headline | None:
    """Return the headline for several numbers, which have no common scale, or None."""
    metric, scored = evaluation.data.metric, evaluation.scored
    each = evaluation.each_target()
    ratios = [
        score.metrics[metric] / score.baseline[metric]
        for score in scored.by_target.values()
        if score.baseline[metric]
    ]
    if not each or not ratios or not all(map(isfinite, ratios)):
        return None
    baseline = describe_baseline(evaluation.data, metric)
    meaning = f"On {len(scored.target):,} rows, {metric} of {'; '.join(each)} for {baseline}."
    return Headline(
        f"{100 * sum(ratios) / len(ratios):.0f} %",
        f"of the {metric} of the baseline on the {evaluation.part} part, the mean over"
        f" {len(ratios)} targets",
        " ".join([meaning, *evaluation.cautions()]),
    )


def figures_of(run: Run) -> dict[str, Any]:
    """Return the figures of a run by name.

    They are learning curves, then parity and residuals, or confusion and ROC curves.
    """
    task, scored = run.experiment.data.task, run.evaluation.scored
    figures = {"curves": plot.curves(run.history)}
    if task.kind == "regression":
        parts = [name for name in reversed(PARTS) if name in run.evaluation.parts]
        values = {
            name: (run.evaluation.parts[name].predicted, run.evaluation.parts[name].target)
            for name in parts
        }
        figures["parity"] = plot.parity(values, task.names, task.unit)
        figures["residuals"] = plot.residuals(values, task.names, task.unit)
        return figures
    if task.kind == "classification":
        figures["confusion"] = plot.confusion(scored.predicted, scored.target, task.names)
    if isfinite(scored.metrics.get("auc", nan)):
        figures["roc"] = _roc(run)
    return figures


def _roc(run: Run) -> Any:
    """Return the ROC curves of labels, or of the second of two classes."""
    task, scored = run.experiment.data.task, run.evaluation.scored
    if task.kind == "classification":
        names, predicted = task.names[1:], scored.predicted[:, 1:]
        target = torch.where(scored.target < 0, torch.nan, scored.target.float())[:, None]
        areas = {names[0]: scored.metrics["auc"]}
    else:
        names, predicted = task.names, scored.predicted
        target = scored.target.reshape(predicted.shape)
        areas = {name: score.metrics["auc"] for name, score in scored.by_target.items()}
        areas = areas or {names[0]: scored.metrics["auc"]}
    # labels of one class have no curve
    kept = [k for k, name in enumerate(names) if isfinite(areas[name])]
    titles = [f"{cut(names[k])} ({format_metric(areas[names[k]], 'auc')})" for k in kept]
    return plot.roc(predicted[:, kept], target[:, kept], titles)


_CAPTIONS = {
    "loss": "Loss, epoch by epoch.",
    "metrics": "Metrics of the validation part, epoch by epoch.",
    "parity": "Predicted against measured values; a perfect prediction is on the line.",
    "residuals": "Predicted minus measured values; above the line, the prediction is too large.",
    "roc": "Share of rows with the label that are found, against share of other rows; {areas}.",
    "confusion": "Rows are true classes, columns are predicted ones; {cells}.",
}


def _captions(num_targets: int) -> dict[str, str]:
    areas = "the area under each curve is its AUC in the table above"
    if num_targets <= MOST_CURVES:
        areas = "the area under each curve is in brackets"
    cells = "colours are shares of the row"
    if num_targets <= MOST_COUNTED:
        cells += ", and numbers are counts"
    return {name: text.format(areas=areas, cells=cells) for name, text in _CAPTIONS.items()}


def _curves(run: Run) -> dict[str, Any]:
    """Return the learning curves as two figures, which fit below each other on narrow screens."""
    figures = {}
    for name, is_loss in (("loss", True), ("metrics", False)):
        rows = [
            {key: x for key, x in row.items() if key == "epoch" or ("loss" in key) == is_loss}
            for row in run.history
        ]
        if any(set(row) - {"epoch", "lr"} for row in rows):
            figures[name] = plot.curves(rows)
    return figures


def _svg(figure: Any) -> Markup:
    drawn = io.StringIO()
    figure.patch.set_alpha(0)
    figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    svg = drawn.getvalue()[drawn.getvalue().index("<svg") :]
    return themed(re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL))


def _colours(theme: Theme) -> Markup:
    """Return the colours of a theme as variables of CSS."""
    colours = {name: getattr(theme, name) for name in _COLOURS}
    colours |= {f"c{k}": colour for k, colour in enumerate(theme.palette)}
    return Markup(" ".join(f"--{name}: {colour};" for name, colour in colours.items()))


_VARIABLES = {getattr(LIGHT, name): f"var(--{name})" for name in _COLOURS}
_VARIABLES |= {colour: f"var(--c{k})" for k, colour in enumerate(LIGHT.palette)}
_VARIABLES["#000000"] = "var(--ink)"  # the default of other libraries
_HEX = re.compile("|".join(map(re.escape, _VARIABLES)), re.IGNORECASE)


def themed(svg: str) -> Markup:
    """Return a picture with the variables of CSS in place of the colours of the light theme."""
    return Markup(_HEX.sub(lambda match: _VARIABLES[match[0].lower()], svg))
