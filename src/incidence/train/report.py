"""What a run tells the person who started it: a few lines and a plot in the terminal, and a page to keep."""

from __future__ import annotations

import html
import io
import json
import shlex
import sys

from incidence import plot
from incidence.errors import IncidenceError
from incidence.train.evaluate import BLIND, PARTS, number
from incidence.train.folder import disk_trouble, write
from incidence.train.run import Run

__all__ = ["page", "summary", "tell"]

_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }}
table {{ border-collapse: collapse }} td, th {{ padding: .2rem .9rem .2rem 0; text-align: left; border-bottom: 1px solid #ddd }}
svg {{ max-width: 100%; height: auto }} pre {{ background: #f6f6f6; padding: 1rem; overflow-x: auto }}
</style></head><body>
<h1>{title}</h1>
<p>{about}</p>
{table}
{plots}
<h2>Model</h2><pre>{model}</pre>
<h2>Options</h2><pre>{config}</pre>
</body></html>
"""


def tell(run: Run, is_json: bool = False) -> str:
    """Writes the page of a run, and gives what to print: a few lines, or one JSON object for other programs."""
    page(run)
    if is_json:
        return json.dumps({"folder": str(run.folder.path), **json.loads(run.folder.metrics.read_text(encoding="utf-8"))}, indent=1)
    text = summary(run)
    write(run.folder.log, text + "\n")
    return text


def summary(run: Run) -> str:
    """The result in a few lines: the metric beside the baseline, a plot, where everything is, and what to try next."""
    data, part = run.prepared.data, _shown(run)
    scored, metric = run.evaluation.parts[part], data.metric
    unit = f" {data.task.unit}" if data.task.unit and metric != "accuracy" else ""
    ours, blind = (number(found[metric], metric) for found in (scored.metrics, scored.baseline))
    lines = [f"{data.name}: {part} {metric} {ours}{unit}, against {blind} for {BLIND[metric]}", ""]
    if data.task.kind == "regression":
        measured = scored.target.reshape(scored.predicted.shape)
        lines += [plot.scatter(measured[:, 0].tolist(), scored.predicted[:, 0].tolist(), x_name="measured", y_name="predicted"), ""]
    lines += [
        f"Everything is in {run.folder.path}/: report.html (plots), model.safetensors, predictions.csv, metrics.json, config.yaml",
        "",
        "Next:  " + "\n       ".join(_next(run)),
    ]
    text, encoding = "\n".join(lines), getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:  # as far as the terminal can show it
        return plot.plain(text).encode(encoding, "replace").decode(encoding)
    return text


def _next(run: Run) -> list[str]:
    """Commands that work as they stand; the command line shows them as it was called."""
    config = run.prepared.config
    suffix = {"mesh": "mesh.obj", "graph": "graph.edges", "example": "examples.npz"}.get(run.prepared.data.reader, "molecules.sdf")
    data = {"data": config.data, "folder": config.folder, "target": config.target}
    again = " ".join(f"--{key} {shlex.quote(value)}" for key, value in data.items() if value is not None)
    return [
        f"incidence predict {shlex.quote(str(run.folder.path))} {suffix}",
        f"incidence train {again} --seed {config.seed + 1}",
        "incidence train --help           your own data, other models, several processes",
    ]


def _shown(run: Run) -> str:
    return next(name for name in PARTS if name in run.evaluation.parts)


def page(run: Run) -> None:
    """Writes the plots, and one page that has everything in it."""
    data, evaluation = run.prepared.data, run.evaluation
    figures = {"curves": plot.curves(run.history)}
    if data.task.kind == "classification":
        scored = evaluation.parts[_shown(run)]
        figures["confusion"] = plot.confusion(scored.predicted, scored.target, data.task.names)
    else:
        parts = [(name, evaluation.parts[name]) for name in PARTS[::-1] if name in evaluation.parts]
        figures["parity"] = plot.parity({name: (part.predicted, part.target) for name, part in parts}, data.task.names, data.task.unit)
    drawings = []
    for name, figure in figures.items():
        path, drawn = run.folder.plots / f"{name}.png", io.StringIO()
        try:
            plot.save(figure, path)
        except OSError as error:
            raise IncidenceError(disk_trouble(path, error)) from error
        figure.savefig(drawn, format="svg", metadata={"Date": None})
        drawings.append(drawn.getvalue()[drawn.getvalue().index("<svg") :])
    head = "<tr><th>part</th><th>rows</th><th>metric</th><th>network</th><th>baseline</th></tr>"
    rows = [
        f"<tr><td>{name}</td><td>{len(part.target)}</td><td>{metric}</td><td>{number(value, metric)}</td>"
        f"<td>{number(part.baseline[metric], metric)}</td></tr>"
        for name, part in evaluation.parts.items()
        for metric, value in part.metrics.items()
    ]
    text = _PAGE.format(
        title=html.escape(f"{data.name}: {', '.join(data.task.names[:3])}"),
        about=html.escape(data.about),
        table=f"<table>{head}{''.join(rows)}</table>",
        plots="\n".join(f"<p>{one}</p>" for one in drawings),
        model=html.escape(str(run.predictor.net)),
        config=html.escape(run.folder.config.read_text(encoding="utf-8")),
    )
    write(run.folder.report, text)
