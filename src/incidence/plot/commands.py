"""The command `incidence plot`: from a text to a file with a picture."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any

from incidence import plot
from incidence.errors import IncidenceError
from incidence.plot.picture import Picture, assert_format
from incidence.plot.subjects import OpenRun, Subject, lifted, subject_of

__all__ = ["plot_flags"]

_ABOUT = """\
Draws a picture and writes it to a file (.svg, .pdf or .png): of a map, its
operations, or products; of a pattern, its orbits; of a structure or file, what
it looks like; of a run, its network.
"""
_EXAMPLES = """\
examples:
  incidence plot "i j -> i j" --out fifteen.svg           operations of a map
  incidence plot "i j -> i j" --as sharing --nodes 4      weights in its matrix
  incidence plot "i j * i j -> i j" --most 12             products of matrices
  incidence plot "{i j} {i k}"                            orbits of a pattern
  incidence plot "soccer ball" --values size              an object by name
  incidence plot cube --as poset                          its faces by rank
  incidence plot bunny.obj --view 30 10 --theme dark      a mesh
  incidence plot smiles:c1ccccc1O                         a molecule
  incidence plot solubility --rows 5 800                  examples of data
  incidence plot runs/solubility-1 --as curves            a run, or its network
  incidence plot "{i j} -> {i j}" --as plan --on cycle-5  how a layer computes
