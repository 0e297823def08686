"""Our objects in a notebook: a picture where one can see something, and a table that always says
what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from io import BytesIO
from typing import Any

from incidence import plot
from incidence.algebra.explain import explain
from incidence.algebra.layers import is_layer, is_module
from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, MissingExtraError

__all__ = ["html_of"]

_MOST_ORBITS, _MOST_OPERATIONS = 24, 24
_MOST_DRAWN = 600  # nodes and entries of a structure that a notebook draws


def html_of(value: object) -> str:
    """Return a value as HTML."""
    # By name, so that classes of packages that are not loaded need no import.
    ours = [kind for kind in type(value).__mro__ if kind.__module__.startswith("incidence.")]
    for kind in ours:
        if kind.__name__ in _SHOWN:
            return f"<div>{_SHOWN[kind.__name__](value)}</div>"
    return f"<div>{_module(value)}</div>" if is_module(value) else _code(value)


def _code(value: object) -> str:
    return f"<pre>{escape(repr(value))}</pre>"


def _drawn(draw: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """A picture as SVG; nothing where there is too much to draw, or no layer."""
    try:
        svg: str = draw(*arguments, **options).svg(transparent=False)
    except IncidenceError:  # too large to draw: the table says what there is
        return ""
    return f'<div style="max-width:100%;overflow-x:auto">{svg}</div>'


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
    cells = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><tr>{names}</tr>{cells}</table>"


def _operation(value: Operation) -> str:
    return _drawn(plot.operation, value)


def _pattern(value: Pattern) -> str:
    orbits = value.orbits
    shown = orbits[:_MOST_ORBITS]
    rows = [(str(orbit) or "(one value)", orbit.size, orbit.symmetry) for orbit in shown]
    left_out = len(orbits) - len(shown)
    html = f"<code>{escape(repr(value))}</code>"
    if not left_out:
        html += _drawn(plot.orbits, value)
    html += _table(["orbit", "nodes", "symmetries"], rows)
    return f"{html}<p>and {left_out:,} more orbits</p>" if left_out else html


def _map(value: EquivariantMap) -> str:
    counts = f"{value.dimension:,} operations, {value.num_biases:,} biases"
    picture = _drawn(plot.operations, value, most=_MOST_OPERATIONS)
    return f"<p><code>{escape(repr(value))}</code>: {counts}</p>{picture}"


def _structure(value: Any, example: Any = None) -> str:
    rows = [
        ("nodes" if sort == "node" else f"nodes of sort {sort}", n)
        for sort, n in value.counts.items()
    ]
    rows += [(str(p), value.num_entries(p)) for p in value.patterns]
    html = f"<p>{value.num_structures:,} structures</p>" if value.num_structures != 1 else ""
    if _is_small(value):
        html += _drawn(plot.structure, value if example is None else example, most=8)
    return html + _table(["tensor", "entries"], rows)


def _is_small(structure: Any) -> bool:
    # as many as are drawn
    first = structure if structure.num_structures <= 8 else structure[list(range(8))]
    num_entries = sum(first.num_entries(p) for p in first.patterns)
    return bool(first.total_nodes + num_entries <= _MOST_DRAWN)


def _example(value: Any) -> str:
    rows: list[tuple[object, object]] = [(key, list(x.shape)) for key, x in value.features.items()]
    target = value.target
    if isinstance(target, dict):
        rows.append(("target", {key: list(x.shape) for key, x in target.items()}))
    elif target is not None:
        rows.append(("target", list(target.shape)))
    return _structure(value.structure, value) + _table(["features", "shape"], rows)


def _module(value: Any) -> str:
    picture = _drawn(plot.network, value)
    has_words = picture or is_layer(value)
    return picture + str(explain(value)._repr_html_()) if has_words else _code(value)


def _run(value: Any) -> str:
    """A finished run."""
    title = f"Run in {value.folder.path}"
    return _trained(title, value.evaluation.metrics(), value.history, value.predictor)


def _model(value: Any) -> str:
    """The model of a run."""
    return _trained(repr(value), value.metrics, value.history, value.network)


def _trained(
    title: str, metrics: Mapping[str, Any], history: Sequence[Mapping[str, float]], network: Any
) -> str:
    """The metrics on every part of the data, the learning curves, and the network."""
    parts = {
        part: {name: value for name, value in scores.items() if isinstance(value, float)}
        for part, scores in metrics.items()
        if isinstance(scores, Mapping) and "baseline" in scores
    }
    names = list(dict.fromkeys(name for scores in parts.values() for name in scores))
    rows = [
        (part, *(f"{scores[name]:.4g}" if name in scores else "" for name in names))
        for part, scores in parts.items()
    ]
    table = _table(["", *names], rows)
    return f"<p>{escape(title)}</p>{table}{_curves(history)}{_drawn(plot.network, network)}"


def _curves(history: Sequence[Mapping[str, float]]) -> str:
    file = BytesIO()
    try:
        plot.curves(history).savefig(file, format="svg", metadata={"Date": None})
    except MissingExtraError:
        return ""
    text = file.getvalue().decode()
    return text[text.index("<svg") :]  # without the XML header, which HTML does not take


_SHOWN: dict[str, Callable[[Any], str]] = {
    "EquivariantMap": _map,
    "Example": _example,
    "Model": _model,
    "Operation": _operation,
    "Pattern": _pattern,
    "Run": _run,
    "Structure": _structure,
}
