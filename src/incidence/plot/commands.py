"""The command `incidence plot`: from a text to a file with a picture."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from incidence import plot
from incidence.errors import IncidenceError
from incidence.plot.picture import FORMATS, Picture
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
    """Adds the flags of the command; `open_run` opens the folder of a run, which is no business of pictures."""
    command.description, command.epilog = _ABOUT, _EXAMPLES
    add = command.add_argument
    add(
        "what",
        metavar="WHAT",
        help="a map, pattern, named object, smiles:..., file, data set, or folder of a run",
    )
    add(
        "--out",
        type=Path,
        metavar="FILE",
        help="where to write: .svg, .pdf or .png (default: NAME.svg here)",
    )
    add(
        "--as",
        dest="way",
        metavar="KIND",
        help="what to draw of it: " + "; ".join(f"{k}: {', '.join(v)}" for k, v in _WAYS.items()),
    )
    add("--theme", choices=("light", "dark"), default="light", help="the colours (default light)")
    add(
        "--values",
        nargs="+",
        default=[],
        metavar="TENSOR",
        help="features to show as colours, by pattern or name; `size`: faces by size",
    )
    add(
        "--channel",
        type=int,
        default=0,
        metavar="K",
        help="which channel of the features (default 0)",
    )
    add("--layout", metavar="NAME", help="force, space, circle, columns, molecule or shadow")
    add(
        "--tensors",
        nargs="+",
        metavar="TENSOR",
        help="which tensors to draw (default: those of lone faces)",
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
        help="azimuth and elevation (default -55 20)",
    )
    add("--opacity", type=float, default=1.0, metavar="SHARE", help="of faces, 0 to 1 (default 1)")
    add(
        "--size",
        type=float,
        metavar="POINTS",
        help="the longer side of a drawing, or a place of a matrix",
    )
    add("--title", default="", help="what stands above it")
    add(
        "--rows",
        nargs="+",
        type=int,
        default=[],
        metavar="N",
        help="which examples of a file or data set",
    )
    add(
        "--reader",
        metavar="NAME",
        help="who reads the file, where its suffix does not tell: graph, molecule, mesh, example",
    )
    add(
        "--lift",
        default="none",
        metavar="NAME",
        help="draws what a lift makes of it: rings, cliques, ...",
    )
    add("--nodes", type=int, metavar="N", help="of a matrix: how many nodes (default 4)")
    add("--on", metavar="WHAT", help="of a matrix or plan: the structure to draw it on")
    add("--nested", action="store_true", help="of a matrix: the inputs of every output as a matrix")
    add(
        "--operations",
        nargs="+",
        type=int,
        metavar="N",
        help="of a map: which operations, by number",
    )
    add(
        "--most",
        type=int,
        metavar="N",
        help="how many operations or structures to draw (default 60, 12)",
    )
    add(
        "--columns",
        type=int,
        default=4,
        metavar="N",
        help="how many stand side by side (default 4)",
    )
    add("--transparent", action="store_true", help="leaves the paper out")
    add("--json", action="store_true", help="one JSON object for other programs")
    command.set_defaults(run=lambda arguments: _plot(arguments, open_run, command))


def _plot(
    arguments: argparse.Namespace,
    open_run: Callable[[Path], OpenRun],
    command: argparse.ArgumentParser,
) -> str:
    if arguments.out is not None and arguments.out.suffix[1:].lower() not in FORMATS:
        raise IncidenceError(
            f"a picture is a file .svg, .pdf or .png; got {arguments.out.name!r}. Give --out one of these endings."
        )
    with _Stages() as say:
        say(f"reading {arguments.what}")
        subject = subject_of(arguments.what, open_run, arguments.rows, arguments.reader)
        if arguments.on is not None:
            say(f"reading {arguments.on}")
            arguments.on = _structure_of(arguments.on, open_run)
        way = _way(subject, arguments.way)
        _refuse_unused(
            way,
            [name for name, value in vars(arguments).items() if value != command.get_default(name)],
        )
        draw = _WAYS[subject.kind][way]
        say("drawing")
        picture = draw(subject, arguments)
        target = arguments.out or Path(f"{subject.name}.svg")
        say(f"writing {target}")
        if isinstance(picture, Picture):
            picture.save(target, transparent=arguments.transparent)
        else:
            plot.save(picture, target)
    return _told(picture, target, subject, arguments.json)


class _Stages:
    """Says on a terminal what is being done, in a line that goes away."""

    def __enter__(self) -> Callable[[str], None]:
        return self._say

    def _say(self, what: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{what} ...", end="", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _told(picture: Any, target: Path, subject: Subject, as_json: bool) -> str:
    """What was written, and how many things of each part it shows."""
    shapes = picture.scene.shapes if isinstance(picture, Picture) else ()
    drawn = Counter(
        shape.part
        for shape in shapes
        if shape.entry is not None and shape.part not in ("label", "key", "formula")
    )
    if not drawn and isinstance(picture, Picture):  # operations or orbits, which are no entries
        drawn = Counter(_COUNTED[shape.part] for shape in shapes if shape.part in _COUNTED)
    if as_json:
        return json.dumps(
            {"file": str(target), "title": getattr(picture, "title", ""), "drawn": dict(drawn)}
        )
    if drawn.keys() == {"operation"}:
        count, total = drawn["operation"], subject.value.dimension
        part = ("product" if subject.kind == "products" else "operation") + "s" * (total != 1)
        return f"wrote {target} ({f'{count:,} of ' * (count < total)}{total:,} {part})"
    shown = ", ".join(
        f"{count:,} {part}"
        for part, count in drawn.items()
        if not part.endswith((" inside", " head", " strand", " turn"))
    )
    return f"wrote {target}" + f" ({shown})" * bool(shown)


def _structure_of(text: str, open_run: Callable[[Path], OpenRun]) -> Any:
    subject = subject_of(text, open_run)
    if subject.kind != "structure":
        raise IncidenceError(
            f"--on {text!r}: that is a {subject.kind}; give a named object or a file with a structure."
        )
    return getattr(subject.value, "structure", subject.value)


def _way(subject: Subject, name: str | None) -> str:
    ways = _WAYS[subject.kind]
    if name is None:
        return next(iter(ways))
    if name not in ways:
        raise IncidenceError(f"--as {name!r}: of a {subject.kind} one can draw {', '.join(ways)}.")
    return name


def _refuse_unused(way: str, given: list[str]) -> None:
    """An option that a picture has no use for is a misunderstanding: better said than passed over."""
    for name in given:
        users = [user for user, names in _OPTIONS.items() if name in names]
        if users and way not in users:
            raise IncidenceError(
                f"--{name} is for pictures of {' or '.join(users)}; this is one of {way}. Leave it out, or choose with --as."
            )


def _operations(subject: Subject, given: argparse.Namespace) -> Picture:
    return plot.operations(
        subject.value,
        given.operations,
        columns=given.columns,
        most=60 if given.most is None else given.most,
        theme=given.theme,
    )


def _sharing(subject: Subject, given: argparse.Namespace) -> Picture:
    where = given.on if given.on is not None else 4 if given.nodes is None else given.nodes
    return plot.sharing(
        subject.value, where, nested=given.nested, size=given.size, theme=given.theme
    )


def _plan(subject: Subject, given: argparse.Namespace) -> Picture:
    if given.on is None:
        raise IncidenceError(
            "a plan belongs to a structure: add --on and a named object or file, as in --on cycle-5."
        )
    return plot.plan(subject.value, _with_tensors(given.on, subject.value), theme=given.theme)


def _with_tensors(structure: Any, m: Any) -> Any:
    """The structure with the patterns of a map, as far as its faces give them."""
    for pattern in dict.fromkeys((*m.inputs, *m.outputs)):
        if (
            pattern.faces
            and pattern not in structure.patterns
            and not structure._is_implicit(pattern)
        ):
            structure = structure.with_pattern(str(pattern))
    return structure


def _orbits(subject: Subject, given: argparse.Namespace) -> Picture:
    return plot.orbits(subject.value, columns=given.columns, theme=given.theme)


def _structure(subject: Subject, given: argparse.Namespace) -> Picture:
    value, layout = lifted(subject.value, given.lift), subject.layout
    options = {
        "labels": given.labels,
        "tensors": given.tensors,
        "channel": given.channel,
        "view": tuple(given.view),
    }
    more = {
        "opacity": given.opacity,
        "size": given.size,
        "title": given.title,
        "theme": given.theme,
        "columns": given.columns,
    }
    if given.layout == "shadow":
        layout = plot.shadow(getattr(value, "structure", value), layout)
    elif given.layout is not None:
        layout = given.layout
    return plot.structure(
        value,
        _values(value, given.values),
        layout,
        most=12 if given.most is None else given.most,
        **options,
        **more,
    )


def _values(value: Any, names: list[str]) -> Any:
    """The numbers to show: features by name, or the number of nodes of every face."""
    if not names:
        return None
    if names == ["size"]:
        structure = getattr(value, "structure", value)
        opened = [
            p for p in structure.patterns if p.is_open and p.order == 1 and not p.fixed_letters
        ]
        if not opened:
            raise IncidenceError(
                "--values size: there are no faces of different sizes, such as `{i ...}`."
            )
        return {
            p.name or str(p): structure[p][1].bincount(minlength=structure.num_entries(p))
            for p in opened
        }
    return names


def _poset(subject: Subject, given: argparse.Namespace) -> Picture:
    return plot.poset(getattr(subject.value, "structure", subject.value), theme=given.theme)


def _network(subject: Subject, given: argparse.Namespace) -> Picture:
    return plot.network(subject.value.network, theme=given.theme)


def _curves(subject: Subject, given: argparse.Namespace) -> Any:
    return plot.curves(subject.value.history)


_WAYS: Mapping[str, Mapping[str, Callable[[Subject, argparse.Namespace], Any]]] = {
    "map": {"operations": _operations, "sharing": _sharing, "plan": _plan},
    "products": {"operations": _operations},
    "pattern": {"orbits": _orbits},
    "structure": {"structure": _structure, "poset": _poset},
    "run": {"network": _network, "curves": _curves},
}

_OPTIONS: Mapping[str, frozenset[str]] = {
    "operations": frozenset({"operations", "most", "columns"}),
    "sharing": frozenset({"nodes", "on", "nested", "size"}),
    "plan": frozenset({"on"}),
    "orbits": frozenset({"columns"}),
    "structure": frozenset(
        {
            "values",
            "channel",
            "layout",
            "tensors",
            "labels",
            "view",
            "opacity",
            "size",
            "title",
            "lift",
            "most",
            "columns",
        }
    ),
}
"""Which options make a difference to which picture; those that are not named here do to all."""

_COUNTED: Mapping[str, str] = {"formula": "operation", "orbit": "orbit"}
