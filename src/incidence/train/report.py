"""What a run tells the person who started it: a few lines and a plot in the terminal, and a page to keep."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from incidence import plot
from incidence.data.node_tables import READER as GRAPH_TABLES
from incidence.data.tables import is_table
from incidence.errors import IncidenceError
from incidence.train.folder import disk_trouble, write
from incidence.train.page import figures_of, page_text, shown_part
from incidence.train.run import Run

__all__ = ["page", "summary", "tell"]

_WHAT = {
    "mesh": "mesh.obj", "graph": "graph.edges", "example": "examples.npz", "ratings": "pairs.csv", "links": "pairs.csv",
    GRAPH_TABLES: "edges.csv --nodes nodes.csv",
}  # fmt: skip
"""What there might be to predict, by reader."""


def tell(run: Run, is_json: bool = False) -> str:
    """Writes the page of a run, and gives what to print: a few lines, or one JSON object for other programs."""
    page(run)
    if is_json:
        return json.dumps(
            {
                "folder": str(run.folder.path),
                **json.loads(run.folder.metrics.read_text(encoding="utf-8")),
            },
            indent=1,
        )
    text = summary(run)
    write(run.folder.log, text + "\n")
    return text


def summary(run: Run) -> str:
    """The result in a few lines: the metric beside the baseline, a plot, where everything is, and what to try next."""
    lines, (_, scored) = (
        [run.evaluation.line(), *run.evaluation.cautions(), *run.evaluation.notes(), ""],
        shown_part(run),
    )
    if run.evaluation.task.kind == "regression":
        measured = scored.target.reshape(scored.predicted.shape)
        lines += [
            plot.scatter(
                measured[:, 0].tolist(),
                scored.predicted[:, 0].tolist(),
                x_name="measured",
                y_name="predicted",
            ),
            "",
        ]
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
    config, data = run.folder.path / "config.yaml", run.prepared.data
    molecules = "molecules.csv" if is_table(Path(run.prepared.config.data)) else "molecules.sdf"
    first = [
        f"incidence predict {shlex.quote(str(run.folder.path))} {_WHAT.get(data.reader, molecules)}"
    ]
    if data.is_transductive and data.completion is None:  # all of it is predicted already
        told = f"{run.folder.predictions} has a prediction for every entry, also for those without a target"
        first = [told, *(first if data.reader == GRAPH_TABLES else [])]
    return [
        *first,
        f"incidence train --config {shlex.quote(str(config))} --seed {run.prepared.config.seed + 1}",
        "incidence train --help           your own data, other models, several processes",
    ]


def page(run: Run) -> None:
    """Writes the plots, and one page that has everything in it."""
    figures = figures_of(run)
    for name, figure in figures.items():
        path = run.folder.plots / f"{name}.png"
        try:
            plot.save(figure, path)
        except OSError as error:
            raise IncidenceError(disk_trouble(path, error)) from error
    write(run.folder.report, page_text(run, figures))
