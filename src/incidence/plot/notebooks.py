"""Our objects in a notebook: a picture where one can see something, and a table that always says what there is."""

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
_MOST_DRAWN = 600  # nodes and entries of a structure that are drawn without being asked


def html_of(value: object) -> str:
    """A value as HTML."""
    kinds = [
        kind.__name__ for kind in type(value).__mro__ if kind.__module__.startswith("incidence.")
    ]
    show = next(
        (_SHOWN[kind] for kind in kinds if kind in _SHOWN), _module if is_module(value) else None
    )
    if show is None:
        return f"<pre>{escape(repr(value))}</pre>"
    return f"<div>{show(value)}</div>"


def _drawn(draw: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """A picture as SVG; nothing where there is too much to draw, or no layer to be found."""
    try:
        svg: str = draw(*arguments, **options).svg(transparent=False)
    except IncidenceError:
        return ""
    return f'<div style="max-width:100%;overflow-x:auto">{svg}</div>'


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    cells = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>{cells}</table>"


def _operation(value: Operation) -> str:
    return _drawn(plot.operation, value)


def _pattern(value: Pattern) -> str:
    orbits = value.orbits
    rows = [
        (str(orbit) or "(one value)", orbit.size, orbit.symmetry) for orbit in orbits[:_MOST_ORBITS]
    ]
    more = f"<p>and {len(orbits) - len(rows):,} more orbits</p>" if len(orbits) > len(rows) else ""
    picture = _drawn(plot.orbits, value) if len(orbits) <= _MOST_ORBITS else ""
    return f"<code>{escape(repr(value))}</code>{picture}{_table(['orbit', 'nodes', 'symmetries'], rows)}{more}"


def _map(value: EquivariantMap) -> str:
    told = f"{value.dimension:,} operations, {value.num_biases:,} biases"
    return f"<p><code>{escape(repr(value))}</code>: {told}</p>" + _drawn(
        plot.operations, value, most=_MOST_OPERATIONS
    )


def _structure(value: Any, example: Any = None) -> str:
    rows = [
        ("nodes" if sort == "node" else f"nodes of sort {sort}", n)
        for sort, n in value.counts.items()
    ]
    rows += [(str(p), value.num_entries(p)) for p in value.patterns]
    many = f"<p>{value.num_structures:,} structures</p>" if value.num_structures != 1 else ""
    picture = (
        _drawn(plot.structure, value if example is None else example, most=8)
        if _is_small(value)
        else ""
    )
    return many + picture + _table(["tensor", "entries"], rows)


def _is_small(structure: Any) -> bool:
    first = structure if structure.num_structures <= 8 else structure[list(range(8))]
    return bool(
        first.total_nodes + sum(first.num_entries(p) for p in first.patterns) <= _MOST_DRAWN
    )


def _example(value: Any) -> str:
    rows: list[tuple[object, object]] = [(key, list(x.shape)) for key, x in value.features.items()]
    target = value.target
    if target is not None:
        rows.append(
            (
                "target",
                {key: list(x.shape) for key, x in target.items()}
                if isinstance(target, dict)
                else list(target.shape),
            )
        )
    return _structure(value.structure, value) + _table(["features", "shape"], rows)


def _module(value: Any) -> str:
    picture = _drawn(plot.network, value)
    return (
        picture + str(explain(value)._repr_html_())
        if picture or is_layer(value)
        else f"<pre>{escape(repr(value))}</pre>"
    )


def _run(value: Any) -> str:
    """A finished run."""
    return _trained(
        f"Run in {value.folder.path}", value.evaluation.metrics(), value.history, value.predictor
    )


def _model(value: Any) -> str:
    """The model of a run."""
    return _trained(repr(value), value.metrics, value.history, value.network)


def _trained(
    title: str, metrics: Mapping[str, Any], history: Sequence[Mapping[str, float]], network: Any
) -> str:
    """How well something does on every part of its data, how it learned, and what it is."""
    parts = {
        name: scores
        for name, scores in metrics.items()
        if isinstance(scores, Mapping) and "baseline" in scores
    }
    names = list(
        dict.fromkeys(
            n for scores in parts.values() for n, v in scores.items() if isinstance(v, float)
        )
    )
    rows = [
        (part, *(f"{scores[n]:.4g}" if isinstance(scores.get(n), float) else "" for n in names))
        for part, scores in parts.items()
    ]
    return (
        f"<p>{escape(title)}</p>"
        + _table(["", *names], rows)
        + _curves(history)
        + _drawn(plot.network, network)
    )


def _curves(history: Sequence[Mapping[str, float]]) -> str:
    try:
        file = BytesIO()
        plot.curves(history).savefig(file, format="svg", metadata={"Date": None})
    except MissingExtraError:
        return ""
    text = file.getvalue().decode()
    return text[text.index("<svg") :]


_SHOWN: dict[str, Callable[[Any], str]] = {
    "EquivariantMap": _map,
    "Example": _example,
    "Model": _model,
    "Operation": _operation,
    "Pattern": _pattern,
    "Run": _run,
    "Structure": _structure,
}
