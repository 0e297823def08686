"""The page of a run, `report.html`: one file without anything from elsewhere, for light and dark screens, wide and narrow.

Whatever comes from data (names, labels, texts) is escaped where it is put into the page; pictures draw it as shapes, or escape it.
"""

from __future__ import annotations

import io
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from html import escape
from math import isfinite, nan
from typing import Any

import torch

from incidence import __version__, plot
from incidence.algebra.choice import word_for
from incidence.algebra.layers import Layer, Network
from incidence.algebra.reading import read
from incidence.plot.figures import MOST_COUNTED, MOST_CURVES, cut
from incidence.plot.theme import DARK, LIGHT, Theme
from incidence.train.cards import Card, cards
from incidence.train.evaluate import HIGHER, PARTS, Scored, blind_words, number
from incidence.train.folder import read_json
from incidence.train.run import Run

__all__ = ["figures_of", "headline", "page_text", "shown_part"]

_WORDS = ("self", "boundary", "adjacency", "global")
_MOST_LISTED = 60  # operations of a layer
_MOST_OPEN = 12  # targets that are told one by one before anybody asks
_NAMES = ("paper", "ink", "faint", "line", "pale", "face")

_STYLE = """\
:root {{ color-scheme: light dark; {light} }}
@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}
* {{ box-sizing: border-box }}
body {{ font: 16px/1.55 system-ui, sans-serif; max-width: 68rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; color: var(--ink);
  background: var(--paper); overflow-wrap: anywhere }}
h1 {{ font-size: 1.35rem; margin: 0 0 .3rem }} h2 {{ font-size: 1.1rem; margin: 2.4rem 0 .6rem }} p {{ margin: .4rem 0 }}
.faint, figcaption, dt {{ color: var(--faint) }}
.number {{ font-size: clamp(2rem, 9vw, 3.2rem); line-height: 1.1; font-weight: 650; margin: 1rem 0 0 }}
.number small {{ font-size: 1.1rem; font-weight: 400; color: var(--faint) }}
dl {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .7rem 1.2rem; margin: 1.4rem 0 }}
dd {{ margin: 0 }} dl .wide {{ grid-column: 1 / -1 }}
.scroll {{ overflow-x: auto; background: {edges}; background-attachment: local, local, scroll, scroll }}
table {{ border-collapse: collapse; min-width: 100% }}
td, th {{ padding: .3rem clamp(.4rem, 1.6vw, .9rem) .3rem 0; text-align: left; border-bottom: 1px solid var(--pale); vertical-align: top }}
td, th {{ white-space: nowrap; overflow-wrap: normal }} td.words {{ white-space: normal; min-width: 14rem }}
td.n, th.n {{ text-align: right; font-variant-numeric: tabular-nums }} th {{ font-weight: 600 }}
@media (max-width: 40rem) {{
  table {{ font-size: .88rem }} td.words {{ min-width: 7.5rem; overflow-wrap: anywhere }}
  .targets :is(table, tbody, td, th) {{ display: block; border: 0 }}
  .targets tr {{ display: flex; flex-wrap: wrap; border-bottom: 1px solid var(--pale) }} .targets :is(td, th) {{ flex: 1 0 100% }}
  .targets .n {{ flex: 1 0 0; padding-right: .1rem; font-size: .75rem }}
}}
code, pre {{ font: .88em/1.5 ui-monospace, monospace }}
pre {{ background: var(--pale); padding: 1rem; overflow-x: auto; border-radius: .4rem }}
.grid {{ display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 12.5rem), 1fr)) }}
.plots {{ display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); align-items: start }}
figure {{ margin: 0; min-width: 0 }} .card {{ background: var(--pale); border-radius: .5rem; padding: .7rem }}
figure svg {{ display: block; fill: var(--ink); width: 100%; height: auto; max-height: 30rem }} .card svg {{ height: 10rem }}
figcaption {{ font-size: .86rem; margin-top: .4rem }} figcaption b {{ color: var(--ink); font-weight: 600 }}
details {{ margin: .6rem 0 }} summary {{ cursor: pointer }} footer {{ margin-top: 3rem; font-size: .86rem; color: var(--faint) }}
"""

_EDGES = ", ".join(
    f"linear-gradient(to {far}, var(--{colour}) {solid}, transparent) {near} / {width} 100% no-repeat"
    for colour, solid, width in (("paper", "1rem", "2.5rem"), ("line", "0", ".6rem"))
    for near, far in (("left", "right"), ("right", "left"))
)
"""A shadow at either edge of a table that is wider than the page; paper that moves with the table hides it where there is no more."""

