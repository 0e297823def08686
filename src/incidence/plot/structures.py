"""`plot.structure`: graphs, meshes, complexes, hypergraphs, tables and batches of them as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, TooLargeError
from incidence.plot.checks import assert_at_least_one
from incidence.plot.colours import Scale, scale_of
from incidence.plot.drawing import Drawing
from incidence.plot.faces import drawn_tensors, edges_of
from incidence.plot.layout import layout_of
from incidence.plot.molecules import molecule_of
from incidence.plot.picture import Picture
from incidence.plot.scene import Scene, Shape, Style, Text
from incidence.plot.sheet import Sheet
from incidence.plot.space import Camera
from incidence.plot.theme import Theme, theme_of
from incidence.plot.ways import shapes_of, ways_to_draw
from incidence.structure import Example, Structure

__all__ = ["structure"]

_MOST_SHAPES = 60_000
_GAP = 12.0
_MOST_CORNERS = 150  # of a surface: more would hide it


def structure(
    what: Structure | Example,
    values: Any = None,
    layout: Any = None,
    *,
    labels: bool | Sequence[str] | None = None,
    tensors: Sequence[str] | None = None,
    nodes: bool | None = None,
    channel: int = 0,
    view: tuple[float, float] = (-55.0, 20.0),
    opacity: float = 1.0,
    size: float | None = None,
    title: str = "",
    theme: str | Theme = "light",
    columns: int = 4,
    most: int = 12,
    legend: bool = True,
) -> Picture:
    r"""Draws a structure: nodes, edges, arrows, faces (shaded in space), sets, and what numbers their entries have.

    A face of one tensor is drawn by its nodes: two are a line, with a head if it has a direction; more are a polygon if their edges are
    there, else a set. An entry of several faces is a line through the middles of its faces. Oriented faces are arrows along their
    reference orientation, or against it where their value is negative, coloured by its size.

    Args:
        what: A structure or an example; several of them (a batch) are drawn side by side.
        values: Numbers that are shown as colours: from texts or names of tensors to tensors [entries] or [entries, channels]; `"i"` for
            nodes, or just a tensor. Texts alone, as in `["i"]`, take the features of an example. Integers are classes.
        layout: Coordinates of the nodes, shape [nodes, 2 or 3] (more are seen from a point on the last axis; by sort, if there are
            several); or a name: force, space, circle, columns, molecule. If not given: what fits, coordinates of the example first.
        labels: Texts in the nodes; True for their numbers, False for none; if not given, numbers where they can be read.
        tensors: Which tensors are drawn besides the nodes, by text or name; if not given, those of lone faces.
        nodes: Whether nodes are drawn; if not given, unless they are the many corners of a surface in space.
        channel: Which channel of the values.
        view: Where one looks from in space: azimuth and elevation in degrees.
        opacity: Of faces.
        size: The longer side of a drawing, in points; 260 for one and 150 for several if not given.
        title: What stands above it.
        theme: `light` or `dark`.
        columns: Of a batch.
        most: How many structures of a batch are drawn; a line says how many are left out.
        legend: Whether it is said which colours stand for which values.

    Raises:
        IncidenceError: The values or the layout do not fit.
        TooLargeError: There are too many entries to see anything.

    Example:
        >>> import incidence as inc
        >>> picture = inc.plot.structure(inc.geometry.named("cube"), layout=inc.geometry.coordinates("cube"))
        >>> len(picture.scene.of("node")), len(picture.scene.of("{i j}")), len(picture.scene.of("rank2"))
        (8, 12, 6)
    """
    look = theme_of(theme)
    own, example = (what.structure, what) if isinstance(what, Example) else (what, None)
    if not isinstance(own, Structure):
        raise IncidenceError(
            f"plot.structure draws a Structure or an Example; got {type(what).__name__}."
        )
    assert_at_least_one(columns=columns, most=most)
    if not 0 <= opacity <= 1:
        raise IncidenceError(f"`opacity` is a number from 0 to 1; got {opacity!r}.")
    if size is not None and not size > 0:
        raise IncidenceError(f"`size` is a number of points above 0; got {size!r}.")
    numbers = _as_numbers(own, example, values, channel)
    shown = min(own.num_structures, most)
    _assert_drawable(own, shown)
    flows = {key for key in numbers if key and own.resolve(key).is_oriented}
    scales = {
        key: scale_of(x.tolist(), look, not x.is_floating_point(), key in flows)
        for key, x in numbers.items()
    }
    wanted = [p.name or str(p) for p in map(own.resolve, tensors)] if tensors is not None else None
    side = size or (260.0 if shown == 1 else 150.0)
    panels = []
    for k in range(shown):
        one, one_example = (
            (own, example)
            if own.num_structures == 1
            else (own[k], example[k] if example is not None else None)
        )
        here = (
            numbers
            if own.num_structures == 1
            else {key: x[_home(own, key) == k] for key, x in numbers.items()}
        )
        place = layout[k] if isinstance(layout, list) and own.num_structures > 1 else layout
        panels.append(
            _panel(
                one,
                one_example,
                here,
                scales,
                place,
                labels,
                wanted,
                nodes,
                Camera(*view),
                opacity,
                side,
                look,
            )
        )
    note = f"and {own.num_structures - shown} more" if own.num_structures > shown else ""
    return Picture(
        _arranged(panels, columns, scales if legend else {}, title, note, look),
        look,
        title or str(own),
    )


Panel = tuple[float, float, list[Shape]]


def _home(own: Structure, key: str) -> Tensor:
    """The structure of every entry of a tensor, or of every node of all sorts."""
    return (
        own.batch(key).cpu()
        if key
        else torch.cat([own.batch(f"i:{sort}").cpu() for sort in sorted(own.counts)])
    )


def _as_numbers(
    own: Structure, example: Example | None, values: Any, channel: int
) -> dict[str, Tensor]:
    """The numbers to show, by the name of their tensor; those of nodes by the empty name."""
    if values is None:
        return {}
    if isinstance(values, Tensor):
        if len(own.counts) > 1:
            raise IncidenceError(
                f"nodes have sorts here, {', '.join(own.counts)}: give values by sort, as in {{'i:{next(iter(own.counts))}': x}}."
            )
        values = {f"i:{sort}": values for sort in own.counts}
    if isinstance(values, str):
        values = [values]
    if not isinstance(values, Mapping):
        if example is None:
            raise IncidenceError(
                "values that are texts are features of an example: pass the Example, or values as a dict of tensors."
            )
        known = {own.resolve(key): x for key, x in example.features.items()}
        missing = [key for key in values if own.resolve(key) not in known]
        if missing:
            raise IncidenceError(
                f"the example has no features of {missing[0]!r}; it has {', '.join(map(repr, example.features))}."
            )
        values = {key: known[own.resolve(key)] for key in values}
    found: dict[str, Tensor] = {}
    for key, x in values.items():
        pattern = own.resolve(key)
        column = _column(own, pattern, x, channel)
        if own._is_implicit(pattern) and pattern not in own.patterns and pattern.faces:
            found[""] = _with_sort(own, pattern, column, found.get(""))
        else:
            found[pattern.name or str(own._as_spelt(pattern))] = column
    return found


def _with_sort(own: Structure, pattern: Pattern, column: Tensor, before: Tensor | None) -> Tensor:
    """The numbers of all nodes, with those of one sort; nodes of other sorts have none before they are told theirs."""
    [sort] = pattern.sorts.values()
    if len(column) == own.total_nodes:
        return column
    every = (
        torch.full((own.total_nodes,), torch.nan, dtype=torch.float64) if before is None else before
    )
    start = own._node_offsets[sort]
    return torch.cat([every[:start], column.double(), every[start + len(column) :]])


def _column(own: Structure, pattern: Pattern, x: Any, channel: int) -> Tensor:
    rows = own.num_entries(pattern)
    if not isinstance(x, Tensor):
        raise IncidenceError(
            f"values[{str(pattern)!r}] must be a tensor; got {type(x).__name__}. Convert it with torch.as_tensor(x)."
        )
    if x.ndim not in (1, 2) or len(x) != rows:
        raise IncidenceError(
            f"values[{str(pattern)!r}] must have {rows} rows, one for each entry; got shape {list(x.shape)}."
        )
    if x.ndim == 2:
        if not -x.shape[1] <= channel < x.shape[1]:
            raise IncidenceError(
                f"values[{str(pattern)!r}] have {x.shape[1]} channels; channel {channel} is none of them."
            )
        x = x[:, channel]
    column: Tensor = x.detach().cpu()
    return column


def _assert_drawable(own: Structure, shown: int) -> None:
    part = own if own.num_structures == shown else own[list(range(shown))]
    count = part.total_nodes + sum(part.num_entries(p) for p in part.patterns)
    if count > _MOST_SHAPES:
        raise TooLargeError(
            f"{count:,} nodes and entries are more than the {_MOST_SHAPES:,} that are drawn: nothing could be told apart. "
            "Draw a part, as in plot.structure(s.induced(range(200)))."
        )


def _panel(
    own: Structure,
    example: Example | None,
    numbers: Mapping[str, Tensor],
    scales: Mapping[str, Scale],
    layout: Any,
    labels: bool | Sequence[str] | None,
    wanted: Sequence[str] | None,
    nodes: bool | None,
    camera: Camera,
    opacity: float,
    size: float,
    theme: Theme,
) -> Panel:
    everything = drawn_tensors(own)
    tensors, edges = (
        [t for t in everything if wanted is None or t.key in wanted],
        edges_of(everything),
    )
    has_arrows = any(t.has_direction and t.largest <= 2 for t in tensors)
    sheet = Sheet.of(
        layout_of(own, example, everything, layout), size, camera, 0.22 if has_arrows else 0.34
    )
    ways = list(ways_to_draw(tensors, edges, [*numbers, *(wanted or ())], sheet))
    molecule = molecule_of(example)
    drawing = Drawing(
        sheet,
        ways,
        edges,
        [number for number, sort in enumerate(sorted(own.counts)) for _ in range(own.counts[sort])],
        theme,
        labels=_labels(own, labels, sheet, () if molecule is None else molecule.elements),
        tints=() if molecule is None else molecule.tints(theme),
        strands={} if molecule is None else molecule.orders,
        values={key: x.tolist() for key, x in numbers.items()},
        scales=scales,
        opacity=opacity,
    )
    is_crowded = sheet.space is not None and own.total_nodes > _MOST_CORNERS
    return (
        sheet.width,
        sheet.height,
        shapes_of(drawing, (not is_crowded or "" in numbers) if nodes is None else nodes),
    )


def _labels(
    own: Structure, labels: bool | Sequence[str] | None, sheet: Sheet, known: Sequence[str]
) -> Sequence[str]:
    if isinstance(labels, Sequence) and not isinstance(labels, str):
        if len(labels) != own.total_nodes:
            raise IncidenceError(
                f"labels has {len(labels)} texts, and there are {own.total_nodes} nodes: give one for each."
            )
        return [str(label) for label in labels]
    if labels is None and known and sheet.radius >= 3:
        return known
    if labels or (labels is None and sheet.radius >= 6 and sheet.space is None):
        return [str(k) for sort in sorted(own.counts) for k in range(own.counts[sort])]
    return ()


def _arranged(
    panels: Sequence[Panel],
    columns: int,
    scales: Mapping[str, Scale],
    title: str,
    note: str,
    theme: Theme,
) -> Scene:
    """The drawings in rows, with a title above and legends at the right."""
    shapes: list[Shape] = []
    top = 0.0
    if title:
        shapes.append(
            Text(0, 11, title, 11, is_bold=True, style=Style(fill=theme.ink), part="title")
        )
        top = 20.0
    wide = max((w for w, _, _ in panels), default=0.0)
    right = bottom = 0.0
    for start in range(0, len(panels), columns):
        row = panels[start : start + columns]
        high = max(h for _, h, _ in row)
        for k, (w, h, own) in enumerate(row):
            x, y = k * (wide + _GAP) + (wide - w) / 2, top + (high - h) / 2
            shapes += [shape.moved(x, y) for shape in own]
        top += high + _GAP
        right = max(right, len(row) * (wide + _GAP) - _GAP)
    bottom = top - _GAP
    if note:
        shapes.append(Text(0, bottom + 12, note, 9, style=Style(fill=theme.faint), part="note"))
    y = 20.0 if title else 0.0
    for key, scale in scales.items():
        height = (
            13.0 * len(scale.classes) + 20 if scale.classes else min(120.0, max(60.0, bottom - y))
        )
        shapes += scale.legend(key or "nodes", right + 16, y, height)
        y += height + 12
    return Scene.around(shapes)