"""


def plot_flags(command: argparse.ArgumentParser, open_run: Callable[[Path], OpenRun]) -> None:
    """Add the flags of the command.

    Args:
        command: The command.
        open_run: Opens the folder of a run; this package does not know how.
    """
    command.description, command.epilog = _ABOUT, _EXAMPLES
    add = command.add_argument
    add(
        "what",
        metavar="WHAT",
        help="a map, pattern, named object, smiles:..., file, data set, or folder of a run",
    )
    add("--out", type=Path, metavar="FILE", help=".svg, .pdf or .png to write (default: NAME.svg)")
    kinds = "; ".join(f"{kind}: {', '.join(ways)}" for kind, ways in _WAYS.items())
    add("--as", dest="way", metavar="KIND", help=f"what to draw (default: the first). {kinds}")
    add("--theme", choices=("light", "dark"), default="light", help="the colours (default light)")
    add(
        "--values",
        nargs="+",
        default=[],
        metavar="TENSOR",
        help="features to show as colours, by pattern or name; `size`: faces by size",
    )
    add("--channel", type=int, default=0, metavar="K", help="channel of the values (default 0)")
    add(
        "--layout",
        metavar="NAME",
        help="places of nodes: force, space, circle, columns, molecule or shadow",
    )
    add(
        "--tensors",
        nargs="+",
        metavar="TENSOR",
        help="tensors to draw (default: those of lone faces)",
    )
    add(
        "--labels",
        action=argparse.BooleanOptionalAction,
        help="numbers in the nodes (default: where they can be read)",
    )
    add(
        "--view",
        nargs=2,
        type=float,
        default=(-55.0, 20.0),
        metavar="DEGREES",
        help="azimuth and elevation of the camera (default -55 20)",
    )
    add("--opacity", type=float, default=1.0, metavar="SHARE", help="opacity of faces (default 1)")
    add(
        "--size",
        type=float,
        metavar="POINTS",
        help="longer side of a drawing, or side of a place of a matrix",
    )
    add("--title", default="", help="text above the drawing (default: none)")
    add(
        "--rows",
        nargs="+",
        type=int,
        default=[],
        metavar="N",
        help="examples of a file or data set to draw, counted from 0",
    )
    add(
        "--reader",
        metavar="NAME",
        help="reader of the file: graph, molecule, mesh or example (default: by its suffix)",
    )
    add(
        "--lift",
        default="none",
        metavar="NAME",
        help="lift to draw the result of: rings, cliques, ... (default none)",
    )
    add("--nodes", type=int, metavar="N", help="number of nodes of a matrix (default 4)")
    add("--on", metavar="WHAT", help="structure on which a matrix or plan is drawn")
    add("--nested", action="store_true", help="draw the inputs of every output as a matrix")
    add("--operations", nargs="+", type=int, metavar="N", help="numbers of operations to draw")
    add(
        "--most",
        type=int,
        metavar="N",
        help="largest number of operations or structures drawn (default 60, 12)",
    )
    add("--columns", type=int, default=4, metavar="N", help="drawings side by side (default 4)")
    add("--transparent", action="store_true", help="leave the paper out")
    add("--json", action="store_true", help="print one JSON object for other programs")
    command.set_defaults(run=lambda arguments: _plot(arguments, open_run, command))


def _plot(
    arguments: argparse.Namespace,
    open_run: Callable[[Path], OpenRun],
    command: argparse.ArgumentParser,
) -> str:
    # A wrong ending is refused at once, and not after minutes of drawing.
    if arguments.out is not None:
        assert_format(arguments.out, "Give --out one of these endings.")
    with _Progress() as say:
        say(f"reading {arguments.what}")
        subject = subject_of(arguments.what, open_run, arguments.rows, arguments.reader)
        if arguments.on is not None:
            say(f"reading {arguments.on}")
            arguments.on = _structure_of(arguments.on, open_run)
        way = _way(subject, arguments.way)
        options = vars(arguments)
        # What the user typed: flags that have their defaults are no requests.
        changed = [name for name, value in options.items() if value != command.get_default(name)]
        _refuse_unused(way, changed)
        draw = _WAYS[subject.kind][way]
        say("drawing")
        picture = draw(subject, **{name: options[name] for name in _options(draw)})
        target = arguments.out or Path(f"{subject.name}.svg")
        say(f"writing {target}")
        if isinstance(picture, Picture):
            picture.save(target, transparent=arguments.transparent)
        else:
            plot.save(picture, target)
    drawn = _counts(picture)
    if arguments.json:
        title = getattr(picture, "title", "")
        return json.dumps({"file": str(target), "title": title, "drawn": drawn})
    text = _sentence(drawn, subject)
    return f"wrote {target} ({text})" if text else f"wrote {target}"


class _Progress:
    """Says on a terminal what is being done, in a line that goes away."""

    def __enter__(self) -> Callable[[str], None]:
        return lambda what: self._print(f"{what} ...")

    def __exit__(self, *_: object) -> None:
        self._print("")

    @staticmethod
    def _print(text: str) -> None:
        if sys.stderr.isatty():  # a file would keep every line
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _counts(picture: Any) -> dict[str, int]:
    """How many things of each part a picture shows."""
    if not isinstance(picture, Picture):
        return {}
    marks = picture.scene.shapes
    entries = [mark.part for mark in marks if mark.entry is not None]
    counts = Counter(part for part in entries if part not in ("label", "key", "formula"))
    if counts:
        return dict(counts)
    # Operations and orbits are no entries.
    return dict(Counter(_COUNTED[mark.part] for mark in marks if mark.part in _COUNTED))


def _sentence(drawn: Mapping[str, int], subject: Subject) -> str:
    """The counts in words."""
    if drawn.keys() == {"operation"}:
        count = drawn["operation"]
        total = subject.value.dimension
        noun = "product" if subject.kind == "products" else "operation"
        text = f"1 {noun}" if total == 1 else f"{total:,} {noun}s"  # of the whole map
        return text if count == total else f"{count:,} of {text}"
    # further marks of an entry that has one already
    details = (" inside", " head", " strand", " turn")
    return ", ".join(f"{n:,} {part}" for part, n in drawn.items() if not part.endswith(details))


def _structure_of(text: str, open_run: Callable[[Path], OpenRun]) -> Any:
    subject = subject_of(text, open_run)
    if subject.kind != "structure":
        raise IncidenceError(
            f"--on {text!r}: that is a {subject.kind}; give a named object or a file with a"
            " structure."
        )
    return getattr(subject.value, "structure", subject.value)


def _way(subject: Subject, name: str | None) -> str:
    ways = _WAYS[subject.kind]
    if name is None:
        return next(iter(ways))
    if name not in ways:
        raise IncidenceError(f"--as {name!r}: of a {subject.kind} one can draw {', '.join(ways)}.")
    return name


# ---- the pictures: keyword-only parameters are the options that a picture has

Draw = Callable[..., Any]


def _options(draw: Draw) -> list[str]:
    parameters = signature(draw).parameters.values()
    return [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]


def _refuse_unused(way: str, changed: list[str]) -> None:
    """Refuse options that the picture does not have: they are a misunderstanding."""
    drawings = {name: draw for ways in _WAYS.values() for name, draw in ways.items()}
    for option in changed:
        # none for options of all pictures
        users = [name for name, draw in drawings.items() if option in _options(draw)]
        if users and way not in users and option != "theme":
            raise IncidenceError(
                f"--{option} is for pictures of {' or '.join(users)}; this is one of {way}. Leave"
                " it out, or choose with --as."
            )


def _operations(
    subject: Subject, *, operations: list[int] | None, columns: int, most: int | None, theme: str
) -> Picture:
    limit = 60 if most is None else most
    return plot.operations(subject.value, operations, columns=columns, most=limit, theme=theme)


def _sharing(
    subject: Subject,
    *,
    nodes: int | None,
    on: Any,
    nested: bool,
    size: float | None,
    theme: str,
) -> Picture:
    where = on
    if where is None:
        where = 4 if nodes is None else nodes
    return plot.sharing(subject.value, where, nested=nested, size=size, theme=theme)


def _plan(subject: Subject, *, on: Any, theme: str) -> Picture:
    if on is None:
        raise IncidenceError(
            "a plan belongs to a structure: add --on and a named object or file, as in --on"
            " cycle-5."
        )
    # The structure needs the patterns of the map, as far as its faces give them.
    for pattern in dict.fromkeys((*subject.value.inputs, *subject.value.outputs)):
        is_there = pattern in on.patterns or on._is_implicit(pattern)
        if pattern.faces and not is_there:
            on = on.with_pattern(str(pattern))
    return plot.plan(subject.value, on, theme=theme)


def _orbits(subject: Subject, *, columns: int, theme: str) -> Picture:
    return plot.orbits(subject.value, columns=columns, theme=theme)


def _structure(
    subject: Subject,
    *,
    values: list[str],
    layout: str | None,
    lift: str,
    most: int | None,
    channel: int,
    tensors: list[str] | None,
    labels: bool | None,
    view: tuple[float, float],
    opacity: float,
    size: float | None,
    title: str,
    columns: int,
    theme: str,
) -> Picture:
    value = lifted(subject.value, lift)
    places = layout or subject.layout
    if layout == "shadow":
        places = plot.shadow(getattr(value, "structure", value), subject.layout)
    return plot.structure(
        value,
        _values(value, values),
        places,
        most=12 if most is None else most,
        channel=channel,
        tensors=tensors,
        labels=labels,
        view=(view[0], view[1]),
        opacity=opacity,
        size=size,
        title=title,
        columns=columns,
        theme=theme,
    )


def _values(value: Any, names: list[str]) -> Any:
    """The numbers to show: features by name, or the number of nodes of every face."""
    if names != ["size"]:
        return names or None
    structure = getattr(value, "structure", value)
    faces = [p for p in structure.patterns if p.is_open and p.order == 1 and not p.fixed_letters]
    if not faces:
        raise IncidenceError(
            "--values size: there are no faces of different sizes, such as `{i ...}`."
        )
    sizes = {}
    for p in faces:
        [_, members] = structure[p]
        sizes[p.name or str(p)] = members.bincount(minlength=structure.num_entries(p))  # (faces,)
    return sizes


def _poset(subject: Subject, *, theme: str) -> Picture:
    return plot.poset(getattr(subject.value, "structure", subject.value), theme=theme)


def _network(subject: Subject, *, theme: str) -> Picture:
    return plot.network(subject.value.network, theme=theme)


def _curves(subject: Subject) -> Any:
    return plot.curves(subject.value.history)


_WAYS: Mapping[str, Mapping[str, Draw]] = {
    "map": {"operations": _operations, "sharing": _sharing, "plan": _plan},
    "products": {"operations": _operations},
    "pattern": {"orbits": _orbits},
    "structure": {"structure": _structure, "poset": _poset},
    "run": {"network": _network, "curves": _curves},
}
"""What can be drawn of every kind of subject; the first is the default."""

_COUNTED: Mapping[str, str] = {"formula": "operation", "orbit": "orbit"}