_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>
{style}</style></head><body>
<header><h1>{title}</h1><p class="faint">{about}</p></header>
<p class="number">{value} <small>{what}</small></p>
<p>{meaning}</p>
<dl>{facts}</dl>
{sections}
<footer>Made by incidence {version}, {date}. All predictions, metrics and options are files in the folder of the run.</footer>
</body></html>
"""


def shown_part(run: Run) -> tuple[str, Scored]:
    """The part that counts, and its scores."""
    return run.evaluation.part, run.evaluation.parts[run.evaluation.part]


def page_text(run: Run, drawings: Mapping[str, Any]) -> str:
    """The whole page.

    Args:
        run: A finished run.
        drawings: Figures of matplotlib by name, as `figures_of` gives them.
    """
    data, moment = run.prepared.data, datetime.now().astimezone()
    value, what, meaning = headline(run)
    date = f"{moment.day} {moment:%B %Y, %H:%M}"
    captions = _captions(run)
    plots = _curves(run) + "".join(
        _plot(name, figure, captions[name]) for name, figure in drawings.items() if name != "curves"
    )
    sections = [
        _section("Metrics", _metrics(run)),
        _section("Learning and predictions", f'<div class="plots">{plots}</div>'),
        *_cards(run),
        _section("Model", _model(run)),
        f"<details><summary>All options</summary><pre>{escape(run.folder.config.read_text(encoding='utf-8'))}</pre></details>",
    ]
    return _PAGE.format(
        title=escape(f"{data.name}: {run.prepared.predicted}"),
        style=_STYLE.format(light=_colours(LIGHT), dark=_colours(DARK), edges=_EDGES),
        about=escape(data.about),
        value=escape(value),
        what=escape(what),
        meaning=escape(meaning),
        facts="".join(_facts(run, date)),
        sections="\n".join(sections),
        version=escape(__version__),
        date=escape(date),
    )


def headline(run: Run) -> tuple[str, str, str]:
    """The number that counts, what it is, and what it means beside the baseline."""
    data, (part, scored) = run.prepared.data, shown_part(run)
    metric, cautions = data.metric, "".join(f" {one}" for one in run.evaluation.cautions())
    ratios = [
        ours[metric] / blind[metric] for ours, blind in scored.of_targets.values() if blind[metric]
    ]
    apart = run.evaluation.told_apart()
    if apart and ratios and all(map(isfinite, ratios)):
        told = "; ".join(apart)
        share = f"{100 * sum(ratios) / len(ratios):.0f} %"
        what = f"of the {metric} of the baseline on the {part} part, the mean over {len(ratios)} targets"
        return (
            share,
            what,
            f"On {len(scored.target):,} rows, {metric} of {told} for {blind_words(data, metric)}.{cautions}",
        )
    ours, blind = scored.metrics[metric], scored.baseline[metric]
    unit = f" {data.task.unit}" if data.task.unit and metric in ("rmse", "mae") else ""
    told = f"{number(ours, metric)}{unit}" if metric in ("rmse", "mae") else number(ours, metric)
    rows = f"{len(scored.target):,} {'rows' if data.task.at else 'examples'} of the {part} part"
    against = f"against {number(blind, metric)}{unit} for {blind_words(data, metric)}"
    if metric in HIGHER:
        right = (
            f" {round(ours * len(scored.target)):,} of them are right."
            if metric == "accuracy"
            else ""
        )
        return told, f"{metric} on the {part} part", f"On {rows}, {against}.{right}{cautions}"
    less = (
        f": {100 * (1 - ours / blind):.0f} % less" if isfinite(blind) and 0 < ours < blind else ""
    )
    return (
        told,
        f"{metric} on the {part} part",
        f"A prediction is off by about {told} on {rows}, {against}{less}.{cautions}",
    )


def _facts(run: Run, date: str) -> Iterator[str]:
    metrics, environment, resumed = map(
        read_json, (run.folder.metrics, run.folder.environment, run.folder.resumed)
    )
    sizes = ", ".join(f"{name} {len(part.target):,}" for name, part in run.evaluation.parts.items())
    commands = [environment.get("command") or [], *resumed.get("commands", [])]
    facts = {
        "predicted": run.prepared.predicted,
        "model": f"{run.prepared.config.model}, {metrics.get('parameters', 0):,} parameters",
        "training": f"{metrics.get('epochs', 0)} epochs, {_duration(float(metrics.get('seconds', 0)))}",
        "rows": sizes,
        "date": date,
        "command": " && ".join(shlex.join(map(str, words)) for words in commands),
    }
    for name, text in facts.items():
        tag = f"<code>{escape(text)}</code>" if name == "command" else escape(text)
        yield f"<div{' class=wide' if name == 'command' else ''}><dt>{name}</dt><dd>{tag}</dd></div>"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return (
        f"{minutes // 60} h {minutes % 60} min"
        if minutes >= 60
        else f"{minutes} min {rest} s"
        if minutes
        else f"{seconds:.1f} s"
    )


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def _table(
    head: Iterable[str],
    rows: Iterable[Iterable[str]],
    numeric: Iterable[int] = (),
    words: Iterable[int] = (),
) -> str:
    """A table of texts, which are escaped; columns of numbers stand to the right, and lines break in columns of words alone."""
    kinds = {**dict.fromkeys(numeric, " class=n"), **dict.fromkeys(words, " class=words")}

    def line(tag: str, cells: Iterable[str]) -> str:
        return (
            "<tr>"
            + "".join(
                f"<{tag}{kinds.get(k, '')}>{escape(cell)}</{tag}>" for k, cell in enumerate(cells)
            )
            + "</tr>"
        )

    return f'<div class="scroll"><table>{line("th", head)}{"".join(line("td", row) for row in rows)}</table></div>'


def _metrics(run: Run) -> str:
    rows = [
        [
            name,
            f"{len(part.target):,}",
            metric,
            number(value, metric),
            number(part.baseline[metric], metric),
        ]
        for name, part in run.evaluation.parts.items()
        for metric, value in part.metrics.items()
    ]
    notes = "".join(f'<p class="faint">{escape(note)}</p>' for note in run.evaluation.notes())
    return (
        _table(["part", "rows", "metric", "network", "baseline"], rows, (1, 3, 4))
        + notes
        + _of_targets(run)
    )


def _of_targets(run: Run) -> str:
    """The metrics of each number or label, where there are several."""
    part, scored = shown_part(run)
    if not scored.of_targets:
        return ""
    metrics = list(scored.metrics)
    head = ["target", *(cell for metric in metrics for cell in (metric, "baseline"))]
    rows = [
        [name, *(number(found[metric], metric) for metric in metrics for found in both)]
        for name, both in scored.of_targets.items()
    ]
    is_open = " open" if len(rows) <= _MOST_OPEN else ""
    table = _table(head, rows, range(1, len(head)), (0,))
    return f'<details class="targets"{is_open}><summary>Each target alone, on the {part} part</summary>{table}</details>'


def figures_of(run: Run) -> dict[str, Any]:
    """The figures of a run: learning curves, then parity and errors, or confusion and ROC curves."""
    data, evaluation, (_, scored) = run.prepared.data, run.evaluation, shown_part(run)
    figures = {"curves": plot.curves(run.history)}
    if data.task.kind == "classification":
        figures["confusion"] = plot.confusion(scored.predicted, scored.target, data.task.names)
    if data.task.kind == "multilabel" and isfinite(scored.metrics["auc"]):
        areas = {name: metrics["auc"] for name, (metrics, _) in scored.of_targets.items()} or {
            data.task.names[0]: scored.metrics["auc"]
        }
        kept = [k for k, name in enumerate(data.task.names) if isfinite(areas[name])]
        names = [
            f"{cut(data.task.names[k])} ({number(areas[data.task.names[k]], 'auc')})" for k in kept
        ]
        figures["roc"] = plot.roc(
            scored.predicted[:, kept], scored.target.reshape(scored.predicted.shape)[:, kept], names
        )
    elif data.task.kind == "classification" and isfinite(scored.metrics.get("auc", nan)):
        target = torch.where(scored.target < 0, torch.nan, scored.target.float())
        title = f"{cut(data.task.names[1])} ({number(scored.metrics['auc'], 'auc')})"
        figures["roc"] = plot.roc(scored.predicted[:, 1:], target[:, None], [title])
    if data.task.kind == "regression":
        parts = {name: evaluation.parts[name] for name in PARTS[::-1] if name in evaluation.parts}
        values = {name: (part.predicted, part.target) for name, part in parts.items()}
        figures["parity"] = plot.parity(values, data.task.names, data.task.unit)
        figures["residuals"] = plot.residuals(values, data.task.names, data.task.unit)
    return figures


_CAPTIONS = {
    "loss": "Loss, epoch by epoch.",
    "metrics": "Metrics of the validation part, epoch by epoch.",
    "parity": "Predicted against measured values; a perfect prediction is on the line.",
    "residuals": "What is predicted too much (above the line) or too little.",
    "roc": "Of those that have a label, how many are found, over how many others are taken for it; {areas}.",
    "confusion": "Rows are true classes, columns what was predicted; {cells}.",
}


def _captions(run: Run) -> dict[str, str]:
    """What is said below every figure."""
    count = len(run.prepared.data.task.names)
    areas = (
        "in brackets the area below"
        if count <= MOST_CURVES
        else "the areas below are the AUC of each, above"
    )
    cells = "colours are shares of the row" + (
        ", and numbers are counts" if count <= MOST_COUNTED else ""
    )
    return {name: text.format(areas=areas, cells=cells) for name, text in _CAPTIONS.items()}


def _curves(run: Run) -> str:
    """The learning curves, loss and metrics each in a figure of its own, so that they stand below each other where the page is narrow."""
    drawn = []
    for name, is_loss in (("loss", True), ("metrics", False)):
        rows = [
            {
                key: value
                for key, value in row.items()
                if key == "epoch" or ("loss" in key) == is_loss
            }
            for row in run.history
        ]
        if any(set(row) - {"epoch", "lr"} for row in rows):
            drawn.append(_plot(name, plot.curves(rows), _CAPTIONS[name]))
    return "".join(drawn)


def _plot(name: str, figure: Any, caption: str) -> str:
    drawn = io.StringIO()
    figure.patch.set_alpha(0)
    figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    svg = drawn.getvalue()[drawn.getvalue().index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return f'<figure class="{name}">{themed(svg)}<figcaption>{caption}</figcaption></figure>'


def _colours(theme: Theme) -> str:
    named = {name: getattr(theme, name) for name in _NAMES} | {
        f"c{k}": colour for k, colour in enumerate(theme.palette)
    }
    return " ".join(f"--{name}: {colour};" for name, colour in named.items())


_OF_THEME = {getattr(LIGHT, name): f"var(--{name})" for name in _NAMES} | {
    c: f"var(--c{k})" for k, c in enumerate(LIGHT.palette)
}
_OF_THEME["#000000"] = "var(--ink)"  # where other libraries draw without being asked
_HEX = re.compile("|".join(map(re.escape, _OF_THEME)), re.IGNORECASE)


def themed(svg: str) -> str:
    """A picture in the colours of the light theme, with those of the screen in their place."""
    return _HEX.sub(lambda match: _OF_THEME[match[0].lower()], svg)


def _cards(run: Run) -> Iterator[str]:
    """The examples, or entries, that are predicted worst and best, drawn."""
    part, scored = shown_part(run)
    data = run.prepared.data
    around = (
        "some of what is known of either, by its value"
        if data.reader == "ratings"
        else "some of what is near, and what it is about marked"
    )
    note = f'<p class="faint">Drawn is {around}.</p>' if data.is_transductive else ""
    for word, found in zip(("Worst", "Best"), cards(data, scored), strict=True):
        if found:
            word = (
                "Least wrong"
                if word == "Best" and not any(card.is_right for card in found)
                else word
            )
            yield _section(
                f"{word} predictions of the {part} part",
                f'{note}<div class="grid">{"".join(map(_card, found))}</div>',
            )


def _card(card: Card) -> str:
    text = f"<b>{escape(card.name)}</b><br>{escape(card.told)}"
    return f'<figure class="card">{themed(card.picture)}<figcaption>{text}</figcaption></figure>'


def _model(run: Run) -> str:
    """Layers, what they do and what they learn; the operations of each on demand."""
    network = Network(run.predictor.net)
    rows, lists = [], []
    for layer in network.layers:
        kinds = Counter(map(word_for, layer.kept))
        said = ", ".join(f"{kinds[word]} {word}" for word in _WORDS if kinds[word]) or layer.kind
        count = f"{len(layer.kept)} of {layer.map.dimension}" if layer.kept else ""
        rows.append([layer.name, str(layer.map), count, said, f"{layer.num_parameters or 0:,}"])
        lists += [_operations(layer)] if layer.kept else []
    rows += [[kind, "", "", "", f"{count:,}"] for kind, count in network.others.items()]
    total = sum(p.numel() for p in run.predictor.net.parameters())
    rows.append(["all", "", "", "", f"{total:,}"])
    table = _table(["layer", "map", "operations", "which", "parameters"], rows, (2, 4), (1, 3))
    words = (
        "Self: between entries on the same nodes. Boundary: between entries one of which lies in the other. "
        "Adjacency: between entries that meet. Global: over whole structures."
    )
    return f'{table}<p class="faint">{words}</p>{"".join(dict.fromkeys(lists))}'


def _operations(layer: Layer) -> str:
    """What each operation of a layer does; layers of one map share the list."""
    kept = [o for o in layer.map.operations[: 4 * _MOST_LISTED] if o in layer.kept]
    rows = [[read(o).formula, read(o).words, word_for(o)] for o in kept[:_MOST_LISTED]]
    more = f"<p>and {len(layer.kept) - len(rows)} more</p>" if len(layer.kept) > len(rows) else ""
    title = escape(f"The {len(layer.kept)} operations of {layer.map}")
    return f"<details><summary>{title}</summary>{_table(['formula', 'what it does', 'kind'], rows, words=(1,))}{more}</details>"
