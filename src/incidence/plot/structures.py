"""`plot.structure`: graphs, meshes, complexes, hypergraphs, tables and batches of them as
pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.molecules import ATOM_FEATURES, BOND_FEATURES
from incidence.errors import IncidenceError, TooLargeError
from incidence.plot.drawing import Drawing, drawn_tensors, edges_of
from incidence.plot.entry_shapes import chosen_shapes, marks_of
from incidence.plot.layout import layout_of
from incidence.plot.picture import Picture, assert_at_least_one
from incidence.plot.scene import Mark, Scene, label
from incidence.plot.theme import Scale, Theme, scale_of, theme_of
from incidence.plot.viewport import Camera, Viewport
from incidence.structure import Example, Structure

__all__ = ["TINTS", "MoleculeLook", "molecule_of", "structure"]

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
    r"""Draw a structure: nodes, edges, arrows, faces (shaded in space), sets, and the numbers that
    entries have.

    A face of one tensor is drawn by its nodes: two are a line, with a head if it has a direction;
    more are a polygon if their edges are there, else a set. An entry of several faces is a line
    through the middles of its faces. Oriented faces are arrows along their reference orientation,
    or against it where their value is negative, coloured by its size.

    Args:
        what: A structure or an example; several of them (a batch) are drawn side by side.
        values: Numbers to show as colours: from texts or names of tensors to tensors [entries] or
            [entries, channels]; `"i"` for nodes, or just a tensor. Texts alone, as in `["i"]`, take
            the features of an example. Integers are classes.
        layout: Coordinates of the nodes, shape [nodes, 2 or 3] (more are seen from a point on the
            last axis; by sort, if there are several); or a name: force, space, circle, columns,
            molecule. Default: coordinates of the example, or what suits.
        labels: Texts in the nodes; True for their numbers, False for none. Default: numbers where
            they can be read.
        tensors: Which tensors are drawn besides the nodes, by text or name. Default: those of lone
            faces.
        nodes: Whether nodes are drawn. Default: unless they are the many corners of a surface in
            space.
        channel: Which channel of the values.
        view: Where one looks from in space: azimuth and elevation in degrees.
        opacity: Opacity of faces, 0 to 1.
        size: The longer side of a drawing, in points. Default: 260 for one, 150 for several.
        title: What stands above it.
        theme: `light` or `dark`.
        columns: How many structures of a batch stand side by side.
        most: How many structures of a batch are drawn; a line says how many are left out.
        legend: Whether a legend explains the colours.

    Raises:
        IncidenceError: The values or the layout do not fit.
        TooLargeError: There are too many entries to see anything.

    Example:
        >>> import incidence as inc
        >>> corners = inc.geometry.coordinates("cube")
        >>> scene = inc.plot.structure(inc.geometry.named("cube"), layout=corners).scene
        >>> len(scene.of("node")), len(scene.of("{i j}")), len(scene.of("rank2"))
        (8, 12, 6)
    """
    look = theme_of(theme)
    batch, example = (what.structure, what) if isinstance(what, Example) else (what, None)
    if not isinstance(batch, Structure):
        raise IncidenceError(
            f"plot.structure draws a Structure or an Example; got {type(what).__name__}."
        )
    assert_at_least_one(columns=columns, most=most)
    if not 0 <= opacity <= 1:
        raise IncidenceError(f"`opacity` is a number from 0 to 1; got {opacity!r}.")
    if size is not None and not size > 0:
        raise IncidenceError(f"`size` is a number of points above 0; got {size!r}.")
    numbers = _as_numbers(batch, example, values, channel)
    num_drawn = min(batch.num_structures, most)
    _assert_drawable(batch, num_drawn)
    # One scale for all structures of a batch: a colour means the same number in each.
    scales = {key: _scale(batch, key, x, look) for key, x in numbers.items()}
    options = _Options(
        scales=scales,
        labels=labels,
        tensors=None if tensors is None else [_key(batch.resolve(key)) for key in tensors],
        has_nodes=nodes,
        camera=Camera(*view),
        opacity=opacity,
        size=size or (260.0 if num_drawn == 1 else 150.0),
        theme=look,
    )
    if batch.num_structures == 1:
        panels = [_panel(batch, example, numbers, layout, options)]
    else:
        # coordinates for each, or one name
        layouts = layout if isinstance(layout, list) else [layout] * num_drawn
        panels = []
        for k in range(num_drawn):
            # the rows of one structure
            here = {key: x[_home(batch, key) == k] for key, x in numbers.items()}
            one = None if example is None else example[k]
            panels.append(_panel(batch[k], one, here, layouts[k], options))
    left_out = batch.num_structures - num_drawn
    note = f"and {left_out} more" if left_out else ""
    scene = _arranged(panels, columns, scales if legend else {}, title, note, look)
    return Picture(scene, look, title or str(batch))


class _Options(NamedTuple):
    """What all structures of a batch have in common; see `structure`."""

    scales: Mapping[str, Scale]
    labels: bool | Sequence[str] | None
    tensors: Sequence[str] | None
    has_nodes: bool | None
    camera: Camera
    opacity: float
    size: float
    theme: Theme


class _Panel(NamedTuple):
    """One structure of a batch."""

    width: float
    height: float
    marks: list[Mark]


def _key(pattern: Pattern) -> str:
    return pattern.name or str(pattern)


def _scale(batch: Structure, key: str, x: Tensor, theme: Theme) -> Scale:
    are_flows = bool(key) and batch.resolve(key).is_oriented
    return scale_of(x.tolist(), theme, not x.is_floating_point(), are_flows)


def _home(batch: Structure, key: str) -> Tensor:
    """The structure of every entry of a tensor, or of every node of all sorts."""
    keys = [key] if key else [f"i:{sort}" for sort in sorted(batch.counts)]
    return torch.cat([batch.batch(key).cpu() for key in keys])


def _as_numbers(
    batch: Structure, example: Example | None, values: Any, channel: int
) -> dict[str, Tensor]:
    """The numbers to show, by the name of their tensor; those of nodes by the empty name."""
    numbers: dict[str, Tensor] = {}
    for key, x in _as_mapping(batch, example, values).items():
        pattern = batch.resolve(key)
        column = _column(batch, pattern, x, channel)
        if batch._is_implicit(pattern) and pattern not in batch.patterns and pattern.faces:
            numbers[""] = _with_sort(batch, pattern, column, numbers.get(""))
        else:
            numbers[pattern.name or str(batch._as_spelt(pattern))] = column
    return numbers


def _as_mapping(batch: Structure, example: Example | None, values: Any) -> Mapping[str, Any]:
    """The values by tensor."""
    if values is None:
        return {}
    if isinstance(values, Tensor):
        if len(batch.counts) > 1:
            raise IncidenceError(
                f"nodes have sorts here, {', '.join(batch.counts)}: give values by sort, as in"
                f" {{'i:{next(iter(batch.counts))}': x}}."
            )
        return {f"i:{sort}": values for sort in batch.counts}
    if isinstance(values, Mapping):
        return values
    if example is None:
        raise IncidenceError(
            "values that are texts are features of an example: pass the Example, or values as a"
            " dict of tensors."
        )
    features = {batch.resolve(key): x for key, x in example.features.items()}
    keys = [values] if isinstance(values, str) else values
    missing = [key for key in keys if batch.resolve(key) not in features]
    if missing:
        raise IncidenceError(
            f"the example has no features of {missing[0]!r}; it has"
            f" {', '.join(map(repr, example.features))}."
        )
    return {key: features[batch.resolve(key)] for key in keys}


def _with_sort(batch: Structure, pattern: Pattern, column: Tensor, before: Tensor | None) -> Tensor:
    """The numbers of all nodes with those of one sort; NaN for sorts that have none yet."""
    [sort] = pattern.sorts.values()
    total = batch.total_nodes
    if len(column) == total:
        return column
    if before is None:
        before = torch.full((total,), torch.nan, dtype=torch.float64)
    start = batch._node_offsets[sort]  # nodes are numbered through all sorts
    return torch.cat([before[:start], column.double(), before[start + len(column) :]])


def _column(batch: Structure, pattern: Pattern, x: Any, channel: int) -> Tensor:
    rows = batch.num_entries(pattern)
    name = f"values[{str(pattern)!r}]"
    if not isinstance(x, Tensor):
        raise IncidenceError(
            f"{name} must be a tensor; got {type(x).__name__}. Convert it with torch.as_tensor(x)."
        )
    if x.ndim not in (1, 2) or len(x) != rows:
        raise IncidenceError(
            f"{name} must have {rows} rows, one for each entry; got shape {list(x.shape)}."
        )
    if x.ndim == 2:
        if not -x.shape[1] <= channel < x.shape[1]:
            raise IncidenceError(
                f"{name} have {x.shape[1]} channels; channel {channel} is none of them."
            )
        x = x[:, channel]
    column: Tensor = x.detach().cpu()
    return column


def _assert_drawable(batch: Structure, num_drawn: int) -> None:
    # what is drawn of a batch
    part = batch if batch.num_structures == num_drawn else batch[list(range(num_drawn))]
    count = part.total_nodes + sum(part.num_entries(p) for p in part.patterns)
    if count > _MOST_SHAPES:
        raise TooLargeError(
            f"{count:,} nodes and entries are more than the {_MOST_SHAPES:,} that are drawn:"
            " the picture would be unreadable. Draw a part, as in"
            " plot.structure(s.induced(range(200)))."
        )


def _panel(
    one: Structure,
    example: Example | None,
    numbers: Mapping[str, Tensor],
    layout: Any,
    options: _Options,
) -> _Panel:
    everything = drawn_tensors(one)
    wanted = options.tensors
    tensors = [t for t in everything if wanted is None or t.key in wanted]
    edges = edges_of(everything)
    points = layout_of(one, example, everything, layout)
    has_arrows = any(t.has_direction and t.largest <= 2 for t in tensors)
    # Smaller nodes leave room for the heads of arrows.
    view = Viewport.of(points, options.size, options.camera, 0.22 if has_arrows else 0.34)
    molecule = molecule_of(example)
    sorts = [k for k, sort in enumerate(sorted(one.counts)) for _ in range(one.counts[sort])]
    drawing = Drawing(
        view,
        list(chosen_shapes(tensors, edges, [*numbers, *(wanted or ())], view)),
        edges,
        sorts,
        options.theme,
        labels=_labels(one, options.labels, view, () if molecule is None else molecule.elements),
        tints=() if molecule is None else molecule.tints(options.theme),
        strands={} if molecule is None else molecule.orders,
        values={key: x.tolist() for key, x in numbers.items()},
        scales=options.scales,
        opacity=options.opacity,
    )
    has_nodes = options.has_nodes
    if has_nodes is None:
        is_crowded = view.space is not None and one.total_nodes > _MOST_CORNERS
        has_nodes = not is_crowded or "" in numbers
    return _Panel(view.width, view.height, marks_of(drawing, has_nodes))


def _labels(
    one: Structure,
    labels: bool | Sequence[str] | None,
    view: Viewport,
    elements: Sequence[str],
) -> Sequence[str]:
    if isinstance(labels, Sequence) and not isinstance(labels, str):
        if len(labels) != one.total_nodes:
            raise IncidenceError(
                f"labels has {len(labels)} texts, and there are {one.total_nodes} nodes: give one"
                " for each."
            )
        return [str(text) for text in labels]
    if labels is None and elements and view.radius >= 3:
        return elements
    if labels is None:
        labels = view.radius >= 6 and view.space is None  # smaller numbers cannot be read
    return (
        [str(k) for sort in sorted(one.counts) for k in range(one.counts[sort])] if labels else ()
    )


def _arranged(
    panels: Sequence[_Panel],
    columns: int,
    scales: Mapping[str, Scale],
    title: str,
    note: str,
    theme: Theme,
) -> Scene:
    """The drawings in rows, with a title above and legends at the right."""
    marks: list[Mark] = []
    top = 0.0
    if title:
        marks.append(
            label(
                0,
                11,
                title,
                11,
                theme.ink,
                "title",
                is_bold=True,
            )
        )
        top = 20.0
    start_of_legends = top
    wide = max((panel.width for panel in panels), default=0.0)
    right = 0.0
    for start in range(0, len(panels), columns):
        row = panels[start : start + columns]
        high = max(panel.height for panel in row)
        for k, panel in enumerate(row):
            x = k * (wide + _GAP) + (wide - panel.width) / 2
            y = top + (high - panel.height) / 2
            marks += [mark.moved(x, y) for mark in panel.marks]
        top += high + _GAP
        right = max(right, len(row) * (wide + _GAP) - _GAP)
    bottom = top - _GAP
    if note:
        marks.append(label(0, bottom + 12, note, 9, theme.faint, "note"))
    y = start_of_legends
    for key, scale in scales.items():
        height = min(120.0, max(60.0, bottom - y))  # as high as the drawing, within reason
        if scale.classes:
            height = 13.0 * len(scale.classes) + 20
        marks += scale.legend(key or "nodes", right + 16, y, height)
        y += height + 12
    return Scene.around(marks)


_ELEMENTS = ATOM_FEATURES[: ATOM_FEATURES.index("other")]
_ORDERS = {1: 1.0, 2: 2.0, 3: 3.0, 4: 1.5}  # of bonds as files have them; 4 is aromatic
TINTS = {"N": 0, "O": 1, "S": 6, "P": 4, "F": 2, "Cl": 2, "Br": 2, "I": 2}
"""The place of every element in the palette of a theme."""


@dataclass(frozen=True)
class MoleculeLook:
    """How a molecule is drawn.

    Attributes:
        elements: The element of every atom.
        orders: The order of every bond, 1.5 if it is aromatic, by its atoms.
    """

    elements: Sequence[str]
    orders: Mapping[frozenset[int], float] = field(default_factory=dict)

    def tints(self, theme: Theme) -> list[str]:
        """Return a colour for every atom."""
        known = {e: theme.palette[place] for e, place in TINTS.items()}
        known |= {"C": theme.faint, "H": theme.faint}
        return [known.get(e, theme.palette[3]) for e in self.elements]


def molecule_of(example: Example | None) -> MoleculeLook | None:
    """Return how to draw an example as a molecule.

    It is None unless the features are those that this library makes of molecules.

    Example:
        >>> import incidence as inc
        >>> pentane = inc.data.load("solubility").examples[0]
        >>> molecule_of(pentane).elements
        ['C', 'C', 'C', 'C', 'C']
    """
    if example is None or set(example.structure.counts) != {"node"}:
        return None
    known = {str(example.structure.resolve(key)): x for key, x in example.features.items()}
    atoms = known.get("i")
    bonds = known.get("{i j}")
    if atoms is None or not len(atoms):
        return None
    elements = _elements(atoms)
    if elements is None:
        return None
    return MoleculeLook(elements, {} if bonds is None else _orders(example, bonds))


def _elements(atoms: Tensor) -> list[str] | None:
    if atoms.is_floating_point():
        one_hot = atoms[:, : len(_ELEMENTS) + 1]
        # Other floats may have as many columns, but no element one-hot in front.
        if atoms.shape[1] != len(ATOM_FEATURES) or not bool((one_hot.sum(1) == 1).all()):
            return None
        return [(*_ELEMENTS, "*")[k] for k in one_hot.argmax(1).tolist()]
    if atoms.shape[1] < 4:
        return None
    numbers = atoms[:, 0].tolist()
    if min(numbers) < 0 or max(numbers) > 118:  # integers that are no atomic numbers
        return None
    return [_SYMBOLS.get(number, str(number)) for number in numbers]


def _orders(example: Example, bonds: Tensor) -> dict[frozenset[int], float]:
    pairs = [frozenset(pair) for pair in example.structure["{i j}"].T.tolist()]
    if bonds.is_floating_point():
        if bonds.shape[1] < len(BOND_FEATURES):
            return {}
        kinds = bonds[:, :4].argmax(1) + 1  # single, double, triple, aromatic
    else:
        kinds = bonds[:, 0]
    return dict(zip(pairs, (_ORDERS.get(kind, 1.0) for kind in kinds.tolist()), strict=True))


# The elements of organic chemistry by atomic number; others are shown by their number.
_NUMBERS = (
    "1:H 3:Li 5:B 6:C 7:N 8:O 9:F 11:Na 12:Mg 14:Si 15:P 16:S 17:Cl 19:K 20:Ca 26:Fe 29:Cu 30:Zn"
    " 34:Se 35:Br 47:Ag 50:Sn 53:I 78:Pt 80:Hg"
)
_SYMBOLS = {int(number): symbol for number, symbol in (x.split(":") for x in _NUMBERS.split())}
